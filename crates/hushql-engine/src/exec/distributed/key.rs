//! The key that decides which groups and rows of a unit are kept. It exists only after the charge,
//! and does not travel within plans.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use hushql_exec::operator::bound_contributions::{BoundContributionsExec, HashKey, LateKey};
use hushql_exec::operator::sample_rows::SampleContributionsExec;

/// The key of the bounds in one query's plans. Neither `Debug` nor a description of a plan shows
/// it.
#[derive(Clone, Default)]
pub struct BoundingKey(LateKey);

impl fmt::Debug for BoundingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoundingKey(..)")
    }
}

impl BoundingKey {
    /// A key of these 256 bits, which come from the process that has the vault.
    pub fn from_words(words: [u64; 4]) -> Self {
        let key = LateKey::default();
        key.set(HashKey::new(words));
        Self(key)
    }

    /// The key of a plan; `None` if the plan bounds nothing. It has no words before the charge.
    pub fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(bounded) = plan.downcast_ref::<BoundContributionsExec>() {
            return Some(Self(bounded.key().clone()));
        }
        if let Some(sampled) = plan.downcast_ref::<SampleContributionsExec>() {
            return Some(Self(sampled.key().clone()));
        }
        plan.children().into_iter().find_map(Self::of_plan)
    }

    /// Its bits, after the query is paid for.
    pub fn words(&self) -> Option<[u64; 4]> {
        self.0.key().map(HashKey::words)
    }

    pub(super) fn late(&self) -> LateKey {
        self.0.clone()
    }
}
