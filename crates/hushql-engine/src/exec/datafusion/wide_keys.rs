//! Turns join keys that read several tables on one side into conditions until joins are reordered.
//!
//! In: `a.x + b.y = c.z` between a join of a and b and a join with c. Out: the same join with the
//! key as a condition. DataFusion splits inner joins and recombines them. If a recombined pair of
//! inputs lacks a column of a key, the key is lost, and with it the condition.
//!
//! Upstream: docs/upstream.md, 8. Delete when the test below passes without it.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Turns keys into conditions unless they read one column on each side.
#[derive(Debug)]
pub(super) struct NoWideKeys;

impl OptimizerRule for NoWideKeys {
    fn name(&self) -> &str {
        "wide_keys_are_conditions"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let narrow = plan.transform_up_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                    Transformed::no(LogicalPlan::Join(without_wide_keys(join)))
                }
                other => Transformed::no(other),
            })
        })?;
        Ok(Transformed::no(narrow.data))
    }
}

fn without_wide_keys(mut join: Join) -> Join {
    if join.null_equality == NullEquality::NullEqualsNull {
        return join;
    }
    let one_each = |(left, right): &(Expr, Expr)| {
        left.column_refs().len() == 1 && right.column_refs().len() == 1
    };
    let (narrow, wide): (Vec<_>, Vec<_>) = join.on.into_iter().partition(one_each);
    join.on = narrow;
    let wide = wide.into_iter().map(|(left, right)| left.eq(right));
    join.filter = conjunction(join.filter.into_iter().chain(wide));
    join
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use datafusion::prelude::SessionContext;

    use crate::exec::session_state;

    /// Without the rule, the condition on all three tables is lost, and the query returns two rows.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows without owners"
    )]
    #[tokio::test]
    async fn no_condition_is_lost_when_joins_are_put_together_anew() {
        let context = SessionContext::new_with_state(session_state());
        let rows = context
            .sql(
                "SELECT t.y FROM (VALUES (1, 100)) w2(k, z)
                 JOIN ((VALUES (1, 1), (1, 95)) t(k, y) JOIN (VALUES (1, 5)) w1(k, v) ON t.k = w1.k)
                 ON w2.k = t.k AND t.y + w1.v = w2.z",
            )
            .await
            .unwrap();
        let batches = rows.collect().await.unwrap();
        let found: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(found, [95]);
    }
}
