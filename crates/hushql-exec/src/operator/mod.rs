//! The operators of private plans that DataFusion does not provide.
//!
//! In: rows. Out: bounded rows of each privacy unit, and the exact integers that its bounded
//! contributions add up to. Noise is drawn elsewhere.
//!
//! ```text
//! BoundContributionsExec         at most l0 groups of a unit, and per_partition rows in each
//!   LookUpExec                   the unit of each row, along links
//!     PrivateScanExec            a private table, without statistics
//! ```

pub mod bound_contributions;
pub mod count_places;
pub mod kept_columns;
pub mod look_up;
pub mod private_scan;
pub mod sample_rows;
pub(crate) mod shelf;
pub mod spill;
pub mod sum_by_key;
