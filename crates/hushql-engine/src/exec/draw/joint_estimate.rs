//! Computes a statistic of two columns from the noisy sums of products, and how far the noise may
//! have moved it.
//!
//! In: the drawn integers of every group (see [`JointMoments`]), the public ranges, and the size t
//! that no noise exceeds with 95 %. Out: the released value and its ±. All results are functions of
//! drawn integers and public numbers.
//!
//! With u = X/W and v = Y/V in [0, 1], entry (i, j) weighs u by i/p and v by j/q, where p and q are
//! the degrees of the columns. N are the entries, S = n·W^p·V^q is their sum, and a hat marks a
//! number that contains noise:
//!
//! ```text
//! r = Σ(i/p)N/S     s = Σ(j/q)N/S     c = Σ(i/p)(j/q)N/S − r·s     σ² = ΣN(p, ·)/S − r²
//! ```
//!
//! # The ±
//! If every noise e is within t, then S ≥ Ŝ − k·t for k entries; let τ = t/(Ŝ − k·t). A function g
//! of u and v in the span of the products with coefficients g(i, j) has Σ N̂·g(i, j) = Σ N·g(i,
//! j) + Σ e·g(i, j). For the deviations δu = E[u] − r̂ and δv = E[v] − ŝ of the means, |δu| ≤
//! τ·D(u) with D(u) = Σ|i/p − r̂| over all entries. Then
//!
//! ```text
//! g = (u − r̂)(v − ŝ) − ĉ            c − ĉ   = E[g] − δu·δv
//! g = (u − r̂)² − σ̂²                 σ² − σ̂² = E[g] − δu²
//! g = (u − r̂)((v − ŝ) − β̂(u − r̂))   β − β̂   = (E[g] − δu·δv + β̂·δu²)/σ²
//! ```
//!
//! where E[g] = −Σ e·g(i, j)/S is within τ·Σ|g(i, j)|, because Σ N̂·g(i, j) = 0 by the choice of g.
//! A correlation is the covariance of a = (u − r̂)/σ̂(u) and b over the root of (1 + α)(1 + α'),
//! the true variances of a and b. With √(xy) = (x + y)/2 − (√x − √y)²/2,
//!
//! ```text
//! (ρ − ρ̂)(1 + (α + α')/2) = E[g] − δa·δb + ρ̂(δa² + δb²)/2 + ρ(√(1 + α) − √(1 + α'))²/2,   g = ab − ρ̂(a² + b²)/2
//! ```

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::analysis::{JointMoments, step};
use crate::dialect::Joint;
use crate::grid::pairs::Axis;
use crate::privacy::Rational;

#[cfg(test)]
mod tests;

/// One group's released statistic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JointEstimate {
    /// The value, in the columns' own units.
    pub(crate) value: f64,
    /// With 95 %, the bounded statistic is within this distance of the value; infinite if nothing
    /// bounds it.
    pub(crate) within: f64,
}

/// A column: the number of its factors, and its interval in its own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct JointColumn {
    degree: i32,
    lo: f64,
    width: f64,
}

impl JointColumn {
    fn new(axis: &Axis) -> Self {
        let float = |value: &Rational| value.to_f64().unwrap_or(0.0);
        let step = step(axis);
        let of = |steps: i128| float(&(Rational::from_integer(steps.into()) * &step));
        let grid_steps = Rational::from_integer(BigInt::from(1) << axis.shift());
        let lo = Rational::from_integer(axis.range().lo().into()) * &step / grid_steps;
        Self { degree: axis.degree(), lo: float(&lo), width: of(axis.steps()) }
    }

    /// i/p for i = 0, …, p.
    fn ends(self) -> impl Iterator<Item = f64> + Clone {
        (0..=self.degree).map(move |i| f64::from(i) / f64::from(self.degree))
    }

    /// The coefficients of (u − mean)² for a squared column.
    fn squares(self, mean: f64) -> impl Iterator<Item = f64> + Clone {
        (0..=self.degree).map(move |i| match i {
            0 => mean * mean,
            1 => mean * (mean - 1.0),
            _ => (1.0 - mean) * (1.0 - mean),
        })
    }
}

/// The public numbers from which a statistic is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JointScale {
    joint: Joint,
    x: JointColumn,
    y: JointColumn,
    /// What one row adds to the sum of all entries.
    weight: f64,
    /// t over the weight: the size that no noise exceeds with 95 %, in rows.
    noise: f64,
}

/// The moments of one group, as fractions of the ranges.
#[derive(Debug, Clone, Copy)]
struct Estimated {
    rows: f64,
    /// The means of u and v.
    means: [f64; 2],
    covariance: f64,
    /// The variances of u and v, where their squares are known.
    variances: [Option<f64>; 2],
    /// τ; `None` if noise alone could explain the sums.
    tau: Option<f64>,
}

impl JointScale {
    /// The scale of a measure; `noise` is t in rows.
    pub(crate) fn new(moments: &JointMoments, noise: f64) -> Self {
        Self {
            joint: moments.joint,
            x: JointColumn::new(moments.pairs.x()),
            y: JointColumn::new(moments.pairs.y()),
            weight: moments.pairs.weight().to_f64().unwrap_or(1.0).max(1.0),
            noise,
        }
    }

    /// The released value of one group, from its drawn integers in the order of the products.
    ///
    /// # Guarantee
    /// A function of the drawn integers and the public scale. `None` if they show no rows (fewer
    /// than half a row, or fewer than one and a half when dividing by n − 1), or if a column whose
    /// variance is in the divisor does not vary. A correlation lies in [−1, 1], its square in
    /// [0, 1], a covariance within a quarter of the product of the ranges (half of it over n − 1).
    /// With 95 %, the statistic without noise, if it has a value, is within `within` of the value.
    /// Source: the argument above.
    pub(crate) fn of(&self, sums: &[i128]) -> Option<JointEstimate> {
        let moments = self.moments(sums)?;
        let area = self.x.width * self.y.width;
        match self.joint {
            Joint::CovarPop => {
                let [value, low, high] = self.covariance(&moments);
                Some(estimate(value * area, low * area, high * area))
            }
            Joint::CovarSamp => {
                let over = |n: f64| n / (n - 1.0);
                let off = self.entries() * self.noise;
                let few = over((moments.rows - off).max(1.5));
                let many = over((moments.rows + off).max(1.5));
                let [value, low, high] = self.covariance(&moments);
                let value = value * over(moments.rows);
                let low = low * if low < 0.0 { few } else { many };
                let high = high * if high < 0.0 { many } else { few };
                let [value, low, high] = [value, low, high].map(|c| c.clamp(-0.5, 0.5) * area);
                Some(estimate(value, low, high))
            }
            Joint::Corr => {
                let (value, off) = self.correlation(&moments)?;
                let (low, high) = ((value - off).max(-1.0), (value + off).min(1.0));
                Some(estimate(value, low, high))
            }
            Joint::RegrR2 => {
                let (value, off) = self.correlation(&moments)?;
                let square = value * value;
                let off = off * (2.0 * value.abs() + off);
                Some(estimate(square, (square - off).max(0.0), (square + off).min(1.0)))
            }
            Joint::RegrSlope => {
                let (slope, off) = self.slope(&moments)?;
                let unit = self.y.width / self.x.width;
                Some(JointEstimate { value: slope * unit, within: off * unit })
            }
            Joint::RegrIntercept => {
                let (slope, off) = self.slope(&moments)?;
                let [r, s] = moments.means;
                // The position of x = 0 in the range.
                let zero = -self.x.lo / self.x.width;
                let value = self.y.lo + self.y.width * (s + slope * (zero - r));
                let within = moments.tau.map_or(f64::INFINITY, |tau| {
                    let means = self.all(|u, v| (v - s) - slope * (u - r));
                    tau * means + off * ((zero - r).abs() + tau * self.all(|u, _| u - r))
                });
                Some(JointEstimate { value, within: within * self.y.width })
            }
        }
    }

    fn entries(&self) -> f64 {
        f64::from((self.x.degree + 1) * (self.y.degree + 1))
    }

    /// Σ|g(i, j)|, for a function g of the positions u and v.
    fn all(&self, g: impl Fn(f64, f64) -> f64) -> f64 {
        let ends = self.x.ends().flat_map(|u| self.y.ends().map(move |v| (u, v)));
        ends.map(|(u, v)| g(u, v).abs()).sum()
    }

    /// The moments that follow from the entries.
    fn moments(&self, sums: &[i128]) -> Option<Estimated> {
        let (p, q) = (self.x.degree, self.y.degree);
        let places = (0..=p).flat_map(|i| (0..=q).map(move |j| (i, j)));
        let [mut sum, mut x, mut y, mut xy, mut xx, mut yy] = [0; 6].map(|_: i32| BigInt::zero());
        for (entry, (i, j)) in sums.iter().zip(places) {
            let entry = BigInt::from(*entry);
            sum += &entry;
            x += &entry * i;
            y += &entry * j;
            xy += &entry * (i * j);
            xx += &entry * i32::from(i == 2);
            yy += &entry * i32::from(j == 2);
        }
        let rows = sum.to_f64()? / self.weight;
        let least = if self.joint == Joint::CovarSamp { 1.5 } else { 0.5 };
        if rows < least {
            return None;
        }
        // The arithmetic is exact up to here, because close values have small differences.
        let part = |over: &BigInt, times: i32| {
            Rational::new(over.clone(), &sum * BigInt::from(times)).to_f64()
        };
        let spread = |squares: &BigInt, own: &BigInt, degree: i32| match degree {
            2 => Rational::new(squares * &sum * 4 - own * own, &sum * &sum * 4).to_f64(),
            _ => None,
        };
        let covariance = Rational::new(&xy * &sum - &x * &y, &sum * &sum * (p * q)).to_f64()?;
        let left = rows - self.entries() * self.noise;
        Some(Estimated {
            rows,
            means: [part(&x, p)?, part(&y, q)?],
            covariance,
            variances: [spread(&xx, &x, p), spread(&yy, &y, q)],
            tau: (left > 0.0).then(|| self.noise / left),
        })
    }

    /// A covariance and the ends of its interval, as fractions of the ranges.
    fn covariance(&self, moments: &Estimated) -> [f64; 3] {
        let c = moments.covariance;
        let [r, s] = moments.means;
        let off = moments.tau.map_or(1.0, |tau| {
            let (du, dv) = (self.all(|u, _| u - r), self.all(|_, v| v - s));
            tau * self.all(|u, v| (u - r) * (v - s) - c) + tau * tau * du * dv
        });
        [c, c - off, c + off].map(|c| c.clamp(-0.25, 0.25))
    }

    /// How far a variance may be off, relative to itself, and D.
    fn spread(&self, moments: &Estimated, tau: f64, axis: usize, variance: f64) -> (f64, f64) {
        let (own, other) = if axis == 0 { (self.x, self.y) } else { (self.y, self.x) };
        let mean = moments.means[axis];
        let times = f64::from(other.degree + 1);
        let all: f64 = own.squares(mean).map(|h| (h - variance).abs()).sum();
        let d = times * own.ends().map(|u| (u - mean).abs()).sum::<f64>();
        ((tau * times * all + (tau * d).powi(2)) / variance, d)
    }

    /// A slope as a fraction of the ranges, and how far it may be off.
    fn slope(&self, moments: &Estimated) -> Option<(f64, f64)> {
        let variance = moments.variances[0].filter(|variance| *variance > 0.0)?;
        let slope = moments.covariance / variance;
        let Some(tau) = moments.tau else { return Some((slope, f64::INFINITY)) };
        let [r, s] = moments.means;
        let (alpha, du) = self.spread(moments, tau, 0, variance);
        let dv = self.all(|_, v| v - s);
        let line: f64 = self
            .x
            .ends()
            .zip(self.x.squares(r))
            .flat_map(|(u, square)| self.y.ends().map(move |v| (u - r) * (v - s) - slope * square))
            .map(f64::abs)
            .sum();
        let least = variance * (1.0 - alpha);
        let off = (tau * line + tau * tau * du * (dv + slope.abs() * du)) / least;
        Some((slope, if least > 0.0 { off } else { f64::INFINITY }))
    }

    /// A correlation, and how far it may be off.
    fn correlation(&self, moments: &Estimated) -> Option<(f64, f64)> {
        let [u, v] = moments.variances;
        let (u, v) = (u.filter(|u| *u > 0.0)?, v.filter(|v| *v > 0.0)?);
        let both = (u * v).sqrt();
        let rho = moments.covariance / both;
        let value = rho.clamp(-1.0, 1.0);
        let most = 1.0 + value.abs();
        let Some(tau) = moments.tau else { return Some((value, most)) };
        let [r, s] = moments.means;
        let ((alpha, du), (beta, dv)) =
            (self.spread(moments, tau, 0, u), self.spread(moments, tau, 1, v));
        let (du, dv) = (du / u.sqrt(), dv / v.sqrt());
        let ys = self.y.ends().zip(self.y.squares(s));
        let linear: f64 = self
            .x
            .ends()
            .zip(self.x.squares(r))
            .flat_map(|(x, xx)| {
                let of = move |(y, yy): (f64, f64)| {
                    (x - r) * (y - s) / both - rho / 2.0 * (xx / u + yy / v)
                };
                ys.clone().map(of)
            })
            .map(f64::abs)
            .sum();
        let curved = du * dv + rho.abs() / 2.0 * (du * du + dv * dv);
        let (least, mean) = (1.0 - alpha.max(beta), 1.0 - f64::midpoint(alpha, beta));
        let roots = (alpha + beta).powi(2) / (8.0 * least);
        let off = (tau * linear + tau * tau * curved + roots) / mean;
        // The value was clamped towards the true one, so it is no farther off.
        Some((value, if least > 0.0 { off.min(most) } else { most }))
    }
}

/// A value whose ± covers the interval from `low` to `high`.
fn estimate(value: f64, low: f64, high: f64) -> JointEstimate {
    JointEstimate { value, within: (value - low).max(high - value).max(0.0) }
}
