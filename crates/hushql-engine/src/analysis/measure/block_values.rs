//! The values of blocks of people, of which SAMPLE_AND_AGGREGATE chooses one in the middle.
//!
//! In: the releases of an aggregate; its rows, one for each block of people that has any. Out: the
//! number of blocks, and measures with the sensitivity for one block whose value is replaced.
//!
//! ```text
//! SAMPLE_AND_AGGREGATE(eps=1, blocks=64) MEDIAN(CLAMP(r, -1, 1)) FROM (SELECT CORR(x, y) AS r FROM t)
//!                                        64 values, of which one person replaces one: a range of 2 ranks
//! ```
//!
//! A person is in one block, so the query of a block needs no sensitivity. Added and removed people
//! change the value of their block to any other one. The number of values is always the number of
//! blocks: a block whose value is NULL counts as the middle of the range. If a block has no rows,
//! its value is that of no rows: 0 for COUNT, NULL for others.

use datafusion::logical_expr::{
    Aggregate, Join, JoinType, LogicalPlan, Projection, SubqueryAlias, Window,
};

use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::call::Call;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::measure::choice::{CandidateSource, MissingBlocks};
use crate::analysis::measure::grid::too_large;
use crate::analysis::measure::neighbours::RowChange;
use crate::analysis::measure::{Measure, ReleaseKind};
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::catalog::Catalog;
use crate::dialect::{AggregateName, MechanismName, Operand, Parameters};
use crate::refusal::{Reason, Refusal};

/// How the refusal of a subquery begins that ties many people together.
const SUBQUERY: &str = "a subquery below a release takes rows of the same unit";

/// The name that refusals give to the mechanism.
const NAME: &str = "SAMPLE_AND_AGGREGATE";

/// The number of blocks that the releases of an aggregate ask for; `None` if they ask for none.
///
/// # Errors
/// Refuses releases of which only some ask for blocks, or for other numbers of them, and what is
/// not the median of the blocks' values.
pub(crate) fn blocks_of(calls: &[Call]) -> Result<Option<u32>, Refusal> {
    let mut all = None;
    for (at, call) in calls.iter().enumerate() {
        let own = own_blocks(call)?;
        if at > 0 && own != all {
            return Err(Refusal::new(
                Reason::Parameter,
                NAME,
                "the releases of one SELECT read the same rows, and here they read those of other blocks",
                "the releases as statements of their own, or each as a subquery of one SELECT",
            ));
        }
        all = own;
    }
    Ok(all)
}

/// The number of blocks of one release.
fn own_blocks(call: &Call) -> Result<Option<u32>, Refusal> {
    let (clause, text) = (&call.clause, call.clause.text.as_str());
    let asked = &clause.parameters;
    if clause.mechanism != MechanismName::SampleAndAggregate {
        return match asked.blocks {
            None => Ok(None),
            Some(blocks) => Err(Refusal::new(
                Reason::Parameter,
                "blocks",
                format!("only {NAME} divides people into blocks"),
                format!(
                    "{NAME}(eps=1, blocks={blocks}) MEDIAN(x) FROM (SELECT {text} AS x FROM t) AS b, with all that follows FROM here in the place of t"
                ),
            )),
        };
    }
    let Some(blocks) = asked.blocks else {
        return Err(Refusal::new(
            Reason::Parameter,
            NAME,
            format!("{NAME} does not say into how many blocks people are divided"),
            format!("{NAME}({asked}, blocks=64) {text}"),
        ));
    };
    let median = AggregateName::Median;
    let is_median = matches!(&clause.operand, Operand::Aggregate(own) if own.function == median);
    if !is_median {
        return Err(Refusal::new(
            Reason::Operand,
            text,
            format!("{NAME} combines the values of blocks by their median, and {text} is none"),
            format!(
                "{NAME}({asked}) MEDIAN(CLAMP(x, lo, hi)) FROM (SELECT {text} AS x FROM t) AS b, with all that follows FROM here in the place of t"
            ),
        ));
    }
    let Parameters { rows, rows_auto, groups, total_rows, .. } = asked;
    if rows.is_some() || *rows_auto || groups.is_some() || total_rows.is_some() {
        return Err(Refusal::new(
            Reason::Parameter,
            NAME,
            "a person is in one block with all rows, so no bound on rows or groups is needed",
            format!("{NAME}(eps=1, blocks={blocks}) {text}"),
        ));
    }
    Ok(Some(blocks))
}

/// The refusal of groups, or of a subquery, that tie many people together, with what asks the same
/// of blocks of people.
pub(crate) fn or_by_blocks(error: NotAnalyzed, calls: &[Call], blocks: Option<u32>) -> NotAnalyzed {
    let asked = calls.first().map(|call| &call.clause);
    let asked = asked.filter(|clause| matches!(clause.operand, Operand::Aggregate(_)));
    let asked = asked.map_or("COUNT(*)", |clause| &clause.text);
    let proposed = |refusal: Refusal| {
        let hint = format!(
            "{}; or of blocks of people, SELECT {NAME}(eps=1, blocks=64) MEDIAN(CLAMP(v, lo, hi)) AS v FROM (SELECT {asked} AS v FROM t) AS b, with all that follows FROM here in the place of t",
            refusal.hint()
        );
        refusal.writing(&hint)
    };
    match error {
        NotAnalyzed::ManyUnits(refusal) if blocks.is_none() && refusal.clause() == "GROUP BY" => {
            NotAnalyzed::ManyUnits(proposed(refusal))
        }
        NotAnalyzed::Refused(refusal)
            if blocks.is_none() && refusal.message().starts_with(SUBQUERY) =>
        {
            NotAnalyzed::Refused(proposed(refusal))
        }
        NotAnalyzed::Refused(_)
        | NotAnalyzed::NoRange(_)
        | NotAnalyzed::ManyUnits(_)
        | NotAnalyzed::Fault(_) => error,
    }
}

/// Refuses rows that are not one for each block, and declarations under which the release is not
/// derived.
///
/// # Errors
/// A refusal that says what to write.
pub(crate) fn one_of_each_block(
    aggregate: &Aggregate,
    flow: &PrivateRelation,
    catalog: &Catalog,
) -> Result<(), NotAnalyzed> {
    if flow.subject.blocks().is_none() {
        return Ok(());
    }
    if !aggregate.group_expr.is_empty() {
        return Err(Refusal::new(
            Reason::NotYet,
            NAME,
            format!("{NAME} in groups is not derived: a person changes the value of a block in every group"),
            "one statement for each group, with WHERE in the inner query",
        )
        .into());
    }
    if flow.subject.max_rows() != Some(1) {
        return Err(Refusal::new(
            Reason::Operand,
            NAME,
            "each block has one value, and the query below has a row for every row of its tables, or for every group",
            format!("{NAME}(eps=1, blocks=64) MEDIAN(x) FROM (SELECT AVG(y) AS x FROM t) AS b, with an aggregate without GROUP BY"),
        )
        .into());
    }
    let calls = aggregate.aggr_expr.iter().filter_map(CallOf::function);
    let mut filters = calls.filter_map(|call| call.params.filter.as_ref());
    if filters.next().is_some() || !has_every_block(&aggregate.input) {
        return Err(Refusal::new(
            Reason::Operand,
            NAME,
            "a block that a condition around its query leaves out would count as the middle of the range",
            format!("{NAME}(eps=1, blocks=64) MEDIAN(CLAMP(CASE WHEN x > 0 THEN x ELSE 0 END, lo, hi)), with the condition and what else the block counts as; or WHERE in the query of a block, below its aggregate"),
        )
        .into());
    }
    let domain = flow.subject.unit_domain();
    let tables = flow.subject.tables().iter().map(String::as_str);
    if !catalog.floors_of(domain, tables).is_empty() {
        return Err(Refusal::new(
            Reason::NotYet,
            NAME,
            "a floor of people counts the people behind a number, and the values of blocks do not show them",
            "LAPLACE(eps=1) COUNT(*) and other numbers, or a question after the owner wrote ALTER TABLE … DROP PRIVACY FLOOR",
        )
        .into());
    }
    Ok(())
}

/// True if a plan below has a row for each block, whatever the data. Together with the bound of
/// one row, no condition leaves a block out.
fn has_every_block(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Window(Window { input, .. }) => has_every_block(input),
        LogicalPlan::Join(Join { left, right, on, filter, join_type, .. }) => match join_type {
            JoinType::Inner => {
                let all = on.is_empty() && filter.is_none();
                all && has_every_block(left) && has_every_block(right)
            }
            JoinType::Left => has_every_block(left),
            JoinType::Right => has_every_block(right),
            JoinType::Full
            | JoinType::LeftSemi
            | JoinType::RightSemi
            | JoinType::LeftAnti
            | JoinType::RightAnti
            | JoinType::LeftMark
            | JoinType::RightMark => false,
        },
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => false,
    }
}

/// Gives a choice among the values of blocks the sensitivity for one value that is replaced; leaves
/// measures of people as they are.
///
/// # Guarantee
/// There are as many values as blocks, whatever the data. Two databases that differ in one person
/// differ in the value of one block, which may be any other one. So the score of each candidate is
/// that of a rank among equally many rows of which one moves, and the new range is that of such
/// moves ([`range_of_moves`](crate::mechanism::quantile::range_of_moves)).
///
/// # Errors
/// Refuses measures that are no choice by rank with one row of a block.
pub(crate) fn combine(measure: &mut Measure, blocks: Option<u32>) -> Result<(), Refusal> {
    let Some(blocks) = blocks else { return Ok(()) };
    let refuse = || too_large(&measure.clause.text);
    if (measure.limits.total, measure.limits.per_partition) != (Some(1), 1) {
        return Err(refuse());
    }
    let ReleaseKind::Choice(choice) = &measure.release_kind else { return Err(refuse()) };
    let moved = choice.as_ref().clone().replaced(true);
    let moved = moved.filter(|(_, change)| *change == RowChange::Counted);
    let (mut choice, _) = moved.ok_or_else(refuse)?;
    let CandidateSource::Line { axis, .. } = &choice.source else { return Err(refuse()) };
    let place = axis.count().saturating_sub(1) / 2;
    choice.missing = Some(MissingBlocks { blocks: blocks.into(), place });
    measure.release_kind = ReleaseKind::Choice(Box::new(choice));
    Ok(())
}

#[cfg(test)]
mod tests {
    use num_traits::ToPrimitive;

    use super::*;
    use crate::mechanism::quantile::{range, range_of_moves};
    use crate::mechanism::{Rank, quantile_runs};

    const MEDIAN: Rank = Rank::Fraction { num: 1, den: 2 };

    /// The probability of each tick at ε = 1, for a mechanism that is calibrated to a range.
    fn law(values: &[Option<u64>], last: u64, range: u128) -> Vec<f64> {
        let blocks = u64::try_from(values.len()).unwrap();
        let places: Vec<(u64, i128)> = values.iter().flatten().map(|place| (*place, 1)).collect();
        let missing = MissingBlocks { blocks, place: last / 2 };
        let all = missing.completed(&places);
        assert_eq!(all.iter().map(|(_, rows)| *rows).sum::<i128>(), i128::from(blocks));
        let runs = quantile_runs(&all, last, MEDIAN).unwrap();
        let scores = runs.each().flat_map(|(_, run)| (0..run.count).map(|_| run.score));
        let range = range.to_f64().unwrap();
        let weight = |score: i128| (score.to_f64().unwrap() / range).exp();
        let weights: Vec<f64> = scores.map(weight).collect();
        let whole: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / whole).collect()
    }

    /// All values that so many blocks may have, and none.
    fn tables(blocks: usize, last: u64) -> Vec<Vec<Option<u64>>> {
        let mut all = vec![Vec::new()];
        for _ in 0..blocks {
            let longer = all.iter().flat_map(|table: &Vec<Option<u64>>| {
                let with = |value| table.iter().copied().chain([value]).collect::<Vec<_>>();
                (0..=last).map(Some).chain([None]).map(with)
            });
            all = longer.collect();
        }
        all
    }

    /// The largest loss where one block's value is replaced, in all tables of at most 4 blocks.
    fn loss(last: u64, range: u128) -> f64 {
        let mut worst = 0.0_f64;
        for table in (1..=4).flat_map(|blocks| tables(blocks, last)) {
            let before = law(&table, last, range);
            for block in 0..table.len() {
                for value in (0..=last).map(Some).chain([None]) {
                    let mut other = table.clone();
                    other[block] = value;
                    for (p, q) in before.iter().zip(law(&other, last, range)) {
                        worst = worst.max((p / q).ln());
                    }
                }
            }
        }
        worst
    }

    #[test]
    fn one_replaced_value_loses_what_is_charged_and_no_more() {
        let claimed = range_of_moves(MEDIAN).unwrap();
        assert_eq!(claimed, 4);
        for last in [1, 2, 4, 6] {
            let worst = loss(last, claimed);
            assert!(worst <= 1.0 + 1e-9, "{worst} among {last}");
            assert!(worst > 0.3, "{worst} among {last}");
        }
    }

    /// The range of an added row would be that of people who have a value each: a block's value is
    /// replaced, and moves twice as far.
    #[test]
    fn the_range_of_an_added_row_is_too_small() {
        let naive = range(MEDIAN, 1).unwrap();
        assert_eq!(naive, 2);
        let worst = loss(4, naive);
        assert!((1.51..1.52).contains(&worst), "{worst}");
    }
}
