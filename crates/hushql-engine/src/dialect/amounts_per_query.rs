//! What an owner says of single queries: their costs, and the people behind their numbers.
//!
//! In: the clauses of declarations. Out: plain data, as written.
//!
//! ```text
//! PER QUERY (default=0.1, max=1, min_units=10)     SET PRIVACY FLOOR 10 (beta=0.01)
//! ```

use crate::privacy::{Delta, Epsilon, Rho};

/// `n [(beta=…)]`, which follows FLOOR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloorClause {
    /// The fewest people.
    pub people: u64,
    /// The highest probability with which a number of fewer people is shown.
    pub beta: Option<Delta>,
}

/// `PER QUERY (default=…, default_rho=…, default_delta=…, min=…, min_rho=…, max=…, max_rho=…,
/// max_delta=…, bounds=…, min_units=…, min_units_beta=…)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerQueryClause {
    /// The ε of a query that states no cost.
    pub default: Option<Epsilon>,
    /// The ρ of a query that states no cost.
    pub default_rho: Option<Rho>,
    /// The δ of a query that states no cost.
    pub default_delta: Option<Delta>,
    /// The least ε that one query may cost.
    pub min: Option<Epsilon>,
    /// The least ρ that one query may cost.
    pub min_rho: Option<Rho>,
    /// The most ε that one query may cost.
    pub max: Option<Epsilon>,
    /// The most ρ that one query may cost.
    pub max_rho: Option<Rho>,
    /// The most δ that one query may cost.
    pub max_delta: Option<Delta>,
    /// `bounds=declared` is true: ranges must be declared or written. `bounds=found` is false.
    pub declared_bounds: Option<bool>,
    /// The floor: the fewest people behind a number that may be shown.
    pub min_units: Option<u64>,
    /// The highest probability with which a number of fewer people is shown.
    pub min_units_beta: Option<Delta>,
}
