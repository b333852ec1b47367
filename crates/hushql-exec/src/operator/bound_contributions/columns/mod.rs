//! What the aggregates read of each batch, added up column by column, and kept while rows arrive.

pub(super) mod column_sums;
pub(super) mod grid_values;
pub(super) mod held_batches;
pub(super) mod kept_values;
pub(super) mod spill_format;
