//! Laplace noise under a privately chosen bound on the contribution of one unit.
//!
//! A ladder of bounds and an ε go in; a calibrated mechanism comes out. It chooses a bound by the
//! exponential mechanism from the numbers of units beyond each bound, and then perturbs the values
//! under that bound. It assumes that one unit moves the number beyond each bound by 0 or 1, in the
//! same direction for all bounds, and the values under the bound τ by at most τ·weight in L1.
//!
//! ```text
//! ε = 1, one value, a declared bound      choice at 2ε/5, noise at 3ε/5      score of bound j of L + 1 bounds, j < L:
//!                                         min(units, 20 + 4·(L − j)) − 20 − (units beyond bound j); the declared bound scores 0
//! ε = 1, one value, no declared bound     choice at ε/4, noise at 3ε/4       score of bound j: −(units beyond it) − 8·j
//! ```
//!
//! If the last bound is declared, a lower bound earns its score by units that it does not cut. With
//! few units the declared bound is likely, whatever they contribute. No separate count of units is
//! needed for this, because the scores contain it.

use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use super::{Exponential, Laplace, MechanismError};
use crate::privacy::{Epsilon, Rational};
use crate::sampler::QueryRng;

/// From this many values on, the choice gets a tenth of ε.
const MANY: u64 = 10;

/// The choice's share of ε for fewer values: with a declared bound, and without.
const SHARE: [(u8, u8); 2] = [(2, 5), (1, 4)];

/// The least penalty of one step up the ladder, in units over ε₁: with a declared bound, and
/// without.
const STEP: [(u8, u8); 2] = [(5, 4), (2, 1)];

/// With fewer than this many units over ε₁, only the declared bound is likely.
const FEW: u8 = 8;

/// A calibrated choice of a bound, and the noise under each bound.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenBound {
    choice: BoundChoice,
    releasing: Epsilon,
    rungs: Vec<Rung>,
    /// Whether another release chooses the bound and pays for the choice.
    follows: bool,
}

/// How a bound is chosen.
#[derive(Debug, Clone, PartialEq)]
struct BoundChoice {
    draw: Exponential,
    epsilon: Epsilon,
    penalty: i128,
    /// With fewer units than this, the last bound, which is declared, is likely; `None` if no bound
    /// is declared.
    few: Option<i128>,
}

/// The number of units that contribute anything, and the number that contribute more than each
/// bound of a ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beyond {
    /// The number of units that contribute anything.
    pub units: i128,
    /// For each bound, in order, the number of units that contribute more.
    pub bounds: Vec<i128>,
}

/// A bound, with the noise of values under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// τ.
    pub bound: u128,
    /// Noise of scale τ·weight/ε₂.
    pub noise: Laplace,
}

impl ChosenBound {
    /// A mechanism that chooses a bound of the ladder and releases `values` values under it. Choice
    /// and values are ε-private together. `is_declared` is true if the last bound is declared.
    ///
    /// It uses the bounds of the ladder up to the first one whose noise cannot be drawn.
    ///
    /// # Guarantee
    /// The choice is ε₁-DP: adding a unit moves each score by 0 or 1, or each by 0 or −1, so their
    /// range is 1. Without a declared bound, score j is −beyond_j − λ·j, and moves by 0 or −1. With
    /// one, the score of the last bound L is 0, and score j < L is min(units, F + λ·(L − j)) − F −
    /// beyond_j, with public λ ≥ 0 and F ≥ 0. A unit that contributes c > 0 moves it by a_j − o_j.
    /// Here a_j = 1 if there were fewer units than F + λ·(L − j), and o_j = 1 if c > τ_j; otherwise
    /// they are 0. Both decrease in j. If score i moves by 1, then a_i = 1 and o_i = 0. So a_j = 1
    /// for all j < i, and o_j = 0 for all j > i: no score moves by −1. A unit that contributes
    /// nothing moves no score. Given the bound, the values are ε₂-DP with a scale of at least
    /// τ·weight/ε₂. ε₁ + ε₂ = ε exactly, by adaptive composition. λ = max(⌈κ/ε₁⌉, ⌈√2·values/ε₂⌉)
    /// and F = ⌈8/ε₁⌉, exactly. Source: McSherry, Talwar 2007, with the range of Dong, Durfee,
    /// Rogers 2020.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] if no bound's noise can be drawn;
    /// [`MechanismError::RangeTooWide`] for a share of ε that is too small.
    pub fn calibrate(
        ladder: &[u128],
        weight: u128,
        values: u64,
        is_declared: bool,
        epsilon: &Epsilon,
    ) -> Result<Self, MechanismError> {
        let [with, without] = if values < MANY { SHARE } else { [(1, 10); 2] };
        let share = epsilon.value() * ratio(if is_declared { with } else { without });
        let rest = epsilon.value() - &share;
        let part = |value| Epsilon::new(value).map_err(|_| MechanismError::RangeTooWide);
        let (choosing, releasing) = (part(share)?, part(rest)?);
        let noise = |bound: &u128| {
            let l1 = bound.checked_mul(weight)?;
            let noise = Laplace::calibrate(l1, &releasing).ok()?;
            Some(Rung { bound: *bound, noise })
        };
        let rungs: Vec<Rung> = ladder.iter().map_while(noise).collect();
        if rungs.is_empty() {
            return Err(MechanismError::ScaleTooLarge);
        }
        // The declared bound is the last one: a ladder that is cut short has none.
        let is_declared = is_declared && rungs.len() == ladder.len();
        let step = if is_declared { STEP[0] } else { STEP[1] };
        let penalty = penalty(&choosing, &releasing, values, step);
        let few = (ratio((FEW, 1)) / choosing.value()).ceil().to_integer();
        let small = |number: BigInt| number.to_i128().ok_or(MechanismError::RangeTooWide);
        let few = if is_declared { Some(small(few)?) } else { None };
        let draw = Exponential::calibrate(1, &choosing)?;
        let choice = BoundChoice { draw, epsilon: choosing, penalty: small(penalty)?, few };
        Ok(Self { choice, releasing, rungs, follows: false })
    }

    /// The noise of another release under the bound that this mechanism chooses and pays for. The
    /// other release uses all of its own ε for noise.
    ///
    /// # Guarantee
    /// The bound is drawn and paid for once. Given the bound, the values of the other release are
    /// ε-DP with a scale of at least τ·weight/ε. By adaptive composition, both releases together
    /// cost the sum of their costs. Both have noise for every bound that can be chosen.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] if the noise of a bound cannot be drawn.
    pub fn followed_by(&self, weight: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        let noise = |rung: &Rung| {
            let l1 = rung.bound.checked_mul(weight).ok_or(MechanismError::ScaleTooLarge)?;
            Ok(Rung { bound: rung.bound, noise: Laplace::calibrate(l1, epsilon)? })
        };
        let rungs = self.rungs.iter().map(noise).collect::<Result<_, MechanismError>>()?;
        let choice = self.choice.clone();
        Ok(Self { choice, releasing: epsilon.clone(), rungs, follows: true })
    }

    /// True if another release chooses the bound and pays for the choice.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// The bounds, ascending, with their noise.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// ε₁: the share of the choice.
    pub fn choosing(&self) -> &Epsilon {
        &self.choice.epsilon
    }

    /// ε₂: the share of the noise.
    pub fn releasing(&self) -> &Epsilon {
        &self.releasing
    }

    /// λ: the score that one step up the ladder costs.
    pub fn penalty(&self) -> i128 {
        self.choice.penalty
    }

    /// F: with fewer units than this, only the declared bound is likely; `None` if no bound is
    /// declared.
    pub fn few(&self) -> Option<i128> {
        self.choice.few
    }

    /// The largest number of units beyond the bound with this index, with probability 0.95 over the
    /// choice.
    ///
    /// # Guarantee
    /// It holds for all data. With probability 1 − β, the chosen score is at least that of the last
    /// bound, less ln(k/β)/ε₁ among k bounds (McSherry, Talwar 2007). If no bound is declared, the
    /// number beyond the last one counts as 0. So at most λ·(bounds above it) + ln(k/β)/ε₁ units
    /// are beyond a chosen bound. The result depends on the index of the bound alone.
    pub fn most_beyond(&self, rung: usize) -> f64 {
        let above = self.rungs.len().saturating_sub(rung + 1);
        let choosing = self.choice.epsilon.value().to_f64().unwrap_or(f64::MIN_POSITIVE);
        let float = |number: usize| number.to_f64().unwrap_or(f64::MAX);
        let tail = (float(self.rungs.len()) / BETA).ln() / choosing;
        let steps = float(above) * self.choice.penalty.to_f64().unwrap_or(f64::MAX);
        (steps + tail).next_up().floor()
    }

    /// The index of the chosen bound, from the numbers of units beyond each bound of the ladder.
    ///
    /// # Guarantee
    /// P(j) ∝ exp(ε₁·score_j), exactly: see [`ChosenBound::calibrate`].
    ///
    /// # Errors
    /// [`MechanismError::RangeTooWide`] if there are fewer numbers than bounds.
    pub fn choose(&self, beyond: &Beyond, rng: &mut QueryRng) -> Result<usize, MechanismError> {
        self.choice.draw.choose(&self.scores(beyond)?, rng)
    }

    /// The probability of every bound. For **public** numbers only: tests, and simulations.
    ///
    /// # Errors
    /// As [`ChosenBound::choose`].
    pub fn probabilities(&self, beyond: &Beyond) -> Result<Vec<f64>, MechanismError> {
        Ok(self.choice.draw.probabilities(&self.scores(beyond)?))
    }

    fn scores(&self, beyond: &Beyond) -> Result<Vec<i128>, MechanismError> {
        let last = self.rungs.len().saturating_sub(1);
        let Beyond { units, bounds } = beyond;
        let bounds = bounds.get(..=last).ok_or(MechanismError::RangeTooWide)?;
        let score = |(j, beyond): (usize, &i128)| {
            let steps = |n: usize| self.choice.penalty.checked_mul(i128::try_from(n).ok()?);
            match self.choice.few {
                None => beyond.checked_neg()?.checked_sub(steps(j)?),
                Some(_) if j == last => Some(0),
                Some(few) => {
                    let earned = (*units).min(few.checked_add(steps(last - j)?)?);
                    earned.checked_sub(few)?.checked_sub(*beyond)
                }
            }
        };
        let scores: Option<Vec<i128>> = bounds.iter().enumerate().map(score).collect();
        scores.ok_or(MechanismError::RangeTooWide)
    }
}

/// The probability that more units are beyond a chosen bound than reported.
const BETA: f64 = 0.05;

fn ratio((above, below): (u8, u8)) -> Rational {
    Rational::new(above.into(), below.into())
}

/// max(⌈step/ε₁⌉, ⌈√2·values/ε₂⌉): the number of cut units that is as bad as doubling the noise.
fn penalty(choosing: &Epsilon, releasing: &Epsilon, values: u64, step: (u8, u8)) -> BigInt {
    let by_choice = (ratio(step) / choosing.value()).ceil().to_integer();
    let ratio = Rational::from_integer(BigInt::from(values)) / releasing.value();
    let square = (&ratio * &ratio * Rational::from_integer(2.into())).ceil().to_integer();
    let root = square.sqrt();
    let root = if &root * &root < square { root + BigInt::one() } else { root };
    by_choice.max(root)
}
