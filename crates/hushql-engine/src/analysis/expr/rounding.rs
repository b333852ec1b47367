//! Numbers that are rounded to decimal places, and numbers in buckets of equal width: their ranges
//! and keys.
//!
//! In: a call of ROUND, TRUNC, FLOOR, CEIL or `width_bucket` with total arguments. Out: its range,
//! from the ends of the argument's range, and every multiple or bucket in that range as a key. No
//! call fails.
//!
//! ```text
//! round(age, -1)                    age BETWEEN (17, 90)        20, 30, …, 90
//! width_bucket(fee, 0, 100, 4)      fee BETWEEN (0, 60)         1, 2, 3
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use num_traits::ToPrimitive;

use super::facts::{Facts, KeySource, Scope, decimal_unit, rational, type_range};
use super::interval::Interval;
use crate::analysis::expr::shape::{Total, castable, partial, readable, type_of, unit_of};
use crate::functions::{Direction, EqualBuckets, Rounding};
use crate::privacy::Rational;
use crate::refusal::Refusal;
use crate::sql_type::sql_type;

/// The largest number of multiples that is listed.
const MOST_MULTIPLES: i64 = 100_000;

/// The call, if it rounds a number to decimal places or rounds a decimal; `None` for any other
/// call.
///
/// # Guarantee
/// As for `total`.
///
/// # Errors
/// Refuses places that are not literal, and types that cannot be rounded.
pub(crate) fn rounded(
    call: &ScalarFunction,
    args: &[Total],
    whole: &Expr,
    scope: &Scope,
) -> Result<Option<Total>, Refusal> {
    let name = call.func.name();
    let direction = match name {
        "round" => Direction::Nearest,
        "trunc" => Direction::Zero,
        "floor" => Direction::Down,
        "ceil" => Direction::Up,
        _ => return Ok(None),
    };
    let Some(x) = args.first() else { return Ok(None) };
    let (from, to) = (type_of(&x.expr, &scope.schema)?, type_of(whole, &scope.schema)?);
    let written = call.args.first().map(readable).unwrap_or_default();
    let places = match args {
        [_] if from.is_decimal() => 0,
        [_, places] => match literal_places(&places.expr) {
            Some(places) => places,
            None => {
                let most = Rounding::MOST_PLACES;
                let why = format!("the places of {name} are a literal from -{most} to {most}");
                return Err(partial(whole, why, format!("{name}({written}, 2)")));
            }
        },
        _ => return Ok(None),
    };
    let Some(rounding) = Rounding::new(direction, places, &from, &to) else {
        let hint = match castable(&from) {
            true => format!("{name}(CAST({written} AS DOUBLE))"),
            false => "a number of at most 38 digits".to_owned(),
        };
        return Err(partial(
            whole,
            format!("{name} does not take values of type {}", sql_type(&from)),
            hint,
        ));
    };
    let limits = type_range(&to).unwrap_or_else(Interval::everything);
    let range = image(&rounding, &x.facts.range, &from, &limits);
    let facts = Facts {
        always: image(&rounding, &x.facts.always, &from, &limits).intersect(&limits),
        keys: multiples(&rounding, &range, &to),
        ..Facts::ranged(range, true)
    };
    Ok(Some(Total { expr: rounding.applied_to(x.expr.clone()), facts }))
}

fn literal_places(places: &Expr) -> Option<i32> {
    let Expr::Literal(value, _) = places else { return None };
    let places = rational(value).filter(Rational::is_integer)?.to_integer().to_i32()?;
    (-Rounding::MOST_PLACES..=Rounding::MOST_PLACES).contains(&places).then_some(places)
}

/// The range of the rounded numbers of a range. Rounding preserves the order.
fn image(rounding: &Rounding, range: &Interval, from: &DataType, limits: &Interval) -> Interval {
    if range.is_empty() {
        return Interval::empty();
    }
    if range.bounds().is_none() {
        return Interval::everything();
    }
    let own = type_range(from).map_or_else(|| range.clone(), |fits| range.intersect(&fits));
    let ends = match from.is_floating() {
        true => float_ends(&own),
        false => exact_ends(&own, from),
    };
    let rounded = ends.and_then(|ends| rounding.array(&cast(&ends, from).ok()?).ok());
    let end = |i: usize| rational(&ScalarValue::try_from_array(rounded.as_ref()?, i).ok()?);
    // An end that does not fit the type is NULL, and so are all values beyond it.
    let (least, most) = limits.bounds().unzip();
    Interval::new(end(0).or(least.cloned()), end(1).or(most.cloned()))
}

/// The ends of a range as floats. No float in the range is beyond the floats that are nearest to
/// its ends.
fn float_ends(range: &Interval) -> Option<ArrayRef> {
    let outward = range.round_outward_f64();
    let (lo, hi) = outward.bounds()?;
    Some(Arc::new(Float64Array::from(vec![lo.to_f64()?, hi.to_f64()?])))
}

/// The first and the last number of a type in a range, as decimals.
fn exact_ends(range: &Interval, data_type: &DataType) -> Option<ArrayRef> {
    let units = range.scale(&unit_of(data_type).recip()).integers();
    let (lo, hi) = units.bounds()?;
    let ends = vec![lo.to_integer().to_i128()?, hi.to_integer().to_i128()?];
    let scale = match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    Some(Arc::new(Decimal128Array::from(ends).with_precision_and_scale(38, scale).ok()?))
}

/// Every multiple of the rounding's unit in a range.
fn multiples(rounding: &Rounding, range: &Interval, to: &DataType) -> Option<KeySource> {
    let digits = match to {
        DataType::Float64 => 53,
        DataType::Float32 => 24,
        _ => 62,
    };
    let unit = decimal_unit(i8::try_from(rounding.places()).ok()?);
    let (lo, hi) = range.bounds()?;
    // The ends are multiples, except for the last bits of a float, or at the limits of a type.
    let (lo, hi) = match to.is_floating() {
        true => ((lo / &unit).round(), (hi / &unit).round()),
        false => ((lo / &unit).ceil(), (hi / &unit).floor()),
    };
    let (lo, hi) = (lo.to_integer().to_i64()?, hi.to_integer().to_i64()?);
    let exact = -(1_i64 << digits)..=1_i64 << digits;
    if !exact.contains(&lo) || !exact.contains(&hi) || hi - lo >= MOST_MULTIPLES {
        return None;
    }
    let values = (lo..=hi).map(|k| rounding.multiple(k)).collect::<Option<Vec<_>>>()?;
    (!values.is_empty()).then(|| KeySource::Values(Arc::new(values)))
}

/// The facts about `width_bucket(x, lo, hi, n)`.
///
/// # Errors
/// Refuses bounds that are not literal.
pub(crate) fn bucket(
    args: &[Total],
    call: &ScalarFunction,
    whole: &Expr,
) -> Result<Facts, Refusal> {
    let literal = |i: usize| {
        let Expr::Literal(value, _) = &args.get(i)?.expr else { return None };
        Some(value)
    };
    let buckets = literal(1).zip(literal(2)).zip(literal(3));
    let buckets = buckets.and_then(|((lo, hi), n)| EqualBuckets::new(lo, hi, n));
    let (Some(x), Some(buckets)) = (args.first(), buckets) else {
        let written = call.args.first().map(readable).unwrap_or_default();
        let why = format!(
            "width_bucket takes two different literal bounds, and a literal number of buckets from 1 to {}",
            EqualBuckets::MOST
        );
        return Err(partial(whole, why, format!("width_bucket({written}, 0, 100, 10)")));
    };
    let ends = |range: &Interval| {
        let outward = range.round_outward_f64();
        let (lo, hi) = outward.bounds()?;
        let one = |end: &Rational| buckets.bucket(end.to_f64()?);
        let (a, b) = (one(lo)?, one(hi)?);
        Some((a.min(b), a.max(b)))
    };
    let all = (0, buckets.last());
    let (first, last) = ends(&x.facts.range).unwrap_or(all);
    let (least, most) = ends(&x.facts.always).unwrap_or(all);
    Ok(Facts {
        always: Interval::integer_range(least, most),
        keys: Some(KeySource::Integers(first, last)),
        ..Facts::ranged(Interval::integer_range(first, last), true)
    })
}
