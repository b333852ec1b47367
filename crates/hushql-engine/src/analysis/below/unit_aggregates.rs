//! Below a release: the aggregates of one unit's rows, or of those of a block of units.
//!
//! In: a call of a per-unit aggregate. Out: an [`Inner`]: what is computed, and how the result
//! follows. Each result is a function of the *multiset* of rows and has a value or NULL for all of
//! them. Floats are summed on a grid of integers, because a float sum depends on the order of rows.
//!
//! ```text
//! AVG(x)      the sum of x in steps of a grid, over the number of values
//! ```

use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::sqrt;
use datafusion::functions_aggregate::expr_fn::{
    avg, bool_and, bool_or, count, count_distinct, max, median, min, sum,
};
use datafusion::logical_expr::expr::{AggregateFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use num_traits::ToPrimitive;

use super::float_grid::{clamped, ends, grid_of, grid_of_rows, moment, no_grid, summed};
use super::relation::PrivateRelation;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::facts::Facts;
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::{Total, is_temporal, unit_of};
use crate::analysis::expr::{exact, total};
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::functions::{clamp, without_nan};
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// Builds aggregates from arguments and a FILTER.
pub(super) type Computed =
    Box<dyn Fn(Vec<Expr>, Option<Expr>) -> datafusion::common::Result<Vec<Expr>>>;

/// An aggregate of one unit's rows: its arguments, the aggregates that are computed from them, and
/// how the result follows from these.
pub(super) struct Inner {
    pub(super) arguments: Vec<Expr>,
    pub(super) filter: Option<Expr>,
    pub(super) computed: Computed,
    pub(super) result: Box<dyn Fn(Vec<Expr>) -> Expr>,
    pub(super) facts: Facts,
}

/// The parts of a call below a release.
pub(super) struct InnerCall<'a> {
    pub(super) name: &'a str,
    pub(super) distinct: bool,
    pub(super) text: String,
    /// Its argument, and the facts about it.
    pub(super) argument: Expr,
    pub(super) facts: Facts,
    pub(super) data_type: DataType,
    /// Its second argument.
    pub(super) second: Option<Total>,
    pub(super) filter: Option<Expr>,
    result_type: DataType,
    /// The most rows that one unit has.
    rows: Option<u64>,
    /// True if the rows are those of a block of units.
    of_block: bool,
}

/// Splits a call into parts, and makes its argument and its FILTER total.
pub(super) fn asked<'a>(
    call: &'a Expr,
    flow: &PrivateRelation,
    rows: Option<u64>,
) -> Result<InnerCall<'a>, NotAnalyzed> {
    let text = call.schema_name().to_string();
    let Some(AggregateFunction { func, params }) = CallOf::function(call) else {
        return Err(unknown(&text).into());
    };
    if !params.order_by.is_empty() || params.null_treatment.is_some() {
        return Err(unknown(&text).into());
    }
    let schema = flow.plan.schema();
    let (filter, scope) = match params.filter.as_deref() {
        None => (None, flow.scope.clone()),
        Some(filter) => (Some(total(filter, &flow.scope)?.expr), flow.scope.narrowed(filter)),
    };
    let (argument, second) = match params.args.as_slice() {
        [argument] => (argument, None),
        [argument, second] => (argument, Some(exact(second, &scope)?)),
        _ => return Err(unknown(&text).into()),
    };
    let Total { expr, facts } = exact(argument, &scope)?;
    let data_type = expr.get_type(schema).map_err(|e| internal(&e))?;
    let argument = without_nan(expr, &data_type);
    let (name, distinct) = (func.name(), params.distinct);
    if matches!(name, "sum" | "avg") && !data_type.is_numeric() {
        return Err(Refusal::new(
            Reason::Operand,
            &text,
            format!("SUM and AVG take numbers, not {}", sql_type(&data_type)),
            "COUNT, MIN or MAX, or a CAST to a number",
        )
        .into());
    }
    let result_type = call.get_type(schema).map_err(|e| internal(&e))?;
    let of_block = flow.subject.blocks().is_some();
    Ok(InnerCall {
        name,
        distinct,
        text,
        argument,
        facts,
        data_type,
        second,
        filter,
        result_type,
        rows,
        of_block,
    })
}

/// The aggregates of one column that are exact functions of a multiset of rows.
pub(super) fn of_one(asked: InnerCall<'_>) -> Result<Inner, NotAnalyzed> {
    match (asked.name, asked.distinct) {
        ("count", _) => Ok(counted(asked)),
        // ANY_VALUE may be any of its values, and the smallest one depends on no order.
        ("min" | "max" | "any_value", _) => Ok(extreme(asked)),
        ("bool_or" | "bool_and", false) if asked.data_type == DataType::Boolean => {
            Ok(condition(asked))
        }
        ("median", false)
            // For 32-bit floats, the kernel's sum of two large values can be infinite.
            if matches!(asked.data_type, DataType::Float64 | DataType::Decimal128(..)) =>
        {
            Ok(middle(asked))
        }
        ("median", false) if is_temporal(&asked.data_type) => Err(no_middle(&asked.text).into()),
        ("stddev" | "stddev_pop" | "var" | "var_samp" | "var_pop", false)
            if asked.data_type.is_floating() =>
        {
            Ok(spread(asked)?)
        }
        ("sum", false) if asked.data_type.is_floating() => Ok(float_sum(asked)?),
        ("sum", false) => Ok(exact_sum(asked)),
        ("avg", false) if asked.data_type.is_floating() => Ok(float_mean(asked)?),
        ("avg", false) if has_few_digits(&asked) => Ok(decimal_mean(asked)?),
        _ => Err(unknown(&asked.text).into()),
    }
}

/// One aggregate of the argument.
fn one(build: fn(Expr) -> Expr) -> Computed {
    Box::new(move |arguments, filter| Ok(vec![with_filter(build(first(arguments)), filter)?]))
}

/// The first argument.
fn first(arguments: Vec<Expr>) -> Expr {
    arguments.into_iter().next().unwrap_or_else(|| lit(1_i64))
}

/// The result of the last aggregate.
pub(super) fn only(mut results: Vec<Expr>) -> Expr {
    results.pop().unwrap_or_else(|| lit(ScalarValue::Null))
}

fn counted(asked: InnerCall<'_>) -> Inner {
    let most = asked.rows.and_then(|rows| i64::try_from(rows).ok());
    let always = Interval::integer_range(0, most.unwrap_or(i64::MAX));
    let range = match most {
        Some(_) => always.clone(),
        None => Interval::everything().above(&Rational::from_integer(0.into())),
    };
    Inner {
        arguments: vec![asked.argument],
        filter: asked.filter,
        computed: one(if asked.distinct { count_distinct } else { count }),
        result: Box::new(move |results| match most {
            Some(most) => {
                let end = |n: i64| ScalarValue::Int64(Some(n));
                clamp(only(results), end(0), end(most))
            }
            None => only(results),
        }),
        facts: Facts { always, ..Facts::ranged(range, false) },
    }
}

/// The least or greatest value of a unit. It is one of the unit's values, so it has their domain.
fn extreme(asked: InnerCall<'_>) -> Inner {
    let null_key = asked.facts.null_key || asked.filter.is_some();
    Inner {
        arguments: vec![asked.argument],
        filter: asked.filter,
        computed: one(if asked.name == "max" { max } else { min }),
        result: Box::new(only),
        facts: Facts { nullable: true, null_key, is_unit: false, ..asked.facts },
    }
}

/// True if a condition holds on some row (BOOL_OR) or on every row (BOOL_AND).
fn condition(asked: InnerCall<'_>) -> Inner {
    Inner {
        arguments: vec![asked.argument],
        filter: asked.filter,
        computed: one(if asked.name == "bool_or" { bool_or } else { bool_and }),
        result: Box::new(only),
        facts: Facts::of_type(&DataType::Boolean),
    }
}

/// The median: the middle value, or the midpoint of the two middle values.
fn middle(asked: InnerCall<'_>) -> Inner {
    let bounds = ends(&asked.facts.known(), &asked.result_type);
    Inner {
        arguments: vec![asked.argument],
        filter: asked.filter,
        computed: one(median),
        // The midpoint of two infinities can be NaN.
        result: Box::new(move |results| match &bounds {
            Some(_) => clamped(only(results), &bounds),
            None => without_nan(only(results), &asked.result_type),
        }),
        facts: Facts { nullable: true, keys: None, is_unit: false, ..asked.facts },
    }
}

/// A variance or standard deviation of floats, from their exact moments on a grid around the middle
/// of the range. Only the values are rounded, to steps of less than 2⁻³⁷ of the range, and at the
/// end the result.
///
/// Each value is within w/2 of the middle of a range of width w. So a variance is at most w²/4. If
/// the divisor is one less than the number of values, it is at most w²/2.
fn spread(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let known = asked.facts.known();
    let none = || no_grid(&asked.text);
    let (lo, hi) = known.bounds().ok_or_else(none)?;
    let (width, middle) = (hi - lo, (lo + hi) / Rational::from_integer(2.into()));
    let centered = known.sub(&Interval::point(middle.clone()));
    let grid = grid_of(&centered.round_outward_f64(), &asked.text)?.for_many(asked.of_block);
    let middle = middle.to_f64().ok_or_else(none)?;
    let (root, sample) = match asked.name {
        "stddev" => (true, true),
        "stddev_pop" => (true, false),
        "var_pop" => (false, false),
        _ => (false, true),
    };
    let share = Rational::new(1.into(), (if sample { 2 } else { 4 }).into());
    let most = (&width * &width * share).to_f64().filter(|most| most.is_finite());
    let most = most.ok_or_else(none)?;
    // Slightly more, because floats round.
    let most = if root { most.sqrt() } else { most } * (1.0 + 1e-9);
    let end = Rational::from_float(most).ok_or_else(none)?;
    let range = Interval::between(Rational::from_integer(0.into()), end);
    let facts = Facts::ranged(range, true);
    let real = |e: Expr| Expr::TryCast(TryCast::new(Box::new(e), DataType::Float64));
    let steps = grid.per_one();
    Ok(Inner {
        arguments: vec![grid.steps(real(asked.argument) - lit(middle))],
        filter: asked.filter,
        computed: Box::new(|arguments, filter| {
            let argument = first(arguments);
            let digits = DataType::Decimal128(19, 0);
            let wide = Expr::TryCast(TryCast::new(Box::new(argument.clone()), digits));
            Ok(vec![
                with_filter(sum(argument.clone()), filter.clone())?,
                with_filter(sum(wide.clone() * wide), filter.clone())?,
                with_filter(count(argument), filter)?,
            ])
        }),
        result: Box::new(move |results| {
            let [first, second, n] = <[Expr; 3]>::try_from(results)
                .unwrap_or_else(|_| [lit(0_i64), lit(0_i64), lit(0_i64)]);
            let squares = moment(&n, second, first.clone(), first);
            let n = real(n);
            let divisor = if sample { n.clone() - lit(1.0) } else { n.clone() };
            let variance = squares / nullif(n * divisor, lit(0.0)) / lit(steps * steps);
            let float = |x: f64| ScalarValue::Float64(Some(x));
            let most_variance = if root { most * most } else { most };
            let variance = clamp(variance, float(0.0), float(most_variance));
            if root { clamp(sqrt(variance), float(0.0), float(most)) } else { variance }
        }),
        facts,
    })
}

/// The facts of a result. What is not clamped to two ends can be any number: on a grid, values end
/// at its ends, and sums wrap around.
fn within(bounds: &Option<(ScalarValue, ScalarValue)>, facts: Facts) -> Facts {
    let any = Interval::everything;
    match bounds {
        Some(_) => facts,
        None => Facts { range: any(), always: any(), ..facts },
    }
}

/// A sum of floats, on a grid.
fn float_sum(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let grid = grid_of_rows(&asked.facts, &asked.text)?.for_many(asked.of_block);
    let facts = summed(&asked.facts, asked.rows, &asked.result_type);
    let bounds = ends(&facts.always, &asked.result_type);
    let facts = within(&bounds, facts);
    Ok(Inner {
        arguments: vec![grid.steps(asked.argument)],
        filter: asked.filter,
        computed: one(sum),
        result: Box::new(move |results| clamped(grid.value(only(results)), &bounds)),
        facts,
    })
}

/// A sum of whole numbers or decimals.
fn exact_sum(asked: InnerCall<'_>) -> Inner {
    let facts = summed(&asked.facts, asked.rows, &asked.result_type);
    let bounds = ends(&facts.always, &asked.result_type);
    Inner {
        arguments: vec![asked.argument],
        filter: asked.filter,
        computed: one(sum),
        result: Box::new(move |results| clamped(only(results), &bounds)),
        facts,
    }
}

/// A mean of floats: a sum on a grid, over a count.
fn float_mean(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let grid = grid_of_rows(&asked.facts, &asked.text)?.for_many(asked.of_block);
    let facts = Facts { keys: None, is_unit: false, nullable: true, ..asked.facts };
    let bounds = ends(&facts.known(), &asked.result_type);
    let facts = within(&bounds, facts);
    Ok(Inner {
        arguments: vec![grid.steps(asked.argument)],
        filter: asked.filter,
        computed: Box::new(|arguments, filter| {
            let argument = first(arguments);
            Ok(vec![
                with_filter(sum(argument.clone()), filter.clone())?,
                with_filter(count(argument), filter)?,
            ])
        }),
        result: Box::new(move |mut results| {
            let n = results.pop().unwrap_or_else(|| lit(0_i64));
            clamped(grid.mean(only(results), n), &bounds)
        }),
        facts,
    })
}

/// True if the values are decimals of at most 15 digits, by their type or their range. Their sums
/// do not overflow for any number of rows.
fn has_few_digits(asked: &InnerCall<'_>) -> bool {
    const MOST: u64 = 1_000_000_000_000_000;
    let unit = unit_of(&asked.data_type);
    let most = asked.facts.known().max_abs().map(|most| most / unit);
    matches!(asked.data_type, DataType::Decimal128(..))
        && most.is_some_and(|most| most <= Rational::from_integer(MOST.into()))
}

/// A mean of decimals with few digits, clamped to their range.
fn decimal_mean(asked: InnerCall<'_>) -> Result<Inner, Refusal> {
    let facts = Facts { keys: None, is_unit: false, nullable: true, ..asked.facts };
    let facts = Facts { always: facts.known(), ..facts };
    let bounds = ends(&facts.always, &asked.result_type);
    // A file may contain numbers with more digits than its type allows, and their mean would fail.
    let digits = ends(&facts.always, &asked.data_type);
    if digits.is_none() {
        return Err(unknown(&asked.text));
    }
    Ok(Inner {
        arguments: vec![clamped(asked.argument, &digits)],
        filter: asked.filter,
        computed: one(avg),
        result: Box::new(move |results| clamped(only(results), &bounds)),
        facts,
    })
}

fn no_middle(text: &str) -> Refusal {
    Refusal::new(
        Reason::Function,
        text,
        format!("{text} is not computed over the rows of one person"),
        "MIN or MAX of dates and timestamps, or MEDIAN(x - DATE '2000-01-01'), the days since then",
    )
}

pub(super) fn unknown(text: &str) -> Refusal {
    Refusal::new(
        Reason::Function,
        text,
        format!(
            "{text} is not supported over the rows of one person: its result may depend on their order"
        ),
        "COUNT, SUM, AVG, MIN, MAX, ANY_VALUE, MEDIAN, STDDEV, BOOL_OR or COUNT(DISTINCT x); for long decimals, AVG(CAST(x AS DOUBLE))",
    )
}

/// The call with a FILTER. DataFusion's own builder would lose DISTINCT.
pub(super) fn with_filter(call: Expr, filter: Option<Expr>) -> datafusion::common::Result<Expr> {
    let Expr::AggregateFunction(mut call) = call else {
        return internal_err!("{call} is no aggregate");
    };
    call.params.filter = filter.map(Box::new);
    Ok(Expr::AggregateFunction(call))
}
