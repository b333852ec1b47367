//! How a budget is spread over rounds, in integers.
//!
//! In: billionths, the number of columns, and after each round whether it taught anything: all of
//! it public. Out: the shares of the next round, as long as budget is left.
//!
//! ```text
//! B = 14,973,057, d = 14:  267,376 per round, 240,638 of it for measuring; the 14 one-column marginals take 240,638 each
//! ```

use super::noise::Mode;

/// The planned number of rounds for each column. If rounds grow, there are fewer.
const ROUNDS_OF_A_COLUMN: u64 = 4;

/// The shares of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// The share of the choice.
    pub(super) select: u64,
    /// The share of the measurement.
    pub(super) measure: u64,
}

/// The rest of the budget, and the shares of the next round.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    left: u64,
    shares: Shares,
    mode: Mode,
    is_over: bool,
}

impl Schedule {
    /// The largest number of rounds for this many columns.
    pub(super) fn most_rounds(columns: usize) -> u64 {
        ROUNDS_OF_A_COLUMN.saturating_mul(u64::try_from(columns).unwrap_or(u64::MAX))
    }

    /// The budget after one measurement of each column at [`Schedule::first`]; `None` if a share
    /// would be 0.
    pub(super) fn new(total: u64, columns: usize, mode: Mode) -> Option<Self> {
        let round = total.checked_div(Self::most_rounds(columns))?;
        let measure = measuring(total, mode).checked_div(Self::most_rounds(columns))?;
        let shares = Shares { select: round.checked_sub(measure)?, measure };
        let first = measure.checked_mul(u64::try_from(columns).ok()?)?;
        let left = total.checked_sub(first)?;
        (shares.select > 0 && shares.measure > 0).then_some(Self {
            left,
            shares,
            mode,
            is_over: false,
        })
    }

    /// The least budget for this many columns.
    pub(super) fn least(columns: usize) -> u64 {
        // From here on, ⌊B/T⌋ − ⌊sB/T⌋ is at least 1.
        Self::most_rounds(columns).saturating_mul(10)
    }

    /// The share of the first measurement of each one-column marginal.
    pub(super) fn first(&self) -> u64 {
        self.shares.measure
    }

    /// The shares of the next round; `None` when all is spent.
    ///
    /// # Guarantee
    /// All shares together, with those of the first measurements, never exceed the budget. A round
    /// takes the whole rest if the rest is less than two rounds. Every round takes at least as
    /// much as the first, so the rounds end.
    pub(super) fn next(&mut self) -> Option<Shares> {
        if self.is_over {
            return None;
        }
        let round = self.shares.select.saturating_add(self.shares.measure);
        if self.left < round.saturating_mul(2) {
            let measure = measuring(self.left, self.mode);
            self.shares = Shares { select: self.left.saturating_sub(measure), measure };
            self.is_over = true;
        }
        let round = self.shares.select.saturating_add(self.shares.measure);
        self.left = self.left.checked_sub(round)?;
        (self.shares.select > 0 && self.shares.measure > 0).then_some(self.shares)
    }

    /// The last round taught nothing beyond its noise, so the next rounds are larger.
    pub(super) fn grow(&mut self) {
        let by = match self.mode {
            Mode::Pure => 2,
            Mode::Concentrated => 4,
        };
        self.shares.select = self.shares.select.saturating_mul(by);
        self.shares.measure = self.shares.measure.saturating_mul(by);
    }
}

/// The part of an amount for measuring: nine tenths, or eight tenths of pure ε; rounded down.
fn measuring(amount: u64, mode: Mode) -> u64 {
    let tenths = match mode {
        Mode::Pure => 8,
        Mode::Concentrated => 9,
    };
    u64::try_from(u128::from(amount) * tenths / 10).unwrap_or(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{QueryRng, Uniform};

    /// Twenty thousand schedules that grow at random: never above the budget, at most 4d rounds,
    /// none smaller than the first.
    #[test]
    fn schedules_stay_within_their_budget() {
        let mut rng = QueryRng::seeded_for_tests(1);
        for _ in 0..20_000 {
            let columns = usize::try_from(rng.below_u64(40) + 1).unwrap();
            let size = rng.below_u64(40) + 1;
            let total = rng.below_u64(1 << size) + rng.below_u64(1000);
            let mode = if rng.coin() { Mode::Pure } else { Mode::Concentrated };
            let Some(mut schedule) = Schedule::new(total, columns, mode) else {
                assert!(total < Schedule::least(columns), "{total} {columns}");
                continue;
            };
            let first = schedule.first();
            let mut spent = first * u64::try_from(columns).unwrap();
            let (mut rounds, round) = (0, first + schedule.shares.select);
            while let Some(shares) = schedule.next() {
                assert!(shares.select > 0 && shares.measure > 0);
                assert!(shares.select + shares.measure >= round);
                spent += shares.select + shares.measure;
                rounds += 1;
                assert!(spent <= total, "{spent} of {total}");
                if rng.below_u64(3) == 0 {
                    schedule.grow();
                }
            }
            assert_eq!(spent, total, "the last round takes all");
            assert!(rounds <= Schedule::most_rounds(columns));
        }
    }

    #[test]
    fn shares_of_adult() {
        let schedule = Schedule::new(14_973_057, 14, Mode::Concentrated).unwrap();
        assert_eq!((schedule.first(), schedule.shares.select), (240_638, 26_738));
        assert!(Schedule::new(100, 14, Mode::Concentrated).is_none());
    }
}
