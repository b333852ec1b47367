//! Numbers undeclared keys as they arrive, column by column.
//!
//! In: columns of keys, of which at least one holds texts. Out: for each row the number of its key,
//! in order of arrival. Columns often have few values and many combinations. So each value is
//! looked up in a small table of its column, and the large table of combinations is searched by two
//! numbers, not by texts. It guarantees that two rows have the same number exactly if all of their
//! values are equal, where NULL equals NULL.
//!
//! ```text
//! city: a, b, a, b     ─▶ 0, 1, 0, 1 ┐
//! shop: x, x, y, x     ─▶ 0, 0, 1, 0 ┴▶ (0, 0), (1, 0), (0, 1), (1, 0) ─▶ 0, 1, 2, 1
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt32Array, new_empty_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{HashMap, Result};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use crate::functions::ViewCache;
use crate::grid::failed;

/// The position of a key outside the key space.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// The keys that have arrived so far.
pub(in crate::operator::bound_contributions) struct Arrived {
    columns: Vec<NumberedColumn>,
    /// One for each column after the first.
    pairs: Vec<Pairs>,
    seen: ViewCache<u32>,
    codes: Vec<u32>,
}

/// The values of one column, numbered in order of arrival.
struct NumberedColumn {
    data_type: DataType,
    values: NumberedValues,
}

enum NumberedValues {
    Texts(Texts),
    Others { values: Box<dyn GroupValues>, ids: Vec<usize> },
}

/// Texts, numbered in order of arrival.
#[derive(Default)]
struct Texts {
    codes: HashMap<Arc<str>, u32>,
    /// `None` for NULL.
    texts: Vec<Option<Arc<str>>>,
    null: Option<u32>,
    bytes: usize,
}

/// The combinations of the columns so far with the next one, numbered in order of arrival.
#[derive(Default)]
struct Pairs {
    numbers: HashMap<u64, u32>,
    pairs: Vec<(u32, u32)>,
}

/// The next number after `len` numbers.
///
/// # Errors
/// An error with a constant text if 32 bits do not suffice.
fn next_number(len: usize) -> Result<u32> {
    u32::try_from(len).ok().filter(|number| *number != OUTSIDE).ok_or_else(failed)
}

impl Arrived {
    /// For key columns of these types.
    pub(in crate::operator::bound_contributions) fn new(types: &[DataType]) -> Result<Self> {
        let columns = types.iter().map(NumberedColumn::new).collect::<Result<_>>()?;
        let pairs = types.iter().skip(1).map(|_| Pairs::default()).collect();
        Ok(Self { columns, pairs, seen: ViewCache::new(OUTSIDE), codes: Vec::new() })
    }

    /// Replaces `places` by the number of each row's key.
    ///
    /// # Errors
    /// An error with a constant text for other columns, and if 32 bits do not suffice for the keys.
    pub(in crate::operator::bound_contributions) fn locate(
        &mut self,
        columns: &[ArrayRef],
        places: &mut Vec<u32>,
    ) -> Result<()> {
        let Self { columns: own, pairs, seen, codes } = self;
        let mut all = own.iter_mut().zip(columns);
        let (own, column) = all.next().ok_or_else(failed)?;
        own.codes(column, seen, places)?;
        for ((own, column), pairs) in all.zip(pairs) {
            own.codes(column, seen, codes)?;
            pairs.number(places, codes)?;
        }
        Ok(())
    }

    /// The number of keys.
    pub(in crate::operator::bound_contributions) fn len(&self) -> usize {
        let of_column = || self.columns.first().map_or(0, NumberedColumn::len);
        self.pairs.last().map_or_else(of_column, |pairs| pairs.pairs.len())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        let columns: usize = self.columns.iter().map(NumberedColumn::size).sum();
        columns + self.pairs.iter().map(Pairs::size).sum::<usize>()
    }

    /// The keys, in the order of their numbers.
    ///
    /// # Errors
    /// An error with a constant text if they cannot be put together.
    pub(in crate::operator::bound_contributions) fn finish(self) -> Result<Vec<ArrayRef>> {
        let mut numbers: Vec<u32> = (0..next_number(self.len())?).collect();
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut pairs = self.pairs.into_iter().rev();
        for column in self.columns.into_iter().rev() {
            let codes: Vec<u32> = match pairs.next() {
                Some(Pairs { pairs, .. }) => {
                    let of = |number: &u32| pairs.get(*number as usize).copied().ok_or_else(failed);
                    let pairs: Vec<(u32, u32)> = numbers.iter().map(of).collect::<Result<_>>()?;
                    numbers = pairs.iter().map(|(before, _)| *before).collect();
                    pairs.into_iter().map(|(_, code)| code).collect()
                }
                None => std::mem::take(&mut numbers),
            };
            columns.push(take(&column.finish()?, &UInt32Array::from(codes), None)?);
        }
        columns.reverse();
        Ok(columns)
    }
}

impl Pairs {
    /// Replaces the number of each row's combination so far by one that includes the next column.
    fn number(&mut self, places: &mut [u32], codes: &[u32]) -> Result<()> {
        for (place, code) in places.iter_mut().zip(codes) {
            let pair = u64::from(*place) << 32 | u64::from(*code);
            *place = match self.numbers.get(&pair) {
                Some(number) => *number,
                None => {
                    let number = next_number(self.pairs.len())?;
                    self.numbers.insert(pair, number);
                    self.pairs.push((*place, *code));
                    number
                }
            };
        }
        Ok(())
    }

    fn size(&self) -> usize {
        // Each slot of the hash table has one more byte for its hash.
        self.numbers.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.pairs.capacity() * size_of::<(u32, u32)>()
    }
}

impl NumberedColumn {
    fn new(data_type: &DataType) -> Result<Self> {
        let values = if *data_type == DataType::Utf8View {
            NumberedValues::Texts(Texts::default())
        } else {
            let values = interner(std::iter::once(data_type.clone()))?;
            NumberedValues::Others { values, ids: Vec::new() }
        };
        Ok(Self { data_type: data_type.clone(), values })
    }

    /// Replaces `codes` by the number of each row's value.
    fn codes(
        &mut self,
        column: &ArrayRef,
        seen: &mut ViewCache<u32>,
        codes: &mut Vec<u32>,
    ) -> Result<()> {
        codes.clear();
        match &mut self.values {
            NumberedValues::Others { values, ids } => {
                values.intern(std::slice::from_ref(column), ids)?;
                next_number(values.len())?;
                codes.extend(ids.iter().filter_map(|id| u32::try_from(*id).ok()));
            }
            NumberedValues::Texts(texts) => {
                let column = column.as_string_view_opt().ok_or_else(failed)?;
                next_number(texts.texts.len().saturating_add(column.len()))?;
                let nulls = column.nulls();
                seen.begin();
                codes.extend(column.views().iter().enumerate().map(|(row, view)| {
                    match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                        true => texts.null(),
                        false => seen.of(*view, || texts.code(column.value(row))),
                    }
                }));
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        match &self.values {
            NumberedValues::Texts(Texts { texts, .. }) => texts.len(),
            NumberedValues::Others { values, .. } => values.len(),
        }
    }

    fn size(&self) -> usize {
        match &self.values {
            NumberedValues::Texts(Texts { codes, texts, bytes, .. }) => {
                // An `Arc<str>` begins with two counters, and a slot has one more byte for its
                // hash.
                let slot = size_of::<(Arc<str>, u32)>() + 1;
                codes.capacity() * slot
                    + texts.capacity() * size_of::<Option<Arc<str>>>()
                    + texts.len() * 2 * size_of::<usize>()
                    + bytes
            }
            NumberedValues::Others { values, .. } => values.size(),
        }
    }

    /// The values, in the order of their numbers.
    fn finish(self) -> Result<ArrayRef> {
        match self.values {
            NumberedValues::Texts(Texts { texts, .. }) => {
                Ok(Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>()))
            }
            // Some interners panic if no row arrives.
            NumberedValues::Others { values, .. } if values.is_empty() => {
                Ok(new_empty_array(&self.data_type))
            }
            NumberedValues::Others { mut values, .. } => {
                values.emit(EmitTo::All)?.pop().ok_or_else(failed)
            }
        }
    }
}

impl Texts {
    /// The number of a text. There are fewer than 2³² − 1.
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let (text, code) = (Arc::<str>::from(text), u32_of(self.texts.len()));
        self.bytes += text.len();
        self.codes.insert(Arc::clone(&text), code);
        self.texts.push(Some(text));
        code
    }

    /// The number of NULL.
    fn null(&mut self) -> u32 {
        let next = u32_of(self.texts.len());
        let code = *self.null.get_or_insert(next);
        if code == next {
            self.texts.push(None);
        }
        code
    }
}

/// A number that was checked to fit.
fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(OUTSIDE)
}

/// DataFusion's own interner of group keys, as GROUP BY uses it: NULLs are equal.
pub(crate) fn interner(types: impl Iterator<Item = DataType>) -> Result<Box<dyn GroupValues>> {
    let fields: Vec<_> =
        types.enumerate().map(|(i, t)| Field::new(format!("key{i}"), t, true)).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    new_group_values(schema, &GroupOrdering::None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{Int64Array, StringViewArray};
    use arrow::util::display::{ArrayFormatter, FormatOptions};

    use super::*;
    use hushql_privacy::sampler::{QueryRng, Uniform};

    fn rows(columns: &[ArrayRef]) -> Vec<Vec<String>> {
        let options = FormatOptions::new().with_null("NULL");
        let texts = columns.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let texts: Vec<_> = texts.collect();
        let row = |row| texts.iter().map(|text| text.value(row).to_string()).collect();
        (0..columns[0].len()).map(row).collect()
    }

    /// Two rows have the same number exactly if they are equal, whatever rows came before, and the
    /// keys come out unchanged.
    #[test]
    fn equal_rows_have_one_number() {
        let mut rng = QueryRng::seeded_for_tests(91);
        let mut roll = |sides: u64| usize::try_from(rng.below_u64(sides)).unwrap();
        let (text, number) = (DataType::Utf8View, DataType::Int64);
        for types in [
            vec![text.clone()],
            vec![text.clone(), text.clone()],
            vec![number.clone(), text.clone()],
            vec![text.clone(), number.clone(), text.clone(), number.clone()],
        ] {
            for values in [3, 60, 4_000] {
                let mut arrived = Arrived::new(&types).unwrap();
                let (mut places, mut seen) = (Vec::new(), BTreeMap::new());
                let mut numbers = BTreeMap::new();
                for _ in 0..6 {
                    let length = roll(700);
                    let mut column = |data_type: &DataType| -> ArrayRef {
                        let mut codes = (0..length).map(|_| roll(values).checked_sub(1));
                        if *data_type == number {
                            let number = |code| i64::try_from(code).unwrap();
                            return Arc::new(
                                codes.map(|code| code.map(number)).collect::<Int64Array>(),
                            );
                        }
                        let long = |code: usize| match code % 3 {
                            0 => String::new() + &"x".repeat(code / 3 % 20),
                            _ => format!("a text behind a view, {code}"),
                        };
                        let texts: Vec<_> = codes.by_ref().map(|code| code.map(long)).collect();
                        Arc::new(StringViewArray::from_iter(texts))
                    };
                    let columns: Vec<_> = types.iter().map(&mut column).collect();
                    arrived.locate(&columns, &mut places).unwrap();
                    assert_eq!(places.len(), length);
                    for (row, place) in rows(&columns).into_iter().zip(&places) {
                        assert_eq!(*seen.entry(*place).or_insert_with(|| row.clone()), row);
                        assert_eq!(numbers.entry(row).or_insert(*place), place);
                    }
                    assert_eq!(arrived.len(), seen.len());
                    assert!(seen.is_empty() || arrived.size() > seen.len());
                }
                // Numbers have no gaps.
                let expected: Vec<_> = seen.into_values().collect();
                assert_eq!(rows(&arrived.finish().unwrap()), expected);
            }
        }
    }

    #[test]
    fn without_rows_there_are_no_keys() {
        for types in [vec![DataType::Utf8View], vec![DataType::Int64, DataType::Utf8View]] {
            let arrived = Arrived::new(&types).unwrap();
            assert_eq!(arrived.len(), 0);
            let keys = arrived.finish().unwrap();
            assert!(keys.len() == types.len() && keys.iter().all(|key| key.is_empty()));
            assert!(keys.iter().zip(&types).all(|(key, own)| key.data_type() == own));
        }
        let mut arrived = Arrived::new(&[DataType::Utf8View]).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(arrived.locate(&[numbers], &mut Vec::new()).is_err());
    }
}
