//! All output of the program goes through this module.
//!
//! In: outputs and failures of statements, and remarks. Out: results on standard output, flushed at
//! once; receipts, remarks and (except with JSON) failures on standard error. Failing to write a
//! result is an error; failing to write a remark is not. Characters that control a terminal are
//! escaped, see [`visible`].
//!
//! ```text
//! stdout │ the answer as table, CSV or JSON        stderr │ cost ε = 1 · left adult ε = 9
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use clap::ValueEnum;
use hushql::{Answer, Output, Receipt};
use hushql_engine::visible;

use super::failure::Failure;
use super::pager::Screen;
use super::table::TableFrame;
use super::view::View;
use super::{json, pager, parts, plain, table};

/// Suppresses the output of panics: a panic message may quote a cell, and the number of messages
/// may depend on the rows. The session returns the same error as for every failure.
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
    /// The same, but with tabs between fields.
    Tsv,
    /// One object per statement and line.
    Json,
}

impl Format {
    /// The format with this name, or with a name that other shells use.
    pub(super) fn named(name: &str) -> Option<Self> {
        let other = match name.to_ascii_lowercase().as_str() {
            "box" | "column" | "aligned" | "wrapped" | "ascii" | "duckbox" => Some(Self::Table),
            "line" | "vertical" => Some(Self::Expanded),
            "unaligned" => Some(Self::Csv),
            "tabs" => Some(Self::Tsv),
            _ => None,
        };
        other.or_else(|| Self::from_str(name, true).ok())
    }

    /// The layout of answers, in a sentence.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Table => "answers are tables",
            Self::Expanded => "answers have a line for each cell",
            Self::Markdown => "answers are tables of Markdown",
            Self::Csv => "answers are CSV",
            Self::Tsv => "answers are CSV with tabs",
            Self::Json => "answers are JSON",
        }
    }
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
    /// Whether CSV has the errors of released numbers in additional columns after them.
    pub(super) csv_errors: bool,
    /// The terminal on standard output, if there is one.
    pub(super) screen: Option<Screen>,
    /// The most rows of an answer that a terminal shows.
    pub(super) rows: Option<usize>,
    /// The program that pages texts longer than the terminal.
    pub(super) pager: Option<&'static str>,
    /// Which streams get only ASCII signs.
    ascii: Ascii,
}

/// A result as text.
enum Rendered {
    /// Text for people, without its last line break. It may be paged, and its signs may be
    /// replaced.
    Page(String),
    /// Text for programs, which is not changed.
    Exact(String),
}

fn exact(text: &str) -> Rendered {
    Rendered::Exact(format!("{}\n", visible::lines(text)))
}

/// The streams that get only ASCII signs.
#[derive(Debug, Clone, Copy, Default)]
struct Ascii {
    results: bool,
    messages: bool,
}

/// The rows that a terminal shows of a long answer: twenty from each end.
const ROWS: usize = 40;

impl Printer {
    /// A printer for any stream; it does not limit the width of tables.
    pub(super) fn new(format: Format, quiet: bool) -> Self {
        Self {
            format,
            quiet,
            csv_safe: false,
            csv_errors: false,
            screen: None,
            rows: Some(ROWS),
            pager: None,
            ascii: Ascii::default(),
        }
    }

    /// The printer, with ASCII signs on those streams that are terminals.
    pub(super) fn with_ascii(self) -> Self {
        let results = io::stdout().is_terminal();
        Self { ascii: Ascii { results, messages: io::stderr().is_terminal() }, ..self }
    }

    /// Prints the outcome of a statement.
    pub(super) fn output(self, output: &Output) -> Result<(), Failure> {
        if let Output::Answer(answer) = output
            && self.screen.is_none()
            && parts::is_long(answer)
        {
            let shown = || parts::write(self.layout(), answer, &mut out);
            self.paid(answer, shown)?;
            if self.format == Format::Table {
                self.note("the answer is long, so each cell has a line; --format csv writes rows");
            }
            self.remarks(output);
            return Ok(());
        }
        let shown = || match self.rendered(output)? {
            Some(Rendered::Page(text)) => self.show(&text),
            Some(Rendered::Exact(text)) => out(&text),
            None => Ok(()),
        };
        match output {
            Output::Answer(answer) => self.paid(answer, shown)?,
            _ => shown()?,
        }
        self.remarks(output);
        Ok(())
    }

    /// The printer for a file: all rows, and nothing that depends on the terminal.
    pub(super) fn for_file(self, format: Option<Format>) -> Self {
        let format = format.unwrap_or(self.format);
        Self { format, screen: None, pager: None, ascii: Ascii::default(), ..self }
    }

    /// Writes the result of a statement as text, in the form for standard output that is not a
    /// terminal; nothing if there is no result.
    pub(super) fn text(self, output: &Output, write: parts::Write<'_>) -> Result<(), Failure> {
        if let Output::Answer(answer) = output
            && parts::is_long(answer)
        {
            return parts::write(self.layout(), answer, write);
        }
        match self.rendered(output)? {
            Some(Rendered::Page(text)) => write(&format!("{}\n", visible::lines(&text))),
            Some(Rendered::Exact(text)) => write(&text),
            None => Ok(()),
        }
    }

    /// The layout of long answers. A table needs all rows for its widths.
    fn layout(self) -> parts::Layout {
        let (safe, errors) = (self.csv_safe, self.csv_errors);
        match self.format {
            Format::Table | Format::Expanded => parts::Layout::Records,
            Format::Markdown => parts::Layout::Markdown,
            Format::Csv => parts::Layout::Csv { safe, errors },
            Format::Tsv => parts::Layout::Tsv { safe, errors },
            Format::Json => parts::Layout::Json,
        }
    }

    fn rendered(self, output: &Output) -> Result<Option<Rendered>, Failure> {
        Ok(Some(match output {
            Output::Answer(answer) => self.answer(answer)?,
            Output::Explanation(explanation) => self.explained(explanation),
            Output::ExplanationJson(explanation) => match self.format {
                Format::Table | Format::Expanded | Format::Markdown | Format::Csv | Format::Tsv => {
                    exact(explanation.to_json().trim_end())
                }
                Format::Json => self.explained(explanation),
            },
            Output::Done(sentence) => match self.format {
                Format::Table | Format::Expanded | Format::Markdown | Format::Csv | Format::Tsv => {
                    return Ok(None);
                }
                Format::Json => exact(&json::done(sentence).map_err(io::Error::from)?),
            },
            // The library may add outputs that this program does not know.
            _ => return Err(Failure::UnknownOutput),
        }))
    }

    fn answer(self, answer: &Answer) -> Result<Rendered, Failure> {
        let mut view = View::for_answer(answer)?;
        if self.screen.is_some() && matches!(self.format, Format::Table | Format::Expanded) {
            table::with_neat_budgets(&mut view);
        }
        Ok(match self.format {
            Format::Table => Rendered::Page(table::table(&view, self.frame())),
            Format::Expanded => Rendered::Page(table::expanded(&view, self.frame().most)),
            Format::Markdown => Rendered::Page(table::markdown(&view)),
            Format::Csv => Rendered::Exact(table::csv(&view, self.csv_safe, self.csv_errors)),
            Format::Tsv => Rendered::Exact(table::tsv(&view, self.csv_safe, self.csv_errors)),
            Format::Json => exact(&json::answer(answer, &view).map_err(io::Error::from)?),
        })
    }

    fn explained(self, explanation: &hushql::Explanation) -> Rendered {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv | Format::Tsv => {
                Rendered::Page(explanation.to_string().trim_end().to_owned())
            }
            Format::Json => exact(&json::one_line(&explanation.to_json())),
        }
    }

    /// Prints what accompanies a result: remarks and the receipt of an answer, or the sentence of a
    /// declaration. In JSON, the result itself contains all of this.
    pub(super) fn remarks(self, output: &Output) {
        match output {
            _ if self.format == Format::Json => {}
            Output::Answer(answer) => self.receipt(answer),
            Output::Done(sentence) => self.note(sentence),
            _ => {}
        }
    }

    /// Writes an answer or something derived from it. If a charged answer cannot be written, this
    /// is always an error.
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

    /// Prints remarks about hidden groups, and the receipt: the cost of an answer and the remainder
    /// of its budgets.
    pub(super) fn receipt(self, answer: &Answer) {
        answer.notes().iter().for_each(|note| self.note(&visible::line(note)));
        if let Some(receipt) = answer.receipt() {
            self.note(&receipt_line(receipt));
        }
    }

    /// Prints the effect of a declaration: a remark, or with JSON a result, for programs that count
    /// lines.
    pub(super) fn done(self, sentence: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv | Format::Tsv => {
                self.note(sentence);
                Ok(())
            }
            Format::Json => self.result(&json::done(sentence).map_err(io::Error::from)?),
        }
    }

    /// Prints a failure.
    pub(super) fn failure(self, failure: &Failure) -> Result<(), Failure> {
        self.failure_in("", failure, None)
    }

    /// Prints the failure that ends the run, on standard error if standard output failed.
    pub(super) fn last(self, failure: &Failure) -> Result<(), Failure> {
        if failure.is_final() {
            self.warn(&failure.text());
            return Ok(());
        }
        self.failure(failure)
    }

    /// Prints the failure of a statement in a text, and its first line if the text has several
    /// statements. A terminal also shows the position in the text.
    pub(super) fn failure_in(
        self,
        text: &str,
        failure: &Failure,
        line: Option<u64>,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Expanded | Format::Markdown | Format::Csv | Format::Tsv => {
                self.warn(&failure.text());
                if let Some(line) = line.filter(|_| !failure.has_position()) {
                    self.warn(&format!("  line:  {line} of the script"));
                }
                let place = failure.place().filter(|_| io::stderr().is_terminal());
                if let Some(shown) = place.and_then(|place| pointed(text, place, self.width())) {
                    self.warn(&shown);
                }
                Ok(())
            }
            Format::Json => self.result(&json::failure(failure, line).map_err(io::Error::from)?),
        }
    }

    /// The width for messages.
    fn width(self) -> usize {
        self.screen.map_or(80, |screen| usize::from(screen.width))
    }

    /// Writes bytes to standard output as they are.
    pub(super) fn raw(self, bytes: &[u8]) -> Result<u8, Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(0)
    }

    /// Prints a result for people: on standard output, or through the pager if it is longer than
    /// the terminal.
    pub(super) fn show(self, text: &str) -> Result<(), Failure> {
        let text = visible::lines(text);
        let text = self.plain(&text);
        let is_long = self.screen.is_some_and(|screen| !pager::fits(&text, screen));
        match self.pager.filter(|_| is_long) {
            Some(program) if pager::page(program, &text) => Ok(()),
            Some(_) | None => out(&format!("{text}\n")),
        }
    }

    /// The parts of a table to show, and their layout.
    pub(super) fn frame(self) -> TableFrame {
        TableFrame {
            width: self.screen.map(|screen| screen.width),
            // Rows are left out only on a terminal, and only if there is no pager.
            most: self.rows.filter(|_| self.screen.is_some() && self.pager.is_none()),
            ascii: self.ascii.results,
        }
    }

    /// A text as results are displayed: with ASCII signs, if the terminal needs them.
    pub(super) fn plain(self, text: &str) -> Cow<'_, str> {
        if self.ascii.results { plain::ascii(text) } else { text.into() }
    }

    /// Prints a result: text on standard output.
    pub(super) fn result(self, text: &str) -> Result<(), Failure> {
        out(&format!("{}\n", visible::lines(text)))
    }

    /// Prints a script. It is not changed, because other names would mean other tables; only on a
    /// terminal, where people read it, are control characters escaped.
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
        let text = visible::lines(text);
        let text = if self.ascii.messages { plain::ascii(&text) } else { text };
        // If standard error has gone, there is no other place for the message.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

fn out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// The line of a text and a caret below the column; both count from 1. For a long line, the part
/// around the column.
fn pointed(text: &str, (line, column): (u64, u64), width: usize) -> Option<String> {
    const MARGIN: usize = 2;
    let line = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let before = usize::try_from(column).ok()?.checked_sub(1)?;
    if line.trim().is_empty() || before > line.chars().count() {
        return None;
    }
    let room = width.saturating_sub(MARGIN + 2).max(20);
    // Two thirds of the width are before the caret.
    let cut = if line.chars().count() <= room { 0 } else { before.saturating_sub(room / 3 * 2) };
    let part = |from: usize, length: usize| {
        let part: String = line.chars().skip(from).take(length).collect();
        visible::line(&part).replace("\\t", " ")
    };
    let indent = part(cut, before - cut).chars().count();
    Some(format!("  {}\n{:>2$}", part(cut, room), "^", indent + MARGIN + 1))
}

fn receipt_line(receipt: &Receipt) -> String {
    let mut line = format!("cost {}", receipt.spent.neat());
    // A replayed answer costs nothing, so the remainder is not shown.
    let left = if receipt.is_replayed { &[] } else { receipt.left.as_slice() };
    for (index, (budget, left)) in left.iter().enumerate() {
        let lead = if index == 0 { " · left" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(line, "{lead} {} {}", visible::line(budget), left.neat_down());
    }
    for sentence in &receipt.cells {
        let _ = write!(line, " · {}", visible::line(sentence));
    }
    for paid_before in [receipt.refined_text(), receipt.replayed_text()].into_iter().flatten() {
        let _ = write!(line, " · {paid_before}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_is_below_the_place() {
        let text = "SELECT 1;\nSELECT oops FROM t";
        assert_eq!(pointed(text, (2, 8), 80).unwrap(), "  SELECT oops FROM t\n         ^");
        assert_eq!(pointed("SELECT\toops", (1, 8), 80).unwrap(), "  SELECT oops\n         ^");
        assert_eq!(pointed("é\u{1b}x", (1, 3), 80).unwrap(), "  é\\u{1b}x\n         ^");
        assert_eq!(pointed(text, (3, 1), 80), None);
        assert_eq!(pointed("x", (1, 9), 80), None);
        // The end of a text is a position, too.
        assert_eq!(pointed("SELECT", (1, 7), 80).unwrap(), "  SELECT\n        ^");
        let long = format!("{}oops{}", "x, ".repeat(50), ", y".repeat(50));
        let shown = pointed(&long, (1, 151), 60).unwrap();
        let (line, caret) = shown.split_once('\n').unwrap();
        assert!(line.chars().count() <= 60, "{shown}");
        assert_eq!(line.find("oops"), caret.find('^'), "{shown}");
    }

    #[test]
    fn formats_have_the_names_of_other_shells() {
        assert_eq!(Format::named("BOX"), Some(Format::Table));
        assert_eq!(Format::named("line"), Some(Format::Expanded));
        assert_eq!(Format::named("Json"), Some(Format::Json));
        assert_eq!(Format::named("xml"), None);
    }
}
