//! An index of the rows of a table by one integer column.
//!
//! In: all rows of a table. Out: the places of the rows that have a given key, mostly one. Keys
//! that are close to each other are found by a bit for each number, others by a hash table. No key
//! finds rows without a key.
//!
//! ```text
//! o_orderkey 1 2 3 · · · 7 32          →  bits 1 1 1 0 0 0 1 … 1, places 0 1 2 3 4
//! o_custkey  7 8 1       9 7
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{HashMap, Result};

use super::close::CloseKeys;
use super::row_keys::{Before, Keys, NONE};
use crate::grid::failed;
use crate::operator::bound_contributions::ordered;

/// The most bytes of an index for each row, in addition to its columns: an entry in a hash table
/// that is less than half full, and the previous row.
pub const OF_A_ROW: usize = 44;

/// The rows of a table by their keys.
pub struct LookUp {
    index: Index,
    /// For each row, the previous row with the same key; empty if no key occurs twice.
    before: Vec<u32>,
    /// The columns of the table without the key, which every row that is looked up has, too.
    columns: Vec<Option<ArrayRef>>,
    rows: usize,
}

/// The last row of each key.
enum Index {
    Close(CloseKeys),
    Scattered(HashMap<u64, u32>),
}

/// Leaves out private rows.
impl std::fmt::Debug for LookUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookUp").finish_non_exhaustive()
    }
}

impl LookUp {
    /// Whether a column of this type can be a key.
    pub fn takes(key: &DataType) -> bool {
        key.is_integer() || *key == DataType::Date32
    }

    /// Indexes rows by the column at `key`.
    ///
    /// # Errors
    /// An error with a constant text for a key of another type, and for 2³² rows.
    pub(super) fn new(schema: &SchemaRef, batches: &[RecordBatch], key: usize) -> Result<Self> {
        let keys = Keys::of(batches, key)?;
        let mut before = Before::of_rows(keys.rows);
        let index = match CloseKeys::of(&keys, &mut before)? {
            Some(close) => Index::Close(close),
            None => {
                let mut last = HashMap::with_capacity(keys.rows);
                keys.each(|place, code| {
                    before.set(place, last.insert(code, place).unwrap_or(NONE));
                })?;
                Index::Scattered(last)
            }
        };
        let column = |(at, field): (usize, &Arc<Field>)| {
            let of = |batch: &RecordBatch| batch.columns().get(at).cloned().ok_or_else(failed);
            let parts: Vec<ArrayRef> = batches.iter().map(of).collect::<Result<_>>()?;
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(match (at == key, parts.is_empty()) {
                (true, _) => None,
                (false, true) => Some(new_empty_array(field.data_type())),
                (false, false) => Some(concat(&parts)?),
            })
        };
        let columns = schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Self { index, before: before.of, columns, rows: keys.rows })
    }

    /// The place of the last row of each key, or [`NONE`].
    ///
    /// # Errors
    /// An error with a constant text for keys of another type.
    pub(super) fn last(&self, keys: &ArrayRef) -> Result<Vec<u32>> {
        let codes = ordered(keys)?;
        let mut places: Vec<u32> = match &self.index {
            Index::Close(close) => codes.iter().map(|code| close.last(*code)).collect(),
            Index::Scattered(last) => {
                codes.iter().map(|code| last.get(code).map_or(NONE, |place| *place)).collect()
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

    /// The previous row with the same key, or [`NONE`].
    pub(super) fn before(&self, place: u32) -> u32 {
        self.before.get(place as usize).map_or(NONE, |before| *before)
    }

    /// Whether no key has more than one row.
    pub(super) fn is_unique(&self) -> bool {
        self.before.is_empty()
    }

    /// The columns of the table, and `None` for the key.
    pub(super) fn columns(&self) -> &[Option<ArrayRef>] {
        &self.columns
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        let index = match &self.index {
            Index::Close(close) => close.size(),
            // A hash table fills at most seven of eight slots.
            Index::Scattered(last) => last.capacity() / 7 * 8 * (size_of::<(u64, u32)>() + 1),
        };
        index + self.before.capacity() * size_of::<u32>() + self.of_columns()
    }

    /// The most bytes of an index of this number of rows, whatever their keys are.
    pub(super) fn most(&self) -> usize {
        self.rows.saturating_mul(OF_A_ROW).saturating_add(self.of_columns())
    }

    fn of_columns(&self) -> usize {
        self.columns.iter().flatten().map(|column| column.get_array_memory_size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{Int32Array, UInt64Array};
    use arrow::datatypes::Schema;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

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

    /// Covers close and scattered keys, negative ones, and keys that are NULL, occur twice or
    /// never.
    #[test]
    fn every_row_is_found_by_its_key() {
        for scale in [1, 100_000] {
            let keys = |keys: &[Option<i32>]| -> ArrayRef {
                let scaled = keys.iter().map(|key| key.map(|key| key * scale));
                Arc::new(scaled.collect::<Int32Array>())
            };
            let rows = [Some(3), None, Some(-2), Some(5), Some(3), None, Some(3), Some(0)];
            let look_up = look_up(&[keys(&rows[..3]), keys(&[]), keys(&rows[3..])]);
            assert_eq!(matches!(look_up.index, Index::Close(_)), scale == 1);
            assert!(!look_up.is_unique());
            let asked = [Some(3), Some(-2), None, Some(4), Some(6), Some(-3), Some(0), Some(5)];
            let found = all(&look_up, &keys(&asked));
            let none = Vec::new;
            let expected =
                [vec![6, 4, 0], vec![2], none(), none(), none(), none(), vec![7], vec![3]];
            assert_eq!(found, expected);
        }
    }

    /// Covers keys in any order, at any distance, and any number of keys in a word.
    #[test]
    fn random_keys_have_the_places_of_a_map() {
        let mut dice = ChaCha20Rng::seed_from_u64(77);
        let (mut close, mut in_order) = (0, 0);
        for _ in 0..400 {
            let rows = dice.random_range(1..300_usize);
            let range = dice.random_range(1..70_u64) * dice.random_range(1..=rows as u64);
            let least = dice.random_range(0..=u64::MAX - range);
            let nulls = dice.random_bool(0.3);
            let key = |dice: &mut ChaCha20Rng| {
                let key = least + dice.random_range(0..range);
                (!nulls || dice.random_bool(0.9)).then_some(key)
            };
            let mut keys: Vec<_> = (0..rows).map(|_| key(&mut dice)).collect();
            if dice.random_bool(0.5) {
                keys.sort_unstable();
            }
            if dice.random_bool(0.5) {
                keys.dedup();
            }
            let array = |keys: &[Option<u64>]| -> ArrayRef {
                Arc::new(keys.iter().copied().collect::<UInt64Array>())
            };
            let (first, second) = keys.split_at(dice.random_range(0..=keys.len()));
            let look_up = look_up(&[array(first), array(second)]);
            let mut places: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for (key, place) in keys.iter().zip(0..) {
                if let Some(key) = key {
                    places.entry(*key).or_default().insert(0, place);
                }
            }
            let asked: Vec<u64> =
                (least.saturating_sub(2)..least.saturating_add(range + 2)).collect();
            let found = all(&look_up, &array(&asked.iter().copied().map(Some).collect::<Vec<_>>()));
            for (key, found) in asked.iter().zip(found) {
                assert_eq!(found, places.get(key).cloned().unwrap_or_default(), "{key}");
            }
            assert_eq!(look_up.is_unique(), places.values().all(|of_key| of_key.len() == 1));
            let ordered = keys.iter().all(Option::is_some) && keys.is_sorted_by(|a, b| a < b);
            if let Index::Close(keys) = &look_up.index {
                assert_eq!(keys.is_in_order(), ordered);
                close += 1;
                in_order += usize::from(ordered);
            }
        }
        assert!(close > 100 && close < 390 && in_order > 20, "{close} {in_order}");
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
