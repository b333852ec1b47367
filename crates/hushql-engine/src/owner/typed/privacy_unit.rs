//! Privacy units.
//!
//! In: how the rows of a table lead to people, as a program describes it. Out: the declaration that
//! SET PRIVACY UNIT parses to.
//!
//! ```text
//! PrivacyUnit::column("visits", "patient").max_rows(4)
//!     =  ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4
//! ```

use super::Declaration;
use crate::dialect::{Declaration as Parsed, UnitClause};
use crate::error::Error;

/// The most rows that MAX ROWS allows.
pub(super) const MOST_ROWS: u64 = 1 << 32;

/// How the rows of a table lead to people: `ALTER TABLE … SET PRIVACY UNIT`.
///
/// ```
/// # use hushql_engine as hushql;
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use hushql::{Engine, PrivacyUnit};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::in_memory()?;
/// # let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
/// # engine.register_batch("customers", RecordBatch::try_from_iter([("id", Arc::clone(&column))])?)?;
/// # engine.register_batch("orders", RecordBatch::try_from_iter([("customer", column)])?)?;
/// let owner = engine.owner();
/// owner.declare(PrivacyUnit::column("customers", "id").unique()).await?;
/// let link = PrivacyUnit::via("orders", ["customer"], "customers", ["id"]).max_rows(50);
/// owner.declare(link).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PrivacyUnit {
    table: String,
    key: UnitKey,
    unique: bool,
    max_rows: Option<u64>,
    other_people: Vec<String>,
}

/// How a row leads to its unit.
#[derive(Debug, Clone)]
enum UnitKey {
    Row,
    Column(String),
    Present { column: String, public: Vec<String> },
    Via { columns: Vec<String>, table: String, references: Vec<String> },
}

impl PrivacyUnit {
    fn new(table: String, key: UnitKey) -> Self {
        Self { table, key, unique: false, max_rows: None, other_people: Vec::new() }
    }

    /// Each row is about another person: `ROW`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # let patient: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    /// # let batch = RecordBatch::try_from_iter([("patient", patient)])?;
    /// # let engine = Engine::in_memory()?;
    /// # engine.register_batch("visits", batch)?;
    /// let sentence = engine.owner().declare(PrivacyUnit::row("visits")).await?;
    /// assert!(sentence.starts_with("table visits is private"));
    /// # Ok(()) }
    /// ```
    pub fn row(table: impl Into<String>) -> Self {
        Self::new(table.into(), UnitKey::Row)
    }

    /// A column names the person: `(column)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # let patient: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    /// # let batch = RecordBatch::try_from_iter([("patient", patient)])?;
    /// # let engine = Engine::in_memory()?;
    /// # engine.register_batch("visits", batch)?;
    /// let sentence = engine.owner().declare(PrivacyUnit::column("visits", "patient")).await?;
    /// assert!(sentence.starts_with("table visits is private"));
    /// # Ok(()) }
    /// ```
    pub fn column(table: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(table.into(), UnitKey::Column(column.into()))
    }

    /// A column names the person, each has one row, and anyone may know who is there, and the
    /// columns `public`: `(column) UNIQUE PRESENCE PUBLIC WITH (public)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable, PrivacyUnit};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("survey.csv");
    /// # std::fs::write(&file, "id,region,age\n1,north,34\n2,south,51\n")?;
    /// let engine = Engine::in_memory()?;
    /// let owner = engine.owner();
    /// owner.declare(ExternalTable::csv("survey", &file.display().to_string())).await?;
    /// owner.declare(PrivacyUnit::presence_public("survey", "id", ["region"])).await?;
    /// let answer = engine.analyst("lab")?.query("SELECT COUNT(*) AS n FROM survey").await?;
    /// assert!(answer.receipt().is_none());
    /// # Ok(()) }
    /// ```
    pub fn presence_public<P: Into<String>>(
        table: impl Into<String>,
        column: impl Into<String>,
        public: impl IntoIterator<Item = P>,
    ) -> Self {
        let public = public.into_iter().map(Into::into).collect();
        Self::new(table.into(), UnitKey::Present { column: column.into(), public })
    }

    /// Columns lead to a row of another table, and that row to the person:
    /// `VIA (columns) REFERENCES target(references)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    /// # let engine = Engine::in_memory()?;
    /// # engine.register_batch("customers", RecordBatch::try_from_iter([("id", Arc::clone(&id))])?)?;
    /// # engine.register_batch("orders", RecordBatch::try_from_iter([("customer", id)])?)?;
    /// let owner = engine.owner();
    /// owner.declare(PrivacyUnit::column("customers", "id").unique()).await?;
    /// owner.declare(PrivacyUnit::via("orders", ["customer"], "customers", ["id"])).await?;
    /// # Ok(()) }
    /// ```
    pub fn via<C: Into<String>, R: Into<String>>(
        table: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        target: impl Into<String>,
        references: impl IntoIterator<Item = R>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        let references = references.into_iter().map(Into::into).collect();
        Self::new(table.into(), UnitKey::Via { columns, table: target.into(), references })
    }

    /// A person has at most one row. Only for a unit that a column names.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # let patient: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    /// # let batch = RecordBatch::try_from_iter([("patient", patient)])?;
    /// # let engine = Engine::in_memory()?;
    /// # engine.register_batch("visits", batch)?;
    /// let sentence = engine.owner().declare(PrivacyUnit::column("visits", "patient").unique()).await?;
    /// assert!(sentence.starts_with("table visits is private"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// A person has at most this many rows. Only for a unit that a column names, or that columns
    /// lead to.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// use hushql::{Engine, PrivacyUnit};
    ///
    /// # let patient: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    /// # let batch = RecordBatch::try_from_iter([("patient", patient)])?;
    /// # let engine = Engine::in_memory()?;
    /// # engine.register_batch("visits", batch)?;
    /// let sentence = engine.owner().declare(PrivacyUnit::column("visits", "patient").max_rows(4)).await?;
    /// assert!(sentence.starts_with("table visits is private"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_rows(mut self, rows: u64) -> Self {
        self.max_rows = Some(rows);
        self
    }

    /// Another table holds the same rows and is about other people: `OTHER PEOPLE THAN table`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::PrivacyUnit;
    ///
    /// // Two tables that begin with the same rows by chance: pupils of two schools, numbered alike.
    /// let unit = PrivacyUnit::column("north", "pupil").other_people_than("south");
    /// ```
    #[must_use]
    pub fn other_people_than(mut self, table: impl Into<String>) -> Self {
        self.other_people.push(table.into());
        self
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { table, key, unique, max_rows, other_people } = self;
        if max_rows.is_some_and(|rows| !(1..=MOST_ROWS).contains(&rows)) {
            return Err(Error::catalog(format!("max_rows is from 1 to {MOST_ROWS}")));
        }
        if unique && !matches!(key, UnitKey::Column(_)) {
            return Err(Error::catalog("only a unit that a column names is unique"));
        }
        let unit = match key {
            UnitKey::Row if max_rows.is_some() => {
                return Err(Error::catalog("a unit that is the row has one row, and no max_rows"));
            }
            UnitKey::Row => UnitClause::Row,
            UnitKey::Present { .. } if max_rows.is_some() => {
                return Err(Error::catalog(
                    "where presence is public, everyone has one row, and no max_rows",
                ));
            }
            UnitKey::Present { column, public } => UnitClause::Present { column, public },
            UnitKey::Column(column) => UnitClause::Column { column, unique, max_rows },
            UnitKey::Via { columns, references, .. }
                if columns.is_empty() || columns.len() != references.len() =>
            {
                return Err(Error::catalog("a link has as many columns on either side"));
            }
            UnitKey::Via { columns, table, references } => {
                UnitClause::Via { columns, table, references, max_rows }
            }
        };
        Ok(Parsed::SetUnit { table, unit, other_people })
    }
}

impl From<PrivacyUnit> for Declaration {
    fn from(unit: PrivacyUnit) -> Self {
        Self { parsed: unit.parsed() }
    }
}
