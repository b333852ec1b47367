//! The shell: reads statements and backslash commands from a terminal until the user leaves.
//!
//! In: a session. Out: the printed results. The shell asks before a query that costs more than the smallest PER QUERY
//! default, shows the smallest remainder of a budget in its prompt, and survives every failure except the loss of its
//! terminal.
//!
//! ```text
//! hushql ε 9.0> SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status;
//! this query costs ε = 1. Run it? (y/N) y
//! ```

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use futures::FutureExt;
use hushql::ledger::BudgetState;
use hushql::privacy::{Cost, Notion, Spend};
use hushql::{Output, Session, split_statements};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, CompletionType, Config, DefaultEditor, Editor, Helper};

use super::commands::{self, Action};
use super::editor::{Assistant, Vocabulary};
use super::exec::{self, Interrupt};
use super::failure::Failure;
use super::plot;
use super::print::{Format, Printer};
use super::table;
use super::terminate;
use super::view::View;

/// The width of a plot if that of the terminal is unknown.
const WIDTH: u16 = 80;
/// The number of inputs in the history.
const HISTORY: usize = 10_000;

/// Runs the shell until the user leaves; the exit status is then 0. It stores inputs in `history`, if that is given.
pub(super) async fn run(
    session: Session,
    printer: Printer,
    demo: bool,
    history: Option<PathBuf>,
) -> Result<u8, Failure> {
    // From here on, Ctrl-C between two prompts must not end the process: this takes over its signal.
    let _ = tokio::signal::ctrl_c().now_or_never();
    terminate::restores_the_terminal();
    let reads_files = demo || session.is_owner();
    let mut shell = Shell::new(session, printer, reads_files, history)?;
    let version = env!("CARGO_PKG_VERSION");
    printer.note(&format!(
        "HushQL {version} · a statement ends with ; · \\? lists the commands, \\q leaves"
    ));
    if demo {
        printer.note("The tables are invented and in memory: \\d lists them. Nothing is stored.");
    }
    while let Some(input) = shell.read()? {
        if let Err(failure) = shell.answer(&input).await {
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

struct Shell {
    session: Session,
    printer: Printer,
    editor: Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
    timing: bool,
    left: bool,
    /// Whether `\i` may read files, with the rights of this program.
    reads_files: bool,
}

impl Shell {
    fn new(
        session: Session,
        printer: Printer,
        reads_files: bool,
        history: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::io::stdout().is_terminal();
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .color_mode(if colour { ColorMode::Enabled } else { ColorMode::Disabled })
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Assistant::new(colour)));
        if let Some(path) = &history {
            // The shell also works without a history; the same applies below, where it is written.
            let _ = editor.load_history(path);
        }
        Ok(Self { session, printer, editor, history, timing: false, left: false, reads_files })
    }

    /// The next input, or `None` if the user leaves.
    fn read(&mut self) -> Result<Option<String>, Failure> {
        self.printer.width = width(&mut self.editor);
        if let (Some(helper), Ok(tables)) = (self.editor.helper_mut(), self.session.tables()) {
            helper.vocabulary = Vocabulary::new(tables);
        }
        let left: Vec<_> =
            self.session.budgets().unwrap_or_default().iter().map(|state| state.left).collect();
        let prompt = prompt(&left);
        loop {
            match self.editor.readline(&prompt) {
                Ok(input) if input.trim().is_empty() => {}
                Ok(input) => {
                    self.remember(&input);
                    return Ok(Some(input));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn remember(&mut self, input: &str) {
        let added = self.editor.add_history_entry(input.trim());
        if let (Ok(true), Some(path)) = (added, &self.history) {
            let _ = self.editor.append_history(path);
        }
    }

    async fn answer(&mut self, input: &str) -> Result<(), Failure> {
        let input = commands::plain_word(input).unwrap_or(input);
        if !commands::is_command(input) {
            return self.script(input).await;
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
            Action::Help => self.printer.result(&commands::help()),
            Action::Quit => {
                self.left = true;
                Ok(())
            }
            Action::Describe if argument.is_empty() => self.script("SHOW TABLES").await,
            Action::Describe => self.script(&format!("DESCRIBE {argument}")).await,
            Action::Budget => self.budgets(),
            Action::Explain => self.printer.explanation(&self.session.explain(argument)?),
            Action::Plot => self.plot(argument).await,
            Action::Timing => {
                self.timing = !self.timing;
                self.printer.note(if self.timing { "times are shown" } else { "times are hidden" });
                Ok(())
            }
            Action::Format => {
                match Format::from_str(argument, true) {
                    Ok(format) => self.printer.format = format,
                    Err(_) => {
                        self.printer.warn("the formats are table, expanded, markdown, csv and json")
                    }
                }
                Ok(())
            }
            Action::Expanded => {
                let (format, sentence) = match self.printer.format {
                    Format::Expanded => (Format::Table, "answers are tables"),
                    Format::Table | Format::Markdown | Format::Csv | Format::Json => {
                        (Format::Expanded, "answers have a line for each cell")
                    }
                };
                self.printer.format = format;
                self.printer.note(sentence);
                Ok(())
            }
            Action::Rows => {
                match argument.parse::<usize>() {
                    Ok(rows) if rows > 0 => self.printer.rows = Some(rows),
                    Err(_) if argument.eq_ignore_ascii_case("all") => self.printer.rows = None,
                    Ok(_) | Err(_) => self.printer.warn("write \\rows 100, or \\rows all"),
                }
                Ok(())
            }
            // An analyst behind a service account has this shell but no files: a syntax error in a file reveals its content.
            Action::Include if !self.reads_files => {
                self.printer
                    .warn("only the owner can use \\i; start hushql with -f FILE to run the statements in a file");
                Ok(())
            }
            Action::Include => {
                let text = exec::read(Path::new(argument))?;
                self.script(&text).await
            }
        }
    }

    /// Runs statements until one fails, is declined or is cancelled.
    async fn script(&mut self, text: &str) -> Result<(), Failure> {
        let mut interrupt = Interrupt::that_cancels();
        for statement in split_statements(text)? {
            let asked = self.ask(statement.text(), &mut interrupt).await;
            let Some(output) = asked.map_err(|failure| failure.in_script(&statement))? else {
                break;
            };
            self.printer.output(&output)?;
        }
        Ok(())
    }

    /// Draws how accurate a query would be at less and more than its cost; nothing is spent.
    fn plot_accuracy(&mut self, query: &str) -> Result<(), Failure> {
        let forecasts = self.session.forecast(query)?;
        let width = self.printer.width.unwrap_or(WIDTH);
        let drawn = plot::accuracy(&forecasts, width).ok_or(Failure::NoErrors)?;
        self.printer.result(&drawn)
    }

    async fn plot(&mut self, query: &str) -> Result<(), Failure> {
        if let Some(query) = query.strip_prefix("accuracy ") {
            return self.plot_accuracy(query);
        }
        let Some(output) = self.ask(query, &mut Interrupt::that_cancels()).await? else {
            return Ok(());
        };
        let Output::Answer(answer) = &output else { return Err(Failure::NoBars) };
        let width = self.printer.width.unwrap_or(WIDTH);
        let drawn =
            self.printer.paid(answer, || Ok(plot::plot(&View::for_answer(answer)?, width)))?;
        match drawn {
            Some(drawn) => {
                self.printer.paid(answer, || self.printer.result(&drawn))?;
                self.printer.receipt(answer);
            }
            // The answer is charged, so it is shown as rows if it has no bars.
            None => self.printer.output(&output)?,
        }
        Ok(())
    }

    /// Runs one statement after asking the user about its cost.
    async fn ask(
        &mut self,
        statement: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Output>, Failure> {
        let Some(cost) = exec::cost(&self.session, statement, interrupt).await else {
            self.printer.warn("cancelled; nothing was charged");
            return Ok(None);
        };
        if needs_consent(cost, &marks(&self.session.budgets().unwrap_or_default()))
            && !self.consents(&format!("this query costs {cost}. Run it? (y/N) "))?
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
            self.printer.warn("cancelled; what was charged stays charged");
        } else if self.timing {
            self.printer.warn(&format!("time {} ms", started.elapsed().as_millis()));
        }
        Ok(output)
    }

    fn consents(&mut self, question: &str) -> Result<bool, Failure> {
        self.asking(true);
        let reply = self.editor.readline(question);
        self.asking(false);
        match reply {
            Ok(reply) => Ok(is_yes(&reply)),
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn asking(&mut self, asking: bool) {
        if let Some(helper) = self.editor.helper_mut() {
            helper.asking = asking;
        }
    }

    fn budgets(&self) -> Result<(), Failure> {
        let titles = ["budget", "table", "limit", "spent", "left", "δ limit", "δ spent", "δ left"];
        let header: Vec<_> =
            titles.iter().enumerate().map(|(at, title)| ((*title).to_owned(), at >= 2)).collect();
        let rows: Vec<_> = self.session.budgets()?.iter().map(budget_row).collect();
        self.printer.result(&table::grid(&header, &rows, self.printer.width))
    }
}

fn budget_row(state: &BudgetState) -> Vec<String> {
    let amounts = [state.budget.limit, state.spent, state.left];
    [state.budget.name.clone(), state.budget.table.clone()]
        .into_iter()
        .chain(
            amounts.iter().map(|spend| format!("{} {}", spend.notion.symbol(), spend.loss_text())),
        )
        .chain(amounts.iter().map(Spend::delta_text))
        .collect()
}

/// The most that a query may cost without a question: the PER QUERY defaults of its budgets, in the notions in which they
/// count.
///
/// A budget without a default sets no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    notion: Notion,
    loss: Option<i64>,
    delta: Option<i64>,
}

fn marks(budgets: &[BudgetState]) -> Vec<Mark> {
    let mark = |state: &BudgetState| {
        let (notion, defaults) = (state.budget.limit.notion, state.budget.per_query);
        Mark { notion, loss: defaults.default_in(notion), delta: defaults.default_delta }
    };
    budgets.iter().map(mark).collect()
}

fn needs_consent(cost: Cost, marks: &[Mark]) -> bool {
    marks.iter().any(|mark| {
        cost.within(mark.notion).is_some_and(|spend| {
            mark.loss.is_some_and(|loss| spend.nano > loss)
                || mark.delta.is_some_and(|delta| spend.atto_delta > delta)
        })
    })
}

fn is_yes(reply: &str) -> bool {
    ["y", "yes"].iter().any(|yes| reply.trim().eq_ignore_ascii_case(yes))
}

/// The prompt, with the smallest remainders of ε and of ρ, rounded down.
fn prompt(left: &[Spend]) -> String {
    let least = |notion| {
        left.iter().filter(|left| left.notion == notion).min_by_key(|left| left.nano).map(rest)
    };
    let parts: String =
        [Notion::Approximate, Notion::Concentrated].into_iter().filter_map(least).collect();
    format!("hushql{parts}> ")
}

/// ` ε 9.9`
fn rest(left: &Spend) -> String {
    const TENTH: i64 = 100_000_000;
    let symbol = left.notion.symbol();
    match left.nano {
        ..=0 => format!(" {symbol} 0.0"),
        1..TENTH => format!(" {symbol} {}", left.loss_text()),
        nano => {
            let tenths = nano / TENTH;
            format!(" {symbol} {}.{}", tenths / 10, tenths % 10)
        }
    }
}

fn width<H: Helper>(editor: &mut Editor<H, DefaultHistory>) -> Option<u16> {
    editor.dimensions().map(|(columns, _)| columns).filter(|columns| *columns > 0)
}

/// The width of the program's terminal.
pub(super) fn terminal_width() -> Option<u16> {
    width(&mut DefaultEditor::new().ok()?)
}

#[cfg(test)]
mod tests {
    use hushql::privacy::Loss;

    use super::*;

    fn epsilon(nano: i64) -> [Spend; 1] {
        [Spend::of_epsilon(nano, 0)]
    }

    #[test]
    fn the_prompt_never_shows_more_than_is_left() {
        assert_eq!(prompt(&[]), "hushql> ");
        assert_eq!(prompt(&epsilon(9_000_000_000)), "hushql ε 9.0> ");
        assert_eq!(prompt(&epsilon(9_999_999_999)), "hushql ε 9.9> ");
        assert_eq!(prompt(&epsilon(12_345_000_000)), "hushql ε 12.3> ");
        assert_eq!(prompt(&epsilon(50_000_000)), "hushql ε 0.05> ");
        assert_eq!(prompt(&epsilon(0)), "hushql ε 0.0> ");
        let both = [(1, 7), (2, 3)].map(|(a, b)| [Spend::of_epsilon(a, 0), Spend::of_rho(b, 0)]);
        assert_eq!(prompt(&both.concat()), "hushql ε 0.000000001 ρ 0.000000003> ");
    }

    /// An analyst with only the shell of a service account could once read any file with it: a syntax error quotes what it
    /// found.
    #[tokio::test]
    async fn an_analysts_shell_reads_no_files() {
        let session = hushql::Engine::demo().unwrap().analyst("lab").unwrap();
        let mut shell = Shell {
            session,
            printer: Printer::new(Format::Table, true),
            editor: Editor::with_config(Config::default()).unwrap(),
            history: None,
            timing: false,
            left: false,
            reads_files: false,
        };
        shell.answer("\\i no-such-file.sql").await.unwrap();
        shell.reads_files = true;
        let missing = shell.answer("\\i no-such-file.sql").await;
        assert!(matches!(missing, Err(Failure::File { .. })), "{missing:?}");
    }

    #[test]
    fn only_a_clear_yes_spends() {
        assert!(is_yes("y") && is_yes(" YES "));
        assert!(!is_yes("") && !is_yes("n") && !is_yes("yep") && !is_yes("y;"));
    }

    #[test]
    fn what_costs_more_than_a_default_needs_consent() {
        let mark = |loss, delta| [Mark { notion: Notion::Approximate, loss, delta }];
        let cost = |epsilon: &str| {
            let loss = Loss::approximate(&epsilon.parse().unwrap(), &"2e-18".parse().unwrap());
            Cost::round_up(&loss).unwrap()
        };
        assert!(!needs_consent(cost("5e-9"), &mark(None, None)));
        assert!(!needs_consent(cost("5e-9"), &mark(Some(5), None)));
        assert!(needs_consent(cost("6e-9"), &mark(Some(5), None)));
        assert!(needs_consent(cost("1e-9"), &mark(Some(5), Some(1))));
        assert!(!needs_consent(cost("1e-9"), &mark(Some(5), Some(2))));
        // An ε of 1 costs a ρ of tanh(1/2).
        let rho = |loss| [Mark { notion: Notion::Concentrated, loss: Some(loss), delta: None }];
        assert!(!needs_consent(cost("1"), &rho(462_117_158)));
        assert!(needs_consent(cost("1"), &rho(462_117_157)));
        assert!(marks(&[]).is_empty());
    }
}
