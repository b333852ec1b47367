//! Carrying a vault over from an older format, in one transaction.
//!
//! In: the file of an older program. Out: the same file in today's format, with every entry of its ledger as it was, to the
//! byte, and the same hash at the end of its chain; or, whenever it fails or is interrupted, the file as it was. What is
//! carried over is verified by today's rules before the transaction is committed.
//!
//! A change of the tables raises [`VERSION`], keeps the tables of the format before it in `upgrade/format_N.sql`, and adds
//! to the tests a vault that the program before it has made. `upgrade/format_N.rs` says how such a vault is checked, and
//! what it lacks once its rows are in today's tables, in which a column that is new has its default.
//!
//! ```text
//! format 4 or 5, sound, at home? ─▶ rows aside, tables anew, rows back ─▶ chain, seals, budgets verified ─▶ COMMIT
//! ```

mod format_4;
mod format_5;
mod sealed;

use std::path::Path;

use rusqlite::Connection;

use super::anchor::Anchor;
use super::error::{Fault, VaultError};
use super::vault::Vault;
use super::version::VERSION;
use super::{analyst, charge, home, schema};
use crate::catalog::store;

/// Whether the owner says that the vault has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// It has to be at home, where its format knows of a home.
    No,
    /// The place where it is becomes its home.
    Yes,
}

/// An older format, and what was read of it before its rows are carried over.
enum Older {
    Four(Vec<format_4::Budget>),
    Five,
}

impl Older {
    /// The format of a vault, for which everything has been checked that the format promised of its tables and budgets.
    fn checked(connection: &Connection, path: &str) -> Result<Self, Fault> {
        match schema::format(connection, path)? {
            format_4::FORMAT => Ok(Self::Four(format_4::check(connection, path)?)),
            format_5::FORMAT => format_5::check(connection, path).map(|()| Self::Five),
            found => {
                Err(VaultError::Version { path: path.to_owned(), found, known: VERSION }.into())
            }
        }
    }
}

impl Vault {
    /// Carries a vault over to the format of this program, and opens it; one that has this format already is opened.
    ///
    /// # Guarantee
    /// What was spent is what it was, the entries of the ledger keep their bytes and their hashes, and the anchor, if
    /// one is given, stays valid. One transaction: after a crash the file is as before, or carried over.
    ///
    /// # Errors
    /// [`VaultError::Version`] for a format that is too old, or newer than this program; [`VaultError::Corrupt`]
    /// when the vault is not sound; and what [`Vault::open_anchored`] refuses with. A vault of format 4 knows no home, and
    /// gets this place as one.
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

    /// Carries a vault of an older format over, and leaves one of today's as it is.
    ///
    /// # Errors
    /// As [`Vault::upgrade`]; nothing has changed then.
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
            *witness = match older {
                Older::Four(budgets) => {
                    format_4::complete(connection, budgets, home, anchor.is_some())?
                }
                Older::Five => {
                    match moved {
                        Moved::No => home::check(connection, home, anchor.is_some(), &shown)?,
                        Moved::Yes => home::adopt(connection, home, anchor.is_some(), &shown)?,
                    }
                    format_5::complete(connection)?
                }
            };
            analyst::all(connection)?;
            let catalog = store::load(connection)?;
            charge::accounts(connection, witness, &catalog)?;
            anchor.iter().try_for_each(|anchor| anchor.check(connection, &shown))
        })
    }
}

/// Makes the tables of today out of those of an older format; the caller holds the transaction. A column that an older
/// format did not have takes its default.
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
