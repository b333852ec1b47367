//! The shell's backslash commands: one table of name, argument, help and action.
//!
//! In: a line that begins with `\`. Out: an [`Action`] and its argument, or the command that the line probably meant.
//! `\?` prints the same table, and completion offers it.
//!
//! ```text
//! "\explain SELECT …;" → (Explain, "SELECT …")        "\bugdet" → unknown; did you mean \budget?
//! ```

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Lists the commands.
    Help,
    /// Leaves.
    Quit,
    /// Lists tables, or the columns of one.
    Describe,
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
    /// Runs a file.
    Include,
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

/// Every command.
pub(super) const COMMANDS: [Command; 9] = [
    command("\\?", "", "this list", Action::Help),
    command("\\q", "", "leave (Ctrl-D does too)", Action::Quit),
    command("\\d", "[table]", "the tables and views, or the columns of one", Action::Describe),
    command("\\budget", "", "all budgets: limit, spent, left", Action::Budget),
    command("\\explain", "QUERY", "the plan and the cost of a query; free", Action::Explain),
    command("\\plot", "QUERY", "run a grouped query and draw bars with error bars", Action::Plot),
    command("\\timing", "", "show or hide the time that statements take", Action::Timing),
    command("\\format", "table|csv|json", "the format of answers", Action::Format),
    command("\\i", "FILE", "run the statements in a file (owner and demo only)", Action::Include),
];

/// Reads a command line.
///
/// # Errors
/// A sentence that names the nearest command, or the missing argument.
pub(super) fn parse(line: &str) -> Result<(Action, &str), String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
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

/// The command for a plain word, as in other shells: `help`, `quit` and `exit` are not SQL.
pub(super) fn plain_word(input: &str) -> Option<&'static str> {
    let word = input.trim().trim_end_matches(';').trim_end();
    [("help", "\\?"), ("?", "\\?"), ("quit", "\\q"), ("exit", "\\q")]
        .into_iter()
        .find(|(plain, _)| word.eq_ignore_ascii_case(plain))
        .map(|(_, command)| command)
}

fn nearest(name: &str) -> Option<&'static str> {
    let distance = |command: &Command| strsim::damerau_levenshtein(command.name, name);
    let near =
        COMMANDS.iter().filter(|command| command.name.len() > 2).min_by_key(|c| distance(c))?;
    (distance(near) <= 3).then_some(near.name)
}

/// The list that `\?` prints.
pub(super) fn help() -> String {
    let head = |command: &Command| format!("{} {}", command.name, command.argument);
    let width = COMMANDS.iter().map(|command| head(command).len()).max().unwrap_or(0);
    let line = |command: &Command| format!("{:<width$}  {}", head(command), command.help);
    let lines: Vec<_> = COMMANDS.iter().map(line).collect();
    format!(
        "{}\nEverything else is SQL and ends with a semicolon. The prompt shows the smallest remainder of a budget.",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read_and_helped() {
        let help = help();
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
        assert_eq!(plain_word("help"), Some("\\?"));
        assert_eq!(plain_word(" Exit; "), Some("\\q"));
        assert_eq!(plain_word("quit"), Some("\\q"));
        assert_eq!(plain_word("help me"), None);
        assert_eq!(plain_word(""), None);
    }

    #[test]
    fn mistakes_get_a_suggestion() {
        assert!(parse("\\bugdet").unwrap_err().contains("did you mean \\budget?"));
        assert!(parse("\\xyzzyxyzzy").unwrap_err().ends_with("; \\? lists them"));
        assert_eq!(parse("\\plot").unwrap_err(), "write \\plot QUERY");
        assert_eq!(parse("\\timing on").unwrap_err(), "\\timing takes no argument");
    }
}
