//! `hushql-worker`: runs stages of plans for a driver, and makes the keys of workers.
//!
//! ```text
//! hushql-worker enrol keys w1=10.0.0.5:7000 w2=10.0.0.6:7000      where the vault is, by its owner
//! hushql-worker --listen 0.0.0.0:7000 --keys w1.pem               on the machine of w1
//! ```

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use hushql::Resources;
use hushql_cluster::{Enrolled, Listening, WorkerKeys, enrol};
use mimalloc::MiMalloc;

/// The same allocator as in the program `hushql`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the private part of HushQL's queries for a driver.
#[derive(Debug, Parser)]
#[command(name = "hushql-worker", version, args_conflicts_with_subcommands = true)]
#[command(
    override_usage = "hushql-worker --listen ADDRESS --keys FILE [--memory SIZE] [--spill FOLDER]\n       \
    hushql-worker enrol FOLDER NAME=HOST:PORT…"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the keys of workers: a file for each, to be moved to its machine
    Enrol {
        /// The folder of keys, which is made if it is missing; it stays with the vault's owner
        folder: PathBuf,
        /// Workers, as in w1=10.0.0.5:7000: a name, and the address for the driver and the other
        /// workers
        #[arg(value_name = "NAME=HOST:PORT")]
        workers: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Work {
    /// Where to listen, as in 0.0.0.0:7000
    #[arg(long, value_name = "ADDRESS", required_unless_present = "for_parent")]
    listen: Option<SocketAddr>,
    /// The file of keys that `enrol` wrote for this worker
    #[arg(long, value_name = "FILE", required_unless_present = "for_parent")]
    keys: Option<PathBuf>,
    /// Memory for all plans together, as in 8GB [default: half of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<usize>,
    /// A folder for data that does not fit into memory, in nameless files; without one, such a
    /// statement fails
    #[arg(long, value_name = "FOLDER")]
    spill: Option<PathBuf>,
    /// Read the keys from standard input, write the address to standard output, and end when
    /// standard input closes
    #[arg(long, hide = true, conflicts_with_all = ["listen", "keys"])]
    for_parent: bool,
}

fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let factor = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => Some(1),
        "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000_usize),
        _ => None,
    };
    let bytes = factor.zip(digits.parse::<usize>().ok()).and_then(|(a, b)| a.checked_mul(b));
    bytes.filter(|bytes| *bytes >= 1_000_000).ok_or_else(|| {
        "a size is a whole number with KB, MB, GB or TB, such as 2GB, and at least 1MB".to_owned()
    })
}

fn main() -> ExitCode {
    // The message of a panic may quote a cell.
    std::panic::set_hook(Box::new(|_| {}));
    let Arguments { command, work } = Arguments::parse();
    let done = match command {
        Some(Command::Enrol { folder, workers }) => enrolled(&folder, &workers),
        None => worked(work),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "hushql-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn enrolled(folder: &std::path::Path, workers: &[String]) -> io::Result<()> {
    let split = |worker: &'_ String| -> io::Result<(String, String)> {
        let (name, address) = worker.split_once('=').ok_or_else(|| {
            let problem =
                format!("{worker:?} is not a worker: write NAME=HOST:PORT, as in w1=10.0.0.5:7000");
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        })?;
        Ok((name.to_owned(), address.to_owned()))
    };
    let workers = workers.iter().map(split).collect::<io::Result<Vec<_>>>()?;
    let named: Vec<(&str, &str)> = workers.iter().map(|(n, a)| (n.as_str(), a.as_str())).collect();
    let Enrolled { made, workers: files, .. } = enrol(folder, &named)?;
    let mut out = io::stderr().lock();
    for file in made {
        writeln!(out, "made {}: it stays here", file.display())?;
    }
    for ((name, address), file) in workers.iter().zip(files) {
        writeln!(out, "worker {name}: move {} to its machine, and start there:", file.display())?;
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        writeln!(out, "  hushql-worker --listen 0.0.0.0:{port} --keys {name}.pem")?;
    }
    Ok(())
}

fn worked(work: Work) -> io::Result<()> {
    let Work { listen, keys, memory, spill, for_parent } = work;
    let resources = Resources::default();
    let memory = memory.or(resources.memory);
    let resources = resources.with_memory(memory).with_spill(spill);
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (address, keys) = match (listen, keys) {
        (Some(address), Some(file)) => {
            let keys = WorkerKeys::read(&file).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", file.display()))
            })?;
            (address, keys)
        }
        _ => (local, WorkerKeys::from_pem(&given()?)?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let worker = Listening::new(address, keys, &resources).await;
        let worker = worker.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot work at {address}: {error}"))
        })?;
        let address = worker.address()?;
        if !for_parent {
            writeln!(io::stderr(), "hushql-worker: listening at {address}")?;
            return worker.serve().await;
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{address}")?;
        out.flush()?;
        drop(out);
        let closed = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
        tokio::select! {
            served = worker.serve() => served,
            _ = closed => Ok(()),
        }
    })
}

/// The keys on standard input, until an empty line.
fn given() -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        text.extend(line.as_bytes());
        text.push(b'\n');
    }
    Ok(text)
}
