//! Reports of what budgets promise, for the people in the data and for a registry.
//!
//! In: an engine, and a budget or all of them. Out: a text, a page, or a record.

use crate::engine::Engine;
use crate::error::Error;
use crate::ledger::OWNER;
use crate::owner::privacy_statement::statement;
use crate::owner::{registry_record, report_page};

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportForm {
    /// A text.
    Text,
    /// One page of HTML, without scripts.
    Html,
    /// A record of the Differential Privacy Deployments Registry, as JSON.
    Registry,
}

impl Engine {
    /// What a budget promises, or each of them: the sentences of SHOW PRIVACY STATEMENT, or a
    /// record for the registry. The owner's view; no row is read.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, ReportForm};
    ///
    /// let report = Engine::demo()?.report(Some("adult"), ReportForm::Text)?;
    /// assert!(report.contains("Each row of adult is protected by itself"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] for a budget that does not exist, and for a record of several budgets at
    /// once.
    pub fn report(&self, budget: Option<&str>, form: ReportForm) -> Result<String, Error> {
        let inner = &self.inner;
        let names: Vec<String> = match budget {
            Some(name) => vec![name.to_owned()],
            None => {
                inner.vault.budgets_for(OWNER)?.into_iter().map(|state| state.budget.name).collect()
            }
        };
        let told = names.iter().map(|name| statement(inner, name, OWNER));
        let told = told.collect::<Result<Vec<_>, _>>()?;
        match (form, told.as_slice()) {
            (_, []) => Err(Error::catalog(
                "there is no budget, so nothing is promised: write CREATE PRIVACY BUDGET name FOR table LIMIT (epsilon=1)",
            )),
            (ReportForm::Text, all) => Ok(report_page::text(all)),
            (ReportForm::Html, all) => Ok(report_page::page(all)),
            (ReportForm::Registry, [one]) => registry_record::record(inner, one),
            (ReportForm::Registry, _) => Err(Error::catalog(format!(
                "a record of the registry is about one budget: name one of {}, as in hushql report VAULT {} --registry",
                names.join(", "),
                names.first().map_or("", String::as_str)
            ))),
        }
    }
}
