//! Exact counts over sets of columns: the only queries on coded rows.
//!
//! In: sets of columns. Out: for each set, the count of every combination of codes, in one pass
//! over all rows. Sets that lie within the same few columns are counted [together](super::joint): a
//! row is counted in one table, and the counts of the sets are sums over its cells. The tables are
//! divided among threads. Each thread reads the rows block by block, so that the codes of a block
//! stay in its cache while all of its tables are counted. No memory is allocated for single rows.
//!
//! ```text
//! {0, 1} over sizes 2, 3      cells: 2·3, the code of column 1 runs fastest
//! ```

use std::fmt;
use std::thread;

use datafusion::execution::memory_pool::MemoryReservation;
use num_traits::{AsPrimitive, WrappingAdd, WrappingMul};

use super::column::ColumnCodes;
use super::joint::{Joint, joint};
use super::weigh::Weighed;
use crate::deadline::Deadline;
use hushql_privacy::synthetic::{ColumnSet, Count, CountError, MOST_CELLS, onto};

/// The number of rows that are read at a time: their codes fit into a cache.
const BLOCK: usize = 8_192;

/// If rows times sets is below this, one thread is faster, and each set is counted alone.
const WORTH_THREADS: usize = 1 << 16;

/// The cell indices of a table with at most this many cells fit 16 bits.
const SMALL: usize = 1 << 16;

/// Bounded private rows as public codes. They show nothing but exact counts, and only to code that
/// adds noise to them.
pub struct CodedRows {
    chunks: Vec<Weighed>,
    sizes: Vec<usize>,
    deadline: Deadline,
    /// Memory that is reserved as long as these rows exist.
    _reserved: Vec<MemoryReservation>,
}

/// The number of rows is private.
impl fmt::Debug for CodedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodedRows").finish_non_exhaustive()
    }
}

impl CodedRows {
    /// Checks the codes and builds the rows.
    ///
    /// # Errors
    /// [`CountError`] if a code is not below the size of its column, or if columns differ in their
    /// number of rows. Both are defects.
    pub(super) fn new(
        chunks: Vec<Weighed>,
        sizes: Vec<usize>,
        deadline: Deadline,
        reserved: Vec<MemoryReservation>,
    ) -> Result<Self, CountError> {
        let is_sound = |chunk: &Weighed| {
            let columns = chunk.columns.iter().zip(&sizes);
            let mut columns = columns.map(|(c, size)| c.len() == chunk.rows && c.is_below(*size));
            let weights = chunk.weights.as_ref().is_none_or(|own| own.len() == chunk.rows);
            chunk.columns.len() == sizes.len() && weights && columns.all(|sound| sound)
        };
        if chunks.iter().all(is_sound) {
            Ok(Self { chunks, sizes, deadline, _reserved: reserved })
        } else {
            Err(CountError("a code is beyond the size of its column".into()))
        }
    }

    /// The number of cells of a set.
    fn cells(&self, set: &ColumnSet) -> Result<usize, CountError> {
        let cells = set.cells(&self.sizes);
        let known = set.as_slice().iter().all(|column| *column < self.sizes.len());
        if known && cells <= MOST_CELLS {
            Ok(cells)
        } else {
            Err(CountError("a set has too many cells".into()))
        }
    }

    /// Counts the rows in these tables, and adds up the tables for their sets.
    fn count_into(&self, tables: &mut [CountTable<'_>]) -> Result<(), CountError> {
        let mut places = BlockCells::default();
        let mut since = 0_usize;
        for chunk in &self.chunks {
            let mut first = 0;
            while first < chunk.rows {
                if self.deadline.is_over() {
                    return Err(CountError("the statement has ended".into()));
                }
                let last = (first + BLOCK).min(chunk.rows);
                // A cell of 32 bits counts fewer than 2³² rows.
                since = since.saturating_add(last - first);
                if u32::try_from(since).is_err() {
                    tables.iter_mut().for_each(|table| table.settle(&self.sizes));
                    since = last - first;
                }
                for table in tables.iter_mut() {
                    let counted = table.count(chunk, &self.sizes, first, last, &mut places);
                    counted.ok_or_else(|| CountError("a code has no cell".into()))?;
                }
                first = last;
            }
        }
        tables.iter_mut().for_each(|table| table.settle(&self.sizes));
        Ok(())
    }
}

/// The cell of each row of a block.
#[derive(Default)]
struct BlockCells {
    small: Vec<u16>,
    large: Vec<u32>,
}

/// The counts of a table's cells.
enum CountedCells {
    /// Numbers of rows since they were last added up.
    Rows(Vec<u32>),
    /// Sums of weights.
    Weights(Vec<i64>),
}

/// Columns that are counted together, and the sets whose counts follow from them.
struct CountTable<'s> {
    columns: ColumnSet,
    cells: CountedCells,
    sets: Vec<(&'s ColumnSet, usize, Vec<i64>)>,
}

impl CountTable<'_> {
    /// Counts the rows of a block; `None` if a code has no cell.
    fn count(
        &mut self,
        chunk: &Weighed,
        sizes: &[usize],
        first: usize,
        last: usize,
        places: &mut BlockCells,
    ) -> Option<()> {
        let columns = self.columns.as_slice();
        let columns = || columns.iter().map(|at| Some((chunk.columns.get(*at)?, *sizes.get(*at)?)));
        let columns = || columns().map(|column| column.map(|(c, size)| (c, size, first..last)));
        let weights = chunk.weights.as_ref().map(|weights| weights.get(first..last));
        if self.columns.cells(sizes) <= SMALL {
            place(&mut places.small, last - first, columns())?;
            self.cells.add(&places.small, weights)
        } else {
            place(&mut places.large, last - first, columns())?;
            self.cells.add(&places.large, weights)
        }
    }

    /// Adds up the cells for each set, and starts again from 0.
    fn settle(&mut self, sizes: &[usize]) {
        for (set, _, counts) in &mut self.sets {
            let to = onto(&self.columns, set, sizes);
            match &self.cells {
                CountedCells::Rows(cells) => {
                    add_up(cells.iter().copied().map(i64::from), &to, counts)
                }
                CountedCells::Weights(cells) => add_up(cells.iter().copied(), &to, counts),
            }
        }
        match &mut self.cells {
            CountedCells::Rows(cells) => cells.fill(0),
            CountedCells::Weights(cells) => cells.fill(0),
        }
    }
}

/// Adds each cell to the cell of a set that it belongs to.
fn add_up(cells: impl Iterator<Item = i64>, to: &[u32], counts: &mut [i64]) {
    for (cell, to) in cells.zip(to) {
        if let Some(count) = usize::try_from(*to).ok().and_then(|to| counts.get_mut(to)) {
            *count = count.saturating_add(cell);
        }
    }
}

/// The cell of each row of a block: the code of the last column changes fastest. Every index fits
/// its type, because each code is below the size of its column, and the table has a cell for each
/// combination.
fn place<'c, P>(
    places: &mut Vec<P>,
    rows: usize,
    columns: impl Iterator<Item = Option<(&'c ColumnCodes, usize, std::ops::Range<usize>)>>,
) -> Option<()>
where
    P: Copy + Default + WrappingAdd + WrappingMul + From<u8> + From<u16> + TryFrom<usize> + 'static,
{
    places.clear();
    places.resize(rows, P::default());
    for column in columns {
        let (column, size, block) = column?;
        // A column of 2¹⁶ codes is the only one in its table, so all indices are 0 before it.
        let size = P::try_from(size).unwrap_or_default();
        match column {
            ColumnCodes::Bytes(codes) => next(places, codes.get(block)?, size),
            ColumnCodes::Wide(codes) => next(places, codes.get(block)?, size),
        }
    }
    Some(())
}

/// Extends the indices by one more column.
fn next<P, C>(places: &mut [P], codes: &[C], size: P)
where
    P: Copy + WrappingAdd + WrappingMul + From<C>,
    C: Copy,
{
    for (place, code) in places.iter_mut().zip(codes) {
        *place = place.wrapping_mul(&size).wrapping_add(&P::from(*code));
    }
}

impl CountedCells {
    /// Counts each row, or its weight, in its cell; `None` if a cell does not exist, or weights are
    /// missing.
    fn add<P: Copy + AsPrimitive<usize>>(
        &mut self,
        places: &[P],
        weights: Option<Option<&[i64]>>,
    ) -> Option<()> {
        match (self, weights) {
            (Self::Rows(cells), None) => {
                let cells = cells.as_mut_slice();
                for place in places {
                    let cell = cells.get_mut(place.as_())?;
                    *cell = cell.wrapping_add(1);
                }
            }
            (Self::Weights(cells), Some(weights)) => {
                let cells = cells.as_mut_slice();
                for (place, weight) in places.iter().zip(weights?) {
                    let cell = cells.get_mut(place.as_())?;
                    *cell = cell.saturating_add(*weight);
                }
            }
            (Self::Rows(_), Some(_)) | (Self::Weights(_), None) => return None,
        }
        Some(())
    }
}

impl Count for CodedRows {
    fn count(&self, sets: &[ColumnSet]) -> Result<Vec<Vec<i64>>, CountError> {
        let is_weighed = self.chunks.iter().any(|chunk| chunk.weights.is_some());
        let rows: usize = self.chunks.iter().map(|chunk| chunk.rows).sum();
        let is_worth = rows.saturating_mul(sets.len()) >= WORTH_THREADS;
        for set in sets {
            self.cells(set)?;
        }
        let together = if is_worth {
            // Cells that count rows take half the bytes of the cells of sets.
            joint(sets, &self.sizes, if is_weighed { 1 } else { 2 })
        } else {
            let alone =
                |(at, set): (usize, &ColumnSet)| Joint { columns: set.clone(), sets: vec![at] };
            sets.iter().enumerate().map(alone).collect()
        };
        let mut tables = Vec::with_capacity(together.len());
        for Joint { columns, sets: own } in together {
            let cells = columns.cells(&self.sizes);
            let cells = match is_weighed {
                true => CountedCells::Weights(vec![0; cells]),
                false => CountedCells::Rows(vec![0; cells]),
            };
            let own = own.into_iter().filter_map(|at| Some((sets.get(at)?, at)));
            let own = own.map(|(set, at)| (set, at, vec![0; set.cells(&self.sizes)])).collect();
            tables.push(CountTable { columns, cells, sets: own });
        }
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = threads.min(tables.len()).max(1);
        if threads == 1 || !is_worth {
            self.count_into(&mut tables)?;
        } else {
            let each = tables.len().div_ceil(threads);
            let counted = thread::scope(|scope| {
                let begun: Vec<_> = tables
                    .chunks_mut(each)
                    .map(|own| scope.spawn(move || self.count_into(own)))
                    .collect();
                let ended = begun.into_iter().map(|thread| match thread.join() {
                    Ok(counted) => counted,
                    Err(_) => Err(CountError("a thread that counts has failed".into())),
                });
                ended.collect::<Vec<_>>()
            });
            counted.into_iter().collect::<Result<(), _>>()?;
        }
        let mut all: Vec<Vec<i64>> = vec![Vec::new(); sets.len()];
        for (_, at, counts) in tables.into_iter().flat_map(|table| table.sets) {
            if let Some(own) = all.get_mut(at) {
                *own = counts;
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hushql_privacy::sampler::{QueryRng, Uniform};

    fn rows(rng: &mut QueryRng, sizes: &[usize], rows: usize, weighed: bool) -> Weighed {
        let columns = sizes.iter().map(|size| {
            let mut column = ColumnCodes::new(*size);
            let codes: Vec<u16> =
                (0..rows).map(|_| u16::try_from(rng.below_u64(*size as u64)).unwrap()).collect();
            column.extend(&codes).unwrap();
            column
        });
        let columns = columns.collect();
        let weights =
            weighed.then(|| (0..rows).map(|_| i64::try_from(rng.below_u64(64)).unwrap()).collect());
        Weighed { rows, columns, weights }
    }

    fn code(column: &ColumnCodes, row: usize) -> usize {
        match column {
            ColumnCodes::Bytes(codes) => usize::from(codes[row]),
            ColumnCodes::Wide(codes) => usize::from(codes[row]),
        }
    }

    /// The counts of a set, computed row by row.
    fn one_by_one(chunks: &[Weighed], sizes: &[usize], set: &ColumnSet) -> Vec<i64> {
        let mut expected = vec![0_i64; set.cells(sizes)];
        for chunk in chunks {
            for row in 0..chunk.rows {
                let place = set.as_slice().iter().fold(0, |place, column| {
                    place * sizes[*column] + code(&chunk.columns[*column], row)
                });
                expected[place] += chunk.weights.as_ref().map_or(1, |own| own[row]);
            }
        }
        expected
    }

    #[test]
    fn counts_are_those_of_single_rows() {
        let mut rng = QueryRng::seeded_for_tests(3);
        let sizes = vec![3, 5, 300, 4, 90, 2];
        for (each, weighed) in [
            ([10, 0, 7], false),
            ([10, 0, 7], true),
            ([20_000, 9_000, 1], false),
            ([20_000, 9_000, 1], true),
        ] {
            let chunks: Vec<Weighed> =
                each.iter().map(|n| rows(&mut rng, &sizes, *n, weighed)).collect();
            let coded = CodedRows::new(chunks, sizes.clone(), Deadline::default(), Vec::new());
            let coded = coded.unwrap();
            // One set occurs twice, one has more cells than 16 bits can index, and many lie within
            // others.
            let mut sets: Vec<ColumnSet> = (0..64_usize)
                .map(|bits| ColumnSet::new((0..6).filter(|column| bits >> column & 1 == 1)))
                .filter(|set| set.cells(&sizes) <= 200_000)
                .collect();
            sets.push(ColumnSet::new([1, 3]));
            let counted = coded.count(&sets).unwrap();
            assert_eq!(counted.len(), sets.len());
            for (set, cells) in sets.iter().zip(&counted) {
                assert_eq!(*cells, one_by_one(&coded.chunks, &sizes, set), "{set:?}");
            }
        }
    }

    /// For random tables and sets, counting together gives the same counts as counting alone.
    #[test]
    fn sets_are_counted_together_as_they_are_alone() {
        let mut rng = QueryRng::seeded_for_tests(8);
        let below =
            |rng: &mut QueryRng, n: usize| usize::try_from(rng.below_u64(n as u64)).unwrap();
        for turn in 0..40 {
            let columns = below(&mut rng, 7) + 2;
            let sizes: Vec<usize> =
                (0..columns).map(|_| 1 + below(&mut rng, [3, 20, 400][turn % 3])).collect();
            let chunks: Vec<Weighed> = (0..below(&mut rng, 3) + 1)
                .map(|_| {
                    let own = below(&mut rng, 9_000);
                    rows(&mut rng, &sizes, own, turn % 4 == 3)
                })
                .collect();
            let coded = CodedRows::new(chunks, sizes.clone(), Deadline::default(), Vec::new());
            let coded = coded.unwrap();
            let pairs =
                (0..columns).flat_map(|a| (a..columns).map(move |b| ColumnSet::new([a, b])));
            let sets: Vec<ColumnSet> = pairs.filter(|_| rng.chance(3, 4)).collect();
            let counted = coded.count(&sets).unwrap();
            for (set, cells) in sets.iter().zip(&counted) {
                assert_eq!(*cells, one_by_one(&coded.chunks, &sizes, set), "{set:?}");
            }
        }
    }

    /// Ten million rows, and all pairs of fourteen columns:
    /// `cargo test --release --lib all_pairs -- --ignored --nocapture`.
    #[test]
    #[ignore = "long, and prints how long it took"]
    fn all_pairs_of_ten_million_rows() {
        let sizes = vec![75, 10, 101, 17, 8, 16, 7, 6, 3, 101, 101, 100, 43, 3];
        let mut rng = QueryRng::seeded_for_tests(3);
        let chunks = (0..2).map(|_| rows(&mut rng, &sizes, 5_000_000, false)).collect();
        let coded = CodedRows::new(chunks, sizes.clone(), Deadline::default(), Vec::new());
        let (coded, start) = (coded.unwrap(), std::time::Instant::now());
        let pairs = (0..14).flat_map(|a| (a + 1..14).map(move |b| ColumnSet::new([a, b])));
        let pairs: Vec<ColumnSet> = pairs.collect();
        let counted = coded.count(&pairs).unwrap();
        println!("{} pairs of 10,000,000 rows in {:?}", pairs.len(), start.elapsed());
        for (set, cells) in pairs.iter().zip(&counted).step_by(13) {
            assert_eq!(*cells, one_by_one(&coded.chunks, &sizes, set), "{set:?}");
        }
        assert!(counted.iter().all(|cells| cells.iter().sum::<i64>() == 10_000_000));
    }

    /// Cells of 32 bits are added up before they are full, and start again from 0.
    #[test]
    fn tables_are_added_up_in_between() {
        let sizes = [2, 3];
        let (first, both) = (ColumnSet::new([0]), ColumnSet::new([0, 1]));
        let cells = CountedCells::Rows(vec![1, 2, 3, 4, 5, u32::MAX]);
        let sets = vec![(&first, 0, vec![0; 2]), (&both, 1, vec![7; 6])];
        let mut table = CountTable { columns: both.clone(), cells, sets };
        table.settle(&sizes);
        table.settle(&sizes);
        assert_eq!(table.sets[0].2, [6, 9 + i64::from(u32::MAX)]);
        assert_eq!(table.sets[1].2, [8, 9, 10, 11, 12, 7 + i64::from(u32::MAX)]);
    }

    #[test]
    fn codes_and_columns_that_do_not_exist_are_errors() {
        let coded = |code: u16, rows: usize, sizes: Vec<usize>| {
            let mut column = ColumnCodes::new(2);
            column.extend(&[code]).unwrap();
            let chunk = Weighed { rows, columns: vec![column], weights: None };
            CodedRows::new(vec![chunk], sizes, Deadline::default(), Vec::new())
        };
        assert!(coded(2, 1, vec![2]).is_err());
        assert!(coded(1, 2, vec![2]).is_err());
        assert!(coded(1, 1, vec![2, 2]).is_err());
        let sound = coded(1, 1, vec![2]).unwrap();
        assert_eq!(sound.count(&[ColumnSet::new([0])]).unwrap(), [[0, 1]]);
        assert!(sound.count(&[ColumnSet::new([1])]).is_err());
        assert!(ColumnCodes::new(256).extend(&[256]).is_err());
        assert!(ColumnCodes::new(257).extend(&[256]).is_ok());
        assert_eq!(format!("{sound:?}"), "CodedRows { .. }");
    }

    /// A count stops when its statement is cancelled.
    #[test]
    fn counting_ends_with_its_statement() {
        let mut rng = QueryRng::seeded_for_tests(3);
        let deadline = Deadline::default();
        let chunks = vec![rows(&mut rng, &[3, 2], 100, false)];
        let coded = CodedRows::new(chunks, vec![3, 2], deadline.clone(), Vec::new()).unwrap();
        assert!(coded.count(&[ColumnSet::new([0, 1])]).is_ok());
        deadline.stop();
        assert!(coded.count(&[ColumnSet::new([0, 1])]).is_err());
    }
}
