//! Where an answer is mostly noise: below which number of rows the ± of a mean or variance is as
//! large as its whole range.
//!
//! In: a measure, and how accurate it is predicted to be. Out: that number of rows. It follows from
//! the query and the declarations alone. Counts and sums have no range of their own that is public,
//! and so no such number.
//!
//! ```text
//! AVG(age), age BETWEEN (0, 120), ± 3600/n      fewer than 30 rows: the ± is 120 or more
//! ```

use num_traits::ToPrimitive;

use super::mechanism::Predicted;
use crate::analysis::{Measure, approximate};
use crate::privacy::Rational;

/// The root u of u + (9/4)·u² = 1/4: a variance whose noise on each sum is worth τ rows has, over
/// n = τ/u rows, a ± of w²/4, the largest variance that there is in a range of width w.
const OF_A_VARIANCE: f64 = 0.178_394_6;

/// Answers over fewer rows than this often are: a note says where they are mostly noise.
pub(crate) const FEW_ROWS: u64 = 100;

/// The number of rows below which the ± is as large as the range; `None` where there is none
/// above 1.
pub(crate) fn mostly_noise_below(measure: &Measure, accuracy: Predicted) -> Option<u64> {
    if measure.ladder.is_some() {
        // It depends on the bound that is chosen.
        return None;
    }
    let rows = match accuracy {
        Predicted::WithinOverCount(error) => {
            let width = Rational::from_integer((measure.hi - measure.lo).into());
            error / approximate(&(width * measure.grid_unit()))
        }
        Predicted::Spread { noise } if measure.moments().is_some() => noise / OF_A_VARIANCE,
        // Statistics of two columns; their own ± says it.
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
