//! The loosest bound of a release: the bound, declaration or join that adds most to its noise.
//!
//! In: a measure with its enforced bounds, and its private aggregate. Out: one line of an
//! explanation, and JSON. The line follows from the factors of the sensitivity, never from data. It
//! is left out if no factor exceeds 1.
//!
//! ```text
//! MAX ROWS 1000, GROUP BY status (7)     rows=1: Δ₁ = 7 instead of 1000, so the noise is divided by 142
//! ```

use crate::analysis::{
    CandidateSource, ContributionBounds, Input, LineScore, Measure, PrivateAggregate, ReleaseKind,
    Sharing, approximate, of_sums, stated_parameters,
};
use crate::mechanism::CountNoise;
use crate::privacy::{Epsilon, Rational};
use crate::release::exact_text::grid_text;
use crate::release::mechanism::{Mechanism, Mechanized};
use crate::release::own_bound::with_own_bound;
use crate::visible::rounded;

/// A range of this many units of the column or more counts as wide.
const WIDE: f64 = 100.0;

/// The factor that adds most to a release's noise.
pub(super) struct Loosest {
    /// The number by which the noise would be divided.
    pub(super) factor: f64,
    /// Where the factor comes from.
    from: String,
    /// What to write instead.
    pub(super) write: String,
    /// What else changes.
    price: &'static str,
    /// The release that chooses the bound itself, if there is one.
    chooses: Option<String>,
}

impl Loosest {
    /// The text of the line.
    pub(super) fn text(&self) -> String {
        let Self { factor, from, write, price, chooses } = self;
        let trimmed = rounded(*factor);
        let trimmed = match trimmed.contains('.') {
            true => trimmed.trim_end_matches('0').trim_end_matches('.'),
            false => &trimmed,
        };
        let chooses = chooses.as_ref().map_or_else(String::new, |text| {
            format!("; {text} chooses the bound by what units have")
        });
        format!("{from}: {write} divides the noise by {trimmed}{price}{chooses}")
    }
}

/// The largest factor of a release that can be tightened, if there is one.
///
/// # Guarantee
/// The result is a function of the query and the declarations. The
/// factor is that of Δ₁ under Laplace noise, of Δ₂ under Gaussian noise, and of the range for a
/// score on an axis.
pub(super) fn loosest(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<Loosest> {
    // Keys that are shown alone have no aggregate to write bounds for.
    let is_fixed = measure.ladder.is_some() || measure.is_exact();
    if measure.clause.finding.is_some() || is_fixed || part.shows_keys_alone() {
        return None;
    }
    // A count of people is not written by the analyst.
    let own = part.measures().iter().position(|own| std::ptr::eq(own, measure));
    if own.is_some_and(|at| part.people_floor().is_some_and(|floor| floor.is_count(at))) {
        return None;
    }
    let factor = |bounds: &ContributionBounds| tightened(measure, mechanized, bounds);
    let limits = measure.limits;
    let mut steps = Vec::new();
    let repeating = part.subject().factors().iter().filter(|factor| factor.repeats);
    if let Some(join) = repeating.filter(|f| f.times > 1).max_by_key(|f| f.times) {
        let once = |rows: u64| (rows / join.times).max(1);
        let total = limits.total.map(once);
        let l0 = limits.l0.map(|c| total.map_or(c, |total| c.min(total)));
        let per_partition = once(limits.per_partition);
        steps.push(Loosest {
            factor: factor(&ContributionBounds { total, per_partition, l0 })?,
            from: format!("the join with {} repeats each row up to {} times", join.table, join.times),
            write: "a join by a column that is unique there, or of its rows aggregated to one for each key first,".to_owned(),
            price: "",
            chooses: None,
        });
    }
    let is_row = part.subject().is_row();
    if !is_row && !measure.once_per_group() && limits.per_partition > 1 {
        let in_options = measure.clause.grouping.is_some();
        let total = if in_options { Some(1) } else { limits.total };
        let things = if matches!(measure.input, Input::Distinct(_)) { "values" } else { "rows" };
        steps.push(Loosest {
            factor: factor(&ContributionBounds { total, per_partition: 1, ..limits })?,
            from: format!(
                "a unit's {} {things} in a group{}",
                limits.per_partition,
                declared(part)
            ),
            write: written(part, measure, mechanized, (Some(1), None)),
            price: ", and cuts what a unit has beyond that",
            chooses: with_own_bound(part, measure, mechanized).map(|(text, _)| text),
        });
    }
    if let (false, Some(groups)) = (is_row, limits.l0.filter(|groups| *groups > 1)) {
        steps.push(Loosest {
            factor: factor(&ContributionBounds { l0: Some(1), ..limits })?,
            from: format!("a unit's {groups} groups"),
            write: written(part, measure, mechanized, (None, Some(1))),
            price: ", and cuts a unit's further groups",
            chooses: with_own_bound(part, measure, mechanized).map(|(text, _)| text),
        });
    }
    steps.retain(|step| step.factor > 1.0);
    // If several are equal, the first one is taken: tightening a join cuts no row.
    let loosest = steps.into_iter().reduce(|a, b| if b.factor > a.factor { b } else { a });
    loosest.or_else(|| wide(measure))
}

/// The number by which the noise of a measure is divided under other bounds.
fn tightened(measure: &Measure, mechanized: &Mechanized, to: &ContributionBounds) -> Option<f64> {
    let ratio = |a: u128, b: u128| approximate(&Rational::new(a.into(), b.max(1).into()));
    match &measure.release_kind {
        ReleaseKind::Number(now) => {
            let then = of_sums(to, measure.weight()?)?;
            Some(match &mechanized.mechanism {
                Mechanism::Gaussian(_) => ratio(now.l2_squared, then.l2_squared).sqrt(),
                Mechanism::Cumulative(own) if matches!(own.noise(), CountNoise::Gaussian(_)) => {
                    ratio(now.l2_squared, then.l2_squared).sqrt()
                }
                Mechanism::Laplace(_)
                | Mechanism::Cumulative(_)
                | Mechanism::Exponential(_)
                | Mechanism::Generalized(_)
                | Mechanism::PermuteAndFlip(_)
                | Mechanism::NoisyMax(_)
                | Mechanism::Unknown(..)
                | Mechanism::NoisyKeys(_)
                | Mechanism::ChosenBound(_)
                | Mechanism::Exact => ratio(now.l1, then.l1),
            })
        }
        ReleaseKind::Choice(choice) => {
            let CandidateSource::Line { score, .. } = &choice.source else { return Some(1.0) };
            let grows = match score {
                LineScore::Quantile { .. }
                | LineScore::Quantiles(_)
                | LineScore::Smallest
                | LineScore::Largest => true,
                LineScore::Revenue { .. }
                | LineScore::Above
                | LineScore::Below
                | LineScore::Exactly => false,
            };
            let apart = matches!(choice.sharing, Sharing::Alone);
            let rows = measure.limits.per_partition;
            Some(match grows && apart {
                true => ratio(rows.into(), to.per_partition.into()),
                false => 1.0,
            })
        }
    }
}

/// The declaration of a unit's rows, if they come from one table.
fn declared(part: &PrivateAggregate) -> String {
    let rows = part.subject().max_rows();
    let own = part.subject().factors().iter().find(|f| !f.repeats && Some(f.times) == rows);
    own.map_or_else(String::new, |f| format!(" (MAX ROWS {} of {})", f.times, f.table))
}

/// The release as it would be written with further bounds.
fn written(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
    (rows, groups): (Option<u64>, Option<u64>),
) -> String {
    if measure.clause.grouping.is_some() {
        let option = if rows.is_some() { "max_rows_contributed" } else { "max_groups_contributed" };
        return format!("{option}=1 in OPTIONS");
    }
    let mut parameters = stated_parameters(part.people_floor(), part.measures(), measure);
    if parameters.epsilon.is_none() && parameters.rho.is_none() {
        let epsilon = mechanized.loss.epsilon().and_then(|e| Epsilon::new(e.clone()).ok());
        parameters.epsilon = epsilon;
    }
    parameters.rows = rows.or(parameters.rows);
    parameters.groups = groups.or(parameters.groups);
    let name = mechanized.mechanism.name();
    format!("{name}({parameters}) {}", measure.clause.text)
}

/// A wide range of values, if no other factor can be tightened.
fn wide(measure: &Measure) -> Option<Loosest> {
    let is_ranged = match &measure.input {
        Input::Sum(_) | Input::Mean(_) | Input::SumPerUnit(_) | Input::MeanPerUnit(_) => true,
        Input::Moments(_) => true,
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Distinct(_)
        // The range of a pair of columns is the range of its codes.
        | Input::Joint(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => false,
    };
    let width = Rational::from_integer((measure.hi - measure.lo).into()) * measure.grid_unit();
    let ReleaseKind::Number(_) = measure.release_kind else { return None };
    if !is_ranged || approximate(&width) < WIDE {
        return None;
    }
    let factor = if measure.moments().is_some() { 4.0 } else { 2.0 };
    let (lo, hi) = (grid_text(measure, measure.lo), grid_text(measure, measure.hi));
    Some(Loosest {
        factor,
        from: format!("the range {lo}..{hi}"),
        write: "CLAMP(x, lo, hi) of half its width, or a domain that narrow,".to_owned(),
        price: ", and cuts the values beyond",
        chooses: None,
    })
}
