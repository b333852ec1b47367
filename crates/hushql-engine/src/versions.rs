//! The versions of what the engine is made of, for questions to the project.
//!
//! In: nothing. Out: a name and a version for each part. Nothing depends on a vault or on data.
//!
//! ```text
//! DataFusion 55.2.0 · Arrow 59.0.0 · SQLite 3.51.1 · vault format 7
//! ```

use crate::ledger::{sqlite_version, vault_format};

/// The parts of the engine, each with its version.
///
/// ```
/// # use hushql_engine as hushql;
/// let parts = hushql::versions();
/// assert!(parts.iter().any(|(part, version)| *part == "SQLite" && version.starts_with('3')));
/// ```
pub fn versions() -> Vec<(&'static str, String)> {
    let (format, since) = vault_format();
    let mut features = Vec::new();
    if cfg!(feature = "objects") {
        features.push("objects");
    }
    if cfg!(feature = "postgres") {
        features.push("postgres");
    }
    vec![
        ("DataFusion", datafusion::DATAFUSION_VERSION.to_owned()),
        ("Arrow", arrow::ARROW_VERSION.to_owned()),
        ("SQLite", sqlite_version().to_owned()),
        ("vault format", format!("{format}, made since {since}")),
        ("files", "CSV, JSON, Parquet, Arrow".to_owned()),
        ("features", if features.is_empty() { "none".to_owned() } else { features.join(", ") }),
    ]
}
