//! The contribution bounds of a measure: how many groups and rows a privacy unit contributes, and
//! refusals if nothing bounds them.

use crate::analysis::below::unit::UnitScope;
use crate::analysis::measure::grid::too_large;
use crate::analysis::measure::input::AggregateRead;
use crate::analysis::measure::sensitivity::{ContributionBounds, of_sums};
use crate::analysis::measure::{ReleaseKind, weight};
use crate::dialect::Parameters;
use crate::refusal::{Reason, Refusal};

/// The enforced bounds of a unit's contribution, from the unit, the parameters and the number of
/// groups.
///
/// # Errors
/// Refuses a measure that needs a bound that is not given.
pub(crate) fn limits(
    subject: &UnitScope,
    parameters: &Parameters,
    read: &AggregateRead,
    keys: usize,
    is_score: bool,
    text: &str,
) -> Result<ContributionBounds, Refusal> {
    if let (true, Some(rows)) = (subject.is_row(), subject.max_rows()) {
        let groups = rows.min(u64::try_from(keys).unwrap_or(u64::MAX)).max(1);
        return Ok(ContributionBounds { total: Some(rows), per_partition: rows, l0: Some(groups) });
    }
    let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    let total = least(subject.max_rows(), parameters.total_rows);
    let rows = if read.once_per_group() { Some(1) } else { least(parameters.rows, total) };
    let Some(per_partition) = rows else {
        return Err(unbounded(text, "rows of a unit", "rows=m"));
    };
    let groups = least(parameters.groups, total);
    let groups = if keys == 1 { Some(1) } else { least(groups, None) };
    let groups = groups.map(|c| c.min(u64::try_from(keys).unwrap_or(u64::MAX)));
    if groups.is_none() && !is_score {
        return Err(unbounded(text, "groups a unit is in", "groups=C"));
    }
    Ok(ContributionBounds { total, per_partition, l0: groups })
}

pub(crate) fn unbounded(text: &str, what: &str, parameter: &str) -> Refusal {
    Refusal::new(
        Reason::NoContributionBound,
        text,
        format!("nothing bounds the {what}, so one person could change the answer by any amount"),
        format!(
            "{parameter} or total=M among the mechanism's parameters, max_rows_contributed or max_groups_contributed in OPTIONS, or declare the unit with MAX ROWS n"
        ),
    )
}

/// The sensitivity of a numeric release.
pub(crate) fn number(
    read: &AggregateRead,
    limits: &ContributionBounds,
    text: &str,
) -> Result<ReleaseKind, Refusal> {
    let weight = weight(&read.input, read.lo, read.hi).ok_or_else(|| too_large(text))?;
    if weight == 0 {
        let hint = "COUNT(*), because a constant needs no other aggregate";
        return Err(Refusal::new(Reason::Operand, text, format!("{text} sums a constant"), hint));
    }
    of_sums(limits, weight).map(ReleaseKind::Number).ok_or_else(|| too_large(text))
}
