//! Answers that are written into files.
//!
//! In: a query, and the path that follows TO. Out: an answer of one row that names the file, with the receipt of the query. The
//! file is made before the query is charged; if the query fails, it is removed.
//!
//! An owner writes anywhere. An analyst writes into the export folder that the owner declared, by a plain name: nothing else can
//! be reached, overwritten or found out by it. The folder is looked at once more before each file, since tables may have been
//! declared since.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use crate::answer::{Answer, Head};
use crate::dialect::{CopyFormat, QueryStatement};
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::target::Target;
use crate::exec::target::folder::Folder;
use crate::owner::exports::overlap;
use crate::refusal::{Reason, Refusal};
use crate::resources::Clock;

impl Session {
    /// Answers a query into a file.
    pub(super) async fn copied(
        &self,
        query: QueryStatement,
        (path, format): (&str, CopyFormat),
        text: &str,
        clock: &Clock,
    ) -> Result<Answer, Error> {
        let target = match self.is_owner() {
            true => anywhere(path)?,
            false => self.in_export_folder(path)?,
        };
        let (head, batches) = self.answer(query, text, None, clock).await?.into_parts();
        let charged = if head.receipt.is_some() { ", and is charged" } else { "" };
        target.write(&head.schema, &batches, format).map_err(|error| {
            let message = format!("the answer could not be written to `{path}`{charged}");
            Error::catalog_from(message, error)
        })?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let columns: [(&str, ArrayRef); 2] = [
            ("file", Arc::new(StringArray::from(vec![path]))),
            ("rows", Arc::new(Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
        let head = Head {
            schema: batch.schema(),
            accuracy: Vec::new(),
            without_bound: Vec::new(),
            ..head
        };
        Ok(Answer::new(head, vec![(batch, vec![None; 2])]))
    }

    /// A new file in the analyst's export folder.
    fn in_export_folder(&self, name: &str) -> Result<Target, Error> {
        let catalog = self.inner.vault.catalog()?;
        let refuse = |why: &str, instead: &str| Refusal::new(Reason::Statement, name, why, instead);
        let Some(folder) = catalog.export_folder(&self.analyst) else {
            return Err(refuse(
                "no export folder is declared for this analyst",
                "the query without COPY; an owner writes ALTER VAULT SET EXPORT FOLDER '…' FOR analyst",
            )
            .into());
        };
        if !is_plain(name) {
            return Err(refuse(
                "an analyst writes into the export folder, and names the file alone: letters, digits, dots, hyphens, underscores",
                "COPY (query) TO 'answer.csv'",
            )
            .into());
        }
        let path = Path::new(folder);
        let unusable = || {
            Error::catalog(
                "the export folder cannot be used as it is: its owner has to declare it again",
            )
        };
        let opened = Folder::open(path).map_err(|_| unusable())?;
        match overlap(&self.inner, &catalog, &opened, path) {
            Ok(None) => Target::create(opened, name).map_err(|error| unmade(name, &error)),
            Ok(Some(_)) | Err(_) => Err(unusable()),
        }
    }
}

/// A new file of an owner.
fn anywhere(path: &str) -> Result<Target, Error> {
    let cannot = |e| Error::catalog_from(format!("`{path}` cannot be created"), e);
    let whole = std::path::absolute(path).map_err(cannot)?;
    let (folder, name) = (whole.parent(), whole.file_name().and_then(|name| name.to_str()));
    let (Some(folder), Some(name)) = (folder, name) else {
        return Err(cannot(io::ErrorKind::InvalidInput.into()));
    };
    let folder = fs::canonicalize(folder).and_then(|folder| Folder::open(&folder));
    Target::create(folder.map_err(cannot)?, name).map_err(|error| unmade(path, &error))
}

fn unmade(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::catalog(format!(
            "`{name}` exists already, and no file is overwritten: choose another name"
        )),
        _ => Error::catalog(format!("`{name}` cannot be created: {}", error.kind())),
    }
}

/// Whether a text is the name of a file, in any file system, and of no hidden one.
fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.len() <= 200 && name.starts_with(char::is_alphanumeric) && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_names_are_plain() {
        for name in ["a.csv", "Öl-2025_1.json", "a..csv"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "a".repeat(201);
        for name in [
            "",
            ".",
            "..",
            "../a.csv",
            "/a.csv",
            "a/b.csv",
            ".a.csv",
            "a\\b.csv",
            "-a.csv",
            "a b.csv",
            "a\n.csv",
            "C:a.csv",
            "a\0.csv",
            long.as_str(),
        ] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
