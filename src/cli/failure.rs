//! Failures on the command line, in the terms of the library's errors.
//!
//! In: an error of the library, a file or a stream. Out: kind, code, message, hint and exit status.
//! Messages of the library are not changed.
//!
//! ```text
//! Failure::Engine(HQ007 …) → kind "refused", code "HQ007", exit status 3
//! ```

use std::io;
use std::path::PathBuf;

use hushql::ScriptStatement;
use thiserror::Error;

/// Why a statement or a run failed.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// The library returned an error.
    #[error(transparent)]
    Engine(#[from] hushql::Error),
    /// A file could not be read or copied.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A line of the configuration file is wrong.
    #[error("{}, line {line}: {why}", path.display())]
    Setting { path: PathBuf, line: usize, why: String },
    /// Standard output or input broke.
    #[error("{0}")]
    Stream(#[from] io::Error),
    /// A charged answer could not be delivered.
    #[error("the answer could not be written ({0}); what was charged stays charged")]
    Unwritten(Box<Self>),
    /// The shell's editor broke.
    #[error("{0}")]
    Editor(#[from] rustyline::error::ReadlineError),
    /// The threads that run queries could not be started.
    #[error("the threads for queries cannot be started: {source}")]
    Start { source: io::Error },
    /// An answer that cannot be written as text.
    #[error("the answer cannot be written: {0}")]
    Unprintable(#[from] arrow::error::ArrowError),
    /// The library returned an output that this program does not know.
    #[error("this program cannot print this kind of output")]
    UnknownOutput,
    /// A query ended without an answer or an error.
    #[error("the query ended abnormally; what was charged stays charged")]
    Lost,
    /// A record of a suite needs the owner, and `--owner` is missing.
    #[error("`connection owner` is not allowed here: add --owner to `hushql slt`")]
    NotTheOwner,
    /// `--public` without a table or a file.
    #[error(
        "--public {0}: write NAME=FILE, for a file that ends with .csv, .parquet, .json or .arrow"
    )]
    NoPublicTable(String),
    /// A command of the shell with a wrong argument.
    #[error("{0}")]
    Usage(String),
    /// `\plot` of a result that cannot be drawn.
    #[error("there is nothing to plot: the answer needs a numeric column and at least one row")]
    NoBars,
    /// `\plot` without a last answer.
    #[error("there is no answer yet: write \\plot QUERY, or run a query first")]
    NothingYet,
    /// `\plot budget` before anything was charged.
    #[error(
        "there is nothing to plot: nothing was charged to a budget of this name; \\budget lists the budgets"
    )]
    NoSpending,
    /// `\plot accuracy` of a query whose errors are unknown before it runs.
    #[error(
        "there is nothing to plot: no error of this query is known before it runs; EXPLAIN PRIVACY says why"
    )]
    NoErrors,
}

impl Failure {
    /// The class of the failure.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Engine(error) => error.kind(),
            Self::File { .. } => "file",
            Self::Stream(_) | Self::Unwritten(_) | Self::Editor(_) => "stream",
            Self::NoBars
            | Self::NothingYet
            | Self::NoErrors
            | Self::NoSpending
            | Self::NotTheOwner
            | Self::NoPublicTable(_)
            | Self::Usage(_)
            | Self::Setting { .. } => "usage",
            Self::Start { .. } | Self::Unprintable(_) | Self::UnknownOutput | Self::Lost => {
                "internal"
            }
        }
    }

    /// The stable code of a refusal.
    pub(super) fn code(&self) -> Option<&'static str> {
        match self {
            Self::Engine(error) => error.code(),
            _ => None,
        }
    }

    /// The problem, in a sentence.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Engine(error) => error.message(),
            other => other.to_string(),
        }
    }

    /// What to write instead.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            _ => None,
        }
    }

    /// The failure of a statement, with its position in the script.
    pub(super) fn in_script(self, statement: &ScriptStatement) -> Self {
        match self {
            Self::Engine(error) => Self::Engine(error.in_script(statement)),
            other => other,
        }
    }

    /// Whether its message contains a position in the text.
    pub(super) fn has_position(&self) -> bool {
        self.place().is_some()
    }

    /// The line and the column of the failure in the text.
    pub(super) fn place(&self) -> Option<(u64, u64)> {
        match self {
            Self::Engine(error) => error.position(),
            _ => None,
        }
    }

    /// The exit status of a run whose first failure is this one.
    pub(super) fn exit_status(&self) -> u8 {
        match self {
            Self::Engine(error) => error.exit_status(),
            Self::Setting { .. } => 2,
            _ => 1,
        }
    }

    /// Marks a failure to write a charged answer as an error. Otherwise a broken pipe would end the
    /// program as if every statement had been answered.
    pub(super) fn of_a_charged_answer(self) -> Self {
        Self::Unwritten(Box::new(self))
    }

    /// Whether the reader of standard output has gone, and missed no charged answer.
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether nothing more can be printed, so that further queries would waste budget.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Unwritten(why) => why.is_final(),
            other => matches!(other, Self::Stream(_) | Self::Editor(_)),
        }
    }

    /// The failure as text: the library's whole message, and the hint if the message lacks it.
    pub(super) fn text(&self) -> String {
        let text = self.to_string();
        match self.hint() {
            Some(hint) if !text.contains(&hint) => format!("error: {text}\nhint: {hint}"),
            _ => format!("error: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_is_known() {
        let broken = Failure::Stream(io::ErrorKind::BrokenPipe.into());
        assert!(broken.is_broken_pipe() && broken.is_final());
        let full = Failure::Stream(io::ErrorKind::StorageFull.into());
        assert!(!full.is_broken_pipe() && full.is_final());
        let paid = broken.of_a_charged_answer();
        assert!(!paid.is_broken_pipe() && paid.is_final());
        assert_eq!((paid.kind(), paid.exit_status()), ("stream", 1));
        assert!(paid.text().ends_with("; what was charged stays charged"), "{}", paid.text());
        let file = Failure::File {
            path: "declare.sql".into(),
            source: io::Error::from(io::ErrorKind::NotFound),
        };
        assert!(!file.is_final());
        assert_eq!((file.kind(), file.code(), file.exit_status()), ("file", None, 1));
        assert!(file.text().starts_with("error: declare.sql: "), "{}", file.text());
    }
}
