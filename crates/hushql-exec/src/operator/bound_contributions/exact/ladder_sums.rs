//! What one unit contributes under each bound of a ladder.
//!
//! In: the unbounded contribution of a unit to each of its groups, in the order of the keyed hash.
//! Out: its contribution under each bound. It guarantees that a unit contributes at most τ under
//! the bound τ, over all groups together; see [`Rungs::under`].
//!
//! ```text
//! Counts of 5, 1 and 4 rows, in the order of the hash     under 8: 5, 1, 2     under 4: 4, 0, 0     beyond: 4 and 8
//! Sums of 6 and −3                                         under 4: 2, −1 (a share of 4/9, toward zero)
//! ```

use datafusion::common::Result;
use num_bigint::BigUint;

use super::kept_share::Share;
use super::unit_contribution::InputKind;
use crate::grid::failed;

/// The contribution of a unit to one group without a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::operator::bound_contributions) struct Own {
    /// The place of the key.
    key: usize,
    /// The outputs.
    parts: [i128; 3],
    /// How much of a bound this uses up.
    used: u128,
}

impl Own {
    /// For rows with these outputs, of which `count` pass the filter and hold a value. With
    /// `by_rows`, a sum uses up rows.
    ///
    /// # Errors
    /// An error with a constant text for an aggregate without a ladder.
    pub(in crate::operator::bound_contributions) fn new(
        (kind, by_rows): (&InputKind, bool),
        key: usize,
        parts: [i128; 3],
        count: u64,
    ) -> Result<Self> {
        let used = match kind {
            InputKind::CountRows { .. }
            | InputKind::CountValues { .. }
            | InputKind::Mean { .. } => u128::from(count),
            InputKind::Sum { .. } if by_rows => u128::from(count),
            InputKind::Sum { .. } => parts[0].unsigned_abs(),
            InputKind::CountUnits { .. }
            | InputKind::Moments { .. }
            | InputKind::Products { .. }
            | InputKind::MeanPerUnit { .. }
            | InputKind::SumPerUnit { .. } => return Err(failed()),
        };
        Ok(Self { key, parts, used })
    }
}

/// The contribution of a unit to all of its groups without a bound.
#[derive(Debug, Default)]
pub(in crate::operator::bound_contributions) struct Rungs {
    own: Vec<Own>,
    /// How much of a bound all groups use up together.
    used: u128,
}

impl Rungs {
    /// Replaces the groups by those of another unit.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice.
    pub(in crate::operator::bound_contributions) fn fill(
        &mut self,
        own: impl Iterator<Item = Result<Own>>,
    ) -> Result<()> {
        self.own.clear();
        self.used = 0;
        for one in own {
            let one = one?;
            self.used = self.used.checked_add(one.used).ok_or_else(failed)?;
            self.own.push(one);
        }
        Ok(())
    }

    /// Whether the unit exceeds a bound.
    pub(in crate::operator::bound_contributions) fn is_beyond(&self, bound: u128) -> bool {
        self.used > bound
    }

    /// Calls `add(key, outputs)` with the unit's contribution to each group under a bound.
    ///
    /// # Guarantee
    /// For all units and bounds τ, with w the width of a mean's range: the magnitudes of all
    /// outputs over all groups add up to at most τ for counts and sums, to at most τ·w for means,
    /// and to at most τ·b for sums that are bounded by rows of at most b. A unit that does not
    /// exceed the bound contributes everything. The result depends only on the unit's own rows, on
    /// the order of its groups, and on the points of the unit and its groups. Counts, means, and
    /// sums that are bounded by rows keep the groups in their order until τ rows are used up; in
    /// the last kept group each row counts as the same share. Other sums are scaled by τ/(the sum
    /// of the unit's magnitudes), one after the other, so that their magnitudes add up to τ.
    ///
    /// # Errors
    /// An error with a constant text for an aggregate without a ladder, and where 128 bits do not
    /// suffice.
    pub(in crate::operator::bound_contributions) fn under(
        &self,
        (kind, by_rows): (&InputKind, bool),
        bound: u128,
        point: impl Fn(Option<usize>) -> Result<u64>,
        mut add: impl FnMut(usize, [i128; 3]) -> Result<()>,
    ) -> Result<()> {
        let mut left = bound;
        let mut shares = Shares { bound, used: self.used, before: 0, shared: 0 };
        for Own { key, parts, used } in &self.own {
            let kept = (*used).min(left);
            left -= kept;
            let parts = match kind {
                _ if !self.is_beyond(bound) => *parts,
                InputKind::CountRows { .. } | InputKind::CountValues { .. } => {
                    [i128::try_from(kept).map_err(|_| failed())?, 0, 0]
                }
                InputKind::Mean { .. } => {
                    let mut own = *parts;
                    share(kept, *used, || point(Some(*key)))?.of_parts(&mut own)?;
                    own
                }
                InputKind::Sum { .. } if by_rows => {
                    [share(kept, *used, || point(Some(*key)))?.of(parts[0])?, 0, 0]
                }
                InputKind::Sum { .. } => [shares.next(parts[0], || point(None))?, 0, 0],
                InputKind::CountUnits { .. }
                | InputKind::Moments { .. }
                | InputKind::Products { .. }
                | InputKind::MeanPerUnit { .. }
                | InputKind::SumPerUnit { .. } => return Err(failed()),
            };
            add(*key, parts)?;
        }
        Ok(())
    }
}

impl Rungs {
    /// Calls `add(key, outputs)` with what each group loses under a bound, if it loses anything:
    /// the difference between its contribution without a bound and that of [`Rungs::under`].
    ///
    /// # Errors
    /// As [`Rungs::under`].
    pub(in crate::operator::bound_contributions) fn cut(
        &self,
        input: (&InputKind, bool),
        bound: u128,
        point: impl Fn(Option<usize>) -> Result<u64>,
        mut add: impl FnMut(usize, [i128; 3]) -> Result<()>,
    ) -> Result<()> {
        let mut own = self.own.iter();
        self.under(input, bound, point, |key, kept| {
            let whole = own.next().ok_or_else(failed)?.parts;
            if whole == kept {
                return Ok(());
            }
            let mut lost = [0; 3];
            for ((lost, whole), kept) in lost.iter_mut().zip(whole).zip(kept) {
                *lost = whole.checked_sub(kept).ok_or_else(failed)?;
            }
            add(key, lost)
        })
    }
}

/// The share of a group in which `kept` of `rows` rows with a value are kept.
fn share(kept: u128, rows: u128, point: impl FnOnce() -> Result<u64>) -> Result<Share> {
    let kept = u64::try_from(kept).map_err(|_| failed())?;
    let rows = u64::try_from(rows).map_err(|_| failed())?;
    Share::new(kept, [rows, rows], point)
}

/// Scales several values by bound/used, for bound < used. The magnitudes of all values add up to
/// `used`.
struct Shares {
    bound: u128,
    used: u128,
    /// The sum of the magnitudes of the values so far, and of their shares.
    before: u128,
    shared: u128,
}

impl Shares {
    /// The share of the next value.
    ///
    /// # Guarantee
    /// The magnitudes of the shares so far add up to ⌊(the sum of the magnitudes of their
    /// values)·bound/used + point/2⁶⁴⌋, and those of all shares to `bound`. A share has the sign of
    /// its value, and no larger magnitude: it is at most ⌈|value|·bound/used⌉.
    ///
    /// # Errors
    /// An error with a constant text if 128 bits do not suffice, and the errors of `point`.
    fn next(&mut self, value: i128, point: impl FnOnce() -> Result<u64>) -> Result<i128> {
        self.before = self.before.checked_add(value.unsigned_abs()).ok_or_else(failed)?;
        let (bound, used, point) = (self.bound, self.used.max(1), point()?);
        let shared = match in_words(self.before, bound, used, point) {
            Some(shared) => shared,
            None => in_any_size(self.before, bound, used, point)?,
        };
        let own = shared.checked_sub(self.shared).ok_or_else(failed)?;
        self.shared = shared;
        let own = i128::try_from(own).map_err(|_| failed())?;
        Ok(if value < 0 { -own } else { own })
    }
}

/// ⌊before·bound/used + point/2⁶⁴⌋, for `used` > 0. `None` if 128 bits do not suffice for a step.
fn in_words(before: u128, bound: u128, used: u128, point: u64) -> Option<u128> {
    let product = before.checked_mul(bound)?;
    let used = u64::try_from(used).ok()?;
    let (whole, rest) = (product / u128::from(used), product % u128::from(used));
    // rest/used + point/2⁶⁴ ≥ 1, both sides times used·2⁶⁴: below 2¹²⁸, because rest < used < 2⁶⁴.
    let short = (1_u128 << 64) - u128::from(point);
    let is_up = rest << 64 >= u128::from(used) * short;
    whole.checked_add(u128::from(is_up))
}

/// As [`in_words`], in numbers of any size: ten times as slow.
///
/// # Errors
/// An error with a constant text if the result does not fit 128 bits.
fn in_any_size(before: u128, bound: u128, used: u128, point: u64) -> Result<u128> {
    let used = BigUint::from(used);
    let product = BigUint::from(before) * bound;
    let shifted = (product << 64_u32) + &used * point;
    u128::try_from(shifted / (used << 64_u32)).map_err(|_| failed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    #[test]
    fn words_compute_what_numbers_of_any_size_do() {
        let whole = [0, 1, 2, 3, 7, 1 << 32, (1 << 63) - 1, 1 << 63, u128::from(u64::MAX)];
        let points = [0, 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX];
        let (mut few, mut up) = (0, 0);
        for (a, b) in whole.into_iter().flat_map(|a| whole.map(|b| (a, b))) {
            for (used, point) in whole.iter().skip(1).flat_map(|u| points.map(|p| (*u, p))) {
                let exact = in_any_size(a, b, used, point).unwrap();
                assert_eq!(in_words(a, b, used, point), Some(exact), "{a} {b} {used} {point}");
                few += 1;
                up += u128::from(exact > a * b / used);
            }
        }
        assert!(few == 9 * 9 * 8 * 7 && up > 500, "{up} of {few}");
        assert_eq!(in_words(1, 1, 1 << 64, 0), None);
        assert_eq!(in_words(1 << 100, 1 << 100, 5, 0), None);
    }

    fn kinds() -> [(InputKind, bool); 4] {
        let (lo, hi) = (-3, 4);
        [
            (InputKind::CountRows { filter: None }, true),
            (InputKind::Sum { column: 0, filter: None, grid: Grid::Integer, lo, hi }, false),
            (InputKind::Sum { column: 0, filter: None, grid: Grid::Integer, lo, hi }, true),
            (InputKind::Mean { column: 0, filter: None, grid: Grid::Integer, lo, hi }, true),
        ]
    }

    /// All ways in which up to three groups have up to three rows of values: no bound is exceeded,
    /// and a unit within its bound loses nothing.
    #[test]
    fn no_unit_adds_more_than_the_bound() {
        let groups: Vec<Vec<i128>> = vec![
            vec![],
            vec![4],
            vec![-3],
            vec![0],
            vec![4, 4, 4],
            vec![-3, -3],
            vec![4, -3],
            vec![1, -1, 2],
        ];
        for (kind, by_rows) in kinds() {
            let (weight, mut tightest) = match (&kind, by_rows) {
                (InputKind::Mean { .. }, _) => (7, 0),
                (InputKind::Sum { .. }, true) => (4, 0),
                _ => (1, 0),
            };
            for (a, b, c) in (0..512).map(|i| (i % 8, i / 8 % 8, i / 64)) {
                let own = [a, b, c].into_iter().zip(0..).map(|(group, key)| {
                    let values = &groups[group];
                    let (count, sum) = (values.len() as u64, values.iter().sum::<i128>());
                    let n = i128::from(count);
                    let parts = match kind {
                        InputKind::Sum { .. } => [sum, 0, 0],
                        InputKind::Mean { .. } => [sum + 3 * n, 4 * n - sum, 0],
                        _ => [n, 0, 0],
                    };
                    Own::new((&kind, by_rows), key, parts, count)
                });
                let mut rungs = Rungs::default();
                rungs.fill(own).unwrap();
                for bound in 0..30 {
                    let (mut all, mut kept) = (0, Vec::new());
                    let add = |key, parts: [i128; 3]| {
                        all += parts.iter().map(|part| part.unsigned_abs()).sum::<u128>();
                        kept.push((key, parts));
                        Ok(())
                    };
                    let point = |key: Option<usize>| Ok([u64::MAX, 1 << 63, 0][key.unwrap_or(1)]);
                    rungs.under((&kind, by_rows), bound, point, add).unwrap();
                    assert!(all <= bound * weight, "{kind:?} {rungs:?} {bound}");
                    tightest += u128::from(all == bound * weight && rungs.is_beyond(bound));
                    let whole: Vec<_> = rungs.own.iter().map(|own| (own.key, own.parts)).collect();
                    assert!(rungs.is_beyond(bound) || kept == whole, "{kind:?} {rungs:?} {bound}");
                    let lost = whole.iter().zip(&kept).map(|((key, whole), (_, kept))| {
                        (*key, [0, 1, 2].map(|part| whole[part] - kept[part]))
                    });
                    let lost: Vec<_> = lost.filter(|(_, lost)| *lost != [0; 3]).collect();
                    let mut cut = Vec::new();
                    let add = |key, parts| {
                        cut.push((key, parts));
                        Ok(())
                    };
                    rungs.cut((&kind, by_rows), bound, point, add).unwrap();
                    assert_eq!(cut, lost, "{kind:?} {rungs:?} {bound}");
                }
            }
            assert!(tightest > 100, "{kind:?} {tightest}");
        }
    }

    #[test]
    fn shares_add_up_to_the_bound() {
        for point in [0, 1, 1 << 63, u64::MAX] {
            for (a, b, c) in (0..1000_i128).map(|i| (i % 10 - 5, i / 10 % 10 - 5, i / 100 - 5)) {
                let used = [a, b, c].iter().map(|value| value.unsigned_abs()).sum::<u128>();
                for bound in 0..used {
                    let mut shares = Shares { bound, used, before: 0, shared: 0 };
                    let own = [a, b, c].map(|value| shares.next(value, || Ok(point)).unwrap());
                    assert_eq!(own.iter().map(|own| own.unsigned_abs()).sum::<u128>(), bound);
                    for (own, value) in own.into_iter().zip([a, b, c]) {
                        assert!(own * value >= 0 && own.abs() <= value.abs());
                        let exact = value * i128::try_from(bound).unwrap();
                        assert!(
                            (own * i128::try_from(used).unwrap() - exact).unsigned_abs() < used
                        );
                    }
                }
            }
        }
        // The product exceeds 128 bits.
        let (most, half) = (i128::MAX, u128::MAX / 4);
        let mut shares = Shares { bound: half, used: u128::MAX / 2, before: 0, shared: 0 };
        assert_eq!(shares.next(-most, || Ok(0)).unwrap(), -most / 2);
    }
}
