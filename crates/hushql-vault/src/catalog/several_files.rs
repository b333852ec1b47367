//! Which files a table has, where its location is a folder.
//!
//! In: a declaration. Out: [`Files`], as the catalog stores them: how the files are found, and
//! never their names.

use serde::{Deserialize, Serialize};

/// The files of a table that has several. Each read finds the files; they are never stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The pattern of their paths below the location; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The last columns of the table, whose values are in the names of folders, as in `year=2025`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitioned_by: Vec<String>,
    /// The version of a table of Delta Lake, whose log says which files hold its rows and which
    /// values the last columns have; `None` for files that are found by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<LakeVersion>,
}

/// The version of a table of Delta Lake that was the newest one at its declaration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LakeVersion {
    /// Its number in the log.
    pub number: u64,
    /// The columns that are read from the files, in the order of the table.
    pub columns: Vec<String>,
}
