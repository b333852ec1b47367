//! Parsed declarations of owners, and parsed SHOW statements, which everyone may use.
//!
//! Names are unresolved and literals untyped; nothing is checked against a catalog yet.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 20  →  SetUnit { table, unit: Column { … } }
//! ```

use sqlparser::ast as sql;

use crate::catalog::Replay;
use crate::dialect::literal::Literal;
use crate::dialect::password::Password;
use crate::privacy::{Delta, Epsilon, Rational, Rho};

/// A statement that only an owner may use.
#[derive(Debug, Clone, PartialEq)]
pub enum Declaration {
    /// `CREATE [OR REPLACE] EXTERNAL TABLE [IF NOT EXISTS] name [(columns)] STORED AS format
    /// [PARTITIONED BY (…)] LOCATION 'path' [OPTIONS (…)]`.
    CreateTable {
        /// The table's name.
        name: String,
        /// The columns, or none to infer them.
        columns: Vec<(String, sql::DataType)>,
        /// CSV, PARQUET, JSON, ARROW or POSTGRES.
        format: String,
        /// The columns whose values are in the names of folders, and their types, where they are
        /// written here.
        partitioned_by: Vec<(String, Option<sql::DataType>)>,
        /// The path as written.
        location: String,
        /// Options of the format.
        options: Vec<(String, String)>,
        /// What happens to a table of this name.
        taken: Taken,
    },
    /// `DROP TABLE [IF EXISTS] name`: removes the table; what was charged to it remains.
    DropTable {
        /// The table's name.
        name: String,
        /// Whether a missing table is not an error.
        if_exists: bool,
    },
    /// `CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] AS query`.
    CreateView {
        /// The view's name.
        name: String,
        /// The names of its columns, or none to take those of the query.
        columns: Vec<String>,
        /// The query, as written: plain SQL.
        query: String,
        /// What happens to a view of this name.
        taken: Taken,
    },
    /// `DROP VIEW [IF EXISTS] name`.
    DropView {
        /// The view's name.
        name: String,
        /// Whether a missing view is not an error.
        if_exists: bool,
    },
    /// `ALTER TABLE name SET PRIVACY UNIT … [OTHER PEOPLE THAN table, …]`.
    SetUnit {
        /// The table's name.
        table: String,
        /// Its unit.
        unit: UnitClause,
        /// Tables with the same rows that, as the owner declares, are about other people.
        other_people: Vec<String>,
    },
    /// `ALTER TABLE name SET PUBLIC`.
    SetPublic {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name REFRESH`: the rows are those of now until its next declaration.
    Refresh {
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
    /// `ALTER TABLE name SET PRIVACY SPENT (…) [BY analyst]
    /// [TOGETHER WITH name, …]`: raises what counts as spent on the people of a table, which need
    /// not exist any more, and joins these names for good.
    SetSpent {
        /// The table's name.
        table: String,
        /// The analyst who spent it; `None` raises what everyone together spent.
        by: Option<String>,
        /// What was spent, at least.
        spent: Box<SpentClause>,
        /// Names whose charges count for the same people.
        together: Vec<String>,
    },
    /// `CREATE [OR REPLACE] PRIVACY BUDGET [IF NOT EXISTS] name FOR table LIMIT (…) [PER QUERY (…)]
    /// [REPLAY (…)] [SPENT (…)] [SLICE analyst LIMIT (…) [SPENT (…)]] …`.
    CreateBudget {
        /// The budget's name.
        name: String,
        /// The table whose unit domain it protects.
        table: String,
        /// The limit.
        limit: Box<LimitClause>,
        /// The PER QUERY parameters.
        per_query: Box<PerQueryClause>,
        /// Whose answers it replays: everybody's, unless the clause says otherwise.
        replay: Replay,
        /// What was spent on these people already, at least.
        spent: Option<Box<SpentClause>>,
        /// Its slices.
        slices: Vec<SliceClause>,
        /// What happens to a budget of this name.
        taken: Taken,
    },
    /// `ALTER PRIVACY BUDGET name ADD SLICE analyst LIMIT (…)`, `ALTER SLICE analyst SET LIMIT (…)`
    /// or `DROP SLICE analyst`.
    AlterSlice {
        /// The budget's name.
        budget: String,
        /// The analyst.
        analyst: String,
        /// The change of the analyst's slice.
        change: SliceAlteration,
    },
    /// `CREATE PRIVACY BUDGET … PARTITION BY column`.
    CreatePartitioned {
        /// The creation of the budget.
        create: Box<Declaration>,
        /// The column whose values are the cells of its people.
        column: String,
    },
    /// `ALTER PRIVACY BUDGET name PARTITION BY column`, or `DROP PARTITION`.
    PartitionBudget {
        /// The budget's name.
        name: String,
        /// The column whose values are the cells of its people; `None` drops the partition.
        column: Option<String>,
    },
    /// `ALTER PRIVACY BUDGET name SET REPLAY (ALL | OWN | OFF)`.
    SetReplay {
        /// The budget's name.
        name: String,
        /// Whose answers it replays.
        replay: Replay,
    },
    /// `ALTER PRIVACY BUDGET name SET PER QUERY (…)`, or `DROP PER QUERY`: replaces all of these
    /// parameters.
    AlterPerQuery {
        /// The budget's name.
        name: String,
        /// The new PER QUERY parameters.
        per_query: Box<PerQueryClause>,
    },
    /// `ALTER PRIVACY BUDGET name SET LIMIT (…)`.
    AlterBudget {
        /// The budget's name.
        name: String,
        /// The new limit.
        limit: Box<LimitClause>,
    },
    /// `ALTER VAULT SET EXPORT FOLDER 'path' FOR analyst`, or `DROP EXPORT FOLDER FOR analyst`.
    SetExport {
        /// The analyst.
        analyst: String,
        /// The folder into which their answers may be written; `None` drops it.
        folder: Option<String>,
    },
    /// `CREATE ROLE [IF NOT EXISTS] name [LOGIN | NOLOGIN] [DEFAULTS | NODEFAULTS] PASSWORD 'text'
    /// [VALID UNTIL 'time']`.
    CreateRole {
        /// The role's name, which is that of an analyst.
        name: String,
        /// Its options, with a password.
        options: RoleClause,
        /// Whether an existing role is not an error.
        if_not_exists: bool,
    },
    /// `ALTER ROLE name [LOGIN | NOLOGIN] [DEFAULTS | NODEFAULTS] [PASSWORD 'text'] [VALID UNTIL
    /// 'time']`.
    AlterRole {
        /// The role's name.
        name: String,
        /// What changes.
        options: RoleClause,
    },
    /// `DROP ROLE [IF EXISTS] name`.
    DropRole {
        /// The role's name.
        name: String,
        /// Whether a missing role is not an error.
        if_exists: bool,
    },
    /// `DROP PRIVACY BUDGET [IF EXISTS] name`.
    DropBudget {
        /// The budget's name.
        name: String,
        /// Whether a missing budget is not an error.
        if_exists: bool,
    },
}

/// What is said of a role; `None` where nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleClause {
    /// Whether it may log in.
    pub login: Option<bool>,
    /// Its password, or the verifier of one.
    pub password: Option<Password>,
    /// The time from which on it may not log in any more, or `infinity`.
    pub valid_until: Option<String>,
    /// Whether its queries may leave their cost to the PER QUERY default of a budget.
    pub defaults: Option<bool>,
}

/// `SLICE analyst LIMIT (…) [SPENT (…)]` of a new budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceClause {
    /// The analyst.
    pub analyst: String,
    /// The most that they may ever spend.
    pub limit: SliceLimit,
    /// What they spent already, at least.
    pub spent: Option<Box<SpentClause>>,
}

/// `LIMIT (…)` of a slice, in the measure of its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceLimit {
    /// The most ε, ρ or coupons.
    pub amount: SliceAmount,
    /// The most δ; `None` means 0.
    pub delta: Option<Delta>,
}

/// The amount of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceAmount {
    /// `epsilon=…`.
    Epsilon(Epsilon),
    /// `rho=…`, also of a budget with `ACCOUNTANT ZCDP`.
    Rho(Rho),
    /// `coupons=…`.
    Coupons(u32),
}

/// What ALTER PRIVACY BUDGET does with a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceAlteration {
    /// `ADD SLICE analyst LIMIT (…)`.
    Add(SliceLimit),
    /// `ALTER SLICE analyst SET LIMIT (…)`.
    SetLimit(SliceLimit),
    /// `DROP SLICE analyst`.
    Drop,
}

/// What CREATE does where its name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taken {
    /// It fails.
    #[default]
    Fail,
    /// `IF NOT EXISTS`: what has the name stays as it is.
    Keep,
    /// `OR REPLACE`: the new declaration takes its place.
    Replace,
}

/// `SPENT (epsilon=…, delta=…, rho=…, rho_delta=…, releases=…,
/// dearest=…)`: at least this much was spent. Beside a `rho` without an `epsilon`, `delta` is that
/// of the ρ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpentClause {
    /// The ε, if everything spent has one.
    pub epsilon: Option<Rational>,
    /// The δ of the ε.
    pub delta: Option<Rational>,
    /// The ρ; without it, the largest that the ε and δ can have.
    pub rho: Option<Rational>,
    /// The δ of the ρ.
    pub rho_delta: Option<Rational>,
    /// How many releases it was, for budgets of coupons; without it, it counts as one.
    pub releases: Option<Rational>,
    /// The largest ε of one of these releases.
    pub dearest: Option<Rational>,
}

/// The privacy unit of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitClause {
    /// `ROW`.
    Row,
    /// `(column) [UNIQUE] [MAX ROWS n]`.
    Column {
        /// The column that identifies the person.
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

/// The declared values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainClause {
    /// `IN ('a', 'b')`.
    In(Vec<Literal>),
    /// `REFERENCES table(column)`: the present values of a public table.
    References {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
    /// `BETWEEN (lo, hi) [STEP s] [OR NULL]`, or `BETWEEN lo AND hi …`.
    Between {
        /// The least value.
        lo: Literal,
        /// The greatest value.
        hi: Literal,
        /// The distance between two values.
        step: Option<Literal>,
        /// Whether NULL is a value too.
        or_null: bool,
    },
}

/// The amount that a limit allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowance {
    /// `epsilon=…`.
    Epsilon(Epsilon),
    /// `rho=…`.
    Rho(Rho),
}

/// `LIMIT (epsilon=…, delta=…)`, with or without `ACCOUNTANT ZCDP` or
/// `ACCOUNTANT COUPONS (epsilon=…)`, or `LIMIT (rho=…, delta=…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitClause {
    /// The most that may ever be spent.
    pub allowance: Allowance,
    /// The most δ that may ever be spent; `None` means 0.
    pub delta: Option<Delta>,
    /// How charges count.
    pub accountant: Accountant,
}

/// `ACCOUNTANT …`: how the charges of a budget count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Accountant {
    /// They are added up.
    #[default]
    Sums,
    /// `ZCDP`: they are added up in ρ and converted to ε and δ at the end.
    Zcdp {
        /// Whether half of δ is for releases that have a δ of their own: `thresholds=0` leaves them
        /// nothing.
        thresholds: bool,
    },
    /// `COUPONS (epsilon=…)`: each release uses one, and has at most that ε.
    Coupons {
        /// The ε of a coupon.
        epsilon: Epsilon,
        /// As for `ZCDP`.
        thresholds: bool,
    },
}

/// `PER QUERY (default=…, default_rho=…, default_delta=…, min=…, min_rho=…, max=…, max_rho=…,
/// max_delta=…)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerQueryClause {
    /// The ε of a query that does not name one.
    pub default: Option<Epsilon>,
    /// The ρ of a query that does not name one.
    pub default_rho: Option<Rho>,
    /// The δ of a query that does not name one.
    pub default_delta: Option<Delta>,
    /// The least ε that one query may cost.
    pub min: Option<Epsilon>,
    /// The least ρ that one query may cost.
    pub min_rho: Option<Rho>,
    /// The most ε one query may cost.
    pub max: Option<Epsilon>,
    /// The most ρ one query may cost.
    pub max_rho: Option<Rho>,
    /// The most δ one query may cost.
    pub max_delta: Option<Delta>,
}

/// What a row of what was spent is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendingBy {
    /// An analyst.
    Analyst,
    /// A day.
    Day,
    /// A month.
    Month,
    /// A cell of people.
    Cell,
}

/// What happens to a release table that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseTableChange {
    /// `DROP RELEASE TABLE [IF EXISTS] name`.
    Drop {
        /// The table's name.
        name: String,
        /// Whether a missing table is not an error.
        if_exists: bool,
    },
    /// `DROP SYNTHETIC TABLE [IF EXISTS] name`.
    DropSynthetic {
        /// The table's name.
        name: String,
        /// Whether a missing table is not an error.
        if_exists: bool,
    },
    /// `GRANT SELECT ON name TO analyst`, or `REVOKE SELECT ON name FROM analyst`.
    Grant {
        /// The table's name.
        name: String,
        /// The analyst.
        analyst: String,
        /// Whether the analyst may read it from now on.
        may: bool,
    },
}

/// A statement that shows the catalog or the budgets; everyone may use it unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// `SHOW TABLES`.
    Tables,
    /// `SHOW PRIVACY`: units, domains, budgets.
    Privacy,
    /// `SHOW PRIVACY BUDGET [name]`.
    Budget(Option<String>),
    /// `SHOW PRIVACY BUDGET [name] BY ANALYST`, `BY DAY`, `BY MONTH` or `BY CELL`: what was spent,
    /// by whom, when, or on whom.
    Spending {
        /// The budget's name; `None` for all budgets.
        budget: Option<String>,
        /// What the rows are.
        by: SpendingBy,
    },
    /// `SHOW ROLES`, for owners: who may log in, and until when.
    Roles,
    /// `SHOW PRIVACY HISTORY`: which declarations were made, changed and dropped, and when.
    History,
    /// `DESCRIBE name`, of a table or a view.
    Describe(String),
    /// `SHOW CREATE VIEW name`, for owners.
    View(String),
    /// `SHOW CREATE TABLE name`, for owners.
    CreateTable(String),
    /// `SHOW RELEASE TABLE name`: the stored answer as it was shown, with its accuracy and what it
    /// cost.
    ReleaseTable(String),
    /// `SHOW SYNTHETIC name`: how a synthetic table was made, and how far its marginals are off.
    Synthetic(String),
    /// `SHOW CREATE RELEASE TABLE name`, for its creator and owners.
    CreateReleaseTable(String),
    /// `SHOW CREATE [PRIVACY] BUDGET name`, for owners.
    CreateBudget(String),
    /// `ALTER TABLE name SUGGEST PRIVACY`, for owners: drafts of declarations from the names and
    /// types of columns.
    Suggest(String),
}
