//! A connection after log-in: its session, its settings, and the messages that wait to be sent.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use hushql::{Answer, Error, PreparedQuery, Session, SessionSight, Value};
use tokio::task::JoinHandle;

use super::connections::{House, Seat, count};
use super::encode::{EncodedRows, EncodedTable, shown};
use super::encoding::Encoding;
use super::known_settings;
use super::reply::{Reply, Said};
use super::sqlstate::{hinted, said};
use super::statement_kind::{StatementKind, StatementText};

/// Why a statement has no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// The engine's error.
    Engine(Error),
    /// An error of the server itself.
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

/// The failure of work that may have charged.
fn after_the_charge(failed: Failed) -> Failed {
    match failed {
        Failed::Engine(Error::Internal) => Failed::Engine(Error::Execution),
        failed => failed,
    }
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) text: Arc<StatementText>,
    /// The types of its parameters.
    pub(super) types: Vec<u32>,
    /// The columns of its answer, if it is a query.
    pub(super) schema: Option<SchemaRef>,
    /// Whether it is a question to the engine, whose answer may have columns of errors.
    pub(super) is_question: bool,
    /// Whether the client was told its columns.
    pub(super) is_described: bool,
}

impl Statement {
    /// The columns that a client sees.
    pub(super) fn columns(&self, with_errors: bool) -> Option<SchemaRef> {
        self.schema.as_ref().map(|schema| shown(schema, with_errors && self.is_question))
    }
}

/// What a portal runs.
#[derive(Debug, Clone)]
pub(super) enum PortalSource {
    /// A query that is already checked and quoted.
    Query(Box<PreparedQuery>),
    /// Rows that cost nothing and are already computed.
    Rows { table: EncodedTable, tag: &'static str },
    /// Any other statement, with values for its parameters.
    Text(Arc<StatementText>, Vec<Value>),
}

/// A portal: a statement with its parameters. It runs once; its answer is kept, and sent page by
/// page.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) text: Arc<StatementText>,
    pub(super) source: PortalSource,
    /// Its columns; `None` if it has none.
    pub(super) schema: Option<SchemaRef>,
    pub(super) formats: Vec<i16>,
    /// Its answer, after it ran.
    pub(super) stored: Option<Stored>,
}

/// A kept answer.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) rows: EncodedRows,
    /// The values of a cursor, since each FETCH chooses its formats.
    pub(super) values: Option<EncodedTable>,
    pub(super) tag: &'static str,
    /// The number of rows that were sent; of a cursor, its position.
    pub(super) sent: usize,
}

/// The most prepared statements and portals of a connection.
pub(super) const MOST_STATEMENTS: usize = 1_000;
pub(super) const MOST_PORTALS: usize = 100;

/// How long a client waits for the end of work that it cancelled.
const TO_END: Duration = Duration::from_secs(1);

/// If portals hold at least this many bytes of rows, no other portal runs.
pub(super) const MOST_HELD: usize = 64 << 20;

/// A connection after log-in.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) house: Arc<House>,
    pub(super) seat: Seat,
    pub(super) session: Session,
    /// The role; `None` for the owner.
    pub(super) role: Option<String>,
    pub(super) settings: HashMap<String, String>,
    pub(super) statements: HashMap<String, Statement>,
    pub(super) portals: HashMap<String, Portal>,
    /// What existed for the session when its portals and prepared statements were last looked at.
    sight: Option<SessionSight>,
    pub(super) in_transaction: bool,
    /// Whether a statement of the transaction failed; then the rest of it is refused.
    pub(super) has_failed: bool,
    /// Whether the client was told that transactions have no effect.
    pub(super) knows_transactions: bool,
    pub(super) reply: Reply,
    /// Work that was cancelled but has not ended yet.
    going_on: Mutex<Option<JoinHandle<()>>>,
}

impl Desk {
    pub(super) fn new(
        house: Arc<House>,
        seat: Seat,
        session: Session,
        role: Option<String>,
    ) -> Self {
        let session = session.with_postgres_names(true);
        Self {
            house,
            seat,
            session,
            role,
            settings: HashMap::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            sight: None,
            in_transaction: false,
            has_failed: false,
            knows_transactions: false,
            reply: Reply::default(),
            going_on: Mutex::default(),
        }
    }

    /// Checks that the client may still send statements: a role may be dropped, expire or get
    /// another password while it is logged in.
    ///
    /// # Errors
    /// The reason why the connection ends.
    pub(super) fn may_go_on(&mut self) -> Result<(), Said> {
        let unread = || said("58030", "the vault cannot be read");
        match self.session.may_go_on() {
            Ok(true) => self.forget_what_is_gone().map_err(|_| unread()),
            Ok(false) => Err(said("57P01", "this role may not log in any more")),
            Err(_) => Err(unread()),
        }
    }

    /// Forgets portals, cursors and prepared queries if a table, view or budget no longer exists
    /// for the session: they hold rows and columns from before.
    fn forget_what_is_gone(&mut self) -> Result<(), Error> {
        // Also if nothing is held yet: what this message opens holds rows of this sight.
        let sight = self.session.sight()?;
        if self.sight.as_ref().is_some_and(|earlier| !sight.has_all_of(earlier)) {
            self.portals.clear();
            self.statements.retain(|_, statement| !statement.is_question);
        }
        self.sight = Some(sight);
        Ok(())
    }

    /// The bytes of the rows that portals and cursors hold.
    pub(super) fn held(&self) -> usize {
        let stored = self.portals.values().filter_map(|portal| portal.stored.as_ref());
        let bytes = |stored: &Stored| {
            stored.rows.bytes() + stored.values.as_ref().map_or(0, EncodedTable::bytes)
        };
        stored.map(bytes).sum()
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: &str) -> String {
        let own = self.settings.get(name).map(String::as_str);
        own.or_else(|| known_settings::default_of(name)).unwrap_or_default().to_owned()
    }

    /// Whether errors come as additional columns.
    pub(super) fn with_errors(&self) -> bool {
        self.setting("hushql.accuracy") == "columns"
    }

    /// Lets the session find bounds, or refuse what has none, as `hushql.bounds` says, refine kept
    /// draws as `hushql.refine` says, and encodes texts as `client_encoding` says.
    pub(super) fn settle(&mut self) {
        self.reply.encoding = Encoding::of(&self.setting("client_encoding"));
        let found = self.setting("hushql.bounds") != "declared";
        let refine = self.setting("hushql.refine") != "off";
        self.session = self.session.clone().with_found_bounds(found).with_refined_draws(refine);
    }

    /// The same after settings were reset. Drivers follow the encoding by the server's messages.
    pub(super) fn settle_again(&mut self) {
        let before = self.reply.encoding;
        self.settle();
        if self.reply.encoding != before {
            let encoding = self.setting("client_encoding");
            self.reply.parameter("client_encoding", &encoding);
        }
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
        self.has_failed |= self.in_transaction;
        self.reply.error("ERROR", said);
    }

    /// Notes a query of the catalog that had no answer.
    pub(super) fn refused_by_catalog(&self, sql: &str, why: &str) {
        self.house.refused.note(&self.setting("application_name"), sql, why);
    }

    /// Refuses a statement of a transaction that has failed, unless it ends the transaction, or
    /// goes back to a savepoint.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn may_run(&self, kind: &StatementKind) -> Result<(), Said> {
        let ends = matches!(kind, StatementKind::End(_) | StatementKind::Savepoint("ROLLBACK"));
        match self.has_failed && !ends && *kind != StatementKind::Empty {
            true => {
                let message = "a statement of this transaction failed; the rest of it is not run";
                Err(hinted("25P02", message, "ROLLBACK"))
            }
            false => Ok(()),
        }
    }

    /// The state that the client is told when it may send the next statement.
    pub(super) fn state(&self) -> u8 {
        match (self.in_transaction, self.has_failed) {
            (false, _) => b'I',
            (true, false) => b'T',
            (true, true) => b'E',
        }
    }

    /// Records the outcome of a statement.
    pub(super) fn record(&self, statement: &StatementText, code: &str, answer: Option<&Answer>) {
        count(&self.house.counts.statements);
        if let Some(audit) = &self.house.audit {
            let role = self.role.as_deref().unwrap_or("owner");
            // The answer is paid for: a full disk must not withhold it from the client.
            let _ = audit.statement(role, statement, code, answer.and_then(Answer::receipt));
        }
    }

    /// Waits for work until it ends or the client cancels it. Charges made until then stay.
    ///
    /// Running work notices the cancellation at its next pause, or when its time is over. The
    /// client does not wait for that, but its next statement does: a connection runs one statement
    /// at a time.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Failed> {
        self.wait_for(work, false)
    }

    /// The same. `soon` is for work that finishes immediately, such as a replayed answer, or that
    /// soon waits for another thread.
    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
        soon: bool,
    ) -> Result<T, Failed> {
        let cancel = Arc::clone(&self.seat.cancel);
        let limit = known_settings::milliseconds(&self.setting("statement_timeout"))
            .filter(|limit| *limit > 0);
        let cancelled = |is_late: bool| {
            let message = match is_late {
                true => {
                    "the statement took longer than statement_timeout; what was charged stays charged"
                }
                false => "the statement was cancelled; what was charged stays charged",
            };
            Failed::Said(said("57014", message))
        };
        self.house.runtime.block_on(async move {
            let told = cancel.notified();
            // Whether the time of the statement is over, or its client cancels it.
            let told = async {
                let late = async {
                    match limit {
                        Some(limit) => tokio::time::sleep(Duration::from_millis(limit)).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = told => false,
                    () = late => true,
                }
            };
            let mut told = std::pin::pin!(told);
            // The lock is not held while this waits.
            let before = self.going_on().take();
            if let Some(mut before) = before {
                tokio::select! {
                    _ = &mut before => {}
                    is_late = &mut told => {
                        *self.going_on() = Some(before);
                        return Err(cancelled(is_late));
                    }
                }
            }
            let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
            if soon {
                // Work that finishes immediately wakes no other thread.
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
                is_late = &mut told => {
                    running.abort();
                    if tokio::time::timeout(TO_END, &mut running).await.is_err() {
                        let ends = async move {
                            let _ = running.await;
                        };
                        *self.going_on() = Some(tokio::spawn(ends));
                    }
                    Err(cancelled(is_late))
                }
            }
        })
    }

    fn going_on(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.going_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Desk::wait`], for work that may charge. If the program itself fails, the error has the
    /// code and the sentence of every other failure after a charge, so that both look the same.
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
