//! `hushql-cluster`: the command line of `hushql`, with workers for the private parts of its statements.
//!
//! In: the arguments of `hushql`, and `--cluster` with a folder of keys. Out: what `hushql` does. A guest of the library, like
//! `hushql`, whose crates of this package it does not need.
//!
//! ```text
//! hushql-cluster study.db --cluster keys --analyst lab -c 'SELECT …'
//! ```

#![forbid(unsafe_code)]

#[path = "../../src/cli/mod.rs"]
mod cli;
#[cfg(feature = "serve")]
#[path = "../../src/server/mod.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use hushql::Engine;
use hushql_cluster::{Cluster, OnCluster};
use mimalloc::MiMalloc;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "hushql-cluster VAULT --cluster FOLDER --owner|--analyst NAME [-c SQL | -f FILE]\n       \
    hushql-cluster …, with any arguments of hushql";

/// A SQL engine with differential privacy, on several machines.
#[derive(Debug, Parser)]
#[command(name = "hushql-cluster", version, arg_required_else_help = true)]
struct WithCluster {
    #[command(flatten)]
    own: cli::Arguments,
    /// Run the private parts of statements on the workers of this folder of keys, which `hushql-worker enrol` made
    #[arg(long, value_name = "FOLDER", global = true)]
    cluster: Option<PathBuf>,
}

fn main() -> ExitCode {
    let command = WithCluster::command().override_usage(USAGE);
    let parsed = WithCluster::from_arg_matches(&command.get_matches());
    let WithCluster { own, cluster } = parsed.unwrap_or_else(|usage| usage.exit());
    cli::run(own, &|engine| match &cluster {
        Some(keys) => placed(engine, keys).map_err(|problem| format!("--cluster: {problem}")),
        None => Ok(engine),
    })
}

/// The engine on the workers of these keys, all of which are there.
fn placed(engine: Engine, keys: &Path) -> Result<Engine, String> {
    let cluster = Cluster::open(keys).map_err(|error| error.to_string())?;
    let checked = block_in_place(|| Handle::current().block_on(cluster.check()));
    checked.map_err(|error| error.to_string())?;
    engine.on_cluster(&cluster).map_err(|error| error.to_string())
}
