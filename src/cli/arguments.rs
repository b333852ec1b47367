//! The arguments of the command line, and the task that they amount to.
//!
//! In: what clap parsed. Out: a [`Task`] in which everything needed is there, or a usage error that says
//! which argument to add. Nothing is opened here.
//!
//! ```text
//! hushql study.db --analyst lab -c 'SELECT …'  →  Task::Ask { Vault(study.db), Analyst(lab), Text(SELECT …) }
//! ```

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use super::print::Format;

const EXIT_STATUSES: &str = "Exit status: 0 all answered · 1 error · 2 usage · 3 refused · 4 budget \
exhausted.\nResults go to standard output, everything else to standard error.";

/// A SQL engine that answers questions about people without telling on anyone.
#[derive(Debug, Parser)]
#[command(name = "hushql", version, arg_required_else_help = true, after_help = EXIT_STATUSES)]
#[command(override_usage = "hushql demo [-c SQL | -f FILE]\n       \
    hushql init PATH\n       \
    hushql VAULT --owner|--analyst NAME [-c SQL | -f FILE]\n       \
    hushql slt FILE… [--vault PATH]")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The vault to open
    vault: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    style: Style,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask about built-in tables, in memory; nothing to set up
    Demo {
        #[command(flatten)]
        ask: Ask,
    },
    /// Make a vault: the file that holds the declarations and the ledger
    Init {
        /// Where; an existing file is never touched
        path: PathBuf,
    },
    /// Run sqllogictest suites; `connection owner` or `connection NAME` picks the session
    Slt {
        /// The suites, each run on an engine of its own
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Run on copies of this vault instead of the built-in tables
        #[arg(long, value_name = "PATH")]
        vault: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Ask {
    /// Ask and declare as the owner
    #[arg(long, conflicts_with = "analyst")]
    owner: bool,
    /// Ask as this analyst
    #[arg(long, value_name = "NAME")]
    analyst: Option<String>,
    /// Run these statements and leave
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file")]
    text: Option<String>,
    /// Run the statements of this file and leave
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// How answers look and when a script ends.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Style {
    /// How answers are written
    #[arg(long, value_enum, global = true, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Run all statements of a script, whatever fails
    #[arg(long, global = true)]
    pub(super) keep_going: bool,
    /// No receipts and no remarks
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
}

/// What a run of the program does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Makes a vault.
    Init { path: PathBuf },
    /// Runs suites.
    Suites { files: Vec<PathBuf>, vault: Option<PathBuf> },
    /// Runs statements.
    Ask { place: Place, asker: Asker, source: Source },
}

/// Where the tables are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The built-in tables.
    Demo,
    /// A vault.
    Vault(PathBuf),
}

/// Who asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The owner of the data.
    Owner,
    /// An analyst.
    Analyst(String),
}

/// Where the statements come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `-c`
    Text(String),
    /// `-f`
    File(PathBuf),
    /// Standard input: the shell on a terminal, else a script.
    Input,
}

impl Arguments {
    /// What is to be done, or why that cannot be known.
    pub(super) fn into_task(self) -> Result<(Task, Style), clap::Error> {
        let usage = |kind, message: &str| Self::command().error(kind, message);
        if self.command.is_some() && (self.vault.is_some() || self.ask.is_any()) {
            let message = "a vault and its options do not go with `demo`, `init` or `slt`; \
                options of `demo` stand after the word";
            return Err(usage(ErrorKind::ArgumentConflict, message));
        }
        let task = match (self.command, self.vault) {
            (Some(Command::Init { path }), _) => Task::Init { path },
            (Some(Command::Slt { files, vault }), _) => Task::Suites { files, vault },
            (Some(Command::Demo { ask }), _) => {
                let (asker, source) = ask.split();
                let asker = asker.unwrap_or_else(|| Asker::Analyst("demo".to_owned()));
                Task::Ask { place: Place::Demo, asker, source }
            }
            (None, Some(path)) => {
                let (asker, source) = self.ask.split();
                let Some(asker) = asker else {
                    let message = "who is asking? Add `--analyst NAME` to ask questions, or \
                        `--owner` to declare tables";
                    return Err(usage(ErrorKind::MissingRequiredArgument, message));
                };
                Task::Ask { place: Place::Vault(path), asker, source }
            }
            (None, None) => {
                let message = "nothing to open: add the path of a vault, or `demo`";
                return Err(usage(ErrorKind::MissingRequiredArgument, message));
            }
        };
        Ok((task, self.style))
    }
}

impl Ask {
    fn is_any(&self) -> bool {
        let Self { owner, analyst, text, file } = self;
        *owner || analyst.is_some() || text.is_some() || file.is_some()
    }

    fn split(self) -> (Option<Asker>, Source) {
        let asker = match (self.owner, self.analyst) {
            (true, _) => Some(Asker::Owner),
            (false, analyst) => analyst.map(Asker::Analyst),
        };
        let source = match (self.text, self.file) {
            (Some(text), _) => Source::Text(text),
            (None, Some(path)) if path.as_os_str() == "-" => Source::Input,
            (None, Some(path)) => Source::File(path),
            (None, None) => Source::Input,
        };
        (asker, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: &str) -> Result<(Task, Style), clap::Error> {
        Arguments::try_parse_from(line.split(' '))?.into_task()
    }

    #[test]
    fn the_parser_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_form_is_understood() {
        let lab = || Asker::Analyst("lab".to_owned());
        let vault = || Place::Vault("study.db".into());
        let forms = [
            ("hushql init study.db", Task::Init { path: "study.db".into() }),
            (
                "hushql slt a.slt b.slt --vault study.db",
                Task::Suites {
                    files: vec!["a.slt".into(), "b.slt".into()],
                    vault: Some("study.db".into()),
                },
            ),
            (
                "hushql demo -c SELECT",
                Task::Ask {
                    place: Place::Demo,
                    asker: Asker::Analyst("demo".to_owned()),
                    source: Source::Text("SELECT".to_owned()),
                },
            ),
            (
                "hushql study.db --owner -f declare.sql",
                Task::Ask {
                    place: vault(),
                    asker: Asker::Owner,
                    source: Source::File("declare.sql".into()),
                },
            ),
            (
                "hushql --quiet study.db --analyst lab",
                Task::Ask { place: vault(), asker: lab(), source: Source::Input },
            ),
            (
                "hushql demo --analyst lab --format json -f -",
                Task::Ask { place: Place::Demo, asker: lab(), source: Source::Input },
            ),
        ];
        for (line, expected) in forms {
            assert_eq!(task(line).unwrap().0, expected, "{line}");
        }
        let (_, style) = task("hushql --format csv --keep-going demo -q").unwrap();
        assert!(style.keep_going && style.quiet && style.format == Format::Csv);
    }

    #[test]
    fn usage_errors_leave_with_2() {
        for line in [
            "hushql study.db",
            "hushql study.db -c SELECT",
            "hushql study.db --owner --analyst lab",
            "hushql study.db --owner -c SELECT -f file",
            "hushql study.db demo",
            "hushql --owner demo",
            "hushql init",
            "hushql slt",
            "hushql demo --format xml",
            "hushql --quiet",
        ] {
            assert_eq!(task(line).unwrap_err().exit_code(), 2, "{line}");
        }
        let missing = task("hushql study.db").unwrap_err().to_string();
        assert!(missing.contains("--analyst NAME") && missing.contains("--owner"), "{missing}");
    }
}
