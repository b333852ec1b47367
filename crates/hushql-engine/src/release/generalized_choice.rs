//! A choice that measures each score by the change that one row makes to *this* score, not by the
//! largest change that it makes to any score.
//!
//! In: a choice whose candidates differ in that change, such as prices, and its ε. Out: the
//! generalised exponential mechanism, with the error of its winner. The error is stated in rows of
//! the candidate that might have been better, because it grows with that candidate's size.
//!
//! ```text
//! the best of the prices 0.01 to 100 at ε = 0.05:     EXPONENTIAL within 24,302     this one within 976 × the price
//! ```

use num_traits::ToPrimitive;

use super::shortfall::predicted;
use crate::analysis::{Choice, Prior};
use crate::mechanism::{Generalized, MechanismError};
use crate::privacy::{Epsilon, Loss, Selecting};
use crate::release::mechanism::{Instead, Mechanism, Mechanized, Predicted};
use crate::release::number::size;

/// The choice by the generalised exponential mechanism. `None` if a row changes all scores alike,
/// or if the candidates have a prior.
///
/// # Guarantee
/// All rounds in all outer groups together are ε-private, with bounded range: see
/// [`Generalized::calibrate`] and [`Choice::rows_in_draws`].
pub(super) fn by_own_sizes(
    choice: &Choice,
    epsilon: &Epsilon,
) -> Option<Result<Mechanized, MechanismError>> {
    let candidates = usize::try_from(choice.candidates()?).ok()?;
    let (rows, (largest, _)) = (choice.rows_in_draws()?, choice.sizes_in_short()?);
    if choice.prior != Prior::Uniform {
        return None;
    }
    let mechanized = |generalized: Generalized| {
        let mechanism = Mechanism::Generalized(generalized);
        let accuracy = predicted(choice, &mechanism, false).unwrap_or(Predicted::Nothing);
        let loss = Loss::choice(epsilon, None, choice.draws_of_unit(), Selecting::BoundedRange);
        Mechanized { mechanism, loss, accuracy, rank: None, instead: None, together: None }
    };
    Some(
        Generalized::calibrate(candidates, choice.rounds_drawn(), largest, rows, epsilon)
            .map(mechanized),
    )
}

/// For AUTO, the generalised exponential mechanism if its error against a candidate of middle size
/// is smaller than the error of the chosen mechanism. A mechanism that was requested by name stays,
/// and names this one as an alternative.
///
/// # Guarantee
/// Both have the ε of the choice, and the result is one of them. The comparison uses the bounds
/// that EXPLAIN displays, which follow from the query and the catalog.
pub(super) fn or_by_own_sizes(
    choice: &Choice,
    epsilon: &Epsilon,
    is_auto: bool,
    chosen: Mechanized,
) -> Mechanized {
    let Some(Ok(other)) = by_own_sizes(choice, epsilon) else { return chosen };
    let (Predicted::WinnerBySize { rows, .. }, Some((_, middle))) =
        (other.accuracy, choice.sizes_in_short())
    else {
        return chosen;
    };
    let unit = choice.unit.to_f64().unwrap_or(f64::INFINITY);
    if rows * middle * unit >= size(chosen.accuracy) {
        return chosen;
    }
    match is_auto {
        true => other,
        false => Mechanized { instead: Some(Instead::OwnSizes { rows }), ..chosen },
    }
}
