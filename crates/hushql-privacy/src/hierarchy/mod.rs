//! Numbers of a tree of groups: each number is the sum of those below it.
//!
//! In: noisy numbers of all groups of a ROLLUP, level by level, and the variance of their noise.
//! Out: numbers that add up, and their errors. Everything is computed from released numbers and
//! public keys, so it costs nothing, and no privacy rests on it.
//!
//! ```text
//! level 0         10           10.33         a total and two regions, drawn with the same variance: they
//! level 1      5      6     4.67  5.67       disagree by 1, and each number takes a third of that
//! ```

mod deviation;
mod running;
mod tail;
mod tree;
mod whole;

pub use deviation::{Deviation, Law};
pub use running::{CountTree, rising};
pub use tail::{GridNoise, is_within, tail, tail_of};
pub use tree::Tree;
pub use whole::WholeNumbers;
