//! Running totals of counts on a line, from a tree of counts.
//!
//! In: the number of bins, and noisy counts of runs of bins, all with noise of one variance. Out:
//! for every bin the best linear estimate of the count up to its end, its variance, and the weight
//! of each noisy count in it.
//!
//! ```text
//! 9 bins, 3 together, 2 levels      bins       1 2 3   4 5 6   7 8 9
//!                                   runs       1 – 3   4 – 6   7 – 9
//! up to 5: the first run, and bins 4 and 5, corrected by what the second run says of 4 to 6
//! ```
//!
//! Upward along the path of a bin, p is the estimate of the count from the start of the run to the
//! bin, and z that of a whole run, both from counts inside of the run. V is the sum of the
//! variances s of the parts of a run, and c the covariance of p with the sum Z of their estimates.
//! The run's own count y, whose noise has the variance 1, then corrects both by their regression on
//! y − Z:
//!
//! ```text
//! run    z = Z + V/(V + 1)·(y − Z)                    s = V/(V + 1)
//! path   p = (z of the parts before, and p of the own part) + c/(V + 1)·(y − Z)
//!        var p − c²/(V + 1),  cov(p, z) = c/(V + 1)
//! ```
//!
//! Counts of different runs have independent noise, so this is the least-squares estimate from all
//! counts (Hay, Rastogi, Miklau, Suciu 2010; the regression is that of Gauss and Markov).

use num_traits::ToPrimitive;

/// A tree of counts: bins, runs of `together` bins, runs of as many of these, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountTree {
    bins: usize,
    together: usize,
    levels: usize,
}

/// What a level contributes to the running total of one bin.
struct PathStep {
    /// The parts of the run before the own one.
    before: std::ops::Range<usize>,
    /// All parts of the run.
    parts: std::ops::Range<usize>,
    /// The run itself.
    run: usize,
    /// c/(V + 1).
    gain: f64,
}

/// The variances of a tree whose counts have noise of variance 1.
struct TreeVariances {
    /// s of every run, level by level, bins first.
    own: Vec<Vec<f64>>,
    /// V of every run above the bins, level by level.
    parts: Vec<Vec<f64>>,
}

impl CountTree {
    /// Bins alone.
    pub fn flat(bins: usize) -> Self {
        Self { bins: bins.max(1), together: bins.max(2), levels: 1 }
    }

    /// The trees of this number of bins that are worth comparing: bins alone, and every number of
    /// levels over runs of up to twice the root of the number of bins, and over all of them.
    pub fn all(bins: usize) -> Vec<Self> {
        let flat = Self::flat(bins);
        let mut most = 2;
        while most * most < bins.saturating_mul(4) {
            most += 1;
        }
        let together = (2..=most.min(bins)).chain((bins > most).then_some(bins));
        let taller = together.flat_map(|together| {
            let one = Self { together, ..flat };
            (2..=one.tallest()).map(move |levels| Self { levels, ..one })
        });
        std::iter::once(flat).chain(taller).collect()
    }

    /// The number of levels up to the one with a single run.
    fn tallest(&self) -> usize {
        let (mut size, mut levels) = (self.bins, 1);
        while size > 1 {
            size = size.div_ceil(self.together);
            levels += 1;
        }
        levels
    }

    /// The number of bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// The number of parts of a run.
    pub fn together(&self) -> usize {
        self.together
    }

    /// The number of levels. A row counts once in each.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The number of counts of each level, bins first.
    pub fn sizes(&self) -> Vec<usize> {
        let next = |size: &usize| Some(size.div_ceil(self.together));
        std::iter::successors(Some(self.bins), next).take(self.levels).collect()
    }

    /// The counts of all levels, from those of the bins; bins that are missing count 0.
    ///
    /// # Guarantee
    /// Every count of a level is a sum of different bins, and each bin is in one sum of each level.
    /// So rows that change the bins by a vector v change each level by at most ‖v‖ in L1, and, if
    /// no row is taken where another is added, in L2 by at most the number of rows. `None` if a sum
    /// does not fit 128 bits.
    pub fn counts(&self, bins: &[i128]) -> Option<Vec<Vec<i128>>> {
        let mut first = bins.to_vec();
        first.resize(self.bins, 0);
        let mut all = vec![first];
        while all.len() < self.levels {
            let below = all.last()?;
            let sum = |run: &[i128]| run.iter().try_fold(0_i128, |sum, one| sum.checked_add(*one));
            let level = below.chunks(self.together).map(sum).collect::<Option<Vec<_>>>()?;
            all.push(level);
        }
        Some(all)
    }

    fn variances(&self) -> TreeVariances {
        let mut own = vec![vec![1.0; self.bins]];
        let mut parts: Vec<Vec<f64>> = Vec::new();
        while own.len() < self.levels {
            let below = own.last().map_or(&[][..], Vec::as_slice);
            let sums: Vec<f64> = below.chunks(self.together).map(|run| run.iter().sum()).collect();
            own.push(sums.iter().map(|sum| sum / (sum + 1.0)).collect());
            parts.push(sums);
        }
        TreeVariances { own, parts }
    }

    /// The way of a bin up the tree, its highest run, and the variance of its running total.
    fn path(&self, of: &TreeVariances, bin: usize) -> (Vec<PathStep>, usize, f64) {
        let sum = |level: usize, parts: std::ops::Range<usize>| -> f64 {
            of.own.get(level).and_then(|own| own.get(parts)).map_or(0.0, |own| own.iter().sum())
        };
        let (mut at, mut variance, mut covariance) = (bin, 1.0, 1.0);
        let mut steps = Vec::with_capacity(self.levels);
        for (level, (sums, below)) in of.parts.iter().zip(&of.own).enumerate() {
            let run = at / self.together;
            let start = run * self.together;
            let parts = start..(start + self.together).min(below.len());
            let before = sum(level, start..at);
            let all = sums.get(run).copied().unwrap_or(0.0) + 1.0;
            let (whole, shared) = (variance + before, covariance + before);
            let gain = shared / all;
            variance = whole - shared * gain;
            covariance = gain;
            steps.push(PathStep { before: start..at, parts, run, gain });
            at = run;
        }
        let top = of.own.len().saturating_sub(1);
        (steps, at, variance + sum(top, 0..at))
    }

    /// The variance of each running total, for noise of variance 1 on each count.
    pub fn running_variances(&self) -> Vec<f64> {
        let of = self.variances();
        (0..self.bins).map(|bin| self.path(&of, bin).2).collect()
    }

    /// The running totals from noisy counts of all levels.
    ///
    /// # Guarantee
    /// The least-squares estimates. Counts without noise give their exact running totals, as far as
    /// these are exact floats.
    pub fn running_totals(&self, noisy: &[Vec<f64>]) -> Vec<f64> {
        let of = self.variances();
        let mut own: Vec<Vec<f64>> = noisy.iter().take(1).cloned().collect();
        let mut apart: Vec<Vec<f64>> = Vec::new();
        for (level, sums) in noisy.iter().skip(1).zip(&of.parts) {
            let below = own.last().map_or(&[][..], Vec::as_slice);
            let parts = below.chunks(self.together).map(|run| run.iter().sum::<f64>());
            let off: Vec<f64> = level.iter().zip(parts).map(|(own, parts)| own - parts).collect();
            let fitted = level.iter().zip(&off).zip(sums);
            let fitted = fitted.map(|((y, off), sum)| y - off + sum / (sum + 1.0) * off);
            own.push(fitted.collect());
            apart.push(off);
        }
        let sum = |level: usize, parts: std::ops::Range<usize>| -> f64 {
            own.get(level).and_then(|own| own.get(parts)).map_or(0.0, |own| own.iter().sum())
        };
        let total = |bin: usize| {
            let (steps, top, _) = self.path(&of, bin);
            let mut total = sum(0, bin..bin + 1);
            for (level, (step, apart)) in steps.iter().zip(&apart).enumerate() {
                let off = apart.get(step.run).copied().unwrap_or(0.0);
                total += sum(level, step.before.clone()) + step.gain * off;
            }
            total + sum(own.len().saturating_sub(1), 0..top)
        };
        (0..self.bins).map(total).collect()
    }

    /// The weight of each noisy count in the running total of a bin, level by level.
    pub fn weights(&self, bin: usize) -> Vec<Vec<f64>> {
        let of = self.variances();
        let mut weights: Vec<Vec<f64>> = self.sizes().iter().map(|size| vec![0.0; *size]).collect();
        let (steps, top, _) = self.path(&of, bin);
        // First the weights of the estimates z. The counts y of the path have their own.
        let mut add = |level: usize, parts: std::ops::Range<usize>, weight: f64| {
            let level = weights.get_mut(level).and_then(|level| level.get_mut(parts));
            level.into_iter().flatten().for_each(|own| *own += weight);
        };
        add(self.levels.saturating_sub(1), 0..top, 1.0);
        let mut counts = vec![(0, bin, 1.0)];
        for (level, step) in steps.iter().enumerate() {
            add(level, step.before.clone(), 1.0);
            add(level, step.parts.clone(), -step.gain);
            counts.push((level + 1, step.run, step.gain));
        }
        // An estimate z is its own count y by V/(V + 1), and its parts by 1/(V + 1).
        for level in (1..self.levels).rev() {
            let sums = of.parts.get(level - 1).map_or(&[][..], Vec::as_slice);
            let (below, above) = weights.split_at_mut(level);
            let (Some(below), Some(above)) = (below.last_mut(), above.first_mut()) else { break };
            let runs = below.chunks_mut(self.together).zip(above.iter_mut()).zip(sums);
            for ((parts, own), sum) in runs {
                let handed = *own / (sum + 1.0);
                *own -= handed;
                parts.iter_mut().for_each(|part| *part += handed);
            }
        }
        for (level, at, weight) in counts {
            if let Some(own) = weights.get_mut(level).and_then(|level| level.get_mut(at)) {
                *own += weight;
            }
        }
        weights
    }
}

/// The rising sequence that is nearest to these numbers, with none below 0.
///
/// # Guarantee
/// The largest distance from any rising sequence without negative numbers does not grow, nor does
/// the sum of the squared distances: the map is the projection onto such sequences, and by the
/// formula max over i ≤ k of min over j ≥ k of the mean of i..j it moves no number by more than the
/// largest move of its arguments.
pub fn rising(numbers: &[f64]) -> Vec<f64> {
    // Means of runs of neighbours, each larger than the one before.
    let mut means: Vec<(f64, usize)> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let mut last = (*number, 1_usize);
        while let Some((mean, count)) = means.last().copied().filter(|(mean, _)| *mean > last.0) {
            let of = |count: usize| count.to_f64().unwrap_or(1.0);
            let both = (mean * of(count) + last.0 * of(last.1)) / of(count + last.1);
            last = (both, count + last.1);
            means.pop();
        }
        means.push(last);
    }
    let spread = means.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    spread.map(|mean| mean.max(0.0)).collect()
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "small counts are exact floats")]
mod tests;
