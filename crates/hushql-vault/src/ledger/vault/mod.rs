//! The vault's interface: declarations, queries and charges. [`open`](crate::ledger::vault::open)
//! creates and opens vaults.
//!
//! In: requests. Out: declarations, budgets and charges. A [`Vault`] is a connection behind a lock,
//! so that threads can share it, and several processes can open the same file. Each method is one
//! SQLite transaction: it sees one state of the file, and its writes are either durable when it
//! returns, or absent. If a failed write leaves this unknown, the handle is poisoned, and the next
//! use opens the file again to find out. An owner can give a vault an *anchor*, a file elsewhere
//! that detects when an older copy replaces the vault.
//!
//! ```
//! # use hushql_vault::ledger::{OWNER, Vault};
//! let vault = Vault::in_memory()?;
//! vault.ensure_analyst("lab")?;
//! assert_eq!(vault.analysts()?, ["lab", OWNER]);
//! # Ok::<(), hushql_vault::ledger::VaultError>(())
//! ```

pub(crate) mod budget_requests;
pub(crate) mod budgets;
pub(crate) mod cache;
pub(crate) mod declared;
pub(crate) mod declared_cells;
mod grant_changes;
pub(crate) mod kept_draws;
mod noted_drift;
mod open;
mod opened_again;
pub(crate) mod pages;
mod released;
pub(crate) mod role_changes;
pub(crate) mod spending;
mod upgrade;
pub(crate) mod verify;

use std::sync::{Arc, Mutex};

use hushql_privacy::privacy::Spend;
use rusqlite::{Connection, ErrorCode};

use crate::catalog::store;
use crate::catalog::{Budget, Catalog, CatalogVersion, Granted, Table, Template, View};
use crate::catalog::{describe, grants, numbers, template_rows, view_rows};
use crate::ledger::charging::charge::{self, BudgetQuote, Charge, ChargeRequest};
use crate::ledger::charging::moves;
use crate::ledger::charging::queue::{Group, Queue};
use crate::ledger::charging::slice_shares::SliceState;
use crate::ledger::charging::{cell_charges, month_accounts, presence_accounts};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::file::cached_read::CachedRead;
use crate::ledger::file::handle::{Handle, in_snapshot};
use crate::ledger::file::home;
use crate::ledger::file::place::VaultPlace;
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::answers::ReleaseTable;
use crate::ledger::records::chain::{LedgerEntry, Witness};
use crate::ledger::records::draw_records::WaitingDraws;
use crate::ledger::records::history::{self, Declared};
use crate::ledger::records::roles::Roles;
use crate::ledger::records::{analyst, answers, statements, time};

/// The catalog and the ledger, in one SQLite file.
#[derive(Debug)]
pub struct Vault {
    pub(super) path: String,
    /// The place of the file, as the handle has it, for checks that need no transaction.
    pub(super) place: Option<Arc<VaultPlace>>,
    /// The rows that were read, each kind with the seal that it was checked against: declarations,
    /// release tables and roles.
    declared: CachedRead<CatalogVersion, Catalog>,
    released: CachedRead<[u8; 32], Vec<ReleaseTable>>,
    roles: CachedRead<[u8; 32], Roles>,
    pub(super) handle: Mutex<Handle>,
    pub(super) queue: Queue,
    /// Draws that wait to be kept.
    pub(super) keeping: Mutex<Vec<WaitingDraws>>,
}

/// Where a transaction requires the vault to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// At home.
    Home,
    /// Anywhere: the vault is being created, or its owner changes its home.
    Unknown,
}

/// A budget, with its spent and remaining amounts.
///
/// ```
/// use hushql_privacy::privacy::Spend;
/// use hushql_vault::catalog::{Budget, PerQuery, Privacy, Replay, Source, Table, Unit};
/// use hushql_vault::ledger::{Vault};
///
/// let vault = Vault::in_memory()?;
/// vault.create_table(&Table {
///     name: "adult".to_owned(),
///     source: Source::Registered,
///     privacy: Privacy::Private(Unit::Row),
///     columns: Vec::new(),
/// })?;
/// vault.create_budget(&Budget {
///     name: "research".to_owned(),
///     table: "adult".to_owned(),
///     limit: Spend::of_epsilon(10_000_000_000, 0),
///     promise: None,
///     coupon: None,
///     per_query: PerQuery::default(),
///     replay: Replay::All,
/// })?;
/// for state in vault.budgets()? {
///     assert!(state.budget.limit.pays(state.left));
///     assert_eq!(state.spent.nano, 0);
/// }
/// # Ok::<(), hushql_vault::ledger::VaultError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetState {
    /// The budget as declared.
    pub budget: Budget,
    /// The spent amount.
    pub spent: Spend,
    /// The remaining amount; nothing if the limit was lowered below the spent amount.
    pub left: Spend,
    /// Its slices, by analyst, then the share of everyone else; empty if the budget has no slices.
    /// An analyst sees only their own share, and `spent` and `left` are those of this share.
    pub slices: Vec<SliceState>,
}

impl Vault {
    /// The path of the file as given, or `:memory:`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Refuses if the system's clock is before 1970.
    ///
    /// # Errors
    /// [`VaultError::Clock`].
    pub fn check_clock(&self) -> Result<(), VaultError> {
        time::now().map(|_| ())
    }

    /// The present declarations. Cheap if nothing has changed since the last call.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the stored declarations were altered, or the file cannot be read.
    pub fn catalog(&self) -> Result<Arc<Catalog>, VaultError> {
        let version = |connection: &Connection| Ok(store::version(connection)?);
        self.known(&self.declared, version, |connection| Ok(store::load(connection)?))
    }

    /// Declares a table.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the name is taken or the declaration contradicts itself.
    pub fn create_table(&self, table: &Table) -> Result<(), VaultError> {
        self.declare(|connection, witness| {
            answers::check_unused(connection, &table.name)?;
            numbers::touch(connection, [table.name.as_str()])?;
            moves::redeclared(connection, witness, |_| Ok(store::insert_table(connection, table)?))
        })
    }

    /// Changes the declarations of tables, all or none, after a decision that was based on this
    /// snapshot.
    ///
    /// A table whose unit now leads to other people takes its budgets and its charges along.
    ///
    /// # Guarantee
    /// `Ok` only if the declarations before the change are those of the snapshot, so that no
    /// decision rests on outdated declarations. The spent amount of a budget never falls.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if anything was declared since; [`VaultError::Catalog`] if a
    /// table does not exist, a declaration contradicts itself, a link leads to no unit, or a budget
    /// cannot count earlier charges.
    pub fn alter_tables(&self, planned: &Catalog, changed: &[Table]) -> Result<(), VaultError> {
        self.alter_grown(planned, changed, None)
    }

    /// As [`Vault::alter_tables`]. `grown` is the name of one of the tables, if the caller has read
    /// its new files and found all rows of the earlier ones unchanged, and in their place: the rows
    /// that came count in the months of their dates, and the cells of these months go on. Nothing
    /// else about the table may differ, or its cells begin anew.
    ///
    /// # Errors
    /// As [`Vault::alter_tables`].
    pub fn alter_grown(
        &self,
        planned: &Catalog,
        changed: &[Table],
        grown: Option<&str>,
    ) -> Result<(), VaultError> {
        self.declare_grown(grown, Vec::new(), |connection, witness| {
            moves::redeclared(connection, witness, |before| {
                if !planned.version().is(&before.version()) {
                    return Err(VaultError::Redeclared.into());
                }
                for table in changed {
                    store::update_table(connection, table)?;
                }
                let changed = changed.iter().map(|table| table.name.as_str());
                Ok(numbers::touch(connection, changed)?)
            })
        })
    }

    /// Removes the declaration of a table. Its charges remain under its name.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the table does not exist, still has budgets, or is part of
    /// another table's link.
    pub fn drop_table(&self, name: &str) -> Result<(), VaultError> {
        self.drop_table_with(name, &[])
    }

    /// As [`Vault::drop_table`], and takes these grants from all roles.
    ///
    /// # Errors
    /// As [`Vault::drop_table`].
    pub fn drop_table_with(&self, name: &str, ended: &[Granted]) -> Result<(), VaultError> {
        self.declare_as(words_of_ended(ended), |connection, witness| {
            ended.iter().try_for_each(|gone| grants::forget(connection, gone))?;
            let dropped = numbers::dropped_key(name);
            numbers::touch(connection, [name, dropped.as_str()])?;
            moves::redeclared(connection, witness, |_| Ok(store::delete_table(connection, name)?))
        })
    }

    /// Stores a view. The caller checks the view's query, now and at each use.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if a table has the name, or a view that may not be replaced.
    pub fn create_view(&self, view: &View, replace: bool) -> Result<(), VaultError> {
        self.declare(|connection, _| {
            answers::check_unused(connection, &view.name)?;
            Ok(view_rows::insert_view(connection, view, replace)?)
        })
    }

    /// Removes a view. Queries over it were charged to the tables that it read.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the view does not exist.
    pub fn drop_view(&self, name: &str) -> Result<(), VaultError> {
        self.drop_view_with(name, &[])
    }

    /// As [`Vault::drop_view`], and takes these grants from all roles.
    ///
    /// # Errors
    /// As [`Vault::drop_view`].
    pub fn drop_view_with(&self, name: &str, ended: &[Granted]) -> Result<(), VaultError> {
        self.declare_as(words_of_ended(ended), |connection, _| {
            ended.iter().try_for_each(|gone| grants::forget(connection, gone))?;
            Ok(view_rows::delete_view(connection, name)?)
        })
    }

    /// Stores a template. The caller plans its query, now and at each call.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if a table or view has the name, or a template that may not be
    /// replaced.
    pub fn create_template(&self, template: &Template, replace: bool) -> Result<(), VaultError> {
        self.declare(|connection, _| {
            answers::check_unused(connection, &template.name)?;
            Ok(template_rows::insert_template(connection, template, replace)?)
        })
    }

    /// Removes a template. Its calls were charged to the tables that it read.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the template does not exist.
    pub fn drop_template(&self, name: &str) -> Result<(), VaultError> {
        self.declare(|connection, _| Ok(template_rows::delete_template(connection, name)?))
    }

    /// The names of all analysts ever admitted, in order.
    ///
    /// # Errors
    /// A variant of [`VaultError`] if the file cannot be read.
    pub fn analysts(&self) -> Result<Vec<String>, VaultError> {
        self.read(|connection, _| analyst::all(connection))
    }

    /// Admits an analyst, who may be known already.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] if the name is not 1 to 64 ASCII letters, digits, `_` and `-`,
    /// or looks like [`OWNER`].
    pub fn ensure_analyst(&self, name: &str) -> Result<(), VaultError> {
        analyst::admit(name)?;
        if self.analysts()?.iter().any(|known| known == name) {
            return Ok(());
        }
        self.write(|connection, _| analyst::add(connection, name))
    }

    /// The effect of a charge on each budget, without charging.
    ///
    /// # Errors
    /// Those of [`Vault::charge`] at this moment.
    pub fn quote(&self, request: &ChargeRequest) -> Result<Vec<BudgetQuote>, VaultError> {
        analyst::check(&request.analyst)?;
        self.read(|connection, witness| charge::quote(connection, witness, request))
    }

    /// Charges a statement to every budget of every affected unit domain, all or nothing.
    ///
    /// # Guarantee
    /// `Ok` only if the declarations are those with which the statement was planned, and only after
    /// the whole cost, rounded up, is on the disk in the ledger and in every budget, and no budget
    /// exceeds its limit. On an error no [`Charge`] exists. The cost may still be charged (after a
    /// failed sync), but a [`Charge`] never exists without its cost.
    ///
    /// # Errors
    /// [`VaultError::Redeclared`] if the declarations are no longer those of the request;
    /// [`VaultError::NoBudget`], [`VaultError::UnderMin`], [`VaultError::OverMax`],
    /// [`VaultError::Exhausted`], [`VaultError::EmptyCharge`], [`VaultError::AnalystName`] or
    /// [`VaultError::Amount`] for the request; the other variants if the file cannot be written.
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

    /// Pays for all requests in the queue with one commit, and gives each its outcome. The caller
    /// leads.
    fn pay_for_all(&self) {
        let handle = self.lock();
        let mut group = Group::in_queue(&self.queue, &self.path);
        let committed = handle.and_then(|mut handle| {
            self.write_with(&mut handle, |connection, witness| {
                witness.advance(connection)?;
                group.pay(connection, witness)
            })
        });
        group.settle(committed);
    }

    /// The history of declarations, oldest first.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the history was altered, or the file cannot be read.
    pub fn declarations(&self) -> Result<Vec<Declared>, VaultError> {
        self.read(|connection, _| history::all(connection))
    }

    /// The text of a charged statement, by the hash in its entries; `None` if no text has this
    /// hash.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the text was altered, or the file cannot be read.
    pub fn statement(&self, hash: &[u8; 32]) -> Result<Option<String>, VaultError> {
        self.read(|connection, _| statements::text(connection, hash))
    }

    /// The text of each entry's statement, if `reader` is the owner or asked the statement;
    /// otherwise `sha256:` and its hash. An earlier role with the same name, now dropped, does not
    /// count as `reader`.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if a text was altered, or the file cannot be read.
    pub fn statements(
        &self,
        entries: &[LedgerEntry],
        reader: &str,
    ) -> Result<Vec<String>, VaultError> {
        self.read(|connection, _| {
            let since = answers::since(connection, reader)?;
            let shown = |entry: &LedgerEntry| {
                let hash = &entry.statement;
                let is_own = reader == entry.analyst && entry.sequence > since;
                let text = match reader == OWNER || is_own {
                    true => statements::text(connection, hash)?,
                    false => None,
                };
                Ok(text.unwrap_or_else(|| statements::name(hash)))
            };
            entries.iter().map(shown).collect()
        })
    }

    /// Writes declarations, and records their changes in the history.
    fn declare<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.declare_as(Vec::new(), work)
    }

    /// Writes declarations, and records in the history first these words and then the changes.
    fn declare_as<T>(
        &self,
        words: Vec<String>,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.declare_grown(None, words, work)
    }

    /// As [`Vault::declare_as`]. `grown` is a table of which the caller has verified that all
    /// earlier rows are unchanged: where months are cells, they go on.
    fn declare_grown<T>(
        &self,
        grown: Option<&str>,
        mut words: Vec<String>,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.write(|connection, witness| {
            let catalog = store::load(connection)?;
            let before = describe::texts(&catalog);
            let cells = cell_charges::decided(&catalog, grown);
            let value = work(connection, witness)?;
            month_accounts::keep(connection, witness)?;
            presence_accounts::keep(connection, witness)?;
            cell_charges::begin_anew(connection, witness, &cells, grown)?;
            let after = describe::texts(&store::load(connection)?);
            words.extend(describe::changes(&before, &after));
            history::append(connection, OWNER, words)?;
            Ok(value)
        })
    }

    /// Runs `work` on one state of the file, after verifying the ledger from its newest checkpoint
    /// on.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        let mut handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let Handle { connection, witness, poisoned, .. } = &mut *handle;
        let read = in_snapshot(connection, |connection| {
            // Work on a copy. If the chain breaks half way, it must break again the next time.
            let mut staged = witness.clone();
            staged.advance(connection)?;
            *witness = staged;
            work(connection, witness)
        });
        read.map_err(|fault| fault.leaves(poisoned).at(&self.path))
    }

    /// Runs `work` with the write lock of the file, and commits its writes or rolls them back.
    ///
    /// # Guarantee
    /// `Ok` only if the path still names the file, the file is at home there and has no other name,
    /// no journal of another state is beside it, the vault contains its anchor's entry, the commit
    /// succeeded, the folder was synced before and after it, and the anchor has followed. The file
    /// is opened again before the next use after an I/O error, a failed rollback, a failure after
    /// the commit, or a commit that failed for another reason than a reader's lock. After a failed
    /// sync, the vault is not used again by this program.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.transact(&mut *self.lock()?, Whereabouts::Home, work)
    }

    /// As [`Vault::write`], for a caller that already has the handle.
    pub(super) fn write_with<T>(
        &self,
        handle: &mut Handle,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        self.transact(handle, Whereabouts::Home, work)
    }

    /// As [`Vault::write`], for a vault that need not be at home.
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
        let Handle { connection, witness, poisoned, unsynced, place, anchor } = &mut *handle;
        let begin = connection.execute_batch("BEGIN IMMEDIATE");
        begin.map_err(|error| Fault::from(error).leaves(poisoned).at(&self.path))?;
        let mut staged = witness.clone();
        let mut lasting = false;
        let mut held = || {
            if whereabouts == Whereabouts::Home {
                let home = place.as_deref().map(VaultPlace::home);
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
            // The journal's name must be on the disk before the first page is overwritten. SQLite
            // syncs the folder, too, but continues if that fails.
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
                // After some errors SQLite has rolled back by itself.
                let rolled_back =
                    connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
                *poisoned = lasting || fault.is_lasting() || !rolled_back;
                *unsynced |= fault.is_failed_sync();
                Err(fault.at(&self.path))
            }
        }
    }

    pub(super) fn poisoned(&self) -> VaultError {
        VaultError::Poisoned { path: self.path.clone() }
    }

    /// The handle, for tests that move its anchor.
    #[cfg(test)]
    pub(super) fn with_handle<T>(&self, work: impl FnOnce(&mut Handle) -> T) -> T {
        work(&mut self.handle.lock().expect("no test panics with the lock"))
    }

    /// The raw connection, for tests that damage a vault or fill its disk.
    #[cfg(test)]
    pub(super) fn raw<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        work(&self.handle.lock().expect("no test panics with the lock").connection)
    }
}

/// What the history says of grants that end with what they are about.
fn words_of_ended(ended: &[Granted]) -> Vec<String> {
    ended.iter().map(|gone| format!("{gone} revoked from all roles")).collect()
}
