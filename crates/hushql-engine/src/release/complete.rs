//! `complete_above`: the least cost at which groups with enough units are shown.
//!
//! In: a release that states `complete_above` and the δ of its threshold, and a function that
//! calibrates it at a given cost. Out: the release at the least cost at which a group of that many
//! units comes out with the requested confidence. The cost is a function of the query and the
//! catalog. It assumes that a unit is counted in all of its groups. If bounds may leave out some of
//! them, the release is refused, because no confidence covers units that are not counted.
//!
//! ```text
//! LAPLACE(complete_above=17, delta=1e-6) COUNT(DISTINCT id), one group a unit     ε = 1: τ = 15, and noise is below −2 with 4 %
//! ```

use num_traits::One;

use super::goal::{CostUnit, failure, least_cost};
use crate::analysis::{Measure, UnknownPartitions};
use crate::privacy::{Epsilon, Rational};
use crate::refusal::{Reason, Refusal};

/// The release at the least cost on the ledger's grid at which every group of `complete_above`
/// units comes out. A release without `complete_above` is returned at the cost that it states.
/// `paid` calibrates the release at a cost. `shows` tells whether it is proved that a group of that
/// many units comes out, except with a given probability.
///
/// # Guarantee
/// At the cost that comes out, a group of N units is hidden with a probability of at most β = 1 −
/// `confidence`, if `shows` proves that. The cost is never below the cost that `within` needs. It
/// depends on the query and the catalog alone.
///
/// # Errors
/// A refusal if a unit may not be counted in all of its groups, or if no cost suffices. A release
/// that cannot be calibrated returns its own refusal.
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
        // If a release is refused at an ordinary cost for a reason other than noise, it is refused
        // at every cost.
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
