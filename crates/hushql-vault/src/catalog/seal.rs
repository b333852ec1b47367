//! The seals of rows: a digest over all rows of one kind, written with every change and checked
//! with every read.
//!
//! In: a digest of rows. Out: the row of `seal`, or an error if the rows differ from it.
//!
//! ```text
//! seal('budgets') = SHA-256 of all budgets     a revived row, an altered limit → "the budgets are not what was declared"
//! ```

use rusqlite::{Connection, OptionalExtension, params};

use super::CatalogError;

/// Rows that share one seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealedRows {
    /// Declared tables.
    Tables,
    /// Budgets as declared, without the spent amounts.
    Budgets,
    /// The names of analysts.
    Analysts,
    /// The last hash of the ledger's chain.
    Ledger,
    /// The last hash of the history of declarations.
    History,
    /// The home of the vault: the location where it may be opened.
    Home,
    /// Stored answers, and who may read them.
    Answers,
    /// The roles that may log in.
    Roles,
    /// The numbers of the last declarations of tables.
    Versions,
    /// What roles may ask about.
    Grants,
}

impl SealedRows {
    /// Its name in the table of seals, and the error text if the rows differ from the seal.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Tables => ("tables", "the declared tables are not what was declared"),
            Self::Budgets => ("budgets", "the budgets are not what was declared"),
            Self::Analysts => ("analysts", "the list of analysts is not what was written"),
            Self::Ledger => ("ledger", "the end of the ledger is missing"),
            Self::History => ("history", "the end of the history of declarations is missing"),
            Self::Home => ("home", "its home is not what was written"),
            Self::Answers => ("answers", "the stored answers are not what was stored"),
            Self::Roles => ("roles", "the roles are not what was declared"),
            Self::Versions => ("versions", "the versions of tables are not what was declared"),
            Self::Grants => ("grants", "the grants are not what was declared"),
        }
    }

    fn name(self) -> &'static str {
        self.words().0
    }

    pub(super) fn damage(self) -> CatalogError {
        CatalogError::Damaged(self.words().1)
    }
}

/// The stored seal of these rows.
pub(crate) fn seal(connection: &Connection, kind: SealedRows) -> Result<[u8; 32], CatalogError> {
    let mut statement = connection.prepare_cached("SELECT digest FROM seal WHERE kind = ?1")?;
    statement.query_row([kind.name()], |row| row.get(0)).optional()?.ok_or_else(|| kind.damage())
}

/// Stores the seal of these rows.
pub(crate) fn set_seal(
    connection: &Connection,
    kind: SealedRows,
    digest: [u8; 32],
) -> Result<(), CatalogError> {
    connection
        .prepare_cached("INSERT INTO seal (kind, digest) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET digest = excluded.digest")?
        .execute(params![kind.name(), digest])?;
    Ok(())
}

/// Checks rows that were read against their seal.
pub(crate) fn check_seal(
    connection: &Connection,
    kind: SealedRows,
    digest: [u8; 32],
) -> Result<(), CatalogError> {
    if seal(connection, kind)? == digest { Ok(()) } else { Err(kind.damage()) }
}
