//! ALTER TABLE … SET PRIVACY FLOOR n: the fewest people behind a number that may be shown.
//!
//! In: a private table, and a floor. Out: one sentence, and the statement that declares the floor
//! again. No row is counted.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY FLOOR 10   →   numbers of fewer than 10 people of visits are NULL, …
//! ```

use super::amounts::floor_of;
use crate::catalog::{Catalog, PrivacyFloor, quoted};
use crate::dialect::FloorClause;
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;

/// Sets the floor of a table, or drops it.
///
/// # Errors
/// [`Error::Catalog`] if the table has no privacy unit.
pub(super) fn set(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    clause: Option<&FloorClause>,
) -> Result<String, Error> {
    let entry = known(catalog, table)?;
    let Some(clause) = clause else {
        inner.vault.set_floor(table, None)?;
        return Ok(format!("table {table} has no floor of people"));
    };
    if entry.unit().is_none() {
        let name = quoted(table);
        return Err(Error::catalog(format!(
            "table {table} has no privacy unit, so it is about nobody: write ALTER TABLE {name} SET PRIVACY UNIT (column) first"
        )));
    }
    let floor = floor_of(clause)?;
    inner.vault.set_floor(table, Some(floor))?;
    let PrivacyFloor { people, .. } = floor;
    Ok(format!(
        "numbers of fewer than {people} people of {table} are NULL, except with a probability of at most {}; unknown groups of fewer people are \
         hidden, except with the delta of the query",
        floor.beta_text()
    ))
}

/// The statement that declares this floor of a table.
pub(super) fn statement(table: &str, floor: Option<PrivacyFloor>) -> String {
    let name = quoted(table);
    match floor {
        Some(floor) => format!("ALTER TABLE {name} SET PRIVACY FLOOR {floor}"),
        None => format!("ALTER TABLE {name} DROP PRIVACY FLOOR"),
    }
}
