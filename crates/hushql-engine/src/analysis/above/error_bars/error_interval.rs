//! The ends of an expression over numbers with known intervals.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::functions::core::expr_fn::{greatest, least};
use datafusion::functions::math::expr_fn::{ceil, floor};
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, Subquery, lit};
use num_traits::ToPrimitive;

use crate::analysis::expr::shape::{parts_of, unit_of};
use crate::functions::{Corner, corners};

/// The interval of an expression.
#[derive(Debug, Clone)]
pub(super) enum IntervalEnds {
    /// It contains no noise.
    Exact,
    /// It lies between two ends, if all noise is within its ±.
    Within(Box<Span>),
}

/// Two ends, of type DOUBLE, and how many released numbers they depend on. The expression is NULL
/// where a floor hides one of them, if `may_be_hidden`.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) lo: Expr,
    pub(super) hi: Expr,
    pub(super) numbers: u64,
    pub(super) may_be_hidden: bool,
}

impl IntervalEnds {
    pub(super) fn within(lo: Expr, hi: Expr, numbers: u64) -> Self {
        Self::Within(Box::new(Span { lo, hi, numbers, may_be_hidden: false }))
    }

    /// The same ends, of an expression that reads numbers which a floor may hide.
    pub(super) fn hidden_if(self, may_be_hidden: bool) -> Self {
        match self {
            Self::Exact => Self::Exact,
            Self::Within(span) => Self::Within(Box::new(Span { may_be_hidden, ..*span })),
        }
    }

    /// Whether a floor may hide what it reads.
    fn may_be_hidden(&self) -> bool {
        match self {
            Self::Exact => false,
            Self::Within(span) => span.may_be_hidden,
        }
    }

    /// The two ends. Both are the number itself if it has no noise.
    fn both(self, expr: &Expr, schema: &DFSchema) -> Option<Span> {
        match self {
            Self::Exact => {
                let value = as_float(expr.clone(), schema)?;
                Some(Span { lo: value.clone(), hi: value, numbers: 0, may_be_hidden: false })
            }
            Self::Within(span) => Some(*span),
        }
    }
}

/// The most parts of the two ends of an expression. ABS, for example, repeats both ends of its
/// operand in each of its own ends.
const MOST_PARTS: usize = 2_000;

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

/// The intervals of the columns and subqueries that an expression reads.
pub(super) trait Reads {
    /// The interval of a column.
    fn column(&self, column: &Column) -> Option<IntervalEnds>;
    /// The interval of a subquery as a value.
    fn value(&self, subquery: &Subquery) -> Option<IntervalEnds>;
}

/// The ends of an expression, from the intervals of its columns; `None` if they cannot be derived.
///
/// # Guarantee
/// On every row where each column is within its ends, so is the expression, up to the rounding of
/// floats. An end is NULL if it is not known, and so is one of an expression that replaces a hidden
/// number by another value. Ends of more than [`MOST_PARTS`] parts are not
/// returned.
pub(super) fn ends(expr: &Expr, schema: &DFSchema, known: &dyn Reads) -> Option<IntervalEnds> {
    let told = ends_of(expr, schema, known)?;
    let is_short = match &told {
        IntervalEnds::Exact => true,
        IntervalEnds::Within(span) => {
            parts_of(&span.lo).saturating_add(parts_of(&span.hi)) <= MOST_PARTS
        }
    };
    is_short.then_some(told)
}

fn ends_of(expr: &Expr, schema: &DFSchema, known: &dyn Reads) -> Option<IntervalEnds> {
    let mut values: Vec<&Subquery> = Vec::new();
    let walked = expr.apply(|e| {
        if let Expr::ScalarSubquery(subquery) = e {
            values.push(subquery);
        }
        let asks = matches!(
            e,
            Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        Ok(if asks { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    if !matches!(walked, Ok(TreeNodeRecursion::Continue)) {
        return None;
    }
    let columns = expr.column_refs().into_iter().map(|column| known.column(column));
    let values = values.into_iter().map(|subquery| known.value(subquery));
    let read: Option<Vec<IntervalEnds>> = columns.chain(values).collect();
    let read = read?;
    if read.iter().all(|one| matches!(one, IntervalEnds::Exact)) {
        return Some(IntervalEnds::Exact);
    }
    let may_be_hidden = read.iter().any(IntervalEnds::may_be_hidden);
    Some(combined(expr, schema, known, may_be_hidden)?.hidden_if(may_be_hidden))
}

/// The ends of an expression that reads numbers with noise.
fn combined(
    expr: &Expr,
    schema: &DFSchema,
    known: &dyn Reads,
    may_be_hidden: bool,
) -> Option<IntervalEnds> {
    let of = |e: &Expr| ends(e, schema, known);
    let both = |e: &Expr| of(e)?.both(e, schema);
    if let Expr::Alias(alias) = expr {
        return of(&alias.expr);
    }
    if let Expr::Column(column) = expr {
        return known.column(column);
    }
    if let Expr::ScalarSubquery(subquery) = expr {
        return known.value(subquery);
    }
    if let Expr::Negative(inner) = expr {
        let Span { lo, hi, numbers, .. } = both(inner)?;
        let negative = |e: Expr| Expr::Negative(Box::new(e));
        return Some(IntervalEnds::within(negative(hi), negative(lo), numbers));
    }
    if let Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) =
        expr
    {
        let Span { lo, hi, numbers, .. } = both(inner)?;
        let to = field.data_type();
        if !to.is_numeric() {
            return None;
        }
        // A cast to fewer digits returns a neighbouring value.
        let whole = inner.get_type(schema).ok()?.is_integer();
        return Some(match to.is_integer() && !whole {
            true => IntervalEnds::within(floor(lo), ceil(hi), numbers),
            false if to.is_floating() || to.is_integer() => IntervalEnds::within(lo, hi, numbers),
            false if whole => IntervalEnds::within(lo, hi, numbers),
            false => {
                let unit = lit(unit_of(to).to_f64()?);
                IntervalEnds::within(lo - unit.clone(), hi + unit, numbers)
            }
        });
    }
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr {
        let (l, r) = (both(left)?, both(right)?);
        let numbers = l.numbers.checked_add(r.numbers)?;
        let whole = expr.get_type(schema).ok()?.is_integer();
        let [lo, hi] = sum_or_corner(*op, [l.lo, l.hi], [r.lo, r.hi])?;
        // A quotient of whole numbers is truncated.
        return Some(match *op == Operator::Divide && whole {
            true => IntervalEnds::within(floor(lo), ceil(hi), numbers),
            false => IntervalEnds::within(lo, hi, numbers),
        });
    }
    if let Expr::Case(case) = expr {
        return branches(case, &of, &both);
    }
    if let Expr::ScalarFunction(call) = expr {
        return called(call, may_be_hidden, &of, &both);
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

/// CASE: the ends of the branch that is taken. If noise decides which branch this is, the ends of
/// all branches together. A branch that is NULL has no value that could be wrong.
fn branches(
    case: &Case,
    of: &dyn Fn(&Expr) -> Option<IntervalEnds>,
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<IntervalEnds> {
    let conditions = case.expr.iter().chain(case.when_then_expr.iter().map(|(when, _)| when));
    let is_public = conditions.into_iter().all(|e| matches!(of(e), Some(IntervalEnds::Exact)));
    if !is_public {
        let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
        let results: Vec<&Expr> = results.map(AsRef::as_ref).filter(|e| !is_null(e)).collect();
        let spans: Vec<Span> = results.into_iter().map(both).collect::<Option<_>>()?;
        if spans.is_empty() {
            return None;
        }
        let numbers = spans.iter().try_fold(0_u64, |all, one| all.checked_add(one.numbers))?;
        let (lows, highs): (Vec<Expr>, Vec<Expr>) =
            spans.into_iter().map(|span| (span.lo, span.hi)).unzip();
        let ends: Vec<Expr> = lows.iter().chain(&highs).cloned().collect();
        return Some(IntervalEnds::within(
            where_known(&ends, least(lows)),
            where_known(&ends, greatest(highs)),
            numbers,
        ));
    }
    let (mut lows, mut highs, mut most) = (Vec::new(), Vec::new(), 0);
    for (when, then) in &case.when_then_expr {
        let Span { lo, hi, numbers, .. } = both(then)?;
        lows.push((when.clone(), Box::new(lo)));
        highs.push((when.clone(), Box::new(hi)));
        most = most.max(numbers);
    }
    let (mut low, mut high) = (None, None);
    if let Some(otherwise) = &case.else_expr {
        let Span { lo, hi, numbers, .. } = both(otherwise)?;
        (low, high) = (Some(Box::new(lo)), Some(Box::new(hi)));
        most = most.max(numbers);
    }
    let case = |branches, otherwise| Expr::Case(Case::new(case.expr.clone(), branches, otherwise));
    Some(IntervalEnds::within(case(lows, low), case(highs, high), most))
}

/// True if an expression is a literal NULL of any type.
fn is_null(expr: &Expr) -> bool {
    if let Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) = expr {
        return is_null(expr);
    }
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// The number if all of `needed` are known, and NULL otherwise.
pub(super) fn where_known(needed: &[Expr], number: Expr) -> Expr {
    let known = needed.iter().cloned().map(Expr::is_not_null).reduce(Expr::and);
    let Some(known) = known else { return number };
    Expr::Case(Case::new(None, vec![(Box::new(known), Box::new(number))], None))
}

/// A function of a number where it is positive, and NULL elsewhere.
fn where_positive(number: Expr, of: &dyn Fn(Expr) -> Expr) -> Expr {
    let positive = Box::new(number.clone().gt(lit(0.0)));
    Expr::Case(Case::new(None, vec![(positive, Box::new(of(number)))], None))
}

/// Functions that never decrease, and functions that choose among their arguments.
fn called(
    call: &ScalarFunction,
    may_be_hidden: bool,
    of: &dyn Fn(&Expr) -> Option<IntervalEnds>,
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<IntervalEnds> {
    let (first, rest) = call.args.split_first()?;
    let with = |first: Expr| {
        let args = std::iter::once(first).chain(rest.iter().cloned()).collect();
        Expr::ScalarFunction(ScalarFunction { func: call.func.clone(), args })
    };
    let rest_is_exact = rest.iter().all(|arg| matches!(of(arg), Some(IntervalEnds::Exact)));
    match call.func.name() {
        "round" | "floor" | "ceil" | "trunc" if rest_is_exact => {
            let Span { lo, hi, numbers, .. } = both(first)?;
            Some(IntervalEnds::within(with(lo), with(hi), numbers))
        }
        "clamp" if rest_is_exact => clamped(first, rest, both),
        "exp" | "cbrt" if rest.is_empty() => {
            let Span { lo, hi, numbers, .. } = both(first)?;
            Some(IntervalEnds::within(with(lo), with(hi), numbers))
        }
        // A root is never negative, and a negative number has none.
        "sqrt" if rest.is_empty() => {
            let Span { lo, hi, numbers, .. } = both(first)?;
            let low = where_known(std::slice::from_ref(&lo), greatest(vec![lo.clone(), lit(0.0)]));
            Some(IntervalEnds::within(with(low), with(hi), numbers))
        }
        "ln" | "log2" | "log10" if rest.is_empty() => {
            let Span { lo, hi, numbers, .. } = both(first)?;
            Some(IntervalEnds::within(
                where_positive(lo, &with),
                where_positive(hi, &with),
                numbers,
            ))
        }
        "abs" if rest.is_empty() => {
            let Span { lo, hi, numbers, .. } = both(first)?;
            let negative = |e: &Expr| Expr::Negative(Box::new(e.clone()));
            let ends = [lo.clone(), hi.clone()];
            let low = greatest(vec![lo.clone(), negative(&hi), lit(0.0)]);
            let high = greatest(vec![negative(&lo), hi]);
            Some(IntervalEnds::within(where_known(&ends, low), where_known(&ends, high), numbers))
        }
        // A number that a floor hides is replaced by another argument, which may be far from it.
        "greatest" | "least" | "coalesce" if may_be_hidden => None,
        // Both functions skip NULL arguments.
        name @ ("greatest" | "least") => {
            let (lows, highs, all) = ends_of_all(&call.args, both)?;
            let pick = |ends| if name == "least" { least(ends) } else { greatest(ends) };
            let ends = lows.iter().chain(&highs).zip(call.args.iter().chain(&call.args));
            // An argument that is not NULL needs a known end.
            let told = ends.map(|(end, arg)| end.clone().is_not_null().or(arg.clone().is_null()));
            let told = told.reduce(Expr::and)?;
            let known = |ends| {
                let branch = (Box::new(told.clone()), Box::new(pick(ends)));
                Expr::Case(Case::new(None, vec![branch], None))
            };
            Some(IntervalEnds::within(known(lows), known(highs), all))
        }
        // If the value is NULL, it has no ±, so the ends do not matter.
        "nullif" if rest_is_exact => of(first),
        "coalesce" => {
            let (lows, highs, all) = ends_of_all(&call.args, both)?;
            // The ends of the argument that is shown, even if they are not known.
            let taken = |ends: Vec<Expr>| {
                let there = call.args.iter().map(|arg| Box::new(arg.clone().is_not_null()));
                let branches = there.zip(ends.into_iter().map(Box::new)).collect();
                Expr::Case(Case::new(None, branches, None))
            };
            Some(IntervalEnds::within(taken(lows), taken(highs), all))
        }
        _ => None,
    }
}

/// A number between two bounds without noise, with both of its ends between them.
fn clamped(
    first: &Expr,
    bounds: &[Expr],
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<IntervalEnds> {
    let [low, high] = bounds else { return None };
    let Span { lo, hi, numbers, .. } = both(first)?;
    let (low, high) = (both(low)?.lo, both(high)?.hi);
    let held = |end: Expr| {
        let below = least(vec![end.clone(), high.clone()]);
        where_known(std::slice::from_ref(&end), greatest(vec![below, low.clone()]))
    };
    Some(IntervalEnds::within(held(lo), held(hi), numbers))
}

/// The lower ends of some expressions, their upper ends, and how many numbers they depend on
/// together.
fn ends_of_all(
    args: &[Expr],
    both: &dyn Fn(&Expr) -> Option<Span>,
) -> Option<(Vec<Expr>, Vec<Expr>, u64)> {
    let (mut lows, mut highs, mut all) = (Vec::new(), Vec::new(), 0_u64);
    for arg in args {
        let Span { lo, hi, numbers, .. } = both(arg)?;
        lows.push(lo);
        highs.push(hi);
        all = all.checked_add(numbers)?;
    }
    Some((lows, highs, all))
}
