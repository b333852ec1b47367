//! Adds rows up, column by column, as they arrive.
//!
//! In: lanes, with the place of each row's key. Out: for every output and key, the sum over these
//! rows. If a unit keeps all its rows, its contribution is the sum of its rows' values, so nothing
//! depends on which row is whose. The rows of units that may lose some are subtracted again. For
//! all other units, it guarantees the integers that [`InputKind::partial`] yields unit by unit.
//!
//! ```text
//! let mut columns = ColumnSums::new(&inputs, &sources, keys);
//! columns.add(&lanes, Some(&places), rows, keys)?; // rows outside of the keys add nothing
//! columns.remove(&lanes, &rows_of_a_suspect)?;
//! columns.add_to(&inputs, &sources, &mut sums)?;
//! ```

use std::mem::size_of;

use datafusion::common::Result;

use super::grid_values::{Lane, LaneNumbers, ValueSource, ValueSources};
use crate::grid::failed;
use crate::grid::pairs::Pairs;
use crate::operator::bound_contributions::exact::kept_share::UnitTally;
use crate::operator::bound_contributions::exact::unit_contribution::{AggregateInput, InputKind};

/// The number of 32-bit values whose sum is sure to fit 64 bits.
const SETTLE: u64 = 1 << 31;

/// The totals of the aggregates that are sums of rows. The first entry of each list is for rows
/// whose key is not listed; then each key has one.
pub(crate) struct ColumnSums {
    /// The number of rows, if an aggregate needs it.
    rows: Option<Vec<u64>>,
    all: u64,
    /// The totals of each source, if an aggregate needs them.
    streams: Vec<Option<Stream>>,
}

/// A row to subtract again, and the place of its key.
#[derive(Debug, Clone, Copy)]
pub(in crate::operator::bound_contributions) struct Away {
    pub(in crate::operator::bound_contributions) row: u32,
    pub(in crate::operator::bound_contributions) key: u32,
}

/// The totals of one source.
struct Stream {
    /// The number of rows that do not pass.
    missing: Vec<u64>,
    sums: Sums,
    squares: Option<Vec<i128>>,
    products: Option<(Pairs, Vec<Vec<i128>>)>,
}

/// Sums of numbers. Those of at most 32 bits are added up in 64 bits first.
struct Sums {
    short: Vec<i64>,
    /// At most so many rows are added up in `short`.
    unsettled: u64,
    long: Vec<i128>,
}

/// Whether a unit's contribution is the sum over its rows if it keeps all of them. Under a ladder
/// it is not: few units keep all rows under its least bounds.
pub(crate) fn is_sum_of_rows(input: &AggregateInput) -> bool {
    if input.ladder.is_some() {
        return false;
    }
    match input.kind {
        InputKind::CountRows { .. }
        | InputKind::CountValues { .. }
        | InputKind::Sum { .. }
        | InputKind::Mean { .. }
        | InputKind::Moments { .. }
        | InputKind::Products { .. } => true,
        InputKind::CountUnits { .. }
        | InputKind::MeanPerUnit { .. }
        | InputKind::SumPerUnit { .. } => false,
    }
}

/// Whether an aggregate needs the number of rows that pass.
fn is_counted(kind: &InputKind) -> bool {
    kind.pairs().is_none() && !matches!(kind, InputKind::Sum { .. })
}

/// The entry of a place: the first one for
/// [`OUTSIDE`](crate::operator::bound_contributions::keys::key_space::OUTSIDE), which is the
/// largest number.
fn slot(place: u32) -> usize {
    place.wrapping_add(1) as usize
}

/// Zeroed entries for this number of keys.
fn entries<T: Clone + Default>(keys: usize) -> Vec<T> {
    vec![T::default(); keys + 1]
}

/// Makes room for new keys.
fn grow<T: Clone + Default>(list: &mut Vec<T>, keys: usize) {
    if list.len() <= keys {
        list.resize(keys + 1, T::default());
    }
}

/// Moves the entries of keys to other places. The first one stays.
fn renumber<T: Copy + Default>(list: &mut Vec<T>, places: &[u32], keys: usize) -> Result<()> {
    let Some((outside, own)) = list.split_first() else { return Ok(()) };
    let mut moved = vec![T::default(); keys + 1];
    moved[0] = *outside;
    for (i, value) in own.iter().enumerate() {
        let place = places.get(i).map(|place| slot(*place));
        *place.and_then(|at| moved.get_mut(at)).ok_or_else(failed)? = *value;
    }
    *list = moved;
    Ok(())
}

impl ColumnSums {
    /// Totals of the aggregates that are sums of rows; `None` if there are none. The memory for the
    /// first `keys` keys is taken now, even if no rows come.
    pub(crate) fn new(
        inputs: &[AggregateInput],
        sources: &ValueSources,
        keys: usize,
    ) -> Option<Self> {
        let mut streams: Vec<Option<Stream>> = sources.list.iter().map(|_| None).collect();
        let mut counted = false;
        for (input, at) in inputs.iter().zip(&sources.of) {
            if is_sum_of_rows(input) {
                counted |= is_counted(&input.kind);
                streams[*at].get_or_insert_with(|| Stream::new(&sources.list[*at], keys));
            }
        }
        let rows = counted.then(|| entries(keys));
        streams.iter().any(Option::is_some).then_some(Self { rows, all: 0, streams })
    }

    /// Adds the rows of a batch, each to the key at its place; rows outside of the `keys` keys add
    /// nothing. Without places, all rows belong to the first key.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice, which requires more than 2⁴⁶ rows.
    pub(crate) fn add(
        &mut self,
        lanes: &[Lane],
        places: Option<&[u32]>,
        rows: usize,
        keys: usize,
    ) -> Result<()> {
        let count = u64::try_from(rows).map_err(|_| failed())?;
        self.all = self.all.checked_add(count).ok_or_else(failed)?;
        if let Some(all) = &mut self.rows {
            grow(all, keys.max(1));
            match places {
                None => all[1] += count,
                Some(places) => places.iter().for_each(|place| all[slot(*place)] += 1),
            }
        }
        for (stream, lane) in self.streams.iter_mut().zip(lanes) {
            if let Some(stream) = stream {
                stream.add(lane, places, count, keys.max(1))?;
            }
        }
        Ok(())
    }

    /// Subtracts rows that were added.
    ///
    /// # Errors
    /// As [`ColumnSums::add`].
    pub(in crate::operator::bound_contributions) fn remove(
        &mut self,
        lanes: &[Lane],
        rows: &[Away],
    ) -> Result<()> {
        if let Some(all) = &mut self.rows {
            rows.iter().for_each(|one| all[slot(one.key)] -= 1);
        }
        for (stream, lane) in self.streams.iter_mut().zip(lanes) {
            if let Some(stream) = stream {
                stream.remove(lane, rows)?;
            }
        }
        Ok(())
    }

    /// Moves the total of each key to its place among `keys` keys of all partitions.
    ///
    /// # Errors
    /// An error with a constant text for a key without a place.
    pub(in crate::operator::bound_contributions) fn renumber(
        &mut self,
        places: &[u32],
        keys: usize,
    ) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            renumber(rows, places, keys)?;
        }
        for Stream { missing, sums, squares, products } in self.streams.iter_mut().flatten() {
            renumber(missing, places, keys)?;
            renumber(&mut sums.short, places, keys)?;
            renumber(&mut sums.long, places, keys)?;
            let products = products.iter_mut().flat_map(|(_, products)| products);
            squares.iter_mut().chain(products).try_for_each(|sums| renumber(sums, places, keys))?;
        }
        Ok(())
    }

    /// The bytes in use.
    pub(crate) fn size(&self) -> usize {
        let counts = self.rows.as_ref().map_or(0, Vec::capacity) * size_of::<u64>();
        counts + self.streams.iter().flatten().map(Stream::size).sum::<usize>()
    }

    /// Adds the totals to those of each output.
    ///
    /// # Guarantee
    /// For units that keep all their rows, the outputs of [`InputKind::partial`] are linear in
    /// count, sum and squares, so the outputs of all units together are computed from their totals.
    /// Nothing is clamped or scaled, because all rows are kept.
    ///
    /// # Errors
    /// As [`ColumnSums::add`].
    pub(crate) fn add_to(
        &self,
        inputs: &[AggregateInput],
        sources: &ValueSources,
        sums: &mut [Vec<i128>],
    ) -> Result<()> {
        let mut output = 0;
        for (input, at) in inputs.iter().zip(&sources.of) {
            let first = output;
            output += input.outputs();
            let (true, Some(stream)) = (is_sum_of_rows(input), &self.streams[*at]) else {
                continue;
            };
            let (kind, sums) = (&input.kind, &mut sums[first..output]);
            if let Some((_, products)) = &stream.products {
                for (sums, products) in sums.iter_mut().zip(products) {
                    for (sum, product) in sums.iter_mut().zip(products.iter().skip(1)) {
                        *sum = sum.checked_add(*product).ok_or_else(failed)?;
                    }
                }
                continue;
            }
            let keys = sums.first().map_or(0, Vec::len);
            for key in 0..keys {
                let tally = stream.tally(self.rows.as_deref().unwrap_or_default(), key + 1);
                let tally = tally.ok_or_else(failed)?;
                // The number of kept rows equals the number of rows, so nothing is rounded.
                let parts = kind.partial(tally, self.all, self.all, || Err(failed()))?;
                for (part, sums) in parts.into_iter().zip(sums.iter_mut()) {
                    sums[key] = sums[key].checked_add(part).ok_or_else(failed)?;
                }
            }
        }
        Ok(())
    }
}

impl Stream {
    fn new(source: &ValueSource, keys: usize) -> Self {
        let products = |pairs: Pairs| (pairs, vec![entries(keys); pairs.products()]);
        let width = source.width();
        // Rows are subtracted from the long sums.
        let long = width.map(|_| entries(keys)).unwrap_or_default();
        let short = width.filter(|width| width.is_short()).map(|_| entries(keys));
        Self {
            missing: entries(keys),
            sums: Sums { short: short.unwrap_or_default(), unsettled: 0, long },
            squares: source.shift.map(|_| entries(keys)),
            products: source.pairs.map(products),
        }
    }

    fn size(&self) -> usize {
        let Self { missing, sums, squares, products } = self;
        let products = products.iter().flat_map(|(_, products)| products);
        let wide = products.chain(squares).chain([&sums.long]).map(Vec::capacity);
        let narrow = missing.capacity() + sums.short.capacity();
        wide.sum::<usize>() * size_of::<i128>() + narrow * size_of::<u64>()
    }

    /// The count and sums of one entry, given the number of all rows of each; `None` if more rows
    /// do not pass than there are.
    fn tally(&self, rows: &[u64], at: usize) -> Option<UnitTally> {
        let rows = rows.get(at).copied().unwrap_or(0);
        let missing = self.missing.get(at).copied().unwrap_or(0);
        let squares = self.squares.as_ref().and_then(|squares| squares.get(at));
        // If the aggregates do not need the number of rows, nothing reads this count.
        let count = rows.checked_sub(missing).or((rows == 0).then_some(0))?;
        Some(UnitTally { count, sum: self.sums.at(at), squares: squares.copied().unwrap_or(0) })
    }

    fn add(&mut self, lane: &Lane, places: Option<&[u32]>, rows: u64, keys: usize) -> Result<()> {
        let at = |row: usize| places.map_or(1, |places| slot(places[row]));
        if let Some(passing) = &lane.passing {
            grow(&mut self.missing, keys);
            let absent = !passing.inner();
            absent.set_indices().for_each(|row| self.missing[at(row)] += 1);
        }
        let mut adder = Adder::default();
        if let Some((pairs, products)) = &mut self.products {
            if !lane.numbers.are_codes() {
                return Err(failed());
            }
            for (which, sums) in products.iter_mut().enumerate() {
                grow(sums, keys);
                for row in 0..usize::try_from(rows).map_err(|_| failed())? {
                    if lane.passes(row) {
                        let product = pairs.product(lane.numbers.at(row), which);
                        adder.add(&mut sums[at(row)], product);
                    }
                }
            }
            return adder.finish();
        }
        if let Some(squares) = &mut self.squares {
            grow(squares, keys);
            for row in 0..usize::try_from(rows).map_err(|_| failed())? {
                let above = lane.numbers.at(row);
                adder.add(&mut squares[at(row)], above * above);
            }
        }
        adder.finish()?;
        self.sums.add(&lane.numbers, places, rows, keys)
    }

    fn remove(&mut self, lane: &Lane, rows: &[Away]) -> Result<()> {
        let mut adder = Adder::default();
        for Away { row, key } in rows {
            let (row, at) = (*row as usize, slot(*key));
            let (number, passes) = (lane.numbers.at(row), lane.passes(row));
            if !passes {
                self.missing[at] -= 1;
            }
            if let Some((pairs, products)) = &mut self.products {
                for (which, sums) in products.iter_mut().enumerate().filter(|_| passes) {
                    adder.add(&mut sums[at], -pairs.product(number, which));
                }
                continue;
            }
            if let Some(squares) = &mut self.squares {
                adder.add(&mut squares[at], -(number * number));
            }
            if number != 0 {
                grow(&mut self.sums.long, at);
                adder.add(&mut self.sums.long[at], -number);
            }
        }
        adder.finish()
    }
}

impl Sums {
    fn at(&self, at: usize) -> i128 {
        let short = self.short.get(at).copied().unwrap_or(0);
        self.long.get(at).copied().unwrap_or(0) + i128::from(short)
    }

    fn add(
        &mut self,
        numbers: &LaneNumbers,
        places: Option<&[u32]>,
        rows: u64,
        keys: usize,
    ) -> Result<()> {
        match numbers {
            LaneNumbers::None => Ok(()),
            LaneNumbers::Byte(numbers) => self.add_short(numbers, places, rows, keys),
            LaneNumbers::Half(numbers) => self.add_short(numbers, places, rows, keys),
            LaneNumbers::Short(numbers) => self.add_short(numbers, places, rows, keys),
            LaneNumbers::Narrow(numbers) => self.add_long(numbers, places, keys),
            LaneNumbers::Wide(numbers) => self.add_long(numbers, places, keys),
        }
    }

    fn add_short<T: Copy + Into<i64>>(
        &mut self,
        numbers: &[T],
        places: Option<&[u32]>,
        rows: u64,
        keys: usize,
    ) -> Result<()> {
        if self.unsettled.saturating_add(rows) > SETTLE {
            self.settle();
        }
        self.unsettled = rows.saturating_add(self.unsettled);
        grow(&mut self.short, keys);
        match places {
            None => self.short[1] += numbers.iter().map(|n| (*n).into()).sum::<i64>(),
            Some(places) => {
                for (number, place) in numbers.iter().zip(places) {
                    self.short[slot(*place)] += (*number).into();
                }
            }
        }
        Ok(())
    }

    fn add_long<T: Copy + Into<i128>>(
        &mut self,
        numbers: &[T],
        places: Option<&[u32]>,
        keys: usize,
    ) -> Result<()> {
        grow(&mut self.long, keys);
        let mut adder = Adder::default();
        match places {
            None => {
                // A single sum stays in registers.
                let mut sum = self.long[1];
                numbers.iter().for_each(|number| adder.add(&mut sum, (*number).into()));
                self.long[1] = sum;
            }
            Some(places) => {
                for (number, place) in numbers.iter().zip(places) {
                    adder.add(&mut self.long[slot(*place)], (*number).into());
                }
            }
        }
        adder.finish()
    }

    /// Moves the short sums to the long ones, before more rows than they can hold are added.
    fn settle(&mut self) {
        grow(&mut self.long, self.short.len().saturating_sub(1));
        for (long, short) in self.long.iter_mut().zip(&mut self.short) {
            *long += i128::from(std::mem::take(short));
        }
        self.unsettled = 0;
    }
}

/// Adds, and remembers whether a sum did not fit.
#[derive(Default)]
struct Adder {
    overflow: bool,
}

impl Adder {
    fn add(&mut self, sum: &mut i128, value: i128) {
        let (next, wrapped) = sum.overflowing_add(value);
        *sum = next;
        self.overflow |= wrapped;
    }

    fn finish(self) -> Result<()> {
        if self.overflow { Err(failed()) } else { Ok(()) }
    }
}
