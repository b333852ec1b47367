//! `PrivatizeExec`: the privatizing final operator, the root of every private plan.
//!
//! In: the bounded integers of every group, from one partition. Out: one batch, the released table. It
//! adds up the partitions' integers per key, gives every key of the key space its row (zero where no row
//! has it), and draws each mechanism once. Between its input and its output stands nothing else.
//!
//! It runs once: the right to draw is taken out of a [`Permit`] that was filled when the query was paid for.
//! A second execution, an execution before the charge, and an execution of a copy are errors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use super::draw::{Recipe, draw};
use crate::analysis::KeySpace;
use crate::grid::failed;
use crate::sampler::QueryRng;

/// The right to draw once: empty until the query is paid for, empty again once it was used.
#[derive(Debug, Clone, Default)]
pub(super) struct Permit(Arc<Mutex<Option<QueryRng>>>);

impl Permit {
    /// Grants one draw with this source of randomness.
    pub(super) fn grant(&self, rng: QueryRng) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(rng);
    }

    fn take(&self) -> Option<QueryRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What a private part releases: the keys, and for each measure how its answer is drawn.
#[derive(Debug)]
pub(super) struct Specification {
    pub(super) keys: KeySpace,
    pub(super) recipes: Vec<Recipe>,
    pub(super) released: SchemaRef,
}

/// The privatizing operator.
#[derive(Debug)]
pub(super) struct PrivatizeExec {
    input: Arc<dyn ExecutionPlan>,
    specification: Arc<Specification>,
    permit: Permit,
    properties: Arc<PlanProperties>,
}

impl PrivatizeExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        specification: Arc<Specification>,
        permit: Permit,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&specification.released)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { input, specification, permit, properties }
    }

    pub(super) fn specification(&self) -> &Arc<Specification> {
        &self.specification
    }
}

impl DisplayAs for PrivatizeExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivatizeExec: {} releases", self.specification.recipes.len())
    }
}

/// What is not written here stays at DataFusion's default: no fetch, no limit, no filter passed down, no
/// projection swapped, no statistics.
impl ExecutionPlan for PrivatizeExec {
    fn name(&self) -> &'static str {
        "PrivatizeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                let specification = Arc::clone(&self.specification);
                Ok(Arc::new(Self::new(input, specification, self.permit.clone())))
            }
            _ => internal_err!("PrivatizeExec has one input"),
        }
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
        // Noise drawn once per partition would not protect the sum of the partitions.
        if partition != 0 || self.input.output_partitioning().partition_count() != 1 {
            return internal_err!("a release has one partition");
        }
        let Some(mut rng) = self.permit.take() else {
            return internal_err!("a release runs once, after it was charged");
        };
        let rows = self.input.execute(0, context)?;
        let specification = Arc::clone(&self.specification);
        let schema = self.schema();
        let released = async move {
            let width = specification.recipes.iter().map(Recipe::width).sum();
            let sums = sums(rows, &specification.keys, width).await?;
            draw(&specification, &sums, &mut rng).map_err(|_| failed())
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(released))))
    }
}

/// Adds up the integers of every key: one vector per input column, one entry per key of the space.
///
/// # Guarantee
/// Entry (c, k) is the sum of column c over the input rows whose key is the k-th of the space, 0 if there is
/// none; rows with another key do not matter. The result does not depend on the order of rows.
pub(super) async fn sums(
    mut rows: SendableRecordBatchStream,
    keys: &KeySpace,
    columns: usize,
) -> Result<Vec<Vec<i128>>> {
    let len = keys.len();
    let mut sums = vec![vec![0_i128; len]; columns];
    let mut index = KeyIndex::new(keys)?;
    let key_columns = keys.columns().len();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keys, values) = batch.columns().split_at_checked(key_columns).ok_or_else(failed)?;
        if values.len() != columns {
            return internal_err!("a release has as many inputs as it was planned with");
        }
        let positions = index.positions(keys, batch.num_rows())?;
        for (column, sums) in values.iter().zip(&mut sums) {
            add(column, positions, sums)?;
        }
    }
    Ok(sums)
}

/// Adds a column of counts or raw sums to the entries that its rows belong to.
fn add(column: &ArrayRef, positions: &[usize], sums: &mut [i128]) -> Result<()> {
    let mut add_one = |row: usize, value: i128| {
        if let Some(entry) = positions.get(row).and_then(|p| sums.get_mut(*p)) {
            *entry = entry.checked_add(value).ok_or_else(failed)?;
        }
        Ok::<(), datafusion::error::DataFusionError>(())
    };
    match column.data_type() {
        DataType::Int64 => {
            for (row, value) in column.as_primitive::<Int64Type>().iter().enumerate() {
                add_one(row, i128::from(value.unwrap_or(0)))?;
            }
        }
        DataType::Decimal128(..) => {
            for (row, value) in column.as_primitive::<Decimal128Type>().iter().enumerate() {
                add_one(row, value.unwrap_or(0))?;
            }
        }
        _ => return internal_err!("a release reads counts and raw sums"),
    }
    Ok(())
}

/// Where a row's key stands in the key space.
struct KeyIndex {
    groups: Option<Box<dyn GroupValues>>,
    positions: Vec<usize>,
}

impl KeyIndex {
    fn new(space: &KeySpace) -> Result<Self> {
        let mut positions = Vec::new();
        if space.columns().is_empty() {
            return Ok(Self { groups: None, positions });
        }
        let fields: Vec<_> = space
            .columns()
            .iter()
            .enumerate()
            .map(|(i, c)| {
                arrow::datatypes::Field::new(format!("k{i}"), c.data_type().clone(), true)
            })
            .collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let mut groups = new_group_values(schema, &GroupOrdering::None)?;
        groups.intern(space.columns(), &mut positions)?;
        // The space's keys are distinct, so key k is group k; anything beyond is no key.
        if positions.iter().enumerate().any(|(i, p)| i != *p) {
            return internal_err!("the keys of a release are distinct");
        }
        Ok(Self { groups: Some(groups), positions })
    }

    fn positions(&mut self, keys: &[ArrayRef], rows: usize) -> Result<&[usize]> {
        match &mut self.groups {
            Some(groups) => groups.intern(keys, &mut self.positions)?,
            None => {
                self.positions.clear();
                self.positions.resize(rows, 0);
            }
        }
        Ok(&self.positions)
    }
}

/// Builds the released batch from its columns.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
