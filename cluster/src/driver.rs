//! The driver's side: bounded inputs run on workers.
//!
//! In: the verified plan of a bounded input, after the query is paid for. Out: its rows, which the
//! workers compute together: each worker reads pieces of the files, sends each row to the worker
//! that collects the rows of its unit, bounds the contributions of its own units, and sends sums to
//! the driver. The driver parses, charges, adds up and draws.
//!
//! ```text
//! let cluster = Cluster::open("keys")?;                           // the folder that `hushql-worker enrol` made
//! cluster.check().await?;
//! let engine = Engine::builder().on_cluster(&cluster).open("study.db")?;
//! ```

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::ipc::CompressionType;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, exec_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, WorkerResolver,
};
use futures::{StreamExt, TryStreamExt, future, stream};
use hushql::EngineBuilder;
use hushql_engine::exec::distributed::{BoundingKey, CannotRunThere, InputOperator, Site};
use url::{Host, Url};

use crate::VERSION;
use crate::apart::is_divided_soundly;
use crate::beside::Beside;
use crate::carried::Carried;
use crate::codec::PlanCodec;
use crate::identity::{DriverKeys, drivers};
use crate::lost::{MOST_TIMES, is_lost, looked_into, reached};
use crate::once::Once;
use crate::transport::Channels;
use crate::whole::{Opened, Whole, keeps_a_side, reads_files};

/// The most bytes of a plan before the files of its private tables are listed. A worker accepts
/// [more](crate::transport::LARGEST).
const MOST_BYTES: usize = 3 << 20;

/// Workers, as the site of an engine's private parts.
#[derive(Debug, Clone)]
pub struct Cluster {
    workers: Arc<[Url]>,
    channels: Channels,
    divided: Arc<AtomicU64>,
}

/// Engines whose private parts run on a cluster.
pub trait OnCluster: Sized {
    /// Runs the private parts of statements on these workers. Statements, declarations, costs and
    /// answers are those of any other engine. Statements that workers cannot run are refused with
    /// HQ018.
    #[must_use]
    fn on_cluster(self, cluster: &Cluster) -> Self;
}

impl OnCluster for EngineBuilder {
    fn on_cluster(self, cluster: &Cluster) -> Self {
        self.site(Arc::new(cluster.clone()))
    }
}

impl Cluster {
    /// The workers listed in a folder of keys, for the driver of that folder; see
    /// [`enrol`](crate::enrol). This does not connect to them yet.
    ///
    /// # Errors
    /// If the folder has no driver or no workers, if other users may read the driver's file, or if
    /// a file has the wrong contents.
    pub fn open(keys: impl AsRef<Path>) -> io::Result<Self> {
        let (driver, workers) = drivers(keys.as_ref())?;
        Self::of(&driver, &workers)
    }

    /// Workers by their names and addresses.
    pub(crate) fn of(driver: &DriverKeys, workers: &[(String, String)]) -> io::Result<Self> {
        let url = |(name, address): &(String, String)| {
            Url::parse(&format!("https://{name}@{address}/")).map_err(io::Error::other)
        };
        let workers = workers.iter().map(url).collect::<io::Result<Vec<Url>>>()?;
        let channels = Channels::new(&driver.identity, Some(driver.plans.clone()))?;
        Ok(Self { workers: workers.into(), channels, divided: Arc::default() })
    }

    /// Connects to every worker.
    ///
    /// # Errors
    /// The error of the first worker that cannot be reached, has no certificate from these keys for
    /// its name, does not know this driver, or has another version.
    pub async fn check(&self) -> io::Result<()> {
        let version = |worker| async move { (worker, self.channels.version(worker).await) };
        for (worker, found) in future::join_all(self.workers.iter().map(version)).await {
            let found = found.map_err(io::Error::other)?;
            if found != VERSION {
                let name = worker.username();
                let problem =
                    format!("the worker {name} has version {found}, and this is {VERSION}");
                return Err(io::Error::other(problem));
            }
        }
        Ok(())
    }

    /// The ports of the workers.
    #[doc(hidden)]
    pub fn ports(&self) -> Vec<u16> {
        self.workers.iter().filter_map(Url::port).collect()
    }

    /// The same workers behind other ports, for tests that put a proxy in between.
    #[doc(hidden)]
    #[must_use]
    pub fn with_ports(self, ports: &[u16]) -> Self {
        let behind = self.workers.iter().zip(ports).map(|(worker, port)| {
            let mut worker = worker.clone();
            // A URL with a host has a port.
            let _ = worker.set_port(Some(*port));
            worker
        });
        Self { workers: behind.collect(), ..self }
    }

    /// How many bounded inputs were divided among the workers so far. All others ran in this
    /// process, because their rows could not be divided.
    pub fn divided_so_far(&self) -> u64 {
        self.divided.load(Ordering::Relaxed)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The configuration in which a plan is divided and sent, including the key.
    fn config(&self, own: &SessionConfig, key: Option<[u64; 4]>) -> Result<SessionConfig> {
        let workers = self.workers.len();
        own.clone()
            .with_distributed_worker_resolver(self.clone())
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_option_extension(Beside::new(key))
            .with_distributed_user_codec(PlanCodec::new(own))
            .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent| {
                tasks(event.plan, workers).map(Ok)
            })
            .with_distributed_scale_up_leaf_node_handler(|event: ScaleUpLeafNodeEvent| {
                let pieces = Opened::in_pieces(event.plan, event.task_count)?;
                Some(pieces.map(|pieces| ScaleUpLeafNodeEventResponse::new(Arc::new(pieces))))
            })
            .with_distributed_max_tasks_per_stage(workers)?
            .with_distributed_compression(self.compression())?
            .with_distributed_broadcast_joins(false)?
            .with_distributed_children_isolator_unions(false)?
            .with_distributed_partial_reduce(false)?
            .with_distributed_dynamic_task_count(false)?
            .with_distributed_metrics_collection(false)
    }

    /// How rows are compressed on the network. They are not if all workers are on this machine,
    /// because there compressing takes longer than copying.
    fn compression(&self) -> Option<CompressionType> {
        let is_here = |worker: &Url| match worker.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(_)) | None => false,
        };
        (!self.workers.iter().all(is_here)).then_some(CompressionType::LZ4_FRAME)
    }

    /// The plan in stages for the workers; `None` if its rows cannot be divided among them.
    ///
    /// # Errors
    /// The errors of `datafusion-distributed`.
    async fn divided(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &TaskContext,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)>> {
        let key = BoundingKey::of_plan(plan).and_then(|key| key.words());
        let marked = Once::all(Whole::kept(Arc::clone(plan))?)?;
        let given = Given(Carried::all(marked)?);
        let state = SessionStateBuilder::new()
            .with_config(self.config(context.session_config(), key)?)
            .with_runtime_env(context.runtime_env())
            .with_query_planner(Arc::new(given))
            .with_distributed_planner()
            .build();
        let schema = Arc::new(DFSchema::empty());
        let nothing = EmptyRelation { produce_one_row: false, schema };
        let nothing = LogicalPlan::EmptyRelation(nothing);
        let divided = state.query_planner().create_physical_plan(&nothing, &state).await?;
        Ok(is_divided_soundly(&divided).then(|| (divided, state.task_ctx())))
    }
}

/// The number of tasks in which an operator may run, if it matters for the operator.
fn tasks(plan: &Arc<dyn ExecutionPlan>, workers: usize) -> Option<DesiredTaskCountEventResponse> {
    let operator = Carried::unwrapped(plan);
    if reads_files(operator) || operator.is::<Opened>() {
        return Some(DesiredTaskCountEventResponse::desired(workers));
    }
    if operator.is::<Whole>() {
        return Some(DesiredTaskCountEventResponse::desired(1));
    }
    // The side that it keeps is not complete in every task.
    let needs_all = keeps_a_side(operator) && !operator.children().first()?.is::<Whole>();
    needs_all.then(|| DesiredTaskCountEventResponse::maximum(1))
}

impl WorkerResolver for Cluster {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.workers.to_vec())
    }
}

/// Returns a verified plan as the result of planning, because `datafusion-distributed` divides the
/// plan that a planner makes.
#[derive(Debug)]
struct Given(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Given {
    async fn create_physical_plan(
        &self,
        _plan: &LogicalPlan,
        _session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

impl Site for Cluster {
    fn partitions_by_unit(&self) -> bool {
        true
    }

    fn processes(&self) -> usize {
        self.workers.len().max(1)
    }

    fn accepts(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> Result<(), CannotRunThere> {
        if self.workers.is_empty() {
            return Err(CannotRunThere::new("there are no workers", "start one, or run without"));
        }
        let mut refused = None;
        let described =
            Arc::clone(plan).transform_down(|node| match InputOperator::of(&node, config) {
                // The files of some tables are listed after the charge.
                Ok(InputOperator::Own(operator)) if !operator.is_complete() => {
                    let empty = Arc::new(EmptyExec::new(node.schema()));
                    Ok(Transformed::new(empty, true, TreeNodeRecursion::Jump))
                }
                // The operator that reads a table was described together with it.
                Ok(InputOperator::Own(operator)) if operator.is_scan() => {
                    Ok(Transformed::new(node, false, TreeNodeRecursion::Jump))
                }
                Ok(InputOperator::Own(_) | InputOperator::DataFusions) => Ok(Transformed::no(node)),
                Err(error) => {
                    refused = Some(error);
                    Ok(Transformed::new(node, false, TreeNodeRecursion::Stop))
                }
            });
        let cannot = || {
            CannotRunThere::new(
                "a function in this query does not run on workers yet",
                "ask without it, or run without workers",
            )
        };
        let described = described.data().map_err(|_| cannot())?;
        if let Some(error) = refused {
            return Err(error);
        }
        // All functions are encoded once as a test, before anything is paid.
        let bytes = PlanCodec::new(config).bytes(&described).map_err(|_| cannot())?;
        match bytes.len() <= MOST_BYTES {
            true => Ok(()),
            false => Err(CannotRunThere::new(
                "the plan of this query has more than 3 MiB, with its keys and public rows",
                "ask for fewer keys, or run without workers",
            )),
        }
    }

    fn rows(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (cluster, plan, schema) = (self.clone(), Arc::clone(plan), plan.schema());
        let rows = stream::once(async move {
            let workers = reached(&cluster.workers).await;
            if workers.is_empty() {
                return exec_err!("no worker takes a connection");
            }
            let cluster = Self { workers: workers.into(), ..cluster };
            let Some((divided, context)) = cluster.divided(&plan, &context).await? else {
                return plan.execute(0, context);
            };
            cluster.divided.fetch_add(1, Ordering::Relaxed);
            let schema = divided.schema();
            let looked_into = move |error| {
                let cluster = cluster.clone();
                async move { looked_into(error, &cluster.workers).await }
            };
            let rows = divided.execute(0, context)?.or_else(move |error| {
                let looked_into = looked_into(error);
                async move { Err(looked_into.await) }
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)) as SendableRecordBatchStream)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten().boxed())))
    }

    fn runs_again(&self, error: &DataFusionError, times: usize) -> bool {
        times < MOST_TIMES && is_lost(error)
    }
}
