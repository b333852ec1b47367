//! The operators of private plans that DataFusion does not provide.
//!
//! In: rows, or the exact integers that were added up from them. Out: bounded contributions of each privacy unit,
//! bounded rows of each unit, and at the root of every private plan the values that the mechanisms release.
//!
//! ```text
//! PrivatizeExec                    draws, once, after the charge
//!   BoundContributionsExec         at most l0 groups of a unit, and per_partition rows in each
//!     LookUpExec                   the unit of each row, along links
//!       PrivateScanExec            a private table, without statistics
//! ```

pub(crate) mod bound_contributions;
pub(crate) mod count_places;
pub(crate) mod look_up;
pub(crate) mod private_scan;
pub(crate) mod privatize;
pub(crate) mod released_table;
pub(crate) mod sample_rows;
pub(crate) mod shelf;
pub(crate) mod sum_by_key;
