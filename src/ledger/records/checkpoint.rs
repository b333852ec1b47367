//! Checkpoints: the sums of the ledger at every 256th entry, so that a vault opens without reading all entries.
//!
//! In: the sum for each set of unit domains and the chain's hash, after every 256 entries. Out: the same, when the vault
//! is opened. A checkpoint is written in the transaction of its entry and never changed. Its digest covers all of its
//! content, so that reading it detects damage. If a checkpoint is missing or damaged, the vault refuses to open; there is
//! no fallback. Following the chain past a checkpoint compares it with the sums of the entries.
//! Like the chain, a checkpoint detects damage but not forgery.
//!
//! ```text
//! entries 1 … 256 │ 257 … 512 │ 513 … 600
//!             checkpoint 256    checkpoint 512: chain(512), [["adult"], [ε, δ, ρ, its δ]], digest
//!                               opening reads this and entries 513 … 600; `hushql check` reads all
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::Fields;
use crate::ledger::error::Fault;
use crate::privacy::Cost;

/// The number of entries between two checkpoints.
pub(crate) const EVERY: i64 = 256;

/// The table of checkpoints.
const SCHEMA: &str = "
CREATE TABLE checkpoint (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0 AND sequence % 256 = 0),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    sums TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE TRIGGER checkpoint_grows_at_its_end BEFORE INSERT ON checkpoint
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 256 FROM checkpoint)
BEGIN SELECT RAISE(ABORT, 'checkpoints grow at their end only'); END;

CREATE TRIGGER checkpoint_is_never_changed BEFORE UPDATE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'a checkpoint is never changed'); END;

CREATE TRIGGER checkpoint_is_never_deleted BEFORE DELETE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'a checkpoint is never deleted'); END;
";

/// The amount charged to each set of unit domains that an entry names.
pub(crate) type Sums = BTreeMap<Vec<String>, Cost>;

/// The state of the ledger at an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The entry's number.
    pub(crate) sequence: i64,
    /// The entry's hash.
    pub(crate) chain: [u8; 32],
    /// The sums of all entries up to it.
    pub(crate) spent: Sums,
}

/// Creates the table; the caller holds the transaction.
pub(crate) fn create(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.execute_batch(SCHEMA)?)
}

/// Whether the entry with this number has a checkpoint.
pub(crate) fn is_due(sequence: i64) -> bool {
    before(sequence) == sequence
}

/// The number of the last checkpoint at or before this entry; 0 if there is none.
pub(crate) fn before(sequence: i64) -> i64 {
    sequence.saturating_sub(sequence.rem_euclid(EVERY))
}

/// Refuses a vault whose last checkpoint is not that of a ledger with this number of entries.
pub(crate) fn check_end(connection: &Connection, entries: i64) -> Result<(), Fault> {
    let mut statement =
        connection.prepare_cached("SELECT coalesce(max(sequence), 0) FROM checkpoint")?;
    let last: i64 = statement.query_row([], |row| row.get(0))?;
    if last == before(entries) { Ok(()) } else { Err(damage()) }
}

impl Checkpoint {
    /// The checkpoint of this entry.
    ///
    /// # Guarantee
    /// `Ok` only with the content that [`Checkpoint::write`] wrote for this number.
    ///
    /// # Errors
    /// [`Fault::Damage`] when it is missing or differs from its digest.
    pub(crate) fn read(connection: &Connection, sequence: i64) -> Result<Self, Fault> {
        let mut statement = connection
            .prepare_cached("SELECT chain, sums, digest FROM checkpoint WHERE sequence = ?1")?;
        let row = statement.query_row([sequence], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, [u8; 32]>(2)?))
        });
        let (chain, sums, digest) = row.optional()?.ok_or_else(damage)?;
        let spent = sums_of(&sums).ok_or_else(damage)?;
        let checkpoint = Self { sequence, chain, spent };
        if checkpoint.digest() == digest { Ok(checkpoint) } else { Err(damage()) }
    }

    /// Stores it; the caller holds the transaction in which its entry was appended.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Fault> {
        connection
            .prepare_cached(
                "INSERT INTO checkpoint (sequence, chain, sums, digest) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![self.sequence, self.chain, text(&self.spent), self.digest()])?;
        Ok(())
    }

    /// Compares it with the stored one.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Fault> {
        if Self::read(connection, self.sequence)? == *self { Ok(()) } else { Err(damage()) }
    }

    fn digest(&self) -> [u8; 32] {
        let Self { sequence, chain, spent } = self;
        let mut fields = Fields::new("hushql checkpoint 1");
        fields.integer(*sequence);
        fields.bytes(chain);
        for (unit_domains, cost) in spent {
            fields.text(&unit_domains.len().to_string());
            unit_domains.iter().for_each(|unit_domain| fields.text(unit_domain));
            cost.amounts().into_iter().for_each(|amount| fields.optional(amount));
        }
        fields.digest()
    }
}

fn damage() -> Fault {
    Fault::Damage("a checkpoint of its ledger is missing or damaged".to_owned())
}

/// Sums as a JSON array of pairs: the names of unit domains, and four amounts.
fn text(spent: &Sums) -> String {
    let sum = |(unit_domains, cost): (&Vec<String>, &Cost)| {
        let (unit_domains, amounts) = (unit_domains.clone().into(), cost.amounts().to_vec().into());
        serde_json::Value::Array(vec![unit_domains, amounts])
    };
    serde_json::Value::Array(spent.iter().map(sum).collect()).to_string()
}

/// The inverse of [`text`]; `None` for any other text.
fn sums_of(text: &str) -> Option<Sums> {
    let sums: Vec<(Vec<String>, [Option<i64>; 4])> = serde_json::from_str(text).ok()?;
    let sum = |(unit_domains, amounts): (Vec<String>, [Option<i64>; 4])| {
        let [epsilon, delta, rho, rho_delta] = amounts;
        Some((unit_domains, Cost::from_amounts(epsilon.zip(delta), (rho?, rho_delta?))))
    };
    sums.into_iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written() {
        let spent: Sums = [
            (
                vec!["a \"quoted\" name".to_owned(), "b".to_owned()],
                Cost::from_amounts(Some((i64::MAX, 0)), (1, i64::MAX)),
            ),
            (vec!["rho".to_owned()], Cost::from_amounts(None, (2, 3))),
        ]
        .into();
        assert_eq!(sums_of(&text(&spent)), Some(spent));
        assert_eq!(sums_of(&text(&Sums::new())), Some(Sums::new()));
        for other in
            ["", "{}", "[[[\"a\"],[1,2]]]", "[[[\"a\"],[1,2,null,4]]]", "[[[\"a\"],[1.5,2,3,4]]]"]
        {
            assert_eq!(sums_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_checkpoint_is_due_at_every_256th_entry() {
        let due: Vec<i64> = (1..=600).filter(|sequence| is_due(*sequence)).collect();
        assert_eq!(due, [256, 512]);
        assert_eq!([0, 1, 255, 256, 257, 600].map(before), [0, 0, 0, 256, 256, 512]);
    }
}
