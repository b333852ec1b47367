//! Computes a variance or standard deviation from three noisy sums, and how far the noise may have
//! moved it.
//!
//! In: the drawn integers A, B, C of every group (see [`VarianceMoments`]), the public range, and
//! the size t that no noise exceeds with 95 %. Out: the released column and its ±. All results are
//! functions of drawn integers and public numbers.
//!
//! With S = A + B + C, a variance is v·w² with v = (4AC − B²)/4S², and n = S/w². If every noise is
//! within t, then with τ = t/w² rows
//!
//! ```text
//! |v̂ − v| ≤ τ/n̂ + (3τ/2n̂)²        n̂ − 3τ ≤ n ≤ n̂ + 3τ
//! ```
//!
//! Proof. With p = C/S and r = (B + 2C)/2S, v = p − r². The noises e_A, e_B, e_C move r by δ =
//! (−r·e_A + (1/2 − r)·e_B + (1 − r)·e_C)/Ŝ, so |δ| ≤ t(1 + |1/2 − r|)/Ŝ ≤ 3t/2Ŝ, and v by ((2r² −
//! p)·e_A + (2r² − r − p)·e_B + (1 − 2r + 2r² − p)·e_C)/Ŝ − δ². The magnitudes of the three factors
//! add up to at most 1: their sum is convex in p; A, B, C ≥ 0 confine p to [max(0, 2r − 1), r]; and
//! at the ends the sum is 1 − r + 2r² for r ≤ 1/2 and 2r² − 3r + 2 for r ≥ 1/2, and 1 − 2·min(r, 1
//! − r)². Clamping both v̂ and v to [0, 1/4] moves them no farther apart, because 4AC ≤ (A + C)² ≤
//! S².

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::VarianceMoments;
use crate::dialect::Spread;
use crate::privacy::Rational;

#[cfg(test)]
mod tests;

/// One group's released variance or standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spreading {
    /// The value, in the column's own unit.
    pub(crate) value: f64,
    /// With 95 %, the bounded aggregate is within this distance of the value.
    pub(crate) within: f64,
}

/// The public numbers from which a variance is computed: the range, in squared steps and in the
/// column's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    spread: Spread,
    /// w² in squared steps.
    weight: f64,
    /// w in the column's unit. Values are clamped to it before they are rounded.
    width: f64,
    /// w of the rounded values, in the column's unit.
    coarse: f64,
    /// τ: the size that no noise exceeds with 95 %, in rows.
    noise: f64,
}

impl Scale {
    /// The scale of a measure: `unit` is the value of a grid step.
    pub(crate) fn new(
        moments: &VarianceMoments,
        lo: i128,
        hi: i128,
        unit: f64,
        noise: f64,
    ) -> Self {
        let float = |x: i128| x.to_f64().unwrap_or(0.0);
        let weight = moments.weight(lo, hi).and_then(|w| w.to_f64()).unwrap_or(1.0).max(1.0);
        let step = float(1_i128.checked_shl(moments.shift).unwrap_or(1)) * unit;
        Self {
            spread: moments.spread,
            weight,
            width: (float(hi) - float(lo)) * unit,
            coarse: weight.sqrt() * step,
            noise,
        }
    }

    /// The released value of one group.
    ///
    /// # Guarantee
    /// A function of the three drawn integers and the public scale. `None` if they show no rows
    /// (fewer than half a row, or fewer than one and a half when dividing by n − 1). A variance
    /// lies in [0, w²/4], over n − 1 in [0, w²/2], a standard deviation between their roots. With
    /// 95 %, the aggregate without noise, if it has a value, is within `within` of the value.
    /// Source: the proof above.
    pub(crate) fn of(&self, [a, b, c]: [i128; 3]) -> Option<Spreading> {
        let [a, b, c] = [a, b, c].map(BigInt::from);
        let sum = &a + &b + &c;
        let rows = sum.to_f64()? / self.weight;
        let least = if self.spread.is_sample() { 1.5 } else { 0.5 };
        if rows < least {
            return None;
        }
        // The arithmetic is exact up to here, because 4AC and B² are nearly equal if values are
        // close to each other.
        let four = BigInt::from(4);
        let fraction = Rational::new(&four * &a * &c - &b * &b, &four * &sum * &sum).to_f64()?;
        let fraction = fraction.clamp(0.0, 0.25);
        let relative = self.noise / rows;
        let off = relative + (1.5 * relative).powi(2);
        let low = (fraction - off).max(0.0);
        let high = (fraction + off).min(0.25);
        let (value, low, high) = if self.spread.is_sample() {
            let over = |n: f64| n / (n - 1.0);
            let (few, many) = ((rows - 3.0 * self.noise).max(1.5), rows + 3.0 * self.noise);
            (fraction * over(rows), low * over(many), high * over(few))
        } else {
            (fraction, low, high)
        };
        let squared = self.coarse * self.coarse;
        let most = self.width * self.width / if self.spread.is_sample() { 2.0 } else { 4.0 };
        let [value, low, high] = [value, low, high].map(|v| (v * squared).min(most));
        let root = |v: f64| if self.spread.is_root() { v.sqrt() } else { v };
        let [value, low, high] = [value, low, high].map(root);
        Some(Spreading { value, within: (value - low).max(high - value) })
    }
}
