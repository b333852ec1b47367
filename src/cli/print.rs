//! All output of the program goes through this module.
//!
//! In: outputs and failures of statements, and remarks. Out: results on standard output, flushed at once; receipts,
//! remarks and (except with JSON) failures on standard error. Failing to write a result is an error; failing to write
//! a remark is not. Characters that control a terminal are escaped, see [`visible`].
//!
//! ```text
//! stdout │ the answer as table, CSV or JSON        stderr │ cost ε = 1 · left adult ε = 9
//! ```

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use clap::ValueEnum;
use hushql::{Answer, Output, Receipt, visible};

use super::failure::Failure;
use super::table::Frame;
use super::view::View;
use super::{json, table};

/// Suppresses the output of panics: a panic message may quote a cell, and the number of messages may depend on the rows.
/// The session returns the same error as for every failure.
pub(super) fn silence_panics() {
    std::panic::set_hook(Box::new(|_| ()));
}

/// The message for a panic that no session caught.
pub(super) fn panicked() {
    let _ = writeln!(io::stderr(), "error: one of the program's own checks failed");
}

/// The format of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables with accuracies, for people.
    Table,
    /// One line for each cell, for rows that are wider than the terminal.
    Expanded,
    /// Tables of Markdown.
    Markdown,
    /// RFC 4180: a header and rows.
    Csv,
    /// One object per statement and line.
    Json,
}

/// The destination and the style of a run's output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printer {
    /// The format of answers.
    pub(super) format: Format,
    /// Whether to leave out receipts and remarks.
    quiet: bool,
    /// Whether CSV has an apostrophe before texts that a spreadsheet would run as formulas.
    pub(super) csv_safe: bool,
    /// Whether CSV has the errors of released numbers in columns behind them.
    pub(super) csv_errors: bool,
    /// The width of the terminal, if there is one.
    pub(super) width: Option<u16>,
    /// The most rows of an answer that a terminal shows.
    pub(super) rows: Option<usize>,
}

/// The rows that a terminal shows of a long answer: twenty from either end.
const ROWS: usize = 40;

impl Printer {
    /// A printer for any stream; it does not limit the width of tables.
    pub(super) fn new(format: Format, quiet: bool) -> Self {
        Self { format, quiet, csv_safe: false, csv_errors: false, width: None, rows: Some(ROWS) }
    }

    /// Prints the outcome of a statement.
    pub(super) fn output(self, output: &Output) -> Result<(), Failure> {
        match output {
            Output::Answer(answer) => self.answer(answer),
            Output::Explanation(explanation) => self.explanation(explanation),
            Output::ExplanationJson(explanation) => match self.format {
                Format::Table | Format::Expanded | Format::Markdown | Format::Csv => {
                    self.result(explanation.to_json().trim_end())
                }
                Format::Json => self.explanation(explanation),
            },
            Output::Done(sentence) => self.done(sentence),
            // The library may add outputs that this program does not know.
            _ => Err(Failure::UnknownOutput),
        }
    }

    fn answer(self, answer: &Answer) -> Result<(), Failure> {
        self.paid(answer, || {
            let view = View::for_answer(answer)?;
            // Elsewhere than on a terminal, nothing is left out.
            let most = self.rows.filter(|_| self.width.is_some());
            match self.format {
                Format::Table => {
                    self.result(&table::table(&view, Frame { width: self.width, most }))
                }
                Format::Expanded => self.result(&table::expanded(&view, most)),
                Format::Markdown => self.result(&table::markdown(&view)),
                Format::Csv => out(&table::csv(&view, self.csv_safe, self.csv_errors)),
                Format::Json => self.result(&json::answer(answer, &view).map_err(io::Error::from)?),
            }
        })?;
        if self.format != Format::Json {
            self.receipt(answer);
        }
        Ok(())
    }

    /// Writes an answer or something derived from it. If a charged answer cannot be written, this is always an error.
    pub(super) fn paid<T>(
        self,
        answer: &Answer,
        write: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        write().map_err(|failure| match answer.receipt() {
            Some(_) => failure.of_a_charged_answer(),
            None => failure,
        })
    }

    /// Prints remarks about hidden groups, and the receipt: the cost of an answer and the remainder of its budgets.
    pub(super) fn receipt(self, answer: &Answer) {
        answer.notes().iter().for_each(|note| self.note(&visible::line(note)));
        if let Some(receipt) = answer.receipt() {
            self.note(&receipt_line(receipt));
        }
    }

    /// Prints an explanation.
    pub(super) fn explanation(self, explanation: &hushql::Explanation) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv => {
                self.result(explanation.to_string().trim_end())
            }
            Format::Json => self.result(&json::one_line(&explanation.to_json())),
        }
    }

    /// Prints the effect of a declaration: a remark, or with JSON a result, for programs that count lines.
    pub(super) fn done(self, sentence: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv => {
                self.note(sentence);
                Ok(())
            }
            Format::Json => self.result(&json::done(sentence).map_err(io::Error::from)?),
        }
    }

    /// Prints a failure.
    pub(super) fn failure(self, failure: &Failure) -> Result<(), Failure> {
        self.failure_at(failure, None)
    }

    /// Prints the failure that ends the run, on standard error if standard output failed.
    pub(super) fn last(self, failure: &Failure) -> Result<(), Failure> {
        if failure.is_final() {
            self.warn(&failure.text());
            return Ok(());
        }
        self.failure(failure)
    }

    /// Prints the failure of a statement, and the line of the script at which it begins, if it is one of several.
    pub(super) fn failure_at(self, failure: &Failure, line: Option<u64>) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv => {
                self.warn(&failure.text());
                if let Some(line) = line.filter(|_| !failure.has_position()) {
                    self.warn(&format!("  line:  {line} of the script"));
                }
                Ok(())
            }
            Format::Json => self.result(&json::failure(failure, line).map_err(io::Error::from)?),
        }
    }

    /// Prints a result: text on standard output.
    pub(super) fn result(self, text: &str) -> Result<(), Failure> {
        out(&format!("{}\n", visible::lines(text)))
    }

    /// Prints a script: as it is, because other names would be other tables, but on a terminal, where it is read by people.
    pub(super) fn script(self, text: &str) -> Result<(), Failure> {
        match io::stdout().is_terminal() {
            true => out(&visible::lines(text)),
            false => out(text),
        }
    }

    /// Prints a remark, unless the printer is quiet.
    pub(super) fn note(self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Prints a necessary message on standard error.
    pub(super) fn warn(self, text: &str) {
        // If standard error has gone, the message cannot be printed anywhere.
        let _ = writeln!(io::stderr().lock(), "{}", visible::lines(text));
    }
}

fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

fn receipt_line(receipt: &Receipt) -> String {
    let mut line = format!("cost {}", receipt.spent.neat());
    for (index, (budget, left)) in receipt.left.iter().enumerate() {
        let lead = if index == 0 { " · left" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(line, "{lead} {} {}", visible::line(budget), left.neat_down());
    }
    line
}
