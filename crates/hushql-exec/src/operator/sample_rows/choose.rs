//! Chooses which rows of each unit stay.
//!
//! In: the collected rows of all partitions, and some of their buckets. Out: the kept rows of these
//! buckets, one by one. It assumes that all rows of a unit are in one bucket. It guarantees that
//! the choice is a function of the unit's value, its multiset of rows and the key. If two hashes
//! are equal, rows are compared by their values, encoded as bytes, never by their positions.
//!
//! ```text
//! bucket ─▶ rows by unit ─▶ by rank and bytes of the group ─▶ k_j ─▶ the k_j least ranks of rows
//! ```

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, interleave};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::hold::SharedNames;
use super::row_collector::{BATCH, SamplingTask, bytes_of};
use crate::grid::failed;
use crate::operator::bound_contributions::{UnitRow, Units, place_of};

/// The second pass: chooses among the collected rows.
pub(super) struct Chooser {
    names: Arc<SharedNames>,
    suspects: Arc<Suspects>,
    buckets: Vec<Vec<UnitRow>>,
    reservation: MemoryReservation,
    units: Units,
    choice: RowChoice,
    ready: VecDeque<RecordBatch>,
}

/// The collected rows of all partitions, and the memory that is reserved for them.
pub(super) struct Suspects {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) _reservation: MemoryReservation,
}

/// A row's rank and its place in the bucket.
type Ranked = (u64, usize);

/// The rows of a bucket as bytes, and which of them are kept.
struct RowChoice {
    groups: EncodedBucket,
    others: EncodedBucket,
    kept: Vec<bool>,
    by_group: Vec<Ranked>,
    by_row: Vec<Ranked>,
    by_copy: Vec<Ranked>,
}

impl Chooser {
    /// Chooses among the rows of these buckets.
    pub(super) fn new(
        names: Arc<SharedNames>,
        suspects: Arc<Suspects>,
        buckets: Vec<Vec<UnitRow>>,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let task = &names.task;
        let choice = RowChoice {
            groups: EncodedBucket::new(task, task.group.clone())?,
            others: EncodedBucket::new(task, task.other.clone())?,
            kept: Vec::new(),
            by_group: Vec::new(),
            by_row: Vec::new(),
            by_copy: Vec::new(),
        };
        let (units, ready) = (Units::default(), VecDeque::new());
        Ok(Self { names, suspects, buckets, reservation, units, choice, ready })
    }

    /// The next finished batch.
    pub(super) fn next_batch(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    /// Processes one bucket; false if none is left.
    pub(super) fn next_bucket(&mut self) -> Result<bool> {
        let Some(mut rows) = self.buckets.pop() else { return Ok(false) };
        let task = Arc::clone(&self.names.task);
        if rows.is_empty() {
            return Ok(true);
        }
        let mut places = Vec::with_capacity(rows.len());
        for (i, row) in rows.iter_mut().enumerate() {
            places.push((row.key as usize, row.place as usize));
            (row.key, row.place) = (0, u32::try_from(i).map_err(|_| failed())?);
        }
        self.units.group(&rows, task.hash)?;
        let gathered: Vec<_> =
            places.chunks(BATCH).map(|places| self.gather(places)).collect::<Result<_>>()?;
        let limits = task.limits;
        let spare = |count: usize| u64::try_from(count).is_ok_and(|count| limits.spare(count));
        let encode = self.units.each().any(|(_, own)| !spare(own.len()));
        self.choice.load(&gathered, rows.len(), encode)?;
        self.account(rows.len(), &gathered)?;
        for (code, own) in self.units.each() {
            if spare(own.len()) {
                own.iter().for_each(|row| self.choice.kept[place_of(*row)] = true);
            } else {
                let unit = self.names.units.hash(code, task.hash)?;
                self.choice.choose(&task, unit, own)?;
            }
        }
        for (batch, kept) in gathered.iter().zip(self.choice.kept.chunks(BATCH)) {
            let batch = filter_record_batch(batch, &BooleanArray::from(kept.to_vec()))?;
            if batch.num_rows() > 0 {
                self.ready.push_back(batch);
            }
        }
        Ok(true)
    }

    /// The rows at these places, side by side.
    fn gather(&self, places: &[(usize, usize)]) -> Result<RecordBatch> {
        let column = |i: usize| -> Result<ArrayRef> {
            let columns: Vec<&dyn Array> =
                self.suspects.batches.iter().map(|batch| batch.column(i).as_ref()).collect();
            Ok(interleave(&columns, places)?)
        };
        let schema = Arc::clone(&self.names.task.schema);
        let columns = (0..schema.fields().len()).map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// Reserves memory. One unit may have all rows; its bucket is then as large as the partition.
    fn account(&mut self, rows: usize, gathered: &[RecordBatch]) -> Result<()> {
        let left: usize = self.buckets.iter().map(Vec::capacity).sum();
        let left = left.saturating_add(rows.saturating_mul(3)) * size_of::<UnitRow>();
        let bucket = gathered.iter().map(|batch| bytes_of(batch.columns()));
        let bucket = bucket.sum::<Result<usize>>()?;
        let held = left + bucket + self.choice.size();
        self.reservation.try_resize(held).map_err(|_| failed())
    }
}

impl RowChoice {
    /// Loads a bucket. Its rows are encoded only if a unit may lose rows.
    fn load(&mut self, gathered: &[RecordBatch], rows: usize, encode: bool) -> Result<()> {
        self.kept.clear();
        self.kept.resize(rows, false);
        if encode {
            self.groups.load(gathered)?;
            self.others.load(gathered)?;
        }
        Ok(())
    }

    /// Marks the rows that one unit keeps.
    ///
    /// # Guarantee
    /// For all rows of a unit: at most M are marked, at most m of them in one group, and they lie
    /// in at most C groups. As a multiset, the marked rows are a function of the unit, its multiset
    /// of rows and the key. Source: the rule of contribution bounding by hash order.
    fn choose(&mut self, task: &SamplingTask, unit: u64, rows: &[u64]) -> Result<()> {
        let mut by_group = std::mem::take(&mut self.by_group);
        by_group.clear();
        by_group.extend(rows.iter().map(|row| {
            let place = place_of(*row);
            (task.hash.group_rank(unit, self.groups.bytes(place)), place)
        }));
        self.groups.sort(&mut by_group);
        let groups: Vec<&[Ranked]> =
            by_group.chunk_by(|a, b| self.groups.compare(a, b).is_eq()).collect();
        if task.distinct {
            self.choose_distinct(task, &groups);
            self.by_group = by_group;
            return Ok(());
        }
        for (group, quota) in task.limits.keep(groups.into_iter(), |group| group.len()) {
            let quota = usize::try_from(quota).map_err(|_| failed())?;
            if quota >= group.len() {
                group.iter().for_each(|(_, place)| self.kept[*place] = true);
            } else {
                self.choose_in_group(task, group, quota);
            }
        }
        self.by_group = by_group;
        Ok(())
    }

    /// Marks the distinct rows that one unit keeps. Of several equal rows it marks an arbitrary
    /// one.
    ///
    /// # Guarantee
    /// As [`RowChoice::choose`], with rows_j the number of distinct rows of group j. The kept rows
    /// are a function of the unit, the set of its rows and the key.
    fn choose_distinct(&mut self, task: &SamplingTask, groups: &[&[Ranked]]) {
        let others = &self.others;
        let mut different: Vec<Vec<usize>> = Vec::with_capacity(groups.len());
        for group in groups {
            self.by_row.clear();
            self.by_row.extend(
                group
                    .iter()
                    .map(|(rank, place)| (task.hash.row_rank(*rank, others.bytes(*place)), *place)),
            );
            others.sort(&mut self.by_row);
            let equal = self.by_row.chunk_by(|a, b| others.compare(a, b).is_eq());
            different
                .push(equal.filter_map(|rows| rows.first()).map(|(_, place)| *place).collect());
        }
        for (rows, quota) in task.limits.keep(different.iter(), |rows| rows.len()) {
            let quota = usize::try_from(quota).unwrap_or(usize::MAX);
            rows.iter().take(quota).for_each(|place| self.kept[*place] = true);
        }
    }

    /// Marks `quota` of one group's rows. The group has more than `quota` rows, and `quota` is at
    /// least one.
    fn choose_in_group(&mut self, task: &SamplingTask, group: &[Ranked], quota: usize) {
        let others = &self.others;
        let ranked = group.iter();
        let ranked =
            ranked.map(|(rank, place)| (task.hash.row_rank(*rank, others.bytes(*place)), *place));
        self.by_row.clear();
        self.by_row.extend(ranked);
        others.sort(&mut self.by_row);
        self.by_copy.clear();
        // Equal rows are numbered in an arbitrary order.
        for equal in self.by_row.chunk_by(|a, b| others.compare(a, b).is_eq()) {
            for (copy, (rank, place)) in (0..).zip(equal) {
                self.by_copy.push((task.hash.copy_rank(*rank, copy), *place));
            }
        }
        self.by_copy.select_nth_unstable_by(quota - 1, |a, b| others.compare(a, b));
        self.by_copy[..quota].iter().for_each(|(_, place)| self.kept[*place] = true);
    }

    /// The bytes in use, including ranks that are not computed yet.
    fn size(&self) -> usize {
        let ranked = self.by_group.capacity() + self.by_row.capacity() + self.by_copy.capacity();
        let ranked = ranked.max(self.kept.len().saturating_mul(3)) * size_of::<Ranked>();
        ranked + self.groups.rows.size() + self.others.rows.size() + self.kept.capacity()
    }
}

/// Some columns of a bucket's rows, as bytes that are equal exactly if the values are.
struct EncodedBucket {
    columns: Vec<usize>,
    converter: RowConverter,
    rows: Rows,
}

impl EncodedBucket {
    fn new(task: &SamplingTask, columns: Vec<usize>) -> Result<Self> {
        let field = |column: &usize| SortField::new(task.schema.field(*column).data_type().clone());
        let converter = RowConverter::new(columns.iter().map(field).collect())?;
        let rows = converter.empty_rows(0, 0);
        Ok(Self { columns, converter, rows })
    }

    fn load(&mut self, batches: &[RecordBatch]) -> Result<()> {
        self.rows.clear();
        if self.columns.is_empty() {
            return Ok(());
        }
        for batch in batches {
            let columns: Vec<_> =
                self.columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
            self.converter.append(&mut self.rows, &columns)?;
        }
        Ok(())
    }

    fn bytes(&self, place: usize) -> &[u8] {
        if self.columns.is_empty() { &[] } else { self.rows.row(place).data() }
    }

    /// Sorts in the order of [`EncodedBucket::compare`]. If ranks are equal, values nearly always
    /// are equal too; this is checked once for each row instead of in every comparison.
    fn sort(&self, ranked: &mut [Ranked]) {
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        for same in ranked.chunk_by_mut(|(a, _), (b, _)| a == b) {
            let [(_, first), others @ ..] = same else { continue };
            let first = self.bytes(*first);
            if others.iter().any(|(_, place)| self.bytes(*place) != first) {
                same.sort_unstable_by(|a, b| self.compare(a, b));
            }
        }
    }

    /// Compares by rank, and then by value, so that distinct values never compare equal.
    fn compare(&self, (a, place_a): &Ranked, (b, place_b): &Ranked) -> Ordering {
        a.cmp(b).then_with(|| self.bytes(*place_a).cmp(self.bytes(*place_b)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::operator::bound_contributions::{EnforcedBounds, HashKey};

    /// Two rows with the same hash stay two rows, ordered by value.
    #[test]
    fn equal_ranks_are_ordered_by_value_in_any_order_of_the_rows() {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
        let hash = HashKey::new([1, 2, 3, 4]);
        let task = SamplingTask::new(1, &[], EnforcedBounds::default(), hash, Arc::clone(&schema));
        let values = [Some(3), None, Some(-2), Some(3), Some(9), None, Some(-2), Some(3)];
        let mut encoded = EncodedBucket::new(&task, vec![0]).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        encoded.load(&[RecordBatch::try_new(schema, vec![column]).unwrap()]).unwrap();
        let mut turned: Vec<Ranked> = (0..8).map(|i| (u64::from(i == 4) ^ 1, i)).collect();
        for _ in 0..8 {
            turned.rotate_left(3);
            let mut sorted = turned.clone();
            encoded.sort(&mut sorted);
            let order: Vec<_> = sorted.iter().map(|(_, place)| values[*place]).collect();
            let (n, b, c) = (None, Some(-2), Some(3));
            assert_eq!(order, [Some(9), n, n, b, b, c, c, c]);
            let equal: Vec<_> =
                sorted.chunk_by(|a, b| encoded.compare(a, b).is_eq()).map(<[_]>::len).collect();
            assert_eq!(equal, [1, 2, 2, 3]);
        }
    }
}
