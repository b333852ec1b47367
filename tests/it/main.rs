//! The integration tests, one binary: a test binary that links DataFusion is large.
//!
//! [`contract`] tests what users rely on, [`privacy`] what the promise rests on. [`imports`],
//! [`mutants`], [`tiers`] and [`voice`] test the source itself. [`seed`] chooses the sample that
//! the gate takes of a long test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking, and their statistics are floats"
)]

mod contract;
mod embedder;
mod imports;
mod mutants;
mod privacy;
mod seed;
mod tiers;
mod voice;
