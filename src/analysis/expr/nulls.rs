//! Whether an expression makes NULL of values that are there: `NULLIF(x, 1) > 0`, `10 / x`, CASE without ELSE.
//!
//! In: an expression, and what is known of its columns. Out: whether the query itself may make it NULL. It decides whether
//! NULL is a group; no bound relies on it.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Case, Cast, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use num_traits::Zero;

use super::facts::{Scope, constant, rational};
use super::shape::is_string;
use crate::privacy::Rational;

/// Whether an expression may be NULL where none of its columns is.
///
/// # Guarantee
/// Depends on the query and on declarations alone.
pub(crate) fn makes_null(expr: &Expr, scope: &Scope) -> bool {
    let of = |expr: &Expr| makes_null(expr, scope);
    // These are never NULL.
    let is_decided = matches!(
        expr,
        Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
    );
    let has_subquery = matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
    );
    if is_decided || has_subquery {
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
            // NULL where all of them are.
            "coalesce" | "greatest" | "least" => return call.args.iter().all(of),
            _ => {}
        }
    }
    if let Expr::BinaryExpr(BinaryExpr { left: _, op, right }) = expr {
        if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
            return false;
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

/// Whether a divisor may be zero on some row: a literal that is not, and a column whose range is apart from it, are not.
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
