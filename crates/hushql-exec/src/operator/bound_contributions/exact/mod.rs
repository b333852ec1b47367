//! Bounds the rows of units that may exceed a bound, unit by unit.

pub(super) mod collect;
pub(super) mod kept_share;
pub(super) mod keyed_order;
pub(super) mod ladder_sums;
pub(super) mod merge_partitions;
pub(super) mod radix_lists;
pub(super) mod rows_by_unit;
pub(super) mod small_sorts;
pub(super) mod totals;
pub(super) mod unit_buckets;
pub(super) mod unit_contribution;
