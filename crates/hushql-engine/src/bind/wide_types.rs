//! Refuses casts to types whose values have a fixed size, which may be gigabytes.
//!
//! In: a plan. Out: the same plan, or a refusal of a cast to a type whose values have more than
//! 65,536 bytes each. A NULL of such a type takes as much memory as any other value, in each row,
//! even while the query is planned.
//!
//! ```text
//! CAST(x AS INT[3])                          12 bytes
//! arrow_cast(x, 'FixedSizeBinary(100000)')   refused
//! ```

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::quoting::written;
use crate::functions::MOST_OF_A_CELL;
use crate::refusal::{Reason, Refusal};

/// Checks that the plan casts nothing to a type whose values are too large, and returns it.
///
/// # Errors
/// The refusal.
pub(super) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match cast_to(part, &schema).filter(|to| bytes(to) > MOST_OF_A_CELL) {
                    Some(_) => Err(refused(part)),
                    None => Ok(TreeNodeRecursion::Continue),
                }
            })
        })
    })?;
    Ok(plan)
}

/// The type that an expression casts to.
fn cast_to(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) = expr {
        return Some(field.data_type().clone());
    }
    // Arrow's casts name their type as a text. No other expression names a type.
    let Expr::ScalarFunction(call) = expr else { return None };
    matches!(call.func.name(), "arrow_cast" | "arrow_try_cast")
        .then(|| expr.get_type(schema).ok())
        .flatten()
}

/// The bytes of every value of a type. Small for a type whose values have different lengths.
fn bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeBinary(size) => usize::try_from(*size).unwrap_or(usize::MAX),
        DataType::FixedSizeList(field, size) => {
            let size = usize::try_from(*size).unwrap_or(usize::MAX);
            size.saturating_mul(bytes(field.data_type()))
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => bytes(field.data_type()),
        DataType::Struct(fields) => {
            let each = fields.iter().map(|field| bytes(field.data_type()));
            each.fold(0, usize::saturating_add)
        }
        DataType::Dictionary(_, value) => bytes(value),
        DataType::RunEndEncoded(_, values) => bytes(values.data_type()),
        other => other.primitive_width().unwrap_or(1),
    }
}

fn refused(expr: &Expr) -> DataFusionError {
    let refusal = Refusal::new(
        Reason::TooLarge,
        written(expr),
        format!("each value of this type takes more than {MOST_OF_A_CELL} bytes"),
        "a type without a size, such as VARCHAR, BYTEA or INT[]",
    );
    DataFusionError::External(Box::new(refusal))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn sizes_are_those_of_all_elements() {
        let field = |data_type| Arc::new(Field::new("e", data_type, true));
        let list = |of, n| DataType::FixedSizeList(field(of), n);
        let binary = DataType::FixedSizeBinary(1_000);
        for (data_type, expected) in [
            (DataType::Utf8, 1),
            (DataType::Int64, 8),
            (binary.clone(), 1_000),
            (list(DataType::Int32, 3), 12),
            (list(list(DataType::Int64, 1_000), 1_000), 8_000_000),
            (DataType::List(field(binary.clone())), 1_000),
            (DataType::Struct(vec![field(binary.clone()), field(DataType::Int8)].into()), 1_001),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(binary)), 1_000),
        ] {
            assert_eq!(bytes(&data_type), expected, "{data_type}");
        }
    }
}
