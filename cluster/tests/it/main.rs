//! Bounded inputs in other processes: what is sent, and what comes back.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests fail by panicking, and their figures are floats"
)]

mod equal;
mod keys;
mod lost;
mod measure;
#[cfg(feature = "objects")]
mod objects;
mod random;
mod sent;
mod shell;
mod study;
mod tpch;

/// The allocator of workers, so that times compare.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
