//! Amounts of budgets: from the clauses of their owner to whole units of the ledger.
//!
//! In: the clauses LIMIT, PER QUERY and SPENT. Out: limits that are never more than what was
//! written; minima and spent amounts that are never less.
//!
//! ```text
//! LIMIT (epsilon=0.0000000015)   →   1 unit of 10⁻⁹        SPENT (epsilon=0.0000000015)   →   2 units
//! ```

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use crate::catalog::{Budget, PerQuery, PrivacyFloor, Slice, coupon_limit, zcdp_limit};
use crate::dialect::{
    Accountant, Allowance, FloorClause, LimitClause, PerQueryClause, SliceAmount, SliceLimit,
    SpentClause,
};
use crate::error::Error;
use crate::ledger::Elsewhere;
use crate::privacy::{
    Cost, Delta, Epsilon, Loss, Notion, ParameterError, Rational, Rho, Spend, Tally,
};

/// A limit as the vault stores it for a budget.
pub(super) struct Limit {
    /// The most that may be spent, in the notion of the budget.
    pub(super) limit: Spend,
    /// The promise of ε and δ from which an accountant derived the limit.
    pub(super) promise: Option<Spend>,
    /// The ε of a coupon.
    pub(super) coupon: Option<i64>,
}

/// The accountant of an existing budget.
pub(super) fn accountant_of(budget: &Budget) -> Result<Accountant, Error> {
    let thresholds = budget.limit.atto_delta > 0;
    Ok(match (budget.promise, budget.coupon) {
        (Some(_), Some(nano)) => {
            let epsilon = Epsilon::new(Spend::of_epsilon(nano, 0).loss())?;
            Accountant::Coupons { epsilon, thresholds }
        }
        (Some(_), None) => Accountant::Zcdp { thresholds },
        (None, _) => Accountant::Sums,
    })
}

/// The limit in ledger units. Under an accountant, also the promise from which it is derived.
///
/// # Guarantee
/// Never more than declared: every part is rounded down; see [`zcdp_limit`] and [`coupon_limit`].
pub(super) fn limit_of(clause: &LimitClause, accountant: &Accountant) -> Result<Limit, Error> {
    let sums = |limit| Limit { limit, promise: None, coupon: None };
    let atto = clause.delta.as_ref().map_or(Ok(0), |delta| units_down(delta.value(), 18))?;
    let epsilon = match &clause.allowance {
        Allowance::Rho(rho) => return Ok(sums(Spend::of_rho(units_down(rho.value(), 9)?, atto))),
        Allowance::Epsilon(epsilon) => epsilon,
    };
    let written = Spend::of_epsilon(units_down(epsilon.value(), 9)?, atto);
    let (limit, coupon, too_small) = match accountant {
        Accountant::Sums => return Ok(sums(written)),
        Accountant::Zcdp { thresholds } => (
            zcdp_limit(written, *thresholds),
            None,
            "ACCOUNTANT ZCDP needs a delta, and an epsilon large enough for some rho",
        ),
        Accountant::Coupons { epsilon, thresholds } => {
            let each = units_down(epsilon.value(), 9)?;
            let too_dear =
                "ACCOUNTANT COUPONS needs a delta, and an epsilon large enough for one coupon";
            (coupon_limit(written, each, *thresholds), Some(each), too_dear)
        }
    };
    let limit = limit.ok_or_else(|| Error::catalog(too_small))?;
    Ok(Limit { limit, promise: Some(written), coupon })
}

/// The slice of an analyst in ledger units.
///
/// # Guarantee
/// Never more than declared: every part is rounded down.
pub(super) fn slice_of(analyst: &str, clause: &SliceLimit) -> Result<Slice, Error> {
    let atto = clause.delta.as_ref().map_or(Ok(0), |delta| units_down(delta.value(), 18))?;
    let limit = match &clause.amount {
        SliceAmount::Epsilon(epsilon) => Spend::of_epsilon(units_down(epsilon.value(), 9)?, atto),
        SliceAmount::Rho(rho) => Spend::of_rho(units_down(rho.value(), 9)?, atto),
        SliceAmount::Coupons(coupons) => Spend::of_coupons(i64::from(*coupons), atto),
    };
    Ok(Slice { analyst: analyst.to_owned(), limit })
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
    if notion == Notion::Coupons {
        return in_coupons(clause);
    }
    let max = match (notion, &clause.max, &clause.max_rho) {
        (Notion::Approximate, _, None) => epsilon(&clause.max)?,
        (Notion::Concentrated, None, _) => rho(&clause.max_rho)?,
        (Notion::Coupons, ..) => None,
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
        (Notion::Coupons, ..) => None,
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
        declared_bounds: clause.declared_bounds.unwrap_or(false),
        min_units: people(clause.min_units)?,
        min_units_beta: delta(&clause.min_units_beta)?,
    })
}

/// A number of people, as the vault keeps it.
fn people(number: Option<u64>) -> Result<Option<i64>, Error> {
    let kept = number.map(|people| i64::try_from(people).map_err(|_| ParameterError::Overflow));
    Ok(kept.transpose()?)
}

/// The floor of a table, with the β that the owner leaves out.
///
/// # Errors
/// [`Error`] for a β that is too small to be kept.
pub(super) fn floor_of(clause: &FloorClause) -> Result<PrivacyFloor, Error> {
    let beta = clause.beta.as_ref().map(|beta| units_down(beta.value(), 18)).transpose()?;
    let atto_beta = beta.unwrap_or(PrivacyFloor::DEFAULT_BETA);
    Ok(PrivacyFloor { people: clause.people, atto_beta })
}

/// The PER QUERY amounts of a budget of coupons.
fn in_coupons(clause: &PerQueryClause) -> Result<PerQuery, Error> {
    let PerQueryClause {
        default,
        default_rho,
        default_delta,
        min,
        min_rho,
        max,
        max_rho,
        max_delta,
        declared_bounds,
        min_units,
        min_units_beta,
    } = clause;
    if min.is_some() || max.is_some() || [default_rho, min_rho, max_rho].iter().any(|r| r.is_some())
    {
        return Err(Error::catalog(
            "a budget of coupons takes default, default_delta and max_delta, and no max: a release costs one coupon at most",
        ));
    }
    let delta = |value: &Option<Delta>| {
        value.as_ref().map(|delta| units_down(delta.value(), 18)).transpose()
    };
    Ok(PerQuery {
        default: default.as_ref().map(|epsilon| units_down(epsilon.value(), 9)).transpose()?,
        default_delta: delta(default_delta)?,
        max_delta: delta(max_delta)?,
        declared_bounds: declared_bounds.unwrap_or(false),
        min_units: people(*min_units)?,
        min_units_beta: delta(min_units_beta)?,
        ..PerQuery::default()
    })
}

/// The amounts that SPENT states.
///
/// # Errors
/// [`Error`] for an amount out of range.
pub(super) fn spent_of(clause: &SpentClause) -> Result<Elsewhere, Error> {
    let tally = match (&clause.releases, &clause.dearest) {
        (Some(releases), Some(dearest)) => {
            Some(Tally { releases: units_up(releases, 0)?, dearest: units_up(dearest, 9)? })
        }
        _ => None,
    };
    Ok(Elsewhere { cost: cost_of(clause)?, tally })
}

/// The cost that SPENT states.
///
/// # Guarantee
/// Never less than written: every part is rounded up. If SPENT has an ε without a ρ, the ρ is the
/// largest that a release with this ε and δ can have, see [`Loss::approximate`].
///
/// # Errors
/// [`Error`] for an amount out of range.
fn cost_of(clause: &SpentClause) -> Result<Cost, Error> {
    let SpentClause { epsilon, delta, rho, rho_delta, releases: _, dearest: _ } = clause;
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
