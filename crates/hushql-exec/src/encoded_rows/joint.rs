//! Decides which sets are counted together: the counts of a set are sums over the cells of any
//! larger set that contains it.
//!
//! In: the wanted sets, and the number of codes of each column. Out: tables, each over a few
//! columns, such that every set lies within one of them. The pairs of three small columns share one
//! table, so a row is counted once instead of three times. Large sets keep tables of their own. The
//! decision depends on public sizes alone.
//!
//! ```text
//! {0,1} {0,2} {1,2} of the sizes 3, 4, 5      one table of 60 cells, from which three of 12, 15 and 20 follow
//! ```

use hushql_privacy::synthetic::ColumnSet;

/// The most cells of a table that is larger than a set. In four bytes each, they stay in the
/// processor's nearest cache.
const MOST_CELLS: usize = 12_000;

/// If there are more sets than this, each is counted alone: the search takes a time that grows with
/// the square of their number.
const MOST_SETS: usize = 512;

/// Columns that are counted together, and the positions of the sets whose counts follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joint {
    pub(super) columns: ColumnSet,
    pub(super) sets: Vec<usize>,
}

/// The tables to count.
///
/// # Guarantee
/// Every set belongs to exactly one table, whose columns contain its own. All tables together have
/// at most `times` as many cells as the sets.
pub(super) fn joint(sets: &[ColumnSet], sizes: &[usize], times: usize) -> Vec<Joint> {
    let alone = |at: usize, set: &ColumnSet| Joint { columns: set.clone(), sets: vec![at] };
    let masks: Option<Vec<u128>> = sets.iter().map(mask).collect();
    let masks = match masks {
        Some(masks) if sets.len() <= MOST_SETS => masks,
        Some(_) | None => return sets.iter().enumerate().map(|(at, set)| alone(at, set)).collect(),
    };
    let cells: Vec<usize> = sets.iter().map(|set| set.cells(sizes)).collect();
    // The largest sets come first, because small ones may lie within them.
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(cells.get(*at).copied()));
    let mut left: Vec<bool> = vec![true; sets.len()];
    // The cells that tables may still have beyond those that their sets allow.
    let mut room: usize = 0;
    let worth = |held: &[usize]| -> usize {
        let cells = held.iter().filter_map(|at| cells.get(*at)).copied();
        cells.fold(0, usize::saturating_add).saturating_mul(times)
    };
    let mut tables = Vec::new();
    for first in order {
        let (Some(true), Some(set)) = (left.get(first).copied(), sets.get(first)) else { continue };
        let mut columns = set.clone();
        let mut within;
        let is_left = |at: &usize| left.get(*at).copied().unwrap_or(false);
        loop {
            let own = columns.cells(sizes);
            let held = |columns: &ColumnSet| -> Vec<usize> {
                let Some(mask) = mask(columns) else { return Vec::new() };
                let inside = masks.iter().map(|set| set & !mask == 0).enumerate();
                inside.filter(|(at, inside)| *inside && is_left(at)).map(|(at, _)| at).collect()
            };
            // The column that adds the most sets, and among those the one with the fewest codes.
            let fits = |column: &usize| {
                let size = sizes.get(*column).copied().unwrap_or(usize::MAX);
                !columns.contains(*column) && own.saturating_mul(size) <= MOST_CELLS
            };
            let more = (0..sizes.len()).filter(fits).map(|column| {
                let wider = ColumnSet::new(
                    columns.as_slice().iter().copied().chain(std::iter::once(column)),
                );
                let held = held(&wider);
                (held.len(), std::cmp::Reverse(wider.cells(sizes)), wider, held)
            });
            let best = more.max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
            within = held(&columns);
            let Some((count, _, wider, held)) = best else { break };
            if count <= within.len() || wider.cells(sizes) > worth(&held).saturating_add(room) {
                break;
            }
            columns = wider;
        }
        room = room.saturating_add(worth(&within)).saturating_sub(columns.cells(sizes));
        for at in &within {
            if let Some(left) = left.get_mut(*at) {
                *left = false;
            }
        }
        tables.push(Joint { columns, sets: within });
    }
    tables
}

/// The columns of a set as bits; `None` if there are too many columns.
fn mask(set: &ColumnSet) -> Option<u128> {
    let bit = |column: &usize| 1_u128.checked_shl(u32::try_from(*column).ok()?);
    set.as_slice().iter().try_fold(0, |mask, column| Some(mask | bit(column)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hushql_privacy::sampler::{QueryRng, Uniform};

    fn pairs(columns: usize) -> Vec<ColumnSet> {
        let all = (0..columns).flat_map(|a| (a + 1..columns).map(move |b| ColumnSet::new([a, b])));
        all.collect()
    }

    fn check(sets: &[ColumnSet], sizes: &[usize], times: usize) -> Vec<Joint> {
        let tables = joint(sets, sizes, times);
        let mut seen: Vec<usize> = tables.iter().flat_map(|t| t.sets.iter().copied()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..sets.len()).collect::<Vec<_>>());
        for table in &tables {
            assert!(table.sets.iter().all(|at| sets[*at].is_within(&table.columns)));
            let largest = table.sets.iter().map(|at| sets[*at].cells(sizes)).max();
            assert!(table.columns.cells(sizes) <= largest.unwrap().max(MOST_CELLS));
        }
        let cells = |all: &mut dyn Iterator<Item = &ColumnSet>| -> usize {
            all.map(|set| set.cells(sizes)).sum()
        };
        let together = cells(&mut tables.iter().map(|table| &table.columns));
        assert!(together <= times * cells(&mut sets.iter()), "{together}");
        tables
    }

    #[test]
    fn small_columns_are_counted_together() {
        assert_eq!(check(&pairs(3), &[3, 4, 5], 2).len(), 1);
        assert_eq!(
            check(&pairs(3), &[3, 4, 5], 1).len(),
            3,
            "60 cells are more than 12, 15 and 20"
        );
        let adult = [75, 10, 101, 17, 8, 16, 7, 6, 3, 101, 101, 100, 43, 3];
        let tables = check(&pairs(14), &adult, 2);
        assert!(tables.len() < 45, "{}", tables.len());
        let few =
            check(&[ColumnSet::new([0, 1]), ColumnSet::new([0]), ColumnSet::new([])], &[3, 4], 1);
        assert_eq!(few.len(), 1);
    }

    #[test]
    fn every_set_is_in_one_table() {
        let mut rng = QueryRng::seeded_for_tests(5);
        for _ in 0..300 {
            let columns = usize::try_from(rng.below_u64(9) + 1).unwrap();
            let below =
                |rng: &mut QueryRng, n: usize| usize::try_from(rng.below_u64(n as u64)).unwrap();
            let sizes: Vec<usize> = (0..columns).map(|_| 1 + below(&mut rng, 30)).collect();
            let sets: Vec<ColumnSet> = (0..below(&mut rng, 40))
                .map(|_| {
                    let of = below(&mut rng, 4);
                    ColumnSet::new((0..of).map(|_| below(&mut rng, columns)).collect::<Vec<_>>())
                })
                .collect();
            for times in [1, 2] {
                check(&sets, &sizes, times);
            }
        }
        // Too many columns for the bits, and too many sets.
        check(&[ColumnSet::new([130, 1]), ColumnSet::new([1])], &[2; 140], 2);
        check(&vec![ColumnSet::new([0, 1]); MOST_SETS + 1], &[2, 3], 2);
    }
}
