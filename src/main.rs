//! The program `hushql`: reads its arguments and calls [`cli`].
//!
//! In: the arguments of the process. Out: its exit status. The library alone decides what an analyst may see; [`cli`] is
//! an ordinary user of the library.
//!
//! ```text
//! hushql demo -c 'SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status'
//! ```

#![forbid(unsafe_code)]

mod cli;
#[cfg(feature = "serve")]
mod server;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// Where batches of rows come from and go to; see `Cargo.toml`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::run(cli::Arguments::parse(), &Ok)
}
