//! Values of the catalog, their comparison and their text.
//!
//! ```text
//! Int(5) = Text("5")      '{a,b}' → List([a, b])      Bool(true) → t
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use hushql_engine::bind::truth_of;

use super::super::binary::{array, elements};
use super::super::types;
use super::super::types::kinds;

/// A row.
pub(super) type Row = Vec<Datum>;

/// A type of PostgreSQL, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CatalogType(pub(super) u32);

impl CatalogType {
    pub(super) const BOOL: Self = Self(kinds::BOOL);
    pub(super) const INT2: Self = Self(kinds::INT2);
    pub(super) const INT4: Self = Self(kinds::INT4);
    pub(super) const INT8: Self = Self(kinds::INT8);
    pub(super) const TEXT: Self = Self(kinds::TEXT);
    pub(super) const NAME: Self = Self(kinds::NAME);
    pub(super) const OID: Self = Self(kinds::OID);
    pub(super) const NUMERIC: Self = Self(kinds::NUMERIC);
    pub(super) const TIMESTAMPTZ: Self = Self(kinds::TIMESTAMPTZ);
    pub(super) const JSON: Self = Self(114);
    pub(super) const REGPROC: Self = Self(24);
    pub(super) const UNKNOWN: Self = Self(kinds::UNKNOWN);

    /// The type of arrays of it.
    pub(super) fn array(self) -> Self {
        Self(types::array_of(self.0))
    }

    /// The type of its elements.
    pub(super) fn element(self) -> Self {
        Self(types::element_of(self.0))
    }

    /// Whether its values are whole numbers, or numbers of objects.
    pub(super) fn is_int(self) -> bool {
        matches!(self.0, kinds::INT2 | kinds::INT4 | kinds::INT8 | kinds::OID | 28 | 29)
    }

    /// Whether it is an array or a vector.
    pub(super) fn is_array(self) -> bool {
        types::numbered(self.0.into()).is_some_and(|(t, is_array)| is_array || t.category == "A")
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    Text(Arc<str>),
    List(Vec<Datum>),
    /// A row: the names of its columns, and their values.
    Record(Vec<(Arc<str>, Datum)>),
}

/// Why a query has no answer here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It is not about the catalog.
    Elsewhere,
    /// The parser does not read it; the engine says where.
    Unparsed,
    /// It names a relation that the catalog does not have.
    Relation(String),
    /// It names something else that the catalog does not have, or a value does not fit: SQLSTATE
    /// and a sentence.
    Said(&'static str, String),
    /// It would take too long.
    TooLong,
    /// The catalog does not compute it.
    Unclear,
}

impl Unanswered {
    /// A column that no source has.
    pub(super) fn column(name: &str) -> Self {
        Self::Said("42703", format!("there is no column {name} here"))
    }

    /// A function that the catalog does not know.
    pub(super) fn function(name: &str) -> Self {
        Self::Said("42883", format!("the catalog does not know the function {name}"))
    }

    /// A part of SQL that the catalog does not know.
    pub(super) fn part(what: impl std::fmt::Display) -> Self {
        let what: String = what.to_string().chars().take(200).collect();
        Self::Said("0A000", format!("the catalog does not compute {what}"))
    }
}

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
            Self::List(list) => Some(array(&list.iter().map(Self::text).collect::<Vec<_>>())),
            Self::Record(columns) => {
                let each = columns.iter().map(|(_, value)| value.text().unwrap_or_default());
                Some(format!("({})", each.collect::<Vec<_>>().join(",")))
            }
        }
    }

    /// It as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::from(*value),
            Self::Int(value) => Value::from(*value),
            Self::Text(text) => {
                let nested = text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok());
                nested.flatten().unwrap_or_else(|| Value::from(&**text))
            }
            Self::List(list) => list.iter().map(Self::json).collect(),
            Self::Record(columns) => {
                let each = columns.iter().map(|(name, value)| (name.to_string(), value.json()));
                Value::Object(each.collect())
            }
        }
    }

    /// Whether it is true; `None` if this is unknown.
    pub(super) fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(text) => truth_of(text),
            Self::Null | Self::Int(_) | Self::List(_) | Self::Record(_) => None,
        }
    }

    /// It as an integer.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Bool(value) => Some((*value).into()),
            Self::Null | Self::List(_) | Self::Record(_) => None,
        }
    }

    /// The elements of an array, or of the text of one.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(list) => Some(list.clone()),
            Self::Text(text) => {
                let value =
                    |one: Option<String>| one.map_or(Self::Null, |one| Self::Text(one.into()));
                Some(elements(text)?.into_iter().map(value).collect())
            }
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Record(_) => None,
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
            (Self::Bool(a), Self::Text(b)) => {
                Some(truth_of(b).map_or(Ordering::Less, |b| a.cmp(&b)))
            }
            (Self::Text(a), Self::Bool(b)) => {
                Some(truth_of(a).map_or(Ordering::Greater, |a| a.cmp(b)))
            }
            (a, b) => Some(a.cmp(b)),
        }
    }
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
