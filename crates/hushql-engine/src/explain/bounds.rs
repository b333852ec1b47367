//! The bounds of a unit's contribution in an explanation: how large they are, where each comes
//! from, where it is enforced, and what it cuts.
//!
//! In: a measure with its enforced [`ContributionBounds`](crate::analysis::Limits), and its private
//! aggregate. Out: lines of an explanation. They describe declarations and the query, never data:
//! how much was cut stays unknown unless someone asks and pays for it.

use super::ladder;
use crate::analysis::{Input, Measure, PrivateAggregate};
use crate::release::bounds_that_cut::{is_of_values, may_cut};

/// The lines about bounds. Empty if every row is a unit.
pub(super) fn bounds_lines(
    part: &PrivateAggregate,
    measure: &Measure,
) -> Vec<(&'static str, String)> {
    if part.subject().is_row() {
        return Vec::new();
    }
    if part.subject().blocks().is_some() {
        let cut = "values of blocks beyond their range: the error below does not count them";
        return vec![("cuts", cut.to_owned())];
    }
    let mut cuts = vec![match &measure.ladder {
        Some(_) => "what a unit has beyond the bound that is chosen",
        None if is_of_values(measure) && may_cut(part, measure) => {
            "a unit's rows beyond these bounds (with more in a group, each row counts by the same share)"
        }
        None => "a unit's rows beyond these bounds",
    }];
    if measure.ladder.is_none() && !part.key_names().is_empty() {
        cuts.push("its further groups");
    }
    let is_ranged = !matches!(
        measure.input,
        Input::Rows | Input::Values(_) | Input::Units | Input::Distinct(_)
    );
    if is_ranged {
        cuts.push("values beyond their range");
    }
    vec![
        ("bounds", bounds_text(part, measure)),
        ("cuts", format!("{}: the error below does not count them", cuts.join(", "))),
    ]
}

fn bounds_text(part: &PrivateAggregate, measure: &Measure) -> String {
    if measure.ladder.is_some() {
        return ladder::bounds_text(measure);
    }
    let limits = &measure.limits;
    let parameters = &measure.clause.parameters;
    let some = |n: u64, one: &str, more: &str, from: Option<&str>| {
        let many = if n == 1 { format!("1 {one}") } else { format!("{n} {more}") };
        from.map_or(many.clone(), |from| format!("{many} ({from})"))
    };
    let (all, group) = if let Input::Distinct(_) = measure.input {
        (("value in all", "values in all"), ("value in a group", "values in a group"))
    } else {
        (("row in all", "rows in all"), ("row in a group", "rows in a group"))
    };
    let declared = if part.subject().max_rows() == Some(1) {
        "one row per unit"
    } else if part.subject().tables().len() > 1 || !part.public().is_empty() {
        "MAX ROWS, through the joins"
    } else {
        "MAX ROWS"
    };
    let in_all = limits.total.map(|n| {
        let asked = parameters.total_rows == Some(n) && part.subject().max_rows() != Some(n);
        // In OPTIONS, the bound has a name of its own.
        let clause = &measure.clause;
        let by_options = clause.grouping.is_some() || clause.finding.is_some();
        let named = if by_options { "max_rows_contributed" } else { "total=" };
        some(n, all.0, all.1, Some(if asked { named } else { declared }))
    });
    let in_group = if measure.once_per_group() {
        "once in a group".to_owned()
    } else {
        let from = match parameters.rows {
            Some(n) if n == limits.per_partition => Some("rows="),
            Some(_) | None => None,
        };
        some(limits.per_partition, group.0, group.1, from)
    };
    let groups = limits.l0.map(|n| {
        let from = match parameters.groups {
            Some(c) if c == n => Some("groups="),
            Some(_) | None if part.key_names().is_empty() => Some("no GROUP BY"),
            Some(_) | None if limits.total == Some(n) => Some("as many as rows"),
            Some(_) | None => None,
        };
        some(n, "group", "groups", from)
    });
    let told: Vec<String> = in_all.into_iter().chain([in_group]).chain(groups).collect();
    format!(
        "per unit {}; enforced on top of its rows, by a keyed hash, before anything is added up",
        told.join(", ")
    )
}
