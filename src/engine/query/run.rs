//! Stage 7 of a query: the run.
//!
//! In: a [`Paid`] query. Out: a [`Ran`] one: the rows that its plans gave. Every failure has the same sentence, whatever the rows.
//! Afterwards the tables that were read as public ones are looked at once more.

use datafusion::execution::SessionState;

use super::charge::Paid;
use super::choose::Planned;
use crate::answer::Receipt;
use crate::catalog::{CatalogVersion, Table};
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::{self, Rows};

/// A query that has run; only [`Session::run_plans`] makes one.
pub(crate) struct Ran {
    pub(super) planned: Planned,
    pub(super) rows: Rows,
    pub(super) receipt: Option<Receipt>,
}

/// The tables that a query reads as public ones.
pub(crate) struct ReadAsPublic {
    tables: Vec<Table>,
    declared: CatalogVersion,
    is_charged: bool,
}

impl Paid {
    /// The tables that the query reads as public ones, or its plan has read.
    pub(super) fn read_as_public(&self) -> ReadAsPublic {
        let planned = self.planned();
        ReadAsPublic {
            tables: planned.public_tables().cloned().collect(),
            declared: planned.catalog().version(),
            is_charged: self.is_charged(),
        }
    }
}

impl Session {
    /// Runs each private aggregate once, then the public plan over what was released.
    ///
    /// # Errors
    /// [`Error::Execution`]; a query that reads no private row may say that the ledger it reads is damaged.
    pub(crate) async fn run_plans(&self, paid: Paid, state: &SessionState) -> Result<Ran, Error> {
        let is_charged = paid.is_charged();
        let (planned, prepared, charge) = paid.into_parts();
        let most_rows = self.inner.resources.rows;
        let ran = exec::run(prepared, charge, state, most_rows).await;
        let (rows, charge) = ran.map_err(|error| match exec::vault_error(&error) {
            Some(error) if !is_charged => error.into(),
            Some(_) | None => Error::Execution,
        })?;
        // Where somebody wrote into a file since, the claims are of other rows than these: nothing leaves.
        if !planned.open().is_unchanged() {
            return Err(Error::Execution);
        }
        let receipt =
            charge.map(|charge| Receipt { spent: charge.spend(), left: charge.left().to_vec() });
        Ok(Ran { planned, rows, receipt })
    }

    /// Withholds what was read of tables as public ones that are not public any more, or not the same.
    pub(crate) fn still_public(&self, read: &ReadAsPublic) -> Result<(), Error> {
        let ReadAsPublic { tables, declared, is_charged } = read;
        if tables.is_empty() {
            return Ok(());
        }
        let now = self.inner.vault.catalog().map_err(|error| match is_charged {
            true => Error::Execution,
            false => error.into(),
        })?;
        if now.version().is(declared) {
            return Ok(());
        }
        let is_same = |table: &Table| {
            let now = now.table(&table.name);
            now.is_some_and(|now| now.is_public() && now.source == table.source)
        };
        let charged = if *is_charged { "; what was charged stays charged" } else { "" };
        match tables.iter().find(|table| !is_same(table)) {
            None => Ok(()),
            Some(table) => Err(Error::catalog(format!(
                "the table {} was declared anew while it was read as a public one, so this answer is withheld{charged}",
                table.name
            ))),
        }
    }
}
