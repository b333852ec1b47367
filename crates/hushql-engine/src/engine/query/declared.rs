//! One state of the declarations, and the files that a query reads under it.

use std::sync::Arc;

use crate::analysis::BindingRules;
use crate::engine::session::Session;
use crate::engine::visible_catalog::VisibleCatalog;
use crate::error::Error;
use crate::exec::source::OpenFiles;
use crate::ledger::VaultError;
use crate::refusal::{Reason, Refusal};

/// The state that all stages of a query share, from bind to charge.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredState {
    pub(crate) catalog: VisibleCatalog,
    /// The files that the query read and will read.
    pub(crate) open: Arc<OpenFiles>,
    /// The template whose query this is, if it is one's.
    pub(crate) template: Option<Arc<CalledTemplate>>,
    /// The rules of tables that bind it. The owner's own statements and templates have none.
    pub(crate) rules: Arc<BindingRules>,
}

/// The template that a statement calls.
#[derive(Debug)]
pub(crate) struct CalledTemplate {
    pub(crate) name: String,
    /// True if tables or budgets of its query do not exist for the caller.
    pub(crate) is_hidden: bool,
}

impl DeclaredState {
    /// An error as whoever asks may see it.
    ///
    /// # Guarantee
    /// If something of a template's query does not exist for the caller, the error names the
    /// template alone. It follows from the declarations and the budgets, as the error does.
    pub(crate) fn told(&self, error: Error) -> Error {
        match &self.template {
            Some(template) => template.told(error),
            None => error,
        }
    }
}

impl CalledTemplate {
    /// An error of the template's query, as its caller may see it.
    pub(in crate::engine) fn told(&self, error: Error) -> Error {
        let Self { name, is_hidden } = self;
        let invalid = || {
            format!(
                "the template {name} cannot be answered as it is: a later declaration of its owner does not fit it; nothing was charged"
            )
        };
        match (error, is_hidden) {
            (Error::Budget(error), true) if error.budget().is_some() => {
                VaultError::OverTemplate { template: name.clone() }.into()
            }
            (Error::Budget(error), _) => Error::Budget(error.of_template(name)),
            (
                Error::Refused(_) | Error::Bind(_) | Error::Catalog { .. } | Error::Syntax { .. },
                true,
            ) => {
                let hint =
                    "another template: SHOW TEMPLATES; its owner sees why with hushql doctor";
                Refusal::new(Reason::Statement, name, invalid(), hint).into()
            }
            (Error::Refused(refusal), false) => Refusal::new(
                refusal.reason(),
                refusal.clause(),
                format!("{}: {}", invalid(), refusal.message()),
                refusal.hint(),
            )
            .into(),
            (error @ (Error::Bind(_) | Error::Catalog { .. } | Error::Syntax { .. }), false) => {
                Error::catalog(format!("{}: {error}", invalid()))
            }
            (error @ (Error::Ledger(_) | Error::Execution | Error::LogIn | Error::Internal), _) => {
                error
            }
        }
    }
}

impl Session {
    /// The present declarations, without open files.
    pub(crate) fn declared(&self) -> Result<DeclaredState, Error> {
        let catalog = self.inner.catalog_of(&self.analyst)?;
        let rules = match self.is_owner() {
            true => BindingRules::default(),
            false => BindingRules::of(&catalog, &self.analyst),
        };
        let open = self.inner.open_files();
        Ok(DeclaredState { catalog, open, template: None, rules: Arc::new(rules) })
    }

    /// Whether the declarations are still the same.
    pub(crate) fn still_declared(&self, declared: &DeclaredState) -> Result<bool, Error> {
        Ok(self.inner.vault.catalog()?.version().is(&declared.catalog.version()))
    }
}
