//! `/health` and `/metrics`, for monitoring on the server's own machine.
//!
//! In: HTTP on a loopback address. Out: whether the server answers, and total counts of connections
//! and statements. They contain nothing about rows, budgets, roles or single statements, because a
//! number that depends on a query could reveal the query.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::connections::House;
use super::socket::not_bound;

/// The longest head of a request, and the time limit for it.
const LONGEST: usize = 4_096;
const TIME: Duration = Duration::from_secs(2);

/// Serves on a thread of its own, and returns the bound address.
///
/// # Errors
/// A sentence, if other machines can reach the address, or if it is in use.
pub(super) fn serve(house: &Arc<House>, address: SocketAddr) -> Result<SocketAddr, String> {
    if !address.ip().is_loopback() {
        return Err(format!("{address}: metrics are told on 127.0.0.1 or ::1 only"));
    }
    let listener =
        TcpListener::bind(address).map_err(|error| not_bound(address, &error, "--metrics"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let house = Arc::clone(house);
    let serving = move || {
        for socket in listener.incoming().flatten() {
            // Requests are answered one after the other, so a slow client delays only other
            // requests for metrics.
            let _ = answer(&house, socket);
        }
    };
    let started = thread::Builder::new().spawn(serving);
    started.map(|_| address).map_err(|error| error.to_string())
}

fn answer(house: &House, mut socket: TcpStream) -> io::Result<()> {
    let end = Instant::now() + TIME;
    // A client that sends its bytes slowly has no more time than any other.
    let left = || match end.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let mut head = Vec::new();
    let mut part = [0; 512];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST {
        socket.set_read_timeout(left()?)?;
        match socket.read(&mut part)? {
            0 => break,
            n => head.extend(part.iter().take(n)),
        }
    }
    let (status, body) = page(house, &head);
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    // The answer is so short that the system accepts it immediately.
    socket.set_write_timeout(left()?)?;
    socket.write_all(answer.as_bytes())
}

fn page(house: &House, head: &[u8]) -> (&'static str, String) {
    if head.starts_with(b"GET /health ") {
        return match house.is_stopping() || house.engine.owner().budgets().is_err() {
            true => {
                ("503 Service Unavailable", "stopping, or the vault cannot be read\n".to_owned())
            }
            false => ("200 OK", "ok\n".to_owned()),
        };
    }
    if !head.starts_with(b"GET /metrics ") {
        return ("404 Not Found", "GET /health or /metrics\n".to_owned());
    }
    let counts = &house.counts;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let connected = u64::try_from(house.connected()).unwrap_or(u64::MAX);
    let lines = [
        ("connections_open", "gauge", connected),
        ("connections_total", "counter", get(&counts.connections)),
        ("connections_refused_total", "counter", get(&counts.refused_connections)),
        ("log_ins_failed_total", "counter", get(&counts.failed_log_ins)),
        ("statements_total", "counter", get(&counts.statements)),
        ("errors_total", "counter", get(&counts.errors)),
    ];
    let lines = lines
        .map(|(name, kind, value)| format!("# TYPE hushql_{name} {kind}\nhushql_{name} {value}\n"));
    ("200 OK", lines.concat())
}
