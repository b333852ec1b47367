//! Format 4: its tables, the seals of its catalog, and budgets that each kept the unit space that they bind.
//!
//! In: the connection to a vault that may be of this format. Out: its budgets, for which everything that format 4 promised
//! has been checked: the tables are those of the format, the file is sound, and the catalog is what was sealed.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::catalog::store::{Fields, Kind, check_seal};
use crate::ledger::chain::Witness;
use crate::ledger::error::Fault;
use crate::ledger::schema;
use crate::privacy::{Notion, Spend};

/// The tables of format 4.
const TABLES: &str = include_str!("format_4.sql");

/// A budget, as far as later formats keep it otherwise.
#[derive(Debug)]
pub(super) struct Budget {
    table: String,
    space: String,
    spent: Spend,
}

/// The budgets of a vault of format 4.
///
/// # Errors
/// What [`schema::check_format`] refuses with, and [`Fault::Damage`] where the catalog is not what was declared.
pub(super) fn budgets(connection: &Connection, path: &str) -> Result<Vec<Budget>, Fault> {
    // Somebody else may have carried it over since it was looked at.
    schema::check_format(connection, path, crate::ledger::version::OLDEST, TABLES)?;
    let mut tables = Fields::new("hushql tables 1");
    let mut statement =
        connection.prepare("SELECT name, body FROM declared_table ORDER BY name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        tables.text(&row.get::<_, String>(0)?);
        tables.text(&row.get::<_, String>(1)?);
    }
    check_seal(connection, Kind::Tables, tables.digest())?;

    let mut sealed = Fields::new("hushql budgets 2");
    let mut statement = connection.prepare(
        "SELECT name, table_name, space, notion, promised_epsilon, promised_delta, limit_loss,
             limit_delta, floor_loss, floor_delta, default_epsilon, default_rho, default_delta,
             max_loss, max_delta, spent_loss, spent_delta
         FROM budget ORDER BY name",
    )?;
    let mut rows = statement.query([])?;
    let mut budgets = Vec::new();
    while let Some(row) = rows.next()? {
        for text in 0..4 {
            sealed.text(&row.get::<_, String>(text)?);
        }
        for amount in 4..15 {
            sealed.optional(row.get(amount)?);
        }
        let notion = [Notion::Approximate, Notion::Concentrated];
        let written: String = row.get("notion")?;
        let notion = notion.into_iter().find(|notion| notion.name() == written);
        let unknown = || Fault::Damage("a budget counts in nothing that is known".to_owned());
        budgets.push(Budget {
            table: row.get("table_name")?,
            space: row.get("space")?,
            spent: Spend {
                notion: notion.ok_or_else(unknown)?,
                nano: row.get("spent_loss")?,
                atto_delta: row.get("spent_delta")?,
            },
        });
    }
    check_seal(connection, Kind::Budgets, sealed.digest())?;
    Ok(budgets)
}

/// Refuses budgets that disagree with the ledger, as format 4 compared them: by the space that each of them kept.
pub(super) fn agree(witness: &Witness, budgets: &[Budget]) -> Result<(), Fault> {
    for Budget { space, spent, .. } in budgets {
        let charged = witness.spent(&BTreeSet::from([space.clone()]))?;
        if charged.within(spent.notion) != Some(*spent) {
            return Err(Fault::Damage("a budget disagrees with the ledger".to_owned()));
        }
    }
    Ok(())
}

/// For each budget its table, and the space that it was charged in.
pub(super) fn spaces(budgets: Vec<Budget>) -> Vec<(String, String)> {
    budgets.into_iter().map(|budget| (budget.table, budget.space)).collect()
}
