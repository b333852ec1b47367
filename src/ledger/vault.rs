//! The vault as its users see it: one file, opened or made, asked and charged.
//!
//! A path goes in, a [`Vault`] comes out: a connection behind a lock, so that threads may share it, and
//! processes may open the same file. Every method is one transaction of SQLite: it sees one state of the
//! file, and what it writes is durable when it returns, or absent. When a write fails so that neither
//! is known, the handle is poisoned and refuses from then on; opening the file again finds out.
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
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::chain::{self, LedgerEntry, Witness};
use super::charge::{self, BudgetQuote, Charge, ChargeRequest};
use super::error::{Fault, VaultError};
use super::schema;
use crate::catalog::store::{self, Account, Fields, Kind};
use crate::catalog::{Budget, Catalog, CatalogError, Table};
use crate::privacy::Spend;

/// The name under which the owner's queries are charged.
pub const OWNER: &str = "owner";

/// How long to wait for another program that holds the file.
const BUSY: Duration = Duration::from_secs(5);

/// The catalog and the ledger, in one SQLite file.
#[derive(Debug)]
pub struct Vault {
    path: String,
    handle: Mutex<Handle>,
}

#[derive(Debug)]
struct Handle {
    connection: Connection,
    witness: Witness,
    poisoned: bool,
    /// The last catalog that was read, with the seals of what it was read from.
    catalog: Option<([[u8; 32]; 2], Arc<Catalog>)>,
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
            Err(error) => {
                return Err(VaultError::CannotOpen { path: shown, source: Box::new(error) });
            }
        }
        let made =
            connect(path, &shown, BUSY).and_then(|connection| Self::make(connection, &shown));
        if made.is_err() {
            // Best effort: what cannot be removed is refused as no vault when it is opened.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// Opens a vault that exists, and verifies it from the first entry to the last.
    ///
    /// # Guarantee
    /// `Ok` only if the file is a vault, SQLite finds it sound, the chain of the ledger is whole, every
    /// budget agrees with the ledger, and the catalog is what was declared.
    ///
    /// # Errors
    /// A variant of [`VaultError`] for each way in which it is not. Nothing is ever created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, VaultError> {
        Self::open_with(path.as_ref(), BUSY)
    }

    /// Opens a vault that waits this long for other programs.
    pub(super) fn open_with(path: &Path, busy: Duration) -> Result<Self, VaultError> {
        let shown = path.display().to_string();
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(VaultError::NotAFile { path: shown }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VaultError::Missing { path: shown });
            }
            Err(error) => {
                return Err(VaultError::CannotOpen { path: shown, source: Box::new(error) });
            }
        }
        let connection = connect(path, &shown, busy)?;
        let verify = || {
            if connection.is_readonly("main")? {
                return Err(VaultError::ReadOnly { path: shown.clone() }.into());
            }
            schema::check(&connection, &shown)
        };
        verify().map_err(|fault| fault.at(&shown))?;
        let vault = Self::over(connection, shown);
        vault.catalog()?;
        vault.budgets()?;
        vault.analysts()?;
        Ok(vault)
    }

    /// Makes a vault that ends with the program, for demonstrations and tests.
    ///
    /// # Errors
    /// [`VaultError::Failed`] when memory runs out.
    pub fn in_memory() -> Result<Self, VaultError> {
        let shown = ":memory:";
        let open = || {
            let connection = Connection::open_in_memory()?;
            schema::configure(&connection, BUSY)?;
            Ok(connection)
        };
        Self::make(open().map_err(|fault: Fault| fault.at(shown))?, shown)
    }

    fn make(connection: Connection, path: &str) -> Result<Self, VaultError> {
        let vault = Self::over(connection, path.to_owned());
        vault.write(|connection, _| {
            schema::create(connection)?;
            chain::initialise(connection)?;
            reseal_analysts(connection)?;
            add_analyst(connection, OWNER)
        })?;
        Ok(vault)
    }

    fn over(connection: Connection, path: String) -> Self {
        let handle =
            Handle { connection, witness: Witness::default(), poisoned: false, catalog: None };
        Self { path, handle: Mutex::new(handle) }
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
        let Handle { connection, catalog, .. } = &mut *handle;
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
        in_snapshot(connection, read).map_err(|fault: Fault| fault.at(&self.path))
    }

    /// Declares a table.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when the name is taken or the declaration contradicts itself.
    pub fn create_table(&self, table: &Table) -> Result<(), VaultError> {
        self.write(|connection, _| Ok(store::insert_table(connection, table)?))
    }

    /// Changes the declaration of a table, reading and writing it in one transaction.
    ///
    /// A changed unit keeps the table's unit space: budgets and what was spent stay. The name cannot change.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such table, or the change itself refuses or makes the
    /// declaration contradict itself; nothing is changed then.
    pub fn alter_table(
        &self,
        name: &str,
        change: impl FnOnce(&mut Table) -> Result<(), CatalogError>,
    ) -> Result<(), VaultError> {
        self.write(|connection, _| {
            let mut table = store::table(connection, name)?;
            change(&mut table)?;
            name.clone_into(&mut table.name);
            Ok(store::update_table(connection, &table)?)
        })
    }

    /// Forgets the declaration of a table. What was spent on it is remembered under its name.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such table, or it still has budgets.
    pub fn drop_table(&self, name: &str) -> Result<(), VaultError> {
        self.write(|connection, _| Ok(store::delete_table(connection, name)?))
    }

    /// Declares a budget for the unit space of a private table.
    ///
    /// # Guarantee
    /// It starts with everything that was ever charged on that unit space, under whatever budgets.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when the name is taken, the table is missing or not private, an amount is
    /// out of range, or the budget counts in ε where releases without an ε were charged.
    pub fn create_budget(&self, budget: &Budget) -> Result<BudgetState, VaultError> {
        self.write(|connection, witness| {
            let table = store::table(connection, &budget.table)?;
            let space = table
                .space()
                .ok_or_else(|| CatalogError::NotPrivate { table: budget.table.clone() })?;
            witness.advance(connection)?;
            let uncountable = || CatalogError::Uncountable { budget: budget.name.clone() };
            let spent = witness.spent(space).within(budget.limit.notion).ok_or_else(uncountable)?;
            store::insert_budget(connection, budget, space, spent)?;
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
        self.write(|connection, _| Ok(store::set_limit(connection, budget, limit, promise)?))
    }

    /// Forgets a budget. What was spent stays spent: a later budget of the same tables starts with it.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] when there is no such budget.
    pub fn drop_budget(&self, budget: &str) -> Result<(), VaultError> {
        self.write(|connection, _| Ok(store::delete_budget(connection, budget)?))
    }

    /// All budgets and where they stand, by name.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when a budget disagrees with the ledger, or the file cannot be read.
    pub fn budgets(&self) -> Result<Vec<BudgetState>, VaultError> {
        self.read(|connection, witness| {
            let accounts = charge::accounts(connection, witness)?;
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
        self.read(|connection, _| checked_analysts(connection))
    }

    /// Lets an analyst in; one who is known already is fine.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] when the name is not 1 to 64 letters, digits, `_` and `-`.
    pub fn ensure_analyst(&self, name: &str) -> Result<(), VaultError> {
        check_analyst(name)?;
        if self.analysts()?.iter().any(|known| known == name) {
            return Ok(());
        }
        self.write(|connection, _| add_analyst(connection, name))
    }

    /// What a charge would do to each budget, without charging.
    ///
    /// # Errors
    /// What [`Vault::charge`] would refuse with now.
    pub fn quote(&self, request: &ChargeRequest) -> Result<Vec<BudgetQuote>, VaultError> {
        check_analyst(&request.analyst)?;
        self.read(|connection, witness| charge::quote(connection, witness, request))
    }

    /// Charges a statement to every budget of every unit space it touches, all or nothing.
    ///
    /// # Guarantee
    /// `Ok` only after the whole cost, rounded up, is on the disk in the ledger and in every budget, none
    /// of which passed its limit. On an error no [`Charge`] exists; the cost may then stand all the same
    /// (a failed sync), never the reverse.
    ///
    /// # Errors
    /// [`VaultError::NoBudget`], [`VaultError::OverMax`], [`VaultError::Exhausted`],
    /// [`VaultError::EmptyCharge`], [`VaultError::AnalystName`] or [`VaultError::Amount`] for the request;
    /// the other variants when the file cannot be written.
    pub fn charge(&self, request: &ChargeRequest) -> Result<Charge, VaultError> {
        check_analyst(&request.analyst)?;
        self.write(|connection, witness| {
            witness.advance(connection)?;
            add_analyst(connection, &request.analyst)?;
            charge::pay(connection, witness, request)
        })
    }

    /// Everything that was ever charged, oldest first.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] when the chain is broken, or the file cannot be read.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>, VaultError> {
        self.read(|connection, _| chain::entries(connection))
    }

    /// Runs `work` on one state of the file, with the ledger verified up to it.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        let mut handle = self.lock()?;
        let Handle { connection, witness, .. } = &mut *handle;
        in_snapshot(connection, |connection| {
            // Staged: a chain that breaks half way must break again the next time.
            let mut staged = witness.clone();
            staged.advance(connection)?;
            *witness = staged;
            work(connection, witness)
        })
        .map_err(|fault| fault.at(&self.path))
    }

    /// Runs `work` with the write lock of the file and commits what it wrote, or rolls it back.
    ///
    /// # Guarantee
    /// `Ok` only if the commit succeeded. After a commit that failed otherwise than by another reader's
    /// lock, an I/O error or a rollback that failed, every further use of the handle is refused.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Connection, &mut Witness) -> Result<T, Fault>,
    ) -> Result<T, VaultError> {
        let mut handle = self.lock()?;
        let Handle { connection, witness, poisoned, .. } = &mut *handle;
        let begin = connection.execute_batch("BEGIN IMMEDIATE");
        begin.map_err(|error| Fault::from(error).at(&self.path))?;
        let mut staged = witness.clone();
        let mut lasting = false;
        let result = work(connection, &mut staged).and_then(|value| {
            connection.execute_batch("COMMIT").map_err(|error| {
                lasting = error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy);
                Fault::from(error)
            })?;
            Ok(value)
        });
        match result {
            Ok(value) => {
                *witness = staged;
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
        let poisoned = || VaultError::Poisoned { path: self.path.clone() };
        let handle = self.handle.lock().map_err(|_| poisoned())?;
        if handle.poisoned { Err(poisoned()) } else { Ok(handle) }
    }

    /// The raw connection, for tests that damage a vault or fill its disk.
    #[cfg(test)]
    pub(super) fn raw<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        work(&self.handle.lock().expect("no test panics with the lock").connection)
    }
}

/// Opens a file that exists.
fn connect(path: &Path, shown: &str, busy: Duration) -> Result<Connection, VaultError> {
    // No CREATE: a missing vault is an error. No URI: a name such as `file:x?immutable=1` must not
    // turn locks off.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        schema::configure(&connection, busy)?;
        Ok(connection)
    };
    open().map_err(|fault: Fault| fault.at(shown))
}

/// Runs `work` in a transaction that only reads.
fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    connection.execute_batch("BEGIN")?;
    let result = work(connection);
    // Nothing was written, so rolling back ends the transaction like a commit, and cannot fail on a lock.
    let end =
        if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") };
    let value = result?;
    end?;
    Ok(value)
}

fn state(budget: Budget, spent: Spend) -> BudgetState {
    let left = budget.limit.minus(spent);
    BudgetState { budget, spent, left }
}

fn check_analyst(name: &str) -> Result<(), VaultError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(VaultError::AnalystName { name: name.to_owned() })
}

/// Adds an analyst who is not known yet; the caller has checked the name.
fn add_analyst(connection: &Connection, name: &str) -> Result<(), Fault> {
    if checked_analysts(connection)?.iter().any(|known| known == name) {
        return Ok(());
    }
    connection.execute("INSERT INTO analyst (name) VALUES (?1)", params![name])?;
    reseal_analysts(connection)
}

fn checked_analysts(connection: &Connection) -> Result<Vec<String>, Fault> {
    let names = analyst_rows(connection)?;
    store::check_seal(connection, Kind::Analysts, analysts_digest(&names))?;
    Ok(names)
}

fn analyst_rows(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT name FROM analyst ORDER BY name")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn analysts_digest(names: &[String]) -> [u8; 32] {
    let mut fields = Fields::new("hushql analysts 1");
    names.iter().for_each(|name| fields.text(name));
    fields.digest()
}

fn reseal_analysts(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, Kind::Analysts, analysts_digest(&analyst_rows(connection)?))?)
}
