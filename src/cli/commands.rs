//! The shell's backslash commands: one table of name, argument, help and action.
//!
//! In: a line that begins with `\`. Out: an [`Action`] and its argument, or the command that the
//! line probably meant. `\?` prints the same table, and completion offers it.
//!
//! ```text
//! "\explain SELECT …;" → (Explain, "SELECT …")        "\bugdet" → unknown; did you mean \budget?
//! ```

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Lists the commands, or says what a word of the dialect does.
    Help,
    /// Leaves.
    Quit,
    /// Lists tables, or the columns of one.
    Describe,
    /// Lists functions and mechanisms.
    Functions,
    /// Shows the budgets.
    Budget,
    /// Explains a query.
    Explain,
    /// Runs a query and draws it.
    Plot,
    /// Turns the display of times on or off.
    Timing,
    /// Chooses the format of answers.
    Format,
    /// Turns the layout with a line for each cell on or off.
    Expanded,
    /// Limits the rows that are shown.
    Rows,
    /// Turns the pager on or off.
    Pager,
    /// Runs a file.
    Include,
    /// Writes results into a file, or to the terminal again.
    Into,
    /// Ends the preceding statement, as `;` does.
    Run,
    /// Discards the preceding statement.
    Reset,
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    /// Its name, with the backslash.
    pub(super) name: &'static str,
    /// Its argument, as help displays it.
    pub(super) argument: &'static str,
    /// Its effect, in a few words.
    pub(super) help: &'static str,
    /// Its action.
    pub(super) action: Action,
}

const fn command(
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    action: Action,
) -> Command {
    Command { name, argument, help, action }
}

/// The formats of answers.
const FORMATS: &str = "table|expanded|markdown|csv|tsv|json";

/// The argument of a switch. Without it, the command changes to the other state.
const SWITCH: &str = "[on|off]";

/// Names that other shells have for these commands.
const OTHER_NAMES: [(&str, &str); 36] = [
    ("\\h", "\\?"),
    ("\\help", "\\?"),
    (".help", "\\?"),
    ("\\quit", "\\q"),
    ("\\exit", "\\q"),
    (".quit", "\\q"),
    (".exit", "\\q"),
    ("\\dt", "\\d"),
    ("\\dv", "\\d"),
    ("\\d+", "\\d"),
    ("\\dt+", "\\d"),
    (".tables", "\\d"),
    ("\\df+", "\\df"),
    ("\\da", "\\df"),
    (".schema", "\\d"),
    (".describe", "\\d"),
    (".timer", "\\timing"),
    (".timing", "\\timing"),
    (".mode", "\\format"),
    (".format", "\\format"),
    (".explain", "\\explain"),
    (".plot", "\\plot"),
    (".maxrows", "\\rows"),
    (".read", "\\i"),
    ("\\include", "\\i"),
    ("\\ir", "\\i"),
    ("\\dS", "\\d"),
    ("\\describe", "\\d"),
    ("\\tables", "\\d"),
    ("\\expanded", "\\x"),
    ("\\go", "\\g"),
    ("\\out", "\\o"),
    (".output", "\\o"),
    (".once", "\\g"),
    ("\\reset", "\\r"),
    ("\\budgets", "\\budget"),
];

/// Commands of other shells that this one does not have, and what to do instead.
const ELSEWHERE: [(&str, &str); 33] = [
    ("\\l", "a vault is one database: \\d lists its tables, \\budget its budgets"),
    (".databases", "a vault is one database: \\d lists its tables, \\budget its budgets"),
    ("\\c", "another vault has its own shell: hushql OTHER.db"),
    (".open", "another vault has its own shell: hushql OTHER.db"),
    ("\\list", "a vault is one database: \\d lists its tables, \\budget its budgets"),
    ("\\connect", "another vault has its own shell: hushql OTHER.db"),
    ("\\conninfo", "the command line names the vault and the analyst; \\budget shows what is left"),
    ("\\set", "there are no variables; \\format, \\rows, \\timing and \\x change the output"),
    ("\\unset", "there are no variables; \\format, \\rows, \\timing and \\x change the output"),
    (".parameter", "there are no variables; \\format, \\rows, \\timing and \\x change the output"),
    ("\\echo", "there are no variables; SELECT 'text' prints a text"),
    (".print", "there are no variables; SELECT 'text' prints a text"),
    ("\\p", "the lines above belong to the statement until ; ends it, or \\r discards it"),
    ("\\e", "this shell runs no programs; Up brings the last statement back, to be edited"),
    ("\\edit", "this shell runs no programs; Up brings the last statement back, to be edited"),
    ("\\s", "Up goes through the history, Ctrl-R searches it"),
    ("\\a", "\\format csv writes no borders"),
    ("\\t", "\\format csv writes no borders; hushql -q leaves out remarks"),
    (".headers", "answers always have headers"),
    (".header", "answers always have headers"),
    (".width", "columns are as wide as their cells; \\x writes a line for each"),
    ("\\gx", "\\x writes a line for each cell, and \\g runs the statement"),
    ("\\gset", "there are no variables; \\g FILE writes the answer into a file"),
    ("\\gexec", "a query is asked once: each run could be charged"),
    ("\\gdesc", "\\explain shows what a query would release"),
    (
        ".bail",
        "a line of statements ends with the first that fails; --keep-going runs all of a script",
    ),
    ("\\watch", "a query is asked once: each run could be charged"),
    ("\\dn", "there are no schemas; \\d lists the tables"),
    ("\\di", "there are no indexes; \\d lists the tables"),
    (
        "\\du",
        "an analyst is a name that hushql --analyst NAME states; the ledger lists who asked what",
    ),
    ("\\copy", "COPY (QUERY) TO 'answer.csv' writes an answer to a file"),
    ("\\!", "this shell runs no programs"),
    (".shell", "this shell runs no programs"),
];

/// Every command.
pub(super) const COMMANDS: [Command; 16] = [
    command(
        "\\?",
        "[WORD]",
        "this list, or what a word of the language does: \\help median",
        Action::Help,
    ),
    command("\\q", "", "leave (Ctrl-D does too)", Action::Quit),
    command("\\d", "[table]", "the tables and views, or the columns of one", Action::Describe),
    command(
        "\\df",
        "[WORD]",
        "the functions and mechanisms, or those that hold a word",
        Action::Functions,
    ),
    command("\\budget", "", "all budgets: limit, spent, left", Action::Budget),
    command("\\explain", "QUERY", "the plan and the cost of a query; free", Action::Explain),
    command(
        "\\plot",
        "[QUERY]",
        "draw a query, or the last answer: bars or lines with error bars (\\plot bars …, \\plot lines …); … TO 'file.svg' writes a picture; \\plot accuracy QUERY draws its error by cost, without running it; \\plot budget [NAME] draws what was spent, day by day",
        Action::Plot,
    ),
    command("\\timing", SWITCH, "show or hide the time that statements take", Action::Timing),
    command("\\format", FORMATS, "the format of answers", Action::Format),
    command("\\x", SWITCH, "one line for each cell, or tables again", Action::Expanded),
    command("\\rows", "N|all", "how many rows of an answer a terminal shows", Action::Rows),
    command("\\pager", SWITCH, "page through long answers, all of their rows", Action::Pager),
    command("\\i", "FILE", "run the statements in a file (owner and demo only)", Action::Include),
    command(
        "\\o",
        "[FILE]",
        "write the results that follow into a new file (.csv, .tsv, .json, .md, or as they are shown); \\o alone: show them again",
        Action::Into,
    ),
    command(
        "\\g",
        "[FILE]",
        "end the statement and run it, as ; does, or into a new file (.parquet too); on its own: the last answer",
        Action::Run,
    ),
    command("\\r", "", "discard the unfinished statement, as Ctrl-C does", Action::Reset),
];

/// The possible arguments of a command, for completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Complements {
    /// A table.
    Table,
    /// One of these words, separated by `|`.
    Words(&'static str),
    /// A statement.
    Statement,
    /// A file.
    File,
    /// A word that has an entry in the reference.
    Entry,
    /// Nothing to complete.
    Nothing,
}

/// What completes the argument of a command.
pub(super) fn complements(name: &str) -> Complements {
    let Some(command) = command_named(own_name(name)) else { return Complements::Nothing };
    match command.action {
        Action::Describe => Complements::Table,
        Action::Explain | Action::Plot => Complements::Statement,
        Action::Timing | Action::Expanded | Action::Pager => Complements::Words("on|off"),
        Action::Format => Complements::Words(FORMATS),
        Action::Rows => Complements::Words("all"),
        Action::Include | Action::Into | Action::Run => Complements::File,
        Action::Help | Action::Functions => Complements::Entry,
        Action::Quit | Action::Budget | Action::Reset => Complements::Nothing,
    }
}

/// The name of a command in this shell.
fn own_name(name: &str) -> &str {
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| own)
}

fn command_named(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// psql's names of output settings, and the commands of this shell.
const SETTINGS: [(&str, &str); 4] =
    [("format", "\\format"), ("expanded", "\\x"), ("x", "\\x"), ("pager", "\\pager")];

/// Reads a command line.
///
/// # Errors
/// A sentence that names the nearest command, or the missing argument.
pub(super) fn parse(line: &str) -> Result<(Action, &str), String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let (name, argument) = match name {
        "\\pset" => setting(argument)?,
        _ => (own_name(name), argument),
    };
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(other, _)| *other == name) {
        return Err(format!("there is no {name} here; {instead}"));
    }
    let Some(command) = command_named(name) else {
        let near = nearest(name).map_or_else(String::new, |near| format!("did you mean {near}? "));
        return Err(format!("there is no command {name}; {near}\\? lists them"));
    };
    let wanted = command.argument;
    match (wanted.is_empty(), wanted.starts_with('['), argument.is_empty()) {
        (true, _, false) => Err(format!("{name} takes no argument")),
        (false, false, true) => Err(format!("write {name} {wanted}")),
        _ => Ok((command.action, argument)),
    }
}

/// The command for a setting of psql, such as `format csv`, and its argument.
fn setting(text: &str) -> Result<(&'static str, &str), String> {
    let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let known = SETTINGS.iter().find(|(setting, _)| *setting == name);
    known.map(|(_, own)| (*own, value.trim())).ok_or_else(|| {
        "of the settings of \\pset there are format, expanded and pager: write \\format, \\x or \\pager"
            .to_owned()
    })
}

/// Reads `on` or `off`. Without an argument, the result is the opposite of the present state.
///
/// # Errors
/// A sentence that says what to write.
pub(super) fn switched(name: &str, argument: &str, is_on: bool) -> Result<bool, String> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Ok(!is_on),
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("write {name} on, or {name} off")),
    }
}

/// Whether an input is a command: it begins with `\\`, or, as in other shells, with a full stop and
/// a word.
pub(super) fn is_command(input: &str) -> bool {
    let input = input.trim_start();
    let mut letters = input.chars();
    match letters.next() {
        Some('\\') => true,
        Some('.') => letters.next().is_some_and(|letter| letter.is_ascii_lowercase()),
        Some(_) | None => false,
    }
}

/// The command for a plain word, as in other shells: `help`, `quit` and `exit` are not SQL. What
/// follows `help` is its argument.
pub(super) fn plain_word(input: &str) -> Option<String> {
    let text = input.trim().trim_end_matches(';').trim_end();
    let (word, rest) = match text.split_once(char::is_whitespace) {
        Some((first, rest)) if first.eq_ignore_ascii_case("help") && !rest.contains(['(', ',']) => {
            (first, rest.trim())
        }
        Some(_) | None => (text, ""),
    };
    let known = [("help", "\\?"), ("?", "\\?"), ("quit", "\\q"), ("exit", "\\q")];
    let (_, command) = known.into_iter().find(|(plain, _)| word.eq_ignore_ascii_case(plain))?;
    Some(if rest.is_empty() { command.to_owned() } else { format!("{command} {rest}") })
}

/// The table of `DESC table`, as in other shells. Here, DESC otherwise occurs only in ORDER BY.
pub(super) fn described(input: &str) -> Option<&str> {
    let mut words = input.trim().trim_end_matches(';').split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(desc), Some(table), None) if desc.eq_ignore_ascii_case("desc") => Some(table),
        _ => None,
    }
}

fn nearest(name: &str) -> Option<&'static str> {
    let distance = |command: &Command| strsim::damerau_levenshtein(command.name, name);
    let near =
        COMMANDS.iter().filter(|command| command.name.len() > 2).min_by_key(|c| distance(c))?;
    // Short names allow fewer differences; otherwise most of their letters could differ.
    let most = 3.min(name.len().saturating_sub(1) / 2);
    (distance(near) <= most).then_some(near.name)
}

/// The list that `\?` prints, in lines of this width.
pub(super) fn help(width: usize) -> String {
    /// The width of names and arguments. Longer ones have a line of their own.
    const HEAD: usize = 16;
    let line = |command: &Command| {
        let head = format!("{} {}", command.name, command.argument);
        let words = in_lines(command.help, width.saturating_sub(HEAD + 2).max(30));
        let mut lines = words.into_iter();
        let first = match head.len() > HEAD {
            true => head,
            false => format!("{head:<HEAD$}  {}", lines.next().unwrap_or_default()),
        };
        let rest = lines.map(|line| format!("{:HEAD$}  {line}", ""));
        std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
    };
    let lines: Vec<_> = COMMANDS.iter().map(line).collect();
    let end = "Everything else is SQL and ends with a semicolon. The prompt shows the smallest remainder of a budget.";
    format!("{}\n{}", lines.join("\n"), in_lines(end, width.max(40)).join("\n"))
}

/// A text in lines of this width, broken at spaces.
fn in_lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push_str(&format!(" {word}"));
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_keeps_to_the_width() {
        let help = help(80);
        assert!(help.lines().take(30).all(|line| line.chars().count() <= 80), "{help}");
        assert!(
            help.contains(
                "\n\\format table|expanded|markdown|csv|tsv|json\n                  the format"
            ),
            "{help}"
        );
    }

    #[test]
    fn every_command_is_read_and_helped() {
        let help = help(10_000);
        for command in &COMMANDS {
            let line = format!("{} {}", command.name, command.argument);
            assert_eq!(parse(&line), Ok((command.action, command.argument)), "{line}");
            assert!(help.contains(command.help), "{}", command.name);
        }
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
    }

    #[test]
    fn arguments_lose_their_semicolon() {
        assert_eq!(parse(" \\d\tadult ; "), Ok((Action::Describe, "adult")));
        assert_eq!(parse("\\d"), Ok((Action::Describe, "")));
        assert_eq!(parse("\\q;"), Ok((Action::Quit, "")));
        assert_eq!(parse("\\explain SELECT\n 1;"), Ok((Action::Explain, "SELECT\n 1")));
    }

    /// These words without a semicolon once began a statement that only Ctrl-C could end.
    #[test]
    fn plain_words_are_understood() {
        assert_eq!(plain_word("help").as_deref(), Some("\\?"));
        assert_eq!(plain_word(" Exit; ").as_deref(), Some("\\q"));
        assert_eq!(plain_word("quit").as_deref(), Some("\\q"));
        assert_eq!(plain_word("help median;").as_deref(), Some("\\? median"));
        assert_eq!(plain_word("exit now"), None);
        assert_eq!(plain_word(""), None);
    }

    #[test]
    fn desc_describes() {
        assert_eq!(described("DESC adult;"), Some("adult"));
        assert_eq!(described(" desc adult "), Some("adult"));
        assert_eq!(described("DESCRIBE adult"), None);
        assert_eq!(described("desc adult now"), None);
    }

    #[test]
    fn names_of_other_shells_are_understood() {
        assert_eq!(parse(".tables"), Ok((Action::Describe, "")));
        assert_eq!(parse("\\dt adult;"), Ok((Action::Describe, "adult")));
        assert_eq!(parse(".mode csv"), Ok((Action::Format, "csv")));
        assert_eq!(parse("\\quit"), Ok((Action::Quit, "")));
        assert_eq!(parse("\\pset format csv"), Ok((Action::Format, "csv")));
        assert_eq!(parse("\\pset pager off"), Ok((Action::Pager, "off")));
        assert!(parse("\\pset null x").unwrap_err().contains("\\format"));
        assert_eq!(parse(".timer on"), Ok((Action::Timing, "on")));
        for (written, before, after) in
            [("", true, false), ("", false, true), ("on", true, true), ("OFF", true, false)]
        {
            assert_eq!(switched("\\x", written, before), Ok(after), "{written}");
        }
        assert!(parse("\\l").unwrap_err().contains("\\d lists its tables"));
        assert!(parse("\\! ls").unwrap_err().contains("runs no programs"));
        for (other, own) in OTHER_NAMES {
            assert!(COMMANDS.iter().any(|command| command.name == own), "{other}");
            assert!(COMMANDS.iter().all(|command| command.name != other), "{other}");
        }
        for (other, _) in ELSEWHERE {
            assert!(parse(other).is_err(), "{other}");
        }
        assert!(
            is_command(" .help")
                && is_command("\\x")
                && !is_command(".5")
                && !is_command("SELECT .5")
        );
    }

    #[test]
    fn mistakes_get_a_suggestion() {
        assert!(parse("\\bugdet").unwrap_err().contains("did you mean \\budget?"));
        assert!(parse("\\xyzzyxyzzy").unwrap_err().ends_with("; \\? lists them"));
        assert_eq!(parse("\\foo").unwrap_err(), "there is no command \\foo; \\? lists them");
        assert_eq!(parse("\\").unwrap_err(), "there is no command \\; \\? lists them");
        assert_eq!(parse("\\explain").unwrap_err(), "write \\explain QUERY");
        assert_eq!(parse("\\budget b").unwrap_err(), "\\budget takes no argument");
        assert_eq!(parse("\\h SELECT"), Ok((Action::Help, "SELECT")));
        assert_eq!(switched("\\x", "maybe", true).unwrap_err(), "write \\x on, or \\x off");
    }
}
