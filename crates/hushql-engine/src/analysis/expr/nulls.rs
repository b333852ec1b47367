//! Whether an expression turns values into NULL: `NULLIF(x, 1) > 0`, `10 / x`, CASE without ELSE,
//! and `x + 1` of whole numbers without a range.
//!
//! In: an expression, and the facts about its columns. Out: whether the query itself can make it
//! NULL. If so, NULL is a group key. No bound relies on this.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Case, Cast, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use num_bigint::BigInt;
use num_traits::Zero;

use super::facts::{Scope, constant, rational};
use super::functions::takes_exact_moments;
use super::interval::Interval;
use super::shape::{is_string, type_of};
use crate::functions::{is_checked_integer, reach_of_moments, temporal_limits, ticks_a_day};
use crate::privacy::Rational;

/// True if an expression can be NULL although none of its columns is.
///
/// # Guarantee
/// Depends only on the query and the declarations.
pub(crate) fn makes_null(expr: &Expr, scope: &Scope) -> bool {
    makes_null_as(expr, scope, Moments::Exact)
}

/// How moments outside the calendar are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moments {
    /// They stay as they are.
    Exact,
    /// They are NULL.
    Null,
}

/// How moments among the operands of an expression are treated.
fn of_operands(expr: &Expr, own: Moments, scope: &Scope) -> Moments {
    let exact = |is_exact: bool| if is_exact { Moments::Exact } else { Moments::Null };
    let is_moment = |expr: &Expr| {
        let data_type = type_of(expr, &scope.schema);
        data_type.is_ok_and(|own| temporal_limits(&own).is_some())
    };
    if let Expr::ScalarFunction(call) = expr {
        return match call.func.name() {
            "coalesce" | "nullif" | "least" | "greatest" => own,
            _ => exact(takes_exact_moments(&call.func)),
        };
    }
    if let Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) = expr
    {
        return if is_moment(inner) && is_moment(expr) { own } else { Moments::Null };
    }
    if let Expr::BinaryExpr(BinaryExpr { op, .. }) = expr {
        let moves = matches!(op, Operator::Plus | Operator::Minus) && is_moment(expr);
        return if moves { own } else { exact(*op != Operator::StringConcat) };
    }
    match matches!(expr, Expr::Alias(_) | Expr::Case(_)) {
        true => own,
        false => exact(!matches!(expr, Expr::Like(_))),
    }
}

fn makes_null_as(expr: &Expr, scope: &Scope, moments: Moments) -> bool {
    let operands = of_operands(expr, moments, scope);
    let of = |expr: &Expr| makes_null_as(expr, scope, operands);
    let has_subquery = matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
    );
    if is_decided(expr) || has_subquery {
        return false;
    }
    if let Expr::Literal(value, _) = expr {
        return value.is_null();
    }
    if let Expr::Case(Case { expr: _, when_then_expr, else_expr }) = expr {
        return else_expr.as_deref().is_none_or(of)
            || when_then_expr.iter().any(|(_, then)| of(then));
    }
    if let Expr::ScalarFunction(call) = expr {
        match call.func.name() {
            "nullif" => return true,
            "date_bin" if leaves_calendar(expr, scope) => return true,
            // NULL if all arguments are NULL.
            "coalesce" | "greatest" | "least" => return call.args.iter().all(of),
            _ => {}
        }
    }
    if let Expr::BinaryExpr(BinaryExpr { left: _, op, right }) = expr {
        if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
            return false;
        }
        let moves = matches!(op, Operator::Plus | Operator::Minus);
        if moves && is_cut(expr, scope, moments) && leaves_calendar(expr, scope) {
            return true;
        }
        let divides = matches!(op, Operator::Divide | Operator::Modulo);
        if divides && may_be_zero(right, scope) {
            return true;
        }
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
    {
        let reads = inner.get_type(&scope.schema).is_ok_and(|from| is_string(&from));
        if reads && !is_string(field.data_type()) && constant(inner).is_none() {
            return true;
        }
    }
    let mut found = false;
    let walked = expr.apply_children(|child| {
        found |= of(child);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && found
}

/// True if an expression is a predicate that is never NULL.
fn is_decided(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
    )
}

/// True if a total expression is NULL where a sum, difference or product of whole numbers does not
/// fit.
///
/// # Guarantee
/// Depends only on the query and the declarations.
pub(crate) fn has_checked_integer(total: &Expr) -> bool {
    if is_decided(total) {
        return false;
    }
    if let Expr::Case(Case { expr: _, when_then_expr, else_expr }) = total {
        return else_expr.as_deref().is_some_and(has_checked_integer)
            || when_then_expr.iter().any(|(_, then)| has_checked_integer(then));
    }
    if let Expr::ScalarFunction(call) = total {
        if is_checked_integer(&call.func) {
            return true;
        }
        if matches!(call.func.name(), "coalesce" | "greatest" | "least") {
            return call.args.iter().all(has_checked_integer);
        }
    }
    let mut found = false;
    let walked = total.apply_children(|child| {
        found |= has_checked_integer(child);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && found
}

/// True if a moment that an interval moved out of the calendar becomes NULL. Nanoseconds always do:
/// their type ends where their calendar ends.
fn is_cut(expr: &Expr, scope: &Scope, moments: Moments) -> bool {
    let ends = |own: DataType| reach_of_moments(&own) == temporal_limits(&own);
    moments == Moments::Null || type_of(expr, &scope.schema).is_ok_and(ends)
}

/// True if the intervals of an expression can move a column out of the calendar, where it becomes
/// NULL.
fn leaves_calendar(expr: &Expr, scope: &Scope) -> bool {
    let mut days = 0_i64;
    let added = expr.apply(|part| {
        if let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), _) = part {
            let nanoseconds = by.nanoseconds.unsigned_abs() / 86_400_000_000_000 + 1;
            let of_interval = 31 * i64::from(by.months.unsigned_abs())
                + i64::from(by.days.unsigned_abs())
                + i64::try_from(nanoseconds).unwrap_or(i64::MAX / 2);
            days = days.saturating_add(of_interval);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let near_an_end = |column: &Column| {
        let data_type = type_of(&Expr::Column(column.clone()), &scope.schema).ok()?;
        let (first, last) = temporal_limits(&data_type)?;
        let margin = BigInt::from(days) * BigInt::from(ticks_a_day(&data_type)?);
        let inside = Interval::integer_range(first + &margin, last - margin);
        Some(!scope.facts_of(column)?.known().is_within(&inside))
    };
    added.is_err()
        || days > 0 && expr.column_refs().into_iter().any(|c| near_an_end(c).unwrap_or(false))
}

/// True if a divisor can be zero. Nonzero literals, and columns whose range excludes zero, cannot.
fn may_be_zero(divisor: &Expr, scope: &Scope) -> bool {
    if let Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) = divisor {
        return may_be_zero(expr, scope);
    }
    if let Some(value) = constant(divisor) {
        return rational(&value).is_none_or(|value| value.is_zero());
    }
    let facts = divisor.try_as_col().and_then(|column| scope.facts_of(column));
    facts.is_none_or(|facts| facts.known().contains(&Rational::zero()))
}
