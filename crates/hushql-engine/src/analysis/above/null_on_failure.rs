//! Computations on released values: NULL in place of a failure, or of a number that wraps around.
//!
//! In: the public plan of a query. Out: the same plan, with NULL for these results: arithmetic on
//! numbers and dates that does not fit, is not finite or divides by zero; casts that fail; square
//! roots of negative numbers; calls of other functions on rows on which they fail (`functions`:
//! `decided`). Integers are added up in a wider type. Noise alone can make a released count large,
//! zero or negative. Without these changes, the query would then fail after it was paid for, or
//! return a wrong number.
//!
//! ```text
//! sum / n                sum / n, or NULL
//! CAST(n AS TINYINT)     TRY_CAST(n AS TINYINT)
//! TRY_CAST(n AS TIME)    TRY_CAST(n AS TIME), or NULL where n is not a time of a day
//! sqrt(variance)         sqrt(variance), or NULL where it is negative
//! chr(n)                 NULL where n is not the code of a character
//! (SELECT x FROM t)      NULL where t has several rows
//! SUM(n)                 TRY_CAST(SUM(CAST(n AS DECIMAL(20, 0))) AS BIGINT)
//! ```
//!
//! Upstream: docs/upstream.md, 16. Keep it even if DataFusion fails instead of wrapping: NULL is
//! our choice.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Window,
};

use crate::analysis::above::one_row::in_one_row;
use crate::analysis::below::relation::named;
use crate::analysis::expr::facts::rational;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::functions::{
    Decision, checked, checked_abs, decision, has_ends, matched, matching, not_negative, or_null,
    sound, ticks_a_day, without_nan,
};
use crate::privacy::Rational;

/// A plan in which no arithmetic, cast or square root of released values fails, and none wraps.
pub(crate) fn null_on_failure(plan: LogicalPlan) -> std::result::Result<LogicalPlan, NotAnalyzed> {
    rewritten(plan, total)
}

/// A plan over public tables alone in which nothing wraps, no float is NaN, no date is outside the
/// calendar, and no number is read as a time outside of a day. Other failures are reported, and
/// cost nothing.
pub(crate) fn without_wrapping(plan: LogicalPlan) -> std::result::Result<LogicalPlan, NotAnalyzed> {
    rewritten(plan, of_public_rows)
}

fn of_public_rows(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Ok(result) = expr.get_type(schema) else { return Ok(Transformed::no(expr)) };
    let operator = if let Expr::BinaryExpr(binary) = &expr { Some(binary.op) } else { None };
    let divides = matches!(operator, Some(Operator::Divide | Operator::Modulo));
    if result.is_integer() {
        return if divides { Ok(Transformed::no(expr)) } else { fitting(expr, schema) };
    }
    if divides && let Some(quotient) = finite(&expr, schema) {
        return Ok(Transformed::yes(quotient));
    }
    if operator.is_some() && ticks_a_day(&result).is_some() {
        return Ok(Transformed::yes(sound(expr, &result)));
    }
    if has_ends(&result) && reads_numbers(&expr, schema) {
        return Ok(Transformed::yes(sound(expr, &result)));
    }
    let function = if let Expr::ScalarFunction(call) = &expr {
        decision(call.func.name()).is_some()
    } else if let Expr::Cast(cast) = &expr {
        cast.expr.get_type(schema).is_ok_and(|from| from.is_string())
    } else {
        false
    };
    if result.is_floating() && (operator.is_some() || function) {
        return Ok(Transformed::yes(without_nan(expr, &result)));
    }
    Ok(Transformed::no(expr))
}

/// True for a cast of a number, and for a call of DataFusion's with a number among its arguments:
/// as a date, a moment or a time, such a number may be one that cannot be written.
fn reads_numbers(expr: &Expr, schema: &DFSchema) -> bool {
    let arguments =
        if let Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) = expr {
            std::slice::from_ref(expr.as_ref())
        } else if let Expr::ScalarFunction(call) = expr
            && decision(call.func.name()).is_some()
        {
            call.args.as_slice()
        } else {
            return false;
        };
    arguments.iter().any(|argument| argument.get_type(schema).is_ok_and(|own| own.is_numeric()))
}

fn rewritten(
    plan: LogicalPlan,
    rewrite: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> std::result::Result<LogicalPlan, NotAnalyzed> {
    let replaced = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let total = expr.transform_up(|e| rewrite(e, &schema))?;
            Ok(total.update_data(|e| name.restore(e)))
        })?;
        node.transform_data(with_wide_sums)
    });
    replaced.map(|t| t.data).map_err(|e| internal(&e))
}

fn total(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        // A cast that cannot fail stays a cast. The planner can look through it when it turns a
        // subquery into a join.
        Expr::Cast(Cast { expr, field })
            if !expr.get_type(schema).is_ok_and(|from| widens(&from, field.data_type())) =>
        {
            let to = field.data_type().clone();
            let from = expr.get_type(schema).ok();
            let cast = Expr::TryCast(TryCast { expr, field });
            // Every date lies in the calendar when it becomes a timestamp.
            Ok(Transformed::yes(
                match has_ends(&to) && from.is_none_or(|from| ticks_a_day(&from).is_none()) {
                    true => sound(cast, &to),
                    false => cast,
                },
            ))
        }
        Expr::TryCast(cast)
            if has_ends(cast.field.data_type())
                && cast.expr.get_type(schema).is_ok_and(|from| ticks_a_day(&from).is_none()) =>
        {
            let to = cast.field.data_type().clone();
            Ok(Transformed::yes(sound(Expr::TryCast(cast), &to)))
        }
        Expr::ScalarFunction(call) if call.func.name() == "sqrt" && call.args.len() == 1 => {
            Ok(Transformed::yes(rooted(call, schema)?))
        }
        Expr::ScalarFunction(call) if decision(call.func.name()) == Some(Decision::Cast) => {
            let to = Expr::ScalarFunction(call.clone()).get_type(schema)?;
            let inner = call.args.into_iter().next().unwrap_or_default();
            let cast = Expr::TryCast(TryCast::new(Box::new(inner), to.clone()));
            Ok(Transformed::yes(if has_ends(&to) { sound(cast, &to) } else { cast }))
        }
        other => {
            let fitted = fitting(other, schema)?;
            match fitted.transformed {
                true => Ok(fitted),
                false => fitted.transform_data(|expr| null_where_it_fails(expr, schema)),
            }
        }
    }
}

/// Calls of functions, moved dates and patterns, with NULL on the rows on which they would fail.
fn null_where_it_fails(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some((how, text, pattern)) = matching(&expr) {
        // A literal pattern has already been tried.
        return Ok(match matches!(pattern, Expr::Literal(..)) {
            true => Transformed::no(expr),
            false => {
                let operands = vec![text.clone(), pattern.clone()];
                Transformed::yes(or_null(matched(how)).call(operands))
            }
        });
    }
    if let Expr::ScalarSubquery(subquery) = &expr {
        return Ok(match in_one_row(subquery)? {
            Some(one) => Transformed::yes(Expr::ScalarSubquery(one)),
            None => Transformed::no(expr),
        });
    }
    if let Some(computed) = moved(&expr, schema).or_else(|| finite(&expr, schema)) {
        return Ok(Transformed::yes(computed));
    }
    let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    match decision(call.func.name()) {
        Some(Decision::OrNull | Decision::Tried | Decision::Formats) => {
            call.func = or_null(call.func);
            let call = Expr::ScalarFunction(call);
            let result = call.get_type(schema)?;
            Ok(Transformed::yes(if has_ends(&result) { sound(call, &result) } else { call }))
        }
        // Other functions than DataFusion's are the engine's own, and total.
        Some(Decision::AsItIs | Decision::Cast | Decision::Refused) | None => {
            Ok(Transformed::no(Expr::ScalarFunction(call)))
        }
    }
}

/// Arithmetic on dates, moments and intervals, with NULL for results that do not fit.
fn moved(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let result = expr.get_type(schema).ok()?;
    let fails = matches!(
        result,
        DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::Duration(_)
    );
    match fails {
        true => checked(left.as_ref().clone(), *op, right.as_ref().clone(), &result)
            .map(|moved| sound(moved, &result)),
        false => None,
    }
}

/// Arithmetic on floats, with NULL for results that are infinite or NaN, such as a quotient by
/// zero.
fn finite(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let result = expr.get_type(schema).ok().filter(DataType::is_floating)?;
    let is_same = |operand: &Expr| operand.get_type(schema).is_ok_and(|own| own == result);
    let operands = is_same(left) && is_same(right);
    operands.then(|| checked(left.as_ref().clone(), *op, right.as_ref().clone(), &result))?
}

/// True if every value of one numeric type has an equal or close value in another.
fn widens(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, DataType::Float64) => from.is_integer() || *from == DataType::Float32,
        (from, DataType::Int64) => {
            from.is_signed_integer()
                || matches!(from, DataType::UInt8 | DataType::UInt16 | DataType::UInt32)
        }
        _ => false,
    }
}

/// The same square root, with NULL for negative arguments.
fn rooted(mut call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    for x in &mut call.args {
        let data_type = x.get_type(schema)?;
        *x = not_negative(std::mem::take(x), &data_type);
    }
    Ok(Expr::ScalarFunction(call))
}

/// Arithmetic on integers and decimals, with NULL for results that do not fit. Expressions without
/// a type refer to a column of an outer query, and stay as they are.
fn fitting(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let exact = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
    let Some(result) = expr.get_type(schema).ok().filter(exact) else {
        return Ok(Transformed::no(expr));
    };
    let replaced = if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr {
        let operands = [left, right]
            .into_iter()
            .all(|e| e.get_type(schema).is_ok_and(|t| exact(&t) || t == DataType::Null));
        // A quotient by such a literal always fits.
        let plain = result.is_integer()
            && matches!(op, Operator::Divide | Operator::Modulo)
            && is_plain_divisor(right);
        if operands && !plain {
            checked(left.as_ref().clone(), *op, right.as_ref().clone(), &result)
        } else {
            None
        }
    } else if let Expr::Negative(inner) = &expr
        && result.is_signed_integer()
    {
        let zero = Expr::Literal(ScalarValue::new_zero(&result)?, None);
        checked(zero, Operator::Minus, inner.as_ref().clone(), &result)
    } else if let Expr::ScalarFunction(call) = &expr
        && call.func.name() == "abs"
        && result.is_signed_integer()
        && let [x] = call.args.as_slice()
    {
        Some(checked_abs(x.clone(), &result))
    } else {
        None
    };
    Ok(match replaced {
        Some(replaced) => Transformed::yes(replaced),
        None => Transformed::no(expr),
    })
}

/// True if a divisor is a literal other than 0 and −1.
fn is_plain_divisor(divisor: &Expr) -> bool {
    let Expr::Literal(value, _) = divisor else { return false };
    match rational(value) {
        Some(number) => [0, -1].iter().all(|n| number != Rational::from_integer((*n).into())),
        None => false,
    }
}

/// Sums of integers in 20 digits or more, and sums and means of decimals in 56 or more, cast back
/// to their type if they fit.
fn with_wide_sums(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Aggregate(aggregate) => {
            let schema = Arc::clone(&aggregate.schema);
            let first = schema.fields().len().saturating_sub(aggregate.aggr_expr.len());
            let (wide, sums) =
                widened(&aggregate.aggr_expr, aggregate.input.schema(), &schema, first)?;
            if sums.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
            }
            let Aggregate { input, group_expr, .. } = aggregate;
            let below = LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, wide)?);
            Ok(Transformed::yes(narrowed(below, &schema, &sums)?))
        }
        LogicalPlan::Window(window) => {
            let schema = Arc::clone(&window.schema);
            let first = schema.fields().len().saturating_sub(window.window_expr.len());
            let (wide, sums) = widened(&window.window_expr, window.input.schema(), &schema, first)?;
            if sums.is_empty() {
                return Ok(Transformed::no(LogicalPlan::Window(window)));
            }
            let below = LogicalPlan::Window(Window::try_new(wide, window.input)?);
            Ok(Transformed::yes(narrowed(below, &schema, &sums)?))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The calls with wider arguments for sums, and the positions of the widened results.
fn widened(
    calls: &[Expr],
    input: &DFSchema,
    schema: &DFSchema,
    first: usize,
) -> Result<(Vec<Expr>, Vec<usize>)> {
    let (mut wide, mut sums) = (Vec::new(), Vec::new());
    for (i, call) in calls.iter().enumerate() {
        let widened = wide_sum(call.clone(), input);
        if widened.transformed {
            let (_, field) = schema.qualified_field(first + i);
            sums.push(first + i);
            wide.push(widened.data.unalias().alias(field.name()));
        } else {
            wide.push(call.clone());
        }
    }
    Ok((wide, sums))
}

fn wide_sum(mut call: Expr, input: &DFSchema) -> Transformed<Expr> {
    let mut inner = &mut call;
    while let Expr::Alias(alias) = inner {
        inner = &mut alias.expr;
    }
    let (name, args) = if let Expr::AggregateFunction(sum) = inner {
        (sum.func.name(), &mut sum.params.args)
    } else if let Expr::WindowFunction(sum) = inner {
        (sum.fun.name(), &mut sum.params.args)
    } else {
        return Transformed::no(call);
    };
    if let [x] = args.as_mut_slice()
        && let Some(wide) = x.get_type(input).ok().and_then(|data_type| wider(name, &data_type))
    {
        let narrow = std::mem::take(x);
        *x = Expr::Cast(Cast::new(Box::new(narrow), wide));
        return Transformed::yes(call);
    }
    Transformed::no(call)
}

/// The type in which values of a type are added up, so that the sum fits. In their own type, the
/// sum would wrap and the mean would fail.
fn wider(aggregate: &str, of: &DataType) -> Option<DataType> {
    match (aggregate, of) {
        ("sum", whole) if whole.is_integer() => Some(DataType::Decimal128(20, 0)),
        // The 38 digits of a decimal, and 18 more for the number of rows.
        ("sum" | "avg", DataType::Decimal128(_, scale)) => Some(DataType::Decimal256(56, *scale)),
        _ => None,
    }
}

/// The columns of a plan with the names and types of a schema. The columns at `sums` are cast back
/// to its types.
fn narrowed(plan: LogicalPlan, schema: &DFSchemaRef, sums: &[usize]) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().zip(schema.iter()).enumerate();
    let columns = columns.map(|(i, (column, (qualifier, field)))| {
        let column: Column = column;
        if !sums.contains(&i) {
            return Expr::Column(column);
        }
        let sum = TryCast::new(Box::new(Expr::Column(column)), field.data_type().clone());
        named(Expr::TryCast(sum), qualifier, field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(plan))?))
}
