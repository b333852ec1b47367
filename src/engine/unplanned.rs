//! Queries that were understood and cannot be made ready to run; nothing was charged.
//!
//! In: a release, and what DataFusion said while it was planned. Out: a refusal where it is the query's own, else the
//! sentence that says that the engine is wrong.

use datafusion::common::DataFusionError;

use crate::error::Error;
use crate::refusal::{Reason, Refusal};
use crate::release::Release;

/// Why a query cannot be made ready: for a subquery that is no join, or, where nothing is private, a constant in it.
pub(super) fn unplanned(release: &Release, error: &DataFusionError) -> Error {
    let told = error.find_root().strip_backtrace();
    match (error.find_root(), release.analysis().parts()) {
        _ if is_of_a_subquery(error) => Refusal::new(
            Reason::Operator,
            "",
            "this query has a subquery in a place where none can be run",
            "EXISTS and IN as conditions of WHERE or HAVING; = between a subquery's rows and those around it",
        )
        .into(),
        (DataFusionError::ArrowError(..), []) => {
            let why = told.rsplit(" error: ").next().unwrap_or_default();
            let message = format!("a constant in this query cannot be computed: {why}");
            Refusal::new(Reason::BadValue, "", message, "a value that fits its type").into()
        }
        _ => Error::Internal,
    }
}

/// Whether DataFusion knows no plan for a subquery: it says so, or a rule that makes a join of it fails.
fn is_of_a_subquery(error: &DataFusionError) -> bool {
    if let DataFusionError::Context(rule, _) = error {
        return rule.contains("subquery");
    }
    match error.find_root() {
        DataFusionError::NotImplemented(_) => true,
        DataFusionError::Internal(what) => what.contains("Subquery"),
        _ => false,
    }
}
