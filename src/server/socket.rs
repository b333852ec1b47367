//! Sockets of clients: TCP or Unix, with or without TLS, and with a time limit for logging in.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};

use super::tls::Tls;

/// After this silence, the system probes whether a client is still there, and again after each
/// further interval. A client that does not respond has gone, and its place becomes free. The
/// system decides how often to probe.
const SILENCE: Duration = Duration::from_secs(60);
const APART: Duration = Duration::from_secs(10);

/// How long a client may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(600);

/// A socket.
#[derive(Debug)]
pub(super) enum Socket {
    /// A socket of the network.
    Tcp(TcpStream),
    /// A Unix socket of the owner, in the owner's folder.
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Prepares an accepted socket.
    pub(super) fn begin(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                let alive = TcpKeepalive::new().with_time(SILENCE).with_interval(APART);
                SockRef::from(socket).set_tcp_keepalive(&alive)?;
                socket.set_write_timeout(Some(PATIENCE))
            }
            #[cfg(unix)]
            Self::Unix(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_write_timeout(Some(PATIENCE))
            }
        }
    }

    /// The address of the client, if it has one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(socket) => socket.peer_addr().ok().map(|address| address.ip()),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }

    /// Another handle for the same socket.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            #[cfg(unix)]
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }

    /// Whether the client has hung up, and all its bytes were read. No other thread may read
    /// meanwhile.
    fn has_ended(&self) -> bool {
        match self {
            Self::Tcp(socket) => {
                if socket.set_nonblocking(true).is_err() {
                    return true;
                }
                let found = socket.peek(&mut [0]);
                let waits = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
                let has_ended = matches!(found, Ok(0)) || found.is_err_and(|error| !waits(&error));
                socket.set_nonblocking(false).is_err() || has_ended
            }
            #[cfg(unix)]
            Self::Unix(_) => false,
        }
    }

    /// Stops reading from the client.
    pub(super) fn deafen(&self) {
        // If the socket has already ended, there is nothing to stop.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Read),
            #[cfg(unix)]
            Self::Unix(socket) => socket.shutdown(Shutdown::Read),
        };
    }

    /// Ends the connection from this side.
    pub(super) fn end(&self) {
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
            #[cfg(unix)]
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_write_timeout(Some(timeout)),
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_write_timeout(Some(timeout)),
        }
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_read_timeout(timeout),
            #[cfg(unix)]
            Self::Unix(socket) => socket.set_read_timeout(timeout),
        }
    }
}

/// A socket with a time limit for logging in.
#[derive(Debug)]
pub(super) struct Timed {
    socket: Socket,
    deadline: Option<Instant>,
}

impl Timed {
    /// The time that is left to log in; `None` after log-in.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            self.socket.set_read_timeout(Some(left))?;
        }
        match &mut self.socket {
            Socket::Tcp(socket) => socket.read(buffer),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A client that does not read keeps a place no longer than one that does not write.
        if let Some(left) = self.left()? {
            self.socket.set_write_timeout(left)?;
        }
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write(bytes),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A channel to a client.
#[derive(Debug)]
pub(super) enum Channel {
    /// Without TLS.
    Plain(Timed),
    /// With TLS.
    Tls(Box<StreamOwned<ServerConnection, Timed>>),
}

impl Channel {
    /// A channel whose client has to log in by the deadline.
    pub(super) fn plain(socket: Socket, deadline: Instant) -> Self {
        Self::Plain(Timed { socket, deadline: Some(deadline) })
    }

    /// The same client with TLS. Nothing has been read ahead: bytes that a client sends before the
    /// key exchange are not used.
    pub(super) fn secured(self, tls: &Tls) -> io::Result<Self> {
        match self {
            Self::Plain(timed) => {
                let mut stream = StreamOwned::new(tls.begin()?, timed);
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock)?;
                }
                Ok(Self::Tls(Box::new(stream)))
            }
            Self::Tls(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Whether it uses TLS.
    pub(super) fn is_secured(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The deadline for logging in; `None` after log-in.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Plain(timed) => timed.deadline,
            Self::Tls(stream) => stream.sock.deadline,
        }
    }

    /// Whether the client has hung up while it waits for an answer.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Plain(timed) => timed.socket.has_ended(),
            Self::Tls(stream) => stream.sock.socket.has_ended(),
        }
    }

    /// The address of the client, if it has one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Plain(timed) => timed.socket.address(),
            Self::Tls(stream) => stream.sock.socket.address(),
        }
    }

    /// Ends the time limit after log-in.
    pub(super) fn rests(&mut self) -> io::Result<()> {
        let timed = match self {
            Self::Plain(timed) => timed,
            Self::Tls(stream) => &mut stream.sock,
        };
        timed.deadline = None;
        timed.socket.set_write_timeout(PATIENCE)?;
        timed.socket.set_read_timeout(None)
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(timed) => timed.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(timed) => timed.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Why an address cannot be listened on, and what to write instead.
pub(super) fn not_bound(address: SocketAddr, error: &io::Error, option: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is in use by another program: stop that one, or write another port, as in {option} {}:{}",
            address.ip(),
            address.port().checked_add(1).unwrap_or(5433)
        ),
        io::ErrorKind::PermissionDenied => format!(
            "{address}: this account may not listen there: write a port above 1023, as in {option} {}:5432",
            address.ip()
        ),
        _ => format!("{address}: {error}"),
    }
}
