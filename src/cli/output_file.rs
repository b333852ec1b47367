//! Files that take the results of the shell: those of all statements after `\o FILE`, or of the one
//! before `\g FILE`.
//!
//! In: a name, and the outcomes of statements. Out: a new file, by the rules of `COPY … TO`: the
//! library creates it before anything is charged. The ending of its name decides the format:
//! `.csv`, `.tsv`, `.json`, `.md`, `.parquet`; any other name takes the format of answers. Receipts
//! and remarks stay on standard error.
//!
//! ```text
//! \o answers.csv     →  each answer as CSV, one after another          \g wards.parquet  →  the answer as Parquet
//! ```

use arrow::datatypes::Schema;
use hushql::{Answer, AnswerFile, Output, Session};

use super::failure::Failure;
use super::print::{Format, Printer};

/// A new file for results.
#[derive(Debug)]
pub(super) struct OutputFile {
    name: String,
    form: Form,
    file: AnswerFile,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Text in this format, or in that of answers.
    Text(Option<Format>),
    Parquet,
}

/// The number of results that a file takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// The result of one statement.
    One,
    /// The results of all following statements.
    All,
}

impl OutputFile {
    /// Creates the file that an argument of `\o` or `\g` names, with or without quotes.
    ///
    /// # Errors
    /// The errors of [`Session::create_file`]; [`Failure::Usage`] if the argument is not the name
    /// of a file, or if such a file cannot take several answers.
    pub(super) fn create(session: &Session, written: &str, takes: Takes) -> Result<Self, Failure> {
        let name = name(written)?;
        let form = form(&name);
        if (form, takes) == (Form::Parquet, Takes::All) {
            return Err(Failure::Usage(format!(
                "a Parquet file holds one answer: end its query with \\g {name} in the place of ;"
            )));
        }
        let file = session.create_file(&name)?;
        Ok(Self { name, form, file })
    }

    /// Its name, as the user wrote it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The format of its results, if it is not the format of answers.
    pub(super) fn format(&self) -> Option<Format> {
        match self.form {
            Form::Text(format) => format,
            Form::Parquet => None,
        }
    }

    /// Refuses an answer with these columns, before it is charged, if the file cannot take it.
    ///
    /// # Errors
    /// The error of [`AnswerFile::fits_parquet`].
    pub(super) fn takes(&self, schema: &Schema) -> Result<(), Failure> {
        match self.form {
            Form::Text(_) => Ok(()),
            Form::Parquet => Ok(AnswerFile::fits_parquet(schema)?),
        }
    }

    /// Whether it takes only answers with certain columns.
    pub(super) fn chooses(&self) -> bool {
        self.form == Form::Parquet
    }

    /// Writes the result of a statement, if it has one, and returns the file if it takes further
    /// results.
    ///
    /// # Errors
    /// [`Failure::Engine`] if the file cannot be written; [`Failure::Usage`] if its format cannot
    /// hold the result. The caller should then show an answer elsewhere.
    pub(super) fn write(
        mut self,
        printer: Printer,
        output: &Output,
    ) -> Result<Option<Self>, Failure> {
        match (self.form, output) {
            (Form::Text(format), output) => {
                let file = &mut self.file;
                let mut write = |text: &str| file.append(text).map_err(Failure::from);
                printer.for_file(format).text(output, &mut write)?;
                Ok(Some(self))
            }
            (Form::Parquet, Output::Answer(answer)) => {
                self.file.parquet(answer)?;
                Ok(None)
            }
            // Without a result there is no file.
            (Form::Parquet, Output::Done(_)) => Ok(None),
            (Form::Parquet, _) => Err(Failure::Usage(format!(
                "an explanation cannot be written as Parquet: write \\g {}.txt",
                self.name.trim_end_matches(".parquet")
            ))),
        }
    }

    /// Writes an answer that was paid for earlier.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(super) fn write_again(self, printer: Printer, answer: Answer) -> Result<(), Failure> {
        self.write(printer, &Output::Answer(answer)).map(drop)
    }
}

/// The name of a file, in SQL quotes or without quotes.
///
/// # Errors
/// [`Failure::Usage`] for a program instead of a file, and for a missing closing quote.
pub(super) fn name(written: &str) -> Result<String, Failure> {
    if written.starts_with('|') {
        return Err(Failure::Usage(
            "this shell runs no programs: write the name of a file, or pipe hushql -c 'QUERY'"
                .to_owned(),
        ));
    }
    let Some(rest) = written.strip_prefix('\'') else { return Ok(written.to_owned()) };
    match rest.strip_suffix('\'') {
        Some(inside) if !inside.replace("''", "").contains('\'') => Ok(inside.replace("''", "'")),
        Some(_) | None => Err(Failure::Usage(
            "the name of a file has a quote at both ends, or none: 'my answers.csv'".to_owned(),
        )),
    }
}

/// The form of a file, by the ending of its name.
fn form(name: &str) -> Form {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    Form::Text(match ending.as_str() {
        "csv" => Some(Format::Csv),
        "tsv" => Some(Format::Tsv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        "md" | "markdown" => Some(Format::Markdown),
        "parquet" => return Form::Parquet,
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_quotes() {
        for (written, expected) in [
            ("a.csv", "a.csv"),
            ("my answers.csv", "my answers.csv"),
            ("'my answers.csv'", "my answers.csv"),
            ("'it''s.csv'", "it's.csv"),
        ] {
            assert_eq!(name(written).unwrap(), expected);
        }
        for wrong in ["'open", "'a' b'", "| wc -l"] {
            assert!(matches!(name(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn the_ending_is_the_format() {
        for (name, expected) in [
            ("a.CSV", Form::Text(Some(Format::Csv))),
            ("a.csv.json", Form::Text(Some(Format::Json))),
            ("a.md", Form::Text(Some(Format::Markdown))),
            ("a.parquet", Form::Parquet),
            ("a.txt", Form::Text(None)),
            ("csv", Form::Text(None)),
        ] {
            assert_eq!(form(name), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn results_follow_one_another_and_what_has_none_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let session = hushql::Engine::demo().unwrap().owner();
        let printer = Printer::new(Format::Table, true);
        let create = |name: &str, takes| OutputFile::create(&session, &path(name), takes);
        let answer = session.execute("SELECT 1 AS x").await.unwrap();
        let file = create("a.csv", Takes::All).unwrap();
        let file = file.write(printer, &answer).unwrap().unwrap();
        drop(file.write(printer, &answer).unwrap());
        assert_eq!(std::fs::read_to_string(path("a.csv")).unwrap(), "x\n1\nx\n1\n");
        assert!(create("a.csv", Takes::All).unwrap_err().text().contains("exists already"));
        assert!(create("a.parquet", Takes::All).unwrap_err().text().contains("\\g"));
        assert!(
            create("a.parquet", Takes::One).unwrap().write(printer, &answer).unwrap().is_none()
        );
        let done = session.execute("CREATE VIEW v AS SELECT 1 AS x").await.unwrap();
        drop(create("done.txt", Takes::One).unwrap().write(printer, &done).unwrap());
        drop(create("done.parquet", Takes::One).unwrap().write(printer, &done).unwrap());
        let explained = session.execute("EXPLAIN PRIVACY SELECT 1").await.unwrap();
        create("e.parquet", Takes::One).unwrap().write(printer, &explained).unwrap_err();
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["a.csv", "a.parquet"]);
    }
}
