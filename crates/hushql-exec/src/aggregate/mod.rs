//! The aggregate functions of private plans.
//!
//! In: a column. Out: exact integers on a public grid.
//!
//! ```text
//! fixed_sum(price, lo 0, hi 100, grid 2^-20)      clamps, rounds and adds in 128 bits
//! Term { Count, filter 3 }                        one column of an aggregation over rows
//! ```

pub mod fixed_sum;
pub mod terms;
#[cfg(test)]
pub(crate) mod tests_keys;
