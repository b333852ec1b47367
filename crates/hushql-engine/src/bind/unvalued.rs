//! Parameters that have no value yet: functions of the types that they may have.
//!
//! In: a bound plan in which a call represents each parameter. Out: the type that the planner gave
//! each one. A parameter without a type is a NULL to the planner, which casts it to the type of the
//! other operand, of the list around it, or of the function that takes it.
//!
//! ```text
//! age > $1          CAST($1 AS BIGINT)      → BIGINT
//! x LIKE '%' || $1  CAST($1 AS VARCHAR)     → VARCHAR
//! ```

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use super::placeholder::Placeholder;
use crate::dialect::{parameter_marker, parameter_of};

/// The function that represents parameter `n`, counted from 1, of this type; NULL for one whose
/// type is not known. A query runs only after its parameters have values.
pub(super) fn unvalued(n: usize, data_type: DataType) -> Placeholder {
    // An immutable call with no argument could be computed as a constant.
    Placeholder::new(parameter_marker(n), data_type, Volatility::Stable)
}

/// The types that a plan expects of its parameters, by position from 1 on. The first use of a
/// parameter decides.
///
/// # Errors
/// Those of the walk, which has none of its own.
pub(super) fn expected_types(plan: &LogicalPlan) -> Result<BTreeMap<usize, DataType>> {
    let mut types = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                let cast = if let Expr::Cast(Cast { expr, field }) = e {
                    Some((expr, field.data_type()))
                } else if let Expr::TryCast(TryCast { expr, field }) = e {
                    Some((expr, field.data_type()))
                } else {
                    None
                };
                if let Some((inner, data_type)) = cast
                    && let Expr::ScalarFunction(call) = &**inner
                    && let Some(n) = parameter_of(call.func.name())
                    && !data_type.is_null()
                {
                    types.entry(n).or_insert_with(|| data_type.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}
