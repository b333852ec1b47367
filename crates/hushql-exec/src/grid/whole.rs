//! Whole columns on the grid, as narrow as their interval allows.
//!
//! In: a column, and the rows that count. Out: the grid integer of every row, in a type that holds
//! the whole interval. It has the assumptions of [`GridRange::for_each`], and guarantees the same
//! integers; a skipped row holds 0. If every row of a column has a value, it is converted without a
//! branch for single rows.
//!
//! ```text
//! // Prices of 16 bytes become cents of 4.
//! let (cents, read) = range.numbers::<i32>(&prices, None)?;
//! ```

use arrow::array::{Array, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;
use num_traits::{AsPrimitive, clamp};

use super::{GridRange, failed};

/// A signed integer that holds grid integers.
pub trait Number: Copy + Default + TryFrom<i128> + 'static {}

impl<T: Copy + Default + TryFrom<i128> + 'static> Number for T {}

impl GridRange {
    /// The grid integer of every row, and the number of rows that have one. NULL, NaN and masked
    /// rows hold 0.
    ///
    /// # Guarantee
    /// For all columns, the integers of [`GridRange::for_each`].
    ///
    /// # Errors
    /// As [`GridRange::for_each`], and an error with a constant text if the interval does not fit
    /// the type.
    pub fn numbers<T>(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
    ) -> Result<(Vec<T>, usize)>
    where
        T: Number,
        i128: AsPrimitive<T>,
    {
        let fits = |end: i128| T::try_from(end).is_ok();
        if !fits(self.lo) || !fits(self.hi) {
            return Err(failed());
        }
        let is_whole = mask.is_none() && column.null_count() == 0;
        let numbers = match column.data_type() {
            own if !is_whole || !self.accepts(own) => None,
            DataType::Int8 => self.clamped::<Int8Type, T>(column),
            DataType::Int16 => self.clamped::<Int16Type, T>(column),
            DataType::Int32 => self.clamped::<Int32Type, T>(column),
            DataType::Int64 => self.clamped::<Int64Type, T>(column),
            DataType::UInt8 => self.clamped::<UInt8Type, T>(column),
            DataType::UInt16 => self.clamped::<UInt16Type, T>(column),
            DataType::UInt32 => self.clamped::<UInt32Type, T>(column),
            DataType::UInt64 => self.clamped::<UInt64Type, T>(column),
            DataType::Decimal128(..) if self.dropped(column.data_type()).is_none() => {
                self.clamped::<Decimal128Type, T>(column)
            }
            DataType::Float32 => return self.rounded::<Float32Type, T>(column),
            DataType::Float64 => return self.rounded::<Float64Type, T>(column),
            _ => None,
        };
        match numbers {
            Some(numbers) => Ok((numbers, column.len())),
            None => self.one_by_one(column, mask),
        }
    }

    /// Clamps every row, if all rows have a value and `T` holds the interval; `None` if the
    /// column's type does not hold it.
    fn clamped<A, T>(&self, column: &dyn Array) -> Option<Vec<T>>
    where
        A: ArrowPrimitiveType,
        A::Native: Into<i128> + TryFrom<i128>,
        T: Number,
        i128: AsPrimitive<T>,
    {
        let end = |end: i128| A::Native::try_from(end).ok();
        let (lo, hi) = (end(self.lo)?, end(self.hi)?);
        let values = column.as_primitive::<A>().values().iter();
        let number = |value: &A::Native| clamp(*value, lo, hi).into().as_();
        Some(values.map(number).collect())
    }

    /// Rounds and clamps every row, if none is NULL, and returns the number of rows that are not
    /// NaN.
    fn rounded<A, T>(&self, column: &dyn Array) -> Result<(Vec<T>, usize)>
    where
        A: ArrowPrimitiveType,
        A::Native: Into<f64>,
        T: Number,
        i128: AsPrimitive<T>,
    {
        let Some(steps) = self.steps() else { return self.one_by_one(column, None) };
        let values = column.as_primitive::<A>().values().iter();
        let mut absent = 0;
        let number = |value: &A::Native| {
            let value: f64 = (*value).into();
            let is_absent = value.is_nan();
            absent += usize::from(is_absent);
            i128::from(if is_absent { 0 } else { steps.of(value) }).as_()
        };
        let numbers: Vec<T> = values.map(number).collect();
        Ok((numbers, column.len() - absent))
    }

    fn one_by_one<T: Number>(
        &self,
        column: &dyn Array,
        mask: Option<&NullBuffer>,
    ) -> Result<(Vec<T>, usize)> {
        let (mut numbers, mut fits, mut read) = (vec![T::default(); column.len()], true, 0);
        self.for_each(column, mask, |row, value| {
            match T::try_from(value) {
                Ok(number) => numbers[row] = number,
                Err(_) => fits = false,
            }
            read += 1;
        })?;
        if fits { Ok((numbers, read)) } else { Err(failed()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, UInt8Array,
        UInt64Array,
    };

    use super::*;
    use crate::grid::Grid;

    fn columns() -> Vec<(Grid, ArrayRef)> {
        let decimals = vec![i128::MIN, -70_000, -129, -1, 0, 7, 128, 40_000, 1 << 63, i128::MAX];
        let decimals = Decimal128Array::from(decimals).with_precision_and_scale(38, 2).unwrap();
        let floats = vec![f64::NAN, 0.25, 0.75, -0.0, -1.25, 9e9, -9e99, f64::NEG_INFINITY];
        vec![
            (Grid::Integer, Arc::new(Int8Array::from_iter_values(i8::MIN..=i8::MAX))),
            (Grid::Integer, Arc::new(UInt8Array::from_iter_values(0..=u8::MAX))),
            (Grid::Integer, Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 300, i64::MAX]))),
            (Grid::Integer, Arc::new(UInt64Array::from(vec![0, 1, 300, 1 << 63, u64::MAX]))),
            (Grid::Integer, Arc::new(Int64Array::from(vec![Some(5), None, Some(-900)]))),
            (Grid::Decimal { scale: 2 }, Arc::new(decimals.clone())),
            (Grid::Decimal { scale: 1 }, Arc::new(decimals)),
            (Grid::Binary { log2: 1 }, Arc::new(Float64Array::from(floats))),
            (Grid::Binary { log2: -3 }, Arc::new(Float32Array::from(vec![-0.0, f32::NAN, 20.0]))),
        ]
    }

    fn check<T>(range: GridRange, column: &ArrayRef, mask: Option<&NullBuffer>)
    where
        T: Number + Into<i128>,
        i128: AsPrimitive<T>,
    {
        let mut expected = vec![0; column.len()];
        let mut present = 0;
        let set = |row: usize, value: i128| {
            expected[row] = value;
            present += 1;
        };
        range.for_each(column, mask, set).unwrap();
        let found = range.numbers::<T>(column, mask);
        if T::try_from(range.lo()).is_err() || T::try_from(range.hi()).is_err() {
            assert!(found.is_err());
            return;
        }
        let (numbers, read) = found.unwrap();
        let numbers: Vec<i128> = numbers.into_iter().map(Into::into).collect();
        assert_eq!((numbers, read), (expected, present), "{range:?} {column:?}");
    }

    /// Covers every width, for intervals within the column's type, across its ends and beyond them.
    #[test]
    fn whole_columns_hold_what_their_rows_hold() {
        let ends = [-1 << 70, i128::from(i64::MIN), -70_000, -129, -128, 0, 5, 127, 256, 1 << 40];
        for (grid, column) in columns() {
            let half: NullBuffer = (0..column.len()).map(|row| row % 2 == 0).collect();
            for (i, lo) in ends.into_iter().enumerate() {
                for hi in ends.into_iter().skip(i) {
                    let range = GridRange::new(grid, lo, hi).unwrap();
                    for mask in [None, Some(&half)] {
                        check::<i8>(range, &column, mask);
                        check::<i16>(range, &column, mask);
                        check::<i32>(range, &column, mask);
                        check::<i64>(range, &column, mask);
                        check::<i128>(range, &column, mask);
                    }
                }
            }
        }
    }

    #[test]
    fn a_column_of_another_grid_is_refused() {
        let range = GridRange::new(Grid::Decimal { scale: 3 }, 0, 1).unwrap();
        for (_, column) in columns() {
            assert!(range.numbers::<i64>(&column, None).is_err());
        }
    }
}
