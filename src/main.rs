//! The binary `hushql`: reads its arguments and hands over to [`cli`].
//!
//! In: the arguments of the process. Out: its exit status. It assumes nothing and decides nothing; what
//! an analyst may see is decided by the library alone, of which [`cli`] is an ordinary user.
//!
//! ```text
//! hushql demo -c 'SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status'
//! ```

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::run(cli::Arguments::parse())
}
