//! The range of an expression over listed values: evaluates it on each value while the query is
//! planned.
//!
//! In: a total expression over columns with a listed domain. Out: its smallest and its largest
//! result, computed by the functions that also run on rows. The scan turns values that are not
//! listed into NULL, so there are no other results.
//!
//! ```text
//! length(status)                  status IN ('never', 'widowed'):  5 to 7
//! CAST(vip AS INT)                false, true:                     0 to 1
//! ```

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, Volatility,
};

use super::facts::{Facts, KeySource, Scope, rational};
use super::interval::Interval;
use crate::analysis::expr::shape::{Total, type_of};
use crate::functions::cast_value;

/// Expressions with more values are not evaluated.
const MOST: usize = 4_096;

/// The same expression. If it is a number without a range and its values can be listed, it gets the
/// range of these values.
///
/// # Guarantee
/// On every row, the value of the expression is NULL, NaN or in the new range.
pub(crate) fn with_image(total: Total, scope: &Scope) -> Total {
    let has_range = total.facts.range.bounds().is_some() || total.facts.range.is_empty();
    let numeric = type_of(&total.expr, &scope.schema).is_ok_and(|t| t.is_numeric());
    if has_range || !numeric {
        return total;
    }
    match values(&total.expr, scope).and_then(|values| hull(&values)) {
        Some(range) => {
            let facts = Facts { keys: None, is_unit: false, ..Facts::ranged(range, true) };
            Total { facts, ..total }
        }
        None => total,
    }
}

/// The interval around numbers; `None` if a value is not a number.
fn hull(values: &[ScalarValue]) -> Option<Interval> {
    let mut points = values.iter().filter(|value| !value.is_null()).map(rational);
    points.try_fold(Interval::empty(), |hull, point| Some(hull.union(&Interval::point(point?))))
}

/// Every value that an expression can have, including NULL; `None` if they cannot be listed.
pub(super) fn values(expr: &Expr, scope: &Scope) -> Option<Vec<ScalarValue>> {
    if let Expr::Alias(alias) = expr {
        return values(&alias.expr, scope);
    }
    if let Expr::Literal(value, _) = expr {
        return Some(vec![value.clone()]);
    }
    if let Expr::Column(column) = expr {
        let Some(KeySource::Values(listed)) = &scope.facts_of(column)?.keys else { return None };
        let data_type = type_of(expr, &scope.schema).ok()?;
        let mut all = vec![ScalarValue::try_new_null(&data_type).ok()?];
        let listed = listed.iter().filter(|value| !value.is_null());
        for value in listed.take(MOST) {
            all.push(value.cast_to(&data_type).ok()?);
        }
        return few(all);
    }
    if let Expr::Case(case) = expr {
        return branches(case, scope);
    }
    if let Expr::TryCast(TryCast { expr: inner, field }) | Expr::Cast(Cast { expr: inner, field }) =
        expr
    {
        let cast = |value: ScalarValue| match cast_value(&value, field.data_type()) {
            Ok(cast) => Some(cast),
            Err(_) => ScalarValue::try_new_null(field.data_type()).ok(),
        };
        return values(inner, scope)?.into_iter().map(cast).collect();
    }
    if let Expr::ScalarFunction(call) = expr {
        return results(call, expr, scope);
    }
    None
}

fn few(values: Vec<ScalarValue>) -> Option<Vec<ScalarValue>> {
    Some(values).filter(|values| values.len() <= MOST)
}

/// The values of all branches.
fn branches(case: &Case, scope: &Scope) -> Option<Vec<ScalarValue>> {
    let mut all = Vec::new();
    for (_, then) in &case.when_then_expr {
        all.append(&mut values(then, scope)?);
    }
    if let Some(otherwise) = &case.else_expr {
        all.append(&mut values(otherwise, scope)?);
    }
    few(all)
}

/// The results of a function for every combination of its arguments' values.
fn results(call: &ScalarFunction, whole: &Expr, scope: &Scope) -> Option<Vec<ScalarValue>> {
    if call.func.signature().volatility != Volatility::Immutable {
        return None;
    }
    let listed: Option<Vec<_>> = call.args.iter().map(|arg| values(arg, scope)).collect();
    let listed = listed?;
    // The result is one of the arguments. The planner rewrites coalesce as CASE, so it has no
    // kernel.
    if call.func.name() == "coalesce" {
        return few(listed.concat());
    }
    let mut results = evaluated(call, &listed, whole, scope)?;
    let mut seen = datafusion::common::HashSet::new();
    results.retain(|value| seen.insert(value.clone()));
    Some(results)
}

/// The result of a function for every combination of its arguments' values. The last argument
/// changes fastest. `None` if there are too many combinations, or if the function fails.
pub(super) fn evaluated(
    call: &ScalarFunction,
    listed: &[Vec<ScalarValue>],
    whole: &Expr,
    scope: &Scope,
) -> Option<Vec<ScalarValue>> {
    let count = listed.iter().try_fold(1_usize, |n, values| n.checked_mul(values.len()))?;
    if count == 0 || count > MOST {
        return None;
    }
    let mut fields = Vec::with_capacity(listed.len());
    for arg in &call.args {
        let data_type = type_of(arg, &scope.schema).ok()?;
        fields.push(Arc::new(Field::new("x", data_type, true)));
    }
    let one = |values: &Vec<ScalarValue>| match values.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    };
    let constants: Vec<Option<ScalarValue>> = listed.iter().map(one).collect();
    let constants: Vec<Option<&ScalarValue>> = constants.iter().map(Option::as_ref).collect();
    let wanted = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
    let return_field = call.func.return_field_from_args(wanted).ok()?;
    if *return_field.data_type() != type_of(whole, &scope.schema).ok()? {
        return None;
    }
    let mut args = Vec::with_capacity(listed.len());
    let mut repeats = count;
    for values in listed {
        if let [only] = values.as_slice() {
            args.push(ColumnarValue::Scalar(only.clone()));
            continue;
        }
        repeats /= values.len();
        let column = (0..count).filter_map(|row| values.get(row / repeats % values.len()).cloned());
        args.push(ColumnarValue::Array(ScalarValue::iter_to_array(column).ok()?));
    }
    let rows = ScalarFunctionArgs {
        args,
        arg_fields: fields,
        number_rows: count,
        return_field,
        config_options: Arc::default(),
    };
    let results = call.func.invoke_with_args(rows).ok()?.to_array(count).ok()?;
    let results = (0..results.len()).map(|row| ScalarValue::try_from_array(&results, row).ok());
    results.collect()
}
