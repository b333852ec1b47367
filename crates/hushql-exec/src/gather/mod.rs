//! Reads bounded inputs: rows of keys and integers become the exact integers of the mechanisms.
//!
//! In: the rows of a bounded input, from one partition. Out: [`Gathered`]: the sums of every listed
//! key, the places of every outer group in ascending order, or the sums of every key in the data. A
//! place is the index of a candidate on its axis. Nothing depends on the order of the rows.
//!
//! ```text
//! keys a, b     rows (b, 2), (a, 1), (b, 3)     1, 5
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{cast, take};
use arrow::datatypes::Int64Type;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::grid::failed;
use crate::operator::bound_contributions::canonical;
use gathered::{add, each_integer};

mod gathered;
mod groups;

pub use gathered::{Gathered, Histogram};
pub use groups::groups;

/// The listed keys of the groups that come out.
#[derive(Debug, Clone, Copy)]
pub struct KeyColumns<'k> {
    /// One column for each key column; none without GROUP BY.
    pub columns: &'k [ArrayRef],
    /// The number of combinations; 1 without GROUP BY.
    pub len: usize,
}

/// Adds up the integers of every key: one vector for each input column, one entry for each key of
/// the space.
///
/// # Guarantee
/// Entry (c, k) is the sum of column c over the input rows whose key is the k-th of the space, 0 if
/// there are none; rows with other keys have no effect. The result does not depend on the order of
/// rows.
///
/// # Errors
/// The errors of the rows; an error with a constant text for columns that differ from the plan, and
/// for a sum beyond 128 bits.
pub async fn sums(
    mut rows: SendableRecordBatchStream,
    keys: KeyColumns<'_>,
    columns: usize,
) -> Result<Vec<Vec<i128>>> {
    let mut sums = vec![vec![0_i128; keys.len]; columns];
    let mut index = KeyIndex::new(keys)?;
    let key_columns = keys.columns.len();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keys, values) = batch.columns().split_at_checked(key_columns).ok_or_else(failed)?;
        if values.len() != columns {
            return internal_err!("a release has as many inputs as it was planned with");
        }
        let runs = index.runs(keys, batch.num_rows())?;
        for (column, sums) in values.iter().zip(&mut sums) {
            let mut left = runs;
            each_integer(column, |row, value| {
                match position(&mut left, row).and_then(|p| sums.get_mut(p)) {
                    Some(entry) => add(entry, value),
                    None => Ok(()),
                }
            })?;
        }
    }
    Ok(sums)
}

/// The places of every outer group, from rows of (outer keys, place, integer).
///
/// # Errors
/// The errors of the rows; an error with a constant text for columns that differ from the plan, and
/// for a sum beyond 128 bits.
pub async fn places(
    mut rows: SendableRecordBatchStream,
    outer: KeyColumns<'_>,
) -> Result<Vec<Histogram>> {
    let mut groups = vec![Histogram::default(); outer.len];
    let mut index = KeyIndex::new(outer)?;
    let key_columns = outer.columns.len();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keys, values) = batch.columns().split_at_checked(key_columns).ok_or_else(failed)?;
        let [place, integers] = values else { return internal_err!("a place and an integer") };
        let Some(place) = place.as_primitive_opt::<Int64Type>() else {
            return internal_err!("places are integers");
        };
        let runs = index.runs(keys, batch.num_rows())?;
        if let Some(counts) = integers.as_primitive_opt::<Int64Type>()
            && counts.null_count() == 0
            && place.null_count() == 0
        {
            let mut from = 0;
            for run in runs {
                if let Some(group) = groups.get_mut(run.position) {
                    let rows = from..run.end;
                    group.extend(&place.values()[rows.clone()], &counts.values()[rows])?;
                }
                from = run.end;
            }
            continue;
        }
        let mut left = runs;
        each_integer(integers, |row, value| {
            if place.is_valid(row)
                && let Some(group) = position(&mut left, row).and_then(|p| groups.get_mut(p))
            {
                group.push(u64::try_from(place.value(row)).map_err(|_| failed())?, value);
            }
            Ok(())
        })?;
    }
    groups.into_iter().map(Histogram::merged).collect()
}

/// The places of groups with undeclared keys, from rows of (keys, place, integer). `keys` are those
/// of [`groups`], which say what groups there are.
///
/// # Guarantee
/// One histogram for each of the groups, in their order. Rows of other keys have no effect: without
/// the unit that they belong to, their group might not exist. The result does not depend on the
/// order of rows.
///
/// # Errors
/// As [`places`].
pub async fn places_of_groups(
    mut rows: SendableRecordBatchStream,
    keys: &[ArrayRef],
) -> Result<Vec<Histogram>> {
    let Some(len) = keys.first().map(Array::len) else {
        // The rows are read whether there are groups or not.
        while let Some(batch) = rows.next().await {
            batch?;
        }
        return Ok(Vec::new());
    };
    let schema = rows.schema();
    let of_rows = schema.fields().iter().zip(keys);
    let columns = of_rows.map(|(field, key)| cast(key, field.data_type()));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let key_columns = keys.len();
    let compared = rows.map(move |batch| {
        let batch = batch?;
        let columns = batch.columns().iter().enumerate();
        let columns = columns.map(|(i, column)| match i < key_columns {
            true => canonical(column),
            false => Arc::clone(column),
        });
        Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
    });
    let compared = Box::pin(RecordBatchStreamAdapter::new(schema, compared));
    places(compared, KeyColumns { columns: &columns, len }).await
}

/// The keys in the data, from rows of (key, integer).
///
/// # Errors
/// The errors of the rows; an error with a constant text for columns that differ from the plan, and
/// for a sum beyond 128 bits.
pub async fn data_keys(mut rows: SendableRecordBatchStream) -> Result<Gathered> {
    let schema = rows.schema();
    // This checks the schema, not a batch, because the data decide whether there is a batch.
    if schema.fields().len() != 2 {
        return internal_err!("a key and an integer");
    }
    let key = arrow::datatypes::Schema::new(vec![schema.field(0).clone()]);
    let mut groups = new_group_values(Arc::new(key), &GroupOrdering::None)?;
    let (mut sums, mut ids) = (Vec::new(), Vec::new());
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let [key, integers] = batch.columns() else { return internal_err!("a key and an integer") };
        groups.intern(std::slice::from_ref(key), &mut ids)?;
        sums.resize(groups.len(), 0_i128);
        each_integer(integers, |row, value| match ids.get(row).and_then(|id| sums.get_mut(*id)) {
            Some(entry) => add(entry, value),
            None => Ok(()),
        })?;
    }
    let values = if sums.is_empty() { None } else { groups.emit(EmitTo::All)?.into_iter().next() };
    Ok(Gathered::Keys { values, sums })
}

/// Consecutive rows of a batch that have the same key.
struct Equal {
    /// The first row after them.
    end: usize,
    /// The position of the key; for other keys, a position outside the space.
    position: usize,
}

/// The position of a row's key. `left` holds the runs; those before the row are dropped.
#[inline]
fn position(left: &mut &[Equal], row: usize) -> Option<usize> {
    while let [first, others @ ..] = left
        && first.end <= row
    {
        *left = others;
    }
    left.first().map(|run| run.position)
}

/// The rows whose key differs from that of the row before.
fn starts(keys: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
    let pairs = rows.saturating_sub(1);
    let differ = keys.iter().map(|key| match key.as_string_view_opt() {
        // Texts with equal views are equal. Equal texts with other views begin another run.
        Some(texts) if texts.null_count() == 0 => {
            let views = texts.views();
            Ok(BooleanBuffer::collect_bool(pairs, |row| views[row] != views[row + 1]))
        }
        Some(_) | None => {
            let differ = distinct(&key.slice(0, pairs), &key.slice(rows - pairs, pairs))?;
            Ok(differ.values().clone())
        }
    });
    let differ = differ.reduce(|one, other: Result<_>| Ok(&one? | &other?)).transpose()?;
    let later = differ.iter().flat_map(BooleanBuffer::set_indices).map(|row| row + 1);
    Ok((0..rows.min(1)).chain(later).collect())
}

/// Finds the position of a row's key in the key space.
struct KeyIndex {
    groups: Option<Box<dyn GroupValues>>,
    /// The key of each group. If hashes collide, groups are not numbered in the order of their
    /// rows.
    keys: Vec<usize>,
    /// The key columns of the space.
    columns: Vec<ArrayRef>,
    /// The groups of runs of equal keys.
    found: Vec<usize>,
    runs: Vec<Equal>,
}

impl KeyIndex {
    fn new(space: KeyColumns<'_>) -> Result<Self> {
        let (mut found, runs) = (Vec::new(), Vec::new());
        if space.columns.is_empty() {
            let (keys, columns) = (Vec::new(), Vec::new());
            return Ok(Self { groups: None, keys, columns, found, runs });
        }
        let fields: Vec<_> = space
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| {
                arrow::datatypes::Field::new(format!("k{i}"), c.data_type().clone(), true)
            })
            .collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let mut groups = new_group_values(schema, &GroupOrdering::None)?;
        groups.intern(space.columns, &mut found)?;
        // The space's keys are distinct, so each of its groups is one key. Every later group is
        // outside the space.
        let mut keys = vec![None; found.len()];
        for (key, group) in found.iter().enumerate() {
            match keys.get_mut(*group) {
                Some(free @ None) => *free = Some(key),
                Some(Some(_)) | None => {
                    return internal_err!("the keys of a release are distinct");
                }
            }
        }
        let keys = keys.into_iter().flatten().collect();
        let columns = space.columns.to_vec();
        Ok(Self { groups: Some(groups), keys, columns, found, runs })
    }

    /// Divides the rows into runs of equal keys. Each run is looked up once. If the columns are
    /// those of the space itself, nothing is looked up.
    fn runs(&mut self, keys: &[ArrayRef], rows: usize) -> Result<&[Equal]> {
        self.runs.clear();
        let Some(groups) = &mut self.groups else {
            self.runs.push(Equal { end: rows, position: 0 });
            return Ok(&self.runs);
        };
        if keys.len() == self.columns.len()
            && keys.iter().zip(&self.columns).all(|(key, own)| Arc::ptr_eq(key, own))
        {
            self.runs.extend((0..rows).map(|row| Equal { end: row + 1, position: row }));
            return Ok(&self.runs);
        }
        let starts = starts(keys, rows)?;
        let first = starts.iter().map(|start| u32::try_from(*start));
        let first = first.collect::<Result<UInt32Array, _>>().map_err(|_| failed())?;
        let firsts = keys.iter().map(|key| take(key, &first, None));
        groups.intern(&firsts.collect::<Result<Vec<_>, _>>()?, &mut self.found)?;
        for (end, group) in starts.iter().skip(1).chain([&rows]).zip(&self.found) {
            let position = self.keys.get(*group).copied().unwrap_or(*group);
            self.runs.push(Equal { end: *end, position });
        }
        Ok(&self.runs)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use datafusion::common::ScalarValue;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::stream;

    use super::*;
    use crate::aggregate::tests_keys::ListedKeys;

    /// The values of a batch are not looked at if its columns are those of the space itself.
    #[tokio::test]
    async fn rows_are_found_by_their_keys() {
        let numbers = [5_i64, 4, 9].map(ScalarValue::from);
        let texts = ["a", "b"].map(|text| ScalarValue::Utf8View(Some(text.to_owned())));
        let keys = ListedKeys::product(&[numbers.to_vec(), texts.to_vec()]);
        let counts: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2, 3, 4, 5, 6]));
        let own = keys.columns().to_vec();
        let turned: ArrayRef = Arc::new(Int64Array::from(vec![9, 4, 4, 5, 9, 5]));
        let other: ArrayRef = Arc::new(Int64Array::from(vec![4; 6]));
        let mixed: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "a", "b", "a", "z", "b"]));
        for (columns, expected) in [
            ([&own[0], &own[1]], [1, 2, 3, 4, 5, 6]),
            ([&turned, &mixed], [4, 6, 2, 3, 0, 1]),
            ([&turned, &own[1]], [0, 10, 3, 2, 6, 0]),
            ([&other, &mixed], [0, 0, 6, 10, 0, 0]),
        ] {
            let columns = [("number", columns[0]), ("text", columns[1]), ("sum", &counts)];
            let columns = columns.map(|(name, column)| (name, Arc::clone(column), true));
            let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
            let rows = stream::iter([Ok(batch.clone()), Ok(batch.clone())]);
            let rows = Box::pin(RecordBatchStreamAdapter::new(batch.schema(), rows));
            let found = sums(rows, keys.listed(), 1).await.unwrap();
            assert_eq!(found, [expected.map(|sum| 2 * sum)]);
        }
    }
}
