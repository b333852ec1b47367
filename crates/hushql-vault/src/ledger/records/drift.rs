//! Notes of tables whose files did not fit their declaration when a charged statement read them.
//!
//! In: the failed statement, and its tables. Out: a free ledger entry (`DRIFT`) for each table,
//! with the digest of the table's name and the version of its declaration (see `catalog::numbers`).
//! The failure of a charged statement is public, so a refusal that follows from such an entry
//! reveals nothing more. A later declaration of the table has another version, and no entry.
//!
//! An analyst adds at most one entry for each version of a table, and only after a charge, so
//! entries do not fill the disk.
//!
//! ```text
//! entry 17  LAPLACE  eps=1          the charge, whose statement failed
//! entry 18  DRIFT    table=visits   digest(visits, version 4)
//! ```

use rusqlite::{Connection, params};

use crate::catalog::store::Fields;
use crate::catalog::{Catalog, Replay, Source, Table, Unit, quoted};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::answers;
use crate::ledger::records::chain::Witness;

/// The mechanism of an entry that notes a table whose files do not fit.
pub(crate) const DRIFT: &str = "DRIFT";

/// The index of the notes.
pub(crate) const SCHEMA: &str = "
CREATE INDEX ledger_drifts ON ledger (plan_hash, analyst) WHERE mechanism = 'DRIFT';
";

/// Refuses a statement that would read a table on which a charged statement failed since the table
/// was declared. An analyst learns only of failures that they may know about: under REPLAY OWN or
/// OFF, those of their own statements.
///
/// # Guarantee
/// It depends on declarations and notes alone. A charge calls it in its own transaction, so it sees
/// every note that precedes the charge.
pub(crate) fn check<'a>(
    connection: &Connection,
    tables: impl IntoIterator<Item = &'a String>,
    analyst: &str,
    catalog: &Catalog,
) -> Result<(), Fault> {
    for name in tables {
        let Some(table) = catalog.table(name).filter(|table| !table.is_public()) else { continue };
        let budgets = catalog.unit_domain(name).into_iter().flat_map(|d| catalog.budgets_of(d));
        let strictest = budgets.map(|budget| budget.replay).reduce(Replay::strictest);
        let of = match strictest.unwrap_or(Replay::Off) {
            Replay::All => None,
            Replay::Own | Replay::Off => Some(analyst),
        };
        if is_noted(connection, (name, catalog.numbers().of(name)), of)? {
            return Err(VaultError::Drifted { table: name.clone(), write: again(table) }.into());
        }
    }
    Ok(())
}

/// What to do about a table on which a charged statement failed. It depends on the declaration
/// alone.
fn again(table: &Table) -> String {
    let name = quoted(&table.name);
    let unit = table.unit().map_or(String::new(), Unit::declaration);
    let declare = format!("ALTER TABLE {name} SET PRIVACY UNIT {unit}");
    let refresh = format!("ALTER TABLE {name} REFRESH");
    match &table.source {
        // A refresh takes the newest version of a log.
        source if source.version().is_some() => {
            format!(
                "ask the owner to declare them again: {refresh} takes the newest version, or to put back the files that were declared, and then {declare}"
            )
        }
        // A refresh accepts no other files than the verified ones.
        Source::File { fingerprint: Some(_), .. } => format!(
            "ask the owner to declare them again: {declare}, or to put back the files that were declared, and then {refresh}"
        ),
        Source::File { fingerprint: None, .. }
        | Source::Postgres { .. }
        | Source::Registered
        | Source::Released { .. } => {
            format!("ask the owner to declare them again: {refresh}, or {declare}")
        }
    }
}

/// True if a statement failed on this version of a table: a statement of one analyst, whose role
/// was not dropped since, or of any analyst.
fn is_noted(
    connection: &Connection,
    (table, version): (&str, i64),
    of: Option<&str>,
) -> Result<bool, Fault> {
    let since = of.map_or(Ok(0), |analyst| answers::since(connection, analyst))?;
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM ledger
         WHERE mechanism = 'DRIFT' AND plan_hash = ?1 AND (?2 IS NULL OR analyst = ?2) AND sequence > ?3",
    )?;
    Ok(statement.exists(params![digest(table, version), of, since])?)
}

/// Notes that a charged statement of an analyst failed on this version of a table, unless the
/// analyst already has a note. The caller holds the write lock and has followed the chain.
pub(crate) fn note(
    connection: &Connection,
    witness: &mut Witness,
    (table, version): (&str, i64),
    analyst: &str,
    statement: &str,
) -> Result<(), Fault> {
    if is_noted(connection, (table, version), Some(analyst))? {
        return Ok(());
    }
    let about = (DRIFT, format!("table={table}"));
    let entry = answers::entry(connection, about, analyst, statement, digest(table, version))?;
    witness.append(connection, vec![entry])?;
    Ok(())
}

fn digest(table: &str, version: i64) -> [u8; 32] {
    let mut fields = Fields::new("hushql drift 1");
    fields.text(table);
    fields.integer(version);
    fields.digest()
}
