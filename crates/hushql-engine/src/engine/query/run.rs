//! Stage 7 of a query: the run.
//!
//! In: a [`Paid`] query. Out: a [`Ran`] one, whose private aggregates have drawn and whose rows are
//! computed when they are asked for. Every failure has the same sentence, whatever the rows. Before
//! anything leaves the engine, it checks again that the tables that were read as public ones are
//! still public.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use futures::StreamExt;

use super::charge::Paid;
use super::choose::Planned;
use super::declared::CalledTemplate;
use super::public_row::on_a_public_row;
use super::refine::answering;
use super::request::ToKeep;
use super::row_contents::RowsOf;
use crate::answer::Receipt;
use crate::catalog::{CatalogVersion, Source, Table};
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::{Reading, encoded_draw};
use crate::exec::{self, Collected, Drawn, Running};
use crate::ledger::{KeptDraw, OWNER, Vault};
use crate::privacy::{Cost, Spend};

/// The note on an answer whose draws the vault could not keep.
const NOT_KEPT: &str =
    "the vault could not keep this answer: whoever asks the question again pays again";

/// A query whose private aggregates have run, and whose rows are still to come. Only
/// [`Session::run_plans`] makes one.
pub(crate) struct Ran {
    pub(super) planned: Planned,
    pub(super) drawn: Drawn,
    pub(super) receipt: Option<Receipt>,
    /// The notes beside the answer.
    pub(super) notes: Vec<String>,
    rows: SendableRecordBatchStream,
    /// The number of rows that the answer may still have.
    left: usize,
    /// The memory of the collected rows.
    collected: Collected,
    /// The progress, shown while the query runs.
    _shown: Option<Arc<Reading>>,
}

/// Rows of an answer.
pub(crate) struct RunningRows {
    pub(crate) batch: RecordBatch,
    /// For each column with an error for each row, these errors.
    pub(crate) errors: Vec<Option<ArrayRef>>,
}

/// The tables that a query reads as public ones, and those of which it shows public columns as they
/// are.
pub(crate) struct ReadAsPublic {
    tables: Vec<Table>,
    declared: CatalogVersion,
    is_charged: bool,
    /// The template whose query reads them, if it is one's.
    template: Option<Arc<CalledTemplate>>,
}

impl Paid {
    /// The tables that the query, or its planning, reads as public ones.
    pub(super) fn read_as_public(&self) -> ReadAsPublic {
        let planned = self.planned();
        ReadAsPublic {
            // Release tables were public when they were drawn, and stay public.
            tables: planned
                .public_tables()
                .chain(planned.shown_exactly())
                .filter(|table| !is_released(table))
                .cloned()
                .collect(),
            declared: planned.catalog().version(),
            is_charged: self.is_charged(),
            template: planned.template().cloned(),
        }
    }
}

/// The budgets that a query would be charged to if its answer were not shown again.
fn budgets(planned: &Planned) -> BTreeSet<String> {
    let parts = planned.release().analysis().parts().iter();
    let domains = parts.map(|part| part.subject().unit_domain());
    let own = domains.flat_map(|domain| planned.catalog().budgets_of(domain));
    own.map(|budget| budget.name.clone()).collect()
}

impl ReadAsPublic {
    /// These tables, as they were declared when a charged statement was planned.
    pub(super) fn of<'a>(
        tables: impl Iterator<Item = &'a Table>,
        declared: CatalogVersion,
    ) -> Self {
        let tables = tables.filter(|table| !is_released(table)).cloned().collect();
        Self { tables, declared, is_charged: true, template: None }
    }
}

impl Session {
    /// Runs each private aggregate once, and starts the public plan over the releases.
    ///
    /// # Errors
    /// [`Error::Execution`]; for a query that reads no private row, also that the ledger it reads
    /// is damaged.
    pub(crate) async fn run_plans(&self, paid: Paid, state: &SessionState) -> Result<Ran, Error> {
        let (planned, prepared, charge, to_keep, text) = paid.into_parts();
        let is_charged = charge.is_some();
        // The pace of reading a private file reveals its size, so analysts see only that of public
        // files.
        let is_seen = self.is_owner() || planned.release().analysis().parts().is_empty();
        let shown = self.watched.show(is_seen.then(|| planned.open().reading()));
        // The future holds plans, and would make the futures around it too large for a stack.
        let running = Box::pin(exec::run(prepared, planned.release(), charge, state)).await;
        let is_public = planned.release().analysis().parts().is_empty();
        let Running { drawn, rows, charge } = match running {
            Ok(running) => running,
            Err(error) => {
                if is_charged {
                    self.note_drift(planned.open(), planned.catalog(), &text).await;
                }
                return Err(failed(&error, is_charged, is_public));
            }
        };
        // If somebody wrote to a file since, the verified constraints hold for other rows than
        // these, and nothing may leave the engine.
        if !planned.open().is_unchanged() {
            return Err(Error::Execution);
        }
        let replayed = planned.release().replayed_numbers();
        let mut notes: Vec<String> =
            planned.note().filter(|_| planned.hidden().is_none()).cloned().into_iter().collect();
        if let Some(charge) = &charge {
            let kept = self.keep(charge.sequence(), to_keep, text, &planned, &drawn.batches).await;
            // The answer is paid for, and cannot be drawn again for the same charge.
            if kept.is_err() {
                notes.push(NOT_KEPT.to_owned());
            }
        }
        // Whoever may not use the budgets of a template learns the price of the call alone.
        let is_shown = planned.hidden().is_none();
        let cells = if is_shown { planned.cells_told() } else { Vec::new() };
        let receipt = match (charge, replayed.first().copied()) {
            (Some(charge), _) => Some(Receipt {
                cells,
                spent: charge.spend(),
                left: if is_shown { charge.left().to_vec() } else { Vec::new() },
                sequence: self.number_of_charge(charge.sequence(), planned.catalog()),
                charge: charge.sequence(),
                is_replayed: false,
                replayed,
                refined: planned.release().refined_numbers(),
            }),
            (None, Some(sequence)) => {
                let (spent, left) = (Cost::default(), self.left_now(budgets(&planned)).await);
                let charge = planned.release().replayed_charges().first().copied();
                let charge = charge.unwrap_or(sequence);
                let cells = Vec::new();
                let (is_replayed, refined) = (true, Vec::new());
                Some(Receipt {
                    spent,
                    left,
                    cells,
                    sequence,
                    charge,
                    is_replayed,
                    replayed,
                    refined,
                })
            }
            (None, None) => None,
        };
        let left = self.inner.resources.rows;
        let collected = Collected::new(state);
        Ok(Ran { planned, drawn, receipt, notes, rows, left, collected, _shown: shown })
    }

    /// What budgets have left, by name. Empty if that cannot be read, because a paid answer is
    /// shown in any case.
    pub(super) async fn left_now(&self, names: BTreeSet<String>) -> Vec<(String, Spend)> {
        let analyst = self.analyst.clone();
        let states = self.inner.vault.ask(move |vault| vault.budgets_for(&analyst)).await;
        let states = states.unwrap_or_default().into_iter();
        let states = states.map(|state| (state.budget.name, state.left));
        states.filter(|(name, _)| names.contains(name)).collect()
    }

    /// Keeps the draws of a paid query. If that fails, the next query draws and pays again.
    ///
    /// # Errors
    /// The vault's own.
    async fn keep(
        &self,
        charge: i64,
        to_keep: Vec<ToKeep>,
        text: String,
        planned: &Planned,
        batches: &[RecordBatch],
    ) -> Result<(), Error> {
        let mut draws = Vec::new();
        for one in to_keep {
            // If a public table changed since the key was made, the draw belongs to another key.
            if RowsOf::unit(&self.inner, planned, &one.unit).as_ref() != Some(&one.rows) {
                continue;
            }
            let drawn = planned.release().drawn_by(&one.unit, batches);
            let drawn = drawn.map(|drawn| answering(drawn, &one));
            let drawn = drawn.and_then(|drawn| encoded_draw(&drawn).ok());
            let question = one.question;
            draws.extend(drawn.map(|drawn| (one.key, KeptDraw { charge, drawn, question })));
        }
        if draws.is_empty() {
            return Ok(());
        }
        let analyst = self.analyst.clone();
        let keep = move |vault: &Vault| vault.keep_draws(&draws, &analyst, &text);
        Ok(self.inner.vault.ask(keep).await?)
    }

    /// Withholds an answer that was read from tables as public ones, if one of them is no longer
    /// public, or no longer the same.
    pub(crate) fn still_public(&self, read: &ReadAsPublic) -> Result<(), Error> {
        let ReadAsPublic { tables, declared, is_charged, template } = read;
        if tables.is_empty() {
            return Ok(());
        }
        // A template reads the owner's tables, whoever calls it.
        let reader = if template.is_some() { OWNER } else { &self.analyst };
        let now = self.inner.catalog_of(reader).map_err(|error| match is_charged {
            true => Error::Execution,
            false => error,
        })?;
        if now.version().is(declared) {
            return Ok(());
        }
        let is_same = |table: &Table| {
            let now = now.table(&table.name);
            now.is_some_and(|now| now.privacy == table.privacy && now.source == table.source)
        };
        let charged = if *is_charged { "; what was charged stays charged" } else { "" };
        match tables.iter().find(|table| !is_same(table)) {
            None => Ok(()),
            Some(table) => {
                let what = match template {
                    Some(template) => format!("a table of the template {}", template.name),
                    None => format!("the table {}", table.name),
                };
                Err(Error::catalog(format!(
                    "{what} was declared anew while it was read as a public one, so this answer is withheld{charged}"
                )))
            }
        }
    }
}

impl Ran {
    /// The next rows; `None` after the last.
    ///
    /// # Errors
    /// As [`Session::run_plans`], and [`Error::Execution`] for more rows than an answer may have.
    pub(crate) async fn next(&mut self) -> Result<Option<RunningRows>, Error> {
        let next = self.rows.next().await.transpose();
        let is_public = self.planned.release().analysis().parts().is_empty();
        let batch = next.map_err(|error| failed(&error, self.receipt.is_some(), is_public))?;
        if let Some(batch) = &batch {
            let left = self.left.checked_sub(batch.num_rows());
            self.left = left.ok_or(Error::Execution)?;
        }
        let columns: Vec<usize> = (0..self.drawn.schema.fields().len()).collect();
        let places = self.planned.release().error_bars().places();
        let rows = |batch: RecordBatch| {
            let error = |place: &Option<usize>| batch.columns().get((*place)?).cloned();
            let errors = places.iter().map(error).collect();
            let batch = batch.project(&columns)?;
            let own = batch.schema();
            let fields = own.fields().iter().zip(self.drawn.schema.fields());
            // The columns get the headings of the answer.
            let headed = fields.map(|(own, shown)| own.as_ref().clone().with_name(shown.name()));
            let schema = Arc::new(Schema::new(headed.collect::<Vec<_>>()));
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch =
                RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)?;
            Ok::<_, ArrowError>(RunningRows { errors, batch })
        };
        batch.map(rows).transpose().map_err(|_| Error::Execution)
    }

    /// All rows.
    ///
    /// # Errors
    /// As [`Ran::next`], and [`Error::Execution`] if they do not fit into the engine's memory.
    pub(super) async fn all(&mut self) -> Result<Vec<RunningRows>, Error> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            self.collected.add(&batch.batch).map_err(|_| Error::Execution)?;
            batches.push(batch);
        }
        Ok(batches)
    }
}

fn is_released(table: &Table) -> bool {
    matches!(table.source, Source::Released { .. })
}

/// The error of a failed run. If a statement reads only public tables, it says what was wrong with
/// a row.
fn failed(error: &DataFusionError, is_charged: bool, is_public: bool) -> Error {
    match exec::vault_error(error) {
        Some(error) if !is_charged => error.into(),
        None if is_public && !is_charged => {
            on_a_public_row(error).map_or(Error::Execution, Error::from)
        }
        Some(_) | None => Error::Execution,
    }
}
