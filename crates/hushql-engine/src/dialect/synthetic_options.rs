//! The options of a synthetic table: the method, its parameters, and the options after WITH.
//!
//! In: values that the parser has checked. Out: text that parses back to them.
//!
//! ```text
//! SyntheticOptions { epsilon: Some(1), rows: Some(500), … }  ⇄  eps=1 and rows=500
//! ```

use std::fmt;

use crate::dialect::literal::Literal;
use crate::privacy::{Delta, Epsilon, Rho};

/// The method that makes synthetic rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyntheticMethod {
    /// The engine chooses: AIM.
    Auto,
    /// Adaptive and iterative: marginals are chosen and measured round by round.
    Aim,
    /// Multiplicative weights with the exponential mechanism.
    Mwem,
    /// One small database, chosen by the exponential mechanism.
    SmallDatabase,
}

impl SyntheticMethod {
    /// Every method with its name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("AUTO", Self::Auto),
        ("AIM", Self::Aim),
        ("MWEM", Self::Mwem),
        ("SMALL_DATABASE", Self::SmallDatabase),
    ];
}

impl fmt::Display for SyntheticMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, method)| method == self);
        f.write_str(named.map_or("AUTO", |(name, _)| name))
    }
}

/// Where the codes of a column begin, if the statement gives this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketOption {
    /// The first value of each bucket, in order. The last bucket extends to the end of the column's
    /// domain.
    From(Vec<Literal>),
    /// Buckets whose ends grow by a constant factor.
    Log(u64),
}

impl fmt::Display for BucketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(buckets) => write!(f, "LOG {buckets}"),
            Self::From(ends) => {
                let ends: Vec<String> = ends.iter().map(ToString::to_string).collect();
                write!(f, "({})", ends.join(", "))
            }
        }
    }
}

/// The options in the parentheses of the method, and after WITH.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyntheticOptions {
    /// The cost in ε.
    pub epsilon: Option<Epsilon>,
    /// The δ beside ε.
    pub delta: Option<Delta>,
    /// The cost in ρ.
    pub rho: Option<Rho>,
    /// The workload consists of all sets of this many columns.
    pub marginals: Option<u64>,
    /// The number of rounds of MWEM.
    pub rounds: Option<u64>,
    /// The number of rows of one unit that count. For SMALL_DATABASE: the number of rows that come
    /// out.
    pub bound: Option<u64>,
    /// The number of rows that come out. A noisy number if absent.
    pub rows: Option<u64>,
    /// The sets of columns whose marginals should resemble those of the query.
    pub workload: Vec<Vec<String>>,
    /// The most bytes that the model of the rows may have.
    pub size: Option<u64>,
    /// True if each unit counts as one person, however many rows it has.
    pub per_person: bool,
    /// The columns whose codes are given, and where they begin.
    pub buckets: Vec<(String, BucketOption)>,
}

impl SyntheticOptions {
    /// The parameters in the parentheses of the method.
    pub fn parameters(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name}={value}")));
        };
        part("eps", self.epsilon.as_ref().map(ToString::to_string));
        part("rho", self.rho.as_ref().map(ToString::to_string));
        part("delta", self.delta.as_ref().map(ToString::to_string));
        part("marginals", self.marginals.map(|n| n.to_string()));
        part("rounds", self.rounds.map(|n| n.to_string()));
        part("rows", self.bound.map(|n| n.to_string()));
        parts.join(", ")
    }

    /// The options after WITH; empty if there are none.
    pub fn with(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.rows.map(|rows| format!("rows={rows}")));
        if !self.workload.is_empty() {
            let quoted = |name: &String| crate::catalog::quoted(name);
            let set = |set: &Vec<String>| {
                format!("({})", set.iter().map(quoted).collect::<Vec<_>>().join(", "))
            };
            let sets: Vec<String> = self.workload.iter().map(set).collect();
            parts.push(format!("workload=({})", sets.join(", ")));
        }
        parts.extend(self.size.map(|bytes| format!("size='{bytes}'")));
        parts.extend(self.per_person.then(|| "weights=PERSON".to_owned()));
        if !self.buckets.is_empty() {
            let buckets = self
                .buckets
                .iter()
                .map(|(column, buckets)| format!("{} {buckets}", crate::catalog::quoted(column)));
            parts.push(format!("buckets=({})", buckets.collect::<Vec<_>>().join(", ")));
        }
        parts.join(", ")
    }
}
