//! The places of listed keys, column by column.
//!
//! In: the columns of a key space. Out: for each row the place of its key, or [`OUTSIDE`]. Each
//! value has a number in its column: a text by a hash table, an integer by its distance from the
//! least one. The numbers of a row together are an index, which leads to its place. It guarantees
//! that a row has the place of a key exactly if all of their values are equal, where NULL equals
//! NULL.
//!
//! ```text
//! flag: A, N, R ─▶ 0, 1, 2 ┐
//! line: F, O    ─▶ 0, 1    ┴▶ 0 … 5 ─▶ the places of (A, F), (A, O), (N, F), …
//! ```

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{HashMap, Result, plan_err};

use super::discovered_keys::OUTSIDE;
use super::unit_codes::{each_ordered, ordered};
use crate::functions::ViewCache;
use crate::grid::failed;

/// The tables for numbers and for their combinations have at most this many entries for each key.
const ENTRIES_OF_A_KEY: usize = 8;

/// The listed keys.
#[derive(Debug)]
pub(in crate::operator::bound_contributions) struct Listed {
    columns: Vec<DenseColumn>,
    /// The place of each combination of numbers.
    places: Vec<u32>,
}

/// Buffers that locating rows reuses.
pub(in crate::operator::bound_contributions) struct Scratch {
    seen: ViewCache<u32>,
    codes: Vec<u32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { seen: ViewCache::new(OUTSIDE), codes: Vec::new() }
    }
}

/// The values of one column.
#[derive(Debug)]
struct DenseColumn {
    data_type: DataType,
    values: DenseValues,
    /// The number of NULL, or [`OUTSIDE`].
    null: u32,
    /// The number of values.
    len: u32,
}

#[derive(Debug)]
enum DenseValues {
    Texts(HashMap<Box<str>, u32>),
    /// The number of each value, from the least value on.
    Integers {
        least: u64,
        codes: Vec<u32>,
    },
}

/// The most entries for this number of keys.
fn entries(keys: usize) -> usize {
    keys.saturating_mul(ENTRIES_OF_A_KEY).saturating_add(64)
}

impl Listed {
    /// `None` for columns of other types, for integers that are far from each other, and if the
    /// keys are few of all combinations of values.
    ///
    /// # Errors
    /// A planning error if a key occurs twice.
    pub(in crate::operator::bound_contributions) fn new(
        columns: &[ArrayRef],
    ) -> Result<Option<Self>> {
        if columns.is_empty() || !columns.iter().all(|column| is_numbered(column.data_type())) {
            return Ok(None);
        }
        let keys = columns.first().map_or(0, |column| column.len());
        let mut all = 1_u32;
        let (mut own, mut combined) = (Vec::new(), vec![0_u32; keys]);
        for column in columns {
            let Some((column, codes)) = DenseColumn::new(column)? else { return Ok(None) };
            let fits = |all: &u32| usize::try_from(*all).is_ok_and(|all| all <= entries(keys));
            let Some(next) = all.checked_mul(column.len.max(1)).filter(fits) else {
                return Ok(None);
            };
            for (combined, code) in combined.iter_mut().zip(codes) {
                *combined = *combined * column.len + code;
            }
            all = next;
            own.push(column);
        }
        let mut places = vec![OUTSIDE; all as usize];
        for (place, combined) in (0..).zip(combined) {
            if std::mem::replace(&mut places[combined as usize], place) != OUTSIDE {
                return plan_err!("a key occurs twice");
            }
        }
        Ok(Some(Self { columns: own, places }))
    }

    /// Replaces `places` by the place of each row's key; `scratch` holds buffers.
    ///
    /// # Errors
    /// An error with a constant text for columns of other types.
    pub(in crate::operator::bound_contributions) fn locate(
        &self,
        columns: &[ArrayRef],
        places: &mut Vec<u32>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Self { columns: own, places: of_all } = self;
        let Scratch { seen, codes } = scratch;
        if own.len() != columns.len() {
            return Err(failed());
        }
        for (i, (own, column)) in own.iter().zip(columns).enumerate() {
            if i == 0 {
                own.codes(column, seen, places)?;
                continue;
            }
            own.codes(column, seen, codes)?;
            for (place, code) in places.iter_mut().zip(codes.iter()) {
                let both = *place != OUTSIDE && *code != OUTSIDE;
                *place = if both { *place * own.len + *code } else { OUTSIDE };
            }
        }
        // The values of one column are numbered in the order of their places.
        if own.len() > 1 {
            let place = |all: u32| of_all.get(all as usize).copied().unwrap_or(OUTSIDE);
            places.iter_mut().for_each(|all| *all = place(*all));
        }
        Ok(())
    }
}

/// Whether values of this type can be numbered in a column of their own.
fn is_numbered(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Utf8View | DataType::Date32)
}

impl DenseColumn {
    /// The values of a column, and the number of each of its rows.
    fn new(column: &ArrayRef) -> Result<Option<(Self, Vec<u32>)>> {
        let (data_type, values) = (column.data_type().clone(), DenseValues::Texts(HashMap::new()));
        let mut own = Self { data_type, values, null: OUTSIDE, len: 0 };
        let mut numbers = Vec::with_capacity(column.len());
        if let Some(texts) = column.as_string_view_opt() {
            let mut known = HashMap::<Box<str>, u32>::new();
            for text in texts {
                let next = own.len;
                let number = match text {
                    Some(text) => *known.entry(text.into()).or_insert(next),
                    None => own.number_of_null(),
                };
                own.len = own.len.max(number + 1);
                numbers.push(number);
            }
            own.values = DenseValues::Texts(known);
            return Ok(Some((own, numbers)));
        }
        let codes = ordered(column)?;
        let listed = || codes.iter().enumerate().filter(|(row, _)| column.is_valid(*row));
        let least = listed().map(|(_, code)| *code).min().unwrap_or(0);
        let most = listed().map(|(_, code)| *code).max().unwrap_or(0);
        let range = usize::try_from(most - least).ok();
        let Some(range) = range.filter(|range| *range < entries(column.len())) else {
            return Ok(None);
        };
        let mut known = vec![OUTSIDE; range + 1];
        for (row, code) in codes.iter().enumerate() {
            let number = if column.is_null(row) {
                own.number_of_null()
            } else {
                let at = usize::try_from(code - least).map_err(|_| failed())?;
                let number = known.get_mut(at).ok_or_else(failed)?;
                if *number == OUTSIDE {
                    *number = own.len;
                }
                *number
            };
            own.len = own.len.max(number + 1);
            numbers.push(number);
        }
        own.values = DenseValues::Integers { least, codes: known };
        Ok(Some((own, numbers)))
    }

    fn number_of_null(&mut self) -> u32 {
        if self.null == OUTSIDE {
            self.null = self.len;
        }
        self.null
    }

    /// Replaces `numbers` by the number of each row's value, or [`OUTSIDE`].
    fn codes(
        &self,
        column: &ArrayRef,
        seen: &mut ViewCache<u32>,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        numbers.clear();
        if *column.data_type() != self.data_type {
            return Err(failed());
        }
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        match &self.values {
            DenseValues::Texts(known) => {
                let column = column.as_string_view_opt().ok_or_else(failed)?;
                let find = |row| known.get(column.value(row)).copied().unwrap_or(OUTSIDE);
                seen.begin();
                numbers.extend(column.views().iter().enumerate().map(|(row, view)| {
                    match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                        true => self.null,
                        false => seen.of(*view, || find(row)),
                    }
                }));
            }
            DenseValues::Integers { least, codes } => {
                let number = |code: u64| {
                    let at = code.checked_sub(*least).and_then(|at| usize::try_from(at).ok());
                    at.and_then(|at| codes.get(at)).copied().unwrap_or(OUTSIDE)
                };
                each_ordered(column, number, numbers)?;
                if let Some(nulls) = nulls {
                    let of_nulls = numbers.iter_mut().zip(nulls).filter(|(_, valid)| !valid);
                    of_nulls.for_each(|(number, _)| *number = self.null);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap as Map;
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Int8Array, Int64Array, StringViewArray, UInt64Array};
    use arrow::compute::{cast, concat, take};
    use arrow::util::display::array_value_to_string;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    /// A column of a random type, with few values or NULL.
    fn random(dice: &mut ChaCha20Rng, kind: u8, rows: usize) -> ArrayRef {
        let shift = [0, 5, 100, -7][usize::from(kind / 3)];
        let value = |dice: &mut ChaCha20Rng| {
            dice.random_bool(0.8).then(|| dice.random_range(0..6_i64) + shift)
        };
        let values: Vec<_> = (0..rows).map(|_| value(dice)).collect();
        match kind % 3 {
            0 => Arc::new(values.into_iter().collect::<Int64Array>()),
            1 => {
                let narrow = values.into_iter().map(|value| i8::try_from(value?).ok());
                Arc::new(narrow.collect::<Int8Array>())
            }
            _ => {
                let text = |value: i64| {
                    format!(
                        "{value}{}",
                        if shift % 2 == 0 { "" } else { "-long-enough-to-be-elsewhere" }
                    )
                };
                Arc::new(StringViewArray::from_iter(values.into_iter().map(|v| v.map(text))))
            }
        }
    }

    fn rows(columns: &[ArrayRef]) -> Vec<Vec<Option<String>>> {
        let cell = |column: &ArrayRef, row| {
            column.is_valid(row).then(|| array_value_to_string(column, row).unwrap())
        };
        (0..columns[0].len()).map(|row| columns.iter().map(|c| cell(c, row)).collect()).collect()
    }

    /// Each row has the place of its key, for keys of one column or several, whatever other rows
    /// there are.
    #[test]
    fn rows_have_the_places_of_a_map() {
        let mut dice = ChaCha20Rng::seed_from_u64(12);
        let (mut listed, mut found, mut outside) = (0, 0, 0);
        for _ in 0..400 {
            let kinds: Vec<u8> =
                (0..dice.random_range(1..4)).map(|_| dice.random_range(0..12)).collect();
            let keys = dice.random_range(1..60);
            let all: Vec<_> = kinds.iter().map(|kind| random(&mut dice, *kind, keys)).collect();
            let mut of_keys: Map<Vec<Option<String>>, u32> = Map::new();
            let mut first = Vec::new();
            for (row, key) in (0_u64..).zip(rows(&all)) {
                let next = u32::try_from(of_keys.len()).unwrap();
                if *of_keys.entry(key).or_insert(next) == next {
                    first.push(row);
                }
            }
            let twice = first.len() < keys;
            assert!(!twice || !matches!(Listed::new(&all), Ok(Some(_))));
            let first = UInt64Array::from(first);
            let space: Vec<_> =
                all.iter().map(|column| take(column, &first, None).unwrap()).collect();
            let Some(own) = Listed::new(&space).unwrap() else { continue };
            listed += 1;
            let others = kinds.iter().map(|kind| random(&mut dice, kind % 3, 50));
            let asked: Vec<ArrayRef> = all
                .iter()
                .zip(others)
                .map(|(column, other)| {
                    concat(&[column.as_ref(), other.as_ref()]).unwrap().slice(3 % keys, 40)
                })
                .collect();
            let mut places = vec![7; 3];
            own.locate(&asked, &mut places, &mut Scratch::default()).unwrap();
            let expected: Vec<u32> = rows(&asked)
                .iter()
                .map(|key| of_keys.get(key).copied().unwrap_or(OUTSIDE))
                .collect();
            assert_eq!(places, expected);
            outside += expected.iter().filter(|place| **place == OUTSIDE).count();
            found += expected.iter().filter(|place| **place != OUTSIDE).count();
        }
        assert!(listed > 100 && found > 2_000 && outside > 1_000, "{listed} {found} {outside}");
    }

    #[test]
    fn integers_at_the_ends_of_their_type() {
        let column = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        for (keys, asked, expected) in [
            (vec![i64::MAX], vec![i64::MIN, i64::MAX, i64::MAX - 1], [OUTSIDE, 0, OUTSIDE]),
            (
                vec![i64::MIN + 2, i64::MIN],
                vec![i64::MIN, i64::MAX, i64::MIN + 1],
                [1, OUTSIDE, OUTSIDE],
            ),
            (vec![1, -1, 0], vec![-1, -2, 1], [1, OUTSIDE, 0]),
        ] {
            let listed = Listed::new(&[column(&keys)]).unwrap().unwrap();
            let mut places = Vec::new();
            listed.locate(&[column(&asked)], &mut places, &mut Scratch::default()).unwrap();
            assert_eq!(places, expected);
        }
        assert!(Listed::new(&[column(&[i64::MIN, i64::MAX])]).unwrap().is_none());
        assert!(Listed::new(&[column(&[0, 1 << 33])]).unwrap().is_none());
        let unsigned = |values: Vec<u64>| -> ArrayRef { Arc::new(UInt64Array::from(values)) };
        let mut listed = Listed::new(&[unsigned(vec![u64::MAX, 1 << 63])]).unwrap();
        assert!(listed.is_none());
        listed = Listed::new(&[unsigned(vec![u64::MAX, u64::MAX - 2])]).unwrap();
        let mut places = Vec::new();
        let asked = unsigned(vec![u64::MAX, 0, u64::MAX - 1, u64::MAX - 2]);
        listed.unwrap().locate(&[asked], &mut places, &mut Scratch::default()).unwrap();
        assert_eq!(places, [0, OUTSIDE, OUTSIDE, 1]);
    }

    /// Each type finds its own values, and a column of another type is an error. Without keys, no
    /// row has a place.
    #[test]
    fn types_are_told_apart() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(3)]));
        let asked: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(4), None, Some(7)]));
        let types = [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Date32,
            DataType::Utf8View,
        ];
        // Arrow casts only 32-bit integers to dates.
        let of = |column: &ArrayRef, to: &DataType| {
            let from = if *to == DataType::Date32 { &DataType::Int32 } else { &DataType::Int64 };
            cast(&cast(column, from).unwrap(), to).unwrap()
        };
        let (mut places, mut scratch) = (Vec::new(), Scratch::default());
        for own in &types {
            let keys = of(&values, own);
            let listed = Listed::new(&[keys.clone(), keys.clone()]).unwrap().unwrap();
            for other in &types {
                let asked = of(&asked, other);
                let found = listed.locate(&[asked.clone(), asked], &mut places, &mut scratch);
                assert_eq!(found.is_ok(), own == other, "{own} {other}");
                assert!(found.is_err() || places == [2, OUTSIDE, 1, 0], "{own} {places:?}");
            }
            let none = keys.slice(0, 0);
            let empty = Listed::new(&[none.clone(), none]).unwrap().unwrap();
            empty.locate(&[keys.clone(), keys], &mut places, &mut scratch).unwrap();
            assert_eq!(places, [OUTSIDE; 3]);
        }
        let other: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        assert!(Listed::new(&[other]).unwrap().is_none());
    }

    /// Integers are numbered up to eight entries for each key, and not beyond.
    #[test]
    fn integers_that_are_far_from_each_other_are_not_numbered() {
        for (last, is_listed) in [(79, true), (80, false)] {
            let keys: ArrayRef = Arc::new(Int64Array::from(vec![0, last]));
            assert_eq!(Listed::new(&[keys]).unwrap().is_some(), is_listed);
        }
    }
}
