//! Files as tables.
//!
//! In: a file that a program describes. Out: the declaration that CREATE EXTERNAL TABLE parses to.
//!
//! ```text
//! ExternalTable::csv("people", "people.csv").header(false)
//!     =  CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv' OPTIONS (has_header FALSE)
//! ```

use std::path::Path;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use sqlparser::ast as sql;

use super::Declaration;
use crate::dialect::{Declaration as Parsed, Taken};
use crate::error::Error;

/// A file that is declared as a table: `CREATE EXTERNAL TABLE`.
///
/// Its columns are fixed when it is declared. Columns of a CSV or JSON file that are not given are
/// inferred then, from the first 10,000 lines; no later change of the file changes them. A relative
/// path starts at the working folder.
///
/// ```
/// # use hushql_engine as hushql;
/// use arrow::datatypes::DataType;
/// use hushql::{Engine, ExternalTable};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("people.csv");
/// std::fs::write(&path, "id;age\n1;30\n2;41\n")?;
/// let engine = Engine::in_memory()?;
/// let people = ExternalTable::csv("people", &path)
///     .delimiter(';')
///     .column("id", DataType::Int64)
///     .column("age", DataType::Int64);
/// engine.owner().declare(people).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ExternalTable {
    name: String,
    format: &'static str,
    location: Option<String>,
    columns: Vec<(String, DataType)>,
    partitioned_by: Vec<(String, DataType)>,
    options: Vec<(String, String)>,
}

impl ExternalTable {
    fn new(name: String, format: &'static str, path: &Path) -> Self {
        let location = path.to_str().map(str::to_owned);
        let (columns, partitioned_by, options) = (Vec::new(), Vec::new(), Vec::new());
        Self { name, format, location, columns, partitioned_by, options }
    }

    /// A CSV file with a header.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,age\n1,30\n")?;
    /// let people = ExternalTable::csv("people", &path);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    pub fn csv(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "CSV", path.as_ref())
    }

    /// A Parquet file.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::ExternalTable;
    ///
    /// let years = ExternalTable::parquet("years", "data/years.parquet");
    /// ```
    pub fn parquet(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "PARQUET", path.as_ref())
    }

    /// A file with one JSON object on each line.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.json");
    /// std::fs::write(&path, "{\"id\": 1, \"age\": 30}\n")?;
    /// let people = ExternalTable::json("people", &path);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    pub fn json(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "JSON", path.as_ref())
    }

    /// A file in Arrow's IPC format.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::ExternalTable;
    ///
    /// let years = ExternalTable::arrow("years", "data/years.arrow");
    /// ```
    pub fn arrow(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "ARROW", path.as_ref())
    }

    /// A folder with a table of Delta Lake, in its newest version.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::ExternalTable;
    ///
    /// let visits = ExternalTable::delta("visits", "lake/visits");
    /// ```
    pub fn delta(name: impl Into<String>, folder: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "DELTA", folder.as_ref())
    }

    /// A table of an SQLite file. Without [`ExternalTable::of_table`], it is the one of the same
    /// name.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::ExternalTable;
    ///
    /// let visits = ExternalTable::sqlite("visits", "data/clinic.db").of_table("visits_2026");
    /// ```
    pub fn sqlite(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "SQLITE", path.as_ref())
    }

    /// The name of the table in an SQLite file.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::ExternalTable;
    ///
    /// let wards = ExternalTable::sqlite("wards", "data/clinic.db").of_table("Wards of 2026");
    /// ```
    #[must_use]
    pub fn of_table(self, table: impl Into<String>) -> Self {
        self.option("table", table.into())
    }

    /// The next column. Give all columns of the file, in their order, or none.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use arrow::datatypes::DataType;
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,joined\n1,2026-02-28\n")?;
    /// let people = ExternalTable::csv("people", &path)
    ///     .column("id", DataType::Int64)
    ///     .column("joined", DataType::Date32);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.columns.push((name.into(), data_type));
        self
    }

    /// All columns of the file, in their order.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use arrow::datatypes::{DataType, Field, Schema};
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id\n1\n")?;
    /// let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    /// let people = ExternalTable::csv("people", &path).columns(&schema);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn columns(mut self, schema: &Schema) -> Self {
        let fields = schema.fields().iter();
        self.columns = fields.map(|f| (f.name().clone(), f.data_type().clone())).collect();
        self
    }

    /// The next column whose values are in the names of folders, as in `year=2025`. The path is
    /// then that of a folder, or a pattern as in SQL.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use arrow::datatypes::DataType;
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("visits");
    /// std::fs::create_dir_all(path.join("year=2025"))?;
    /// std::fs::write(path.join("year=2025").join("a.csv"), "patient,stay\n1,3\n")?;
    /// let visits = ExternalTable::csv("visits", &path).partitioned_by("year", DataType::Int32);
    /// Engine::in_memory()?.owner().declare(visits).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn partitioned_by(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.partitioned_by.push((name.into(), data_type));
        self
    }

    fn option(mut self, name: &str, value: String) -> Self {
        self.options.push((name.to_owned(), value));
        self
    }

    /// Whether the first line of a CSV file names its columns. The default is true.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use arrow::datatypes::DataType;
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "1\n2\n")?;
    /// let people = ExternalTable::csv("people", &path).header(false).column("id", DataType::Int64);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn header(self, has_header: bool) -> Self {
        self.option("has_header", has_header.to_string())
    }

    /// The character between the cells of a CSV file. The default is a comma.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id;age\n1;30\n")?;
    /// let people = ExternalTable::csv("people", &path).delimiter(';');
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn delimiter(self, delimiter: char) -> Self {
        self.option("delimiter", delimiter.to_string())
    }

    /// The quotation mark of a CSV file. The default is `"`; with `None`, quotation marks are text.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,pipe\n1,5\" of steel\n")?;
    /// let people = ExternalTable::csv("people", &path).quote(None);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn quote(self, quote: impl Into<Option<char>>) -> Self {
        self.option("quote", quote.into().map_or_else(String::new, String::from))
    }

    /// The character before a quotation mark that is text, within quotes: a backslash for files of
    /// Spark. Without it, such a mark is doubled.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,said\n1,\"he said \\\"no\\\"\"\n")?;
    /// let people = ExternalTable::csv("people", &path).escape('\\');
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn escape(self, escape: char) -> Self {
        self.option("escape", escape.to_string())
    }

    /// The character with which lines begin that are left out of a CSV file.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "# of 2026\nid,age\n1,30\n")?;
    /// let people = ExternalTable::csv("people", &path).comment('#');
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn comment(self, comment: char) -> Self {
        self.option("comment", comment.to_string())
    }

    /// A text that stands for NULL in a CSV file, besides an empty cell: `NA` for files of R.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,age\n1,NA\n2,41\n")?;
    /// let people = ExternalTable::csv("people", &path).null_value("NA");
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn null_value(self, text: impl Into<String>) -> Self {
        self.option("null_value", text.into())
    }

    /// The decimal separator of a CSV file, a comma or a point. The default is a point. With a
    /// comma, a number with a point is NULL.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id;fee\n1;3,50\n")?;
    /// let people = ExternalTable::csv("people", &path).delimiter(';').decimal(',');
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn decimal(self, separator: char) -> Self {
        self.option("decimal", separator.to_string())
    }

    /// How the dates of a CSV file are written: `%d`, `%m` (or `%b`, `%B`) and `%Y`, in any order.
    /// A time follows its date. Dates in another format are NULL.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,born\n1,31.12.1990\n")?;
    /// let people = ExternalTable::csv("people", &path).date_format("%d.%m.%Y");
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn date_format(self, format: impl Into<String>) -> Self {
        self.option("date_format", format.into())
    }

    /// How a CSV or JSON file is compressed: `gzip`, `zstd` or `none`. Without it, the ending of
    /// its name says so.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,age\n1,30\n")?;
    /// let people = ExternalTable::csv("people", &path).compression("none");
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn compression(self, compression: impl Into<String>) -> Self {
        self.option("compression", compression.into())
    }

    /// With `true`, this declaration and later ones of the table are refused if a line or a cell of
    /// its files is not read as declared, as after `ALTER TABLE t SET STRICT`. In a query, such a
    /// cell is NULL.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,age\n1,30\n")?;
    /// let people = ExternalTable::csv("people", &path).strict(true);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn strict(self, is_strict: bool) -> Self {
        self.option("strict", is_strict.to_string())
    }

    /// With `true`, each query reads the whole file and compares its bytes with those on which its
    /// privacy unit was declared. Without this option, a query does so only if the file system
    /// shows a change. With `false`, the file may change without a declaration, unless `UNIQUE`,
    /// `MAX ROWS` or a link was verified on it.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use hushql::{Engine, ExternalTable};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("people.csv");
    /// std::fs::write(&path, "id,age\n1,30\n")?;
    /// let people = ExternalTable::csv("people", &path).content_hash(true);
    /// Engine::in_memory()?.owner().declare(people).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn content_hash(self, is_hashed: bool) -> Self {
        self.option("content_hash", is_hashed.to_string())
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { name, format, location, columns, partitioned_by, options } = self;
        let location =
            location.ok_or_else(|| Error::catalog("the path of a table's file is valid UTF-8"))?;
        let columns = columns.into_iter().map(|(name, t)| Ok((name, written_type(&t)?)));
        let columns = columns.collect::<Result<_, Error>>()?;
        let partitioned_by = partitioned_by
            .into_iter()
            .map(|(name, t)| Ok((name, Some(written_type(&t)?))))
            .collect::<Result<_, Error>>()?;
        let (format, taken) = (format.to_owned(), Taken::Fail);
        Ok(Parsed::CreateTable { name, columns, format, partitioned_by, location, options, taken })
    }
}

impl From<ExternalTable> for Declaration {
    fn from(table: ExternalTable) -> Self {
        Self { parsed: table.parsed() }
    }
}

/// The type of a column as SQL writes it.
fn written_type(data_type: &DataType) -> Result<sql::DataType, Error> {
    use sql::DataType as S;
    Ok(match data_type {
        DataType::Boolean => S::Boolean,
        DataType::Int8 => S::TinyInt(None),
        DataType::Int16 => S::SmallInt(None),
        DataType::Int32 => S::Int(None),
        DataType::Int64 => S::BigInt(None),
        DataType::UInt8 => S::TinyIntUnsigned(None),
        DataType::UInt16 => S::SmallIntUnsigned(None),
        DataType::UInt32 => S::IntUnsigned(None),
        DataType::UInt64 => S::BigIntUnsigned(None),
        DataType::Float32 => S::Real,
        DataType::Float64 => S::DoublePrecision,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => S::Text,
        DataType::Date32 => S::Date,
        DataType::Time64(TimeUnit::Microsecond) => S::Time(None, sql::TimezoneInfo::None),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            S::Timestamp(None, sql::TimezoneInfo::None)
        }
        DataType::Decimal128(precision, scale) => S::Decimal(
            sql::ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)),
        ),
        other => return Err(Error::catalog(format!("a column cannot be declared as {other}"))),
    })
}
