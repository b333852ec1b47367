//! Stage 6 of a query: the charge.
//!
//! In: a [`Ready`] query. Out: a [`Paid`] one: its charge is on disk, or it costs nothing. Up to
//! here, no stage has read a private table.

use std::sync::Arc;

use super::choose::Planned;
use super::prepare::{Quote, Ready};
use super::request::ToKeep;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::Prepared;
use crate::ledger::{Charge, ChargeRequest, Vault};

/// A query that is paid for or free, and ready to run; only [`Session::charge`] makes one.
pub(crate) struct Paid {
    planned: Planned,
    prepared: Prepared,
    charge: Option<Charge>,
    to_keep: Vec<ToKeep>,
    /// The text of the query.
    text: String,
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

    pub(super) fn into_parts(self) -> (Planned, Prepared, Option<Charge>, Vec<ToKeep>, String) {
        (self.planned, self.prepared, self.charge, self.to_keep, self.text)
    }
}

impl Session {
    /// Charges a query, if its cost and entries are the `quoted` ones. `text` is the query's text,
    /// for the ledger.
    ///
    /// # Errors
    /// The vault's own, for example if the declarations differ from those that the query was
    /// planned with.
    pub(crate) async fn charge(
        &self,
        ready: Ready,
        text: String,
        quoted: Option<&Quote>,
    ) -> Result<Paid, Error> {
        if quoted.is_some_and(|quoted| !ready.keeps(quoted)) {
            return Err(Error::catalog(
                "the declarations have changed since this query was prepared: its columns, its cost or its releases would be different now; nothing was charged: prepare it again",
            ));
        }
        let (due, prepared) = ready.into_parts();
        let (planned, request, to_keep) = due.into_parts();
        // The note is written before the charge. If the declarations change in between, both happen
        // again, and nothing is paid twice.
        let replayed = planned.release().replayed_charges();
        if !replayed.is_empty() {
            let (analyst, text) = (self.analyst.clone(), text.clone());
            let catalog = Arc::clone(planned.catalog());
            let shown = move |vault: &Vault| vault.replayed(&analyst, &text, &replayed, &catalog);
            self.inner.vault.ask(shown).await?;
        }
        let charge = match request {
            Some(request) => {
                let request = ChargeRequest { statement: text.clone(), ..request };
                let charged = self.inner.vault.ask(move |vault| vault.charge(&request)).await;
                Some(charged.map_err(|error| planned.told(Error::from(error)))?)
            }
            None => None,
        };
        Ok(Paid { planned, prepared, charge, to_keep, text })
    }
}
