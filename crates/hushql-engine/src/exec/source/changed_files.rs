//! The refusals of files that differ from their declaration.
//!
//! In: a table, and what is wrong with its files. Out: a sentence, and what its owner writes. Only
//! sentences for the owner name a file of a folder.
//!
//! ```text
//! the files of visits differ from its declared columns      the owner puts files with the columns of visits in their place, or …
//! ```

use super::managed_files::TableFormat;
use super::open_files::OpenFile;
use super::sqlite_table::Trouble;
use crate::catalog::{FileFormat, Source, Table, Unit, quoted};
use crate::error::Error;
use crate::refusal::{Reason, Refusal};

pub(super) fn changed(table: &Table, what: &str, write: String) -> Error {
    let message = format!("the file of {} {what}", table.name);
    Refusal::new(Reason::ChangedFile, &table.name, message, write).into()
}

/// The refusal of a single file that cannot be read.
pub(super) fn unread_file(table: &Table, what: &str) -> Error {
    changed(table, what, "the owner puts the file back where it was".to_owned())
}

/// The refusal of a single file that does not fit its table.
pub(super) fn remade(table: &Table, what: &str) -> Error {
    let write = format!(
        "the owner puts a file with the columns of {} in its place, or declares it under a new name",
        table.name
    );
    changed(table, what, write)
}

/// The refusal of a table with several files; names no file.
pub(super) fn changed_files(table: &Table, what: &str, write: String) -> Error {
    let message = format!("the files of {} {what}", table.name);
    Refusal::new(Reason::ChangedFile, &table.name, message, write).into()
}

/// The message for a file with other bytes than those that were declared.
pub(super) const CHANGED: &str = "was changed since its rows were declared";

/// The same for several files.
pub(super) const SET_CHANGED: &str = "were changed since MAX ROWS or UNIQUE was verified on them";

/// The message for files that no longer fit their table.
pub(super) const DIFFER: &str = "differ from its declared columns";

pub(super) fn unread_files(table: &Table) -> Error {
    let write = match table.source.version() {
        Some(_) => back_or_newest(table),
        None => "the owner puts the files back where they were".to_owned(),
    };
    changed_files(table, "cannot be read", write)
}

/// The refusal of files that are not those of the declared version of a table of Delta Lake.
pub(super) fn other_version(table: &Table, number: u64) -> Error {
    let what = format!("are not those of its version {number}, which was declared");
    changed_files(table, &what, back_or_newest(table))
}

fn back_or_newest(table: &Table) -> String {
    let name = quoted(&table.name);
    format!(
        "the owner puts the files back where they were, or takes the newest version: ALTER TABLE {name} REFRESH"
    )
}

/// What is wrong with an SQLite file, for everyone.
pub(super) fn unread_table(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Unsaved => "has changes beside it that are not yet in it",
        Trouble::NoTable | Trouble::NotATable => "no longer has the declared table",
        Trouble::NoDatabase | Trouble::Vault | Trouble::Damaged => "is no longer in its format",
        Trouble::Replaced | Trouble::Failed => "cannot be read",
    }
}

pub(super) fn in_their_place(table: &Table) -> String {
    let name = &table.name;
    format!(
        "the owner puts files with the columns of {name} in their place, or declares {name} anew"
    )
}

/// The owner's message for a file that no longer fits its table.
fn drifted(table: &Table, file: &str, other: &str) -> Error {
    let what = format!("{DIFFER}: {file} has {other}");
    changed_files(table, &what, in_their_place(table))
}

/// The refusal of files that belong to a table of another format.
pub(super) fn managed(table: &Table, by: TableFormat) -> Error {
    let write = format!("the owner declares other files: {}", by.remedy());
    match &table.source {
        Source::File { files: None, .. } => changed(table, &format!("is {}", by.finding()), write),
        Source::File { files: Some(_), .. }
        | Source::Postgres { .. }
        | Source::Registered
        | Source::Released { .. } => changed_files(table, &format!("are {}", by.finding()), write),
    }
}

/// What an owner writes after files changed.
pub(super) fn verified_again(table: &Table) -> String {
    let unit = table.unit().map_or(String::new(), Unit::declaration);
    let name = quoted(&table.name);
    format!("the owner verifies it again: ALTER TABLE {name} SET PRIVACY UNIT {unit}")
}

/// What an owner writes after a single file changed.
pub(super) fn declared_again(table: &Table) -> String {
    let name = quoted(&table.name);
    let refresh = format!("the owner declares its present rows: ALTER TABLE {name} REFRESH");
    // A bound must be verified for each content.
    if table.unit().is_some_and(Unit::is_bounded) {
        return refresh;
    }
    format!(
        "{refresh}; a file that changes often is declared with OPTIONS ('content_hash' 'false')"
    )
}

/// How the files of a table do not fit its declaration. Only the owner may see it.
pub(super) enum Misfit {
    /// The first file with other columns, and what differs.
    Columns { file: String, other: String },
    /// The files belong to a table of another format.
    Managed(TableFormat),
}

impl Misfit {
    /// The refusal for the owner.
    pub(super) fn told(&self, table: &Table) -> Error {
        match self {
            Self::Columns { file, other } => drifted(table, file, other),
            Self::Managed(by) => managed(table, *by),
        }
    }
}

/// What differs in a file with another format.
///
/// # Errors
/// A refusal that names no file, if its bytes cannot be read, or changed meanwhile.
pub(super) fn other_format(
    held: &OpenFile,
    format: FileFormat,
    table: &Table,
) -> Result<String, Error> {
    match held.is_readable() && held.is_untouched() {
        true => Ok(format!("another format than {format}")),
        false => Err(unread_files(table)),
    }
}
