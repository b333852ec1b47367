//! The people behind a number: which counts decide whether the numbers of a SELECT are shown, if an
//! owner has set a floor of people.
//!
//! In: the measures of a private aggregate, and the floors that bind it. Out: a [`PeopleFloor`],
//! and one more measure for each set of people: the number of people with a row that enters a
//! number, after WHERE, FILTER and NULL. The count takes half of the cost of the dearest number
//! over these people, or a share of the default cost, so that the statement costs what it would
//! cost without a floor. Numbers that cannot be held back by such a count are refused.
//!
//! ```text
//! LAPLACE(eps=1) SUM(x), LAPLACE(eps=1) AVG(x)      x: ε = 0.5 and ε = 1, people with x: ε = 0.5
//! COUNT(*), SUM(x) at the default 1                 four shares: two numbers, all people, people with x
//! ```

use datafusion::logical_expr::Expr;

use super::contribution_bounds::number;
use super::input::AggregateRead;
use super::measure_frame::MeasureFrame;
use super::unknown_partitions::UnknownPartitions;
use super::{Input, Measure, ReleaseKind};
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::unit::UnitScope;
use crate::analysis::call::Call;
use crate::analysis::measure::sensitivity::ContributionBounds;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::catalog::{Catalog, FloorOf};
use crate::dialect::aggregate::argument_of;
use crate::dialect::{
    AggregateCall, AggregateName, Finding, MechanismName, Operand, Parameters, ReleaseClause,
};
use crate::grid::Grid;
use crate::privacy::{Epsilon, Rho};
use crate::refusal::{Reason, Refusal};
use arrow::datatypes::DataType;

/// The floors that bind a private aggregate, and the counts that decide about its numbers.
#[derive(Debug, Clone)]
pub struct PeopleFloor {
    /// The floors; at least one.
    pub floors: Vec<FloorOf>,
    /// The counts of people. Empty if a threshold decides about all numbers.
    pub counts: Vec<PeopleCount>,
}

/// A count of people, and the numbers that it decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeopleCount {
    /// The measure that counts.
    pub measure: usize,
    /// The measures of the numbers.
    pub of: Vec<usize>,
    /// The number whose stated cost it shares. `None` if none states a cost.
    pub payer: Option<usize>,
}

impl PeopleFloor {
    /// The largest floor.
    pub fn people(&self) -> u64 {
        self.floors.iter().map(|own| own.floor.people).max().unwrap_or(1)
    }

    /// The count that decides about a number.
    pub fn count_of(&self, measure: usize) -> Option<&PeopleCount> {
        self.counts.iter().find(|count| count.of.contains(&measure))
    }

    /// Checks that the threshold of unknown groups counts the people behind all numbers about which
    /// it decides.
    ///
    /// # Guarantee
    /// The threshold keeps as many groups of a unit as each of these numbers does, in the same
    /// order.
    ///
    /// # Errors
    /// Refuses numbers with other bounds.
    pub(crate) fn check_threshold(
        &self,
        measures: &[Measure],
        threshold: &UnknownPartitions,
    ) -> Result<(), Refusal> {
        let of_threshold = (threshold.limits.l0, threshold.limits.total);
        let own = |(at, _): &(usize, &Measure)| !self.is_count(*at) && self.count_of(*at).is_none();
        let mut decided = measures.iter().enumerate().filter(own);
        match decided.find(|(_, one)| (one.limits.l0, one.limits.total) != of_threshold) {
            None => Ok(()),
            Some((_, other)) => Err(self.refusal(
                &other.clause.text,
                "the threshold counts a person in other groups than this number does",
                "the same groups=C in all releases of the SELECT",
            )),
        }
    }

    /// The refusal of a statement that would read numbers that may be hidden.
    pub(crate) fn refusal(&self, text: &str, why: &str, write: &str) -> Refusal {
        let largest = self.floors.iter().max_by_key(|own| own.floor.people);
        let rule = largest.map_or_else(String::new, rule);
        Refusal::new(Reason::Operand, text, format!("{rule}, and {why}"), write)
    }

    /// True if a measure is such a count.
    pub fn is_count(&self, measure: usize) -> bool {
        self.counts.iter().any(|count| count.measure == measure)
    }
}

/// The floors that bind what is released about these rows.
pub(crate) fn floors_of(flow: &PrivateRelation, catalog: &Catalog) -> Vec<FloorOf> {
    let tables = flow.subject.tables().iter().map(String::as_str);
    catalog.floors_of(flow.subject.unit_domain(), tables)
}

/// The parameters of a number as a statement writes them: with the part of its cost that counts the
/// people behind it.
pub(crate) fn stated_parameters(
    floor: Option<&PeopleFloor>,
    measures: &[Measure],
    measure: &Measure,
) -> Parameters {
    let mut written = measure.clause.parameters.clone();
    let is_own = |at: usize| measures.get(at).is_some_and(|own| std::ptr::eq(own, measure));
    let counts = floor.map_or(&[][..], |floor| floor.counts.as_slice());
    let paid = counts.iter().find(|count| count.payer.is_some_and(is_own));
    let Some(counting) = paid.and_then(|count| measures.get(count.measure)) else {
        return written;
    };
    let part = &counting.clause.parameters;
    if let (Some(own), Some(part)) = (&written.epsilon, &part.epsilon) {
        written.epsilon = Epsilon::new(own.value() + part.value()).ok();
    }
    if let (Some(own), Some(part)) = (&written.rho, &part.rho) {
        written.rho = Rho::new(own.value() + part.value()).ok();
    }
    written
}

/// The rows that enter a number: their condition, and the bounds on the groups of a unit.
#[derive(Debug, Clone, PartialEq)]
struct RowsBehind {
    condition: Option<Expr>,
    total: Option<u64>,
    groups: Option<u64>,
}

/// Adds the counts of people behind the numbers of a private aggregate, if a floor binds it.
///
/// # Guarantee
/// Each number has a count that decides about it, unless a threshold on the people of its whole
/// group does: the groups are unknown, and all of their rows enter the number. A count is that of
/// the people with at least one such row in the group. Of a unit, the count keeps the groups that
/// the number keeps: both have the same bound on groups and on rows in all, in the same order, and
/// no number has a bound on rows in all that its query writes. So a person is counted only where
/// their rows enter the number, except for units with more rows than their table declares.
///
/// # Errors
/// Refuses choices, numbers of other kinds, bounds that are chosen or found, and costs that follow
/// from an accuracy.
pub(crate) fn with_counts(
    floors: Vec<FloorOf>,
    calls: &[Call],
    measures: &mut Vec<Measure>,
    frame: &mut MeasureFrame<'_>,
    are_unknown: bool,
) -> Result<Option<PeopleFloor>, NotAnalyzed> {
    let Some(first) = floors.iter().max_by_key(|own| own.floor.people) else { return Ok(None) };
    let mut sets: Vec<(RowsBehind, usize, Vec<usize>)> = Vec::new();
    for (at, (call, measure)) in calls.iter().zip(measures.iter()).enumerate() {
        let Operand::Aggregate(aggregate) = &call.clause.operand else {
            return Err(choice(first, &call.clause.text).into());
        };
        admit(first, measure)?;
        if are_unknown && is_of_all_people(measure) {
            continue;
        }
        if are_unknown && call.clause.grouping.is_some() {
            return Err(of_options(first, &call.clause.text).into());
        }
        let condition = frame.rows_of(call, aggregate)?;
        let ContributionBounds { total, l0: groups, .. } = measure.limits;
        let behind = RowsBehind { condition, total, groups };
        match sets.iter_mut().find(|(known, ..)| *known == behind) {
            Some((_, _, numbers)) => numbers.push(at),
            None => sets.push((behind, at, vec![at])),
        }
    }
    let mut counts = Vec::with_capacity(sets.len());
    for (behind, leader, of) in sets {
        let payer = payer(measures, &of);
        let parameters = match payer.and_then(|at| measures.get_mut(at)) {
            Some(payer) => of_payer(payer)?,
            None => (MechanismName::Default, Parameters::default()),
        };
        let Some(leader) = measures.get(leader) else { continue };
        let count = count(leader, behind, parameters, frame)?;
        counts.push(PeopleCount { measure: measures.len(), of, payer });
        measures.push(count);
    }
    Ok(Some(PeopleFloor { floors, counts }))
}

/// True if all people with a row in the group enter a number.
fn is_of_all_people(measure: &Measure) -> bool {
    measure.filter.is_none() && matches!(measure.input, Input::Rows | Input::Units)
}

/// Refuses what no count of people holds back. Only what is listed passes.
fn admit(floor: &FloorOf, measure: &Measure) -> Result<(), Refusal> {
    let text = measure.clause.text.strip_prefix("bounds of ").unwrap_or(&measure.clause.text);
    let text = text.split_once(", found at ").map_or(text, |(written, _)| written);
    let text = Finding::as_written(text);
    let Parameters { within, complete_above, total_rows, rows_auto, .. } =
        &measure.clause.parameters;
    let refuse = |reason: Reason, what: &str, write: String| {
        Err(Refusal::new(reason, text, format!("{}, and {what}", rule(floor)), write))
    };
    if let ReleaseKind::Choice(_) = measure.release_kind {
        return Err(choice(floor, text));
    }
    if measure.clause.finding.is_some() {
        let x = argument_of(text);
        return refuse(
            Reason::NoRange,
            "a bound that is found shows where few people are",
            format!("CLAMP({x}, lo, hi) in place of {x}, or declare the domains of its columns"),
        );
    }
    if *rows_auto || total_rows.is_some() || measure.ladder.is_some() {
        return refuse(
            Reason::Parameter,
            "a bound on all rows of a person leaves people out of groups, so that nobody can count who is behind a number",
            format!("LAPLACE(eps=1) {text}"),
        );
    }
    if within.is_some() || complete_above.is_some() {
        return refuse(
            Reason::Parameter,
            "half of the cost counts the people, so the cost has to be stated",
            format!("LAPLACE(eps=1) {text}"),
        );
    }
    if measure.clause.consistent.is_some() {
        return refuse(
            Reason::Parameter,
            "numbers that are made to add up would show those that are hidden",
            "GROUP BY ROLLUP(…) without CONSISTENT".to_owned(),
        );
    }
    match measure.input {
        Input::Rows
        | Input::Values(_)
        | Input::Units
        | Input::Sum(_)
        | Input::Mean(_)
        | Input::Moments(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_) => Ok(()),
        Input::Distinct(_)
        | Input::Joint(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => refuse(
            Reason::Operand,
            "how many people are behind this one is not counted yet",
            "COUNT(*), COUNT(x), COUNT(DISTINCT unit), SUM(x), AVG(x), VARIANCE(x) or STDDEV(x)"
                .to_owned(),
        ),
    }
}

/// What a floor asks for.
fn rule(floor: &FloorOf) -> String {
    format!("{} shows no number of fewer than {} people", floor.set_by, floor.floor.people)
}

/// The refusal of a choice.
fn choice(floor: &FloorOf, text: &str) -> Refusal {
    Refusal::new(
        Reason::Operand,
        text,
        format!("{}, and what is chosen may be that of a single person", rule(floor)),
        "released numbers: SELECT x, LAPLACE(eps=1) COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC",
    )
}

/// The refusal of a number beside a threshold that OPTIONS pay for.
fn of_options(floor: &FloorOf, text: &str) -> Refusal {
    Refusal::new(
        Reason::Parameter,
        text,
        format!(
            "{}, and the shares of OPTIONS leave nothing that counts the people behind this one in groups of the data",
            rule(floor)
        ),
        format!("LAPLACE(eps=1, delta=1e-6) {text}, without OPTIONS"),
    )
}

/// The dearest of the numbers, which pays for the count of people behind them. `None` if none
/// states a cost; then the count states none either.
fn payer(measures: &[Measure], of: &[usize]) -> Option<usize> {
    let own =
        |measures: &[Measure], at: usize| measures.get(at).map(|m| m.clause.parameters.clone());
    let by_epsilon = of.iter().rev().copied().max_by(|a, b| {
        let epsilon = |at: usize| own(measures, at).and_then(|p| p.epsilon);
        epsilon(*a).map(|e| e.value().clone()).cmp(&epsilon(*b).map(|e| e.value().clone()))
    });
    let by_epsilon =
        by_epsilon.filter(|at| own(measures, *at).is_some_and(|p| p.epsilon.is_some()));
    let by_rho = || {
        let of_rho =
            of.iter().copied().filter(|at| own(measures, *at).is_some_and(|p| p.rho.is_some()));
        of_rho.max_by(|a, b| {
            let rho = |at: usize| own(measures, at).and_then(|p| p.rho);
            rho(*a).map(|r| r.value().clone()).cmp(&rho(*b).map(|r| r.value().clone()))
        })
    };
    by_epsilon.or_else(by_rho)
}

/// The parameters of the count of people, from its payer, which gets the rest of its cost.
///
/// # Guarantee
/// The two parts add up to the stated ε or ρ exactly.
///
/// # Errors
/// Refuses a cost whose half is below the least that the engine counts.
fn of_payer(payer: &mut Measure) -> Result<(MechanismName, Parameters), Refusal> {
    let text = payer.clause.text.clone();
    let small = || {
        Refusal::new(
            Reason::BadValue,
            text.clone(),
            "half of its cost counts the people behind it, and is below the least that the engine counts",
            "a larger epsilon",
        )
    };
    let parameters = &mut payer.clause.parameters;
    if let Some(epsilon) = &mut parameters.epsilon {
        let half = epsilon.share(2).map_err(|_| small())?;
        let rest = Epsilon::new(epsilon.value() - half.value());
        *epsilon = rest.map_err(|_| small())?;
        let count = Parameters { epsilon: Some(half), ..Parameters::default() };
        return Ok((MechanismName::Laplace, count));
    }
    let Some(rho) = &mut parameters.rho else { return Err(small()) };
    let half = rho.share(2).map_err(|_| small())?;
    let rest = Rho::new(rho.value() - half.value());
    *rho = rest.map_err(|_| small())?;
    Ok((MechanismName::Gaussian, Parameters { rho: Some(half), ..Parameters::default() }))
}

/// The count of the people behind a number.
fn count(
    leader: &Measure,
    behind: RowsBehind,
    (mechanism, parameters): (MechanismName, Parameters),
    frame: &mut MeasureFrame<'_>,
) -> Result<Measure, NotAnalyzed> {
    let text = format!("people behind {}", leader.clause.text);
    let subject: &UnitScope = &frame.flow.subject;
    let (input, limits) = match (subject.is_row(), subject.max_rows()) {
        (true, Some(1)) => (Input::Rows, leader.limits),
        (true, _) => {
            return Err(Refusal::new(
                Reason::NoContributionBound,
                &leader.clause.text,
                "a floor of people counts each of them once, and a join repeats their rows here",
                "the join with a key that is unique in the other table",
            )
            .into());
        }
        (false, _) => (Input::Units, ContributionBounds { per_partition: 1, ..leader.limits }),
    };
    let read = AggregateRead::count(input);
    let release_kind = number(&read, &limits, &text)?;
    let filter = behind.condition.map(|condition| frame.columns.argument(condition));
    let call = AggregateCall {
        star: subject_is_row(frame),
        distinct: !subject_is_row(frame),
        ..AggregateCall::for_function(AggregateName::Count)
    };
    let clause = ReleaseClause {
        mechanism,
        parameters,
        operand: Operand::Aggregate(call),
        keys: Vec::new(),
        unit_column: None,
        grouping: None,
        text: text.clone(),
        finding: None,
        consistent: None,
        set: None,
        fresh: false,
    };
    Ok(Measure {
        clause,
        column: text,
        data_type: DataType::Int64,
        input: read.input,
        filter,
        grid: Grid::Integer,
        lo: read.lo,
        hi: read.hi,
        limits,
        release_kind,
        ladder: None,
        replaced: None,
    })
}

fn subject_is_row(frame: &MeasureFrame<'_>) -> bool {
    frame.flow.subject.is_row()
}
