//! The number of rows below which an answer is mostly noise: the ± of a mean or variance is then as
//! large as its whole range.
//!
//! In: a measure, and its predicted accuracy. Out: that number of rows. It follows from the query
//! and the declarations alone. Counts and sums have no such number, because they have no public
//! range.
//!
//! ```text
//! AVG(age), age BETWEEN (0, 120), ± 3600/n      fewer than 30 rows: the ± is 120 or more
//! ```

use num_traits::ToPrimitive;

use super::mechanism::Predicted;
use crate::analysis::{Measure, approximate};
use crate::privacy::Rational;

/// The root u of u + (9/4)·u² = 1/4. If the noise on each sum of a variance is worth τ rows, then
/// over n = τ/u rows its ± is w²/4, the largest variance in a range of width w.
const OF_A_VARIANCE: f64 = 0.178_394_6;

/// Answers are often over fewer rows than this, so a note says from where on they are mostly noise.
pub(crate) const FEW_ROWS: u64 = 100;

/// The number of rows below which the ± is as large as the range. `None` if that number is at
/// most 1.
pub(crate) fn mostly_noise_below(measure: &Measure, accuracy: Predicted) -> Option<u64> {
    if measure.ladder.is_some() {
        // The number of rows depends on the bound that is chosen.
        return None;
    }
    let rows = match accuracy {
        Predicted::WithinOverCount(error) => {
            let width = Rational::from_integer((measure.hi - measure.lo).into());
            error / approximate(&(width * measure.grid_unit()))
        }
        Predicted::Spread { noise } if measure.moments().is_some() => noise / OF_A_VARIANCE,
        // A statistic of two columns shows a ± of its own.
        Predicted::Spread { .. } => return None,
        Predicted::Within(_)
        | Predicted::Winner { .. }
        | Predicted::WinnerBySize { .. }
        | Predicted::Rank { .. }
        | Predicted::Truthful(_)
        | Predicted::Nothing => return None,
    };
    rows.ceil().to_u64().filter(|rows| *rows > 1)
}
