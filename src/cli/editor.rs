//! The line editor of the shell: it detects the end of an input, completes words and colours the
//! text.
//!
//! In: the text being typed, the lines before it, and a [`Vocabulary`]. Out: hints, completions and
//! colours for rustyline. It knows the names of tables and columns, which every session may see,
//! but no values.
//!
//! ```text
//! SELECT ARGM⇥ → ARGMAX      FROM ad⇥ → adult      \pl⇥ → \plot      EXPONENTIAL⟨(eps=1)⟩ (a hint)
//! ```

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter, HistoryHinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::COMMANDS;
use super::complete::{KEYWORDS, Vocabulary, mechanisms};
use super::lex::{self, Piece, TokenKind};
use super::paths;

/// The hint after a mechanism's name.
const PARAMETERS: &str = "(eps=1) ";

/// The hint for a statement that continues in another line.
const UNFINISHED: &str = "  ; ends the statement, Ctrl-C discards it";

/// A hint after the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suggestion {
    text: String,
    /// What the right arrow key inserts, if anything.
    inserts: Option<String>,
}

impl Hint for Suggestion {
    fn display(&self) -> &str {
        &self.text
    }

    fn completion(&self) -> Option<&str> {
        self.inserts.as_deref()
    }
}

/// Answers rustyline while a line is typed.
pub(super) struct Assistant {
    /// The names that complete a word.
    pub(super) vocabulary: Vocabulary,
    /// The earlier lines of the statement.
    pub(super) before: String,
    /// Whether a question is displayed; then the next line is its answer.
    pub(super) asking: bool,
    /// Whether the names of files may be shown. The analyst of a service account would see the
    /// files of the service.
    pub(super) lists_files: bool,
    colour: bool,
    history: HistoryHinter,
}

impl Assistant {
    /// An assistant with or without colours.
    pub(super) fn new(colour: bool) -> Self {
        let vocabulary = Vocabulary::default();
        let before = String::new();
        let (asking, lists_files, history) = (false, false, HistoryHinter::new());
        Self { vocabulary, before, asking, lists_files, colour, history }
    }

    fn paint<'a>(&self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }
}

impl Helper for Assistant {}

/// Each line is accepted: the shell asks for the next line until the statement is complete.
impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        if self.asking {
            return Ok((position, Vec::new()));
        }
        let typed = line.get(..position).filter(|_| self.lists_files);
        let path = typed.and_then(|typed| paths::complete(&self.before, typed));
        Ok(path.unwrap_or_else(|| self.vocabulary.complete(&self.before, line, position)))
    }
}

impl Hinter for Assistant {
    type Hint = Suggestion;

    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<Suggestion> {
        if self.asking || position < line.len() {
            return None;
        }
        if line.is_empty() {
            let waits = !self.before.is_empty() && !self.before.contains('\n');
            return waits.then(|| Suggestion { text: UNFINISHED.to_owned(), inserts: None });
        }
        if let Some(text) = hint(line) {
            return Some(Suggestion { inserts: Some(text.clone()), text });
        }
        let old = self.history.hint(line, position, context)?;
        // If the old statement has several lines, the hint shows the first one.
        let text = old.split_once('\n').map_or(old.clone(), |(first, _)| format!("{first} …"));
        Some(Suggestion { inserts: Some(old), text })
    }
}

/// The hint after a complete mechanism or command.
fn hint(line: &str) -> Option<String> {
    if let Some(command) = COMMANDS.iter().find(|command| command.name == line) {
        return (!command.argument.is_empty()).then(|| format!(" {}", command.argument));
    }
    let pieces = lex::pieces(line);
    let last = pieces.last().filter(|last| last.kind == TokenKind::Word)?;
    mechanisms().any(|name| name.eq_ignore_ascii_case(last.text)).then(|| PARAMETERS.to_owned())
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.colour || self.asking || line.starts_with('\\') {
            return line.into();
        }
        let whole = match self.before.is_empty() {
            true => Cow::Borrowed(line),
            false => format!("{}\n{line}", self.before).into(),
        };
        let (mut at, start) = (0, whole.len() - line.len());
        let mut painted = String::with_capacity(line.len() * 2);
        for piece in lex::pieces(&whole) {
            let from = start.saturating_sub(at).min(piece.text.len());
            at += piece.text.len();
            // The part in this line, if the piece began in an earlier line.
            let text = piece.text.get(from..).unwrap_or_default();
            match colour(&piece).filter(|_| !text.is_empty()) {
                Some(code) => painted.push_str(&self.paint(code, text)),
                None => painted.push_str(text),
            }
        }
        painted.into()
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
        TokenKind::Word if mechanisms().any(is) => Some("1;35"),
        TokenKind::Word if KEYWORDS.split(' ').any(is) => Some("1;34"),
        TokenKind::Number => Some("33"),
        TokenKind::Text => Some("32"),
        TokenKind::Comment => Some("2"),
        TokenKind::Word | TokenKind::Name | TokenKind::Space | TokenKind::Symbol => None,
    }
}

#[cfg(test)]
mod tests {
    use rustyline::history::{DefaultHistory, History};

    use super::*;

    #[test]
    fn hints_say_what_comes_next() {
        assert_eq!(hint("SELECT LAPLACE").as_deref(), Some(PARAMETERS));
        assert_eq!(hint("\\plot").as_deref(), Some(" [QUERY]"));
        assert_eq!(hint("\\q"), None);
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

    #[test]
    fn colours_know_what_began_in_an_earlier_line() {
        let mut assistant = Assistant::new(true);
        assistant.before = "SELECT 'a".to_owned();
        assert_eq!(assistant.highlight("b', 1", 0), "\x1b[32mb'\x1b[0m, \x1b[33m1\x1b[0m");
    }

    /// The right arrow key once inserted the words of this hint into the statement.
    #[test]
    fn the_hint_of_an_unfinished_statement_is_no_text() {
        let (mut assistant, history) = (Assistant::new(false), DefaultHistory::new());
        let hint = |assistant: &Assistant| assistant.hint("", 0, &Context::new(&history));
        assert_eq!(hint(&assistant), None);
        assistant.before = "SELECT 1".to_owned();
        let found = hint(&assistant).unwrap();
        assert_eq!((found.display(), found.completion()), (UNFINISHED, None));
        assistant.before = "SELECT 1\nFROM t".to_owned();
        assert_eq!(hint(&assistant), None, "once is enough");
    }

    #[test]
    fn an_old_statement_is_hinted_at_in_one_line() {
        let (assistant, mut history) = (Assistant::new(false), DefaultHistory::new());
        history.add("SELECT 1\nFROM t;").unwrap();
        let found = assistant.hint("SEL", 3, &Context::new(&history)).unwrap();
        assert_eq!((found.display(), found.completion()), ("ECT 1 …", Some("ECT 1\nFROM t;")));
    }
}
