//! Exact numbers, as explanations and the ledger write them.

use num_traits::One;

use crate::analysis::{Choice, Measure, PrivateAggregate};
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

/// A bound of a ladder: a number of rows, or what they add in the unit of the sum.
pub(crate) fn bound_text(measure: &Measure, bound: u128) -> String {
    match measure.ladder.as_ref().is_some_and(|ladder| ladder.is_of_rows) {
        true => bound.to_string(),
        false => exact(&(Rational::from_integer(bound.into()) * measure.grid_unit())),
    }
}

/// What is said of a bound that was chosen, by its place on the ladder.
pub(crate) fn bound_note(measure: &Measure, rung: usize) -> Option<String> {
    let ladder = measure.ladder.as_ref()?;
    let bound = *ladder.rungs.get(rung)?;
    let (text, shown) = (&measure.clause.text, bound_text(measure, bound));
    let bounded = match (ladder.is_of_rows, bound) {
        (true, 1) => "a unit counts with 1 row".to_owned(),
        (true, _) => format!("a unit counts with {shown} rows in all"),
        (false, _) => format!("a unit adds {shown} in all"),
    };
    Some(format!("{text}: {bounded} at most, the bound chosen; what it cuts is in no ±"))
}

/// So many steps of the grid of what is compared, as a number.
pub(crate) fn steps_text(part: &PrivateAggregate, measure: Option<usize>, steps: u64) -> String {
    let measure = measure.and_then(|i| part.measures().get(i));
    let unit = measure.map_or_else(Rational::one, Measure::grid_unit);
    decimal_text(&(Rational::from_integer(steps.into()) * unit), 6)
}
