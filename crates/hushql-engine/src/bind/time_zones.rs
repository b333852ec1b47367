//! Time zones that cannot be read.
//!
//! In: a plan. Out: the same plan, or a refusal of an expression whose type names a time zone that
//! does not exist. No value of such a type can be written, so that the answer to a paid query would
//! be lost.
//!
//! ```text
//! from_unixtime(n, 'Europe/Berlin')     1970-01-01T01:16:11+01:00
//! from_unixtime(n, 'Berlin')            refused
//! ```

use arrow::array::timezone::Tz;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::quoting::written;
use crate::refusal::{Reason, Refusal};

/// The plan, after checking that its types name no time zone that cannot be read.
///
/// # Errors
/// The refusal.
pub(super) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let made = matches!(
                    part,
                    Expr::Cast(_) | Expr::TryCast(_) | Expr::ScalarFunction(_) | Expr::Literal(..)
                );
                let data_type = if made { part.get_type(&schema).ok() } else { None };
                match data_type.as_ref().and_then(unreadable_zone) {
                    Some(zone) => Err(refused(part, zone)),
                    None => Ok(TreeNodeRecursion::Continue),
                }
            })
        })
    })?;
    Ok(plan)
}

/// The time zone of a type, or of a part of it, if it cannot be read.
fn unreadable_zone(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, Some(zone)) => zone.parse::<Tz>().is_err().then_some(zone.as_ref()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => unreadable_zone(field.data_type()),
        DataType::Struct(fields) => fields.iter().find_map(|f| unreadable_zone(f.data_type())),
        DataType::Dictionary(_, value) => unreadable_zone(value),
        DataType::RunEndEncoded(_, values) => unreadable_zone(values.data_type()),
        _ => None,
    }
}

fn refused(expr: &Expr, zone: &str) -> DataFusionError {
    let refusal = Refusal::new(
        Reason::BadValue,
        written(expr),
        format!("there is no time zone '{zone}'"),
        "a name such as 'Europe/Berlin', or an offset such as '+01:00'",
    );
    DataFusionError::External(Box::new(refusal))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, TimeUnit};

    use super::*;

    #[test]
    fn zones_are_names_and_offsets() {
        let of = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
        for zone in ["Europe/Berlin", "UTC", "+01:00", "-0330"] {
            assert_eq!(unreadable_zone(&of(zone)), None, "{zone}");
        }
        for zone in ["x", "", "+99:00", "Berlin", "%Q"] {
            let list = DataType::List(Arc::new(Field::new("e", of(zone), true)));
            assert_eq!(unreadable_zone(&of(zone)), Some(zone));
            assert_eq!(unreadable_zone(&list), Some(zone));
        }
        assert_eq!(unreadable_zone(&DataType::Timestamp(TimeUnit::Second, None)), None);
    }
}
