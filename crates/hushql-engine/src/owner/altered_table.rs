//! Writes a changed declaration of one table.
//!
//! In: the catalog that a declaration was checked against, and the change. Out: nothing, or an
//! error if another declaration came in between.

use crate::catalog::{Catalog, Table};
use crate::error::Error;
use crate::instance::Inner;
use crate::instance::table_names::known;

/// Writes a change of a table's declaration that was checked against this state of the catalog.
pub(super) fn alter(
    inner: &Inner,
    catalog: &Catalog,
    table: &str,
    change: impl FnOnce(&mut Table),
) -> Result<(), Error> {
    let mut changed = known(catalog, table)?.clone();
    change(&mut changed);
    Ok(inner.vault.alter_tables(catalog, &[changed])?)
}
