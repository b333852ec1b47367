//! Tables whose rows are private: their scans are marked, and report no statistics.
//!
//! In: any [`TableProvider`]. Out: a provider whose scans are wrapped in [`PrivateScanExec`], so
//! that the finished plan can be searched for them. It reports no statistics: with them, the
//! planner would answer `COUNT(*)`, `MIN` and `MAX` from a file's footer without reading a row. It
//! reports neither the order of the rows, nor whether rows with equal values are adjacent. Among
//! filters, only comparisons that prune soundly reach the source, and only if the engine itself
//! opens it.
//!
//! ```text
//! FilterExec: x < 5 AND y < 2.5        x is a BIGINT, y a DOUBLE
//!   PrivateScanExec: t                 passes `x < 5` on, as one more condition
//!     DataSourceExec: …, predicate=x < 5
//! ```
//!
//! Upstream: docs/upstream.md, 21. Keep: old files remain in use.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableType};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase,
    FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};

use futures::TryStreamExt;

use super::kept_columns::{KeptColumns, rows_of};
use crate::functions::prunes;
use crate::pinned::{Pinned, PinnedFile};

/// Called when bytes that were read cannot be decoded into rows. It is a closure, so that operators
/// need not know files.
pub type OnDamage = Arc<dyn Fn() + Send + Sync>;

/// A private table as the planner sees it.
pub struct PrivateTable {
    name: String,
    inner: Arc<dyn TableProvider>,
    rows_of_a_unit: u32,
    prunes: bool,
    file: Option<PinnedFile>,
    listed_when_paid: bool,
    read_elsewhere: bool,
    on_damage: Option<OnDamage>,
}

/// Leaves out its rows; the output of a table in memory would show them.
impl fmt::Debug for PrivateTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateTable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PrivateTable {
    /// Wraps the provider of the private table with this name.
    pub fn new(name: impl Into<String>, inner: Arc<dyn TableProvider>) -> Self {
        let name = name.into();
        Self {
            name,
            inner,
            rows_of_a_unit: 1,
            prunes: false,
            file: None,
            listed_when_paid: false,
            read_elsewhere: false,
            on_damage: None,
        }
    }

    /// The same table, but its source may skip parts of itself by the minimum and maximum of each
    /// part.
    ///
    /// The source must skip only row groups of Parquet, whose format defines the statistics. How
    /// other sources use a filter is unknown.
    #[must_use]
    pub fn pruned(mut self) -> Self {
        self.prunes = true;
        self
    }

    /// The same table, whose derived look-ups may be kept as long as this file does not change.
    #[must_use]
    pub fn in_file(mut self, file: PinnedFile) -> Self {
        self.file = Some(file);
        self
    }

    /// The same table, whose files are listed after a statement is paid for; then its plan is made
    /// again.
    #[must_use]
    pub fn listed_when_paid(mut self) -> Self {
        self.listed_when_paid = true;
        self
    }

    /// The same table, whose files another process can open and read in the same way.
    #[must_use]
    pub fn read_elsewhere(mut self) -> Self {
        self.read_elsewhere = true;
        self
    }

    /// The same table, which calls this when bytes that were read cannot be decoded into rows.
    #[must_use]
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.on_damage = Some(on_damage);
        self
    }

    /// The same table with the declared number of rows of a unit. In joins, tables with more rows
    /// stream past tables with fewer.
    #[must_use]
    pub fn with_rows_of_a_unit(mut self, rows: u32) -> Self {
        self.rows_of_a_unit = rows;
        self
    }
}

#[async_trait]
impl TableProvider for PrivateTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.inner.scan(state, projection, &[], None).await?;
        let properties = Arc::new(properties(&input));
        Ok(Arc::new(PrivateScanExec {
            table: self.name.clone(),
            input,
            rows_of_a_unit: self.rows_of_a_unit,
            prunes: self.prunes,
            pinned: self.file.as_ref().and_then(|file| file()),
            listed_when_paid: self.listed_when_paid,
            read_elsewhere: self.read_elsewhere,
            on_damage: self.on_damage.clone(),
            properties,
        }))
    }
}

/// Drops all claims of a source about its rows: their order, and where equal rows are.
fn properties(input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
    let PlanProperties { emission_type, boundedness, .. } = input.properties().as_ref();
    PlanProperties::new(
        EquivalenceProperties::new(input.schema()),
        Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
        *emission_type,
        *boundedness,
    )
}

/// Whether a source may skip rows that this filter excludes according to its statistics.
///
/// # Guarantee
/// If true, the filter compares a column, as the file holds it, with literals of the column's own
/// type, for which [`prunes`] holds. If the statistics exclude a part, it has no row that satisfies
/// the filter, no matter whose rows they are: one person's value cannot hide the rows of another.
fn may_prune(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let column = |expr: &Arc<dyn PhysicalExpr>| {
        let column = expr.downcast_ref::<Column>()?;
        let field = schema.fields().get(column.index())?;
        (field.name() == column.name() && prunes(field.data_type())).then(|| field.data_type())
    };
    let literal = |expr: &Arc<dyn PhysicalExpr>| {
        let value = expr.downcast_ref::<Literal>().map(Literal::value)?;
        (!value.is_null()).then(|| value.data_type())
    };
    if let Some(compared) = filter.downcast_ref::<BinaryExpr>() {
        let (left, right) = (compared.left(), compared.right());
        let pair = column(left).zip(literal(right)).or_else(|| column(right).zip(literal(left)));
        return compares(*compared.op()) && pair.is_some_and(|(of, is)| *of == is);
    }
    if let Some(listed) = filter.downcast_ref::<InListExpr>() {
        let of = column(listed.expr());
        let alike = |one: &Arc<dyn PhysicalExpr>| literal(one).as_ref() == of;
        return !listed.negated() && of.is_some() && listed.list().iter().all(alike);
    }
    false
}

/// Whether the minimum and maximum of a column decide what this operator can yield.
fn compares(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether an error means that the bytes cannot be decoded into rows. A failing disk, and too
/// little memory, do not count as damage.
fn is_damage(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ParquetError(_) => true,
        DataFusionError::ArrowError(error, _) => !matches!(**error, ArrowError::MemoryError(_)),
        DataFusionError::IoError(error) => error.raw_os_error().is_none(),
        DataFusionError::ExecutionJoin(error) => error.is_panic(),
        _ => false,
    }
}

/// The scan of a private table. It passes rows on, but no prior knowledge about them.
#[derive(Clone)]
pub struct PrivateScanExec {
    table: String,
    input: Arc<dyn ExecutionPlan>,
    rows_of_a_unit: u32,
    prunes: bool,
    pinned: Option<Pinned>,
    listed_when_paid: bool,
    read_elsewhere: bool,
    on_damage: Option<OnDamage>,
    properties: Arc<PlanProperties>,
}

/// Leaves out its rows; the output of a scan of a table in memory would show them.
impl fmt::Debug for PrivateScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateScanExec").field("table", &self.table).finish_non_exhaustive()
    }
}

impl PrivateScanExec {
    /// The scan of a table over the plan that reads it, for a process that received the plan of a
    /// statement.
    pub fn received(table: String, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::new(properties(&input));
        Self {
            table,
            input,
            rows_of_a_unit: 1,
            prunes: false,
            pinned: None,
            listed_when_paid: false,
            read_elsewhere: true,
            on_damage: None,
            properties,
        }
    }

    /// The same scan over another plan.
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = Arc::new(properties(&input));
        Arc::new(Self { input, properties, ..self.clone() })
    }

    /// The rows of a partition, read from the file.
    fn read(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(found) = self.on_damage.clone() else {
            return self.input.execute(partition, context);
        };
        let note = move |error: &DataFusionError| {
            if is_damage(error) {
                found();
            }
        };
        let rows = self.input.execute(partition, context).inspect_err(&note)?;
        let schema = rows.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.inspect_err(note))))
    }

    /// The declared number of rows of a unit.
    pub fn rows_of_a_unit(&self) -> u32 {
        self.rows_of_a_unit
    }

    /// Whether the files of its table are listed after a statement is paid for.
    pub fn is_listed_when_paid(&self) -> bool {
        self.listed_when_paid
    }

    /// Whether another process can open and read its files in the same way.
    pub fn is_read_elsewhere(&self) -> bool {
        self.read_elsewhere
    }

    /// The source without the marks. Its knowledge about its rows may be used only after the
    /// charge.
    pub fn unprotected(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The file with all of its rows, if it was verified and stays open.
    pub fn pinned(&self) -> Option<&Pinned> {
        self.pinned.as_ref()
    }

    /// The table that is scanned.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl DisplayAs for PrivateScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateScanExec: {}", self.table)
    }
}

impl ExecutionPlan for PrivateScanExec {
    fn name(&self) -> &'static str {
        "PrivateScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
            (Some(input), true) => Ok(self.over(input)),
            _ => internal_err!("PrivateScanExec has one input"),
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
        let config = context.session_config();
        let (kept, options) = (config.get_extension::<KeptColumns>(), Arc::clone(config.options()));
        let read = || self.read(partition, context);
        match (kept, &self.pinned) {
            (Some(kept), Some(file)) => {
                rows_of(&kept, file, (&self.input, partition), &options, read)
            }
            (None, _) | (_, None) => read(),
        }
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let input = self.input.repartitioned(target_partitions, config)?;
        Ok(input.map(|input| self.over(input)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let mut child = ChildFilterDescription::all_unsupported(&parent_filters);
        if self.prunes {
            let schema = self.schema();
            // As the child's own filters, so that no operator above assumes that they were applied.
            let sound = parent_filters.into_iter().filter(|filter| may_prune(filter, &schema));
            child = child.with_self_filters(sound.collect());
        }
        Ok(FilterDescription::new().with_child(child))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A source may prune by a filter, but is never trusted to have applied it.
        let none = vec![PushedDown::No; child_pushdown_result.parent_filters.len()];
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(none))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::common::stats::Precision;
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The number of rows is secret even from the planner, because its plans are shown.
    #[tokio::test]
    async fn no_statistics_of_private_rows_are_reported() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let rows = Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap());
        let state = SessionContext::new().state();
        let known = |plan: &Arc<dyn ExecutionPlan>, partition| {
            let args = StatisticsArgs::new().with_partition(partition);
            StatisticsContext::new().compute(plan.as_ref(), &args).unwrap()
        };
        let public = rows.scan(&state, None, &[], None).await.unwrap();
        let private = PrivateTable::new("t", rows);
        assert!(private.statistics().is_none());
        let private = private.scan(&state, None, &[], None).await.unwrap();
        for partition in [None, Some(0)] {
            assert_eq!(known(&public, partition).num_rows, Precision::Exact(3));
            assert_eq!(*known(&private, partition), Statistics::new_unknown(&private.schema()));
        }
    }

    /// Only comparisons of integers and dates with literals are passed on, and only to a known
    /// source.
    #[tokio::test]
    async fn a_source_gets_no_filter_that_could_hide_a_row() {
        use arrow::datatypes::{DataType, Field};
        use datafusion::physical_expr::expressions::{binary, col, in_list, is_not_null, lit, not};

        let types = [
            ("i", DataType::Int64),
            ("n", DataType::Int32),
            ("d", DataType::Date32),
            ("f", DataType::Float64),
            ("s", DataType::Utf8View),
            ("u", DataType::UInt64),
            ("b", DataType::Int8),
            ("m", DataType::Decimal128(10, 2)),
        ];
        let fields = types.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let zero = |name: &str| {
            let data_type = schema.field_with_name(name).unwrap().data_type();
            lit(datafusion::common::ScalarValue::new_zero(data_type)
                .or_else(|_| {
                    datafusion::common::ScalarValue::try_from_string("a".to_owned(), data_type)
                })
                .unwrap())
        };
        let compared =
            |name: &str, op| binary(col(name, &schema).unwrap(), op, zero(name), &schema).unwrap();
        let date = lit(datafusion::common::ScalarValue::Date32(Some(0)));
        let day = binary(col("d", &schema).unwrap(), Operator::GtEq, date, &schema).unwrap();
        let among = |negated: &bool| {
            let list = vec![zero("i")];
            in_list(col("i", &schema).unwrap(), list, negated, &schema).unwrap()
        };
        let sound = [
            compared("i", Operator::Lt),
            compared("n", Operator::Eq),
            binary(zero("i"), Operator::Gt, col("i", &schema).unwrap(), &schema).unwrap(),
            day,
            among(&false),
        ];
        let column = |name| col(name, &schema).unwrap();
        let others = [
            compared("f", Operator::Lt),
            compared("s", Operator::Eq),
            compared("u", Operator::Lt),
            compared("b", Operator::Lt),
            compared("m", Operator::Lt),
            compared("i", Operator::NotEq),
            compared("i", Operator::IsDistinctFrom),
            among(&true),
            is_not_null(column("i")).unwrap(),
            not(compared("i", Operator::Lt)).unwrap(),
            binary(column("i"), Operator::Lt, column("i"), &schema).unwrap(),
            binary(compared("i", Operator::Lt), Operator::Or, compared("n", Operator::Lt), &schema)
                .unwrap(),
        ];
        for filter in &sound {
            assert!(may_prune(filter, &schema), "{filter}");
        }
        for filter in &others {
            assert!(!may_prune(filter, &schema), "{filter}");
        }
        let rows = Arc::new(MemTable::try_new(Arc::clone(&schema), vec![Vec::new()]).unwrap());
        let all: Vec<_> = sound.iter().chain(&others).cloned().collect();
        for (table, passed) in [
            (PrivateTable::new("t", Arc::clone(&rows) as _), 0),
            (PrivateTable::new("t", rows).pruned(), sound.len()),
        ] {
            let scan = table.scan(&SessionContext::new().state(), None, &[], None).await.unwrap();
            let phase = FilterPushdownPhase::Pre;
            let description = scan
                .gather_filters_for_pushdown(phase, all.clone(), &ConfigOptions::new())
                .unwrap();
            assert_eq!(description.self_filters()[0].len(), passed);
            let none = description.parent_filters().concat();
            assert!(none.iter().all(|f| matches!(f.discriminant, PushedDown::No)));
        }
    }
}
