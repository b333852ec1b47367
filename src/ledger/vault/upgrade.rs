//! Upgrades a vault from an older format, in one transaction.
//!
//! In: the file of an older program. Out: the same file in the present format, with every entry of its ledger unchanged
//! to the byte, and the same hash at the end of its chain. If the upgrade fails or is interrupted, the file is as before.
//! The upgraded vault is verified by the present rules before the commit.
//!
//! A change of the tables raises [`VERSION`], keeps the tables of the format before it in `upgrade/format_N.sql`, and adds
//! a vault of the program before it to the tests. `upgrade/format_N.rs` checks such a vault, and adds what it lacks once
//! its rows are in the present tables, where a new column has its default.
//!
//! ```text
//! format 4 to 9, sound, at home? ─▶ rows aside, tables anew, rows back ─▶ chain, seals, budgets verified ─▶ COMMIT
//! ```

mod format_4;
mod format_5;
mod format_6;
mod format_7;
mod format_8;
mod format_9;
mod sealed;

use std::path::Path;

use rusqlite::Connection;

use crate::catalog::store;
use crate::ledger::charging::charge;
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::anchor::Anchor;
use crate::ledger::file::{home, schema};
use crate::ledger::records::analyst;
use crate::ledger::vault::Vault;
use crate::ledger::version::VERSION;

/// Whether the owner declares that the vault has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// It must be at home, if its format stores a home.
    No,
    /// Its present place becomes its home.
    Yes,
}

/// An older format, and the data that was read before the rows move.
enum Older {
    Four(Vec<format_4::Budget>),
    /// Format 5, 6 or 7.
    Homed,
    Eight(Vec<format_8::Replayed>),
    Nine,
}

impl Older {
    /// The format of a vault, after a check of everything that the format promised about its tables and budgets.
    fn checked(connection: &Connection, path: &str) -> Result<Self, Fault> {
        match schema::format(connection, path)? {
            format_4::FORMAT => Ok(Self::Four(format_4::check(connection, path)?)),
            format_5::FORMAT => format_5::check(connection, path).map(|()| Self::Homed),
            format_6::FORMAT => format_6::check(connection, path).map(|()| Self::Homed),
            format_7::FORMAT => format_7::check(connection, path).map(|()| Self::Homed),
            format_8::FORMAT => Ok(Self::Eight(format_8::check(connection, path)?)),
            format_9::FORMAT => format_9::check(connection, path).map(|()| Self::Nine),
            found => {
                Err(VaultError::Version { path: path.to_owned(), found, known: VERSION }.into())
            }
        }
    }
}

impl Vault {
    /// Upgrades a vault to the format of this program, unless it has this format already, and opens it.
    ///
    /// # Guarantee
    /// Spent amounts do not change, the entries of the ledger keep their bytes and their hashes, and the anchor, if one is
    /// given, remains valid. The upgrade is one transaction: after a crash the file is either as before or upgraded.
    ///
    /// # Errors
    /// [`VaultError::Version`] for a format that is too old, or newer than this program; [`VaultError::Corrupt`] if the
    /// vault is not sound; and the errors of [`Vault::open_anchored`]. A vault of format 4 has no home, and gets this place
    /// as one.
    pub fn upgrade(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let path = path.as_ref();
        let held = anchor.as_ref().map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
        Self::carry_over(path, held.as_ref(), Moved::No)?;
        match anchor {
            Some(anchor) => Self::open_anchored(path, anchor),
            None => Self::open(path),
        }
    }

    /// Upgrades a vault of an older format, and leaves one of the present format unchanged.
    ///
    /// # Errors
    /// As [`Vault::upgrade`]; an error changes nothing.
    pub(super) fn carry_over(
        path: &Path,
        anchor: Option<&Anchor>,
        moved: Moved,
    ) -> Result<(), VaultError> {
        let Some(vault) = Self::of_older_format(path)? else { return Ok(()) };
        let home = vault.home()?;
        let (home, shown) = (home.as_ref(), vault.path().to_owned());
        vault.transact_anywhere(|connection, witness| {
            let older = Older::checked(connection, &shown)?;
            carry_rows_over(connection)?;
            let settle = || match moved {
                Moved::No => home::check(connection, home, anchor.is_some(), &shown),
                Moved::Yes => home::adopt(connection, home, anchor.is_some(), &shown),
            };
            *witness = match older {
                Older::Four(budgets) => {
                    format_4::complete(connection, budgets, home, anchor.is_some())?
                }
                Older::Homed => {
                    settle()?;
                    format_5::complete(connection)?
                }
                Older::Eight(replayed) => {
                    settle()?;
                    format_8::complete(connection, &replayed)?
                }
                Older::Nine => {
                    settle()?;
                    format_9::complete(connection)?
                }
            };
            analyst::all(connection)?;
            let catalog = store::load(connection)?;
            charge::accounts(connection, witness, &catalog)?;
            anchor.iter().try_for_each(|anchor| anchor.check(connection, &shown))
        })
    }
}

/// Turns the tables of an older format into the present ones; the caller holds the transaction. A new column takes its
/// default. Checkpoints are not carried over: they follow from the ledger, and those of older formats lack numbers of entries. Nor
/// are tables that are no more: the rows of those were read before.
fn carry_rows_over(connection: &Connection) -> Result<(), Fault> {
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
    let known = names(connection, "SELECT name FROM main.sqlite_schema WHERE type = 'table'")?;
    for table in tables.iter().filter(|table| *table != "checkpoint" && known.contains(table)) {
        let kept = names(
            connection,
            &format!(
                "SELECT old.name FROM pragma_table_info('carried_{table}', 'temp') old
                 JOIN pragma_table_info('{table}', 'main') new ON new.name = old.name
                 ORDER BY old.cid"
            ),
        )?;
        let kept = kept.join(", ");
        // Keep the order: the ledger grows only at its end.
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
