//! Keys of GROUP BY that are equal, or that have one name.
//!
//! In: a plan. Out: the same plan, in which no key is repeated; or an error for different keys of
//! one name.
//!
//! ```text
//! GROUP BY sex, sex                          GROUP BY sex
//! GROUP BY age, CAST(age AS DOUBLE)          two columns are named age
//! ```

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DataFusionResult, SchemaError};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

/// Removes repeated keys. A repeated key has only one column, so it would hide the last aggregate.
pub(super) fn with_keys_once(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let once = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(Transformed::no(node)) };
        let written = aggregate.group_expr.len();
        let mut keys: Vec<Expr> = Vec::with_capacity(written);
        for key in &aggregate.group_expr {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        if keys.len() == written {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let once = Aggregate::try_new(aggregate.input, keys, aggregate.aggr_expr)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(once)))
    })?;
    Ok(once.data)
}

/// Checks that different keys have different names, and returns the plan. A cast is named after the
/// expression that it casts, and beside this expression it would be taken for the same column.
pub(super) fn with_keys_apart(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let mut named: HashMap<String, &Expr> = HashMap::new();
        for key in grouping_set_to_exprlist(&aggregate.group_expr)? {
            let name = key.schema_name().to_string();
            match named.insert(name.clone(), key) {
                Some(other) if other != key => {
                    let duplicate = SchemaError::DuplicateUnqualifiedField { name };
                    return Err(DataFusionError::SchemaError(Box::new(duplicate), Box::new(None)));
                }
                Some(_) | None => {}
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(plan)
}
