//! Explains why a query that was understood cannot be prepared. Nothing was charged.
//!
//! In: a release, and DataFusion's error from planning it. Out: a refusal if the query causes the
//! error, otherwise an internal error.

use datafusion::common::DataFusionError;

use crate::bind::of_a_constant;
use crate::error::Error;
use crate::exec::distributed::refused_by_site;
use crate::exec::fails_on_any_row;
use crate::refusal::{Reason, Refusal};
use crate::release::Release;

/// What to write instead of a call that fails on every row.
const UNFAILING: &str = "arguments that the aggregate or window takes: a fraction from 0 to 1, a position from 1 on, a default of the column's type";

/// Why a query cannot be prepared: it cannot run at the session's site, it has a subquery that
/// cannot become a join, or, if nothing is private, a constant of it fails.
pub(super) fn unplanned(release: &Release, error: &DataFusionError) -> Error {
    if let Some(refused) = refused_by_site(error) {
        return Refusal::new(Reason::Operator, "", &refused.problem, &refused.instead).into();
    }
    if let Some(fails) = fails_on_any_row(error) {
        let why = format!("this query fails on every row: {}", of_a_constant(&fails.0));
        return Refusal::new(Reason::BadValue, "", why, UNFAILING).into();
    }
    let message = error.find_root().strip_backtrace();
    match (error.find_root(), release.analysis().parts()) {
        _ if is_about_a_subquery(error) => subquery().into(),
        (DataFusionError::ArrowError(..), []) => {
            let why = message.rsplit(" error: ").next().unwrap_or_default();
            let why = of_a_constant(why);
            let why = format!("a constant in this query cannot be computed: {why}");
            Refusal::new(Reason::BadValue, "", why, "a value that fits its type").into()
        }
        _ => Error::Internal,
    }
}

/// Why the rows of a synthetic table cannot be prepared.
pub(super) fn unplanned_rows(error: &DataFusionError) -> Error {
    match is_about_a_subquery(error) {
        true => subquery().into(),
        false => Error::Internal,
    }
}

fn subquery() -> Refusal {
    Refusal::new(
        Reason::Operator,
        "",
        "this query has a subquery in a place where it cannot run",
        "EXISTS and IN as conditions of WHERE or HAVING; = between a subquery's rows and those around it",
    )
}

/// Whether DataFusion cannot plan a subquery: it says so, or a rule fails that turns subqueries
/// into joins.
fn is_about_a_subquery(error: &DataFusionError) -> bool {
    if let DataFusionError::Context(rule, _) = error {
        return rule.contains("subquery");
    }
    match error.find_root() {
        DataFusionError::NotImplemented(_) => true,
        DataFusionError::Internal(what) => what.contains("Subquery"),
        _ => false,
    }
}
