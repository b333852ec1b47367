//! Floats of one unit on a grid of integers, so that their sums do not depend on the order of rows;
//! and results that are clamped to their range.
//!
//! In: a range. Out: a grid for it, or its ends as values of a type.
//!
//! ```text
//! AVG(x) of one person, x in [0, 3]        the sum of round(x · 2^37), over 2^37 and the number of rows
//! AVG(x) of one person, x in [0, 2^45]     the sum of round(x), in 38 digits, over the number of rows
//! AVG(x) of one person, no range           the sum of round(x · 2^80), in 76 digits, over the number of rows
//! AVG(x) of one person, x STEP 0.1         the sum of round(x · 10), over 10 times the number of rows: a mean of 2 is exactly 2
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{Expr, lit};
use num_traits::ToPrimitive;

use crate::analysis::expr::domain::typed;
use crate::analysis::expr::facts::{Facts, KeySource, type_range};
use crate::analysis::expr::grid_limits::{binary_places, widest};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::unit_of;
use crate::dialect::aggregate::argument_of;
use crate::functions::{DecimalLiteral, clamp};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};

/// The ends of a range as values of a type, if both can be represented.
pub(super) fn ends(range: &Interval, data_type: &DataType) -> Option<(ScalarValue, ScalarValue)> {
    let (lo, hi) = range.bounds()?;
    let end = |value: &Rational| match data_type {
        DataType::Float64 => Some(ScalarValue::Float64(Some(value.to_f64()?))),
        DataType::Decimal128(precision, scale) => {
            let units = (value / unit_of(data_type)).floor().to_integer().to_i128()?;
            Some(ScalarValue::Decimal128(Some(units), *precision, *scale))
        }
        integer if integer.is_integer() => {
            typed(&value.floor().to_integer().to_string(), integer).ok()
        }
        _ => None,
    };
    let fits = type_range(data_type).is_none_or(|fits| range.is_within(&fits));
    if fits { end(lo).zip(end(hi)) } else { None }
}

pub(super) fn clamped(expr: Expr, bounds: &Option<(ScalarValue, ScalarValue)>) -> Expr {
    match bounds {
        Some((lo, hi)) => clamp(expr, lo.clone(), hi.clone()),
        None => expr,
    }
}

/// A grid on which floats are summed as integers, so that the order does not matter.
#[derive(Debug, Clone)]
pub(super) struct FloatGrid {
    lo: f64,
    hi: f64,
    /// The number of steps per 1.
    per_one: f64,
    /// The type that counts steps.
    steps: DataType,
}

impl FloatGrid {
    /// The number of steps per 1.
    pub(super) fn per_one(&self) -> f64 {
        self.per_one
    }

    /// The same grid. If sums may have many rows, its steps are counted in 38 digits: the steps of
    /// a value stay within 2³⁹, so that 64 bits hold the sum of 2²⁴ values.
    pub(super) fn for_many(self, many: bool) -> Self {
        let steps = match self.steps {
            DataType::Int64 if many => DataType::Decimal128(38, 0),
            enough => enough,
        };
        Self { steps, ..self }
    }

    /// The value in steps, rounded.
    pub(super) fn steps(&self, value: Expr) -> Expr {
        let value = double(value);
        let cut = |x: f64| ScalarValue::Float64(Some(x));
        let steps = round(vec![clamp(value, cut(self.lo), cut(self.hi)) * lit(self.per_one)]);
        Expr::TryCast(TryCast::new(Box::new(steps), self.steps.clone()))
    }

    /// A number of steps as a value.
    pub(super) fn value(&self, steps: Expr) -> Expr {
        double(steps) / lit(self.per_one)
    }

    /// The mean of `n` values whose sum is `steps` steps; NULL if there are no values. It is
    /// rounded once.
    pub(super) fn mean(&self, steps: Expr, n: Expr) -> Expr {
        double(steps) / (nullif(double(n), lit(0.0)) * lit(self.per_one))
    }
}

/// n² times the covariance of two columns: nΣxy − ΣxΣy, exactly, as a float that is rounded once.
///
/// # Guarantee
/// It fails for no values. The factors have at most 2¹²⁷, or are the number of rows and a sum of
/// products, so the difference stays below 2²⁵⁵.
pub(super) fn moment(n: &Expr, products: Expr, first: Expr, second: Expr) -> Expr {
    let wide = |x: Expr| Expr::TryCast(TryCast::new(Box::new(x), DataType::Decimal256(38, 0)));
    double(wide(n.clone()) * wide(products) - wide(first) * wide(second))
}

fn double(x: Expr) -> Expr {
    Expr::TryCast(TryCast::new(Box::new(x), DataType::Float64))
}

/// The decimal places of all values of a float column, if they are listed or evenly spaced
/// decimals.
fn places(keys: &KeySource) -> Option<u32> {
    match keys {
        KeySource::Ticks(ticks) => match ticks.grid() {
            Grid::Integer => Some(0),
            Grid::Decimal { scale } => u32::try_from(scale).ok(),
            Grid::Binary { .. } => None,
        },
        KeySource::Values(values) => {
            let one = |value: &ScalarValue| match value {
                ScalarValue::Float64(Some(x)) => {
                    Some(DecimalLiteral::parse(&x.to_string())?.scale.into())
                }
                _ => None,
            };
            let present = values.iter().filter(|value| !value.is_null());
            present.map(one).try_fold(0, |most: u32, places| Some(most.max(places?)))
        }
        KeySource::Integers(..) => None,
    }
}

pub(super) fn no_grid(text: &str) -> Refusal {
    Refusal::new(
        Reason::NoRange,
        text,
        format!(
            "{text} of one person's floats has no range, and without one the result depends on the order of the rows"
        ),
        format!(
            "CLAMP({0}, lo, hi) in place of {0}, or the column's domain BETWEEN (lo, hi)",
            argument_of(text)
        ),
    )
}

/// A grid for sums of floats without a range: 2⁸⁰ steps per 1, in 76 digits.
///
/// # Guarantee
/// Values end at ±10⁴⁰, and a sum of up to 2³⁶ of them fits. Integers are added, so the order of
/// rows does not matter; beyond, the sum wraps around at 256 bits, in any order.
fn grid_of_any() -> FloatGrid {
    const END: f64 = 1e40;
    FloatGrid { lo: -END, hi: END, per_one: 80_f64.exp2(), steps: DataType::Decimal256(76, 0) }
}

/// A grid for sums over the rows of one unit, with or without a range.
pub(super) fn grid_of_rows(values: &Facts, text: &str) -> Result<FloatGrid, Refusal> {
    match values.known().bounds() {
        Some(_) => grid_of_sums(values, text),
        None => Ok(grid_of_any()),
    }
}

pub(super) fn grid_of(range: &Interval, text: &str) -> Result<FloatGrid, Refusal> {
    let none = || no_grid(text);
    let (lo, hi) = range.bounds().ok_or_else(none)?;
    let magnitude = range.max_abs().ok_or_else(none)?;
    if magnitude > widest() {
        return Err(none());
    }
    let log2 = binary_places(&magnitude);
    let (lo, hi) = lo.to_f64().zip(hi.to_f64()).ok_or_else(none)?;
    Ok(FloatGrid { lo, hi, per_one: f64::from(log2).exp2(), steps: DataType::Int64 })
}

/// A grid for sums on which whole numbers stay exact, even if their range is wide.
///
/// # Guarantee
/// A range is at most 2⁶² wide, so a sum of up to 2⁶⁰ such numbers fits the 38 digits of its type.
///
/// Decimals of a list or with a step are added up as decimals: a float near 1.7 is 17 steps of 0.1,
/// and a mean of 2 is exactly 2.
pub(super) fn grid_of_sums(values: &Facts, text: &str) -> Result<FloatGrid, Refusal> {
    /// 2³⁹, the largest number of steps of a decimal grid. Up to it, the product of a float and the
    /// steps per 1 is off by less than half a step.
    const MOST: f64 = 549_755_813_888.0;
    let grid = grid_of(&values.known(), text)?;
    let decimal = values.keys.as_ref().and_then(places).filter(|places| *places <= 15);
    if let Some(per_one) = decimal.map(|places| 10_f64.powi(places.cast_signed()))
        && grid.lo.abs().max(grid.hi.abs()) * per_one <= MOST
    {
        return Ok(FloatGrid { per_one, ..grid });
    }
    Ok(match grid.per_one < 1.0 {
        true => FloatGrid { per_one: 1.0, steps: DataType::Decimal128(38, 0), ..grid },
        false => grid,
    })
}

/// The facts about a sum of at most `rows` values of a range. It is NULL without rows.
pub(super) fn summed(values: &Facts, rows: Option<u64>, data_type: &DataType) -> Facts {
    let whole = type_range(data_type).unwrap_or_else(Interval::everything);
    let sum = |range: &Interval| {
        let zero = Interval::point(Rational::from_integer(0.into()));
        let sum = range.union(&zero).mul(&Interval::integer_range(1, rows?.max(1)));
        let sum = if data_type.is_floating() { sum.round_outward_f64() } else { sum };
        // A sum that does not fit its type wraps around to any value.
        sum.is_within(&whole).then_some(sum)
    };
    let range = sum(&values.range).unwrap_or_else(Interval::everything);
    let always = sum(&values.known()).unwrap_or_else(|| whole.clone());
    Facts { always, ..Facts::ranged(range, true) }
}
