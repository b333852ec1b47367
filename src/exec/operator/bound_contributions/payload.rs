//! The arguments of one aggregate, kept row by row between the two passes.
//!
//! In: the argument and FILTER columns of a batch. Out: for any set of rows, how many of them pass, and their sum. It
//! assumes that columns were checked against the grid. It guarantees that NULL, NaN and filtered rows add nothing.
//!
//! ```text
//! payload.push(&kind, &batch, &rows_that_count_and_their_buckets)?;
//! let Tally { count, sum, .. } = payload.tally(bucket, &rows_of_one_unit_and_key)?;
//! ```

use std::mem::size_of;

use arrow::array::AsArray;
use arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::hold;
use super::partial::{InputKind, Tally};
use super::units::{BUCKETS, place_of};
use crate::grid::pairs::Pairs;
use crate::grid::{GridRange, failed, passing, present};

/// The values of one aggregate, one entry for each row that counts, split into buckets like the rows themselves. The
/// second pass reads them in no particular order, and a bucket keeps them close together in memory.
pub(super) struct Payload {
    range: Option<GridRange>,
    flags: Option<Split<bool>>,
    /// Values to be squared are kept as their distance from the lower end, in steps of 2^shift.
    shift: Option<u32>,
    values: Values,
    scratch: Vec<i128>,
}

enum Values {
    None,
    Narrow(Split<i64>),
    Wide(Split<i128>),
}

/// One list for each bucket.
struct Split<T>(Vec<Vec<T>>);

impl<T: Clone> Split<T> {
    fn new() -> Self {
        Self(vec![Vec::new(); BUCKETS])
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }
}

impl Payload {
    pub(super) fn new(kind: &InputKind) -> Result<Self> {
        let range = kind.range()?;
        let values = match range {
            None => Values::None,
            // The width of squared intervals was checked: it is narrow wherever the interval lies.
            Some(range) if range.is_narrow() || kind.shift().is_some() => {
                Values::Narrow(Split::new())
            }
            Some(_) => Values::Wide(Split::new()),
        };
        let flags = kind.reads_flags().then(Split::new);
        Ok(Self { range, flags, shift: kind.shift(), values, scratch: Vec::new() })
    }

    pub(super) fn reads(&self) -> bool {
        self.range.is_some() || self.flags.is_some()
    }

    /// Adds the arguments of the rows that count, each with its bucket.
    pub(super) fn push(
        &mut self,
        kind: &InputKind,
        batch: &hold::Values,
        kept: &[(usize, u8)],
    ) -> Result<()> {
        if !self.reads() {
            return Ok(());
        }
        let filter = kind.filter().map(|filter| batch.column(filter)).transpose()?;
        let column = kind.column().map(|column| batch.column(column)).transpose()?;
        let mask = filter.map(|filter| passing(filter.as_boolean()));
        if let Some(Split(flags)) = &mut self.flags {
            let values = column.and_then(|column| present(column));
            let valid = NullBuffer::union(mask.as_ref(), values.as_ref());
            for (row, bucket) in kept {
                let passes = valid.as_ref().is_none_or(|valid| valid.is_valid(*row));
                flags[usize::from(*bucket)].push(passes);
            }
        }
        let (Some(range), Some(column)) = (self.range, column) else { return Ok(()) };
        self.scratch.clear();
        self.scratch.resize(batch.rows(), 0);
        let scratch = &mut self.scratch[..];
        match self.shift {
            None => range.for_each(column, mask.as_ref(), |row, value| scratch[row] = value)?,
            Some(shift) => range.for_each(column, mask.as_ref(), |row, value| {
                scratch[row] = range.above(value, shift);
            })?,
        }
        match &mut self.values {
            Values::None => {}
            Values::Narrow(Split(values)) => {
                for (row, bucket) in kept {
                    let value = i64::try_from(scratch[*row]).map_err(|_| failed())?;
                    values[usize::from(*bucket)].push(value);
                }
            }
            Values::Wide(Split(values)) => {
                for (row, bucket) in kept {
                    values[usize::from(*bucket)].push(scratch[*row]);
                }
            }
        }
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        let values = match &self.values {
            Values::None => 0,
            Values::Narrow(values) => values.bytes(),
            Values::Wide(values) => values.bytes(),
        };
        values + self.flags.as_ref().map_or(0, Split::bytes)
    }

    /// Counts and sums the rows of one unit and one key.
    pub(super) fn tally(&self, bucket: usize, rows: &[u64]) -> Result<Tally> {
        let count = match &self.flags {
            None => rows.len(),
            Some(Split(flags)) => rows.iter().filter(|row| flags[bucket][place_of(**row)]).count(),
        };
        let count = u64::try_from(count).map_err(|_| failed())?;
        let sum = match &self.values {
            Values::None => 0,
            Values::Narrow(Split(values)) => total(&values[bucket], rows, |x| x)?,
            Values::Wide(Split(values)) => total(&values[bucket], rows, |x| x)?,
        };
        let squares = match (&self.values, self.shift) {
            // X ≤ 2⁴⁰, so its square fits.
            (Values::Narrow(Split(values)), Some(_)) => {
                total(&values[bucket], rows, |above| above * above)?
            }
            _ => 0,
        };
        Ok(Tally { count, sum, squares })
    }

    /// The sum of one product of the pairs of one unit and one key; rows that do not pass add 0.
    pub(super) fn product(
        &self,
        bucket: usize,
        rows: &[u64],
        pairs: &Pairs,
        which: usize,
    ) -> Result<i128> {
        // Every code fits 64 bits, and whether a row passes is kept beside it.
        let (Values::Narrow(Split(codes)), Some(Split(flags))) = (&self.values, &self.flags) else {
            return Err(failed());
        };
        let passing = rows.iter().map(|row| place_of(*row)).filter(|at| flags[bucket][*at]);
        let product = |at: usize| pairs.product(i128::from(codes[bucket][at]), which);
        passing.map(product).try_fold(0_i128, i128::checked_add).ok_or_else(failed)
    }
}

fn total<T: Copy + Into<i128>>(
    values: &[T],
    rows: &[u64],
    of: impl Fn(i128) -> i128,
) -> Result<i128> {
    let mut sum = 0_i128;
    for row in rows {
        sum = sum.checked_add(of(values[place_of(*row)].into())).ok_or_else(failed)?;
    }
    Ok(sum)
}
