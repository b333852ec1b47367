//! The shell: reads statements and backslash commands from a terminal until the user leaves.
//!
//! In: a session. Out: the printed results. The shell asks before a query that costs more than the
//! smallest PER QUERY default, shows the smallest remainder of a budget in its prompt, and survives
//! every failure except the loss of its terminal.
//!
//! A statement may have several lines; after the first one, the prompt shows an open quotation,
//! comment or bracket. If a line is pasted while the shell asks about a cost, the shell reads it
//! after the answer.
//!
//! ```text
//! hushql ε 9.0> SELECT ARGMAX EXPONENTIAL(eps=1) status
//!            -> FROM adult GROUP BY status;
//! this query costs ε = 1. Run it? (y/N) y
//! ```

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::FutureExt;
use hushql::privacy::Spend;
use hushql::{Answer, Output, Session};
use hushql_vault::ledger::BudgetState;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, CompletionType, Config, DefaultEditor, Editor, Helper};

use super::commands::{self, Action, is_command, switched};
use super::complete::Vocabulary;
use super::config::Settings;
use super::consent::{self, Reply, marks};
use super::editor::Assistant;
use super::exec::{self, Interrupt};
use super::failure::Failure;
use super::help;
use super::lex;
use super::output_file::OutputFile;
use super::pager::{self, Screen};
use super::print::{Format, Printer};
use super::prompt::{continuation, prompt};
use super::table;
use super::terminate;

/// The number of inputs in the history.
const HISTORY: usize = 10_000;
/// The remark if no pager may run.
const NO_PAGER: &str =
    "a pager is a program, which only the configuration file can name, with `pager = less`";

/// The initial state of a shell.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Whether its tables are the built-in ones.
    pub(super) demo: bool,
    /// Whether the owner types.
    pub(super) is_owner: bool,
    /// Whether the command line chose a format.
    pub(super) has_format: bool,
    /// The file of the history, if there is one.
    pub(super) history: Option<PathBuf>,
    /// The settings of the user.
    pub(super) settings: Settings,
}

/// Runs the shell until the user leaves; the exit status is then 0.
pub(super) async fn run(session: Session, printer: Printer, start: Start) -> Result<u8, Failure> {
    let demo = start.demo;
    // From here on, Ctrl-C between two prompts must not end the process, so the shell handles its
    // signal.
    let _ = tokio::signal::ctrl_c().now_or_never();
    terminate::restores_the_terminal();
    let mut shell = Shell::new(session, printer, start)?;
    let version = env!("CARGO_PKG_VERSION");
    printer.note(&format!(
        "HushQL {version} · a statement ends with ; · \\? lists the commands, \\q leaves"
    ));
    if demo {
        help::to_try().into_iter().for_each(|line| printer.note(&line));
    } else if let Some(question) = help::first_question(&shell.session.budgets()?) {
        printer.note(&format!("A first question: {question}"));
    }
    while let Some(input) = shell.read()? {
        if let Err(failure) = shell.answer(&input.text, input.into.as_deref()).await {
            if failure.is_final() {
                return Err(failure);
            }
            shell.printer.failure(&failure)?;
        }
        if shell.left {
            break;
        }
    }
    Ok(0)
}

/// The state of a shell.
pub(super) struct Shell {
    pub(super) session: Session,
    pub(super) printer: Printer,
    editor: Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
    /// The file of `\o`, which takes results.
    pub(super) into: Option<OutputFile>,
    /// The last answer, which can be written or drawn again.
    pub(super) last: Option<Answer>,
    /// The lines of an unfinished statement.
    unfinished: String,
    /// Lines that were pasted while the shell asked something.
    pasted: VecDeque<String>,
    timing: bool,
    /// The program that pages answers, if allowed.
    pager: Option<&'static str>,
    left: bool,
    /// Whether `\i` may read files, with the rights of this program.
    reads_files: bool,
}

/// An input: statements or a command.
struct Input {
    text: String,
    /// The file that `\g` names for the result.
    into: Option<String>,
}

impl Shell {
    fn new(session: Session, mut printer: Printer, start: Start) -> Result<Self, Failure> {
        let Start { demo, is_owner, has_format, history, settings } = start;
        let reads_files = demo || is_owner;
        // A pager can read files, so an analyst has one only if the configuration of the account
        // names it.
        let pager = match &settings.pager {
            Some(program) => Some(program.clone()),
            None => reads_files.then(pager::from_environment),
        };
        let pager = pager.map(|program| &*Box::leak(program.into_boxed_str()));
        printer.pager = pager.filter(|_| settings.pager.is_some());
        if let Some(format) = settings.format.filter(|_| !has_format) {
            printer.format = format;
        }
        if let Some(rows) = settings.rows {
            printer.rows = Some(rows).filter(|rows| *rows > 0);
        }
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::io::stdout().is_terminal();
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .color_mode(if colour { ColorMode::Enabled } else { ColorMode::Disabled })
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        let mut assistant = Assistant::new(colour);
        assistant.lists_files = reads_files;
        editor.set_helper(Some(assistant));
        if let Some(path) = &history {
            // The shell also works without a history. The same applies below, where it is written.
            let _ = editor.load_history(path);
        }
        Ok(Self {
            session,
            printer,
            editor,
            history,
            into: None,
            last: None,
            unfinished: String::new(),
            pasted: VecDeque::new(),
            timing: settings.timing,
            pager,
            left: false,
            reads_files,
        })
    }

    /// The next input, or `None` if the user leaves.
    fn read(&mut self) -> Result<Option<Input>, Failure> {
        self.printer.screen = screen(&mut self.editor);
        if let (Some(helper), Ok(mut named)) = (self.editor.helper_mut(), self.session.tables()) {
            // A template stands where a table does.
            let templates = self.session.templates().unwrap_or_default();
            named.extend(templates.into_iter().map(|template| (template.name, Vec::new())));
            helper.vocabulary = Vocabulary::new(named);
        }
        let left: Vec<_> =
            self.session.budgets().unwrap_or_default().iter().map(|state| state.left).collect();
        let prompt = self.printer.plain(&prompt(&left)).into_owned();
        loop {
            let before = std::mem::take(&mut self.unfinished);
            let line = match self.line(&prompt, &before) {
                Ok(line) => line,
                // The statement can be recalled and edited.
                Err(ReadlineError::Interrupted) => {
                    self.remember(&before);
                    continue;
                }
                Err(ReadlineError::Eof) => {
                    if !before.is_empty() {
                        self.remember(&before);
                        self.printer.warn("the unfinished statement was not run");
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            };
            if before.is_empty() {
                if line.trim().is_empty() {
                    continue;
                }
                if is_command(&line) || commands::plain_word(&line).is_some() {
                    self.remember(&line);
                    return Ok(Some(Input { text: line, into: None }));
                }
            }
            let input = if before.is_empty() { line.clone() } else { format!("{before}\n{line}") };
            if let Some(input) = self.ended_by_g(&input) {
                return Ok(Some(input));
            }
            // Inside a quotation or comment, a command has no meaning.
            if !before.is_empty() && !matches!(lex::inside(&before), Some('\'' | '"' | '*')) {
                if is_command(&line) && line.trim_start().starts_with('\\') {
                    if let Ok((Action::Reset, _)) = commands::parse(&line) {
                        self.remember(&before);
                        continue;
                    }
                    // The statement continues after the command.
                    self.unfinished = before;
                    return Ok(Some(Input { text: line, into: None }));
                }
                if commands::plain_word(&line).is_some() {
                    self.printer.note(
                        "this line belongs to the statement above: Ctrl-C discards it, \\q leaves",
                    );
                }
            }
            if lex::is_complete(&input) {
                self.remember(&input);
                return Ok(Some(Input { text: input, into: None }));
            }
            self.unfinished = input;
        }
    }

    /// The input that a `\g` ends. Text that was pasted after its line is read later.
    fn ended_by_g(&mut self, input: &str) -> Option<Input> {
        let (statement, file, rest) = lex::ended_by_g(input)?;
        for line in rest.lines().rev() {
            self.pasted.push_front(line.to_owned());
        }
        let text = statement.trim_end();
        match file.is_empty() {
            true => self.remember(&format!("{text};")),
            false => self.remember(&format!("{text} \\g {file}")),
        }
        let into = Some(file.to_owned()).filter(|file| !file.is_empty());
        Some(Input { text: format!("{text};"), into })
    }

    /// The next line: one that was pasted during a question, or one that is typed now.
    fn line(&mut self, prompt: &str, before: &str) -> Result<String, ReadlineError> {
        if let Some(line) = self.pasted.pop_front() {
            return Ok(line);
        }
        if let Some(helper) = self.editor.helper_mut() {
            before.clone_into(&mut helper.before);
        }
        match before.is_empty() {
            true => self.editor.readline(prompt),
            false => self.editor.readline(&continuation(prompt, before)),
        }
    }

    fn remember(&mut self, input: &str) {
        if input.trim().is_empty() || super::history::is_secret(input) {
            return;
        }
        let added = self.editor.add_history_entry(input.trim());
        if let (Ok(true), Some(path)) = (added, &self.history) {
            let _ = self.editor.append_history(path);
        }
    }

    async fn answer(&mut self, input: &str, into: Option<&str>) -> Result<(), Failure> {
        let command = commands::plain_word(input);
        let input = command.as_deref().unwrap_or(input);
        if let Some(table) = commands::described(input) {
            return self.act(Action::Describe, table).await;
        }
        if !is_command(input) {
            return self.script(input, into).await;
        }
        match commands::parse(input) {
            Ok((action, argument)) => self.act(action, argument).await,
            Err(sentence) => {
                self.printer.warn(&sentence);
                Ok(())
            }
        }
    }

    async fn act(&mut self, action: Action, argument: &str) -> Result<(), Failure> {
        match action {
            Action::Help => {
                if !argument.is_empty() {
                    return self.helped(help::about(argument));
                }
                self.printer.show(&commands::help(self.width()))
            }
            Action::Quit => {
                self.left = true;
                Ok(())
            }
            Action::Describe => {
                let statement = match argument.is_empty() {
                    true => "SHOW TABLES".to_owned(),
                    false => format!("DESCRIBE {argument}"),
                };
                // The last answer stays that of a query, so that it can be drawn.
                let last = self.last.take();
                let described = self.script(&statement, None).await;
                self.last = last;
                described
            }
            Action::Functions => self.helped(help::functions(argument, self.width())),
            Action::Budget => self.budgets(),
            Action::Explain => {
                let explained = Output::Explanation(self.session.explain(argument)?);
                self.deliver(explained, None).map(drop)
            }
            Action::Into => self.redirect(argument),
            Action::Run if !argument.is_empty() => self.write_last(argument),
            Action::Plot => self.plot(argument).await,
            Action::Timing
            | Action::Format
            | Action::Expanded
            | Action::Rows
            | Action::Pager
            | Action::Run
            | Action::Reset => {
                match self.set(action, argument) {
                    Ok(sentence) => self.printer.note(sentence),
                    Err(sentence) => self.printer.warn(&sentence),
                }
                Ok(())
            }
            // An analyst of a service account may use this shell, but must not read its files: a
            // syntax error would reveal a file's content.
            Action::Include if !self.reads_files => {
                self.printer
                    .warn("only the owner can use \\i; start hushql with -f FILE to run the statements in a file");
                Ok(())
            }
            Action::Include => {
                let text = exec::read(Path::new(argument))?;
                self.script(&text, None).await
            }
        }
    }

    /// Changes how answers are displayed. The result is the new state, or what to write.
    fn set(&mut self, action: Action, argument: &str) -> Result<&'static str, String> {
        let printer = &mut self.printer;
        match action {
            Action::Timing => {
                self.timing = switched("\\timing", argument, self.timing)?;
                Ok(if self.timing { "times are shown" } else { "times are hidden" })
            }
            Action::Format => {
                printer.format = Format::named(argument)
                    .ok_or("the formats are table, expanded, markdown, csv, tsv and json")?;
                Ok(printer.format.sentence())
            }
            Action::Expanded => {
                let is_on = switched("\\x", argument, printer.format == Format::Expanded)?;
                printer.format = if is_on { Format::Expanded } else { Format::Table };
                Ok(printer.format.sentence())
            }
            Action::Rows => {
                printer.rows = match argument.parse::<usize>() {
                    Ok(rows) if rows > 0 => Some(rows),
                    Err(_) if argument.eq_ignore_ascii_case("all") => None,
                    Ok(_) | Err(_) => return Err("write \\rows 100, or \\rows all".to_owned()),
                };
                Ok(match printer.rows {
                    Some(_) => "longer answers show their first and their last rows",
                    None => "all rows are shown",
                })
            }
            Action::Pager => {
                let is_on = switched("\\pager", argument, printer.pager.is_some())?;
                printer.pager = match is_on {
                    true => Some(self.pager.ok_or(NO_PAGER)?),
                    false => None,
                };
                Ok(if is_on { "long answers are paged" } else { "long answers are not paged" })
            }
            Action::Run => Err("there is no statement to end: write one, then \\g or ;".to_owned()),
            Action::Reset => Ok("there is no unfinished statement"),
            Action::Help
            | Action::Quit
            | Action::Describe
            | Action::Functions
            | Action::Budget
            | Action::Explain
            | Action::Plot
            | Action::Into
            | Action::Include => Err("this command changes no display".to_owned()),
        }
    }

    /// Runs one statement after asking the user about its cost.
    pub(super) async fn ask(
        &mut self,
        statement: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Output>, Failure> {
        let Some(cost) = exec::cost(&self.session, statement, interrupt).await else {
            self.pasted.clear();
            self.printer.warn("cancelled; nothing was charged");
            return Ok(None);
        };
        if consent::is_needed(cost, &marks(&self.session.budgets().unwrap_or_default()))
            && !self.consents(&format!("this query costs {}. Run it? (y/N) ", cost.neat()))?
        {
            self.printer.note("not run; nothing was charged");
            return Ok(None);
        }
        let started = Instant::now();
        let output = match interrupt.has_come() {
            true => None,
            false => exec::execute(&self.session, statement, interrupt).await?,
        };
        if output.is_none() {
            self.pasted.clear();
            self.printer.warn("cancelled; what was charged stays charged");
        } else if self.timing {
            self.printer.warn(&format!("time {} ms", started.elapsed().as_millis()));
        }
        Ok(output)
    }

    /// Asks until the user replies. Other text was pasted after the query, and is read later.
    fn consents(&mut self, question: &str) -> Result<bool, Failure> {
        let question = self.printer.plain(question).into_owned();
        loop {
            self.asking(true);
            let asked = Instant::now();
            let reply = self.editor.readline(&question);
            self.asking(false);
            match reply {
                Ok(line) => match consent::reply(&line, asked.elapsed()) {
                    Reply::Yes => return Ok(true),
                    Reply::No => return Ok(false),
                    Reply::Input => self.pasted.push_back(line),
                },
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => {
                    self.pasted.clear();
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn asking(&mut self, asking: bool) {
        if let Some(helper) = self.editor.helper_mut() {
            helper.asking = asking;
        }
    }

    fn width(&self) -> usize {
        self.printer.screen.map_or(80, |screen| usize::from(screen.width))
    }

    /// Shows a help text, or says why there is none.
    fn helped(&self, help: Result<String, String>) -> Result<(), Failure> {
        match help {
            Ok(text) => self.printer.show(&text)?,
            Err(sentence) => self.printer.warn(&sentence),
        }
        self.printer
            .note("grammar.md says what may stand below a release; docs/cookbook.md has recipes");
        Ok(())
    }

    fn budgets(&self) -> Result<(), Failure> {
        let titles = ["budget", "table", "limit", "spent", "left", "δ limit", "δ spent", "δ left"];
        let header: Vec<_> =
            titles.iter().enumerate().map(|(at, title)| ((*title).to_owned(), at >= 2)).collect();
        let rows: Vec<_> = self.session.budgets()?.iter().flat_map(budget_rows).collect();
        self.printer.show(&table::grid(&header, &rows, self.printer.frame()))
    }
}

/// A budget, and each of its slices below it; for an analyst, only the own slice.
fn budget_rows(state: &BudgetState) -> Vec<Vec<String>> {
    let row = |name: String, [limit, spent, left]: [Spend; 3]| {
        // Rounded for people: spending is rounded up, remainders are rounded down.
        let amounts = [limit, spent.neat_up(), left.neat_down()];
        let losses =
            amounts.map(|spend| format!("{} {}", spend.notion.symbol(), spend.loss_text()));
        let names = [name, state.budget.table.clone()];
        names.into_iter().chain(losses).chain(amounts.iter().map(Spend::delta_text)).collect()
    };
    let name = &state.budget.name;
    let slices = state
        .slices
        .iter()
        .map(|slice| row(format!("{name}: {}", slice.of), [slice.limit, slice.spent, slice.left]));
    let whole = match state.slices.len() {
        1 => None,
        _ => Some(row(name.clone(), [state.budget.limit, state.spent, state.left])),
    };
    whole.into_iter().chain(slices).collect()
}

fn screen<H: Helper>(editor: &mut Editor<H, DefaultHistory>) -> Option<Screen> {
    let (width, height) = editor.dimensions().filter(|(columns, _)| *columns > 0)?;
    Some(Screen { width, height })
}

/// The size of the program's terminal.
pub(super) fn terminal() -> Option<Screen> {
    screen(&mut DefaultEditor::new().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An analyst with only the shell of a service account could once read any file: a syntax error
    /// quotes what it finds.
    #[tokio::test]
    async fn an_analysts_shell_reads_no_files() {
        let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
        let printer = Printer::new(Format::Table, true);
        let mut shell = Shell::new(session.into(), printer, Start::default()).unwrap();
        assert!(!shell.reads_files);
        assert_eq!(shell.pager, None, "a pager could read them");
        shell.answer("\\i no-such-file.sql", None).await.unwrap();
        shell.reads_files = true;
        let missing = shell.answer("\\i no-such-file.sql", None).await;
        assert!(matches!(missing, Err(Failure::File { .. })), "{missing:?}");
    }
}
