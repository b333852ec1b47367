//! DataFusion's logical rules, without four things that lead to wrong rows.
//!
//! Joins whose keys are equal where both are NULL: made of `x IS NOT DISTINCT FROM y`, they say so of all their keys at once,
//! and later rules forget it. Joins beside one were merged with it, and then either its NULLs did not match any more or
//! theirs did; an `=` that was moved into it came to match NULLs. Such joins are kept apart, and get no more keys.
//!
//! Keys that read several tables on one side: `a.x + b.y = c.z` between a join of a and b and a join with c. Joins are taken
//! apart and put together anew, c before b, and a key that no pair of what is there then can have was lost, with it the
//! condition. Such keys are conditions until joins have been put together.
//!
//! Casts that lose something, before all others: see [`super::lossy_casts`].
//!
//! Notes of which columns determine which: see [`crate::bind::functional_dependencies`]. Before each rule that goes by them, they
//! are forgotten.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use super::lossy_casts::HideCasts;
use crate::bind::functional_dependencies::without_dependencies;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule that makes keys of a join's conditions.
const MAKES_KEYS: &str = "extract_equijoin_predicate";

/// The rule that merges joins.
const MERGES: &str = "eliminate_cross_join";

/// The rules that read which columns determine which.
const BELIEVE: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

/// The rules, in DataFusion's order.
pub(crate) fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = vec![Arc::new(HideCasts)];
    let all = Optimizer::new().rules;
    let last = all.iter().find(|rule| rule.name() == MAKES_KEYS).cloned();
    for rule in all {
        if BELIEVE.contains(&rule.name()) {
            rules.push(Arc::new(Forget));
        }
        if rule.name() == MERGES {
            rules.push(Arc::new(Apart));
            rules.push(Arc::new(NoWideKeys));
        }
        rules.push(match rule.name() == MAKES_KEYS {
            true => Arc::new(NoMoreKeys(rule)),
            false => rule,
        });
    }
    rules.extend(last.map(|rule| Arc::new(NoMoreKeys(rule)) as Rule));
    rules
}

/// Forgets which columns determine which.
#[derive(Debug)]
struct Forget;

impl OptimizerRule for Forget {
    fn name(&self) -> &str {
        "forget_dependencies"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        without_dependencies(plan).map(Transformed::no)
    }
}

/// The rule that makes keys, for joins whose keys match no NULL.
#[derive(Debug)]
struct NoMoreKeys(Rule);

impl OptimizerRule for NoMoreKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if matches_nulls(&plan) {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Puts a projection between joins that match NULLs and others, through which they are not merged.
#[derive(Debug)]
struct Apart;

impl OptimizerRule for Apart {
    fn name(&self) -> &str {
        "null_keys_apart"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let apart = plan.transform_up_with_subqueries(|node| {
            if !matches_nulls(&node) {
                return Ok(Transformed::no(node));
            }
            let node = node.map_children(|input| match input {
                LogicalPlan::Join(_) => as_it_is(input).map(Transformed::yes),
                other => Ok(Transformed::no(other)),
            })?;
            as_it_is(node.data).map(Transformed::yes)
        })?;
        Ok(Transformed::no(apart.data))
    }
}

/// Makes conditions of keys that do not read one column on each side.
#[derive(Debug)]
struct NoWideKeys;

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

/// All columns of a plan.
fn as_it_is(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Whether this is a join whose keys are equal where both are NULL, as those of INTERSECT and EXCEPT are.
fn matches_nulls(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::exec::session_state;

    /// DataFusion may call its rules otherwise one day: then they would be left as they are.
    #[test]
    fn the_rules_are_there() {
        let names: Vec<String> = rules().iter().map(|rule| rule.name().to_owned()).collect();
        for name in BELIEVE {
            let at = names.iter().position(|known| known == name);
            let at = at.unwrap_or_else(|| panic!("{name} in {names:?}"));
            assert_eq!(names[at - 1], "forget_dependencies", "{name}");
        }
        assert!(names.iter().any(|name| name == MAKES_KEYS), "{names:?}");
        let at = names.iter().position(|name| name == MERGES).unwrap();
        assert_eq!(names[at - 2..at], ["null_keys_apart", "wide_keys_are_conditions"]);
        assert_eq!(names.last().unwrap(), MAKES_KEYS);
        assert_eq!(names[0], "hide_casts");
    }

    /// The condition on all three tables was lost, and two rows were found where there is one.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test of the session, over rows that nobody owns"
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
