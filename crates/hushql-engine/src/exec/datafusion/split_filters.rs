//! Applies cheap conditions before the others, if they leave few rows.
//!
//! In: a physical plan whose scans know their conditions. Out: a plan with the same rows.
//! DataFusion evaluates the conditions one after the other, and each time copies the remaining rows
//! with all columns. A filter often has two kinds of conditions: on the plain values, which also
//! prune files, and on their bounded form, such as `clamp(x, 0, 9)`. The first kind leaves few
//! rows, so these are copied once. If all conditions are cheap, those on the first columns that
//! leave few rows are applied first.
//!
//! ```text
//! FilterExec: x >= 3 AND x < 5 AND clamp(x, 0, 9) >= 3 AND …      →  FilterExec: clamp(x, 0, 9) >= 3 AND …
//!                                                                      FilterExec: x >= 3 AND x < 5
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNotNullExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use super::sizes::share;

/// If conditions are assumed to leave at most this share of the rows, these rows are worth a copy.
const COPIED: f64 = 0.2;

type Conditions = Vec<Arc<dyn PhysicalExpr>>;

/// The rule.
#[derive(Debug)]
pub(super) struct SplitFilters;

impl PhysicalOptimizerRule for SplitFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let split = node.downcast_ref::<FilterExec>().map(split).transpose()?;
            Ok(match split.flatten() {
                Some(filter) => Transformed::yes(filter),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "split_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Splits the filter into two steps, if the first leaves few rows.
///
/// # Guarantee
/// It yields the same rows: each condition is in one of the two steps, and a row passes if it
/// satisfies all.
fn split(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let conditions = split_conjunction(filter.predicate()).into_iter().cloned();
    let (mut first, mut rest): (Conditions, Conditions) = conditions.partition(costs_little);
    if rest.is_empty() {
        (first, rest) = selective(first);
    }
    let first = conjunction(first);
    if rest.is_empty() || filter.fetch().is_some() || share(&first) > COPIED {
        return Ok(None);
    }
    let below = FilterExecBuilder::new(first, Arc::clone(filter.input()))
        .with_batch_size(filter.batch_size())
        .build()?;
    let above = FilterExecBuilder::from(filter)
        .with_input(Arc::new(below))
        .with_predicate(conjunction(rest))
        .build()?;
    Ok(Some(Arc::new(above)))
}

/// The conditions on the first column, and on further columns until they leave few rows; and the
/// other conditions.
fn selective(conditions: Conditions) -> (Conditions, Conditions) {
    let (mut first, mut rest) = (Vec::new(), conditions);
    while let Some(columns) = rest.first().map(collect_columns) {
        let (of_column, others) = rest.into_iter().partition(|of| collect_columns(of) == columns);
        first.extend::<Conditions>(of_column);
        rest = others;
        if share(&conjunction(first.iter().cloned())) <= COPIED {
            break;
        }
    }
    (first, rest)
}

/// Whether a condition compares a plain column with a constant.
fn costs_little(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>();
    if let Some(present) = condition.downcast_ref::<IsNotNullExpr>() {
        return is_column(present.arg());
    }
    condition.downcast_ref::<BinaryExpr>().is_some_and(|compared| {
        let (left, right) = (compared.left(), compared.right());
        let orders = matches!(
            compared.op(),
            Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        let pair =
            is_column(left) && right.is::<Literal>() || left.is::<Literal>() && is_column(right);
        orders && pair
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::datasource::{MemTable, TableProvider};
    use datafusion::physical_expr::expressions::{binary, col, is_not_null, lit};
    use datafusion::physical_plan::collect;

    use super::*;
    use crate::exec::session_state;

    /// Tests whether the filter is split, and that the same rows pass with the same columns.
    #[tokio::test]
    async fn the_same_rows_pass_in_two_steps() {
        let column = |of: fn(i64) -> Option<i64>| -> ArrayRef {
            Arc::new((0..1_000).map(of).collect::<Int64Array>())
        };
        let columns = [
            ("x", column(|i| (i % 7 != 0).then_some(i % 11))),
            ("y", column(|i| (i % 5 != 0).then_some(i % 13))),
            ("z", column(Some)),
        ];
        let columns = columns.map(|(name, values)| (name, values, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let schema = batch.schema();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let state = session_state();
        let scan = table.scan(&state, None, &[], None).await.unwrap();
        let compare = |left, op, right| binary(left, op, right, &schema).unwrap();
        let of = |name: &str| col(name, &schema).unwrap();
        let at_least = |name: &str, least: i64| compare(of(name), Operator::GtEq, lit(least));
        let below = |name: &str, most: i64| compare(lit(most), Operator::Gt, of(name));
        let (x, y) = (at_least("x", 3), below("x", 9));
        let present = is_not_null(of("y")).unwrap();
        let equal = compare(of("x"), Operator::Eq, lit(4_i64));
        let dear = compare(compare(of("x"), Operator::Plus, of("y")), Operator::Lt, lit(9_i64));
        let either = compare(equal.clone(), Operator::Or, dear.clone());
        for (conditions, splits) in [
            (vec![x.clone(), dear.clone(), y.clone(), present.clone()], true),
            (vec![equal.clone(), dear.clone()], true),
            (vec![either.clone(), y.clone(), x.clone()], true),
            // Not split: most rows may pass the first step, or there is only one step.
            (vec![x.clone(), dear.clone(), present.clone()], false),
            (vec![present, dear], false),
            (vec![x.clone(), y.clone()], false),
            (vec![either], false),
            (vec![x.clone(), y, equal.clone()], false),
            // Split: the conditions on one column leave few rows.
            (vec![x, equal, at_least("y", 2)], true),
        ] {
            for projection in [None, Some(vec![2, 0])] {
                let filter =
                    FilterExecBuilder::new(conjunction(conditions.clone()), Arc::clone(&scan));
                let filter = filter.apply_projection(projection).unwrap().build().unwrap();
                let plan: Arc<dyn ExecutionPlan> = Arc::new(filter);
                let rule = SplitFilters;
                let split = rule.optimize(Arc::clone(&plan), &ConfigOptions::new()).unwrap();
                let below = split.children()[0].is::<FilterExec>();
                assert_eq!(below, splits, "{conditions:?}");
                assert_eq!(split.schema(), plan.schema());
                let rows = async |plan| {
                    let rows = collect(plan, state.task_ctx()).await.unwrap();
                    pretty_format_batches(&rows).unwrap().to_string()
                };
                let passed = rows(plan).await;
                assert!(passed.lines().count() > 10, "{passed}");
                assert_eq!(rows(split).await, passed, "{conditions:?}");
            }
        }
    }
}
