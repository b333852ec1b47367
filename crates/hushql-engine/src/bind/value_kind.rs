//! The kinds of values: numbers, texts, dates and so on.
//!
//! In: a type. Out: its kind, by which comparisons and lists of values tell what can be compared.
//!
//! ```text
//! DECIMAL(4, 2)     a number
//! VARCHAR           a text
//! BYTEA             none: the planner decides
//! ```

use arrow::datatypes::DataType;

/// The kinds of values that comparisons tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Number,
    Text,
    Boolean,
    Date,
    Timestamp,
    Span,
}

impl ValueKind {
    /// `None` for types whose comparisons the planner may decide.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Dictionary(_, values) => Self::new(values),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Self::Text),
            DataType::Boolean => Some(Self::Boolean),
            DataType::Date32 | DataType::Date64 => Some(Self::Date),
            DataType::Timestamp(..) => Some(Self::Timestamp),
            DataType::Interval(_) | DataType::Duration(_) => Some(Self::Span),
            other if other.is_numeric() => Some(Self::Number),
            _ => None,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Boolean => "true or false",
            Self::Date => "a date",
            Self::Timestamp => "a timestamp",
            Self::Span => "a span of time",
        }
    }

    pub(super) fn is_moment(self) -> bool {
        self == Self::Date || self == Self::Timestamp
    }
}
