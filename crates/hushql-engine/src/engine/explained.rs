//! Explains a query: runs its stages up to the charge and reports what it would cost. Nothing is
//! charged.

use datafusion::execution::SessionState;

use crate::answer::{Answer, predicted_lines};
use crate::dialect::QueryStatement;
use crate::engine::attempts::Attempts;
use crate::engine::planning_errors::unplanned;
use crate::engine::query::request::Due;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::columns_of_plan;
use crate::explain::Explanation;
use crate::ledger::BudgetQuote;
use crate::refusal::{Reason, Refusal};

impl Session {
    pub(super) fn explained(
        &self,
        query: &QueryStatement,
        state: &SessionState,
    ) -> Result<Explanation, Error> {
        let explained = Attempts::at(|| self.explanation(&self.due(query, state)?));
        match explained.map_err(|error| self.advised(error, &query.text, state)) {
            Err(Error::Refused(refusal)) => Ok(Explanation::of_refusal(&refusal)),
            explained => explained,
        }
    }

    /// What a query would release and cost, and what its budgets would have left.
    pub(super) fn explanation(&self, due: &Due) -> Result<Explanation, Error> {
        let planned = due.planned();
        if let Some(template) = planned.hidden() {
            return self.explained_template(due, template);
        }
        let explained = |quotes: &[BudgetQuote]| {
            let explanation = Explanation::for_release(planned.release(), due.cost(), quotes)
                .with_stored(&planned.release_tables())
                .with_cells(&planned.cells_told())
                .with_rules(&planned.rules())
                .with_replay(&planned.release().replayed_numbers(), due.request().is_none());
            match planned.proposal() {
                Some(proposal) => explanation.with_range(&proposal.rule()),
                None => explanation,
            }
        };
        match self.quote(due) {
            Ok(quotes) => Ok(explained(&quotes)),
            Err(error @ Error::Budget(_)) => Ok(explained(&[]).over_budget(&error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// What a call of a template costs and how accurate it is, for someone for whom the template's
    /// tables or budgets do not exist.
    fn explained_template(&self, due: &Due, template: &str) -> Result<Explanation, Error> {
        let release = due.planned().release();
        let schema = columns_of_plan(release.analysis().public_plan());
        let accuracy = predicted_lines(release, &schema);
        let explanation = Explanation::of_template(template, due.cost(), &accuracy);
        match self.quote(due) {
            Ok(_) => Ok(explanation),
            Err(error @ Error::Budget(_)) => Ok(explanation.over_budget(&error.to_string())),
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
        let release = planned.release();
        if !release.analysis().parts().is_empty() || !self.is_owner() {
            return Err(Refusal::new(
                Reason::Statement,
                "EXPLAIN",
                "only owners see the plain plan, and only of queries over public tables",
                "EXPLAIN PRIVACY SELECT …",
            )
            .into());
        }
        let plan = release.analysis().public_plan();
        let plan = state.optimize(plan);
        let plan = plan.map_err(|error| unplanned(release, &error))?;
        crate::engine::show::lines("plan", plan.display_indent().to_string().lines())
    }
}
