//! A queue of charges: one transaction and one sync pay for all requests that wait for the vault.
//!
//! Threads of one process that charge at the same time join the queue. The first thread leads: it
//! takes all waiting requests, pays for each in turn within one transaction, commits, gives each
//! its [`Charge`] or its refusal, and passes the lead to the first thread that joined in the
//! meantime. A refused request leaves no trace in the transaction. If the commit fails, it fails
//! for all requests, and none of them gets a [`Charge`].
//!
//! ```text
//! lab ──▶ ┐                     ┌ savepoint: lab  ✓ ┐            ┌▶ lab: Charge 17
//! eve ──▶ ├ queue ─▶ BEGIN ─────┤ savepoint: eve  ✗ ├─▶ COMMIT ──┤▶ eve: the budget does not suffice
//! ann ──▶ ┘        (one thread) └ savepoint: ann  ✓ ┘  one sync  └▶ ann: Charge 18
//! ```

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ffi};

use crate::ledger::charging::charge::{self, Charge, ChargeRequest};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst;
use crate::ledger::records::chain::Witness;

/// The outcome of a request.
pub(crate) type ChargeOutcome = Result<Charge, VaultError>;

/// The requests that wait for the next transaction, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<ChargeQueue>,
}

#[derive(Debug, Default)]
struct ChargeQueue {
    waiting: Vec<Arc<Ticket>>,
    /// Whether a thread leads. It will pass on the lead.
    led: bool,
}

/// One request and its state.
#[derive(Debug)]
pub(crate) struct Ticket {
    request: ChargeRequest,
    state: Mutex<TicketState>,
    changed: Condvar,
}

#[derive(Debug)]
enum TicketState {
    Waits,
    Leads,
    Done(ChargeOutcome),
}

/// The lead. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Lead<'a>(&'a Queue);

impl Queue {
    /// Adds a request at the end; it leads if no other request leads.
    pub(crate) fn join(&self, request: &ChargeRequest) -> Arc<Ticket> {
        let mut line = unpoisoned(&self.line);
        let state = if line.led { TicketState::Waits } else { TicketState::Leads };
        let (request, state) = (request.clone(), Mutex::new(state));
        let ticket = Arc::new(Ticket { request, state, changed: Condvar::new() });
        line.led = true;
        line.waiting.push(Arc::clone(&ticket));
        ticket
    }

    /// Waits until the request is done, or until the caller must lead.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<ChargeOutcome, Lead<'_>> {
        let mut state = unpoisoned(&ticket.state);
        loop {
            match std::mem::replace(&mut *state, TicketState::Waits) {
                TicketState::Done(outcome) => return Ok(outcome),
                TicketState::Leads => return Err(Lead(self)),
                TicketState::Waits => {
                    state = ticket.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Takes all waiting requests. The caller leads, and gives each an outcome.
    fn take(&self) -> Vec<Arc<Ticket>> {
        std::mem::take(&mut unpoisoned(&self.line).waiting)
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut line = unpoisoned(&self.0.line);
        match line.waiting.first() {
            Some(next) => next.turn_to(TicketState::Leads),
            None => line.led = false,
        }
    }
}

impl Ticket {
    /// The outcome of a finished request; it can be taken once.
    pub(crate) fn outcome(&self) -> Option<ChargeOutcome> {
        match std::mem::replace(&mut *unpoisoned(&self.state), TicketState::Waits) {
            TicketState::Done(outcome) => Some(outcome),
            TicketState::Waits | TicketState::Leads => None,
        }
    }

    fn turn_to(&self, state: TicketState) {
        *unpoisoned(&self.state) = state;
        self.changed.notify_one();
    }
}

/// Requests that share a transaction, and their outcomes, which are valid only after the commit.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    queue: &'a Queue,
    path: &'a str,
    tickets: Vec<Arc<Ticket>>,
    outcomes: Vec<ChargeOutcome>,
}

/// If the group ends in a panic, requests without an outcome do not wait forever.
impl Drop for Group<'_> {
    fn drop(&mut self) {
        for ticket in self.tickets.drain(..) {
            let path = self.path.to_owned();
            ticket.turn_to(TicketState::Done(Err(VaultError::Poisoned { path })));
        }
    }
}

impl<'a> Group<'a> {
    /// The requests that now wait for the vault at this path; the caller leads.
    pub(crate) fn in_queue(queue: &'a Queue, path: &'a str) -> Self {
        Self { queue, path, tickets: queue.take(), outcomes: Vec::new() }
    }

    /// Pays for all requests in the group and for those that joined the queue in the meantime. The
    /// caller holds the write lock and rolls back on an error.
    ///
    /// # Guarantee
    /// `Ok` only if at least one request was paid; refused requests changed nothing.
    ///
    /// # Errors
    /// [`VaultError::EmptyCharge`] if there is nothing to commit, and errors of the whole
    /// transaction.
    pub(crate) fn pay(
        &mut self,
        connection: &Connection,
        witness: &mut Witness,
    ) -> Result<(), Fault> {
        self.tickets.extend(self.queue.take());
        for ticket in &self.tickets {
            self.outcomes.push(pay_one(connection, witness, &ticket.request)?);
        }
        if self.outcomes.iter().any(Result::is_ok) {
            Ok(())
        } else {
            Err(VaultError::EmptyCharge.into())
        }
    }

    /// Gives each request its outcome after the end of the transaction.
    ///
    /// # Guarantee
    /// A request gets a [`Charge`] only if the transaction was committed.
    pub(crate) fn settle(mut self, committed: Result<(), VaultError>) {
        let outcomes = std::mem::take(&mut self.outcomes);
        let tickets = std::mem::take(&mut self.tickets);
        let all_refused = outcomes.len() == tickets.len() && outcomes.iter().all(Result::is_err);
        let done = |(ticket, outcome): (Arc<Ticket>, ChargeOutcome)| {
            ticket.turn_to(TicketState::Done(outcome))
        };
        match committed {
            Err(error) if !all_refused => {
                tickets.into_iter().map(|ticket| (ticket, Err(error.again()))).for_each(done);
            }
            Ok(()) | Err(_) => tickets.into_iter().zip(outcomes).for_each(done),
        }
    }
}

/// Charges one request of a transaction, or leaves the transaction as it was.
fn pay_one(
    connection: &Connection,
    witness: &mut Witness,
    request: &ChargeRequest,
) -> Result<ChargeOutcome, Fault> {
    connection.execute_batch("SAVEPOINT request")?;
    let mut staged = witness.clone();
    let paid = analyst::add(connection, &request.analyst)
        .and_then(|()| charge::pay(connection, &mut staged, request));
    match paid {
        Ok(charge) => {
            connection.execute_batch("RELEASE request")?;
            *witness = staged;
            Ok(Ok(charge))
        }
        Err(Fault::Refusal(refusal)) => {
            connection.execute_batch("ROLLBACK TO request; RELEASE request")?;
            Ok(Err(refusal))
        }
        Err(fault) => Err(fault),
    }
}

impl VaultError {
    /// The same failure, for another request.
    pub fn again(&self) -> Self {
        match self {
            VaultError::Locked { path } => VaultError::Locked { path: path.clone() },
            VaultError::AnchorLate { path } => VaultError::AnchorLate { path: path.clone() },
            VaultError::Moved { path } => VaultError::Moved { path: path.clone() },
            VaultError::Linked { path, links } => {
                VaultError::Linked { path: path.clone(), links: *links }
            }
            VaultError::NotAtHome { path } => VaultError::NotAtHome { path: path.clone() },
            VaultError::ForeignJournal { path } => {
                VaultError::ForeignJournal { path: path.clone() }
            }
            VaultError::Unanchored { path } => VaultError::Unanchored { path: path.clone() },
            VaultError::ReadOnly { path } => VaultError::ReadOnly { path: path.clone() },
            VaultError::Poisoned { path } => VaultError::Poisoned { path: path.clone() },
            VaultError::DiskFull { path, source } => {
                VaultError::DiskFull { path: path.clone(), source: same(source) }
            }
            VaultError::Failed { path, source } => {
                VaultError::Failed { path: path.clone(), source: same(source) }
            }
            VaultError::Corrupt { path, detail, source: _ } => {
                VaultError::Corrupt { path: path.clone(), detail: detail.clone(), source: None }
            }
            VaultError::Unsynced { path, source } => {
                VaultError::Unsynced { path: path.clone(), source: same_io(source) }
            }
            VaultError::PutBack { path, anchor } => {
                VaultError::PutBack { path: path.clone(), anchor: anchor.clone() }
            }
            VaultError::OtherHistory { path, anchor } => {
                VaultError::OtherHistory { path: path.clone(), anchor: anchor.clone() }
            }
            VaultError::NoAnchor { anchor } => VaultError::NoAnchor { anchor: anchor.clone() },
            VaultError::AnchorDamaged { anchor } => {
                VaultError::AnchorDamaged { anchor: anchor.clone() }
            }
            VaultError::Anchor { anchor, source } => {
                VaultError::Anchor { anchor: anchor.clone(), source: same_io(source) }
            }
            other => VaultError::Failed {
                path: String::new(),
                source: rusqlite::Error::SqliteFailure(
                    ffi::Error::new(ffi::SQLITE_ABORT),
                    Some(other.to_string()),
                ),
            },
        }
    }
}

fn same(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error.sqlite_error().copied();
    let code = code.unwrap_or_else(|| ffi::Error::new(ffi::SQLITE_ERROR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}

fn same_io(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The content of a lock that stays consistent even after a panic.
fn unpoisoned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
