//! The tail of a sum of multiples of noises on a grid, from its characteristic function.
//!
//! In: how often each multiple of the noise of each level occurs in a number that adds up. Out: a
//! distance that the sum exceeds with at most a given probability.
//!
//! Laplace noise of variance v on the grid has the characteristic function 1/(1 + 2v·sin²(θ/2)).
//! That of Gaussian noise is Σ exp(−σ²(θ − 2πm)²/2) over all m, divided by its value at 0, by
//! Poisson's summation. That of the sum is the product over its noises, and its tail is the sum of
//! a series (Davies 1973). A little Gaussian noise is added, so that few terms of the series
//! matter.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use num_traits::ToPrimitive;

/// The largest number of different multiples in a sum.
const MOST_TERMS: usize = 48;

/// The deviation of the added Gaussian noise, as a share of that of the sum.
const ON_TOP: f64 = 0.005;

/// This many deviations of the added noise count in full. It is lower with a probability of
/// 3.4·10⁻⁶.
const FAR: f64 = 4.5;

/// The sum exceeds this many deviations with a probability below 10⁻²⁰.
const PERIOD: f64 = 80.0;

/// Noise on the whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GridNoise {
    /// Laplace noise of this variance on the grid.
    Laplace(f64),
    /// Gaussian noise with this σ², of at least 1/4.
    Gaussian(f64),
}

/// A multiple of the noises of a level: the factor, the variance of the noise, and the number of
/// such noises.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NoiseTerm {
    multiple: f64,
    variance: f64,
    count: f64,
    is_gaussian: bool,
}

/// The distance from 0 of the sum of these multiples of independent Laplace noises of this variance
/// on a grid, at confidence 1 − β; `None` for a β below 10⁻⁷.
///
/// # Guarantee
/// The sum Y is farther from 0 with a probability of at most β, up to 10⁻⁹. The tail is computed
/// from the characteristic function of Y + G, where G is an added Gaussian noise that is
/// independent of Y, and P(|Y| > t)·P(G ≥ −4.5 dev G) ≤ P(|Y + G| > t − 4.5 dev G).
pub fn tail(multiples: &[f64], variance: f64, beta: f64) -> Option<f64> {
    tail_of(multiples, GridNoise::Laplace(variance), beta)
}

/// As [`tail`], for noises of any law on the grid.
///
/// # Guarantee
/// As that of [`tail`].
pub fn tail_of(multiples: &[f64], noise: GridNoise, beta: f64) -> Option<f64> {
    NoiseSum::of(multiples, noise)?.within(beta)
}

/// True if such a sum is farther than t from 0 with a probability of at most β. It is also false
/// where that is not certain: for up to 3 % of a deviation more than the smallest such t.
///
/// # Guarantee
/// As that of [`tail`], with other constants: P(G ≥ −3 dev G) is at least 0.9986, and the sum
/// exceeds 16 deviations with a probability below 10⁻⁹.
pub fn is_within(multiples: &[f64], noise: GridNoise, t: f64, beta: f64) -> bool {
    let Some(sum) = NoiseSum::of(multiples, noise) else { return false };
    if sum.deviation <= 0.0 {
        return true;
    }
    let (on_top, farthest) = (0.01 * sum.deviation, 16.0 * sum.deviation);
    let shifted = (t - 3.0 * on_top).min(farthest);
    beta >= 1e-7 && shifted > 0.0 && {
        let series = sum.series(2.0 * farthest, on_top);
        series.exceeds(shifted) <= beta * 0.9986 - 2e-9
    }
}

/// The terms of the series of a tail, without their sines.
struct Series {
    terms: Vec<f64>,
    step: f64,
}

impl Series {
    /// P(|Y + G| > t).
    fn exceeds(&self, t: f64) -> f64 {
        let all = self.terms.iter().zip(0_u32..).map(|(one, k)| {
            let place = f64::from(k) + 0.5;
            one * (place * self.step * t).sin()
        });
        1.0 - 2.0 / PI * all.sum::<f64>()
    }
}

/// A sum of multiples of noises.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NoiseSum {
    terms: Vec<NoiseTerm>,
    deviation: f64,
}

impl NoiseSum {
    /// The sum of these multiples of independent noises of one law.
    fn of(multiples: &[f64], noise: GridNoise) -> Option<Self> {
        let (GridNoise::Laplace(variance) | GridNoise::Gaussian(variance)) = noise;
        let mut sum = Self::new(&[multiples.to_vec()], &[variance])?;
        let is_gaussian = matches!(noise, GridNoise::Gaussian(_));
        sum.terms.iter_mut().for_each(|term| term.is_gaussian = is_gaussian);
        Some(sum)
    }

    /// The sum of these multiples of noises of these variances on the grid; `None` if there are too
    /// many different multiples.
    pub(super) fn new(multiples: &[Vec<f64>], variances: &[f64]) -> Option<Self> {
        let mut terms = Vec::new();
        for (level, variance) in multiples.iter().zip(variances) {
            // Multiples that differ only in their last digits are the same.
            let largest = level.iter().fold(0.0_f64, |most, one| most.max(one.abs()));
            let step = (largest * 1e-11).max(f64::MIN_POSITIVE);
            let mut counts: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
            for multiple in level.iter().map(|one| one.abs()).filter(|one| *one > step) {
                let own = counts.entry((multiple / step).round().to_u64()?).or_default();
                *own = (own.0.max(multiple), own.1 + 1.0);
                if counts.len() > MOST_TERMS {
                    return None;
                }
            }
            let own = counts.into_values();
            terms.extend(own.map(|(multiple, count)| NoiseTerm {
                multiple,
                variance: *variance,
                count,
                is_gaussian: false,
            }));
        }
        let squares = terms.iter().map(|t| t.count * t.multiple * t.multiple * t.variance);
        let deviation = squares.sum::<f64>().sqrt();
        (terms.len() <= MOST_TERMS && deviation.is_finite()).then_some(Self { terms, deviation })
    }

    /// The distance of the sum from 0, at confidence 1 − β; `None` if β is too small to compute it.
    ///
    /// # Guarantee
    /// P(|Y| > t)·P(G ≥ −4.5 dev G) ≤ P(|Y + G| > t − 4.5 dev G) for the added symmetric noise G,
    /// which is independent of Y. The right side is the sum of the series, up to 10⁻⁹.
    pub(super) fn within(&self, beta: f64) -> Option<f64> {
        if beta < 1e-7 {
            return None;
        }
        if self.deviation <= 0.0 {
            return Some(0.0);
        }
        let on_top = ON_TOP * self.deviation;
        let series = self.series(PERIOD * self.deviation, on_top);
        let allowed = beta * (1.0 - 1e-5) - 2e-9;
        let (mut low, mut high) = (0.0, PERIOD / 2.0 * self.deviation);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            if series.exceeds(middle) > allowed { low = middle } else { high = middle }
        }
        Some(high + FAR * on_top)
    }

    /// The series of Y + G with this period, where G has the deviation `on_top`.
    fn series(&self, period: f64, on_top: f64) -> Series {
        let step = 2.0 * PI / period;
        let mut terms = Vec::new();
        for k in 0..40_000_u32 {
            let place = f64::from(k) + 0.5;
            let theta = place * step;
            let ln: f64 = self.terms.iter().map(|term| term.ln_at(theta)).sum();
            let of_noise = (on_top * theta).powi(2) / 2.0;
            terms.push((ln - of_noise).exp() / place);
            if of_noise > 24.0 {
                break;
            }
        }
        Series { terms, step }
    }
}

impl NoiseTerm {
    /// The logarithm of the characteristic function of its noises.
    fn ln_at(&self, theta: f64) -> f64 {
        if self.is_gaussian {
            let turn = 2.0 * PI;
            let angle = self.multiple * theta;
            let nearest = angle - turn * (angle / turn).round();
            // Beside it, the other terms are below 10⁻¹⁹.
            if self.variance >= 9.0 {
                return -self.count * self.variance * nearest * nearest / 2.0;
            }
            let at = |angle: f64| -> f64 {
                let far = |m: f64| (-self.variance * (angle - turn * m).powi(2) / 2.0).exp();
                [-2.0, -1.0, 0.0, 1.0, 2.0].into_iter().map(far).sum()
            };
            return self.count * (at(nearest) / at(0.0)).ln();
        }
        let half = (self.multiple * theta / 2.0).sin();
        -self.count * (2.0 * self.variance * half * half).ln_1p()
    }
}
