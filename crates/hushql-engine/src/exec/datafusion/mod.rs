//! Code that is specific to DataFusion: which of its rules run, its limits, and the workarounds for
//! its defects.
//!
//! In: DataFusion's rules and operators. Out: two fixed lists of rules, one for private rows and
//! one for the rest, in which no operator relies on a property that an untrusted row could falsify.
//! Each defect has its own file, which names its entry in docs/upstream.md and says when the file
//! can be deleted.
//!
//! ```text
//! private_plans, constants, build_side,
//! look_ups, sizes, split_filters            private rows: few rules, with a reason each
//! public_plans, session                     released and public rows: DataFusion's own rules
//! lossy_casts, null_keys, wide_keys,
//! dependencies, by_name, opaque             defects
//! planning, memory, limited_joins           what a statement may take
//! ```

pub(crate) mod build_side;
mod by_name;
pub(crate) mod collected;
mod constants;
mod dependencies;
pub(crate) mod kept_public;
pub(crate) mod limited_joins;
mod look_ups;
mod lossy_casts;
mod made_texts;
pub(crate) mod memory;
mod null_matching_joins;
pub(crate) mod opaque;
pub(crate) mod planning;
pub(crate) mod private_plans;
mod public_plans;
pub(crate) mod session_state;
pub(crate) mod sizes;
mod split_filters;
mod wide_keys;

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

/// A rule of the optimizer of logical plans.
type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// A rule of the optimizer of physical plans.
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
