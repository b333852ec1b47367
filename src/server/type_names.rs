//! The numbers of types by their names.
//!
//! ```text
//! bigint, int8   →   20
//! ```

use super::encode::kinds;

/// The type with this name.
pub(super) fn named(name: &str) -> Option<u32> {
    Some(match name {
        "bool" | "boolean" => kinds::BOOL,
        "smallint" | "int2" => kinds::INT2,
        "int" | "integer" | "int4" => kinds::INT4,
        "bigint" | "int8" => kinds::INT8,
        "oid" => kinds::OID,
        "real" | "float4" => kinds::FLOAT4,
        "double" | "float" | "float8" => kinds::FLOAT8,
        "numeric" | "decimal" => kinds::NUMERIC,
        "text" | "varchar" | "char" | "character" => kinds::TEXT,
        "date" => kinds::DATE,
        "timestamp" => kinds::TIMESTAMP,
        "timestamptz" => kinds::TIMESTAMPTZ,
        _ => return None,
    })
}
