//! `ROLLUP (…) CONSISTENT`: finds the releases that belong to one tree.
//!
//! In: the private aggregates of a query. Out: for each release that is written with CONSISTENT,
//! its sets as the levels of a tree of groups. Sets whose numbers are not sums of one another are
//! refused. The result follows from the query, the declarations and public keys.
//!
//! ```text
//! ROLLUP (region, state) CONSISTENT      levels: (), (region), (region, state)
//! ```
//!
//! A group must consist of the groups below it: every row has a listed key, and each bound leaves
//! out the same rows in every set.

use std::collections::{BTreeMap, HashMap};

use arrow::array::ArrayRef;
use arrow::error::ArrowError;
use arrow::row::{OwnedRow, RowConverter, SortField};

use crate::analysis::keys::KeySpace;
use crate::analysis::keys::coverage::Coverage;
use crate::analysis::measure::{Input, Measure, ReleaseKind};
use crate::analysis::not_analyzed::{NotAnalyzed, lost};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::dialect::Consistent;
use crate::dialect::aggregate::argument_of;
use crate::hierarchy::Tree;
use crate::refusal::{Reason, Refusal};

/// The releases of one aggregate in all sets of a ROLLUP.
#[derive(Debug)]
pub struct Hierarchy {
    pub(crate) shape: Consistent,
    /// The private aggregate and the measure of each level. The level with the largest groups is
    /// first.
    pub(crate) levels: Vec<(usize, usize)>,
    /// The groups, in the order of the released rows.
    pub(crate) tree: Tree,
}

impl Hierarchy {
    /// The last of its private aggregates to run. All its numbers are known only after it.
    pub(crate) fn last(&self) -> usize {
        self.levels.iter().map(|level| level.0).max().unwrap_or(0)
    }

    /// True if a value that reads these private aggregates is needed before their numbers are
    /// known.
    pub(crate) fn is_needed_early(&self, before: usize, read: &[usize]) -> bool {
        before <= self.last() && self.levels.iter().any(|(part, _)| read.contains(part))
    }
}

/// The hierarchies of a query.
///
/// # Errors
/// Refuses sets whose numbers are not sums of one another.
pub(crate) fn hierarchies(parts: &[PrivateAggregate]) -> Result<Vec<Hierarchy>, NotAnalyzed> {
    let mut together: BTreeMap<usize, (Consistent, Vec<(usize, usize)>)> = BTreeMap::new();
    for (p, part) in parts.iter().enumerate() {
        for (m, measure) in part.measures().iter().enumerate() {
            if let Some(shape) = measure.clause.consistent {
                adds_up(part, measure)?;
                let (_, levels) = together.entry(shape.of).or_insert_with(|| (shape, Vec::new()));
                levels.push((p, m));
            }
        }
    }
    let mut found = Vec::with_capacity(together.len());
    for (shape, mut levels) in together.into_values() {
        levels.sort_by_key(|(part, _)| parts.get(*part).map_or(0, |part| part.key_names().len()));
        let tree = tree(parts, &levels)?;
        found.push(Hierarchy { shape, levels, tree });
    }
    Ok(found)
}

/// Refuses a release whose numbers in one set are not the sums of the numbers in a finer set.
fn adds_up(part: &PrivateAggregate, measure: &Measure) -> Result<(), Refusal> {
    let text = measure.clause.text.as_str();
    // If the engine found the bound, the text says so after the written clause.
    let text = text.split_once(", released at ").map_or(text, |(written, _)| written);
    let keys = part.key_names().join(", ");
    let refused = |reason, clause: &str, message: String, hint: String| {
        Err(Refusal::new(reason, clause, message, hint))
    };
    if part.unknown_partitions().is_some() {
        return refused(
            Reason::UnknownKeys,
            &keys,
            format!("CONSISTENT adds up all groups, but groups of ({keys}) with few units would stay hidden"),
            "declared keys: a column with a domain, or KEYS ('a', 'b') behind the key; or ROLLUP (…) without CONSISTENT"
                .to_owned(),
        );
    }
    if measure.clause.finding.is_some() {
        return refused(
            Reason::NoRange,
            text,
            format!("{text} has no range, and the sets of CONSISTENT need the same one"),
            format!(
                "CLAMP({0}, lo, hi) in place of {0}, or the domain of its column: ALTER TABLE … ALTER COLUMN … SET PRIVACY DOMAIN BETWEEN (lo, hi)",
                argument_of(text)
            ),
        );
    }
    let sums = matches!(measure.input, Input::Rows | Input::Values(_) | Input::Sum(_));
    let number = matches!(measure.release_kind, ReleaseKind::Number(_));
    if !sums || !number {
        return refused(
            Reason::Parameter,
            text,
            "contribution_bounds_per_group bounds a unit's sum in each group, so that a group is not the sum of smaller ones".to_owned(),
            "contribution_bounds_per_row => (lo, hi), or ROLLUP (…) without CONSISTENT".to_owned(),
        );
    }
    if measure.ladder.is_some() {
        return refused(
            Reason::Parameter,
            "rows=auto",
            "each set would choose its own bound, and cut rows that another set keeps".to_owned(),
            "LAPLACE(eps=1) and MAX ROWS where the unit is declared, or ROLLUP (…) without CONSISTENT".to_owned(),
        );
    }
    same_rows(part, measure)
}

/// Refuses bounds that leave out a unit's rows in one set and keep them in another.
fn same_rows(part: &PrivateAggregate, measure: &Measure) -> Result<(), Refusal> {
    let limits = &measure.limits;
    let groups = u64::try_from(part.keys().outer().len()).unwrap_or(u64::MAX);
    let keeps = |total: u64| {
        part.subject().max_rows().is_some_and(|most| total >= most)
            && limits.per_partition >= total
            && limits.l0.is_some_and(|l0| l0 >= total.min(groups))
    };
    if part.subject().is_row() || limits.total.is_some_and(keeps) {
        return Ok(());
    }
    let asked = &measure.clause.parameters;
    let named: Vec<&str> = [
        ("rows", asked.rows.is_some()),
        ("groups", asked.groups.is_some()),
        ("total", asked.total_rows.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, is_named)| is_named.then_some(name))
    .collect();
    let named = named.join(", ");
    let clause = if named.is_empty() { &measure.clause.text } else { &named };
    Err(Refusal::new(
        Reason::Parameter,
        clause,
        "such a bound leaves out different rows of a unit in each set, so that a group is not the sum of smaller ones",
        "the release without rows, groups and total, over a unit that is declared with MAX ROWS; or ROLLUP (…) without CONSISTENT",
    ))
}

/// The groups of all levels as a tree.
fn tree(parts: &[PrivateAggregate], levels: &[(usize, usize)]) -> Result<Tree, NotAnalyzed> {
    let parts: Option<Vec<&PrivateAggregate>> =
        levels.iter().map(|(part, _)| parts.get(*part)).collect();
    let parts = parts.ok_or_else(lost)?;
    let mut above = Vec::with_capacity(levels.len());
    for pair in parts.windows(2) {
        let [upper, lower] = pair else { continue };
        let keys = &upper.aggregate.group_expr;
        let own = &lower.aggregate.group_expr;
        let places: Option<Vec<usize>> =
            keys.iter().map(|key| own.iter().position(|own| own == key)).collect();
        let places = places.ok_or_else(lost)?;
        for (i, name) in lower.key_names().iter().enumerate() {
            if !places.contains(&i) && lower.coverage.get(i) != Some(&Coverage::All) {
                return Err(incomplete(name).into());
            }
        }
        let found = places_above(upper.keys().outer(), lower.keys().outer(), &places);
        above.push(found.map_err(|_| lost())?.ok_or_else(|| {
            let name = lower.key_names().join(", ");
            NotAnalyzed::from(incomplete(&name))
        })?);
    }
    let roots = parts.first().map_or(0, |part| part.keys().outer().len());
    Tree::new(roots, above).ok_or_else(lost)
}

fn incomplete(key: &str) -> Refusal {
    Refusal::new(
        Reason::Operator,
        key,
        format!(
            "rows whose {key} is NULL or not among the keys belong to a larger group and to none below it, so that its number is more than their sum"
        ),
        format!(
            "WHERE {key} IS NOT NULL, without KEYS for {key} or with all of its values; or NULL in its domain: SET PRIVACY DOMAIN IN ('a', 'b', NULL), or BETWEEN (lo, hi) OR NULL"
        ),
    )
}

/// For each lower group, the index of the upper group with its keys; `None` if a lower group has no
/// upper one. `places` are the positions of the upper keys among the lower group's keys.
fn places_above(
    upper: &KeySpace,
    lower: &KeySpace,
    places: &[usize],
) -> Result<Option<Vec<usize>>, ArrowError> {
    if places.is_empty() {
        return Ok((upper.len() == 1).then(|| vec![0; lower.len()]));
    }
    let columns: Option<Vec<ArrayRef>> =
        places.iter().map(|place| lower.columns().get(*place).cloned()).collect();
    let Some(columns) = columns else { return Ok(None) };
    let fields = upper.columns().iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let rows = converter.convert_columns(upper.columns())?;
    let at: HashMap<OwnedRow, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.owned(), at)).collect();
    let own = converter.convert_columns(&columns)?;
    Ok(own.iter().map(|row| at.get(&row.owned()).copied()).collect())
}
