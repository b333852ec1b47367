//! The candidates of a selection whose target is a group key.
//!
//! In: a selection's clause, the facts about its target, and the public tables that it names. Out:
//! the distinct candidates. They come from the query or the catalog, never from the data.
//!
//! ```text
//! TOP 3 status IN ('a', 'b', 'c')            the list
//! ARGMAX fee IN RANGE(0.5, 2, 0.5)           0.5, 1, 1.5, 2
//! ARGMAX status PRIOR census(status, n)      the domain of status; if it has none, the keys of the prior
//! ```

use datafusion::common::ScalarValue;
use num_traits::Signed;

use super::{MOST_KEYS, known_keys, listed_keys, refuse_impossible};
use crate::analysis::call::input_columns::Group;
use crate::analysis::call::lookup::{Lookup, Lookups};
use crate::analysis::expr::facts::grid_unit;
use crate::dialect::{CandidatesClause, Literal, PriorClause, SelectionClause};
use crate::privacy::{Rational, decimal_text, parse_decimal};
use crate::refusal::{Reason, Refusal};
use crate::ticks::Ticks;

/// The candidates of a selection whose target is a group key; `None` if they are not declared and
/// the selection accepts that (it states a delta).
pub(crate) fn of_key(
    clause: &SelectionClause,
    group: &Group,
    lookups: &Lookups,
    may_be_unknown: bool,
) -> Result<Option<Vec<ScalarValue>>, Refusal> {
    let Group { name, data_type, facts, .. } = group;
    match (&clause.candidates, prior_table(clause)) {
        (Some(CandidatesClause::List(literals)), _) => {
            let keys = listed_keys(literals, facts, data_type, name)?;
            refuse_impossible(literals, &keys, facts, name)?;
            Ok(Some(keys))
        }
        (Some(CandidatesClause::Range { lo, hi, step }), _) => {
            let literals = range_literals(lo, hi, step.as_ref(), name)?;
            listed_keys(&literals, facts, data_type, name).map(Some)
        }
        (None, prior) => match known_keys(facts, data_type, name, true) {
            Ok(keys) => Ok(Some(keys)),
            // The keys of a prior are public, so they can be candidates.
            Err(_) if prior.is_some() => {
                let keys = prior.map(|lookup| lookups.literals(&lookup, 0)).transpose()?;
                listed_keys(&keys.unwrap_or_default(), facts, data_type, name).map(Some)
            }
            Err(refusal) if may_be_unknown && refusal.reason() == Reason::UnknownCandidates => {
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        },
    }
}

/// The candidates of `IN RANGE(lo, hi, step)`, as literals.
fn range_literals(
    lo: &Literal,
    hi: &Literal,
    step: Option<&Literal>,
    name: &str,
) -> Result<Vec<Literal>, Refusal> {
    let Some(step) = step else {
        return Err(bad_range(
            name,
            "a group key has discrete values, so a range of them needs a step",
        ));
    };
    let ticks = decimal_ticks(lo, hi, step, name)?;
    if usize::try_from(ticks.count()).map_or(true, |n| n > MOST_KEYS) {
        return Err(too_many(name, format!("there are more than {MOST_KEYS} candidates")));
    }
    let decimal = |i| {
        let exact = Rational::from_integer(ticks.unit(i).into()) * unit_of(&ticks);
        Literal::Number(decimal_text(&exact, 22))
    };
    Ok((0..ticks.count()).map(decimal).collect())
}

/// The value of one grid unit of decimal ticks.
pub(crate) fn unit_of(ticks: &Ticks) -> Rational {
    grid_unit(ticks.grid())
}

pub(crate) fn decimal_ticks(
    lo: &Literal,
    hi: &Literal,
    step: &Literal,
    name: &str,
) -> Result<Ticks, Refusal> {
    let number = |literal: &Literal| match literal {
        Literal::Number(text) => parse_decimal(text),
        Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
    };
    let numbers = number(lo).zip(number(hi)).zip(number(step));
    let ((lo, hi), step) = numbers.ok_or_else(|| bad_range(name, NO_NUMBERS))?;
    if lo > hi {
        return Err(bad_range(name, "the bounds of the range are reversed"));
    }
    if !step.is_positive() {
        return Err(bad_range(name, "the step of the range is not above 0"));
    }
    Ticks::decimal(&lo, &hi, &step)
        .ok_or_else(|| bad_range(name, "the step is finer than floats can represent in this range"))
}

pub(crate) const NO_NUMBERS: &str =
    "the bounds and the step of a range must be numbers of moderate size";

pub(crate) fn bad_range(name: &str, message: &str) -> Refusal {
    Refusal::new(Reason::BadValue, name, message, format!("{name} IN RANGE(1, 5, 1)"))
}

pub(crate) fn too_many(name: &str, message: String) -> Refusal {
    Refusal::new(
        Reason::TooManyKeys,
        name,
        message,
        "a coarser step, or BY REVENUE or COUNT(*) FILTER (WHERE x >= candidate), which take any number",
    )
}

/// The public table that a selection names for its prior.
pub(crate) fn prior_table(clause: &SelectionClause) -> Option<Lookup> {
    match &clause.prior {
        Some(PriorClause::Table { table, key, weight }) => {
            Some(Lookup { table: table.clone(), columns: vec![key.clone(), weight.clone()] })
        }
        Some(PriorClause::LogUniform) | None => None,
    }
}
