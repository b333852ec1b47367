//! The line editor of the shell: it detects the end of an input, completes words and colours the text.
//!
//! In: the text being typed and a [`Vocabulary`]. Out: the answers that rustyline needs from a helper. It knows the names
//! of tables and columns, which every session may see, but no values.
//!
//! ```text
//! SELECT ARGM⇥ → ARGMAX      FROM ad⇥ → adult      \pl⇥ → \plot      EXPONENTIAL⟨(eps=1)⟩ (a hint)
//! ```

use std::borrow::Cow;

use hushql::dialect::MechanismName;
use hushql::visible;
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::commands::{COMMANDS, is_command, plain_word};
use super::lex::{self, Kind, Piece};

/// The words of clauses, and the aggregate functions.
const KEYWORDS: &str = "ACCOUNTANT ALTER ANALYZE AND ARGMAX ARGMIN AS ASC AVG BETWEEN BOTTOM BUDGET BY CASE CAST CLAMP \
COLUMN CORR COUNT COVAR CREATE CSV DESC DESCRIBE DIFFERENTIAL_PRIVACY DISTINCT DOMAIN DROP ELSE END EXPLAIN EXTERNAL FILTER \
FOR FORMAT FROM GREATEST GROUP HAVING IN IS JOIN JSON KEYS LEAST LIKE LIMIT LOCATION MAX MEDIAN MIN NOT NULL \
ON OPTIONS OR ORDER PARQUET PER PRIOR PRIVACY PUBLIC QUANTILE QUERY RANGE REFERENCES REGR_INTERCEPT REGR_SLOPE REPLACE ROW ROWS SELECT SET \
SHOW STDDEV STEP STORED SUM TABLE TABLES THEN TOP UNION UNIQUE UNIT VARIANCE VIA VIEW WHEN WHERE WITH ZCDP";

/// The hint after a mechanism's name.
const PARAMETERS: &str = "(eps=1) ";

/// The hint for a statement that continues in another line.
const UNFINISHED: &str = "  ; ends the statement, Ctrl-C discards it";

/// The names that complete a word.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    tables: Vec<String>,
    columns: Vec<String>,
}

impl Vocabulary {
    /// The names of these tables and of their columns, except names with control characters.
    pub(super) fn new(tables: Vec<(String, Vec<String>)>) -> Self {
        let mut names = Self::default();
        for (table, columns) in tables {
            names.tables.push(table);
            names.columns.extend(columns);
        }
        for list in [&mut names.tables, &mut names.columns] {
            list.retain(|name| !name.contains(visible::steers));
        }
        names
    }

    /// The completions of the word at the end of `line`, and the start of that word.
    fn complete(&self, line: &str) -> (usize, Vec<String>) {
        if line.starts_with('\\') && !line.contains(char::is_whitespace) {
            let names = COMMANDS.iter().map(|command| command.name.to_owned());
            return (0, names.filter(|name| name.starts_with(line)).collect());
        }
        let start = line.rfind(|c| !lex::is_word(c)).map_or(0, |at| {
            line.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8())
        });
        let word = line.get(start..).unwrap_or_default();
        let quoted =
            lex::pieces(line).last().is_some_and(|last| last.open || last.kind == Kind::Comment);
        if word.is_empty() || quoted {
            return (start, Vec::new());
        }
        let begins =
            |name: &str| name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
        // Names come first, because they are hard to remember.
        let names = self.tables.iter().chain(&self.columns).map(|name| written(name));
        let mut found: Vec<_> = names.filter(|name| begins(name)).collect();
        found.sort_unstable();
        let words = mechanisms().chain(KEYWORDS.split(' ')).filter(|name| begins(name));
        let lower = word.chars().all(|c| !c.is_uppercase());
        found.extend(words.map(|name| if lower { name.to_lowercase() } else { name.to_owned() }));
        found.dedup();
        (start, found)
    }
}

/// A name as SQL needs it: quoted unless it consists of lower-case letters, digits and `_`.
fn written(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if name.chars().all(plain) && starts_well {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn mechanisms() -> impl Iterator<Item = &'static str> {
    MechanismName::ALL.iter().map(|(name, _)| *name)
}

/// Answers rustyline while a line is typed.
pub(super) struct Assistant {
    /// The names that complete a word.
    pub(super) vocabulary: Vocabulary,
    /// A question is displayed, and the next line is its answer.
    pub(super) asking: bool,
    colour: bool,
    history: HistoryHinter,
}

impl Assistant {
    /// An assistant with or without colours.
    pub(super) fn new(colour: bool) -> Self {
        let vocabulary = Vocabulary::default();
        Self { vocabulary, asking: false, colour, history: HistoryHinter::new() }
    }

    fn paint<'a>(&self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }
}

impl Helper for Assistant {}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        let whole = self.asking
            || plain_word(input).is_some()
            || is_command(input)
            || lex::is_complete(input);
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        Ok(if self.asking { (position, Vec::new()) } else { self.vocabulary.complete(typed) })
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<String> {
        if self.asking || line.is_empty() || position < line.len() {
            return None;
        }
        hint(line).or_else(|| self.history.hint(line, position, context))
    }
}

/// The hint after a complete mechanism or command.
fn hint(line: &str) -> Option<String> {
    if line.ends_with('\n') && !lex::is_complete(line) {
        return Some(UNFINISHED.to_owned());
    }
    if let Some(command) = COMMANDS.iter().find(|command| command.name == line) {
        return (!command.argument.is_empty()).then(|| format!(" {}", command.argument));
    }
    let pieces = lex::pieces(line);
    let last = pieces.last().filter(|last| last.kind == Kind::Word)?;
    mechanisms().any(|name| name.eq_ignore_ascii_case(last.text)).then(|| PARAMETERS.to_owned())
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.colour || self.asking || line.starts_with('\\') {
            return line.into();
        }
        let pieces = lex::pieces(line);
        pieces
            .iter()
            .map(|piece| match colour(piece) {
                Some(code) => self.paint(code, piece.text),
                None => piece.text.into(),
            })
            .collect::<String>()
            .into()
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        self.paint("1;36", prompt)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.paint("2", hint)
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.colour && kind != CmdKind::MoveCursor
    }
}

/// The colour of a piece, as the number of an escape sequence.
fn colour(piece: &Piece<'_>) -> Option<&'static str> {
    let is = |name: &str| name.eq_ignore_ascii_case(piece.text);
    match piece.kind {
        Kind::Word if mechanisms().any(is) => Some("1;35"),
        Kind::Word if KEYWORDS.split(' ').any(is) => Some("1;34"),
        Kind::Number => Some("33"),
        Kind::Text => Some("32"),
        Kind::Comment => Some("2"),
        Kind::Word | Kind::Name | Kind::Space | Kind::Symbol => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(line: &str) -> (usize, Vec<String>) {
        let columns =
            ["age", "status", "Marital Status", "hostile\u{202e}"].map(str::to_owned).to_vec();
        Vocabulary::new(vec![("adult".to_owned(), columns)]).complete(line)
    }

    #[test]
    fn words_are_completed() {
        assert_eq!(completions("SELECT ARGMA"), (7, vec!["ARGMAX".to_owned()]));
        assert_eq!(completions("select argma"), (7, vec!["argmax".to_owned()]));
        assert_eq!(completions("SELECT ARGMAX EXPO"), (14, vec!["EXPONENTIAL".to_owned()]));
        assert_eq!(completions("FROM adu"), (5, vec!["adult".to_owned()]));
        assert_eq!(completions("SELECT hos"), (7, Vec::new()), "it would turn the line round");
        assert_eq!(completions("x,stat"), (2, vec!["status".to_owned()]));
        assert_eq!(completions("\\pl"), (0, vec!["\\plot".to_owned()]));
        assert_eq!(completions("\\d adu"), (3, vec!["adult".to_owned()]));
        assert_eq!(completions("SELECT 'adu"), (8, Vec::new()));
        assert_eq!(completions("é"), (0, Vec::new()));
        assert_eq!(completions(""), (0, Vec::new()));
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(written("hours_per_week"), "hours_per_week");
        assert_eq!(written("Marital Status"), "\"Marital Status\"");
        assert_eq!(written("a\"b"), "\"a\"\"b\"");
        assert_eq!(written("1st"), "\"1st\"");
    }

    #[test]
    fn hints_say_what_comes_next() {
        assert_eq!(hint("SELECT LAPLACE").as_deref(), Some(PARAMETERS));
        assert_eq!(hint("\\plot").as_deref(), Some(" QUERY"));
        assert_eq!(hint("\\q"), None);
        assert_eq!(hint("SELECT 1\n").as_deref(), Some(UNFINISHED));
        assert_eq!(hint("SELECT 1;\n"), None);
        assert_eq!(hint("SELECT 'LAPLACE"), None);
    }

    #[test]
    fn colours_change_no_character() {
        let line = "SELECT LAPLACE(eps=1) COUNT(*) FROM adult WHERE x = 'é' -- c";
        let painted = Assistant::new(true).highlight(line, 0).into_owned();
        assert!(painted.contains("\x1b[1;35mLAPLACE\x1b[0m"), "{painted}");
        assert!(painted.contains("\x1b[32m'é'\x1b[0m"), "{painted}");
        let mut plain = painted;
        for code in ["0", "1;34", "1;35", "33", "32", "2"] {
            plain = plain.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(plain, line);
        assert_eq!(Assistant::new(false).highlight(line, 0), line);
    }
}
