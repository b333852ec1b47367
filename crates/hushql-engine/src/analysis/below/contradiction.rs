//! Filters that the declared domains prove false.
//!
//! In: a filter over columns whose values are listed or have a range. Out: a refusal if no row can
//! pass it, with the value that was probably meant. The check costs nothing, because domains are
//! public. Without it, the answer would be noise around zero at the full price.
//!
//! ```text
//! channel IN ('web', 'app')        WHERE channel = 'Web'             write 'web'
//! age BETWEEN (0, 120)             WHERE age > 200                   age lies between 0 and 120
//! age BETWEEN (0, 120)             WHERE age > 60 AND age < 50       age lies between 61 and 120
//! age BETWEEN (0, 120)             WHERE age > 200 OR age < 0        age lies between 0 and 120
//! age BETWEEN (18, 120)            WHERE NOT age >= 18              age lies between 18 and 120
//! pieces INT                       WHERE pieces = 2.5                pieces has no value between 2 and 3
//! ```

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::utils::{split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use num_traits::ToPrimitive;

use crate::analysis::expr::exact;
use crate::analysis::expr::facts::{
    KeySource, Scope, constant, decimal_unit, rational, same_column,
};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{is_time, readable_over, type_of};
use crate::analysis::expr::unlisted_constants::{equal_to_texts, listed_texts, quoted};
use crate::bind::quoting::name_of_column;
use crate::functions::temporal_limits;
use crate::privacy::{Rational, decimal_text};
use crate::refusal::{Reason, Refusal, nearest};

/// Refuses a filter that no row can pass, because no listed text of a column, or no number in its
/// range, satisfies a comparison. Alternatives (OR) are refused if each of them would be.
///
/// # Errors
/// The refusal.
pub(crate) fn check(predicate: &Expr, scope: &Scope) -> Result<(), Refusal> {
    let mut passed = scope.clone();
    for written in split_conjunction(predicate) {
        let positive = without_not(written);
        let conjunct = positive.as_ref();
        if let Some((column, wanted)) = equal_to_texts(conjunct)
            && let Some(listed) = listed_texts(column, scope)
            && !wanted.iter().any(|text| listed.contains(text))
        {
            return Err(refusal((conjunct, scope), column, &wanted, &listed));
        }
        let refusal =
            between_values(conjunct, &passed).or_else(|| impossible((conjunct, written), &passed));
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let alternatives = split_binary(conjunct, Operator::Or);
        if alternatives.len() > 1 {
            let mut refusals = alternatives.into_iter().map(|one| check(one, &passed).err());
            let first = refusals.next().flatten();
            if let Some(refusal) = first.filter(|_| refusals.all(|refusal| refusal.is_some())) {
                return Err(refusal);
            }
        }
        let narrowed = passed.narrowed(conjunct);
        let emptied = |i: &usize| !range(&passed, *i).is_empty() && range(&narrowed, *i).is_empty();
        if let Some(column) = (0..passed.facts.len()).find(emptied) {
            return Err(out_of_range(written, column, &passed));
        }
        passed = narrowed;
    }
    Ok(())
}

/// A comparison for the negation of one: both are true for the same rows. Any other condition as it
/// is.
fn without_not(condition: &Expr) -> Cow<'_, Expr> {
    let Expr::Not(inner) = condition else { return Cow::Borrowed(condition) };
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = inner.as_ref() else {
        return Cow::Borrowed(condition);
    };
    let compares = [Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
    match op.negate().filter(|_| compares.contains(op) || *op == Operator::NotEq) {
        Some(op) => Cow::Owned(Expr::BinaryExpr(BinaryExpr::new(left.clone(), op, right.clone()))),
        None => Cow::Borrowed(condition),
    }
}

/// The number that an expression without columns is: a literal, or one that is computed.
fn number(expr: &Expr, scope: &Scope) -> Option<ScalarValue> {
    if let Some(literal) = constant(expr) {
        return Some(literal);
    }
    if !expr.column_refs().is_empty() {
        return None;
    }
    let facts = exact(expr, scope).ok()?.facts;
    let (Some(lo), Some(hi)) = facts.range.limits() else { return None };
    if lo != hi || !lo.is_integer() {
        return None;
    }
    let whole = ScalarValue::Int64(Some(lo.to_integer().to_i64()?));
    whole.cast_to(&type_of(expr, &scope.schema).ok()?).ok().filter(|value| !value.is_null())
}

fn range(scope: &Scope, column: usize) -> Interval {
    scope.facts.get(column).map_or_else(Interval::everything, |facts| facts.range.clone())
}

/// The refusal of a comparison that no value in a column's range satisfies.
fn out_of_range(conjunct: &Expr, column: usize, passed: &Scope) -> Refusal {
    let (_, field) = passed.schema.qualified_field(column);
    let (name, data_type) = (name_of_column(field.name()), field.data_type());
    let range = range(passed, column);
    let (lo, hi) = range.limits();
    let text = |end: Option<&Rational>| end_text(end?, data_type);
    let (lies, write) = match (text(lo), text(hi)) {
        (Some(lo), Some(hi)) => {
            (format!("{name} lies between {lo} and {hi}"), format!("{name} BETWEEN {lo} AND {hi}"))
        }
        (Some(lo), None) => (format!("{name} is at least {lo}"), format!("{name} >= {lo}")),
        (None, Some(hi)) => (format!("{name} is at most {hi}"), format!("{name} <= {hi}")),
        (None, None) => {
            (format!("it contradicts the range of {name}"), format!("another value of {name}"))
        }
    };
    let message = format!("no row can pass this filter: where it is applied, {lies}");
    Refusal::new(Reason::BadValue, readable_over(conjunct, &passed.schema), message, write)
}

/// The refusal of a comparison of an expression with a constant beyond its range:
/// `EXTRACT(YEAR FROM ts) = 2024`.
fn impossible((conjunct, written): (&Expr, &Expr), scope: &Scope) -> Option<Refusal> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let (computed, op, literal) = match (number(left, scope), number(right, scope)) {
        (None, Some(literal)) => (left.as_ref(), *op, literal),
        (Some(literal), None) => (right.as_ref(), op.swap()?, literal),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    let data_type = type_of(computed, &scope.schema).ok().filter(|t| *t == literal.data_type())?;
    let facts = exact(computed, scope).ok()?.facts;
    let range = match facts.keys {
        Some(KeySource::Integers(lo, hi)) => {
            facts.range.intersect(&Interval::integer_range(lo, hi))
        }
        Some(KeySource::Values(_) | KeySource::Ticks(_)) | None => facts.range,
    };
    let (lo, hi) = range.limits();
    let point = rational(&literal)?;
    let below = || lo.is_some_and(|lo| point < *lo);
    let above = || hi.is_some_and(|hi| point > *hi);
    let least = || lo.is_some_and(|lo| point <= *lo);
    let most = || hi.is_some_and(|hi| point >= *hi);
    let never = op == Operator::Eq && (below() || above())
        || op == Operator::Lt && least()
        || op == Operator::LtEq && below()
        || op == Operator::Gt && most()
        || op == Operator::GtEq && above();
    if !never || range.is_empty() {
        return None;
    }
    let name = match (computed, same_column(computed, &scope.schema)) {
        (_, Some((column, _))) => name_of_column(&column.name),
        (Expr::Cast(widened), None) if data_type.is_integer() => {
            readable_over(&widened.expr, &scope.schema)
        }
        (other, None) => readable_over(other, &scope.schema),
    };
    let end = |end: Option<&Rational>| end_text(end?, &data_type);
    let (lies, write) = match (end(lo), end(hi)) {
        (Some(lo), Some(hi)) => {
            (format!("{name} lies between {lo} and {hi}"), format!("{name} BETWEEN {lo} AND {hi}"))
        }
        (Some(lo), None) => (format!("{name} is at least {lo}"), format!("{name} >= {lo}")),
        (None, Some(hi)) => (format!("{name} is at most {hi}"), format!("{name} <= {hi}")),
        (None, None) => return None,
    };
    let message = format!("no row can pass this filter: where it is applied, {lies}");
    Some(Refusal::new(Reason::BadValue, readable_over(written, &scope.schema), message, write))
}

/// The refusal of an equality of a whole number or a decimal with numbers that all have more places
/// than its type: `pieces = 2.5`.
fn between_values(conjunct: &Expr, scope: &Scope) -> Option<Refusal> {
    let (computed, numbers): (&Expr, Vec<ScalarValue>) =
        if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct {
            match (constant(left), constant(right)) {
                (None, Some(number)) => (left, vec![number]),
                (Some(number), None) => (right, vec![number]),
                (Some(_), Some(_)) | (None, None) => return None,
            }
        } else if let Expr::InList(list) = conjunct
            && !list.negated
        {
            (&list.expr, list.list.iter().map(constant).collect::<Option<_>>()?)
        } else {
            return None;
        };
    let (column, _) = same_column(computed, &scope.schema)?;
    let index = scope.schema.maybe_index_of_column(column)?;
    let unit = match scope.schema.field(index).data_type() {
        whole if whole.is_integer() => Rational::from_integer(1.into()),
        DataType::Decimal128(_, scale) => decimal_unit(*scale),
        _ => return None,
    };
    let is_between = |number: &ScalarValue| {
        number.data_type().is_decimal()
            && rational(number).is_some_and(|number| !(number / &unit).is_integer())
    };
    if numbers.is_empty() || !numbers.iter().all(is_between) {
        return None;
    }
    let name = name_of_column(&column.name);
    let first = (rational(numbers.first()?)? / &unit).floor() * &unit;
    let (below, above) = (decimal_text(&first, 38), decimal_text(&(&first + &unit), 38));
    let message =
        format!("no row can pass this filter: {name} has no value between {below} and {above}");
    let write = format!("{name} = {below}, or {name} BETWEEN {below} AND {above}");
    Some(Refusal::new(Reason::BadValue, readable_over(conjunct, &scope.schema), message, write))
}

/// An end of a range as SQL writes it.
fn end_text(end: &Rational, data_type: &DataType) -> Option<String> {
    if temporal_limits(data_type).is_none() && !is_time(data_type) {
        return Some(decimal_text(end, 6));
    }
    let ticks = ScalarValue::Int64(Some(end.to_integer().to_i64()?));
    let narrow = match data_type {
        DataType::Date32 => ticks.cast_to(&DataType::Int32).ok()?,
        _ => ticks,
    };
    let text = narrow.cast_to(data_type).ok()?.cast_to(&DataType::Utf8).ok()?;
    Some(format!("'{}'", text.try_as_str()??))
}

fn refusal(
    (conjunct, scope): (&Expr, &Scope),
    column: &Column,
    wanted: &[String],
    listed: &[String],
) -> Refusal {
    const MOST_SHOWN: usize = 8;
    let meant = wanted.iter().find_map(|text| nearest(text, listed.iter().map(String::as_str)));
    let shown: Vec<String> = listed.iter().take(MOST_SHOWN).map(|text| quoted(text)).collect();
    let among = shown.join(", ") + if listed.len() > MOST_SHOWN { ", …" } else { "" };
    let name = name_of_column(&column.name);
    Refusal::new(
        Reason::BadValue,
        readable_over(conjunct, &scope.schema),
        format!("no row can pass this filter: {name} is one of {among}"),
        match meant {
            Some(meant) => format!("{name} = {}", quoted(&meant)),
            None => format!("{name} IN ({among})"),
        },
    )
}
