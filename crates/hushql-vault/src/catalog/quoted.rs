//! Names as statements write them.
//!
//! In: the name of a table, column, budget or analyst. Out: the same name, in double quotes if it
//! would otherwise be read as another one.
//!
//! ```text
//! Visits of Rome   →   "Visits of Rome"
//! ```

/// A name as it is written in a statement.
pub fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        && name.starts_with(|c: char| !c.is_ascii_digit());
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name of an analyst as it is written in a statement. Its case is kept, so capitals need no
/// quotes.
pub fn quoted_analyst(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
