//! The columns that aggregates read: added up as they arrive, and kept row by row where needed.

pub(super) mod column_sums;
pub(super) mod grid_values;
pub(super) mod held_batches;
pub(super) mod kept_values;
pub(super) mod spill_format;
