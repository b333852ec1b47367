//! `rows=auto`: which releases choose the bound on a unit's contribution, from which ladder, and
//! what to write if none can be chosen.
//!
//! In: the aggregate, its range, the declared bounds and the number of groups. Out: a [`Ladder`]
//! with the sensitivity of its last bound, or a refusal. The bound itself is drawn and paid for
//! together with the release.
//!
//! ```text
//! LAPLACE(eps=1, rows=auto) COUNT(*), MAX ROWS 50     Ladder { rungs: [1, 2, 4, 8, 16, 32, 50], … }, Δ₁ ≤ 50
//! GAUSSIAN(eps=1, delta=1e-6, rows=auto) COUNT(*)     refused: LAPLACE(eps=1, rows=auto) count(*)
//! ```

use std::cmp::Ordering;

use datafusion::common::DFSchema;

use crate::analysis::below::unit::UnitScope;
use crate::analysis::call::Call;
use crate::analysis::measure::contribution_bounds::{limits, number};
use crate::analysis::measure::grid::too_large;
use crate::analysis::measure::input::AggregateRead;
use crate::analysis::measure::ladder_rungs::{Ladder, MOST_ROWS};
use crate::analysis::measure::measure_frame::{MeasureFrame, with_rows_of_owner};
use crate::analysis::measure::sensitivity::{ContributionBounds, Sensitivity};
use crate::analysis::measure::{Input, Measure, ReleaseKind, weight};
use crate::dialect::{
    AggregateCall, AggregateName, Finding, MechanismName, Operand, Parameters, ReleaseClause,
};
use crate::privacy::Epsilon;
use crate::refusal::{Reason, Refusal};

/// The bounds of a number, its sensitivity, and the ladder of a bound that is chosen. They are
/// those of the declaration and the release, or of `rows=auto`.
///
/// Plain SQL takes `rows=auto` by itself where nothing bounds the rows of a unit; the clause then
/// says so. `may_choose` is false where no release chooses a bound.
///
/// # Guarantee
/// As that of [`ladder`] and of [`limits`]. Whether a bound is chosen follows from the statement
/// and the declarations.
///
/// # Errors
/// The refusals of [`ladder`] where `rows=auto` is stated, and of [`limits`] otherwise.
pub(crate) fn contributions(
    call: &Call,
    aggregate: &AggregateCall,
    clause: &mut ReleaseClause,
    read: &AggregateRead,
    frame: &MeasureFrame<'_>,
    may_choose: bool,
) -> Result<(ContributionBounds, ReleaseKind, Option<Ladder>), Refusal> {
    let subject = &frame.flow.subject;
    if clause.parameters.rows_auto {
        return ladder(subject, clause, read, frame.outer);
    }
    let text = clause.text.as_str();
    let parameters = with_rows_of_owner(&clause.parameters, call, &read.input, frame);
    let refused = match limits(subject, &parameters, read, frame.outer_of_unit(), false, text) {
        Ok(limits) => {
            let kind = number(read, &limits, text)?;
            return Ok((limits, kind, None));
        }
        Err(refused) => refused,
    };
    if !may_choose {
        return Err(refused);
    }
    let is_fixed = frame.catalog.declares_bounds(subject.unit_domain()).is_some();
    if frame.chooses_rows && !is_fixed && is_plain(clause) && has_ladder(aggregate) {
        let parameters = Parameters { rows_auto: true, ..clause.parameters.clone() };
        let chosen = ReleaseClause { parameters, ..clause.clone() };
        if let Ok(bounds) = ladder(subject, &chosen, read, frame.outer) {
            *clause = chosen;
            return Ok(bounds);
        }
    }
    Err(proposing(refused, proposed(clause, aggregate, frame.outer)))
}

/// True if a release is an aggregate of plain SQL, which states nothing of its noise and bounds.
fn is_plain(clause: &ReleaseClause) -> bool {
    clause.mechanism == MechanismName::Default
        && clause.grouping.is_none()
        && clause.finding.is_none()
        && clause.parameters == Parameters::default()
}

/// The bounds of a measure with `rows=auto` as far as they are known before one is chosen, its
/// sensitivity under the last bound, and the ladder.
///
/// # Guarantee
/// For all data, the integers under the bound τ of the ladder change by at most τ·weight in L1 when
/// one unit is added or removed. The number of units beyond each bound changes by 0 or 1, for all
/// bounds in the same direction. The plan enforces both (`Rungs` in `exec`). The returned
/// sensitivity holds for every bound.
///
/// # Errors
/// Refuses releases for which no bound can be chosen, see [`refused`], and ladders that are too
/// large.
fn ladder(
    subject: &UnitScope,
    clause: &ReleaseClause,
    read: &AggregateRead,
    groups: usize,
) -> Result<(ContributionBounds, ReleaseKind, Option<Ladder>), Refusal> {
    let (parameters, text) = (&clause.parameters, clause.text.as_str());
    let most = match (subject.max_rows(), parameters.total_rows) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    let of_rows = !matches!(read.input, Input::Sum(_));
    if of_rows && most == Some(1) {
        return Err(nothing_to_choose(clause, "a unit has one row at most"));
    }
    let b = weight(&read.input, read.lo, read.hi).ok_or_else(|| too_large(text))?;
    if b == 0 {
        let hint = "COUNT(*), because a constant needs no other aggregate";
        return Err(Refusal::new(Reason::Operand, text, format!("{text} sums a constant"), hint));
    }
    let count = u64::try_from(groups).unwrap_or(u64::MAX);
    let ladder = match of_rows {
        true => Ladder::of_rows(most, b, count),
        false => Ladder::of_sums(most, b, count).ok_or_else(|| too_large(text))?,
    };
    let parts = if matches!(read.input, Input::Mean(_)) { 2 } else { 1 };
    if !ladder.fits(parts, groups) {
        return Err(Refusal::new(
            Reason::TooManyKeys,
            text,
            format!(
                "rows=auto adds up every group under {} bounds, and there are too many groups for that",
                ladder.rungs.len()
            ),
            format!(
                "{}, with one bound, or fewer groups",
                with(clause, &format!("total={}", most.unwrap_or(50).min(50)))
            ),
        ));
    }
    let l1 = ladder.l1().ok_or_else(|| too_large(text))?;
    // This number is only shown. No noise is calibrated to it.
    let l2_squared = l1.saturating_mul(l1);
    let rows = most.unwrap_or(MOST_ROWS);
    let limits =
        ContributionBounds { total: Some(rows), per_partition: rows, l0: Some(rows.min(count)) };
    Ok((limits, ReleaseKind::Number(Sensitivity { l1, l2_squared }), Some(ladder)))
}

/// Lets numbers of the same rows share one bound. The first of them chooses it; if all state an ε,
/// the one with the largest ε.
///
/// # Guarantee
/// Two measures have the same rows if they have the same argument and FILTER: the rows with a
/// value. A COUNT(*) has the same rows as a measure whose argument is never NULL. One of them
/// chooses for all, and all others follow this one. A sum beside other numbers is bounded by rows:
/// with shares of at most τ rows of values of at most b in magnitude, a unit changes it by at most
/// τ·b in L1. Sums of different values alone share nothing, because a bound on one sum does not
/// tell how many units exceed it on another. The sharing follows from the query and the catalog.
pub(crate) fn share_choices(measures: &mut [Measure], schema: &DFSchema) {
    let rows: Vec<Option<OneSetOfRows>> =
        measures.iter().map(|measure| rows_of(measure, schema)).collect();
    for at in 0..measures.len() {
        let Some(own) = rows.get(at).and_then(Option::as_ref) else { continue };
        let same = |other: &usize| rows.get(*other).and_then(Option::as_ref) == Some(own);
        let members: Vec<usize> = (0..measures.len()).filter(same).collect();
        if members.len() < 2 || members.first() != Some(&at) {
            continue;
        }
        let leader = leader(measures, &members);
        let sums: Option<Vec<_>> = members.iter().map(|at| sum_of(&measures[*at])).collect();
        let are_one_sum =
            sums.as_ref().is_some_and(|sums| sums.iter().all(|sum| Some(sum) == sums.first()));
        if sums.is_some() && !are_one_sum {
            continue;
        }
        let ladders = members.iter().map(|at| match are_one_sum {
            true => Some((measures[*at].ladder.clone()?, measures[*at].release_kind.clone())),
            false => by_rows(&measures[*at]),
        });
        // If a sum by rows does not fit 128 bits, each measure chooses its own bound.
        let Some(ladders) = ladders.collect::<Option<Vec<_>>>() else { continue };
        for (member, (ladder, kind)) in members.into_iter().zip(ladders) {
            let follows = (member != leader).then_some(leader);
            measures[member].ladder = Some(Ladder { follows, ..ladder });
            measures[member].release_kind = kind;
        }
    }
}

/// The column that a sum adds up, and its range in steps of the grid; `None` if the measure is not
/// a sum.
fn sum_of(measure: &Measure) -> Option<(usize, i128, i128)> {
    let Input::Sum(column) = measure.input else { return None };
    Some((column, measure.lo, measure.hi))
}

/// The rows of a measure with a ladder.
#[derive(PartialEq)]
struct OneSetOfRows {
    /// The argument, if it can be NULL.
    column: Option<usize>,
    filter: Option<usize>,
    /// The largest number of rows, if it is declared.
    most: Option<u64>,
    /// A number that is drawn anew has a bound of its own.
    fresh: bool,
}

fn rows_of(measure: &Measure, schema: &DFSchema) -> Option<OneSetOfRows> {
    let ladder = measure.ladder.as_ref()?;
    let column = match measure.input {
        Input::Rows => None,
        Input::Values(column) | Input::Sum(column) | Input::Mean(column) => Some(column),
        Input::Units
        | Input::Distinct(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => return None,
    };
    // A float that is never NULL can be NaN, which counts as NULL.
    let may_be_null = |column: &usize| {
        let field = schema.fields().get(*column);
        field.is_none_or(|field| field.is_nullable() || field.data_type().is_floating())
    };
    let most = if ladder.is_declared { measure.limits.total } else { None };
    let column = column.filter(may_be_null);
    Some(OneSetOfRows { column, filter: measure.filter, most, fresh: measure.clause.fresh })
}

/// The measure that chooses: the one with the largest ε. Among equals, and if a cost is not in ε, a
/// count comes before a sum, and a sum before a mean.
fn leader(measures: &[Measure], members: &[usize]) -> usize {
    let kind = |at: usize| match measures[at].input {
        Input::Rows | Input::Values(_) => 0,
        Input::Sum(_) => 1,
        Input::Mean(_)
        | Input::Units
        | Input::Distinct(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => 2,
    };
    let epsilon = |at: usize| measures[at].clause.parameters.epsilon.as_ref().map(Epsilon::value);
    let all_state_it = members.iter().all(|at| epsilon(*at).is_some());
    let first = |one: &&usize, other: &&usize| {
        let larger =
            if all_state_it { epsilon(**other).cmp(&epsilon(**one)) } else { Ordering::Equal };
        larger.then(kind(**one).cmp(&kind(**other))).then(one.cmp(other))
    };
    members.iter().min_by(first).copied().unwrap_or(0)
}

/// The ladder of a measure in numbers of rows, and its sensitivity under the last bound; `None` on
/// overflow.
fn by_rows(measure: &Measure) -> Option<(Ladder, ReleaseKind)> {
    let own = measure.ladder.as_ref()?;
    let most = measure.limits.total.filter(|_| own.is_declared);
    let of_rows =
        Ladder::of_rows(most, weight(&measure.input, measure.lo, measure.hi)?, own.groups);
    let l1 = of_rows.l1()?;
    let kind = ReleaseKind::Number(Sensitivity { l1, l2_squared: l1.saturating_mul(l1) });
    Some((of_rows, kind))
}

/// True if a bound can be chosen for an aggregate, regardless of its groups and units.
pub(crate) fn has_ladder(call: &AggregateCall) -> bool {
    let counted = match call.function {
        AggregateName::Count | AggregateName::Sum | AggregateName::Avg => true,
        AggregateName::Min
        | AggregateName::Max
        | AggregateName::Median
        | AggregateName::Quantile
        | AggregateName::Quantiles
        | AggregateName::Cdf
        | AggregateName::Revenue
        | AggregateName::Spread(_)
        | AggregateName::Joint(_)
        | AggregateName::Unsupported(_) => false,
    };
    counted && !call.distinct && call.bounds_per_group.is_none()
}

/// Refuses `rows=auto` for releases that cannot choose a bound.
///
/// # Errors
/// See [`refused`].
pub(crate) fn check(
    clause: &ReleaseClause,
    subject: &UnitScope,
    are_unknown: bool,
) -> Result<(), Refusal> {
    if !clause.parameters.rows_auto {
        return Ok(());
    }
    match &clause.operand {
        Operand::Aggregate(call) => refused(clause, Some(call), subject, are_unknown),
        Operand::Selection(_) | Operand::Response => refused(clause, None, subject, are_unknown),
    }
}

/// The refusal of `rows=auto` for releases that cannot choose a bound.
///
/// # Errors
/// Refuses every release except COUNT, SUM and AVG with Laplace noise. Refuses rows that are units
/// themselves, and `rows=auto` beside other bounds. Also refuses unknown groups: their number is
/// private, and the choice depends on it.
fn refused(
    clause: &ReleaseClause,
    call: Option<&AggregateCall>,
    subject: &UnitScope,
    are_unknown: bool,
) -> Result<(), Refusal> {
    let no = |message: &str, hint: String| {
        Err(Refusal::new(Reason::Parameter, "rows=auto", message, hint))
    };
    let text = &clause.text;
    if !call.is_some_and(has_ladder) {
        return no(
            "a bound is chosen for COUNT(*), COUNT(x), SUM(x) and AVG(x) only",
            format!("{}, with a bound of your own", with(clause, "rows=1")),
        );
    }
    if subject.is_row() {
        return Err(nothing_to_choose(clause, "every row is a privacy unit of its own"));
    }
    match clause.mechanism {
        MechanismName::Laplace | MechanismName::Auto => {}
        MechanismName::Gaussian
        | MechanismName::Default
        | MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::SampleAndAggregate
        | MechanismName::RandomizedResponse => {
            return no(
                "rows=auto chooses a bound on all rows of a unit, which lowers the error of Laplace noise only",
                format!("LAPLACE(eps=1, rows=auto) {text}"),
            );
        }
    }
    if are_unknown {
        return no(
            "the bound is chosen by the number of groups, which is private where their keys are not declared",
            format!(
                "{}, with a bound of your own, or LAPLACE(eps=1, rows=auto) {text} … GROUP BY x KEYS (…)",
                with(clause, "total=50")
            ),
        );
    }
    if clause.parameters.groups.is_some() {
        return no(
            "the chosen bound is one on the rows of a unit in all groups together, so groups=C has nothing to bound",
            with_parameters(clause, &Parameters { groups: None, ..clause.parameters.clone() }),
        );
    }
    Ok(())
}

fn nothing_to_choose(clause: &ReleaseClause, why: &str) -> Refusal {
    let parameters = Parameters { rows_auto: false, ..clause.parameters.clone() };
    Refusal::new(
        Reason::Parameter,
        "rows=auto",
        format!("{why}, so there is no bound to choose"),
        with_parameters(clause, &parameters),
    )
}

/// The release with another bound in place of `rows=auto`.
fn with(clause: &ReleaseClause, bound: &str) -> String {
    let parameters = Parameters {
        rows_auto: false,
        groups: None,
        total_rows: None,
        ..clause.parameters.clone()
    };
    let parameters = parameters.to_string();
    let comma = if parameters.is_empty() { "" } else { ", " };
    format!("{}({parameters}{comma}{bound}) {}", clause.mechanism, clause.text)
}

fn with_parameters(clause: &ReleaseClause, parameters: &Parameters) -> String {
    format!("{}({parameters}) {}", clause.mechanism, clause.text)
}

/// The release with `rows=auto` in place of other bounds, if it can be written.
pub(crate) fn proposed(
    clause: &ReleaseClause,
    call: &AggregateCall,
    groups: usize,
) -> Option<String> {
    // What is in units of a bound that is found cannot be written, nor can its histogram.
    if clause.finding.is_some() || !has_ladder(call) || !Ladder::any_fits(groups) {
        return None;
    }
    let name = match clause.mechanism {
        MechanismName::Auto => MechanismName::Auto,
        MechanismName::Laplace | MechanismName::Gaussian => MechanismName::Laplace,
        // With OPTIONS, the release would share its cost with others.
        MechanismName::Default if clause.grouping.is_none() => MechanismName::Laplace,
        MechanismName::Default
        | MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::SampleAndAggregate
        | MechanismName::RandomizedResponse => return None,
    };
    let Parameters { epsilon, rho, .. } = clause.parameters.clone();
    let is_priced = epsilon.is_some() || rho.is_some();
    let epsilon = if is_priced { epsilon } else { "1".parse().ok() };
    let parameters = Parameters { epsilon, rho, rows_auto: true, ..Parameters::default() };
    Some(format!("{name}({parameters}) {}", clause.text))
}

/// The refusal of a release without a bound. Its hint first names the release that chooses a bound.
fn proposing(refusal: Refusal, proposed: Option<String>) -> Refusal {
    let Some(proposed) = proposed else { return refusal };
    let hint = format!("{proposed}, which chooses the bound; or {}", refusal.hint());
    Refusal::new(refusal.reason(), refusal.clause(), refusal.message(), hint)
}

/// The refusal of a release without a bound. Unless its hint names a release already, it first
/// names the same one with a bound, which holds for rows and groups alike.
pub(crate) fn with_a_bound(refusal: Refusal, clause: &ReleaseClause) -> Refusal {
    if matches!(clause.finding, Some(Finding::Histogram { .. })) {
        return of_payer(refusal, clause);
    }
    let clause = clause.as_written();
    let is_named = refusal.hint().contains(&clause.text);
    let by_options = clause.grouping.is_some();
    if refusal.reason() != Reason::NoContributionBound || is_named || by_options {
        return refusal;
    }
    let mut bounded = clause.clone().into_owned();
    if bounded.mechanism == MechanismName::Default {
        bounded.mechanism = match is_chosen(&clause) {
            true => MechanismName::Exponential,
            false => MechanismName::Laplace,
        };
    }
    if bounded.parameters.epsilon.is_none() && bounded.parameters.rho.is_none() {
        bounded.parameters.epsilon = "1".parse().ok();
    }
    let bounded = with(&bounded, "total=10");
    let bounded = match &clause.operand {
        Operand::Selection(choice) if !clause.text.starts_with("mode(") => {
            format!("{} {bounded}", choice.selector)
        }
        Operand::Selection(_) | Operand::Aggregate(_) | Operand::Response => bounded,
    };
    let hint = format!("{bounded}, where at most 10 rows of a unit count; or {}", refusal.hint());
    Refusal::new(refusal.reason(), refusal.clause(), refusal.message(), hint)
}

/// The refusal of a histogram without a bound. Nobody wrote the histogram, so its hint names the
/// release that pays for it.
fn of_payer(refusal: Refusal, histogram: &ReleaseClause) -> Refusal {
    let Some(payer) = Finding::paid_by(&histogram.text) else { return refusal };
    let parameters = Parameters { epsilon: "1".parse().ok(), ..Parameters::default() };
    let (mechanism, text) = (MechanismName::Auto, payer.to_owned());
    let payer = ReleaseClause { mechanism, parameters, text, ..histogram.clone() };
    let bounded = with(&payer, "total=10");
    let hint = format!("{bounded}, where at most 10 rows of a unit count; or {}", refusal.hint());
    Refusal::new(refusal.reason(), payer.text, refusal.message(), hint)
}

/// Whether a release chooses a value.
fn is_chosen(clause: &ReleaseClause) -> bool {
    match &clause.operand {
        Operand::Selection(_) | Operand::Response => true,
        Operand::Aggregate(call) => matches!(
            call.function,
            AggregateName::Min
                | AggregateName::Max
                | AggregateName::Median
                | AggregateName::Quantile
                | AggregateName::Quantiles
        ),
    }
}
