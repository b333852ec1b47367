//! One mechanism per file: calibration from a cost to a scale, the draw, and the expected error.
//!
//! A sensitivity in whole units of the aggregate's grid and an ε (and δ) go in. A calibrated
//! mechanism comes out; it draws and states its error. The engine derives the sensitivity. If that
//! is correct, the draw has exactly the stated privacy. Scales are rationals rounded toward more
//! noise. Floats occur only in *reported* accuracies, and where a proved margin covers their error.
//!
//! ```
//! use hushql_privacy::mechanism::Laplace;
//! use hushql_privacy::privacy::{Epsilon, parse_decimal};
//! use hushql_privacy::sampler::QueryRng;
//!
//! let epsilon: Epsilon = "0.5".parse()?;
//! let count = Laplace::calibrate(1, &epsilon)?; // one person moves a count by 1
//! let noisy = 32_561 + count.draw(&mut QueryRng::from_os()?);
//! let beta = parse_decimal("0.05").ok_or("no decimal")?;
//! assert_eq!(count.error_at(&beta), 6); // within ±6 with 95 %
//! # let _ = noisy;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chosen_bound;
mod conversion;
mod coupons;
mod cumulative;
mod exponential;
mod gaussian;
mod generalized;
mod laplace;
mod noisy_keys;
mod noisy_max;
mod normal;
mod people_floor;
mod permute_and_flip;
pub mod price;
pub mod quantile;
mod rate;
mod refined;
mod rows_threshold;
mod space;
mod threshold;
mod tick_runs;
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

pub use chosen_bound::{Beyond, ChosenBound, Rung};
pub use conversion::{epsilon_of_rho, largest_rho};
pub use coupons::{MOST_COUPONS, most_coupons};
pub use cumulative::{CountNoise, Cumulative, MOST_BINS};
pub use exponential::Exponential;
pub use gaussian::Gaussian;
pub use generalized::{Generalized, SizedRun};
pub use laplace::Laplace;
pub use noisy_keys::{NoisyKeys, ScoreNoise};
pub use noisy_max::NoisyMax;
pub use people_floor::{PeopleNoise, above_floor, floor_limit, shown_with};
pub use permute_and_flip::PermuteAndFlip;
pub use price::PriceGrid;
pub use quantile::many::{Fractions, MOST_FRACTIONS, ManyQuantiles};
pub use quantile::{Rank, quantile_runs, rank_for};
pub use refined::RefinedLaplace;
pub use rows_threshold::{Alone, rows_threshold_of_gaussian, rows_threshold_of_laplace};
pub use threshold::{threshold_of_gaussian, threshold_of_laplace};
pub use tick_runs::{ScoredRun, TickRuns};
pub use unknown::{Unknown, UnknownRule};

use crate::sampler::SamplerError;

/// Why a mechanism cannot be calibrated or drawn.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// The noise would be so large that the sampler cannot draw it.
    #[error("the noise needed exceeds what can be drawn: narrow the range, or spend more epsilon")]
    ScaleTooLarge,
    /// The range of the scores is so large that the rate per unit is too small to be drawn.
    #[error("the scores' range is too wide: narrow the range of the score")]
    RangeTooWide,
    /// Unknown candidates need δ ≤ e^ε − 1 in each round.
    #[error(
        "delta is too large for this epsilon: among unknown candidates it must not exceed e^epsilon - 1"
    )]
    DeltaTooLarge,
    /// A round's share of ε or δ is below the ledger's unit.
    #[error("epsilon or delta is too small to be shared by so many rounds")]
    TooManyRounds,
    /// The sampler cannot draw.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
}
