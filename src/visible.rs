//! Text that is safe to display: characters that control a terminal, end a line or change the direction of writing
//! are escaped.
//!
//! In: cells, names, and sentences that contain them. Out: the same text, with an escape of printable characters for
//! every control character (C0, DEL and C1), line or paragraph separator and bidirectional control. Data and names
//! may come from people who attack the readers of a terminal or a log. This protects the display, not privacy; no
//! character is dropped.
//!
//! ```
//! use hushql::visible;
//!
//! assert_eq!(visible::line("\u{1b}[31mred\n"), "\\u{1b}[31mred\\n");
//! assert_eq!(visible::lines("two\nlines\u{7}"), "two\nlines\\u{7}");
//! assert_eq!(visible::json("\"\u{9b}31m\""), "\"\\u009b31m\"");
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls the display instead of being displayed.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text that must stay on one line: a name, a cell of a table, a line of an explanation.
pub fn line(text: &str) -> Cow<'_, str> {
    spelled(text, steers, by_rust)
}

/// Text of several lines, which keeps its line feeds and tabs: a whole message.
pub fn lines(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\t'), by_rust)
}

/// A cell of CSV, which keeps its line breaks and tabs; the caller puts it into quotes.
pub fn cell(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\r' | '\t'), by_rust)
}

/// A JSON text, in which only strings can contain such characters. JSON itself requires escapes only below U+0020.
pub fn json(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\r' | '\t'), by_json)
}

fn spelled(text: &str, hidden: fn(char) -> bool, spell: fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { spell(&mut shown, c) } else { shown.push(c) }
    }
    shown.into()
}

/// Escapes as Rust does: `\u{1b}`, `\n`.
fn by_rust(shown: &mut String, c: char) {
    shown.extend(c.escape_default());
}

/// Escapes as JSON does: `\u001b`. All of these characters have at most four hexadecimal digits.
fn by_json(shown: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(shown, "\\u{:04x}", u32::from(c));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every control character is escaped, and no other.
    #[test]
    fn all_that_steers_is_spelled_out() {
        let mut hidden = 0;
        for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let text = format!("a{c}b");
            let shown = [line(&text), lines(&text), cell(&text), json(&text)];
            let kept = [&[][..], &['\n', '\t'], &['\n', '\r', '\t'], &['\n', '\r', '\t']];
            for (shown, kept) in shown.iter().zip(kept) {
                assert_eq!(*shown != text, steers(c) && !kept.contains(&c), "{c:?}: {shown}");
                assert!(!shown.chars().any(|c| steers(c) && !kept.contains(&c)), "{shown:?}");
            }
            hidden += u32::from(steers(c));
        }
        assert_eq!(hidden, 65 + 2 + 5 + 4);
    }

    #[test]
    fn json_reads_what_was_meant() {
        let hostile = "\u{1b}[2J\u{7f}\u{9b}31m\u{2028}\u{202e}\u{2069}\n\"é";
        let written = serde_json::to_string(hostile).unwrap();
        let shown = json(&written);
        assert!(!shown.contains(steers), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), hostile);
    }
}
