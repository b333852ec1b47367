//! Format 4: its tables, the seals of its catalog, and its budgets, each of which stored its unit domain.
//!
//! In: a connection to a vault that may have this format. Out: its budgets, after a check of everything that format 4
//! promised: the tables are those of the format, the file is sound, and the catalog matches its seals. Once the rows are
//! in the present tables, [`complete`] adds what the format lacked.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::sealed::{Slices, check_budgets};
use crate::catalog::describe;
use crate::catalog::store::{self, Fields, Kind, check_seal};
use crate::ledger::charging::moves;
use crate::ledger::error::Fault;
use crate::ledger::file::home::{self, Home};
use crate::ledger::file::schema;
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::{answers, history, roles};
use crate::privacy::{Notion, Spend};

/// The number of this format.
pub(super) const FORMAT: i64 = 4;

/// The tables of format 4.
const TABLES: &str = include_str!("format_4.sql");

/// The parts of a budget that later formats store differently.
#[derive(Debug)]
pub(super) struct Budget {
    table: String,
    unit_domain: String,
    spent: Spend,
}

/// The budgets of a vault of format 4.
///
/// # Errors
/// Those of [`schema::check_format`], and [`Fault::Damage`] if the catalog is not as declared.
pub(super) fn check(connection: &Connection, path: &str) -> Result<Vec<Budget>, Fault> {
    // Another program may have upgraded the vault in the meantime.
    schema::check_format(connection, path, FORMAT, TABLES)?;
    let mut tables = Fields::new("hushql tables 1");
    let mut statement =
        connection.prepare("SELECT name, body FROM declared_table ORDER BY name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        tables.text(&row.get::<_, String>(0)?);
        tables.text(&row.get::<_, String>(1)?);
    }
    check_seal(connection, Kind::Tables, tables.digest())?;

    check_budgets(
        connection,
        "hushql budgets 2",
        &["name", "table_name", "space", "notion"],
        "promised_epsilon, promised_delta, limit_loss, limit_delta, floor_loss, floor_delta,
             default_epsilon, default_rho, default_delta, max_loss, max_delta",
        Slices::Unknown,
    )?;
    let mut statement = connection
        .prepare("SELECT table_name, space, notion, spent_loss, spent_delta FROM budget")?;
    let mut rows = statement.query([])?;
    let mut budgets = Vec::new();
    while let Some(row) = rows.next()? {
        let notion = [Notion::Approximate, Notion::Concentrated];
        let written: String = row.get("notion")?;
        let notion = notion.into_iter().find(|notion| notion.name() == written);
        let unknown = || Fault::Damage("a budget counts in nothing that is known".to_owned());
        budgets.push(Budget {
            table: row.get("table_name")?,
            unit_domain: row.get("space")?,
            spent: Spend {
                notion: notion.ok_or_else(unknown)?,
                nano: row.get("spent_loss")?,
                atto_delta: row.get("spent_delta")?,
            },
        });
    }
    Ok(budgets)
}

/// Creates what format 4 lacked: checkpoints, a home, a history that begins with the present declarations, and budgets
/// that follow the people of their tables.
///
/// # Errors
/// [`Fault::Damage`] if the chain or a budget was altered.
pub(super) fn complete(
    connection: &Connection,
    budgets: Vec<Budget>,
    home: Option<&Home>,
    anchored: bool,
) -> Result<Witness, Fault> {
    store::reseal(connection)?;
    history::initialise(connection)?;
    home::initialise(connection)?;
    if let Some(home) = home {
        home::set(connection, home, anchored)?;
    }
    answers::initialise(connection)?;
    roles::initialise(connection)?;
    let witness = Witness::with_new_checkpoints(connection)?;
    agree(&witness, &budgets)?;
    moves::carried_over(connection, &witness, &unit_domains(budgets))?;
    let catalog = store::load(connection)?;
    let first = describe::changes(&BTreeMap::new(), &describe::texts(&catalog));
    history::append(connection, OWNER, first)?;
    Ok(witness)
}

/// Refuses budgets that disagree with the ledger, as format 4 compared them: by the unit domain that each stored.
fn agree(witness: &Witness, budgets: &[Budget]) -> Result<(), Fault> {
    for Budget { unit_domain, spent, .. } in budgets {
        let charged = witness.sum_by(&BTreeSet::from([unit_domain.clone()]), |_| true)?.cost;
        if charged.within(spent.notion) != Some(*spent) {
            return Err(Fault::Damage("a budget disagrees with the ledger".to_owned()));
        }
    }
    Ok(())
}

/// The table of each budget, and the unit domain in which it was charged.
fn unit_domains(budgets: Vec<Budget>) -> Vec<(String, String)> {
    budgets.into_iter().map(|budget| (budget.table, budget.unit_domain)).collect()
}
