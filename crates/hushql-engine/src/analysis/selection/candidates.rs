//! The candidates of selections whose target is a new name, and the weights of priors.
//!
//! In: a selection's clause, and the public tables that it names. Out: the distinct candidates as
//! an axis, and integer weights. Candidates come from the query or the catalog, never from the
//! data. For candidates that are values of a group key, see `keys/candidate_keys`.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayRef};
use arrow::compute::sort;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::analysis::call::lookup::Lookups;
use crate::analysis::expr::domain::typed;
use crate::analysis::expr::facts::Facts;
use crate::analysis::keys::candidate_keys::{
    NO_NUMBERS, bad_range, decimal_ticks, prior_table, too_many,
};
use crate::analysis::keys::listed_keys;
use crate::analysis::measure::choice::{CandidateAxis, Prior};
use crate::dialect::{CandidatesClause, Literal, SelectionClause};
use crate::privacy::{Rational, parse_decimal};
use crate::refusal::{Reason, Refusal};
use crate::ticks::Ticks;

/// The candidates of a selection whose target is a new name, in the type of that name.
pub(crate) fn of_name(
    clause: &SelectionClause,
    name: &str,
    data_type: &DataType,
) -> Result<CandidateAxis, Refusal> {
    match &clause.candidates {
        Some(CandidatesClause::List(literals)) => {
            if literals.contains(&Literal::Null) {
                let hint = format!("{name} IN (…) without NULL");
                return Err(Refusal::new(
                    Reason::BadValue,
                    "NULL",
                    "NULL cannot be compared, so it cannot be a candidate here",
                    hint,
                ));
            }
            let keys = match data_type {
                DataType::Float64 => listed_floats(literals, name)?,
                _ => listed_keys(literals, &Facts::of_type(data_type), data_type, name)?,
            };
            let bad = |_| bad_range(name, "the candidates have no common type");
            let values = ScalarValue::iter_to_array(keys).map_err(bad)?;
            Ok(CandidateAxis::Listed(sort(&values, None).map_err(|_| bad_range(name, "no order"))?))
        }
        Some(CandidatesClause::Range { lo, hi, step: Some(step) }) => {
            decimal_ticks(lo, hi, step, name).map(CandidateAxis::Ticks)
        }
        Some(CandidatesClause::Range { lo, hi, step: None }) => {
            let number = |literal: &Literal| match literal {
                Literal::Number(text) => parse_decimal(text),
                Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
            };
            let bounds = number(lo).zip(number(hi));
            let (lo, hi) = bounds.ok_or_else(|| bad_range(name, NO_NUMBERS))?;
            if lo > hi {
                return Err(bad_range(name, "the bounds of the range are reversed"));
            }
            Ticks::binary(&lo, &hi).map(CandidateAxis::Ticks).ok_or_else(|| {
                bad_range(
                    name,
                    "without a step, the bounds must lie within 2^32, and not both be 0",
                )
            })
        }
        None => Err(bad_range(name, "the candidate has a name but no values")),
    }
}

/// The listed floats. They must be distinct.
fn listed_floats(literals: &[Literal], name: &str) -> Result<Vec<ScalarValue>, Refusal> {
    let mut floats = Vec::with_capacity(literals.len());
    let mut seen = HashSet::new();
    for literal in literals {
        let bad = |what: &str| {
            Refusal::new(
                Reason::BadValue,
                literal,
                format!("{literal} {what}"),
                "numbers, each once",
            )
        };
        let float = match literal {
            Literal::Number(text) => typed(text, &DataType::Float64).ok(),
            Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
        };
        let float = float.ok_or_else(|| bad(&format!("is not a number for {name}")))?;
        if !seen.insert(float.clone()) {
            return Err(bad("is listed twice"));
        }
        floats.push(float);
    }
    Ok(floats)
}

/// The exact numbers of a listed axis, ascending; `None` for texts and Booleans.
pub(crate) fn listed_numbers(clause: &SelectionClause) -> Option<Vec<Rational>> {
    let Some(CandidatesClause::List(literals)) = &clause.candidates else { return None };
    let mut numbers = literals
        .iter()
        .map(|literal| match literal {
            Literal::Number(text) => parse_decimal(text),
            Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
        })
        .collect::<Option<Vec<_>>>()?;
    numbers.sort_unstable();
    Some(numbers)
}

/// The base measure over candidates of a type.
///
/// # Guarantee
/// The weights are exactly the table's numbers, scaled to integers by one factor. A candidate that
/// the table does not list has weight 0.
///
/// # Errors
/// Refuses a key or weight that is NULL, a repeated key, a negative or infinite weight, NaN,
/// weights that are all zero for the candidates, and weights that differ by more than the engine's
/// integers can express.
pub(crate) fn prior(
    clause: &SelectionClause,
    candidates: &[ScalarValue],
    data_type: &DataType,
    lookups: &Lookups,
) -> Result<Prior, Refusal> {
    let Some(lookup) = prior_table(clause) else {
        return Ok(match &clause.prior {
            Some(_) => Prior::LogUniform,
            None => Prior::Uniform,
        });
    };
    let bad = |message: String| {
        let hint = "a public table with each candidate once and a weight of at least 0 beside it";
        Refusal::new(Reason::BadValue, format!("PRIOR {}", lookup.table), message, hint)
    };
    let keys = lookups.literals(&lookup, 0)?;
    let weights = lookups.literals(&lookup, 1)?;
    let mut known: HashMap<ScalarValue, Rational> = HashMap::with_capacity(keys.len());
    for (key, weight) in keys.iter().zip(&weights) {
        let Some(text) = key.text() else { return Err(bad("a key of the prior is NULL".into())) };
        let exact = match weight {
            Literal::Number(text) => parse_decimal(text),
            Literal::Text(_) | Literal::Boolean(_) | Literal::Null => None,
        };
        let exact = exact.ok_or_else(|| bad(format!("the weight of {key} is {weight}")))?;
        if exact.is_negative() {
            return Err(bad(format!("the weight of {key} is negative")));
        }
        // A key that the column cannot hold is not a candidate.
        let Ok(value) = typed(&text, data_type) else { continue };
        if known.insert(value, exact).is_some() {
            return Err(bad(format!("the prior lists {key} twice")));
        }
    }
    let own: Vec<Rational> = candidates
        .iter()
        .map(|candidate| known.get(candidate).cloned().unwrap_or_else(Rational::zero))
        .collect();
    if own.iter().all(Zero::is_zero) {
        return Err(bad("every candidate has weight 0".to_owned()));
    }
    let scale = own.iter().fold(BigInt::one(), |scale, w| scale.lcm(w.denom()));
    let whole: Vec<BigInt> =
        own.iter().map(|w| (w * Rational::from_integer(scale.clone())).to_integer()).collect();
    let factor = whole.iter().fold(BigInt::zero(), |factor, w| factor.gcd(w));
    let whole: Option<Vec<u128>> = whole.iter().map(|w| (w / &factor).to_u128()).collect();
    let whole = whole.filter(|w| {
        w.iter().try_fold(0_u128, |sum, w| sum.checked_add(*w)).is_some_and(|sum| sum < 1 << 120)
    });
    whole.map(Prior::Weights).ok_or_else(|| {
        bad("the weights differ by more than the engine can count exactly".to_owned())
    })
}

/// The values of an axis as scalars, if there are at most `most`. Otherwise refuses with the
/// message from `more`.
pub(crate) fn axis_values(
    axis: &CandidateAxis,
    data_type: &DataType,
    name: &str,
    most: usize,
    more: impl FnOnce() -> String,
) -> Result<Vec<ScalarValue>, Refusal> {
    let few = usize::try_from(axis.count()).is_ok_and(|n| n <= most);
    if !few {
        return Err(too_many(name, more()));
    }
    let all: Vec<u64> = (0..axis.count()).collect();
    let bad = || bad_range(name, "the candidates have no common type");
    let values: ArrayRef = axis.values(&all, data_type).map_err(|_| bad())?;
    (0..values.len()).map(|i| ScalarValue::try_from_array(&values, i).map_err(|_| bad())).collect()
}

/// An axis of listed values.
pub(crate) fn listed(values: Vec<ScalarValue>, name: &str) -> Result<CandidateAxis, Refusal> {
    let bad = |_| bad_range(name, "the candidates have no common type");
    Ok(CandidateAxis::Listed(ScalarValue::iter_to_array(values).map_err(bad)?))
}
