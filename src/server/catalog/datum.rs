//! Values of the catalog, their comparison and their text.
//!
//! ```text
//! Int(5) = Text("5")      '{a,b}' → List([a, b])      Bool(true) → t
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

/// The types of the catalog, as reported to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogType {
    Bool,
    Int,
    Text,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    Text(Arc<str>),
    List(Vec<Datum>),
}

/// The query has no answer here: it uses something unknown, or would take too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unknown;

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Datum {
    pub(super) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// Its text; `None` for NULL.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Bool(value) => Some(if *value { "t" } else { "f" }.to_owned()),
            Self::Int(value) => Some(value.to_string()),
            Self::Text(text) => Some(text.to_string()),
            Self::List(list) => {
                let each = list.iter().map(|one| match one.text() {
                    None => "NULL".to_owned(),
                    Some(text) if is_plain(&text) => text,
                    Some(text) => {
                        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                    }
                });
                Some(format!("{{{}}}", each.collect::<Vec<_>>().join(",")))
            }
        }
    }

    /// Whether it is true; `None` if this is unknown.
    pub(super) fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(text) => truth(text),
            Self::Null | Self::Int(_) | Self::List(_) => None,
        }
    }

    /// It as an integer.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Bool(value) => Some((*value).into()),
            Self::Null | Self::List(_) => None,
        }
    }

    /// The elements of an array, or of the text of one.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(list) => Some(list.clone()),
            Self::Text(text) => elements(text),
            Self::Null | Self::Bool(_) | Self::Int(_) => None,
        }
    }

    /// Compares it with another value; `None` if one of them is NULL.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Int(a), Self::Text(_)) => {
                Some(other.int().map_or(Ordering::Less, |b| a.cmp(&b)))
            }
            (Self::Text(_), Self::Int(b)) => {
                Some(self.int().map_or(Ordering::Greater, |a| a.cmp(b)))
            }
            (Self::Bool(a), Self::Text(b)) => Some(truth(b).map_or(Ordering::Less, |b| a.cmp(&b))),
            (Self::Text(a), Self::Bool(b)) => {
                Some(truth(a).map_or(Ordering::Greater, |a| a.cmp(b)))
            }
            (a, b) => Some(a.cmp(b)),
        }
    }
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "on" | "yes" | "1" => Some(true),
        "f" | "false" | "off" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn is_plain(text: &str) -> bool {
    let special = |c: char| c.is_whitespace() || ['{', '}', ',', '"', '\\'].contains(&c);
    !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special)
}

/// The elements of `{a,"b c",NULL}`.
fn elements(text: &str) -> Option<Vec<Datum>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut list, mut one, mut quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    if inner.trim().is_empty() {
        return Some(list);
    }
    let mut end = |one: &mut String, was_quoted: &mut bool| {
        let is_null = !*was_quoted && one.trim().eq_ignore_ascii_case("null");
        let text = if *was_quoted { one.as_str() } else { one.trim() };
        list.push(if is_null { Datum::Null } else { Datum::from(text) });
        one.clear();
        *was_quoted = false;
    };
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => one.push(chars.next()?),
            '"' => (quoted, was_quoted) = (!quoted, true),
            ',' if !quoted => end(&mut one, &mut was_quoted),
            // Around quotes and after a comma, spaces do not belong to an element.
            c if !quoted && c.is_whitespace() && (one.is_empty() || was_quoted) => {}
            c => one.push(c),
        }
    }
    end(&mut one, &mut was_quoted);
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_and_written() {
        for text in ["{}", "{a,b}", "{\"a b\",NULL}", "{\"say \\\"x\\\"\",\"null\"}", "{1,2}"] {
            let list = Datum::from(text).list().unwrap();
            assert_eq!(Datum::List(list).text().as_deref(), Some(text));
        }
        let spaced = Datum::from("{\"p\", \"a b\" , c d }").list().unwrap();
        assert_eq!(spaced, ["p", "a b", "c d"].map(Datum::from));
        assert_eq!(Datum::from("a").list(), None);
        assert_eq!(Datum::from("{a\\").list(), None);
    }

    #[test]
    fn numbers_and_texts_are_compared_as_numbers() {
        assert_eq!(Datum::Int(5).compare(&"05".into()), Some(Ordering::Equal));
        assert_eq!(Datum::from("int8recv").compare(&Datum::Int(0)), Some(Ordering::Greater));
        assert_eq!(Datum::Bool(true).compare(&"true".into()), Some(Ordering::Equal));
        assert_eq!(Datum::Null.compare(&Datum::Null), None);
    }
}
