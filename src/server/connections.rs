//! The state that all connections of a server share: the engine, the limits, and the list of
//! connections.
//!
//! In: connections that begin and end. Out: whether one more is allowed, which one a request
//! cancels, and when the password of a log-in is checked. Nothing here depends on rows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use hushql::Engine;
use hushql::sampler::QueryRng;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::audit::Audit;
use super::made_of_tables::MadeOfTables;
use super::refused_shapes::RefusedShapes;
use super::socket::Socket;
use super::tls::Tls;
use super::turns::{Turn, Turns, WAITING};

/// The most connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// In all.
    pub(super) connections: usize,
    /// Of one role.
    pub(super) of_a_role: usize,
}

/// The most connections without a log-in, from one network and in all.
const STRANGERS_OF_A_NETWORK: usize = 20;
const STRANGERS: usize = 100;

/// The most connections that were told to end but have not ended yet, from one network and in all.
/// Each has a thread.
const GOING_OF_A_NETWORK: usize = 20;
const GOING: usize = 100;

impl Limits {
    /// The most file descriptors that this many connections take, two each, plus those of the
    /// vault, its files and their queries.
    pub(super) fn descriptors(self) -> u64 {
        let connections = self.connections.saturating_add(STRANGERS + GOING + WAITING);
        let of_queries = self.connections.saturating_mul(4).saturating_add(64);
        u64::try_from(connections.saturating_mul(2).saturating_add(of_queries)).unwrap_or(u64::MAX)
    }
}

/// Counts of events since the server started.
#[derive(Debug, Default)]
pub(super) struct ServerCounts {
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

/// The shared state of a server.
#[derive(Debug)]
pub(super) struct House {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) tls: Option<Tls>,
    /// Whether a log-in needs TLS.
    pub(super) needs_tls: bool,
    pub(super) limits: Limits,
    pub(super) audit: Option<Audit>,
    /// The queries on the catalog that had no answer.
    pub(super) refused: RefusedShapes,
    pub(super) counts: ServerCounts,
    pub(super) stopping: AtomicBool,
    pub(super) started: SystemTime,
    /// The relations of the catalog, for the roles that asked last.
    pub(super) relations: MadeOfTables,
    guests: Mutex<HashMap<i32, Guest>>,
    turns: Turns,
}

/// A connection, as seen by the others.
#[derive(Debug)]
struct Guest {
    secret: i32,
    cancel: Arc<Notify>,
    socket: Socket,
    network: Option<IpAddr>,
    /// `None` before log-in.
    role: Option<String>,
    since: Instant,
    /// Whether it was told to end, to make room for another.
    is_going: bool,
    /// Whether it waits for its password to be checked.
    waits: bool,
}

impl Guest {
    fn is_stranger(&self) -> bool {
        self.role.is_none() && self.network.is_some() && !self.is_going && !self.waits
    }
}

/// The network of an address: one IPv6 network has very many addresses.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6((u128::from(six) >> 64 << 64).into()),
        },
    }
}

/// Ends the oldest connection without a log-in, of this network or of the one that has most of
/// them.
fn make_room(guests: &mut HashMap<i32, Guest>, of: Option<IpAddr>) {
    let mut networks: HashMap<Option<IpAddr>, usize> = HashMap::new();
    for guest in guests.values().filter(|guest| guest.is_stranger()) {
        let number = networks.entry(guest.network).or_default();
        *number = number.saturating_add(1);
    }
    let most = || networks.into_iter().max_by_key(|(_, number)| *number).map(|(of, _)| of);
    let Some(of) = of.map(Some).or_else(most) else { return };
    let meant = guests.values_mut().filter(|guest| guest.is_stranger() && guest.network == of);
    if let Some(oldest) = meant.min_by_key(|guest| guest.since) {
        oldest.is_going = true;
        oldest.socket.end();
    }
}

/// The place of a connection. Dropping it frees the place.
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
        (audit, refused): (Option<Audit>, RefusedShapes),
    ) -> Self {
        Self {
            engine,
            runtime,
            tls,
            needs_tls,
            limits,
            audit,
            refused,
            counts: ServerCounts::default(),
            stopping: AtomicBool::new(false),
            started: SystemTime::now(),
            relations: MadeOfTables::default(),
            guests: Mutex::default(),
            turns: Turns::default(),
        }
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<i32, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection. Connections without a log-in take no places of roles. If there are
    /// too many of them, the oldest of their network is told to end. `None` while too many of these
    /// have not ended yet.
    pub(super) fn seat(self: &Arc<Self>, socket: &Socket) -> Option<Seat> {
        let numbers = QueryRng::nonce().ok()?;
        let [a, b, c, d, e, f, g, h, ..] = numbers;
        let (process, secret) =
            (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let process = process.unsigned_abs().cast_signed().max(1);
        let (network, socket) = (socket.address().map(network), socket.again().ok()?);
        let mut guests = self.guests();
        // The owner always gets a place.
        let going = || guests.values().filter(|guest| guest.is_going);
        let own = going().filter(|guest| guest.network == network).count();
        let is_full = own >= GOING_OF_A_NETWORK || going().count() >= GOING;
        if (network.is_some() && is_full) || guests.contains_key(&process) {
            return None;
        }
        let strangers = || guests.values().filter(|guest| guest.is_stranger());
        let of_network = strangers().filter(|guest| guest.network == network).count();
        let in_all = strangers().count();
        if network.is_some() && of_network >= STRANGERS_OF_A_NETWORK {
            make_room(&mut guests, network);
        } else if network.is_some() && in_all >= STRANGERS {
            make_room(&mut guests, None);
        }
        let cancel = Arc::new(Notify::new());
        let guest = Guest {
            secret,
            cancel: Arc::clone(&cancel),
            socket,
            network,
            role: None,
            since: Instant::now(),
            is_going: false,
            waits: false,
        };
        guests.insert(process, guest);
        Some(Seat { house: Arc::clone(self), process, secret, cancel })
    }

    /// Records the role of a connection after log-in; `false` if the role, or all roles together,
    /// already have as many connections as allowed.
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

    /// Cancels the running statement of another connection, if the secret matches.
    pub(super) fn cancel(&self, process: i32, secret: i32) {
        if let Some(guest) = self.guests().get(&process).filter(|guest| guest.secret == secret) {
            guest.cancel.notify_waiters();
        }
    }

    /// The number of connections.
    pub(super) fn connected(&self) -> usize {
        self.guests().len()
    }

    /// Accepts no more messages. Running statements go on, and are answered.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.turns.close();
        self.guests().values().for_each(|guest| guest.socket.deafen());
    }

    /// Whether the server is stopping.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Records a log-in that succeeded or failed.
    pub(super) fn record_log_in(&self, role: &str, from: Option<IpAddr>, code: &str) {
        if let Some(audit) = &self.audit {
            // A full disk must not keep clients from logging in.
            let _ = audit.log_in(role, from, code);
        }
    }

    /// Waits for the turn of a log-in that has no connection here, as by a form of a browser. All
    /// log-ins of a network wait for each other.
    #[cfg(feature = "console")]
    pub(super) fn turn_of(&self, from: IpAddr, deadline: Instant) -> Option<Turn<'_>> {
        self.turns.wait(Some(network(from)), deadline, &|| false)
    }

    /// Waits for the turn of a log-in, without holding a place; see [`Turns::wait`].
    pub(super) fn turn(
        &self,
        seat: &Seat,
        deadline: Instant,
        has_gone: &dyn Fn() -> bool,
    ) -> Option<Turn<'_>> {
        let waits = |waits: bool| {
            let mut guests = self.guests();
            let guest = guests.get_mut(&seat.process)?;
            guest.waits = waits;
            Some(guest.network)
        };
        let network = waits(true)?;
        let turn = self.turns.wait(network, deadline, has_gone);
        waits(false)?;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house() -> Arc<House> {
        let limits = Limits { connections: 1, of_a_role: 1 };
        let engine = (Engine::demo().unwrap(), Handle::current());
        Arc::new(House::new(
            engine,
            (None, false),
            limits,
            (None, RefusedShapes::beside("unused".as_ref())),
        ))
    }

    /// A connection from an address of this machine, and its other end.
    fn from(last: u8) -> (Socket, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let client = client.unwrap();
        client.bind(&std::net::SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        (Socket::Tcp(listener.accept().unwrap().0), client.into())
    }

    /// One network fills only its own places, whether its connections are silent, have made room
    /// for others, or wait.
    #[tokio::test]
    async fn strangers_of_one_network_keep_nobody_else_out() {
        let house = house();
        let mut kept = Vec::new();
        let mut refused = 0;
        for _ in 0..200 {
            let (socket, other) = from(2);
            match house.seat(&socket) {
                Some(seat) => kept.push((seat, socket, other)),
                None => refused += 1,
            }
        }
        assert_eq!((kept.len(), refused), (40, 160));
        for last in [1, 3, 4] {
            let (socket, _other) = from(last);
            assert!(house.seat(&socket).is_some(), "{last}");
        }
        // A waiting log-in takes no place from others.
        let (socket, _other) = from(5);
        let seat = house.seat(&socket).unwrap();
        let strangers = || house.guests().values().filter(|guest| guest.is_stranger()).count();
        assert_eq!(strangers(), 21);
        house.guests().get_mut(&seat.process).unwrap().waits = true;
        assert_eq!(strangers(), 20);
        let later = Instant::now() + std::time::Duration::from_secs(60);
        assert!(house.turn(&seat, later, &|| false).is_some());
        assert_eq!(strangers(), 21);
    }

    /// If there are too many connections without a log-in, the oldest one of the network with the
    /// most of them ends.
    #[tokio::test]
    async fn the_network_with_most_strangers_makes_room() {
        let house = house();
        let mut kept = Vec::new();
        let (socket, other) = from(99);
        kept.push((house.seat(&socket).unwrap(), socket, other));
        for last in 2..8 {
            for _ in 0..STRANGERS_OF_A_NETWORK {
                let (socket, other) = from(last);
                kept.push((house.seat(&socket).unwrap(), socket, other));
            }
        }
        let guests = house.guests();
        assert_eq!(guests.values().filter(|guest| guest.is_stranger()).count(), STRANGERS);
        let alone = guests.get(&kept[0].0.process).unwrap();
        assert!(alone.is_stranger());
        drop(guests);
    }

    #[test]
    fn a_network_is_an_address_or_half_of_one() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("10.1.2.3"), "10.1.2.3");
        assert_eq!(of("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2:ffff::1"), of("2001:db8:1:2::7"));
        assert_ne!(of("2001:db8:1:3::"), of("2001:db8:1:2::"));
    }
}
