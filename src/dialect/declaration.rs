//! What an owner declares, and looks at the catalog that everyone may take, as the parser hands them on.
//!
//! Names are unresolved, literals untyped; nothing has been checked against a catalog.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 20  →  SetUnit { table, unit: Column { … } }
//! ```

use sqlparser::ast as sql;

use crate::dialect::literal::Literal;
use crate::privacy::{Delta, Epsilon, Rho};

/// What only an owner may say.
#[derive(Debug, Clone, PartialEq)]
pub enum Declaration {
    /// `CREATE EXTERNAL TABLE name [(columns)] STORED AS format LOCATION 'path' [OPTIONS (…)]`.
    CreateTable {
        /// The table's name.
        name: String,
        /// The columns, or none to infer them.
        columns: Vec<(String, sql::DataType)>,
        /// CSV, PARQUET, JSON or ARROW.
        format: String,
        /// The path as written.
        location: String,
        /// Options of the format.
        options: Vec<(String, String)>,
    },
    /// `DROP TABLE name`: forgets the table, never what it was charged.
    DropTable {
        /// The table's name.
        name: String,
    },
    /// `CREATE [OR REPLACE] VIEW name [(columns)] AS query`.
    CreateView {
        /// The view's name.
        name: String,
        /// The names of its columns, or none: those of the query.
        columns: Vec<String>,
        /// The query, as written: plain SQL.
        query: String,
        /// Whether a view of this name is replaced.
        replace: bool,
    },
    /// `DROP VIEW [IF EXISTS] name`.
    DropView {
        /// The view's name.
        name: String,
        /// Whether nothing is to be said where there is none.
        if_exists: bool,
    },
    /// `ALTER TABLE name SET PRIVACY UNIT … [OTHER PEOPLE THAN table, …]`.
    SetUnit {
        /// The table's name.
        table: String,
        /// Its unit.
        unit: UnitClause,
        /// Tables with the same rows that are about other people, as the owner says.
        other_people: Vec<String>,
    },
    /// `ALTER TABLE name SET PUBLIC`.
    SetPublic {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name DROP PRIVACY UNIT` (or `DROP PRIVACY`): the table is undeclared again.
    DropUnit {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name ALTER COLUMN column SET PRIVACY DOMAIN …`.
    SetDomain {
        /// The table's name.
        table: String,
        /// The column's name.
        column: String,
        /// Its domain.
        domain: DomainClause,
    },
    /// `ALTER TABLE name ALTER COLUMN column DROP PRIVACY DOMAIN`.
    DropDomain {
        /// The table's name.
        table: String,
        /// The column's name.
        column: String,
    },
    /// `CREATE PRIVACY BUDGET name FOR table LIMIT (…) [PER QUERY (…)]`.
    CreateBudget {
        /// The budget's name.
        name: String,
        /// The table whose unit space it guards.
        table: String,
        /// The limit.
        limit: Box<LimitClause>,
        /// The PER QUERY parameters.
        per_query: Box<PerQueryClause>,
    },
    /// `ALTER PRIVACY BUDGET name SET LIMIT (…)`.
    AlterBudget {
        /// The budget's name.
        name: String,
        /// The new limit.
        limit: Box<LimitClause>,
    },
    /// `DROP PRIVACY BUDGET name`.
    DropBudget {
        /// The budget's name.
        name: String,
    },
}

/// Who is protected in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitClause {
    /// `ROW`.
    Row,
    /// `(column) [UNIQUE] [MAX ROWS n]`.
    Column {
        /// The column that names the person.
        column: String,
        /// At most one row a unit.
        unique: bool,
        /// At most this many rows a unit.
        max_rows: Option<u64>,
    },
    /// `VIA (columns) REFERENCES table(columns) [MAX ROWS n]`.
    Via {
        /// The columns that lead to the other table.
        columns: Vec<String>,
        /// The other table.
        table: String,
        /// Its columns.
        references: Vec<String>,
        /// At most this many rows a unit.
        max_rows: Option<u64>,
    },
}

/// A column's declared values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainClause {
    /// `IN ('a', 'b')`.
    In(Vec<Literal>),
    /// `REFERENCES table(column)`: the values that a public table holds now.
    References {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
    /// `BETWEEN (lo, hi) [STEP s]`.
    Between {
        /// The least value.
        lo: Literal,
        /// The greatest value.
        hi: Literal,
        /// The distance of two values.
        step: Option<Literal>,
    },
}

/// What a limit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowance {
    /// `epsilon=…`.
    Epsilon(Epsilon),
    /// `rho=…`.
    Rho(Rho),
}

/// `LIMIT (epsilon=…, delta=…)` or `LIMIT (rho=…, delta=…)`, and `ACCOUNTANT ZCDP` behind the former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitClause {
    /// The most that may ever be spent.
    pub allowance: Allowance,
    /// The most δ that may ever be spent; none means 0.
    pub delta: Option<Delta>,
    /// Whether ε and δ are what the charges must come to at last, counted in ρ meanwhile.
    pub zcdp: bool,
}

/// `PER QUERY (default=…, default_rho=…, default_delta=…, min=…, min_rho=…, max=…, max_rho=…, max_delta=…)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerQueryClause {
    /// The ε of a query that names none.
    pub default: Option<Epsilon>,
    /// The ρ of a query that names none.
    pub default_rho: Option<Rho>,
    /// The δ of a query that names none.
    pub default_delta: Option<Delta>,
    /// The least ε one query has to cost.
    pub min: Option<Epsilon>,
    /// The least ρ one query has to cost.
    pub min_rho: Option<Rho>,
    /// The most ε one query may cost.
    pub max: Option<Epsilon>,
    /// The most ρ one query may cost.
    pub max_rho: Option<Rho>,
    /// The most δ one query may cost.
    pub max_delta: Option<Delta>,
}

/// A look at the catalog or the budgets, for everyone but where it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// `SHOW TABLES`.
    Tables,
    /// `SHOW PRIVACY`: units, domains, budgets.
    Privacy,
    /// `SHOW PRIVACY BUDGET [name]`.
    Budget(Option<String>),
    /// `SHOW PRIVACY HISTORY`: what was declared, changed and dropped, and when.
    History,
    /// `DESCRIBE table`, or a view.
    Describe(String),
    /// `SHOW CREATE VIEW name`, for owners.
    View(String),
}
