//! Text that is safe to display: characters that control a terminal, end a line or change the
//! direction of writing are escaped.
//!
//! In: cells, names, and sentences that contain them. Out: the same text, in which every control
//! character (C0, DEL and C1), line or paragraph separator and bidirectional control is an escape
//! of plain letters. Data and names may come from people who want to harm a reader of a terminal or
//! a log. Privacy does not depend on this module, and no character is dropped. The accuracy of an
//! answer has one form everywhere: three significant digits.
//!
//! ```
//! # use hushql_engine as hushql;
//! use hushql::visible;
//!
//! assert_eq!(visible::rounded(4.9416), "4.94");
//! assert_eq!(visible::line("\u{1b}[31mred\n"), "\\u{1b}[31mred\\n");
//! assert_eq!(visible::lines("two\nlines\u{7}"), "two\nlines\\u{7}");
//! assert_eq!(visible::json("\"\u{9b}31m\""), "\"\\u009b31m\"");
//! assert_eq!(visible::markup("<b>'&'"), "&lt;b&gt;&#39;&amp;&#39;");
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

/// True if a character controls the display instead of being displayed.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text that must stay on one line: a name, a cell of a table, a line of an explanation.
pub fn line(text: &str) -> Cow<'_, str> {
    spelled(text, steers, by_rust)
}

/// Text of several lines, such as a whole message. It keeps its line feeds and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\t'), by_rust)
}

/// A cell of CSV. It keeps its line breaks and tabs; the caller puts it in quotes.
pub fn cell(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\r' | '\t'), by_rust)
}

/// A JSON text, in which only strings can contain such characters. JSON itself requires escapes
/// only below U+0020.
pub fn json(text: &str) -> Cow<'_, str> {
    spelled(text, |c| steers(c) && !matches!(c, '\n' | '\r' | '\t'), by_json)
}

/// A text within an element or a quoted attribute of HTML or XML: nothing of it is markup. The
/// caller spells out what controls a display first, by [`line()`] or [`lines`].
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no such characters.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A number that is not negative, such as an accuracy, with three significant digits.
pub fn rounded(value: f64) -> String {
    if value.is_infinite() {
        return "∞".to_owned();
    }
    if value.is_nan() || value <= 0.0 {
        return "0".to_owned();
    }
    let short = format!("{value:.2e}");
    let exponent = short.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match (exponent, short.parse::<f64>()) {
        // Outside of this range, a number that is written out would be mostly zeros.
        (Some(exponent @ -6..15), Ok(plain)) => {
            format!("{plain:.*}", usize::try_from(2 - exponent).unwrap_or(0))
        }
        _ => short,
    }
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

/// A column's name with its literals as they are written: the planner writes `Int64(1)` for 1, and
/// `Utf8("day")` for 'day'.
pub(crate) fn heading(name: &str) -> Cow<'_, str> {
    const TYPES: [&str; 14] = [
        "Int8(",
        "Int16(",
        "Int32(",
        "Int64(",
        "UInt8(",
        "UInt16(",
        "UInt32(",
        "UInt64(",
        "Float32(",
        "Float64(",
        "Boolean(",
        "Utf8(",
        "Utf8View(",
        "LargeUtf8(",
    ];
    if !TYPES.iter().any(|literal| name.contains(literal)) {
        return Cow::Borrowed(name);
    }
    let (mut rest, mut plain, mut in_word) = (name, String::with_capacity(name.len()), false);
    while let Some(next) = rest.chars().next() {
        let literal = TYPES.iter().find_map(|literal| rest.strip_prefix(literal));
        if let (Some(inside), false) = (literal, in_word)
            && let Some((value, behind)) = literal_in(inside)
        {
            plain.push_str(&value);
            rest = behind;
            in_word = false;
            continue;
        }
        in_word = next.is_alphanumeric() || next == '_' || next == '.';
        plain.push(next);
        rest = &rest[next.len_utf8()..];
    }
    Cow::Owned(plain)
}

/// The literal after the name of its type, and the rest of the text.
fn literal_in(inside: &str) -> Option<(String, &str)> {
    if let Some(text) = inside.strip_prefix('"') {
        let end = text.find("\")")?;
        let value = text[..end].replace('\'', "''");
        return Some((format!("'{value}'"), &text[end + 2..]));
    }
    let end = inside.find(')')?;
    let value = &inside[..end];
    let plain = value.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c));
    plain.then(|| (value.to_owned(), &inside[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_in_headings_are_as_written() {
        for (name, shown) in [
            ("quantile(adult.age,Float64(0.25))", "quantile(adult.age,0.25)"),
            ("count(*) + Int64(1)", "count(*) + 1"),
            ("date_trunc(Utf8(\"day\"),orders.ts)", "date_trunc('day',orders.ts)"),
            ("Utf8(\"it's\")", "'it''s'"),
            ("Boolean(true) AND Int64(NULL)", "true AND NULL"),
            ("MyInt64(5)", "MyInt64(5)"),
            ("Int64(a + b)", "Int64(a + b)"),
            ("Utf8(\"open", "Utf8(\"open"),
            ("n", "n"),
        ] {
            assert_eq!(heading(name), shown);
        }
    }

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
    fn accuracies_have_three_digits() {
        for (value, text) in [
            (4.941_642, "4.94"),
            (1.945_910, "1.95"),
            (3.0, "3.00"),
            (46.0, "46.0"),
            (0.5, "0.500"),
            (99.96, "100"),
            (0.001_234, "0.00123"),
            (0.012_345, "0.0123"),
            (12_345.6, "12300"),
            (123_456.0, "123000"),
            (0.0, "0"),
            (-1.0, "0"),
            (1.234e20, "1.23e20"),
            (1.234e-9, "1.23e-9"),
            (f64::MAX, "1.80e308"),
            (f64::INFINITY, "∞"),
        ] {
            assert_eq!(rounded(value), text, "{value}");
        }
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
