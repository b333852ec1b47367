//! The arguments of commands that serve: where a server listens, its limits, and what language
//! models may spend.
//!
//! ```text
//! hushql serve study.db --listen 127.0.0.1:5432 --mcp 127.0.0.1:8000 --per-call 0.1 --session 1
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

#[cfg(feature = "mcp")]
use crate::mcp::{AgentLimits, AmountOf};
use crate::server::{Certificate, Options};

/// Where a server listens, and its limits.
#[derive(Debug, PartialEq, Eq, Args)]
pub(super) struct Serving {
    /// The address for roles; an address that other machines can reach needs TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    listen: SocketAddr,
    /// A folder that only you can read, for the owner's socket: every client of the socket is the
    /// owner
    #[arg(long, value_name = "FOLDER")]
    owner_socket: Option<PathBuf>,
    /// The certificate of the server, and its chain of issuers, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// For trying TLS: make a key and a certificate in this folder [default: the vault's], or reuse
    /// those that are there
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with_all = ["tls_cert", "tls_key"])]
    tls_self_made: Option<Option<PathBuf>>,
    /// The most connections
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_connections: usize,
    /// The most connections of one role; each runs one statement at a time
    #[arg(long, value_name = "N", default_value_t = 20)]
    connections_per_role: usize,
    /// Append a record of each statement to this file: the role, the time, a hash of the statement,
    /// the code and the cost
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Answer /health and /metrics on this loopback address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Answer language models on this address, by the Model Context Protocol over HTTP: each
    /// request carries a role's token, which `hushql token` makes
    #[cfg(feature = "mcp")]
    #[arg(long, value_name = "ADDRESS")]
    mcp: Option<SocketAddr>,
    #[cfg(feature = "mcp")]
    #[command(flatten)]
    agents: OfAgents,
    /// Serve a page for browsers on this address: roles log in with their passwords; an address
    /// that other machines can reach needs TLS
    #[cfg(feature = "console")]
    #[arg(long, value_name = "ADDRESS")]
    console: Option<SocketAddr>,
    /// The most seconds for statements that run when the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

impl Serving {
    /// The options of the server.
    pub(super) fn options(self, vault: &Path) -> Options {
        let given = self.tls_cert.zip(self.tls_key);
        let given = given.map(|(certificate, key)| Certificate::Given { certificate, key });
        let own = || vault.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let made = |folder: Option<PathBuf>| Certificate::SelfMade(folder.unwrap_or_else(own));
        Options {
            listen: self.listen,
            owner_socket: self.owner_socket,
            tls: given.or_else(|| self.tls_self_made.map(made)),
            connections: self.max_connections,
            of_a_role: self.connections_per_role,
            audit: self.audit,
            metrics: self.metrics,
            grace: Duration::from_secs(self.grace),
            #[cfg(feature = "mcp")]
            mcp: self.mcp.map(|address| (address, self.agents.limits())),
            #[cfg(feature = "console")]
            console: self.console,
        }
    }
}

/// The owner's page, and its address.
#[cfg(feature = "console")]
#[derive(Debug, PartialEq, Eq, Args)]
pub(super) struct ConsoleArguments {
    /// The vault; without one, the built-in tables
    pub(super) vault: Option<PathBuf>,
    /// The vault's anchor, if it has one
    #[arg(long = "anchor", value_name = "FILE", requires = "vault")]
    pub(super) held: Option<PathBuf>,
    /// The address, which only this machine can reach [default: a free port]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub(super) listen: SocketAddr,
    /// Append a record of each statement to this file
    #[arg(long, value_name = "FILE")]
    pub(super) audit: Option<PathBuf>,
}

/// What a language model may spend, whatever its statements name.
#[cfg(feature = "mcp")]
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits of agents")]
pub(super) struct OfAgents {
    /// The most ε of one call, and its δ [default δ: 1e-6]
    #[arg(long, value_name = "EPSILON[,DELTA]", value_parser = AmountOf::read)]
    per_call: Option<AmountOf>,
    /// The most ρ of one call, for releases that have no ε
    #[arg(long, value_name = "RHO[,DELTA]", value_parser = AmountOf::read)]
    per_call_rho: Option<AmountOf>,
    /// The most ε of one analyst or role on one day (UTC), over all sessions [default δ: 1e-5]
    #[arg(long, visible_alias = "per-day", value_name = "EPSILON[,DELTA]")]
    #[arg(value_parser = AmountOf::read)]
    session: Option<AmountOf>,
    /// The same in ρ, for releases that have no ε
    #[arg(long, visible_alias = "per-day-rho", value_name = "RHO[,DELTA]")]
    #[arg(value_parser = AmountOf::read)]
    session_rho: Option<AmountOf>,
    /// Have a person asked before each charge beyond this share of a day's limit
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[arg(requires = "session")]
    confirm: Option<u8>,
}

#[cfg(feature = "mcp")]
impl OfAgents {
    /// The limits as the agent's type.
    pub(super) fn limits(&self) -> AgentLimits {
        let call = (self.per_call, self.per_call_rho);
        AgentLimits::of(call, (self.session, self.session_rho), self.confirm)
    }
}
