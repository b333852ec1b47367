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
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::dialect::{parameter_marker, parameter_of};

/// The function that represents a parameter. It never runs: a query runs after it has values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Unvalued {
    name: String,
    data_type: DataType,
    signature: Signature,
}

impl Unvalued {
    /// Parameter `n`, counted from 1, of this type; NULL for one whose type is not known.
    pub(super) fn new(n: usize, data_type: DataType) -> Self {
        // An immutable call with no argument could be computed as a constant.
        let signature = Signature::nullary(Volatility::Stable);
        Self { name: parameter_marker(n), data_type, signature }
    }
}

impl ScalarUDFImpl for Unvalued {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("a parameter has a value before anything runs")
    }
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
