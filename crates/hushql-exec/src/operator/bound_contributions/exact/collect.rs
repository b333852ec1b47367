//! Collects rows by unit.
//!
//! In: the rows of one part, with their units, keys and values. Out: the wanted rows, in
//! [`BUCKETS`] buckets. It guarantees that all parts put a unit into the same bucket. So the last
//! pass works on pieces that fit the processor's cache, and the rows are never sorted as a whole.
//!
//! ```text
//! rows ─▶ bucket 0..256, each with the rows of its units and their values
//! ```

use datafusion::common::Result;

use super::radix_lists::Expected;
use super::rows_by_unit::{BUCKETS, Close, Inside};
use super::totals::CollectedShape;
use super::unit_buckets::{OF_A_ROW, UnitBuckets, Waited, Words};
use crate::grid::failed;
use crate::operator::bound_contributions::columns::held_batches::HeldBatch;
use crate::operator::bound_contributions::columns::kept_values::Payload;
use crate::operator::bound_contributions::task::BoundingTask;

/// Distributes rows over buckets, for some of the aggregates.
pub(in crate::operator::bound_contributions) struct Collector {
    /// The payload of each source that one of these aggregates reads.
    payloads: Vec<Option<Payload>>,
    /// The only source, if the rows themselves hold its values, and these values for the rows of a
    /// batch.
    inside: Option<usize>,
    numbers: Vec<Inside>,
    buckets: UnitBuckets,
    /// Whether values are read, and, if so, the rows of a batch with their buckets.
    reads: bool,
    added: Vec<(u32, u8)>,
}

/// What is known about the rows of a collector before they come.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::operator::bound_contributions) struct CollectorSize {
    /// The approximate number of rows.
    pub(in crate::operator::bound_contributions) rows: usize,
    pub(in crate::operator::bound_contributions) keys: usize,
    /// The range of all units, if they are close to each other.
    pub(in crate::operator::bound_contributions) close: Option<Close>,
    /// Whether only some buckets have rows.
    pub(in crate::operator::bound_contributions) in_turns: bool,
}

impl Collector {
    /// For rows of this size.
    pub(in crate::operator::bound_contributions) fn new(
        task: &BoundingTask,
        shape: &CollectedShape,
        known: CollectorSize,
    ) -> Self {
        let CollectorSize { rows, keys, close, in_turns } = known;
        let sources = &task.sources;
        // Units with several rows make some buckets larger than others.
        let entries = rows / BUCKETS + rows / BUCKETS / 16 + 16;
        let expected = Expected { entries, in_few: in_turns };
        let wanted = |at: usize| shape.aggregates().any(|i| sources.of[i] == at);
        let payload =
            |(at, source)| wanted(at).then(|| Payload::new(source, sources.flagged[at], expected));
        let payloads: Vec<_> = sources.list.iter().enumerate().map(payload).collect();
        let read = |at: &usize| payloads[*at].as_ref().is_some_and(Payload::reads);
        let mut read = (0..payloads.len()).filter(read);
        let fits = |at: &usize| {
            let payload = payloads[*at].as_ref().filter(|payload| payload.fits_inside());
            payload.is_some() && sources.list[*at].pairs.is_none()
        };
        let inside = match (read.next(), read.next()) {
            (only, None) if close.is_some() && keys <= Words::MOST_KEYS => only.filter(fits),
            _ => None,
        };
        Self {
            reads: inside.is_none() && payloads.iter().flatten().any(Payload::reads),
            buckets: UnitBuckets::new(close, inside.is_some(), task.hash, expected),
            payloads,
            inside,
            numbers: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Adds these rows of a batch, each of which counts, or all rows that count.
    ///
    /// # Errors
    /// An error with a constant text for the lanes of other sources, and for a unit outside of the
    /// range of close units.
    pub(in crate::operator::bound_contributions) fn add(
        &mut self,
        held: &HeldBatch,
        rows: Option<&[u32]>,
    ) -> Result<()> {
        let Self { payloads, inside, numbers, buckets, reads, added } = self;
        added.clear();
        numbers.clear();
        if let Some(at) = inside {
            held.lanes.get(*at).ok_or_else(failed)?.add_inside(held.rows, numbers)?;
            if numbers.len() != held.rows {
                return Err(failed());
            }
        }
        if !buckets.push(held, rows, numbers, reads.then_some(&mut *added)) {
            return Err(failed());
        }
        for (at, (payload, lane)) in payloads.iter_mut().zip(&held.lanes).enumerate() {
            if let Some(payload) = payload.as_mut().filter(|_| *inside != Some(at)) {
                payload.push(lane, added)?;
            }
        }
        Ok(())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        let (mut listed, mut of_inside) = (0, 0);
        for (at, payload) in self.payloads.iter().enumerate() {
            match (payload, self.inside == Some(at)) {
                (Some(payload), true) => of_inside = payload.of_row(),
                (Some(payload), false) => listed += payload.size(),
                (None, _) => {}
            }
        }
        self.buckets.size(of_inside) + listed
    }

    /// The bytes of one row.
    pub(in crate::operator::bound_contributions) fn of_row(
        task: &BoundingTask,
        shape: &CollectedShape,
    ) -> usize {
        let payloads = Self::new(task, shape, CollectorSize::default()).payloads;
        OF_A_ROW + payloads.iter().flatten().map(Payload::of_row).sum::<usize>()
    }

    /// The rows of each bucket, with their values.
    pub(in crate::operator::bound_contributions) fn into_buckets(self) -> Vec<Waited> {
        let inside = self.inside;
        let payloads = self.payloads.into_iter().enumerate();
        let mut payloads: Vec<_> = payloads
            .map(|(at, payload)| {
                let payload = payload?;
                Some(match inside == Some(at) {
                    true => payload.inside().into_iter(),
                    false => payload.into_buckets().into_iter(),
                })
            })
            .collect();
        let bucket = |rows| {
            let kept = payloads.iter_mut().map(|kept| kept.as_mut().and_then(Iterator::next));
            Waited { rows, kept: kept.collect() }
        };
        self.buckets.into_waiting().into_iter().map(bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::operator::bound_contributions::columns::grid_values::{
        Lane, LaneNumbers, ValueSources,
    };
    use crate::operator::bound_contributions::columns::held_batches::KeyPlaces;
    use crate::operator::bound_contributions::exact::keyed_order::HashKey;
    use crate::operator::bound_contributions::exact::unit_contribution::{
        AggregateInput, EnforcedBounds, InputKind,
    };
    use crate::operator::bound_contributions::keys::unit_codes::HeldUnits;

    fn task(hi: i128) -> BoundingTask {
        let kind = InputKind::Mean { column: 2, filter: None, grid: Grid::Integer, lo: 0, hi };
        let inputs = vec![AggregateInput::new(kind, EnforcedBounds::default())];
        let sources = ValueSources::new(&inputs).unwrap();
        BoundingTask { unit: 0, keys: vec![1], inputs, sources, hash: HashKey::new([1, 2, 3, 4]) }
    }

    fn held(rows: usize) -> HeldBatch {
        let units = HeldUnits::Codes(vec![5; rows]);
        let lane = Lane { passing: None, numbers: LaneNumbers::Half(vec![300; rows]) };
        let places = Some(KeyPlaces::Wide(vec![0; rows]));
        HeldBatch { units, places, lanes: vec![lane], rows, bytes: 0 }
    }

    /// One unit far from the others, or a key too large for a word, decides how rows are kept, but
    /// not how much memory is reserved for them.
    #[test]
    fn what_is_inside_takes_no_other_memory() {
        let task = task(300);
        let shape = CollectedShape::new(&task, vec![(0, 0)]).unwrap();
        for rows in [1, 100, 9_000] {
            let close = Some(Close { least: 0, span: 9 });
            let sizes = [(close, 1, true), (close, Words::MOST_KEYS + 1, false), (None, 1, false)];
            let sizes = sizes.map(|(close, keys, inside)| {
                let known = CollectorSize { rows, keys, close, in_turns: false };
                let mut collector = Collector::new(&task, &shape, known);
                assert_eq!(collector.inside.is_some(), inside);
                collector.add(&held(rows), None).unwrap();
                collector.size()
            });
            assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        }
    }
}
