//! Texts of a given width: characters take no column, one or two.
//!
//! In: a text and a number of columns. Out: the text, cut or padded to this width.
//!
//! ```text
//! "a label that goes on and on", 12  →  "a label tha…"           "東京", 6  →  "東京  "
//! ```

use hushql_engine::visible;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::super::plain;

/// The columns that a text takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to at most `most` columns, and removes characters that control a terminal.
pub(super) fn cut(text: &str, most: usize, ascii: bool) -> String {
    let text = visible::line(text);
    let text = if ascii { plain::ascii(&text) } else { text };
    if width(&text) <= most {
        return text.into_owned();
    }
    let end = if ascii { "..." } else { "…" };
    let room = most.saturating_sub(width(end));
    let (mut taken, mut short) = (0, String::new());
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > room {
            break;
        }
        short.push(c);
    }
    short + end
}

/// A text, padded with spaces after it.
pub(super) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A text, padded with spaces before it.
pub(super) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("東京"), 4);
        assert_eq!(left("東京", 6), "東京  ");
        assert_eq!(right("東京", 5), " 東京");
        assert_eq!(cut("東京都庁", 5, false), "東京…");
        assert_eq!(cut("東京都庁", 6, false), "東京…");
        assert_eq!(cut("abcdef", 5, true), "ab...");
        assert_eq!(cut("a · b ± c", 20, true), "a - b +/- c");
        assert_eq!(cut("\u{1b}[2J", 20, false), "\\u{1b}[2J");
    }
}
