//! `hushql-cluster`: the command line of `hushql`, with workers for the private parts of its
//! statements.
//!
//! In: the arguments of `hushql`. Out: the same as `hushql`. With `--cluster`, `hushql` starts this
//! program, because it is built without the crates of this package. Like `hushql`, it is a guest of
//! the library.
//!
//! ```text
//! hushql-cluster study.db --cluster keys --analyst lab -c 'SELECT …'
//! ```

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use hushql::{EngineBuilder, cli};
use hushql_cluster::{Cluster, OnCluster};
use mimalloc::MiMalloc;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "hushql-cluster VAULT --cluster FOLDER --owner|--analyst NAME [-c SQL | -f FILE]\n       \
    hushql-cluster …, with any arguments of hushql";

fn main() -> ExitCode {
    let command = cli::Arguments::command().name("hushql-cluster").override_usage(USAGE);
    let parsed = cli::Arguments::from_arg_matches(&command.get_matches());
    let arguments = parsed.unwrap_or_else(|usage| usage.exit());
    let cluster = arguments.cluster.clone();
    let status = cli::run(arguments, &|builder| match &cluster {
        Some(keys) => placed(builder, keys).map_err(|problem| format!("--cluster: {problem}")),
        None => Ok(builder),
    });
    ExitCode::from(status)
}

/// The builder of an engine on the workers of these keys. All of them must respond.
fn placed(builder: EngineBuilder, keys: &Path) -> Result<EngineBuilder, String> {
    let cluster = Cluster::open(keys).map_err(|error| error.to_string())?;
    let checked = block_in_place(|| Handle::current().block_on(cluster.check()));
    checked.map_err(|error| error.to_string())?;
    Ok(builder.on_cluster(&cluster))
}
