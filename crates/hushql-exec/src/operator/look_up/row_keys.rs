//! The keys of the rows of a table, as numbers.
//!
//! In: a column of integers or dates, in batches. Out: the place and the number of each row that
//! has a key; numbers ascend as the keys do.
//!
//! ```text
//! −2, NULL │ 3      →  (0, 2⁶³ − 2), (2, 2⁶³ + 3)
//! ```

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::Result;

use crate::grid::failed;
use crate::operator::bound_contributions::ordered;

/// Stands for no row.
pub(super) const NONE: u32 = u32::MAX;

/// The keys of all rows.
pub(super) struct Keys {
    parts: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl Keys {
    pub(super) fn of(batches: &[RecordBatch], key: usize) -> Result<Self> {
        let part = |batch: &RecordBatch| batch.columns().get(key).cloned().ok_or_else(failed);
        let parts: Vec<ArrayRef> = batches.iter().map(part).collect::<Result<_>>()?;
        let rows = parts.iter().map(|part| part.len()).sum();
        if rows >= NONE as usize {
            return Err(failed());
        }
        Ok(Self { parts, rows })
    }

    /// Visits the place and the code of each row that has a key, in order.
    pub(super) fn each(&self, mut visit: impl FnMut(u32, u64)) -> Result<()> {
        let mut places = 0_u32..;
        for part in &self.parts {
            let of_part = ordered(part)?.into_iter().zip(places.by_ref());
            match part.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => of_part.for_each(|(code, place)| visit(place, code)),
                Some(valid) => {
                    let valid = of_part.zip(valid.iter()).filter(|(_, valid)| *valid);
                    valid.for_each(|((code, place), _)| visit(place, code));
                }
            }
        }
        Ok(())
    }
}

/// For each row, the previous row with the same key. The list is empty until a key occurs twice.
pub(super) struct Before {
    rows: usize,
    pub(super) of: Vec<u32>,
}

impl Before {
    /// For this number of rows; no two have the same key so far.
    pub(super) fn of_rows(rows: usize) -> Self {
        Self { rows, of: Vec::new() }
    }

    /// Sets the previous row of this one; [`NONE`] if it is the first one with its key.
    pub(super) fn set(&mut self, place: u32, earlier: u32) {
        if earlier != NONE {
            self.of.resize(self.rows, NONE);
            self.of[place as usize] = earlier;
        }
    }
}
