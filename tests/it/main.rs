//! The integration tests, one binary: a test binary that links DataFusion is large.

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

mod attacks;
mod audit;
mod bad_input;
mod choices;
mod coverage;
mod data_groups;
mod declarations;
mod draws;
mod examples;
#[cfg(target_os = "linux")]
mod faults;
mod files;
mod found_bounds;
mod fuzz;
mod grammar;
mod held;
mod imports;
mod limits;
mod line;
mod mutants;
mod noiseless;
mod numbers;
mod prepared;
mod program;
mod rare;
mod readme;
mod redteam;
mod relations;
mod selection;
mod sensitivity;
mod shared_keys;
mod shell;
mod shown;
mod silence;
mod slt;
mod sources;
mod sqlite;
mod statistics;
mod swap;
mod tpch;
mod views;
mod visible;
mod watch;
mod ways_in;
