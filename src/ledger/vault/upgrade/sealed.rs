//! Checks the seal of the budgets of an older format, which had other columns than the present one.
//!
//! In: the columns that the format sealed, in order, and whether it had slices. Out: nothing, if the rows match the seal.

use rusqlite::Connection;

use crate::catalog::store::{self, Fields, Kind};
use crate::ledger::error::Fault;

/// Whether the budgets of a format have slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slices {
    /// They have none.
    Unknown,
    /// Those of each budget are sealed with it.
    Sealed,
}

/// Checks budgets against their seal: columns of text, then columns of amounts, then the slices.
///
/// # Errors
/// [`Fault::Damage`] if they are not as declared.
pub(super) fn check_budgets(
    connection: &Connection,
    format: &str,
    texts: &[&str],
    amounts: &str,
    slices: Slices,
) -> Result<(), Fault> {
    let mut sealed = Fields::new(format);
    let columns = texts.join(", ");
    let mut statement =
        connection.prepare(&format!("SELECT {columns}, {amounts} FROM budget ORDER BY name"))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get("name")?;
        for text in 0..texts.len() {
            sealed.text(&row.get::<_, String>(text)?);
        }
        for amount in texts.len()..columns {
            sealed.optional(row.get(amount)?);
        }
        match slices {
            Slices::Unknown => {}
            Slices::Sealed => slices_into(&mut sealed, connection, &name)?,
        }
    }
    Ok(store::check_seal(connection, Kind::Budgets, sealed.digest())?)
}

/// Adds the slices of one budget: how many, then each with its limit.
fn slices_into(sealed: &mut Fields, connection: &Connection, budget: &str) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT analyst, limit_loss, limit_delta FROM slice WHERE budget = ?1 ORDER BY analyst",
    )?;
    let slices = statement.query_map([budget], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    let slices: Vec<(String, i64, i64)> = slices.collect::<Result<_, _>>()?;
    sealed.text(&slices.len().to_string());
    for (analyst, loss, delta) in &slices {
        sealed.text(analyst);
        sealed.integer(*loss);
        sealed.integer(*delta);
    }
    Ok(())
}
