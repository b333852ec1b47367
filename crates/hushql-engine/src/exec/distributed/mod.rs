//! Bounded inputs that run in other processes: where they run, and what their plans are made of.
//!
//! In: the verified plan of a bounded input. Out: for a [`Site`], its operators, functions and
//! files as plain values, from which another process makes the same plan; and the key of the
//! bounds, which travels separately and exists only after the charge. The package `hushql-cluster`
//! turns these values into bytes and sends them. Seeds, noise and the privatizing operator have no
//! description, so they cannot be sent.
//!
//! ```text
//! BoundContributionsExec ─▶ Operator(BoundContributions { unit: 0, keys: [1], … }) ─▶ bytes ─▶ … ─▶ BoundContributionsExec
//! ```

mod aggregate_functions;
mod key;
mod operators;
mod runtime_limits;
mod site;

pub use crate::exec::source::{READS_OBJECTS, ReceivedFiles, ShippedFile};
pub use crate::functions::function_parts::Function;
pub use aggregate_functions::Aggregate;
pub use key::BoundingKey;
pub use operators::{InputOperator, MOST_BYTES_OF_ROWS, Operator, bounded_unit};
pub use runtime_limits::limited;
pub use site::{CannotRunThere, Here, Site};
pub(crate) use site::{place, refused_by_site, site_of};
