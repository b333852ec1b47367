//! Synthetic tables: rows that answer like the private ones, and that everyone may read forever.
//!
//! In: exact counts of the private rows over public codes (through [`Count`], which the caller
//! implements), a budget in integers, and the bounds of one unit. Out: the codes of new rows, and
//! bounds on the errors of their marginals. All access to counts goes through one door. The door
//! selects or adds noise, keeps the account, and returns `Released` values only. Everything else is
//! computed from these and from public sizes.
//!
//! ```text
//! sizes 8, 3; all pairs; ρ = 0.015      →  measured {0}, {1}, {0, 1}  →  32,504 rows of two codes each
//! ```

mod accuracy;
mod aim;
mod bounds;
mod budget;
mod clock;
mod columns;
mod door;
mod infer;
mod made;
mod mwem;
mod noise;
mod outcome;
mod plan;
mod rows;
mod small;
mod task;

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test's numbers are small"
)]
mod tests;

pub use columns::{ColumnSet, Count, CountError, onto};
pub use made::{Failed, Made, MarginalError, Progress, Stop};
pub use plan::SyntheticPlan;
pub use task::{
    DEFAULT_BYTES, MOST_CELLS, MOST_CODES, MOST_HELD, Method, Sensitivity, SyntheticBudget,
    SyntheticTask, Unfit,
};
