//! The loops of HushQL: everything that runs once for each private row.
//!
//! In: batches of private rows, and plain numbers that say what may come out: bounds, grids, keys.
//! Out: exact integers, which one person changes by no more than the bounds allow, or rows that are
//! bounded and coded. No noise is drawn here. This crate knows no statement, no declaration and no
//! budget. The crate above it decides which bounds and grids make an answer private; this crate
//! states what they guarantee.
//!
//! | module | holds |
//! |---|---|
//! | [`operator`] | DataFusion operators: bounded contributions, sampled rows, look-ups, sums by key |
//! | [`aggregate`] | the aggregate function that clamps, rounds and adds exactly |
//! | [`gather`] | the integers of each key, from the rows of all partitions |
//! | [`encoded_rows`], [`codes`] | rows as public codes, which answer only counts |
//! | [`functions`] | scalar functions that no value can make fail |
//! | [`file_schema`] | columns of files whose types Arrow's reader does not know |
//! | [`grid`], [`ticks`] | numbers as whole steps of a public width |
//! | [`deadline`], [`pinned`] | when work must end, and files that stay open |
//!
//! The crate is compiled as one unit, because its loops call each other across all modules.

#![forbid(unsafe_code)]
#![allow(
    clippy::len_without_is_empty,
    reason = "rows have codes, and a query has keys: neither is ever empty"
)]

pub mod aggregate;
pub mod codes;
pub mod deadline;
pub mod encoded_rows;
pub mod file_schema;
pub mod functions;
pub mod gather;
pub mod grid;
pub mod operator;
pub mod pinned;
pub mod ticks;
