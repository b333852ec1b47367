//! Exact draws on integers: every mechanism draws its noise and its choices here.
//!
//! Integers and ratios of integers go in, an integer or an index comes out. The samplers assume
//! that the generator's words are uniform and independent. They then draw from *exactly* the stated
//! law: there is no floating point, no inverse distribution function and no truncated tail. No bit
//! of a result therefore distinguishes two neighbouring databases by more than the law itself
//! allows.
//!
//! Randomness enters the crate through [`QueryRng`] and nowhere else.
//!
//! ```
//! use hushql_privacy::sampler::{LaplaceScale, QueryRng, discrete_laplace};
//!
//! let mut rng = QueryRng::from_os()?;
//! let noise = discrete_laplace(&LaplaceScale::new(5, 2)?, &mut rng); // P(x) ∝ exp(−|x|·2/5)
//! assert!(noise.abs() < 1_000);
//! # Ok::<(), hushql_privacy::sampler::SamplerError>(())
//! ```
#![deny(clippy::arithmetic_side_effects, clippy::float_arithmetic)]

pub mod bernoulli;
pub mod discrete_gaussian;
pub mod discrete_laplace;
pub mod refined_laplace;
pub mod rng;
pub mod runs;
pub mod selection;

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "a test's statistics are floats"
)]
pub(crate) mod tests;
#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "a test's statistics are floats"
)]
mod tests_opendp;

use thiserror::Error;

pub use discrete_gaussian::{Sigma, discrete_gaussian};
pub use discrete_laplace::{LaplaceScale, discrete_laplace};
pub use refined_laplace::{Refinement, refined_laplace};
pub use rng::{QueryRng, Uniform};
pub use runs::{Run, RunChoice, exponential_runs};
pub use selection::{exponential, noisy_max, permute_and_flip};

/// Why a sampler cannot draw.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The operating system gave no entropy. Nothing is drawn without a fresh key.
    #[error("the operating system gave no randomness")]
    Entropy(#[source] getrandom::Error),
    /// The scale lies outside the integers that the sampler works on.
    #[error("the noise scale does not fit the sampler")]
    Scale,
    /// There are no candidates to select from.
    #[error("there is no candidate to choose")]
    NoCandidate,
}
