//! Floats of one person on a grid of integers, so that their sums do not depend on the order of rows; and results that are
//! cut to the range that is claimed of them.
//!
//! In: a range. Out: a grid for it, or its ends as values of a type.
//!
//! ```text
//! AVG(x) of one person, x in [0, 3]        the sum of round(x · 2^37), over 2^37 and the number of rows
//! AVG(x) of one person, x in [0, 2^45]     the sum of round(x), in 38 digits, over the number of rows
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{Expr, lit};
use num_traits::ToPrimitive;

use crate::analysis::expr::domain::typed;
use crate::analysis::expr::facts::{Facts, type_range};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::unit_of;
use crate::analysis::measure::grid::{binary_places, widest};
use crate::functions::clamp;
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
    /// The number of steps in 1.
    per_one: f64,
    /// The type of a number of steps.
    steps: DataType,
}

impl FloatGrid {
    /// The number of steps in 1.
    pub(super) fn per_one(&self) -> f64 {
        self.per_one
    }

    /// The value in steps, rounded.
    pub(super) fn steps(&self, value: Expr) -> Expr {
        let value = Expr::TryCast(TryCast::new(Box::new(value), DataType::Float64));
        let cut = |x: f64| ScalarValue::Float64(Some(x));
        let steps = round(vec![clamp(value, cut(self.lo), cut(self.hi)) * lit(self.per_one)]);
        Expr::TryCast(TryCast::new(Box::new(steps), self.steps.clone()))
    }

    /// A number of steps as a value.
    pub(super) fn value(&self, steps: Expr) -> Expr {
        let steps = Expr::TryCast(TryCast::new(Box::new(steps), DataType::Float64));
        steps / lit(self.per_one)
    }
}

pub(super) fn no_grid(text: &str) -> Refusal {
    Refusal::new(
        Reason::NoRange,
        text,
        format!(
            "{text} of one person's floats has no range, and without one it depends on their order"
        ),
        "CLAMP(x, lo, hi) inside of it, or the column's domain BETWEEN (lo, hi)",
    )
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

/// A grid for sums that keeps whole numbers as they are, however wide their range is.
///
/// # Guarantee
/// A range is at most 2⁶² wide, so a sum of up to 2⁶⁰ such numbers fits the 38 digits of its type.
pub(super) fn grid_of_sums(range: &Interval, text: &str) -> Result<FloatGrid, Refusal> {
    let grid = grid_of(range, text)?;
    Ok(match grid.per_one < 1.0 {
        true => FloatGrid { per_one: 1.0, steps: DataType::Decimal128(38, 0), ..grid },
        false => grid,
    })
}

/// What is known about a sum of at most `rows` values of a range; it is NULL without rows.
pub(super) fn summed(values: &Facts, rows: Option<u64>, data_type: &DataType) -> Facts {
    let whole = type_range(data_type).unwrap_or_else(Interval::everything);
    let sum = |range: &Interval| {
        let zero = Interval::point(Rational::from_integer(0.into()));
        let sum = range.union(&zero).mul(&Interval::integer_range(1, rows?.max(1)));
        let sum = if data_type.is_floating() { sum.round_outward_f64() } else { sum };
        // A sum that exceeds its type wraps around to any value.
        sum.is_within(&whole).then_some(sum)
    };
    let range = sum(&values.range).unwrap_or_else(Interval::everything);
    let always = sum(&values.known()).unwrap_or_else(|| whole.clone());
    Facts { always, ..Facts::ranged(range, true) }
}
