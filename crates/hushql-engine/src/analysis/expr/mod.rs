//! Expressions below a release: made total, and bounded.
//!
//! In: an expression over a [`Scope`]. Out: an expression that never fails on any row, with
//! [`Facts`] about its values; or a refusal. Casts become TRY_CAST, zero divisors become NULL,
//! integer arithmetic must provably fit, and functions come from an allow-list. Every expression is
//! deterministic and reads one row.
//!
//! The attack prevented: a query that fails because of one person, and quotes a value in the error.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{Case, Cast, InList, Like, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use crate::analysis::expr::nulls::{has_checked_integer, makes_null};
use crate::analysis::expr::shape::{
    Total, castable, is_string, is_temporal, is_time, may_cast, no_operator, no_value, not_allowed,
    of_each_row, partial, readable, to_fit, type_of, union, widens,
};
use crate::analysis::recursion::deeper;
use crate::functions::{
    cast_value, checked, is_clamp, joined, not_zero, rounds, sound, ticks_a_day, without_nan,
};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;
use facts::{Facts, KeySource, Scope, constant, holds_exactly, rational, type_range};
use image::with_image;
use interval::Interval;
use margins::{is_moderate, is_moderate_divisor, is_nonzero_literal, nearest, with_slack};
use periods::days;
use times_of_day::constant_time;
use unlisted_constants::{check_listed, in_range, literal};

pub(crate) mod aggregate_call;
pub(crate) mod calendar;
pub(crate) mod computable_types;
pub(crate) mod date_arithmetic;
pub(crate) mod domain;
mod duration_comparisons;
pub(crate) mod facts;
pub(crate) mod functions;
pub(crate) mod grid_limits;
pub(crate) mod image;
mod in_other_functions;
pub(crate) mod interval;
pub(crate) mod interval_ends;
mod looked_up;
pub(crate) mod magnitude;
pub(crate) mod margins;
pub(crate) mod nulls;
pub(crate) mod periods;
pub(crate) mod rounding;
pub(crate) mod shape;
mod times_of_day;
pub(crate) mod unlisted_constants;

/// Makes an expression total. Moments outside the calendar become NULL.
///
/// # Guarantee
/// The result depends on the row alone and never fails on any row. On every row where its value is
/// neither NULL nor NaN, the value lies in `facts.always`, and on the rows of the narrowed scope
/// also in `facts.range`.
///
/// # Errors
/// Refuses every expression and function that is not on the allow-list, every possible failure or
/// overflow, and types that have not been reviewed, see [`computable_types`].
pub(crate) fn total(expr: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    calendar::in_calendar(exact(expr, scope)?, scope)
}

/// As [`total`], but moments outside the calendar stay exact. For comparisons and differences.
///
/// # Guarantee
/// As [`total`]. Moments lie within their [reach](crate::functions::reach_of_moments).
///
/// # Errors
/// As [`total`].
pub(crate) fn exact(expr: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    let mut total = deeper(|| made_total(expr, scope))?;
    computable_types::check(expr, &scope.schema)?;
    if !matches!(expr, Expr::Column(_)) {
        let facts = &mut total.facts;
        let names = |expr: &Expr| {
            let of = |column| scope.facts_of(column).is_some_and(|facts| facts.null_key);
            expr.column_refs().into_iter().any(of)
        };
        let named = || match expr {
            // COALESCE is NULL if all its arguments are NULL.
            Expr::ScalarFunction(call) if call.func.name() == "coalesce" => {
                call.args.iter().all(|arg| names(arg) || makes_null(arg, scope))
            }
            one => names(one),
        };
        let made = || makes_null(expr, scope) || has_checked_integer(&total.expr);
        facts.null_key = facts.nullable && (facts.null_key || named() || made());
    }
    Ok(total)
}

/// As [`total`], for expressions that are only passed on. A column may have any type.
///
/// # Guarantee
/// As [`total`].
///
/// # Errors
/// As [`total`], except for the types of columns.
pub(super) fn carried(expr: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    match expr {
        Expr::Alias(alias) => carried(&alias.expr, scope),
        Expr::Column(_) => made_total(expr, scope),
        computed => exact(computed, scope),
    }
}

fn made_total(expr: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    match expr {
        Expr::Alias(alias) => exact(&alias.expr, scope),
        Expr::Column(column) => match scope.facts_of(column) {
            Some(facts) => Ok(Total { expr: expr.clone(), facts: facts.clone() }),
            None => Err(not_allowed(expr, "this column is out of reach")),
        },
        Expr::Literal(value, _) => with_one_zero(literal(value.clone())?, scope),
        Expr::BinaryExpr(binary) => with_one_zero(self::binary(binary, expr, scope)?, scope),
        Expr::Like(like) => self::like(like, expr, scope),
        Expr::Not(inner) => {
            let inner = total(inner, scope)?;
            let facts = Facts::of_type(&DataType::Boolean);
            let facts = Facts { nullable: inner.facts.nullable, ..facts };
            Ok(Total { expr: Expr::Not(Box::new(inner.expr)), facts })
        }
        Expr::IsNotNull(inner) => boolean(inner, scope, |e| Expr::IsNotNull(Box::new(e))),
        Expr::IsNull(inner) => boolean(inner, scope, |e| Expr::IsNull(Box::new(e))),
        Expr::IsTrue(inner) => boolean(inner, scope, |e| Expr::IsTrue(Box::new(e))),
        Expr::IsFalse(inner) => boolean(inner, scope, |e| Expr::IsFalse(Box::new(e))),
        Expr::IsUnknown(inner) => boolean(inner, scope, |e| Expr::IsUnknown(Box::new(e))),
        Expr::IsNotTrue(inner) => boolean(inner, scope, |e| Expr::IsNotTrue(Box::new(e))),
        Expr::IsNotFalse(inner) => boolean(inner, scope, |e| Expr::IsNotFalse(Box::new(e))),
        Expr::IsNotUnknown(inner) => boolean(inner, scope, |e| Expr::IsNotUnknown(Box::new(e))),
        Expr::Negative(inner) => with_one_zero(negative(inner, expr, scope)?, scope),
        Expr::Between(between) => duration_comparisons::between(between, scope, exact),
        Expr::Case(case) => self::case(case, scope),
        Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) => {
            with_one_zero(cast(inner, field.data_type(), expr, scope)?, scope)
        }
        Expr::ScalarFunction(call) => {
            with_one_zero(functions::function(call, expr, scope, (total, exact))?, scope)
        }
        Expr::InList(list) => in_list(list, scope),
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => Err(Refusal::new(
            Reason::Subquery,
            readable(expr),
            "below a release, a subquery is allowed in SELECT, WHERE, HAVING, GROUP BY and aggregates, but not in this place",
            "its value in FROM: FROM (SELECT t.*, EXISTS (SELECT …) AS e FROM t) AS t, and e in this place",
        )),
        Expr::ScalarSubquery(_) => Err(Refusal::new(
            Reason::Subquery,
            readable(expr),
            "below a release, a subquery is allowed in SELECT, WHERE, HAVING, GROUP BY and aggregates, but not in this place",
            "its value in FROM: FROM (SELECT t.*, (SELECT MAX(x) FROM …) AS m FROM t) AS t, and m in this place",
        )),
        Expr::OuterReferenceColumn(..) => Err(of_each_row(expr)),
        Expr::SimilarTo(_)
        | Expr::ScalarVariable(..)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::GroupingSet(_)
        | Expr::Placeholder(_)
        | Expr::Unnest(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Lambda(_)
        | Expr::LambdaVariable(_) => Err(not_allowed(expr, "this is not allowed below a release")),
        #[expect(deprecated, reason = "the variant exists, and must be refused by name")]
        Expr::Wildcard { .. } => Err(not_allowed(expr, "this is not allowed below a release")),
    }
}

/// Replaces −0.0 with 0.0 in a computed value, because comparisons tell them apart. A sum of two
/// values other than −0.0 is not −0.0, but a product, a negative, a rounded value or a cast can be.
fn with_one_zero(computed: Total, scope: &Scope) -> Result<Total, Refusal> {
    if let Expr::Literal(value, _) = &computed.expr {
        let zero = ScalarValue::new_zero(&value.data_type()).ok();
        let is_zero = zero.as_ref().is_some_and(|zero| is_float_zero(value) && value != zero);
        return Ok(match zero.filter(|_| is_zero) {
            Some(zero) => Total { expr: Expr::Literal(zero, None), ..computed },
            None => computed,
        });
    }
    let sum = |op: Operator| matches!(op, Operator::Plus | Operator::Minus);
    let has_one_zero = matches!(&computed.expr, Expr::BinaryExpr(binary) if sum(binary.op))
        || matches!(&computed.expr, Expr::ScalarFunction(call) if is_clamp(&call.func));
    if has_one_zero {
        return Ok(computed);
    }
    let data_type = type_of(&computed.expr, &scope.schema)?;
    Ok(Total { expr: without_nan(computed.expr, &data_type), ..computed })
}

/// True if a constant is a positive or negative zero of a float type.
fn is_float_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(x)) => *x == 0.0,
        ScalarValue::Float32(Some(x)) => *x == 0.0,
        _ => false,
    }
}

/// A predicate on one operand that is true or false, never NULL.
fn boolean(inner: &Expr, scope: &Scope, build: fn(Expr) -> Expr) -> Result<Total, Refusal> {
    let inner = exact(inner, scope)?;
    let facts = Facts { nullable: false, ..Facts::of_type(&DataType::Boolean) };
    Ok(Total { expr: build(inner.expr), facts })
}

fn binary(binary: &BinaryExpr, whole: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    // A constant is computed while the query is planned.
    if let Some(value) = constant(whole)
        && type_of(whole, &scope.schema)? == value.data_type()
    {
        return literal(value);
    }
    if let Some(moments) = date_arithmetic::arithmetic(binary, whole, scope, exact)? {
        return Ok(moments);
    }
    if let Some(compared) = duration_comparisons::compared(binary, scope, exact)? {
        return Ok(compared);
    }
    let op = binary.op;
    let side = if op == Operator::StringConcat { total } else { exact };
    let (left, right) = (side(&binary.left, scope)?, side(&binary.right, scope)?);
    match op {
        Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::And
        | Operator::Or
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom => {
            check_listed(whole, scope)?;
            let expr = combine(left.expr, op, right.expr);
            Ok(Total { expr, facts: Facts::of_type(&DataType::Boolean) })
        }
        Operator::Plus
        | Operator::Minus
        | Operator::Multiply
        | Operator::Divide
        | Operator::Modulo => arithmetic(left, op, right, whole, scope),
        Operator::StringConcat => concatenation(left, right, whole, scope),
        Operator::RegexMatch
        | Operator::RegexIMatch
        | Operator::RegexNotMatch
        | Operator::RegexNotIMatch
        | Operator::LikeMatch
        | Operator::ILikeMatch
        | Operator::NotLikeMatch
        | Operator::NotILikeMatch
        | Operator::BitwiseAnd
        | Operator::BitwiseOr
        | Operator::BitwiseXor
        | Operator::BitwiseShiftRight
        | Operator::BitwiseShiftLeft
        | Operator::AtArrow
        | Operator::ArrowAt
        | Operator::Arrow
        | Operator::LongArrow
        | Operator::HashArrow
        | Operator::HashLongArrow
        | Operator::AtAt
        | Operator::IntegerDivide
        | Operator::HashMinus
        | Operator::AtQuestion
        | Operator::Question
        | Operator::QuestionAnd
        | Operator::QuestionPipe
        | Operator::Colon => Err(no_operator(op, binary, whole)),
    }
}

fn combine(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// `left || right` of texts; NULL if the result is longer than a cell may be. The planner casts
/// other values to texts.
fn concatenation(left: Total, right: Total, whole: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    let to = type_of(whole, &scope.schema)?;
    let sides = [type_of(&left.expr, &scope.schema)?, type_of(&right.expr, &scope.schema)?];
    if !sides.iter().chain([&to]).all(is_string) {
        return Err(not_allowed(whole, "|| joins texts, and values that can be cast to texts"));
    }
    Ok(Total { expr: joined(left.expr, right.expr, &to), facts: Facts::of_type(&to) })
}

/// `+ - * / %`: integers and decimals must provably fit their type; a zero divisor gives NULL. A
/// sum or product of integers without a declared range is NULL where it does not fit.
fn arithmetic(
    left: Total,
    op: Operator,
    right: Total,
    whole: &Expr,
    scope: &Scope,
) -> Result<Total, Refusal> {
    let (left_type, right_type) =
        (type_of(&left.expr, &scope.schema)?, type_of(&right.expr, &scope.schema)?);
    let result_type = type_of(&combine(left.expr.clone(), op, right.expr.clone()), &scope.schema)?;
    let numeric = [&left_type, &right_type, &result_type].iter().all(|t| t.is_numeric());
    let decimal = matches!(result_type, DataType::Decimal128(..));
    if !numeric || ![&left_type, &right_type, &result_type].into_iter().all(castable) {
        return Err(not_allowed(whole, "arithmetic below a release is on numbers"));
    }
    let divides = matches!(op, Operator::Divide | Operator::Modulo);
    let integer = result_type.is_integer();
    if decimal && op == Operator::Divide {
        return Err(not_allowed(whole, "decimals are divided as DOUBLE"));
    }
    let least = least_divisor(whole, scope);
    let apply = |a: &Interval, b: &Interval| match op {
        Operator::Plus => a.add(b),
        Operator::Minus => a.sub(b),
        Operator::Multiply => a.mul(b),
        Operator::Divide if integer => a.div_trunc(b),
        Operator::Divide => float_quotient(a, b, least.as_ref()),
        _ if integer => a.rem_trunc(b),
        _ => a.rem(b),
    };
    let mut range = apply(&left.facts.range, &right.facts.range);
    let known = apply(&left.facts.known(), &right.facts.known());
    let mut always = apply(&left.facts.always, &right.facts.always);
    let mut overflows = false;
    if integer || decimal {
        let Some(fits) = type_range(&result_type) else {
            return Err(not_allowed(whole, "arithmetic of this type is not known"));
        };
        // A sum or product that overflows wraps silently: it is wrong but does not fail, so it must
        // fit only on rows that enter the release, or is NULL where no range is declared. A
        // quotient out of range fails, so it must fit on every row. A remainder of decimals that
        // does not fit is NULL.
        let proven = if divides { &always } else { &known };
        let may_be_null = if divides { decimal } else { integer && range.bounds().is_none() };
        overflows = integer && !proven.is_within(&fits);
        if !may_be_null && !proven.is_within(&fits) {
            return Err(partial(
                whole,
                format!("it can lie in {proven}, which does not fit {}", sql_type(&result_type)),
                to_fit(whole, [&left.facts, &right.facts]),
            ));
        }
        // Operands of a decimal sum are first rescaled to the scale of the result.
        let operands = [&left.facts.always, &right.facts.always];
        let scaled = matches!(op, Operator::Plus | Operator::Minus)
            && operands.iter().any(|operand| !operand.is_within(&fits));
        if decimal && !divides && (scaled || !always.is_within(&fits)) {
            return Err(partial(
                whole,
                "it can overflow",
                to_fit(whole, [&left.facts, &right.facts]),
            ));
        }
        always = if always.is_within(&fits) { always } else { fits };
    } else {
        range = range.round_outward_f64();
        always = always.round_outward_f64();
    }
    let divisor = match divides && !is_nonzero_literal(&right.expr) {
        true => not_zero(right.expr, &right_type),
        false => right.expr,
    };
    // NaN can only come from infinities, which need floats beyond these ranges.
    let finite = [&left.facts.always, &right.facts.always, &always].into_iter().all(is_moderate);
    let fits = if integer || decimal { !overflows } else { finite };
    let nullable = divides || left.facts.nullable || right.facts.nullable || !fits;
    let facts = Facts { range, always, nullable, keys: None, null_key: overflows, is_unit: false };
    // An operation that can fail at run time returns NULL instead, even if ranges rule it out.
    let fails = decimal || overflows || (divides && integer && !is_moderate_divisor(&divisor));
    let expr = match fails {
        true => checked(left.expr, op, divisor, &result_type)
            .ok_or_else(|| not_allowed(whole, "arithmetic of this type is not known"))?,
        false => combine(left.expr, op, divisor),
    };
    // The kernel does not check the number of digits of a remainder of decimals.
    let expr = if divides && decimal { sound(expr, &result_type) } else { expr };
    Ok(Total { expr, facts })
}

/// The range of a quotient of floats. Every divisor is 0 or has at least the magnitude `least`.
fn float_quotient(a: &Interval, b: &Interval, least: Option<&Rational>) -> Interval {
    let Some(least) = least else { return a.div(b) };
    a.div(&b.below(&-least)).union(&a.div(&b.above(least)))
}

/// The smallest nonzero magnitude of a divisor that is an integer or a decimal cast to a float: one
/// unit, as the cast rounds it.
fn least_divisor(whole: &Expr, scope: &Scope) -> Option<Rational> {
    let Expr::BinaryExpr(BinaryExpr { right, .. }) = whole else { return None };
    let Expr::Cast(Cast { expr, field }) = right.as_ref() else { return None };
    if *field.data_type() != DataType::Float64 {
        return None;
    }
    let exact = type_of(expr, &scope.schema).ok()?;
    let unit = if let DataType::Decimal128(precision, scale) = exact {
        ScalarValue::Decimal128(Some(1), precision, scale)
    } else if exact.is_integer() {
        ScalarValue::Int64(Some(1))
    } else {
        return None;
    };
    rational(&unit.cast_to(&DataType::Float64).ok()?)
}

fn negative(inner: &Expr, whole: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    let inner = total(inner, scope)?;
    let data_type = type_of(&inner.expr, &scope.schema)?;
    let range = inner.facts.range.neg();
    let known = inner.facts.known().neg();
    let mut always = inner.facts.always.neg();
    if !data_type.is_numeric() || !castable(&data_type) {
        return Err(not_allowed(whole, "only numbers can be negated"));
    }
    let mut overflows = false;
    if let Some(fits) = type_range(&data_type) {
        overflows = !known.is_within(&fits) || !always.is_within(&fits);
        // Without a declared range, the negative of the least integer is NULL.
        if overflows && !(data_type.is_integer() && range.bounds().is_none()) {
            let hint = format!("-CLAMP({}, lo, hi)", readable(&inner.expr));
            return Err(partial(whole, "the negative can overflow", hint));
        }
        always = always.intersect(&fits);
    }
    let nullable = inner.facts.nullable || overflows;
    let facts = Facts { range, always, nullable, keys: None, is_unit: false, ..inner.facts };
    let is_whole = data_type.is_integer();
    let zero = ScalarValue::new_zero(&data_type).ok().map(|zero| Expr::Literal(zero, None));
    let expr = match zero.filter(|_| is_whole || data_type.is_decimal()) {
        Some(zero) if is_whole && !overflows => combine(zero, Operator::Minus, inner.expr),
        Some(zero) => checked(zero, Operator::Minus, inner.expr, &data_type)
            .ok_or_else(|| not_allowed(whole, "the negative of this type is not known"))?,
        None => Expr::Negative(Box::new(inner.expr)),
    };
    Ok(Total { expr, facts })
}

fn in_list(list: &InList, scope: &Scope) -> Result<Total, Refusal> {
    check_listed(&Expr::InList(list.clone()), scope)?;
    let expr = exact(&list.expr, scope)?.expr;
    let items =
        list.list.iter().map(|e| exact(e, scope).map(|t| t.expr)).collect::<Result<_, _>>()?;
    let expr = Expr::InList(InList::new(Box::new(expr), items, list.negated));
    Ok(Total { expr, facts: Facts::of_type(&DataType::Boolean) })
}

/// LIKE with a literal pattern. A pattern from a column might be invalid.
fn like(like: &Like, whole: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    const LONGEST_PATTERN: usize = 1_000;
    // For columns of string views, the planner casts the literal.
    let short = constant(&like.pattern).filter(|value| {
        value.try_as_str().flatten().is_some_and(|pattern| pattern.len() <= LONGEST_PATTERN)
    });
    let Some(pattern) = short.filter(|_| like.escape_char.is_none()) else {
        let not = if like.negated { "NOT " } else { "" };
        let of = readable(&like.expr);
        let hint = format!("{of} {not}LIKE 'text%', which has a literal pattern and no ESCAPE");
        return Err(partial(whole, "LIKE takes a literal pattern of at most 1000 bytes", hint));
    };
    let expr = Box::new(total(&like.expr, scope)?.expr);
    let pattern = Box::new(Expr::Literal(pattern, None));
    let expr = Expr::Like(Like { expr, pattern, ..like.clone() });
    Ok(Total { expr, facts: Facts::of_type(&DataType::Boolean) })
}

/// The union of the branches, each narrowed by its condition.
fn case(case: &Case, scope: &Scope) -> Result<Total, Refusal> {
    check_listed(&Expr::Case(case.clone()), scope)?;
    let base = case.expr.as_ref().map(|e| exact(e, scope)).transpose()?;
    let mut branches = Vec::new();
    let mut when_then = Vec::new();
    for (when, then) in &case.when_then_expr {
        let condition = exact(when, scope)?;
        let narrowed = if base.is_none() { scope.narrowed(when) } else { scope.clone() };
        let then = exact(then, &narrowed)?;
        branches.push(then.facts);
        when_then.push((Box::new(condition.expr), Box::new(then.expr)));
    }
    let otherwise = case.else_expr.as_ref().map(|e| exact(e, scope)).transpose()?;
    let nullable = otherwise.is_none();
    branches.extend(otherwise.iter().map(|t| t.facts.clone()));
    let mut facts = union(&branches);
    facts.nullable |= nullable;
    // Without ELSE, the rows that match no branch form a group of their own.
    facts.null_key |= nullable;
    let expr = Expr::Case(Case::new(
        base.map(|t| Box::new(t.expr)),
        when_then,
        otherwise.map(|t| Box::new(t.expr)),
    ));
    Ok(Total { expr, facts })
}

/// Every cast becomes TRY_CAST, including the casts that the planner inserts.
fn cast(inner: &Expr, to: &DataType, whole: &Expr, scope: &Scope) -> Result<Total, Refusal> {
    let is_moment = is_temporal(to) && is_temporal(&type_of(inner, &scope.schema)?);
    let inner = if is_moment { exact(inner, scope)? } else { total(inner, scope)? };
    let from = type_of(&inner.expr, &scope.schema)?;
    if let (true, Expr::Literal(value, _)) = (is_time(to), &inner.expr) {
        return constant_time(value, to, whole);
    }
    // Numbers of more than 38 digits are exact, and can only be compared.
    let widens_exactly = matches!(to, DataType::Decimal256(..))
        && (matches!(inner.expr, Expr::Literal(..)) || holds_exactly(to, &from));
    if !(may_cast(&from, to) || castable(&from) && widens_exactly)
        || !arrow::compute::can_cast_types(&from, to)
    {
        return Err(not_allowed(
            whole,
            &format!("a cast from {} to {} is not allowed here", sql_type(&from), sql_type(to)),
        ));
    }
    // Constants are folded, so that bounds stay literals.
    if let Expr::Literal(value, _) = &inner.expr {
        let folded = cast_value(value, to).ok().filter(|folded| !folded.is_null());
        if !matches!(whole, Expr::TryCast(_))
            && let Some(text) = value.try_as_str().flatten()
            && !folded.as_ref().is_some_and(in_range)
        {
            return Err(no_value(text, to, whole));
        }
        let folded = folded.filter(|folded| is_moment || in_range(folded));
        let folded = folded.map_or_else(|| ScalarValue::try_new_null(to), Ok);
        return literal(folded.map_err(|_| not_allowed(whole, "this type has no NULL"))?);
    }
    let mut facts = Facts::of_type(to);
    facts.nullable = inner.facts.nullable || !widens(&from, to) || is_temporal(to);
    if from.is_numeric() && to.is_numeric() {
        let carry = |range: &Interval| {
            let carried = if to.is_floating() {
                range.round_outward_f64()
            } else if holds_exactly(to, &from) {
                range.clone()
            } else if rounds(&from, to) {
                nearest(range)
            } else {
                // Both truncated and rounded values lie between the floor and the ceiling.
                range.floor().union(&range.ceil()).union(range)
            };
            let cut = type_range(to).map_or(carried.clone(), |fits| carried.intersect(&fits));
            // A value that does not fit its type becomes NULL. This can narrow a range, but cannot
            // create one.
            (if carried.bounds().is_some() { cut.clone() } else { carried }, cut)
        };
        facts.range = carry(&inner.facts.range).0;
        facts.always = carry(&inner.facts.always).1;
        // Casts between floats and decimals round, which can move values slightly beyond the ends.
        if from.is_floating() != to.is_floating() && (from.is_decimal() || to.is_decimal()) {
            facts.always = with_slack(&facts.always, &from, to);
        }
    }
    if from == DataType::Boolean && to.is_numeric() {
        facts = Facts::ranged(Interval::integer_range(0, 1), facts.nullable);
    }
    if let (Some(from), Some(ticks)) = (ticks_a_day(&from), ticks_a_day(to)) {
        // The same moment in another unit. A coarser unit rounds down or toward 1970.
        let carry = |range: &Interval| {
            let scaled = range.scale(&Rational::new(ticks.into(), from.into()));
            let rounded = scaled.floor().union(&scaled.ceil());
            calendar::reach(to).map_or(rounded.clone(), |fits| rounded.intersect(&fits))
        };
        facts.range = carry(&inner.facts.range);
        facts.always = carry(&inner.facts.always);
    }
    if is_temporal(&from) && *to == DataType::Date32 {
        facts.keys = days(&inner.facts, &from);
    }
    if is_string(&from) && is_string(to) {
        facts.keys = recast(inner.facts.keys, to);
        facts.is_unit = false;
    }
    // A cast can produce a date outside the enforced range, so the range is enforced here, too.
    let expr = Expr::TryCast(TryCast::new(Box::new(inner.expr), to.clone()));
    let is_exact = is_moment && calendar::leaves(&facts.always, to);
    let expr = if is_temporal(to) && !is_exact { sound(expr, to) } else { expr };
    Ok(with_image(Total { expr, facts }, scope))
}

/// Listed keys, cast to another type that represents the same values.
fn recast(keys: Option<KeySource>, to: &DataType) -> Option<KeySource> {
    match keys {
        Some(KeySource::Values(values)) => {
            let cast: Option<Vec<_>> = values.iter().map(|v| v.cast_to(to).ok()).collect();
            cast.map(|values| KeySource::Values(Arc::new(values)))
        }
        Some(KeySource::Integers(..) | KeySource::Ticks(_)) | None => None,
    }
}
