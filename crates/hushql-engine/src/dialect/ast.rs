//! The clauses that HushQL adds to SQL, as the parser returns them.
//!
//! Nothing is checked against a catalog yet. The `Display` of each type writes text that parses
//! back to the same value.

use std::fmt;

use sqlparser::ast as sql;

pub use super::asked::Parameters;
use super::budget_request::BudgetRequestStatement;
use super::called_template::TemplateCall;
use super::declaration::{Declaration, ReleaseTableChange, Show};
pub use super::groups::{Consistent, Finding, GroupStrategy, KeysClause, ReleaseInSet};
pub use super::markers::{candidate_marker, candidate_of, marked, marker};
pub use super::statistics::{Joint, Spread};
use super::synthetic_options::{SyntheticMethod, SyntheticOptions};
use super::tunable_text::TunableText;
use crate::dialect::copy_format::CopyTarget;
use crate::dialect::literal::Literal;
use crate::privacy::{Delta, Epsilon};
use crate::refusal::Refusal;

/// One statement of the dialect.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Statement {
    /// A query, with or without releases.
    Query(QueryStatement),
    /// `EXPLAIN PRIVACY [FORMAT TEXT | JSON] query`.
    ExplainPrivacy {
        /// The query to explain, or its refusal, which can be explained, too.
        query: Result<QueryStatement, Refusal>,
        /// The format of the explanation.
        format: ExplainFormat,
    },
    /// `EXPLAIN query`: DataFusion's plan, for public tables.
    Explain(QueryStatement),
    /// `COPY (query) TO 'path' [OPTIONS ('errors' 'true')]`: the answer in a file.
    Copy {
        /// The query.
        query: Box<QueryStatement>,
        /// Where its answer goes.
        to: CopyTarget,
    },
    /// `CREATE RELEASE TABLE [IF NOT EXISTS] name AS query`: the answer in the vault, as a table.
    CreateReleaseTable {
        /// The table's name.
        name: String,
        /// True if an existing release table of this name stays, at no charge.
        if_not_exists: bool,
        /// The query.
        query: Box<QueryStatement>,
    },
    /// `CREATE SYNTHETIC TABLE name AS AIM(eps=1) query`: invented rows like those of the query, in
    /// the vault.
    CreateSyntheticTable(Box<SyntheticStatement>),
    /// `EXPLAIN PRIVACY CREATE SYNTHETIC TABLE …`.
    ExplainSynthetic {
        /// The statement to explain.
        statement: Box<SyntheticStatement>,
        /// The format of the explanation.
        format: ExplainFormat,
    },
    /// `EXPLAIN PRIVACY TUNE query ON table`.
    ExplainTuning {
        /// The question, and the rows on which its bounds are tried.
        statement: Box<TuneStatement>,
        /// The format of the explanation.
        format: ExplainFormat,
    },
    /// A statement that drops a release table, or changes who may read it.
    ReleaseTable(ReleaseTableChange),
    /// A request for more of a budget, or the owner's decision on one.
    BudgetRequest(BudgetRequestStatement),
    /// An owner's declaration.
    Declare(Box<Declaration>),
    /// A statement that shows the catalog or the budgets.
    Show(Show),
}

impl Statement {
    /// The statement, whose query now carries the statement's text.
    pub(super) fn with_text(mut self, text: &str) -> Self {
        let query = match &mut self {
            Self::Query(query) | Self::Explain(query) => Some(query),
            Self::ExplainPrivacy { query, .. } => query.as_mut().ok(),
            Self::Copy { query, .. } | Self::CreateReleaseTable { query, .. } => Some(&mut **query),
            Self::CreateSyntheticTable(statement) | Self::ExplainSynthetic { statement, .. } => {
                Some(&mut statement.query)
            }
            // Each setting of a question that is tuned has a text of its own.
            Self::ExplainTuning { .. }
            | Self::ReleaseTable(_)
            | Self::BudgetRequest(_)
            | Self::Declare(_)
            | Self::Show(_) => None,
        };
        if let Some(query) = query {
            query.text = text.trim().to_owned();
        }
        self
    }
}

/// The format of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExplainFormat {
    /// Aligned lines for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// A query as plain SQL, in which a call of a marker function represents each release, and the
/// release clauses.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryStatement {
    /// The syntax tree that the planner reads.
    pub tree: Box<sql::Query>,
    /// The releases; a marker's number is its index here.
    pub releases: Vec<ReleaseClause>,
    /// The column whose range `ANALYZE PRIVACY DOMAIN` asks for, if the query is its histogram.
    pub range_of: Option<ColumnName>,
    /// True if a program gave NULL as the value of a parameter.
    pub null_values: bool,
    /// The texts of columns without a name, if every column is listed.
    pub(crate) headings: Vec<Option<String>>,
    /// The names that PostgreSQL gives to columns without one, if every column is listed.
    pub(crate) names: Vec<Option<String>>,
    /// The same query with its subqueries that have a LIMIT as releases of their own, if it has
    /// any.
    pub(crate) limited: Option<Box<QueryStatement>>,
    /// The template that the query calls, in the place of a table.
    pub(crate) template: Option<TemplateCall>,
    /// The text of the statement that contains the query, with the values of its parameters. The
    /// ledger stores it.
    pub(crate) text: String,
}

/// `CREATE SYNTHETIC TABLE [IF NOT EXISTS] name [WITH (…)] AS METHOD(…) query`.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticStatement {
    /// The table's name.
    pub name: String,
    /// True if an existing table of this name stays, at no charge.
    pub if_not_exists: bool,
    /// The method that makes the rows.
    pub method: SyntheticMethod,
    /// The cost, and further options.
    pub options: SyntheticOptions,
    /// The query for the rows that the invented ones resemble. It has no release.
    pub query: QueryStatement,
}

/// `EXPLAIN PRIVACY TUNE query ON table`.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneStatement {
    /// The text of the question, and the places of its bounds in it.
    pub text: TunableText,
    /// The table that the question reads.
    pub table: String,
    /// The keys of its GROUP BY, over the columns of the table.
    pub(crate) keys: Vec<sql::Expr>,
    /// The values that its aggregate reads, without their CLAMP; `None` for `COUNT(*)`.
    pub(crate) value: Option<sql::Expr>,
    /// The table on whose rows bounds are tried.
    pub stand_in: String,
    /// The question as it is written.
    pub query: QueryStatement,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnName {
    /// The table's name.
    pub table: String,
    /// The column's name.
    pub column: String,
}

/// One release as written: a mechanism and its operand.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseClause {
    /// The mechanism's name.
    pub mechanism: MechanismName,
    /// The parameters in the mechanism's parentheses.
    pub parameters: Parameters,
    /// The operand: what is released.
    pub operand: Operand,
    /// Keys given with `GROUP BY x KEYS …`, by position in GROUP BY. As long as GROUP BY if any key
    /// has KEYS. The keys of grouping sets follow each other, set by set.
    pub keys: Vec<Option<KeysClause>>,
    /// The `privacy_unit_column` of the OPTIONS that implied this release.
    pub unit_column: Option<String>,
    /// The settings for groups in the OPTIONS of its SELECT.
    pub grouping: Option<Box<GroupingClause>>,
    /// The operand as text, for column names and explanations.
    pub text: String,
    /// The part that the release plays if the engine finds the bound of an aggregate.
    pub finding: Option<Finding>,
    /// How the release is made consistent with those of the other sets of its ROLLUP; `None` if it
    /// is not.
    pub consistent: Option<Consistent>,
    /// Which set of ROLLUP, CUBE or GROUPING SETS it is of; `None` if it is of none.
    pub set: Option<ReleaseInSet>,
    /// True if FRESH stands before it: it is drawn again, even where it could be replayed.
    pub fresh: bool,
}

/// The settings for groups in the OPTIONS of a SELECT, and the cost that its bare aggregates share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupingClause {
    /// The ε of OPTIONS, less what single aggregates and the threshold state for themselves.
    pub epsilon: Option<Epsilon>,
    /// `group_selection_epsilon`: the ε of the counts that the threshold compares.
    pub threshold: Option<Epsilon>,
    /// The whole δ of OPTIONS.
    pub delta: Option<Delta>,
    /// The number of bare aggregates that share them.
    pub bare: usize,
    /// `group_selection_strategy`.
    pub strategy: Option<GroupStrategy>,
    /// `min_privacy_units_per_group`.
    pub min_units: Option<u64>,
}

/// The mechanisms of the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MechanismName {
    /// The exponential mechanism.
    Exponential,
    /// The generalised exponential mechanism.
    GeneralizedExponential,
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
    /// Sample and aggregate: a choice of a value in the middle of those of blocks of people.
    SampleAndAggregate,
    /// No mechanism is written: a bare aggregate under a PER QUERY default or under OPTIONS.
    Default,
}

impl MechanismName {
    /// The mechanisms by their SQL names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("EXPONENTIAL", Self::Exponential),
        ("GENERALIZED_EXPONENTIAL", Self::GeneralizedExponential),
        ("PERMUTE_AND_FLIP", Self::PermuteAndFlip),
        ("NOISY_MAX", Self::NoisyMax),
        ("LAPLACE", Self::Laplace),
        ("GAUSSIAN", Self::Gaussian),
        ("AUTO", Self::Auto),
        ("RANDOMIZED_RESPONSE", Self::RandomizedResponse),
        ("SAMPLE_AND_AGGREGATE", Self::SampleAndAggregate),
    ];

    /// True if the mechanism chooses among candidates. The others add noise to numbers or randomize
    /// responses.
    pub fn chooses(self) -> bool {
        match self {
            Self::Exponential
            | Self::GeneralizedExponential
            | Self::PermuteAndFlip
            | Self::NoisyMax
            | Self::SampleAndAggregate
            | Self::Auto
            | Self::Default => true,
            Self::Laplace | Self::Gaussian | Self::RandomizedResponse => false,
        }
    }

    /// An example of its use.
    pub(crate) fn example(self) -> String {
        match self {
            Self::Exponential | Self::PermuteAndFlip | Self::NoisyMax => {
                format!("ARGMAX {self}(eps=1) status")
            }
            Self::Laplace | Self::Gaussian | Self::Auto | Self::Default => {
                format!("{self}(eps=1) COUNT(*)")
            }
            Self::GeneralizedExponential => {
                format!("ARGMAX {self}(eps=1) price IN (1, 2, 5) BY REVENUE(bid, price)")
            }
            Self::RandomizedResponse => format!("{self}(eps=1) status"),
            Self::SampleAndAggregate => format!("{self}(eps=1, blocks=64) MEDIAN(x)"),
        }
    }

    /// The mechanism with this name, in upper or lower case.
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

/// The operand of a mechanism.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A choice of a candidate. The marker's arguments are the target and the score's arguments.
    Selection(Box<SelectionClause>),
    /// A number with noise, or a value chosen from a range. The marker's argument is the
    /// aggregate's.
    Aggregate(AggregateCall),
    /// A randomized response of each row. The marker's argument is the column.
    Response,
}

/// The clause after a selector and its mechanism.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectionClause {
    /// ARGMAX and so on.
    pub selector: Selector,
    /// The candidates after IN. If absent, the column's domain.
    pub candidates: Option<CandidatesClause>,
    /// True if the target is a new name for the candidate inside BY. Otherwise it is a group key.
    pub named: bool,
    /// The aggregate that scores a candidate.
    pub score: AggregateCall,
    /// The score as text, for explanations.
    pub by: String,
    /// The base measure. If absent, it is uniform.
    pub prior: Option<PriorClause>,
}

/// The candidates as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidatesClause {
    /// `IN ('a', 'b')`.
    List(Vec<Literal>),
    /// `IN RANGE(lo, hi, step)`. Without a step, every number in between.
    Range {
        /// The least candidate.
        lo: Literal,
        /// The upper limit of the candidates.
        hi: Literal,
        /// The distance between two candidates.
        step: Option<Literal>,
    },
}

impl fmt::Display for CandidatesClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(list) => {
                let shown: Vec<_> = list.iter().map(ToString::to_string).collect();
                write!(f, "({})", shown.join(", "))
            }
            Self::Range { lo, hi, step: None } => write!(f, "RANGE({lo}, {hi})"),
            Self::Range { lo, hi, step: Some(step) } => write!(f, "RANGE({lo}, {hi}, {step})"),
        }
    }
}

/// The base measure of a selection as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PriorClause {
    /// `PRIOR census(status, share)`: a public table of candidates and weights.
    Table {
        /// The table.
        table: String,
        /// Its column of candidates.
        key: String,
        /// Its column of weights.
        weight: String,
    },
    /// `PRIOR LOG_UNIFORM`: uniform in the logarithm of the price.
    LogUniform,
}

impl fmt::Display for PriorClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { table, key, weight } => write!(f, "{table}({key}, {weight})"),
            Self::LogUniform => f.write_str("LOG_UNIFORM"),
        }
    }
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

/// An aggregate call. The marker call holds its argument and FILTER.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Which aggregate.
    pub function: AggregateName,
    /// `COUNT(*)`: there is no argument.
    pub star: bool,
    /// `COUNT(DISTINCT x)`.
    pub distinct: bool,
    /// The q of `QUANTILE(x, q)`, those of `QUANTILES(x, (q, …))`, or the n of `CDF(x, n)`.
    pub fractions: Vec<Literal>,
    /// GoogleSQL's `contribution_bounds_per_group => (lo, hi)`.
    pub bounds_per_group: Option<(Literal, Literal)>,
    /// GoogleSQL's `contribution_bounds_per_row => (lo, hi)`.
    pub bounds_per_row: Option<(Literal, Literal)>,
}

impl AggregateCall {
    /// A call of one argument, without DISTINCT and named bounds.
    pub fn for_function(function: AggregateName) -> Self {
        Self {
            function,
            star: false,
            distinct: false,
            fractions: Vec::new(),
            bounds_per_group: None,
            bounds_per_row: None,
        }
    }

    /// `COUNT(*)`, the score of a selector without BY.
    pub fn count_star() -> Self {
        Self { star: true, ..Self::for_function(AggregateName::Count) }
    }
}

/// The aggregates that a mechanism may release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateName {
    /// COUNT
    Count,
    /// SUM
    Sum,
    /// AVG
    Avg,
    /// MIN: about the r-th smallest value.
    Min,
    /// MAX: about the r-th largest value.
    Max,
    /// MEDIAN: the quantile of 1/2.
    Median,
    /// QUANTILE(x, q) and PERCENTILE_CONT(x, q).
    Quantile,
    /// QUANTILES(x, (q, …)): a list.
    Quantiles,
    /// CDF(x, n): the rows up to the end of each of n bins, as a list.
    Cdf,
    /// REVENUE(x, price [, quantity]): the score of a price.
    Revenue,
    /// A variance or standard deviation.
    Spread(Spread),
    /// A statistic of two columns.
    Joint(Joint),
    /// A known aggregate that is refused with a message of its own.
    Unsupported(&'static str),
}

impl AggregateName {
    /// The aggregates by their SQL names.
    const NAMES: [(&'static str, Self); 34] = [
        ("count", Self::Count),
        ("count_if", Self::Count),
        ("countif", Self::Count),
        ("sum", Self::Sum),
        ("avg", Self::Avg),
        ("mean", Self::Avg),
        ("min", Self::Min),
        ("max", Self::Max),
        ("median", Self::Median),
        ("quantile", Self::Quantile),
        ("quantiles", Self::Quantiles),
        ("cdf", Self::Cdf),
        ("percentile_cont", Self::Quantile),
        ("percentile_disc", Self::Quantile),
        ("approx_percentile_cont", Self::Quantile),
        ("approx_median", Self::Median),
        ("revenue", Self::Revenue),
        ("approx_quantiles", Self::Unsupported("APPROX_QUANTILES")),
        ("var", Self::Spread(Spread::VarSamp)),
        ("var_pop", Self::Spread(Spread::VarPop)),
        ("var_samp", Self::Spread(Spread::VarSamp)),
        ("var_sample", Self::Spread(Spread::VarSamp)),
        ("var_population", Self::Spread(Spread::VarPop)),
        ("variance", Self::Spread(Spread::VarSamp)),
        ("stddev", Self::Spread(Spread::StddevSamp)),
        ("stddev_pop", Self::Spread(Spread::StddevPop)),
        ("stddev_samp", Self::Spread(Spread::StddevSamp)),
        ("corr", Self::Joint(Joint::Corr)),
        ("covar", Self::Joint(Joint::CovarSamp)),
        ("covar_pop", Self::Joint(Joint::CovarPop)),
        ("covar_samp", Self::Joint(Joint::CovarSamp)),
        ("regr_slope", Self::Joint(Joint::RegrSlope)),
        ("regr_intercept", Self::Joint(Joint::RegrIntercept)),
        ("regr_r2", Self::Joint(Joint::RegrR2)),
    ];

    /// The SQL names of the aggregates, in lower case.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }

    /// The aggregate with this name, in upper or lower case.
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
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Median => "MEDIAN",
            Self::Quantile => "QUANTILE",
            Self::Quantiles => "QUANTILES",
            Self::Cdf => "CDF",
            Self::Revenue => "REVENUE",
            Self::Spread(spread) => return spread.fmt(f),
            Self::Joint(joint) => return joint.fmt(f),
            Self::Unsupported(name) => name,
        })
    }
}
