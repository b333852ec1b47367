//! The program `hushql`: reads its arguments and calls [`cli`].
//!
//! In: the arguments of the process. Out: its exit status. The library alone decides what an
//! analyst may see; [`cli`] is an ordinary user of the library.
//!
//! ```text
//! hushql demo -c 'SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status'
//! ```

#![forbid(unsafe_code)]

use std::env::{self, consts};
use std::io::{self, Write};
use std::process::{Command, ExitCode};

use clap::Parser;
use hushql::cli;
use mimalloc::MiMalloc;

/// The allocator for batches of rows; see `Cargo.toml`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The program that has workers. Its crates take minutes to build, so this program does without
/// them.
const WITH_WORKERS: &str = "hushql-cluster";

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    match arguments.cluster {
        Some(_) => handed_over(),
        None => ExitCode::from(cli::run(arguments, &Ok)),
    }
}

/// Hands all arguments to the program that has workers. It is the one in the same folder, never one
/// on the path: a user who runs this program with another user's rights could choose that path.
fn handed_over() -> ExitCode {
    let name = format!("{WITH_WORKERS}{}", consts::EXE_SUFFIX);
    let started = env::current_exe().and_then(|own| {
        let mut command = Command::new(own.with_file_name(name));
        command.args(env::args_os().skip(1));
        replaced_by(command)
    });
    match started {
        Ok(status) => status,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "error: --cluster: {WITH_WORKERS} cannot be started: {error}; it is built by \
                 `cargo build --release -p {WITH_WORKERS}`, and belongs beside this program"
            );
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the other program, which inherits its terminal and signals.
#[cfg(unix)]
fn replaced_by(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

/// Waits for the other program.
#[cfg(not(unix))]
fn replaced_by(mut command: Command) -> io::Result<ExitCode> {
    let status = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(status.map_or(ExitCode::FAILURE, ExitCode::from))
}
