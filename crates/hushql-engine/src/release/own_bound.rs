//! The release that chooses the bound of a unit's rows itself, in place of one under a given bound.
//!
//! In: a measure and its mechanism. Out: the release with `rows=auto`, as it would be written, and
//! the number of rows of one unit that the present noise covers. Both follow from the query and the
//! declarations alone.
//!
//! ```text
//! LAPLACE(eps=1) COUNT(*), MAX ROWS 20     LAPLACE(eps=1, rows=auto) count(*), 20
//! ```

use super::mechanism::{Mechanism, Mechanized};
use crate::analysis::{Ladder, Measure, PrivateAggregate, proposed};
use crate::dialect::Operand;
use crate::privacy::Epsilon;

/// The least number of rows of a unit for which the advice is given: the choice takes up to two
/// fifths of ε, so that under few rows little is gained.
const FEWEST_ROWS: u64 = 5;

/// The release with `rows=auto`, and the rows of a unit that the noise covers now. `None` if these
/// are few, or if the release cannot choose a bound.
pub(crate) fn with_own_bound(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<(String, u64)> {
    let clause = &measure.clause;
    let Operand::Aggregate(call) = &clause.operand else { return None };
    let is_noisy = matches!(mechanized.mechanism, Mechanism::Laplace(_) | Mechanism::Gaussian(_));
    // Under a floor of people, no release chooses a bound.
    let known = part.people_floor().is_none()
        && part.unknown_partitions().is_none()
        && part.sets().is_none()
        && !part.subject().is_row();
    let groups = part.keys().all().len();
    let limits = &measure.limits;
    let by_groups = limits.l0.map(|groups| groups.saturating_mul(limits.per_partition));
    let rows = [by_groups, limits.total].into_iter().flatten().min()?;
    let is_own = clause.finding.is_none() && clause.grouping.is_none() && measure.ladder.is_none();
    if !is_noisy || !known || !is_own || rows < FEWEST_ROWS || !Ladder::any_fits(groups) {
        return None;
    }
    let mut priced = clause.clone();
    if priced.parameters.epsilon.is_none() && priced.parameters.rho.is_none() {
        priced.parameters.epsilon = Some(Epsilon::new(mechanized.loss.epsilon()?.clone()).ok()?);
    }
    Some((proposed(&priced, call, groups)?, rows))
}
