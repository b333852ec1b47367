//! Evenly spaced numbers: the ticks of a stepped domain, a price range or a column's range.
//!
//! In: exact bounds and a step. Out: [`Ticks`], integers `first + i·step` on a grid, and for each
//! the value of a column's type that represents it. A decimal tick is the float nearest to the
//! decimal, so that 0.3 is the same number in a file, in a domain and in a list, although sums of
//! floats may differ from it.
//!
//! ```
//! use hushql_privacy::privacy::parse_decimal;
//! use hushql_exec::ticks::Ticks;
//!
//! let number = |text| parse_decimal(text).ok_or("no decimal");
//! let cents = Ticks::decimal(&number("0.01")?, &number("5")?, &number("0.01")?).ok_or("too fine")?;
//! assert_eq!((cents.count(), cents.float(29)), (500, 0.3));
//! assert_eq!(cents.at_or_below(0.3), 30); // 0.01, 0.02, …, 0.30
//! # Ok::<(), &str>(())
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};
use serde::{Deserialize, Serialize};

use crate::grid::Grid;
use hushql_privacy::privacy::Rational;

/// The maximum number of ticks.
pub const MOST_TICKS: u64 = 1 << 62;

/// Grid integers up to this magnitude are exact floats.
const EXACT_IN_FLOAT: i128 = 1 << 53;

/// `count` numbers on a grid: `first`, `first + step`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticks {
    grid: Grid,
    first: i128,
    step: i128,
    count: u64,
}

impl Ticks {
    /// All integers of a grid from `first` to `last`; `None` if there are none or too many.
    pub fn every(grid: Grid, first: i128, last: i128) -> Option<Self> {
        Self::new(grid, first, 1, last)
    }

    fn new(grid: Grid, first: i128, step: i128, last: i128) -> Option<Self> {
        let steps = last.checked_sub(first)?.checked_div(step)?;
        let count = u64::try_from(steps).ok()?.checked_add(1)?;
        let far = first.unsigned_abs().max(last.unsigned_abs()) > 1 << 100;
        (first <= last && count <= MOST_TICKS && !far).then_some(Self { grid, first, step, count })
    }

    /// The decimals lo, lo + step, … up to hi.
    ///
    /// # Guarantee
    /// The numbers are exact. `None` when the step is not positive, the bounds are reversed, or a
    /// tick has no float of its own (more than 2⁵³ units, or more than 22 decimal places).
    pub fn decimal(lo: &Rational, hi: &Rational, step: &Rational) -> Option<Self> {
        if !step.is_positive() {
            return None;
        }
        let places = decimal_places(lo)?.max(decimal_places(step)?);
        let unit = Rational::from_integer(BigInt::from(10).pow(places));
        let units = |x: &Rational| (x * &unit).floor().to_integer().to_i128();
        let ticks = Self::new(decimal_grid(places), units(lo)?, units(step)?, units(hi)?)?;
        let most = ticks.unit(ticks.count - 1).unsigned_abs().max(ticks.first.unsigned_abs());
        (most <= EXACT_IN_FLOAT.unsigned_abs()).then_some(ticks)
    }

    /// The same numbers as values of a decimal type: integers in units of its last digit.
    ///
    /// # Guarantee
    /// As [`Ticks::decimal`]. Also `None` when the lower end or the step has more places than the
    /// type.
    pub fn of_scale(lo: &Rational, hi: &Rational, step: &Rational, scale: i8) -> Option<Self> {
        let unit = Rational::from_integer(BigInt::from(10).pow(u8::try_from(scale).ok()?.into()));
        let [first, width] = [lo, step].map(|end| end * &unit);
        if !step.is_positive() || !first.is_integer() || !width.is_integer() {
            return None;
        }
        let units = |x: &Rational| x.floor().to_integer().to_i128();
        let grid = decimal_grid(u32::try_from(scale).ok()?);
        let ticks = Self::new(grid, units(&first)?, units(&width)?, units(&(hi * &unit))?)?;
        let most = ticks.unit(ticks.count - 1).unsigned_abs().max(ticks.first.unsigned_abs());
        (most <= EXACT_IN_FLOAT.unsigned_abs()).then_some(ticks)
    }

    /// The tick nearest to a number of grid units, in grid units; halves go to the even tick.
    pub fn nearest_unit(&self, units: i128) -> i128 {
        let last = self.unit(self.count - 1);
        let above = units.clamp(self.first, last) - self.first;
        let (lower, rest) = (above / self.step, above % self.step);
        // Doubled: a step has at most half the bits of an integer.
        let is_upper = match (2 * rest).cmp(&self.step) {
            Ordering::Less => false,
            Ordering::Equal => lower % 2 == 1,
            Ordering::Greater => true,
        };
        self.first + (lower + i128::from(is_upper)) * self.step
    }

    /// A grid of 2^−k for a continuous range.
    ///
    /// # Guarantee
    /// Every tick lies in [lo, hi] and is an exact float; k is the largest number for which the
    /// magnitudes in grid steps stay within 2³². `None` when the bounds are reversed or too large.
    pub fn binary(lo: &Rational, hi: &Rational) -> Option<Self> {
        const BITS: u32 = 32;
        let most = lo.abs().max(hi.abs());
        let limit = Rational::from_integer(BigInt::from(1_u64 << BITS));
        if most.is_zero() || most > limit {
            return None;
        }
        let two = Rational::from_integer(2.into());
        let (mut log2, mut scaled) = (0_i32, most);
        while &scaled * &two <= limit && log2 < 200 {
            scaled *= &two;
            log2 += 1;
        }
        let unit = Rational::from_integer(BigInt::from(1) << log2.unsigned_abs());
        let first = (lo * &unit).ceil().to_integer().to_i128()?;
        let last = (hi * &unit).floor().to_integer().to_i128()?;
        Self::every(Grid::Binary { log2 }, first, last)
    }

    /// The number of ticks, at least one.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The grid on which the ticks are integers.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The first tick, in grid units.
    pub fn first(&self) -> i128 {
        self.first
    }

    /// The distance between neighbouring ticks, in grid units.
    pub fn step(&self) -> i128 {
        self.step
    }

    /// Tick `i` in grid units. The last tick fits, so every tick does.
    pub fn unit(&self, i: u64) -> i128 {
        self.first + i128::from(i) * self.step
    }

    /// The ticks as floats, for many numbers at once.
    pub fn floats(&self) -> TickFloats {
        let divisor = match self.grid {
            Grid::Integer => 1.0,
            Grid::Decimal { scale } => 10_f64.powi(i32::from(scale)),
            Grid::Binary { log2 } => 2_f64.powi(log2),
        };
        let last = self.count - 1;
        let most = self.first.unsigned_abs().max(self.unit(last).unsigned_abs());
        let small = (most <= EXACT_IN_FLOAT.unsigned_abs())
            .then(|| Some((i64::try_from(self.first).ok()?, i64::try_from(self.step).ok()?)));
        let last_float = last.to_f64().unwrap_or(0.0);
        let floats = TickFloats {
            ticks: *self,
            small: small.flatten(),
            divisor,
            lo: 0.0,
            hi: 0.0,
            last: last_float,
        };
        TickFloats { lo: floats.float(0), hi: floats.float(last), ..floats }
    }

    /// The float nearest to tick `i`, which represents it.
    pub fn float(&self, i: u64) -> f64 {
        self.floats().float(i)
    }

    /// The number of ticks at or below a number; 0 for NaN.
    pub fn at_or_below(&self, x: f64) -> u64 {
        self.floats().at_or_below(x)
    }

    /// The number of ticks below a number; 0 for NaN.
    pub fn below(&self, x: f64) -> u64 {
        self.floats().below(x)
    }

    /// The number of ticks at or below (or, if `strict`, below) the number `units`·10^−scale.
    pub fn exactly_below(&self, units: i128, scale: u8, strict: bool) -> u64 {
        let places = match self.grid {
            Grid::Integer => 0,
            Grid::Decimal { scale } => scale.unsigned_abs(),
            // Binary ticks are compared only with floats.
            Grid::Binary { .. } => return 0,
        };
        // Both sides are in units of the finer scale. A value that saturates lies beyond every
        // tick.
        let raised = |value: i128, by: u8| value.saturating_mul(10_i128.saturating_pow(by.into()));
        let x = raised(units, places.saturating_sub(scale));
        let finer = scale.saturating_sub(places);
        let (first, step) = (raised(self.first, finer), raised(self.step, finer));
        let distance = x.saturating_sub(first);
        let steps = match (distance.cmp(&0), strict) {
            (Ordering::Less, _) | (Ordering::Equal, true) => return 0,
            (_, true) => (distance - 1) / step,
            (_, false) => distance / step,
        };
        u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1).min(self.count)
    }

    /// The ticks with these indices, as values of a column's type.
    ///
    /// # Errors
    /// An Arrow error for a type other than numbers, dates and timestamps.
    pub fn values(&self, ticks: &[u64], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let units = || ticks.iter().map(|i| i64::try_from(self.unit(*i)).unwrap_or(i64::MAX));
        let array: ArrayRef = match data_type {
            DataType::Float32 | DataType::Float64 => {
                Arc::new(Float64Array::from_iter_values(ticks.iter().map(|i| self.float(*i))))
            }
            DataType::Decimal128(precision, scale) => {
                let units = ticks.iter().map(|i| self.unit(*i));
                let array = Decimal128Array::from_iter_values(units);
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            DataType::Date32 => {
                let days = units().map(|v| i32::try_from(v).unwrap_or(i32::MAX));
                Arc::new(Int32Array::from_iter_values(days))
            }
            _ => Arc::new(Int64Array::from_iter_values(units())),
        };
        if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type) }
    }
}

fn decimal_grid(places: u32) -> Grid {
    match i8::try_from(places) {
        Ok(scale) if scale > 0 => Grid::Decimal { scale },
        Ok(_) | Err(_) => Grid::Integer,
    }
}

/// The number of decimal places; `None` beyond 22, where powers of ten are not exact floats.
fn decimal_places(x: &Rational) -> Option<u32> {
    let ten = BigInt::from(10);
    (0..=22).find(|places| (x * Rational::from_integer(ten.pow(*places))).is_integer())
}

/// Ticks as floats. Values that all numbers share are computed once.
#[derive(Debug, Clone, Copy)]
pub struct TickFloats {
    ticks: Ticks,
    /// The first tick and the step, if all ticks are exact floats.
    small: Option<(i64, i64)>,
    /// The divisor of units.
    divisor: f64,
    /// The first and the last tick.
    lo: f64,
    hi: f64,
    /// The index of the last tick.
    last: f64,
}

impl TickFloats {
    /// The float nearest to tick `i`, which represents it.
    pub fn float(&self, i: u64) -> f64 {
        let units = match (self.small, i64::try_from(i)) {
            (Some((first, step)), Ok(i)) if i < i64::try_from(self.ticks.count).unwrap_or(0) => {
                // Both are far from the ends of their type, and the sum is an exact float.
                step.checked_mul(i).and_then(|above| first.checked_add(above)?.to_f64())
            }
            _ => self.ticks.unit(i).to_f64(),
        };
        // Both operands are exact, so only the division rounds.
        units.unwrap_or(0.0) / self.divisor
    }

    /// The number of ticks at or below a number; 0 for NaN.
    pub fn at_or_below(&self, x: f64) -> u64 {
        self.counted(x, |tick| tick <= x)
    }

    /// The number of ticks below a number; 0 for NaN.
    pub fn below(&self, x: f64) -> u64 {
        self.counted(x, |tick| tick < x)
    }

    /// The index of the tick nearest to a number; halves go to the even index.
    pub fn nearest(&self, x: f64) -> u64 {
        let (below, last) = (self.at_or_below(x), self.ticks.count - 1);
        let Some(lower) = below.checked_sub(1) else { return 0 };
        if lower >= last {
            return last;
        }
        let (down, up) = (x - self.float(lower), self.float(lower + 1) - x);
        let odd = lower % 2 == 1;
        if up < down || (up <= down && odd) { lower + 1 } else { lower }
    }

    /// The number of first ticks that satisfy a condition, which holds up to approximately `x`.
    fn counted(&self, x: f64, holds: impl Fn(f64) -> bool) -> u64 {
        if x.is_nan() {
            return 0;
        }
        let Self { lo, hi, last, .. } = *self;
        let share = if hi > lo { ((x - lo) / (hi - lo)).clamp(0.0, 1.0) } else { 0.0 };
        // An estimate. A few comparisons with the ticks themselves correct it.
        let count = self.ticks.count;
        let mut n = (share * last).to_u64().unwrap_or(0).min(count);
        while n > 0 && !holds(self.float(n - 1)) {
            n -= 1;
        }
        while n < count && holds(self.float(n)) {
            n += 1;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hushql_privacy::privacy::parse_decimal;

    fn number(text: &str) -> Rational {
        parse_decimal(text).unwrap()
    }

    fn ticks(lo: &str, hi: &str, step: &str) -> Ticks {
        Ticks::decimal(&number(lo), &number(hi), &number(step)).unwrap()
    }

    /// Three times a step of 0.3 was once 0.8999999999999999, which no file holds.
    #[test]
    #[expect(clippy::float_cmp, reason = "the very float is meant")]
    fn a_decimal_tick_is_the_float_of_its_text() {
        for (step, scale) in [("0.3", 1), ("0.01", 2), ("0.07", 2), ("0.001", 3)] {
            let ticks = ticks("0", "5", step);
            for i in 0..ticks.count() {
                let text = format!("{}e-{scale}", ticks.unit(i));
                assert_eq!(ticks.float(i), text.parse::<f64>().unwrap(), "{text}");
            }
        }
    }

    #[test]
    fn places_are_counted_exactly() {
        for ticks in [ticks("0.01", "5", "0.01"), ticks("-2", "3", "0.3"), ticks("7", "7", "1")] {
            for i in 0..ticks.count() {
                let x = ticks.float(i);
                assert_eq!((ticks.below(x), ticks.at_or_below(x)), (i, i + 1));
                assert_eq!(ticks.at_or_below(x.next_down()), i);
                assert_eq!(ticks.below(x.next_up()), i + 1);
            }
            assert_eq!(ticks.at_or_below(f64::NEG_INFINITY), 0);
            assert_eq!(ticks.at_or_below(f64::INFINITY), ticks.count());
            assert_eq!(ticks.at_or_below(f64::NAN), 0);
        }
        let huge = ticks("0", "1000000", "0.001");
        assert_eq!(huge.count(), 1_000_000_001);
        assert_eq!(huge.at_or_below(999_999.999), 1_000_000_000);
    }

    #[test]
    fn integers_and_decimals_are_compared_without_floats() {
        let half_steps = ticks("0", "3", "0.5");
        let counts = |units, scale, strict| half_steps.exactly_below(units, scale, strict);
        assert_eq!((counts(1, 0, false), counts(1, 0, true)), (3, 2));
        assert_eq!((counts(149, 2, false), counts(150, 2, false), counts(150, 2, true)), (3, 4, 3));
        assert_eq!((counts(-1, 0, false), counts(0, 0, false), counts(0, 0, true)), (0, 1, 0));
        assert_eq!((counts(i128::MAX, 0, false), counts(i128::MIN, 38, true)), (7, 0));
    }

    #[test]
    fn a_continuous_range_is_a_fine_grid() {
        let ticks = Ticks::binary(&number("0"), &number("3.5")).unwrap();
        assert_eq!(ticks.grid(), Grid::Binary { log2: 30 });
        assert_eq!(ticks.count(), 3_758_096_385);
        assert!((ticks.float(ticks.count() - 1) - 3.5).abs() < 1e-12);
        assert!(Ticks::binary(&number("0"), &number("0")).is_none());
        assert!(Ticks::binary(&number("3"), &number("2")).is_none());
    }

    #[test]
    fn what_has_no_float_of_its_own_is_no_tick() {
        let none = |lo, hi, step| Ticks::decimal(&number(lo), &number(hi), &number(step)).is_none();
        assert!(none("0", "9007199254740993", "1"));
        assert!(none("0", "1", "0"));
        assert!(none("1", "0", "0.1"));
        assert!(none("0", "1", "1e-23"));
    }

    #[test]
    fn values_are_of_the_columns_type() {
        let days = Ticks::every(Grid::Integer, 20_000, 20_010).unwrap();
        for data_type in [DataType::Date32, DataType::Int16, DataType::Float64, DataType::Int64] {
            let values = days.values(&[0, 10], &data_type).unwrap();
            assert_eq!((values.data_type(), values.len()), (&data_type, 2));
        }
    }

    /// Compares the nearest tick with a search through all of them.
    #[test]
    fn decimals_go_to_their_nearest_tick() {
        let ticks = |lo, hi, step| Ticks::of_scale(&number(lo), &number(hi), &number(step), 2);
        let quarters = ticks("-1", "2.1", "0.25").unwrap();
        assert_eq!((quarters.count(), quarters.unit(12)), (13, 200));
        for units in -150..300_i128 {
            let all = (0..quarters.count()).map(|i| (i, quarters.unit(i)));
            let nearest = all.min_by_key(|(i, unit)| ((unit - units).abs(), i % 2));
            assert_eq!(quarters.nearest_unit(units), nearest.unwrap().1, "{units}");
        }
        assert_eq!(quarters.nearest_unit(i128::MIN), -100);
        assert_eq!(quarters.nearest_unit(i128::MAX), 200);
        assert_eq!(ticks("0", "1", "0.001"), None);
        assert_eq!(ticks("0.005", "1", "0.01"), None);
        assert_eq!(ticks("0", "1", "0"), None);
    }
}
