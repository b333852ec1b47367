//! An index of the rows of a table by one integer column.
//!
//! In: all rows of a table. Out: for each key that is looked up, the places of the rows that have it, mostly one. Keys that are
//! close to each other have an array with a slot for each number; others have a hash table. Rows without a key are found by none.
//!
//! ```text
//! o_orderkey 1 2 3 · · · 7 32          →  slots 0 1 2 – – – 3 … 4
//! o_custkey  7 8 1       9 7
//! ```

use std::mem::size_of;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{HashMap, Result};

use crate::exec::operator::bound_contributions::integers;
use crate::grid::failed;

/// The place of no row.
pub(super) const NONE: u32 = u32::MAX;

/// How many slots of an array a row may take, on average.
const SLOTS_OF_A_ROW: usize = 8;

/// The most bytes that an index takes for a row: its slots, or its entry in a hash table that is half empty, and the row before.
pub(crate) const OF_A_ROW: usize = 40;

/// The rows of a table by their keys.
pub(crate) struct LookUp {
    index: Index,
    /// For each row, the row before it with the same key; empty if no key occurs twice.
    before: Vec<u32>,
    rows: RecordBatch,
}

enum Index {
    /// The last row of each key, by what the key is above the least one.
    Close { least: u64, slots: Vec<u32> },
    /// The last row of each key.
    Scattered(HashMap<u64, u32>),
}

/// Private rows are left out.
impl std::fmt::Debug for LookUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookUp").finish_non_exhaustive()
    }
}

impl LookUp {
    /// Whether a column of this type can be a key.
    pub(crate) fn takes(key: &DataType) -> bool {
        key.is_integer() || *key == DataType::Date32
    }

    /// Indexes rows by the column at `key`.
    ///
    /// # Errors
    /// A constant text for a key of another type, and for 2³² rows.
    pub(super) fn new(schema: &SchemaRef, batches: &[RecordBatch], key: usize) -> Result<Self> {
        let rows = concat_batches(schema, batches)?;
        if rows.num_rows() >= NONE as usize {
            return Err(failed());
        }
        let keys = rows.columns().get(key).ok_or_else(failed)?;
        let codes = codes(keys)?;
        let is_key = |place: &usize| keys.is_valid(*place);
        let least = (0..codes.len()).filter(is_key).map(|place| codes[place]).min().unwrap_or(0);
        let most = (0..codes.len()).filter(is_key).map(|place| codes[place]).max().unwrap_or(0);
        let slots = usize::try_from(most - least).ok().and_then(|range| range.checked_add(1));
        let slots = slots.filter(|slots| *slots / SLOTS_OF_A_ROW <= rows.num_rows());
        let mut index = match slots {
            Some(slots) => Index::Close { least, slots: vec![NONE; slots] },
            None => Index::Scattered(HashMap::with_capacity(rows.num_rows())),
        };
        let mut before = Vec::new();
        for place in (0..codes.len()).filter(is_key) {
            let this = u32::try_from(place).map_err(|_| failed())?;
            let earlier = match &mut index {
                Index::Close { least, slots } => {
                    let slot = usize::try_from(codes[place] - *least).map_err(|_| failed())?;
                    std::mem::replace(&mut slots[slot], this)
                }
                Index::Scattered(places) => places.insert(codes[place], this).unwrap_or(NONE),
            };
            if earlier != NONE {
                before.resize(codes.len(), NONE);
                before[place] = earlier;
            }
        }
        Ok(Self { index, before, rows })
    }

    /// For each key the place of its last row, or [`NONE`].
    ///
    /// # Errors
    /// A constant text for keys of another type.
    pub(super) fn last(&self, keys: &ArrayRef) -> Result<Vec<u32>> {
        let codes = codes(keys)?;
        let mut places: Vec<u32> = match &self.index {
            Index::Close { least, slots } => {
                let slot = |code: &u64| usize::try_from(code.wrapping_sub(*least)).ok();
                codes
                    .iter()
                    .map(|code| slot(code).and_then(|slot| slots.get(slot)).map_or(NONE, |p| *p))
                    .collect()
            }
            Index::Scattered(places) => {
                codes.iter().map(|code| places.get(code).map_or(NONE, |place| *place)).collect()
            }
        };
        if let Some(valid) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
            for (place, valid) in places.iter_mut().zip(valid.iter()) {
                if !valid {
                    *place = NONE;
                }
            }
        }
        Ok(places)
    }

    /// The row before this one with the same key, or [`NONE`].
    pub(super) fn before(&self, place: u32) -> u32 {
        self.before.get(place as usize).map_or(NONE, |before| *before)
    }

    /// Whether no key has more than one row.
    pub(super) fn is_unique(&self) -> bool {
        self.before.is_empty()
    }

    /// The columns of the table.
    pub(super) fn columns(&self) -> &[ArrayRef] {
        self.rows.columns()
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        let index = match &self.index {
            Index::Close { slots, .. } => slots.capacity() * size_of::<u32>(),
            Index::Scattered(places) => places.capacity() * (size_of::<(u64, u32)>() + 1),
        };
        index + self.before.capacity() * size_of::<u32>() + self.rows.get_array_memory_size()
    }
}

/// The keys as numbers in their own order.
fn codes(keys: &ArrayRef) -> Result<Vec<u64>> {
    let mut codes = integers(keys)?;
    if !keys.data_type().is_unsigned_integer() {
        codes.iter_mut().for_each(|code| *code ^= 1 << 63);
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, UInt64Array};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn look_up(parts: &[ArrayRef]) -> LookUp {
        let key = parts[0].data_type().clone();
        let schema = Arc::new(Schema::new(vec![Field::new("k", key, true)]));
        let batch = |part: &ArrayRef| RecordBatch::try_new(schema.clone(), vec![part.clone()]);
        let batches: Vec<_> = parts.iter().map(|part| batch(part).unwrap()).collect();
        LookUp::new(&schema, &batches, 0).unwrap()
    }

    fn all(look_up: &LookUp, keys: &ArrayRef) -> Vec<Vec<u32>> {
        let all = |last: u32| {
            let next = |place: &u32| Some(look_up.before(*place)).filter(|place| *place != NONE);
            std::iter::successors(Some(last).filter(|last| *last != NONE), next).collect()
        };
        look_up.last(keys).unwrap().into_iter().map(all).collect()
    }

    /// Close and scattered keys, negative ones, keys that are NULL, occur twice or never.
    #[test]
    fn every_row_is_found_by_its_key() {
        for scale in [1, 100_000] {
            let keys = |keys: &[Option<i32>]| -> ArrayRef {
                let scaled = keys.iter().map(|key| key.map(|key| key * scale));
                Arc::new(scaled.collect::<Int32Array>())
            };
            let rows = [Some(3), None, Some(-2), Some(5), Some(3), None, Some(3), Some(0)];
            let look_up = look_up(&[keys(&rows[..3]), keys(&[]), keys(&rows[3..])]);
            assert_eq!(matches!(look_up.index, Index::Close { .. }), scale == 1);
            assert!(!look_up.is_unique());
            let asked = [Some(3), Some(-2), None, Some(4), Some(6), Some(-3), Some(0), Some(5)];
            let found = all(&look_up, &keys(&asked));
            let none = Vec::new;
            let expected =
                [vec![6, 4, 0], vec![2], none(), none(), none(), none(), vec![7], vec![3]];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn keys_at_the_ends_of_their_type_and_no_keys_at_all() {
        let array = |keys: Vec<Option<u64>>| -> ArrayRef { Arc::new(UInt64Array::from(keys)) };
        let asked = || array(vec![Some(0), Some(u64::MAX), Some(7), None]);
        let ends = look_up(&[array(vec![Some(u64::MAX), Some(0)])]);
        assert_eq!(all(&ends, &asked()), [vec![1], vec![0], vec![], vec![]]);
        assert!(ends.is_unique());
        for none in [array(vec![]), array(vec![None, None])] {
            assert_eq!(all(&look_up(&[none]), &asked()), vec![Vec::<u32>::new(); 4]);
        }
        let most = look_up(&[array(vec![Some(u64::MAX), Some(u64::MAX - 1)])]);
        assert_eq!(all(&most, &asked()), [vec![], vec![0], vec![], vec![]]);
    }
}
