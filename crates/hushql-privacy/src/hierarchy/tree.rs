//! Weighted least squares on a tree of groups.
//!
//! In: noisy numbers of all groups, level by level, and the variance of the noise of each level.
//! Out: numbers that add up, their standard deviations, and the weight of each noisy number in each
//! of them.
//!
//! Upward, each group gets the estimate z of its subtree and its variance s. Downward, the number
//! of the group above differs from the sum of the estimates below it, and each group takes its
//! share of the difference:
//!
//! ```text
//! leaf   z = y                                  s = v
//! group  z = (y/v + Z/V)/(1/v + 1/V)            s = 1/(1/v + 1/V)       Z, V the sums of z and s below it
//! top    f = z                                  var f = s
//! below  f = z + (s/V)·(f above − Z)            var f = s − (s/V)²·(V − var f above)
//! ```
//!
//! Proof of the last formula. f above is the best unbiased estimate, and Z is another unbiased
//! estimate of the same number, so their covariance is Var(f above): Var(f above − Z) = V − var f
//! above. f above depends on z through Z alone, and z has the share s/V of Z: Cov(z, f above − Z) =
//! −(s/V)·(V − var f above). So var f = s + (s/V)²(V − var f above) − 2(s/V)²(V − var f above).

use num_traits::ToPrimitive;

use super::whole::{self, WholeNumbers};

/// A tree of groups, by levels; the first level has no groups above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// For each level, the index of the parent of each group in the level before.
    above: Vec<Vec<usize>>,
    /// For each level, the indices of the children of each group in the next level.
    below: Vec<Vec<Vec<usize>>>,
}

/// Variances of a tree, level by level.
type Variances = Vec<Vec<f64>>;

impl Tree {
    /// A tree whose first level has `roots` groups. For each level below it, `above` has the index
    /// of the parent of each group. `None` if a parent does not exist, or there is no group.
    pub fn new(roots: usize, above: Vec<Vec<usize>>) -> Option<Self> {
        let sizes: Vec<usize> = std::iter::once(roots).chain(above.iter().map(Vec::len)).collect();
        let mut below: Vec<Vec<Vec<usize>>> =
            sizes.iter().map(|size| vec![Vec::new(); *size]).collect();
        for (level, places) in above.iter().enumerate() {
            for (at, place) in places.iter().enumerate() {
                below.get_mut(level)?.get_mut(*place)?.push(at);
            }
        }
        let above = std::iter::once(Vec::new()).chain(above).collect();
        (roots > 0).then_some(Self { above, below })
    }

    /// The number of groups of each level.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.below.iter().map(Vec::len)
    }

    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.sizes().sum()
    }

    /// s and V of every group, for levels whose noise has these variances.
    fn variances(&self, noise: &[f64]) -> (Variances, Variances) {
        let mut own: Variances = Vec::with_capacity(self.below.len());
        let mut all: Variances = Vec::with_capacity(self.below.len());
        for (level, groups) in self.below.iter().enumerate().rev() {
            let v = noise.get(level).copied().unwrap_or(0.0);
            let under = own.last();
            let sums: Vec<f64> = groups
                .iter()
                .map(|below| {
                    below.iter().filter_map(|at| under.and_then(|under| under.get(*at))).sum()
                })
                .collect();
            let of = |(below, sum): (&Vec<usize>, &f64)| match below.is_empty() {
                true => v,
                // 1/(1/v + 1/V), also where both are 0.
                false if v + sum > 0.0 => v * (sum / (v + sum)),
                false => 0.0,
            };
            own.push(groups.iter().zip(&sums).map(of).collect());
            all.push(sums);
        }
        own.reverse();
        all.reverse();
        (own, all)
    }

    /// The share s/V of a group in the difference between its parent and the sum of the estimates.
    fn share(&self, own: &[f64], sum: f64, siblings: usize, at: usize) -> f64 {
        match own.get(at) {
            Some(s) if sum > 0.0 => s / sum,
            Some(_) | None => siblings.max(1).to_f64().map_or(1.0, f64::recip),
        }
    }

    /// The standard deviations of the numbers that add up, for levels whose noise has these
    /// variances.
    pub fn deviations(&self, noise: &[f64]) -> Vec<Vec<f64>> {
        let (own, all) = self.variances(noise);
        let mut fitted: Variances = own.iter().take(1).cloned().collect();
        for level in 1..self.below.len() {
            let (Some(own), Some(sums), Some(groups), Some(top)) =
                (own.get(level), all.get(level - 1), self.below.get(level - 1), fitted.last())
            else {
                break;
            };
            let mut variances = own.clone();
            for ((below, sum), top) in groups.iter().zip(sums).zip(top) {
                for at in below {
                    let share = self.share(own, *sum, below.len(), *at);
                    if let Some(variance) = variances.get_mut(*at) {
                        *variance = (*variance - share * share * (sum - top)).max(0.0);
                    }
                }
            }
            fitted.push(variances);
        }
        fitted.into_iter().map(|level| level.into_iter().map(f64::sqrt).collect()).collect()
    }

    /// The weight of each group's noisy number in the final number of one group.
    pub fn multiples(&self, noise: &[f64], level: usize, at: usize) -> Vec<Vec<f64>> {
        let (own, all) = self.variances(noise);
        // First the weights of the estimates z: from the group upward, each counts by its share.
        let mut counts: Vec<Vec<f64>> = self.sizes().map(|size| vec![0.0; size]).collect();
        let (mut at, mut weight) = (at, 1.0);
        for level in (1..=level).rev() {
            let Some(above) = self.above.get(level).and_then(|above| above.get(at)).copied() else {
                break;
            };
            let siblings = self.below.get(level - 1).and_then(|below| below.get(above));
            let siblings = siblings.map_or(&[][..], Vec::as_slice);
            let (Some(own), Some(counts)) = (own.get(level), counts.get_mut(level)) else { break };
            let sum = all.get(level - 1).and_then(|all| all.get(above)).copied().unwrap_or(0.0);
            let share = self.share(own, sum, siblings.len(), at);
            if let Some(count) = counts.get_mut(at) {
                *count += weight;
            }
            for sibling in siblings {
                if let Some(count) = counts.get_mut(*sibling) {
                    *count -= share * weight;
                }
            }
            (at, weight) = (above, share * weight);
        }
        if let Some(count) = counts.first_mut().and_then(|first| first.get_mut(at)) {
            *count += weight;
        }
        // An estimate consists of the group's own number and of the estimates below it.
        for level in 0..self.below.len() {
            let v = noise.get(level).copied().unwrap_or(0.0);
            let Some(groups) = self.below.get(level) else { break };
            for (at, below) in groups.iter().enumerate().filter(|(_, below)| !below.is_empty()) {
                let variance = all.get(level).and_then(|all| all.get(at)).copied().unwrap_or(0.0);
                let part = if v + variance > 0.0 { v / (v + variance) } else { 0.0 };
                let Some(count) = counts.get_mut(level).and_then(|level| level.get_mut(at)) else {
                    continue;
                };
                let handed = *count * part;
                *count -= handed;
                for under in below {
                    if let Some(count) = counts.get_mut(level + 1).and_then(|l| l.get_mut(*under)) {
                        *count += handed;
                    }
                }
            }
        }
        counts
    }

    /// For each level, the most that a group is moved when all numbers become whole.
    ///
    /// # Guarantee
    /// A top is moved by at most 1/2. A group below takes its share of its parent's move, which is
    /// at most the largest share of the level, and moves by less than 1 for its own rounding.
    pub fn roundings(&self, noise: &[f64]) -> Vec<f64> {
        let (own, all) = self.variances(noise);
        let mut moved = vec![0.5];
        for level in 1..self.below.len() {
            let (Some(own), Some(sums), Some(groups)) =
                (own.get(level), all.get(level - 1), self.below.get(level - 1))
            else {
                break;
            };
            let shares = groups.iter().zip(sums).flat_map(|(below, sum)| {
                below.iter().map(|at| self.share(own, *sum, below.len(), *at))
            });
            let largest = shares.fold(0.0, f64::max);
            moved.push(1.0 + largest * moved.last().copied().unwrap_or(0.0));
        }
        moved
    }

    /// The numbers that add up and are nearest to the noisy numbers `y`, with weights 1/variance.
    ///
    /// # Guarantee
    /// The number of each group with groups below it is their sum: exactly with `integer`,
    /// otherwise up to the rounding of floats. Without a `shape` the numbers are unbiased, and no
    /// linear unbiased estimate has a smaller variance. With `nonnegative`, from the top down, the
    /// numbers below a group are the nearest nonnegative ones that have its sum. The result depends
    /// on these numbers alone.
    pub fn fitted(&self, y: &[Vec<f64>], noise: &[f64], shape: WholeNumbers) -> Vec<Vec<f64>> {
        let (own, all) = self.variances(noise);
        let z = self.upward(y, noise, &all);
        let top = z.first().cloned().unwrap_or_default();
        let mut fitted = vec![top.into_iter().map(|one| whole::first(one, shape)).collect()];
        for level in 1..self.below.len() {
            let (Some(own), Some(z), Some(sums), Some(groups)) =
                (own.get(level), z.get(level), all.get(level - 1), self.below.get(level - 1))
            else {
                break;
            };
            let mut numbers = z.clone();
            let above: &Vec<f64> = match fitted.last() {
                Some(above) => above,
                None => break,
            };
            for ((below, sum), above) in groups.iter().zip(sums).zip(above) {
                let estimates: Vec<f64> =
                    below.iter().filter_map(|at| z.get(*at).copied()).collect();
                let missing = above - estimates.iter().sum::<f64>();
                let shares = below.iter().map(|at| self.share(own, *sum, below.len(), *at));
                let fair: Vec<f64> =
                    estimates.iter().zip(shares).map(|(z, share)| z + share * missing).collect();
                let shaped = whole::shaped(fair, *above, shape);
                for (at, value) in below.iter().zip(shaped) {
                    if let Some(number) = numbers.get_mut(*at) {
                        *number = value;
                    }
                }
            }
            fitted.push(numbers);
        }
        fitted
    }

    /// z of every group.
    fn upward(&self, y: &[Vec<f64>], noise: &[f64], all: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut z: Vec<Vec<f64>> = Vec::with_capacity(self.below.len());
        for (level, groups) in self.below.iter().enumerate().rev() {
            let v = noise.get(level).copied().unwrap_or(0.0);
            let under = z.last();
            let one = |(at, below): (usize, &Vec<usize>)| {
                let own = y.get(level).and_then(|y| y.get(at)).copied().unwrap_or(0.0);
                if below.is_empty() {
                    return own;
                }
                let sum: f64 =
                    below.iter().filter_map(|at| under.and_then(|under| under.get(*at))).sum();
                let variance = all.get(level).and_then(|all| all.get(at)).copied().unwrap_or(0.0);
                match v + variance > 0.0 {
                    true => own + (sum - own) * (v / (v + variance)),
                    false => own,
                }
            };
            z.push(groups.iter().enumerate().map(one).collect());
        }
        z.reverse();
        z
    }
}

#[cfg(test)]
mod tests;
