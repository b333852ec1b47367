//! What all connections of a server share: the engine, the limits, and who is connected.
//!
//! In: connections that come and go. Out: whether one more is allowed, which one is to be cancelled, and how often somebody failed to
//! log in of late. Nothing here depends on rows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hushql::Engine;
use hushql::sampler::QueryRng;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::audit::Audit;
use super::socket::Socket;
use super::tls::Tls;

/// How many connections may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// In all.
    pub(super) connections: usize,
    /// Of one role.
    pub(super) of_a_role: usize,
}

/// Connections from one address that nobody has logged in on.
const STRANGERS_OF_AN_ADDRESS: usize = 20;

/// Places for those who have not logged in, beside those for roles.
const SPARE: usize = 10;

/// The first delay after a log-in that failed; each further one doubles it.
const DELAY: Duration = Duration::from_millis(100);
const DOUBLINGS: u32 = 4;

/// For how long failures are remembered, and of how many addresses.
const MEMORY: Duration = Duration::from_secs(600);
const REMEMBERED: usize = 10_000;

/// Numbers of events since the server began.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) refused_connections: AtomicU64,
    pub(super) failed_log_ins: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) errors: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A server.
#[derive(Debug)]
pub(super) struct House {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) tls: Option<Tls>,
    /// Whether a log-in needs TLS.
    pub(super) needs_tls: bool,
    pub(super) limits: Limits,
    pub(super) audit: Option<Audit>,
    pub(super) counts: Counts,
    pub(super) stopping: AtomicBool,
    guests: Mutex<HashMap<i32, Guest>>,
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

/// A connection, as the others see it.
#[derive(Debug)]
struct Guest {
    secret: i32,
    cancel: Arc<Notify>,
    socket: Socket,
    address: Option<IpAddr>,
    /// `None` until somebody is logged in.
    role: Option<String>,
}

/// A connection's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    house: Arc<House>,
    pub(super) process: i32,
    pub(super) secret: i32,
    pub(super) cancel: Arc<Notify>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.house.guests().remove(&self.process);
    }
}

impl House {
    pub(super) fn new(
        (engine, runtime): (Engine, Handle),
        (tls, needs_tls): (Option<Tls>, bool),
        limits: Limits,
        audit: Option<Audit>,
    ) -> Self {
        Self {
            engine,
            runtime,
            tls,
            needs_tls,
            limits,
            audit,
            counts: Counts::default(),
            stopping: AtomicBool::new(false),
            guests: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<i32, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection; `None` if all are taken, or its address has too many that nobody has logged in on.
    pub(super) fn seat(self: &Arc<Self>, socket: &Socket) -> Option<Seat> {
        let numbers = QueryRng::nonce().ok()?;
        let [a, b, c, d, e, f, g, h, ..] = numbers;
        let (process, secret) =
            (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let process = process.unsigned_abs().cast_signed().max(1);
        let (address, socket) = (socket.address(), socket.again().ok()?);
        let mut guests = self.guests();
        let strangers = guests
            .values()
            .filter(|guest| guest.role.is_none() && address.is_some() && guest.address == address);
        // Some more than may log in, so that statements can be cancelled; the owner always finds a place.
        let full = address.is_some() && guests.len() >= self.limits.connections + SPARE;
        if full || strangers.count() >= STRANGERS_OF_AN_ADDRESS || guests.contains_key(&process) {
            return None;
        }
        let cancel = Arc::new(Notify::new());
        let guest = Guest { secret, cancel: Arc::clone(&cancel), socket, address, role: None };
        guests.insert(process, guest);
        Some(Seat { house: Arc::clone(self), process, secret, cancel })
    }

    /// Says who has logged in; `false` if the role, or all of them together, have as many connections as they may have.
    pub(super) fn seated(&self, seat: &Seat, role: &str) -> bool {
        let mut guests = self.guests();
        let same = guests.values().filter(|guest| guest.role.as_deref() == Some(role)).count();
        let all = guests.values().filter(|guest| guest.role.is_some()).count();
        if same >= self.limits.of_a_role || all >= self.limits.connections {
            return false;
        }
        if let Some(guest) = guests.get_mut(&seat.process) {
            guest.role = Some(role.to_owned());
        }
        true
    }

    /// Ends the wait for the statement of another connection, if it has this secret.
    pub(super) fn cancel(&self, process: i32, secret: i32) {
        if let Some(guest) = self.guests().get(&process).filter(|guest| guest.secret == secret) {
            guest.cancel.notify_waiters();
        }
    }

    /// The number of connections.
    pub(super) fn connected(&self) -> usize {
        self.guests().len()
    }

    /// Lets nobody say anything more. Statements that run go on, and are answered.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.guests().values().for_each(|guest| guest.socket.deafen());
    }

    /// Whether it stops.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Remembers that a log-in failed; how long its client waits for the answer.
    pub(super) fn failed(&self, address: Option<IpAddr>) -> Duration {
        count(&self.counts.failed_log_ins);
        let Some(address) = address else { return DELAY };
        let now = Instant::now();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED {
            failures.retain(|_, (_, last)| now.duration_since(*last) < MEMORY);
        }
        if failures.len() >= REMEMBERED {
            failures.clear();
        }
        let (times, last) = failures.entry(address).or_insert((0, now));
        if now.duration_since(*last) >= MEMORY {
            *times = 0;
        }
        (*times, *last) = (times.saturating_add(1), now);
        DELAY.saturating_mul(1 << times.saturating_sub(1).min(DOUBLINGS))
    }

    /// Forgets the failures of an address.
    pub(super) fn succeeded(&self, address: Option<IpAddr>) {
        if let Some(address) = address {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.remove(&address);
        }
    }
}
