//! The entry point: an [`Engine`] holds a vault and tables, an [`Owner`] declares them, and an
//! [`Analyst`] asks queries.
//!
//! In: statements as text. Out: answers. [`Session::query`] follows the life of a query: parse,
//! bind, analyze, choose, prepare, charge, run, answer. Each stage takes the type that only the
//! stage before it makes, and all stages see one state of the declarations (`engine/query.rs`).
//!
//! ```
//! # use hushql_engine as hushql;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
//! let engine = hushql::Engine::demo()?;
//! let session = engine.analyst("lab")?;
//! let answer = session.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?;
//! assert_eq!(answer.receipt().map(|r| r.spent.to_string()), Some("ε = 1".to_owned()));
//! # Ok(()) }
//! ```

use std::path::Path;
use std::sync::{Arc, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;

use crate::catalog::{Privacy, Source, Table, quoted};
use crate::dialect::{ScriptStatement, split};
use crate::engine::progress::Watched;
use crate::error::Error;
use crate::exec::source as files;
use crate::instance::Inner;
use crate::ledger::{ChargeCaps, OWNER};
use crate::owner as declare;
use crate::owner::typed::ExternalTable;
use analyst_session::Analyst;
use owner_session::Owner;
pub(crate) use session::Session;

mod accounts;
pub(crate) mod analyst_session;
pub(crate) mod answer_files;
pub(crate) mod applied;
mod attempts;
mod bearer_token;
pub(crate) mod builder;
mod decisions;
pub(crate) mod described;
mod explained;
pub(crate) mod forecast;
pub(crate) mod log_in;
mod logged_in;
pub(crate) mod output;
pub(crate) mod owner_session;
pub(crate) mod progress;
pub(crate) mod range;
pub(crate) mod schemas;
pub(crate) mod session;
pub(crate) mod show;
mod shown_grants;
mod shown_requests;
mod shown_rules;
pub(crate) mod shown_templates;
pub(crate) mod spending;
mod text_columns;

mod maintenance;
mod planning_errors;
pub(crate) mod prepared;
mod query;
mod release_tables;
mod reloads;
pub(crate) mod reports;
pub(crate) mod stream;
mod summary;
mod synthetic_about;
mod synthetic_tables;
mod tuning;
pub(crate) mod vault_file;
pub(crate) mod visible_catalog;

/// A vault, its tables, and the DataFusion session for its queries. Cheap to clone.
///
/// A program that holds an engine acts for the owner of the data. Analysts get an [`Analyst`].
///
/// ```
/// # use hushql_engine as hushql;
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use hushql::{Engine, PrivacyBudget, PrivacyUnit};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("study.db");
/// # let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
/// # let batch = RecordBatch::try_from_iter([("patient", column)])?;
/// let engine = Engine::init(&path)?;
/// engine.register_batch("visits", batch)?;
/// let owner = engine.owner();
/// owner.declare(PrivacyUnit::column("visits", "patient").max_rows(4)).await?;
/// owner.declare(PrivacyBudget::epsilon("study", "visits", 2.0)).await?;
///
/// let lab = engine.analyst("lab")?;
/// println!("{}", lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM visits").await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

impl Engine {
    /// Registers a batch as a table. A new table is undeclared: every query on it is refused until
    /// the owner declares it private or public.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use std::sync::Arc;
    ///
    /// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, Reason};
    ///
    /// let minutes: ArrayRef = Arc::new(Int64Array::from(vec![10, 25]));
    /// let engine = Engine::in_memory()?;
    /// engine.register_batch("visits", RecordBatch::try_from_iter([("minutes", minutes)])?)?;
    /// let refused = engine.analyst("lab")?.cost("SELECT minutes FROM visits").unwrap_err();
    /// assert_eq!(refused.code(), Some(Reason::Undeclared.code()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] when the vault has a table of this name with other columns.
    pub fn register_batch(&self, name: &str, batch: RecordBatch) -> Result<(), Error> {
        self.register_batches(name, batch.schema(), vec![batch])
    }

    /// Registers batches with the same columns as one table, like [`Engine::register_batch`]. No
    /// batches make a table without rows.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use std::sync::Arc;
    ///
    /// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    ///
    /// let minutes: ArrayRef = Arc::new(Int64Array::from(vec![10, 25]));
    /// let batch = RecordBatch::try_from_iter([("minutes", minutes)])?;
    /// let engine = hushql::Engine::in_memory()?;
    /// engine.register_batches("visits", batch.schema(), vec![batch.clone(), batch])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] as [`Engine::register_batch`], and for a batch with other columns than
    /// `schema`.
    pub fn register_batches(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<(), Error> {
        let failed = |e| Error::catalog_from(format!("`{name}` cannot be registered"), e);
        let table = MemTable::try_new(schema, vec![batches]).map_err(failed)?;
        self.register_table(name, Arc::new(table))
    }

    /// Registers any DataFusion table provider as a table, like [`Engine::register_batch`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use std::sync::Arc;
    ///
    /// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use datafusion::datasource::MemTable;
    /// use hushql::Engine;
    ///
    /// let minutes: ArrayRef = Arc::new(Int64Array::from(vec![10, 25]));
    /// let batch = RecordBatch::try_from_iter([("minutes", minutes)])?;
    /// let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
    /// Engine::in_memory()?.register_table("visits", Arc::new(table))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] when the vault has a table of this name with other columns.
    pub fn register_table(
        &self,
        name: &str,
        provider: Arc<dyn TableProvider>,
    ) -> Result<(), Error> {
        let columns = files::columns_of(&provider.schema());
        files::refuse_reserved(&columns)?;
        // The lock is held to the end, so that no table is declared while its provider changes.
        let mut registered = self.inner.registered.write().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.inner.vault.catalog()?;
        match catalog.table(name) {
            None => {
                let table = Table {
                    name: name.to_owned(),
                    source: Source::Registered,
                    privacy: Privacy::Undeclared,
                    columns,
                };
                self.inner.vault.create_table(&table)?;
            }
            Some(known) => {
                let same = known.source == Source::Registered
                    && known.columns.len() == columns.len()
                    && known
                        .columns
                        .iter()
                        .zip(&columns)
                        .all(|(a, b)| a.name == b.name && a.data_type == b.data_type);
                if !same {
                    return Err(Error::catalog(format!(
                        "the vault knows `{name}` with other columns; DROP TABLE {} first",
                        quoted(name)
                    )));
                }
                declare::may_be_registered(&registered, &catalog, known, &provider)?;
                self.inner.vault.registered_again(name)?;
            }
        }
        registered.insert(name.to_owned(), provider);
        Ok(())
    }

    /// Declares a CSV file with a header as a table, on behalf of the owner. The columns are
    /// inferred once, from the first 10,000 lines, and do not change. To give the columns and their
    /// types, another delimiter or no header, call [`Owner::declare`] with [`ExternalTable::csv`].
    ///
    /// The vault keeps the declaration, so a program makes it once, and not at each start. Queries
    /// on the table are refused until its owner gives it a privacy unit or declares it public. Only
    /// programs that may act for the owner hold an [`Engine`]; give others an [`Analyst`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, PrivacyBudget, PrivacyUnit};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "name,age\nAnn,30\nBob,41\n")?;
    /// let engine = Engine::in_memory()?;
    /// engine.register_csv("people", &path).await?;
    /// engine.owner().declare(PrivacyUnit::row("people")).await?;
    /// engine.owner().declare(PrivacyBudget::epsilon("study", "people", 1.0)).await?;
    /// let answer = engine.analyst("lab")?.query("SELECT LAPLACE(eps=1) COUNT(*) FROM people").await?;
    /// assert_eq!(answer.batches()[0].num_rows(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] when a table has this name, or the file is missing, empty or not a CSV
    /// file.
    pub async fn register_csv(&self, name: &str, path: impl AsRef<Path>) -> Result<(), Error> {
        self.owner().declare(ExternalTable::csv(name, path)).await.map(drop)
    }

    /// Declares a Parquet file as a table, on behalf of the owner, with the columns of the file; in
    /// other respects like [`Engine::register_csv`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// # use datafusion::parquet::arrow::ArrowWriter;
    /// use hushql::{Declaration, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("years.parquet");
    /// # let column: ArrayRef = Arc::new(Int64Array::from(vec![2025, 2026]));
    /// # let batch = RecordBatch::try_from_iter([("year", column)])?;
    /// # let mut writer = ArrowWriter::try_new(std::fs::File::create(&path)?, batch.schema(), None)?;
    /// # writer.write(&batch)?;
    /// # writer.close()?;
    /// let engine = Engine::in_memory()?;
    /// engine.register_parquet("years", &path).await?;
    /// engine.owner().declare(Declaration::public("years")).await?;
    /// let answer = engine.analyst("lab")?.query("SELECT MAX(year) FROM years").await?;
    /// assert!(answer.receipt().is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] when a table has this name, or the file is missing, empty or not a
    /// Parquet file.
    pub async fn register_parquet(&self, name: &str, path: impl AsRef<Path>) -> Result<(), Error> {
        self.owner().declare(ExternalTable::parquet(name, path)).await.map(drop)
    }

    /// The owner's session, which declares tables, units, domains and budgets.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Declaration, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let sentence = Engine::demo()?.owner().declare(Declaration::public("census")).await?;
    /// assert!(sentence.starts_with("table census is public"));
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> Owner {
        Owner(self.session(OWNER))
    }

    /// An analyst's session. The vault keeps its name.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let engine = hushql::Engine::demo()?;
    /// let lab = engine.analyst("lab")?;
    /// println!("{}", lab.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?);
    /// assert!(engine.analyst("0wner").is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] for a name that does not consist of 1 to 64 ASCII letters, digits, `_` and
    /// `-`, or that resembles the owner's, as `0wner` does; and when the vault cannot be read or
    /// written.
    pub fn analyst(&self, name: &str) -> Result<Analyst, Error> {
        let session = self.session(name);
        session.told(self.inner.vault.ensure_analyst(name).map_err(Error::from))?;
        Ok(Analyst(session))
    }

    /// A session of a role that the vault knows.
    fn session(&self, role: &str) -> Session {
        Session {
            inner: Arc::clone(&self.inner),
            analyst: role.to_owned(),
            watched: Watched::default(),
            logged_in: None,
            declared_bounds: false,
            refines: true,
            caps: ChargeCaps::default(),
            postgres_names: false,
        }
    }
}

/// Splits a script into its statements.
///
/// ```
/// # use hushql_engine as hushql;
/// let statements = hushql::split_statements("SELECT 1; SELECT ';'")?;
/// let texts: Vec<&str> = statements.iter().map(|statement| statement.text()).collect();
/// assert_eq!(texts, ["SELECT 1", "SELECT ';'"]);
/// # Ok::<(), hushql::Error>(())
/// ```
///
/// # Errors
/// [`Error::Syntax`] when a quotation or comment does not end.
pub fn split_statements(script: &str) -> Result<Vec<ScriptStatement>, Error> {
    Ok(split(script)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An analyst must not be named `owner`, and get the owner's session.
    #[test]
    fn no_analyst_is_called_owner() {
        let engine = Engine::in_memory().unwrap();
        for name in ["owner", "Owner", "OWNER", "0wner", "owner_"] {
            assert!(engine.analyst(name).is_err(), "{name}");
        }
        assert!(!engine.analyst("lab").unwrap().is_owner());
    }

    /// A cost that the budget does not allow is refused at once, so that no shell asks the user to
    /// consent to it.
    #[test]
    fn a_cost_is_returned_only_if_the_budget_allows_it() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        let cost = |eps| session.cost(&format!("SELECT LAPLACE(eps={eps}) COUNT(*) FROM adult"));
        assert_eq!(cost(5).unwrap().to_string(), "ε = 5");
        assert!(matches!(cost(20), Err(Error::Budget(_))), "{:?}", cost(20));
    }
}
