//! `BoundContributionsExec`: bounds what each unit contributes, and aggregates, in one operator.
//!
//! In: rows with a unit, key columns and arguments. Out: the exact integer of every aggregate, one
//! row for each key. If the keys are listed, each of them has a row, with zeros where no row has
//! the key; otherwise each key of the rows has one, in no particular order. The operator reads all
//! partitions of its input itself, and assumes nothing about which rows are in which partition. It
//! guarantees that removing one unit changes each aggregate by no more than its bounds and
//! [`EnforcedBounds`] allow, exactly, in integers, for every order, batching and partitioning of
//! the rows.
//!
//! A keyed hash orders a unit's groups. In this order, group j keeps k_j = min(rows_j, m, rest of
//! M) rows, and at most C groups keep any. Rows without a unit and rows with other keys are dropped
//! before that. Nearly all units are within their bounds. So all rows are added up column by
//! column, and the rows of units that may exceed a bound are subtracted again.
//!
//! ```text
//! PrivatizeExec
//!   BoundContributionsExec: unit=user_id@0, keys=[city@1], inputs=2
//!     PrivateScanExec                               in as many partitions as there are
//! ```

use std::fmt;
use std::mem::size_of;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::stream;

use crate::aggregate::fixed_sum::SUM_TYPE;
use task::BoundingTask;

pub(crate) use self::columns::column_sums::{ColumnSums, is_sum_of_rows};
pub(crate) use self::columns::grid_values::ValueSources;
pub use self::exact::keyed_order::{HashKey, LateKey};
pub(crate) use self::exact::rows_by_unit::{BUCKETS, UnitRow, Units, place_of};
pub use self::exact::unit_contribution::{AggregateInput, EnforcedBounds, InputKind};
pub(crate) use self::keys::discovered_keys::OUTSIDE;
pub(crate) use self::keys::key_space::KeyIndex;
pub use self::keys::key_space::KeySpace;
pub use self::keys::key_space::canonical;
pub(crate) use self::keys::key_space::is_float;
pub(crate) use self::keys::unit_codes::{HeldUnits, UnitCodes, UnitNames, ordered};
pub(crate) use self::screen::partitioned_counting::Counting;
pub(crate) use self::screen::row_count_filter::{Crowded, RowCounts};
pub(crate) use bounding_passes::{at_once, with_keys};

mod bounding_passes;

mod columns;
mod exact;
mod keys;
mod screen;
mod task;
#[cfg(test)]
mod tests;

/// The parameters of the operator. The hash key is set later, when the query is paid for.
#[derive(Debug)]
struct BoundingPlan {
    unit: usize,
    keys: Vec<usize>,
    inputs: Vec<AggregateInput>,
    hash: LateKey,
}

/// The operator. Its output is one partition.
#[derive(Debug)]
pub struct BoundContributionsExec {
    input: Arc<dyn ExecutionPlan>,
    space: KeySpace,
    plan: Arc<BoundingPlan>,
    properties: Arc<PlanProperties>,
}

impl BoundContributionsExec {
    /// Checks the columns and builds the operator.
    ///
    /// `unit` and `keys` are positions in the input. The columns at `keys` correspond to those of
    /// `space`, one by one.
    ///
    /// # Guarantee
    /// With b the largest magnitude of a value (1 for counts), the outputs of an aggregate with
    /// limits M, m and C change by at most min(C·m, M)·b in sum when one unit is removed. For AVG,
    /// b is hi − lo and covers both outputs together; for variances, b is w² of its steps and
    /// covers all three. For an aggregate that counts a unit once per group, m is 1.
    ///
    /// # Errors
    /// A planning error when a column is missing or of the wrong type, or an interval is empty.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        unit: usize,
        keys: Vec<usize>,
        space: KeySpace,
        inputs: Vec<AggregateInput>,
        hash: LateKey,
    ) -> Result<Self> {
        let schema = input.schema();
        if unit >= schema.fields().len() {
            return plan_err!("the unit column is missing");
        }
        check(&schema, &keys, &space, &inputs)?;
        let schema = output_schema(&schema, &keys, &inputs)?;
        let properties = Arc::new(properties(schema));
        let plan = Arc::new(BoundingPlan { unit, keys, inputs, hash });
        Ok(Self { input, space, plan, properties })
    }

    /// The position of the unit and of the keys, the key space, and the aggregates.
    pub fn parts(&self) -> (usize, &[usize], &KeySpace, &[AggregateInput]) {
        let BoundingPlan { unit, keys, inputs, hash: _ } = self.plan.as_ref();
        (*unit, keys, &self.space, inputs)
    }

    /// The key of its hashes, which is set when the query is paid for.
    pub fn key(&self) -> &LateKey {
        &self.plan.hash
    }

    /// The bytes that each reader of the input reserves for the totals of known keys. They do not
    /// depend on the rows.
    pub fn reserved(&self) -> usize {
        reserved(&self.plan.inputs, &self.space)
    }
}

/// The bytes of the totals of known keys.
pub fn reserved(inputs: &[AggregateInput], space: &KeySpace) -> usize {
    let outputs = inputs.iter().map(AggregateInput::outputs).sum::<usize>() * size_of::<i128>();
    let columns = ValueSources::new(inputs).ok();
    let columns = columns.and_then(|sources| ColumnSums::new(inputs, &sources, 0));
    let of_a_key = outputs + columns.map_or(0, |one| one.size());
    space.len().saturating_add(1).saturating_mul(of_a_key)
}

/// Checks the columns of keys, and those that aggregates read.
///
/// # Errors
/// A planning error when a column is missing or of the wrong type, or an interval is empty.
pub fn check(
    schema: &Schema,
    keys: &[usize],
    space: &KeySpace,
    inputs: &[AggregateInput],
) -> Result<()> {
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type()).collect();
    if keys.len() != space.columns().len() {
        return plan_err!("the key space has other columns than the keys");
    }
    for (key, column) in keys.iter().zip(space.columns()) {
        if types.get(*key) != Some(&column.data_type()) {
            return plan_err!("a key is missing or has another type than its key space");
        }
    }
    for input in inputs {
        input.kind.check(&types)?;
        if input.ladder.as_ref().is_some_and(|rungs| !rungs.is_sorted() || rungs.is_empty()) {
            return plan_err!("the bounds of a ladder ascend");
        }
    }
    Ok(())
}

/// The columns of the output: the keys, then every aggregate's outputs as Decimal128(38, 0).
///
/// # Errors
/// A planning error when a key column is missing.
pub(crate) fn output_schema(
    input: &Schema,
    keys: &[usize],
    inputs: &[AggregateInput],
) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = Vec::new();
    for key in keys {
        let Some(field) = input.fields().get(*key) else {
            return plan_err!("a key column is missing");
        };
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    for (i, input) in inputs.iter().enumerate() {
        for part in 0..input.outputs() {
            fields.push(Arc::new(Field::new(format!("bounded_{i}_{part}"), SUM_TYPE, false)));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The output has none of the input's properties, such as the order of its rows.
fn properties(schema: SchemaRef) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    )
}

impl DisplayAs for BoundContributionsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |column: &usize| format!("{}@{column}", schema.field(*column).name());
        let unit = name(&self.plan.unit);
        let keys = self.plan.keys.iter().map(name).collect::<Vec<_>>().join(", ");
        let inputs = self.plan.inputs.len();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BoundContributionsExec: unit={unit}, keys=[{keys}], inputs={inputs}")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "unit={unit}")?;
                writeln!(f, "keys=[{keys}]")
            }
        }
    }
}

/// Methods that are not overridden keep DataFusion's defaults, and tests check these: no fetch, no
/// limit, no filter passed down, no projection swapped, no statistics. Each of these would change
/// the counted rows or reveal something about them.
impl ExecutionPlan for BoundContributionsExec {
    fn name(&self) -> &'static str {
        "BoundContributionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("BoundContributionsExec has one input");
        };
        let BoundingPlan { unit, keys, inputs, hash } = self.plan.as_ref();
        let space = self.space.clone();
        Ok(Arc::new(Self::new(input, *unit, keys.clone(), space, inputs.clone(), hash.clone())?))
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
        if partition != 0 {
            return internal_err!("contributions are bounded in one partition");
        }
        let Some(hash) = self.plan.hash.key() else {
            return internal_err!("contributions are bounded after the query is charged");
        };
        let BoundingPlan { unit, keys, inputs, hash: _ } = self.plan.as_ref();
        let sources = ValueSources::new(inputs)?;
        let task =
            BoundingTask { unit: *unit, keys: keys.clone(), inputs: inputs.clone(), sources, hash };
        let (space, task) = (self.space.clone(), Arc::new(task));
        let batch =
            bounding_passes::run(Arc::clone(&self.input), context, space, task, self.schema());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(batch))))
    }
}
