//! Release tables: stored answers that later queries read at no cost.
//!
//! In: an answer that was charged and drawn, as bytes, and a name for it. Out: the same bytes. Each
//! stored answer has a separate, free ledger entry, whose `plan_hash` is the digest of the answer.
//! So an answer and its charge are in one chain. The digest includes a random salt, so that no one
//! can guess an answer from it. The row of a release table never changes. Dropping it appends an
//! entry, and gives nothing back.
//!
//! ```text
//! entry 17  LAPLACE  eps=1       the charge, durable before anything is drawn
//! entry 18  STORE    charge=17   digest(salt, name, creator, 17, about, answer)   ←→   release_table(18, …)
//! entry 25  DROP     answer=18   the table is dropped, the charge remains
//!
//! release_table, release_grant    seal('answers') = SHA-256 of every number, name, creator, digest and grant
//! ```

use std::collections::{BTreeMap, BTreeSet};

use hushql_privacy::privacy::Cost;
use hushql_privacy::sampler::QueryRng;
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::name::check_name;
use crate::catalog::store::{self, Fields, SealedRows};
use crate::catalog::{CatalogError, quoted};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst::{self, OWNER};
use crate::ledger::records::chain::{LedgerEntry, Witness};
use crate::ledger::records::{statements, time};

/// The tables of stored answers, and of their readers beside the creators.
pub(crate) const SCHEMA: &str = "
CREATE TABLE release_table (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0),
    name TEXT NOT NULL UNIQUE,
    creator TEXT NOT NULL,
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence - 1),
    about TEXT NOT NULL,
    answer BLOB NOT NULL,
    salt BLOB NOT NULL CHECK (length(salt) = 16),
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE TRIGGER release_table_is_never_changed BEFORE UPDATE ON release_table
BEGIN SELECT RAISE(ABORT, 'a stored answer is never changed'); END;

CREATE TABLE release_grant (
    name TEXT NOT NULL,
    analyst TEXT NOT NULL,
    PRIMARY KEY (name, analyst)
) STRICT, WITHOUT ROWID;
";

/// The prefix of a row in `release_grant` that is not a grant. It says that the role of this
/// analyst was dropped, and that only things after the ledger entry with this number belong to the
/// analyst. The name of a table contains no dot.
const SINCE: &str = ".since ";

/// The largest number of release tables of one creator.
pub(crate) const MOST_TABLES: usize = 200;

/// A creator with this many bytes of answers, and of data beside them, may not store another
/// answer.
pub(crate) const MOST_BYTES: i64 = 64 << 20;

/// The largest size of one stored answer, in bytes.
pub const MOST_BYTES_OF_ONE: usize = 8 << 20;

/// The largest number of answers that one creator may store on one day (UTC) without paying for
/// them: each leaves entries in the ledger forever.
const MOST_FREE_A_DAY: usize = 200;

/// The largest number of analysts to whom one table is granted.
const MOST_GRANTS: usize = 200;

/// The mechanism of an entry that stores an answer.
pub(crate) const STORE: &str = "STORE";

/// The mechanism of an entry that drops an answer.
pub(crate) const DROP: &str = "DROP";

/// A release table without its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTable {
    /// The number of the entry that stored it.
    pub sequence: i64,
    /// Its name.
    pub name: String,
    /// The analyst who created and paid for it, or the owner.
    pub creator: String,
    /// The number of the first entry of the charge that paid for it.
    pub charge: i64,
    /// The engine's data beside the rows.
    pub about: String,
    /// The length of the answer.
    pub bytes: i64,
    /// The analysts other than its creator and the owner who may read it.
    pub grants: BTreeSet<String>,
    /// Whether the role of its creator was dropped since. A new role of the same name is not the
    /// creator.
    pub is_left: bool,
    digest: [u8; 32],
}

impl ReleaseTable {
    /// True if this analyst sees the table.
    pub fn is_seen_by(&self, reader: &str) -> bool {
        self.is_managed_by(reader) || self.grants.contains(reader)
    }

    /// True if this analyst may drop and grant the table.
    pub fn is_managed_by(&self, reader: &str) -> bool {
        reader == OWNER || self.is_created_by(reader)
    }

    /// True if this analyst created the table.
    pub fn is_created_by(&self, reader: &str) -> bool {
        reader == self.creator && !self.is_left
    }
}

/// An answer to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// The name of the table.
    pub name: String,
    /// The analyst who paid for it.
    pub creator: String,
    /// The number of the first entry of its charge.
    pub charge: i64,
    /// The charged statement.
    pub statement: String,
    /// Whether all of it was paid for before.
    pub is_replayed: bool,
    /// The engine's data beside the rows.
    pub about: String,
    /// The rows.
    pub answer: Vec<u8>,
}

/// Seals a vault without stored answers.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    reseal(connection)
}

/// All release tables, by name, checked against the seal.
///
/// # Errors
/// [`Fault::Damage`] if a table or a grant differs from what was stored.
pub(crate) fn all(connection: &Connection) -> Result<Vec<ReleaseTable>, Fault> {
    let (tables, grants) = (rows(connection)?, grants(connection)?);
    store::check_seal(connection, SealedRows::Answers, digest_of_all(&tables, &grants))?;
    Ok(tables)
}

/// Refuses a name that a table, a view or another release table has. To an analyst who does not see
/// that release table, and to every analyst where grants are required, the refusal says only that
/// the name is taken.
///
/// # Errors
/// [`VaultError::Catalog`].
pub(crate) fn check_free(connection: &Connection, name: &str, by: &str) -> Result<(), Fault> {
    check_name(name)?;
    let catalog = store::load(connection)?;
    let is_released = || Ok::<_, Fault>(all(connection)?.iter().any(|table| table.name == name));
    if by != OWNER && catalog.grants().limits(by) {
        // Where much does not exist for a reader, a taken name does not tell by what.
        let is_declared = catalog.table(name).is_some()
            || catalog.view(name).is_some()
            || catalog.template(name).is_some();
        return match is_declared || is_released()? {
            true => Err(CatalogError::NameTaken { name: name.to_owned() }.into()),
            false => Ok(()),
        };
    }
    if catalog.table(name).is_some() {
        return Err(CatalogError::DuplicateTable { table: name.to_owned() }.into());
    }
    if catalog.view(name).is_some() {
        return Err(CatalogError::IsView { view: name.to_owned() }.into());
    }
    if catalog.template(name).is_some() {
        return Err(CatalogError::IsTemplate { template: name.to_owned() }.into());
    }
    let table = name.to_owned();
    match all(connection)?.iter().find(|table| table.name == name) {
        None => Ok(()),
        Some(found) if found.is_seen_by(by) => {
            Err(CatalogError::DuplicateReleaseTable { table }.into())
        }
        Some(_) => Err(CatalogError::NameTaken { name: table }.into()),
    }
}

/// Refuses the name of a release table for a declaration of the owner, who sees all of them.
///
/// # Errors
/// [`VaultError::Catalog`].
pub(crate) fn check_unused(connection: &Connection, name: &str) -> Result<(), Fault> {
    match all(connection)?.iter().any(|table| table.name == name) {
        false => Ok(()),
        true => Err(CatalogError::DuplicateReleaseTable { table: name.to_owned() }.into()),
    }
}

/// Refuses a creator who has reached the limit.
///
/// # Errors
/// [`VaultError::Catalog`].
pub(crate) fn check_quota(connection: &Connection, creator: &str) -> Result<(), Fault> {
    let tables = all(connection)?;
    let own = || tables.iter().filter(|table| table.is_created_by(creator));
    let beside = |table: &ReleaseTable| i64::try_from(table.about.len()).unwrap_or(i64::MAX);
    let bytes = own()
        .fold(0_i64, |sum, table| sum.saturating_add(table.bytes).saturating_add(beside(table)));
    if own().count() >= MOST_TABLES || bytes >= MOST_BYTES {
        return Err(CatalogError::TooManyReleaseTables {
            most: MOST_TABLES,
            mebibytes: MOST_BYTES >> 20,
        }
        .into());
    }
    Ok(())
}

/// Refuses a creator who has reached today's limit of answers that were paid for before.
///
/// # Errors
/// [`VaultError::Catalog`].
fn check_free_quota(connection: &Connection, creator: &str) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM (SELECT mechanism, at FROM ledger WHERE analyst = ?1
             ORDER BY sequence DESC LIMIT 10000)
         WHERE mechanism = ?2 AND at >= ?3",
    )?;
    let today = time::today()?;
    let stored: i64 = statement.query_row(params![creator, STORE, today], |row| row.get(0))?;
    if usize::try_from(stored).unwrap_or(usize::MAX) >= MOST_FREE_A_DAY {
        return Err(CatalogError::TooManyFreeTables { most: MOST_FREE_A_DAY }.into());
    }
    Ok(())
}

/// Records that an analyst's role was dropped: only things after this ledger entry belong to the
/// analyst. A new role of the same name gets none of the old tables, draws, texts and grants. The
/// caller holds the write lock.
pub(crate) fn leave(connection: &Connection, analyst: &str, last: i64) -> Result<(), Fault> {
    all(connection)?;
    connection.execute("DELETE FROM release_grant WHERE analyst = ?1", [analyst])?;
    connection.execute(
        "INSERT INTO release_grant (name, analyst) VALUES (?1, ?2)",
        [format!("{SINCE}{last}"), analyst.to_owned()],
    )?;
    reseal(connection)
}

/// The number of the ledger entry after which things belong to an analyst; 0 if the role was never
/// dropped.
pub(crate) fn since(connection: &Connection, analyst: &str) -> Result<i64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM release_grant WHERE name >= '.since ' AND name < '.since!' AND analyst = ?1",
    )?;
    let name: Option<String> = statement.query_row([analyst], |row| row.get(0)).optional()?;
    Ok(name.as_deref().and_then(began).unwrap_or_default())
}

fn began(name: &str) -> Option<i64> {
    name.strip_prefix(SINCE)?.parse().ok()
}

/// Stores an answer; the caller holds the write lock and has followed the chain.
///
/// # Guarantee
/// `Ok` only with a ledger entry, after that of the charge, that contains the digest of everything
/// stored. The entry is free and names no unit domain, so no budget changes.
///
/// # Errors
/// Those of [`check_free`] and [`check_quota`], and [`Fault::Damage`] if the charge is not in the
/// ledger.
pub(crate) fn put(
    connection: &Connection,
    witness: &mut Witness,
    new: &NewAnswer,
) -> Result<i64, Fault> {
    check_free(connection, &new.name, &new.creator)?;
    check_quota(connection, &new.creator)?;
    if new.is_replayed && new.creator != OWNER {
        check_free_quota(connection, &new.creator)?;
    }
    // Another analyst may have paid for a replayed answer.
    check_charge(connection, new.charge, None)?;
    let salt = QueryRng::nonce().map_err(VaultError::Entropy)?;
    let NewAnswer { name, creator, charge, statement, is_replayed, about, answer } = new;
    // A free answer stores less text.
    let statement = match is_replayed {
        true => statements::of_replay(statement),
        false => statement,
    };
    let digest = digest_of(&salt, (name, creator, *charge), about, answer);
    analyst::add(connection, creator)?;
    let parameters = format!("charge={charge}");
    let entry = entry(connection, (STORE, parameters), creator, statement, digest)?;
    let sequence = witness.append(connection, vec![entry])?;
    connection.execute(
        "INSERT INTO release_table (sequence, name, creator, charge, about, answer, salt, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![sequence, name, creator, charge, about, answer, salt, digest],
    )?;
    reseal(connection)?;
    Ok(sequence)
}

/// Refuses an answer whose charge is missing in the ledger, or belongs to another analyst.
pub(crate) fn check_charge(
    connection: &Connection,
    charge: i64,
    analyst: Option<&str>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM ledger
         WHERE sequence = ?1 AND charge = ?1 AND (?2 IS NULL OR analyst = ?2) AND spaces <> '[]'",
    )?;
    match statement.exists(params![charge, analyst])? {
        true => Ok(()),
        false => Err(Fault::Damage("an answer has no charge".to_owned())),
    }
}

/// The table of this name that this analyst may drop and grant.
///
/// # Errors
/// [`VaultError::Catalog`]. An analyst who does not see a table is told that it does not exist.
fn managed(connection: &Connection, name: &str, by: &str) -> Result<ReleaseTable, Fault> {
    let found = all(connection)?.into_iter().find(|table| table.name == name);
    let table = name.to_owned();
    match found {
        Some(found) if found.is_managed_by(by) => Ok(found),
        Some(found) if found.is_seen_by(by) => {
            Err(CatalogError::OthersReleaseTable { table, creator: found.creator }.into())
        }
        Some(_) | None => Err(CatalogError::UnknownReleaseTable { table }.into()),
    }
}

/// Drops a release table; the caller holds the write lock and has followed the chain.
///
/// # Errors
/// [`VaultError::Catalog`] for a table that this analyst does not see, or sees but did not create.
pub(crate) fn drop(
    connection: &Connection,
    witness: &mut Witness,
    name: &str,
    by: &str,
) -> Result<(), Fault> {
    let table = managed(connection, name, by)?;
    let statement = format!("DROP RELEASE TABLE {}", quoted(name));
    let parameters = format!("answer={}", table.sequence);
    analyst::add(connection, by)?;
    let entry = entry(connection, (DROP, parameters), by, &statement, table.digest)?;
    witness.append(connection, vec![entry])?;
    connection.execute("DELETE FROM release_grant WHERE name = ?1", [name])?;
    connection.execute("DELETE FROM release_table WHERE name = ?1", [name])?;
    reseal(connection)
}

/// Grants a release table to another analyst, or revokes the grant. The caller holds the write
/// lock.
///
/// # Errors
/// As [`drop`], and [`VaultError::AnalystName`] for a name that no analyst can have.
pub(crate) fn grant(
    connection: &Connection,
    (name, analyst): (&str, &str),
    may: bool,
    by: &str,
) -> Result<(), Fault> {
    let table = managed(connection, name, by)?;
    analyst::check(analyst)?;
    if may && by != OWNER && table.grants.len() >= MOST_GRANTS && !table.grants.contains(analyst) {
        return Err(CatalogError::TooManyGrants { most: MOST_GRANTS }.into());
    }
    match may {
        true => connection.execute(
            "INSERT INTO release_grant (name, analyst) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            [name, analyst],
        )?,
        false => connection.execute(
            "DELETE FROM release_grant WHERE name = ?1 AND analyst = ?2",
            [name, analyst],
        )?,
    };
    reseal(connection)
}

/// The answer that the entry with this number stored.
///
/// # Guarantee
/// `Ok(Some)` only with the bytes whose digest is in that entry.
///
/// # Errors
/// [`Fault::Damage`] if the bytes differ.
pub(crate) fn answer(connection: &Connection, sequence: i64) -> Result<Option<Vec<u8>>, Fault> {
    let Some((digest, answer)) = digested(connection, sequence)? else { return Ok(None) };
    let mut statement = connection
        .prepare_cached("SELECT plan_hash FROM ledger WHERE sequence = ?1 AND mechanism = ?2")?;
    let of_entry: Option<[u8; 32]> =
        statement.query_row(params![sequence, STORE], |row| row.get(0)).optional()?;
    if of_entry == Some(digest) { Ok(Some(answer)) } else { Err(damage()) }
}

/// The digest of an answer, and the answer.
type Digested = ([u8; 32], Vec<u8>);

/// The answer with this number, and the digest of its present bytes.
fn digested(connection: &Connection, sequence: i64) -> Result<Option<Digested>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT name, creator, charge, about, answer, salt FROM release_table WHERE sequence = ?1",
    )?;
    let row = statement.query_row([sequence], |row| {
        let name: String = row.get(0)?;
        let creator: String = row.get(1)?;
        let about: String = row.get(3)?;
        let answer: Vec<u8> = row.get(4)?;
        let salt: [u8; 16] = row.get(5)?;
        let digest = digest_of(&salt, (&name, &creator, row.get(2)?), &about, &answer);
        Ok((digest, answer))
    });
    Ok(row.optional()?)
}

/// Checks that the stored answers are exactly those that the ledger records as stored and not
/// dropped, and that none was altered.
///
/// # Errors
/// [`Fault::Damage`].
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut kept: BTreeMap<i64, [u8; 32]> = BTreeMap::new();
    let mut statement = connection.prepare(
        "SELECT sequence, mechanism, parameters, plan_hash FROM ledger
         WHERE mechanism IN (?1, ?2) AND spaces = '[]' ORDER BY sequence",
    )?;
    let mut entries = statement.query([STORE, DROP])?;
    while let Some(entry) = entries.next()? {
        let (mechanism, parameters): (String, String) = (entry.get(1)?, entry.get(2)?);
        if mechanism == STORE {
            kept.insert(entry.get(0)?, entry.get(3)?);
            continue;
        }
        let dropped = parameters.strip_prefix("answer=").and_then(|number| number.parse().ok());
        if dropped.and_then(|number: i64| kept.remove(&number)) != Some(entry.get(3)?) {
            return Err(damage());
        }
    }
    let tables = all(connection)?;
    let is_stored = |table: &ReleaseTable| kept.get(&table.sequence) == Some(&table.digest);
    if tables.len() != kept.len() || !tables.iter().all(is_stored) {
        return Err(damage());
    }
    for table in &tables {
        let stored = digested(connection, table.sequence)?;
        if stored.map(|(digest, _)| digest) != Some(table.digest) {
            return Err(damage());
        }
    }
    Ok(())
}

fn damage() -> Fault {
    Fault::Damage("a stored answer is missing or altered".to_owned())
}

/// A free entry, with the text of its statement.
pub(crate) fn entry(
    connection: &Connection,
    (mechanism, parameters): (&str, String),
    analyst: &str,
    statement: &str,
    digest: [u8; 32],
) -> Result<LedgerEntry, Fault> {
    let statement = statements::keep(connection, statement)?;
    Ok(LedgerEntry {
        cells: None,
        sequence: 0,
        charge: 0,
        analyst: analyst.to_owned(),
        unit_domains: Vec::new(),
        budgets: Vec::new(),
        mechanism: mechanism.to_owned(),
        parameters,
        sensitivity: String::new(),
        cost: Cost::zero(),
        plan_hash: digest,
        at: 0,
        statement,
        nonce: [0; 16],
        chain: [0; 32],
    })
}

fn digest_of(
    salt: &[u8; 16],
    (name, creator, charge): (&str, &str, i64),
    about: &str,
    answer: &[u8],
) -> [u8; 32] {
    let mut fields = Fields::new("hushql answer 1");
    fields.bytes(salt);
    fields.text(name);
    fields.text(creator);
    fields.integer(charge);
    fields.text(about);
    fields.bytes(answer);
    fields.digest()
}

fn rows(connection: &Connection) -> Result<Vec<ReleaseTable>, Fault> {
    let mut grants_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut began_of: BTreeMap<String, i64> = BTreeMap::new();
    for (name, analyst) in grants(connection)? {
        match began(&name) {
            Some(last) => {
                began_of.insert(analyst, last);
            }
            None => {
                grants_of.entry(name).or_default().insert(analyst);
            }
        }
    }
    let mut statement = connection.prepare_cached(
        "SELECT sequence, name, creator, charge, about, length(answer), digest
         FROM release_table ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| {
        let (sequence, name, creator): (i64, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(ReleaseTable {
            sequence,
            is_left: began_of.get(&creator).is_some_and(|last| sequence <= *last),
            creator,
            charge: row.get(3)?,
            about: row.get(4)?,
            bytes: row.get(5)?,
            digest: row.get(6)?,
            grants: grants_of.remove(&name).unwrap_or_default(),
            name,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn grants(connection: &Connection) -> Result<Vec<(String, String)>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT name, analyst FROM release_grant ORDER BY name, analyst")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn digest_of_all(tables: &[ReleaseTable], grants: &[(String, String)]) -> [u8; 32] {
    let mut fields = Fields::new("hushql answers 1");
    // The number of tables comes first, so that a table cannot be taken for a grant.
    fields.text(&tables.len().to_string());
    for table in tables {
        let ReleaseTable { sequence, name, creator, charge, about, bytes, digest, .. } = table;
        fields.integer(*sequence);
        fields.text(name);
        fields.text(creator);
        fields.integer(*charge);
        fields.text(about);
        fields.integer(*bytes);
        fields.bytes(digest);
    }
    for (name, analyst) in grants {
        fields.text(name);
        fields.text(analyst);
    }
    fields.digest()
}

fn reseal(connection: &Connection) -> Result<(), Fault> {
    let digest = digest_of_all(&rows(connection)?, &grants(connection)?);
    Ok(store::set_seal(connection, SealedRows::Answers, digest)?)
}
