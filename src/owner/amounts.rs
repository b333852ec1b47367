//! Amounts of budgets, from what their owner writes to whole units of the ledger.
//!
//! In: the clauses LIMIT, PER QUERY and SPENT. Out: limits that are never more than what was written, and minima and amounts
//! spent that are never less.
//!
//! ```text
//! LIMIT (epsilon=0.0000000015)   →   1 unit of 10⁻⁹        SPENT (epsilon=0.0000000015)   →   2 units
//! ```

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::catalog::{PerQuery, zcdp_limit};
use crate::dialect::{Allowance, LimitClause, PerQueryClause, SpentClause};
use crate::error::Error;
use crate::privacy::{Cost, Delta, Epsilon, Loss, Notion, ParameterError, Rational, Rho, Spend};

/// The limit in ledger units, and under ZCDP, with or without a part for thresholds, the promise from which it is derived.
///
/// # Guarantee
/// Never more than declared: every part is rounded down; see [`zcdp_limit`].
pub(super) fn limit_of(
    clause: &LimitClause,
    zcdp: Option<bool>,
) -> Result<(Spend, Option<Spend>), Error> {
    let atto = clause.delta.as_ref().map_or(Ok(0), |delta| units_down(delta.value(), 18))?;
    let epsilon = match &clause.allowance {
        Allowance::Rho(rho) => return Ok((Spend::of_rho(units_down(rho.value(), 9)?, atto), None)),
        Allowance::Epsilon(epsilon) => epsilon,
    };
    let written = Spend::of_epsilon(units_down(epsilon.value(), 9)?, atto);
    let Some(thresholds) = zcdp else { return Ok((written, None)) };
    let too_small = "ACCOUNTANT ZCDP needs a delta, and an epsilon large enough for some rho";
    let limit = zcdp_limit(written, thresholds).ok_or_else(|| Error::catalog(too_small))?;
    Ok((limit, Some(written)))
}

/// A number as whole units of 10^−places.
///
/// # Guarantee
/// Never less than the number: rounded up.
fn units_up(value: &Rational, places: u32) -> Result<i64, Error> {
    let units = value * Rational::from_integer(BigInt::from(10).pow(places));
    Ok(units.ceil().to_integer().to_i64().ok_or(ParameterError::Overflow)?)
}

/// A number as whole units of 10^−places.
///
/// # Guarantee
/// Never more than the number: rounded down.
fn units_down(value: &Rational, places: u32) -> Result<i64, Error> {
    let units = value * Rational::from_integer(BigInt::from(10).pow(places));
    Ok(units.floor().to_integer().to_i64().ok_or(ParameterError::Overflow)?)
}

pub(super) fn amounts(clause: &PerQueryClause, notion: Notion) -> Result<PerQuery, Error> {
    let units = |value: Option<&Rational>, places: u32| {
        value.map(|value| units_down(value, places)).transpose()
    };
    let epsilon = |value: &Option<Epsilon>| units(value.as_ref().map(Epsilon::value), 9);
    let rho = |value: &Option<Rho>| units(value.as_ref().map(Rho::value), 9);
    let delta = |value: &Option<Delta>| units(value.as_ref().map(Delta::value), 18);
    let max = match (notion, &clause.max, &clause.max_rho) {
        (Notion::Approximate, _, None) => epsilon(&clause.max)?,
        (Notion::Concentrated, None, _) => rho(&clause.max_rho)?,
        (Notion::Approximate, _, Some(_)) => {
            return Err(Error::catalog("a budget in epsilon takes max, not max_rho"));
        }
        (Notion::Concentrated, Some(_), _) => {
            return Err(Error::catalog(
                "this budget counts in rho, and some queries cost rho only: write max_rho instead of max",
            ));
        }
    };
    let least = |value: Option<&Rational>| value.map(|value| units_up(value, 9)).transpose();
    let min = match (notion, &clause.min, &clause.min_rho) {
        (Notion::Approximate, min, None) => least(min.as_ref().map(Epsilon::value))?,
        (Notion::Concentrated, None, min) => least(min.as_ref().map(Rho::value))?,
        (Notion::Approximate, _, Some(_)) => {
            return Err(Error::catalog("a budget in epsilon takes min, not min_rho"));
        }
        (Notion::Concentrated, Some(_), _) => {
            return Err(Error::catalog(
                "this budget counts in rho, and some queries cost rho only: write min_rho instead of min",
            ));
        }
    };
    Ok(PerQuery {
        default: epsilon(&clause.default)?,
        default_rho: rho(&clause.default_rho)?,
        default_delta: delta(&clause.default_delta)?,
        min,
        max,
        max_delta: delta(&clause.max_delta)?,
    })
}

/// The cost that SPENT names.
///
/// # Guarantee
/// Never less than written: every part is rounded up. An ε without a ρ has the largest ρ that a release of this ε and δ can
/// have, see [`Loss::approximate`].
///
/// # Errors
/// [`Error`] for an amount that is out of range.
pub(super) fn spent_of(clause: &SpentClause) -> Result<Cost, Error> {
    let SpentClause { epsilon, delta, rho, rho_delta } = clause;
    let units = |value: &Option<Rational>, places: u32| {
        value.as_ref().map_or(Ok(0), |value| units_up(value, places))
    };
    let Some(epsilon) = epsilon else {
        return Ok(Cost::from_amounts(None, (units(rho, 9)?, units(rho_delta, 18)?)));
    };
    if rho.is_some() {
        let approximate = (units_up(epsilon, 9)?, units(delta, 18)?);
        return Ok(Cost::from_amounts(Some(approximate), (units(rho, 9)?, units(rho_delta, 18)?)));
    }
    let delta = delta.as_ref().filter(|delta| !delta.is_zero());
    let delta = delta.map(|delta| Delta::new(delta.clone())).transpose()?;
    let loss = match (epsilon.is_zero(), &delta) {
        (true, None) => Loss::zero(),
        (true, Some(delta)) => Loss::of_delta(delta),
        (false, None) => Loss::pure(&Epsilon::new(epsilon.clone())?),
        (false, Some(delta)) => Loss::approximate(&Epsilon::new(epsilon.clone())?, delta),
    };
    Ok(Cost::round_up(&loss)?)
}
