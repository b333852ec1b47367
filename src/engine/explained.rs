//! Explaining a query: its stages up to the charge, and what a charge would cost; nothing is charged.

use datafusion::execution::SessionState;

use crate::answer::Answer;
use crate::dialect::QueryStatement;
use crate::engine::plan::Planned;
use crate::engine::session::Session;
use crate::engine::unplanned::unplanned;
use crate::error::Error;
use crate::explain::Explanation;
use crate::ledger::BudgetQuote;
use crate::privacy::Cost;
use crate::refusal::{Reason, Refusal};

impl Session {
    pub(super) fn explained(
        &self,
        query: &QueryStatement,
        state: &SessionState,
    ) -> Result<Explanation, Error> {
        match self.with_plan(query, state, |planned| self.explanation(&planned)) {
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            explained => explained,
        }
    }

    pub(super) fn explanation(&self, planned: &Planned) -> Result<Explanation, Error> {
        let Some((request, cost)) = self.request(planned)? else {
            return Ok(Explanation::of(&planned.release, Cost::default(), &[]));
        };
        let explained = |quotes: &[BudgetQuote]| {
            let explanation = Explanation::of(&planned.release, cost, quotes);
            match &planned.proposal {
                Some(proposal) => explanation.with_range(&proposal.rule()),
                None => explanation,
            }
        };
        match self.inner.vault.quote(&request).map_err(Error::from) {
            Ok(quotes) => Ok(explained(&quotes)),
            Err(error @ Error::Budget(_)) => Ok(explained(&[]).over_budget(&error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// DataFusion's plan of a query over public tables.
    pub(super) fn plan_of_public(
        &self,
        query: QueryStatement,
        state: &SessionState,
    ) -> Result<Answer, Error> {
        let planned = self.plan(query, state)?;
        if !planned.release.analysis().parts().is_empty() || !self.is_owner() {
            return Err(Refusal::new(
                Reason::Statement,
                "EXPLAIN",
                "the plain plan is shown to owners, of public tables only",
                "EXPLAIN PRIVACY SELECT …",
            )
            .into());
        }
        let plan = planned.release.analysis().public_plan();
        let plan = state.optimize(plan);
        let plan = plan.map_err(|error| unplanned(&planned.release, &error))?;
        crate::engine::show::lines("plan", plan.display_indent().to_string().lines())
    }
}
