//! Stage 6 of a query: the charge.
//!
//! In: a [`Ready`] query. Out: a [`Paid`] one: its charge is on disk, or it costs nothing. So far no stage has read a
//! private table.

use super::choose::Planned;
use super::prepare::{Quote, Ready};
use crate::engine::session::Session;
use crate::engine::visit::at_vault;
use crate::error::Error;
use crate::exec::Prepared;
use crate::ledger::{Charge, ChargeRequest};

/// A query that is paid for or free, and ready to run; only [`Session::charge`] makes one.
pub(crate) struct Paid {
    planned: Planned,
    prepared: Prepared,
    charge: Option<Charge>,
}

impl Paid {
    /// The planned query.
    pub(super) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Whether something was charged.
    pub(super) fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    pub(super) fn into_parts(self) -> (Planned, Prepared, Option<Charge>) {
        (self.planned, self.prepared, self.charge)
    }
}

impl Session {
    /// Charges a query if its cost and entries are the ones that were `quoted`. `text` is its original text, for the ledger.
    ///
    /// # Errors
    /// The vault's own. One of them: the declarations differ from those that the query was planned with.
    pub(crate) async fn charge(
        &self,
        ready: Ready,
        text: &str,
        quoted: Option<&Quote>,
    ) -> Result<Paid, Error> {
        if quoted.is_some_and(|quoted| *quoted != ready.quoted()) {
            return Err(Error::catalog(
                "the declarations have changed since this query was prepared: its columns, its cost or its releases would be others now; nothing was charged: prepare it again",
            ));
        }
        let (due, prepared) = ready.into_parts();
        let (planned, request) = due.into_parts();
        let charge = match request {
            Some(request) => {
                let request = ChargeRequest { statement: text.trim().to_owned(), ..request };
                Some(at_vault(&self.inner.vault, move |vault| vault.charge(&request)).await?)
            }
            None => None,
        };
        Ok(Paid { planned, prepared, charge })
    }
}
