//! Export folders: the folders into which the answers of analysts may be written.
//!
//! In: a folder that an owner names. Out: its declaration, if the folder contains nothing that
//! HushQL reads or keeps. Otherwise an analyst who can write there could put rows into a table, or
//! a journal beside the vault.
//!
//! ```text
//! /srv/out, tables in /srv/data          →   answers of lab may be written into /srv/out
//! /srv, tables in /srv/data              →   refused: the file of visits is in it
//! ```

use std::path::Path;
use std::{fs, io};

use crate::catalog::{Catalog, Source};
use crate::error::Error;
use crate::exec::target::folder::TargetFolder;
use crate::instance::Inner;

/// Declares or drops the export folder of an analyst.
///
/// # Errors
/// [`Error::Catalog`] for a folder that does not exist, or that overlaps with what HushQL reads and
/// keeps. Also the vault's own errors.
pub(super) fn set(inner: &Inner, analyst: &str, folder: Option<&str>) -> Result<String, Error> {
    let Some(folder) = folder else {
        inner.vault.set_export(analyst, None)?;
        return Ok(format!("answers of {analyst} are written into no folder"));
    };
    let cannot = |e| Error::catalog_from(format!("there is no folder `{folder}`"), e);
    let path = fs::canonicalize(folder).map_err(cannot)?;
    let shown =
        path.to_str().ok_or_else(|| Error::catalog("the path of a folder is valid UTF-8"))?;
    let opened = TargetFolder::open(&path).map_err(cannot)?;
    let found = overlap(inner, &*inner.vault.catalog()?, &opened, &path).map_err(cannot)?;
    if let Some(found) = found {
        return Err(Error::catalog(format!(
            "`{folder}` cannot be an export folder: {found}. Choose a folder that holds nothing else"
        )));
    }
    inner.vault.set_export(analyst, Some(shown))?;
    Ok(format!("answers of {analyst} may be written into {shown}: COPY (query) TO 'file.csv'"))
}

/// The file or folder of HushQL that overlaps with a folder, as the reason why answers must not be
/// written into it. `None` if nothing overlaps.
///
/// # Errors
/// Errors of the file system. A path that cannot be examined may overlap.
pub(crate) fn overlap(
    inner: &Inner,
    catalog: &Catalog,
    folder: &TargetFolder,
    path: &Path,
) -> io::Result<Option<String>> {
    for table in catalog.tables() {
        if overlaps(folder, path, &table.source)? {
            let name = &table.name;
            return Ok(Some(match &table.source {
                Source::File { files: Some(_), .. } => {
                    format!("it overlaps with the folder of the table {name}")
                }
                Source::File { files: None, .. }
                | Source::Postgres { .. }
                | Source::Registered
                | Source::Released { .. } => {
                    format!("the file of the table {name} is in it")
                }
            }));
        }
    }
    let vault = inner.vault.path();
    if vault != ":memory:" && folder.contains(Path::new(vault))? {
        return Ok(Some("the vault is in it".to_owned()));
    }
    if let Some(anchor) = inner.vault.anchor()
        && folder.contains(&anchor)?
    {
        return Ok(Some("the vault's anchor is in it".to_owned()));
    }
    if let Some(spill) = &inner.resources.spill {
        let spill = fs::canonicalize(spill)?;
        if folder.contains(&spill)? || TargetFolder::open(&spill)?.contains(path)? {
            return Ok(Some("it overlaps with the folder to spill to".to_owned()));
        }
    }
    Ok(None)
}

/// True if the files of a table may be in a folder, or the folder among them. A file that is
/// written there would add rows to the table.
fn overlaps(folder: &TargetFolder, path: &Path, source: &Source) -> io::Result<bool> {
    match source {
        Source::Postgres { .. } | Source::Registered | Source::Released { .. } => Ok(false),
        remote if remote.is_remote() => Ok(false),
        Source::File { location, files: None, .. } => folder.contains(Path::new(location)),
        Source::File { location, files: Some(_), .. } => {
            let table = Path::new(location);
            Ok(folder.contains(table)?
                || match TargetFolder::open(table) {
                    Ok(table) => table.contains(path)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                    Err(error) => return Err(error),
                })
        }
    }
}

/// Refuses to declare a file as a table if an analyst may write it into an export folder.
///
/// # Errors
/// [`Error::Catalog`] with the analyst's name.
pub(super) fn not_in_one(catalog: &Catalog, source: &Source) -> Result<(), Error> {
    for export in catalog.exports() {
        // Nothing is written into a folder that cannot be opened.
        let path = Path::new(&export.export_folder);
        let Ok(folder) = TargetFolder::open(path) else { continue };
        if overlaps(&folder, path, source).unwrap_or(true) {
            let what = match source {
                Source::File { files: Some(_), .. } => "the folder of the files overlaps with",
                Source::File { files: None, .. }
                | Source::Postgres { .. }
                | Source::Registered
                | Source::Released { .. } => "the file is in",
            };
            return Err(Error::catalog(format!(
                "{what} the export folder of {0}, who could exchange it: move it, or write ALTER VAULT DROP EXPORT FOLDER FOR \"{0}\"",
                export.analyst
            )));
        }
    }
    Ok(())
}
