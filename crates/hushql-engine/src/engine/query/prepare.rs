//! Stage 5 of a query: physical plans.
//!
//! In: a [`Due`] query. Out: a [`Ready`] one, whose plans were checked against its release. If a
//! file differs from its declaration, this stage refuses the query before anything is charged.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::SessionState;
use tokio::runtime::{Builder, Handle};

use super::choose::Planned;
use super::request::Due;
use crate::engine::planning_errors::unplanned;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::{self, Prepared};
use crate::ledger::{ChargeEntry, REFINED};
use crate::privacy::Cost;

/// A query that is ready to be charged; only [`Session::prepare_plans`] makes one.
pub(crate) struct Ready {
    due: Due,
    prepared: Prepared,
}

/// What a query was quoted: its columns, its cost, its releases, and whose budgets pay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quote {
    pub(crate) schema: SchemaRef,
    pub(crate) cost: Cost,
    entries: Vec<ChargeEntry>,
    unit_domains: Vec<String>,
}

impl Ready {
    /// What the query would be quoted now.
    pub(crate) fn quoted(&self) -> Quote {
        let schema = match self.due.planned().proposal() {
            Some(proposal) => Arc::new(proposal.schema()),
            None => self.prepared.schema(),
        };
        let (entries, unit_domains) = match self.due.request() {
            Some(request) => (request.entries.clone(), request.unit_domains.clone()),
            None => Default::default(),
        };
        Quote { schema, cost: self.due.cost(), entries, unit_domains }
    }

    /// Whether it has the quoted columns and keeps the quote. An answer that is shown again is
    /// free, whatever was quoted. Then the other releases of a shared vector are charged for
    /// themselves, and cost no more than all of them together. A number that is built on a draw
    /// that was kept since costs less than was quoted.
    pub(crate) fn keeps(&self, quoted: &Quote) -> bool {
        let own = self.quoted();
        let release = self.due.planned().release();
        if release.replayed_charges().is_empty() && release.refined_numbers().is_empty() {
            return own == *quoted;
        }
        let mut all = quoted.entries.iter();
        let is_quoted = |own: &ChargeEntry| {
            all.any(|quoted| {
                let ChargeEntry { mechanism, parameters, sensitivity, cells, .. } = quoted;
                let is_same = *mechanism == own.mechanism
                    || (mechanism == "LAPLACE" && own.mechanism == REFINED);
                is_same
                    && (parameters, sensitivity, cells)
                        == (&own.parameters, &own.sensitivity, &own.cells)
            })
        };
        own.schema == quoted.schema
            && own.entries.iter().all(is_quoted)
            && own.cost.beyond(quoted.cost).is_none()
            && own.unit_domains.iter().all(|domain| quoted.unit_domains.contains(domain))
    }

    /// The query with these headings for its columns, if there are any.
    pub(crate) fn under(self, headings: &[Option<String>]) -> Self {
        Self { prepared: self.prepared.under(headings), ..self }
    }

    /// The query with its request to the ledger.
    pub(crate) fn due(&self) -> &Due {
        &self.due
    }

    pub(super) fn into_parts(self) -> (Due, Prepared) {
        (self.due, self.prepared)
    }
}

impl Session {
    /// Makes executable plans. This may block, on `runtime` or on a new runtime.
    pub(crate) fn prepare_plans(
        &self,
        due: Due,
        state: &SessionState,
        runtime: Option<Handle>,
    ) -> Result<Ready, Error> {
        let prepared = self.prepared_plans(due.planned(), state, runtime);
        let prepared = prepared.map_err(|error| due.planned().told(error))?;
        self.inner.resources.check_memory(prepared.memory())?;
        Ok(Ready { due, prepared })
    }

    fn prepared_plans(
        &self,
        planned: &Planned,
        state: &SessionState,
        runtime: Option<Handle>,
    ) -> Result<Prepared, Error> {
        check_files(planned, self.is_owner())?;
        let release = planned.release();
        let preparing = Box::pin(exec::prepare(release, state));
        let prepared = match runtime {
            Some(runtime) => runtime.block_on(preparing),
            None => {
                let runtime = Builder::new_current_thread().enable_all().build();
                runtime.map_err(|_| Error::Internal)?.block_on(preparing)
            }
        };
        prepared.map_err(|error| unplanned(release, &error))
    }
}

/// Refuses a file that differs from the declared one.
fn check_files(planned: &Planned, is_owner: bool) -> Result<(), Error> {
    let (catalog, open) = (planned.catalog(), planned.open());
    for part in planned.release().analysis().parts() {
        for name in part.subject().tables() {
            open.check_for(catalog.table(name).ok_or(Error::Internal)?, is_owner)?;
        }
        // The file may be gone since planning read it.
        for table in part.public().iter().filter_map(|name| catalog.table(name)) {
            open.check(table)?;
        }
    }
    for table in planned.remaining_tables() {
        open.check_for(table, is_owner)?;
    }
    Ok(())
}
