//! One mechanism per file: from a cost to a scale, one draw, and the error to expect.
//!
//! A sensitivity in whole units of the aggregate's grid and an ε (and δ) go in; a calibrated mechanism comes
//! out, which draws and says how far off it may be. It assumes that the sensitivity was derived, never given;
//! the draw then has exactly the stated privacy. Scales are rationals rounded toward more noise; floats occur
//! only in what is *reported* about accuracy, and where a proved margin covers their error.
//!
//! ```
//! use hushql::mechanism::Laplace;
//! use hushql::privacy::{Epsilon, parse_decimal};
//! use hushql::sampler::QueryRng;
//!
//! let epsilon: Epsilon = "0.5".parse()?;
//! let count = Laplace::calibrate(1, &epsilon)?; // one person moves a count by 1
//! let noisy = 32_561 + count.draw(&mut QueryRng::from_os()?);
//! let beta = parse_decimal("0.05").ok_or("no decimal")?;
//! assert_eq!(count.error_at(&beta), 6); // within ±6 with 95 %
//! # let _ = noisy;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod conversion;
mod enclosure;
mod exponential;
mod gaussian;
mod laplace;
mod noisy_max;
mod normal;
mod permute_and_flip;
pub mod price;
pub mod quantile;
mod rate;
mod runs;
mod threshold;
mod tight;
mod unknown;

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test's statistics are floats"
)]
mod tests;

use thiserror::Error;

pub use conversion::{epsilon_of_rho, largest_rho};
pub use exponential::Exponential;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use noisy_max::NoisyMax;
pub use permute_and_flip::PermuteAndFlip;
pub use price::PriceGrid;
pub use quantile::{Rank, quantile_runs, rank_for};
pub use runs::{ScoredRun, TickRuns};
pub use threshold::{threshold_of_gaussian, threshold_of_laplace};
pub use unknown::{Unknown, UnknownRule};

use crate::sampler::SamplerError;

/// Why a mechanism cannot be calibrated or drawn.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// So much noise would be needed that no draw of it fits the sampler.
    #[error("the noise needed exceeds what can be drawn: narrow the range, or spend more epsilon")]
    ScaleTooLarge,
    /// The scores range so widely that the rate per unit is below what can be drawn.
    #[error("the scores' range is too wide: narrow the range of the score")]
    RangeTooWide,
    /// Candidates known to the data alone need δ ≤ e^ε − 1 in each round.
    #[error(
        "delta is too large for this epsilon: among unknown candidates it must not exceed e^epsilon - 1"
    )]
    DeltaTooLarge,
    /// A round's share of ε or δ is below what the ledger counts.
    #[error("epsilon or delta is too small to be shared by so many rounds")]
    TooManyRounds,
    /// The sampler refused.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}
