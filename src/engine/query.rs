//! The life of a query, on one state of the declarations.
//!
//! In: a statement. Out: an answer that was planned, charged and read while the same was declared. The charge compares
//! the declarations in its own transaction; where they have changed, the query is planned again. What was read of public
//! tables leaves only if they are public still, for that takes no charge.
//!
//! ```text
//! plan (declarations v1) → charge, v1? ─ yes → run → public tables as in v1? → answer
//!          ▲──────────────── no, v2 ─┘                └─ no → withheld
//! ```

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::unplanned::unplanned;
use super::{Inner, Session, remaining_tables};
use crate::analysis::Lookups;
use crate::answer::{Answer, Receipt};
use crate::bind::Bound;
use crate::catalog::{Catalog, Table};
use crate::dialect::QueryStatement;
use crate::error::Error;
use crate::exec::{self, Prepared, files};
use crate::guard;
use crate::ledger::{Charge, VaultError};
use crate::range::Proposal;
use crate::release::Release;
use crate::resources::Timer;

/// How often a query is planned while declarations are made.
const PLANS: usize = 8;

/// A query that is planned, and what it was planned with.
pub(super) struct Planned {
    pub(super) release: Release,
    /// Where a range is asked for.
    pub(super) proposal: Option<Proposal>,
    /// The public tables that were read while it was planned.
    pub(super) looked_up: Vec<String>,
    pub(super) catalog: Arc<Catalog>,
}

impl Planned {
    /// Every public table whose rows the query reads, or its plan has read.
    fn public_tables(&self) -> impl Iterator<Item = &Table> {
        let parts = self.release.analysis().parts().iter().flat_map(|part| part.public());
        let named = parts.chain(&self.looked_up).filter_map(|name| self.catalog.table(name));
        remaining_tables(self.release.analysis(), &self.catalog).chain(named)
    }
}

/// A query that is paid for, or costs nothing, and waits to run.
struct Paid {
    planned: Planned,
    prepared: Prepared,
    charge: Option<Charge>,
    timer: Timer,
}

impl Session {
    /// The life of a query, from its statement to its answer.
    ///
    /// # Guarantee
    /// One state of the declarations is planned with and charged: where they change in between, the query is planned
    /// again. What leaves was read of tables that are public still, or was released.
    pub(super) async fn answer(&self, query: QueryStatement) -> Result<Answer, Error> {
        let mut paid = Err(VaultError::Redeclared.into());
        for _ in 0..PLANS {
            paid = self.paid(query.clone()).await;
            if !paid.as_ref().is_err_and(Error::is_redeclared) {
                break;
            }
        }
        let Paid { planned, prepared, charge, timer } = paid?;
        let Inner { state, resources, .. } = &*self.engine.inner;
        let is_charged = charge.is_some();
        let run = async {
            let (rows, charge) = exec::run(prepared, charge, state, resources.rows).await.ok()?;
            let receipt = charge
                .map(|charge| Receipt { spent: charge.spend(), left: charge.left().to_vec() });
            Some(match &planned.proposal {
                Some(proposal) => {
                    Answer::proposed(proposal.answer(&rows).ok()?, proposal.rule(), receipt)
                }
                None => Answer::new(rows, &planned.release, receipt),
            })
        };
        // A panic on some row, an overrun or a failed read would each tell about the rows: one error for all.
        let run = timer.limit(guard::poll(run));
        let answer = run.await.flatten().flatten().ok_or(Error::Execution);
        // That it failed would tell too.
        self.still_public(&planned, is_charged)?;
        answer
    }

    /// A query up to its charge: nothing has been read of a private table, nor is anything handed out.
    async fn paid(&self, query: QueryStatement) -> Result<Paid, Error> {
        let Inner { state, resources, .. } = &*self.engine.inner;
        let planned = self.plan(query)?;
        let request = self.request(&planned)?;
        if let Some((request, _)) = &request {
            self.engine.inner.vault.quote(request)?;
        }
        self.check_files(&planned)?;
        let prepared = exec::prepare(&planned.release, state)
            .await
            .map_err(|error| unplanned(&planned.release, &error))?;
        let timer = resources.timer();
        let charge = match &request {
            Some((request, _)) => Some(self.engine.inner.vault.charge(request)?),
            None => None,
        };
        Ok(Paid { planned, prepared, charge, timer })
    }

    /// Does `work` on the plan of a query, and again where the declarations changed meanwhile.
    pub(super) fn with_plan<T>(
        &self,
        query: &QueryStatement,
        work: impl Fn(Planned) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut done = Err(VaultError::Redeclared.into());
        for _ in 0..PLANS {
            done = self.plan(query.clone()).and_then(&work);
            if !done.as_ref().is_err_and(Error::is_redeclared) {
                break;
            }
        }
        done
    }

    /// Withholds what was read of tables as public ones that are not public any more, or not the same.
    fn still_public(&self, planned: &Planned, is_charged: bool) -> Result<(), Error> {
        let mut read = planned.public_tables().peekable();
        if read.peek().is_none() {
            return Ok(());
        }
        let charged = if is_charged { "; what was charged stays charged" } else { "" };
        let now = self.engine.inner.vault.catalog().map_err(|error| match is_charged {
            true => Error::Execution,
            false => error.into(),
        })?;
        if now.version().is(&planned.catalog.version()) {
            return Ok(());
        }
        let is_same = |table: &Table| {
            let now = now.table(&table.name);
            now.is_some_and(|now| now.is_public() && now.source == table.source)
        };
        match read.find(|table| !is_same(table)) {
            None => Ok(()),
            Some(table) => Err(Error::catalog(format!(
                "the table {} was declared anew while it was read as a public one, so this answer is withheld{charged}",
                table.name
            ))),
        }
    }

    /// Stages 2 to 4, on one state of the declarations.
    ///
    /// # Guarantee
    /// Public tables that were read for the plan (keys, priors, how often a join multiplies) were public when they had
    /// been read: what the plan or a refusal says of their values may be said.
    pub(super) fn plan(&self, query: QueryStatement) -> Result<Planned, Error> {
        let catalog = self.engine.inner.vault.catalog()?;
        let planned = self.plan_with(query, Arc::clone(&catalog));
        match self.engine.inner.vault.catalog()?.version().is(&catalog.version()) {
            true => planned,
            false => Err(VaultError::Redeclared.into()),
        }
    }

    /// The public tables that clauses name, read before the analysis, and their names.
    pub(super) fn look_up(
        &self,
        bound: &Bound,
        catalog: &Catalog,
    ) -> Result<(Lookups, Vec<String>), Error> {
        let (mut lookups, mut names) = (Lookups::default(), Vec::new());
        for lookup in Lookups::needed(bound.releases(), catalog)? {
            let table = catalog.table(&lookup.table).ok_or(Error::Internal)?;
            let values = self.read_public(table, &lookup.columns)?;
            names.push(lookup.table.clone());
            lookups.insert(lookup, values);
        }
        Ok((lookups, names))
    }

    fn read_public(&self, table: &Table, columns: &[String]) -> Result<Vec<ArrayRef>, Error> {
        files::check(table)?;
        let provider = self.engine.inner.provider(table).ok_or(Error::Internal)?;
        exec::columns_of_public(provider, columns, &self.engine.inner.state)
            .map_err(|_| Error::catalog(format!("`{}` cannot be read", table.name)))
    }
}
