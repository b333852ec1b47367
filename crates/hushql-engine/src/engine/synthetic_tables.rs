//! Synthetic tables: rows like those of a query, made once, paid for once, and free to read from
//! then on.
//!
//! In: a statement. Out: the rows in the vault, as a release table, and an answer of one row that
//! names it, with the receipt. The order is that of a release table: the charge becomes durable,
//! then rows are read and noise is drawn, then the new rows are stored, then something is shown. A
//! crash in between leaves a charge and no table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use datafusion::execution::SessionState;

use crate::answer::{Answer, Head};
use crate::catalog::quoted;
use crate::dialect::SyntheticStatement;
use crate::engine::attempts::Attempts;
use crate::engine::output::Output;
use crate::engine::query::synthetic_stages::{DueRows, MadeRows};
use crate::engine::release_tables::{About, fits_table, not_stored, unknown};
use crate::engine::session::Session;
use crate::engine::synthetic_about::{StoredMarginal, StoredSynthetic};
use crate::error::Error;
use crate::exec::source::{columns_of, encoded};
use crate::explain::Explanation;
use crate::instance::Inner;
use crate::ledger::NewAnswer;
use crate::privacy::Cost;
use crate::resources::Clock;
use crate::views;
use crate::visible::{self, rounded};

impl Session {
    /// Makes a synthetic table.
    pub(super) async fn synthesized(
        &self,
        statement: &SyntheticStatement,
        clock: &Clock,
    ) -> Result<Output, Error> {
        let name = &statement.name;
        if statement.if_not_exists && self.inner.sees_release_table(name, &self.analyst)? {
            let name = visible::line(name);
            return Ok(Output::Done(format!(
                "synthetic table {name} exists already; nothing was charged"
            )));
        }
        self.inner.is_free_for(name, &self.analyst)?;
        self.is_no_views(name)?;
        self.inner.vault.may_store(name, &self.analyst)?;
        let state = self.state(clock);
        let from = self.fits_columns(statement, clock, &state).await?;
        let paid = Box::pin(self.paid_rows(statement, clock, &state)).await?;
        let shown = self.watched.rounds();
        let progress = move |progress| shown.is_at(progress);
        let made = Box::pin(self.made_rows(paid, clock, &state, progress)).await?;
        let (new, answer) = self.to_store(name, (&statement.query.text, from), made)?;
        let Some(new) = new else {
            let note = format!(
                "{name} was not stored: its rows cannot be written; they are charged, and shown instead"
            );
            return Ok(Output::Answer(answer.noted(note)));
        };
        match self.inner.vault.ask(move |vault| vault.store_answer(&new)).await {
            Ok(_) => stored(name, answer).map(Output::Answer),
            // The rows are paid for, and cannot be drawn again for the same charge, so the payer
            // sees them.
            Err(error) => {
                let error = Error::from(error);
                let error = if self.is_owner() { error } else { error.for_analyst() };
                Ok(Output::Answer(answer.noted(not_stored(
                    name,
                    &error.to_string(),
                    "its rows are",
                ))))
            }
        }
    }

    /// Refuses a query before its charge if a table cannot have its columns. Returns the declared
    /// tables from which its rows come.
    async fn fits_columns(
        &self,
        statement: &SyntheticStatement,
        clock: &Clock,
        state: &SessionState,
    ) -> Result<BTreeMap<String, i64>, Error> {
        let catalog = self.inner.catalog_of(&self.analyst)?;
        let read = views::tables_behind(&statement.query.tree, &catalog);
        let (session, state, statement) = (self.clone(), state.clone(), statement.clone());
        let due = clock.aside(move || Attempts::at(|| session.due_rows(&statement, &state)));
        let due: DueRows = due.await?;
        let columns = due.release().rows().columns().iter();
        let fields = columns.map(|c| Field::new(&c.name, c.codes.data_type().clone(), true));
        fits_table(&Schema::new(fields.collect::<Vec<_>>()))?;
        let mut read = read.ok_or(Error::Internal)?;
        read.extend(due.release().rows().subject().tables().iter().cloned());
        self.inner.origins(read, &self.analyst)
    }

    /// What a synthetic table would cost.
    pub(super) fn cost_of_rows(
        &self,
        statement: &SyntheticStatement,
        state: &SessionState,
    ) -> Result<Cost, Error> {
        let exists = self.inner.sees_release_table(&statement.name, &self.analyst)?;
        if statement.if_not_exists && exists {
            return Ok(Cost::default());
        }
        Attempts::at(|| {
            let due = self.due_rows(statement, state)?;
            self.quote_rows(&due)?;
            Ok(due.cost())
        })
    }

    /// What a synthetic table would measure and cost. Reads nothing, costs nothing.
    pub(super) fn explained_rows(
        &self,
        statement: &SyntheticStatement,
        state: &SessionState,
    ) -> Result<Explanation, Error> {
        let explained = Attempts::at(|| {
            let due = self.due_rows(statement, state)?;
            let explained = |quotes: &[_]| {
                Explanation::for_synthetic(due.release(), due.most_rows(), due.cost(), quotes)
                    .with_cells(&due.cells_told())
                    .with_rules(&due.rules())
            };
            match self.quote_rows(&due) {
                Ok(quotes) => Ok(explained(&quotes)),
                Err(error @ Error::Budget(_)) => Ok(explained(&[]).over_budget(&error.to_string())),
                Err(error) => Err(error),
            }
        });
        match explained {
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            explained => explained,
        }
    }

    /// The record to store for the new rows, if they can be written, and the rows as an answer.
    fn to_store(
        &self,
        name: &str,
        (text, since): (&str, BTreeMap<String, i64>),
        made: MadeRows,
    ) -> Result<(Option<NewAnswer>, Answer), Error> {
        let MadeRows { release, rows, made, receipt, is_cut } = made;
        let persons = release.rows().is_weighed();
        let each = if persons { "persons" } else { "rows" };
        let mut notes = Vec::new();
        let bounds = made.errors.as_slice();
        if let Some(mean) = mean(bounds.iter().map(|error| error.bound)) {
            notes.push(format!(
                "{} marginals are off by at most {} {each} on average, each with 95 %: SHOW SYNTHETIC {}",
                bounds.len(),
                rounded(mean),
                quoted(name)
            ));
        }
        if is_cut {
            notes.push(format!(
                "the vault keeps {} rows, where the noisy number says about {}: shares are those of all",
                rows.num_rows(),
                rounded(made.total)
            ));
        }
        let codes = release.rows().columns().iter();
        let about = About {
            statement: text.trim().trim_end_matches(';').trim_end().to_owned(),
            from: since.keys().cloned().collect(),
            since,
            columns: columns_of(&rows.schema()),
            rows: rows.num_rows(),
            accuracy: Vec::new(),
            notes: notes.clone(),
            cost: receipt.spent.neat().to_string(),
            synthetic: Some(StoredSynthetic {
                method: format!("{}({})", release.method(), release.parameters()),
                noise: release.noise_text().to_owned(),
                total: made.total,
                persons,
                rounds: made.rounds,
                codes: codes.map(|c| (c.name.clone(), c.codes.text())).collect(),
                marginals: bounds
                    .iter()
                    .filter(|error| error.bound.is_finite())
                    .map(|error| StoredMarginal {
                        columns: error.columns.as_slice().to_vec(),
                        measured: error.measured,
                        within: error.bound,
                    })
                    .collect(),
            }),
        };
        let shown = vec![(rows.clone(), vec![None; rows.num_columns()])];
        let new = encoded(&rows.schema(), &shown).ok().map(|answer| NewAnswer {
            name: name.to_owned(),
            creator: self.analyst.clone(),
            charge: receipt.charge,
            statement: text.trim().to_owned(),
            is_replayed: false,
            about: serde_json::to_string(&about).unwrap_or_default(),
            answer,
        });
        let new = new.filter(|new| !new.about.is_empty());
        let head = Head {
            schema: rows.schema(),
            accuracy: Vec::new(),
            notes,
            receipt: Some(receipt),
            without_bound: Vec::new(),
            remedies: Vec::new(),
        };
        Ok((new, Answer::new(head, shown)))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .filter(|value| value.is_finite())
        .fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// The answer that says that a table was stored, with its receipt.
fn stored(name: &str, answer: Answer) -> Result<Answer, Error> {
    let (head, batches) = answer.into_parts();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns: [(&str, ArrayRef); 2] = [
        ("synthetic_table", Arc::new(StringArray::from(vec![name]))),
        ("rows", Arc::new(Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    let head = Head { schema: batch.schema(), ..head };
    Ok(Answer::new(head, vec![(batch, vec![None; 2])]))
}

impl Inner {
    /// The errors of a synthetic table's marginals, and how its rows were made.
    pub(crate) fn show_synthetic(&self, name: &str, reader: &str) -> Result<Answer, Error> {
        let table = self.seen(name, reader)?.ok_or_else(|| unknown(name))?;
        let about = About::of(&table)?;
        let Some(made) = &about.synthetic else {
            return Err(Error::catalog(format!(
                "{} is a release table and not synthetic: write SHOW RELEASE TABLE {}",
                visible::line(name),
                quoted(name)
            )));
        };
        let column = |at: &usize| about.columns.get(*at).map_or("?", |column| column.name.as_str());
        let text =
            |one: &StoredMarginal| one.columns.iter().map(column).collect::<Vec<_>>().join(", ");
        // The share of rows that would have to change to make a marginal the true one.
        let share = |one: &StoredMarginal| {
            let share = one.within / (2.0 * made.total.max(1.0));
            ((share * 10_000.0).ceil() / 10_000.0).min(1.0)
        };
        let all = || made.marginals.iter();
        let columns: [(&str, ArrayRef); 4] = [
            ("marginal", Arc::new(StringArray::from_iter_values(all().map(text)))),
            ("measured", Arc::new(BooleanArray::from_iter(all().map(|one| Some(one.measured))))),
            (
                "within",
                Arc::new(Float64Array::from_iter_values(all().map(|one| one.within.ceil()))),
            ),
            ("share", Arc::new(Float64Array::from_iter_values(all().map(share)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
        let each = if made.persons { "persons" } else { "rows" };
        let codes = made.codes.iter().map(|(name, text)| format!("{name}: {text}"));
        let notes = vec![
            format!("made by {} with {} noise, rounds: {}", made.method, made.noise, made.rounds),
            match (made.noise.as_str(), made.marginals.is_empty()) {
                ("no", _) => format!("{} rows, which tell proportions", about.rows),
                (_, true) => format!(
                    "{} rows for about {} {each}: no bounds are known of so few",
                    about.rows,
                    rounded(made.total)
                ),
                (_, false) => format!(
                    "{} rows for about {} {each}; within: all cells of a marginal together, in {each}, with 95 % each; share: of all {each}, what would have to change",
                    about.rows,
                    rounded(made.total)
                ),
            },
            format!("codes: {}", codes.collect::<Vec<_>>().join("; ")),
            self.stored_by(&table, &about, reader)?,
        ];
        let (accuracy, without_bound, remedies) = (Vec::new(), Vec::new(), Vec::new());
        let head = Head {
            schema: batch.schema(),
            accuracy,
            notes,
            receipt: None,
            without_bound,
            remedies,
        };
        Ok(Answer::new(head, vec![(batch, vec![None; 4])]))
    }
}
