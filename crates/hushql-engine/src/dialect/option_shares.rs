//! How the cost of OPTIONS is divided among the bare aggregates of a SELECT.
//!
//! In: the releases that OPTIONS implied, and OPTIONS. Out: the share of each in its parameters,
//! and the settings for groups. An aggregate with `epsilon => e` costs e, and the choice of groups
//! costs `group_selection_epsilon`; the others share what is left.
//!
//! ```text
//! OPTIONS(epsilon=1) COUNT(*, epsilon => 0.4), SUM(x), AVG(x)      0.4, 0.3 and 0.3
//! ```

use num_traits::{Signed, Zero};

use super::ast::{GroupingClause, Parameters, ReleaseClause};
use super::implied::has_own_cost;
use crate::dialect::clauses::Options;
use crate::dialect::error::DialectError;
use crate::privacy::{Epsilon, ParameterError, Rational};
use crate::refusal::{Reason, Refusal};

const TEXT: &str = "OPTIONS(…)";

/// Shares the ε, ρ and δ of OPTIONS equally among the releases that state no ε of their own.
///
/// # Guarantee
/// The shares, the own costs and that of the choice of groups add up to no more than the ε of
/// OPTIONS: the own costs are taken off before it is shared, and each share is rounded down.
///
/// # Errors
/// A refusal if the own costs leave nothing for the others, and if a share is too small.
pub(super) fn share(
    implied: &mut [ReleaseClause],
    options: &Options,
) -> Result<GroupingClause, DialectError> {
    let parts = implied.iter().filter(|release| !has_own_cost(release)).count();
    let rest = rest(implied, options, parts)?;
    for release in implied.iter_mut() {
        release.unit_column.clone_from(&options.unit_column);
        if has_own_cost(release) {
            continue;
        }
        let own = &mut release.parameters;
        *own = shared(own, rest.as_ref(), parts).map_err(|_| too_small(parts))?;
    }
    Ok(options.grouping(rest, parts))
}

/// One of `parts` equal shares.
fn shared(
    whole: &Parameters,
    epsilon: Option<&Epsilon>,
    parts: usize,
) -> Result<Parameters, ParameterError> {
    Ok(Parameters {
        epsilon: epsilon.map(|epsilon| epsilon.share(parts)).transpose()?,
        rho: whole.rho.as_ref().map(|rho| rho.share(parts)).transpose()?,
        delta: whole.delta.as_ref().map(|delta| delta.share(parts)).transpose()?,
        ..whole.clone()
    })
}

fn too_small(parts: usize) -> DialectError {
    let message = format!(
        "one of {parts} equal shares is smaller than the least cost that the engine can count"
    );
    Refusal::new(Reason::BadValue, TEXT, message, "a larger epsilon").into()
}

/// The ε of OPTIONS without what is stated for single aggregates and for the choice of groups.
fn rest(
    implied: &[ReleaseClause],
    options: &Options,
    parts: usize,
) -> Result<Option<Epsilon>, DialectError> {
    let own = implied.iter().filter(|release| has_own_cost(release));
    let own = own.filter_map(|release| release.parameters.epsilon.as_ref());
    let stated: Rational =
        own.chain(&options.threshold).map(|epsilon| epsilon.value().clone()).sum();
    let Some(whole) = &options.parameters.epsilon else { return Ok(None) };
    if stated.is_zero() {
        return Ok(Some(whole.clone()));
    }
    let left = whole.value() - stated;
    if left.is_negative() || left.is_zero() && parts > 0 {
        let message = format!(
            "single aggregates and the choice of groups cost more than OPTIONS leaves of epsilon={whole}"
        );
        let hint =
            "a larger epsilon in OPTIONS, or less in epsilon => … and group_selection_epsilon";
        return Err(Refusal::new(Reason::BadValue, TEXT, message, hint).into());
    }
    if left.is_zero() {
        return Ok(None);
    }
    Epsilon::new(left).map(Some).map_err(|_| too_small(parts))
}
