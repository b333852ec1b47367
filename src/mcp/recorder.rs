//! The audit log, as the tools use it.

use std::sync::Arc;

use hushql::{Answer, Error};

/// Records a query of a role, and its outcome.
pub(crate) type Recorder = Arc<dyn Fn(&str, &str, Result<&Answer, &Error>) + Send + Sync>;
