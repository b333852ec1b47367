//! Renames the columns of a union's branches to the names of the union.
//!
//! In: a plan. Out: the same plan, in which all branches of a union have its column names. Branches
//! correspond by position. But some rules of DataFusion replace a union by one of its branches, or
//! move a projection below it, and then look up columns by name:
//! `SELECT 1 AS a, 2 AS b WHERE false UNION ALL SELECT DISTINCT y AS b, x AS a FROM t` returned its
//! columns in the wrong order.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};

/// Gives every branch of a union the names of the union.
pub(super) fn with_named_branches(plan: LogicalPlan) -> Result<LogicalPlan> {
    let renamed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Union(Union { inputs, schema }) = node else {
            return Ok(Transformed::no(node));
        };
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        let inputs = inputs.into_iter().map(|branch| named(branch, &names));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })))
    })?;
    Ok(renamed.data)
}

/// One branch with these names.
fn named(branch: Arc<LogicalPlan>, names: &[&String]) -> Result<Arc<LogicalPlan>> {
    let own = Arc::clone(branch.schema());
    if own.fields().iter().map(|field| field.name()).eq(names.iter().copied()) {
        return Ok(branch);
    }
    let columns = own.iter().map(|column| Expr::Column(Column::from(column)));
    let columns = columns.zip(names).map(|(column, name)| column.alias(*name)).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, branch)?)))
}
