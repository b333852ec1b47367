//! Exact counts over sets of columns: everything that can be asked of coded rows.
//!
//! In: sets of columns. Out: for each the count of every combination of codes, in one pass over all rows. The sets are divided among
//! threads, each of which reads the rows block by block, so that their codes stay near while its sets are counted.
//!
//! ```text
//! {0, 1} over sizes 2, 3      cells: 2·3, the code of column 1 runs fastest
//! ```

use std::fmt;
use std::thread;

use datafusion::execution::memory_pool::MemoryReservation;

use super::weigh::Weighed;
use crate::exec::Deadline;
use crate::synthetic::{Columns, Count, CountError, MOST_CELLS};

/// Rows that are read at a time: their codes fit into a cache.
const BLOCK: usize = 8_192;

/// Below so many rows times sets, one thread is faster.
const WORTH_THREADS: usize = 1 << 16;

/// Bounded private rows as public codes. It shows nothing but counts, and those only to whoever makes noise of them.
pub(crate) struct CodedRows {
    chunks: Vec<Weighed>,
    sizes: Vec<usize>,
    deadline: Deadline,
    /// Memory that is set aside as long as these rows are there.
    _reserved: Vec<MemoryReservation>,
}

/// The number of rows is private.
impl fmt::Debug for CodedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodedRows").finish_non_exhaustive()
    }
}

impl CodedRows {
    pub(super) fn new(
        chunks: Vec<Weighed>,
        sizes: Vec<usize>,
        deadline: Deadline,
        reserved: Vec<MemoryReservation>,
    ) -> Self {
        Self { chunks, sizes, deadline, _reserved: reserved }
    }

    /// The cells of a set, and for each of its columns how far apart its codes are.
    fn layout(&self, set: &Columns) -> Result<Layout, CountError> {
        let cells = set.cells(&self.sizes);
        let known = set.as_slice().iter().all(|column| *column < self.sizes.len());
        if !known || cells > MOST_CELLS {
            return Err(CountError("a set has too many cells".into()));
        }
        let mut strides = vec![0; set.len()];
        let mut stride = 1_usize;
        for (column, own) in set.as_slice().iter().zip(&mut strides).rev() {
            *own = stride;
            stride *= self.sizes.get(*column).copied().unwrap_or(1);
        }
        Ok(Layout { columns: set.as_slice().to_vec(), strides, cells: vec![0; cells] })
    }

    /// Counts the rows into the cells of these sets.
    fn count_into(&self, layouts: &mut [Layout]) -> Result<(), CountError> {
        let mut places = vec![0_usize; BLOCK];
        for chunk in &self.chunks {
            let mut first = 0;
            while first < chunk.rows {
                if self.deadline.is_over() {
                    return Err(CountError("the statement has ended".into()));
                }
                let last = (first + BLOCK).min(chunk.rows);
                for layout in layouts.iter_mut() {
                    layout.count(chunk, first, last, &mut places).ok_or_else(|| {
                        CountError("a code is beyond the size of its column".into())
                    })?;
                }
                first = last;
            }
        }
        Ok(())
    }
}

/// The cells of one set.
struct Layout {
    columns: Vec<usize>,
    strides: Vec<usize>,
    cells: Vec<i64>,
}

impl Layout {
    /// Counts the rows of a block; `None` if a code has no cell.
    fn count(
        &mut self,
        chunk: &Weighed,
        first: usize,
        last: usize,
        places: &mut [usize],
    ) -> Option<()> {
        let places = places.get_mut(..last - first)?;
        let codes = |column: &usize| chunk.columns.get(*column)?.get(first..last);
        let cells = self.cells.as_mut_slice();
        match (self.columns.as_slice(), self.strides.as_slice()) {
            // Pairs are what is counted most.
            ([a, b], [stride, _]) => {
                for ((place, a), b) in places.iter_mut().zip(codes(a)?).zip(codes(b)?) {
                    *place = usize::from(*a) * stride + usize::from(*b);
                }
            }
            (columns, strides) => {
                places.fill(0);
                for (column, stride) in columns.iter().zip(strides) {
                    for (place, code) in places.iter_mut().zip(codes(column)?) {
                        *place += usize::from(*code) * stride;
                    }
                }
            }
        }
        match &chunk.weights {
            None => {
                for place in places.iter() {
                    *cells.get_mut(*place)? += 1;
                }
            }
            Some(weights) => {
                for (place, weight) in places.iter().zip(weights.get(first..last)?) {
                    let cell = cells.get_mut(*place)?;
                    *cell = cell.saturating_add(*weight);
                }
            }
        }
        Some(())
    }
}

impl Count for CodedRows {
    fn count(&self, sets: &[Columns]) -> Result<Vec<Vec<i64>>, CountError> {
        let mut layouts = sets.iter().map(|set| self.layout(set)).collect::<Result<Vec<_>, _>>()?;
        let rows: usize = self.chunks.iter().map(|chunk| chunk.rows).sum();
        let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = threads.min(layouts.len()).max(1);
        if threads == 1 || rows.saturating_mul(layouts.len()) < WORTH_THREADS {
            self.count_into(&mut layouts)?;
        } else {
            let each = layouts.len().div_ceil(threads);
            let counted = thread::scope(|scope| {
                let begun: Vec<_> = layouts
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
        Ok(layouts.into_iter().map(|layout| layout.cells).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{QueryRng, Uniform};

    fn rows(rng: &mut QueryRng, sizes: &[usize], rows: usize, weighed: bool) -> Weighed {
        let columns = sizes.iter().map(|size| {
            (0..rows).map(|_| u16::try_from(rng.below_u64(*size as u64)).unwrap()).collect()
        });
        let columns = columns.collect();
        let weights =
            weighed.then(|| (0..rows).map(|_| i64::try_from(rng.below_u64(64)).unwrap()).collect());
        Weighed { rows, columns, weights }
    }

    #[test]
    fn counts_are_those_of_single_rows() {
        let mut rng = QueryRng::seeded_for_tests(3);
        let sizes = vec![3, 5, 2, 4];
        for (each, weighed) in [([10, 0, 7], false), ([20_000, 9_000, 1], true)] {
            let chunks: Vec<Weighed> =
                each.iter().map(|n| rows(&mut rng, &sizes, *n, weighed)).collect();
            let coded = CodedRows::new(chunks, sizes.clone(), Deadline::default(), Vec::new());
            let sets: Vec<Columns> = [&[0][..], &[1, 3], &[0, 1, 2, 3], &[], &[2, 3], &[0, 2, 3]]
                .iter()
                .map(|set| Columns::new(set.iter().copied()))
                .collect();
            let counted = coded.count(&sets).unwrap();
            for (set, cells) in sets.iter().zip(&counted) {
                let mut expected = vec![0_i64; set.cells(&sizes)];
                for chunk in &coded.chunks {
                    for row in 0..chunk.rows {
                        let place = set.as_slice().iter().fold(0, |place, column| {
                            place * sizes[*column] + usize::from(chunk.columns[*column][row])
                        });
                        expected[place] += chunk.weights.as_ref().map_or(1, |own| own[row]);
                    }
                }
                assert_eq!(*cells, expected, "{set:?}");
            }
        }
    }

    #[test]
    fn codes_and_columns_that_do_not_exist_are_errors() {
        let chunk = Weighed { rows: 1, columns: vec![vec![2]], weights: None };
        let coded = CodedRows::new(vec![chunk], vec![2], Deadline::default(), Vec::new());
        assert!(coded.count(&[Columns::new([0])]).is_err());
        assert!(coded.count(&[Columns::new([1])]).is_err());
        assert_eq!(format!("{coded:?}"), "CodedRows { .. }");
    }

    /// Nothing is counted for nobody.
    #[test]
    fn counting_ends_with_its_statement() {
        let mut rng = QueryRng::seeded_for_tests(3);
        let deadline = Deadline::default();
        let chunks = vec![rows(&mut rng, &[3, 2], 100, false)];
        let coded = CodedRows::new(chunks, vec![3, 2], deadline.clone(), Vec::new());
        assert!(coded.count(&[Columns::new([0, 1])]).is_ok());
        deadline.stop();
        assert!(coded.count(&[Columns::new([0, 1])]).is_err());
    }
}
