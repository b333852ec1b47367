//! Connections between a driver and workers, and between workers.
//!
//! In: an identity, and the addresses of workers. Out: channels that tonic uses, over TLS 1.3 with
//! certificates on both ends, and a gate before each worker's service, which admits plans that the
//! driver signed.
//!
//! ```text
//! driver   plan ─▶ first message ─ signature ─▶ TLS ┐
//!                                                   ├─▶ TLS ─▶ gate ─ first message, signature ─▶ the worker's service
//! worker   rows of a task, please ────────────▶ TLS ┘
//! ```

mod accept;
mod channels;
mod first;
mod gate;
#[cfg(test)]
mod tests;

pub(crate) use accept::serve;
pub(crate) use channels::Channels;
pub(crate) use first::LARGEST;
pub(crate) use gate::Gate;

use std::time::{SystemTime, UNIX_EPOCH};

/// The request to run a plan, which is in its first message.
const RUN: &str = "/worker.WorkerService/CoordinatorChannel";

/// The request for the rows of a task whose plan has arrived.
const ROWS: &str = "/worker.WorkerService/ExecuteTask";

/// The request for the version of a worker.
const VERSION: &str = "/worker.WorkerService/GetWorkerInfo";

/// The bytes of rows that may be sent before the receiver confirms them, in one stream and in all
/// streams of a connection. With the 64 KiB of HTTP/2, each block of rows would wait for a
/// confirmation.
const AHEAD: u32 = 1 << 20;
const AHEAD_OF_ALL: u32 = 8 << 20;

/// The largest frame.
const FRAME: u32 = 256 << 10;

/// The seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
