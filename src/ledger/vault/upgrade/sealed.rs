//! Checks the seal of the budgets of an older format, which had other columns than the present one.
//!
//! In: the columns that the format sealed, in order. Out: nothing, if the rows match the seal.

use rusqlite::Connection;

use crate::catalog::store::{self, Fields, Kind};
use crate::ledger::error::Fault;

/// Checks budgets against their seal: columns of text, then columns of amounts.
///
/// # Errors
/// [`Fault::Damage`] if they are not as declared.
pub(super) fn check_budgets(
    connection: &Connection,
    format: &str,
    texts: &[&str],
    amounts: &str,
) -> Result<(), Fault> {
    let mut sealed = Fields::new(format);
    let columns = texts.join(", ");
    let mut statement =
        connection.prepare(&format!("SELECT {columns}, {amounts} FROM budget ORDER BY name"))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for text in 0..texts.len() {
            sealed.text(&row.get::<_, String>(text)?);
        }
        for amount in texts.len()..columns {
            sealed.optional(row.get(amount)?);
        }
    }
    Ok(store::check_seal(connection, Kind::Budgets, sealed.digest())?)
}
