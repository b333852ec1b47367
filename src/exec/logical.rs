//! DataFusion's logical rules, without two things that lead to wrong rows.
//!
//! Joins whose keys are equal where both are NULL: made of `x IS NOT DISTINCT FROM y`, they say so of all their keys at once,
//! and later rules forget it. Joins beside one were merged with it, and then either its NULLs did not match any more or
//! theirs did; an `=` that was moved into it came to match NULLs. Such joins are kept apart, and get no more keys.
//!
//! Notes of which columns determine which: see [`crate::bind::dependencies`]. Before each rule that goes by them, they
//! are forgotten.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use crate::bind::dependencies::without_dependencies;

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
pub(super) fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in Optimizer::new().rules {
        if BELIEVE.contains(&rule.name()) {
            rules.push(Arc::new(Forget));
        }
        if rule.name() == MERGES {
            rules.push(Arc::new(Apart));
        }
        rules.push(match rule.name() == MAKES_KEYS {
            true => Arc::new(NoMoreKeys(rule)),
            false => rule,
        });
    }
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
    use super::*;

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
        assert_eq!(names[at - 1], "null_keys_apart");
    }
}
