//! Carrying a vault over from an older format, in one transaction.
//!
//! In: the file of an older program. Out: the same file in today's format, with every entry of its ledger as it was, to the
//! byte, and the same hash at the end of its chain; or, whenever it fails or is interrupted, the file as it was. What is
//! carried over is verified by today's rules before the transaction is committed.
//!
//! A change of the tables raises [`VERSION`](crate::ledger::version::VERSION), keeps the tables of the format before it in
//! `upgrade/format_N.sql`, and adds to the tests a vault that the program before it has made.
//!
//! ```text
//! is it a vault of format 4? ─▶ rows aside, tables anew, rows back ─▶ chain, seals, budgets verified ─▶ COMMIT
//! ```

mod format_4;

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::anchor::Anchor;
use super::chain::Witness;
use super::error::{Fault, VaultError};
use super::vault::Vault;
use super::{charge, history, home, moves, schema};
use crate::catalog::{describe, store};
use crate::ledger::analyst::OWNER;

impl Vault {
    /// Carries a vault over to the format of this program, and opens it; one that has this format already is opened.
    ///
    /// # Guarantee
    /// What was spent is what it was, the entries of the ledger keep their bytes and their hashes, and the anchor, if
    /// one is given, stays valid. One transaction: after a crash the file is as before, or carried over.
    ///
    /// # Errors
    /// [`VaultError::Version`] for a format that is too old, or newer than this program; [`VaultError::Corrupt`]
    /// when the vault is not sound; and what [`Vault::open_anchored`] refuses with.
    pub fn upgrade(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let path = path.as_ref();
        let held = anchor.as_ref().map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
        if let Some(vault) = Self::of_older_format(path)? {
            let home = vault.home()?;
            let shown = vault.path().to_owned();
            vault.transact_anywhere(|connection, witness| {
                let budgets = format_4::budgets(connection, &shown)?;
                carry_over(connection)?;
                store::reseal(connection)?;
                history::initialise(connection)?;
                home::initialise(connection)?;
                if let Some(home) = &home {
                    home::set(connection, home, held.is_some())?;
                }
                *witness = Witness::with_new_checkpoints(connection)?;
                super::analyst::all(connection)?;
                format_4::agree(witness, &budgets)?;
                moves::carried_over(connection, witness, &format_4::spaces(budgets))?;
                let catalog = store::load(connection)?;
                charge::accounts(connection, witness, &catalog)?;
                let first = describe::changes(&BTreeMap::new(), &describe::texts(&catalog));
                history::append(connection, OWNER, first)?;
                held.iter().try_for_each(|anchor| anchor.check(connection, &shown))
            })?;
        }
        match anchor {
            Some(anchor) => Self::open_anchored(path, anchor),
            None => Self::open(path),
        }
    }
}

/// Makes the tables of today out of those of an older format; the caller holds the transaction.
fn carry_over(connection: &Connection) -> Result<(), Fault> {
    let tables = names(
        connection,
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name",
    )?;
    for table in &tables {
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE carried_{table} AS SELECT * FROM main.{table};
             DROP TABLE main.{table};"
        ))?;
    }
    schema::create(connection)?;
    for table in &tables {
        let kept = names(
            connection,
            &format!(
                "SELECT old.name FROM pragma_table_info('carried_{table}', 'temp') old
                 JOIN pragma_table_info('{table}', 'main') new ON new.name = old.name
                 ORDER BY old.cid"
            ),
        )?;
        let kept = kept.join(", ");
        // In order: the ledger grows at its end only.
        connection.execute_batch(&format!(
            "INSERT INTO main.{table} ({kept}) SELECT {kept} FROM temp.carried_{table} ORDER BY 1;
             DROP TABLE temp.carried_{table};"
        ))?;
    }
    Ok(())
}

fn names(connection: &Connection, query: &str) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare(query)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}
