//! Exact numbers as explanations and the ledger write them.

use num_traits::{One, ToPrimitive};

use crate::analysis::{Choice, Measure, PrivateAggregate};
use crate::dialect::MechanismName;
use crate::mechanism::ChosenBound;
use crate::privacy::{Rational, decimal_text};
use crate::release::mechanism::{Mechanism, Mechanized};

pub(crate) fn exact(value: &Rational) -> String {
    decimal_text(value, 12)
}

pub(crate) fn grid_text(measure: &Measure, units: i128) -> String {
    exact(&(Rational::from_integer(units.into()) * measure.grid_unit()))
}

pub(crate) fn score_units(choice: &Choice, units: u128) -> String {
    exact(&(Rational::from_integer(units.into()) * &choice.unit))
}

/// A bound of a ladder: a number of rows, or what they add up to, in the unit of the sum.
pub(crate) fn bound_text(measure: &Measure, bound: u128) -> String {
    match measure.ladder.as_ref().is_some_and(|ladder| ladder.is_of_rows) {
        true => bound.to_string(),
        false => exact(&(Rational::from_integer(bound.into()) * measure.grid_unit())),
    }
}

/// How many units may exceed a bound if it is chosen, with 95 %. `None` for the declared bound,
/// which no unit is known to exceed.
pub(crate) fn most_beyond(chosen: &ChosenBound, rung: usize) -> Option<String> {
    let is_declared = chosen.few().is_some() && rung + 1 == chosen.rungs().len();
    (!is_declared).then(|| format!("{:.0}", chosen.most_beyond(rung)))
}

/// The note about a bound that was chosen, given by its position on the ladder.
///
/// # Guarantee
/// The note follows from the position and from the release alone. The tail of the choice bounds
/// what is cut; the rows that are cut are never counted.
pub(crate) fn bound_note(measure: &Measure, one: &Mechanized, rung: usize) -> Option<String> {
    let Mechanism::ChosenBound(chosen) = &one.mechanism else { return None };
    let ladder = measure.ladder.as_ref()?;
    let bound = *ladder.rungs.get(rung)?;
    let (text, shown) = (&measure.clause.text, bound_text(measure, bound));
    let bounded = match (ladder.is_of_rows, bound) {
        (true, 1) => "a unit counts with 1 row".to_owned(),
        (true, _) => format!("a unit counts with {shown} rows in all"),
        (false, _) => format!("a unit adds {shown} in all"),
    };
    let of_all = ladder.is_declared && measure.clause.parameters.total_rows.is_none();
    let cut = match most_beyond(chosen, rung) {
        None if of_all => "which is the declared one and cuts nothing".to_owned(),
        None => "which is the largest one; the ± does not count what it cuts".to_owned(),
        Some(most) => {
            let lost = if of_all { lost(measure, chosen, rung) } else { None };
            let lost = lost.map(|lost| format!(" and lose at most {lost}")).unwrap_or_default();
            format!(
                "and with 95 % at most {most} units have more{lost}; the ± does not count what it cuts"
            )
        }
    };
    let why = why_chosen(measure);
    Some(format!("{text}: {bounded} at most: this is the bound chosen{why}, {cut}"))
}

/// Why a bound is chosen, where plain SQL did not ask for it.
pub(crate) fn why_chosen(measure: &Measure) -> &'static str {
    match measure.clause.mechanism {
        MechanismName::Default => " by rows=auto, since nothing bounds the rows of a unit",
        MechanismName::Auto
        | MechanismName::Laplace
        | MechanismName::Gaussian
        | MechanismName::Exponential
        | MechanismName::GeneralizedExponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::SampleAndAggregate
        | MechanismName::RandomizedResponse => "",
    }
}

/// The most that the units beyond a bound lose, compared with the declared bound.
fn lost(measure: &Measure, chosen: &ChosenBound, rung: usize) -> Option<String> {
    let ladder = measure.ladder.as_ref()?;
    let each = ladder.rungs.last()?.checked_sub(*ladder.rungs.get(rung)?)?;
    let units = chosen.most_beyond(rung).to_u128()?;
    let shown = bound_text(measure, units.checked_mul(each)?);
    Some(if ladder.is_of_rows { format!("{shown} rows") } else { shown })
}

/// A number of grid steps of the compared number, in its own unit.
pub(crate) fn steps_text(part: &PrivateAggregate, measure: Option<usize>, steps: u64) -> String {
    let measure = measure.and_then(|i| part.measures().get(i));
    let unit = measure.map_or_else(Rational::one, Measure::grid_unit);
    decimal_text(&(Rational::from_integer(steps.into()) * unit), 6)
}
