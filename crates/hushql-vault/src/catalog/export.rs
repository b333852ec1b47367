//! Export folders: where the answers of one analyst may be written.
//!
//! In: the declaration of an owner's session, which has checked the folder. Out: plain data, stored
//! beside tables and views under a name that no table can have.
//!
//! ```text
//! ALTER VAULT SET EXPORT FOLDER '/srv/out' FOR lab   →   .export lab: { analyst: lab, folder: /srv/out }
//! ```

use serde::{Deserialize, Serialize};

/// The folder into which the answers of an analyst may be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportFolder {
    /// The analyst.
    pub analyst: String,
    /// The folder: an absolute path without links.
    pub export_folder: String,
}

impl ExportFolder {
    /// The name under which it is stored. Names of tables and views contain no dot.
    pub(crate) fn key(analyst: &str) -> String {
        format!(".export {analyst}")
    }
}
