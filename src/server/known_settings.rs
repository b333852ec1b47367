//! The settings that PostgreSQL 15 has for a connection, with their defaults.
//!
//! `settings.txt` lists them. Few have an effect here ([`super::settings`]); clients set the others
//! when they connect, and read them.

use std::sync::LazyLock;

/// The version of PostgreSQL whose protocol and settings the server follows, as clients read it.
pub(super) const VERSION: &str = concat!("15.0 (HushQL ", env!("CARGO_PKG_VERSION"), ")");

/// The settings that a client may read. SHOW with another name goes to the engine.
pub(super) const SETTINGS: [(&str, &str); 32] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("password_encryption", "scram-sha-256"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("hushql.accuracy", "notices"),
    ("hushql.bounds", "found"),
    ("hushql.refine", "on"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("lock_timeout", "0"),
    ("max_index_keys", "32"),
    ("max_identifier_length", "63"),
    ("role", "none"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", VERSION),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
];

static POSTGRESQL: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| {
    let lines = include_str!("settings.txt").lines();
    lines
        .filter_map(|line| line.split_once('|'))
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect()
});

/// The default of a setting; `None` if there is no such setting.
pub(super) fn default_of(name: &str) -> Option<&'static str> {
    let own = SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    own.or_else(|| POSTGRESQL.iter().find(|(known, _)| known == name).map(|(_, value)| *value))
}

/// The names of all settings.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let is_own = |name: &str| SETTINGS.iter().any(|(known, _)| *known == name);
    let others = POSTGRESQL.iter().map(|(name, _)| name.as_str());
    let others = others.filter(move |name| !is_own(name));
    SETTINGS.iter().map(|(name, _)| *name).chain(others)
}

/// The time that a setting states: a number, of milliseconds or with a unit.
pub(super) fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(digits)?;
    let each = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(each).filter(|time| *time <= 2_147_483_647)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_postgresql_have_their_defaults() {
        for (name, value) in [
            ("work_mem", Some("4096")),
            ("datestyle", Some("ISO, MDY")),
            ("search_path", Some("public")),
            ("lock_timeout", Some("0")),
            ("no_such_setting", None),
        ] {
            assert_eq!(default_of(name), value, "{name}");
        }
        assert!(names().count() > 200);
    }

    #[test]
    fn times_have_units() {
        for (text, time) in [
            ("0", Some(0)),
            ("1500", Some(1_500)),
            ("30s", Some(30_000)),
            ("2 min", Some(120_000)),
            ("1.5s", None),
            ("-1", None),
            ("soon", None),
            ("99999999999", None),
        ] {
            assert_eq!(milliseconds(text), time, "{text}");
        }
    }
}
