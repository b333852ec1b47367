//! Checkpoints: the sums of the ledger at every 256th entry, so that a vault opens without reading all entries.
//!
//! In: the sum and the number of entries for each set of unit domains and the chain's hash, after every 256 entries. Out: the same, when the vault
//! is opened. A checkpoint is written in the transaction of its entry and never changed. Its digest covers all of its
//! content, so that reading it detects damage. If a checkpoint is missing or damaged, the vault refuses to open; there is
//! no fallback. Following the chain past a checkpoint compares it with the sums of the entries.
//! Like the chain, a checkpoint detects damage but not forgery.
//!
//! ```text
//! entries 1 … 256 │ 257 … 512 │ 513 … 600
//!             checkpoint 256    checkpoint 512: chain(512), [["adult"], [ε, δ, ρ, its δ, entries, largest ε]], digest
//!                               opening reads this and entries 513 … 600; `hushql check` reads all
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::store::Fields;
use crate::ledger::error::Fault;
use crate::privacy::{Cost, ParameterError, Tally};

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

/// What was charged to each set of unit domains that an entry names.
pub(crate) type Sums = BTreeMap<Vec<String>, Sum>;

/// The entries of one set of unit domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    /// What they cost together.
    pub(crate) cost: Cost,
    /// How many they are, and the largest ε of one of them.
    pub(crate) tally: Tally,
}

impl Default for Sum {
    fn default() -> Self {
        Self { cost: Cost::zero(), tally: Tally::default() }
    }
}

impl Sum {
    /// The sum with one more entry.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn with(self, cost: Cost) -> Result<Self, ParameterError> {
        let tally = self.tally.plus(Tally::of(&cost))?;
        Ok(Self { cost: self.cost.plus(cost)?, tally })
    }
}

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
            .execute(params![self.sequence, self.chain, text(all(&self.spent)), self.digest()])?;
        Ok(())
    }

    /// Compares it with the stored one.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Fault> {
        if Self::read(connection, self.sequence)? == *self { Ok(()) } else { Err(damage()) }
    }

    /// Compares it with a stored one of formats 5 and 6, which had sums and no numbers of entries.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check_older(&self, connection: &Connection) -> Result<(), Fault> {
        let mut statement = connection
            .prepare_cached("SELECT chain, sums, digest FROM checkpoint WHERE sequence = ?1")?;
        let row = statement.query_row([self.sequence], |row| {
            Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, String>(1)?, row.get::<_, [u8; 32]>(2)?))
        });
        let stored = row.optional()?.ok_or_else(damage)?;
        let sums = text(self.spent.iter().map(|(names, sum)| (names, sum.cost.amounts())));
        let same = stored == (self.chain, sums, self.digest_of("hushql checkpoint 1", |_| None));
        if same { Ok(()) } else { Err(damage()) }
    }

    fn digest(&self) -> [u8; 32] {
        self.digest_of("hushql checkpoint 2", |sum| Some(sum.tally))
    }

    fn digest_of(&self, format: &str, tally: fn(&Sum) -> Option<Tally>) -> [u8; 32] {
        let Self { sequence, chain, spent } = self;
        let mut fields = Fields::new(format);
        fields.integer(*sequence);
        fields.bytes(chain);
        for (unit_domains, sum) in spent {
            fields.text(&unit_domains.len().to_string());
            unit_domains.iter().for_each(|unit_domain| fields.text(unit_domain));
            sum.cost.amounts().into_iter().for_each(|amount| fields.optional(amount));
            if let Some(Tally { releases, dearest }) = tally(sum) {
                fields.integer(releases);
                fields.integer(dearest);
            }
        }
        fields.digest()
    }
}

fn damage() -> Fault {
    Fault::Damage("a checkpoint of its ledger is missing or damaged".to_owned())
}

/// The numbers of sums: four amounts, how many entries they are of, and the largest ε of one of them.
fn all(spent: &Sums) -> impl Iterator<Item = (&Vec<String>, [Option<i64>; 6])> {
    spent.iter().map(|(unit_domains, sum)| {
        let [epsilon, delta, rho, rho_delta] = sum.cost.amounts();
        let Tally { releases, dearest } = sum.tally;
        (unit_domains, [epsilon, delta, rho, rho_delta, Some(releases), Some(dearest)])
    })
}

/// Sums as a JSON array of pairs: the names of unit domains, and numbers.
fn text<'a, const N: usize>(
    sums: impl Iterator<Item = (&'a Vec<String>, [Option<i64>; N])>,
) -> String {
    let sum = |(unit_domains, numbers): (&Vec<String>, [Option<i64>; N])| {
        let (unit_domains, numbers) = (unit_domains.clone().into(), numbers.to_vec().into());
        serde_json::Value::Array(vec![unit_domains, numbers])
    };
    serde_json::Value::Array(sums.map(sum).collect()).to_string()
}

/// The inverse of [`text`] of [`all`]; `None` for any other text.
fn sums_of(text: &str) -> Option<Sums> {
    let sums: Vec<(Vec<String>, [Option<i64>; 6])> = serde_json::from_str(text).ok()?;
    let sum = |(unit_domains, numbers): (Vec<String>, [Option<i64>; 6])| {
        let [epsilon, delta, rho, rho_delta, releases, dearest] = numbers;
        let cost = Cost::from_amounts(epsilon.zip(delta), (rho?, rho_delta?));
        let tally = Tally { releases: releases?, dearest: dearest? };
        Some((unit_domains, Sum { cost, tally }))
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
                Sum {
                    cost: Cost::from_amounts(Some((i64::MAX, 0)), (1, i64::MAX)),
                    tally: Tally { releases: 3, dearest: i64::MAX },
                },
            ),
            (
                vec!["rho".to_owned()],
                Sum { cost: Cost::from_amounts(None, (2, 3)), tally: Tally::default() },
            ),
        ]
        .into();
        assert_eq!(sums_of(&text(all(&spent))), Some(spent));
        assert_eq!(sums_of(&text(all(&Sums::new()))), Some(Sums::new()));
        for other in [
            "",
            "{}",
            "[[[\"a\"],[1,2]]]",
            "[[[\"a\"],[1,2,3,4]]]",
            "[[[\"a\"],[1,2,null,4,5,6]]]",
            "[[[\"a\"],[1,2,3,4,null,6]]]",
            "[[[\"a\"],[1.5,2,3,4,5,6]]]",
        ] {
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
