//! Plans that a process received: their bytes, their key, and the files that they name.
//!
//! In: the bytes of a plan. Out: the plan, with its files open. Each session has its own files,
//! which are closed with it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::DistributedExt;
use hushql_engine::exec::distributed::{BoundingKey, ReceivedFiles, limited};

use crate::beside::Beside;
use crate::codec::PlanCodec;

/// The environment of one session, and its files, none of which is open yet. It uses the memory and
/// the disk of the process.
pub(crate) fn environment(process: &RuntimeEnv) -> Result<(Arc<RuntimeEnv>, Arc<ReceivedFiles>)> {
    let mut runtime = RuntimeEnvBuilder::new().build()?;
    runtime.memory_pool = Arc::clone(&process.memory_pool);
    runtime.disk_manager = Arc::clone(&process.disk_manager);
    let runtime = Arc::new(runtime);
    let files = ReceivedFiles::within(&runtime)?;
    Ok((runtime, Arc::new(files)))
}

/// Prepares a session for received plans.
pub(crate) fn receiving(
    mut state: SessionState,
    files: Arc<ReceivedFiles>,
) -> Result<SessionState> {
    let config = state.config_mut();
    // As in the session of an engine, which explains each switch.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    config.options_mut().execution.parquet.pushdown_filters = false;
    config.options_mut().execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;
    config.options_mut().execution.sort_spill_reservation_bytes = 0;
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    let codec = PlanCodec::new(config);
    config.set_extension(files);
    config.set_distributed_user_codec(codec);
    Ok(state)
}

/// A session that received a key, and decodes plans.
#[derive(Debug)]
pub struct Received {
    context: Arc<TaskContext>,
}

impl Received {
    /// A session with this key, if there is one.
    ///
    /// # Errors
    /// DataFusion's error, if its environment cannot be made.
    pub fn new(key: Option<BoundingKey>) -> Result<Self> {
        let (runtime, files) = environment(&*limited(None, None)?)?;
        let beside = Beside::new(key.and_then(|key| key.words()));
        let state = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime);
        let mut state = receiving(state.build(), files)?;
        state.config_mut().options_mut().extensions.insert(beside);
        Ok(Self { context: state.task_ctx() })
    }

    /// The plan in these bytes.
    ///
    /// # Errors
    /// As [`PlanCodec::plan`].
    pub fn plan(&self, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>> {
        PlanCodec::new(self.context.session_config()).plan(bytes, &self.context)
    }

    /// The context for running its plans.
    pub fn context(&self) -> Arc<TaskContext> {
        Arc::clone(&self.context)
    }
}
