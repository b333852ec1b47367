//! The vault as its users see it: declared, asked and charged. [`open`](super::open) makes and opens it.
//!
//! Requests go in, declarations, budgets and charges come out. A [`Vault`] is a connection behind a lock, so that threads may share it, and
//! processes may open the same file. Every method is one transaction of SQLite: it sees one state of the
//! file, and what it writes is durable when it returns, or absent. When a write fails so that neither
//! is known, the handle is poisoned and refuses from then on; opening the file again finds out. An owner
//! may hold a vault to an *anchor*, a file elsewhere that notices when the vault is put back.
//!
//! ```
//! # use hushql::ledger::{OWNER, Vault};
//! let vault = Vault::in_memory()?;
//! vault.ensure_analyst("lab")?;
//! assert_eq!(vault.analysts()?, ["lab", OWNER]);
//! # Ok::<(), hushql::ledger::VaultError>(())
//! ```

use std::sync::{Arc, Mutex, MutexGuard};

use rusqlite::{Connection, ErrorCode};

use super::chain::{LedgerEntry, Witness};
use super::charge::{self, BudgetQuote, Charge, ChargeRequest};
use super::error::{Fault, VaultError};
use super::handle::{Handle, in_snapshot};
use super::history::{self, Declared};
use super::place::Place;
use super::queue::{Group, Queue};
use super::{analyst, home, moves, statements};
use crate::catalog::store::{self, Account, Kind};
use crate::catalog::{Budget, Catalog, CatalogError, Table, View, describe};
use crate::ledger::analyst::OWNER;
use crate::privacy::Spend;

/// The catalog and the ledger, in one SQLite file.
#[derive(Debug)]
pub struct Vault {
    pub(super) path: String,
    pub(super) handle: Mutex<Handle>,
    pub(super) queue: Queue,
}

/// Where a vault has to be for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// At home.
    Home,
    /// Anywhere: it is being made, or its owner changes where it is at home.
    Unknown,
}

/// A budget, and how much of it is spent and left.
///
/// ```
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// for state in session.budgets()? {
///     assert!(state.budget.limit.pays(state.left));
///     assert_eq!(state.spent.nano, 0);
/// }
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetState {
    /// The budget as declared.
    pub budget: Budget,
    /// What is spent of it.
    pub spent: Spend,
    /// What is left of it; nothing, where more was spent before the limit was lowered.
    pub left: Spend,
}

impl Vault {
    /// The path of the file as it was given, or `:memory:`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Everything that is declared now. Cheap when nothing has changed since the last time.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when it is not what was declared, or the file cannot be read.
    pub fn catalog(&self) -> Result<Arc<Catalog>, VaultError> {
        let mut handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let Handle { connection, catalog, poisoned, .. } = &mut *handle;
        let read = |connection: &Connection| {
            let seals =
                [store::seal(connection, Kind::Tables)?, store::seal(connection, Kind::Budgets)?];
            if let Some((known, snapshot)) = catalog
                && *known == seals
            {
                return Ok(Arc::clone(snapshot));
            }
            let snapshot = Arc::new(store::load(connection)?);
            *catalog = Some((seals, Arc::clone(&snapshot)));
            Ok(snapshot)
        };
        let read = in_snapshot(connection, read);
        read.map_err(|fault: Fault| fault.leaves(poisoned).at(&self.path))
    }

    /// Declares a table.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when the name is taken or the declaration contradicts itself.
    pub fn create_table(&self, table: &Table) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            moves::redeclared(connection, witness, |_| Ok(store::insert_table(connection, table)?))
        })
    }

    /// Changes the declarations of tables, all of them or none, as was decided on this snapshot.
    ///
    /// A table whose unit leads to other people than before takes its budgets with it, and what was charged.
    ///
    /// # Guarantee
    /// `Ok` only if what was declared until now is the snapshot: no decision rests on what is not so any more. What is
    /// spent of a budget never falls.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] when anything was declared since; [`VaultError::Catalog`] when there is no such
    /// table, a declaration contradicts itself, a link leads to no unit, or a budget cannot count what was charged.
    pub fn alter_tables(&self, planned: &Catalog, changed: &[Table]) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            moves::redeclared(connection, witness, |before| {
                if !planned.version().is(&before.version()) {
                    return Err(VaultError::Redeclared.into());
                }
                for table in changed {
                    store::update_table(connection, table)?;
                }
                Ok(())
            })
        })
    }

    /// Forgets the declaration of a table. What was spent on it is remembered under its name.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such table, it still has budgets, or others lead through it.
    pub fn drop_table(&self, name: &str) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            moves::redeclared(connection, witness, |_| Ok(store::delete_table(connection, name)?))
        })
    }

    /// Keeps a view; whether its query can be read is for the caller to check, now and whenever it is used.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when the name is a table's, or a view's that is not to be replaced.
    pub fn create_view(&self, view: &View, replace: bool) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(store::insert_view(connection, view, replace)?))
    }

    /// Forgets a view. What was spent by way of it was charged to the tables that it read.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such view.
    pub fn drop_view(&self, name: &str) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(store::delete_view(connection, name)?))
    }

    /// Declares a budget for the unit space of a private table, and for the one that the table is in later.
    ///
    /// # Guarantee
    /// It starts with everything that was ever charged on that unit space, under whatever budgets.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when the name is taken, the table is missing or not private, an amount is
    /// out of range, or the budget counts in ε where releases without an ε were charged.
    pub fn create_budget(&self, budget: &Budget) -> Result<BudgetState, VaultError> {
        self.declare(|connection, witness| {
            let catalog = store::load(connection)?;
            let table = store::table(&catalog, &budget.table)?;
            let not_private = || CatalogError::NotPrivate { table: budget.table.clone() };
            let space = catalog.space(&table.name).ok_or_else(not_private)?;
            witness.advance(connection)?;
            let uncountable = || CatalogError::Uncountable { budget: budget.name.clone() };
            let spent = witness.spent(&catalog.people(space))?;
            let spent = spent.within(budget.limit.notion).ok_or_else(uncountable)?;
            store::insert_budget(connection, budget, spent)?;
            Ok(state(budget.clone(), spent))
        })
    }

    /// Sets the limit of a budget, and what it was derived from (`ACCOUNTANT ZCDP`). One below what is spent leaves
    /// nothing, and gives nothing back.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such budget, the limit is out of range, or counts otherwise.
    pub fn set_budget_limit(
        &self,
        budget: &str,
        limit: Spend,
        promise: Option<Spend>,
    ) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(store::set_limit(connection, budget, limit, promise)?))
    }

    /// Forgets a budget. What was spent stays spent: a later budget of the same tables starts with it.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such budget.
    pub fn drop_budget(&self, budget: &str) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(store::delete_budget(connection, budget)?))
    }

    /// All budgets and where they stand, by name.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when a budget disagrees with the ledger, or the file cannot be read.
    pub fn budgets(&self) -> Result<Vec<BudgetState>, VaultError> {
        self.read(|connection, witness| {
            let accounts = charge::accounts(connection, witness, &store::load(connection)?)?;
            Ok(accounts
                .into_iter()
                .map(|Account { budget, spent, .. }| state(budget, spent))
                .collect())
        })
    }

    /// A budget and where it stands.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such budget, else as [`Vault::budgets`].
    pub fn budget(&self, name: &str) -> Result<BudgetState, VaultError> {
        self.budgets()?.into_iter().find(|state| state.budget.name == name).ok_or_else(|| {
            VaultError::Catalog(CatalogError::UnknownBudget { budget: name.to_owned() })
        })
    }

    /// The names of everyone who was ever let in, in order.
    ///
    /// # Errors
    /// A variant of [`VaultError`] when the file cannot be read.
    pub fn analysts(&self) -> Result<Vec<String>, VaultError> {
        self.read(|connection, _| analyst::all(connection))
    }

    /// Lets an analyst in; one who is known already is fine.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] when the name is not 1 to 64 letters of ASCII, digits, `_` and `-`, or reads like
    /// [`OWNER`].
    pub fn ensure_analyst(&self, name: &str) -> Result<(), VaultError> {
        analyst::admit(name)?;
        if self.analysts()?.iter().any(|known| known == name) {
            return Ok(());
        }
        self.write(|connection, _| analyst::add(connection, name))
    }

    /// What a charge would do to each budget, without charging.
    ///
    /// # Errors
    /// What [`Vault::charge`] would refuse with now.
    pub fn quote(&self, request: &ChargeRequest) -> Result<Vec<BudgetQuote>, VaultError> {
        analyst::check(&request.analyst)?;
        self.read(|connection, witness| charge::quote(connection, witness, request))
    }

    /// Charges a statement to every budget of every unit space it touches, all or nothing.
    ///
    /// # Guarantee
    /// `Ok` only if the declarations are those that the statement was planned with, and after the whole cost, rounded
    /// up, is on the disk in the ledger and in every budget, none of which passed its limit. On an error no [`Charge`] exists; the cost may then stand all the same
    /// (a failed sync), never the reverse.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] when the declarations are not those of the request any more;
    /// [`VaultError::NoBudget`], [`VaultError::UnderMin`], [`VaultError::OverMax`], [`VaultError::Exhausted`], [`VaultError::EmptyCharge`], [`VaultError::AnalystName`] or [`VaultError::Amount`] for the request;
    /// the other variants when the file cannot be written.
    pub fn charge(&self, request: &ChargeRequest) -> Result<Charge, VaultError> {
        analyst::check(&request.analyst)?;
        let ticket = self.queue.join(request);
        let lead = match self.queue.wait(&ticket) {
            Ok(outcome) => return outcome,
            Err(lead) => lead,
        };
        self.pay_for_all();
        drop(lead);
        ticket.outcome().unwrap_or_else(|| Err(self.poisoned()))
    }

    /// Pays for everyone who waits in the queue, with one commit, and hands each their outcome; the caller leads.
    fn pay_for_all(&self) {
        let handle = self.lock();
        let mut group = Group::of(&self.queue, &self.path);
        let committed = handle.and_then(|mut handle| {
            self.write_with(&mut handle, |connection, witness| {
                witness.advance(connection)?;
                group.pay(connection, witness)
            })
        });
        group.settle(committed);
    }

    /// Everything that was declared, changed and dropped, oldest first.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when the history is not what was written, or the file cannot be read.
    pub fn declarations(&self) -> Result<Vec<Declared>, VaultError> {
        self.read(|connection, _| history::all(connection))
    }

    /// The text of a statement that was charged, by the hash in its entries; `None` when there is none.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when it is not what was written, or the file cannot be read.
    pub fn statement(&self, hash: &[u8; 32]) -> Result<Option<String>, VaultError> {
        self.read(|connection, _| statements::text(connection, hash))
    }

    /// For each entry the text of its statement where `reader` asked it or is the owner, else `sha256:` and its hash;
    /// `None` for entries that an older program made.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when a text is not what was written, or the file cannot be read.
    pub fn statements(
        &self,
        entries: &[LedgerEntry],
        reader: &str,
    ) -> Result<Vec<Option<String>>, VaultError> {
        self.read(|connection, _| {
            let shown = |entry: &LedgerEntry| {
                let Some(hash) = &entry.statement else { return Ok(None) };
                let text = match reader == OWNER || reader == entry.analyst {
                    true => statements::text(connection, hash)?,
                    false => None,
                };
                Ok(text.or_else(|| Some(statements::name(hash))))
            };
            entries.iter().map(shown).collect()
        })
    }

    /// Writes declarations, and what changed into the history.
    fn declare<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.write(|connection, witness| {
            let before = describe::texts(&store::load(connection)?);
            let value = work(connection, witness)?;
            let after = describe::texts(&store::load(connection)?);
            history::append(connection, OWNER, describe::changes(&before, &after))?;
            Ok(value)
        })
    }

    /// Runs `work` on one state of the file, with the ledger verified up to it, from its newest checkpoint on.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        let mut handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let Handle { connection, witness, poisoned, .. } = &mut *handle;
        let read = in_snapshot(connection, |connection| {
            // Staged: a chain that breaks half way must break again the next time.
            let mut staged = witness.clone();
            staged.advance(connection)?;
            *witness = staged;
            work(connection, witness)
        });
        read.map_err(|fault| fault.leaves(poisoned).at(&self.path))
    }

    /// Runs `work` with the write lock of the file and commits what it wrote, or rolls it back.
    ///
    /// # Guarantee
    /// `Ok` only if the path still names the file, which is at home there and has no other name, no journal of another
    /// state lies beside it, the vault holds its anchor's entry, the commit succeeded,
    /// the folder was synced before and after it, and the anchor has followed. After a commit that failed
    /// otherwise than by another reader's lock, an I/O error, a rollback that failed or a failure after the
    /// commit, every further use of the handle is refused.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.transact(&mut *self.lock()?, Whereabouts::Home, work)
    }

    /// The same for who has the handle already.
    fn write_with<T>(
        &self,
        handle: &mut Handle,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.transact(handle, Whereabouts::Home, work)
    }

    /// The same for a vault that need not be at home.
    pub(super) fn transact_anywhere<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.transact(&mut *self.lock()?, Whereabouts::Unknown, work)
    }

    fn transact<T>(
        &self,
        handle: &mut Handle,
        whereabouts: Whereabouts,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        handle.still_there(&self.path)?;
        handle.may_begin(&self.path)?;
        let Handle { connection, witness, poisoned, place, anchor, .. } = &mut *handle;
        let begin = connection.execute_batch("BEGIN IMMEDIATE");
        begin.map_err(|error| Fault::from(error).leaves(poisoned).at(&self.path))?;
        let mut staged = witness.clone();
        let mut lasting = false;
        let mut held = || {
            if whereabouts == Whereabouts::Home {
                let home = place.as_ref().map(Place::home);
                home::check(connection, home, anchor.is_some(), &self.path)?;
            }
            match anchor {
                Some(anchor) => {
                    staged.advance(connection)?;
                    anchor.check(connection, &self.path)
                }
                None => Ok(()),
            }
        };
        let result = held().and_then(|()| work(connection, &mut staged)).and_then(|value| {
            // The journal's name must be on the disk before the first page is written over; SQLite syncs the
            // folder too, but goes on when that fails.
            if let Some(place) = place {
                place.sync(&self.path).inspect_err(|_| lasting = true)?;
            }
            connection.execute_batch("COMMIT").map_err(|error| {
                lasting = error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy);
                Fault::from(error)
            })?;
            Ok(value)
        });
        match result {
            Ok(value) => {
                let charged = staged.mark() != witness.mark();
                *witness = staged;
                handle.settle(charged, &self.path)?;
                Ok(value)
            }
            Err(fault) => {
                // SQLite rolls back by itself after some errors, and then there is nothing to roll back.
                let rolled_back =
                    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
                *poisoned = lasting || fault.is_lasting() || !rolled_back;
                Err(fault.at(&self.path))
            }
        }
    }

    /// The handle, unless an earlier failure or a panic left it in an unknown state.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Handle>, VaultError> {
        let handle = self.handle.lock().map_err(|_| self.poisoned())?;
        if handle.poisoned { Err(self.poisoned()) } else { Ok(handle) }
    }

    fn poisoned(&self) -> VaultError {
        VaultError::Poisoned { path: self.path.clone() }
    }

    /// The raw connection, for tests that damage a vault or fill its disk.
    #[cfg(test)]
    pub(super) fn raw<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        work(&self.handle.lock().expect("no test panics with the lock").connection)
    }
}

fn state(budget: Budget, spent: Spend) -> BudgetState {
    let left = budget.limit.minus(spent);
    BudgetState { budget, spent, left }
}
