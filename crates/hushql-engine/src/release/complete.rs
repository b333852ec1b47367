//! Groups that come out: the least cost at which those with enough units are not hidden.
//!
//! In: the release that states the δ of a threshold, with `complete_above`, and how it is
//! calibrated at a cost. Out: the same at the least cost at which a group of so many units comes
//! out with the confidence that is asked for. It is a function of the query and the catalog. It
//! assumes that a unit is counted in all of its groups, and refuses where bounds may leave some
//! out: units that are not counted are in no confidence.
//!
//! ```text
//! LAPLACE(complete_above=17, delta=1e-6) COUNT(DISTINCT id), one group a unit     ε = 1: τ = 15, and noise is below −2 with 4 %
//! ```

use num_traits::One;

use super::goal::{CostUnit, failure, least_cost};
use crate::analysis::{Measure, UnknownPartitions};
use crate::privacy::{Epsilon, Rational};
use crate::refusal::{Reason, Refusal};

/// The release at the least cost on the ledger's grid at which groups come out that have as many
/// units as `complete_above` says; as it is stated, if it does not ask for that. `paid` calibrates
/// it at a cost, and `shows` tells whether a group of so many units is proved to come out then,
/// except with a probability.
///
/// # Guarantee
/// At the cost that comes out, a group of N units is hidden with a probability of at most β = 1 −
/// `confidence`, where `shows` proves that. A cost that `within` needs is not undercut. Nothing but
/// the query and the catalog decides.
///
/// # Errors
/// A refusal where a unit may not be counted in all of its groups, or where no cost suffices; the
/// refusal of a release that cannot be calibrated.
pub(super) fn complete<T>(
    measure: &Measure,
    groups: &UnknownPartitions,
    paid: &dyn Fn(&Measure) -> Result<T, Refusal>,
    shows: &dyn Fn(&T, u64, &Rational) -> bool,
) -> Result<T, Refusal> {
    let text = &measure.clause.text;
    let Some(units) = measure.clause.parameters.complete_above else { return paid(measure) };
    if !groups.covers {
        return Err(Refusal::new(
            Reason::Parameter,
            "complete_above",
            format!(
                "a unit counts in {} groups at most here, so that a group may lose some of its units before they are counted",
                groups.groups
            ),
            "the release without groups= and total=, and MAX ROWS of its table declared",
        ));
    }
    let beta = failure(measure);
    let mut measure = measure.clone();
    let parameters = &measure.clause.parameters;
    let stated = parameters.epsilon.is_some() || parameters.rho.is_some();
    let unit = if parameters.rho.is_some() { CostUnit::Rho } else { CostUnit::Epsilon };
    if stated {
        let at_its_cost = paid(&measure)?;
        if shows(&at_its_cost, units, &beta) {
            return Ok(at_its_cost);
        }
    } else {
        // A release that is refused at an ordinary cost, for more than its noise, is refused at
        // any.
        measure.clause.parameters.epsilon = Epsilon::new(Rational::one()).ok();
        paid(&measure).map_or_else(
            |refusal| if refusal.reason() == Reason::TooNoisy { Ok(()) } else { Err(refusal) },
            |_| Ok(()),
        )?;
    }
    let cost = least_cost(unit, |cost| {
        unit.state(cost, &mut measure.clause.parameters);
        paid(&measure).is_ok_and(|all| shows(&all, units, &beta))
    });
    let Some(cost) = cost else {
        let least = groups.least.max(2);
        return Err(Refusal::new(
            Reason::TooNoisy,
            text,
            format!("no cost lets every group of {units} units come out"),
            format!("complete_above={least} or more, or a lower confidence"),
        ));
    };
    unit.state(cost, &mut measure.clause.parameters);
    paid(&measure)
}
