//! The ends of an expression over numbers that are known within intervals.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions::math::expr_fn::{ceil, floor};
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};
use num_traits::ToPrimitive;

use crate::analysis::expr::shape::unit_of;
use crate::functions::{Corner, corners};

/// What is known of an expression.
#[derive(Debug, Clone)]
pub(super) enum Ends {
    /// No noise is in it.
    Exact,
    /// With the noise in its ±, it lies between two ends.
    Within(Box<Span>),
}

/// Two ends, of type DOUBLE, and how many released numbers they depend on.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) lo: Expr,
    pub(super) hi: Expr,
    pub(super) numbers: u64,
}

impl Ends {
    pub(super) fn within(lo: Expr, hi: Expr, numbers: u64) -> Self {
        Self::Within(Box::new(Span { lo, hi, numbers }))
    }

    /// The two ends; of a number without noise, the number itself.
    fn both(self, expr: &Expr, schema: &DFSchema) -> Option<Span> {
        match self {
            Self::Exact => {
                let value = as_float(expr.clone(), schema)?;
                Some(Span { lo: value.clone(), hi: value, numbers: 0 })
            }
            Self::Within(span) => Some(*span),
        }
    }
}

/// A number as DOUBLE.
pub(super) fn as_float(expr: Expr, schema: &DFSchema) -> Option<Expr> {
    match expr.get_type(schema).ok()? {
        DataType::Float64 => Some(expr),
        number if number.is_numeric() || number == DataType::Null => {
            Some(Expr::Cast(Cast::new(Box::new(expr), DataType::Float64)))
        }
        _ => None,
    }
}

/// The ends of an expression, from what is known of its columns; `None` where they cannot be told.
///
/// # Guarantee
/// Wherever each column is within its ends, so is the expression, up to the rounding of floats.
pub(super) fn ends(
    expr: &Expr,
    schema: &DFSchema,
    known: &dyn Fn(&Column) -> Option<Ends>,
) -> Option<Ends> {
    let subquery = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ))
    });
    if subquery.unwrap_or(true) {
        return None;
    }
    let columns: Option<Vec<Ends>> = expr.column_refs().into_iter().map(known).collect();
    if columns?.iter().all(|column| matches!(column, Ends::Exact)) {
        return Some(Ends::Exact);
    }
    let of = |e: &Expr| ends(e, schema, known);
    let both = |e: &Expr| of(e)?.both(e, schema);
    if let Expr::Alias(alias) = expr {
        return of(&alias.expr);
    }
    if let Expr::Column(column) = expr {
        return known(column);
    }
    if let Expr::Negative(inner) = expr {
        let Span { lo, hi, numbers } = both(inner)?;
        let negative = |e: Expr| Expr::Negative(Box::new(e));
        return Some(Ends::within(negative(hi), negative(lo), numbers));
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
    {
        let Span { lo, hi, numbers } = both(inner)?;
        let to = field.data_type();
        if !to.is_numeric() {
            return None;
        }
        // A cast to fewer digits goes to a neighbour.
        let whole = inner.get_type(schema).ok()?.is_integer();
        return Some(match to.is_integer() && !whole {
            true => Ends::within(floor(lo), ceil(hi), numbers),
            false if to.is_floating() || to.is_integer() => Ends::within(lo, hi, numbers),
            false if whole => Ends::within(lo, hi, numbers),
            false => {
                let unit = lit(unit_of(to).to_f64()?);
                Ends::within(lo - unit.clone(), hi + unit, numbers)
            }
        });
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        let (l, r) = (both(left)?, both(right)?);
        let numbers = l.numbers.checked_add(r.numbers)?;
        let whole = expr.get_type(schema).ok()?.is_integer();
        let [lo, hi] = sum_or_corner(*op, [l.lo, l.hi], [r.lo, r.hi])?;
        // A quotient of whole numbers is cut.
        return Some(match *op == Operator::Divide && whole {
            true => Ends::within(floor(lo), ceil(hi), numbers),
            false => Ends::within(lo, hi, numbers),
        });
    }
    if let Expr::Case(case) = expr {
        return branches(case, &of, &both);
    }
    if let Expr::ScalarFunction(call) = expr {
        return called(call, &of, &both);
    }
    None
}

fn sum_or_corner(op: Operator, [a, b]: [Expr; 2], [c, d]: [Expr; 2]) -> Option<[Expr; 2]> {
    match op {
        Operator::Plus => Some([a + c, b + d]),
        Operator::Minus => Some([a - d, b - c]),
        Operator::Multiply => Some(corners(Corner::Product, [a, b], [c, d])),
        Operator::Divide => Some(corners(Corner::Quotient, [a, b], [c, d])),
        _ => None,
    }
}

/// CASE whose conditions have no noise: the ends of the branch that is taken.
fn branches(
    case: &Case,
    of: &dyn Fn(&Expr) -> Option<Ends>,
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<Ends> {
    let conditions = case.expr.iter().chain(case.when_then_expr.iter().map(|(when, _)| when));
    for condition in conditions {
        let Ends::Exact = of(condition)? else { return None };
    }
    let (mut lows, mut highs, mut most) = (Vec::new(), Vec::new(), 0);
    for (when, then) in &case.when_then_expr {
        let Span { lo, hi, numbers } = both(then)?;
        lows.push((when.clone(), Box::new(lo)));
        highs.push((when.clone(), Box::new(hi)));
        most = most.max(numbers);
    }
    let (mut low, mut high) = (None, None);
    if let Some(otherwise) = &case.else_expr {
        let Span { lo, hi, numbers } = both(otherwise)?;
        (low, high) = (Some(Box::new(lo)), Some(Box::new(hi)));
        most = most.max(numbers);
    }
    let case = |branches, otherwise| Expr::Case(Case::new(case.expr.clone(), branches, otherwise));
    Some(Ends::within(case(lows, low), case(highs, high), most))
}

/// Functions that never fall, and those that choose among their arguments.
fn called(
    call: &ScalarFunction,
    of: &dyn Fn(&Expr) -> Option<Ends>,
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<Ends> {
    let (first, rest) = call.args.split_first()?;
    let with = |first: Expr| {
        let args = std::iter::once(first).chain(rest.iter().cloned()).collect();
        Expr::ScalarFunction(ScalarFunction { func: call.func.clone(), args })
    };
    let rest_is_exact = rest.iter().all(|arg| matches!(of(arg), Some(Ends::Exact)));
    match call.func.name() {
        "round" | "floor" | "ceil" | "trunc" if rest_is_exact => {
            let Span { lo, hi, numbers } = both(first)?;
            Some(Ends::within(with(lo), with(hi), numbers))
        }
        // NULL where the value is: it has no ± then.
        "nullif" if rest_is_exact => of(first),
        "coalesce" => {
            let (mut lows, mut highs, mut all) = (Vec::new(), Vec::new(), 0_u64);
            for arg in &call.args {
                let Span { lo, hi, numbers } = both(arg)?;
                lows.push(lo);
                highs.push(hi);
                all = all.checked_add(numbers)?;
            }
            Some(Ends::within(coalesce(lows), coalesce(highs), all))
        }
        _ => None,
    }
}
