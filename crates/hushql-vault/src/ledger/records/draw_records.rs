//! Kept draws: the results of releases, so that the same release costs nothing when it is requested
//! again.
//!
//! In: the key of a release, and its result, as bytes. Out: the same bytes for an equal key. As for
//! a release table, a free ledger entry (`KEEP`) has the digest of the kept bytes. The first replay
//! of a charge to an analyst on a day is a free entry, too (`REPLAY`), with the number of that
//! charge; further replays of that day are not recorded. Nothing is kept before it is paid for. If
//! a row is lost, the release is drawn again, and nothing else happens.
//!
//! A draw that a later one may build on is found by its question, too, which is its key without the
//! ε. The charge of the later draw deletes that row (`refinable_draw`) in its own transaction, so
//! that at most one draw ever builds on it. The earlier draw stays, and is replayed as before.
//!
//! A key includes the version of each private table: the number of the last declaration, in the
//! whole vault, that touched the table (see `catalog::numbers`).
//!
//! ```text
//! entry 17  LAPLACE  eps=1       the charge
//! entry 18  KEEP     charge=17   digest(salt, key, analyst, 17, drawn)   ←→   kept_draw(key, analyst, 18, …)
//! entry 30  REPLAY   charge=17   requested again: no cost
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hushql_privacy::sampler::QueryRng;
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::Fields;
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst;
use crate::ledger::records::answers;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::{statements, time};

/// The table of kept draws.
pub(crate) const SCHEMA: &str = "
CREATE TABLE kept_draw (
    key BLOB NOT NULL CHECK (length(key) = 32),
    analyst TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    charge INTEGER NOT NULL CHECK (charge BETWEEN 1 AND sequence - 1),
    drawn BLOB NOT NULL,
    salt BLOB NOT NULL CHECK (length(salt) = 16),
    PRIMARY KEY (key, analyst)
) STRICT, WITHOUT ROWID;

CREATE TABLE refinable_draw (
    question BLOB NOT NULL CHECK (length(question) = 32),
    analyst TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    PRIMARY KEY (question, analyst)
) STRICT, WITHOUT ROWID;

CREATE INDEX refinable_draw_by_analyst ON refinable_draw (analyst, sequence);

CREATE INDEX kept_draw_by_analyst ON kept_draw (analyst, sequence, length(drawn));

CREATE INDEX ledger_replays ON ledger (analyst, parameters, at) WHERE mechanism = 'REPLAY';

CREATE TRIGGER kept_draw_is_never_changed BEFORE UPDATE ON kept_draw
BEGIN SELECT RAISE(ABORT, 'a kept draw is never changed'); END;
";

/// The largest size of one kept draw, in bytes. A larger result is drawn each time.
pub(crate) const MOST_BYTES_OF_ONE: usize = 1 << 20;

/// If an analyst's kept draws exceed this many bytes, the oldest of them are forgotten. Draws of
/// one analyst never displace those of others.
const MOST_BYTES: i64 = 64 << 20;

/// The mechanism of an entry that keeps a draw.
pub(crate) const KEEP: &str = "KEEP";

/// The mechanism of an entry that records a replay.
pub(crate) const REPLAY: &str = "REPLAY";

/// A kept draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDraw {
    /// The number of the first entry of the charge that paid for it.
    pub charge: i64,
    /// The drawn result.
    pub drawn: Vec<u8>,
    /// The key of its question, for a draw that is to be kept and that a later one may build on.
    pub question: Option<[u8; 32]>,
}

/// A kept draw that a release builds on. The charge of that release ends that it can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltOn {
    /// The key of its question.
    pub question: [u8; 32],
    /// The entry of the ledger that keeps it.
    pub sequence: i64,
}

/// Draws of a statement that wait to be kept, each with its key.
#[derive(Debug)]
pub(crate) struct WaitingDraws {
    pub(crate) draws: Vec<([u8; 32], KeptDraw)>,
    pub(crate) analyst: String,
    pub(crate) statement: String,
    /// Whether they are committed.
    pub(crate) is_kept: Arc<AtomicBool>,
}

impl WaitingDraws {
    /// Keeps the draws; as [`keep`].
    pub(crate) fn keep(&self, connection: &Connection, witness: &mut Witness) -> Result<(), Fault> {
        self.draws.iter().try_for_each(|(key, draw)| {
            keep(connection, witness, (key, &self.analyst), &self.statement, draw)
        })
    }
}

/// The kept draw of this key: the oldest of all analysts, or that of one analyst whose role was not
/// dropped since.
///
/// # Guarantee
/// `Ok(Some)` only with bytes whose digest is in an entry of the ledger.
///
/// # Errors
/// [`Fault::Damage`] if the bytes were altered.
pub(crate) fn find(
    connection: &Connection,
    key: &[u8; 32],
    of: Option<&str>,
) -> Result<Option<KeptDraw>, Fault> {
    let since = of.map_or(Ok(0), |analyst| answers::since(connection, analyst))?;
    stored(connection, key, of, since)
}

/// The draw of an analyst that answers this question and that a later one may build on, and where
/// it is kept.
///
/// # Guarantee
/// As that of [`find`]. No draw was built on it before.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_refinable(
    connection: &Connection,
    question: &[u8; 32],
    analyst: &str,
) -> Result<Option<(BuiltOn, KeptDraw)>, Fault> {
    let since = answers::since(connection, analyst)?;
    let mut statement = connection.prepare_cached(
        "SELECT kept.key, kept.sequence FROM refinable_draw refinable JOIN kept_draw kept
             ON kept.analyst = refinable.analyst AND kept.sequence = refinable.sequence
         WHERE refinable.question = ?1 AND refinable.analyst = ?2 AND kept.sequence > ?3",
    )?;
    let row = statement.query_row(params![question, analyst, since], |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?))
    });
    let Some((key, sequence)) = row.optional()? else { return Ok(None) };
    let kept = stored(connection, &key, Some(analyst), since)?;
    Ok(kept.map(|kept| (BuiltOn { question: *question, sequence }, kept)))
}

/// Takes the draws that a charge builds on, in the transaction of the charge.
///
/// # Guarantee
/// `Ok` only if each of them was there, and none of them will be found again. Two draws that are
/// built on one draw reveal more than is charged for them.
///
/// # Errors
/// [`VaultError::Redeclared`] if one of them is gone: the statement is planned again without it.
pub(crate) fn take(
    connection: &Connection,
    analyst: &str,
    built_on: &[BuiltOn],
) -> Result<(), Fault> {
    for BuiltOn { question, sequence } in built_on {
        let taken = connection.execute(
            "DELETE FROM refinable_draw WHERE question = ?1 AND analyst = ?2 AND sequence = ?3",
            params![question, analyst, sequence],
        )?;
        if taken != 1 {
            return Err(VaultError::Redeclared.into());
        }
    }
    Ok(())
}

/// The kept draw of this key, if it was kept after this entry of the ledger.
fn stored(
    connection: &Connection,
    key: &[u8; 32],
    of: Option<&str>,
    since: i64,
) -> Result<Option<KeptDraw>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT kept.analyst, kept.charge, kept.drawn, kept.salt, ledger.plan_hash
         FROM kept_draw kept LEFT JOIN ledger
             ON ledger.sequence = kept.sequence AND ledger.mechanism = 'KEEP' AND ledger.spaces = '[]'
         WHERE kept.key = ?1 AND (?2 IS NULL OR kept.analyst = ?2) AND kept.sequence > ?3
         ORDER BY kept.sequence LIMIT 1",
    )?;
    let row = statement.query_row(params![key, of, since], |row| {
        let analyst: String = row.get(0)?;
        let kept = KeptDraw { charge: row.get(1)?, drawn: row.get(2)?, question: None };
        let (salt, digest): ([u8; 16], Option<[u8; 32]>) = (row.get(3)?, row.get(4)?);
        let is_sound = digest == Some(digest_of(&salt, key, (&analyst, kept.charge), &kept.drawn));
        Ok((kept, is_sound))
    });
    match row.optional()? {
        None => Ok(None),
        Some((kept, true)) => Ok(Some(kept)),
        Some((_, false)) => Err(damage()),
    }
}

/// Keeps a draw, unless the analyst already has one for this key. The caller holds the write lock
/// and has followed the chain. The first kept draw serves all later requests. If it names its
/// question, it takes the place of an earlier draw of the question, on which no draw is built then.
///
/// # Errors
/// [`Fault::Damage`] if the charge is not in the ledger.
pub(crate) fn keep(
    connection: &Connection,
    witness: &mut Witness,
    (key, analyst): (&[u8; 32], &str),
    statement: &str,
    kept: &KeptDraw,
) -> Result<(), Fault> {
    if kept.drawn.len() > MOST_BYTES_OF_ONE || find(connection, key, Some(analyst))?.is_some() {
        return Ok(());
    }
    answers::check_charge(connection, kept.charge, Some(analyst))?;
    let salt = QueryRng::nonce().map_err(VaultError::Entropy)?;
    let digest = digest_of(&salt, key, (analyst, kept.charge), &kept.drawn);
    let parameters = format!("charge={}", kept.charge);
    let entry = answers::entry(connection, (KEEP, parameters), analyst, statement, digest)?;
    let sequence = witness.append(connection, vec![entry])?;
    // A draw that is still here belongs to an earlier role of the same name.
    connection
        .execute("DELETE FROM kept_draw WHERE key = ?1 AND analyst = ?2", params![key, analyst])?;
    connection.execute(
        "INSERT INTO kept_draw (key, analyst, sequence, charge, drawn, salt)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![key, analyst, sequence, kept.charge, kept.drawn, salt],
    )?;
    if let Some(question) = &kept.question {
        connection.execute(
            "INSERT OR REPLACE INTO refinable_draw (question, analyst, sequence)
             VALUES (?1, ?2, ?3)",
            params![question, analyst, sequence],
        )?;
    }
    forget_oldest(connection, analyst, MOST_BYTES)
}

/// Forgets an analyst's oldest draws while they exceed the limit. Draws of others do not matter:
/// under OWN, the replays to an analyst depend only on what that analyst did.
fn forget_oldest(connection: &Connection, analyst: &str, most: i64) -> Result<(), Fault> {
    let bytes = "SELECT coalesce(sum(length(drawn)), 0) FROM kept_draw WHERE analyst = ?1";
    while connection.query_row(bytes, [analyst], |row| row.get::<_, i64>(0))? > most {
        connection.execute(
            "DELETE FROM refinable_draw WHERE analyst = ?1
             AND sequence <= (SELECT min(sequence) FROM kept_draw WHERE analyst = ?1)",
            [analyst],
        )?;
        connection.execute(
            "DELETE FROM kept_draw WHERE analyst = ?1
             AND sequence = (SELECT min(sequence) FROM kept_draw WHERE analyst = ?1)",
            [analyst],
        )?;
    }
    Ok(())
}

/// True if the ledger already records that answers of this charge were replayed to an analyst
/// today.
///
/// There is one entry for each analyst, charge and day. It names the question that the charge
/// answered first on that day. So the ledger grows with the paid releases, and not with every
/// refresh of a dashboard.
pub(crate) fn is_noted(connection: &Connection, analyst: &str, charge: i64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM ledger
         WHERE mechanism = 'REPLAY' AND analyst = ?1 AND parameters = ?2 AND at >= ?3",
    )?;
    Ok(statement.exists(params![analyst, format!("charge={charge}"), time::today()?])?)
}

/// Appends the entry of a replay, unless today has one. The caller holds the write lock and has
/// followed the chain.
pub(crate) fn replayed(
    connection: &Connection,
    witness: &mut Witness,
    analyst: &str,
    statement: &str,
    charge: i64,
) -> Result<(), Fault> {
    if is_noted(connection, analyst, charge)? {
        return Ok(());
    }
    analyst::add(connection, analyst)?;
    let parameters = format!("charge={charge}");
    let mut fields = Fields::new("hushql replay 1");
    fields.integer(charge);
    let statement = statements::of_replay(statement);
    let entry =
        answers::entry(connection, (REPLAY, parameters), analyst, statement, fields.digest())?;
    witness.append(connection, vec![entry])?;
    Ok(())
}

/// Checks that the digest of each kept draw is in an entry of the ledger.
///
/// # Errors
/// [`Fault::Damage`].
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare("SELECT key, analyst FROM kept_draw")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (key, analyst): ([u8; 32], String) = (row.get(0)?, row.get(1)?);
        if stored(connection, &key, Some(&analyst), 0)?.is_none() {
            return Err(damage());
        }
    }
    Ok(())
}

/// The key of an identity under these numbers of its tables' last declarations, and these contents
/// of its public tables.
pub(crate) fn key(
    identity: &[u8],
    numbers: &[(&str, i64)],
    contents: &[(String, String)],
) -> [u8; 32] {
    let mut fields = Fields::new("hushql key 1");
    fields.bytes(identity);
    fields.integer(i64::try_from(numbers.len()).unwrap_or(i64::MAX));
    for (table, number) in numbers {
        fields.text(table);
        fields.integer(*number);
    }
    for (table, content) in contents {
        fields.text(table);
        fields.text(content);
    }
    fields.digest()
}

fn digest_of(
    salt: &[u8; 16],
    key: &[u8; 32],
    (analyst, charge): (&str, i64),
    drawn: &[u8],
) -> [u8; 32] {
    let mut fields = Fields::new("hushql draw 1");
    fields.bytes(salt);
    fields.bytes(key);
    fields.text(analyst);
    fields.integer(charge);
    fields.bytes(drawn);
    fields.digest()
}

fn damage() -> Fault {
    Fault::Damage("a kept draw was altered".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::file::schema;

    #[test]
    fn an_analysts_draws_make_room_for_own_ones() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection).unwrap();
        for sequence in 2..8_i64 {
            let analyst = if sequence % 2 == 0 { "a" } else { "b" };
            let (key, drawn, salt) =
                ([u8::try_from(sequence).unwrap(); 32], [0_u8; 10], [0_u8; 16]);
            connection
                .execute(
                    "INSERT INTO kept_draw (key, analyst, sequence, charge, drawn, salt)
                     VALUES (?1, ?2, ?3, 1, ?4, ?5)",
                    params![key, analyst, sequence, drawn, salt],
                )
                .unwrap();
        }
        let left = || -> Vec<i64> {
            let mut statement =
                connection.prepare("SELECT sequence FROM kept_draw ORDER BY sequence").unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        forget_oldest(&connection, "a", 30).unwrap();
        assert_eq!(left(), [2, 3, 4, 5, 6, 7]);
        forget_oldest(&connection, "b", 15).unwrap();
        assert_eq!(left(), [2, 4, 6, 7]);
        forget_oldest(&connection, "a", 29).unwrap();
        assert_eq!(left(), [4, 6, 7]);
    }
}
