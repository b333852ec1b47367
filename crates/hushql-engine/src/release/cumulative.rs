//! Cumulative distributions: the mechanism of a CDF, and how accurate its numbers are.
//!
//! In: a calibrated tree of counts. Out: the mechanism of a release, and the ± of its numbers.
//! Both follow from public sizes: the number of bins, the sensitivity, the cost and the law of the
//! noise.

use num_traits::ToPrimitive;

use super::mechanism::{Mechanism, Predicted};
use crate::mechanism::Cumulative;
use crate::privacy::Rational;

/// The mechanism, and its accuracy for one number.
pub(super) fn mechanism_of(own: Cumulative) -> (Mechanism, Predicted) {
    let accuracy = accuracy_of(&own, 1);
    (Mechanism::Cumulative(own), accuracy)
}

/// The accuracy of the number of any bin, such that `among` numbers are all within it with 95 %.
///
/// # Guarantee
/// As that of [`Cumulative::error_at`] for β = 0.05/`among`.
pub(super) fn accuracy_of(own: &Cumulative, among: u64) -> Predicted {
    let error = own.error_at(&beta(among));
    Predicted::Within(error.to_f64().unwrap_or(f64::INFINITY))
}

/// The error of each number with 95 % if every bin were a release of its own at the same cost in
/// all; `None` if such noise cannot be drawn.
pub(crate) fn error_of_separate_releases(own: &Cumulative) -> Option<f64> {
    own.error_apart_at(&beta(1))?.to_f64()
}

fn beta(among: u64) -> Rational {
    Rational::new(1.into(), num_bigint::BigInt::from(20) * among.max(1))
}
