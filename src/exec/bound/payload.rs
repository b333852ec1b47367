//! The arguments of one aggregate, kept row by row between the two passes.
//!
//! In go the argument and FILTER columns of a batch; out comes, for any set of rows, how many of them pass
//! and what they sum to. It assumes that columns were checked against the grid. It guarantees that NULL, NaN
//! and filtered rows add nothing.
//!
//! ```ignore
//! payload.push(&kind, &batch, &rows_that_count)?;
//! let Tally { count, sum } = payload.tally(&rows_of_one_unit_and_key)?;
//! ```

use std::mem::size_of;

use arrow::array::{AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::partial::{InputKind, Tally};
use super::units::place_of;
use crate::grid::{GridRange, failed, passing, present};

/// The values of one aggregate, one entry per row that counts.
pub(super) struct Payload {
    range: Option<GridRange>,
    flags: Option<Vec<bool>>,
    values: Values,
}

enum Values {
    None,
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Payload {
    pub(super) fn new(kind: &InputKind) -> Result<Self> {
        let range = kind.range()?;
        let values = match range {
            None => Values::None,
            Some(range) if range.is_narrow() => Values::Narrow(Vec::new()),
            Some(_) => Values::Wide(Vec::new()),
        };
        Ok(Self { range, flags: kind.reads_flags().then(Vec::new), values })
    }

    pub(super) fn reads(&self) -> bool {
        self.range.is_some() || self.flags.is_some()
    }

    pub(super) fn push(
        &mut self,
        kind: &InputKind,
        batch: &RecordBatch,
        kept: &[usize],
    ) -> Result<()> {
        if !self.reads() {
            return Ok(());
        }
        let filter = kind.filter().map(|filter| batch.column(filter).as_boolean());
        let column = kind.column().map(|column| batch.column(column));
        let mask = filter.map(passing);
        if let Some(flags) = &mut self.flags {
            let values = column.and_then(|column| present(column));
            match NullBuffer::union(mask.as_ref(), values.as_ref()) {
                Some(valid) => flags.extend(kept.iter().map(|row| valid.is_valid(*row))),
                None => flags.resize(flags.len() + kept.len(), true),
            }
        }
        let (Some(range), Some(column)) = (self.range, column) else { return Ok(()) };
        let mut scratch = vec![0_i128; batch.num_rows()];
        range.for_each(column, mask.as_ref(), |row, value| scratch[row] = value)?;
        match &mut self.values {
            Values::None => {}
            Values::Narrow(values) => {
                for row in kept {
                    values.push(i64::try_from(scratch[*row]).map_err(|_| failed())?);
                }
            }
            Values::Wide(values) => values.extend(kept.iter().map(|row| scratch[*row])),
        }
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        let values = match &self.values {
            Values::None => 0,
            Values::Narrow(values) => values.capacity() * size_of::<i64>(),
            Values::Wide(values) => values.capacity() * size_of::<i128>(),
        };
        values + self.flags.as_ref().map_or(0, Vec::capacity)
    }

    /// Counts and sums the rows of one unit and one key.
    pub(super) fn tally(&self, rows: &[u64]) -> Result<Tally> {
        let count = match &self.flags {
            None => rows.len(),
            Some(flags) => rows.iter().filter(|row| flags[place_of(**row)]).count(),
        };
        let count = u64::try_from(count).map_err(|_| failed())?;
        let mut sum = 0_i128;
        match &self.values {
            Values::None => {}
            Values::Narrow(values) => {
                for row in rows {
                    let value = i128::from(values[place_of(*row)]);
                    sum = sum.checked_add(value).ok_or_else(failed)?;
                }
            }
            Values::Wide(values) => {
                for row in rows {
                    sum = sum.checked_add(values[place_of(*row)]).ok_or_else(failed)?;
                }
            }
        }
        Ok(Tally { count, sum })
    }
}
