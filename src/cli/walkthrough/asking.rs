//! Questions to a person: one line each, from the terminal or from a pipe.
//!
//! In: what a question suggests. Out: what was typed, or that the person left. With `--yes`, the
//! suggestion is taken. Where the input is a pipe, the lines that it holds are shown, so that what
//! was asked and answered can be read like a transcript.
//!
//! ```text
//! [(patient)] > Patient
//! ```

use std::io::{self, BufRead, IsTerminal, Write};

use super::super::failure::Failure;
use super::super::print::Printer;

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line, or the suggestion in its place.
    Line(String),
    /// The end of the input, or `q`.
    Left,
}

/// Asks questions.
#[derive(Debug)]
pub(super) struct Asking {
    printer: Printer,
    takes_all: bool,
}

impl Asking {
    /// Asks a person, or takes every suggestion.
    pub(super) fn new(printer: Printer, takes_all: bool) -> Self {
        Self { printer, takes_all }
    }

    /// Whether nobody is asked.
    pub(super) fn is_silent(&self) -> bool {
        self.takes_all
    }

    /// An answer that the command line gave.
    pub(super) fn said(&self, answer: &str) -> String {
        self.printer.note(&format!("> {answer}"));
        answer.to_owned()
    }

    /// Reads a line. An empty one is the suggestion, if there is one.
    pub(super) fn line(&mut self, suggested: Option<&str>) -> Result<Typed, Failure> {
        let shown = match suggested {
            Some("") => "[none] ".to_owned(),
            Some(text) => format!("[{text}] "),
            None => String::new(),
        };
        if let (true, Some(taken)) = (self.takes_all, suggested) {
            self.printer.note(format!("{shown}> {taken}").trim_end());
            return Ok(Typed::Line(taken.to_owned()));
        }
        let is_terminal = io::stdin().is_terminal();
        if is_terminal {
            let mut stderr = io::stderr().lock();
            write!(stderr, "{}> ", self.printer.plain(&shown))?;
            stderr.flush()?;
        }
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line)?;
        let typed = line.trim();
        if !is_terminal {
            self.printer.warn(format!("{shown}> {typed}").trim_end());
        }
        if read == 0 || typed == "q" || typed == "\\q" {
            return Ok(Typed::Left);
        }
        Ok(Typed::Line(match (typed, suggested) {
            ("", Some(suggested)) => suggested.to_owned(),
            (typed, _) => typed.to_owned(),
        }))
    }
}
