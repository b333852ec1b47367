//! Runs the statements of the shell one after the other, and puts each result on the terminal or
//! into a file.
//!
//! In: statements, and the files of `\o` and `\g`. Out: results. A file is created before anything
//! is charged. If an answer that was paid for cannot be written into its file, the terminal shows
//! it, and no more statements run for that file.
//!
//! ```text
//! \o FILE ─▶ create ─▶ (ask, charge, run) ─▶ write, again and again ─▶ \o
//! \g FILE ─▶ create ─▶ (ask, charge, run) ─▶ write
//! ```

use hushql::{Output, split_statements};

use super::exec::{self, Interrupt};
use super::failure::Failure;
use super::output_file::{OutputFile, Takes};
use super::print::Format;
use super::repl::Shell;

impl Shell {
    /// Runs statements until one fails, is declined or is cancelled, and says how many did not run.
    /// If `\g` names a file, the result of the last statement goes into it.
    pub(super) async fn script(&mut self, text: &str, into: Option<&str>) -> Result<(), Failure> {
        let mut interrupt = Interrupt::that_cancels();
        let statements = split_statements(text)?;
        let mut file = match into {
            Some(name) => Some(OutputFile::create(&self.session, name, Takes::One)?),
            None => None,
        };
        let count = statements.len();
        if let (Some(file), Some(last)) = (&file, statements.last())
            && file.chooses()
            && let Some(Ok(schema)) = exec::schema(&self.session, last.text(), &mut interrupt).await
        {
            file.takes(&schema)?;
        }
        for (at, statement) in statements.iter().enumerate() {
            let asked = self.ask(statement.text(), &mut interrupt).await;
            let printed = match asked.map_err(|failure| failure.in_script(statement)) {
                Ok(Some(output)) => {
                    let own = file.take_if(|_| at + 1 == count);
                    self.deliver(output, own)
                }
                Ok(None) => Ok(false),
                Err(failure) => Err(failure),
            };
            match printed {
                Ok(true) => continue,
                Ok(false) => {}
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => {
                    // The file is removed before the failure is shown.
                    drop(file.take());
                    let line = (count > 1).then_some(statement.place().0);
                    self.printer.failure_in(text, &failure, line)?;
                }
            }
            if let Some(sentence) = exec::skipped(count - at - 1, "") {
                self.printer.note(&sentence);
            }
            break;
        }
        Ok(())
    }

    /// Puts a result into its own file, into that of `\o`, or on the terminal. Returns whether
    /// statements after it may run.
    pub(super) fn deliver(
        &mut self,
        output: Output,
        own: Option<OutputFile>,
    ) -> Result<bool, Failure> {
        let is_own = own.is_some();
        let kept = match own.or_else(|| self.into.take()) {
            None => self.printer.output(&output).map(|()| true),
            Some(file) => {
                let name = file.name().to_owned();
                match file.write(self.printer, &output) {
                    Ok(file) => {
                        self.printer.remarks(&output);
                        if is_own && has_result(&output) {
                            self.printer.note(&format!("written to {name}"));
                        } else if !is_own {
                            self.into = file;
                        }
                        Ok(true)
                    }
                    Err(failure) => {
                        self.printer.failure(&failure)?;
                        self.printer.warn("the result is shown here instead:");
                        self.printer.output(&output).map(|()| false)
                    }
                }
            }
        };
        if let Output::Answer(answer) = output {
            self.last = Some(answer);
        }
        kept
    }

    /// Redirects the following results into a new file, or back to the terminal, and says so.
    pub(super) fn redirect(&mut self, argument: &str) -> Result<(), Failure> {
        if argument.is_empty() {
            let sentence = match self.into.take() {
                Some(file) => format!("results are shown here again; {} is complete", file.name()),
                None => "results are shown here; \\o FILE writes them into a file".to_owned(),
            };
            self.printer.note(&sentence);
            return Ok(());
        }
        let file = OutputFile::create(&self.session, argument, Takes::All)?;
        let format = file.format().unwrap_or(self.printer.format);
        self.printer.note(&format!(
            "results go into {} as {}; \\o shows them here again",
            file.name(),
            called(format)
        ));
        self.into = Some(file);
        Ok(())
    }

    /// Writes the last answer into a file. It was already paid for, so this costs nothing.
    pub(super) fn write_last(&mut self, name: &str) -> Result<(), Failure> {
        let Some(answer) = self.last.clone() else {
            return Err(Failure::Usage(
                "there is no answer yet: write a query, then \\g FILE".to_owned(),
            ));
        };
        let file = OutputFile::create(&self.session, name, Takes::One)?;
        file.takes(&answer.schema())?;
        let name = file.name().to_owned();
        file.write_again(self.printer, answer)?;
        self.printer.note(&format!("the last answer is written to {name}, at no further cost"));
        Ok(())
    }
}

fn has_result(output: &Output) -> bool {
    !matches!(output, Output::Done(_))
}

/// The name of answers in a format, for messages.
fn called(format: Format) -> &'static str {
    match format {
        Format::Table => "tables",
        Format::Expanded => "lines for each cell",
        Format::Markdown => "tables of Markdown",
        Format::Csv => "CSV",
        Format::Tsv => "CSV with tabs",
        Format::Json => "JSON",
    }
}
