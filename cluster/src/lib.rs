//! The private part of HushQL's queries on several processes.
//!
//! Only the part of a query below the privatizing operator is large: it reads the rows of people,
//! bounds the contribution of each person, and adds up integers, which merge by addition. This
//! package runs that part on workers. The driver has the vault: it parses, charges, adds up and
//! draws, and passes the key of the bounds to the workers after the charge. The package is a guest
//! of the library, and not a default member of the workspace.
//!
//! ```text
//! Engine ── Site ──▶ Cluster (driver) ── signed plan, key ──▶ hushql-worker × n ── rows by unit ──▶ each other
//!                                     ◀── integers ──
//! ```
//!
//! | to | call |
//! |---|---|
//! | make the keys of workers | [`enrol`], or `hushql-worker enrol` |
//! | open the workers of these keys, and check that they respond | [`Cluster::open`], [`Cluster::check`] |
//! | run an engine's private parts there | [`OnCluster::on_cluster`] |
//! | start workers on this machine instead | [`Workers::start`], [`Workers::site`] |
//! | run as a worker | [`WorkerKeys::read`], [`Listening`], or `hushql-worker --listen` |
//! | encode and decode a plan | [`PlanCodec`], [`Received`] |
//!
//! All connections are TLS 1.3 with certificates of the owner's authority on both ends, and workers
//! run only plans that their driver signed. `docs/scale.md` says what is refused, what is measured,
//! and what is planned.

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

/// The version of this package, and whether it reads object stores. Driver and workers must have
/// the same: a worker that reads no object stores would fail statements after their charge.
pub(crate) const VERSION: &str = match READS_OBJECTS {
    true => concat!(env!("CARGO_PKG_VERSION"), " with object stores"),
    false => env!("CARGO_PKG_VERSION"),
};
