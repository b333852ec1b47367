//! `SampleContributionsExec`: keeps a bounded number of each unit's rows, for releases that need
//! the rows themselves.
//!
//! In: rows with a unit, group columns and any other columns. Out: some of these rows, without the
//! unit. It reads all partitions of its input itself, and assumes nothing about which rows are in
//! which partition. It has as many output partitions, which may be read at the same time or one
//! after the other, each once. It guarantees that removing one unit removes at most the rows that
//! [`EnforcedBounds`] allow it and adds none, and that every other unit keeps the same rows, for
//! every order, batching and partitioning.
//!
//! A keyed hash of their values orders a unit's groups. In this order, group j keeps k_j =
//! min(rows_j, m, rest of M) rows, and at most C groups keep any. A keyed hash of the other columns
//! decides which k_j rows are kept. Equal rows are numbered and hashed one by one, so that a row's
//! chance does not depend on how many rows equal it. If distinct rows are required, equal rows
//! count as one row instead. Rows without a unit are dropped before that. Rows are counted first,
//! and rows of units within the bounds come out unchanged.
//!
//! ```text
//! PrivatizeExec                                     adds the partitions' rows up
//!   CoalescePartitionsExec
//!     AggregateExec: mode=Single, gby=[city, price] counts per group and value: a histogram
//!       SampleContributionsExec: unit=user_id@0, groups=[city@1], rows=10, rows per group=3, groups per unit=any
//!         PrivateScanExec                           in as many partitions as there are
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{TryFutureExt, stream};

use super::bound_contributions::{EnforcedBounds, LateKey, is_float};
use row_collector::SamplingTask;
use sampling_passes::{Run, next};

mod choose;
mod hold;
mod packed;
mod row_collector;
mod sampling_passes;
#[cfg(test)]
mod tests;

/// The operator.
#[derive(Debug)]
pub struct SampleContributionsExec {
    input: Arc<dyn ExecutionPlan>,
    unit: usize,
    group: Vec<usize>,
    limits: EnforcedBounds,
    distinct: bool,
    hash: LateKey,
    /// The current run, which some partitions have begun.
    run: Mutex<Arc<Run>>,
    properties: Arc<PlanProperties>,
}

impl SampleContributionsExec {
    /// The operator that keeps distinct rows: the bounds count a unit's equal rows in a group as
    /// one.
    ///
    /// As [`SampleContributionsExec::new`], but floats of all columns come out with −0.0 as 0.0 and
    /// NaN as NULL. A unit that the bounds cannot affect keeps its equal rows, so the reader of the
    /// output must merge them.
    ///
    /// # Guarantee
    /// For all inputs, with the limits M, m and C: one unit has at most M output rows, at most m of
    /// them in one group, and they lie in at most C groups. As a set they are a function of that
    /// unit's set of rows and the key alone. The bounds drop no distinct row while there is room
    /// for one. Exact.
    ///
    /// # Errors
    /// As [`SampleContributionsExec::new`].
    pub fn distinct(
        input: Arc<dyn ExecutionPlan>,
        unit: usize,
        group: Vec<usize>,
        limits: EnforcedBounds,
        hash: LateKey,
    ) -> Result<Self> {
        Self::build(input, unit, group, limits, true, hash)
    }

    /// Checks the columns and builds the operator; `unit` and `group` are positions in the input.
    ///
    /// The output has the columns of the input in their order, without the unit. Group columns of
    /// floats come out as they were compared: −0.0 as 0.0, and NaN as NULL.
    ///
    /// # Guarantee
    /// For all inputs, with the limits M, m and C: one unit has at most M output rows, at most m of
    /// them in one group, and they lie in at most C groups. They depend on that unit's multiset of
    /// rows and the key alone. Removing a unit therefore removes at most min(C·m, M) rows, and
    /// changes nothing else. Exact.
    ///
    /// # Errors
    /// A planning error when a column is missing, the unit is a group column, or a type cannot be
    /// encoded.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        unit: usize,
        group: Vec<usize>,
        limits: EnforcedBounds,
        hash: LateKey,
    ) -> Result<Self> {
        Self::build(input, unit, group, limits, false, hash)
    }

    fn build(
        input: Arc<dyn ExecutionPlan>,
        unit: usize,
        group: Vec<usize>,
        limits: EnforcedBounds,
        distinct: bool,
        hash: LateKey,
    ) -> Result<Self> {
        let schema = input.schema();
        if unit >= schema.fields().len() {
            return plan_err!("the unit column is missing");
        }
        if group.iter().any(|group| *group >= schema.fields().len()) {
            return plan_err!("a group column is missing");
        }
        if group.contains(&unit) {
            return plan_err!("the unit cannot be a group column");
        }
        let encoded: Vec<_> =
            schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        if !RowConverter::supports_fields(&encoded) {
            return plan_err!("rows with a column of this type cannot be compared");
        }
        let schema = output_schema(&schema, unit, &group, distinct);
        // The output has none of the input's properties, such as the order of its rows.
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Ok(Self { input, unit, group, limits, distinct, hash, run: Mutex::default(), properties })
    }

    /// The position of the unit and of the groups, the bounds, and whether distinct rows are kept.
    pub fn parts(&self) -> (usize, &[usize], EnforcedBounds, bool) {
        (self.unit, &self.group, self.limits, self.distinct)
    }

    /// The key of its hashes, which is set when the query is paid for.
    pub fn key(&self) -> &LateKey {
        &self.hash
    }

    /// The run to which this read of a partition belongs. Reading a partition once more begins a
    /// new run.
    fn begin(&self, partition: usize) -> Arc<Run> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if !run.begin(partition) {
            *run = Arc::default();
            run.begin(partition);
        }
        Arc::clone(&run)
    }
}

/// All columns except the unit. A float column that is compared may contain NULL.
fn output_schema(input: &Schema, unit: usize, group: &[usize], distinct: bool) -> SchemaRef {
    let columns = input.fields().iter().enumerate().filter(|(i, _)| *i != unit);
    let fields = columns.map(|(i, field)| -> FieldRef {
        if (distinct || group.contains(&i)) && is_float(field.data_type()) {
            Arc::new(Field::clone(field).with_nullable(true))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl DisplayAs for SampleContributionsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let name = |column: &usize| format!("{}@{column}", schema.field(*column).name());
        let unit = name(&self.unit);
        let groups = self.group.iter().map(name).collect::<Vec<_>>().join(", ");
        let most = |limit: Option<u64>| limit.map_or("any".to_owned(), |most| most.to_string());
        let rows = if self.distinct { "distinct rows" } else { "rows" };
        let limits = format!(
            "{rows}={}, rows per group={}, groups per unit={}",
            most(self.limits.total),
            most(self.limits.per_partition),
            most(self.limits.l0)
        );
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "SampleContributionsExec: unit={unit}, groups=[{groups}], {limits}")
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "unit={unit}")?;
                writeln!(f, "groups=[{groups}]")?;
                writeln!(f, "{limits}")
            }
        }
    }
}

/// Methods that are not overridden keep DataFusion's defaults, and tests check these: no fetch, no
/// limit, no filter passed down, no projection swapped, no statistics. Each of these would change
/// the rows to choose from, or reveal their number.
impl ExecutionPlan for SampleContributionsExec {
    fn name(&self) -> &'static str {
        "SampleContributionsExec"
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
            return internal_err!("SampleContributionsExec has one input");
        };
        let (group, hash) = (self.group.clone(), self.hash.clone());
        Ok(Arc::new(Self::build(input, self.unit, group, self.limits, self.distinct, hash)?))
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
        let Some(hash) = self.hash.key() else {
            return internal_err!("rows are chosen after the query is charged");
        };
        let schema = self.schema();
        let mut task =
            SamplingTask::new(self.unit, &self.group, self.limits, hash, Arc::clone(&schema));
        task.distinct = self.distinct;
        let own = self.begin(partition).part(partition, Arc::clone(&self.input), task, context);
        let kept = own.map_ok(|kept| stream::try_unfold(kept, next)).try_flatten_stream();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
    }
}
