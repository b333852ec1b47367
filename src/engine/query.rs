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

use datafusion::execution::SessionState;
use tokio::runtime::Handle;

use super::plan::{Planned, Ready};
use super::visit::at_vault;
use crate::answer::{Answer, Receipt};
use crate::catalog::Table;
use crate::dialect::QueryStatement;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::{self, Prepared};
use crate::guard;
use crate::ledger::{Charge, ChargeEntry, ChargeRequest, VaultError};
use crate::resources::Clock;

/// How often a query is planned while declarations are made.
pub(super) const PLANS: usize = 8;

/// A query that is paid for, or costs nothing, and waits to run.
struct Paid {
    planned: Planned,
    prepared: Prepared,
    charge: Option<Charge>,
}

impl Session {
    /// The life of a query, from its statement to its answer; `text` is how it was written, `quoted` what its asker was
    /// quoted, if anything was.
    ///
    /// # Guarantee
    /// One state of the declarations is planned with and charged: where they change in between, the query is planned
    /// again. What leaves was read of tables that are public still, or was released.
    pub(super) async fn answer(
        &self,
        query: QueryStatement,
        text: &str,
        quoted: Option<&[ChargeEntry]>,
        clock: &Clock,
    ) -> Result<Answer, Error> {
        let state = self.state(clock);
        let mut paid = Err(VaultError::Redeclared.into());
        for _ in 0..PLANS {
            paid = self.paid(query.clone(), text, quoted, clock, &state).await;
            if !paid.as_ref().is_err_and(Error::is_redeclared) {
                break;
            }
        }
        let Paid { planned, prepared, charge } = paid?;
        let most_rows = self.inner.resources.rows;
        let is_charged = charge.is_some();
        let run = async {
            let (rows, charge) = match exec::run(prepared, charge, &state, most_rows).await {
                Ok(ran) => ran,
                // A query that reads no private row may say that the ledger it reads is damaged.
                Err(error) if !is_charged => {
                    return exec::vault_error(&error).map(|e| Err(e.into()));
                }
                Err(_) => return None,
            };
            // What was claimed is of other rows where somebody wrote into a file since: nothing of it is told.
            planned.open.is_unchanged().then_some(())?;
            let receipt = charge
                .map(|charge| Receipt { spent: charge.spend(), left: charge.left().to_vec() });
            Some(Ok(match &planned.proposal {
                Some(proposal) => {
                    let (range, note) = proposal.answer(&rows).ok()?;
                    Answer::proposed(range, note, receipt)
                }
                None => Answer::new(rows, &planned.release, receipt),
            }))
        };
        // A panic on some row, an overrun or a failed read would each tell about the rows: one error for all.
        let run = clock.limit(guard::poll(run));
        let answer = run.await.flatten().flatten().unwrap_or(Err(Error::Execution));
        // That it failed would tell too.
        self.still_public(&planned, is_charged)?;
        answer
    }

    /// A query up to its charge: nothing has been read of a private table, nor is anything handed out.
    async fn paid(
        &self,
        query: QueryStatement,
        text: &str,
        quoted: Option<&[ChargeEntry]>,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<Paid, Error> {
        let (session, planning) = (self.clone(), state.clone());
        let runtime = Handle::try_current().ok();
        let ready = clock.aside(move || session.ready(query, &planning, runtime)).await?;
        let Ready { planned, request, prepared } = ready;
        clock.check()?;
        let due = request.as_ref().map_or(&[][..], |request| request.entries.as_slice());
        if quoted.is_some_and(|quoted| quoted != due) {
            return Err(Error::catalog(
                "the declarations have changed since this query was prepared, and it would release something else now; nothing was charged: prepare it again",
            ));
        }
        let statement = text.trim().to_owned();
        let charge = match request {
            Some(request) => {
                let request = ChargeRequest { statement, ..request };
                let vault = &self.inner.vault;
                Some(at_vault(vault, move |vault| vault.charge(&request)).await?)
            }
            None => None,
        };
        Ok(Paid { planned, prepared, charge })
    }

    /// Does `work` on the plan of a query, and again where the declarations changed meanwhile.
    pub(super) fn with_plan<T>(
        &self,
        query: &QueryStatement,
        state: &SessionState,
        work: impl Fn(Planned) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut done = Err(VaultError::Redeclared.into());
        for _ in 0..PLANS {
            done = self.plan(query.clone(), state).and_then(&work);
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
        let now = self.inner.vault.catalog().map_err(|error| match is_charged {
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
}
