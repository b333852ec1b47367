//! The integer grid of private sums, and the single pass that converts a column to it.
//!
//! An Arrow column of integers, decimals or floats goes in; for each row, an integer in a fixed
//! interval comes out. The caller chooses the grid for the column's type; a mismatch is an error.
//! The integer is a function of the row's own value alone, NULL and NaN rows are skipped, and the
//! order of rows does not change a sum of the results.
//!
//! ```text
//! // 0.75 on a grid of quarters is 3; values above the upper end become the upper end.
//! let range = GridRange::new(Grid::Binary { log2: 2 }, 0, 100)?;
//! range.for_each(&Float64Array::from(vec![0.75, f64::INFINITY]), None, |row, value| …)?;
//! ```

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{DataFusionError, Result, plan_err};
use serde::{Deserialize, Serialize};

pub mod pairs;
mod whole;

/// The largest magnitude of a grid integer, 2⁸⁰: a sum of 2⁴⁶ of them still fits 127 bits.
pub const WIDEST: i128 = 1 << 80;

/// The finest and the coarsest binary grid: every product with 2^±900 below is exact in `f64`.
const LOG2_LIMIT: i32 = 900;

/// Bounds up to this magnitude take the fast path from `f64`: both ends and all integers between
/// them are exact.
const EXACT: i128 = 1 << 50;

/// 1.5·2⁵²: adding it to |y| ≤ 2⁵⁰ leaves the integer nearest to y (ties to even) in the mantissa.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// The value of one step of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Grid {
    /// Integer columns: the value itself.
    Integer,
    /// Decimal columns: the value times 10^scale, rounded half to even.
    Decimal {
        /// Digits after the point; at most the column's own, so that nothing is rounded if they are
        /// equal.
        scale: i8,
    },
    /// Float columns: the value times 2^log2, rounded half to even.
    Binary {
        /// The power of two; between −900 and 900.
        log2: i32,
    },
}

/// A grid and the interval to which every value is clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GridRange {
    grid: Grid,
    lo: i128,
    hi: i128,
}

impl GridRange {
    /// Checks the grid and the interval.
    ///
    /// # Errors
    /// A planning error when `lo > hi`, an end lies beyond ±2⁸⁰, or the binary grid beyond 2^±900.
    pub fn new(grid: Grid, lo: i128, hi: i128) -> Result<Self> {
        if lo > hi || lo < -WIDEST || hi > WIDEST {
            return plan_err!("the interval of a sum is empty or too wide");
        }
        if let Grid::Binary { log2 } = grid
            && !(-LOG2_LIMIT..=LOG2_LIMIT).contains(&log2)
        {
            return plan_err!("the grid of a sum is too fine or too coarse");
        }
        Ok(Self { grid, lo, hi })
    }

    /// The grid with the widest interval, which does not cut any value of practical size.
    ///
    /// # Errors
    /// As [`GridRange::new`].
    pub fn widest(grid: Grid) -> Result<Self> {
        Self::new(grid, -WIDEST, WIDEST)
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The lower end, a grid integer.
    pub fn lo(&self) -> i128 {
        self.lo
    }

    /// The upper end, a grid integer.
    pub fn hi(&self) -> i128 {
        self.hi
    }

    /// The distance of a value from the lower end of the interval, in steps of 2^shift.
    ///
    /// # Guarantee
    /// For all lo ≤ `value` ≤ hi: (value − lo)/2^shift rounded to the nearest integer, halves to
    /// the even one. It lies between 0 and [`coarse_width`], and depends on the value alone.
    pub fn above(&self, value: i128, shift: u32) -> i128 {
        // The ends are within ±2⁸⁰.
        let steps = value.clamp(self.lo, self.hi) - self.lo;
        let down = steps.checked_shr(shift).unwrap_or(0);
        let rest = steps - down.checked_shl(shift).unwrap_or(0);
        match (rest * 2).cmp(&1_i128.checked_shl(shift).unwrap_or(i128::MAX)) {
            std::cmp::Ordering::Less => down,
            std::cmp::Ordering::Equal => down + (down & 1),
            std::cmp::Ordering::Greater => down + 1,
        }
    }

    /// Whether every value of the interval fits 64 bits.
    pub fn is_narrow(&self) -> bool {
        i64::try_from(self.lo).is_ok() && i64::try_from(self.hi).is_ok()
    }

    /// Whether columns of this type can be converted to the grid.
    pub fn accepts(&self, data_type: &DataType) -> bool {
        match self.grid {
            Grid::Integer => data_type.is_integer(),
            Grid::Decimal { scale } => {
                matches!(data_type, DataType::Decimal128(_, own) if 0 <= scale && scale <= *own)
            }
            Grid::Binary { .. } => matches!(data_type, DataType::Float32 | DataType::Float64),
        }
    }

    /// Calls `visit(row, value)` in row order for every row that is neither NULL nor NaN nor masked
    /// out.
    ///
    /// # Guarantee
    /// For all columns, `value` = clamp(round(x·s), lo, hi), exactly, where s is the number of
    /// steps in 1: floats are rounded, and decimals with more places than the grid, half to even;
    /// ±∞ become the ends, and −0.0 becomes 0. It depends on the row's own x alone.
    ///
    /// # Errors
    /// A planning error when the column's type does not belong to the grid.
    pub fn for_each(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
        mut visit: impl FnMut(usize, i128),
    ) -> Result<()> {
        if !self.accepts(column.data_type()) {
            return plan_err!("a column of type {} does not fit its grid", column.data_type());
        }
        match column.data_type() {
            DataType::Int8 => self.integers::<Int8Type>(column, mask, visit),
            DataType::Int16 => self.integers::<Int16Type>(column, mask, visit),
            DataType::Int32 => self.integers::<Int32Type>(column, mask, visit),
            DataType::Int64 => self.integers::<Int64Type>(column, mask, visit),
            DataType::UInt8 => self.integers::<UInt8Type>(column, mask, visit),
            DataType::UInt16 => self.integers::<UInt16Type>(column, mask, visit),
            DataType::UInt32 => self.integers::<UInt32Type>(column, mask, visit),
            DataType::UInt64 => self.wide::<UInt64Type>(column, mask, visit),
            DataType::Decimal128(..) => match self.dropped(column.data_type()) {
                None => self.wide::<Decimal128Type>(column, mask, visit),
                Some(unit) => {
                    let valid = NullBuffer::union(column.nulls(), mask);
                    let values = column.as_primitive::<Decimal128Type>().values();
                    scan(values, valid.as_ref(), |row, value| {
                        visit(row, nearest_quotient(value, unit).clamp(self.lo, self.hi));
                    });
                }
            },
            DataType::Float32 => self.floats::<Float32Type>(column, mask, visit),
            DataType::Float64 => self.floats::<Float64Type>(column, mask, visit),
            other => return plan_err!("a column of type {other} cannot be summed"),
        }
        Ok(())
    }

    /// The number of a column's own units in one step of the grid; `None` if the number is 1.
    fn dropped(&self, data_type: &DataType) -> Option<i128> {
        match (self.grid, data_type) {
            (Grid::Decimal { scale }, DataType::Decimal128(_, own)) if scale < *own => {
                10_i128.checked_pow(u32::from(own.abs_diff(scale)))
            }
            _ => None,
        }
    }

    /// Integers up to 64 signed bits; the clamp stays in 64 bits when the interval does.
    fn integers<T: ArrowPrimitiveType>(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
        mut visit: impl FnMut(usize, i128),
    ) where
        T::Native: Into<i64>,
    {
        let valid = NullBuffer::union(column.nulls(), mask);
        let values = column.as_primitive::<T>().values();
        if let (Ok(lo), Ok(hi)) = (i64::try_from(self.lo), i64::try_from(self.hi)) {
            scan(values, valid.as_ref(), |row, value| {
                let value: i64 = value.into();
                visit(row, i128::from(value.clamp(lo, hi)));
            });
        } else {
            scan(values, valid.as_ref(), |row, value| {
                let value: i64 = value.into();
                visit(row, i128::from(value).clamp(self.lo, self.hi));
            });
        }
    }

    /// Types that need more than 64 signed bits.
    fn wide<T: ArrowPrimitiveType>(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
        mut visit: impl FnMut(usize, i128),
    ) where
        T::Native: Into<i128>,
    {
        let valid = NullBuffer::union(column.nulls(), mask);
        scan(column.as_primitive::<T>().values(), valid.as_ref(), |row, value| {
            let value: i128 = value.into();
            visit(row, value.clamp(self.lo, self.hi));
        });
    }

    /// How floats are rounded; `None` if this takes more than `f64`.
    fn steps(&self) -> Option<Steps> {
        let Grid::Binary { log2 } = self.grid else { return None };
        let is_exact = self.lo >= -EXACT && self.hi <= EXACT;
        let down = power_of_two(-log2);
        let (lo, hi) = (self.lo, self.hi);
        is_exact.then(|| Steps {
            lo: exact_f64(lo) * down,
            hi: exact_f64(hi) * down,
            up: power_of_two(log2),
        })
    }

    /// Floats: NaN is skipped; all others are clamped before they are scaled, so that nothing
    /// overflows.
    fn floats<T: ArrowPrimitiveType>(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
        mut visit: impl FnMut(usize, i128),
    ) where
        T::Native: Into<f64>,
    {
        let Grid::Binary { log2 } = self.grid else { return };
        let valid = NullBuffer::union(column.nulls(), mask);
        let values = column.as_primitive::<T>().values();
        if let Some(steps) = self.steps() {
            scan(values, valid.as_ref(), |row, value| {
                let value: f64 = value.into();
                if !value.is_nan() {
                    visit(row, i128::from(steps.of(value)));
                }
            });
        } else {
            // This clamp only prevents overflow; the exact clamp works on integers.
            let (up, far) = (power_of_two(log2), power_of_two(100) * power_of_two(-log2));
            scan(values, valid.as_ref(), |row, value| {
                let value: f64 = value.into();
                if !value.is_nan() {
                    let steps = integer(value.clamp(-far, far) * up);
                    visit(row, steps.clamp(self.lo, self.hi));
                }
            });
        }
    }
}

/// `value / unit`, rounded half to even; the unit is a power of ten, and not 1.
fn nearest_quotient(value: i128, unit: i128) -> i128 {
    let (quotient, rest) = (value / unit, value % unit);
    let away = match rest.abs().cmp(&(unit / 2)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    quotient + if away { rest.signum() } else { 0 }
}

/// Rounds floats to an interval whose integers are all exact in `f64`.
#[derive(Clone, Copy)]
struct Steps {
    lo: f64,
    hi: f64,
    up: f64,
}

impl Steps {
    /// The grid integer of a number that is not NaN.
    fn of(self, value: f64) -> i64 {
        let steps = MAGIC + value.clamp(self.lo, self.hi) * self.up;
        steps.to_bits().cast_signed().wrapping_sub(MAGIC.to_bits().cast_signed())
    }
}

/// ⌈(hi − lo)/2^shift⌉; `None` when hi < lo or the result does not fit 128 bits.
pub fn coarse_width(lo: i128, hi: i128, shift: u32) -> Option<i128> {
    let width = hi.checked_sub(lo).filter(|width| *width >= 0)?;
    let step = 1_i128.checked_shl(shift).filter(|step| *step > 0)?;
    width.checked_add(step - 1).map(|width| width >> shift)
}

/// Rows of a column that hold a value: neither NULL nor NaN. `None` means all of them.
pub fn present(column: &dyn Array) -> Option<NullBuffer> {
    let nulls = column.logical_nulls();
    let numbers = match column.data_type() {
        DataType::Float32 => not_nan::<Float32Type>(column),
        DataType::Float64 => not_nan::<Float64Type>(column),
        _ => return nulls,
    };
    NullBuffer::union(nulls.as_ref(), Some(&numbers))
}

/// The rows that pass a FILTER, as a mask; NULL does not pass.
pub fn passing(filter: &BooleanArray) -> NullBuffer {
    if filter.null_count() == 0 {
        return NullBuffer::new(filter.values().clone());
    }
    NullBuffer::new(prep_null_mask_filter(filter).values().clone())
}

/// The only message for failures while private data are read. A more specific one could reveal
/// something about the data.
pub fn failed() -> DataFusionError {
    DataFusionError::Execution("the query could not be executed".to_owned())
}

fn not_nan<T: ArrowPrimitiveType>(column: &dyn Array) -> NullBuffer
where
    T::Native: Into<f64>,
{
    let values = column.as_primitive::<T>().values();
    let is_number = |row: usize| !Into::<f64>::into(values[row]).is_nan();
    NullBuffer::new(BooleanBuffer::collect_bool(values.len(), is_number))
}

fn scan<T: Copy>(values: &[T], valid: Option<&NullBuffer>, mut visit: impl FnMut(usize, T)) {
    match valid {
        None => {
            for (row, value) in values.iter().enumerate() {
                visit(row, *value);
            }
        }
        Some(valid) => {
            for row in valid.valid_indices() {
                visit(row, values[row]);
            }
        }
    }
}

/// 2^exponent for exponents of normal numbers (|exponent| ≤ 1,000 by the checks of
/// `GridRange::new`).
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).unsigned_abs()) << 52)
}

#[expect(clippy::cast_precision_loss, reason = "called for |value| ≤ 2⁵⁰ only: exact")]
fn exact_f64(value: i128) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "|value| ≤ 2¹⁰⁰ and a whole number: exact")]
fn integer(value: f64) -> i128 {
    value.round_ties_even() as i128
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, UInt64Array,
    };

    use super::{Grid, GridRange, WIDEST, coarse_width, passing, power_of_two, present};
    use arrow::array::BooleanArray;

    fn steps(grid: Grid, lo: i128, hi: i128, column: &ArrayRef) -> Vec<Option<i128>> {
        let range = GridRange::new(grid, lo, hi).unwrap();
        let mut out = vec![None; column.len()];
        range.for_each(column, None, |row, value| out[row] = Some(value)).unwrap();
        out
    }

    #[test]
    fn integers_are_clamped_also_beyond_their_type() {
        let bytes: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), None, Some(5)]));
        let narrow = steps(Grid::Integer, -3, 4, &bytes);
        assert_eq!(narrow, [Some(-3), None, Some(4)]);
        assert_eq!(steps(Grid::Integer, 300, 400, &bytes), [Some(300), None, Some(300)]);
        assert_eq!(
            steps(Grid::Integer, WIDEST, WIDEST, &bytes),
            [Some(WIDEST), None, Some(WIDEST)]
        );
        let longs: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]));
        let ends = [Some(i128::from(i64::MIN)), Some(i128::from(i64::MAX))];
        assert_eq!(steps(Grid::Integer, -WIDEST, WIDEST, &longs), ends);
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX]));
        let ends = [Some(0), Some(i128::from(u64::MAX))];
        assert_eq!(steps(Grid::Integer, -1, WIDEST, &unsigned), ends);
    }

    #[test]
    fn decimals_keep_their_own_scale() {
        let column = Decimal128Array::from(vec![12_345, -99_999]);
        let column: ArrayRef = Arc::new(column.with_precision_and_scale(10, 2).unwrap());
        let grid = Grid::Decimal { scale: 2 };
        assert_eq!(steps(grid, -5_000, 20_000, &column), [Some(12_345), Some(-5_000)]);
        let other = GridRange::new(Grid::Decimal { scale: 3 }, 0, 1).unwrap();
        assert!(other.for_each(&column, None, |_, _| ()).is_err());
    }

    /// Compared with integer arithmetic: the nearest multiple, and of two the even one.
    #[test]
    fn decimals_with_more_places_are_rounded() {
        for places in 1..=20_u8 {
            let unit = 10_i128.pow(places.into());
            let values: Vec<i128> = (-40..=40)
                .flat_map(|half| [-1, 0, 1].map(|off| half * (unit / 2) + off))
                .chain([10_i128.pow(38) - 1, 1 - 10_i128.pow(38)])
                .collect();
            let own = 2 + places.cast_signed();
            let column = Decimal128Array::from(values.clone()).with_precision_and_scale(38, own);
            let column: ArrayRef = Arc::new(column.unwrap());
            let grid = Grid::Decimal { scale: 2 };
            for ((lo, hi), value, found) in
                [(-1_000, 1_000), (-7, 5)].into_iter().flat_map(|ends| {
                    let found = steps(grid, ends.0, ends.1, &column);
                    values.clone().into_iter().zip(found).map(move |(v, found)| (ends, v, found))
                })
            {
                let down = value.div_euclid(unit);
                let nearest = match (2 * value.rem_euclid(unit)).cmp(&unit) {
                    std::cmp::Ordering::Less => down,
                    std::cmp::Ordering::Equal => down + down.rem_euclid(2),
                    std::cmp::Ordering::Greater => down + 1,
                };
                assert_eq!(found, Some(nearest.clamp(lo, hi)), "{value} {places}");
            }
        }
    }

    #[test]
    fn floats_round_half_to_even_and_hide_what_is_no_number() {
        let odd = [0.125, 0.375, 0.625, -0.125, -0.375, -0.0, f64::NAN, 1e300, f64::NEG_INFINITY];
        let expected =
            [Some(0), Some(2), Some(2), Some(0), Some(-2), Some(0), None, Some(7), Some(-9)];
        let column: ArrayRef = Arc::new(Float64Array::from(odd.to_vec()));
        assert_eq!(steps(Grid::Binary { log2: 2 }, -9, 7, &column), expected);
        let short: ArrayRef = Arc::new(Float32Array::from(vec![0.1_f32, f32::INFINITY]));
        assert_eq!(
            steps(Grid::Binary { log2: 30 }, 0, 1 << 40, &short),
            [Some(107_374_184), Some(1 << 40)]
        );
    }

    #[test]
    fn both_float_paths_agree_with_exact_arithmetic() {
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let log2 = i32::try_from(state >> 60).unwrap() - 8;
            // 26-bit integers times 2^(−log2 − 2): every x·2^log2 is a multiple of a quarter,
            // exactly.
            let quarters = i64::try_from((state >> 20) & 0x3ff_ffff).unwrap() - (1 << 25);
            let x = f64::from(i32::try_from(quarters).unwrap()) * power_of_two(-log2 - 2);
            let down = quarters.div_euclid(4);
            let nearest = match quarters.rem_euclid(4) {
                0 | 1 => down,
                2 => down + (down & 1),
                _ => down + 1,
            };
            let column: ArrayRef = Arc::new(Float64Array::from(vec![x]));
            for (lo, hi) in [(-1 << 20, 1 << 22), (-1 << 60, 1 << 61), (-WIDEST, WIDEST)] {
                let got = steps(Grid::Binary { log2 }, lo, hi, &column);
                assert_eq!(got, [Some(i128::from(nearest).clamp(lo, hi))], "{x} {log2}");
            }
        }
    }

    #[test]
    fn extreme_floats_stay_finite() {
        for log2 in [-900, 0, 900] {
            let column = vec![f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324];
            let column: ArrayRef = Arc::new(Float64Array::from(column));
            let got = steps(Grid::Binary { log2 }, -WIDEST, WIDEST, &column);
            let large = if log2 < 0 { 1 << 80 } else { WIDEST };
            assert_eq!(got, [Some(large), Some(-large), Some(0), Some(0)]);
        }
    }

    #[test]
    fn coarse_steps_round_half_to_even_and_stay_within_the_width() {
        for (lo, hi) in [(-5, 20), (0, 16), (3, 3), (-9, -2)] {
            let range = GridRange::new(Grid::Integer, lo, hi).unwrap();
            for shift in 0..6 {
                let step = 1 << shift;
                let width = coarse_width(lo, hi, shift).unwrap();
                assert!(width * step >= hi - lo && (width - 1) * step < (hi - lo).max(1));
                for value in lo - 2..=hi + 2 {
                    let exact = value.clamp(lo, hi) - lo;
                    let near = (0..=width)
                        .min_by_key(|k| ((k * step - exact).abs(), k & 1))
                        .unwrap_or_default();
                    assert_eq!(range.above(value, shift), near, "{lo}..{hi} {value} {shift}");
                }
            }
        }
        let widest = GridRange::widest(Grid::Integer).unwrap();
        assert_eq!(widest.above(WIDEST, 61), 1 << 20);
        assert_eq!(coarse_width(-WIDEST, WIDEST, 61), Some(1 << 20));
        assert_eq!(widest.above(WIDEST, 200), 0);
        assert_eq!(coarse_width(0, 1, 127), None);
        assert_eq!(coarse_width(1, 0, 0), None);
        assert_eq!(coarse_width(i128::MIN, i128::MAX, 0), None);
    }

    #[test]
    fn bad_ranges_are_refused() {
        assert!(GridRange::new(Grid::Integer, 1, 0).is_err());
        assert!(GridRange::new(Grid::Integer, 0, WIDEST + 1).is_err());
        assert!(GridRange::new(Grid::Integer, -WIDEST - 1, 0).is_err());
        assert!(GridRange::new(Grid::Binary { log2: 901 }, 0, 1).is_err());
        let integer = GridRange::new(Grid::Integer, 0, 1).unwrap();
        assert!(integer.for_each(&Float64Array::from(vec![1.0]), None, |_, _| ()).is_err());
    }

    #[test]
    fn masks_treat_nan_and_null_alike() {
        let column = Float64Array::from(vec![Some(1.0), None, Some(f64::NAN)]);
        let valid = present(&column).unwrap();
        assert_eq!(valid.iter().collect::<Vec<_>>(), [true, false, false]);
        let filter = BooleanArray::from(vec![Some(true), None, Some(false)]);
        assert_eq!(passing(&filter).iter().collect::<Vec<_>>(), [true, false, false]);
    }
}
