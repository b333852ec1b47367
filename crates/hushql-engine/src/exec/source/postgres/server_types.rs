//! The types of a server's columns: which of them can be read, and how.
//!
//! In: the number of a type and its modifier, from the server's catalog. Out: a [`WireEncoding`],
//! which knows the engine's type of the column and the expression that reads it. Other types are
//! refused at declaration.
//!
//! ```text
//! integer            INT                      numeric(9,2)    DECIMAL(9, 2)
//! timestamptz        TIMESTAMP, in UTC        numeric         refused, unless the declaration says DECIMAL(p, s)
//! char(3), uuid      VARCHAR                  json, int[]     refused
//! a domain           as the type below it     an enum         VARCHAR
//! ```

use arrow::datatypes::{DataType, TimeUnit};

use crate::functions::MOST_OF_A_CELL;

/// The longest text; longer ones are NULL, as in files. The server holds a row in one piece of at
/// most 2³⁰ bytes, and 1,600 columns of such texts still fit.
const LONGEST: usize = MOST_OF_A_CELL;

/// The encoding of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireEncoding {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// With its precision and scale.
    Numeric(u8, i8),
    Text,
    /// A word of an enum, of at most 63 bytes.
    Enum,
    Uuid,
    Date,
    /// With or without a time zone; a moment with a time zone is in UTC.
    Timestamp,
}

/// The engine's type for a server's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerColumnType {
    Readable(WireEncoding),
    /// `numeric` without a precision.
    Unconstrained,
    /// Computed by the server at each read, which may fail on one row.
    Computed,
    Unreadable,
}

/// A column of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerColumn {
    pub(super) name: String,
    pub(super) found: ServerColumnType,
    /// The type in the server's words, for the owner.
    pub(super) shown: String,
}

/// The engine's type for a type in the server's catalog.
pub(super) fn found(oid: u32, modifier: i32) -> ServerColumnType {
    ServerColumnType::Readable(match oid {
        16 => WireEncoding::Bool,
        21 => WireEncoding::Int2,
        23 => WireEncoding::Int4,
        20 => WireEncoding::Int8,
        700 => WireEncoding::Float4,
        701 => WireEncoding::Float8,
        25 | 1042 | 1043 => WireEncoding::Text,
        2950 => WireEncoding::Uuid,
        1082 => WireEncoding::Date,
        1114 | 1184 => WireEncoding::Timestamp,
        1700 => return numeric(modifier),
        _ => return ServerColumnType::Unreadable,
    })
}

/// Decodes the modifier of `numeric(p, s)`. It is both numbers, packed together, plus four; the
/// scale has eleven bits with a sign.
fn numeric(modifier: i32) -> ServerColumnType {
    if modifier < 4 {
        return ServerColumnType::Unconstrained;
    }
    let packed = modifier - 4;
    let (precision, scale) = ((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024);
    let precision = u8::try_from(precision).ok().filter(|p| (1..=38).contains(p));
    let scale = i8::try_from(scale).ok().filter(|scale| *scale >= 0);
    match precision.zip(scale) {
        Some((precision, scale)) if i16::from(scale) <= i16::from(precision) => {
            ServerColumnType::Readable(WireEncoding::Numeric(precision, scale))
        }
        _ => ServerColumnType::Unconstrained,
    }
}

impl ServerColumnType {
    /// The encoding that reads a column as the declared type; `None` if the column has another
    /// type.
    pub(super) fn read_as(self, declared: &DataType) -> Option<WireEncoding> {
        match (self, declared) {
            (Self::Readable(kind), declared) => (kind.data_type() == *declared).then_some(kind),
            (Self::Unconstrained, DataType::Decimal128(precision, scale)) => {
                Some(WireEncoding::Numeric(*precision, *scale))
            }
            (Self::Unconstrained | Self::Computed | Self::Unreadable, _) => None,
        }
    }
}

impl WireEncoding {
    /// The engine's type of the column.
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Numeric(precision, scale) => DataType::Decimal128(precision, scale),
            Self::Text | Self::Enum | Self::Uuid => DataType::Utf8,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// The server's expression that reads the column with this quoted name.
    ///
    /// # Guarantee
    /// It fails for no value: only texts and words of enums are converted, `char(n)` to the text
    /// without its padding.
    pub(super) fn expression(self, column: &str) -> String {
        match self {
            Self::Text => format!(
                "CASE WHEN pg_catalog.octet_length({column}) OPERATOR(pg_catalog.<=) {LONGEST} THEN {column}::pg_catalog.text END"
            ),
            Self::Enum => format!("{column}::pg_catalog.text"),
            Self::Bool
            | Self::Int2
            | Self::Int4
            | Self::Int8
            | Self::Float4
            | Self::Float8
            | Self::Numeric(..)
            | Self::Uuid
            | Self::Date
            | Self::Timestamp => column.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_of_numbers_are_read() {
        let of =
            |precision: i32, scale: i32| found(1700, ((precision << 16) | (scale & 0x7ff)) + 4);
        assert_eq!(of(9, 2), ServerColumnType::Readable(WireEncoding::Numeric(9, 2)));
        assert_eq!(of(38, 38), ServerColumnType::Readable(WireEncoding::Numeric(38, 38)));
        assert_eq!(of(38, 0), ServerColumnType::Readable(WireEncoding::Numeric(38, 0)));
        // More digits than the engine's decimals have, a scale below zero, and a scale above the
        // precision.
        for (precision, scale) in [(39, 2), (1000, 0), (5, -3), (3, 5), (1000, 1000)] {
            assert_eq!(
                of(precision, scale),
                ServerColumnType::Unconstrained,
                "{precision} {scale}"
            );
        }
        assert_eq!(found(1700, -1), ServerColumnType::Unconstrained);
        for oid in [18, 19, 114, 3802, 17, 1083, 1186, 790, 1007, 0] {
            assert_eq!(found(oid, -1), ServerColumnType::Unreadable);
        }
    }

    #[test]
    fn declared_types_are_those_of_the_server() {
        let int = found(23, -1);
        assert_eq!(int.read_as(&DataType::Int32), Some(WireEncoding::Int4));
        assert_eq!(int.read_as(&DataType::Int64), None);
        let decimal = DataType::Decimal128(12, 2);
        assert_eq!(
            ServerColumnType::Unconstrained.read_as(&decimal),
            Some(WireEncoding::Numeric(12, 2))
        );
        assert_eq!(ServerColumnType::Unconstrained.read_as(&DataType::Float64), None);
        assert_eq!(ServerColumnType::Unreadable.read_as(&decimal), None);
    }
}
