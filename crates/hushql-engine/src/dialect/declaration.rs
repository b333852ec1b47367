//! Parsed declarations of owners, and SHOW statements, which anyone may use. Names are unresolved
//! and literals untyped; nothing is checked against a catalog yet.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 20  →  SetUnit { table, unit: Column { … } }
//! ```

use sqlparser::ast as sql;

use crate::catalog::{Replay, SpentUnit, TableRules};
use crate::dialect::amounts_per_query::{FloorClause, PerQueryClause};
use crate::dialect::literal::Literal;
use crate::dialect::parameter_clauses::TemplateClause;
use crate::dialect::password::Password;
use crate::dialect::unit_clause::UnitClause;
use crate::privacy::{Delta, Epsilon, Rational, Rho};

/// A statement that only an owner may use.
#[derive(Debug, Clone, PartialEq)]
pub enum Declaration {
    /// `CREATE EXTERNAL TABLE name [(columns)] STORED AS format LOCATION 'path' …`.
    CreateTable {
        /// The table's name.
        name: String,
        /// The columns, or none to infer them.
        columns: Vec<(String, sql::DataType)>,
        /// CSV, PARQUET, JSON, ARROW, DELTA, SQLITE or POSTGRES.
        format: String,
        /// The columns whose values are names of folders, with the types that are written.
        partitioned_by: Vec<(String, Option<sql::DataType>)>,
        /// The path as written.
        location: String,
        /// Options of the format.
        options: Vec<(String, String)>,
        /// What happens if the name is taken.
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
        /// What happens if the name is taken.
        taken: Taken,
    },
    /// `CREATE [OR REPLACE] TEMPLATE [IF NOT EXISTS] name(parameters) AS query`.
    CreateTemplate {
        /// The template.
        template: TemplateClause,
        /// What happens if the name is taken.
        taken: Taken,
    },
    /// `DROP TEMPLATE [IF EXISTS] name`.
    DropTemplate {
        /// The template's name.
        name: String,
        /// Whether a missing template is not an error.
        if_exists: bool,
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
    /// `ALTER TABLE name SET STRICT`, or `DROP STRICT`: whether declarations of the table refuse
    /// files of which something cannot be read as declared.
    SetStrict {
        /// The table's name.
        table: String,
        /// True for SET, false for DROP.
        strict: bool,
    },
    /// `ALTER TABLE name SET ABOUT n PEOPLE`, or `DROP ABOUT`: about how many people it is.
    SetAbout {
        /// The table's name.
        table: String,
        /// The number of people. `None` forgets it.
        people: Option<u64>,
    },
    /// `ALTER TABLE name SET PRIVACY FLOOR n [(beta=…)]`, or `DROP PRIVACY FLOOR`: the fewest
    /// people behind a number that may be shown.
    SetFloor {
        /// The table's name.
        table: String,
        /// The floor. `None` drops it.
        floor: Option<FloorClause>,
    },
    /// `ALTER TABLE name SET RULES (…) [FOR role]`, or `DROP RULES [FOR role]`: what queries may do
    /// with its columns.
    SetRules {
        /// The table's name.
        table: String,
        /// The role that they bind; `None` for everyone.
        role: Option<String>,
        /// The rules. `None` drops them.
        rules: Option<Box<TableRules>>,
    },
    /// `ALTER TABLE name REFRESH`: the table keeps its present rows until its next declaration.
    Refresh {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name RELOAD`: verifies the table on its present files, and keeps its
    /// declarations.
    Reload {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name DROP PRIVACY UNIT` (or `DROP PRIVACY`): the table is undeclared again.
    DropUnit {
        /// The table's name.
        table: String,
    },
    /// `ALTER TABLE name ALTER COLUMN column SET PUBLIC`: the values of a column of people whose
    /// presence is public are public, too.
    SetPublicColumn {
        /// The table's name.
        table: String,
        /// The column's name.
        column: String,
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
    /// `ALTER TABLE name SET PRIVACY SPENT (…) [UNIT (person) PER MONTH OF (date)] [BY analyst]
    /// [TOGETHER WITH name, …]`: raises what counts as spent on the people of a table, and joins
    /// these names for good. The table need not exist any more.
    SetSpent {
        /// The table's name.
        table: String,
        /// The analyst who spent it. `None` raises what everyone spent together.
        by: Option<String>,
        /// The least that was spent.
        spent: Box<SpentClause>,
        /// Names whose charges count for the same people.
        together: Vec<String>,
        /// For what it was spent, if not for people with all their rows.
        unit: Option<SpentUnit>,
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
        /// Whose answers the budget replays. Without a REPLAY clause, those of everyone.
        replay: Replay,
        /// The least that was already spent on these people.
        spent: Option<Box<SpentClause>>,
        /// Its slices.
        slices: Vec<SliceClause>,
        /// What happens if the name is taken.
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
        /// The column whose values divide the people into cells.
        column: String,
    },
    /// `ALTER PRIVACY BUDGET name PARTITION BY column`, or `DROP PARTITION`.
    PartitionBudget {
        /// The budget's name.
        name: String,
        /// The column whose values divide the people into cells. `None` drops the partition.
        column: Option<String>,
    },
    /// `ALTER PRIVACY BUDGET name SET REPLAY (ALL | OWN | OFF)`.
    SetReplay {
        /// The budget's name.
        name: String,
        /// Whose answers the budget replays.
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
        /// The folder into which the analyst's answers may be written. `None` drops it.
        folder: Option<String>,
    },
    /// `CREATE ROLE [IF NOT EXISTS] name [LOGIN | NOLOGIN] [DEFAULTS | NODEFAULTS] [TEMPLATES ONLY]
    /// [PASSWORD 'text'] [VALID UNTIL 'time']`.
    CreateRole {
        /// The role's name, which is also the analyst's.
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
    /// `GRANT … TO role {, role}`, or `REVOKE … FROM role {, role}`.
    Grant(GrantClause),
    /// `SET GRANTS REQUIRED`, or `SET GRANTS NOT REQUIRED`.
    SetGrants {
        /// Whether roles see only what is granted to them.
        are_required: bool,
    },
    /// `DROP PRIVACY BUDGET [IF EXISTS] name`.
    DropBudget {
        /// The budget's name.
        name: String,
        /// Whether a missing budget is not an error.
        if_exists: bool,
    },
}

/// Grants that are given to roles, or taken from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantClause {
    /// What is granted.
    pub objects: GrantObjects,
    /// The roles.
    pub roles: Vec<String>,
    /// True for GRANT, false for REVOKE.
    pub may: bool,
}

/// What is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantObjects {
    /// `SELECT ON name {, name}`.
    Tables(Vec<String>),
    /// `SELECT ON ALL TABLES`: those that are declared now.
    AllTables,
    /// `USAGE ON BUDGET name {, name}`.
    Budgets(Vec<String>),
    /// `USAGE ON ALL BUDGETS`: those that are declared now.
    AllBudgets,
    /// `role {, role}`.
    Roles(Vec<String>),
    /// `EXECUTE ON TEMPLATE name {, name}`.
    Templates(Vec<String>),
    /// `EXECUTE ON ALL TEMPLATES`: those that are declared now.
    AllTemplates,
}

/// The options of a role. `None` means that an option is not written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleClause {
    /// True if the role may log in.
    pub login: Option<bool>,
    /// Its password, or the verifier of one.
    pub password: Option<Password>,
    /// The time until which the role may log in, or `infinity`.
    pub valid_until: Option<String>,
    /// True if queries of the role may use the PER QUERY default of a budget.
    pub defaults: Option<bool>,
    /// True if the role may call templates, and nothing else.
    pub templates_only: Option<bool>,
}

/// `SLICE analyst LIMIT (…) [SPENT (…)]` of a new budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceClause {
    /// The analyst.
    pub analyst: String,
    /// The most that the analyst may ever spend.
    pub limit: SliceLimit,
    /// The least that the analyst has already spent.
    pub spent: Option<Box<SpentClause>>,
}

/// `LIMIT (…)` of a slice, in the notion of its budget.
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
    /// `rho=…`, also for a budget with `ACCOUNTANT ZCDP`.
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

/// What CREATE does if the name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taken {
    /// The statement fails.
    #[default]
    Fail,
    /// `IF NOT EXISTS`: the existing object stays.
    Keep,
    /// `OR REPLACE`: the new object replaces the existing one.
    Replace,
}

/// `SPENT (epsilon=…, delta=…, rho=…, rho_delta=…, releases=…,
/// dearest=…)`: at least this much was spent. Beside a `rho` without an `epsilon`, `delta` is the δ
/// of the ρ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpentClause {
    /// The ε, if every charge has one.
    pub epsilon: Option<Rational>,
    /// The δ of the ε.
    pub delta: Option<Rational>,
    /// The ρ. If absent, the largest that the ε and δ can have.
    pub rho: Option<Rational>,
    /// The δ of the ρ.
    pub rho_delta: Option<Rational>,
    /// The number of releases, for budgets of coupons. If absent, one release.
    pub releases: Option<Rational>,
    /// The largest ε of one of these releases.
    pub dearest: Option<Rational>,
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
        /// True if NULL is a value, too.
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

/// `ACCOUNTANT …`: how the charges of a budget are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Accountant {
    /// They are added up.
    #[default]
    Sums,
    /// They are added up in ρ, and the sum is converted to ε and δ.
    Zcdp {
        /// True if half of δ is for releases that have a δ of their own. `thresholds=0` leaves
        /// nothing for them.
        thresholds: bool,
    },
    /// `COUPONS (epsilon=…)`: each release uses one coupon, and has at most the coupon's ε.
    Coupons {
        /// The ε of a coupon.
        epsilon: Epsilon,
        /// As for `ZCDP`.
        thresholds: bool,
    },
}

/// By what the rows of SHOW PRIVACY BUDGET are grouped.
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

/// A change of a release table.
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
        /// True for GRANT, false for REVOKE.
        may: bool,
    },
}

/// A statement that shows the catalog or the budgets. Anyone may use it unless a variant says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// `SHOW TABLES`.
    Tables,
    /// `SHOW PRIVACY`: units, domains, budgets.
    Privacy,
    /// `SHOW PRIVACY BUDGET [name]`.
    Budget(Option<String>),
    /// `SHOW PRIVACY BUDGET [name] BY ANALYST`, `BY DAY`, `BY MONTH` or `BY CELL`: what was spent,
    /// by whom, when, or on which cell.
    Spending {
        /// The budget's name; `None` for all budgets.
        budget: Option<String>,
        /// By what the rows are grouped.
        by: SpendingBy,
    },
    /// `SHOW TEMPLATES`: which may be called, with what they cost.
    Templates,
    /// `SHOW CREATE TEMPLATE name`, for owners.
    CreateTemplate(String),
    /// `SHOW ROLES`, for owners: who may log in, and until when.
    Roles,
    /// `SHOW GRANTS [FOR role]`: who may ask about what. A role sees its own.
    Grants(Option<String>),
    /// `SHOW RULES`: what queries may do with the columns of tables.
    Rules,
    /// `SHOW PRIVACY REQUESTS`: requests for more of a budget.
    Requests,
    /// `SHOW PRIVACY STATEMENT FOR name`: what a budget promises, in sentences.
    Statement(String),
    /// `SHOW PRIVACY HISTORY`: when which declarations were made, changed and dropped.
    History,
    /// `DESCRIBE name`, of a table or a view.
    Describe(String),
    /// `SUMMARIZE name`, of a table or a view.
    Summarize(String),
    /// `SHOW CREATE VIEW name`, for owners.
    View(String),
    /// `SHOW CREATE TABLE name`, for owners.
    CreateTable(String),
    /// `SHOW RELEASE TABLE name`: the stored answer as it was first shown, with its accuracy and
    /// its cost.
    ReleaseTable(String),
    /// `SHOW SYNTHETIC name`: how a synthetic table was made, and the errors of its marginals.
    Synthetic(String),
    /// `SHOW CREATE RELEASE TABLE name`, for its creator and owners.
    CreateReleaseTable(String),
    /// `SHOW CREATE [PRIVACY] BUDGET name`, for owners.
    CreateBudget(String),
    /// `ALTER TABLE name SUGGEST PRIVACY`, for owners: drafts of declarations, made from the names
    /// and types of columns.
    Suggest(String),
}
