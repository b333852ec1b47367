//! The clauses that HushQL adds to SQL, as the parser hands them on.
//!
//! Everything here is syntax: names are unresolved, literals untyped, nothing has been checked against a
//! catalog. Each type's `Display` writes text that parses back to the same value.

use std::fmt;

use sqlparser::ast::{self as sql};

use crate::catalog::RESERVED;
use crate::privacy::{Delta, Epsilon};
use crate::refusal::Refusal;

/// The name of the aggregate function that stands for release `n` in a rewritten tree.
pub fn marker(n: usize) -> String {
    format!("{RESERVED}_release_{n}")
}

/// The release that an aggregate function's name stands for, if it is a marker.
pub fn marked(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_release_")?.parse().ok()
}

/// One statement of the dialect.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Statement {
    /// A query, with or without releases.
    Query(QueryStatement),
    /// `EXPLAIN PRIVACY [FORMAT TEXT | JSON] query`.
    ExplainPrivacy {
        /// The query that is explained; a query that asks for what the dialect leaves out is explained too.
        query: Result<QueryStatement, Refusal>,
        /// How the explanation is written.
        format: ExplainFormat,
    },
    /// `EXPLAIN query`: DataFusion's plan, for public tables.
    Explain(QueryStatement),
    /// An owner's declaration.
    Declare(Box<Declaration>),
    /// A look at the catalog or the budgets.
    Show(Show),
}

/// How an explanation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExplainFormat {
    /// Aligned lines for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// A query: plain SQL in which every release is a call of its marker function, and the clauses themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryStatement {
    /// The tree that the planner reads.
    pub tree: Box<sql::Query>,
    /// The releases; a marker's number is its index here.
    pub releases: Vec<ReleaseClause>,
}

/// One release as written: a mechanism in front of what it releases.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseClause {
    /// The mechanism's name.
    pub mechanism: MechanismName,
    /// What stood between the mechanism's parentheses.
    pub parameters: Parameters,
    /// What is released.
    pub operand: Operand,
    /// Keys given with `GROUP BY x KEYS …`, by position in GROUP BY; as long as GROUP BY when any is given.
    pub keys: Vec<Option<KeysClause>>,
    /// `privacy_unit_column` of the OPTIONS that implied this release.
    pub unit_column: Option<String>,
    /// The operand as text, for column names and explanations.
    pub text: String,
}

/// The mechanisms of the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MechanismName {
    /// The exponential mechanism.
    Exponential,
    /// Permute-and-flip.
    PermuteAndFlip,
    /// Report noisy max.
    NoisyMax,
    /// Discrete Laplace noise.
    Laplace,
    /// Discrete Gaussian noise.
    Gaussian,
    /// The cheapest sound mechanism, chosen by the engine.
    Auto,
    /// Randomized response.
    RandomizedResponse,
    /// None was written: a bare aggregate under a PER QUERY default or under OPTIONS.
    Default,
}

impl MechanismName {
    /// The mechanisms by their SQL names.
    pub const ALL: [(&'static str, Self); 7] = [
        ("EXPONENTIAL", Self::Exponential),
        ("PERMUTE_AND_FLIP", Self::PermuteAndFlip),
        ("NOISY_MAX", Self::NoisyMax),
        ("LAPLACE", Self::Laplace),
        ("GAUSSIAN", Self::Gaussian),
        ("AUTO", Self::Auto),
        ("RANDOMIZED_RESPONSE", Self::RandomizedResponse),
    ];

    /// The mechanism of this name, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, m)| *m)
    }
}

impl fmt::Display for MechanismName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, m)| m == self).map_or("DEFAULT", |(name, _)| *name);
        f.write_str(name)
    }
}

/// What stood between a mechanism's parentheses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The cost.
    pub epsilon: Option<Epsilon>,
    /// The failure probability.
    pub delta: Option<Delta>,
    /// A unit counts in at most this many groups.
    pub groups: Option<u64>,
    /// A unit counts with at most this many rows in a group.
    pub rows: Option<u64>,
    /// A unit counts with at most this many rows in all.
    pub total_rows: Option<u64>,
    /// `monotonic=false`: calibrate by twice the largest change of a score.
    pub monotonic: Option<bool>,
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                parts.push(format!("{name}={value}"));
            }
        };
        part("eps", self.epsilon.as_ref().map(ToString::to_string));
        part("delta", self.delta.as_ref().map(ToString::to_string));
        part("groups", self.groups.map(|n| n.to_string()));
        part("rows", self.rows.map(|n| n.to_string()));
        part("monotonic", self.monotonic.map(|b| b.to_string()));
        f.write_str(&parts.join(", "))
    }
}

/// What is released.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A candidate is chosen. The marker's arguments are the target and the score's argument.
    Selection {
        /// ARGMAX and so on.
        selector: Selector,
        /// The candidates after IN; the column's domain if absent.
        candidates: Option<Vec<Literal>>,
        /// The aggregate that scores a candidate.
        score: AggregateCall,
        /// The score as text, for explanations.
        by: String,
    },
    /// A number is perturbed. The marker's argument is the aggregate's.
    Aggregate(AggregateCall),
}

/// Which end of the ranking is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The candidate of the highest score.
    ArgMax,
    /// The candidate of the lowest score.
    ArgMin,
    /// The k candidates of the highest scores.
    Top(u64),
    /// The k candidates of the lowest scores.
    Bottom(u64),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArgMax => f.write_str("ARGMAX"),
            Self::ArgMin => f.write_str("ARGMIN"),
            Self::Top(k) => write!(f, "TOP {k}"),
            Self::Bottom(k) => write!(f, "BOTTOM {k}"),
        }
    }
}

/// An aggregate call; its argument and FILTER are those of the marker call.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Which aggregate.
    pub function: AggregateName,
    /// `COUNT(*)`: there is no argument.
    pub star: bool,
    /// `COUNT(DISTINCT x)`.
    pub distinct: bool,
    /// GoogleSQL's `contribution_bounds_per_group => (lo, hi)`.
    pub bounds_per_group: Option<(Literal, Literal)>,
    /// GoogleSQL's `contribution_bounds_per_row => (lo, hi)`.
    pub bounds_per_row: Option<(Literal, Literal)>,
}

impl AggregateCall {
    /// `COUNT(*)`, the score of a selector without BY.
    pub fn count_star() -> Self {
        Self {
            function: AggregateName::Count,
            star: true,
            distinct: false,
            bounds_per_group: None,
            bounds_per_row: None,
        }
    }
}

/// The aggregates that a mechanism may stand in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateName {
    /// COUNT
    Count,
    /// SUM
    Sum,
    /// AVG
    Avg,
    /// Variance, standard deviation, quantiles and extremes: known, and refused with a reason of their own.
    Unsupported(&'static str),
}

impl AggregateName {
    /// The aggregates by their SQL names.
    const NAMES: [(&'static str, Self); 20] = [
        ("count", Self::Count),
        ("sum", Self::Sum),
        ("avg", Self::Avg),
        ("mean", Self::Avg),
        ("var", Self::Unsupported("VAR")),
        ("var_pop", Self::Unsupported("VAR_POP")),
        ("var_samp", Self::Unsupported("VAR_SAMP")),
        ("var_sample", Self::Unsupported("VAR_SAMP")),
        ("var_population", Self::Unsupported("VAR_POP")),
        ("variance", Self::Unsupported("VARIANCE")),
        ("stddev", Self::Unsupported("STDDEV")),
        ("stddev_pop", Self::Unsupported("STDDEV_POP")),
        ("stddev_samp", Self::Unsupported("STDDEV_SAMP")),
        ("min", Self::Unsupported("MIN")),
        ("max", Self::Unsupported("MAX")),
        ("median", Self::Unsupported("MEDIAN")),
        ("quantile", Self::Unsupported("QUANTILE")),
        ("percentile_cont", Self::Unsupported("PERCENTILE_CONT")),
        ("revenue", Self::Unsupported("REVENUE")),
        ("approx_quantiles", Self::Unsupported("APPROX_QUANTILES")),
    ];

    /// The aggregate of this name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, a)| *a)
    }
}

impl fmt::Display for AggregateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "COUNT",
            Self::Sum => "SUM",
            Self::Avg => "AVG",
            Self::Unsupported(name) => name,
        })
    }
}

/// `GROUP BY x KEYS …`: the group keys that come out, whatever the data.
#[derive(Debug, Clone, PartialEq)]
pub enum KeysClause {
    /// `KEYS ('a', 'b')`.
    List(Vec<Literal>),
    /// `KEYS DOMAIN`: the column's declared domain.
    Domain,
    /// `KEYS TABLE states(code)`.
    Table {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
}

/// A literal in one of our clauses, kept as text until its column's type is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A number, as written, with its sign.
    Number(String),
    /// A string, also the text of `DATE '…'` and `TIMESTAMP '…'`.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// NULL.
    Null,
}

impl Literal {
    /// The value as text, `None` for NULL.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Number(text) | Self::Text(text) => Some(text.clone()),
            Self::Boolean(value) => Some(value.to_string()),
            Self::Null => None,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Boolean(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Null => f.write_str("NULL"),
        }
    }
}

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
    /// `ALTER TABLE name SET PRIVACY UNIT …`.
    SetUnit {
        /// The table's name.
        table: String,
        /// Its unit.
        unit: UnitClause,
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
}

/// A column's declared values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainClause {
    /// `IN ('a', 'b')`.
    In(Vec<Literal>),
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

/// `LIMIT (epsilon=…, delta=…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitClause {
    /// The most ε that may ever be spent.
    pub epsilon: Epsilon,
    /// The most δ that may ever be spent; none means pure ε.
    pub delta: Option<Delta>,
}

/// `PER QUERY (default=…, default_delta=…, max=…, max_delta=…)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerQueryClause {
    /// The ε of a query that names none.
    pub default: Option<Epsilon>,
    /// The δ of a query that names none.
    pub default_delta: Option<Delta>,
    /// The most ε one query may cost.
    pub max: Option<Epsilon>,
    /// The most δ one query may cost.
    pub max_delta: Option<Delta>,
}

/// A look at the catalog or the budgets, for everyone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// `SHOW TABLES`.
    Tables,
    /// `SHOW PRIVACY`: units, domains, budgets.
    Privacy,
    /// `SHOW PRIVACY BUDGET [name]`.
    Budget(Option<String>),
    /// `DESCRIBE table`.
    Describe(String),
}
