//! The life of a query: every stage is one call, in order.
//!
//! In: a text. Out: an answer. Each stage takes the type that only the stage before it makes, so
//! that none can be left out. Each stage has a file below this one.
//!
//! ```text
//! 1 parse ─▶ 2 bind ─▶ 3 analyze ─▶ 4 choose ─▶ what is due ─▶ 5 prepare ─▶ 6 charge ─▶ 7 run ─▶ 8 answer
//! Statement  BoundQuery  Analyzed     Planned      Due           Ready        Paid        Ran      Answer
//!            ▲                                                                   │
//!            └────────────── the declarations changed: plan it again ────────────┘
//! ```
//!
//! Stages 2 to 6 see one state of the declarations: the charge compares them in its own
//! transaction, and if they changed, the query is planned again. Rows of public tables leave the
//! engine only if these tables are still public, because no charge covers them. Stages 1 to 5 read
//! no row of a private table; `EXPLAIN`, `cost` and `prepare` end with them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::SessionState;
use futures::Stream;
use futures::stream::try_unfold;
use tokio::runtime::Handle;

use charge::Paid;
use choose::Planned;
use declared::DeclaredState;
use prepare::{Quote, Ready};
use refine::Builds;
use request::{Due, PaidBefore};
use run::{Ran, ReadAsPublic};

use crate::answer::Answer;
use crate::dialect::{QueryStatement, Statement, no_row, parse_within};
use crate::engine::attempts::Attempts;
use crate::engine::session::Session;
use crate::engine::stream::AnswerStream;
use crate::error::Error;
use crate::exec::Planning;
use crate::guard;
use crate::instance::Inner;
use crate::refusal::Reason;
use crate::resources::Clock;

mod analyze;
mod answer_query;
mod bind_query;
mod cached_answer;
mod charge;
mod charged_cells;
pub(crate) mod choose;
pub(crate) mod declared;
mod domain_values;
mod drift;
mod pivot_lists;
pub(crate) mod prepare;
mod public_row;
pub(crate) mod refine;
pub(crate) mod request;
mod rewritten_query;
mod row_contents;
mod run;
mod schema_probe;
pub(crate) mod synthetic_stages;
pub(crate) mod template_calls;

impl Session {
    /// Stage 1: parses the text of any statement, after a check that the clock is plausible.
    pub(super) fn parse(&self, text: &str) -> Result<Statement, Error> {
        self.inner.vault.check_clock()?;
        let size = self.inner.resources.statement;
        guard::run(|| {
            let text = self.with_pivot_lists(text)?;
            self.allowed(self.named(parse_within(&text, &size)?))
        })
    }

    /// DataFusion's session for planning and running one statement.
    pub(super) fn state(&self, clock: &Clock) -> SessionState {
        let Inner { state, resources, .. } = &*self.inner;
        Planning::new(clock.deadline(), resources.rows_of_a_unit).within(state)
    }

    /// Stages 2 to 4: what a query releases, by which mechanisms, at which cost.
    ///
    /// # Guarantee
    /// Public tables that planning read (keys, priors, how often a join multiplies) were still
    /// public after the read, so the plan or a refusal may mention their values.
    pub(super) fn plan(
        &self,
        query: QueryStatement,
        state: &SessionState,
    ) -> Result<Planned, Error> {
        let (query, declared) = self.with_template(query, self.declared()?, state)?;
        self.planned_over(query, declared, state)
    }

    /// Stages 2 to 4 over this state of the declarations.
    fn planned_over(
        &self,
        query: QueryStatement,
        declared: DeclaredState,
        state: &SessionState,
    ) -> Result<Planned, Error> {
        let no_row = no_row(&query.tree);
        let limited = query.limited.clone();
        let planned = self
            .bind(query, declared.clone())
            .map(|bound| bound.without_rows(no_row).over_domain())
            .and_then(|bound| self.analyze(bound, state))
            .and_then(|analyzed| self.choose(analyzed));
        // A LIMIT cannot stand below a release, so the question is about what its subquery shows.
        if let (Some(limited), Err(Error::Refused(refusal))) = (limited, &planned)
            && refusal.reason() == Reason::Operator
            && refusal.clause() == "LIMIT"
        {
            return self.planned_over(*limited, declared, state);
        }
        match self.still_declared(&declared)? {
            true => planned.map_err(|error| self.told_of_call(error, &declared, state)),
            false => Err(Attempts::redeclared()),
        }
    }

    /// Stages 2 to 4, and the request to the ledger. Releases that were paid for before are shown
    /// again, and numbers that were paid for with a smaller ε are built on those.
    ///
    /// # Guarantee
    /// A query is never refused because a number in it could be built on an earlier draw, and a
    /// query that leaves its cost to the default of a budget not because a part of it was paid for
    /// before: if the rest would cost less than a query may cost, the number, or all of the query,
    /// is drawn and paid for by itself.
    pub(super) fn due(&self, query: &QueryStatement, state: &SessionState) -> Result<Due, Error> {
        let is_too_little = |due: &Result<Due, Error>| match due {
            Ok(due) => self.own_quote(due).is_err_and(|error| error.is_too_little()),
            Err(error) => error.is_too_little(),
        };
        let mut ways = vec![(PaidBefore::Shown, Builds::by_default(self.refines))];
        let mut at = 0;
        loop {
            let (known, builds) = ways.get(at).copied().ok_or(Error::Internal)?;
            at += 1;
            let mut planned = self.plan(query.clone(), state)?;
            let mut to_keep = self.known(&mut planned, known)?;
            if known == PaidBefore::Shown {
                self.refine(&mut planned, &mut to_keep, builds)?;
                if !planned.built_on().is_empty() {
                    ways.push((PaidBefore::Shown, Builds::OnNothing));
                }
                let anew = (PaidBefore::DrawnAnew, Builds::OnNothing);
                if planned.release().shows_part_of_default() && !ways.contains(&anew) {
                    ways.push(anew);
                }
            }
            let due = self.asked(planned, to_keep);
            if at >= ways.len() || !is_too_little(&due) {
                return due;
            }
        }
    }

    /// Stages 2 to 5: everything before the charge. A query that no budget could pay for is refused
    /// before it is prepared. Preparing may wait, on this runtime.
    pub(super) fn ready(
        &self,
        query: &QueryStatement,
        state: &SessionState,
        runtime: Option<Handle>,
    ) -> Result<Ready, Error> {
        let due = self.due(query, state)?;
        self.quote(&due)?;
        Ok(self.prepare_plans(due, state, runtime)?.under(&query.headings))
    }

    /// Stages 2 to 6: a query that is paid for. Planning has its own thread, under the statement's
    /// clock.
    async fn paid(
        &self,
        query: QueryStatement,
        quoted: Option<&Quote>,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<Paid, Error> {
        let (session, planning, text) = (self.clone(), state.clone(), query.text.clone());
        let runtime = Handle::try_current().ok();
        let ready = clock.aside(move || session.ready(&query, &planning, runtime)).await?;
        clock.check()?;
        self.charge(ready, text, quoted).await
    }

    /// Stages 2 to 6, repeated if the declarations change in between. `quoted` is an earlier quote
    /// for this query, if there was one.
    async fn charged(
        &self,
        query: QueryStatement,
        quoted: Option<&Quote>,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<Paid, Error> {
        let mut attempts = Attempts::default();
        loop {
            let paid = self.paid(query.clone(), quoted, clock, state).await;
            if attempts.are_over(&paid) {
                let Err(error) = paid else { return paid };
                let (session, state, text) = (self.clone(), state.clone(), query.text);
                let advised = clock.aside(move || Ok(session.advised(error, &text, &state)));
                return Err(advised.await.unwrap_or_else(|error| error));
            }
        }
    }

    /// Stages 2 to 8: from a statement to its answer.
    ///
    /// # Guarantee
    /// Planning and charging see one state of the declarations: if they change in between, the
    /// query is planned again. Everything that leaves the engine was released, or was read from
    /// tables that are still public.
    pub(super) async fn answer(
        &self,
        query: QueryStatement,
        quoted: Option<&Quote>,
        clock: &Clock,
    ) -> Result<Answer, Error> {
        if let Some(answer) = self.repeated(&query, quoted).await {
            return Ok(answer);
        }
        let state = self.state(clock);
        let paid = self.charged(query.clone(), quoted, clock, &state).await?;
        let followed = self.followed(&paid, &query);
        let read = paid.read_as_public();
        let answered = async { self.run_plans(paid, &state).await?.answer().await };
        let answer = run_within(clock, answered).await;
        // A failure depends on these tables, too, so this comes first.
        self.still_public(&read)?;
        let answer = answer?;
        if let Some(followed) = followed {
            self.keep_answer(followed, &answer).await;
        }
        Ok(answer)
    }

    /// Stages 2 to 8; the last one runs batch by batch.
    ///
    /// # Guarantee
    /// That of [`Session::answer`], for every batch: all draws are made before the first batch
    /// leaves, and before each batch the tables that were read as public ones are checked again.
    pub(super) async fn begin(
        &self,
        query: QueryStatement,
        quoted: Option<&Quote>,
        clock: Clock,
    ) -> Result<AnswerStream, Error> {
        let state = self.state(&clock);
        let paid = self.charged(query, quoted, &clock, &state).await?;
        let read = Arc::new(paid.read_as_public());
        let begun = async {
            let ran = self.run_plans(paid, &state).await?;
            Ok(match ran.is_proposal() {
                true => AnswerStream::done(ran.answer().await?),
                false => {
                    AnswerStream::new(ran.head(), self.batches(ran, read.clone(), clock.clone()))
                }
            })
        };
        let begun = run_within(&clock, begun).await;
        self.still_public(&read)?;
        begun
    }

    /// The rows of a query that ran, computed when they are asked for.
    fn batches(
        &self,
        ran: Ran,
        read: Arc<ReadAsPublic>,
        clock: Clock,
    ) -> impl Stream<Item = Result<RecordBatch, Error>> + Send + 'static {
        let session = self.clone();
        try_unfold((ran, session, read, clock), async |(mut ran, session, read, clock)| {
            let next = match clock.deadline().is_over() {
                true => Err(Error::Execution),
                false => run_within(&clock, ran.next()).await,
            };
            session.told(session.still_public(&read))?;
            let batch = session.told(next)?;
            Ok(batch.map(|rows| (rows.batch, (ran, session, read, clock))))
        })
    }
}

/// Runs work on rows. A panic on a row, a timeout and a failed read all depend on the rows, so they
/// have one error.
async fn run_within<T>(
    clock: &Clock,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    clock.limit(guard::poll(work)).await.flatten().unwrap_or(Err(Error::Execution))
}
