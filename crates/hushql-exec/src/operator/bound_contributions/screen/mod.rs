//! Which units may exceed a bound: a filter of row counts that misses none of them.

pub(super) mod over_bound;
pub(super) mod partitioned_counting;
pub(super) mod row_count_filter;
