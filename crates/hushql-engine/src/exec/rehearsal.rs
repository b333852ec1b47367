//! A rehearsal: the public plan runs over one harmless row of each table, before the charge.
//!
//! In: the plan above the releases, in which calls that fail on a value are NULL there. Out:
//! nothing, or DataFusion's error. Whatever still fails would fail for every release: a fraction
//! beyond 1, a position 0, a type that an aggregate does not support. Such a query would be charged
//! and not answered.
//!
//! ```text
//! SELECT nth_value(n, 0) OVER (ORDER BY n) FROM (…)      fails over any row: refused, and nothing is charged
//! ```
//!
//! # Guarantee
//! No table is read: neither a person's rows nor those of a public table decide.

use std::fmt;
use std::sync::Arc;

use ::datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use ::datafusion::common::{DataFusionError, Result, ScalarValue};
use ::datafusion::datasource::{MemTable, provider_as_source};
use ::datafusion::execution::SessionState;
use ::datafusion::logical_expr::{LogicalPlan, TableScanBuilder};
use ::datafusion::physical_plan::collect;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};

/// The reason why a query fails for every release.
#[derive(Debug)]
pub(crate) struct FailsOnAnyRow(pub(crate) String);

impl fmt::Display for FailsOnAnyRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FailsOnAnyRow {}

/// The failed rehearsal, if it caused an error of planning.
pub(crate) fn fails_on_any_row(error: &DataFusionError) -> Option<&FailsOnAnyRow> {
    let DataFusionError::External(inner) = error.find_root() else { return None };
    inner.downcast_ref()
}

/// Runs a plan over one row of each table, if it has parts that can refuse their arguments.
///
/// # Errors
/// [`FailsOnAnyRow`].
pub(super) async fn rehearse(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    if !is_needed(plan)? {
        return Ok(());
    }
    let over_one_row = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let source = provider_as_source(Arc::new(one_row(scan.projected_schema.as_arrow())?));
        let scan = TableScanBuilder::new(scan.table_name.clone(), source).build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    let planned = state.create_physical_plan(&over_one_row.data).await?;
    match collect(planned, state.task_ctx()).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = error.find_root().strip_backtrace();
            let sentence = why.lines().next().unwrap_or_default();
            let sentence = sentence.rsplit(" error: ").next().unwrap_or_default();
            Err(DataFusionError::External(Box::new(FailsOnAnyRow(sentence.to_owned()))))
        }
    }
}

/// Whether a plan has aggregates or windows. Nothing else tries their arguments.
fn is_needed(plan: &LogicalPlan) -> Result<bool> {
    let mut needed = false;
    plan.apply_with_subqueries(|node| {
        needed |= matches!(
            node,
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_)
        );
        Ok(if needed { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(needed)
}

/// A table of one row: the number one, the empty text, the first moment of 1970; NULL for types
/// without such a value.
fn one_row(schema: &Schema) -> Result<MemTable> {
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let data_type = field.data_type();
        let value = match data_type {
            number if number.is_numeric() => ScalarValue::new_one(number),
            other => ScalarValue::new_default(other),
        };
        let value = value.or_else(|_| ScalarValue::try_new_null(data_type))?;
        fields.push(Field::new(field.name(), data_type.clone(), true));
        columns.push(value.to_array()?);
    }
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
    MemTable::try_new(schema, vec![vec![batch]])
}
