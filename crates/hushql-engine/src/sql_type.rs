//! Types and literals as SQL writes them.

use std::str::FromStr;

use arrow::datatypes::DataType;

use crate::functions::DecimalLiteral;

/// The name of a type in messages: `VARCHAR`, `BIGINT[]`, `DECIMAL(10, 2)`.
pub(crate) fn sql_type(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float16 | DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Null => "NULL",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BINARY",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("DECIMAL({precision}, {scale})");
        }
        DataType::Dictionary(_, values) => return sql_type(values),
        DataType::RunEndEncoded(_, values) => return sql_type(values.data_type()),
        DataType::List(values)
        | DataType::LargeList(values)
        | DataType::ListView(values)
        | DataType::LargeListView(values)
        | DataType::FixedSizeList(values, _) => {
            return format!("{}[]", sql_type(values.data_type()));
        }
        DataType::Struct(_) => "STRUCT",
        DataType::Map(..) => "MAP",
        DataType::Union(..) => "UNION",
    };
    name.to_owned()
}

/// The name of a type that the catalog stores by Arrow's name. If Arrow does not know the stored
/// name, that name itself.
pub(crate) fn sql_type_of(stored: &str) -> String {
    DataType::from_str(stored).map_or_else(|_| stored.to_owned(), |data_type| sql_type(&data_type))
}

/// An expression of the planner with its literals as SQL writes them: 1 for `Int64(1)`.
pub(crate) fn in_literals(expr: &str) -> String {
    let mut said = expr.to_owned();
    for (of, quote) in
        [("Utf8View(\"", "'"), ("Utf8(\"", "'"), ("Int64(", ""), ("Float64(", ""), ("Boolean(", "")]
    {
        while let Some(start) = said.find(of) {
            let inner = &said[start + of.len()..];
            let close = if quote.is_empty() { ")" } else { "\")" };
            let Some((value, rest)) = inner.split_once(close) else { break };
            // The value consists of the digits of a number with a point.
            let is_number = value.contains('.') && DecimalLiteral::parse(value).is_some();
            let quote = if is_number { "" } else { quote };
            said = format!("{}{quote}{value}{quote}{rest}", &said[..start]);
        }
    }
    said.replace("count(1)", "COUNT(*)")
}
