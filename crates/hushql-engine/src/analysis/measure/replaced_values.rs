//! How far a measure moves where neighbours replace what one person's row says, and the person
//! stays: the presence of people is public.
//!
//! In: a measure with the sensitivity for neighbours that add or remove a person, and what it reads
//! of public columns alone. Out: the measure with the sensitivity for replacement, or a refusal. A
//! person has one row. Let the values of the row be in [lo, hi], and b = max(|lo|, |hi|):
//!
//! ```text
//!                                              Δ₁                       Δ₂²
//! of public columns alone                      0                        0               exact, no draw
//! COUNT, same group                            1                        1
//! COUNT, groups by a private key               2                        2
//! SUM, a value in every row, same rows         hi − lo                  (hi − lo)²
//! SUM, a row may fall out or be NULL           D = max(hi, 0) − min(lo, 0)      D²
//! SUM, groups by a private key                 2b                       max(2b², D²)
//! AVG, n public                                hi − lo                  (hi − lo)²      one draw
//! AVG, otherwise                               2(hi − lo)               2(hi − lo)²
//! COUNT(DISTINCT x), same group                1                        1
//! COUNT(DISTINCT x), groups by a private key   2                        2
//! variances, statistics of two columns         2 of add/remove          2 of add/remove
//! every other number                           2 of add/remove          4 of add/remove
//! MIN, MAX, same group                         the range of add/remove
//! QUANTILE(x, q), same group                   a range of 2 ranks
//! any other choice among known candidates      every range and size twice
//! ```
//!
//! What counts as a removal and an addition holds for every function of the rows: both steps are
//! between databases of one row less.

use crate::analysis::below::refusals::replaced;
use crate::analysis::measure::neighbours::{Replaced, RowChange};
use crate::analysis::measure::sensitivity::Sensitivity;
use crate::analysis::measure::{Input, Measure, ReleaseKind};
use crate::dialect::Operand;
use crate::refusal::Refusal;

/// What a call reads of public columns alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadPublic {
    /// The group keys.
    pub(crate) keys: bool,
    /// The conditions below the release, and its FILTER.
    pub(crate) conditions: bool,
    /// The argument. True if there is none.
    pub(crate) argument: bool,
    /// Whether the argument may be NULL.
    pub(crate) nullable: bool,
}

impl Measure {
    /// True if it is shown as it is: public columns alone decide it.
    pub fn is_exact(&self) -> bool {
        self.replaced.is_some_and(|own| own.change == RowChange::Nothing)
    }

    /// True if it is a mean over rows whose number is public.
    pub fn knows_rows(&self) -> bool {
        self.replaced.is_some_and(|own| own.knows_rows)
    }
}

/// Gives a measure the sensitivity for replacement.
///
/// # Guarantee
/// For every pair of databases that differ in the private values of one person's row, the vector of
/// the measure's integers over all groups differs by at most the new sensitivity; for a mean over
/// rows of public number, the first of its two integers does, and their sum is the same in both. An
/// exact measure has the same integers in both. Nothing is admitted that is not named here.
///
/// # Errors
/// Refuses measures for which this is not derived, with what to write.
pub(crate) fn replace(measure: &mut Measure, read: ReadPublic) -> Result<(), Refusal> {
    let text = measure.clause.text.clone();
    let refuse = |write: &str| Err(replaced(&text, write));
    if measure.clause.operand == Operand::Response {
        // One entry's answer changes: from e^ε to 1 for the value that it had, and from 1 to e^ε
        // for the other one, with the same total. That is ε, but no range of ε: see `mechanize`.
        measure.replaced = Some(Replaced { change: RowChange::Response, knows_rows: false });
        return Ok(());
    }
    if measure.ladder.is_some() || measure.clause.finding.is_some() {
        return refuse(
            "the aggregate within a range that CLAMP or a domain states, without rows=auto: everyone has one row",
        );
    }
    if measure.clause.consistent.is_some() {
        return refuse("the numbers without CONSISTENT");
    }
    if (measure.limits.total, measure.limits.per_partition) != (Some(1), 1) {
        return refuse("the aggregate without rows, groups and total: everyone has one row");
    }
    let sensitivity = match &measure.release_kind {
        ReleaseKind::Number(sensitivity) => *sensitivity,
        ReleaseKind::Choice(choice) => {
            let Some((choice, change)) = choice.as_ref().clone().replaced(read.keys) else {
                return refuse("the choice among candidates that a domain or IN (…) names");
            };
            measure.release_kind = ReleaseKind::Choice(Box::new(choice));
            measure.replaced = Some(Replaced { change, knows_rows: false });
            return Ok(());
        }
    };
    let same_rows = read.conditions && read.keys;
    let change = match (same_rows && read.argument, read.keys, same_rows && !read.nullable) {
        (true, _, _) => RowChange::Nothing,
        (false, false, _) => RowChange::Group,
        (false, true, true) => RowChange::Value,
        (false, true, false) => RowChange::Counted,
    };
    let moved = Moved { lo: measure.lo, hi: measure.hi, change };
    let (derived, change) = match (&measure.input, change) {
        (Input::Terms { .. } | Input::Places { .. } | Input::Bins { .. }, _) => {
            return refuse("COUNT, SUM or AVG of a public group");
        }
        (
            Input::Rows
            | Input::Values(_)
            | Input::Units
            | Input::Sum(_)
            | Input::Mean(_)
            | Input::Distinct(_)
            | Input::Moments(_)
            | Input::Joint(_)
            | Input::SumPerUnit(_)
            | Input::MeanPerUnit(_),
            RowChange::Nothing,
        ) => (Some(Sensitivity { l1: 0, l2_squared: 0 }), change),
        (Input::Rows | Input::Values(_) | Input::Units | Input::Sum(_), _) => {
            (moved.of_sum(), change)
        }
        (Input::Mean(_), _) => (moved.of_mean(), change),
        // As a count: a value may be lost, and another one be new.
        (Input::Distinct(_), RowChange::Value) => (moved.of_sum(), RowChange::Counted),
        (Input::Distinct(_), _) => (moved.of_sum(), change),
        (Input::Moments(_) | Input::Joint(_), _) => (apart(sensitivity), RowChange::Both),
        (Input::SumPerUnit(_) | Input::MeanPerUnit(_), _) => (twice(sensitivity), RowChange::Both),
    };
    let Some(derived) = derived else {
        return refuse("the aggregate within a narrower range: CLAMP(x, lo, hi)");
    };
    let knows_rows = change == RowChange::Value && matches!(measure.input, Input::Mean(_));
    measure.release_kind = ReleaseKind::Number(derived);
    measure.replaced = Some(Replaced { change, knows_rows });
    Ok(())
}

/// A removal and an addition.
fn twice(one: Sensitivity) -> Option<Sensitivity> {
    Some(Sensitivity { l1: one.l1.checked_mul(2)?, l2_squared: one.l2_squared.checked_mul(4)? })
}

/// A removal and an addition of vectors without negative entries, each in one group: their product
/// is not negative, so that |v − w|² ≤ |v|² + |w|².
fn apart(one: Sensitivity) -> Option<Sensitivity> {
    Some(Sensitivity { l1: one.l1.checked_mul(2)?, l2_squared: one.l2_squared.checked_mul(2)? })
}

/// The row of one person, whose values are replaced.
#[derive(Debug, Clone, Copy)]
struct Moved {
    /// The least value.
    lo: i128,
    /// The largest value.
    hi: i128,
    /// What is replaced.
    change: RowChange,
}

impl Moved {
    /// A sum of one value for each row; a count, with a value of 1 for each row that counts.
    ///
    /// # Guarantee
    /// In one group the row's part changes from v to w, both in [lo, hi], or 0 where the row may
    /// fall out: by at most D. Between two groups, it is v less in one and w more in the other: 2b
    /// in L1, and v² + w² ≤ 2b² in squares. A private key may also stay, hence the larger of both.
    ///
    /// Of distinct values, one may be lost and one be new, with lo = 0 and hi = 1: −1 to 1 in one
    /// group, and 1 in each of two.
    fn of_sum(self) -> Option<Sensitivity> {
        let Self { lo, hi, change } = self;
        let width = match change {
            RowChange::Value => hi.checked_sub(lo)?,
            RowChange::Nothing
            | RowChange::Counted
            | RowChange::Group
            | RowChange::Both
            | RowChange::Response => hi.max(0).checked_sub(lo.min(0))?,
        };
        let width = u128::try_from(width).ok()?;
        let square = width.checked_mul(width)?;
        if change != RowChange::Group {
            return Some(Sensitivity { l1: width, l2_squared: square });
        }
        let b = lo.unsigned_abs().max(hi.unsigned_abs());
        let (l1, both) = (b.checked_mul(2)?, b.checked_mul(b)?.checked_mul(2)?);
        Some(Sensitivity { l1: l1.max(width), l2_squared: both.max(square) })
    }

    /// The two sums Σ(x − lo) and Σ(hi − x). A row with a value adds w = hi − lo to both together.
    ///
    /// # Guarantee
    /// If the row stays, one sum falls by what the other one rises, at most w; their total is
    /// public, so that one of them is drawn, with Δ = w. Otherwise both vectors have entries ≥ 0
    /// that add up to w at most, in one group or in two: 2w in L1, and |v|² + |u|² ≤ 2w² in
    /// squares, as the product of such vectors is not negative.
    fn of_mean(self) -> Option<Sensitivity> {
        let width = u128::try_from(self.hi.checked_sub(self.lo)?).ok()?;
        let square = width.checked_mul(width)?;
        let one = Sensitivity { l1: width, l2_squared: square };
        if self.change == RowChange::Value { Some(one) } else { apart(one) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts that a row may add: to which of two groups, and what; `None` if it falls out.
    fn states(lo: i128, hi: i128, keys: bool, stays: bool) -> Vec<Option<(usize, i128)>> {
        let groups = if keys { 0..1 } else { 0..2 };
        let in_groups = groups.flat_map(|group| (lo..=hi).map(move |value| Some((group, value))));
        let out = (!stays).then_some(None);
        in_groups.chain(out).collect()
    }

    /// The largest change between two vectors, in L1 and in squares.
    fn largest(vectors: &[Vec<i128>]) -> (u128, u128) {
        let mut most = (0, 0);
        for one in vectors {
            for other in vectors {
                let change = one.iter().zip(other).map(|(a, b)| (a - b).unsigned_abs());
                let l1 = change.clone().sum::<u128>();
                let l2 = change.map(|c| c * c).sum::<u128>();
                most = (most.0.max(l1), most.1.max(l2));
            }
        }
        most
    }

    #[test]
    fn formulas_are_the_largest_changes_by_one_replaced_row() {
        for (lo, hi) in [(0, 1), (1, 3), (-2, 3), (-3, -1), (-2, 2), (0, 4), (-1, 0)] {
            for change in [RowChange::Value, RowChange::Counted, RowChange::Group] {
                let (keys, stays) = (change != RowChange::Group, change == RowChange::Value);
                let moved = Moved { lo, hi, change };
                let at = |(group, entries): (usize, Vec<i128>), width: usize| {
                    let mut vector = vec![0; 2 * width];
                    vector[group * width..][..width].copy_from_slice(&entries);
                    vector
                };
                let states = states(lo, hi, keys, stays);
                let sums: Vec<Vec<i128>> = states
                    .iter()
                    .map(|state| state.map_or_else(|| vec![0; 2], |(g, v)| at((g, vec![v]), 1)))
                    .collect();
                let of_sum = moved.of_sum().unwrap();
                assert_eq!((of_sum.l1, of_sum.l2_squared), largest(&sums), "{moved:?}");
                let means: Vec<Vec<i128>> = states
                    .iter()
                    .map(|state| {
                        state.map_or_else(
                            || vec![0; 4],
                            |(g, v)| match stays {
                                // Only the first sum is drawn.
                                true => at((g, vec![v - lo, 0]), 2),
                                false => at((g, vec![v - lo, hi - v]), 2),
                            },
                        )
                    })
                    .collect();
                let of_mean = moved.of_mean().unwrap();
                assert_eq!((of_mean.l1, of_mean.l2_squared), largest(&means), "{moved:?}");
            }
        }
    }

    #[test]
    fn a_domain_from_18_to_65_moves_by_65_where_a_row_may_be_null() {
        let moved = |change| Moved { lo: 18, hi: 65, change }.of_sum().unwrap().l1;
        assert_eq!((moved(RowChange::Value), moved(RowChange::Counted)), (47, 65));
        let groups = Moved { lo: 0, hi: 1, change: RowChange::Group }.of_sum().unwrap();
        assert_eq!((groups.l1, groups.l2_squared), (2, 2));
    }
}
