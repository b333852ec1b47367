//! The types of PostgreSQL, with their arrays.
//!
//! `types.txt` lists them. Each line is: number, number of the array, name, name in SQL, bytes,
//! category, kind, type of the elements, input function, whether it is passed by value, alignment,
//! storage, whether it is preferred, collation, delimiter.
//!
//! ```text
//! named("int[]")   →   1007          formatted(1007)   →   integer[]
//! ```

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// The numbers of PostgreSQL's types.
pub(super) mod kinds {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const OID: u32 = 26;
    pub(crate) const REGCLASS: u32 = 2205;
    pub(crate) const UNKNOWN: u32 = 705;
    /// Arrays that drivers send in queries on types and tables.
    pub(crate) const INT4S: u32 = 1007;
    pub(crate) const INT8S: u32 = 1016;
    pub(crate) const NAMES: u32 = 1003;
    pub(crate) const OIDS: u32 = 1028;
    pub(crate) const BOOLS: u32 = 1000;
    pub(crate) const INT2S: u32 = 1005;
    pub(crate) const FLOAT4S: u32 = 1021;
    pub(crate) const FLOAT8S: u32 = 1022;
    pub(crate) const TIMESTAMPS: u32 = 1115;
    pub(crate) const DATES: u32 = 1182;
    pub(crate) const TIMESTAMPTZS: u32 = 1185;
    pub(crate) const NUMERICS: u32 = 1231;
    pub(crate) const TEXTS: u32 = 1009;
    pub(crate) const VARCHARS: u32 = 1015;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const NAME: u32 = 19;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIME: u32 = 1083;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const INTERVAL: u32 = 1186;
    pub(crate) const NUMERIC: u32 = 1700;
}

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
    pub(super) size: i16,
    pub(super) category: &'static str,
    /// `b` for a base type, `p` for a pseudo-type, `r` and `m` for ranges.
    pub(super) kind: &'static str,
    /// The type of the elements of a vector; 0 for every other type.
    pub(super) element: u32,
    /// The name of its input function, such as `int8in`.
    pub(super) input: &'static str,
    pub(super) by_value: bool,
    pub(super) align: &'static str,
    pub(super) storage: &'static str,
    pub(super) preferred: bool,
    pub(super) collation: u32,
    pub(super) delimiter: &'static str,
}

static TYPES: LazyLock<Vec<Type>> =
    LazyLock::new(|| include_str!("types.txt").lines().filter_map(read).collect());

fn read(line: &'static str) -> Option<Type> {
    let mut parts = line.split('|');
    let mut next = || parts.next();
    Some(Type {
        oid: next()?.parse().ok()?,
        array: next()?.parse().ok()?,
        name: next()?,
        sql: next()?,
        size: next()?.parse().ok()?,
        category: next()?,
        kind: next()?,
        element: next()?.parse().ok()?,
        input: next()?,
        by_value: next()? == "t",
        align: next()?,
        storage: next()?,
        preferred: next()? == "t",
        collation: next()?.parse().ok()?,
        delimiter: next()?,
    })
}

/// All types, without their arrays.
pub(super) fn all() -> &'static [Type] {
    &TYPES
}

/// The type with this number, or whose array has this number, and whether it is the array.
pub(super) fn numbered(oid: i64) -> Option<(Type, bool)> {
    let find = |which: fn(&Type) -> u32| TYPES.iter().find(|t| i64::from(which(t)) == oid);
    find(|t| t.oid)
        .map(|t| (*t, false))
        .or_else(|| find(|t| t.array).filter(|t| t.array > 0).map(|t| (*t, true)))
}

/// The number of the type with this name in `pg_type`, as `relations.txt` writes it.
pub(super) fn number_of(name: &str) -> u32 {
    let (bare, is_array) = match name.strip_prefix('_') {
        Some(bare) => (bare, true),
        None => (name, false),
    };
    let found = TYPES.iter().find(|t| t.name == bare);
    found.map_or(25, |t| if is_array { t.array } else { t.oid })
}

/// The number of the array of a type; that of `text[]` if it has none.
pub(super) fn array_of(oid: u32) -> u32 {
    let found = TYPES.iter().find(|t| t.oid == oid && t.array > 0);
    found.map_or(1009, |t| t.array)
}

/// The number of the type of an array's elements; that of `text` if it is no array.
pub(super) fn element_of(oid: u32) -> u32 {
    let vector = TYPES.iter().find(|t| t.oid == oid && t.element > 0 && t.category == "A");
    match (vector, TYPES.iter().find(|t| t.array == oid && oid > 0)) {
        (Some(vector), _) => vector.element,
        (None, Some(t)) => t.oid,
        (None, None) => 25,
    }
}

/// Other names of types in SQL.
const SHORT: [(&str, &str); 6] = [
    ("int", "int4"),
    ("decimal", "numeric"),
    ("float", "float8"),
    ("char", "bpchar"),
    ("string", "text"),
    ("dec", "numeric"),
];

/// The number of the type with this name, in `pg_type` or in SQL.
pub(super) fn named(name: &str) -> Option<i64> {
    let name = name.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let (name, is_array) = match name.strip_suffix("[]") {
        Some(name) => (name.trim_end(), true),
        None => match name.strip_prefix('_') {
            Some(name) => (name, true),
            None => (name, false),
        },
    };
    let quoted = name.len() > 2 && name.starts_with('"') && name.ends_with('"');
    let bare = name.trim_matches('"');
    let folded = if quoted { bare.to_owned() } else { bare.to_lowercase() };
    // `varchar(10)`, `timestamp(3) without time zone`.
    let folded = match (folded.find('('), folded.find(')')) {
        (Some(open), Some(close)) if open < close => {
            let rest = folded.get(close + 1..).unwrap_or_default();
            format!("{}{rest}", folded.get(..open).unwrap_or_default().trim_end())
        }
        _ => folded,
    };
    let short = SHORT.iter().find(|(short, _)| !quoted && *short == folded);
    let folded = short.map_or(folded.as_str(), |(_, long)| *long);
    let found = TYPES.iter().find(|t| t.name == folded || t.sql == folded)?;
    match is_array {
        true => (found.array > 0).then(|| i64::from(found.array)),
        false => Some(i64::from(found.oid)),
    }
}

/// The bytes of a value of a type; -1 if they vary.
pub(super) fn size_of(kind: u32) -> i16 {
    numbered(kind.into()).filter(|(_, is_array)| !is_array).map_or(-1, |(t, _)| t.size)
}

/// A number below 10⁹ that follows from a name.
pub(super) fn number_from(name: &str) -> i64 {
    let digest = Sha256::digest(name.as_bytes());
    let number = digest.iter().take(4).fold(0_i64, |all, byte| (all << 8) | i64::from(*byte));
    number % 1_000_000_000
}

/// The number of a function that a type needs.
pub(super) fn function_number(name: &str) -> i64 {
    3 + number_from(name) % 9_990
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
        assert!(all().len() > 90);
        for t in all() {
            if t.name != "char" {
                assert_eq!(named(t.name), Some(t.oid.into()), "{}", t.name);
            }
            assert_eq!(named(t.sql), Some(t.oid.into()), "{}", t.sql);
            assert_eq!(
                numbered(t.oid.into()).map(|(t, is_array)| (t.oid, is_array)),
                Some((t.oid, false))
            );
            if t.array > 0 {
                assert_eq!(named(&formatted(t.array.into())), Some(t.array.into()));
                assert_eq!(element_of(array_of(t.oid)), t.oid);
            }
        }
        for (name, oid) in [
            ("\"char\"", 18),
            ("char(3)", 1042),
            ("VARCHAR(10)", 1043),
            ("int", 23),
            ("\"int8\"", 20),
            ("pg_catalog.\"char\"", 18),
            ("timestamp(3) without time zone", 1114),
            ("_text", 1009),
        ] {
            assert_eq!(named(name), Some(oid), "{name}");
        }
        assert_eq!(named("mood"), None);
        assert_eq!(named("\"Int8\""), None);
        assert_eq!(formatted(0), "-");
    }
}
