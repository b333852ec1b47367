//! The private part of HushQL's queries on several processes.
//!
//! Only what is below the privatizing operator is large: it reads the rows of people, bounds what
//! each of them contributes, and adds integers up, which merge by addition. This package runs that
//! part on workers. The driver has the vault: it parses, charges, adds up and draws, and hands the
//! key of the bounds to the workers after the charge. A guest of the library, and not a default
//! member of the workspace.
//!
//! ```text
//! Engine ── Site ──▶ Cluster (driver) ── signed plan, key ──▶ hushql-worker × n ── rows by unit ──▶ each other
//!                                     ◀── integers ──
//! ```
//!
//! | to | call |
//! |---|---|
//! | make the keys of workers | [`enrol`], or `hushql-worker enrol` |
//! | know the workers of these keys, and see that they are there | [`Cluster::open`], [`Cluster::check`] |
//! | run an engine's private parts there | [`OnCluster::on_cluster`] |
//! | start workers on this machine instead | [`Workers::start`], [`Workers::site`] |
//! | be a worker | [`WorkerKeys::read`], [`Listening`], or `hushql-worker --listen` |
//! | encode and decode a plan | [`PlanCodec`], [`Received`] |
//!
//! All connections are TLS 1.3 with certificates of the owner's authority on both ends, and workers
//! run what their driver signed. What is refused, what is measured, and what is to come:
//! `docs/scale.md`.

#![forbid(unsafe_code)]

mod apart;
mod beside;
mod carried;
mod codec;
mod driver;
mod identity;
mod lost;
mod once;
mod processes;
mod received;
mod transport;
mod whole;
mod worker;

use hushql_engine::exec::distributed::READS_OBJECTS;

pub use codec::PlanCodec;
pub use driver::{Cluster, OnCluster};
pub use identity::{Enrolled, WorkerKeys, enrol};
pub use processes::Workers;
pub use received::Received;
pub use worker::Listening;

/// The version of this package, which driver and workers share, and whether it reads object stores:
/// a worker that does not would fail statements after their charge.
pub(crate) const VERSION: &str = match READS_OBJECTS {
    true => concat!(env!("CARGO_PKG_VERSION"), " with object stores"),
    false => env!("CARGO_PKG_VERSION"),
};
