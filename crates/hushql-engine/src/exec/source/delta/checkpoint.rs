//! Checkpoints of a log of Delta Lake: all actions that count at one version.
//!
//! In: the bytes of a checkpoint, in Parquet or JSON. Out: its actions, as the lines of commits
//! have them. Of a Parquet file, only the columns that decide which rows a table has are read:
//! statistics of files are not among them.

use std::io;

use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use bytes::Bytes;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::actions::{Actions, read_actions};
use super::log_error::unreadable;

/// The columns of a checkpoint, one for each kind of action.
const KINDS: [&str; 10] = [
    "add",
    "remove",
    "metaData",
    "protocol",
    "sidecar",
    "txn",
    "commitInfo",
    "cdc",
    "domainMetadata",
    "checkpointMetadata",
];

/// The columns that are read, and those that begin with such a name and a point. A file that was
/// removed is not among the added ones of a checkpoint, so `remove` is left out.
const READ: [&str; 10] = [
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.deletionVector",
    "metaData.format.provider",
    "metaData.schemaString",
    "metaData.partitionColumns",
    "metaData.configuration",
    "protocol",
    "sidecar.path",
];

fn is_read(path: &str) -> bool {
    READ.iter().any(|name| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Reads the actions of a checkpoint, or of a part of one; `name` tells its format.
///
/// # Errors
/// A sentence for the owner.
pub(super) fn read_checkpoint(
    name: &str,
    bytes: Vec<u8>,
    mut add: impl FnMut(Actions) -> io::Result<()>,
) -> io::Result<()> {
    if name.ends_with(".json") {
        return read_actions(&bytes, name)?.into_iter().try_for_each(add);
    }
    let damaged = || unreadable(format!("the checkpoint {name} of its log cannot be read"));
    let rows = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes));
    let rows = rows.map_err(|_| damaged())?;
    let schema = rows.parquet_schema();
    let roots = schema.root_schema().get_fields();
    if let Some(other) = roots.iter().find(|root| !KINDS.contains(&root.name())) {
        return Err(unreadable(format!(
            "the checkpoint {name} of its log has actions that this program does not know: {}",
            other.name()
        )));
    }
    let paths = schema.columns().iter().map(|column| column.path().string());
    let read: Vec<usize> =
        paths.enumerate().filter(|(_, path)| is_read(path)).map(|(i, _)| i).collect();
    let only = ProjectionMask::leaves(schema, read);
    for batch in rows.with_projection(only).build().map_err(|_| damaged())? {
        let batch = batch.map_err(|_| damaged())?;
        let mut writer =
            WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
        let written = writer.write(&batch).and_then(|()| writer.finish());
        written.map_err(|_| damaged())?;
        read_actions(&writer.into_inner(), name)?.into_iter().try_for_each(&mut add)?;
    }
    Ok(())
}
