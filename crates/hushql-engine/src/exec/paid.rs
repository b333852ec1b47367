//! What a charge permits: plans that use the numbers of rows of private tables.
//!
//! In: a durable charge. Out: an extension of a session, which sources and estimates look for.
//! Without it, a plan depends on private tables only through their declarations.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;

use crate::ledger::Charge;

/// Permission to plan by the numbers of rows of private tables, as an extension of a session.
///
/// # Guarantee
/// Exists only for a charged statement. Nothing that is shown follows from a plan that is made with
/// it: not a refusal, a cost, a hash of a plan or an entry of the ledger. Only time and memory do.
#[derive(Debug)]
pub(crate) struct PaidFor(());

impl PaidFor {
    /// The permission that a charge gives.
    pub(crate) fn by(_charge: &Charge) -> Self {
        Self(())
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self(())
    }

    /// Whether a session has the permission.
    pub(crate) fn is_given(config: &SessionConfig) -> bool {
        config.get_extension::<Self>().is_some()
    }

    /// The session, with the permission for its plans.
    pub(crate) fn within(self, state: &SessionState) -> SessionState {
        let mut state = state.clone();
        state.config_mut().set_extension(Arc::new(self));
        state
    }
}
