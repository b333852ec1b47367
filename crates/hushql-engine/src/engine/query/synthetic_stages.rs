//! The life of a synthetic table: the stages of a query, with rows instead of releases.
//!
//! In: a statement. Out: new rows, which are paid for. Each stage takes the type that only the
//! stage before it makes. No private row is read before the charge. After it, only
//! [`exec::read_rows`] sees private rows, and it yields nothing but counts, to which its callers
//! add noise.
//!
//! ```text
//! bind ─▶ private_rows ─▶ synthetic ─▶ due ─▶ prepare_rows ─▶ charge ─▶ read_rows ─▶ Plan::run ─▶ values
//! Bound   PrivateRows     SyntheticRelease    PreparedRows    Charge    CodedRows    Made         MadeRows
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::execution::SessionState;
use num_traits::ToPrimitive;
use tokio::runtime::{Builder, Handle};

use super::bind_query::BoundQuery;
use super::declared::DeclaredState;
use super::run::ReadAsPublic;
use crate::analysis::private_rows::PrivateRows;
use crate::analysis::private_rows::private_rows;
use crate::answer::Receipt;
use crate::catalog::TableRules;
use crate::codes::Codes;
use crate::dialect::SyntheticStatement;
use crate::engine::attempts::Attempts;
use crate::engine::planning_errors::unplanned_rows;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::{self, PlannedTables, PreparedRows, ReadingLimits};
use crate::ledger::{
    BudgetQuote, Charge, ChargeEntry, ChargeRequest, MOST_BYTES_OF_ONE, plan_hash,
};
use crate::privacy::{Cost, Notion};
use crate::refusal::{Reason, Refusal};
use crate::release::synthetic_release::{Limits, SyntheticRelease, synthetic};
use crate::resources::{Clock, Resources};
use crate::sampler::QueryRng;
use crate::synthetic::{Made, Progress};

/// The most bytes that a stored table has besides its rows.
const AROUND: usize = 1 << 17;

/// A planned synthetic table, with its request to the ledger.
#[derive(Debug)]
pub(crate) struct DueRows {
    release: SyntheticRelease,
    declared: DeclaredState,
    request: ChargeRequest,
    cost: Cost,
}

impl DueRows {
    /// What the table measures, and how.
    pub(crate) fn release(&self) -> &SyntheticRelease {
        &self.release
    }

    /// The cost, in the notions of the affected budgets.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// The bytes that counts, models and new rows take. They do not depend on private rows.
    fn memory(&self) -> usize {
        let task = self.release.task();
        let asked = task.rows.and_then(|rows| usize::try_from(rows).ok());
        let rows = asked.map_or(self.most_rows(), |rows| rows.min(self.most_rows()));
        let rows = rows.saturating_mul(task.sizes.len()).saturating_mul(4);
        self.release.plan().bytes().saturating_add(rows)
    }

    /// The rules that bind it, each with its table.
    pub(crate) fn rules(&self) -> Vec<(&str, &TableRules)> {
        self.declared.rules.of_tables(self.release.rows().subject().tables())
    }

    /// The cells of people that it is charged to, in words; empty if the people have no cells.
    pub(crate) fn cells_told(&self) -> Vec<String> {
        cells_told(&self.release, &self.declared)
    }

    /// The most rows that fit into the vault.
    pub(crate) fn most_rows(&self) -> usize {
        most_rows(self.release.rows())
    }
}

/// The sentence about cells. A synthetic table is charged to all cells of its people, because
/// nothing shows that its rows belong to some of them only.
fn cells_told(release: &SyntheticRelease, declared: &DeclaredState) -> Vec<String> {
    let cells = declared.catalog.cells_of(release.rows().subject().unit_domain());
    let column = cells.map(|cells| cells.column);
    let told = |column| {
        format!(
            "charged to all cells of {column}, because its rows are made like those of all of them"
        )
    };
    column.map(told).into_iter().collect()
}

/// The most rows of these columns that fit into the vault.
fn most_rows(rows: &PrivateRows) -> usize {
    let codes = || rows.columns().iter().map(|column| &column.codes);
    let once: usize = codes().map(Codes::bytes_of_list).sum();
    let each: usize = codes().map(Codes::bytes).sum();
    MOST_BYTES_OF_ONE.saturating_sub(AROUND + once) / each.max(1)
}

/// A synthetic table that is ready to be charged.
struct ReadyRows {
    due: DueRows,
    prepared: PreparedRows,
}

/// A synthetic table that is paid for, and whose rows are not made yet.
pub(crate) struct PaidRows {
    release: SyntheticRelease,
    declared: DeclaredState,
    prepared: PreparedRows,
    charge: Charge,
    /// The text of the statement.
    text: String,
    most_rows: usize,
    /// The bytes that counts, models and new rows take.
    memory: usize,
}

/// New rows, with their description. All of this is public.
pub(crate) struct MadeRows {
    pub(crate) release: SyntheticRelease,
    pub(crate) rows: RecordBatch,
    pub(crate) made: Made,
    pub(crate) receipt: Receipt,
    /// Whether there were more rows than fit into the vault.
    pub(crate) is_cut: bool,
}

impl Session {
    /// Stages 2 to 4, and the request to the ledger.
    ///
    /// # Errors
    /// Those of a query, and a refusal of more rows than fit into the vault.
    pub(crate) fn due_rows(
        &self,
        statement: &SyntheticStatement,
        state: &SessionState,
    ) -> Result<DueRows, Error> {
        let declared = self.declared()?;
        let planned = self.planned_rows(statement, &declared, state);
        match self.still_declared(&declared)? {
            true => self.asked_rows(planned?, declared, statement.options.rows),
            false => Err(Attempts::redeclared()),
        }
    }

    fn planned_rows(
        &self,
        statement: &SyntheticStatement,
        declared: &DeclaredState,
        state: &SessionState,
    ) -> Result<SyntheticRelease, Error> {
        let SyntheticStatement { method, options, query, .. } = statement;
        let BoundQuery { bound, sources, views, .. } =
            self.bind(query.clone(), declared.clone())?;
        let catalog = &*declared.catalog;
        let tables = PlannedTables { sources: &sources, catalog, state };
        let rows = private_rows(&bound, catalog, &tables, &options.buckets, options.per_person)
            .map_err(|error| error.said(|refusal| refusal.over_views(&views)))?;
        let most_rows = most_rows(&rows);
        declared
            .rules
            .check_rows(bound.plan(), catalog)
            .map_err(|error| error.said(|refusal| refusal.over_views(&views)))?;
        let Resources { time, memory, .. } = self.inner.resources;
        let limits = Limits { time, memory, most_rows };
        Ok(synthetic(rows, *method, options, catalog, limits)?)
    }

    fn asked_rows(
        &self,
        release: SyntheticRelease,
        declared: DeclaredState,
        rows: Option<u64>,
    ) -> Result<DueRows, Error> {
        let cost = Cost::round_up(release.loss())?;
        self.inner.resources.check_cost(cost, false)?;
        let unit_domain = release.rows().subject().unit_domain().to_owned();
        let counts: Vec<Notion> =
            declared.catalog.budgets_of(&unit_domain).map(|budget| budget.limit.notion).collect();
        let entry = ChargeEntry {
            mechanism: release.method().to_string(),
            parameters: release.parameters().to_owned(),
            sensitivity: release.sensitivity_text(),
            loss: release.loss().clone(),
            shared: false,
            // Nothing shows that the rows belong to one cell of people.
            cells: None,
        };
        let request = ChargeRequest {
            analyst: self.analyst.clone(),
            plan_hash: plan_hash(&release.plan_text()),
            // The charge fills this in.
            statement: String::new(),
            entries: vec![entry],
            shows_again: false,
            unit_domains: vec![unit_domain],
            tables: release.rows().subject().tables().iter().cloned().collect(),
            catalog: Arc::clone(&declared.catalog),
            caps: self.caps,
            built_on: Vec::new(),
        };
        let cost = cost.in_coupons(1, &counts).counted_in(&counts);
        let due = DueRows { release, declared, request, cost };
        let most = due.most_rows();
        match rows.filter(|rows| usize::try_from(*rows).map_or(true, |rows| rows > most)) {
            None => Ok(due),
            Some(rows) => Err(Refusal::new(
                Reason::TooManyKeys,
                format!("rows={rows}"),
                format!("the vault keeps at most {most} rows of these columns in one table"),
                format!("WITH (rows={most}) before AS, or fewer columns"),
            )
            .into()),
        }
    }

    /// What each affected budget would have left after the charge.
    ///
    /// # Errors
    /// [`Error::Budget`] if a budget does not allow the charge, and the vault's own.
    pub(crate) fn quote_rows(&self, due: &DueRows) -> Result<Vec<BudgetQuote>, Error> {
        Ok(self.inner.vault.quote(&due.request)?)
    }

    /// Stages 2 to 5. A statement that no budget could pay for is refused before it is prepared.
    fn ready_rows(
        &self,
        statement: &SyntheticStatement,
        state: &SessionState,
        runtime: Option<Handle>,
    ) -> Result<ReadyRows, Error> {
        let due = self.due_rows(statement, state)?;
        self.quote_rows(&due)?;
        let (catalog, open) = (&due.declared.catalog, &due.declared.open);
        let rows = due.release.rows();
        for name in rows.subject().tables().iter().chain(rows.public()) {
            // Rows that planning read have one of the engine's own names.
            if let Some(table) = catalog.table(name) {
                open.check_for(table, self.is_owner())?;
            }
        }
        let preparing = Box::pin(exec::prepare_rows(&due.release, state));
        let prepared = match runtime {
            Some(runtime) => runtime.block_on(preparing),
            None => {
                let runtime = Builder::new_current_thread().enable_all().build();
                runtime.map_err(|_| Error::Internal)?.block_on(preparing)
            }
        };
        let prepared = prepared.map_err(|error| unplanned_rows(&error))?;
        let needed = prepared.memory(state).saturating_add(due.memory());
        self.inner.resources.check_memory(needed)?;
        Ok(ReadyRows { due, prepared })
    }

    /// Stages 2 to 6. They are repeated if the declarations change in between.
    pub(crate) async fn paid_rows(
        &self,
        statement: &SyntheticStatement,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<PaidRows, Error> {
        let mut attempts = Attempts::default();
        loop {
            let paid = self.paid_rows_once(statement, clock, state).await;
            if attempts.are_over(&paid) {
                return paid;
            }
        }
    }

    async fn paid_rows_once(
        &self,
        statement: &SyntheticStatement,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<PaidRows, Error> {
        let (session, planning, asked) = (self.clone(), state.clone(), statement.clone());
        let runtime = Handle::try_current().ok();
        let ready = clock.aside(move || session.ready_rows(&asked, &planning, runtime)).await?;
        clock.check()?;
        let ReadyRows { due, prepared } = ready;
        let (most_rows, memory) = (due.most_rows(), due.memory());
        let DueRows { release, declared, request, cost: _ } = due;
        let text = statement.query.text.clone();
        let request = ChargeRequest { statement: text.clone(), ..request };
        let charge = self.inner.vault.ask(move |vault| vault.charge(&request)).await?;
        Ok(PaidRows { release, declared, prepared, charge, text, most_rows, memory })
    }

    /// Stage 7: reads the private rows once, and makes new rows from noisy counts.
    ///
    /// # Errors
    /// [`Error::Execution`] for every failure; or an error that says that a table which was read as
    /// a public one is no longer public.
    pub(crate) async fn made_rows(
        &self,
        paid: PaidRows,
        clock: &Clock,
        state: &SessionState,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<MadeRows, Error> {
        let PaidRows { release, declared, prepared, charge, text, most_rows, memory } = paid;
        let named = release.rows().public().iter().filter_map(|n| declared.catalog.table(n));
        let read = ReadAsPublic::of(named, declared.catalog.version());
        let made =
            self.made_of(release, &declared, (prepared, memory), &charge, clock, state, progress);
        let made = Box::pin(made).await;
        if made.is_err() {
            self.note_drift(&declared.open, &declared.catalog, &text).await;
        }
        self.still_public(&read)?;
        let (release, mut rng, made) = made?;
        let receipt = Receipt {
            spent: charge.spend(),
            left: charge.left().to_vec(),
            cells: cells_told(&release, &declared),
            sequence: self.number_of_charge(charge.sequence(), &declared.catalog),
            charge: charge.sequence(),
            is_replayed: false,
            replayed: Vec::new(),
            refined: Vec::new(),
        };
        let rows = values(&release, &made, &mut rng).ok_or(Error::Execution)?;
        // A public function of the noisy number.
        let is_cut = release.task().rows.is_none() && made.total.round() > rows_of(most_rows);
        Ok(MadeRows { release, rows, made, receipt, is_cut })
    }

    #[expect(clippy::too_many_arguments, reason = "one call, of what a paid table holds")]
    async fn made_of(
        &self,
        release: SyntheticRelease,
        declared: &DeclaredState,
        (prepared, memory): (PreparedRows, usize),
        charge: &Charge,
        clock: &Clock,
        state: &SessionState,
        mut progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<(SyntheticRelease, QueryRng, Made), Error> {
        let mut rng = QueryRng::from_os().map_err(|_| Error::Execution)?;
        let limits = ReadingLimits { deadline: clock.deadline(), memory };
        let rows = exec::read_rows(prepared, &release, charge, state, limits, &mut rng);
        // A panic on a row, a timeout and a failed read all depend on the rows, so they have one
        // error.
        let rows = clock.limit(crate::guard::poll(Box::pin(rows))).await.flatten();
        let rows = rows.and_then(Result::ok).ok_or(Error::Execution)?;
        // If somebody wrote to a file since, the verified constraints hold for other rows than
        // these.
        if !declared.open.is_unchanged() {
            return Err(Error::Execution);
        }
        let deadline = clock.deadline();
        let made = clock.aside(move || {
            let stop = || deadline.is_over();
            let made = release.plan().run(&rows, &mut rng, &mut progress, &stop);
            drop(rows);
            made.map(|made| (release, rng, made)).map_err(|_| Error::Execution)
        });
        made.await.map_err(|_| Error::Execution)
    }
}

/// The values of the new rows. `None` if codes have no values, which is a fault of the engine.
fn values(release: &SyntheticRelease, made: &Made, rng: &mut QueryRng) -> Option<RecordBatch> {
    let columns = release.rows().columns();
    if columns.len() != made.columns.len() {
        return None;
    }
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    let mut fields = Vec::with_capacity(columns.len());
    for (column, codes) in columns.iter().zip(&made.columns) {
        arrays.push(column.codes.decode(codes, rng).ok()?);
        fields.push(Field::new(&column.name, column.codes.data_type().clone(), true));
    }
    let rows = made.columns.first().map_or(0, Vec::len);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).ok()
}

/// A number of rows as a float, to compare it with a noisy one.
fn rows_of(rows: usize) -> f64 {
    rows.to_f64().unwrap_or(f64::MAX)
}

#[cfg(test)]
mod tests;
