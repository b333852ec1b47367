//! A connection of somebody who is logged in: whose session it is, its settings, and what waits to
//! be sent.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use hushql::{Answer, Error, PreparedQuery, Session, Value};
use tokio::task::JoinHandle;

use super::connections::{House, Seat, count};
use super::encode::{EncodedRows, EncodedTable};
use super::failure::said;
use super::reply::{Reply, Said};
use super::statement_kind::SETTINGS;

/// Why a statement has no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// The engine's reason.
    Engine(Error),
    /// The server's.
    Said(Said),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Said> for Failed {
    fn from(said: Said) -> Self {
        Self::Said(said)
    }
}

/// A failure of work that may have charged.
fn after_the_charge(failed: Failed) -> Failed {
    match failed {
        Failed::Engine(Error::Internal) => Failed::Engine(Error::Execution),
        failed => failed,
    }
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// The types of its parameters.
    pub(super) types: Vec<u32>,
}

/// What a portal runs.
#[derive(Debug, Clone)]
pub(super) enum PortalSource {
    /// A query that was checked and quoted.
    Query(Box<PreparedQuery>),
    /// Rows that cost nothing and are there.
    Rows { table: EncodedTable, tag: &'static str },
    /// Any other statement.
    Text(String),
}

/// A portal: a statement with its parameters. It runs once; what it answered is kept and paged
/// through.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) sql: String,
    pub(super) source: PortalSource,
    /// Its columns; `None` where it has none.
    pub(super) schema: Option<SchemaRef>,
    pub(super) formats: Vec<i16>,
    /// What it answered, once it ran.
    pub(super) stored: Option<Stored>,
}

/// An answer that is there.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) rows: EncodedRows,
    pub(super) tag: &'static str,
    /// The rows that were sent.
    pub(super) sent: usize,
}

/// The most prepared statements and portals of a connection.
pub(super) const MOST_STATEMENTS: usize = 1_000;
pub(super) const MOST_PORTALS: usize = 100;

/// For how long a client waits for the end of what it cancelled.
const TO_END: Duration = Duration::from_secs(1);

/// The bytes of their rows from which on nothing more is run for another one.
pub(super) const MOST_HELD: usize = 64 << 20;

/// A connection of somebody who is logged in.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) house: Arc<House>,
    pub(super) seat: Seat,
    pub(super) session: Session,
    /// The role; `None` is the owner.
    pub(super) role: Option<String>,
    pub(super) settings: HashMap<String, String>,
    pub(super) statements: HashMap<String, Statement>,
    pub(super) portals: HashMap<String, Portal>,
    pub(super) in_transaction: bool,
    /// Whether it was said what transactions are not.
    pub(super) knows_transactions: bool,
    pub(super) reply: Reply,
    /// Work that was cancelled and has not ended yet.
    going_on: Mutex<Option<JoinHandle<()>>>,
}

impl Desk {
    pub(super) fn new(
        house: Arc<House>,
        seat: Seat,
        session: Session,
        role: Option<String>,
    ) -> Self {
        Self {
            house,
            seat,
            session,
            role,
            settings: HashMap::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            in_transaction: false,
            knows_transactions: false,
            reply: Reply::default(),
            going_on: Mutex::default(),
        }
    }

    /// Whether whoever is connected may still ask: roles are dropped, expire and get other
    /// passwords while they are logged in.
    ///
    /// # Errors
    /// Why the connection ends.
    pub(super) fn may_go_on(&self) -> Result<(), Said> {
        match self.session.may_go_on() {
            Ok(true) => Ok(()),
            Ok(false) => Err(said("57P01", "this role may not log in any more")),
            Err(_) => Err(said("58030", "the vault cannot be read")),
        }
    }

    /// The bytes of the rows that portals and cursors hold.
    pub(super) fn held(&self) -> usize {
        let stored = self.portals.values().filter_map(|portal| portal.stored.as_ref());
        stored.map(|stored| stored.rows.bytes()).sum()
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: &str) -> String {
        let usual = || SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, usual)| *usual);
        let own = self.settings.get(name).map(String::as_str);
        own.or_else(usual).unwrap_or_default().to_owned()
    }

    /// Whether errors come as columns.
    pub(super) fn with_errors(&self) -> bool {
        self.setting("hushql.accuracy") == "columns"
    }

    /// Adds a notice, if the client wants any.
    pub(super) fn notice(&mut self, message: impl Into<String>) {
        let least = self.setting("client_min_messages");
        if !["warning", "error", "fatal", "panic"].contains(&least.as_str()) {
            self.reply.notice("NOTICE", &said("00000", message));
        }
    }

    /// Adds an error.
    pub(super) fn error(&mut self, said: &Said) {
        count(&self.house.counts.errors);
        self.reply.error("ERROR", said);
    }

    /// Writes down what came of a statement.
    pub(super) fn record(&self, statement: &str, code: &str, answer: Option<&Answer>) {
        count(&self.house.counts.statements);
        if let Some(audit) = &self.house.audit {
            let role = self.role.as_deref().unwrap_or("owner");
            // The answer is paid for: a full disk must not keep it from whoever asked.
            let _ = audit.statement(role, statement, code, answer.and_then(Answer::receipt));
        }
    }

    /// Waits for work, until the client cancels it. What was charged until then stays charged.
    ///
    /// Work that computes hears of it at its next pause, or when its time is over. The client does
    /// not wait for that, and its next statement does: a connection runs one at a time.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Failed> {
        self.wait_for(work, false)
    }

    /// The same; `soon` for work that either is there at once, such as an answer that is shown
    /// again, or soon waits for another thread.
    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
        soon: bool,
    ) -> Result<T, Failed> {
        let cancel = Arc::clone(&self.seat.cancel);
        let cancelled = || {
            let message = "the statement was cancelled; what was charged stays charged";
            Failed::Said(said("57014", message))
        };
        self.house.runtime.block_on(async move {
            let told = cancel.notified();
            let mut told = std::pin::pin!(told);
            // Nobody holds the lock while they wait.
            let before = self.going_on().take();
            if let Some(mut before) = before {
                tokio::select! {
                    _ = &mut before => {}
                    () = &mut told => {
                        *self.going_on() = Some(before);
                        return Err(cancelled());
                    }
                }
            }
            let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
            if soon {
                // What is there wakes no other thread.
                let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
                if let Poll::Ready(done) = first {
                    return done.unwrap_or(Err(Error::Internal)).map_err(Failed::Engine);
                }
            }
            let mut running = tokio::spawn(work);
            tokio::select! {
                done = &mut running => match done {
                    Ok(Ok(done)) => done.map_err(Failed::Engine),
                    Ok(Err(_)) | Err(_) => Err(Failed::Engine(Error::Internal)),
                },
                () = &mut told => {
                    running.abort();
                    if tokio::time::timeout(TO_END, &mut running).await.is_err() {
                        let ends = async move {
                            let _ = running.await;
                        };
                        *self.going_on() = Some(tokio::spawn(ends));
                    }
                    Err(cancelled())
                }
            }
        })
    }

    fn going_on(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.going_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Desk::wait`], for work that may charge: a failure of the program has the code and the
    /// sentence of any other after a charge, so that the two cannot be told apart.
    pub(super) fn charged<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Failed> {
        self.wait(work).map_err(after_the_charge)
    }

    /// As [`Desk::charged`], for a query.
    pub(super) fn queried<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Failed> {
        self.wait_for(work, true).map_err(after_the_charge)
    }

    /// Prepares a query, which charges and reads nothing of private tables.
    pub(super) fn prepare(&self, sql: &str, values: Vec<Value>) -> Result<PreparedQuery, Failed> {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        self.wait(async move {
            let prepared = tokio::task::spawn_blocking(move || session.prepare_with(&sql, values));
            prepared.await.unwrap_or(Err(Error::Internal))
        })
    }
}
