//! The keys of a private aggregate: known before any row is read, or taken from the rows.
//!
//! In: the key columns of a domain or of KEYS. Out: for every row of a batch, the position of its
//! key or [`OUTSIDE`]. It assumes that the keys are public. It guarantees that the keys in the
//! answer and their order do not depend on the data: a key without rows keeps its place, and a row
//! without a place is dropped. Undeclared keys get their places in order of arrival. A later stage
//! hides those with few units, and no order depends on their places.
//!
//! ```text
//! let space = KeySpace::new(&[Arc::new(StringArray::from(vec!["a", "b"]))])?;
//! space.index()?.locate(&[column_of("b", "z")], &mut places)?; // [1, OUTSIDE]
//! ```

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

use super::dense_keys::{Listed, Scratch};
use super::discovered_keys::{Arrived, OUTSIDE, interner};
use crate::grid::failed;

/// The index is rebuilt after it has seen this many unlisted keys, so that its memory depends on
/// the key space alone.
const MOST_UNKNOWN: usize = 1 << 16;

/// The key columns, in the order of the answer, without duplicates; no columns at all means one
/// global group.
#[derive(Debug, Clone)]
pub struct KeySpace {
    columns: Vec<ArrayRef>,
    len: usize,
    of_the_data: bool,
    /// The places of listed keys, if their columns are texts or integers that are close to each
    /// other.
    listed: Option<Arc<Listed>>,
}

impl KeySpace {
    /// The one group of an aggregate without GROUP BY.
    pub fn global() -> Self {
        Self { columns: Vec::new(), len: 1, of_the_data: false, listed: None }
    }

    /// All key tuples that occur in the rows, with columns of these types: for undeclared keys.
    pub fn of_the_data<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Self {
        let columns = types.into_iter().map(new_empty_array).collect();
        Self { columns, len: 0, of_the_data: true, listed: None }
    }

    /// Key tuples, given as columns of equal length. NaN becomes NULL and −0.0 becomes 0.0.
    ///
    /// # Errors
    /// A planning error when columns differ in length, a tuple occurs twice, or there are 2³² or
    /// more.
    pub fn new(columns: &[ArrayRef]) -> Result<Self> {
        let Some(first) = columns.first() else { return Ok(Self::global()) };
        let len = first.len();
        if columns.iter().any(|column| column.len() != len) {
            return plan_err!("key columns differ in length");
        }
        if u32::try_from(len).map_or(true, |len| len == OUTSIDE) {
            return plan_err!("more keys than 32 bits can count");
        }
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let listed = Listed::new(&columns)?.map(Arc::new);
        let space = Self { columns, len, of_the_data: false, listed };
        space.index()?;
        Ok(space)
    }

    /// The key columns.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the keys are undeclared and come from the rows.
    pub fn is_of_the_data(&self) -> bool {
        self.of_the_data
    }

    /// An index from key tuples to positions.
    pub(crate) fn index(&self) -> Result<KeyIndex> {
        KeyIndex::new(self)
    }
}

/// Finds the position of key tuples.
pub(crate) struct KeyIndex {
    space: KeySpace,
    /// Used where the space has no `listed` places.
    known: Option<ListedKeys>,
    /// Used instead of `known` for undeclared keys with a column of texts.
    arrived: Option<Arrived>,
    ids: Vec<usize>,
    scratch: Scratch,
}

struct ListedKeys {
    values: Box<dyn GroupValues>,
    /// The position of each interned id. Ids may be assigned in another order than that of the
    /// rows.
    places: Vec<u32>,
}

impl fmt::Debug for KeyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyIndex").field("space", &self.space).finish_non_exhaustive()
    }
}

impl KeyIndex {
    fn new(space: &KeySpace) -> Result<Self> {
        let (known, arrived, ids) = (None, None, Vec::new());
        let mut index =
            Self { space: space.clone(), known, arrived, ids, scratch: Scratch::default() };
        let types: Vec<_> = space.columns.iter().map(|key| key.data_type().clone()).collect();
        if space.of_the_data && types.contains(&DataType::Utf8View) {
            index.arrived = Some(Arrived::new(&types)?);
        } else if space.listed.is_none() {
            index.rebuild()?;
        }
        Ok(index)
    }

    fn rebuild(&mut self) -> Result<()> {
        let columns = &self.space.columns;
        if columns.is_empty() {
            return Ok(());
        }
        let mut values = interner(columns.iter().map(|column| column.data_type().clone()))?;
        values.intern(columns, &mut self.ids)?;
        let mut places = vec![OUTSIDE; values.len()];
        if places.len() != self.space.len {
            return plan_err!("a key occurs twice");
        }
        for (place, id) in (0..).zip(&self.ids) {
            places[*id] = place;
        }
        self.known = Some(ListedKeys { values, places });
        Ok(())
    }

    /// Replaces `places` by the positions of `rows` key tuples, or [`OUTSIDE`] for tuples that are
    /// not keys.
    pub(crate) fn locate(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        places: &mut Vec<u32>,
    ) -> Result<()> {
        places.clear();
        if let Some(listed) = &self.space.listed {
            return listed.locate(columns, places, &mut self.scratch);
        }
        if let Some(arrived) = &mut self.arrived {
            let columns: Vec<_> = columns.iter().map(canonical).collect();
            return arrived.locate(&columns, places);
        }
        let Some(known) = &mut self.known else {
            places.resize(rows, 0);
            return Ok(());
        };
        if columns.iter().any(|column| is_float(column.data_type())) {
            let columns: Vec<_> = columns.iter().map(canonical).collect();
            known.values.intern(&columns, &mut self.ids)?;
        } else {
            known.values.intern(columns, &mut self.ids)?;
        }
        if self.space.of_the_data {
            for id in &self.ids {
                let place = u32::try_from(*id).ok().filter(|place| *place != OUTSIDE);
                places.push(place.ok_or_else(failed)?);
            }
            return Ok(());
        }
        places.extend(self.ids.iter().map(|id| known.places.get(*id).copied().unwrap_or(OUTSIDE)));
        if known.values.len() > self.space.len.saturating_add(MOST_UNKNOWN) {
            self.rebuild()?;
        }
        Ok(())
    }
}

impl KeyIndex {
    /// The number of keys in the space, or of those that have arrived.
    pub(crate) fn len(&self) -> usize {
        if let Some(arrived) = &self.arrived {
            return arrived.len();
        }
        let known = self.known.as_ref().filter(|_| self.space.of_the_data);
        known.map_or(self.space.len, |known| known.values.len())
    }

    /// The bytes in use that depend on the rows.
    pub(crate) fn size(&self) -> usize {
        if let Some(arrived) = &self.arrived {
            return arrived.size();
        }
        let known = self.known.as_ref().filter(|_| self.space.of_the_data);
        known.map_or(0, |known| known.values.size())
    }

    /// Adds the keys of another partition's index. The result maps each of its places to a place
    /// here; `None` if these are the same.
    pub(in crate::operator::bound_contributions) fn absorb(
        &mut self,
        other: Self,
    ) -> Result<Option<Vec<u32>>> {
        if !self.space.of_the_data {
            return Ok(None);
        }
        let columns = other.finish()?.columns;
        let rows = columns.first().map_or(0, |column| column.len());
        let mut places = Vec::new();
        // Some interners panic if no row arrives.
        if rows > 0 {
            self.locate(&columns, rows, &mut places)?;
        }
        Ok(Some(places))
    }

    /// The keys of the space, or those that have arrived.
    pub(crate) fn finish(self) -> Result<Located> {
        let Self { space, known, arrived, .. } = self;
        if let Some(arrived) = arrived {
            let len = arrived.len();
            return Ok(Located { columns: arrived.finish()?, len, of_the_data: true });
        }
        let Some(mut known) = known.filter(|_| space.of_the_data) else {
            return Ok(Located { columns: space.columns, len: space.len, of_the_data: false });
        };
        let len = known.values.len();
        // Some interners panic if no row arrives, and the result must not reveal whether one did.
        let mut columns = match known.values.is_empty() {
            true => space.columns.iter().map(|column| column.slice(0, 0)).collect(),
            false => known.values.emit(EmitTo::All)?,
        };
        for (column, declared) in columns.iter_mut().zip(&space.columns) {
            if column.data_type() != declared.data_type() {
                *column = cast(column, declared.data_type())?;
            }
        }
        Ok(Located { columns, len, of_the_data: true })
    }
}

/// The keys, in the order of their places.
pub(crate) struct Located {
    pub(in crate::operator::bound_contributions) columns: Vec<ArrayRef>,
    pub(in crate::operator::bound_contributions) len: usize,
    /// Whether places were assigned in order of arrival.
    of_the_data: bool,
}

impl Located {
    /// The keys as bytes, if their places were assigned in order of arrival. Such keys may be
    /// ordered by these bytes only.
    pub(in crate::operator::bound_contributions) fn names(&self) -> Result<Option<Rows>> {
        if !self.of_the_data {
            return Ok(None);
        }
        let fields = self.columns.iter().map(|column| SortField::new(column.data_type().clone()));
        Ok(Some(RowConverter::new(fields.collect())?.convert_columns(&self.columns)?))
    }
}

pub(crate) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

/// Floats that compare equal get the same bits; NaN becomes NULL.
pub fn canonical(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float16 => numbers::<Float16Type>(column, |x| {
            (!x.is_nan()).then(|| x + Float16Type::default_value())
        }),
        DataType::Float32 => numbers::<Float32Type>(column, |x| (!x.is_nan()).then_some(x + 0.0)),
        DataType::Float64 => numbers::<Float64Type>(column, |x| (!x.is_nan()).then_some(x + 0.0)),
        _ => Arc::clone(column),
    }
}

fn numbers<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    fix: impl Fn(T::Native) -> Option<T::Native>,
) -> ArrayRef {
    let fixed: PrimitiveArray<T> = column.as_primitive::<T>().unary_opt(fix);
    Arc::new(fixed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Float64Array, Int64Array, StringArray, StringViewArray, UInt32Array,
    };
    use arrow::compute::take;
    use arrow::datatypes::DataType;

    use super::{KeySpace, MOST_UNKNOWN, OUTSIDE};

    fn places(space: &KeySpace, columns: &[ArrayRef]) -> Vec<u32> {
        let mut places = Vec::new();
        let rows = columns[0].len();
        space.index().unwrap().locate(columns, rows, &mut places).unwrap();
        places
    }

    #[test]
    fn null_is_a_key_only_where_listed() {
        let rows: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("z")]));
        let listed = KeySpace::new(&[Arc::new(StringArray::from(vec![None, Some("b")]))]);
        assert_eq!(places(&listed.unwrap(), &[Arc::clone(&rows)]), [1, 0, OUTSIDE]);
        let unlisted = KeySpace::new(&[Arc::new(StringArray::from(vec![Some("b")]))]);
        assert_eq!(places(&unlisted.unwrap(), &[rows]), [0, OUTSIDE, OUTSIDE]);
    }

    #[test]
    fn floats_match_by_value() {
        let space = KeySpace::new(&[Arc::new(Float64Array::from(vec![1.5, -0.0]))]).unwrap();
        let rows: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 1.5]));
        assert_eq!(places(&space, &[rows]), [1, 1, OUTSIDE, 0]);
        let null = KeySpace::new(&[Arc::new(Float64Array::from(vec![f64::NAN, 2.0]))]).unwrap();
        let rows: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(-f64::NAN), Some(2.0)]));
        assert_eq!(places(&null, &[rows]), [0, 0, 1]);
    }

    /// Short texts are inside their views, long ones outside; the same view in another column is
    /// another text.
    #[test]
    fn texts_are_found_whatever_their_views() {
        let names =
            |n: i64| (0..n).map(|i| "long enough to be behind a view ".repeat(3) + &i.to_string());
        let listed =
            names(3_000).map(Some).chain([None, Some(String::new()), Some("ab".to_owned())]);
        let listed: Vec<Option<String>> = listed.collect();
        let space = KeySpace::new(&[Arc::new(StringViewArray::from_iter(listed.clone()))]).unwrap();
        let mut index = space.index().unwrap();
        let mut places = Vec::new();
        for turn in [0, 1_700] {
            let mut rows: Vec<Option<String>> = listed.clone();
            rows.extend(names(3_100).skip(3_000).map(Some));
            rows.push(Some("\0".to_owned()));
            let mut expected: Vec<u32> = (0..3_003).chain([OUTSIDE; 101]).collect();
            rows.rotate_left(turn);
            expected.rotate_left(turn);
            let column: ArrayRef = Arc::new(StringViewArray::from_iter(rows));
            index.locate(&[Arc::clone(&column)], 3_104, &mut places).unwrap();
            assert_eq!(places, expected);
            // A slice, and texts that were stored once and are seen often.
            let often = UInt32Array::from_iter_values((0..9_000).map(|i| i * 7 % 3_104));
            let often_places: Vec<u32> =
                often.values().iter().map(|i| expected[*i as usize]).collect();
            let seen = take(&column, &often, None).unwrap().slice(5, 8_000);
            index.locate(&[seen], 8_000, &mut places).unwrap();
            assert_eq!(places, often_places[5..8_005]);
        }
        let twice = StringViewArray::from(vec![Some("a"), None, None]);
        assert!(KeySpace::new(&[Arc::new(twice)]).is_err());
        let twice = StringViewArray::from(vec!["a", "b", "a"]);
        assert!(KeySpace::new(&[Arc::new(twice)]).is_err());
        let other: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(index.locate(&[other], 1, &mut places).is_err());
    }

    #[test]
    fn pairs_keep_their_positions() {
        let n = 5_000_i64;
        let left: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(|i| i % 50)));
        let right: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..n).map(|i| (i / 50).to_string())));
        let space = KeySpace::new(&[Arc::clone(&left), Arc::clone(&right)]).unwrap();
        let expected: Vec<u32> = (0..5_000).collect();
        assert_eq!(places(&space, &[left, right]), expected);
    }

    #[test]
    fn duplicates_and_ragged_columns_are_refused() {
        let twice: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1]));
        let other: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert!(KeySpace::new(&[Arc::clone(&twice)]).is_err());
        assert!(KeySpace::new(&[twice, other]).is_err());
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert!(KeySpace::new(&[zeros]).is_err());
    }

    #[test]
    fn unknown_keys_do_not_accumulate_and_do_not_move_keys() {
        let far = 1 << 60;
        let space = KeySpace::new(&[Arc::new(Int64Array::from(vec![far, -8]))]).unwrap();
        let mut index = space.index().unwrap();
        let mut places = Vec::new();
        let chunk = i64::try_from(MOST_UNKNOWN).unwrap();
        for round in 0..4 {
            let rows = (round * chunk..(round + 1) * chunk).chain([-8, far]);
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
            index.locate(&[Arc::clone(&rows)], rows.len(), &mut places).unwrap();
            assert_eq!(places.split_off(MOST_UNKNOWN), [1, 0]);
            assert!(places.iter().all(|place| *place == OUTSIDE));
            assert!(index.known.as_ref().unwrap().values.len() <= MOST_UNKNOWN + 2);
        }
    }

    /// Places are assigned in order of arrival; the bytes of a key do not depend on when it
    /// arrives.
    #[test]
    fn keys_of_the_data_are_the_same_bytes_in_any_order() {
        let rows = [Some(0.0), None, Some(2.5), Some(-0.0), Some(f64::NAN), Some(2.5)];
        let mut seen = Vec::new();
        for turn in 0..rows.len() {
            let mut rows = rows;
            rows.rotate_left(turn);
            let mut index = KeySpace::of_the_data([&DataType::Float64]).index().unwrap();
            let mut places = Vec::new();
            let column: ArrayRef = Arc::new(Float64Array::from(rows.to_vec()));
            index.locate(&[column], rows.len(), &mut places).unwrap();
            assert!(index.size() > 0);
            let located = index.finish().unwrap();
            assert_eq!((located.len, located.columns[0].len()), (3, 3));
            let names = located.names().unwrap().unwrap();
            let name = |i: usize| names.row(places[i] as usize).data().to_vec();
            let zero = rows.iter().position(|x| *x == Some(0.0)).unwrap();
            let null = rows.iter().position(Option::is_none).unwrap();
            let half = rows.iter().position(|x| *x == Some(2.5)).unwrap();
            seen.push([name(zero), name(null), name(half)]);
        }
        seen.dedup();
        assert_eq!(seen.len(), 1);
        let listed = KeySpace::new(&[Arc::new(Int64Array::from(vec![5, 4]))]).unwrap();
        let located = listed.index().unwrap().finish().unwrap();
        assert!(located.names().unwrap().is_none() && located.len == 2);
    }

    #[test]
    fn no_column_is_one_group_and_no_key_is_none() {
        let mut places = vec![9];
        KeySpace::global().index().unwrap().locate(&[], 3, &mut places).unwrap();
        assert_eq!(places, [0, 0, 0]);
        let none = KeySpace::new(&[Arc::new(StringArray::from(Vec::<&str>::new()))]).unwrap();
        assert_eq!(none.len, 0);
        let rows: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(self::places(&none, &[rows]), [OUTSIDE]);
    }
}
