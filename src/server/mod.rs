//! A server that speaks the protocol of PostgreSQL: a guest of the library, which uses what any
//! program can import.
//!
//! In: an engine, addresses and limits. Out: answers to clients that log in as a role of the vault,
//! and to the owner on a separate socket. Each connection has a thread. Statements run on the
//! program's runtime, like those of the shell, and are charged in the same way.
//!
//! ```text
//! accept ─▶ connection (TLS, log-in) ─▶ simple | extended ─▶ run ─▶ hushql::Session ─▶ encode ─▶ reply
//!                house (who is there, limits, failures)        └▶ catalog (what tools ask about tables)
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hushql::Engine;
#[cfg(feature = "mcp")]
use hushql::{Answer, Error};
use tokio::runtime::Handle;

use self::audit::Audit;
use self::connection::From;
use self::connections::{House, Limits};
use self::refused_shapes::RefusedShapes;
pub(crate) use self::refused_shapes::sentences as refused_by_catalog;
use self::socket::{Socket, not_bound};
use self::tls::Tls;

mod audit;
mod binary;
mod catalog;
mod client;
mod connection;
mod connections;
#[cfg(feature = "console")]
mod console_gate;
mod copy;
mod cursor;
mod encode;
mod encoding;
mod example;
mod extended;
mod known_settings;
mod made_of_tables;
mod message;
mod metrics;
mod numeric;
mod parameter_types;
mod parameters;
mod prepared_statement;
#[cfg(any(feature = "console", feature = "mcp"))]
mod recorded;
mod refused_shapes;
mod reply;
mod run;
mod run_texts;
mod self_signed;
mod settings;
mod simple;
mod socket;
mod sqlstate;
mod statement_kind;
mod timestamp;
mod tls;
mod turns;
mod type_names;
mod types;

/// Where a server listens, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// The address for roles; port 0 means a free one.
    pub(crate) listen: SocketAddr,
    /// The folder for the owner's socket.
    pub(crate) owner_socket: Option<PathBuf>,
    /// The certificate of TLS.
    pub(crate) tls: Option<Certificate>,
    /// The most connections.
    pub(crate) connections: usize,
    /// The most connections of one role.
    pub(crate) of_a_role: usize,
    /// The audit log.
    pub(crate) audit: Option<PathBuf>,
    /// The address for `/health` and `/metrics`.
    pub(crate) metrics: Option<SocketAddr>,
    /// How long statements may go on after the server is told to stop.
    pub(crate) grace: Duration,
    /// The address for language models, and what each role may spend there.
    #[cfg(feature = "mcp")]
    pub(crate) mcp: Option<(SocketAddr, crate::mcp::AgentLimits)>,
    /// The address for browsers.
    #[cfg(feature = "console")]
    pub(crate) console: Option<SocketAddr>,
}

/// How pages show answers.
#[cfg(feature = "console")]
pub(crate) type Shown = crate::console::Presentation;
/// There are no pages.
#[cfg(not(feature = "console"))]
pub(crate) type Shown = ();

/// Where the certificate of TLS comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// These files, in PEM.
    Given { certificate: PathBuf, key: PathBuf },
    /// The server makes one in this folder, or reuses the one that it made there before.
    SelfMade(PathBuf),
}

/// The stack size of a connection's thread. The parser takes a second stack if less than 4 MiB are
/// left.
const STACK: usize = 8 << 20;

/// The pause between attempts to accept a connection when the system has no resources left.
const PAUSE: Duration = Duration::from_millis(50);

/// How often the server checks whether the vault can still be used.
const LOOK: Duration = Duration::from_millis(100);

/// The message when a server ends because of its disk.
const LOST: &str = "the vault could not be synced to its disk, and what it shows since may be in memory alone: the server ends; look at the disk, and start the server again (a supervisor should)";

/// A vault that nobody was served yet begins with grants that are required.
fn require_grants_if_new(house: &House, tell: &impl Fn(&str)) -> Result<(), String> {
    if house.engine.begin_serving().map_err(|error| error.to_string())? {
        tell(
            "this vault is new, so grants are required: a role sees only what is granted to it, by GRANT SELECT ON visits TO lab and GRANT USAGE ON BUDGET study TO lab",
        );
    }
    Ok(())
}

/// Serves until the program is told to stop, or the vault cannot be used any more. `tell` gets a
/// sentence for each listening address.
///
/// # Errors
/// A sentence, if an address, a folder or a file cannot be used, and after a failed sync of the
/// vault.
pub(crate) async fn serve(
    engine: Engine,
    vault: &Path,
    (options, shown): (&Options, Shown),
    tell: impl Fn(&str),
) -> Result<(), String> {
    let tls = match &options.tls {
        Some(Certificate::Given { certificate, key }) => Some(Tls::read(certificate, key)?),
        Some(Certificate::SelfMade(folder)) => {
            let (certificate, key) = self_signed::files(folder, options.listen.ip(), &tell)?;
            Some(Tls::read(&certificate, &key)?)
        }
        None => None,
    };
    let is_local = options.listen.ip().is_loopback();
    if !is_local && tls.is_none() {
        return Err(format!(
            "{} can be reached from other machines, so log-ins need TLS: add --tls-cert FILE --tls-key FILE, or --tls-self-made for trying, or listen on 127.0.0.1",
            options.listen
        ));
    }
    let audit = options
        .audit
        .as_deref()
        .map(|path| Audit::open(path).map_err(|error| format!("{}: {error}", path.display())));
    let limits = Limits { connections: options.connections, of_a_role: options.of_a_role };
    have_descriptors(limits.descriptors(), options.connections)?;
    if tls.as_ref().is_some_and(|tls| tls.certificate.is_none()) {
        tell(
            "log-ins are not bound to this certificate (no channel binding): its signature is of an algorithm that names no hash, such as Ed25519 or RSA-PSS; take one of ECDSA or RSA with SHA-256",
        );
    }
    let engine = (engine, Handle::current());
    let logs = (audit.transpose()?, RefusedShapes::beside(vault));
    let house = Arc::new(House::new(engine, (tls, !is_local), limits, logs));
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| not_bound(options.listen, &error, "--listen"))?;
    require_grants_if_new(&house, &tell)?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let secured = if house.tls.is_some() { ", with TLS" } else { "" };
    tell(&format!("listening on {address} for roles{secured}"));
    accept(&house, From::Network, move || Ok(Socket::Tcp(listener.accept()?.0)))?;
    let path = match &options.owner_socket {
        Some(folder) => Some(owners(&house, folder, address.port(), &tell)?),
        None => None,
    };
    if let Some(address) = options.metrics {
        let address = metrics::serve(&house, address)?;
        tell(&format!("listening on {address} for /health and /metrics"));
    }
    guests(&house, options, shown, &tell).await?;
    let ended = until_the_end(&house, &tell).await;
    let end = Instant::now() + options.grace;
    while house.connected() > 0 && Instant::now() < end {
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(path) = path {
        // If this fails, the next start removes it.
        let _ = std::fs::remove_file(path);
    }
    ended
}

/// Serves clients of other protocols.
async fn guests(
    house: &Arc<House>,
    options: &Options,
    shown: Shown,
    tell: &impl Fn(&str),
) -> Result<(), String> {
    #[cfg(feature = "mcp")]
    if let Some((address, limits)) = options.mcp {
        let address = agents(house, address, limits).await?;
        tell(&format!("listening on {address} for agents, by the Model Context Protocol"));
    }
    #[cfg(feature = "console")]
    if let Some(address) = options.console {
        let scheme = if house.tls.is_some() { "https" } else { "http" };
        let (address, _) = console_gate::pages(house, (address, false), shown).await?;
        tell(&format!("listening on {address} for browsers: {scheme}://{address}/"));
    }
    #[cfg(not(feature = "console"))]
    let () = shown;
    let _ = (house, options, tell);
    Ok(())
}

/// Waits until the program is told to stop, or the vault is lost, and lets no more statements in.
async fn until_the_end(house: &House, tell: &impl Fn(&str)) -> Result<(), String> {
    let ended = tokio::select! {
        () = told_to_stop() => {
            tell("stopping: statements that run are answered first");
            Ok(())
        }
        () = lost(&house.engine) => Err(LOST.to_owned()),
    };
    house.stop();
    ended
}

/// Serves the owner's page on this machine until the program is told to stop, or the vault cannot
/// be used any more. `tell` gets the link to open.
///
/// # Errors
/// A sentence, if the address or the audit log cannot be used, and after a failed sync of the
/// vault.
#[cfg(feature = "console")]
pub(crate) async fn console(
    engine: Engine,
    (address, audit): (SocketAddr, Option<PathBuf>),
    shown: Shown,
    tell: impl Fn(&str),
) -> Result<(), String> {
    let audit = audit
        .map(|path| Audit::open(&path).map_err(|error| format!("{}: {error}", path.display())));
    let limits = Limits { connections: 100, of_a_role: 20 };
    let logs = (audit.transpose()?, RefusedShapes::beside(Path::new("unused")));
    let house = Arc::new(House::new((engine, Handle::current()), (None, false), limits, logs));
    let (address, link) = console_gate::pages(&house, (address, true), shown).await?;
    tell(&format!(
        "open this link, which works once: http://{address}{}",
        link.unwrap_or_default()
    ));
    tell("Ctrl-C ends it");
    until_the_end(&house, &tell).await
}

/// Serves language models, and returns the bound address. Their queries are in the audit log, too.
#[cfg(feature = "mcp")]
async fn agents(
    house: &Arc<House>,
    address: SocketAddr,
    limits: crate::mcp::AgentLimits,
) -> Result<SocketAddr, String> {
    let recording = Arc::clone(house);
    let record = move |role: &str, sql: &str, answered: Result<&Answer, &Error>| {
        recorded::statement(&recording, Some(role), sql, answered.map(Some));
    };
    let endpoint = crate::mcp::Endpoint {
        address,
        tls: house.tls.as_ref().map(Tls::for_http),
        limits,
        connections: house.limits.connections,
        of_a_role: house.limits.of_a_role,
        record: Some(Arc::new(record)),
    };
    crate::mcp::serve(house.engine.clone(), endpoint).await
}

/// Waits until the vault cannot be used any more. Only a restarted program reads it from the disk
/// again.
async fn lost(engine: &Engine) {
    while !engine.needs_restart() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Accepts connections on a thread of its own, as long as the program runs.
fn accept(
    house: &Arc<House>,
    from: From,
    next: impl Fn() -> io::Result<Socket> + Send + 'static,
) -> Result<(), String> {
    let house = Arc::clone(house);
    let accepting = move || {
        loop {
            let Ok(socket) = next() else {
                thread::sleep(PAUSE);
                continue;
            };
            let house = Arc::clone(&house);
            let serving = move || {
                if socket.begin().is_ok() {
                    connection::serve(&house, socket, from);
                }
            };
            // If no thread can be started, the connection ends.
            let _ = thread::Builder::new().stack_size(STACK).spawn(serving);
        }
    };
    let started = thread::Builder::new().spawn(accepting);
    started.map(drop).map_err(|error| error.to_string())
}

/// The owner's socket, in a folder that no other user can enter.
#[cfg(unix)]
fn owners(
    house: &Arc<House>,
    folder: &Path,
    port: u16,
    tell: &impl Fn(&str),
) -> Result<PathBuf, String> {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};

    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    if !folder.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(folder).map_err(failed)?;
    }
    let found = std::fs::symlink_metadata(folder).map_err(failed)?;
    // psql accepts a folder only by its absolute path: other words are host names.
    let whole = std::path::absolute(folder).map_err(failed)?;
    let not_alone = || {
        format!(
            "{}: every client of the owner's socket is the owner, so only you may enter its folder: chmod 700",
            folder.display()
        )
    };
    if !found.is_dir() || found.permissions().mode() & 0o077 != 0 {
        return Err(not_alone());
    }
    let path = folder.join(format!(".s.PGSQL.{port}"));
    // A socket that a server left behind, and that nobody listens to any more.
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(format!("{}: another server listens there", path.display()));
        }
        std::fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    // Nobody can connect before this: the folder belongs to the owner alone, or the socket is
    // removed.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let own = std::fs::symlink_metadata(&path).map_err(failed)?;
    let now = std::fs::symlink_metadata(folder).map_err(failed)?;
    let is_same = (now.dev(), now.ino()) == (found.dev(), found.ino()) && now.is_dir();
    let is_alone = now.permissions().mode() & 0o077 == 0 && own.uid() == now.uid();
    if !is_same || !is_alone || !own.file_type().is_socket() {
        std::fs::remove_file(&path).map_err(failed)?;
        return Err(not_alone());
    }
    tell(&format!(
        "listening in {} for the owner: psql -h {0} -p {port} -U owner",
        whole.display()
    ));
    accept(house, From::Owner, move || Ok(Socket::Unix(listener.accept()?.0)))?;
    Ok(path)
}

#[cfg(not(unix))]
fn owners(_: &Arc<House>, _: &Path, _: u16, _: &impl Fn(&str)) -> Result<PathBuf, String> {
    Err("this system has no sockets in folders".to_owned())
}

/// Raises the limit of open files to the number that the connections may need.
///
/// # Errors
/// A sentence, if the system does not allow so many.
#[cfg(unix)]
fn have_descriptors(needed: u64, connections: usize) -> Result<(), String> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let failed = |error: nix::Error| format!("the limit of open files: {error}");
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(format!(
            "{connections} connections need {needed} open files, and the system allows {hard}: raise the limit (LimitNOFILE={needed} of systemd, ulimit -Hn {needed}), or take fewer --max-connections"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(failed)
}

#[cfg(not(unix))]
fn have_descriptors(_: u64, _: usize) -> Result<(), String> {
    Ok(())
}

/// Waits for Ctrl-C, or for SIGTERM.
async fn told_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
