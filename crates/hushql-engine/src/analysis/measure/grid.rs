//! The grid of a measure: the public unit in which its values are integers, and the bounds of a row
//! in that unit.

use arrow::datatypes::DataType;
use num_bigint::BigInt;
use num_traits::{One, ToPrimitive};

use crate::analysis::expr::domain::typed;
use crate::analysis::expr::facts::{decimal_unit, rational};
use crate::analysis::expr::grid_limits::{binary_places, widest};
use crate::analysis::expr::interval::Interval;
use crate::analysis::expr::shape::unit_of;
use crate::analysis::measure::input::Argument;
use crate::analysis::not_analyzed::{NoRange, NotAnalyzed};
use crate::dialect::aggregate::argument_of;
use crate::dialect::{AggregateCall, Literal};
use crate::grid::Grid;
use crate::privacy::Rational;
use crate::refusal::{Reason, Refusal};
use crate::sql_type::sql_type;

/// The range of one row: the derived range, or the one in `contribution_bounds_per_row`.
pub(crate) fn per_row(
    call: &AggregateCall,
    argument: &Argument,
    text: &str,
) -> Result<Interval, Refusal> {
    match &call.bounds_per_row {
        Some(bounds) => bounds_of(bounds, &argument.data_type, text),
        None => Ok(argument.range.clone()),
    }
}

pub(crate) fn bounds_of(
    (lo, hi): &(Literal, Literal),
    data_type: &DataType,
    text: &str,
) -> Result<Interval, Refusal> {
    let number = |literal: &Literal| match literal {
        Literal::Number(number) if data_type.is_floating() => {
            typed(number, data_type).ok().and_then(|v| rational(&v))
        }
        Literal::Number(number) => crate::privacy::parse_decimal(number),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    let bounds = number(lo).zip(number(hi));
    let (lo, hi) = bounds.ok_or_else(|| bad_bounds(text, "contribution bounds are two numbers"))?;
    if lo > hi {
        return Err(bad_bounds(text, "the contribution bounds are reversed"));
    }
    let is_exact = data_type.is_integer() || data_type.is_decimal();
    let unit = unit_of(data_type);
    if is_exact && [&lo, &hi].into_iter().any(|bound| !(bound / &unit).is_integer()) {
        let of = sql_type(data_type);
        let message =
            format!("the contribution bounds are not values of {of}, and would be rounded");
        let hint = "bounds of as many places, or CLAMP(x, lo, hi)";
        return Err(Refusal::new(Reason::BadValue, text, message, hint));
    }
    Ok(Interval::between(lo, hi))
}

pub(crate) fn bad_bounds(text: &str, message: &str) -> Refusal {
    Refusal::new(Reason::BadValue, text, message, "contribution_bounds_per_group => (lo, hi)")
}

/// Puts a range on the grid of its type.
///
/// # Guarantee
/// Every value of the type inside `range` has a grid integer in [lo, hi] = [⌊L⌋, ⌈U⌉]. For floats
/// the grid is 2^−k, where k is the largest number for which the magnitudes stay within 2³⁹. For
/// decimals it has their own places, or as many of them as keep the magnitudes within 2⁶². It
/// depends on the range and the type alone.
pub(crate) fn on_grid(
    argument: &Argument,
    range: &Interval,
    text: &str,
) -> Result<(Grid, i128, i128), NotAnalyzed> {
    let data_type = &argument.data_type;
    let magnitude = range.max_abs().ok_or_else(|| no_range(text, &argument.remedy))?;
    let none = || too_wide(text, &magnitude, &argument.remedy);
    let (grid, scaled) = if data_type.is_floating() {
        if magnitude > widest() {
            return Err(none());
        }
        let log2 = binary_places(&magnitude);
        let factor = Rational::from_integer(BigInt::one() << log2.unsigned_abs());
        let factor = if log2 < 0 { factor.recip() } else { factor };
        (Grid::Binary { log2 }, range.scale(&factor))
    } else {
        let (grid, unit) = match data_type {
            DataType::Decimal128(_, own) => {
                let fits = |scale: &i8| &magnitude / decimal_unit(*scale) <= widest();
                let scale = (0..=*own).rev().find(fits).unwrap_or(*own);
                (Grid::Decimal { scale }, decimal_unit(scale))
            }
            integer if integer.is_integer() => (Grid::Integer, unit_of(data_type)),
            other => {
                return Err(Refusal::new(
                    Reason::Operand,
                    text,
                    format!("a column of type {} cannot be summed", sql_type(other)),
                    "a number: CAST(x AS DOUBLE), clamped",
                )
                .into());
            }
        };
        let scaled = range.scale(&unit.recip());
        if scaled.max_abs().is_none_or(|m| m > widest()) {
            return Err(none());
        }
        (grid, scaled)
    };
    let (lo, hi) = scaled.to_i128().ok_or_else(none)?;
    Ok((grid, lo, hi))
}

pub(crate) fn no_range(text: &str, remedy: &str) -> NotAnalyzed {
    without_range(
        text,
        format!("{text} has no range, so one person could change it by any amount"),
        remedy,
    )
}

/// The refusal of a declared or computed range that is wider than [`widest`].
fn too_wide(text: &str, magnitude: &Rational, remedy: &str) -> NotAnalyzed {
    let reached = match magnitude.to_f64().filter(|reached| reached.is_finite()) {
        Some(reached) => format!("{reached:.1e}"),
        None => "more than DOUBLE holds".to_owned(),
    };
    let why = format!(
        "{text} reads values of up to {reached}, and a range of more than 4.6e18 is as good as none"
    );
    without_range(text, why, remedy)
}

/// A remedy that puts CLAMP around an expression, with the argument as it is written.
fn around_the_argument(text: &str, remedy: &str) -> String {
    let (clamp, rest) = remedy.split_once(", or declare").unwrap_or((remedy, ""));
    let is_of_two = ["corr", "covar", "regr"].iter().any(|name| text.starts_with(name));
    if !clamp.starts_with("CLAMP(") || clamp.contains(" in place of ") || is_of_two {
        return remedy.to_owned();
    }
    let x = argument_of(text);
    let rest = if rest.is_empty() { String::new() } else { format!(", or declare{rest}") };
    format!("CLAMP({x}, lo, hi) in place of {x}{rest}")
}

fn without_range(text: &str, message: String, remedy: &str) -> NotAnalyzed {
    let remedy = around_the_argument(text, remedy);
    let refusal = Refusal::new(Reason::NoRange, text, message, remedy);
    NotAnalyzed::NoRange(NoRange { call: None, refusal })
}

pub(crate) fn too_large(text: &str) -> Refusal {
    Refusal::new(
        Reason::TooNoisy,
        text,
        "what one person can change does not fit the engine's integers",
        "tighter bounds: CLAMP(x, lo, hi), rows=m, groups=C",
    )
}
