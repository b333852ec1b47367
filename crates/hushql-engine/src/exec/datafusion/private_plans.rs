//! Plans private rows; there is no other way to plan them.
//!
//! In: a plan over enforced rows, whose expressions the analysis made total. Out: a physical plan
//! from a few rules. Each rule pays off, and none reasons about values: such rules have been wrong,
//! and if one is wrong about rows of different people, a bound on one person's contribution fails.
//! Plans above, on released rows, use [`super::public_plans`].
//!
//! ```text
//! logical    hide_casts · compute_constants · push_down_filter · extract_equijoin_predicate · common_sub_expression_eliminate
//!            · forget_dependencies, optimize_projections
//! physical   hide_properties · look_ups, build_side, join_selection · FilterPushdown, split_filters · EnsureRequirements
//!            · CombinePartialFinalAggregate · ProjectionPushdown · EnsureCooperative · SanityCheckPlan · limit_joins
//!            · small_batches
//! ```
//!
//! The operators that a finished plan may contain are listed in [`crate::exec::verify`].

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::physical_optimizer::combine_partial_final_agg::CombinePartialFinalAggregate;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::build_side::BuildSide;
use super::by_name::WhereNamesDiffer;
use super::constants::ComputeConstants;
use super::dependencies::Forget;
use super::limited_joins::LimitJoins;
use super::look_ups::LookUps;
use super::lossy_casts::HideCasts;
use super::made_texts::SmallBatches;
use super::null_matching_joins::NoMoreKeys;
use super::opaque::HideProperties;
use super::sizes::Sizes;
use super::split_filters::SplitFilters;
use super::{PhysicalRule, Rule};

/// Optimizes and plans private rows, which this number of processes read together.
///
/// # Guarantee
/// No expression changes its type, so everything that the analysis proved of an expression holds
/// when it runs.
///
/// # Errors
/// DataFusion's planning errors; planning has seen no row.
pub(crate) async fn planned(
    plan: &LogicalPlan,
    state: &SessionState,
    processes: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let typed =
        state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {})?;
    if typed != *plan {
        return internal_err!("the analyzed plan is not fully typed");
    }
    let optimized = Optimizer::with_rules(rules()).optimize(typed, state, |_, _| {})?;
    let state = SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(physical_rules(
            LookUps::for_state(state),
            BuildSide::new(Sizes::for_state(state), processes),
        ))
        .build();
    state.query_planner().create_physical_plan(&optimized, &state).await
}

/// The logical rules, with the purpose of each.
fn rules() -> Vec<Rule> {
    vec![
        // Turns casts that lose something, and unbounded `||`, into functions.
        Arc::new(HideCasts),
        // Computes constants: a date minus an interval, so that a filter can prune files, and
        // operators on NULL.
        Arc::new(ComputeConstants),
        // Drops rows where they are read, and moves conditions to their join.
        Arc::new(PushDownFilter::new()),
        // Turns joins on equal columns into hash joins.
        Arc::new(NoMoreKeys(Arc::new(ExtractEquijoinPredicate::new()))),
        // Computes common subexpressions of two aggregates in one SELECT once.
        Arc::new(CommonSubexprEliminate::new()),
        // Does not read unused columns.
        Arc::new(Forget),
        Arc::new(OptimizeProjections::new()),
    ]
}

/// The physical rules, with the purpose of each.
fn physical_rules(look_ups: LookUps, build_side: BuildSide) -> Vec<PhysicalRule> {
    vec![
        Arc::new(HideProperties),
        // After the charge, finds the unit of a row in an index that may be kept.
        Arc::new(look_ups),
        // Decides which side of a join is kept in memory, and whether both are distributed: by
        // declarations before the charge, by numbers of rows after it.
        Arc::new(build_side),
        Arc::new(JoinSelection::new()),
        // Skips the row groups of Parquet files that cannot contribute a row.
        Arc::new(WhereNamesDiffer(Arc::new(FilterPushdown::new()))),
        // Copies few rows for expensive conditions.
        Arc::new(SplitFilters),
        // Brings rows together that must meet, and gives windows their order.
        Arc::new(EnsureRequirements::new()),
        // Lets an aggregate on one partition take one step.
        Arc::new(CombinePartialFinalAggregate::new()),
        // Lets a join pass on only the columns that are read above it.
        Arc::new(ProjectionPushdown::new()),
        // Lets an operator that never waits yield to a deadline.
        Arc::new(EnsureCooperative::new()),
        Arc::new(SanityCheckPlan::new()),
        Arc::new(LimitJoins),
        // Lets filters collect few rows if expressions make long texts.
        Arc::new(SmallBatches),
    ]
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::common::JoinType;
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col, lit};
    use datafusion::physical_plan::collect;

    use super::*;
    use crate::exec::session_state;

    type Rows = Vec<(Option<i64>, Option<i64>)>;

    fn table(name: &str, rows: &Rows) -> LogicalPlan {
        let columns = |rows: &[(Option<i64>, Option<i64>)]| -> [(String, ArrayRef, bool); 2] {
            let k: Int64Array = rows.iter().map(|row| row.0).collect();
            let v: Int64Array = rows.iter().map(|row| row.1).collect();
            [(format!("{name}_k"), Arc::new(k), true), (format!("{name}_v"), Arc::new(v), true)]
        };
        let half = rows.len() / 2;
        let parts = [&rows[..half], &rows[half..]];
        let batch = |rows| RecordBatch::try_from_iter_with_nullable(columns(rows)).unwrap();
        let parts = parts.map(|rows| vec![batch(rows)]);
        let table = MemTable::try_new(parts[0][0].schema(), parts.to_vec()).unwrap();
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None);
        scan.unwrap().build().unwrap()
    }

    /// Each row comes out once with its mark, which is never NULL. The cases have keys that are
    /// NULL or occur twice, conditions with and without keys, empty sides, several partitions and
    /// small batches.
    #[tokio::test]
    async fn a_mark_tells_whether_a_row_matches() {
        let some: Rows = vec![
            (Some(1), Some(5)),
            (Some(1), Some(5)),
            (None, Some(1)),
            (Some(2), Some(3)),
            (Some(4), None),
            (Some(7), Some(9)),
        ];
        let others: Rows = vec![
            (Some(1), Some(4)),
            (Some(1), Some(6)),
            (None, Some(1)),
            (Some(2), Some(9)),
            (Some(4), Some(0)),
            (Some(8), None),
        ];
        let sides = [(some.clone(), others), (some.clone(), vec![]), (vec![], some)];
        let equal: (bool, Option<Expr>) = (true, None);
        let less = || Some(col("l_v").lt(col("r_v")));
        let conditions = [equal, (true, less()), (false, less()), (false, Some(lit(true)))];
        for ((left, right), (by_key, filter)) in
            sides.iter().flat_map(|s| conditions.iter().map(move |c| (s, c)))
        {
            for (partitions, batch) in [(1, 8_192), (3, 1)] {
                for kind in [JoinType::LeftMark, JoinType::RightMark] {
                    let (l, r) = (table("l", left), table("r", right));
                    let keys = match by_key {
                        true => (vec!["l_k"], vec!["r_k"]),
                        false => (vec![], vec![]),
                    };
                    let plan = LogicalPlanBuilder::from(l).join(r, kind, keys, filter.clone());
                    let plan = plan.unwrap().build().unwrap();
                    let mut state = session_state();
                    let options = state.config_mut().options_mut();
                    options.execution.target_partitions = partitions;
                    options.set("datafusion.execution.batch_size", &batch.to_string()).unwrap();
                    let physical = planned(&plan, &state, 1).await.unwrap();
                    let mut found = Vec::new();
                    for rows in collect(physical, state.task_ctx()).await.unwrap() {
                        let column = |i: usize| rows.column(i).as_primitive::<Int64Type>();
                        let marks = rows.column(2).as_boolean();
                        for i in 0..rows.num_rows() {
                            let value = |of: usize| column(of).iter().nth(i).unwrap();
                            found.push((value(0), value(1), marks.iter().nth(i).unwrap()));
                        }
                    }
                    let matches =
                        |l: &(Option<i64>, Option<i64>), r: &(Option<i64>, Option<i64>)| {
                            let key = !by_key || l.0.is_some() && l.0 == r.0;
                            let less = matches!((l.1, r.1), (Some(a), Some(b)) if a < b);
                            key && (less || !matches!(filter, Some(Expr::BinaryExpr(_))))
                        };
                    let mut expected: Vec<_> = match kind {
                        JoinType::LeftMark => left
                            .iter()
                            .map(|l| (l.0, l.1, Some(right.iter().any(|r| matches(l, r)))))
                            .collect(),
                        _ => right
                            .iter()
                            .map(|r| (r.0, r.1, Some(left.iter().any(|l| matches(l, r)))))
                            .collect(),
                    };
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{kind} {by_key} {filter:?} {partitions}");
                }
            }
        }
    }

    /// A new rule needs its purpose here and in the list above.
    #[test]
    fn private_rows_are_planned_by_few_rules() {
        let names: Vec<String> = rules().iter().map(|rule| rule.name().to_owned()).collect();
        let expected = [
            "hide_casts",
            "compute_constants",
            "push_down_filter",
            "extract_equijoin_predicate",
            "common_sub_expression_eliminate",
            "forget_dependencies",
            "optimize_projections",
        ];
        assert_eq!(names, expected);
        let names: Vec<String> = physical_rules(
            LookUps::for_state(&session_state()),
            BuildSide::new(Sizes::Declared, 1),
        )
        .iter()
        .map(|rule| rule.name().to_owned())
        .collect();
        let expected = [
            "hide_properties",
            "look_ups",
            "build_side",
            "join_selection",
            "FilterPushdown",
            "split_filters",
            "EnsureRequirements",
            "CombinePartialFinalAggregate",
            "ProjectionPushdown",
            "EnsureCooperative",
            "SanityCheckPlan",
            "limit_joins",
            "small_batches",
        ];
        assert_eq!(names, expected);
    }
}
