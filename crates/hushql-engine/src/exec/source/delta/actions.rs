//! The lines of a log of Delta Lake.
//!
//! In: a line of a commit, or a row of a checkpoint as such a line. Out: the [`Actions`] in it. An
//! action, or a field that decides which rows a table has, is read or refused; what only writers
//! and programs look at is left out, and so are counts, minima and maxima of files, which nothing
//! here relies on.
//!
//! ```text
//! {"add":{"path":"a.parquet","partitionValues":{"year":"2025"},"size":812,"stats":"…"}}
//! {"remove":{"path":"b.parquet","deletionTimestamp":1700000000000}}
//! ```

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::log_error::unreadable;

/// The actions of one line. A line of a commit has one; a row of a checkpoint has one that is not
/// null.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Actions {
    pub(super) add: Option<AddedFile>,
    pub(super) remove: Option<RemovedFile>,
    pub(super) meta_data: Option<TableMetadata>,
    pub(super) protocol: Option<Protocol>,
    pub(super) sidecar: Option<Sidecar>,
    /// What decides no row.
    #[serde(rename = "txn")]
    _transaction: Option<IgnoredAny>,
    #[serde(rename = "commitInfo")]
    _commit_info: Option<IgnoredAny>,
    #[serde(rename = "cdc")]
    _changed_rows: Option<IgnoredAny>,
    #[serde(rename = "domainMetadata")]
    _domain_metadata: Option<IgnoredAny>,
    #[serde(rename = "checkpointMetadata")]
    _checkpoint_metadata: Option<IgnoredAny>,
}

/// A file whose rows belong to the table from this version on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddedFile {
    pub(super) path: String,
    pub(super) partition_values: BTreeMap<String, Option<String>>,
    pub(super) size: u64,
    pub(super) deletion_vector: Option<DeletionVector>,
}

/// A file whose rows belong to the table no more.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovedFile {
    pub(super) path: String,
    pub(super) deletion_vector: Option<DeletionVector>,
}

/// Where the numbers of a file's deleted rows are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletionVector {
    /// `u`: in a file that a UUID names; `i`: in the text; `p`: at an absolute path.
    pub(super) storage_type: String,
    pub(super) path_or_inline_dv: String,
    pub(super) offset: Option<u64>,
    pub(super) size_in_bytes: u64,
    /// The number of deleted rows.
    pub(super) cardinality: u64,
}

impl DeletionVector {
    /// Tells the vectors of one file apart, as the log's own rules do.
    pub(super) fn identity(&self) -> String {
        let offset = self.offset.map_or_else(String::new, |offset| format!("@{offset}"));
        format!("{}{}{offset}", self.storage_type, self.path_or_inline_dv)
    }
}

/// The description of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TableMetadata {
    pub(super) format: DataFormat,
    pub(super) schema_string: String,
    pub(super) partition_columns: Vec<String>,
    #[serde(default)]
    pub(super) configuration: BTreeMap<String, Option<String>>,
}

/// The format of the table's files.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DataFormat {
    pub(super) provider: String,
}

/// What a reader has to know.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: u64,
    pub(super) reader_features: Option<Vec<String>>,
}

/// A file with the actions of a checkpoint.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Sidecar {
    pub(super) path: String,
}

/// Reads the lines of a text; `shown` names it for the owner.
///
/// # Errors
/// A sentence for the owner, with the first line that is not an action.
pub(super) fn read_actions(text: &[u8], shown: &str) -> io::Result<Vec<Actions>> {
    let mut actions = Vec::new();
    for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let found = serde_json::from_slice(line);
        actions.push(found.map_err(|error| {
            unreadable(format!("line {} of {shown} in its log is not an action: {error}", i + 1))
        })?);
    }
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_or_refused() {
        let text = br#"{"commitInfo":{"engineInfo":"x","anything":[1]}}
{"add":{"path":"a%20b","partitionValues":{"y":null,"z":"1"},"size":3,"stats":"{\"numRecords\":9}","tags":{}}}

{"remove":{"path":"c","deletionVector":{"storageType":"u","pathOrInlineDv":"ab","offset":1,"sizeInBytes":4,"cardinality":2}},"add":null}
{"txn":{"appId":"1","version":2}}"#;
        let actions = read_actions(text, "0.json").unwrap();
        assert_eq!(actions.len(), 4);
        let add = actions[1].add.as_ref().unwrap();
        assert_eq!((add.path.as_str(), add.size), ("a%20b", 3));
        assert_eq!(add.partition_values.get("y"), Some(&None));
        let remove = actions[2].remove.as_ref().unwrap();
        assert_eq!(remove.deletion_vector.as_ref().unwrap().identity(), "uab@1");
        for line in [
            r#"{"manifest":{}}"#,
            r#"{"add":{"path":"a","size":1}}"#,
            r#"{"add":{"path":"a","partitionValues":{},"size":-1}}"#,
            r#"{"add":{"path":"a","partitionValues":{},"size":1},"add":null}"#,
            "{",
            "[]",
        ] {
            let refused = read_actions(line.as_bytes(), "0.json").unwrap_err().to_string();
            assert!(refused.contains("line 1 of 0.json"), "{refused}");
        }
    }
}
