//! The name of an aggregate behind FRESH, until its SELECT is lowered.
//!
//! ```text
//! FRESH AVG(x)   →   __hushql_fresh_AVG(x)   →   AVG(x)
//! ```

use crate::catalog::RESERVED;

const KIND: &str = "_fresh_";

/// The name of an aggregate with the mark of FRESH. Nobody can write it.
pub(super) fn fresh_name(name: &str) -> String {
    format!("{RESERVED}{KIND}{name}")
}

/// The name without the mark; `None` if it has none.
pub(super) fn without_fresh(name: &str) -> Option<&str> {
    name.strip_prefix(RESERVED)?.strip_prefix(KIND)
}

/// The name as it was written, with or without FRESH before it.
pub(super) fn written_name(name: &str) -> &str {
    without_fresh(name).unwrap_or(name)
}
