//! A release that is asked again with a larger ε, built on the draw that is kept.
//!
//! The kept noisy value, its noise and the exact value go in; a noisy value with less noise comes
//! out. Both values together cost the larger ε: the first one is the second one with more noise, so
//! it adds nothing. A second draw beside the first would cost the sum.
//!
//! ```
//! use hushql_privacy::mechanism::{Laplace, RefinedLaplace};
//! use hushql_privacy::sampler::QueryRng;
//!
//! let (exact, mut rng) = (32_561, QueryRng::from_os()?);
//! let kept = Laplace::calibrate(1, &"0.5".parse()?)?;
//! let first = exact + kept.draw(&mut rng); // charged ε = 0.5
//! let finer = Laplace::calibrate(1, &"2".parse()?)?;
//! let second = RefinedLaplace::new(&kept, &finer)?.draw(first, exact, &mut rng); // charged ε = 1.5
//! # let _ = second;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Laplace, MechanismError};
use crate::sampler::{QueryRng, Refinement, SamplerError, refined_laplace};

/// Laplace noise that is built on a kept draw with more Laplace noise.
#[derive(Debug, Clone, PartialEq)]
pub struct RefinedLaplace {
    refinement: Refinement,
}

impl RefinedLaplace {
    /// The refinement from one noise to another, both in steps of the same grid.
    ///
    /// # Guarantee
    /// Exact for both scales, see [`refined_laplace()`].
    ///
    /// # Errors
    /// [`MechanismError::Sampler`] if one of them adds no noise, the second one is not smaller, or
    /// the sampler cannot draw the step between them.
    pub fn new(kept: &Laplace, finer: &Laplace) -> Result<Self, MechanismError> {
        let scales = kept.sampler().zip(finer.sampler());
        let (kept, finer) = scales.ok_or(SamplerError::Scale)?;
        Ok(Self { refinement: Refinement::new(kept, finer)? })
    }

    /// The noisy value with the finer noise, in grid units.
    ///
    /// # Guarantee
    /// If `kept` is `exact` with noise of the first scale, the result is `exact` with noise of the
    /// second one, and `kept` is the result with noise that does not depend on `exact`: together
    /// they are ε-private for the ε of the second noise. That holds only if `exact` is the very
    /// number under `kept`, with one fresh draw for each value of a release, and if nothing else
    /// was or will be refined from `kept`. With other bounded rows under the first draw, two groups
    /// lose 1.24 at ε = 1.
    pub fn draw(&self, kept: i128, exact: i128, rng: &mut QueryRng) -> i128 {
        let noise = kept.saturating_sub(exact);
        exact.saturating_add(refined_laplace(&self.refinement, noise, rng))
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "a test's statistics are floats")]
mod tests {
    use super::*;
    use crate::sampler::tests::statistics::assert_follows;

    fn laplace(l1: u128, epsilon: &str) -> Laplace {
        Laplace::calibrate(l1, &epsilon.parse().unwrap()).unwrap()
    }

    /// Four draws of one number, each built on the one before it: each has the law of its own ε.
    #[test]
    fn each_draw_of_a_chain_has_its_own_law() {
        let steps = ["0.02", "0.05", "0.3", "4"].map(|epsilon| laplace(3, epsilon));
        let mut rng = QueryRng::seeded_for_tests(77);
        let mut drawn = vec![Vec::new(); steps.len()];
        let between: Vec<RefinedLaplace> =
            steps.windows(2).map(|pair| RefinedLaplace::new(&pair[0], &pair[1]).unwrap()).collect();
        let exact = 1_000;
        for _ in 0..200_000 {
            let mut kept = exact + steps[0].draw(&mut rng);
            drawn[0].push(kept - exact);
            for (step, all) in between.iter().zip(&mut drawn[1..]) {
                kept = step.draw(kept, exact, &mut rng);
                all.push(kept - exact);
            }
        }
        for (noise, (step, epsilon)) in drawn.iter().zip(steps.iter().zip([0.02, 0.05, 0.3, 4.0])) {
            let rate = epsilon / 3.0;
            let below = |x: i128| {
                let tail = |k: i128| (-rate * k as f64).exp() / (1.0_f64 + (-rate).exp());
                if x > 0 { 1.0 - tail(x) } else { tail(1 - x) }
            };
            let what = format!("{:?}", step.scale());
            assert_follows(&what, noise.iter().copied(), below, 1.0 / rate);
        }
    }

    #[test]
    fn only_less_noise_refines() {
        let [coarse, fine, none] = [laplace(1, "0.5"), laplace(1, "1"), laplace(0, "1")];
        assert!(RefinedLaplace::new(&coarse, &fine).is_ok());
        for (kept, finer) in [(&fine, &coarse), (&fine, &fine), (&coarse, &none), (&none, &fine)] {
            assert!(RefinedLaplace::new(kept, finer).is_err());
        }
    }
}
