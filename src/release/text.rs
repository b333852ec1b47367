//! Exact numbers, as explanations and the ledger write them.

use crate::analysis::{Choice, Measure};
use crate::privacy::{Rational, decimal_text};

pub(crate) fn exact(value: &Rational) -> String {
    decimal_text(value, 12)
}

pub(crate) fn grid_text(measure: &Measure, units: i128) -> String {
    exact(&(Rational::from_integer(units.into()) * measure.grid_unit()))
}

pub(crate) fn score_units(choice: &Choice, units: u128) -> String {
    exact(&(Rational::from_integer(units.into()) * &choice.unit))
}
