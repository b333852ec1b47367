//! Finds, keeps and replays the draws of a vault.
//!
//! In: identities of releases. Out: the draws that
//! [`draw_records`](crate::ledger::records::draw_records) keeps. Each method is one transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use rusqlite::Connection;

use crate::catalog::{Catalog, Replay, alter, numbers, store};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::cached_read::Moment;
use crate::ledger::file::handle::Handle;
use crate::ledger::records::draw_records::{self, BuiltOn, KeptDraw, WaitingDraws};
use crate::ledger::vault::Vault;

/// A draw that can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedDraw {
    /// The identity of the release, see `release::identity`.
    pub identity: Vec<u8>,
    /// The tables that it reads.
    pub tables: Vec<String>,
    /// The contents of the public tables among them.
    pub contents: Vec<(String, String)>,
    /// The unit domains of its people.
    pub unit_domains: Vec<String>,
    /// The tables among them whose rows can change without a declaration.
    pub live: Vec<String>,
}

/// The key of a draw under the present declarations, and the draw kept for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawLookUp {
    /// The key.
    pub key: [u8; 32],
    /// The draw, if one is kept that the analyst may see.
    pub draw: Option<KeptDraw>,
}

/// The key under which a draw is kept for later ones to build on, and the draw kept for it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefinableLookUp {
    /// The key of the question.
    pub question: [u8; 32],
    /// The draw, and where it is kept, if the analyst has one.
    pub found: Option<(BuiltOn, KeptDraw)>,
}

/// Whether the ledger has today's entries for certain replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// An entry is missing.
    Not,
    /// The entries exist at this moment; `None` if the vault is not a file.
    At(Option<Moment>),
}

impl Vault {
    /// Sets whose answers a budget replays from now on.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the budget does not exist.
    pub fn set_replay(&self, budget: &str, to: Replay) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(alter::set_replay(connection, budget, to)?))
    }

    /// Records the owner's statement that the rows of a table are current until its next
    /// declaration.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the table does not exist.
    pub fn refresh(&self, table: &str) -> Result<(), VaultError> {
        let words = format!("table {table}: refreshed");
        // The table keeps the files that it has, so its months go on.
        self.declare_grown(Some(table), vec![words], |connection, _| {
            store::table(&store::load(connection)?, table)?;
            Ok(numbers::refresh(connection, table)?)
        })
    }

    /// Notes that a program has registered the rows of a table again. They may have changed.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be read or written.
    pub fn registered_again(&self, table: &str) -> Result<(), VaultError> {
        match self.catalog()?.numbers().is_refreshed(table) {
            true => self.write(|connection, _| Ok(numbers::touch(connection, [table])?)),
            false => Ok(()),
        }
    }

    /// The keys of draws that were planned with this catalog, and the draws kept for them; `None`
    /// if the budgets of their unit domains replay nothing.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if the declarations have changed; [`VaultError::Corrupt`] if a
    /// kept draw was altered.
    pub fn kept(
        &self,
        asked: &[AskedDraw],
        analyst: &str,
        planned: &Catalog,
    ) -> Result<Vec<Option<DrawLookUp>>, VaultError> {
        self.read(|connection, _| kept_for(connection, asked, analyst, planned))
    }

    /// The draws of this analyst that a draw with a larger ε may build on. Here, the identities are
    /// those of questions, without the ε. `None` if the budgets replay nothing, or if the rows of a
    /// table may change without a declaration: the later draw must read the very rows of the
    /// earlier one. Draws of other analysts make no difference.
    ///
    /// # Errors
    /// As [`Vault::kept`].
    pub fn refinable(
        &self,
        asked: &[AskedDraw],
        analyst: &str,
        planned: &Catalog,
    ) -> Result<Vec<Option<RefinableLookUp>>, VaultError> {
        self.read(|connection, _| {
            if !planned.version().is(&store::version(connection)?) {
                return Err(VaultError::Redeclared.into());
            }
            let one = |asked: &AskedDraw| {
                let is_off = strictest(asked, planned) == Replay::Off;
                if is_off || !asked.live.is_empty() {
                    return Ok(None);
                }
                let question = key_of(asked, planned);
                let found = draw_records::find_refinable(connection, &question, analyst)?;
                Ok(Some(RefinableLookUp { question, found }))
            };
            asked.iter().map(one).collect()
        })
    }

    /// As [`Vault::kept`], and whether the ledger already records today's replays of these charges
    /// to this analyst. If so, it also returns the moment for which all of this is true.
    ///
    /// # Errors
    /// As [`Vault::kept`].
    pub fn kept_and_noted(
        &self,
        asked: &[AskedDraw],
        analyst: &str,
        charges: &[i64],
        planned: &Catalog,
    ) -> Result<(Vec<Option<DrawLookUp>>, Noted), VaultError> {
        self.read(|connection, _| {
            let found = kept_for(connection, asked, analyst, planned)?;
            // No one can commit while this transaction reads. The day is read first, so a note of
            // yesterday does not count for today.
            let moment = self.moment();
            let noted = match are_noted(connection, analyst, charges)? {
                true => Noted::At(moment),
                false => Noted::Not,
            };
            Ok((found, noted))
        })
    }

    /// Keeps the draws of a paid statement, each under its key. Statements that wait for the vault
    /// at the same time share one commit.
    ///
    /// # Guarantee
    /// `Ok` only once its draws are committed, by the thread of any statement.
    ///
    /// # Errors
    /// [`VaultError`] if the file cannot be written.
    pub fn keep_draws(
        &self,
        draws: &[([u8; 32], KeptDraw)],
        analyst: &str,
        statement: &str,
    ) -> Result<(), VaultError> {
        let is_kept = Arc::<AtomicBool>::default();
        let own = WaitingDraws {
            draws: draws.to_vec(),
            analyst: analyst.to_owned(),
            statement: statement.to_owned(),
            is_kept: Arc::clone(&is_kept),
        };
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        let handle = self.lock();
        let all = std::mem::take(&mut *self.keeping.lock().unwrap_or_else(PoisonError::into_inner));
        // The previous owner of the handle may have kept all draws with one commit.
        let done = match all.is_empty() {
            true => Ok(()),
            false => handle.and_then(|mut handle| self.keep_all(&mut handle, &all)),
        };
        match is_kept.load(Ordering::SeqCst) {
            true => Ok(()),
            false => done.and_then(|()| Err(self.poisoned())),
        }
    }

    fn keep_all(&self, handle: &mut Handle, all: &[WaitingDraws]) -> Result<(), VaultError> {
        let done = self.keep_together(handle, all);
        if done.is_err() && all.len() > 1 {
            // A draw that cannot be kept does not prevent the others from being kept.
            let mut each = Ok(());
            for one in all {
                each = each.and(self.keep_together(handle, std::slice::from_ref(one)));
            }
            return each;
        }
        done
    }

    fn keep_together(&self, handle: &mut Handle, some: &[WaitingDraws]) -> Result<(), VaultError> {
        self.usable(handle)?;
        self.write_with(handle, |connection, witness| {
            witness.advance(connection)?;
            some.iter().try_for_each(|one| one.keep(connection, witness))
        })?;
        some.iter().for_each(|one| one.is_kept.store(true, Ordering::SeqCst));
        Ok(())
    }

    /// Records that answers of these charges are replayed, under the declarations with which the
    /// replay was planned.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if the declarations have changed.
    pub fn replayed(
        &self,
        analyst: &str,
        statement: &str,
        charges: &[i64],
        planned: &Catalog,
    ) -> Result<(), VaultError> {
        let is_as_planned =
            |connection: &Connection| match planned.version().is(&store::version(connection)?) {
                true => Ok(()),
                false => Err(Fault::from(VaultError::Redeclared)),
            };
        // A replay that is already recorded needs no write and no wait for the disk.
        let is_noted = self.read(|connection, _| {
            is_as_planned(connection)?;
            are_noted(connection, analyst, charges)
        })?;
        if is_noted {
            return Ok(());
        }
        self.write(|connection, witness| {
            is_as_planned(connection)?;
            witness.advance(connection)?;
            charges.iter().try_for_each(|charge| {
                draw_records::replayed(connection, witness, analyst, statement, *charge)
            })
        })
    }
}

/// The result of [`Vault::kept`], in the transaction of the caller.
fn kept_for(
    connection: &Connection,
    asked: &[AskedDraw],
    analyst: &str,
    planned: &Catalog,
) -> Result<Vec<Option<DrawLookUp>>, Fault> {
    if !planned.version().is(&store::version(connection)?) {
        return Err(VaultError::Redeclared.into());
    }
    let one = |asked: &AskedDraw| {
        let of = match strictest(asked, planned) {
            Replay::Off => return Ok(None),
            Replay::Own => Some(analyst),
            Replay::All => None,
        };
        let numbers = planned.numbers();
        if !asked.live.iter().all(|table| numbers.is_refreshed(table)) {
            return Ok(None);
        }
        let key = key_of(asked, planned);
        Ok(Some(DrawLookUp { key, draw: draw_records::find(connection, &key, of)? }))
    };
    asked.iter().map(one).collect()
}

/// Whose draws may be shown again, by the budgets of a draw's people.
fn strictest(asked: &AskedDraw, planned: &Catalog) -> Replay {
    let budgets = asked.unit_domains.iter().flat_map(|domain| planned.budgets_of(domain));
    budgets.map(|budget| budget.replay).reduce(Replay::strictest).unwrap_or(Replay::Off)
}

/// The key of a draw under these declarations.
fn key_of(asked: &AskedDraw, planned: &Catalog) -> [u8; 32] {
    let numbers = planned.numbers();
    let tables = asked.tables.iter().map(|table| (table.as_str(), numbers.of(table)));
    draw_records::key(&asked.identity, &tables.collect::<Vec<_>>(), &asked.contents)
}

/// True if the ledger has today's notes for all of these charges.
fn are_noted(connection: &Connection, analyst: &str, charges: &[i64]) -> Result<bool, Fault> {
    for charge in charges {
        if !draw_records::is_noted(connection, analyst, *charge)? {
            return Ok(false);
        }
    }
    Ok(true)
}
