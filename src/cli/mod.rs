//! The command line: a guest of the library, which uses only its public items.
//!
//! In: parsed [`Arguments`]. Out: results on standard output, everything else on standard error,
//! and an exit status: 0 all answered, 1 error, 2 usage, 3 refused, 4 budget exhausted. It prints
//! whatever a [`hushql::Session`] returns, and assumes that a session reveals no more than its
//! ledger records.
//!
//! ```text
//! Arguments ─▶ Task ─┬▶ exec   -c, -f or a pipe: a script, statement by statement
//!                    ├▶ repl   a terminal: the shell
//!                    └▶ slt    suites
//!                 all of them ─▶ print (table | csv | json)
//! ```

mod arguments;
mod as_code;
mod chart;
mod commands;
mod complete;
mod config;
mod consent;
#[cfg(feature = "console")]
mod console_pages;
mod deliver;
mod draw;
mod editor;
mod exec;
mod failure;
mod help;
mod history;
mod json;
mod lex;
mod manual;
mod output_file;
mod pager;
mod parts;
mod paths;
mod plain;
mod print;
mod privacy_audit;
mod progress;
mod prompt;
mod repl;
#[cfg(feature = "serve")]
mod serving_arguments;
mod slt;
mod statement_limits;
mod support;
mod table;
mod terminate;
mod view;
mod walkthrough;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::thread;

use clap::Parser;
use hushql::{Engine, EngineBuilder, Error, Output, Resources, Session, VaultFile};
use hushql_vault::ledger::{Vault, VaultError};
use tokio::runtime::{Builder, Runtime};

pub use self::arguments::Arguments;
use self::arguments::{Asker, Begun, ProgramTask, StatementsFrom, Style, TablesFrom};
use self::config::Settings;
use self::failure::Failure;
use self::print::{Format, Printer};
use self::repl::Start;

/// The stack size of threads. Deep statements fit it, so that none needs a second stack: the system
/// would map and unmap that one on every core each time that a waiting statement continues.
const STACK: usize = 96 << 20;

/// The exit status after an error.
const FAILED: u8 = 1;

/// Decides where the private parts of statements run. It gets the builder of each engine that opens
/// a vault for queries, and returns the builder to use, or an error sentence. It is called within
/// the runtime.
pub type Placing<'a> = &'a (dyn Fn(EngineBuilder) -> Result<EngineBuilder, String> + Sync);

/// Runs the program as a function, for a process that is another program: `arguments` begin with
/// the program's name. Returns the exit status. Arguments that cannot be read, `--help` and
/// `--version` print and end the process, as they do in a program of its own. There are no workers.
pub fn run_within(arguments: Vec<OsString>) -> u8 {
    let arguments = Arguments::parse_from(arguments);
    if arguments.cluster.is_some() {
        let sentence = "error: --cluster needs hushql-cluster, which is built from the source: \
                        cargo build --release -p hushql-cluster";
        Printer::new(Format::Table, false).warn(sentence);
        return FAILED;
    }
    run(arguments, &Ok)
}

/// Runs the task that the arguments describe, and returns the exit status. Arguments that cannot be
/// combined end the process with a usage message.
pub fn run(arguments: Arguments, placed: Placing<'_>) -> u8 {
    print::silence_panics();
    let settings = match config::read() {
        Ok(settings) => settings,
        Err(failure) => {
            Printer::new(Format::Table, false).warn(&failure.text());
            return failure.exit_status();
        }
    };
    let (task, style, allowed) = match arguments.into_task(config::analyst(&settings)) {
        Ok(parsed) => parsed,
        Err(usage) => usage.exit(),
    };
    let mut printer = Printer::new(style.format.unwrap_or(Format::Table), style.quiet);
    if std::io::stdout().is_terminal() {
        printer.screen = repl::terminal();
    }
    if plain::is_wanted() || settings.ascii {
        printer = printer.with_ascii();
    }
    printer.csv_safe = style.csv_safe;
    printer.csv_errors = style.csv_errors;
    let work = || {
        let runtime = runtime()?;
        let work = perform(task, style, settings, allowed.resources(), placed, printer);
        let result = runtime.block_on(work);
        // A cancelled query may still process its last batch. The program does not wait for it.
        runtime.shutdown_background();
        result
    };
    let Ok(result) = on_deep_stack(work) else {
        print::panicked();
        return FAILED;
    };
    match result {
        Ok(status) => status,
        // The reader of the output has gone, and the output cost nothing, so no message is needed.
        Err(failure) if failure.is_broken_pipe() => 0,
        Err(failure) => {
            // If this message cannot be written either, the exit status still reports the failure.
            let _ = printer.last(&failure);
            failure.exit_status()
        }
    }
}

/// Runs `work` on a thread with a deep stack, like the runtime's own threads; an error if it
/// panics.
fn on_deep_stack<T: Send>(
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> thread::Result<Result<T, Failure>> {
    thread::scope(|scope| {
        match thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work) {
            Ok(working) => working.join(),
            Err(source) => Ok(Err(Failure::Start { source })),
        }
    })
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|source| Failure::Start { source })
}

async fn perform(
    task: ProgramTask,
    style: Style,
    settings: Settings,
    resources: Resources,
    placed: Placing<'_>,
    printer: Printer,
) -> Result<u8, Failure> {
    match task {
        ProgramTask::Init { begun } => init(&begun, printer, resources, placed).await,
        ProgramTask::Version { verbose } => {
            printer.show(&support::version(verbose))?;
            Ok(0)
        }
        ProgramTask::Anchor { vault, anchor: Some(anchor) } => {
            make_anchor(&vault, &anchor, printer)
        }
        ProgramTask::Anchor { vault, anchor: None } => {
            VaultFile::at(&vault).remove_anchor()?;
            said(printer, &format!("vault {} no longer has an anchor", vault.display()))
        }
        ProgramTask::Adopt { vault, anchor } => {
            VaultFile::at(&vault).adopt(anchor.as_deref())?;
            let vault = vault.display();
            said(printer, &format!("vault {vault} is now at home in this place; use no other copy"))
        }
        ProgramTask::Upgrade { vault, anchor } => {
            VaultFile::at(&vault).upgrade(anchor.as_deref())?;
            said(printer, &support::upgraded(&vault))
        }
        ProgramTask::Check { vault, anchor } => check(&vault, anchor.as_deref(), printer),
        ProgramTask::Dump { vault, anchor, verifiers } => {
            let engine = builder(anchor.as_deref()).open_for_upkeep(vault)?;
            let script = if verifiers { engine.dump_with_verifiers()? } else { engine.dump()? };
            printer.script(&script)?;
            Ok(0)
        }
        ProgramTask::Apply { vault, file, anchor, plan } => {
            let engine = builder(anchor.as_deref()).resources(resources).open(vault)?;
            as_code::apply(&engine, &file, plan, printer).await
        }
        ProgramTask::Reload { vault, tables, anchor } => {
            let engine = builder(anchor.as_deref()).resources(resources).open(vault)?;
            as_code::reload(&engine, &tables, printer).await
        }
        ProgramTask::Report { vault, budget, anchor, form } => {
            let engine = builder(anchor.as_deref()).open_for_upkeep(vault)?;
            printer.script(&engine.report(budget.as_deref(), form)?)?;
            Ok(0)
        }
        ProgramTask::Doctor { vault, anchor, support: true } => {
            let engine = builder(anchor.as_deref()).open_for_upkeep(vault)?;
            printer.show(&support::described(&engine)?)?;
            Ok(0)
        }
        ProgramTask::Doctor { vault, anchor, support: false } => {
            let findings = builder(anchor.as_deref()).open_for_upkeep(&vault)?.doctor()?;
            printer.output(&Output::Answer(findings))?;
            #[cfg(feature = "serve")]
            for sentence in crate::server::refused_by_catalog(&vault) {
                printer.done(&sentence)?;
            }
            Ok(0)
        }
        ProgramTask::Completions { shell } => printer.raw(&manual::completions(shell)),
        ProgramTask::Man => printer.raw(&manual::page()?),
        ProgramTask::Audit(audited) => privacy_audit::run(&audited, resources, printer).await,
        ProgramTask::Suites { files, stage } => slt::run(&files, &stage, &resources, printer).await,
        #[cfg(feature = "serve")]
        ProgramTask::Serve { vault, anchor, options } => {
            let path = vault.clone();
            let engine = engine(&TablesFrom::of(vault, anchor), resources, placed)?;
            let say = |sentence: &str| printer.note(sentence);
            #[cfg(feature = "console")]
            let shown = console_pages::PRESENTATION;
            #[cfg(not(feature = "console"))]
            let shown = ();
            let serving = crate::server::serve(engine, &path, (options.as_ref(), shown), say);
            serving.await.map_err(Failure::Usage)?;
            Ok(0)
        }
        #[cfg(feature = "console")]
        ProgramTask::Console(opened) => {
            let place =
                opened.vault.map_or(TablesFrom::Demo, |vault| TablesFrom::of(vault, opened.held));
            let engine = engine(&place, resources, placed)?;
            let say = |sentence: &str| printer.warn(sentence);
            let shown = console_pages::PRESENTATION;
            let serving = crate::server::console(engine, (opened.listen, opened.audit), shown, say);
            serving.await.map_err(Failure::Usage)?;
            Ok(0)
        }
        #[cfg(feature = "mcp")]
        ProgramTask::Agent { place, analyst, limits } => {
            let session = open(&place, &Asker::Analyst(analyst), resources, placed)?;
            crate::mcp::on_standard_streams(session, limits).await.map_err(Failure::Usage)?;
            Ok(0)
        }
        #[cfg(feature = "mcp")]
        ProgramTask::Token { vault, anchor, role, days } => {
            let engine = builder(anchor.as_deref()).open(vault)?;
            printer.script(&format!("{}\n", engine.bearer_token(&role, days)?))?;
            Ok(0)
        }
        ProgramTask::Ask { place, asker, source } => {
            let session = open(&place, &asker, resources, placed)?;
            let script = match source {
                StatementsFrom::Text(text) => text,
                StatementsFrom::File(path) => exec::read(&path)?,
                StatementsFrom::Input if std::io::stdin().is_terminal() => {
                    let keeps = !style.no_history && !settings.no_history;
                    let history = keeps.then(|| history::file(&place, &asker)).flatten();
                    let start = Start {
                        demo: matches!(place, TablesFrom::Demo),
                        is_owner: matches!(asker, Asker::Owner),
                        has_format: style.format.is_some(),
                        history,
                        settings,
                    };
                    return repl::run(session, printer, start).await;
                }
                StatementsFrom::Input => exec::read_input()?,
            };
            exec::script(&session, printer, &script, style.keep_going).await
        }
    }
}

/// Opens engines with this anchor, if there is one.
fn builder(anchor: Option<&Path>) -> EngineBuilder {
    match anchor {
        Some(anchor) => Engine::builder().anchor(anchor),
        None => Engine::builder(),
    }
}

/// The engine that asks.
fn engine(
    place: &TablesFrom,
    resources: Resources,
    placed: Placing<'_>,
) -> Result<Engine, Failure> {
    let builder = placed(Engine::builder().resources(resources)).map_err(Failure::Usage)?;
    Ok(match place {
        TablesFrom::Demo => builder.demo()?,
        TablesFrom::Vault(vault) => builder.open(vault)?,
        TablesFrom::Anchored { vault, anchor } => builder.anchor(anchor).open(vault)?,
    })
}

fn open(
    place: &TablesFrom,
    asker: &Asker,
    resources: Resources,
    placed: Placing<'_>,
) -> Result<Session, Failure> {
    let engine = engine(place, resources, placed)?;
    Ok(match asker {
        Asker::Owner => engine.owner().into(),
        Asker::Analyst(name) => engine.analyst(name)?.into(),
    })
}

fn said(printer: Printer, sentence: &str) -> Result<u8, Failure> {
    printer.done(sentence)?;
    Ok(0)
}

/// Creates a vault; with data, walks from there to a first answer.
async fn init(
    begun: &Begun,
    printer: Printer,
    resources: Resources,
    placed: Placing<'_>,
) -> Result<u8, Failure> {
    let plan = walkthrough::plan(begun)?;
    if plan.data.is_empty() {
        Engine::init(&plan.vault)?;
        let path = plan.vault.display();
        let sentence =
            format!("created vault {path}; declare its tables with: hushql {path} --owner");
        return said(printer, &sentence);
    }
    let builder = placed(Engine::builder().resources(resources)).map_err(Failure::Usage)?;
    walkthrough::walk(&plan, begun, builder, printer).await
}

fn make_anchor(vault: &Path, anchor: &Path, printer: Printer) -> Result<u8, Failure> {
    VaultFile::at(vault).make_anchor(anchor)?;
    let (vault, anchor) = (vault.display(), anchor.display());
    printer.done(&format!(
        "created anchor {anchor}; from now on, write: hushql {vault} --anchor {anchor} …"
    ))?;
    Ok(0)
}

fn check(vault: &Path, anchor: Option<&Path>, printer: Printer) -> Result<u8, Failure> {
    let opened = match anchor {
        Some(anchor) => Vault::open_anchored(vault, anchor),
        None => Vault::open(vault),
    };
    let (opened, remark) = match opened {
        Err(VaultError::ReadOnly { .. }) => (
            Vault::open_to_read(vault, anchor),
            "; it cannot be written here, so nothing can be charged to it",
        ),
        opened => (opened, ""),
    };
    let verified = opened.and_then(|opened| opened.verify()).map_err(Error::from)?;
    printer.done(&format!("the vault {} is sound: {verified}{remark}", vault.display()))?;
    Ok(0)
}
