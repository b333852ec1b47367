//! Release tables: answers that are paid for once, stored in the vault, and free to read from then
//! on.
//!
//! In: a query with releases, and a name. Out: the answer in the vault, with its types, its
//! accuracy and its cost; and an answer of one row that names the table, with the receipt. The
//! order is fixed: the charge becomes durable, then the noise is drawn, then the answer is stored,
//! then something is shown. A crash in between leaves a charge and no table. A query whose answer
//! cannot be a table is refused before the charge. Only its size is known later: an answer that is
//! too large is shown instead of stored.
//!
//! Release tables stand beside the declared tables in the catalog of those who may see them: the
//! creator, the owner, and the analysts whom they were granted to, as long as these may ask about
//! the tables from which they come. For all others they do not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::analysis::{Analysis, Measure, PrivateAggregate};
use crate::answer::{Accuracy, AccuracyKind, Answer, Head};
use crate::catalog::{Catalog, CatalogError, Column, quoted};
use crate::dialect::{Declaration, GrantClause, GrantObjects, QueryStatement, ReleaseTableChange};
use crate::engine::attempts::Attempts;
use crate::engine::output::Output;
use crate::engine::session::Session;
use crate::engine::synthetic_about::StoredSynthetic;
use crate::error::Error;
use crate::exec::source::{columns_of, encoded, is_storable, schema_of_answer, stored_rows};
use crate::instance::Inner;
use crate::instance::entry_numbers::is_apart;
use crate::ledger::{MOST_BYTES_OF_ONE, NewAnswer, ReleaseTable, VaultError};
use crate::owner::grants;
use crate::refusal::{Reason, Refusal};
use crate::resources::Clock;
use crate::sql_type::sql_type;
use crate::{views, visible};

/// The description that is stored with the rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    /// The statement, as written.
    pub(super) statement: String,
    /// The declared tables from which it comes. It exists for those who may ask about all of them.
    pub(super) from: BTreeSet<String>,
    /// The numbers of the last declarations of these tables.
    #[serde(default)]
    pub(super) since: BTreeMap<String, i64>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: usize,
    pub(super) accuracy: Vec<StoredAccuracy>,
    pub(super) notes: Vec<String>,
    /// The cost, in the notions of the budgets that paid.
    pub(super) cost: String,
    /// How its rows were made, if they are synthetic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) synthetic: Option<StoredSynthetic>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredAccuracy {
    column: String,
    kind: String,
    value: f64,
    confidence: f64,
}

const KINDS: [AccuracyKind; 8] = [
    AccuracyKind::Within,
    AccuracyKind::Drawn,
    AccuracyKind::Winner,
    AccuracyKind::OwnRows,
    AccuracyKind::Rank,
    AccuracyKind::BlockRank,
    AccuracyKind::Average,
    AccuracyKind::Truthful,
];

impl About {
    /// The description of a stored table.
    pub(super) fn of(table: &ReleaseTable) -> Result<Self, Error> {
        serde_json::from_str(&table.about).map_err(|_| Error::Internal)
    }

    /// The tables from which it comes, each with the number of its last declaration at that time.
    pub(super) fn origins(&self) -> impl Iterator<Item = (String, i64)> {
        let number = |name: &String| self.since.get(name).copied().unwrap_or_default();
        self.from.iter().map(move |name| (name.clone(), number(name)))
    }

    /// The tables from which it comes that were dropped since. What has such a name now is another
    /// table.
    pub(super) fn ended(&self, catalog: &Catalog) -> impl Iterator<Item = String> {
        let is_dropped = |(name, number): &(String, i64)| catalog.was_dropped_after(name, *number);
        self.origins().filter(is_dropped).map(|(name, _)| name)
    }

    /// What is said of tables that were dropped since; empty if none was.
    fn ended_text(&self, catalog: &Catalog) -> String {
        let names: Vec<String> = self.ended(catalog).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("made from {}, dropped since", names.join(", ")),
        }
    }

    /// The word for such a table.
    fn kind(&self) -> &'static str {
        match self.synthetic {
            Some(_) => "synthetic",
            None => "release",
        }
    }

    fn accuracy(&self) -> Vec<Accuracy> {
        let accuracy = |one: &StoredAccuracy| {
            let kind = KINDS.into_iter().find(|kind| kind.to_string() == one.kind)?;
            let (column, value) = (one.column.clone(), one.value);
            Some(Accuracy { column, kind, value, confidence: one.confidence })
        };
        self.accuracy.iter().filter_map(accuracy).collect()
    }
}

impl Inner {
    /// The release table with this name, if this analyst may see it.
    pub(super) fn seen(&self, name: &str, reader: &str) -> Result<Option<ReleaseTable>, Error> {
        Ok(self.released_for(reader)?.into_iter().find(|table| table.name == name))
    }

    /// Whether this analyst may see a release table with this name.
    pub(crate) fn sees_release_table(&self, name: &str, reader: &str) -> Result<bool, Error> {
        Ok(self.seen(name, reader)?.is_some())
    }

    /// Refuses DROP TABLE for a release table that this analyst may see.
    ///
    /// # Errors
    /// A refusal that names the right statement.
    pub(super) fn drops_no_release_table(
        &self,
        declaration: &Declaration,
        reader: &str,
    ) -> Result<(), Error> {
        let Declaration::DropTable { name, .. } = declaration else { return Ok(()) };
        let Some(table) = self.seen(name, reader)? else { return Ok(()) };
        let kind = About::of(&table)?.kind();
        let why = format!("{name} is a {kind} table, which has a statement of its own");
        let instead = format!("DROP {} TABLE {}", kind.to_uppercase(), quoted(name));
        Err(Refusal::new(Reason::Statement, "DROP TABLE", why, instead).into())
    }

    /// The release tables that this analyst may see, each with a sentence about it.
    pub(crate) fn release_table_texts(&self, reader: &str) -> Result<Vec<(String, String)>, Error> {
        let (tables, catalog) = (self.released_for(reader)?, self.declared_for(reader)?);
        let text = |table: &ReleaseTable| -> Result<(String, String), Error> {
            let others = table.grants.iter().cloned().collect::<Vec<_>>().join(", ");
            let granted = match table.is_managed_by(reader) && !others.is_empty() {
                true => format!(", granted to {others}"),
                false => String::new(),
            };
            let about = About::of(table)?;
            let ended = about.ended_text(&catalog);
            let granted = match ended.is_empty() {
                true => granted,
                false => format!("{granted}, {ended}"),
            };
            let kind = about.kind();
            let of = &table.creator;
            let text = match self.charge_of(table, reader)? {
                Some(charge) => format!("{kind} table of {of}, paid by charge {charge}{granted}"),
                None => format!("{kind} table of {of}{granted}"),
            };
            Ok((table.name.clone(), text))
        };
        tables.iter().map(text).collect()
    }

    /// The accuracy of a release table's columns, in words; `None` for another table.
    pub(crate) fn release_table_accuracy(
        &self,
        name: &str,
        reader: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let Some(table) = self.seen(name, reader)? else { return Ok(None) };
        let about = About::of(&table)?;
        let lines: Vec<(String, String)> = about
            .accuracy()
            .iter()
            .filter_map(|one| Some((one.column.clone(), one.text()?)))
            .collect();
        let of_column = |column: &Column| {
            let own = lines.iter().filter(|(name, _)| *name == column.name);
            own.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ")
        };
        Ok(Some(about.columns.iter().map(of_column).collect()))
    }

    /// The number of the charge that paid for a table, as its reader sees it. `None` for a reader
    /// who sees no entries of others, because the number would reveal how often others asked.
    fn charge_of(&self, table: &ReleaseTable, reader: &str) -> Result<Option<i64>, Error> {
        let is_others = !table.is_created_by(reader);
        Ok(match is_others && is_apart(&*self.vault.catalog()?, reader) {
            true => None,
            // What another one paid for was stored: then it has no number here either.
            false => Some(self.shown_number(table.charge, reader)?).filter(|number| *number > 0),
        })
    }

    /// Who stored a table, and which charge paid for it, with the number that its reader sees.
    pub(super) fn stored_by(
        &self,
        table: &ReleaseTable,
        about: &About,
        reader: &str,
    ) -> Result<String, Error> {
        let (by, cost) = (&table.creator, &about.cost);
        Ok(match self.charge_of(table, reader)? {
            Some(charge) => format!("stored by {by}: charge {charge} paid {cost}"),
            None => format!("stored by {by}, who paid {cost}"),
        })
    }

    /// The stored answer, for an analyst who may see it.
    pub(crate) fn show_release_table(&self, name: &str, reader: &str) -> Result<Answer, Error> {
        let table = self.seen(name, reader)?.ok_or_else(|| unknown(name))?;
        let about = About::of(&table)?;
        let schema = schema_of_answer(&about.columns)?;
        let rows = stored_rows(&self.vault, table.sequence, &schema).map_err(|error| {
            match crate::exec::vault_error(&error) {
                Some(error) => error.into(),
                None => Error::Execution,
            }
        })?;
        let mut notes = about.notes.clone();
        notes.push(self.stored_by(&table, &about, reader)?);
        let ended = about.ended_text(&*self.declared_for(reader)?);
        notes.extend(Some(ended).filter(|ended| !ended.is_empty()));
        let (accuracy, without_bound, remedies) = (about.accuracy(), Vec::new(), Vec::new());
        let head = Head { schema, accuracy, notes, receipt: None, without_bound, remedies };
        Ok(Answer::new(head, rows))
    }

    /// The statement that created a release table, for its creator and the owner.
    pub(crate) fn release_table_statement(
        &self,
        name: &str,
        reader: &str,
    ) -> Result<String, Error> {
        let table = self.seen(name, reader)?.ok_or_else(|| unknown(name))?;
        match table.is_managed_by(reader) {
            true => Ok(About::of(&table)?.statement),
            false => Err(Refusal::new(
                Reason::Statement,
                "SHOW CREATE RELEASE TABLE",
                "only the creator of a release table and owners see its statement",
                format!("SHOW RELEASE TABLE {}", quoted(name)),
            )
            .into()),
        }
    }
}

/// True if a query releases a number or a choice that is not decided by public columns alone.
fn draws(analysis: &Analysis) -> bool {
    let is_drawn = |part: &PrivateAggregate| {
        part.unknown_partitions().is_some() || !part.measures().iter().all(Measure::is_exact)
    };
    analysis.parts().iter().any(is_drawn)
}

pub(super) fn unknown(name: &str) -> Error {
    CatalogError::UnknownReleaseTable { table: name.to_owned() }.into()
}

impl Session {
    /// Answers a query into a release table.
    pub(super) async fn kept(
        &self,
        (name, if_not_exists): (String, bool),
        query: QueryStatement,
        clock: &Clock,
    ) -> Result<Output, Error> {
        if if_not_exists && self.inner.seen(&name, &self.analyst)?.is_some() {
            let name = visible::line(&name).into_owned();
            return Ok(Output::Done(format!(
                "release table {name} exists already; nothing was charged"
            )));
        }
        self.is_seen_through(&query)?;
        self.inner.is_free_for(&name, &self.analyst)?;
        self.is_no_views(&name)?;
        self.inner.vault.may_store(&name, &self.analyst)?;
        let from = self.fits_vault(&query, clock).await?;
        let text = query.text.clone();
        let answer = self.answer(query, None, clock).await?;
        let new = match self.new_answer(&name, (&text, from), &answer) {
            Ok(Some(new)) => new,
            Ok(None) => {
                let most = MOST_BYTES_OF_ONE >> 20;
                return Ok(Output::Answer(answer.noted(format!(
                    "{name} was not stored: the answer has more than {most} MiB; it is charged, and shown instead"
                ))));
            }
            Err(_) => {
                return Ok(Output::Answer(answer.noted(format!(
                    "{name} was not stored: the answer cannot be written; it is charged, and shown instead"
                ))));
            }
        };
        match self.inner.vault.ask(move |vault| vault.store_answer(&new)).await {
            Ok(_) => stored(&name, answer).map(Output::Answer),
            // The answer is paid for, and cannot be drawn again for the same charge, so the payer
            // sees it.
            Err(error) => {
                let error = Error::from(error);
                let error = if self.is_owner() { error } else { error.for_analyst() };
                Ok(Output::Answer(answer.noted(not_stored(
                    &name,
                    &error.to_string(),
                    "the answer is",
                ))))
            }
        }
    }

    /// Refuses a name that a view reads while no table has it. Otherwise the readers of the view
    /// would read the release table.
    pub(super) fn is_no_views(&self, name: &str) -> Result<(), Error> {
        let catalog = self.inner.vault.catalog()?;
        match views::read_a_table(&catalog, name) {
            true => {
                let taken = CatalogError::NameTaken { name: name.to_owned() };
                Err(VaultError::Catalog(taken).into())
            }
            false => Ok(()),
        }
    }

    /// The record to store for an answer; `None` if it is too large.
    fn new_answer(
        &self,
        name: &str,
        (text, since): (&str, BTreeMap<String, i64>),
        answer: &Answer,
    ) -> Result<Option<NewAnswer>, Error> {
        let receipt = answer.receipt().ok_or(Error::Internal)?;
        let schema = answer.schema();
        let bytes = encoded(&schema, &answer.rows()).map_err(|_| Error::Execution)?;
        let stored = |one: &Accuracy| StoredAccuracy {
            column: one.column.clone(),
            kind: one.kind.to_string(),
            value: one.value,
            confidence: one.confidence,
        };
        let about = About {
            statement: text.trim().trim_end_matches(';').trim_end().to_owned(),
            from: since.keys().cloned().collect(),
            since,
            columns: columns_of(&schema),
            rows: answer.batches().iter().map(RecordBatch::num_rows).sum(),
            accuracy: answer
                .accuracy()
                .iter()
                .filter(|one| one.value.is_finite())
                .map(stored)
                .collect(),
            notes: answer.notes().to_vec(),
            cost: match receipt.is_replayed {
                true => "for it before".to_owned(),
                false => receipt.spent.neat().to_string(),
            },
            synthetic: None,
        };
        if bytes.len() > MOST_BYTES_OF_ONE {
            return Ok(None);
        }
        Ok(Some(NewAnswer {
            name: name.to_owned(),
            creator: self.analyst.clone(),
            charge: receipt.charge,
            statement: text.trim().to_owned(),
            is_replayed: receipt.is_replayed,
            about: serde_json::to_string(&about).map_err(|_| Error::Internal)?,
            answer: bytes,
        }))
    }

    /// Refuses a query before its charge if it releases nothing, or if a table cannot have its
    /// columns. Returns the declared tables from which its answer comes, each with the number of
    /// its last declaration.
    async fn fits_vault(
        &self,
        query: &QueryStatement,
        clock: &Clock,
    ) -> Result<BTreeMap<String, i64>, Error> {
        let (session, state, asked) = (self.clone(), self.state(clock), query.clone());
        let runtime = Handle::try_current().ok();
        let planned = clock.aside(move || {
            let ready = || session.ready(&asked, &state, runtime.clone());
            Attempts::at(ready).map(|ready| {
                let planned = ready.due().planned();
                let releases = draws(planned.release().analysis());
                (ready.quoted().schema, releases, planned.read_tables())
            })
        });
        let (schema, releases, mut read) = planned.await?;
        if !releases {
            return Err(Refusal::new(
                Reason::Statement,
                "CREATE RELEASE TABLE",
                "the query releases nothing, or exact numbers alone, so there is nothing to pay for and to keep",
                "the query itself, which is free",
            )
            .into());
        }
        fits_table(&schema)?;
        let catalog = self.inner.catalog_of(&self.analyst)?;
        read.extend(views::tables_behind(&query.tree, &catalog).ok_or(Error::Internal)?);
        self.inner.origins(read, &self.analyst)
    }

    /// Drops a release table, or changes who may read it.
    pub(super) async fn change_release_table(
        &self,
        change: &ReleaseTableChange,
    ) -> Result<Output, Error> {
        let (by, vault) = (self.analyst.clone(), &self.inner.vault);
        let done = match change.clone() {
            ReleaseTableChange::Drop { name, if_exists } => {
                let table = visible::line(&name).into_owned();
                if if_exists && self.inner.seen(&name, &by)?.is_none() {
                    format!("there is no release table {table}; nothing was dropped")
                } else {
                    vault.ask(move |vault| vault.drop_release_table(&name, &by)).await?;
                    format!("release table {table} is dropped; what it cost stays spent")
                }
            }
            ReleaseTableChange::DropSynthetic { name, if_exists } => {
                let table = visible::line(&name).into_owned();
                let seen = self.inner.seen(&name, &by)?;
                let is_synthetic = match &seen {
                    Some(seen) => About::of(seen)?.synthetic.is_some(),
                    None => false,
                };
                match (seen.is_some(), is_synthetic) {
                    (false, _) if if_exists => {
                        format!("there is no synthetic table {table}; nothing was dropped")
                    }
                    (true, false) => {
                        return Err(Error::catalog(format!(
                            "{table} is a release table and not synthetic: write DROP RELEASE TABLE {}",
                            quoted(&name)
                        )));
                    }
                    (false, _) | (true, true) => {
                        vault.ask(move |vault| vault.drop_release_table(&name, &by)).await?;
                        format!("synthetic table {table} is dropped; what it cost stays spent")
                    }
                }
            }
            ReleaseTableChange::Grant { name, analyst, may }
                if self.is_owner() && self.inner.seen(&name, &by)?.is_none() =>
            {
                let objects = GrantObjects::Tables(vec![name]);
                let change = GrantClause { objects, roles: vec![analyst], may };
                grants::change(&self.inner, &change)?
            }
            ReleaseTableChange::Grant { name, analyst, may } => {
                let (table, to) = (visible::line(&name).into_owned(), analyst.clone());
                let grant = move |vault: &crate::ledger::Vault| {
                    vault.grant_release_table((&name, &analyst), may, &by)
                };
                vault.ask(grant).await?;
                let reads = if may { "reads" } else { "reads no more of" };
                format!("analyst {to} {reads} release table {table}")
            }
        };
        Ok(Output::Done(done))
    }
}

/// Why a paid answer is not in a table. It is answered all the same, whatever a full disk keeps
/// others from.
pub(super) fn not_stored(name: &str, why: &str, what: &str) -> String {
    let why = why.strip_suffix(", so no query can be charged or answered").unwrap_or(why);
    format!("{name} was not stored: {why}; {what} charged, and shown instead")
}

/// The answer that says that a table was stored, with its receipt.
fn stored(name: &str, answer: Answer) -> Result<Answer, Error> {
    let (head, batches) = answer.into_parts();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns: [(&str, ArrayRef); 2] = [
        ("release_table", Arc::new(StringArray::from(vec![name]))),
        ("rows", Arc::new(Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    let (accuracy, without_bound, remedies) = (Vec::new(), Vec::new(), Vec::new());
    let head = Head { schema: batch.schema(), accuracy, without_bound, remedies, ..head };
    Ok(Answer::new(head, vec![(batch, vec![None; 2])]))
}

/// Refuses columns that a table cannot have.
pub(super) fn fits_table(schema: &Schema) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for field in schema.fields() {
        let name = visible::line(field.name());
        if field.name().is_empty() || !names.insert(field.name()) {
            return Err(Error::catalog(format!(
                "a release table has columns with different names, and two are named `{name}`: write AS and another name behind one of them"
            )));
        }
        if crate::catalog::name::check_name(field.name()).is_err() {
            return Err(Error::catalog(format!(
                "a column of a release table needs a name without a dot, and of at most 128 characters: write AS and a name behind `{name}`"
            )));
        }
        if !is_storable(field.data_type()) {
            let its_type = sql_type(field.data_type());
            return Err(Error::catalog(format!(
                "a release table keeps no column of the type {its_type}: write CAST({0} AS VARCHAR) AS {0}",
                quoted(field.name())
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_keeps_nobody_from_a_paid_answer() {
        let full = "the disk of the vault is full, so no query can be charged or answered";
        for (why, said) in [(full, "the disk of the vault is full"), ("t is taken", "t is taken")] {
            assert_eq!(
                not_stored("t", why, "the answer is"),
                format!("t was not stored: {said}; the answer is charged, and shown instead")
            );
        }
    }
}
