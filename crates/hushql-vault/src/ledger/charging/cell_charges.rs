//! Charges to single cells of people, and new beginnings of cells.
//!
//! In: the entries of a request, with the cells that the analysis proves. Out: for each touched
//! cell, the requested amount and the spent amount. Only the charged cells must have enough left:
//! an exhausted cell does not stop the others.
//!
//! ```text
//! limit ε = 2      all: ½     Oslo: 1     Rome: 0
//! asked 1 of Rome      ½ + 0 + 1 ≤ 2      charged
//! asked 1 of Oslo      ½ + 1 + 1 > 2      refused: region 'Oslo' has ε = 0.5 left
//! asked 1 of all       Oslo has too little left: refused
//! ```
//!
//! Every declaration that touches a table of these people, or their partition, gives their cells a
//! new beginning after the newest entry of the ledger, because someone may be in another cell from
//! then on. The hash of an entry covers the beginning of its cells, so the chain proves which
//! amounts were merged.

use std::collections::{BTreeMap, BTreeSet};

use hushql_privacy::privacy::{Cost, ParameterError, Spend};
use rusqlite::Connection;

use crate::catalog::cell::Partition;
use crate::catalog::cells::{Cells, set};
use crate::catalog::store::{self, Fields};
use crate::catalog::{Budget, Catalog, Cell, Fingerprint, Source, Table, Touched};
use crate::ledger::error::Fault;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::sums::{CellOfPeople, EntrySum};

/// A cell that a charge touches, or all cells, with the amount requested there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Landing {
    /// The cell; `None` for all cells.
    pub(crate) cell: Option<Cell>,
    /// The requested amount.
    pub(crate) asked: EntrySum,
}

/// The cells to which alone the entries of a request are charged, if they are cells of the present
/// declarations.
///
/// # Guarantee
/// `Some` only for known cells of the present beginning, of the only unit domain that the statement
/// reads.
pub(crate) fn narrowed(
    catalog: &Catalog,
    unit_domains: &BTreeSet<&String>,
    touched: Option<&Touched>,
) -> Option<Touched> {
    let touched = touched?;
    let mut names = unit_domains.iter();
    let (Some(unit_domain), None) = (names.next(), names.next()) else { return None };
    let cells = catalog.cells_of(unit_domain)?;
    let is_known = cells.column == touched.column
        && cells.since == touched.since
        && !touched.cells.is_empty()
        && touched.cells.is_subset(&cells.all());
    is_known.then(|| touched.clone())
}

/// The places that entries of these costs touch: each touched cell, with the total requested there,
/// and all cells, if one of the entries requests all.
///
/// # Errors
/// [`ParameterError::Overflow`].
pub(crate) fn landings(
    entries: &[(Option<Touched>, Cost)],
) -> Result<Vec<Landing>, ParameterError> {
    let sum = |is_meant: &dyn Fn(&Option<Touched>) -> bool| {
        let costs = entries.iter().filter(|(touched, _)| is_meant(touched));
        costs.map(|(_, cost)| EntrySum::of(*cost)).try_fold(EntrySum::default(), EntrySum::plus)
    };
    let cells: BTreeSet<&Cell> =
        entries.iter().filter_map(|(touched, _)| touched.as_ref()).flat_map(|t| &t.cells).collect();
    let mut landings = Vec::with_capacity(cells.len().saturating_add(1));
    for cell in cells {
        let here = |touched: &Option<Touched>| {
            touched.as_ref().is_none_or(|touched| touched.cells.contains(cell))
        };
        landings.push(Landing { cell: Some(cell.clone()), asked: sum(&here)? });
    }
    if entries.iter().any(|(touched, _)| touched.is_none()) {
        landings.push(Landing { cell: None, asked: sum(&|touched| touched.is_none())? });
    }
    Ok(landings)
}

/// The amount spent of a budget where a charge lands, by everyone or by these analysts.
///
/// # Errors
/// [`Fault::Damage`] if the budget cannot count the earlier charges.
pub(crate) fn spent_at(
    budget: &Budget,
    witness: &Witness,
    people: &BTreeSet<String>,
    is_meant: impl Fn(&str) -> bool,
    place: Option<CellOfPeople<'_>>,
) -> Result<Spend, Fault> {
    let EntrySum { cost, tally } = match place {
        Some(place) => witness.sum_at(people, is_meant, place)?,
        None => witness.sum_by(people, is_meant)?,
    };
    let damage = || Fault::Damage("a budget disagrees with the ledger".to_owned());
    budget.counted(cost, tally).ok_or_else(damage)
}

/// A cell of these people.
pub(crate) fn place<'a>(cells: &Cells<'a>, cell: &'a Cell) -> CellOfPeople<'a> {
    CellOfPeople { unit_domain: &cells.table.name, since: cells.since, cell }
}

/// Refuses cells that begin before charges to later cells: amounts that were already merged would
/// become available again.
///
/// # Errors
/// [`Fault::Damage`].
pub(crate) fn check_beginning(witness: &Witness, cells: Option<Cells<'_>>) -> Result<(), Fault> {
    let Some(cells) = cells else { return Ok(()) };
    let is_folded = |newest: i64| newest > cells.since;
    if witness.newest_beginning(&cells.table.name).is_some_and(is_folded)
        || cells.since > witness.mark().sequence
    {
        return Err(Fault::Damage("the cells of a budget do not begin in its ledger".to_owned()));
    }
    Ok(())
}

/// For each budget with a partition, a digest of everything that determines the cell of a person.
pub(crate) type Decided = BTreeMap<String, [u8; 32]>;

/// Everything that determines the cell of a person, under the present declarations; of a `grown`
/// table whose cells are months, everything but which files it has.
pub(crate) fn decided(catalog: &Catalog, grown: Option<&str>) -> Decided {
    let mut decided = Decided::new();
    for budget in catalog.budgets().filter(|budget| catalog.partition(&budget.name).is_some()) {
        let people = catalog.people(catalog.unit_domain_of(budget));
        let mut fields = Fields::new("hushql cells 1");
        people.iter().for_each(|name| fields.text(name));
        let is_theirs = |name: &str| {
            people.contains(name) || catalog.unit_domain(name).is_some_and(|d| people.contains(d))
        };
        let theirs = catalog.tables().filter(|table| is_theirs(&table.name));
        let mut names: BTreeSet<String> = people.clone();
        let has_grown = |table: &Table| {
            grown == Some(table.name.as_str()) && table.unit().is_some_and(|u| u.month().is_some())
        };
        let mut same = BTreeSet::new();
        for table in theirs {
            let mut table = table.clone();
            if has_grown(&table) {
                same.insert(table.name.clone());
                if let Source::File { fingerprint: Some(held), .. } = &mut table.source {
                    *held = Fingerprint { over_lines: held.over_lines, ..no_file() };
                }
            }
            names.insert(table.name.clone());
            // A declaration always serializes; the type requires a value.
            fields.text(&serde_json::to_string(&table).unwrap_or_default());
        }
        for name in names {
            fields.text(&name);
            if !same.contains(&name) {
                fields.integer(catalog.numbers().of(&name));
            }
        }
        for other in catalog.budgets_of(catalog.unit_domain_of(budget)) {
            if let Some(Partition { table, column, .. }) = catalog.partition(&other.name) {
                [&other.name, table, column].into_iter().for_each(|text| fields.text(text));
            }
        }
        decided.insert(budget.name.clone(), fields.digest());
    }
    decided
}

/// The fingerprint of any file.
fn no_file() -> Fingerprint {
    Fingerprint {
        size: 0,
        modified_nanos: 0,
        changed_nanos: None,
        device: None,
        inode: 0,
        sha256: String::new(),
        files: None,
        over_lines: false,
    }
}

/// Gives a new beginning to cells whose people may have moved to other cells. The caller holds the
/// write lock and is about to commit.
///
/// # Guarantee
/// After `Ok`, every partition whose tables, column, domain or people a declaration has touched
/// begins after the newest entry of the ledger; except that the months of the `grown` table go on
/// if nothing else about it has changed.
pub(crate) fn begin_anew(
    connection: &Connection,
    witness: &mut Witness,
    before: &Decided,
    grown: Option<&str>,
) -> Result<(), Fault> {
    let catalog = store::load(connection)?;
    let now = decided(&catalog, grown);
    for (budget, digest) in &now {
        let Some(partition) = catalog.partition(budget) else { continue };
        if before.get(budget) == Some(digest) {
            continue;
        }
        witness.advance(connection)?;
        let since = witness.mark().sequence;
        set(connection, budget, &Partition { since, ..partition.clone() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_land_in_the_cells_that_they_touch() {
        let cost = |epsilon: i64| Cost::from_amounts(Some((epsilon, 0)), (0, 0));
        let of = |cells: &[&str]| {
            let cells = cells.iter().map(|cell| Cell::Value((*cell).to_owned())).collect();
            Some(Touched { column: "region".to_owned(), since: 0, cells })
        };
        let landed = |entries: &[(Option<Touched>, Cost)]| -> Vec<(String, i64)> {
            let landings = landings(entries).unwrap().into_iter();
            let text = |cell: Option<Cell>| cell.map_or("all".to_owned(), |cell| cell.to_string());
            landings.map(|l| (text(l.cell), l.asked.cost.amounts()[0].unwrap())).collect()
        };
        let is = |expected: &[(&str, i64)]| -> Vec<(String, i64)> {
            expected.iter().map(|(cell, epsilon)| ((*cell).to_owned(), *epsilon)).collect()
        };
        assert_eq!(landed(&[(None, cost(1)), (None, cost(2))]), is(&[("all", 3)]));
        assert_eq!(
            landed(&[(of(&["a"]), cost(1)), (of(&["a", "b"]), cost(2))]),
            is(&[("'a'", 3), ("'b'", 2)])
        );
        assert_eq!(
            landed(&[(of(&["a"]), cost(1)), (None, cost(4))]),
            is(&[("'a'", 5), ("all", 4)])
        );
    }
}
