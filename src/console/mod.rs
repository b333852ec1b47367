//! A page to look at, in a browser: a guest of the library, like the shell and the server.
//!
//! In: requests of a browser over HTTP. Out: pages on which a role asks, sees prices, answers and
//! budgets, and on which the owner declares. Every statement runs in a session of the engine, which
//! alone decides what leaves, and charges it. Nothing here reads the vault before log-in.
//!
//! ```text
//! browser ─▶ door (TLS) ─▶ routes (host, origin, session, token) ─┬▶ entry (log-in, the owner's link)
//!                                                                 ├▶ ask ─▶ statement ─▶ hushql::Session
//!                                                                 ├▶ price, tuning (nothing is charged)
//!                                                                 └▶ html ─▶ responses
//! ```

mod answer_page;
mod ask;
mod declare;
mod door;
mod entry;
mod form;
mod frame;
mod html;
mod links;
mod porter;
mod presentation;
mod price;
mod responses;
mod routes;
mod see;
mod state;
mod statement;
mod tuning;
mod visitors;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) use self::porter::{NotAdmitted, Porter};
pub(crate) use self::presentation::{NamedTables, PageCell, PageColumn, PageTable, Presentation};
use self::state::Console;
use self::visitors::Visitors;

/// Where the console listens, and for whom.
pub(crate) struct ConsoleAt {
    /// The address.
    pub(crate) address: SocketAddr,
    /// TLS, without which other machines are refused.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// The most connections.
    pub(crate) connections: usize,
    /// The most sessions of one role, and its most requests at once.
    pub(crate) of_a_role: usize,
    /// Whether the owner enters, by a link, and no role.
    pub(crate) is_owners: bool,
}

impl fmt::Debug for ConsoleAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleAt").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Begins to listen, and serves in the background as long as the program runs. Returns the bound
/// address, and the path of the owner's link.
///
/// # Errors
/// A sentence, if the address cannot be used, or other machines could reach it without TLS.
pub(crate) async fn serve(
    at: ConsoleAt,
    porter: Arc<dyn Porter>,
    presentation: Presentation,
) -> Result<(SocketAddr, Option<String>), String> {
    let ConsoleAt { address, tls, connections, of_a_role, is_owners } = at;
    let is_loopback = address.ip().is_loopback();
    if is_owners && !is_loopback {
        return Err(format!(
            "{address} can be reached from other machines, and the owner's page is for this one alone: write --listen 127.0.0.1:0"
        ));
    }
    if !is_loopback && tls.is_none() {
        return Err(format!(
            "{address} can be reached from other machines, so log-ins need TLS: add --tls-cert FILE --tls-key FILE, or --tls-self-made for trying, or write --console 127.0.0.1:8443"
        ));
    }
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("{address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let link = match is_owners {
        true => Some(visitors::secret().ok_or("the system has no randomness")?),
        false => None,
    };
    let path = link.as_ref().map(|secret| format!("/enter/{secret}"));
    let console = Arc::new(Console {
        porter,
        presentation,
        visitors: Visitors::default(),
        port: address.port(),
        is_loopback,
        is_secured: tls.is_some(),
        of_a_role,
        is_owners,
        link: Mutex::new(link),
        places: Mutex::default(),
    });
    tokio::spawn(door::accept(listener, tls.map(TlsAcceptor::from), connections, console));
    Ok((address, path))
}
