//! The arguments of the command line, and the task that they amount to.
//!
//! In: what clap parsed. Out: a [`Task`] in which everything needed is there, or a usage error that says
//! which argument to add. Nothing is opened here.
//!
//! ```text
//! hushql study.db --analyst lab -c 'SELECT …'  →  Task::Ask { Vault(study.db), Analyst(lab), Text(SELECT …) }
//! ```

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use hushql::Resources;

use super::print::Format;

const EXIT_STATUSES: &str = "Exit status: 0 all answered · 1 error · 2 usage · 3 refused · 4 budget \
exhausted.\nResults go to standard output, everything else to standard error.";

/// A SQL engine that answers questions about people without telling on anyone.
#[derive(Debug, Parser)]
#[command(name = "hushql", version, arg_required_else_help = true, after_help = EXIT_STATUSES)]
#[command(override_usage = "hushql demo [-c SQL | -f FILE]\n       \
    hushql init PATH\n       \
    hushql VAULT [--anchor FILE] --owner|--analyst NAME [-c SQL | -f FILE]\n       \
    hushql anchor VAULT FILE\n       \
    hushql check VAULT [--anchor FILE]\n       \
    hushql slt FILE… [--vault PATH]")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The vault to open
    vault: Option<PathBuf>,
    /// Refuse if the vault was put back since this anchor was last moved, and move it with every charge
    #[arg(long, value_name = "FILE", requires = "vault")]
    anchor: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    allowed: Allowed,
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
    /// Make an anchor: a file outside of the vault's folder that notices when the vault is put back
    Anchor {
        /// The vault, which must not have been put back until now
        vault: PathBuf,
        /// Where; an existing file is never touched
        anchor: PathBuf,
    },
    /// Verify a whole vault: every page of the file, every entry of the ledger, every seal and budget
    Check {
        /// The vault
        vault: PathBuf,
        /// Refuse if the vault was put back since this anchor was last moved
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
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

/// What one statement may use of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "What a statement may use")]
pub(super) struct Allowed {
    /// At most so much memory, such as 2GB or 500MB; a statement that needs more fails
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    memory: Option<usize>,
    /// Write what does not fit into the memory to files below this folder, removed when the statement ends
    #[arg(long, global = true, value_name = "FOLDER", requires = "memory")]
    spill: Option<PathBuf>,
    /// At most so many seconds for running it
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,
    /// At most so many rows in an answer
    #[arg(long, global = true, value_name = "ROWS", value_parser = rows)]
    max_rows: Option<usize>,
}

impl Allowed {
    /// As the library takes it.
    pub(super) fn resources(self) -> Resources {
        let usual = Resources::default();
        Resources {
            rows: self.max_rows.unwrap_or(usual.rows),
            memory: self.memory,
            spill: self.spill,
            time: self.timeout.map(Duration::from_secs),
            ..usual
        }
    }
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<u64>().ok().filter(|n| *n > 0);
    seconds.ok_or_else(|| "a time is a whole number of seconds, such as 60".to_owned())
}

/// Reads a number of rows. With none at all, every statement would be paid for and fail.
fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse::<usize>().ok().filter(|n| *n > 0);
    rows.ok_or_else(|| "a number of rows is a whole number, at least 1".to_owned())
}

/// Reads a size: a whole number of bytes, KB, MB, GB or TB. With less than a megabyte nothing runs that is paid for.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" => 1,
        "M" | "MB" => 2,
        "G" | "GB" => 3,
        "T" | "TB" => 4,
        _ => return Err("a size is a whole number with KB, MB, GB or TB, such as 2GB".to_owned()),
    };
    let bytes =
        number.parse::<usize>().ok().and_then(|n| n.checked_mul(1000_usize.checked_pow(power)?));
    bytes.filter(|n| *n >= 1_000_000).ok_or_else(|| {
        "a size is at least 1MB, and as many bytes as there can be at most".to_owned()
    })
}

/// What a run of the program does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Makes a vault.
    Init { path: PathBuf },
    /// Makes an anchor.
    Anchor { vault: PathBuf, anchor: PathBuf },
    /// Verifies a vault.
    Check { vault: PathBuf, anchor: Option<PathBuf> },
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
    /// A vault that is held to its anchor.
    Anchored { vault: PathBuf, anchor: PathBuf },
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
    pub(super) fn into_task(self) -> Result<(Task, Style, Allowed), clap::Error> {
        let usage = |kind, message: &str| Self::command().error(kind, message);
        if self.command.is_some()
            && (self.vault.is_some() || self.anchor.is_some() || self.ask.is_any())
        {
            let message = "a vault and its options do not go with `demo`, `init`, `anchor`, `check` or `slt`; \
                options of `demo` stand after the word";
            return Err(usage(ErrorKind::ArgumentConflict, message));
        }
        let task = match (self.command, self.vault) {
            (Some(Command::Init { path }), _) => Task::Init { path },
            (Some(Command::Anchor { vault, anchor }), _) => Task::Anchor { vault, anchor },
            (Some(Command::Check { vault, anchor }), _) => Task::Check { vault, anchor },
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
                let place = match self.anchor {
                    Some(anchor) => Place::Anchored { vault: path, anchor },
                    None => Place::Vault(path),
                };
                Task::Ask { place, asker, source }
            }
            (None, None) => {
                let message = "nothing to open: add the path of a vault, or `demo`";
                return Err(usage(ErrorKind::MissingRequiredArgument, message));
            }
        };
        Ok((task, self.style, self.allowed))
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

    fn task(line: &str) -> Result<(Task, Style, Allowed), clap::Error> {
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
                "hushql anchor study.db /safe/study.anchor",
                Task::Anchor { vault: "study.db".into(), anchor: "/safe/study.anchor".into() },
            ),
            (
                "hushql check study.db --anchor /safe/study.anchor",
                Task::Check { vault: "study.db".into(), anchor: Some("/safe/study.anchor".into()) },
            ),
            (
                "hushql study.db --anchor /safe/study.anchor --owner",
                Task::Ask {
                    place: Place::Anchored {
                        vault: "study.db".into(),
                        anchor: "/safe/study.anchor".into(),
                    },
                    asker: Asker::Owner,
                    source: Source::Input,
                },
            ),
            (
                "hushql demo --analyst lab --format json -f -",
                Task::Ask { place: Place::Demo, asker: lab(), source: Source::Input },
            ),
        ];
        for (line, expected) in forms {
            assert_eq!(task(line).unwrap().0, expected, "{line}");
        }
        let (_, style, allowed) = task("hushql --format csv --keep-going demo -q").unwrap();
        assert!(style.keep_going && style.quiet && style.format == Format::Csv);
        assert_eq!(allowed.resources(), Resources::default());
        let line = "hushql demo --memory 2GB --spill /tmp --timeout 60 --max-rows 10";
        let resources = task(line).unwrap().2.resources();
        assert_eq!(resources.memory, Some(2_000_000_000));
        assert_eq!(resources.spill, Some(PathBuf::from("/tmp")));
        assert_eq!((resources.time, resources.rows), (Some(Duration::from_secs(60)), 10));
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
            "hushql anchor study.db",
            "hushql check",
            "hushql --anchor a check study.db",
            "hushql --anchor a demo",
            "hushql slt",
            "hushql demo --format xml",
            "hushql demo --memory 2XB",
            "hushql demo --memory 0",
            "hushql demo --memory 999KB",
            "hushql demo --max-rows 0",
            "hushql demo --timeout 1m",
            "hushql demo --memory 99999999999TB",
            "hushql demo --spill /tmp",
            "hushql demo --timeout 0",
            "hushql --quiet",
        ] {
            assert_eq!(task(line).unwrap_err().exit_code(), 2, "{line}");
        }
        let missing = task("hushql study.db").unwrap_err().to_string();
        assert!(missing.contains("--analyst NAME") && missing.contains("--owner"), "{missing}");
    }
}
