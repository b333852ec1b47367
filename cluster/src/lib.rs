//! The private part of HushQL's queries on several processes.
//!
//! Only what is below the privatizing operator is large: it reads the rows of people, bounds what each of them contributes, and adds
//! integers up, which merge by addition. This package runs that part on workers. The driver has the vault: it parses, charges, adds up
//! and draws, and hands the key of the bounds to the workers after the charge. A guest of the library, and not a default member of
//! the workspace.
//!
//! ```text
//! Engine ── Site ──▶ Cluster (driver) ── plan, key ──▶ hushql-worker × n ── rows by unit ──▶ each other
//!                                     ◀── integers ──
//! ```
//!
//! | to | call |
//! |---|---|
//! | start workers on this machine | [`Workers::start`] |
//! | run an engine's private parts there | [`Workers::site`], with `Engine::at_site` |
//! | encode and decode a plan | [`PlanCodec`], [`Received`] |
//!
//! What is refused, what is measured, and what is to come: `docs/scale.md`.

#![forbid(unsafe_code)]

mod apart;
mod beside;
mod carried;
mod codec;
mod driver;
mod processes;
mod received;
mod worker;

pub use codec::PlanCodec;
pub use driver::Cluster;
pub use processes::Workers;
pub use received::Received;
pub use worker::Listening;
