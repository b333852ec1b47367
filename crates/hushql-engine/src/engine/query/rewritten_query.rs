//! Proposes a whole statement instead of a refused query.
//!
//! In: the text of a query, and its refusal. Out: the refusal with a statement that is accepted, if
//! the query, or what the refusal proposes, lacks only a δ. Each statement is planned before it is
//! shown. This reads no private row.

use datafusion::execution::SessionState;

use crate::dialect::{Statement, counted_choice, thresholded};
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
        self.due(&query, state).is_ok_and(|due| self.quote(&due).is_ok())
    }

    fn with_threshold(&self, refusal: Refusal, text: &str, state: &SessionState) -> Refusal {
        let defaults = self.defaults();
        let candidates = defaults.iter().flat_map(|cost| thresholded(text, cost));
        if let Some(statement) = self.first_accepted(candidates, state) {
            return refusal.with_threshold(statement);
        }
        let costs = defaults.iter().map(String::as_str).chain(["1"]);
        let counted = costs.filter_map(|cost| counted_choice(text, cost));
        match self.first_accepted(counted, state) {
            Some(statement) => refusal.with_counts(statement),
            None => refusal,
        }
    }

    /// The first statement that would be charged.
    fn first_accepted(
        &self,
        mut candidates: impl Iterator<Item = String>,
        state: &SessionState,
    ) -> Option<String> {
        candidates.find(|candidate| self.is_accepted(candidate, state))
    }

    /// The refusal of exact values. If the statement that it proposes groups by what nobody
    /// declared, it proposes the same statement with a δ.
    fn with_accepted_hint(&self, refusal: Refusal, state: &SessionState) -> Refusal {
        let proposed = refusal.hint();
        if !proposed.starts_with("SELECT ") || self.is_accepted(proposed, state) {
            return refusal;
        }
        match self.first_accepted(thresholded(proposed, "1").into_iter(), state) {
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
