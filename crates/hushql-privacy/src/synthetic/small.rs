//! Small databases: all tables of m rows over a tiny domain, scored by how well they answer.
//!
//! In: the counts of some marginals, and m. Out: an integer score for each multiset of m
//! combinations of codes, and the multiset with a given number. This is the release mechanism of
//! Blum, Ligett, Roth 2008: the exponential mechanism chooses one of the multisets.
//!
//! The score of a table D̂ is −max_h |m·h(D) − n·h(D̂)| over the cells h of the marginals, where n
//! is the sum of the counts, the number of rows. One more row moves it by −m … m − 1: the cell of
//! the row moves by m − ĥ and the others by −ĥ, with 0 ≤ ĥ ≤ m. So the changes of two scores differ
//! by at most 2m − 1.
//!
//! ```text
//! 2 codes, m = 2: {0,0}, {0,1}, {1,1};  counts (3, 1), n = 4:  scores −2, −2, −6
//! ```

use num_traits::ToPrimitive;

use super::made::Stop;

/// The number of multisets that are scored between two checks of the clock.
const AT_A_TIME: usize = 1_024;

/// C(cells + rows − 1, rows): the number of multisets of this many rows; `None` beyond `most`.
pub(super) fn databases(cells: usize, rows: u32, most: usize) -> Option<usize> {
    let mut count = 1_u128;
    for row in 1..=u128::from(rows) {
        // C(c + r − 1, r) = C(c + r − 2, r − 1)·(c + r − 1)/r.
        count = count * (u128::try_from(cells).ok()? + row - 1) / row;
        if count > u128::try_from(most).ok()? {
            return None;
        }
    }
    usize::try_from(count).ok()
}

/// 2m − 1: the range of the score for one row more or less.
pub(super) fn range(rows: u32) -> u128 {
    u128::from(rows).saturating_mul(2).saturating_sub(1)
}

/// Visits the multisets of `rows` cells below `cells`, each sorted, in order.
fn visit(cells: usize, rows: u32, mut see: impl FnMut(&[usize]) -> bool) {
    let mut chosen = vec![0; rows.to_usize().unwrap_or(0)];
    loop {
        if cells == 0 || !see(&chosen) {
            return;
        }
        let Some(place) = chosen.iter().rposition(|cell| cell + 1 < cells) else { return };
        let next = chosen.get(place).copied().unwrap_or(0) + 1;
        chosen.iter_mut().skip(place).for_each(|cell| *cell = next);
    }
}

/// The multiset with this number.
pub(super) fn nth(cells: usize, rows: u32, number: usize) -> Option<Vec<usize>> {
    let (mut at, mut found) = (0, None);
    visit(cells, rows, |chosen| {
        if at == number {
            found = Some(chosen.to_vec());
        }
        at += 1;
        found.is_none()
    });
    found
}

/// The scores of all multisets, for marginals with these counts. For each marginal, `of` has the
/// cell of each combination of codes. `None` if the statement is over.
pub(super) fn scores(
    counts: &[&[i64]],
    of: &[Vec<u32>],
    cells: usize,
    rows: u32,
    stop: Stop<'_>,
) -> Option<Vec<i128>> {
    // Each marginal counts every row once.
    let n: i128 = counts.first().map_or(0, |counts| counts.iter().copied().map(i128::from).sum());
    let m = i128::from(rows);
    let scaled: Vec<Vec<i128>> =
        counts.iter().map(|counts| counts.iter().map(|h| m * i128::from(*h)).collect()).collect();
    let mut scores = Vec::new();
    let mut left = scaled.clone();
    let mut is_over = stop();
    visit(cells, rows, |chosen| {
        let mut worst = 0;
        for ((left, scaled), of) in left.iter_mut().zip(&scaled).zip(of) {
            left.copy_from_slice(scaled);
            for cell in chosen {
                let cell = of.get(*cell).and_then(|cell| usize::try_from(*cell).ok());
                if let Some(count) = cell.and_then(|cell| left.get_mut(cell)) {
                    *count -= n;
                }
            }
            worst = left.iter().fold(worst, |worst: u128, off| worst.max(off.unsigned_abs()));
        }
        scores.push(-i128::try_from(worst).unwrap_or(i128::MAX));
        is_over = is_over || (scores.len() % AT_A_TIME == 0 && stop());
        !is_over
    });
    (!is_over).then_some(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_counted_and_numbered() {
        assert_eq!(databases(4, 5, 1_000_000), Some(56));
        assert_eq!(databases(1, 7, 10), Some(1));
        assert_eq!((databases(100, 3, 171_699), databases(100, 3, 171_700)), (None, Some(171_700)));
        for (cells, rows) in [(3, 2), (4, 3), (1, 2), (5, 1)] {
            let count = databases(cells, rows, 1_000).unwrap();
            let all: Vec<Vec<usize>> =
                (0..count).map(|number| nth(cells, rows, number).unwrap()).collect();
            let different: std::collections::BTreeSet<_> = all.iter().collect();
            assert_eq!(different.len(), count);
            assert!(
                all.iter().all(|rows| rows.is_sorted() && rows.iter().all(|cell| *cell < cells))
            );
            assert_eq!(nth(cells, rows, count), None);
        }
    }

    /// −max|m·h(D) − n·h(D̂)|, where n is the number of rows. The score is exact for all n.
    #[test]
    fn scores_are_whole_numbers() {
        let scores = |counts: &[&[i64]], of: &[Vec<u32>], cells, rows| {
            scores(counts, of, cells, rows, &|| false).unwrap()
        };
        assert_eq!(scores(&[&[3, 1]], &[vec![0, 1]], 2, 2), [-2, -2, -6]);
        assert_eq!(scores(&[&[0, 0]], &[vec![0, 1]], 2, 1), [0, 0]);
        assert_eq!(super::scores(&[&[0, 0]], &[vec![0, 1]], 2, 1, &|| true), None);
        // Two marginals of 2 × 2: the multiset {0, 0} has the codes {0} and {0}.
        let of = [vec![0, 0, 1, 1], vec![0, 1, 0, 1]];
        assert_eq!(scores(&[&[4, 0], &[1, 3]], &of, 4, 1), [-3, -1, -4, -4]);
        assert_eq!((range(1), range(5)), (1, 9));
    }
}
