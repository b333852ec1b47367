//! The arguments of the command line, and the task that they describe.
//!
//! In: the arguments that clap parsed. Out: a [`ProgramTask`] with everything that it needs, or a
//! usage error that names the argument to add. Nothing is opened here.
//!
//! ```text
//! hushql study.db --analyst lab -c 'SELECT …'  →  ProgramTask::Ask { Vault(study.db), Analyst(lab), Text(SELECT …) }
//! ```

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use hushql::ReportForm;

use super::print::Format;
use super::privacy_audit::AuditArguments;
#[cfg(feature = "mcp")]
use super::serving_arguments::OfAgents;
#[cfg(feature = "serve")]
use super::serving_arguments::Serving;
use super::statement_limits::Allowed;
#[cfg(feature = "mcp")]
use crate::mcp::AgentLimits;
#[cfg(feature = "serve")]
use crate::server::Options;

const EXIT_STATUSES: &str = "Exit status: 0 all answered · 1 error · 2 usage · 3 refused · 4 budget \
exhausted.\nResults go to standard output, everything else to standard error; with --format json, errors are results.";

/// A SQL engine with differential privacy.
#[derive(Debug, Parser)]
#[command(name = "hushql", arg_required_else_help = true, after_help = EXIT_STATUSES)]
#[command(override_usage = "hushql demo [-c SQL | -f FILE]\n       \
    hushql init [VAULT] [DATA… [--yes] [--unit COLUMN|ROW|PUBLIC]]\n       \
    hushql VAULT [--anchor FILE] [--cluster FOLDER] --owner|--analyst NAME [-c SQL | -f FILE]\n       \
    hushql anchor VAULT FILE|--remove\n       \
    hushql adopt|check|doctor|dump|upgrade VAULT [--anchor FILE]\n       \
    hushql apply VAULT FILE [--plan] [--anchor FILE]\n       \
    hushql reload VAULT [TABLE…] [--anchor FILE]\n       \
    hushql report VAULT [BUDGET] [--html|--registry] [--anchor FILE]\n       \
    hushql serve VAULT [--anchor FILE] [--listen ADDRESS] [--owner-socket FOLDER] [--mcp ADDRESS]\n       \
    hushql mcp VAULT --analyst NAME [--per-call EPSILON] [--session EPSILON]\n       \
    hushql token VAULT ROLE [--days N]\n       \
    hushql audit --query SQL --declare FILE --table NAME=FILE --neighbour NAME=FILE [--runs N]\n       \
    hushql slt FILE… [--owner] [--public NAME=FILE… | --vault PATH [--anchor FILE] [--analyst NAME]]\n       \
    hushql completions SHELL\n       \
    hushql man\n       \
    hushql --version [--verbose]")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The vault to open
    vault: Option<PathBuf>,
    /// Refuse a vault that is older than this anchor, and move the anchor with each charge
    #[arg(long, value_name = "FILE", requires = "vault")]
    anchor: Option<PathBuf>,
    /// Run the private parts of statements on the workers whose keys are in this folder, which
    /// `hushql-worker enrol` made; needs `hushql-cluster` in the same folder as `hushql`
    #[arg(long, value_name = "FOLDER", global = true)]
    pub cluster: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    allowed: Allowed,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// With --version: also the versions of what the program is made of
    #[arg(long, requires = "version")]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Query built-in tables in memory, without any setup
    Demo {
        #[command(flatten)]
        ask: Ask,
    },
    /// Create a vault, the file for declarations and the ledger of charges; with data, walk from
    /// there to a first answer
    Init {
        #[command(flatten)]
        begun: Begun,
    },
    /// Create an anchor: a file outside the vault's folder that detects when an older copy replaces
    /// the vault
    Anchor {
        /// The vault, which must not be an older copy
        vault: PathBuf,
        /// The path of the new anchor; an existing file is never changed
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        anchor: Option<PathBuf>,
        /// Remove the vault's anchor instead; the vault then opens without one
        #[arg(long)]
        remove: bool,
    },
    /// Verify a whole vault: all pages of the file, all entries of the ledger, all seals and
    /// budgets
    Check {
        /// The vault
        vault: PathBuf,
        /// Refuse a vault that is older than this anchor
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
    },
    /// Adopt a vault that was copied, restored, renamed or moved; use no other copy of it from then
    /// on
    Adopt {
        /// The only copy of the vault that is in use
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
    },
    /// Find faults in the declarations, files and permissions of a vault, with the statements that
    /// mend them
    Doctor {
        /// The vault
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// Print what a question to the project needs instead: versions, and how many tables and
        /// budgets of which kinds there are, without names, paths or amounts
        #[arg(long)]
        support: bool,
    },
    /// Write the declarations and the spending of a vault as a script that rebuilds them in another
    /// vault
    Dump {
        /// The vault
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// Include the verifiers of roles' passwords, from which passwords can be guessed
        #[arg(long)]
        verifiers: bool,
    },
    /// Bring a vault to what a file of declarations says; a second run has nothing to do. What only
    /// the vault has stays
    Apply {
        /// The vault
        vault: PathBuf,
        /// The file of declarations, such as one that `dump` wrote
        file: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// Print the statements that would be run, and change nothing
        #[arg(long)]
        plan: bool,
    },
    /// Verify tables again on the files that a load has replaced, and keep their declarations;
    /// exits with 0 if all of them fit, and with 1 if one does not, which then stays as it was
    Reload {
        /// The vault
        vault: PathBuf,
        /// The tables; without them, all that are read from files or servers
        tables: Vec<String>,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
    },
    /// Say in sentences what budgets promise: what is protected, from whom, at most how much, and
    /// what is not covered
    Report {
        /// The vault
        vault: PathBuf,
        /// The budget; without it, all of them
        budget: Option<String>,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// One page of HTML, without scripts
        #[arg(long, conflicts_with = "registry")]
        html: bool,
        /// A record of the Differential Privacy Deployments Registry, as JSON
        #[arg(long)]
        registry: bool,
    },
    /// Upgrade a vault to the present format
    Upgrade {
        /// The vault
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
    },
    /// Serve a vault to clients that log in by the PostgreSQL protocol
    #[cfg(feature = "serve")]
    Serve {
        /// The vault
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        #[command(flatten)]
        serving: Box<Serving>,
    },
    /// Open a vault as its owner on a page in a browser of this machine: ask, see, declare
    #[cfg(feature = "console")]
    Console(super::serving_arguments::ConsoleArguments),
    /// Answer a language model on standard input and output by the Model Context Protocol: it asks
    /// as an analyst, and never sees rows
    #[cfg(feature = "mcp")]
    Mcp {
        /// The vault
        vault: PathBuf,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// The analyst to ask as [default: HUSHQL_ANALYST, or the configuration file]
        #[arg(long, value_name = "NAME")]
        analyst: Option<String>,
        #[command(flatten)]
        agents: OfAgents,
    },
    /// Print a token with which a program asks as a role, over HTTP
    #[cfg(feature = "mcp")]
    Token {
        /// The vault
        vault: PathBuf,
        /// The role, which may log in with a password
        role: String,
        /// The vault's anchor, if it has one
        #[arg(long = "anchor", value_name = "FILE")]
        held: Option<PathBuf>,
        /// How long the token is valid
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
    /// Run sqllogictest suites; `connection NAME` chooses the analyst
    Slt {
        /// The suites; without a vault, each has its own copy of the built-in tables
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        stage: Stage,
    },
    /// Bound from below the ε that a query shows of one person, by its answers on two databases,
    /// against what is charged
    Audit {
        #[command(flatten)]
        audited: Box<AuditArguments>,
    },
    /// Print completions for a shell, to store where the shell looks for them
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, to store as hushql.1 in a folder man1
    Man,
}

/// What `init` makes, and how much it asks.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(super) struct Begun {
    /// The path of the new vault, and data: files, folders, patterns, or postgres:// addresses.
    /// Without a path, the vault has the name of the data, and an existing one is taken up again
    #[arg(required = true, value_name = "VAULT|DATA")]
    pub(super) paths: Vec<String>,
    /// Take every suggestion that follows from names and types, and ask nothing
    #[arg(long)]
    pub(super) yes: bool,
    /// Who is a person: a column, ROW if each row is another person, or PUBLIC if none is
    #[arg(long, value_name = "COLUMN")]
    pub(super) unit: Option<String>,
    /// The first line of CSV files is a row, not the names of columns
    #[arg(long)]
    pub(super) no_header: bool,
    /// The table of a postgres:// address, as in public.visits
    #[arg(long, value_name = "NAME")]
    pub(super) table: Option<String>,
}

/// Where suites run, and the users who run their statements.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(super) struct Stage {
    /// Query this vault instead of the built-in tables, and charge it
    #[arg(long, value_name = "PATH", conflicts_with = "public")]
    pub(super) vault: Option<PathBuf>,
    /// The anchor of the vault
    #[arg(long, value_name = "FILE", requires = "vault")]
    pub(super) anchor: Option<PathBuf>,
    /// The analyst for records without a `connection` [default: slt]
    #[arg(long, value_name = "NAME")]
    pub(super) analyst: Option<String>,
    /// Let `connection owner` declare and query as the owner
    #[arg(long)]
    pub(super) owner: bool,
    /// Add a public table to the built-in ones: a file that ends with .csv, .parquet, .json or
    /// .arrow
    #[arg(long, value_name = "NAME=FILE")]
    pub(super) public: Vec<String>,
}

#[derive(Debug, Args)]
struct Ask {
    /// Declare and query as the owner
    #[arg(long, conflicts_with = "analyst")]
    owner: bool,
    /// Query as this analyst [default: HUSHQL_ANALYST, or the configuration file]
    #[arg(long, value_name = "NAME")]
    analyst: Option<String>,
    /// Run these statements and exit; may be given several times
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "file")]
    #[arg(allow_hyphen_values = true)]
    text: Vec<String>,
    /// Run the statements in this file and exit
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    file: Option<PathBuf>,
}

/// How answers are displayed, whether a script goes on after a failure, and whether the shell keeps
/// a history.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Style {
    /// The format of answers [default: table]
    #[arg(long, value_enum, global = true)]
    pub(super) format: Option<Format>,
    /// Run all statements of a script, even after a failure
    #[arg(long, global = true)]
    pub(super) keep_going: bool,
    /// Print no receipts and no remarks
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// In CSV, write an apostrophe before texts that a spreadsheet would run as formulas
    #[arg(long, global = true)]
    pub(super) csv_safe: bool,
    /// In CSV, add a column x_error after each column x with a ±
    #[arg(long, global = true)]
    pub(super) csv_errors: bool,
    /// In the shell, neither read nor write the history of inputs
    #[arg(long, global = true)]
    pub(super) no_history: bool,
}

/// The task of a run of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramTask {
    /// Creates a vault, and declares data in it.
    Init { begun: Begun },
    /// Prints the version, or those of all parts.
    Version { verbose: bool },
    /// Creates an anchor, or removes it.
    Anchor { vault: PathBuf, anchor: Option<PathBuf> },
    /// Accepts the present place of a vault as its home.
    Adopt { vault: PathBuf, anchor: Option<PathBuf> },
    /// Upgrades a vault to the present format.
    Upgrade { vault: PathBuf, anchor: Option<PathBuf> },
    /// Finds faults in a vault.
    Doctor { vault: PathBuf, anchor: Option<PathBuf>, support: bool },
    /// Writes the declarations of a vault as a script.
    Dump { vault: PathBuf, anchor: Option<PathBuf>, verifiers: bool },
    /// Brings a vault to what a file says, or says what that takes.
    Apply { vault: PathBuf, file: PathBuf, anchor: Option<PathBuf>, plan: bool },
    /// Verifies tables again.
    Reload { vault: PathBuf, tables: Vec<String>, anchor: Option<PathBuf> },
    /// Says what budgets promise.
    Report { vault: PathBuf, budget: Option<String>, anchor: Option<PathBuf>, form: ReportForm },
    /// Verifies a vault.
    Check { vault: PathBuf, anchor: Option<PathBuf> },
    /// Runs suites.
    Suites { files: Vec<PathBuf>, stage: Stage },
    /// Audits a query.
    Audit(Box<AuditArguments>),
    /// Prints the completions for a shell.
    Completions { shell: Shell },
    /// Prints the manual page.
    Man,
    /// Serves a vault.
    #[cfg(feature = "serve")]
    Serve { vault: PathBuf, anchor: Option<PathBuf>, options: Box<Options> },
    /// Shows a vault to its owner in a browser.
    #[cfg(feature = "console")]
    Console(super::serving_arguments::ConsoleArguments),
    /// Answers a language model.
    #[cfg(feature = "mcp")]
    Agent { place: TablesFrom, analyst: String, limits: AgentLimits },
    /// Makes a token.
    #[cfg(feature = "mcp")]
    Token { vault: PathBuf, anchor: Option<PathBuf>, role: String, days: u32 },
    /// Runs statements.
    Ask { place: TablesFrom, asker: Asker, source: StatementsFrom },
}

/// Where the tables are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TablesFrom {
    /// The built-in tables.
    Demo,
    /// A vault.
    Vault(PathBuf),
    /// A vault that is checked against its anchor.
    Anchored { vault: PathBuf, anchor: PathBuf },
}

/// The user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The owner of the data.
    Owner,
    /// An analyst.
    Analyst(String),
}

/// Where the statements come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StatementsFrom {
    /// `-c`
    Text(String),
    /// `-f`
    File(PathBuf),
    /// Standard input: the shell on a terminal, otherwise a script.
    Input,
}

impl Arguments {
    /// The task, or the usage error that prevents it. `analyst` is used if the arguments name no
    /// user.
    pub(super) fn into_task(
        self,
        analyst: Option<String>,
    ) -> Result<(ProgramTask, Style, Allowed), clap::Error> {
        let usage = |kind, message: &str| Self::command().error(kind, message);
        if self.command.is_some()
            && (self.vault.is_some() || self.anchor.is_some() || self.ask.is_any())
        {
            let message = "a vault and its options cannot precede `demo`, `init`, `anchor`, `adopt`, `check`, `doctor`, `dump`, `apply`, `reload`, `report`, `upgrade`, `serve`, `console`, `mcp`, `token`, `slt`, `audit`, `completions` or `man`; \
            write options of `demo` after `demo`";
            return Err(usage(ErrorKind::ArgumentConflict, message));
        }
        let nobody = |who: &str| {
            let message =
                format!("no user is given: add {who}; HUSHQL_ANALYST may name the analyst, too");
            usage(ErrorKind::MissingRequiredArgument, &message)
        };
        let task = match (self.command, self.vault) {
            _ if self.version => ProgramTask::Version { verbose: self.verbose },
            #[cfg(feature = "mcp")]
            (Some(Command::Mcp { vault, held, analyst: named, agents }), _) => {
                let Some(analyst) = named.or(analyst) else {
                    return Err(nobody("`--analyst NAME`, as whom the agent asks"));
                };
                let place = TablesFrom::of(vault, held);
                ProgramTask::Agent { place, analyst, limits: agents.limits() }
            }
            (Some(command), _) => command.task(),
            (None, Some(path)) => {
                let (asker, source) = self.ask.split();
                let Some(asker) = asker.or_else(|| analyst.map(Asker::Analyst)) else {
                    let who = "`--analyst NAME` to ask questions, or `--owner` to declare tables";
                    return Err(nobody(who));
                };
                let place = TablesFrom::of(path, self.anchor);
                ProgramTask::Ask { place, asker, source }
            }
            (None, None) => {
                let message = "no vault is given: add the path of a vault, or `demo`";
                return Err(usage(ErrorKind::MissingRequiredArgument, message));
            }
        };
        Ok((task, self.style, self.allowed))
    }
}

impl TablesFrom {
    /// A vault, with its anchor if it has one.
    pub(super) fn of(vault: PathBuf, anchor: Option<PathBuf>) -> Self {
        match anchor {
            Some(anchor) => Self::Anchored { vault, anchor },
            None => Self::Vault(vault),
        }
    }
}

impl Command {
    /// The task of a command that needs nothing else.
    fn task(self) -> ProgramTask {
        match self {
            Self::Init { begun } => ProgramTask::Init { begun },
            Self::Anchor { vault, anchor, remove: _ } => ProgramTask::Anchor { vault, anchor },
            Self::Adopt { vault, held } => ProgramTask::Adopt { vault, anchor: held },
            Self::Check { vault, held } => ProgramTask::Check { vault, anchor: held },
            Self::Doctor { vault, held, support } => {
                ProgramTask::Doctor { vault, anchor: held, support }
            }
            Self::Dump { vault, held, verifiers } => {
                ProgramTask::Dump { vault, anchor: held, verifiers }
            }
            Self::Apply { vault, file, held, plan } => {
                ProgramTask::Apply { vault, file, anchor: held, plan }
            }
            Self::Reload { vault, tables, held } => {
                ProgramTask::Reload { vault, tables, anchor: held }
            }
            Self::Report { vault, budget, held, html, registry } => {
                let form = match (html, registry) {
                    (true, _) => ReportForm::Html,
                    (false, true) => ReportForm::Registry,
                    (false, false) => ReportForm::Text,
                };
                ProgramTask::Report { vault, budget, anchor: held, form }
            }
            Self::Upgrade { vault, held } => ProgramTask::Upgrade { vault, anchor: held },
            #[cfg(feature = "serve")]
            Self::Serve { vault, held, serving } => {
                let options = Box::new((*serving).options(&vault));
                ProgramTask::Serve { vault, anchor: held, options }
            }
            #[cfg(feature = "console")]
            Self::Console(opened) => ProgramTask::Console(opened),
            #[cfg(feature = "mcp")]
            Self::Mcp { vault, held, analyst, agents } => ProgramTask::Agent {
                place: TablesFrom::of(vault, held),
                analyst: analyst.unwrap_or_default(),
                limits: agents.limits(),
            },
            #[cfg(feature = "mcp")]
            Self::Token { vault, role, held, days } => {
                ProgramTask::Token { vault, anchor: held, role, days }
            }
            Self::Slt { files, stage } => ProgramTask::Suites { files, stage },
            Self::Audit { audited } => ProgramTask::Audit(audited),
            Self::Completions { shell } => ProgramTask::Completions { shell },
            Self::Man => ProgramTask::Man,
            Self::Demo { ask } => {
                let (asker, source) = ask.split();
                let asker = asker.unwrap_or_else(|| Asker::Analyst("demo".to_owned()));
                ProgramTask::Ask { place: TablesFrom::Demo, asker, source }
            }
        }
    }
}

impl Ask {
    fn is_any(&self) -> bool {
        let Self { owner, analyst, text, file } = self;
        *owner || analyst.is_some() || !text.is_empty() || file.is_some()
    }

    fn split(self) -> (Option<Asker>, StatementsFrom) {
        let asker = match (self.owner, self.analyst) {
            (true, _) => Some(Asker::Owner),
            (false, analyst) => analyst.map(Asker::Analyst),
        };
        let source = match self.file {
            // Each text may end with a comment, a semicolon, or neither.
            _ if !self.text.is_empty() => StatementsFrom::Text(self.text.join("\n;\n")),
            Some(path) if path.as_os_str() == "-" => StatementsFrom::Input,
            Some(path) => StatementsFrom::File(path),
            None => StatementsFrom::Input,
        };
        (asker, source)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hushql::Resources;

    use super::*;

    fn task(line: &str) -> Result<(ProgramTask, Style, Allowed), clap::Error> {
        Arguments::try_parse_from(line.split(' '))?.into_task(None)
    }

    #[test]
    fn the_parser_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_form_is_understood() {
        let lab = || Asker::Analyst("lab".to_owned());
        let begun = |path: &str| Begun {
            paths: vec![path.to_owned()],
            yes: false,
            unit: None,
            no_header: false,
            table: None,
        };
        let vault = || TablesFrom::Vault("study.db".into());
        let forms = [
            ("hushql init study.db", ProgramTask::Init { begun: begun("study.db") }),
            (
                "hushql init --yes visits.csv --unit patient",
                ProgramTask::Init {
                    begun: Begun {
                        yes: true,
                        unit: Some("patient".to_owned()),
                        ..begun("visits.csv")
                    },
                },
            ),
            ("hushql --version", ProgramTask::Version { verbose: false }),
            ("hushql -V --verbose", ProgramTask::Version { verbose: true }),
            (
                "hushql doctor study.db --support",
                ProgramTask::Doctor { vault: "study.db".into(), anchor: None, support: true },
            ),
            (
                "hushql slt a.slt b.slt --vault study.db",
                ProgramTask::Suites {
                    files: vec!["a.slt".into(), "b.slt".into()],
                    stage: Stage { vault: Some("study.db".into()), ..Stage::default() },
                },
            ),
            (
                "hushql slt a.slt --owner --analyst lab --vault study.db --anchor a",
                ProgramTask::Suites {
                    files: vec!["a.slt".into()],
                    stage: Stage {
                        vault: Some("study.db".into()),
                        anchor: Some("a".into()),
                        analyst: Some("lab".to_owned()),
                        owner: true,
                        public: Vec::new(),
                    },
                },
            ),
            (
                "hushql demo -c SELECT",
                ProgramTask::Ask {
                    place: TablesFrom::Demo,
                    asker: Asker::Analyst("demo".to_owned()),
                    source: StatementsFrom::Text("SELECT".to_owned()),
                },
            ),
            (
                "hushql study.db --owner -f declare.sql",
                ProgramTask::Ask {
                    place: vault(),
                    asker: Asker::Owner,
                    source: StatementsFrom::File("declare.sql".into()),
                },
            ),
            (
                "hushql --quiet study.db --analyst lab",
                ProgramTask::Ask { place: vault(), asker: lab(), source: StatementsFrom::Input },
            ),
            (
                "hushql anchor study.db /safe/study.anchor",
                ProgramTask::Anchor {
                    vault: "study.db".into(),
                    anchor: Some("/safe/study.anchor".into()),
                },
            ),
            (
                "hushql anchor study.db --remove",
                ProgramTask::Anchor { vault: "study.db".into(), anchor: None },
            ),
            (
                "hushql adopt study.db --anchor /safe/study.anchor",
                ProgramTask::Adopt {
                    vault: "study.db".into(),
                    anchor: Some("/safe/study.anchor".into()),
                },
            ),
            (
                "hushql upgrade study.db",
                ProgramTask::Upgrade { vault: "study.db".into(), anchor: None },
            ),
            (
                "hushql check study.db --anchor /safe/study.anchor",
                ProgramTask::Check {
                    vault: "study.db".into(),
                    anchor: Some("/safe/study.anchor".into()),
                },
            ),
            (
                "hushql study.db --anchor /safe/study.anchor --owner",
                ProgramTask::Ask {
                    place: TablesFrom::Anchored {
                        vault: "study.db".into(),
                        anchor: "/safe/study.anchor".into(),
                    },
                    asker: Asker::Owner,
                    source: StatementsFrom::Input,
                },
            ),
            ("hushql completions fish", ProgramTask::Completions { shell: Shell::Fish }),
            ("hushql man", ProgramTask::Man),
            (
                "hushql demo --analyst lab --format json -f -",
                ProgramTask::Ask {
                    place: TablesFrom::Demo,
                    asker: lab(),
                    source: StatementsFrom::Input,
                },
            ),
        ];
        for (line, expected) in forms {
            assert_eq!(task(line).unwrap().0, expected, "{line}");
        }
        let (_, style, allowed) = task("hushql --format csv --keep-going demo -q").unwrap();
        assert!(style.keep_going && style.quiet && style.format == Some(Format::Csv));
        assert_eq!(allowed.resources(), Resources::default());
        let line = "hushql demo --memory 2GB --spill /tmp --timeout 60 --max-rows 10";
        let resources = task(line).unwrap().2.resources();
        assert_eq!(resources.memory, Some(2_000_000_000));
        assert_eq!(resources.spill, Some(PathBuf::from("/tmp")));
        assert_eq!((resources.time, resources.rows), (Some(Duration::from_secs(60)), 10));
        let line = "hushql demo --memory none --timeout none --max-rows none --max-fan-out none";
        let resources = task(line).unwrap().2.resources();
        assert_eq!((resources.memory, resources.time), (None, None));
        assert_eq!((resources.rows, resources.rows_of_a_unit), (usize::MAX, u64::MAX));
    }

    #[test]
    fn the_environment_may_name_the_analyst() {
        let asker = |line: &str| {
            let parsed = Arguments::try_parse_from(line.split(' ')).unwrap();
            match parsed.into_task(Some("lab".to_owned())).unwrap().0 {
                ProgramTask::Ask { asker, .. } => asker,
                task => panic!("{task:?}"),
            }
        };
        let analyst = |name: &str| Asker::Analyst(name.to_owned());
        assert_eq!(asker("hushql study.db"), analyst("lab"));
        assert_eq!(asker("hushql study.db --analyst other"), analyst("other"));
        assert_eq!(asker("hushql study.db --owner"), Asker::Owner);
        assert_eq!(asker("hushql demo"), analyst("demo"));
    }

    /// `-c "-- a comment"` was once read as an unknown option.
    #[test]
    fn any_text_is_a_statement() {
        for text in ["-- why\nSELECT 1", "-1", "--x", "-c", "--owner", "-", "--", "", " -- x"] {
            for before in [&["demo"][..], &["study.db", "--owner"]] {
                let words = [&["hushql"], before, &["-c", text]].concat();
                let task = Arguments::try_parse_from(words).unwrap().into_task(None).unwrap().0;
                let ProgramTask::Ask { source, .. } = task else { panic!("{text}: {task:?}") };
                assert_eq!(source, StatementsFrom::Text(text.to_owned()));
            }
        }
        let words = ["hushql", "demo", "-c", "SELECT 1 -- one;", "-c", "SELECT 2;"];
        let twice = Arguments::try_parse_from(words).unwrap().into_task(None).unwrap().0;
        let ProgramTask::Ask { source: StatementsFrom::Text(text), .. } = twice else {
            panic!("{twice:?}")
        };
        let statements = hushql::split_statements(&text).unwrap();
        let statements: Vec<_> = statements.iter().map(|one| one.text().trim()).collect();
        assert_eq!(statements, ["SELECT 1 -- one;", "SELECT 2"]);
        for (line, file) in
            [("-f -x.sql", "-x.sql"), ("-f=-x", "-x"), ("-f --keep-going", "--keep-going")]
        {
            let ProgramTask::Ask { source, .. } = task(&format!("hushql demo {line}")).unwrap().0
            else {
                panic!("{line}")
            };
            assert_eq!(source, StatementsFrom::File(file.into()), "{line}");
        }
    }

    #[test]
    fn usage_errors_leave_with_2() {
        for line in [
            "hushql demo -c",
            "hushql demo -f",
            "hushql study.db -c --owner",
            "hushql slt a.slt --anchor a",
            "hushql slt a.slt --vault study.db --public t=t.csv",
            "hushql --owner slt a.slt",
            "hushql study.db",
            "hushql study.db -c SELECT",
            "hushql study.db --owner --analyst lab",
            "hushql study.db --owner -c SELECT -f file",
            "hushql study.db demo",
            "hushql --owner demo",
            "hushql init",
            "hushql demo --verbose",
            "hushql --verbose",
            "hushql anchor study.db",
            "hushql anchor study.db a --remove",
            "hushql adopt",
            "hushql check",
            "hushql --anchor a check study.db",
            "hushql --anchor a demo",
            "hushql slt",
            "hushql completions",
            "hushql completions cmd",
            "hushql demo --format xml",
            "hushql demo --memory 2XB",
            "hushql demo --memory 0",
            "hushql demo --memory 999KB",
            "hushql demo --max-rows 0",
            "hushql demo --timeout 1m",
            "hushql demo --memory 99999999999TB",
            "hushql demo --max-fan-out 0",
            "hushql demo --timeout 0",
            "hushql --quiet",
        ] {
            assert_eq!(task(line).unwrap_err().exit_code(), 2, "{line}");
        }
        let missing = task("hushql study.db").unwrap_err().to_string();
        assert!(missing.contains("--analyst NAME") && missing.contains("--owner"), "{missing}");
    }
}
