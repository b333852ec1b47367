//! Strict tables, whose declarations refuse files that are not read as declared.
//!
//! In: `ALTER TABLE t SET STRICT`, or a declaration that reads the rows of a table. Out: what is
//! not read, for the owner's answer, or a refusal with the first line or cell of each kind.
//! Strictness is an option of the table's files. It is checked by declarations alone: in a query, a
//! cell that cannot be read is NULL, because a query that fails on a person's cell would reveal it.
//!
//! ```text
//! n BIGINT: 5, A7        ALTER TABLE t SET STRICT: refused, with `A7` in line 3
//! ```

use crate::catalog::{Source, Table, quoted};
use crate::error::Error;
use crate::exec::source as files;
use crate::exec::source::OpenFiles;
use crate::instance::Inner;
use crate::instance::table_names::known;

/// What the files of a table do not hold as declared: for a strict table, and where a declaration
/// reads its rows. This may block.
///
/// # Errors
/// [`Error::Catalog`] for a strict table of which something is not read.
pub(super) fn unread(
    table: &Table,
    open: &OpenFiles,
    reads_rows: bool,
) -> Result<files::Unread, Error> {
    match (is_strict(table), reads_rows) {
        (true, _) => {
            let name = quoted(&table.name);
            let otherwise = format!("ALTER TABLE {name} DROP STRICT makes NULL of such cells");
            files::Unread::of_strict(table, open, ("is STRICT", &otherwise))
        }
        (false, true) => Ok(files::Unread::of(table, open)),
        (false, false) => Ok(files::Unread::default()),
    }
}

/// Checks the files of a table that is to be created, if it is strict. This may block.
///
/// # Errors
/// [`Error::Catalog`] for a strict table of which something is not read.
pub(super) fn check_new(table: &Table, open: &OpenFiles) -> Result<(), Error> {
    if is_strict(table) {
        let otherwise = "without the option `strict`, such cells are NULL";
        files::Unread::of_strict(table, open, ("shall be STRICT", otherwise))?;
    }
    Ok(())
}

fn is_strict(table: &Table) -> bool {
    matches!(&table.source, Source::File { options, .. } if files::is_strict(options))
}

/// Makes a table strict, if all of its files are read as declared, or ends that.
///
/// # Errors
/// [`Error::Catalog`] for a table without files, with the first line or cells that are not read,
/// and for files that change meanwhile.
pub(super) fn set(inner: &Inner, name: &str, strict: bool) -> Result<String, Error> {
    let catalog = inner.vault.catalog()?;
    let entry = known(&catalog, name)?;
    let mut changed = entry.clone();
    if let Source::File { options, .. } = &mut changed.source {
        files::set_strict(options, strict);
    }
    if strict {
        let open = inner.open_files();
        open.check_as_owner(entry)?;
        let dropped = format!("ALTER TABLE {} DROP STRICT makes NULL of such cells", quoted(name));
        let instead = match is_strict(entry) {
            true => ("is STRICT", dropped.as_str()),
            false => ("shall be STRICT", "the table stays as it was, and such cells are NULL"),
        };
        files::Unread::of_strict(&changed, &open, instead)?;
        if !open.is_unchanged() {
            return Err(Error::catalog(format!(
                "the files of {name} changed while they were read; run the statement again"
            )));
        }
    }
    inner.vault.alter_tables(&catalog, &[changed])?;
    Ok(match strict {
        true => format!(
            "table {name} is strict: each cell is read as declared, and declarations refuse files of which one is not; in a query, such a cell is NULL"
        ),
        false => format!("table {name} is not strict: a cell that is not read as declared is NULL"),
    })
}
