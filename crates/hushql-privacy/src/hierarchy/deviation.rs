//! The error of numbers that add up.
//!
//! In: the noise of each level of a tree, and the standard deviation of a number that adds up. Out:
//! a distance that the error exceeds with at most a given probability.
//!
//! ```text
//! one number with Laplace noise of scale 20, variance 800      95 %: within 60
//! the same after fitting a tree halved its variance            95 %: within 45
//! ```

use num_traits::ToPrimitive;

use super::tail::NoiseSum;
use super::tree::Tree;

/// The noise of the groups of a level, in steps of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Discrete Laplace noise of this scale.
    Laplace(f64),
    /// Discrete Gaussian noise of this deviation.
    Gaussian(f64),
}

/// The tail that bounds the error of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tail {
    /// The tail of a symmetric law whose density is log-concave.
    LogConcave,
    /// The tail of a Gaussian law.
    Gaussian,
    /// Any tail.
    Any,
}

/// The error of the numbers of one level, once they add up.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// The standard deviation under the continuous laws, in steps.
    deviation: f64,
    /// The standard deviation of D, the difference between the continuous laws and those on the
    /// grid.
    between: f64,
    tail: Tail,
    /// If all noise is Laplace noise and the groups of the level differ in few ways, the sum of
    /// noises of each different group.
    sums: Option<Vec<NoiseSum>>,
    /// The most that a number is moved afterwards.
    moved: f64,
}

impl Law {
    /// The variance of the continuous law of this kind. The law on the grid has at most this
    /// variance.
    pub fn variance(self) -> f64 {
        match self {
            Self::Laplace(scale) => 2.0 * scale * scale,
            Self::Gaussian(sigma) => sigma * sigma,
        }
    }

    /// The variance of the grid: of the noise that turns a number on the grid into one with a
    /// continuous law. `None` if the steps are too large for that.
    ///
    /// # Guarantee
    /// Laplace: noise on the grid is the difference of two geometric numbers. Each is the integral
    /// part of an exponential one, and the fraction is independent of it. So Laplace noise is noise
    /// on the grid plus a symmetric difference of two fractions, which is independent of it, and
    /// its variance is the sum of both. Gaussian: noise on the grid plus Gaussian noise of variance
    /// τ² has, at every point, a density within the factor 1 ± ε of that of Gaussian noise of
    /// variance σ² + τ², with ε ≤ 4·exp(−2π²σ²τ²/(σ² + τ²)) (Poisson's summation). Here ε is at
    /// most 10⁻⁶ divided by the number of groups, so the density of all groups together is off by
    /// at most 10⁻⁵.
    fn between(self, groups: usize) -> Option<f64> {
        match self {
            Self::Laplace(scale) => {
                let on_grid = 0.5 / (0.5 / scale).sinh().powi(2);
                Some((2.0 * scale * scale - on_grid).max(0.0))
            }
            Self::Gaussian(sigma) => {
                let groups = groups.max(1).to_f64()?;
                let needed = (4e6 * groups).ln() / (2.0 * std::f64::consts::PI.powi(2));
                let variance = sigma * sigma;
                (variance > 2.0 * needed).then(|| needed * variance / (variance - needed))
            }
        }
    }
}

impl Deviation {
    /// The deviations of a tree whose levels have this noise: for each level, the largest deviation
    /// of its groups. With `integer`, numbers are rounded to whole ones afterwards.
    pub fn of(tree: &Tree, laws: &[Law], integer: Option<f64>) -> Vec<Self> {
        let variances: Vec<f64> = laws.iter().map(|law| law.variance()).collect();
        let between: Option<Vec<f64>> = laws.iter().map(|law| law.between(tree.len())).collect();
        let is_gaussian = laws.iter().all(|law| matches!(law, Law::Gaussian(_)));
        let tail = match (&between, is_gaussian) {
            (None, _) => Tail::Any,
            (Some(_), true) => Tail::Gaussian,
            (Some(_), false) => Tail::LogConcave,
        };
        // The variance of continuous Laplace noise includes that of D; the variance of Gaussian
        // noise does not.
        let parts = laws.iter().zip(between.unwrap_or_default()).map(|(law, between)| {
            let own = law.variance();
            let whole = match law {
                Law::Laplace(_) => own,
                Law::Gaussian(_) => own + between,
            };
            if own > 0.0 { (whole / own, between / own) } else { (1.0, 0.0) }
        });
        let (wider, between) = parts.fold((1.0_f64, 0.0_f64), |(wider, between), part| {
            (wider.max(part.0), between.max(part.1))
        });
        let roundings = tree.roundings(&variances);
        let of = |(level, deviations): (usize, Vec<f64>)| {
            let largest = deviations.into_iter().fold(0.0, f64::max);
            let moved = integer.and_then(|step| Some(roundings.get(level)? / step));
            Self {
                deviation: largest * wider.sqrt(),
                between: largest * between.sqrt(),
                tail,
                sums: sums(tree, &variances, laws, level),
                moved: moved.unwrap_or(0.0),
            }
        };
        tree.deviations(&variances).into_iter().enumerate().map(of).collect()
    }

    /// The deviation of one sum of multiples of independent noises of one law, whose multiples have
    /// this Euclidean norm. `numbers` is the number of noises.
    pub fn of_sum(norm: f64, law: Law, numbers: usize) -> Self {
        let between = law.between(numbers);
        let (tail, whole) = match (law, between) {
            (_, None) => (Tail::Any, law.variance()),
            (Law::Laplace(_), Some(_)) => (Tail::LogConcave, law.variance()),
            (Law::Gaussian(_), Some(between)) => (Tail::Gaussian, law.variance() + between),
        };
        Self {
            deviation: norm * whole.sqrt(),
            between: norm * between.unwrap_or(0.0).sqrt(),
            tail,
            sums: None,
            moved: 0.0,
        }
    }

    /// The error of a number, in steps, at confidence 1 − β.
    ///
    /// # Guarantee
    /// The error of a number that adds up is Y, a sum of multiples of independent noises. With the
    /// continuous laws it would be Y + D, with D symmetric and independent of Y. By Cantelli's
    /// inequality, D is below −k times its deviation with probability at most 1/(1 + k²), so
    /// P(|Y| > t) ≤ (1 + 1/k²)·P(|Y + D| > t − k·dev D).
    ///
    /// Y + D has a symmetric log-concave density, as sums of independent Laplace and Gaussian
    /// noises have. Of such laws with deviation s, those whose density is exp(−a|x|) up to some |x|
    /// have the largest tails, and P(|Y + D| > t) ≤ 1.12·exp(−√2·t/s) for t ≥ 2s (Fradelizi and
    /// Guédon 2004; 1.12 is the largest quotient, at t = 2s). Gaussian noise alone has a Gaussian
    /// tail, at most 2φ(z)·4/(3z + √(z² + 8)) (Sampford 1953). Without continuous laws, Chebyshev's
    /// inequality holds.
    ///
    /// If the laws of all groups are known, their tails give a closer bound: see
    /// [`tail`](super::tail()).
    pub fn within(&self, beta: f64) -> f64 {
        let asked = self.sums.as_ref().and_then(|sums| {
            sums.iter()
                .map(|sum| sum.within(beta))
                .try_fold(0.0_f64, |most, one| Some(most.max(one?)))
        });
        match asked {
            Some(known) => known + self.moved,
            None => self.bound(beta),
        }
    }

    fn bound(&self, beta: f64) -> f64 {
        if self.tail == Tail::Any {
            return self.deviation / beta.sqrt() + self.moved;
        }
        let at = |k: f64| {
            let beta = beta / (1.0 + 1.0 / (k * k));
            k * self.between + self.deviation * quantile(self.tail, beta)
        };
        let tried = (0..40).map(|power| at(2_f64.powf(f64::from(power) / 2.0)));
        tried.fold(f64::INFINITY, f64::min) + self.moved
    }
}

/// The sum of noises of each different group of a level; `None` unless all noise is Laplace noise
/// and the different groups are few.
fn sums(tree: &Tree, variances: &[f64], laws: &[Law], level: usize) -> Option<Vec<NoiseSum>> {
    const MOST: usize = 4;
    let on_grid = laws.iter().map(|law| match law {
        Law::Laplace(scale) => Some(0.5 / (0.5 / scale).sinh().powi(2)),
        Law::Gaussian(_) => None,
    });
    let on_grid = on_grid.collect::<Option<Vec<f64>>>()?;
    let mut different: Vec<usize> = Vec::new();
    let deviations = tree.deviations(variances);
    let own = deviations.get(level)?;
    for (at, one) in own.iter().enumerate() {
        let is_known = |other: &usize| {
            own.get(*other).is_some_and(|other| (one - other).abs() <= 1e-9 * one.max(*other))
        };
        if !different.iter().any(is_known) {
            different.push(at);
            if different.len() > MOST {
                return None;
            }
        }
    }
    let sum = |at: &usize| NoiseSum::new(&tree.multiples(variances, level, *at), &on_grid);
    different.iter().map(sum).collect()
}

/// The number of deviations that is exceeded with probability at most β, on both sides together.
fn quantile(tail: Tail, beta: f64) -> f64 {
    match tail {
        Tail::LogConcave => ((1.12 / beta).ln() / std::f64::consts::SQRT_2).max(2.0),
        Tail::Gaussian => {
            let exceeds = |z: f64| {
                let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                2.0 * density * 4.0 / (3.0 * z + (z * z + 8.0).sqrt()) * 1.000_01
            };
            let (mut low, mut high) = (0.0, 40.0);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if exceeds(middle) > beta { low = middle } else { high = middle }
            }
            high
        }
        Tail::Any => beta.sqrt().recip(),
    }
}
