//! Checkpoints: the sums of the ledger at every 256th entry, so that a vault opens without reading
//! all entries.
//!
//! In: the sum and the number of entries of each analyst for each set of unit domains and each
//! cell, and the chain's hash, after every 256 entries. Out: the same values, when the vault is
//! opened. A checkpoint is written in the transaction of its entry and never changed. Its digest
//! covers all of its content, so reading it detects damage. If a checkpoint is missing or damaged,
//! the vault refuses to open; there is no fallback. Following the chain past a checkpoint compares
//! it with the sums of the entries. Like the chain, a checkpoint detects damage but not forgery.
//!
//! ```text
//! entries 1 … 256 │ 257 … 512 │ 513 … 600
//!             checkpoint 256    checkpoint 512: chain(512), [[["adult"], "lab"], [ε, δ, ρ, its δ, entries, largest ε]], digest
//!                               opening reads this and entries 513 … 600; `hushql check` reads all
//! ```

use hushql_privacy::privacy::{Cost, Tally};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::catalog::Cell;
use crate::catalog::store::Fields;
use crate::ledger::error::Fault;
use crate::ledger::records::sums::{EntrySum, SumOwner, Sums};

/// The number of entries between two checkpoints.
pub(crate) const EVERY: i64 = 256;

/// The table of checkpoints.
const SCHEMA: &str = "
CREATE TABLE checkpoint (
    sequence INTEGER PRIMARY KEY NOT NULL CHECK (sequence > 0 AND sequence % 256 = 0),
    chain BLOB NOT NULL CHECK (length(chain) = 32),
    sums TEXT NOT NULL,
    cells TEXT NOT NULL,
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

/// True if the entry with this number has a checkpoint.
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
        let mut statement = connection.prepare_cached(
            "SELECT chain, sums, cells, digest FROM checkpoint WHERE sequence = ?1",
        )?;
        let row = statement.query_row([sequence], |row| {
            let texts: (String, String) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, texts, row.get::<_, [u8; 32]>(3)?))
        });
        let (chain, (wide, narrow), digest) = row.optional()?.ok_or_else(damage)?;
        let spent = sums_of(&wide, &narrow).ok_or_else(damage)?;
        let checkpoint = Self { sequence, chain, spent };
        if checkpoint.digest() == digest { Ok(checkpoint) } else { Err(damage()) }
    }

    /// Stores the checkpoint. The caller holds the transaction in which its entry was appended.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), Fault> {
        connection
            .prepare_cached(
                "INSERT INTO checkpoint (sequence, chain, sums, cells, digest)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                self.sequence,
                self.chain,
                wide_text(&self.spent),
                narrow_text(&self.spent),
                self.digest()
            ])?;
        Ok(())
    }

    /// Compares the checkpoint with the stored one.
    ///
    /// # Guarantee
    /// `Ok` only if the stored checkpoint of this number has this hash and exactly these sums.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), Fault> {
        if Self::read(connection, self.sequence)? == *self { Ok(()) } else { Err(damage()) }
    }

    fn digest(&self) -> [u8; 32] {
        let mut fields = Fields::new("hushql checkpoint 1");
        fields.integer(self.sequence);
        fields.bytes(&self.chain);
        for ((unit_domains, analyst), sum) in &self.spent.wide {
            names_into(&mut fields, unit_domains);
            fields.text(analyst);
            all(sum).into_iter().for_each(|number| fields.optional(number));
        }
        fields.text(&self.spent.wide.len().to_string());
        for (((unit_domains, analyst), since), cells) in &self.spent.narrow {
            names_into(&mut fields, unit_domains);
            fields.text(analyst);
            fields.integer(*since);
            fields.text(&cells.len().to_string());
            for (cell, sum) in cells {
                fields.text(if cell.stored().is_some() { "cell" } else { "other" });
                fields.text(cell.stored().unwrap_or_default());
                all(sum).into_iter().for_each(|number| fields.optional(number));
            }
        }
        fields.digest()
    }
}

fn names_into(fields: &mut Fields, unit_domains: &[String]) {
    fields.text(&unit_domains.len().to_string());
    unit_domains.iter().for_each(|unit_domain| fields.text(unit_domain));
}

fn damage() -> Fault {
    Fault::Damage("a checkpoint of its ledger is missing or damaged".to_owned())
}

/// The numbers of a sum: four amounts, the number of entries, and the largest ε of an entry.
fn all(sum: &EntrySum) -> [Option<i64>; 6] {
    let [epsilon, delta, rho, rho_delta] = sum.cost.amounts();
    let Tally { releases, dearest } = sum.tally;
    [epsilon, delta, rho, rho_delta, Some(releases), Some(dearest)]
}

/// Sums as a JSON array of pairs: the owner of a sum, and its numbers.
fn text<W: Serialize>(sums: impl Iterator<Item = (W, Vec<Option<i64>>)>) -> String {
    // Texts and numbers always serialize, but the type requires a value.
    serde_json::to_string(&sums.collect::<Vec<_>>()).unwrap_or_default()
}

/// The inverse of [`wide_text`] and [`narrow_text`]; `None` for any other texts.
fn sums_of(wide: &str, narrow: &str) -> Option<Sums> {
    type Stored = (SumOwner, i64, Option<String>);
    let wide: Vec<(SumOwner, [Option<i64>; 6])> = serde_json::from_str(wide).ok()?;
    let narrow: Vec<(Stored, [Option<i64>; 6])> = serde_json::from_str(narrow).ok()?;
    let mut sums = Sums::default();
    for (asked, numbers) in wide {
        sums.wide.insert(asked, sum_of(numbers)?);
    }
    for ((asked, since, cell), numbers) in narrow {
        let cells = sums.narrow.entry((asked, since)).or_default();
        cells.insert(Cell::read(cell), sum_of(numbers)?);
    }
    Some(sums)
}

fn sum_of(numbers: [Option<i64>; 6]) -> Option<EntrySum> {
    let [epsilon, delta, rho, rho_delta, releases, dearest] = numbers;
    let cost = Cost::from_amounts(epsilon.zip(delta), (rho?, rho_delta?));
    Some(EntrySum { cost, tally: Tally { releases: releases?, dearest: dearest? } })
}

/// The text of the sums for all cells.
fn wide_text(spent: &Sums) -> String {
    text(spent.wide.iter().map(|(asked, sum)| (asked, all(sum).to_vec())))
}

/// The text of the sums for single cells.
fn narrow_text(spent: &Sums) -> String {
    let sums = spent.narrow.iter().flat_map(|((asked, since), cells)| {
        cells.iter().map(move |(cell, sum)| ((asked, since, cell.stored()), all(sum).to_vec()))
    });
    text(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written() {
        let wide = [
            (
                (vec!["a \"quoted\" name".to_owned(), "b".to_owned()], "lab".to_owned()),
                EntrySum {
                    cost: Cost::from_amounts(Some((i64::MAX, 0)), (1, i64::MAX)),
                    tally: Tally { releases: 3, dearest: i64::MAX },
                },
            ),
            (
                (vec!["rho".to_owned()], "co-owner".to_owned()),
                EntrySum { cost: Cost::from_amounts(None, (2, 3)), tally: Tally::default() },
            ),
        ];
        let cells = [(Cell::Value("Oslo".to_owned()), wide[0].1), (Cell::Other, wide[1].1)];
        let narrow = [((wide[1].0.clone(), 7), cells.into())].into();
        let spent = Sums { wide: wide.into(), narrow };
        assert_eq!(sums_of(&wide_text(&spent), &narrow_text(&spent)), Some(spent));
        assert_eq!(sums_of("[]", "[]"), Some(Sums::default()));
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
            assert_eq!(sums_of(other, "[]"), None, "{other}");
            assert_eq!(sums_of("[]", other), None, "{other}");
        }
    }

    #[test]
    fn a_checkpoint_is_due_at_every_256th_entry() {
        let due: Vec<i64> = (1..=600).filter(|sequence| is_due(*sequence)).collect();
        assert_eq!(due, [256, 512]);
        assert_eq!([0, 1, 255, 256, 257, 600].map(before), [0, 0, 0, 256, 256, 512]);
    }
}
