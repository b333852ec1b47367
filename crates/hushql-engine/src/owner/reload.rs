//! ALTER TABLE … RELOAD: what it verifies again, and what it tells the owner.
//!
//! In: a table, and the declarations before and after. Out: the clause of its unit, and one
//! sentence that names what stays, what ended, and why.
//!
//! ```text
//! ALTER TABLE visits RELOAD   →   table visits is reloaded; its unit, domains and budgets stay. Ended: replays of answers to its earlier rows
//! ```

use std::sync::PoisonError;

use crate::catalog::cell::Partition;
use crate::catalog::{Budget, Catalog, Privacy, Source, Table, Unit, quoted};
use crate::dialect::UnitClause;
use crate::error::Error;
use crate::instance::Inner;
use crate::owner::twins;

/// The clause that declares a unit.
pub(super) fn clause(unit: &Unit) -> UnitClause {
    match unit {
        Unit::Row => UnitClause::Row,
        Unit::Column { column, max_rows, unique } => {
            UnitClause::Column { column: column.clone(), unique: *unique, max_rows: *max_rows }
        }
        Unit::Month { person, date, max_rows } => {
            UnitClause::Month { person: person.clone(), date: date.clone(), max_rows: *max_rows }
        }
        Unit::Present { column, public } => {
            UnitClause::Present { column: column.clone(), public: public.clone() }
        }
        Unit::Via(link) => UnitClause::Via {
            columns: link.columns.clone(),
            table: link.table.clone(),
            references: link.references.clone(),
            max_rows: link.max_rows,
        },
    }
}

/// The tables over the same location that are about other people, as their owner has declared.
/// Tables that have come to hold the same bytes elsewhere are not among them: the owner has to say
/// so.
pub(super) fn other_people(inner: &Inner, catalog: &Catalog, table: &Table) -> Vec<String> {
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    let location = |table: &Table| match &table.source {
        Source::File { location, .. } => Some(location.clone()),
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => None,
    };
    let mut others = twins::other_people(&providers, catalog, table);
    others.retain(|other| catalog.table(other).and_then(location) == location(table));
    others
}

/// Refuses to take the present rows of a table if they are those of another table that is declared
/// otherwise: a public table that has come to hold private rows, or people who would have two
/// budgets.
///
/// # Errors
/// As for the declaration of such a table.
pub(super) fn may_be_read_anew(
    inner: &Inner,
    catalog: &Catalog,
    table: &Table,
) -> Result<(), Error> {
    let others = other_people(inner, catalog, table);
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    match &table.privacy {
        Privacy::Private(unit) => twins::may_be_private(&providers, catalog, table, unit, &others),
        Privacy::Public => twins::may_be_public(&providers, catalog, table),
        Privacy::Undeclared => Ok(()),
    }
}

/// Why a public table could not be declared so now: its rows are private under another name. Files
/// change after they were declared.
pub(super) fn shown_elsewhere(inner: &Inner, catalog: &Catalog, table: &Table) -> Option<String> {
    let providers = inner.registered.read().unwrap_or_else(PoisonError::into_inner);
    if !table.is_public() {
        return None;
    }
    twins::may_be_public(&providers, catalog, table).err().map(|error| error.message())
}

/// What stays, and what ended with the earlier rows.
pub(super) fn told(before: &Catalog, after: &Catalog, table: &str) -> String {
    let mut ended = vec![
        "replays of answers to its earlier rows, because the next ones are about other rows"
            .to_owned(),
    ];
    let are_months = |budget: &Budget| {
        let cells = after.cells_of(after.unit_domain_of(budget));
        cells.is_some_and(|cells| cells.are_months)
    };
    let source = after.table(table).map(|entry| &entry.source);
    let has_folder = matches!(source, Some(Source::File { files: Some(_), .. }));
    let mut months_go_on = false;
    for budget in after.budgets() {
        let since = |catalog: &Catalog| catalog.partition(&budget.name).map(|p| p.since);
        if let Some(Partition { column, since: entry, .. }) = after.partition(&budget.name)
            && since(before) != since(after)
        {
            let why = match are_months(budget) {
                true if has_folder => {
                    "not every earlier file is there under its name and with its bytes"
                }
                true => {
                    "rows of the earlier file are not all unchanged at the beginning of this one"
                }
                false => "people may have moved",
            };
            ended.push(format!(
                "the cells of budget {} by {column}, because {why}: what was charged to one cell up to entry {entry} counts for all",
                budget.name
            ));
        } else if are_months(budget) && after.unit_domain_of(budget) == table {
            months_go_on = true;
        }
    }
    let leading: Vec<String> = after
        .referring(table)
        .map(|other| format!("ALTER TABLE {} RELOAD", quoted(&other.name)))
        .collect();
    let next = match leading.as_slice() {
        [] => String::new(),
        _ => format!("; next, for the tables that lead to it: {}", leading.join("; ")),
    };
    let months = match months_go_on {
        true => {
            " Its earlier rows are unchanged, so each month keeps what was charged to it, and no other."
        }
        false => "",
    };
    format!(
        "table {table} is reloaded: its files are verified again; its unit, domains, budgets and charges stay.{months} Ended: {}{next}",
        ended.join("; ")
    )
}
