//! Splits a statement into words while it is typed: for colours, completion and the end of input.
//!
//! In: any text, finished or not. Out: pieces that form the text again when joined. This is not a
//! parser: it knows quotes and comments, so that a `;` inside them does not end a statement.
//!
//! ```text
//! SELECT 'a;b' -- c;     →  Word, Space, Text, Space, Comment
//! ```

/// The kind of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A keyword or a name.
    Word,
    /// A number.
    Number,
    /// `'text'`
    Text,
    /// `"name"`
    Name,
    /// `-- …` or `/* … */`
    Comment,
    /// White space.
    Space,
    /// Any other single character.
    Symbol,
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Its kind.
    pub(super) kind: TokenKind,
    /// Its characters.
    pub(super) text: &'a str,
    /// Whether its closing quote or comment mark is missing.
    pub(super) open: bool,
}

/// Cuts a text into pieces.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length, open) = measure(rest, first);
        let (piece, after) = rest.split_at(length);
        found.push(Piece { kind, text: piece, open });
        rest = after;
    }
    found
}

fn measure(rest: &str, first: char) -> (TokenKind, usize, bool) {
    let run = |fits: fn(char) -> bool| rest.find(|c| !fits(c)).unwrap_or(rest.len());
    match first {
        '\'' => quoted(rest, TokenKind::Text, '\''),
        '"' => quoted(rest, TokenKind::Name, '"'),
        '-' if rest.starts_with("--") => {
            (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()), false)
        }
        '/' if rest.starts_with("/*") => block_comment(rest),
        c if c.is_whitespace() => (TokenKind::Space, run(char::is_whitespace), false),
        c if c.is_ascii_digit() => {
            (TokenKind::Number, run(|c| c.is_ascii_alphanumeric() || c == '.'), false)
        }
        c if is_word(c) => (TokenKind::Word, run(is_word), false),
        c => (TokenKind::Symbol, c.len_utf8(), false),
    }
}

/// Whether an unquoted name may contain a character.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// SQL reads a doubled quote inside a text as one quote; here it counts as two adjacent quotations.
fn quoted(rest: &str, kind: TokenKind, quote: char) -> (TokenKind, usize, bool) {
    match rest.char_indices().skip(1).find(|(_, c)| *c == quote) {
        Some((end, _)) => (kind, end.saturating_add(quote.len_utf8()), false),
        None => (kind, rest.len(), true),
    }
}

/// Comments nest, as they do for the parser.
fn block_comment(rest: &str) -> (TokenKind, usize, bool) {
    let (mut at, mut depth) = (0_usize, 0_usize);
    loop {
        let here = rest.get(at..).unwrap_or_default();
        if here.starts_with("/*") {
            (at, depth) = (at.saturating_add(2), depth.saturating_add(1));
        } else if here.starts_with("*/") {
            (at, depth) = (at.saturating_add(2), depth.saturating_sub(1));
            if depth == 0 {
                return (TokenKind::Comment, at, false);
            }
        } else if let Some(c) = here.chars().next() {
            at = at.saturating_add(c.len_utf8());
        } else {
            return (TokenKind::Comment, rest.len(), true);
        }
    }
}

/// The quotation, comment or bracket that is open at the end of an unfinished input.
pub(super) fn inside(input: &str) -> Option<char> {
    let pieces = pieces(input);
    if let Some(last) = pieces.last().filter(|last| last.open) {
        return Some(match last.kind {
            TokenKind::Text => '\'',
            TokenKind::Name => '"',
            TokenKind::Comment
            | TokenKind::Word
            | TokenKind::Number
            | TokenKind::Space
            | TokenKind::Symbol => '*',
        });
    }
    let mut depth = 0_usize;
    for piece in pieces.iter().filter(|piece| piece.kind == TokenKind::Symbol) {
        match piece.text {
            "(" => depth = depth.saturating_add(1),
            ")" => depth = depth.saturating_sub(1),
            // Brackets end with their statement.
            ";" => depth = 0,
            _ => {}
        }
    }
    (depth > 0).then_some('(')
}

/// The statement before a `\g`, what follows it in its line, and the lines after that; `None`
/// without a `\g`.
///
/// In quotations and comments, `\g` has no meaning.
pub(super) fn ended_by_g(input: &str) -> Option<(&str, &str, &str)> {
    let pieces = pieces(input);
    let mut at = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let word = pieces.get(i + 1).filter(|word| matches!(word.text, "g" | "go"));
        if let (TokenKind::Symbol, "\\", Some(word)) = (piece.kind, piece.text, word) {
            let behind = input.get(at + piece.text.len() + word.text.len()..)?;
            let (file, rest) = behind.split_once('\n').unwrap_or((behind, ""));
            let file = file.trim().trim_end_matches(';').trim_end();
            return Some((input.get(..at)?, file, rest));
        }
        at += piece.text.len();
    }
    None
}

/// Whether an input is complete: empty, a backslash command, or statements with a `;` after the
/// last one.
pub(super) fn is_complete(input: &str) -> bool {
    let trimmed = input.trim();
    if trimmed.is_empty() || trimmed.starts_with('\\') {
        return true;
    }
    let pieces = pieces(trimmed);
    let ignored = |piece: &Piece<'_>| {
        matches!(piece.kind, TokenKind::Space | TokenKind::Comment) && !piece.open
    };
    match pieces.iter().rev().find(|piece| !ignored(piece)) {
        Some(last) => last.text == ";",
        // An input of comments alone is complete.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_ended_by_g() {
        assert_eq!(ended_by_g("SELECT 1 \\g"), Some(("SELECT 1 ", "", "")));
        assert_eq!(ended_by_g("SELECT 1\\g a b.csv ;"), Some(("SELECT 1", "a b.csv", "")));
        let several = "SELECT\n1\n\\g 'x'\nSELECT 2;";
        assert_eq!(ended_by_g(several), Some(("SELECT\n1\n", "'x'", "SELECT 2;")));
        for text in ["SELECT '\\g'", "SELECT 1 -- \\g", "SELECT '\\g", "\\gx", "SELECT 1 \\ g", "g"]
        {
            assert_eq!(ended_by_g(text), None, "{text}");
        }
    }

    #[test]
    fn pieces_are_the_text() {
        for text in [
            "SELECT 'a;''b' AS \"x;\", 1.5e-6 -- c;\nFROM /* ; /* */ ; */ t;",
            "'open",
            "/* open /* */",
            "π ≥ 'é' \u{1b}",
            "-",
            "",
        ] {
            let joined: String = pieces(text).iter().map(|piece| piece.text).collect();
            assert_eq!(joined, text);
        }
        let kinds: Vec<_> = pieces("x 1.5'a'\"b\"--c").iter().map(|piece| piece.kind).collect();
        let expected = [
            TokenKind::Word,
            TokenKind::Space,
            TokenKind::Number,
            TokenKind::Text,
            TokenKind::Name,
            TokenKind::Comment,
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_open_is_known() {
        for (input, open) in [
            ("SELECT 1", None),
            ("SELECT 'a", Some('\'')),
            ("SELECT \"a", Some('"')),
            ("SELECT /* a", Some('*')),
            ("SELECT COUNT(", Some('(')),
            ("SELECT (1); SELECT", None),
            ("SELECT ((1)", Some('(')),
            ("SELECT (1; SELECT 2", None),
            ("SELECT ')', (", Some('(')),
        ] {
            assert_eq!(inside(input), open, "{input}");
        }
    }

    #[test]
    fn a_semicolon_ends_the_input_unless_it_is_quoted() {
        for whole in [
            "",
            "  ",
            "\\d",
            "SELECT 1;",
            "SELECT 1; -- done",
            "SELECT ';'; /* x */ ",
            "-- only",
            ";",
        ] {
            assert!(is_complete(whole), "{whole}");
        }
        for part in [
            "SELECT 1",
            "SELECT ';",
            "SELECT ';'",
            "SELECT 1 -- ;",
            "SELECT 1 /* ; */",
            "SELECT 1; /* ",
            "SELECT 1; SELECT",
            "SELECT \"a;",
            "SELECT 'it''s;",
        ] {
            assert!(!is_complete(part), "{part}");
        }
    }
}
