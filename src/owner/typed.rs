//! Declarations as Rust values, for programs that do not write them in SQL.
//!
//! In: a program's description of a file, a unit, a domain or a budget. Out: the [`Declaration`] that the parser makes of
//! the same in SQL, so that the same code checks and carries out both. Names are used as they are: a name that SQL writes
//! without quotation marks is in lower case.
//!
//! ```text
//! PrivacyUnit::column("visits", "patient").max_rows(4)
//!     =  ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4
//! ```

use std::path::Path;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use sqlparser::ast as sql;

use crate::dialect::{
    Allowance, Declaration as Parsed, DomainClause, LimitClause, Literal, PerQueryClause,
    UnitClause, Value, decimal,
};
use crate::error::Error;
use crate::privacy::ParameterError;

/// The most rows that MAX ROWS allows.
const MOST_ROWS: u64 = 1 << 32;

/// A declaration of an owner: a file as a table, a unit, a domain, a budget, or a public table.
///
/// Create it from [`ExternalTable`], [`PrivacyUnit`], [`PrivacyDomain`] or [`PrivacyBudget`], or pass these to
/// [`Session::declare`](crate::Session::declare) directly.
///
/// ```
/// use hushql::{Declaration, Engine};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// engine.owner().declare(Declaration::public("census")).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Declaration {
    /// The result of the parser for the same in SQL, or the problem with the description.
    parsed: Result<Parsed, Error>,
}

impl Declaration {
    /// Makes a table public, so that answers may show its rows to anyone: `ALTER TABLE table SET PUBLIC`.
    pub fn public(table: impl Into<String>) -> Self {
        Self { parsed: Ok(Parsed::SetPublic { table: table.into() }) }
    }

    /// The result of the parser for the same in SQL.
    ///
    /// # Errors
    /// [`Error::Catalog`] or [`Error::Refused`] for a description that SQL could not express.
    pub(crate) fn into_parsed(self) -> Result<Parsed, Error> {
        self.parsed
    }
}

/// A file that is declared as a table: `CREATE EXTERNAL TABLE`.
///
/// The declaration fixes the columns. If they are not given for a CSV or JSON file, it infers them from the first 10,000
/// lines; later changes of the file do not change them. A relative path starts at the working folder.
///
/// ```
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
    options: Vec<(String, String)>,
}

impl ExternalTable {
    fn new(name: String, format: &'static str, path: &Path) -> Self {
        let location = path.to_str().map(str::to_owned);
        Self { name, format, location, columns: Vec::new(), options: Vec::new() }
    }

    /// A CSV file with a header.
    pub fn csv(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "CSV", path.as_ref())
    }

    /// A Parquet file.
    pub fn parquet(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "PARQUET", path.as_ref())
    }

    /// A file with one JSON object in each line.
    pub fn json(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "JSON", path.as_ref())
    }

    /// A file in Arrow's IPC format.
    pub fn arrow(name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self::new(name.into(), "ARROW", path.as_ref())
    }

    /// Adds a column. Give all columns of the file in order, or none.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.columns.push((name.into(), data_type));
        self
    }

    /// Sets all columns of the file, in order.
    #[must_use]
    pub fn columns(mut self, schema: &Schema) -> Self {
        let fields = schema.fields().iter();
        self.columns = fields.map(|f| (f.name().clone(), f.data_type().clone())).collect();
        self
    }

    fn option(mut self, name: &str, value: String) -> Self {
        self.options.push((name.to_owned(), value));
        self
    }

    /// Sets whether the first line of a CSV file names its columns; the default is true.
    #[must_use]
    pub fn header(self, has_header: bool) -> Self {
        self.option("has_header", has_header.to_string())
    }

    /// Sets the character between the cells of a CSV file; the default is a comma.
    #[must_use]
    pub fn delimiter(self, delimiter: char) -> Self {
        self.option("delimiter", delimiter.to_string())
    }

    /// Sets whether the file is identified by its bytes rather than by its size and modification time. Each query then reads
    /// the whole file to compare them.
    #[must_use]
    pub fn content_hash(self, is_hashed: bool) -> Self {
        self.option("content_hash", is_hashed.to_string())
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { name, format, location, columns, options } = self;
        let location = location
            .ok_or_else(|| Error::catalog("the path of a table's file must be valid UTF-8"))?;
        let columns = columns.into_iter().map(|(name, t)| Ok((name, written_type(&t)?)));
        let columns = columns.collect::<Result<_, Error>>()?;
        Ok(Parsed::CreateTable { name, columns, format: format.to_owned(), location, options })
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
        DataType::Float32 => S::Real,
        DataType::Float64 => S::DoublePrecision,
        DataType::Utf8 => S::Text,
        DataType::Date32 => S::Date,
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            S::Timestamp(None, sql::TimezoneInfo::None)
        }
        DataType::Decimal128(precision, scale) => S::Decimal(
            sql::ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)),
        ),
        other => return Err(Error::catalog(format!("a column cannot be declared as {other}"))),
    })
}

/// The privacy unit of a table: `ALTER TABLE … SET PRIVACY UNIT`.
///
/// ```
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
    key: Key,
    unique: bool,
    max_rows: Option<u64>,
    other_people: Vec<String>,
}

/// How a row leads to its unit.
#[derive(Debug, Clone)]
enum Key {
    Row,
    Column(String),
    Via { columns: Vec<String>, table: String, references: Vec<String> },
}

impl PrivacyUnit {
    fn new(table: String, key: Key) -> Self {
        Self { table, key, unique: false, max_rows: None, other_people: Vec::new() }
    }

    /// Each row is about a different person: `ROW`.
    pub fn row(table: impl Into<String>) -> Self {
        Self::new(table.into(), Key::Row)
    }

    /// A column identifies the person: `(column)`.
    pub fn column(table: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(table.into(), Key::Column(column.into()))
    }

    /// Columns lead to a row of another table, which leads to the person: `VIA (columns) REFERENCES target(references)`.
    pub fn via<C: Into<String>, R: Into<String>>(
        table: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        target: impl Into<String>,
        references: impl IntoIterator<Item = R>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        let references = references.into_iter().map(Into::into).collect();
        Self::new(table.into(), Key::Via { columns, table: target.into(), references })
    }

    /// A person has at most one row. For a unit that a column identifies.
    #[must_use]
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// A person has at most this many rows. For a unit that a column identifies or to which columns lead.
    #[must_use]
    pub fn max_rows(mut self, rows: u64) -> Self {
        self.max_rows = Some(rows);
        self
    }

    /// Declares that another table with the same rows is about other people: `OTHER PEOPLE THAN table`.
    #[must_use]
    pub fn other_people_than(mut self, table: impl Into<String>) -> Self {
        self.other_people.push(table.into());
        self
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { table, key, unique, max_rows, other_people } = self;
        if max_rows.is_some_and(|rows| !(1..=MOST_ROWS).contains(&rows)) {
            return Err(Error::catalog(format!("max_rows must be from 1 to {MOST_ROWS}")));
        }
        if unique && !matches!(key, Key::Column(_)) {
            return Err(Error::catalog("only a unit that a column identifies can be unique"));
        }
        let unit = match key {
            Key::Row if max_rows.is_some() => {
                return Err(Error::catalog("a unit of one row cannot have max_rows"));
            }
            Key::Row => UnitClause::Row,
            Key::Column(column) => UnitClause::Column { column, unique, max_rows },
            Key::Via { columns, references, .. }
                if columns.is_empty() || columns.len() != references.len() =>
            {
                return Err(Error::catalog(
                    "a link needs the same number of columns on both sides",
                ));
            }
            Key::Via { columns, table, references } => {
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

/// The possible values of a column: `ALTER TABLE … ALTER COLUMN … SET PRIVACY DOMAIN`.
///
/// ```
/// use hushql::{Engine, PrivacyDomain};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// let owner = engine.owner();
/// owner.declare(PrivacyDomain::between("orders", "price", 0, 100)).await?;
/// owner.declare(PrivacyDomain::values("orders", "city", ["Paris", "Oslo"])).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PrivacyDomain {
    table: String,
    column: String,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    Listed(Vec<Value>),
    Between { lo: Value, hi: Value },
    References { table: String, column: String },
    Stepped { lo: Value, hi: Value, step: Value },
}

impl PrivacyDomain {
    /// These values: `IN (…)`.
    pub fn values<V: Into<Value>>(
        table: impl Into<String>,
        column: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = Values::Listed(values.into_iter().map(Into::into).collect());
        Self { table: table.into(), column: column.into(), values }
    }

    /// Every value from one to another: `BETWEEN (lo, hi)`.
    pub fn between(
        table: impl Into<String>,
        column: impl Into<String>,
        lo: impl Into<Value>,
        hi: impl Into<Value>,
    ) -> Self {
        let values = Values::Between { lo: lo.into(), hi: hi.into() };
        Self { table: table.into(), column: column.into(), values }
    }

    /// The values from one to another in steps: `BETWEEN (lo, hi) STEP step`.
    pub fn stepped(
        table: impl Into<String>,
        column: impl Into<String>,
        lo: impl Into<Value>,
        hi: impl Into<Value>,
        step: impl Into<Value>,
    ) -> Self {
        let values = Values::Stepped { lo: lo.into(), hi: hi.into(), step: step.into() };
        Self { table: table.into(), column: column.into(), values }
    }

    /// The present values of a public table's column: `REFERENCES table(column)`.
    pub fn references(
        table: impl Into<String>,
        column: impl Into<String>,
        public_table: impl Into<String>,
        public_column: impl Into<String>,
    ) -> Self {
        let values =
            Values::References { table: public_table.into(), column: public_column.into() };
        Self { table: table.into(), column: column.into(), values }
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let Self { table, column, values } = self;
        let domain = match values {
            Values::Listed(values) if values.is_empty() => {
                return Err(Error::catalog("a domain needs at least one value"));
            }
            Values::Listed(values) => {
                let literals = values.iter().map(Value::literal);
                DomainClause::In(literals.collect::<Result<Vec<Literal>, _>>()?)
            }
            Values::References { table, column } => DomainClause::References { table, column },
            Values::Between { lo, hi } => {
                DomainClause::Between { lo: lo.literal()?, hi: hi.literal()?, step: None }
            }
            Values::Stepped { lo, hi, step } => DomainClause::Between {
                lo: lo.literal()?,
                hi: hi.literal()?,
                step: Some(step.literal()?),
            },
        };
        Ok(Parsed::SetDomain { table, column, domain })
    }
}

impl From<PrivacyDomain> for Declaration {
    fn from(domain: PrivacyDomain) -> Self {
        Self { parsed: domain.parsed() }
    }
}

/// A limit on the total privacy loss of the people in a table: `CREATE PRIVACY BUDGET`.
///
/// An amount means the shortest decimal that parses to it: `0.1` is exactly one tenth.
///
/// ```
/// use hushql::{Engine, PrivacyBudget};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).max_epsilon(0.5);
/// let sentence = engine.owner().declare(budget).await?;
/// assert!(sentence.starts_with("budget study for adult"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PrivacyBudget {
    name: String,
    table: String,
    epsilon: Option<f64>,
    rho: Option<f64>,
    delta: Option<f64>,
    zcdp: bool,
    default: Option<f64>,
    default_rho: Option<f64>,
    default_delta: Option<f64>,
    min: Option<f64>,
    min_rho: Option<f64>,
    max: Option<f64>,
    max_rho: Option<f64>,
    max_delta: Option<f64>,
}

impl PrivacyBudget {
    fn new(name: String, table: String) -> Self {
        Self {
            name,
            table,
            epsilon: None,
            rho: None,
            delta: None,
            zcdp: false,
            default: None,
            default_rho: None,
            default_delta: None,
            min: None,
            min_rho: None,
            max: None,
            max_rho: None,
            max_delta: None,
        }
    }

    /// A budget that counts in ε: `LIMIT (epsilon=…)`.
    pub fn epsilon(name: impl Into<String>, table: impl Into<String>, limit: f64) -> Self {
        Self { epsilon: Some(limit), ..Self::new(name.into(), table.into()) }
    }

    /// A budget that counts in ρ, of zero-concentrated differential privacy: `LIMIT (rho=…)`.
    pub fn rho(name: impl Into<String>, table: impl Into<String>, limit: f64) -> Self {
        Self { rho: Some(limit), ..Self::new(name.into(), table.into()) }
    }

    /// Sets the δ that may ever be spent; the default is 0.
    #[must_use]
    pub fn delta(self, limit: f64) -> Self {
        Self { delta: Some(limit), ..self }
    }

    /// Counts charges in ρ, so that all of them together satisfy the ε and δ of the limit: `ACCOUNTANT ZCDP`.
    #[must_use]
    pub fn zcdp(self) -> Self {
        Self { zcdp: true, ..self }
    }

    /// Sets the ε of a query without a cost: `PER QUERY (default=…)`.
    #[must_use]
    pub fn default_epsilon(self, epsilon: f64) -> Self {
        Self { default: Some(epsilon), ..self }
    }

    /// Sets the ρ of a query without a cost: `PER QUERY (default_rho=…)`.
    #[must_use]
    pub fn default_rho(self, rho: f64) -> Self {
        Self { default_rho: Some(rho), ..self }
    }

    /// Sets the δ of a query without one: `PER QUERY (default_delta=…)`.
    #[must_use]
    pub fn default_delta(self, delta: f64) -> Self {
        Self { default_delta: Some(delta), ..self }
    }

    /// Sets the least ε that one query may cost: `PER QUERY (min=…)`.
    ///
    /// It must be at least [`Resources::least_epsilon`](crate::Resources::least_epsilon), which always applies.
    #[must_use]
    pub fn min_epsilon(self, epsilon: f64) -> Self {
        Self { min: Some(epsilon), ..self }
    }

    /// Sets the least ρ that one query may cost: `PER QUERY (min_rho=…)`.
    #[must_use]
    pub fn min_rho(self, rho: f64) -> Self {
        Self { min_rho: Some(rho), ..self }
    }

    /// Sets the most ε that one query may cost: `PER QUERY (max=…)`.
    #[must_use]
    pub fn max_epsilon(self, epsilon: f64) -> Self {
        Self { max: Some(epsilon), ..self }
    }

    /// Sets the most ρ that one query may cost: `PER QUERY (max_rho=…)`.
    #[must_use]
    pub fn max_rho(self, rho: f64) -> Self {
        Self { max_rho: Some(rho), ..self }
    }

    /// Sets the most δ that one query may cost: `PER QUERY (max_delta=…)`.
    #[must_use]
    pub fn max_delta(self, delta: f64) -> Self {
        Self { max_delta: Some(delta), ..self }
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let allowance = match (amount(self.epsilon)?, amount(self.rho)?) {
            (Some(epsilon), _) => Allowance::Epsilon(epsilon),
            (None, Some(rho)) => Allowance::Rho(rho),
            (None, None) => return Err(Error::Internal),
        };
        let delta = amount(self.delta)?;
        match (&allowance, &delta) {
            (Allowance::Rho(_), _) if self.zcdp => {
                return Err(Error::catalog("a budget in rho needs no zcdp: it adds up rho"));
            }
            (Allowance::Epsilon(_), None) if self.zcdp => {
                return Err(Error::catalog("a budget with zcdp needs a delta"));
            }
            _ => {}
        }
        let limit = Box::new(LimitClause { allowance, delta, zcdp: self.zcdp });
        let per_query = Box::new(PerQueryClause {
            default: amount(self.default)?,
            default_rho: amount(self.default_rho)?,
            default_delta: amount(self.default_delta)?,
            min: amount(self.min)?,
            min_rho: amount(self.min_rho)?,
            max: amount(self.max)?,
            max_rho: amount(self.max_rho)?,
            max_delta: amount(self.max_delta)?,
        });
        Ok(Parsed::CreateBudget { name: self.name, table: self.table, limit, per_query })
    }
}

impl From<PrivacyBudget> for Declaration {
    fn from(budget: PrivacyBudget) -> Self {
        Self { parsed: budget.parsed() }
    }
}

/// An exact amount of ε, ρ or δ.
fn amount<T: std::str::FromStr<Err = ParameterError>>(
    value: Option<f64>,
) -> Result<Option<T>, Error> {
    let Some(value) = value else { return Ok(None) };
    let text = decimal(value).unwrap_or_else(|| value.to_string());
    Ok(Some(text.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    fn same(declaration: impl Into<Declaration>, statement: &str) {
        let Statement::Declare(written) = parse(statement).unwrap() else { panic!("{statement}") };
        let described = declaration.into().into_parsed().unwrap();
        assert_eq!(format!("{described:?}"), format!("{written:?}"), "{statement}");
        assert_eq!(described, *written, "{statement}");
    }

    #[test]
    fn descriptions_are_what_the_parser_reads() {
        same(Declaration::public("nations"), "ALTER TABLE nations SET PUBLIC");
        same(PrivacyUnit::row("people"), "ALTER TABLE people SET PRIVACY UNIT ROW");
        same(
            PrivacyUnit::column("p", "id").unique().max_rows(3).other_people_than("q"),
            "ALTER TABLE p SET PRIVACY UNIT (id) UNIQUE MAX ROWS 3 OTHER PEOPLE THAN q",
        );
        same(
            PrivacyUnit::via("o", ["a", "b"], "p", ["x", "y"]).max_rows(50),
            "ALTER TABLE o SET PRIVACY UNIT VIA (a, b) REFERENCES p(x, y) MAX ROWS 50",
        );
        same(
            PrivacyDomain::values("t", "c", [Value::from("it's"), Value::Null]),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN IN ('it''s', NULL)",
        );
        same(
            PrivacyDomain::values("t", "c", [true]),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN IN (TRUE)",
        );
        same(
            PrivacyDomain::between("t", "c", -5, 0.25),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (-5, 0.25)",
        );
        same(
            PrivacyDomain::stepped("t", "c", 0, 10, 0.5),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN BETWEEN (0, 10) STEP 0.5",
        );
        same(
            PrivacyDomain::references("t", "c", "wards", "name"),
            "ALTER TABLE t ALTER COLUMN c SET PRIVACY DOMAIN REFERENCES wards(name)",
        );
        same(
            PrivacyBudget::epsilon("b", "t", 0.1)
                .delta(1e-6)
                .zcdp()
                .default_epsilon(0.05)
                .default_delta(1e-9)
                .min_rho(0.001)
                .max_rho(0.3)
                .max_delta(1e-7),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (epsilon=0.1, delta=1e-6) ACCOUNTANT ZCDP PER QUERY (default=0.05, default_delta=1e-9, min_rho=0.001, max_rho=0.3, max_delta=1e-7)",
        );
        same(
            PrivacyBudget::rho("b", "t", 2.0).default_rho(0.5).min_epsilon(1e-4).max_epsilon(1.0),
            "CREATE PRIVACY BUDGET b FOR t LIMIT (rho=2) PER QUERY (default_rho=0.5, min=0.0001, max=1)",
        );
        same(
            ExternalTable::csv("t", "a'b.csv").header(false).delimiter('|').content_hash(true),
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a''b.csv' OPTIONS (has_header FALSE, delimiter '|', content_hash TRUE)",
        );
        same(
            ExternalTable::parquet("t", "a"),
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'a'",
        );
        same(ExternalTable::json("t", "a"), "CREATE EXTERNAL TABLE t STORED AS JSON LOCATION 'a'");
        let columns = [
            ("a", DataType::Boolean),
            ("b", DataType::Int8),
            ("c", DataType::Int16),
            ("d", DataType::Int32),
            ("e", DataType::Int64),
            ("f", DataType::Float32),
            ("g", DataType::Float64),
            ("h", DataType::Utf8),
            ("i", DataType::Date32),
            ("j", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("k", DataType::Decimal128(10, 2)),
        ];
        let fields = columns.map(|(name, t)| arrow::datatypes::Field::new(name, t, true));
        same(
            ExternalTable::arrow("t", "a").columns(&Schema::new(fields.to_vec())),
            "CREATE EXTERNAL TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f REAL, g DOUBLE PRECISION, h TEXT, i DATE, j TIMESTAMP, k DECIMAL(10, 2)) STORED AS ARROW LOCATION 'a'",
        );
    }

    #[test]
    fn descriptions_that_sql_could_not_say_are_refused() {
        fn refused(declaration: impl Into<Declaration>) {
            let parsed = declaration.into().into_parsed();
            assert!(matches!(parsed, Err(Error::Catalog { .. } | Error::Refused(_))), "{parsed:?}");
        }
        refused(PrivacyUnit::row("t").max_rows(2));
        refused(PrivacyUnit::row("t").unique());
        refused(PrivacyUnit::column("t", "c").max_rows(0));
        refused(PrivacyUnit::column("t", "c").max_rows(MOST_ROWS + 1));
        refused(PrivacyUnit::via("t", ["a"], "u", ["x", "y"]));
        refused(PrivacyUnit::via("t", [""; 0], "u", [""; 0]));
        refused(PrivacyUnit::via("t", ["a"], "u", ["x"]).unique());
        refused(PrivacyDomain::values("t", "c", [""; 0]));
        refused(PrivacyDomain::values("t", "c", ["__hushql_x"]));
        refused(PrivacyDomain::between("t", "c", 0, f64::INFINITY));
        for amount in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            refused(PrivacyBudget::epsilon("b", "t", amount));
            refused(PrivacyBudget::rho("b", "t", amount));
            refused(PrivacyBudget::epsilon("b", "t", 1.0).delta(amount));
        }
        refused(PrivacyBudget::epsilon("b", "t", 1.0).zcdp());
        refused(PrivacyBudget::rho("b", "t", 1.0).delta(1e-6).zcdp());
        refused(ExternalTable::csv("t", "a").column("c", DataType::LargeUtf8));
    }
}
