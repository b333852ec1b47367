//! Proposes a whole statement instead of a refused query.
//!
//! In: the text of a query, and its refusal. Out: the refusal with a statement that is accepted, if
//! the query, or what the refusal proposes, lacks only a δ. Each statement is planned before it is
//! shown. This reads no private row.

use datafusion::execution::SessionState;

use crate::dialect::{Statement, thresholded};
use crate::engine::session::Session;
use crate::error::Error;
use crate::privacy::{Rational, decimal_text};
use crate::refusal::{Reason, Refusal};

impl Session {
    /// The error of a query. If the query asks for undeclared groups, the error gets a statement
    /// that shows only the groups of many people.
    pub(in crate::engine) fn advised(
        &self,
        error: Error,
        text: &str,
        state: &SessionState,
    ) -> Error {
        match error {
            Error::Refused(refusal) if refusal.reason() == Reason::UnknownKeys => {
                Error::Refused(self.with_threshold(refusal, text, state))
            }
            Error::Refused(refusal) if refusal.reason() == Reason::Exact => {
                Error::Refused(self.with_accepted_hint(refusal, state))
            }
            other => other,
        }
    }

    /// Whether a statement would be charged.
    fn is_accepted(&self, candidate: &str, state: &SessionState) -> bool {
        let Ok(Statement::Query(query)) = self.parse(candidate) else { return false };
        self.due(query, state).is_ok_and(|due| self.quote(&due).is_ok())
    }

    fn with_threshold(&self, refusal: Refusal, text: &str, state: &SessionState) -> Refusal {
        let candidates = self.defaults().into_iter().flat_map(|cost| thresholded(text, &cost));
        match candidates.into_iter().find(|candidate| self.is_accepted(candidate, state)) {
            Some(statement) => refusal.with_threshold(statement),
            None => refusal,
        }
    }

    /// The refusal of exact values. If the statement that it proposes groups by what nobody
    /// declared, it proposes the same statement with a δ.
    fn with_accepted_hint(&self, refusal: Refusal, state: &SessionState) -> Refusal {
        let proposed = refusal.hint();
        if !proposed.starts_with("SELECT ") || self.is_accepted(proposed, state) {
            return refusal;
        }
        let candidates = thresholded(proposed, "1");
        match candidates.into_iter().find(|candidate| self.is_accepted(candidate, state)) {
            Some(statement) => refusal.writing(&statement),
            None => refusal,
        }
    }

    /// The costs that budgets give to queries by default.
    fn defaults(&self) -> Vec<String> {
        let budgets = self.inner.vault.budgets_for(&self.analyst).unwrap_or_default();
        let defaults = budgets.iter().filter_map(|state| state.budget.per_query.default);
        let mut costs: Vec<String> = defaults
            .map(|nano| decimal_text(&Rational::new(nano.into(), 1_000_000_000.into()), 9))
            .collect();
        costs.sort();
        costs.dedup();
        costs.truncate(3);
        costs
    }
}
