//! Buckets of magnitudes as a group key.
//!
//! In: a number below a release. Out: the bucket that contains it, among the public buckets of its
//! type. The attack prevented: buckets from the data would reveal the largest value.
//!
//! ```text
//! magnitude(price)  →  place(price), 0 to 196, all of them public
//! ```

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::facts::{Facts, KeySource, Scope};
use super::interval::Interval;
use crate::analysis::expr::shape::{MakeTotal, Total, is_temporal, not_allowed, readable, type_of};
use crate::bind::quoting::name_of_column;
use crate::buckets::Buckets;
use crate::functions::place;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The bucket of a number.
///
/// # Guarantee
/// A function of the row alone that never fails. Its keys depend only on the type.
///
/// # Errors
/// Refuses the unit's own column, and types without magnitudes.
pub(crate) fn magnitude(
    call: &ScalarFunction,
    whole: &Expr,
    scope: &Scope,
    total: MakeTotal,
) -> Result<Total, Refusal> {
    let [argument] = call.args.as_slice() else {
        return Err(not_allowed(whole, "a magnitude takes one number"));
    };
    let x = total(argument, scope)?;
    let data_type = type_of(&x.expr, &scope.schema)?;
    let name =
        if let Expr::Column(column) = argument { column.name.clone() } else { readable(argument) };
    if x.facts.is_unit {
        return Err(Refusal::new(
            Reason::UnitAsKey,
            &name,
            format!("{name} names the privacy unit, and has no domain"),
            "a column that describes people instead of identifying them",
        ));
    }
    let domain = match is_temporal(&data_type) {
        true => "BETWEEN ('2025-01-01', '2025-12-31')",
        false => "IN ('a', 'b')",
    };
    let table = if let Expr::Column(Column { relation: Some(table), .. }) = argument {
        table.to_string()
    } else {
        "…".to_owned()
    };
    let buckets = Buckets::for_type(&data_type).ok_or_else(|| {
        Refusal::new(
            Reason::Operand,
            &name,
            format!(
                "a column of type {} has no magnitudes: ranges can be found for numbers only",
                sql_type(&data_type)
            ),
            format!(
                "ALTER TABLE {table} ALTER COLUMN {} SET PRIVACY DOMAIN {domain}, from what is known about it",
                name_of_column(&name)
            ),
        )
    })?;
    let last = i64::try_from(buckets.len().saturating_sub(1)).unwrap_or(0);
    let facts = Facts {
        keys: Some(KeySource::Integers(0, last)),
        ..Facts::ranged(Interval::integer_range(0, last), true)
    };
    Ok(Total { expr: place(x.expr, buckets.place()), facts })
}
