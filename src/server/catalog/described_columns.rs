//! The columns of tables and views, as `information_schema` describes them.
//!
//! In: a table that the client may see. Out: the rows of `columns`, and those of `element_types`,
//! which has the arrays among the columns.
//!
//! ```text
//! fee DECIMAL(9, 2)   →   numeric, 9 digits, 2 of them after the point
//! tags VARCHAR[]      →   ARRAY, _text; its elements are text
//! ```

use arrow::datatypes::DataType;
use hushql::TableSchema;

use super::super::encode::{kind, kinds};
use super::super::types;
use super::datum::Datum;
use super::relations::{RelationRow, World, int, size};

/// The rows of `columns` about one table.
pub(super) fn described<'a>(
    world: &World,
    table: &'a TableSchema,
) -> impl Iterator<Item = RelationRow> + use<'a> {
    let database = world.database;
    table.schema.fields().iter().enumerate().map(move |(i, field)| {
        let number = kind(field.data_type()).0;
        let (name, is_array) = match types::numbered(number.into()) {
            Some((t, is_array)) => (t.name, is_array),
            None => ("text", false),
        };
        let longest = if number == kinds::TEXT { int(1 << 30) } else { Datum::Null };
        let [precision, radix, scale] = digits(number, field.data_type());
        vec![
            ("table_catalog", database.into()),
            ("table_schema", "public".into()),
            ("table_name", table.name.as_str().into()),
            ("column_name", field.name().as_str().into()),
            ("ordinal_position", size(i + 1)),
            ("is_nullable", "YES".into()),
            ("data_type", data_type(number)),
            ("character_octet_length", longest),
            ("numeric_precision", precision),
            ("numeric_precision_radix", radix),
            ("numeric_scale", scale),
            ("datetime_precision", fraction(number)),
            ("udt_catalog", database.into()),
            ("udt_schema", "pg_catalog".into()),
            ("udt_name", Datum::Text(format!("{}{name}", if is_array { "_" } else { "" }).into())),
            ("dtd_identifier", Datum::Text((i + 1).to_string().into())),
            ("is_self_referencing", "NO".into()),
            ("is_identity", "NO".into()),
            ("identity_cycle", "NO".into()),
            ("is_generated", "NEVER".into()),
            ("is_updatable", "NO".into()),
        ]
    })
}

/// The rows of `element_types` about one table: its arrays.
pub(super) fn elements<'a>(
    world: &World,
    table: &'a TableSchema,
) -> impl Iterator<Item = RelationRow> + use<'a> {
    let database = world.database;
    table.schema.fields().iter().enumerate().filter_map(move |(i, field)| {
        let (of, is_array) = types::numbered(kind(field.data_type()).0.into())?;
        is_array.then(|| {
            vec![
                ("object_catalog", database.into()),
                ("object_schema", "public".into()),
                ("object_name", table.name.as_str().into()),
                ("object_type", "TABLE".into()),
                ("collection_type_identifier", Datum::Text((i + 1).to_string().into())),
                ("data_type", data_type(of.oid)),
                ("udt_catalog", database.into()),
                ("udt_schema", "pg_catalog".into()),
                ("udt_name", of.name.into()),
                ("dtd_identifier", Datum::Text(format!("a{}", i + 1).into())),
            ]
        })
    })
}

/// The name of a type in `information_schema`, where all arrays are one type.
fn data_type(number: u32) -> Datum {
    match types::numbered(number.into()) {
        Some((_, true)) => "ARRAY".into(),
        Some((_, false)) | None => Datum::Text(types::formatted(number.into()).into()),
    }
}

/// How many digits a number has, their base, and how many of them are after the point.
fn digits(number: u32, stored: &DataType) -> [Datum; 3] {
    match number {
        kinds::INT2 => [int(16), int(2), int(0)],
        kinds::INT4 => [int(32), int(2), int(0)],
        kinds::INT8 => [int(64), int(2), int(0)],
        kinds::FLOAT4 => [int(24), int(2), Datum::Null],
        kinds::FLOAT8 => [int(53), int(2), Datum::Null],
        kinds::NUMERIC => match stored {
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => [int(*precision), int(10), int(*scale)],
            _ => [Datum::Null, int(10), Datum::Null],
        },
        _ => [Datum::Null, Datum::Null, Datum::Null],
    }
}

/// The digits of the fraction of a second.
fn fraction(number: u32) -> Datum {
    match number {
        kinds::DATE => int(0),
        kinds::TIME | kinds::TIMESTAMP | kinds::TIMESTAMPTZ => int(6),
        _ => Datum::Null,
    }
}
