//! The types that the catalog lists, with their arrays.

use super::super::encode::kinds;

/// A type of PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) oid: u32,
    /// The name in `pg_type`, and the name in SQL.
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    /// The number of its array; 0 for none.
    pub(super) array: u32,
    /// The bytes of a value; -1 if they vary.
    pub(super) size: i64,
    pub(super) category: &'static str,
    /// The prefix of the names of its functions.
    pub(super) functions: &'static str,
}

const fn of(
    (oid, array): (u32, u32),
    (name, sql): (&'static str, &'static str),
    size: i64,
    category: &'static str,
    functions: &'static str,
) -> Type {
    Type { oid, name, sql, array, size, category, functions }
}

/// The types of answers and parameters, and those that drivers look up when they connect.
pub(super) const TYPES: [Type; 26] = [
    of((kinds::BOOL, 1000), ("bool", "boolean"), 1, "B", "bool"),
    of((kinds::BYTEA, 1001), ("bytea", "bytea"), -1, "U", "bytea"),
    of((18, 1002), ("char", "\"char\""), 1, "Z", "char"),
    of((kinds::NAME, 1003), ("name", "name"), 64, "S", "name"),
    of((kinds::INT8, 1016), ("int8", "bigint"), 8, "N", "int8"),
    of((kinds::INT2, 1005), ("int2", "smallint"), 2, "N", "int2"),
    of((22, 1006), ("int2vector", "int2vector"), -1, "A", "int2vector"),
    of((kinds::INT4, 1007), ("int4", "integer"), 4, "N", "int4"),
    of((24, 1008), ("regproc", "regproc"), 4, "N", "regproc"),
    of((kinds::TEXT, 1009), ("text", "text"), -1, "S", "text"),
    of((26, 1028), ("oid", "oid"), 4, "N", "oid"),
    of((30, 1013), ("oidvector", "oidvector"), -1, "A", "oidvector"),
    of((114, 199), ("json", "json"), -1, "U", "json_"),
    of((kinds::FLOAT4, 1021), ("float4", "real"), 4, "N", "float4"),
    of((kinds::FLOAT8, 1022), ("float8", "double precision"), 8, "N", "float8"),
    of((kinds::BPCHAR, 1014), ("bpchar", "character"), -1, "S", "bpchar"),
    of((kinds::VARCHAR, 1015), ("varchar", "character varying"), -1, "S", "varchar"),
    of((kinds::DATE, 1182), ("date", "date"), 4, "D", "date_"),
    of((kinds::TIME, 1183), ("time", "time without time zone"), 8, "D", "time_"),
    of(
        (kinds::TIMESTAMP, 1115),
        ("timestamp", "timestamp without time zone"),
        8,
        "D",
        "timestamp_",
    ),
    of(
        (kinds::TIMESTAMPTZ, 1185),
        ("timestamptz", "timestamp with time zone"),
        8,
        "D",
        "timestamptz_",
    ),
    of((1186, 1187), ("interval", "interval"), 16, "T", "interval_"),
    of((kinds::NUMERIC, 1231), ("numeric", "numeric"), -1, "N", "numeric_"),
    of((2205, 2210), ("regclass", "regclass"), 4, "N", "regclass"),
    of((2950, 2951), ("uuid", "uuid"), 16, "U", "uuid_"),
    of((2278, 0), ("void", "void"), 4, "P", "void_"),
];

/// The type with this number, or whose array has this number, and whether it is the array.
pub(super) fn numbered(oid: i64) -> Option<(Type, bool)> {
    let find = |which: fn(&Type) -> u32| TYPES.iter().find(|t| i64::from(which(t)) == oid);
    find(|t| t.oid)
        .map(|t| (*t, false))
        .or_else(|| find(|t| t.array).filter(|t| t.array > 0).map(|t| (*t, true)))
}

/// The number of the type with this name, in `pg_type` or in SQL.
pub(super) fn named(name: &str) -> Option<i64> {
    let (name, is_array) = match name.trim().strip_suffix("[]") {
        Some(name) => (name, true),
        None => match name.trim().strip_prefix('_') {
            Some(name) => (name, true),
            None => (name.trim(), false),
        },
    };
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let found =
        TYPES.iter().find(|t| t.name == name || t.sql == name || (t.oid == 23 && name == "int"));
    found.map(|t| i64::from(if is_array { t.array } else { t.oid }))
}

/// `format_type(oid, …)`.
pub(super) fn formatted(oid: i64) -> String {
    match numbered(oid) {
        Some((t, false)) => t.sql.to_owned(),
        Some((t, true)) => format!("{}[]", t.sql),
        None if oid == 0 => "-".to_owned(),
        None => "???".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        for t in TYPES {
            assert_eq!(named(t.name), Some(t.oid.into()), "{}", t.name);
            assert_eq!(named(t.sql), Some(t.oid.into()), "{}", t.sql);
            assert_eq!(
                numbered(t.oid.into()).map(|(t, is_array)| (t.oid, is_array)),
                Some((t.oid, false))
            );
            if t.array > 0 {
                assert_eq!(named(&formatted(t.array.into())), Some(t.array.into()));
            }
        }
        assert_eq!(named("mood"), None);
        assert_eq!(formatted(0), "-");
    }
}
