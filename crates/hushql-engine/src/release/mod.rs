//! Stage 4: [`Analysis`] → [`Release`].
//!
//! In: what is measured, and how much one unit can change it. Out: for every measure a calibrated
//! mechanism, its exact cost and its expected accuracy. Nothing is read for this. The cost depends
//! only on the query and the catalog, so it is the same on neighbouring databases.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;

use crate::analysis::default_shares::is_bare;
use crate::analysis::outcome::Analysis;
use crate::analysis::public_presence::is_present;
use crate::analysis::{ContributionBounds, ErrorBars, Measure, PrivateAggregate};
use crate::catalog::Catalog;
use crate::dialect::Parameters;
use crate::privacy::{Delta, Epsilon, Loss, decimal_text};
use crate::refusal::{Reason, Refusal};
use crate::release::calibrate::mechanize;
use cost::{Accounts, default_cost};
use draw_set::{DrawSet, Draws, Of};
use fitted_levels::{Fit, FittedLevel, fits};
use goal::{Groups, priced};
use number::follow_choices;
use people_limits::{PeopleLimit, people_limits};
use predicted_accuracy::{
    accuracies_under_bounds, accuracy_among, error_bars, without_bound, without_error,
};
use refined::{EarlierDraws, RefinedDraw};
use replay::{PaidBy, ReplayedPart, drawn_by};
use shared_vector::{draw_together, losses};
use split_vector::SplitVector;

pub(crate) mod bounds_that_cut;
pub(crate) mod calibrate;
mod complete;
mod cost;
pub(crate) mod cumulative;
pub(crate) mod draw_set;
pub(crate) mod exact_text;
pub(crate) mod fitted_levels;
mod generalized_choice;
mod goal;
pub(crate) mod identity;
pub(crate) mod mechanism;
pub(crate) mod mostly_noise;
mod noisy_scores;
pub(crate) mod number;
pub(crate) mod own_bound;
mod partition_selection;
pub(crate) mod people_limits;
pub(crate) mod predicted_accuracy;
pub(crate) mod record;
pub(crate) mod refined;
pub(crate) mod replay;
pub(crate) mod shared_vector;
mod shortfall;
mod split_vector;
pub(crate) mod synthetic_release;
mod threshold;
mod unfit_choice;
mod unknown_keys;

pub use mechanism::{Instead, Mechanism, Mechanized, Predicted, Together};
pub use partition_selection::{Other, PartitionSelection};

/// The confidence of every reported accuracy.
pub const CONFIDENCE: f64 = 0.95;

/// A query with a calibrated mechanism and a cost for each of its releases.
#[derive(Debug)]
pub struct Release {
    analysis: Analysis,
    mechanisms: Vec<Vec<Mechanized>>,
    selections: Vec<Option<PartitionSelection>>,
    error_bars: ErrorBars,
    fits: Vec<Fit>,
    shown: ReplayedPart,
    earlier: EarlierDraws,
    /// For each private aggregate, how measures that share a vector would be drawn alone. `None` if
    /// its group keys are not declared.
    apart: Vec<Option<SplitVector>>,
    /// For each private aggregate, the counts of people that decide which numbers are shown.
    limits: Vec<Vec<PeopleLimit>>,
}

impl Release {
    /// The analysis that this release calibrates.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The mechanisms of a private aggregate, one for each measure.
    pub fn mechanisms(&self, aggregate: usize) -> &[Mechanized] {
        self.mechanisms.get(aggregate).map_or(&[], Vec::as_slice)
    }

    /// The partition selection of a private aggregate with unknown partitions.
    pub fn partition_selection(&self, aggregate: usize) -> Option<&PartitionSelection> {
        self.selections.get(aggregate)?.as_ref()
    }

    /// The counts of people that decide which numbers of a private aggregate are shown.
    pub(crate) fn people_limits(&self, aggregate: usize) -> &[PeopleLimit] {
        self.limits.get(aggregate).map_or(&[], Vec::as_slice)
    }

    /// All draws with their losses, in the order of the private aggregates. Nothing else has a
    /// cost: replayed draws are left out. If several releases are read from one vector, the first
    /// bears the loss of the vector, and the others bear none. A draw that is built on an earlier
    /// one bears what that one leaves.
    ///
    /// # Guarantee
    /// The ε add up to what the releases state, less what earlier draws of them were charged on
    /// which they are built. Each other loss is that of a whole draw. An ε that is
    /// charged piece by piece would have a smaller ρ than its draw, and coupons that are too small
    /// would seem to pay for it.
    pub fn charges(&self) -> impl Iterator<Item = (CostedDraw<'_>, Loss)> {
        self.charges_by_part().map(|(_, drawn, loss)| (drawn, loss))
    }

    /// The same draws, each with the number of its private aggregate.
    pub(crate) fn charges_by_part(&self) -> impl Iterator<Item = (usize, CostedDraw<'_>, Loss)> {
        let aggregates = self.analysis.parts().iter().zip(&self.mechanisms).zip(&self.selections);
        aggregates.enumerate().flat_map(move |(part, ((aggregate, mechanisms), selection))| {
            let measures = aggregate.measures().iter().zip(mechanisms).zip(losses(mechanisms));
            let measures = measures.enumerate().filter(move |(at, ((measure, _), _))| {
                !self.shown.has(part, *at) && !measure.is_exact()
            });
            let selection = selection.as_ref().filter(|_| self.shown.whole(part).is_none());
            let threshold = selection.into_iter().filter_map(|selection| {
                let loss = selection.loss()?;
                Some((CostedDraw::Threshold(selection, loss), loss.clone()))
            });
            measures
                .map(move |(at, ((measure, one), loss))| match self.earlier.refined(part, at) {
                    Some(refined) => (CostedDraw::Refined(measure, one), refined.loss.clone()),
                    None => (CostedDraw::Measure(measure, one), loss),
                })
                .chain(threshold)
                .map(move |(drawn, loss)| (part, drawn, loss))
        })
    }

    /// True if the cost of the query is only the default of a budget, which its releases share, and
    /// some of the releases are replayed.
    pub(crate) fn shows_part_of_default(&self) -> bool {
        let measures = || self.analysis.parts().iter().flat_map(PrivateAggregate::measures);
        !self.replayed_charges().is_empty() && measures().all(is_bare)
    }

    /// Replays what a draw set drew and this charge paid for: its draws are no longer charged or
    /// drawn. Returns `None` and changes nothing if `drawn` does not fit the draw set.
    pub(crate) fn show(
        &mut self,
        unit: &DrawSet,
        paid: PaidBy,
        drawn: Vec<RecordBatch>,
    ) -> Option<()> {
        self.shown.show(self.analysis.parts(), unit, paid, drawn)
    }

    /// Builds a draw set on an earlier draw of its question, of this ε, that this charge paid for.
    /// `None`, and nothing changes, if that cannot be done.
    pub(crate) fn refine(
        &mut self,
        unit: &DrawSet,
        earlier: (PaidBy, &Epsilon),
        drawn: &[RecordBatch],
    ) -> Option<()> {
        let parts = self.analysis.parts();
        self.earlier.refine(parts, &self.mechanisms, unit, earlier, drawn)
    }

    /// Notes that a draw of the question with at least the same ε is kept.
    pub(crate) fn note_finer(&mut self, unit: &DrawSet, paid: PaidBy, epsilon: Epsilon) {
        self.earlier.note_finer(unit, paid, epsilon);
    }

    /// The earlier draw on which a measure is built.
    pub(crate) fn refined(&self, part: usize, measure: usize) -> Option<&RefinedDraw> {
        self.earlier.refined(part, measure)
    }

    /// A kept draw of the numbers of a measure with at least the same ε, which costs nothing.
    pub(crate) fn finer(&self, part: usize, measure: usize) -> Option<&(PaidBy, Epsilon)> {
        self.earlier.finer(part, measure)
    }

    /// The numbers of the charges that paid for the draws on which measures are built, each once,
    /// as the ledger shows them to the analyst.
    pub(crate) fn refined_numbers(&self) -> Vec<i64> {
        let numbers: BTreeSet<i64> = self.earlier.all().map(|draw| draw.paid.number).collect();
        numbers.into_iter().collect()
    }

    /// Draws alone each number that would share a vector and is not replayed, so that it is
    /// recognised alone. Returns whether there was such a number.
    ///
    /// # Guarantee
    /// The charge of each number stays the same, and its noise is that of its own ε.
    pub(crate) fn draw_apart(&mut self) -> bool {
        let mut any = false;
        for (part, (apart, mechanized)) in self.apart.iter().zip(&mut self.mechanisms).enumerate() {
            let Some(apart) = apart else { continue };
            any |= apart.draw_apart(mechanized, |measure| self.shown.has(part, measure));
        }
        any
    }

    /// After [`Release::draw_apart`]: draws numbers that are not replayed from shared vectors
    /// again, where this makes the error of each of them smaller.
    ///
    /// # Guarantee
    /// The charge of each number stays the same. The noise of a shared vector is that of the sum of
    /// their ε at most. Replayed numbers stay as they were drawn.
    pub(crate) fn draw_together_again(&mut self) {
        let parts = self.analysis.parts().iter().zip(&self.apart).zip(&mut self.mechanisms);
        for (at, ((part, apart), mechanized)) in parts.enumerate() {
            let Some(apart) = apart else { continue };
            apart.draw_together_again(part, mechanized, |measure| self.shown.has(at, measure));
        }
    }

    /// The replayed draws.
    pub(crate) fn shown(&self) -> &ReplayedPart {
        &self.shown
    }

    /// True if a private aggregate draws nothing, because all of its measures are replayed.
    pub(crate) fn is_shown(&self, part: usize) -> bool {
        let Some(own) = self.analysis.parts().get(part) else { return false };
        let measures = own.measures().len();
        measures > 0 && (0..measures).all(|measure| self.shown.has(part, measure))
    }

    /// True if a private aggregate draws nothing, because each of its measures is replayed, or
    /// decided by public columns of people whose presence is public.
    pub(crate) fn is_free(&self, part: usize) -> bool {
        let Some(own) = self.analysis.parts().get(part) else { return false };
        let mut measures = own.measures().iter().enumerate();
        let is_free =
            |(at, measure): (usize, &Measure)| self.shown.has(part, at) || measure.is_exact();
        !own.measures().is_empty() && own.unknown_partitions().is_none() && measures.all(is_free)
    }

    /// True if all draws of a draw set are replayed.
    pub(crate) fn shows(&self, unit: &DrawSet) -> bool {
        unit.draws.iter().all(|Draws { part, of }| match of {
            Of::All => self.is_shown(*part),
            Of::Measures { measures, .. } => {
                measures.iter().all(|measure| self.shown.has(*part, *measure))
            }
        })
    }

    /// The number of the charge that paid for a replayed measure, as the ledger shows it to the
    /// analyst.
    pub(crate) fn replayed(&self, part: usize, measure: usize) -> Option<i64> {
        self.shown.number(part, measure)
    }

    /// The charges that paid for the replayed draws, each once, in order.
    pub(crate) fn replayed_charges(&self) -> Vec<i64> {
        self.shown.charges()
    }

    /// The numbers of these charges, as the ledger shows them to the analyst.
    pub(crate) fn replayed_numbers(&self) -> Vec<i64> {
        self.shown.numbers()
    }

    /// What a draw set drew, out of everything that the private aggregates of the release drew.
    /// `None` if it is missing.
    pub(crate) fn drawn_by(&self, unit: &DrawSet, all: &[RecordBatch]) -> Option<Vec<RecordBatch>> {
        drawn_by(self.analysis.parts(), unit, all)
    }

    /// The public plan with the errors of its numbers.
    pub(crate) fn error_bars(&self) -> &ErrorBars {
        &self.error_bars
    }

    /// Why an output that is computed from released numbers has no error. `None` if it has an
    /// error, or is not computed from released numbers.
    pub(crate) fn without_error(&self, output: usize) -> Option<&'static str> {
        without_error(&self.analysis, &self.selections, &self.error_bars, output)
    }

    /// Why an output has no error on any row, although the answer carries errors for it.
    pub(crate) fn without_bound(&self, output: usize) -> &'static str {
        without_bound(&self.analysis, output)
    }

    /// The accuracy of a number: with 95 % confidence, `among` such numbers are all within it.
    ///
    /// # Guarantee
    /// The number is off by more with probability at most 0.05/`among`.
    pub(crate) fn accuracy_among(&self, part: usize, measure: usize, among: u64) -> Predicted {
        if let Some(level) = self.fitted(part, measure) {
            return level.accuracy_among(among);
        }
        let own = self.analysis.parts().get(part).and_then(|part| part.measures().get(measure));
        match (own, self.mechanisms(part).get(measure)) {
            (Some(own), Some(one)) => accuracy_among(own, one, among),
            _ => Predicted::Nothing,
        }
    }

    /// How hierarchies of numbers are made consistent, in the order of [`Analysis::hierarchies`].
    pub(crate) fn fits(&self) -> &[Fit] {
        &self.fits
    }

    /// How a measure is made consistent; `None` if it is not.
    pub(crate) fn fitted(&self, part: usize, measure: usize) -> Option<&FittedLevel> {
        self.fits.iter().flat_map(|fit| &fit.levels).find(|level| level.is_of(part, measure))
    }

    /// The accuracy of a number under each bound of its ladder, as [`Release::accuracy_among`].
    /// Empty without a ladder.
    pub(crate) fn accuracies_under_bounds(
        &self,
        part: usize,
        measure: usize,
        among: u64,
    ) -> Vec<Predicted> {
        let own = self.analysis.parts().get(part).and_then(|part| part.measures().get(measure));
        match (own, self.mechanisms(part).get(measure)) {
            (Some(own), Some(one)) => accuracies_under_bounds(own, &one.mechanism, among),
            _ => Vec::new(),
        }
    }

    /// The exact cost of the whole query.
    ///
    /// # Guarantee
    /// The sum of the losses of all draws, by basic composition in each notion.
    pub fn loss(&self) -> Loss {
        self.charges().fold(Loss::zero(), |all, (_, loss)| all.plus(&loss))
    }

    /// The unit domains of all private tables from which something is drawn, each once.
    pub fn unit_domains(&self) -> Vec<String> {
        let mut unit_domains: Vec<String> = Vec::new();
        let drawn = self.analysis.parts().iter().enumerate();
        for (_, aggregate) in drawn.filter(|(part, _)| !self.is_free(*part)) {
            let unit_domain = aggregate.subject().unit_domain();
            if !unit_domains.iter().any(|known| known == unit_domain) {
                unit_domains.push(unit_domain.to_owned());
            }
        }
        unit_domains
    }

    /// The plan of the query, as the text whose hash the ledger records.
    pub fn plan_text(&self) -> String {
        let steps = self.analysis.steps().join("\n");
        format!("{}\n{steps}", self.analysis.public_plan().display_indent())
    }
}

/// A draw that has a cost.
#[derive(Debug, Clone, Copy)]
pub enum CostedDraw<'a> {
    /// A measure, drawn by its mechanism.
    Measure(&'a Measure, &'a Mechanized),
    /// A measure that is built on an earlier draw of the same numbers.
    Refined(&'a Measure, &'a Mechanized),
    /// The noisy counts of units for a partition selection that no measure pays for.
    Threshold(&'a PartitionSelection, &'a Loss),
}

impl CostedDraw<'_> {
    /// True if other releases are read from the same draw.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Measure(_, one) if one.together.is_some())
    }
}

/// Chooses and calibrates the mechanism of every measure.
///
/// # Guarantee
/// Each mechanism is calibrated to the measure's own sensitivity or range at the stated ε (and δ).
/// The noise is never smaller than this requires.
///
/// # Errors
/// A refusal: a missing ε, a mechanism that cannot release the operand, a parameter that the
/// mechanism does not take, noise too large to sample, or a cost in ρ for a budget that counts in
/// ε.
pub fn choose(mut analysis: Analysis, catalog: &Catalog) -> Result<Release, Refusal> {
    let steps = analysis.steps().to_vec();
    let accounts = Accounts::for_analysis(&analysis, catalog);
    let (mut mechanisms, mut apart) = (Vec::new(), Vec::new());
    let mut selections: Vec<Option<PartitionSelection>> = Vec::new();
    let mut limits = Vec::new();
    for aggregate in analysis.parts() {
        let default = default_cost(&analysis, aggregate.subject().unit_domain(), catalog);
        derived(aggregate, catalog).map_err(|refusal| refusal.after(&steps))?;
        let calibrated = match aggregate.unknown_partitions() {
            Some(groups) => threshold::for_unknown_partitions(
                aggregate, groups, &default, &accounts,
            )
            .map(|(mut mechanized, selection)| {
                let allowed = accounts.for_one_draw();
                let counter = selection.counter().into_iter().collect();
                draw_together(aggregate, &mut mechanized, counter, &allowed);
                (mechanized, Some(selection), None)
            }),
            None => {
                let groups = Groups::Public(aggregate.keys().all().len());
                let at = |measure: &Measure| mechanize(measure, &default, &accounts);
                let measures = aggregate.measures().iter();
                measures
                    .map(|measure| at(&*priced(measure, groups, &accounts, &at)?))
                    .collect::<Result<Vec<_>, _>>()
                    .and_then(|mut mechanized| {
                        follow_choices(aggregate, &mut mechanized)?;
                        Ok(mechanized)
                    })
                    .map(|mut mechanized| {
                        let allowed = accounts.for_one_draw();
                        let apart = SplitVector::before_drawing_together(
                            aggregate,
                            &mut mechanized,
                            allowed,
                        );
                        (mechanized, None, Some(apart))
                    })
            }
        };
        let (mechanized, selection, alone) = calibrated.map_err(|refusal| refusal.after(&steps))?;
        for (measure, one) in aggregate.measures().iter().zip(&mechanized) {
            accounts.admit(measure, one).map_err(|refusal| refusal.after(&steps))?;
        }
        let of_people = people_limits(aggregate, &mechanized);
        limits.push(of_people.map_err(|refusal| refusal.after(&steps))?);
        mechanisms.push(mechanized);
        // Under a floor, all draws are replayed together.
        apart.push(alone.filter(|_| aggregate.people_floor().is_none()));
        selections.push(selection);
    }
    for (part, selection) in selections.iter().enumerate() {
        if let Some(compared) = selection.as_ref().and_then(PartitionSelection::compared) {
            analysis.compare(part, compared.clone());
        }
    }
    let fits = fits(&analysis, &mut mechanisms);
    let error_bars = error_bars(&analysis, &selections);
    let (shown, earlier) = (ReplayedPart::default(), EarlierDraws::default());
    Ok(Release {
        analysis,
        mechanisms,
        selections,
        error_bars,
        fits,
        shown,
        earlier,
        apart,
        limits,
    })
}

/// Refuses measures about people whose presence is public that nobody has derived for neighbours
/// that replace what a person's row says. The analysis has refused them before.
fn derived(aggregate: &PrivateAggregate, catalog: &Catalog) -> Result<(), Refusal> {
    let is_derived = aggregate.measures().iter().all(|measure| measure.replaced.is_some())
        && aggregate.unknown_partitions().is_none()
        && aggregate.people_floor().is_none();
    match is_present(aggregate.subject().unit_domain(), catalog) {
        true if !is_derived => Err(Refusal::new(
            Reason::NotYet,
            "",
            "the presence of these people is public, and this is not derived for neighbours that replace what a row says",
            "COUNT, SUM or AVG of a public group",
        )),
        true | false => Ok(()),
    }
}

/// The parameters of a release as the ledger and the explanation display them.
pub(crate) fn parameters_text(
    parameters: &Parameters,
    loss: &Loss,
    limits: &ContributionBounds,
) -> String {
    let mut shown = Parameters { epsilon: None, rho: None, delta: None, ..parameters.clone() };
    shown.groups = limits.l0.filter(|_| parameters.groups.is_some());
    let mut text = loss_text(loss, parameters.rho.is_some());
    let rest = shown.to_string();
    if !rest.is_empty() {
        text += ", ";
        text += &rest;
    }
    text
}

/// A loss as parameters: ε and δ. It is shown as ρ if ρ was requested, or if the loss has no ε.
pub(crate) fn loss_text(loss: &Loss, in_rho: bool) -> String {
    let mut text = match loss.epsilon().filter(|_| !in_rho) {
        Some(epsilon) => format!("eps={}", decimal_text(epsilon, 12)),
        None => format!("rho={}", decimal_text(loss.rho(), 12)),
    };
    let delta = loss.delta().unwrap_or(loss.rho_delta());
    if let Ok(delta) = Delta::new(delta.clone()) {
        text += &format!(", delta={delta}");
    }
    text
}
