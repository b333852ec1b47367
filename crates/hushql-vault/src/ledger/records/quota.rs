//! Limits what one analyst can add to the ledger on one day.
//!
//! In: the ledger. Out: a refusal for an analyst who has added enough today. Entries are never
//! deleted, and a release may cost a billionth. Without a limit, a small part of a budget could
//! fill the disk, and then no one would get answers.

use rusqlite::{Connection, OptionalExtension, params};

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst::OWNER;
use crate::ledger::records::chain::Witness;
use crate::ledger::records::time;

/// The largest number of entries of one analyst on one day (UTC), before the last charge of the
/// day.
const MOST_A_DAY: i64 = 100_000;

/// Refuses an analyst who has this many entries today. The owner may add any number.
///
/// # Errors
/// [`VaultError::EnoughToday`].
pub(crate) fn check(
    connection: &Connection,
    witness: &Witness,
    analyst: &str,
) -> Result<(), Fault> {
    check_within(connection, witness, analyst, MOST_A_DAY)
}

fn check_within(
    connection: &Connection,
    witness: &Witness,
    analyst: &str,
    most: i64,
) -> Result<(), Fault> {
    let today = time::today()?;
    let is_of_today = |at: Option<i64>| at.is_some_and(|at| at >= today);
    // If the ledger has fewer entries of today than this in all, no analyst has this many.
    let mut of_all = connection.prepare_cached("SELECT at FROM ledger WHERE sequence = ?1")?;
    let back = witness.mark().sequence.saturating_sub(most).saturating_add(1);
    let found: Option<i64> = of_all.query_row([back], |row| row.get(0)).optional()?;
    if analyst == OWNER || !is_of_today(found) {
        return Ok(());
    }
    let mut own = connection.prepare_cached(
        "SELECT at FROM ledger WHERE analyst = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2",
    )?;
    let found: Option<i64> =
        own.query_row(params![analyst, most.saturating_sub(1)], |row| row.get(0)).optional()?;
    match is_of_today(found) {
        true => Err(VaultError::EnoughToday { most }.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::vault::Vault;

    #[test]
    fn each_analyst_has_a_quota_and_the_owner_has_none() {
        let vault = Vault::in_memory().unwrap();
        for (analyst, number) in [("lab", 3), ("eve", 2), (OWNER, 4)] {
            for _ in 0..number {
                vault
                    .write(|connection, witness| {
                        let about = ("NOTE", String::new());
                        crate::ledger::records::analyst::add(connection, analyst)?;
                        let entry = crate::ledger::records::answers::entry(
                            connection, about, analyst, "x", [0; 32],
                        )?;
                        witness.append(connection, vec![entry])
                    })
                    .unwrap();
            }
        }
        let may = |analyst: &str, most: i64| {
            vault
                .read(|connection, witness| check_within(connection, witness, analyst, most))
                .map_err(|error| error.to_string())
        };
        assert!(may("lab", 3).unwrap_err().contains("3 entries"));
        assert!(may("lab", 4).is_ok() && may("eve", 3).is_ok() && may(OWNER, 2).is_ok());
        assert!(may("eve", 2).is_err() && may("new", 1).is_ok());
    }
}
