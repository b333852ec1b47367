//! The vault as its users see it: one file, opened or made, asked and charged.
//!
//! A path goes in, a [`Vault`] comes out: a connection behind a lock, so that threads may share it, and
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

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::analyst;
use super::anchor::Anchor;
use super::chain::{LedgerEntry, Witness};
use super::charge::{self, BudgetQuote, Charge, ChargeRequest};
use super::error::{Fault, VaultError};
use super::handle::{Handle, connect, in_snapshot};
use super::history::{self, Declared};
use super::home::{self, Home};
use super::moves;
use super::place::Place;
use super::queue::{Group, Queue};
use super::wait::BUSY;
use super::{schema, statements};
use crate::catalog::describe;
use crate::catalog::store::{self, Account, Kind};
use crate::catalog::{Budget, Catalog, CatalogError, Table, View};
use crate::privacy::Spend;

/// The name under which the owner's queries are charged.
pub const OWNER: &str = "owner";

/// The catalog and the ledger, in one SQLite file.
#[derive(Debug)]
pub struct Vault {
    path: String,
    handle: Mutex<Handle>,
    queue: Queue,
}

/// Where a vault has to be for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// At home.
    Home,
    /// Anywhere: it is being made, or its owner changes where it is at home.
    Unknown,
}

/// A budget and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetState {
    /// The budget as declared.
    pub budget: Budget,
    /// What is spent of it.
    pub spent: Spend,
    /// What is left of it; nothing, where more was spent before the limit was lowered.
    pub left: Spend,
}

impl Vault {
    /// Makes a vault in a file that does not exist yet, readable and writable by its maker alone.
    ///
    /// # Errors
    /// [`VaultError::Exists`] when the path is taken, [`VaultError::CannotOpen`] or another variant when
    /// the file cannot be made or written; no file is left behind then.
    pub fn init(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        // Closing a file drops this process's locks on it, so a vault is never opened beside SQLite; this
        // file is new and nobody can hold one yet.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(path) {
            Ok(file) => drop(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(VaultError::Exists { path: shown });
            }
            Err(error) => return Err(cannot_open(&shown, error)),
        }
        let made = connect(path, &shown, BUSY).and_then(|connection| {
            let place = Place::of(path).map_err(|error| cannot_open(&shown, error))?;
            Self::make(connection, Some(place), &shown)
        });
        if made.is_err() {
            // Best effort: what cannot be removed is refused as no vault when it is opened.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// Opens a vault that exists, and verifies what it goes on with, in a time that does not grow with the ledger.
    ///
    /// # Guarantee
    /// `Ok` only if the file is a vault, SQLite finds the free pages and those of the declarations sound, the newest
    /// checkpoint of the ledger is there and is what was written, the chain is whole from it to the end that was sealed,
    /// every budget agrees with the sums of that checkpoint and the entries after it, and the catalog is what was
    /// declared. Damage to an earlier entry or checkpoint is found by whatever reads it, and by [`Vault::verify`].
    ///
    /// # Errors
    /// A variant of [`VaultError`] for each way in which it is not. Nothing is ever created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        Self::open_with(path.as_ref(), BUSY)
    }

    /// Opens a vault that waits this long for other programs.
    pub(super) fn open_with(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::verified(path, busy)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Opens and verifies a vault, wherever it is at home.
    fn verified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let vault = Self::unverified(path, busy)?;
        vault.on_connection(|connection| schema::check(connection, &vault.path))?;
        vault.catalog()?;
        vault.budgets()?;
        vault.analysts()?;
        vault.lock()?.still_there(&vault.path)?;
        Ok(vault)
    }

    /// Opens a file that may be a vault, and looks at nothing in it.
    fn unverified(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(VaultError::NotAFile { path: shown }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VaultError::Missing { path: shown });
            }
            Err(error) => return Err(cannot_open(&shown, error)),
        }
        // Before SQLite opens it: from here on the path must not name another file.
        let place = Place::of(path).map_err(|error| cannot_open(&shown, error))?;
        place.check(&shown)?;
        place.check_journal(&shown)?;
        let connection = connect(path, &shown, busy)?;
        let readonly =
            connection.is_readonly("main").map_err(|error| Fault::from(error).at(&shown))?;
        if readonly {
            return Err(VaultError::ReadOnly { path: shown });
        }
        Ok(Self::over(connection, Some(place), shown))
    }

    /// A vault of an older format that can be carried over, not verified; `None` for one of today's.
    pub(super) fn of_older_format(path: &Path) -> Result<Option<Self>, VaultError> {
        let vault = Self::unverified(path, BUSY)?;
        let format = vault.on_connection(|connection| {
            // Tables are dropped and made anew: rows that refer to them are not looked at meanwhile.
            connection.execute_batch("PRAGMA foreign_keys = OFF")?;
            schema::format(connection, &vault.path)
        })?;
        Ok((format < schema::VERSION).then_some(vault))
    }

    fn on_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        work(&self.lock()?.connection).map_err(|fault| fault.at(&self.path))
    }

    /// Opens a vault that exists and holds it to its anchor, which every charge then moves.
    ///
    /// An anchor is a small file in another place that holds the number and the hash of the newest entry of
    /// the ledger. A vault that is ahead of it is fine: a program died in between, or charged without it.
    ///
    /// # Guarantee
    /// `Ok` only if [`Vault::open`] would be, and the ledger is the one that the anchor was last moved along, or goes on
    /// from it. No charge is handed out before the anchor on the disk is as far as that charge.
    ///
    /// # Errors
    /// [`VaultError::PutBack`] or [`VaultError::OtherHistory`] for a vault without the anchor's entry,
    /// [`VaultError::NoAnchor`], [`VaultError::AnchorDamaged`] or [`VaultError::Anchor`] for the anchor itself,
    /// and what [`Vault::open`] refuses with.
    pub fn open_anchored(
        path: impl AsRef<Path>,
        anchor: impl AsRef<Path>,
    ) -> Result<Self, VaultError> {
        let anchor = Anchor::open(anchor.as_ref())?;
        let vault = Self::verified(path.as_ref(), BUSY)?.held_to(anchor)?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Makes the place where a vault is now its home, after it was copied, restored, renamed or moved, and opens it.
    ///
    /// Only its owner can know that no other copy of it is used: two copies are two budgets. The whole vault and
    /// the anchor, if there is one, are verified first.
    ///
    /// # Errors
    /// [`VaultError::Unanchored`] when the vault has an anchor and none is given, and what [`Vault::open_anchored`]
    /// refuses with, but for [`VaultError::NotAtHome`].
    pub fn adopt(
        path: impl AsRef<Path>,
        anchor: Option<impl AsRef<Path>>,
    ) -> Result<Self, VaultError> {
        let anchor = anchor.map(|anchor| Anchor::open(anchor.as_ref())).transpose()?;
        let vault = Self::verified(path.as_ref(), BUSY)?;
        let held = anchor.is_some();
        let vault = match anchor {
            Some(anchor) => vault.held_to(anchor)?,
            None => vault,
        };
        vault.verify()?;
        let home = vault.home()?;
        vault.transact_anywhere(|connection, witness| {
            witness.advance(connection)?;
            let known = home::read(connection)?;
            let anchored = known.is_some_and(|known| known.anchored);
            if anchored && !held {
                return Err(VaultError::Unanchored { path: vault.path.clone() }.into());
            }
            home.iter().try_for_each(|home| home::set(connection, home, anchored))
        })?;
        vault.check_home()?;
        Ok(vault)
    }

    /// Takes the anchor off a vault, which from then on is opened without: for an owner whose anchor is lost, or is to be
    /// made elsewhere. The anchor's file stays where it is.
    ///
    /// # Errors
    /// What [`Vault::open`] refuses with, but for [`VaultError::Unanchored`].
    pub fn remove_anchor(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        let vault = Self::verified(path.as_ref(), BUSY)?;
        let home = vault.home()?;
        let path = &vault.path;
        vault.transact_anywhere(|connection, _| {
            home::check(connection, home.as_ref(), true, path)?;
            home.iter().try_for_each(|home| home::set(connection, home, false))
        })?;
        Ok(vault)
    }

    /// The home that the vault has here.
    pub(super) fn home(&self) -> Result<Option<Home>, VaultError> {
        Ok(self.lock()?.place.as_ref().map(|place| place.home().clone()))
    }

    /// Refuses a vault that is at home elsewhere, or has an anchor and was opened without.
    fn check_home(&self) -> Result<(), VaultError> {
        let handle = self.lock()?;
        handle.may_begin(&self.path)?;
        let checked =
            in_snapshot(&handle.connection, |connection| handle.at_home(connection, &self.path));
        checked.map_err(|fault| fault.at(&self.path))
    }

    /// Makes an anchor where there is none, of the vault as it is now, and opens the vault with it.
    ///
    /// Only its owner can know that the vault was not put back before. From then on [`Vault::open_anchored`]
    /// notices.
    ///
    /// # Errors
    /// [`VaultError::AnchorExists`] when the path is taken, [`VaultError::AnchorBeside`] when it is in the
    /// vault's own folder, and what [`Vault::open_anchored`] refuses with.
    pub fn make_anchor(
        path: impl AsRef<Path>,
        anchor: impl AsRef<Path>,
    ) -> Result<Self, VaultError> {
        let vault = Self::open(path.as_ref())?;
        let newest = vault.lock()?.witness.mark();
        let made = Anchor::create(anchor.as_ref(), path.as_ref(), newest)?;
        let held = vault.held_to(made).and_then(|vault| {
            let home = vault.home()?;
            vault.write(|connection, _| {
                home.iter().try_for_each(|home| home::set(connection, home, true))
            })?;
            Ok(vault)
        });
        if held.is_err() {
            // Whoever tries again must not find it in the way.
            let _ = fs::remove_file(anchor);
        }
        held
    }

    /// Moves the anchor to where the vault is, which also shows that it can be moved, and keeps to it.
    fn held_to(mut self, anchor: Anchor) -> Result<Self, VaultError> {
        let path = self.path.clone();
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        handle.anchor = Some(anchor);
        handle.move_anchor(&path)?;
        Ok(self)
    }

    /// Makes a vault that ends with the program, for demonstrations and tests.
    ///
    /// # Errors
    /// [`VaultError::Failed`] when memory runs out.
    pub fn in_memory() -> Result<Self, VaultError> {
        let shown = ":memory:";
        let open = || {
            let mut connection = Connection::open_in_memory()?;
            schema::configure(&mut connection, BUSY)?;
            Ok(connection)
        };
        Self::make(open().map_err(|fault: Fault| fault.at(shown))?, None, shown)
    }

    fn make(connection: Connection, place: Option<Place>, path: &str) -> Result<Self, VaultError> {
        let home = place.as_ref().map(|place| place.home().clone());
        let vault = Self::over(connection, place, path.to_owned());
        vault.transact_anywhere(|connection, _| {
            schema::create(connection)?;
            schema::initialise(connection)?;
            if let Some(home) = &home {
                home::set(connection, home, false)?;
            }
            analyst::add(connection, OWNER)
        })?;
        Ok(vault)
    }

    fn over(connection: Connection, place: Option<Place>, path: String) -> Self {
        let handle = Handle::new(connection, place);
        Self { path, handle: Mutex::new(handle), queue: Queue::default() }
    }

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
    /// [`VaultError::NoBudget`], [`VaultError::OverMax`], [`VaultError::Exhausted`], [`VaultError::EmptyCharge`], [`VaultError::AnalystName`] or [`VaultError::Amount`] for the request;
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
    fn lock(&self) -> Result<MutexGuard<'_, Handle>, VaultError> {
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

fn cannot_open(path: &str, error: io::Error) -> VaultError {
    VaultError::CannotOpen { path: path.to_owned(), source: Box::new(error) }
}

fn state(budget: Budget, spent: Spend) -> BudgetState {
    let left = budget.limit.minus(spent);
    BudgetState { budget, spent, left }
}
