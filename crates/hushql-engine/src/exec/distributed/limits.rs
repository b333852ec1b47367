//! The memory and the disk of a process that runs plans of others, by the limits that engines have.
//!
//! In: bytes of memory, and a folder. Out: an environment whose plans reserve from the same memory,
//! and write what does not fit into files without names in that folder, or nothing without a
//! folder.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;

use crate::exec::session_state_within;

/// The environment of a process whose plans together have so many bytes of memory, or any number,
/// and may write files in this folder, or none.
///
/// # Errors
/// DataFusion's, if the folder cannot be used.
pub fn limited(memory: Option<usize>, spill: Option<&Path>) -> Result<Arc<RuntimeEnv>> {
    Ok(Arc::clone(session_state_within(memory, spill)?.runtime_env()))
}
