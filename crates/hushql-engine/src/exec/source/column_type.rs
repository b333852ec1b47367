//! The types that columns of CREATE EXTERNAL TABLE may have, by the names of PostgreSQL and DuckDB.
//!
//! In: a type as the owner wrote it. Out: the type in which the engine computes, or a refusal that
//! lists the types that exist.
//!
//! ```text
//! INT8, INT64, BIGINT                    BIGINT
//! CHARACTER VARYING(9), BPCHAR, UUID     VARCHAR
//! HUGEINT                                refused: DECIMAL(38, 0) holds such numbers
//! ```

use arrow::datatypes::{DataType, TimeUnit};
use sqlparser::ast as sql;

use crate::error::Error;

const TYPES: &str = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, each of these also UNSIGNED, REAL, DOUBLE, DECIMAL(p, s), VARCHAR, DATE, TIME and TIMESTAMP";

/// The most digits of a decimal.
const MOST_DIGITS: u8 = 38;

/// The type of a declared column.
///
/// # Errors
/// [`Error::Catalog`] for a type that no column can have, with the types that exist.
pub(super) fn column_type(column: &str, written: &sql::DataType) -> Result<DataType, Error> {
    if let Some(data_type) = number(written).or_else(|| text_or_time(written)) {
        return Ok(data_type);
    }
    let refused = |write: &str| {
        Error::catalog(format!("the column `{column}` cannot be of type {written}: {write}"))
    };
    match written {
        sql::DataType::Decimal(digits)
        | sql::DataType::Numeric(digits)
        | sql::DataType::Dec(digits) => decimal(*digits).ok_or_else(|| {
            refused("write the digits that it has and those behind the point, at most 38, as in DECIMAL(12, 2)")
        }),
        sql::DataType::HugeInt
        | sql::DataType::UHugeInt
        | sql::DataType::Int128
        | sql::DataType::UInt128
        | sql::DataType::Int256
        | sql::DataType::UInt256 => Err(refused("DECIMAL(38, 0) holds whole numbers of 38 digits")),
        sql::DataType::JSON | sql::DataType::JSONB => {
            Err(refused("VARCHAR holds its text"))
        }
        sql::DataType::Time(..) => Err(refused("a TIME has no zone; the types are TIME and TIMESTAMP")),
        _ => Err(refused(&format!("the types are {TYPES}"))),
    }
}

fn number(written: &sql::DataType) -> Option<DataType> {
    use sql::DataType as S;
    Some(match written {
        S::Boolean | S::Bool => DataType::Boolean,
        S::TinyInt(_) => DataType::Int8,
        S::SmallInt(_) | S::Int2(_) | S::Int16 => DataType::Int16,
        S::Int(_) | S::Integer(_) | S::Int4(_) | S::Int32 | S::MediumInt(_) => DataType::Int32,
        // INT8 has eight bytes, as in PostgreSQL.
        S::BigInt(_) | S::Int8(_) | S::Int64 => DataType::Int64,
        S::TinyIntUnsigned(_) | S::UTinyInt => DataType::UInt8,
        S::SmallIntUnsigned(_) | S::Int2Unsigned(_) | S::USmallInt | S::UInt16 => DataType::UInt16,
        S::IntUnsigned(_)
        | S::IntegerUnsigned(_)
        | S::Int4Unsigned(_)
        | S::MediumIntUnsigned(_)
        | S::UInt32 => DataType::UInt32,
        S::BigIntUnsigned(_) | S::Int8Unsigned(_) | S::UBigInt | S::UInt64 => DataType::UInt64,
        S::Float(sql::ExactNumberInfo::Precision(25..=53)) => DataType::Float64,
        S::Real | S::Float4 | S::Float32 | S::Float(_) => DataType::Float32,
        S::Double(_) | S::DoublePrecision | S::Float8 | S::Float64 => DataType::Float64,
        S::Custom(..) if is_named(written, &["UINTEGER"]) => DataType::UInt32,
        _ => return None,
    })
}

fn text_or_time(written: &sql::DataType) -> Option<DataType> {
    use sql::DataType as S;
    Some(match written {
        S::Varchar(_)
        | S::Text
        | S::String(_)
        | S::Char(_)
        | S::Character(_)
        | S::CharacterVarying(_)
        | S::CharVarying(_)
        | S::Nvarchar(_)
        | S::TinyText
        | S::MediumText
        | S::LongText
        | S::Uuid => DataType::Utf8,
        S::Date | S::Date32 => DataType::Date32,
        S::Time(_, sql::TimezoneInfo::None | sql::TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        S::Timestamp(..) | S::TimestampNtz(_) | S::Datetime(_) | S::Datetime64(..) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        S::Custom(..) if is_named(written, &["BPCHAR", "NAME", "CITEXT"]) => DataType::Utf8,
        S::Custom(..)
            if is_named(
                written,
                &["TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_US", "TIMESTAMP_NS"],
            ) =>
        {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        _ => return None,
    })
}

/// Whether a type that the parser does not know has one of these names.
fn is_named(written: &sql::DataType, names: &[&str]) -> bool {
    let sql::DataType::Custom(name, _) = written else { return false };
    let name = name.to_string();
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn decimal(digits: sql::ExactNumberInfo) -> Option<DataType> {
    let (precision, scale) = match digits {
        sql::ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
        sql::ExactNumberInfo::Precision(precision) => (precision, 0),
        sql::ExactNumberInfo::None => return None,
    };
    let precision = u8::try_from(precision).ok().filter(|p| (1..=MOST_DIGITS).contains(p))?;
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= precision)?;
    Some(DataType::Decimal128(precision, i8::try_from(scale).ok()?))
}

#[cfg(test)]
mod tests {
    use sqlparser::parser::Parser;

    use super::*;
    use sqlparser::dialect::GenericDialect;

    fn read(written: &str) -> Result<DataType, String> {
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).try_with_sql(written).unwrap();
        let parsed = parser.parse_data_type().unwrap();
        column_type("c", &parsed).map_err(|error| error.to_string())
    }

    #[test]
    fn types_have_the_names_of_other_engines() {
        let micros = TimeUnit::Microsecond;
        for (names, data_type) in [
            ("INT2,INT16,SMALLINT", DataType::Int16),
            ("INT4,INTEGER,INT32", DataType::Int32),
            ("INT8,INT64,BIGINT", DataType::Int64),
            ("UTINYINT,TINYINT UNSIGNED", DataType::UInt8),
            ("UINTEGER,INT UNSIGNED", DataType::UInt32),
            ("UBIGINT,BIGINT UNSIGNED", DataType::UInt64),
            ("FLOAT,FLOAT4,FLOAT(24),REAL", DataType::Float32),
            ("FLOAT8,FLOAT64,FLOAT(53),DOUBLE PRECISION", DataType::Float64),
            ("NUMERIC(10),DEC(10),DECIMAL(10)", DataType::Decimal128(10, 0)),
            (
                "CHARACTER VARYING,CHARACTER(3),BPCHAR,bpchar(3),NVARCHAR,UUID,CITEXT",
                DataType::Utf8,
            ),
            ("TIME,TIME WITHOUT TIME ZONE,TIME(3)", DataType::Time64(micros)),
            ("DATETIME,TIMESTAMP_NS,TIMESTAMP(3)", DataType::Timestamp(micros, None)),
        ] {
            for name in names.split(',') {
                assert_eq!(read(name).as_ref(), Ok(&data_type), "{name}");
            }
        }
        assert_eq!(read("NUMERIC(10, 2)"), Ok(DataType::Decimal128(10, 2)));
    }

    #[test]
    fn refusals_say_what_to_write() {
        for (written, write) in [
            ("HUGEINT", "`c` cannot be of type HUGEINT: DECIMAL(38, 0)"),
            ("NUMERIC", "as in DECIMAL(12, 2)"),
            ("DECIMAL(40, 2)", "as in DECIMAL(12, 2)"),
            ("DECIMAL(2, 3)", "as in DECIMAL(12, 2)"),
            ("TIMETZ", "a TIME has no zone"),
            ("JSON", "VARCHAR holds its text"),
            ("BLOB", "the types are BOOLEAN, TINYINT,"),
            ("SERIAL", "DATE, TIME and TIMESTAMP"),
        ] {
            let refused = read(written).unwrap_err();
            assert!(refused.contains(write), "{written}: {refused}");
        }
    }
}
