//! Limits the memory and the disk of a process that runs other processes' plans, as engines do.
//!
//! In: bytes of memory, and a folder. Out: an environment whose plans share this memory, and write
//! rows that do not fit into it to unnamed files in that folder. Without a folder they write no
//! files.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;

use crate::exec::session_state_within;

/// The environment of a process whose plans share `memory` bytes, or unlimited memory, and may
/// write files in this folder, or no files.
///
/// # Errors
/// DataFusion's, if the folder cannot be used.
pub fn limited(memory: Option<usize>, spill: Option<&Path>) -> Result<Arc<RuntimeEnv>> {
    Ok(Arc::clone(session_state_within(memory, spill)?.runtime_env()))
}
