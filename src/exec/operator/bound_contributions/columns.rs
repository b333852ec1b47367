//! Adds up the rows of units that keep all their rows, column by column.
//!
//! In: batches, with the place of each row's key. Out: for every output and key, the sum over these rows. It assumes that
//! every unit of these rows keeps all of them under the bounds of every aggregate. What a unit adds is then the sum of
//! what its rows add, whichever unit they belong to. It guarantees the integers that [`InputKind::partial`] yields unit
//! by unit.
//!
//! ```text
//! let mut columns = Columns::new(&task.inputs, keys)?;
//! columns.add(&values, Some(&places))?; // places beyond the keys add nothing
//! columns.add_to(&task.inputs, &mut sums)?;
//! ```

use arrow::array::AsArray;
use arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::hold::Values;
use super::partial::{AggregateInput, InputKind, Tally};
use crate::grid::pairs::Pairs;
use crate::grid::{GridRange, failed, passing, present};

/// The totals of some aggregates. Aggregates that read the same values share one stream.
pub(super) struct Columns {
    keys: usize,
    rows: u64,
    streams: Vec<Stream>,
    /// The stream of each aggregate; `None` for one that is not computed here.
    stream_of: Vec<Option<usize>>,
}

/// What is read of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Source {
    column: Option<usize>,
    filter: Option<usize>,
    range: Option<GridRange>,
    shift: Option<u32>,
    pairs: Option<Pairs>,
}

/// The totals of one source, one entry for each key, and one for the rows that do not count here.
struct Stream {
    source: Source,
    /// Whether the number of rows is needed beside the sums.
    counted: bool,
    counts: Vec<u64>,
    sums: Vec<i128>,
    squares: Vec<i128>,
    products: Vec<Vec<i128>>,
}

/// Whether what a unit adds is the sum of what its rows add, as long as it keeps all of them. Under a ladder it is not: few
/// units keep all rows under its least bounds.
pub(super) fn is_sum_of_rows(input: &AggregateInput) -> bool {
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

impl Columns {
    /// Totals of the aggregates that are sums of rows, for `keys` keys.
    ///
    /// # Errors
    /// A planning error for an empty or too wide interval.
    pub(super) fn new(inputs: &[AggregateInput], keys: usize) -> Result<Self> {
        let mut streams: Vec<Stream> = Vec::new();
        let mut stream_of = Vec::with_capacity(inputs.len());
        for input in inputs {
            if !is_sum_of_rows(input) {
                stream_of.push(None);
                continue;
            }
            let kind = &input.kind;
            let source = Source {
                column: kind.column(),
                filter: kind.filter(),
                range: kind.range()?,
                shift: kind.shift(),
                pairs: kind.pairs().copied(),
            };
            let known = streams.iter().position(|stream| stream.source == source);
            let at = known.unwrap_or(streams.len());
            if known.is_none() {
                streams.push(Stream::new(source, keys));
            }
            streams[at].counted |= kind.pairs().is_none() && !matches!(kind, InputKind::Sum { .. });
            stream_of.push(Some(at));
        }
        for stream in streams.iter_mut().filter(|stream| stream.counted) {
            stream.counts = vec![0; keys + 1];
        }
        Ok(Self { keys, rows: 0, streams, stream_of })
    }

    /// Adds the rows of a batch, each to the key at its place; a place beyond the keys adds nothing. Without places, all
    /// rows belong to the first key.
    ///
    /// # Errors
    /// A constant text if 128 bits do not suffice, which requires more than 2⁴⁶ rows.
    pub(super) fn add(&mut self, values: &Values, places: Option<&[u32]>) -> Result<()> {
        let rows = u64::try_from(values.rows()).map_err(|_| failed())?;
        self.rows = self.rows.checked_add(rows).ok_or_else(failed)?;
        for stream in &mut self.streams {
            match places {
                // The sums of one key stay in registers.
                None => stream.add_to_one(values)?,
                Some(places) => stream.add(values, places, self.keys)?,
            }
        }
        Ok(())
    }

    /// The bytes in use.
    pub(super) fn size(&self) -> usize {
        let of = |stream: &Stream| {
            let products: usize = stream.products.iter().map(Vec::capacity).sum();
            let sums = stream.sums.capacity() + stream.squares.capacity() + products;
            sums * size_of::<i128>() + stream.counts.capacity() * size_of::<u64>()
        };
        self.streams.iter().map(of).sum()
    }

    /// Adds the totals to those of each output.
    ///
    /// # Guarantee
    /// For units that keep all their rows, the outputs of [`InputKind::partial`] are linear in count, sum and squares: the
    /// outputs of all units together are those of their totals. Nothing is clamped or scaled, because as many rows are
    /// kept as there are.
    ///
    /// # Errors
    /// As [`Columns::add`].
    pub(super) fn add_to(self, inputs: &[AggregateInput], sums: &mut [Vec<i128>]) -> Result<()> {
        let mut output = 0;
        for (input, stream) in inputs.iter().zip(&self.stream_of) {
            let first = output;
            output += input.outputs();
            let kind = &input.kind;
            let Some(stream) = stream.map(|at| &self.streams[at]) else { continue };
            let sums = &mut sums[first..output];
            if kind.pairs().is_some() {
                for (sums, products) in sums.iter_mut().zip(&stream.products) {
                    for (sum, product) in sums.iter_mut().zip(products) {
                        *sum = sum.checked_add(*product).ok_or_else(failed)?;
                    }
                }
                continue;
            }
            for key in 0..self.keys {
                let parts = kind.partial(stream.tally(key), self.rows, self.rows)?;
                for (part, sums) in parts.into_iter().zip(sums.iter_mut()) {
                    sums[key] = sums[key].checked_add(part).ok_or_else(failed)?;
                }
            }
        }
        Ok(())
    }
}

impl Stream {
    fn new(source: Source, keys: usize) -> Self {
        let zeros = |needed: bool| if needed { vec![0; keys + 1] } else { Vec::new() };
        let pairs = source.pairs;
        Self {
            counted: false,
            counts: Vec::new(),
            sums: zeros(source.range.is_some() && pairs.is_none()),
            squares: zeros(source.shift.is_some()),
            products: vec![zeros(true); pairs.map_or(0, |pairs| pairs.products())],
            source,
        }
    }

    fn tally(&self, key: usize) -> Tally {
        Tally {
            count: self.counts.get(key).copied().unwrap_or(0),
            sum: self.sums.get(key).copied().unwrap_or(0),
            squares: self.squares.get(key).copied().unwrap_or(0),
        }
    }

    /// Adds each row to the key at its place.
    fn add(&mut self, values: &Values, places: &[u32], keys: usize) -> Result<()> {
        let at = |row: usize| (places[row] as usize).min(keys);
        let Self { source, counted, counts, sums, squares, products } = self;
        let mask = source.filter.map(|filter| values.column(filter)).transpose()?;
        let mask = mask.map(|filter| passing(filter.as_boolean()));
        let column = source.column.map(|column| values.column(column)).transpose()?;
        let mut adder = Adder::default();
        match (column, source.range, source.pairs, source.shift) {
            (Some(column), Some(range), Some(pairs), _) => {
                for (which, sums) in products.iter_mut().enumerate() {
                    range.for_each(column, mask.as_ref(), |row, code| {
                        adder.add(&mut sums[at(row)], pairs.product(code, which));
                    })?;
                }
            }
            (Some(column), Some(range), None, Some(shift)) => {
                range.for_each(column, mask.as_ref(), |row, value| {
                    let (key, above) = (at(row), range.above(value, shift));
                    counts[key] += 1;
                    adder.add(&mut sums[key], above);
                    adder.add(&mut squares[key], above * above);
                })?;
            }
            (Some(column), Some(range), None, None) if *counted => {
                range.for_each(column, mask.as_ref(), |row, value| {
                    let key = at(row);
                    counts[key] += 1;
                    adder.add(&mut sums[key], value);
                })?;
            }
            (Some(column), Some(range), None, None) => {
                range.for_each(column, mask.as_ref(), |row, value| {
                    adder.add(&mut sums[at(row)], value);
                })?;
            }
            (column, ..) => {
                let held = column.and_then(|column| present(column));
                match NullBuffer::union(mask.as_ref(), held.as_ref()) {
                    None => (0..values.rows()).for_each(|row| counts[at(row)] += 1),
                    Some(valid) => valid.valid_indices().for_each(|row| counts[at(row)] += 1),
                }
            }
        }
        adder.finish()
    }

    /// Adds all rows to the first key.
    fn add_to_one(&mut self, values: &Values) -> Result<()> {
        let source = self.source;
        let mask = source.filter.map(|filter| values.column(filter)).transpose()?;
        let mask = mask.map(|filter| passing(filter.as_boolean()));
        let column = source.column.map(|column| values.column(column)).transpose()?;
        let mut adder = Adder::default();
        let (mut count, mut sum, mut squares) = (0_u64, 0_i128, 0_i128);
        match (column, source.range, source.pairs, source.shift) {
            (Some(column), Some(range), Some(pairs), _) => {
                for (which, sums) in self.products.iter_mut().enumerate() {
                    let mut sum = 0;
                    range.for_each(column, mask.as_ref(), |_, code| {
                        adder.add(&mut sum, pairs.product(code, which));
                    })?;
                    adder.add_first(sums, sum);
                }
            }
            (Some(column), Some(range), None, Some(shift)) => {
                range.for_each(column, mask.as_ref(), |_, value| {
                    let above = range.above(value, shift);
                    count += 1;
                    adder.add(&mut sum, above);
                    adder.add(&mut squares, above * above);
                })?;
            }
            (Some(column), Some(range), None, None) => {
                range.for_each(column, mask.as_ref(), |_, value| {
                    count += 1;
                    adder.add(&mut sum, value);
                })?;
            }
            (column, ..) => {
                let held = column.and_then(|column| present(column));
                let valid = NullBuffer::union(mask.as_ref(), held.as_ref());
                let missing = valid.map_or(0, |valid| valid.null_count());
                count = u64::try_from(values.rows() - missing).map_err(|_| failed())?;
            }
        }
        if let Some(first) = self.counts.first_mut() {
            *first += count;
        }
        adder.add_first(&mut self.sums, sum);
        adder.add_first(&mut self.squares, squares);
        adder.finish()
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

    fn add_first(&mut self, sums: &mut [i128], value: i128) {
        if let Some(first) = sums.first_mut() {
            self.add(first, value);
        }
    }

    fn finish(self) -> Result<()> {
        if self.overflow { Err(failed()) } else { Ok(()) }
    }
}
