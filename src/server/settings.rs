//! Settings of a connection, as `SET` and `set_config` change them.

use super::client::{Desk, Failed};
use super::sqlstate::{hinted, said};
use super::{encoding, known_settings};

/// Settings whose values are checked, with the allowed values. All other settings take any value,
/// and have no effect.
const CHECKED: [(&str, &[&str]); 7] = [
    ("bytea_output", &["hex"]),
    ("client_encoding", &["utf8", "sql_ascii", "latin1", "win1252"]),
    ("datestyle", &["iso", "iso, mdy", "iso,mdy", "iso, dmy", "iso,dmy", "iso, ymd", "iso,ymd"]),
    ("hushql.accuracy", &["columns", "notices"]),
    ("hushql.bounds", &["found", "declared"]),
    ("hushql.refine", &["on", "off"]),
    ("standard_conforming_strings", &["on", "true", "1"]),
];

/// Settings that scripts of PostgreSQL set, and that this version of it does not have for all.
const ALSO: [&str; 3] = ["lc_messages", "transaction_timeout", "session_authorization"];

/// The most settings of names that PostgreSQL does not know, such as `myapp.user`.
const MOST_OWN: usize = 100;

/// Settings that say what the server is.
const FIXED: [&str; 18] = [
    "block_size",
    "data_checksums",
    "debug_assertions",
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_function_args",
    "max_identifier_length",
    "max_index_keys",
    "role",
    "segment_size",
    "server_encoding",
    "server_version",
    "server_version_num",
    "ssl_library",
    "wal_block_size",
];

/// Gives a setting a value; `None` is its default.
///
/// # Errors
/// A setting that is not known, or cannot have the value.
pub(super) fn set(desk: &mut Desk, name: &str, value: Option<String>) -> Result<(), Failed> {
    let may_be_own = name.contains('.') && !name.starts_with("hushql.");
    let known = known_settings::default_of(name).is_some() || ALSO.contains(&name) || may_be_own;
    if FIXED.contains(&name) || !known {
        let message = format!("the setting {name} cannot be set here");
        let hint = "SET hushql.accuracy = columns; SET client_min_messages = warning";
        return Err(hinted("42704", message, hint).into());
    }
    match value {
        None => {
            desk.settings.remove(name);
            if name == "client_encoding" {
                desk.reply.parameter(name, "UTF8");
            }
        }
        Some(value) => {
            let encoding = encoding::named(&value).filter(|_| name == "client_encoding");
            let value = encoding.map_or(value, str::to_owned);
            let checked = CHECKED.iter().find(|(checked, _)| *checked == name);
            if let Some((_, may)) = checked
                && !may.contains(&value.to_lowercase().as_str())
            {
                let message = format!("{name} cannot be {value}");
                let hint = format!("SET {name} = '{}'", may.first().unwrap_or(&""));
                return Err(hinted("22023", message, hint).into());
            }
            if name == "statement_timeout" && known_settings::milliseconds(&value).is_none() {
                let message = format!("statement_timeout cannot be {value}");
                return Err(hinted("22023", message, "SET statement_timeout = '30s'").into());
            }
            if may_be_own && desk.settings.len() > MOST_OWN {
                return Err(said("54000", "a connection has at most 100 settings").into());
            }
            if value.len() > 256 {
                return Err(said("22023", "the value of a setting has at most 256 bytes").into());
            }
            let value = match (name, value.to_lowercase().as_str()) {
                ("client_encoding", _) => value,
                (_, folded) if checked.is_some() => folded.to_owned(),
                _ => value,
            };
            // Drivers follow these settings by the server's messages.
            if ["application_name", "client_encoding"].contains(&name) {
                desk.reply.parameter(name, &value);
            }
            match name {
                "datestyle" => {}
                name => drop(desk.settings.insert(name.to_owned(), value)),
            }
        }
    }
    desk.settle();
    Ok(())
}
