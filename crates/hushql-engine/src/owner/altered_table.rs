//! Writes a changed declaration of one table.
//!
//! In: the catalog that a declaration was checked against, and the change. Out: nothing, or an
//! error if another declaration came in between.

use crate::catalog::{Catalog, Source, Table};
use crate::error::Error;
use crate::exec::source::{self as files, OpenFiles};
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

/// Whether the file of a table has only grown since it was declared, or its folder has.
pub(super) fn has_grown(open: &OpenFiles, catalog: &Catalog, now: &Table) -> Result<bool, Error> {
    Ok(match &now.source {
        Source::File { fingerprint: Some(held), .. } => {
            let before = &known(catalog, &now.name)?.source;
            files::has_grown(before, held) || files::folder_has_grown(open, before, held)
        }
        Source::File { fingerprint: None, .. }
        | Source::Postgres { .. }
        | Source::Registered
        | Source::Released { .. } => false,
    })
}
