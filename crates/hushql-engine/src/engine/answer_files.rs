//! Answers in files.
//!
//! In: a query, and the path that follows TO. Out: an answer of one row that names the file, with
//! the receipt of the query. The file is created before the query is charged; if the query fails,
//! the file is removed.
//!
//! An owner writes anywhere. An analyst writes into the export folder that the owner declared,
//! under a plain name, and can reach, overwrite or discover nothing else. The folder is checked
//! again before each file, because tables may have been declared since. Programs write their own
//! files, such as charts, by the same rules ([`AnswerFile`]).

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use tokio::runtime::Handle;

use crate::answer::file_answer::{error_name, file_metadata, with_error_columns};
use crate::answer::{Answer, Head};
use crate::catalog::quoted;
use crate::dialect::{CopyFormat, CopyTarget, QueryStatement};
use crate::engine::attempts::Attempts;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::target::folder::TargetFolder;
use crate::exec::target::{FileContents, TargetFile, unknown_to};
use crate::owner::exports::overlap;
use crate::refusal::{Reason, Refusal};
use crate::resources::Clock;
use crate::sql_type::sql_type;
use crate::visible;

impl Session {
    /// Writes the answer to a query into a file.
    pub(super) async fn copied(
        &self,
        query: QueryStatement,
        to: &CopyTarget,
        clock: &Clock,
    ) -> Result<Answer, Error> {
        let path = to.path.as_str();
        let target = self.target(path, "COPY (query) TO 'answer.csv'")?;
        self.fits(&query, to, clock).await?;
        let answer = self.answer(query, None, clock).await?;
        let charged = if answer.receipt().is_some() { ", and is charged" } else { "" };
        let written = contents(&answer, to.errors);
        let written = written.and_then(|contents| target.write(&contents, to.format));
        written.map_err(|error| unwritten(path, charged, error))?;
        let (head, batches) = answer.into_parts();
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
            remedies: Vec::new(),
            ..head
        };
        Ok(Answer::new(head, vec![(batch, vec![None; 2])]))
    }

    /// Creates a file for answers, or for what a program makes of them, by the rules of
    /// `COPY … TO`. An owner may create it anywhere. An analyst may create it in the export folder
    /// that the owner declared, under a plain name. No link is followed, and no file is
    /// overwritten.
    ///
    /// Create the file before the query is charged, so that nobody pays for an answer that cannot
    /// be written.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("count.txt");
    /// let session = hushql::Engine::demo()?.owner();
    /// let mut file = session.create_file(path.to_str().unwrap())?;
    /// file.append(&session.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?.to_string())?;
    /// # assert!(std::fs::read_to_string(path).unwrap().contains("count"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] for an analyst without an export folder, and for a name that is not
    /// plain; [`Error::Catalog`] if the file exists or cannot be created.
    pub fn create_file(&self, path: &str) -> Result<AnswerFile, Error> {
        let target = self.told(self.target(path, "a plain name, such as answer.csv"))?;
        Ok(AnswerFile { target, path: path.to_owned(), session: self.clone() })
    }

    /// Refuses a query before its charge if the format lacks a type for one of its columns, or if
    /// a column of errors has the name of another column.
    async fn fits(
        &self,
        query: &QueryStatement,
        to: &CopyTarget,
        clock: &Clock,
    ) -> Result<(), Error> {
        let (session, state, query) = (self.clone(), self.state(clock), query.clone());
        let runtime = Handle::try_current().ok();
        let planned = clock.aside(move || {
            let ready = || session.ready(&query, &state, runtime.clone());
            Attempts::at(ready).map(|ready| ready.quoted().schema)
        });
        let schema = planned.await?;
        if to.errors {
            error_names_are_free(&schema)?;
        }
        fits(to.format, &schema)
    }

    /// A new file; `example` shows a name that an analyst may write.
    fn target(&self, path: &str, example: &str) -> Result<TargetFile, Error> {
        match self.is_owner() {
            true => anywhere(path),
            false => self.in_export_folder(path, example),
        }
    }

    /// A new file in the analyst's export folder.
    fn in_export_folder(&self, name: &str, example: &str) -> Result<TargetFile, Error> {
        let catalog = self.inner.vault.catalog()?;
        let refuse = |why: &str, instead: &str| Refusal::new(Reason::Statement, name, why, instead);
        let Some(folder) = catalog.export_folder(&self.analyst) else {
            return Err(refuse(
                "no export folder is declared for this analyst",
                "the query without a file; an owner writes ALTER VAULT SET EXPORT FOLDER '…' FOR analyst",
            )
            .into());
        };
        if !is_plain(name) {
            return Err(refuse(
                "an analyst writes into the export folder, and names the file alone: letters, digits, dots, hyphens, underscores",
                example,
            )
            .into());
        }
        let path = Path::new(folder);
        let unusable = || {
            Error::catalog(
                "the export folder cannot be used as it is: its owner has to declare it again",
            )
        };
        let opened = TargetFolder::open(path).map_err(|_| unusable())?;
        match overlap(&self.inner, &catalog, &opened, path) {
            Ok(None) => TargetFile::create(opened, name).map_err(|error| unmade(name, &error)),
            Ok(Some(_)) | Err(_) => Err(unusable()),
        }
    }
}

/// A new file for answers, made by [`Session::create_file`]. It is removed when it is dropped,
/// unless something was written.
#[derive(Debug)]
pub struct AnswerFile {
    target: TargetFile,
    path: String,
    session: Session,
}

impl AnswerFile {
    /// Appends a text to the file. If this fails, the file stays as it was.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # fn main() -> Result<(), hushql::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("notes.txt");
    /// let mut file = hushql::Engine::demo()?.owner().create_file(path.to_str().unwrap())?;
    /// file.append("one\n")?;
    /// file.append("two\n")?;
    /// # assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] with that of the file system.
    pub fn append(&mut self, text: &str) -> Result<(), Error> {
        let written = self.target.append(text).map_err(|error| unwritten(&self.path, "", error));
        self.session.told(written)
    }

    /// Whether Parquet has types for all columns of an answer. Ask before the query is charged.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::AnswerFile;
    ///
    /// # fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.owner();
    /// let schema = |sql: &str| session.prepare(sql).map(|query| query.schema());
    /// assert!(AnswerFile::fits_parquet(&*schema("SELECT LAPLACE(eps=1) COUNT(*) FROM adult")?).is_ok());
    /// assert!(AnswerFile::fits_parquet(&*schema("SELECT INTERVAL '1' DAY AS x")?).is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] with the column and what to write instead.
    pub fn fits_parquet(schema: &Schema) -> Result<(), Error> {
        fits(CopyFormat::Parquet, schema)
    }

    /// Writes an answer as Parquet. The file then holds nothing else.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("n.parquet");
    /// let session = hushql::Engine::demo()?.owner();
    /// let file = session.create_file(path.to_str().unwrap())?;
    /// file.parquet(&session.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult").await?)?;
    /// # assert!(std::fs::read(path).unwrap().starts_with(b"PAR1"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] with that of the file system, or of a type that Parquet lacks; the file
    /// is then removed.
    pub fn parquet(self, answer: &Answer) -> Result<(), Error> {
        let Self { target, path, session } = self;
        let written = contents(answer, false)
            .and_then(|contents| target.write(&contents, CopyFormat::Parquet));
        session.told(written.map_err(|error| unwritten(&path, "", error)))
    }

    /// The bytes of a Parquet file that holds an answer, with the receipt in its metadata, for
    /// programs that send files on. With `errors`, each column with a ± is followed by a column of
    /// its errors, as by `COPY … TO … OPTIONS ('errors' 'true')`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let session = hushql::Engine::demo()?.owner();
    /// let answer = session.query("SELECT LAPLACE(eps=1) COUNT(*) AS n FROM adult").await?;
    /// assert!(hushql::AnswerFile::parquet_bytes(&answer, true)?.starts_with(b"PAR1"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Catalog`] if Parquet lacks the type of a column, or if a column has the name that
    /// the errors of another one would have.
    pub fn parquet_bytes(answer: &Answer, errors: bool) -> Result<Vec<u8>, Error> {
        fits(CopyFormat::Parquet, &answer.schema())?;
        if errors {
            error_names_are_free(&answer.schema())?;
        }
        let written =
            contents(answer, errors).and_then(|contents| contents.bytes(CopyFormat::Parquet));
        written.map_err(|error| Error::catalog_from("the answer could not be written", error))
    }
}

fn fits(format: CopyFormat, schema: &Schema) -> Result<(), Error> {
    unknown_to(format, schema).map_or(Ok(()), |field| {
        let (name, its_type) = (visible::line(field.name()), sql_type(field.data_type()));
        let (format, others) = match format {
            CopyFormat::Csv => ("CSV", ".json, .parquet or .arrow"),
            CopyFormat::Json => ("JSON", ".csv, .parquet or .arrow"),
            CopyFormat::Parquet => ("Parquet", ".csv, .json or .arrow"),
            CopyFormat::Arrow => ("Arrow", ".csv, .json or .parquet"),
        };
        Err(Error::catalog(format!(
            "{format} has no type for the column {name} ({its_type}): write CAST({} AS VARCHAR), or a name that ends with {others}",
            quoted(&name)
        )))
    })
}

/// What a file holds of an answer.
fn contents(answer: &Answer, errors: bool) -> io::Result<FileContents> {
    let (schema, batches) = match errors {
        true => with_error_columns(answer).map_err(io::Error::other)?,
        false => (answer.schema(), answer.batches().to_vec()),
    };
    Ok(FileContents { schema, batches, metadata: file_metadata(answer) })
}

/// Refuses columns among which one has the name that the errors of another one would have.
fn error_names_are_free(schema: &Schema) -> Result<(), Error> {
    let taken = schema.fields().iter().find_map(|field| {
        let name = error_name(field.name());
        schema.fields().iter().any(|other| *other.name() == name).then_some(name)
    });
    taken.map_or(Ok(()), |name| {
        Err(Error::catalog(format!(
            "a column is called {}, as the errors of another one would be: name it otherwise, with AS",
            visible::line(&name)
        )))
    })
}

fn unwritten(path: &str, charged: &str, error: io::Error) -> Error {
    Error::catalog_from(format!("the answer could not be written to `{path}`{charged}"), error)
}

/// A new file of an owner, at any path.
fn anywhere(path: &str) -> Result<TargetFile, Error> {
    let cannot = |e| Error::catalog_from(format!("`{path}` cannot be created"), e);
    let whole = std::path::absolute(path).map_err(cannot)?;
    let (folder, name) = (whole.parent(), whole.file_name().and_then(|name| name.to_str()));
    let (Some(folder), Some(name)) = (folder, name) else {
        return Err(cannot(io::ErrorKind::InvalidInput.into()));
    };
    let folder = fs::canonicalize(folder).and_then(|folder| TargetFolder::open(&folder));
    TargetFile::create(folder.map_err(cannot)?, name).map_err(|error| unmade(path, &error))
}

fn unmade(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::catalog(format!(
            "`{name}` exists already, and no file is overwritten: choose another name"
        )),
        _ => Error::catalog(format!("`{name}` cannot be created: {}", error.kind())),
    }
}

/// Whether a text is the name of a visible file in any file system.
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
