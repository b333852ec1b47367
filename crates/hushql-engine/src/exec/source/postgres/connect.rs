//! Connections to a server: the user, the password, and what went wrong.
//!
//! In: an [`Address`], and the environment. Out: a connection that ends when it is dropped, or a
//! [`Trouble`]. Texts of the server and of the client are dropped, because they may quote values,
//! names and addresses. Connections have their own runtime, because a caller that waits for one may
//! block the runtime that it runs on.
//!
//! ```text
//! PGPASSWORD, else PGPASSFILE, else ~/.pgpass:   db.clinic.example:5432:clinic:reader:…
//! ```

use std::fs::{self, File};
use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::tls::VerifiedTls;
use crate::exec::source::server_location::Address;

/// The longest time to begin a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time to end a connection.
const LEAVE: Duration = Duration::from_millis(200);

/// The reason why something on a server cannot be read, without any text of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No server answers at the address.
    Unreachable,
    /// The server takes no more connections.
    Busy,
    /// Neither the address nor the environment names a user.
    NoUser,
    /// The server does not accept the user or the password.
    Refused,
    NoDatabase,
    /// The server shows no certificate for its name, or the system has no root certificates.
    Untrusted,
    /// The server is older than version 11.
    Old,
    /// The server's texts are not UTF-8.
    Encoding,
    NoTable,
    /// It is a sequence, an index, or something else without rows.
    NotATable,
    /// Some of its rows come from a foreign table.
    Foreign,
    NoRight,
    Locked,
    /// Anything else.
    Failed,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        if let Some(code) = error.code() {
            return match code.code() {
                "28P01" | "28000" => Self::Refused,
                "3D000" => Self::NoDatabase,
                "42P01" | "3F000" => Self::NoTable,
                "42809" => Self::NotATable,
                "42501" => Self::NoRight,
                "55P03" => Self::Locked,
                "53300" | "57P03" => Self::Busy,
                _ => Self::Failed,
            };
        }
        let said = error.to_string();
        let begins = |words: &str| said.starts_with(words);
        match () {
            () if begins("error performing TLS handshake") => Self::Untrusted,
            () if begins("authentication error") || begins("invalid configuration") => {
                Self::Refused
            }
            () if begins("error connecting") || begins("timeout") => Self::Unreachable,
            () => Self::Failed,
        }
    }
}

/// The runtime of all connections.
///
/// # Errors
/// If the system cannot create its threads.
pub(super) fn runtime() -> Result<Handle, Trouble> {
    static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
        Builder::new_multi_thread().worker_threads(2).thread_name("postgres").enable_all().build()
    });
    match RUNTIME.as_ref() {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(_) => Err(Trouble::Failed),
    }
}

/// Aborts a task when it is dropped.
#[derive(Debug)]
pub(super) struct TaskGuard(AbortHandle);

impl TaskGuard {
    /// Runs a task until the task ends or the guard is dropped.
    ///
    /// # Errors
    /// If the runtime cannot be started.
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Result<Self, Trouble> {
        Ok(Self(runtime()?.spawn(task).abort_handle()))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection. When it is dropped, the server stops its work for it.
pub(super) struct Connected {
    client: Option<Client>,
    /// Whether the server has more to send.
    is_busy: AtomicBool,
    _connection: TaskGuard,
    ended: Mutex<Receiver<()>>,
}

impl Connected {
    /// A connection, and the task that serves it. The task drops notices, which may quote values.
    fn new(
        client: Client,
        serve: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, Trouble> {
        let (end, ended) = sync_channel(1);
        let connection = TaskGuard::spawn(async move {
            serve.await;
            // The receiver may be gone.
            let _ = end.try_send(());
        })?;
        let (client, is_busy, ended) = (Some(client), AtomicBool::new(false), Mutex::new(ended));
        Ok(Self { client, is_busy, _connection: connection, ended })
    }

    /// The client of the connection.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) fn client(&self) -> Result<&Client, Trouble> {
        self.client.as_ref().ok_or(Trouble::Failed)
    }

    /// Tells whether the server sends more than was read.
    pub(super) fn busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

/// Ends the connection properly and waits a moment for it, so that the server does not log a lost
/// connection. A connection that is busy is cut off.
impl Drop for Connected {
    fn drop(&mut self) {
        self.client = None;
        if !self.is_busy.load(Ordering::Relaxed) {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(LEAVE);
        }
    }
}

/// Connects to a server.
///
/// # Errors
/// The reason why that failed.
pub(super) async fn connect(address: &Address) -> Result<Connected, Trouble> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = address.user.clone();
    let user = user.or_else(|| named("PGUSER")).or_else(|| named("USER"));
    let user = user.ok_or(Trouble::NoUser)?;
    let mut config = Config::new();
    config
        .user(&user)
        .host(&address.host)
        .port(address.port)
        .dbname(&address.database)
        .application_name("hushql")
        .connect_timeout(PATIENCE)
        .tcp_user_timeout(Duration::from_secs(30))
        .keepalives_idle(Duration::from_secs(60));
    if let Some(password) = named("PGPASSWORD").or_else(|| kept(address, &user)) {
        config.password(password);
    }
    let connection = match address.has_tls {
        true => {
            config.ssl_mode(SslMode::Require);
            let tls = VerifiedTls::new().map_err(|_| Trouble::Untrusted)?;
            tokio::time::timeout(PATIENCE, encrypted(&config, tls)).await
        }
        false => {
            config.ssl_mode(SslMode::Disable);
            tokio::time::timeout(PATIENCE, plain(&config)).await
        }
    };
    connection.map_err(|_| Trouble::Unreachable)?
}

async fn encrypted(config: &Config, tls: VerifiedTls) -> Result<Connected, Trouble> {
    let (client, mut connection) = config.connect(tls).await?;
    Connected::new(client, async move {
        while let Some(Ok(_)) = poll_fn(|context| connection.poll_message(context)).await {}
    })
}

async fn plain(config: &Config) -> Result<Connected, Trouble> {
    let (client, mut connection) = config.connect(NoTls).await?;
    Connected::new(client, async move {
        while let Some(Ok(_)) = poll_fn(|context| connection.poll_message(context)).await {}
    })
}

/// The password from the password file of PostgreSQL's own programs.
fn kept(address: &Address, user: &str) -> Option<String> {
    let path = match std::env::var_os("PGPASSFILE") {
        Some(path) => PathBuf::from(path),
        None => dirs::home_dir()?.join(".pgpass"),
    };
    // As those programs do, this ignores a file that other users may read.
    let metadata = fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let mut text = String::new();
    File::open(&path).ok()?.take(1 << 20).read_to_string(&mut text).ok()?;
    password_in(&text, address, user)
}

/// The password in the first line that matches this address and user.
fn password_in(text: &str, address: &Address, user: &str) -> Option<String> {
    let is_default = ["/tmp", "/run/postgresql", "/var/run/postgresql"].contains(&&*address.host);
    let is_host = |field: &str| field == address.host || (is_default && field == "localhost");
    let port = address.port.to_string();
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line).into_iter();
        let mut next = || fields.next();
        let (host, of_port, database, of_user, password) =
            (next()?, next()?, next()?, next()?, next()?);
        let matches = |field: &str, value: &str| field == "*" || field == value;
        let is_ours = (host == "*" || is_host(&host))
            && matches(&of_port, &port)
            && matches(&database, &address.database)
            && matches(&of_user, user);
        is_ours.then_some(password)
    })
}

/// The five fields of a line. A backslash makes the next character literal.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let is_last = fields.len() == 5;
        let Some(field) = fields.last_mut() else { break };
        match letter {
            '\\' => field.extend(letters.next()),
            ':' if !is_last => fields.push(String::new()),
            ':' => break,
            letter => field.push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_as_psql_finds_them() {
        let address = Address::parse("postgresql://h:5433/d").unwrap();
        let text = "# h:5433:d:u:no\nother:5433:d:u:no\nh:5432:d:u:no\nh:5433:e:u:no\nh:5433:d:v:v's\nh:*:d:u:a\\:b\\\\c:rest\n*:*:*:*:any\n";
        assert_eq!(password_in(text, &address, "u").as_deref(), Some("a:b\\c"));
        assert_eq!(password_in(text, &address, "v").as_deref(), Some("v's"));
        assert_eq!(password_in(text, &address, "w").as_deref(), Some("any"));
        assert_eq!(password_in("h:5433:d\n", &address, "u"), None);
        let socket = Address::parse("postgresql:///d?host=/run/postgresql").unwrap();
        assert_eq!(password_in("localhost:5432:d:u:x", &socket, "u").as_deref(), Some("x"));
        let elsewhere = Address::parse("postgresql:///d?host=/srv/own").unwrap();
        assert_eq!(password_in("localhost:5432:d:u:x", &elsewhere, "u"), None);
    }
}
