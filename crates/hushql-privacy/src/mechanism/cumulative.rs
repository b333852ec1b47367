//! Cumulative distributions: how many rows lie in the first bins of a line, for every bin.
//!
//! In: the exact counts of the bins, their sensitivity, and a cost. Out: for every bin the noisy
//! number of rows up to its end: whole, rising, and never below 0. It assumes that a row is counted
//! in one bin, and that the sensitivity is that of all bins together. The release is then private
//! at the whole cost, however many bins there are.
//!
//! Noise on every bin would add up: after 100 bins it has 100 times the variance. Noise on every
//! running total would be as large at once, because a row changes all of them behind it. So runs of
//! bins are counted, too. A row is in one count of each of L levels. Laplace noise then has L times
//! the scale, and Gaussian noise √L times the deviation. A running total is the best estimate from
//! all of them: see [`CountTree`]. Public numbers alone decide which tree has the least variance.
//!
//! ```text
//! 100 bins, one row a person, ε = 1     Laplace noise on each bin alone          largest deviation 13.6
//!                                       bins, and runs of 18, at ε/2             largest deviation 8.2
//!                                       100 counts, each at ε/100                deviation 141
//! ```

use num_traits::{ToPrimitive, Zero};

use super::{Gaussian, Laplace, MechanismError};
use crate::hierarchy::{CountTree, Deviation, GridNoise, Law, is_within, rising, tail_of};
use crate::privacy::{Delta, Epsilon, Rational, Rho};
use crate::sampler::QueryRng;

/// The largest number of bins.
pub const MOST_BINS: usize = 1_000;

/// The running totals whose law is computed, those of the largest variance. A bound of their
/// variance alone holds for the rest.
const MOST_LAWS: usize = 64;

/// The noise of each count of a tree.
#[derive(Debug, Clone, PartialEq)]
pub enum CountNoise {
    /// Discrete Laplace noise.
    Laplace(Laplace),
    /// Discrete Gaussian noise.
    Gaussian(Gaussian),
}

/// A calibrated release of all running totals of a line of bins.
#[derive(Debug, Clone, PartialEq)]
pub struct Cumulative {
    tree: CountTree,
    noise: CountNoise,
    /// The noise of each running total if every one were a release of its own at the same cost in
    /// all; `None` if it cannot be drawn.
    apart: Option<CountNoise>,
}

impl CountNoise {
    fn draw(&self, rng: &mut QueryRng) -> i128 {
        match self {
            Self::Laplace(noise) => noise.draw(rng),
            Self::Gaussian(noise) => noise.draw(rng),
        }
    }

    /// The error of one count at confidence 1 − β.
    fn error_at(&self, beta: &Rational) -> u128 {
        match self {
            Self::Laplace(noise) => noise.error_at(beta),
            Self::Gaussian(noise) => noise.error_at(beta),
        }
    }

    /// The noise on the whole numbers; `None` if it is so small that it is hardly ever drawn.
    fn on_grid(&self) -> Option<GridNoise> {
        match self.law() {
            Law::Laplace(scale) if scale > 0.0 => {
                Some(GridNoise::Laplace(0.5 / (0.5 / scale).sinh().powi(2)))
            }
            Law::Gaussian(sigma) if sigma >= 0.5 => Some(GridNoise::Gaussian(sigma * sigma)),
            Law::Laplace(_) | Law::Gaussian(_) => None,
        }
    }

    fn law(&self) -> Law {
        match self {
            Self::Laplace(noise) => Law::Laplace(float(noise.scale())),
            Self::Gaussian(noise) => Law::Gaussian(float(&noise.sigma())),
        }
    }
}

impl Cumulative {
    /// Laplace noise at ε, for bins that change by `l1` at most, all together.
    ///
    /// # Guarantee
    /// The released numbers are ε-private: they are a function of the noisy counts of L levels, and
    /// these change by at most L·Δ₁ together, because each level adds up the bins in another way
    /// ([`CountTree::counts`]). The tree follows from the number of bins alone.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] when the noise is too large to be drawn.
    pub fn laplace(bins: usize, l1: u128, epsilon: &Epsilon) -> Result<Self, MechanismError> {
        let tree = best(bins, |levels| levels * levels);
        let of = |counts: usize| Laplace::calibrate(times(l1, counts)?, epsilon);
        let noise = CountNoise::Laplace(of(tree.levels())?);
        Ok(Self { tree, noise, apart: of(tree.bins()).ok().map(CountNoise::Laplace) })
    }

    /// Gaussian noise at (ε, δ). The rows of a unit change at most `moving` bins, and the bins by
    /// the square root of `l2_squared` in the Euclidean norm.
    ///
    /// # Guarantee
    /// The released numbers are (ε, δ)-private: they are a function of the noisy counts of L
    /// levels, of which L·`moving` change, by √L·Δ₂ at most.
    ///
    /// # Errors
    /// As [`Cumulative::laplace`].
    pub fn gaussian(
        bins: usize,
        l2_squared: u128,
        moving: Option<u64>,
        epsilon: &Epsilon,
        delta: &Delta,
    ) -> Result<Self, MechanismError> {
        let of = |counts: usize| {
            let all = u64::try_from(counts).unwrap_or(u64::MAX);
            let moving = moving.map(|moving| moving.saturating_mul(all));
            Gaussian::calibrate(times(l2_squared, counts)?, moving, epsilon, delta)
        };
        Self::with_gaussian(bins, of)
    }

    /// Gaussian noise at ρ, for bins that change by the square root of `l2_squared` in the
    /// Euclidean norm.
    ///
    /// # Guarantee
    /// The released numbers are ρ-zCDP, as in [`Cumulative::gaussian`].
    ///
    /// # Errors
    /// As [`Cumulative::laplace`].
    pub fn concentrated(bins: usize, l2_squared: u128, rho: &Rho) -> Result<Self, MechanismError> {
        Self::with_gaussian(bins, |counts| Gaussian::calibrate_rho(times(l2_squared, counts)?, rho))
    }

    fn with_gaussian(
        bins: usize,
        of: impl Fn(usize) -> Result<Gaussian, MechanismError>,
    ) -> Result<Self, MechanismError> {
        let tree = best(bins, |levels| levels);
        let noise = CountNoise::Gaussian(of(tree.levels())?);
        Ok(Self { tree, noise, apart: of(tree.bins()).ok().map(CountNoise::Gaussian) })
    }

    /// The tree of counts.
    pub fn tree(&self) -> &CountTree {
        &self.tree
    }

    /// The noise of each count.
    pub fn noise(&self) -> &CountNoise {
        &self.noise
    }

    /// The ρ of its noise: that of [`Gaussian::rho`], and 0 for Laplace noise, whose ρ follows from
    /// ε.
    pub fn rho(&self) -> Rational {
        match &self.noise {
            CountNoise::Laplace(_) => Rational::zero(),
            CountNoise::Gaussian(noise) => noise.rho().clone(),
        }
    }

    /// The number of rows up to the end of each bin, from the exact counts of the bins.
    ///
    /// # Guarantee
    /// A function of the noisy counts of the tree, each of which has noise of its own. The numbers
    /// rise, and none is below 0.
    ///
    /// # Errors
    /// [`MechanismError::ScaleTooLarge`] for counts that do not fit 128 bits together.
    pub fn draw(&self, bins: &[i128], rng: &mut QueryRng) -> Result<Vec<i128>, MechanismError> {
        let counts = self.tree.counts(bins).ok_or(MechanismError::ScaleTooLarge)?;
        let mut noisy = |count: &i128| {
            let noisy = count.saturating_add(self.noise.draw(rng));
            noisy.to_f64().unwrap_or(0.0)
        };
        let noisy: Vec<Vec<f64>> =
            counts.iter().map(|level| level.iter().map(&mut noisy).collect()).collect();
        let totals = rising(&self.tree.running_totals(&noisy));
        Ok(totals.iter().map(|total| total.round().to_i128().unwrap_or(i128::MAX)).collect())
    }

    /// The error of the number of any bin at confidence 1 − β, before the numbers are put in order.
    ///
    /// # Guarantee
    /// The best estimate of each bin, rounded, is off by more with probability at most β. For the
    /// 64 bins with the largest variance, the law of their noises gives it, see
    /// [`tail_of`] and [`is_within`]; for the other bins, and for Gaussian noise of σ < 1/2, their
    /// variance does, see [`Deviation::within`]. Putting the numbers in order makes neither the
    /// largest error of all bins nor the sum of the squared errors larger, see [`rising`].
    pub fn error_at(&self, beta: &Rational) -> u128 {
        let beta = beta.to_f64().unwrap_or(0.0);
        let variances = self.tree.running_variances();
        let mut order: Vec<(usize, f64)> = variances.into_iter().enumerate().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let numbers = self.tree.sizes().iter().sum();
        let bound = |from: usize| {
            let norm = order.get(from).map(|(_, variance)| variance.sqrt());
            norm.map(|norm| Deviation::of_sum(norm, self.noise.law(), numbers).within(beta))
        };
        let by_laws = self.noise.on_grid().and_then(|noise| self.of_laws(&order, noise, beta));
        let all = by_laws.map(|known| known.max(bound(MOST_LAWS).unwrap_or(0.0)));
        let error = all.or_else(|| bound(0)).unwrap_or(0.0);
        // The exact number is whole, and so is the released one.
        (error + 0.5).floor().to_u128().unwrap_or(u128::MAX)
    }

    /// A distance that none of the bins with the largest variances exceeds with a probability of
    /// more than β; `None` if their laws are not computed.
    fn of_laws(&self, order: &[(usize, f64)], noise: GridNoise, beta: f64) -> Option<f64> {
        let weights = |bin: usize| self.tree.weights(bin).concat();
        let ((worst, _), rest) = order.get(..MOST_LAWS.min(order.len()))?.split_first()?;
        let exact = |bin: usize| tail_of(&weights(bin), noise, beta);
        // So much more is enough for what is as good as known.
        let mut known = exact(*worst)? * 1.03;
        for (bin, _) in rest {
            if !is_within(&weights(*bin), noise, known, beta) {
                known = known.max(exact(*bin)?);
            }
        }
        Some(known)
    }

    /// The error of each number at confidence 1 − β if every bin were a release of its own; `None`
    /// if such noise cannot be drawn.
    pub fn error_apart_at(&self, beta: &Rational) -> Option<u128> {
        self.apart.as_ref().map(|noise| noise.error_at(beta))
    }
}

/// Δ of several counts that change together.
fn times(each: u128, counts: usize) -> Result<u128, MechanismError> {
    let counts = u128::try_from(counts).map_err(|_| MechanismError::ScaleTooLarge)?;
    each.checked_mul(counts).ok_or(MechanismError::ScaleTooLarge)
}

/// The tree whose worst running total has the least variance, if L levels multiply the variance of
/// each count by `of_levels`.
fn best(bins: usize, of_levels: impl Fn(f64) -> f64) -> CountTree {
    let worst = |tree: &CountTree| {
        let largest = tree.running_variances().into_iter().fold(0.0, f64::max);
        of_levels(tree.levels().to_f64().unwrap_or(f64::MAX)) * largest
    };
    let first = CountTree::flat(bins);
    let mut least = (worst(&first), first);
    for tree in CountTree::all(first.bins()) {
        let own = worst(&tree);
        // Equal variances differ in their last digits.
        if own < least.0 * (1.0 - 1e-9) {
            least = (own, tree);
        }
    }
    least.1
}

fn float(value: &Rational) -> f64 {
    value.to_f64().unwrap_or(f64::MAX)
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "a test's statistics are floats")]
mod tests;
