//! The hash chain through the ledger, and its only reader.
//!
//! In: stored entries. Out: the sum of each analyst for each set of unit domains, over entries
//! whose hashes connect them without a gap to a sealed checkpoint or to the first entry. A
//! [`Witness`] remembers how far one handle has followed the chain: it verifies entries of other
//! processes before it counts them, and detects that an older file has replaced the open one.
//! Opening a vault follows the chain from the newest checkpoint on; earlier entries are verified
//! when they are read, and by `hushql check`. The chain detects damage but not forgery, because it
//! has no key.
//!
//! Each entry has a nonce. Without it, the same statement on two copies of a vault would make the
//! same entry in both, and the hashes could not tell the copies apart.
//!
//! ```text
//! chain(n) = SHA-256(chain(n − 1), n, charge, analyst, spaces, budgets, mechanism, …, plan hash, nonce)
//! ```

use std::collections::BTreeSet;

use hushql_privacy::privacy::{Cost, ParameterError, Spend};
use hushql_privacy::sampler::QueryRng;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::catalog::store::{self, Fields, SealedRows};
use crate::catalog::{Budget, Catalog, Touched};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::checkpoint::{self, Checkpoint};
use crate::ledger::records::sums::{CellOfPeople, EntrySum, REFINED, Sums};
use crate::ledger::records::{time, touched};

/// One charged release. No field depends on data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Its number: from 1, without gaps.
    pub sequence: i64,
    /// The number of the first entry of the same charge.
    pub charge: i64,
    /// The analyst who asked.
    pub analyst: String,
    /// The unit domains of the tables that it reads.
    pub unit_domains: Vec<String>,
    /// The budgets to which it was charged.
    pub budgets: Vec<String>,
    /// The mechanism.
    pub mechanism: String,
    /// The mechanism's parameters.
    pub parameters: String,
    /// The sensitivity to which its noise was calibrated.
    pub sensitivity: String,
    /// Its cost, in each notion of privacy that it has.
    pub cost: Cost,
    /// The hash of the plan.
    pub plan_hash: [u8; 32],
    /// The time of the charge, in seconds since 1970 (UTC).
    pub at: i64,
    /// The hash of the statement's text; see [`Vault::statement`](crate::ledger::Vault::statement).
    pub statement: [u8; 32],
    /// The cells of people to which it was charged alone; `None` for all of them.
    pub cells: Option<Touched>,
    /// Random bytes: no two entries are equal, even in different copies of a vault.
    pub nonce: [u8; 16],
    /// The hash of this entry and, through the entry before it, of all earlier ones.
    pub chain: [u8; 32],
}

/// The SHA-256 of a plan's text, as the ledger stores it.
pub fn plan_hash(plan: &str) -> [u8; 32] {
    let mut fields = Fields::new("hushql plan 1");
    fields.text(plan);
    fields.digest()
}

/// A place in the chain: an entry's number and hash; the default is the place before the first
/// entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) sequence: i64,
    pub(crate) hash: [u8; 32],
}

/// The hash of the entry with this number, if there is one.
pub(crate) fn hash_of(connection: &Connection, sequence: i64) -> Result<Option<[u8; 32]>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT chain FROM ledger WHERE sequence = ?1")?;
    Ok(statement.query_row([sequence], |row| row.get(0)).optional()?)
}

/// How far one handle has followed the chain, and the sums up to there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness {
    sequence: i64,
    chain: [u8; 32],
    /// The sum of the entries of each analyst for each set of unit domains that an entry names, and
    /// for single cells.
    spent: Sums,
}

impl Witness {
    /// Everything ever charged to these unit domains, in the measure of a budget; `None` if there
    /// is no such amount.
    ///
    /// # Guarantee
    /// As [`Witness::sum_by`], for all analysts.
    ///
    /// # Errors
    /// As [`Witness::sum_by`].
    pub(crate) fn counted(
        &self,
        budget: &Budget,
        unit_domains: &BTreeSet<String>,
    ) -> Result<Option<Spend>, Fault> {
        let EntrySum { cost, tally } = self.sum_by(unit_domains, |_| true)?;
        Ok(budget.counted(cost, tally))
    }

    /// True if anything was ever charged to one of these unit domains.
    pub(crate) fn is_charged(&self, unit_domains: &BTreeSet<String>) -> bool {
        self.charged_names().any(|name| unit_domains.contains(&name))
    }

    /// The amounts ever charged to these analysts for these unit domains: the cost, and the tally.
    ///
    /// # Guarantee
    /// The exact sum of the entries that name at least one of the domains, each counted once, as
    /// far as the chain was followed. Entries up to the first checkpoint count as they were when it
    /// was sealed; later entries count as they are stored. Entries for single cells count as those
    /// of the most expensive cell of each beginning, part by part. The sum has no ε if an entry has
    /// none.
    ///
    /// # Errors
    /// [`VaultError::Amount`] for a sum that is out of range.
    pub(crate) fn sum_by(
        &self,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<EntrySum, Fault> {
        Ok(self.spent.at(unit_domains, is_meant, None)?)
    }

    /// As [`Witness::sum_by`], for a unit in this cell.
    ///
    /// # Errors
    /// As [`Witness::sum_by`].
    pub(crate) fn sum_at(
        &self,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
        place: CellOfPeople<'_>,
    ) -> Result<EntrySum, Fault> {
        Ok(self.spent.at(unit_domains, is_meant, Some(place))?)
    }

    /// As [`Witness::sum_by`], without the entries for single cells of the present beginning of
    /// this unit domain: what counts for every unit, whatever its cell. The same if its people have
    /// no cells.
    ///
    /// # Errors
    /// As [`Witness::sum_by`].
    pub(crate) fn sum_everywhere(
        &self,
        catalog: &Catalog,
        unit_domains: &BTreeSet<String>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<EntrySum, Fault> {
        let with_cells = |name: &String| Some((name.clone(), catalog.cells_of(name)?.since));
        Ok(match unit_domains.iter().find_map(with_cells) {
            Some((name, since)) => self.spent.everywhere(unit_domains, is_meant, (&name, since))?,
            None => self.spent.at(unit_domains, is_meant, None)?,
        })
    }

    /// The newest beginning of cells of a unit domain to which anything was charged.
    pub(crate) fn newest_beginning(&self, unit_domain: &str) -> Option<i64> {
        self.spent.newest_beginning(unit_domain)
    }

    /// The analysts who were charged for one of these unit domains.
    pub(crate) fn analysts_on(&self, unit_domains: &BTreeSet<String>) -> BTreeSet<String> {
        let named = |names: &[String]| names.iter().any(|name| unit_domains.contains(name));
        let asked = self.spent.asked().filter(|(names, _)| named(names));
        asked.map(|(_, analyst)| analyst.clone()).collect()
    }

    /// The unit domains on which anything was charged.
    pub(crate) fn charged_names(&self) -> impl Iterator<Item = String> {
        self.spent.asked().flat_map(|(names, _)| names).cloned()
    }

    /// The place up to which the chain was followed.
    pub(crate) fn mark(&self) -> Mark {
        Mark { sequence: self.sequence, hash: self.chain }
    }

    /// Follows the chain to its end; the caller holds a transaction.
    ///
    /// A new witness begins at the newest checkpoint.
    ///
    /// # Guarantee
    /// `Ok` only if the last entry that this handle saw (or that of the newest checkpoint) still
    /// exists, every later entry is linked to it, the last entry is the sealed one, and every later
    /// checkpoint equals the sums of these entries. So no entry was altered, removed, inserted or
    /// cut off.
    pub(crate) fn advance(&mut self, connection: &Connection) -> Result<(), Fault> {
        let damage = |detail: &str| Fault::Damage(detail.to_owned());
        if self.sequence > 0 && hash_of(connection, self.sequence)? != Some(self.chain) {
            return Err(damage("it is not the ledger that was there before"));
        }
        if self.sequence == 0 {
            *self = Self::at_newest_checkpoint(connection)?;
        }
        self.follow(connection, i64::MAX)?;
        self.check_end(connection)
    }

    /// Begins at the newest checkpoint, or before the first entry if no checkpoint exists.
    ///
    /// # Guarantee
    /// `Ok` only at the last number that requires a checkpoint in a ledger of this length, with a
    /// checkpoint that agrees with its digest and has the hash of its entry.
    fn at_newest_checkpoint(connection: &Connection) -> Result<Self, Fault> {
        let mut statement =
            connection.prepare_cached("SELECT coalesce(max(sequence), 0) FROM ledger")?;
        let newest = checkpoint::before(statement.query_row([], |row| row.get(0))?);
        if newest == 0 {
            return Ok(Self::default());
        }
        let Checkpoint { sequence, chain, spent } = Checkpoint::read(connection, newest)?;
        if hash_of(connection, sequence)? != Some(chain) {
            return Err(Fault::Damage("the chain of its ledger is broken".to_owned()));
        }
        Ok(Self { sequence, chain, spent })
    }

    /// Follows the chain by this number of entries, or to its end; the caller holds a transaction.
    ///
    /// # Guarantee
    /// `Ok` only if each entry is linked to the one before it, and every checkpoint on the way
    /// equals their sums.
    pub(crate) fn follow(&mut self, connection: &Connection, most: i64) -> Result<(), Fault> {
        let mut statement = connection.prepare_cached(
            "SELECT * FROM ledger WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
        )?;
        let mut rows = statement.query([self.sequence, most])?;
        while let Some(row) = rows.next()? {
            let entry = read(row)?;
            check_link(&Mark { sequence: self.sequence, hash: self.chain }, &entry)?;
            self.add(&entry)?;
            if checkpoint::is_due(self.sequence) {
                self.checkpoint().check(connection)?;
            }
        }
        Ok(())
    }

    /// Checks that the chain was followed to the sealed end of the ledger and of its checkpoints.
    pub(crate) fn check_end(&self, connection: &Connection) -> Result<(), Fault> {
        checkpoint::check_end(connection, self.sequence)?;
        Ok(store::check_seal(connection, SealedRows::Ledger, self.chain)?)
    }

    /// The sums of the ledger, as far as the chain was followed.
    fn checkpoint(&self) -> Checkpoint {
        let Self { sequence, chain, spent } = self.clone();
        Checkpoint { sequence, chain, spent }
    }

    /// Appends the entries of one charge to the end of the chain, and seals it. The caller holds a
    /// transaction and rolls it back on an error. This function sets `entry.sequence`,
    /// `entry.charge`, `entry.nonce`, `entry.chain` and `entry.at`.
    pub(crate) fn append(
        &mut self,
        connection: &Connection,
        entries: Vec<LedgerEntry>,
    ) -> Result<i64, Fault> {
        let before = self.mark();
        let first = self.sequence.checked_add(1).ok_or(ParameterError::Overflow)?;
        let now = time::now()?;
        for mut entry in entries {
            entry.charge = first;
            entry.at = now;
            entry.nonce = QueryRng::nonce().map_err(VaultError::Entropy)?;
            self.push(connection, entry)?;
        }
        store::set_seal(connection, SealedRows::Ledger, self.chain)?;
        self.check_written(connection, before)?;
        Ok(first)
    }

    /// Reads the entries after a mark again, as they are in the file now.
    ///
    /// # Guarantee
    /// `Ok` only if they are those that were appended: each hash covers everything that is read. So
    /// a charge whose row differs from what was asked is rolled back, and pays for nothing.
    fn check_written(&self, connection: &Connection, before: Mark) -> Result<(), Fault> {
        let mut reached = before;
        for entry in entries(connection, before.sequence, self.sequence)? {
            check_link(&reached, &entry)?;
            reached = Mark { sequence: entry.sequence, hash: entry.chain };
        }
        match reached == self.mark() {
            true => Ok(()),
            false => Err(Fault::Damage("what was written to its ledger is not there".to_owned())),
        }
    }

    /// Links an entry to the end of the chain and stores it, with its checkpoint if one is due;
    /// does not seal the end.
    fn push(&mut self, connection: &Connection, mut entry: LedgerEntry) -> Result<(), Fault> {
        entry.sequence = self.sequence.checked_add(1).ok_or(ParameterError::Overflow)?;
        entry.chain = link(&self.chain, &entry);
        write(connection, &entry)?;
        self.add(&entry)?;
        if checkpoint::is_due(self.sequence) {
            self.checkpoint().write(connection)?;
        }
        Ok(())
    }

    /// Adds the next entry to the sums.
    fn add(&mut self, entry: &LedgerEntry) -> Result<(), Fault> {
        let asked = (entry.unit_domains.clone(), entry.analyst.clone());
        let one = match entry.mechanism == REFINED {
            true => EntrySum::of_refined(entry.cost),
            false => EntrySum::of(entry.cost),
        };
        self.spent.add(asked, entry.cells.as_ref(), one)?;
        self.sequence = entry.sequence;
        self.chain = entry.chain;
        Ok(())
    }
}

/// Checks that an entry continues the chain at this place.
pub(crate) fn check_link(before: &Mark, entry: &LedgerEntry) -> Result<(), Fault> {
    if Some(entry.sequence) == before.sequence.checked_add(1)
        && entry.chain == link(&before.hash, entry)
    {
        Ok(())
    } else {
        Err(Fault::Damage("the chain of its ledger is broken".to_owned()))
    }
}

/// Seals a ledger without entries.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    Ok(store::set_seal(connection, SealedRows::Ledger, Witness::default().chain)?)
}

/// The stored entries after one number up to another, oldest first.
pub(crate) fn entries(
    connection: &Connection,
    after: i64,
    last: i64,
) -> Result<Vec<LedgerEntry>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM ledger WHERE sequence > ?1 AND sequence <= ?2 ORDER BY sequence",
    )?;
    let mut rows = statement.query([after, last])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(read(row)?);
    }
    Ok(entries)
}

/// The hash of an entry that follows `before`.
fn link(before: &[u8; 32], entry: &LedgerEntry) -> [u8; 32] {
    let LedgerEntry {
        sequence,
        charge,
        analyst,
        unit_domains,
        budgets,
        mechanism,
        parameters,
        sensitivity,
        cost,
        plan_hash,
        at,
        statement,
        cells,
        nonce,
        chain: _,
    } = entry;
    let mut fields = Fields::new("hushql ledger 1");
    fields.bytes(before);
    fields.integer(*sequence);
    fields.integer(*charge);
    fields.text(analyst);
    fields.text(&names_text(unit_domains));
    fields.text(&names_text(budgets));
    fields.text(mechanism);
    fields.text(parameters);
    fields.text(sensitivity);
    cost.amounts().into_iter().for_each(|amount| fields.optional(amount));
    fields.bytes(plan_hash);
    fields.bytes(nonce);
    fields.integer(*at);
    fields.bytes(statement);
    if let Some(cells) = cells {
        fields.text(&touched::text(cells));
    }
    fields.digest()
}

/// Names as a JSON array: the separator cannot occur in a name.
fn names_text(names: &[String]) -> String {
    serde_json::Value::from(names.to_vec()).to_string()
}

fn write(connection: &Connection, entry: &LedgerEntry) -> Result<(), Fault> {
    let [epsilon, delta, rho, rho_delta] = entry.cost.amounts();
    connection
        .prepare_cached(
            "INSERT INTO ledger (sequence, charge, analyst, spaces, budgets, mechanism, parameters,
                 sensitivity, epsilon_nano, delta_atto, rho_nano, rho_delta_atto, plan_hash, at, statement,
                 cells, nonce, chain)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            entry.sequence,
            entry.charge,
            entry.analyst,
            names_text(&entry.unit_domains),
            names_text(&entry.budgets),
            entry.mechanism,
            entry.parameters,
            entry.sensitivity,
            epsilon,
            delta,
            rho,
            rho_delta,
            entry.plan_hash,
            entry.at,
            entry.statement,
            entry.cells.as_ref().map(touched::text),
            entry.nonce,
            entry.chain,
        ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<LedgerEntry, Fault> {
    let names = |column: &str| {
        let text: String = row.get(column)?;
        serde_json::from_str::<Vec<String>>(&text)
            .map_err(|_| Fault::Damage("the ledger has an unreadable name".to_owned()))
    };
    let epsilon: (Option<i64>, Option<i64>) = (row.get("epsilon_nano")?, row.get("delta_atto")?);
    let cost = Cost::from_amounts(
        epsilon.0.zip(epsilon.1),
        (row.get("rho_nano")?, row.get("rho_delta_atto")?),
    );
    // A negative amount would be a refund; the table forbids it, but a failing disk could produce
    // it.
    if cost.amounts().into_iter().flatten().any(|amount| amount < 0) {
        return Err(Fault::Damage("the ledger has a negative amount".to_owned()));
    }
    Ok(LedgerEntry {
        sequence: row.get("sequence")?,
        charge: row.get("charge")?,
        analyst: row.get("analyst")?,
        unit_domains: names("spaces")?,
        budgets: names("budgets")?,
        mechanism: row.get("mechanism")?,
        parameters: row.get("parameters")?,
        sensitivity: row.get("sensitivity")?,
        cost,
        plan_hash: row.get("plan_hash")?,
        at: row.get("at")?,
        statement: row.get("statement")?,
        cells: touched::read(row)?,
        nonce: row.get("nonce")?,
        chain: row.get("chain")?,
    })
}
