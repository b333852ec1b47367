//! Between stages 4 and 5: what a query requests from the ledger, and how the ledger would respond.
//!
//! In: a [`Planned`] query. Out: a [`Due`] one: an entry for each release, the cost, and the budgets that the query
//! touches. A quote charges nothing.

use std::sync::Arc;

use super::choose::Planned;
use crate::engine::session::Session;
use crate::error::Error;
use crate::explain::threshold_ledger_texts;
use crate::ledger::{BudgetQuote, ChargeEntry, ChargeRequest, plan_hash};
use crate::privacy::{Cost, Loss, Notion};
use crate::release::Drawn;
use crate::release::record::ledger_texts;

/// A query with its request to the ledger; only [`Session::asked`] makes one.
#[derive(Debug)]
pub(crate) struct Due {
    planned: Planned,
    /// `None` for a free query.
    request: Option<ChargeRequest>,
    cost: Cost,
}

impl Due {
    /// The planned query: what it releases, and by which mechanisms.
    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// The cost, in the notions that the touched budgets count in; zero for a free query.
    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// The request to the ledger; `None` for a free query.
    pub(crate) fn request(&self) -> Option<&ChargeRequest> {
        self.request.as_ref()
    }

    pub(super) fn into_parts(self) -> (Planned, Option<ChargeRequest>) {
        (self.planned, self.request)
    }
}

impl Session {
    /// What a planned query requests from the ledger.
    ///
    /// # Errors
    /// A refusal of a release whose loss is too small to count.
    pub(crate) fn asked(&self, planned: Planned) -> Result<Due, Error> {
        let release = planned.release();
        let mut entries = Vec::new();
        let mut cost = Cost::zero();
        for (drawn, loss) in release.charges() {
            let (mechanism, parameters, sensitivity) = match drawn {
                Drawn::Measure(measure, mechanized) => ledger_texts(measure, mechanized),
                Drawn::Threshold(hidden, loss) => threshold_ledger_texts(hidden, loss),
            };
            cost = cost.plus(Cost::round_up(&loss)?)?;
            let shared = drawn.is_shared() && loss == Loss::zero();
            entries.push(ChargeEntry { mechanism, parameters, sensitivity, loss, shared });
        }
        if entries.is_empty() {
            return Ok(Due { planned, request: None, cost: Cost::default() });
        }
        self.inner.resources.check_cost(cost)?;
        let unit_domains = release.unit_domains();
        let counts: Vec<Notion> = unit_domains
            .iter()
            .flat_map(|unit_domain| planned.catalog().budgets_of(unit_domain))
            .map(|budget| budget.limit.notion)
            .collect();
        let request = ChargeRequest {
            analyst: self.analyst.clone(),
            plan_hash: plan_hash(&release.plan_text()),
            // The caller that charges it fills this in.
            statement: String::new(),
            entries,
            unit_domains,
            catalog: Arc::clone(planned.catalog()),
        };
        let releases = i64::try_from(request.entries.len()).map_err(|_| Error::Internal)?;
        let cost = cost.in_coupons(releases, &counts).counted_in(&counts);
        Ok(Due { planned, request: Some(request), cost })
    }

    /// What each touched budget would have left after the charge.
    ///
    /// # Errors
    /// [`Error::Budget`] if a budget does not allow the charge, and the vault's own.
    pub(crate) fn quote(&self, due: &Due) -> Result<Vec<BudgetQuote>, Error> {
        match due.request() {
            Some(request) => Ok(self.inner.vault.quote(request)?),
            None => Ok(Vec::new()),
        }
    }
}
