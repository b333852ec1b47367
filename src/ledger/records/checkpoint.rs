//! Checkpoints: the sums of the ledger at every 256th entry, so that a vault opens without reading all entries.
//!
//! In: the sum and the number of entries of each analyst for each set of unit domains, and the chain's hash, after every 256 entries. Out: the
//! same, when the vault is opened. A checkpoint is written in the transaction of its entry and never changed. Its digest covers all of its
//! content, so that reading it detects damage. If a checkpoint is missing or damaged, the vault refuses to open; there is
//! no fallback. Following the chain past a checkpoint compares it with the sums of the entries.
//! Like the chain, a checkpoint detects damage but not forgery.
//!
//! ```text
//! entries 1 … 256 │ 257 … 512 │ 513 … 600
//!             checkpoint 256    checkpoint 512: chain(512), [[["adult"], "lab"], [ε, δ, ρ, its δ, entries, largest ε]], digest
//!                               opening reads this and entries 513 … 600; `hushql check` reads all
//! ```

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

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

/// Whose entries a sum has: the unit domains that they name, and the analyst who asked.
pub(crate) type Asked = (Vec<String>, String);

/// What each analyst was charged for each set of unit domains that an entry names.
pub(crate) type Sums = BTreeMap<Asked, Sum>;

/// The entries of one analyst for one set of unit domains.
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
        self.plus(Self { cost, tally: Tally::of(&cost) })
    }

    /// The sum of the entries of both.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    pub(crate) fn plus(self, other: Self) -> Result<Self, ParameterError> {
        Ok(Self { cost: self.cost.plus(other.cost)?, tally: self.tally.plus(other.tally)? })
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
            .execute(params![self.sequence, self.chain, text_of(&self.spent), self.digest()])?;
        Ok(())
    }

    /// Compares it with the stored one.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Fault> {
        if Self::read(connection, self.sequence)? == *self { Ok(()) } else { Err(damage()) }
    }

    /// Compares it with a stored one of an older format, which did not tell the analysts apart.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check_older(&self, connection: &Connection, format: Older) -> Result<(), Fault> {
        let mut statement = connection
            .prepare_cached("SELECT chain, sums, digest FROM checkpoint WHERE sequence = ?1")?;
        let row = statement.query_row([self.sequence], |row| {
            Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, String>(1)?, row.get::<_, [u8; 32]>(2)?))
        });
        let stored = row.optional()?.ok_or_else(damage)?;
        let sums = together(&self.spent)?;
        let numbers = |sum: &Sum| match format {
            Older::WithoutNumbers => sum.cost.amounts().to_vec(),
            Older::WithoutAnalysts => all(sum).to_vec(),
        };
        let text = text(sums.iter().map(|(names, sum)| (names, numbers(sum))));
        let mut fields = self.fields(match format {
            Older::WithoutNumbers => "hushql checkpoint 1",
            Older::WithoutAnalysts => "hushql checkpoint 2",
        });
        for (unit_domains, sum) in &sums {
            names_into(&mut fields, unit_domains);
            numbers(sum).into_iter().for_each(|number| fields.optional(number));
        }
        if stored == (self.chain, text, fields.digest()) { Ok(()) } else { Err(damage()) }
    }

    /// The beginning of a digest.
    fn fields(&self, format: &str) -> Fields {
        let mut fields = Fields::new(format);
        fields.integer(self.sequence);
        fields.bytes(&self.chain);
        fields
    }

    fn digest(&self) -> [u8; 32] {
        let mut fields = self.fields("hushql checkpoint 3");
        for ((unit_domains, analyst), sum) in &self.spent {
            names_into(&mut fields, unit_domains);
            fields.text(analyst);
            all(sum).into_iter().for_each(|number| fields.optional(number));
        }
        fields.digest()
    }
}

/// What the checkpoints of an older format lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    /// Formats 5 and 6: how many entries a sum is of, the largest ε of one of them, and the analysts.
    WithoutNumbers,
    /// Format 7: the analysts.
    WithoutAnalysts,
}

/// The sums of all analysts together, as older formats have them.
fn together(spent: &Sums) -> Result<BTreeMap<Vec<String>, Sum>, ParameterError> {
    let mut sums: BTreeMap<Vec<String>, Sum> = BTreeMap::new();
    for ((unit_domains, _), sum) in spent {
        let known = sums.get(unit_domains).copied().unwrap_or_default();
        sums.insert(unit_domains.clone(), known.plus(*sum)?);
    }
    Ok(sums)
}

fn names_into(fields: &mut Fields, unit_domains: &[String]) {
    fields.text(&unit_domains.len().to_string());
    unit_domains.iter().for_each(|unit_domain| fields.text(unit_domain));
}

fn damage() -> Fault {
    Fault::Damage("a checkpoint of its ledger is missing or damaged".to_owned())
}

/// The numbers of a sum: four amounts, how many entries they are of, and the largest ε of one of them.
fn all(sum: &Sum) -> [Option<i64>; 6] {
    let [epsilon, delta, rho, rho_delta] = sum.cost.amounts();
    let Tally { releases, dearest } = sum.tally;
    [epsilon, delta, rho, rho_delta, Some(releases), Some(dearest)]
}

/// Sums as a JSON array of pairs: whose they are, and numbers.
fn text<W: Serialize>(sums: impl Iterator<Item = (W, Vec<Option<i64>>)>) -> String {
    // Texts and numbers always serialize; the type requires a value.
    serde_json::to_string(&sums.collect::<Vec<_>>()).unwrap_or_default()
}

/// The inverse of [`text`] of the numbers of all sums; `None` for any other text.
fn sums_of(text: &str) -> Option<Sums> {
    let sums: Vec<(Asked, [Option<i64>; 6])> = serde_json::from_str(text).ok()?;
    let sum = |(asked, numbers): (Asked, [Option<i64>; 6])| {
        let [epsilon, delta, rho, rho_delta, releases, dearest] = numbers;
        let cost = Cost::from_amounts(epsilon.zip(delta), (rho?, rho_delta?));
        let tally = Tally { releases: releases?, dearest: dearest? };
        Some((asked, Sum { cost, tally }))
    };
    sums.into_iter().map(sum).collect()
}

/// The text of these sums.
fn text_of(spent: &Sums) -> String {
    text(spent.iter().map(|(asked, sum)| (asked, all(sum).to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written() {
        let spent: Sums = [
            (
                (vec!["a \"quoted\" name".to_owned(), "b".to_owned()], "lab".to_owned()),
                Sum {
                    cost: Cost::from_amounts(Some((i64::MAX, 0)), (1, i64::MAX)),
                    tally: Tally { releases: 3, dearest: i64::MAX },
                },
            ),
            (
                (vec!["rho".to_owned()], "co-owner".to_owned()),
                Sum { cost: Cost::from_amounts(None, (2, 3)), tally: Tally::default() },
            ),
        ]
        .into();
        assert_eq!(sums_of(&text_of(&spent)), Some(spent));
        assert_eq!(sums_of(&text_of(&Sums::new())), Some(Sums::new()));
        for other in [
            "",
            "{}",
            "[[[\"a\"],[1,2,3,4,5,6]]]",
            "[[[[\"a\"],\"lab\"],[1,2]]]",
            "[[[[\"a\"],\"lab\"],[1,2,3,4]]]",
            "[[[[\"a\"],\"lab\"],[1,2,null,4,5,6]]]",
            "[[[[\"a\"],\"lab\"],[1,2,3,4,null,6]]]",
            "[[[[\"a\"],\"lab\"],[1.5,2,3,4,5,6]]]",
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
