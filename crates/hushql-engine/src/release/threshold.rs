//! Partition selection: the threshold for unknown partitions, its noise and its cost.
//!
//! In: a private aggregate with unknown partitions, and the clause that states ε and δ for them.
//! Out: a mechanism for every measure, and the [`PartitionSelection`]. If the query itself releases
//! a number of units, that number is compared as released, at no further ε. Otherwise units are
//! counted for the threshold alone. These counts take half of the ε of the release that states δ,
//! or one more share of the ε of OPTIONS. Laplace noise needs no δ, so the threshold has all of it;
//! Gaussian noise takes half. Counts for the threshold alone have whichever noise gives the lower
//! threshold: a unit in many groups moves them little in the Euclidean norm.
//!
//! ```text
//! LAPLACE(eps=1, delta=1e-6) SUM(x), in one group      x at ε/2, units at ε/2, τ = 29 for δ
//! GAUSSIAN(eps=1, delta=1e-6) SUM(x)                   both with half of the ρ of (ε, δ/2), τ for δ/2
//! GAUSSIAN(rho=0.1, delta=1e-6) SUM(x)                 both with ρ/2, τ for δ
//! EXPONENTIAL(eps=1, delta=1e-6) MEDIAN(x)             ranks at ε/2, units at ε/2, τ = 29 for δ
//! LAPLACE(eps=1, delta=1e-6) COUNT(*), 50 rows in all  units at ε/2, Gaussian, τ = 333; as released it would be 854
//! LAPLACE(eps=1, delta=1e-6) SUM(x), x from 20 to 60   x as released, at ε: τ = 848, 43 units at most; units have 28
//! ```
//!
//! If budgets count ρ, each draw is charged its own ρ, and the threshold its δ. If all budgets do,
//! the counts of OPTIONS have whichever noise of that ρ gives the lower threshold.

use std::borrow::Cow;

use num_traits::One;

use super::complete::complete;
use super::cost::{Accounts, Fallback, StatedCost};
use super::goal::{Groups, priced, refuse_complete};
use super::number::{Noise, size, within};
use super::partition_selection::PartitionSelection;
use super::people_limits::{highest_limit, people_noise};
use super::unfit_choice::refuse_unfit_payer;
use crate::analysis::default_shares::is_bare;
use crate::analysis::{Compares, Measure, Payer, PrivateAggregate, ReleaseKind, UnknownPartitions};
use crate::dialect::{GroupingClause, MechanismName};
use crate::mechanism::{
    Alone, Gaussian, Laplace, MechanismError, rows_threshold_of_gaussian,
    rows_threshold_of_laplace, threshold_of_gaussian, threshold_of_laplace,
};
use crate::privacy::{Delta, Epsilon, Loss, Rational, Rho};
use crate::refusal::{Reason, Refusal};
use crate::release::calibrate::mechanize;
use crate::release::mechanism::{Mechanism, Mechanized, no_mechanism, too_noisy};

/// The mechanisms of a private aggregate with unknown partitions, and its partition selection.
///
/// # Guarantee
/// All released rows together are (ε, δ)-private for the sum of the returned losses. In the
/// partitions that neighbouring databases share, counts of units and measures are released at their
/// ε or ρ (Gaussian ones at (ε, δ/2)). The probability that any partition of one unit alone is
/// released is at most the threshold's δ. The ρ of a loss is the sum of its parts' ρ, and the δ
/// beside it is that of the threshold.
///
/// Quantiles and extremes are drawn for each partition that has a unit in the counts, each by a
/// draw of its own, from the rows that each unit keeps in at most C of them. In the partitions that
/// neighbours share, a unit moves the scores of at most C of these draws, so that all together lose
/// what their calibration states ([`crate::analysis::Sharing`]), and they are independent of the
/// counts. Which partitions are shown is a function of the noisy counts alone, so the values of
/// hidden ones add nothing. If a partition of one unit alone is shown, which has the probability of
/// δ, anything may be in it.
///
/// # Errors
/// As [`super::choose`]. Also a refusal if a share is smaller than the ledger's unit.
pub(super) fn for_unknown_partitions(
    aggregate: &PrivateAggregate,
    groups: &UnknownPartitions,
    default: &Fallback,
    accounts: &Accounts,
) -> Result<Calibrated, Refusal> {
    let units = comparing(aggregate, groups, default, accounts)?;
    let released = groups.comparing_released(aggregate.measures()).into_iter().filter_map(|own| {
        // A number that cannot be compared is left out, for instance because its noise is too
        // large.
        let (mechanized, selection) = comparing(aggregate, &own, default, accounts).ok()?;
        Some((mechanized, PartitionSelection { compared: Some(own), ..selection }))
    });
    let mut all: Vec<Calibrated> = std::iter::once(units).chain(released).collect();
    let better = all.iter().enumerate().skip(1);
    let better = better.filter(|(_, own)| all.first().is_some_and(|u| is_better(own, u, accounts)));
    let best = better.min_by_key(|(_, own)| own.1.units()).map_or(0, |(at, _)| at);
    let (mechanized, selection) = all.swap_remove(best);
    let others = all.iter().map(|other| other.1.as_other()).collect();
    Ok((mechanized, PartitionSelection { others, ..selection }))
}

/// The mechanisms of the measures, and the partition selection.
type Calibrated = (Vec<Mechanized>, PartitionSelection);

/// True if a released number should be compared instead of a count of units. A group has no fewer
/// of it than it has units. It is better in two cases: if it costs a tenth less for the same
/// release, or if it costs no more and its threshold is at most twice as high. Nothing is then
/// spent on counting units, so the noise of the release is half as large. The threshold on a sum is
/// measured in units that each add the least that they can.
fn is_better(released: &Calibrated, units: &Calibrated, accounts: &Accounts) -> bool {
    let cost = |of: &Calibrated| {
        let all = of.0.iter().map(|one| &one.loss).chain(&of.1.loss);
        all.fold(Loss::zero(), |all, loss| all.plus(loss))
    };
    let (of_released, of_units) = (cost(released), cost(units));
    let (own, other) = match (of_released.epsilon(), of_units.epsilon()) {
        (Some(own), Some(other)) if !accounts.concentrated() => (own, other),
        (Some(_) | None, _) => (of_released.rho(), of_units.rho()),
    };
    let cheaper = own * Rational::new(10.into(), 9.into()) <= *other;
    let not_much_higher = released.1.units() <= units.1.threshold.saturating_mul(2);
    match released.1.compares {
        Compares::Units | Compares::Rows => cheaper || own <= other && not_much_higher,
        // A sum may be far smaller than its largest value, which sets the noise.
        Compares::Values { .. } => own <= other && not_much_higher,
    }
}

/// The mechanisms and the partition selection, if this number of the groups is compared.
fn comparing(
    aggregate: &PrivateAggregate,
    groups: &UnknownPartitions,
    default: &Fallback,
    accounts: &Accounts,
) -> Result<Calibrated, Refusal> {
    // A default δ applies only if nothing states ε and δ, and here a clause does.
    let default = default.without_delta();
    let payer = match &groups.payer {
        Payer::Options(_) => None,
        Payer::Release(payer) => Some(*payer),
    };
    let alone = |measure: &Measure| mechanize(measure, &default, accounts);
    let measures = aggregate.measures().iter().enumerate().map(|(i, measure)| match payer {
        Some(payer) if payer == i => Ok(Cow::Borrowed(measure)),
        Some(_) | None => {
            refuse_complete(measure, "the release that states delta says which groups come out")?;
            priced(measure, Groups::Hidden, accounts, &alone)
        }
    });
    let measures = measures.collect::<Result<Vec<_>, _>>()?;
    let costs = Costs { measures, groups, default: default.clone(), accounts };
    let payer = match &groups.payer {
        Payer::Options(grouping) => return costs.of_options(grouping),
        Payer::Release(payer) => *payer,
    };
    let Some(measure) = aggregate.measures().get(payer) else {
        return Err(no_mechanism("GROUP BY"));
    };
    let own = |measure: &Measure| {
        let (all, _) = costs.paid_by(payer, measure)?;
        all.into_iter().nth(payer).ok_or_else(|| no_mechanism(&measure.clause.text))
    };
    let costing = at_default_cost(measure, &default)?;
    let measure = priced(&costing, Groups::Hidden, accounts, &own)?;
    let paid = |measure: &Measure| costs.paid_by(payer, measure);
    complete(&measure, groups, &paid, &shows)
}

/// The measure at the default cost, if it states none.
fn at_default_cost<'a>(
    measure: &'a Measure,
    default: &Fallback,
) -> Result<Cow<'a, Measure>, Refusal> {
    if !is_bare(measure) {
        return Ok(Cow::Borrowed(measure));
    }
    let text = &measure.clause.text;
    let cost = default.cost_of(measure).ok_or_else(|| no_mechanism(text))?;
    let mut measure = measure.clone();
    match cost {
        StatedCost::Epsilon(epsilon) => measure.clause.parameters.epsilon = Some(epsilon),
        StatedCost::Rho(rho) => measure.clause.parameters.rho = Some(rho),
    }
    Ok(Cow::Owned(measure))
}

/// True if a group with this many units comes out, except with probability `beta`.
///
/// # Guarantee
/// True only if τ + t ≤ N for the least t with P(X < −t) ≤ `beta`. If a group has N units, and each
/// is counted with 1 or more, the noisy number is below τ with a probability of at most `beta`. The
/// noise is symmetric, so the condition is P(|X| > t) ≤ 2·`beta`.
fn shows((all, selection): &Calibrated, units: u64, beta: &Rational) -> bool {
    let counter = selection.counter().and_then(|i| all.get(i)).map(|one| &one.mechanism);
    let both = beta * (Rational::one() + Rational::one());
    let below = match selection.noise().or(counter) {
        Some(Mechanism::Laplace(noise)) => noise.error_at(&both),
        Some(Mechanism::Gaussian(noise)) => noise.error_at(&both),
        Some(
            Mechanism::Exponential(_)
            | Mechanism::Generalized(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Unknown(..)
            | Mechanism::NoisyKeys(_)
            | Mechanism::Cumulative(_)
            | Mechanism::ChosenBound(_)
            | Mechanism::Exact,
        )
        | None => return false,
    };
    u128::from(selection.at_least()).saturating_add(below) <= units.into()
}

/// The measure as it would be written without δ.
fn without_delta(mut measure: Measure) -> Measure {
    measure.clause.parameters.delta = None;
    measure
}

/// The measure as it would be written with another cost.
fn at_cost(
    measure: &Measure,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
) -> Measure {
    let mut measure = measure.clone();
    measure.clause.mechanism = name;
    measure.clause.parameters.epsilon = Some(epsilon.clone());
    measure.clause.parameters.rho = None;
    measure.clause.parameters.delta = delta.cloned();
    measure
}

/// Counts of units that are drawn for the threshold alone.
struct ThresholdCounts {
    noise: Mechanism,
    /// The δ of the threshold.
    delta: Delta,
    loss: Loss,
}

struct Costs<'a> {
    /// The measures, at the least cost where they ask for an accuracy. The payer's cost is not
    /// among these.
    measures: Vec<Cow<'a, Measure>>,
    groups: &'a UnknownPartitions,
    default: Fallback,
    accounts: &'a Accounts,
}

impl Costs<'_> {
    /// The release that states δ pays, and its mechanism decides how it is calibrated.
    fn paid_by(&self, payer: usize, measure: &Measure) -> Result<Calibrated, Refusal> {
        let accounts = self.accounts;
        let parameters = &measure.clause.parameters;
        refuse_unfit_payer(measure, accounts)?;
        let by_rho = measure.choice().is_some()
            || matches!(
                measure.clause.mechanism,
                MechanismName::Gaussian | MechanismName::Auto | MechanismName::Default
            );
        if let (Some(rho), Some(delta), true) = (&parameters.rho, &parameters.delta, by_rho) {
            return self.of_concentrated(payer, measure, rho, delta);
        }
        let (Some(epsilon), Some(delta)) = (&parameters.epsilon, &parameters.delta) else {
            if let (Some(rho), Some(delta), MechanismName::Laplace) =
                (&parameters.rho, &parameters.delta, measure.clause.mechanism)
            {
                return Err(no_laplace(&measure.clause.text, rho, delta));
            }
            // The calibration refuses this with a specific message.
            let refused = mechanize(measure, &self.default, accounts);
            return Err(refused.err().unwrap_or_else(|| no_mechanism(&measure.clause.text)));
        };
        let by = |name| self.of_release(payer, measure, name, epsilon, delta);
        if measure.choice().is_some() {
            // A choice has one mechanism, whose noise needs no δ.
            return by(measure.clause.mechanism);
        }
        match measure.clause.mechanism {
            MechanismName::Laplace => by(MechanismName::Laplace),
            MechanismName::Gaussian => by(MechanismName::Gaussian),
            MechanismName::Auto | MechanismName::Default => {
                let laplace = by(MechanismName::Laplace)?;
                let error = |of: &Calibrated| {
                    of.0.get(payer).map_or(f64::INFINITY, |one| size(one.accuracy))
                };
                match by(MechanismName::Gaussian) {
                    Ok(gaussian) if error(&gaussian) < error(&laplace) => Ok(gaussian),
                    Ok(_) | Err(_) => Ok(laplace),
                }
            }
            // The check above refuses these for numbers.
            MechanismName::Exponential
            | MechanismName::GeneralizedExponential
            | MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::SampleAndAggregate
            | MechanismName::RandomizedResponse => Err(no_mechanism(&measure.clause.text)),
        }
    }

    /// The release that states δ pays.
    fn of_release(
        &self,
        payer: usize,
        measure: &Measure,
        name: MechanismName,
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Result<Calibrated, Refusal> {
        let text = measure.clause.text.as_str();
        let gaussian = name == MechanismName::Gaussian;
        let threshold_delta =
            if gaussian { delta.share(2).map_err(|_| too_small(text))? } else { delta.clone() };
        let noise_delta = gaussian.then_some(&threshold_delta);
        let alone = self.groups.counter.is_none();
        let (own, noise) = if alone && gaussian {
            let (mut own, counts) = self.jointly(measure, epsilon, &threshold_delta)?;
            let rho = own.loss.rho() + counts.rho();
            own.loss = Loss::thresholded(epsilon, delta, &rho, &threshold_delta);
            (own, Some(Mechanism::Gaussian(counts)))
        } else if alone {
            let half = epsilon.share(2).map_err(|_| too_small(text))?;
            // The rest of ε, so that rounding loses nothing.
            let rest = Epsilon::new(epsilon.value() - half.value());
            let rest = rest.map_err(|_| too_small(text))?;
            let mut own =
                mechanize(&at_cost(measure, name, &rest, None), &self.default, self.accounts)?;
            let counts = self.counts(&half, delta, text)?;
            own.loss = own.loss.plus(&counts.loss);
            let all = self.beside(payer, &own)?;
            let selection =
                self.selection(&all, Some(counts.noise), Some(half), &counts.delta, None)?;
            return Ok((all, selection));
        } else {
            let at_cost = at_cost(measure, name, epsilon, noise_delta);
            let mut own = mechanize(&at_cost, &self.default, self.accounts)?;
            own.loss = Loss::thresholded(epsilon, delta, own.loss.rho(), &threshold_delta);
            (own, None)
        };
        let all = self.beside(payer, &own)?;
        let selection = self.selection(&all, noise, None, &threshold_delta, None)?;
        Ok((all, selection))
    }

    /// The release that states ρ and δ pays, with Gaussian noise of ρ, or by its choice. It shares
    /// this ρ with the counts of units if they are drawn for the threshold alone. The threshold has
    /// all of δ.
    fn of_concentrated(
        &self,
        payer: usize,
        measure: &Measure,
        rho: &Rho,
        delta: &Delta,
    ) -> Result<Calibrated, Refusal> {
        let text = measure.clause.text.as_str();
        let alone = self.groups.counter.is_none();
        let shares = 1 + usize::from(alone);
        let share = rho.share(shares).map_err(|_| too_small(text))?;
        let mut at_cost = measure.clone();
        if measure.choice().is_none() {
            at_cost.clause.mechanism = MechanismName::Gaussian;
        }
        at_cost.clause.parameters.rho = Some(share.clone());
        at_cost.clause.parameters.delta = None;
        let mut own = mechanize(&at_cost, &self.default, self.accounts)?;
        let counts = alone.then(|| Gaussian::calibrate_rho(self.groups.groups.into(), &share));
        let counts = counts.transpose().map_err(|e| too_noisy(text, &e))?;
        own.loss = Loss::concentrated(rho).plus(&Loss::of_delta(delta));
        let all = self.beside(payer, &own)?;
        let noise = counts.map(Mechanism::Gaussian);
        let selection = self.selection(&all, noise, None, delta, None)?;
        Ok((all, selection))
    }

    /// The mechanisms of all measures; `own` is the payer's.
    fn beside(&self, payer: usize, own: &Mechanized) -> Result<Vec<Mechanized>, Refusal> {
        let measures = self.measures.iter().enumerate();
        let others = measures.map(|(i, other)| match i == payer {
            true => Ok(own.clone()),
            false => mechanize(other, &self.default, self.accounts),
        });
        others.collect()
    }

    /// A measure and the counts of units, with Gaussian noise that shares the ρ of (ε, δ).
    fn jointly(
        &self,
        measure: &Measure,
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Result<(Mechanized, Gaussian), Refusal> {
        let text = measure.clause.text.as_str();
        // This refuses measures that Gaussian noise cannot release.
        let single = mechanize(
            &at_cost(measure, MechanismName::Gaussian, epsilon, Some(delta)),
            &self.default,
            self.accounts,
        )?;
        let ReleaseKind::Number(sensitivity) = &measure.release_kind else {
            return Err(no_mechanism(text));
        };
        let squares = [sensitivity.l2_squared, self.groups.groups.into()];
        let joint = Gaussian::calibrate_joint(&squares, epsilon, delta);
        let joint = joint.map_err(|e| too_noisy(text, &e))?;
        let [noise, count] = joint.as_slice() else {
            return Err(too_noisy(text, &MechanismError::ScaleTooLarge));
        };
        let accuracy = within(measure, Noise::Gaussian(noise), 1);
        let loss = Loss::gaussian(epsilon, delta, noise.rho());
        let mechanism = Mechanism::Gaussian(noise.clone());
        Ok((Mechanized { mechanism, loss, accuracy, ..single }, count.clone()))
    }

    /// OPTIONS pays. The bare aggregates share its ε, and so does the threshold if units are
    /// counted for it alone, unless its ε is stated. The threshold has all of δ.
    fn of_options(&self, grouping: &GroupingClause) -> Result<Calibrated, Refusal> {
        const TEXT: &str = "OPTIONS(…)";
        let alone = self.groups.counter.is_none();
        let Some(delta) = &grouping.delta else { return Err(no_mechanism(TEXT)) };
        let own = grouping.threshold.clone().filter(|_| alone);
        let shares = grouping.bare.saturating_add(usize::from(alone && own.is_none())).max(1);
        let share = grouping.epsilon.as_ref().map(|epsilon| epsilon.share(shares));
        let share = share.transpose().map_err(|_| too_small(TEXT))?;
        let mut all = Vec::new();
        for measure in &self.measures {
            let bare = measure.clause.mechanism == MechanismName::Default;
            let one = match &share {
                Some(share) if bare => at_cost(measure, MechanismName::Default, share, None),
                Some(_) | None => measure.clone().into_owned(),
            };
            let one = match bare {
                // The threshold takes all of δ.
                true => without_delta(one),
                false => one,
            };
            all.push(mechanize(&one, &self.default, self.accounts)?);
        }
        if !alone {
            let selection = self.selection(&all, None, None, delta, None)?;
            if let Some(counter) = self.groups.counter.and_then(|i| all.get_mut(i)) {
                counter.loss = counter.loss.plus(&Loss::of_delta(delta));
            }
            return Ok((all, selection));
        }
        let Some(share) = own.or(share) else {
            return Err(Refusal::new(
                Reason::NoEpsilon,
                TEXT,
                "the threshold for unknown groups has a cost of its own, and nothing states it",
                format!("OPTIONS(epsilon=1, delta={delta})"),
            ));
        };
        let ThresholdCounts { noise, delta: own, loss } = self.counts(&share, delta, TEXT)?;
        let counted = self.selection(&all, Some(noise), Some(share.clone()), &own, Some(loss))?;
        match self.counted_in_rho(&all, &share, delta) {
            Some(gaussian) if gaussian.threshold < counted.threshold => Ok((all, gaussian)),
            Some(_) | None => Ok((all, counted)),
        }
    }

    /// Counts of units for the threshold alone, at (ε, δ). With Laplace noise, the threshold has
    /// all of δ; with Gaussian noise at (ε, δ/2), it has the rest. Whichever has the lower
    /// threshold is chosen; this depends on C, ε and δ.
    ///
    /// # Guarantee
    /// In the groups that neighbours share, the counts are ε-DP, or (ε, δ/2)-DP, because a unit
    /// adds 1 to at most C of them. A group of one unit alone comes out with a probability of at
    /// most the threshold's δ. Together, that is at most (ε, δ).
    fn counts(
        &self,
        epsilon: &Epsilon,
        delta: &Delta,
        text: &str,
    ) -> Result<ThresholdCounts, Refusal> {
        let groups = self.groups.groups;
        let laplace =
            Laplace::calibrate(groups.into(), epsilon).map_err(|e| too_noisy(text, &e))?;
        let of_laplace = threshold_of_laplace(&laplace, groups, delta);
        let gaussian = || {
            let half = delta.share(2).ok()?;
            let noise = Gaussian::calibrate(groups.into(), Some(groups), epsilon, &half).ok()?;
            let threshold = threshold_of_gaussian(&noise, groups, &half).ok()?;
            let lower = of_laplace.as_ref().is_ok_and(|of_laplace| threshold < *of_laplace);
            let loss = Loss::thresholded(epsilon, delta, noise.rho(), &half);
            lower.then_some(ThresholdCounts {
                noise: Mechanism::Gaussian(noise),
                delta: half,
                loss,
            })
        };
        Ok(gaussian().unwrap_or_else(|| ThresholdCounts {
            noise: Mechanism::Laplace(laplace),
            delta: delta.clone(),
            loss: Loss::approximate(epsilon, delta),
        }))
    }

    /// The counts of units with Gaussian noise, if every budget counts ρ. Its ρ is what Laplace
    /// noise of this ε costs.
    fn counted_in_rho(
        &self,
        all: &[Mechanized],
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Option<PartitionSelection> {
        let rho = Rho::new(Loss::pure(epsilon).rho().clone()).ok()?;
        let noise = Gaussian::calibrate_rho(self.groups.groups.into(), &rho).ok()?;
        let loss = Loss::concentrated(&rho).plus(&Loss::of_delta(delta));
        let noise = self.accounts.concentrated().then_some(Mechanism::Gaussian(noise));
        self.selection(all, Some(noise?), None, delta, Some(loss)).ok()
    }

    fn selection(
        &self,
        all: &[Mechanized],
        noise: Option<Mechanism>,
        epsilon: Option<Epsilon>,
        delta: &Delta,
        loss: Option<Loss>,
    ) -> Result<PartitionSelection, Refusal> {
        let UnknownPartitions { groups, counter, least, limits, compares, .. } = *self.groups;
        let of_row = compares.most_of_row();
        let alone = Alone { groups, rows: limits.per_partition, total: limits.total, of_row };
        let by_units = alone.rows <= 1 && of_row <= 1;
        let compared =
            noise.as_ref().or(counter.and_then(|i| all.get(i)).map(|one| &one.mechanism));
        let threshold = match compared {
            Some(Mechanism::Laplace(noise)) if !by_units => {
                rows_threshold_of_laplace(noise, &alone, delta)
            }
            Some(Mechanism::Gaussian(noise)) if !by_units => {
                rows_threshold_of_gaussian(noise, &alone, delta)
            }
            Some(Mechanism::Laplace(noise)) => threshold_of_laplace(noise, groups, delta),
            Some(Mechanism::Gaussian(noise)) => threshold_of_gaussian(noise, groups, delta),
            Some(
                Mechanism::Exponential(_)
                | Mechanism::Generalized(_)
                | Mechanism::PermuteAndFlip(_)
                | Mechanism::NoisyMax(_)
                | Mechanism::Unknown(..)
                | Mechanism::NoisyKeys(_)
                | Mechanism::Cumulative(_)
                | Mechanism::ChosenBound(_)
                | Mechanism::Exact,
            )
            | None => Err(MechanismError::ScaleTooLarge),
        };
        let threshold = threshold.map_err(|e| too_noisy("GROUP BY", &e))?;
        let (delta, floor) = (delta.clone(), self.groups.floor());
        let noise_of_people = compared.and_then(people_noise);
        let by_beta = match noise_of_people {
            Some(noise) => highest_limit(noise, &self.groups.floors, "GROUP BY")?,
            None => None,
        };
        let by_beta = by_beta.map_or(1, |(limit, _)| limit);
        if floor > 1 && !(by_units && compares == Compares::Units) {
            // A floor is a number of people, so nothing else is compared with it.
            return Err(no_mechanism("GROUP BY"));
        }
        Ok(PartitionSelection {
            threshold,
            least,
            floor,
            by_beta,
            groups,
            epsilon,
            delta,
            counter,
            noise,
            loss,
            compared: None,
            compares,
            others: Vec::new(),
        })
    }
}

fn no_laplace(text: &str, rho: &Rho, delta: &Delta) -> Refusal {
    Refusal::new(
        Reason::Parameter,
        "rho",
        "Laplace noise and the threshold for groups of the data share a cost in eps",
        format!(
            "GAUSSIAN(rho={rho}, delta={delta}) {text}, or LAPLACE(eps=1, delta={delta}) {text}"
        ),
    )
}

fn too_small(text: &str) -> Refusal {
    Refusal::new(
        Reason::BadValue,
        text,
        "the threshold's share of epsilon or delta is below the smallest unit that the engine counts",
        "a larger epsilon and delta",
    )
}
