//! `PrivatizeExec`: the privatizing final operator, the root of every private plan.
//!
//! In: bounded inputs of integers, each from one partition. Out: one batch, the released table. It
//! adds up the partitions' integers, gives every key of the key space its row (zero if no row has
//! it), and draws each mechanism once. It does nothing else.
//!
//! It runs once: it takes the right to draw out of a [`Permit`], which the charge fills. A second
//! execution, an execution before the charge, and an execution of a copy are errors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream;

use crate::exec::distributed::site_of;
use crate::exec::draw::draw;
use crate::exec::draw::draw_plan::Specification;
use crate::exec::draw::gathered_input::gather;
use crate::grid::failed;
use crate::sampler::QueryRng;
use hushql_exec::gather::Gathered;

/// The right to draw once: empty until the query is paid for, and empty again after use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Permit(Arc<Mutex<Option<QueryRng>>>);

impl Permit {
    /// Grants one draw with this source of randomness.
    pub(crate) fn grant(&self, rng: QueryRng) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rng);
    }

    fn take(&self) -> Option<QueryRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The privatizing operator.
#[derive(Debug)]
pub(crate) struct PrivatizeExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    specification: Arc<Specification>,
    permit: Permit,
    properties: Arc<PlanProperties>,
}

impl PrivatizeExec {
    pub(crate) fn new(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        specification: Arc<Specification>,
        permit: Permit,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&specification.released)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { inputs, specification, permit, properties }
    }

    pub(crate) fn specification(&self) -> &Arc<Specification> {
        &self.specification
    }
}

impl DisplayAs for PrivatizeExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivatizeExec: {} releases", self.specification.draw_plans.len())
    }
}

/// All other methods keep DataFusion's defaults: no fetch, no limit, no filter passed down, no
/// projection swapped, no statistics.
impl ExecutionPlan for PrivatizeExec {
    fn name(&self) -> &'static str {
        "PrivatizeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.inputs.len()])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return internal_err!("PrivatizeExec keeps its inputs");
        }
        let specification = Arc::clone(&self.specification);
        Ok(Arc::new(Self::new(children, specification, self.permit.clone())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        // Noise drawn once in each partition would not protect the sum of the partitions.
        let single = self.inputs.iter().all(|i| i.output_partitioning().partition_count() == 1);
        if partition != 0 || !single || self.inputs.len() != self.specification.bounded_inputs.len()
        {
            return internal_err!("a release has one partition");
        }
        let Some(mut rng) = self.permit.take() else {
            return internal_err!("a release runs once, after it was charged");
        };
        let site = site_of(context.session_config());
        let inputs = self.inputs.clone();
        let specification = Arc::clone(&self.specification);
        let schema = self.schema();
        let released = async move {
            let mut gathered: Vec<Gathered> = Vec::with_capacity(inputs.len());
            for (input, (input_shape, columns)) in inputs.iter().zip(&specification.bounded_inputs)
            {
                let mut times = 0;
                let integers = loop {
                    let rows = site.rows(input, Arc::clone(&context))?;
                    let first = gathered.first();
                    match gather(rows, *input_shape, &specification.keys, *columns, first).await {
                        Ok(integers) => break integers,
                        // A retry reads the integers of all rows again; a failed attempt leaves
                        // none.
                        Err(error) if site.runs_again(&error, times) => times += 1,
                        Err(error) => return Err(error),
                    }
                };
                gathered.push(integers);
            }
            draw(&specification, &gathered, &mut rng).map_err(|_| failed())
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(released))))
    }
}
