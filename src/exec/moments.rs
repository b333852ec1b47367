//! From three noisy sums to a variance or standard deviation, and how far off the noise may have put it.
//!
//! In: the drawn integers A, B, C of every group (see [`Moments`]), the public range and the size t that no noise
//! exceeds with 95 %. Out: the released column, and its own ±. Everything here is a function of drawn integers and
//! public numbers.
//!
//! With S = A + B + C, a variance is v·w² with v = (4AC − B²)/4S², and n = S/w². If every noise is within t, then
//! with τ = t/w² rows
//!
//! ```text
//! |v̂ − v| ≤ τ/n̂ + (3τ/2n̂)²        n̂ − 3τ ≤ n ≤ n̂ + 3τ
//! ```
//!
//! Proof. With p = C/S and r = (B + 2C)/2S, v = p − r². The noises e_A, e_B, e_C move r by
//! δ = (−r·e_A + (1/2 − r)·e_B + (1 − r)·e_C)/Ŝ, so |δ| ≤ t(1 + |1/2 − r|)/Ŝ ≤ 3t/2Ŝ, and v by
//! ((2r² − p)·e_A + (2r² − r − p)·e_B + (1 − 2r + 2r² − p)·e_C)/Ŝ − δ². The three factors' magnitudes add up to at
//! most 1: the sum is convex in p, A, B, C ≥ 0 confine p to [max(0, 2r − 1), r], and at the ends it is 1 − r + 2r² for
//! r ≤ 1/2 and 2r² − 3r + 2 for r ≥ 1/2, and 1 − 2·min(r, 1 − r)². Clamping both to [0, 1/4] brings them no further
//! apart, because 4AC ≤ (A + C)² ≤ S².

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::Moments;
use crate::dialect::Spread;
use crate::privacy::Rational;

/// One group's released variance or standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spreading {
    /// The value, in the column's own unit.
    pub(super) value: f64,
    /// With 95 %, the bounded aggregate is within this of the value.
    pub(super) within: f64,
}

/// What is public of a variance: the range, in steps of the squares and in the column's own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    spread: Spread,
    /// w² in squared steps.
    weight: f64,
    /// w in the column's unit, by which the values are clamped: before rounding.
    width: f64,
    /// w of the rounded values, in the column's unit.
    coarse: f64,
    /// τ: what no noise exceeds with 95 %, in rows.
    noise: f64,
}

impl Scale {
    /// The scale of a measure: `unit` is what a grid step is worth.
    pub(super) fn new(moments: &Moments, lo: i128, hi: i128, unit: f64, noise: f64) -> Self {
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
    /// A function of the three drawn integers and the public scale. `None` where they say that there are no rows (less
    /// than a half, or less than one and a half where it divides by n − 1). A variance lies in [0, w²/4], over n − 1 in
    /// [0, w²/2], a standard deviation between their roots. With 95 % the aggregate without noise, if it has a value,
    /// is within `within` of the value. Source: the proof above.
    pub(super) fn of(&self, [a, b, c]: [i128; 3]) -> Option<Spreading> {
        let [a, b, c] = [a, b, c].map(BigInt::from);
        let sum = &a + &b + &c;
        let rows = sum.to_f64()? / self.weight;
        let least = if self.spread.is_sample() { 1.5 } else { 0.5 };
        if rows < least {
            return None;
        }
        // Exact until here: where values lie close together, 4AC and B² are nearly the same.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(spread: Spread, lo: i128, hi: i128, noise: f64) -> Scale {
        Scale::new(&Moments { column: 0, shift: 0, spread }, lo, hi, 1.0, noise)
    }

    fn sums(values: &[i128], lo: i128, hi: i128) -> [i128; 3] {
        let w = hi - lo;
        values
            .iter()
            .map(|x| x - lo)
            .fold([0; 3], |[a, b, c], x| [a + (w - x) * (w - x), b + 2 * x * (w - x), c + x * x])
    }

    const ALL: [Spread; 4] =
        [Spread::VarPop, Spread::VarSamp, Spread::StddevPop, Spread::StddevSamp];

    /// Without noise they are the textbook's.
    #[test]
    fn without_noise_they_are_exact() {
        for values in [vec![3, 4, 4, 9, -2], vec![0, 10], vec![5; 7], vec![-2, -2, -2, 10]] {
            let n = values.len() as f64;
            let mean = values.iter().sum::<i128>() as f64 / n;
            let squares: f64 = values.iter().map(|x| (*x as f64 - mean).powi(2)).sum();
            let expected = [
                squares / n,
                squares / (n - 1.0),
                (squares / n).sqrt(),
                (squares / (n - 1.0)).sqrt(),
            ];
            for (spread, expected) in ALL.into_iter().zip(expected) {
                let got = scale(spread, -2, 10, 0.0).of(sums(&values, -2, 10)).unwrap();
                assert!((got.value - expected).abs() < 1e-12, "{spread} {values:?} {got:?}");
                assert!(got.within < 1e-12, "{spread} {values:?} {got:?}");
            }
        }
    }

    #[test]
    fn too_few_rows_are_null_and_values_stay_in_their_range() {
        let one = sums(&[4], -2, 10);
        assert_eq!(scale(Spread::VarPop, -2, 10, 0.0).of(one).unwrap().value, 0.0);
        assert_eq!(scale(Spread::VarSamp, -2, 10, 0.0).of(one), None);
        assert_eq!(scale(Spread::VarPop, -2, 10, 0.0).of([0; 3]), None);
        assert_eq!(scale(Spread::VarPop, -2, 10, 0.0).of([-500, 9, -500]), None);
        for a in [-400_i128, -1, 0, 77, 144, 1_000] {
            for b in [-400_i128, 0, 5, 300] {
                for c in [-100_i128, 0, 60, 144, 2_000] {
                    for (spread, most) in ALL.into_iter().zip([36.0, 72.0, 6.0, 72_f64.sqrt()]) {
                        let Some(got) = scale(spread, -2, 10, 3.0).of([a, b, c]) else { continue };
                        assert!((0.0..=most).contains(&got.value), "{spread} {a} {b} {c} {got:?}");
                        assert!(got.within >= 0.0 && got.within <= most, "{spread} {got:?}");
                    }
                }
            }
        }
    }

    /// Every noise up to t, on every small table: the ± holds for all, and is nearly reached by some.
    #[test]
    fn the_bound_holds_for_every_noise_within_t() {
        let (lo, hi) = (0, 4);
        let mut tightest = [0.0_f64; 4];
        let tables: [&[i128]; 8] = [
            &[0, 0, 0, 0, 0, 0],
            &[4; 9],
            &[0, 4, 0, 4, 0, 4],
            &[1, 2, 3],
            &[0, 0, 0, 0, 0, 0, 0, 4],
            &[2; 12],
            &[0, 1, 4, 4, 4, 4],
            &[3, 3, 2, 3, 3, 3, 2, 3, 3, 3],
        ];
        for values in tables {
            let exact = sums(values, lo, hi);
            for t in [1_i128, 4, 16, 40] {
                for (i, spread) in ALL.into_iter().enumerate() {
                    let truth = scale(spread, lo, hi, 0.0).of(exact).unwrap().value;
                    let noisy = scale(spread, lo, hi, t as f64 / 16.0);
                    for a in [-t, -t / 2, 0, t] {
                        for b in [-t, 0, t / 3, t] {
                            for c in [-t, 0, t / 2, t] {
                                let drawn = [exact[0] + a, exact[1] + b, exact[2] + c];
                                let Some(got) = noisy.of(drawn) else { continue };
                                let off = (got.value - truth).abs();
                                assert!(
                                    off <= got.within + 1e-12,
                                    "{spread} {values:?} {drawn:?} {off} {got:?}"
                                );
                                if got.within > 0.0 && got.within < 0.5 * noisy.width {
                                    tightest[i] = tightest[i].max(off / got.within);
                                }
                            }
                        }
                    }
                }
            }
        }
        assert!(tightest.iter().all(|t| *t > 0.7), "{tightest:?}");
    }

    /// Also of vectors that no rows have, such as those of a unit that was scaled down and rounded.
    #[test]
    fn the_bound_holds_for_vectors_that_are_no_rows() {
        for a in 0..7_i128 {
            for b in 0..7 {
                for c in 0..7 {
                    let exact = [a * 5, b * 5, c * 5];
                    for spread in ALL {
                        let Some(truth) = scale(spread, 0, 3, 0.0).of(exact) else { continue };
                        for noise in [[3, -3, 3], [-3, 3, 3], [3, 3, -3], [-3, -3, -3], [3, -3, -3]]
                        {
                            let drawn = [0, 1, 2].map(|i| exact[i] + noise[i]);
                            let Some(got) = scale(spread, 0, 3, 3.0 / 9.0).of(drawn) else {
                                continue;
                            };
                            let off = (got.value - truth.value).abs();
                            assert!(off <= got.within + 1e-12, "{spread} {exact:?} {drawn:?}");
                        }
                    }
                }
            }
        }
    }

    /// Steps of 4 grid units: the value is that of the rounded values, clamped to the range before rounding.
    #[test]
    fn coarse_steps_are_worth_their_width() {
        let moments = Moments { column: 0, shift: 2, spread: Spread::VarPop };
        let scale = Scale::new(&moments, 0, 6, 0.5, 0.0);
        // w = 2 steps; one row at each end: a variance of 1 step², 4 units² at most (6·0.5)²/4.
        let got = scale.of([4, 0, 4]).unwrap();
        assert_eq!(got.value, 2.25);
        assert_eq!(
            scale.of([4 + 1, 2, 1]).unwrap().value,
            2.0 * 2.0 * 4.0 * (4.0 * 5.0 - 4.0) / 256.0
        );
    }
}
