//! Holds the columns that aggregates need of each batch, until all rows have arrived.
//!
//! In: the batches of one partition. Out: for each of them the units, the places of the keys, and
//! the lanes of numbers. A row without a unit, or with an unlisted key, is [`OUTSIDE`]. Meanwhile
//! [`ColumnSums`] adds all rows up. Batches that exceed the memory are
//! [packed](super::spill_format) into a file. It assumes nothing about the order of rows or about
//! other partitions.
//!
//! ```text
//! batch ─ locate keys ─▶ places: 3, 0, OUTSIDE, …
//!       ├ hold units ──▶ integers as they are, the numbers of other values
//!       └ read ────────▶ lanes of numbers ─▶ added up
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::column_sums::ColumnSums;
use super::grid_values::Lane;
use crate::grid::failed;
use crate::operator::bound_contributions::exact::unit_contribution::AggregateInput;
use crate::operator::bound_contributions::keys::discovered_keys::OUTSIDE;
use crate::operator::bound_contributions::keys::key_space::KeyIndex;
use crate::operator::bound_contributions::keys::unit_codes::{HeldUnits, UnitCodes};
use crate::operator::bound_contributions::task::BoundingTask;
use crate::operator::shelf::Shelf;

/// The needed part of a batch.
pub(in crate::operator::bound_contributions) struct HeldBatch {
    pub(in crate::operator::bound_contributions) units: HeldUnits,
    /// The place of each row's key; `None` if there is one key and all rows count.
    pub(in crate::operator::bound_contributions) places: Option<KeyPlaces>,
    pub(in crate::operator::bound_contributions) lanes: Vec<Lane>,
    pub(in crate::operator::bound_contributions) rows: usize,
    /// The bytes in use.
    pub(in crate::operator::bound_contributions) bytes: usize,
}

impl HeldBatch {
    /// Visits each row that counts: its number, its unit, and the place of its key.
    pub(in crate::operator::bound_contributions) fn each(&self, visit: impl FnMut(u32, u64, u32)) {
        match &self.units {
            HeldUnits::Close { least, above, .. } => {
                self.each_of(above.iter().map(|above| least + u64::from(*above)), visit);
            }
            HeldUnits::Codes(codes) => self.each_of(codes.iter().copied(), visit),
        }
    }

    /// Visits these rows, each of which counts, or all rows that count; see [`HeldBatch::each`].
    pub(in crate::operator::bound_contributions) fn each_in(
        &self,
        rows: Option<&[u32]>,
        visit: impl FnMut(u32, u64, u32),
    ) {
        let Some(rows) = rows else { return self.each(visit) };
        match &self.units {
            HeldUnits::Close { least, above, .. } => {
                self.each_at(rows, |row| least + u64::from(above[row]), visit);
            }
            HeldUnits::Codes(codes) => self.each_at(rows, |row| codes[row], visit),
        }
    }

    fn each_at(
        &self,
        rows: &[u32],
        unit: impl Fn(usize) -> u64,
        mut visit: impl FnMut(u32, u64, u32),
    ) {
        let rows = rows.iter().map(|row| (*row, *row as usize));
        match &self.places {
            None => rows.for_each(|(row, at)| visit(row, unit(at), 0)),
            Some(KeyPlaces::Byte(places)) => {
                rows.for_each(|(row, at)| visit(row, unit(at), places[at].into()));
            }
            Some(KeyPlaces::Short(places)) => {
                rows.for_each(|(row, at)| visit(row, unit(at), places[at].into()));
            }
            Some(KeyPlaces::Wide(places)) => {
                rows.for_each(|(row, at)| visit(row, unit(at), places[at]));
            }
        }
    }

    /// Whether a row counts.
    pub(in crate::operator::bound_contributions) fn has_key(&self, row: usize) -> bool {
        match &self.places {
            None => true,
            Some(KeyPlaces::Byte(places)) => places.get(row).is_some_and(|place| *place != u8::MAX),
            Some(KeyPlaces::Short(places)) => {
                places.get(row).is_some_and(|place| *place != u16::MAX)
            }
            Some(KeyPlaces::Wide(places)) => places.get(row).is_some_and(|place| *place != OUTSIDE),
        }
    }

    fn each_of(&self, units: impl Iterator<Item = u64>, mut visit: impl FnMut(u32, u64, u32)) {
        match &self.places {
            None => units.zip(0..).for_each(|(unit, row)| visit(row, unit, 0)),
            Some(KeyPlaces::Byte(places)) => each_inside(units, places, u8::MAX, visit),
            Some(KeyPlaces::Short(places)) => each_inside(units, places, u16::MAX, visit),
            Some(KeyPlaces::Wide(places)) => each_inside(units, places, OUTSIDE, visit),
        }
    }
}

/// Visits the rows whose place is not `outside`.
fn each_inside<T: Copy + PartialEq + Into<u32>>(
    units: impl Iterator<Item = u64>,
    places: &[T],
    outside: T,
    mut visit: impl FnMut(u32, u64, u32),
) {
    for ((unit, place), row) in units.zip(places).zip(0..) {
        if *place != outside {
            visit(row, unit, (*place).into());
        }
    }
}

/// The first pass: reads the batches of one partition.
pub(in crate::operator::bound_contributions) struct Holder {
    pub(in crate::operator::bound_contributions) task: Arc<BoundingTask>,
    pub(in crate::operator::bound_contributions) index: KeyIndex,
    pub(in crate::operator::bound_contributions) codes: UnitCodes,
    pub(in crate::operator::bound_contributions) shelf: Shelf<HeldBatch>,
    pub(in crate::operator::bound_contributions) rows: usize,
    /// The totals of all rows, for the aggregates that are sums of rows.
    pub(in crate::operator::bound_contributions) columns: Option<ColumnSums>,
    bytes: usize,
    /// The bytes of the totals of known keys, which the exact pass needs later. They are reserved
    /// from the start, so that no row decides whether there is memory for them.
    totals: usize,
    places: Vec<u32>,
}

impl Holder {
    pub(in crate::operator::bound_contributions) fn new(
        task: Arc<BoundingTask>,
        index: KeyIndex,
        unit_type: &DataType,
        shelf: Shelf<HeldBatch>,
    ) -> Result<Self> {
        let codes = UnitCodes::new(unit_type)?;
        let columns = ColumnSums::new(&task.inputs, &task.sources, index.len());
        let (rows, places) = (0, Vec::new());
        let outputs: usize = task.inputs.iter().map(AggregateInput::outputs).sum();
        let totals = outputs * index.len() * size_of::<i128>();
        Ok(Self { task, index, codes, shelf, rows, columns, bytes: 0, totals, places })
    }

    /// Holds one batch. Rows without a unit, and rows whose key is not in the key space, are
    /// marked.
    pub(in crate::operator::bound_contributions) fn push(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let units = batch.column(self.task.unit);
        let known = units.logical_nulls().filter(|known| known.null_count() > 0);
        let is_marked = known.is_some() || !self.task.keys.is_empty();
        if is_marked {
            let keys: Vec<ArrayRef> =
                self.task.keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
            self.index.locate(&keys, rows, &mut self.places)?;
            for (place, is_known) in self.places.iter_mut().zip(known.iter().flatten()) {
                if !is_known {
                    *place = OUTSIDE;
                }
            }
        }
        let places = is_marked.then_some(self.places.as_slice());
        let lanes = self.task.sources.read(batch)?;
        let keys = self.index.len();
        if let Some(columns) = &mut self.columns {
            columns.add(&lanes, places, rows, keys)?;
        }
        let places = places.map(|places| KeyPlaces::new(places, keys));
        let units = self.codes.hold(units)?;
        let mut bytes = places.as_ref().map_or(0, KeyPlaces::size);
        bytes += units.size() + lanes.iter().map(Lane::size).sum::<usize>();
        self.bytes += bytes;
        self.rows += rows;
        self.shelf.held.push(HeldBatch { units, places, lanes, rows, bytes });
        Ok(())
    }

    /// Reserves memory for the held batches, or writes them into a file if there is too little.
    ///
    /// # Errors
    /// An error with a constant text if there is too little memory, and no folder for files.
    pub(in crate::operator::bound_contributions) fn make_room(
        &mut self,
        reservation: &MemoryReservation,
    ) -> Result<()> {
        if self.shelf.fits(reservation, self.size()) {
            return Ok(());
        }
        if self.shelf.has_folder() {
            self.shelf.write_out(|held| held.pack(&self.task.sources))?;
            self.bytes = 0;
        }
        reservation.try_resize(self.size()).map_err(|_| failed())
    }

    /// The bytes in use, accurate enough for a memory limit.
    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        self.bytes
            + self.totals
            + self.shelf.held.capacity() * size_of::<HeldBatch>()
            + self.codes.size()
            + self.index.size()
            + self.columns.as_ref().map_or(0, ColumnSums::size)
    }
}

/// The places of a batch, in as few bytes as the number of keys needs so far. The largest number
/// stands for [`OUTSIDE`].
pub(in crate::operator::bound_contributions) enum KeyPlaces {
    Byte(Vec<u8>),
    Short(Vec<u16>),
    Wide(Vec<u32>),
}

impl KeyPlaces {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "every place but OUTSIDE is less than the keys"
    )]
    pub(in crate::operator::bound_contributions) fn new(places: &[u32], keys: usize) -> Self {
        if keys <= usize::from(u8::MAX) {
            Self::Byte(places.iter().map(|place| *place as u8).collect())
        } else if keys <= usize::from(u16::MAX) {
            Self::Short(places.iter().map(|place| *place as u16).collect())
        } else {
            Self::Wide(places.to_vec())
        }
    }

    /// Replaces `places` by these places.
    pub(in crate::operator::bound_contributions) fn read(&self, places: &mut Vec<u32>) {
        places.clear();
        match self {
            Self::Byte(own) => places.extend(own.iter().map(|place| match *place {
                u8::MAX => OUTSIDE,
                place => place.into(),
            })),
            Self::Short(own) => places.extend(own.iter().map(|place| match *place {
                u16::MAX => OUTSIDE,
                place => place.into(),
            })),
            Self::Wide(own) => places.extend_from_slice(own),
        }
    }

    pub(in crate::operator::bound_contributions) fn size(&self) -> usize {
        match self {
            Self::Byte(own) => own.len(),
            Self::Short(own) => own.len() * size_of::<u16>(),
            Self::Wide(own) => own.len() * size_of::<u32>(),
        }
    }
}
