//! Reads the rows of a table for its owner: how many of them are alike, and how many name nobody.
//!
//! In: a table and its unit. Out: numbers that depend on the rows, for the answer to a declaration
//! alone.
//!
//! ```text
//! visits (patient): patient 10 in 3 rows, patient 7 in 1      →   at most 3 alike
//! ```

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::common::Column as PlanColumn;
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, col, lit};

use crate::catalog::{Catalog, Privacy, Source, Table, Unit};
use crate::error::Error;
use crate::exec::exact_rows;
use crate::exec::source::OpenFiles;
use crate::functions::month_unit;
use crate::instance::Inner;
use crate::instance::table_names::known;

pub(super) fn qualified(table: &str, column: &str) -> Expr {
    Expr::Column(PlanColumn::new(Some(table.to_owned()), column))
}

pub(super) fn unread(table: &Table, error: datafusion::common::DataFusionError) -> Error {
    Error::catalog_from(format!("the rows of {} cannot be read", table.name), error)
}

/// The rows of a table, whose file may differ from the verified one unless its records go over
/// several lines.
pub(super) fn scan(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    table: &Table,
) -> Result<LogicalPlanBuilder, Error> {
    let anew = match &table.source {
        Source::File { fingerprint: Some(held), .. } if held.over_lines => table.clone(),
        Source::File { .. }
        | Source::Postgres { .. }
        | Source::Registered
        // The values that the declared types cannot hold are found apart.
        | Source::Released { .. } => Table { privacy: Privacy::Undeclared, ..unverified(table) },
    };
    let provider = inner
        .provider(&Arc::new(anew), open)
        .ok_or_else(|| Error::catalog(format!("{} is not registered yet", table.name)))?;
    LogicalPlanBuilder::scan(table.name.as_str(), provider_as_source(provider), None)
        .map_err(|e| unread(table, e))
}

/// The rows joined along their chain of links, and the column that identifies their person.
pub(super) fn with_person(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
    rows: LogicalPlanBuilder,
) -> Result<(LogicalPlanBuilder, Expr), Error> {
    let mut rows = rows;
    let mut at = (table, unit);
    while let Some(link) = at.1.link() {
        let target = known(catalog, &link.table)?;
        let right = scan(inner, open, target)?.build().map_err(|e| unread(target, e))?;
        let on = link.columns.iter().zip(&link.references);
        let on = on.map(|(a, b)| qualified(&at.0.name, a).eq(qualified(&target.name, b)));
        rows = rows.join_on(right, JoinType::Inner, on).map_err(|e| unread(target, e))?;
        let next = target
            .unit()
            .ok_or_else(|| Error::catalog(format!("{} has no privacy unit", target.name)))?;
        at = (target, next);
    }
    let person = at.1.column().map(|column| qualified(&at.0.name, column));
    let person = match at.1.month() {
        Some((_, date)) => person.map(|person| month_unit(person, qualified(&at.0.name, date))),
        None => person,
    };
    let person = person.ok_or_else(|| Error::catalog("the chain does not identify a person"))?;
    Ok((rows, person))
}

/// The largest number of rows with the same keys. NULL keys do not count.
pub(super) async fn most_alike(
    inner: &Inner,
    table: &Table,
    rows: LogicalPlanBuilder,
    keys: Vec<Expr>,
) -> Result<u64, Error> {
    let present = keys.iter().cloned().map(Expr::is_not_null).reduce(Expr::and);
    let plan = rows
        .filter(present.unwrap_or_else(|| lit(true)))
        .and_then(|rows| rows.aggregate(keys, vec![count(lit(1)).alias("rows")]))
        .and_then(|groups| {
            groups.aggregate(Vec::<Expr>::new(), vec![max(col("rows")).alias("most")])
        })
        .and_then(LogicalPlanBuilder::build);
    let plan: LogicalPlan = plan.map_err(|e| unread(table, e))?;
    let batches = exact_rows(&plan, &inner.state).await.map_err(|e| unread(table, e))?;
    Ok(first_number(&batches))
}

/// The number in the first row; 0 if there is none.
fn first_number(batches: &[RecordBatch]) -> u64 {
    let first = batches
        .iter()
        .find(|b| b.num_rows() > 0)
        .and_then(|b| b.column(0).as_primitive_opt::<Int64Type>()?.iter().next().flatten());
    first.and_then(|first| u64::try_from(first).ok()).unwrap_or(0)
}

/// A table whose files may differ from those on which it was verified. Those of a version of a log
/// may not.
pub(super) fn unverified(table: &Table) -> Table {
    let mut anew = table.clone();
    if anew.source.version().is_some() {
        return anew;
    }
    if let Source::File { fingerprint, .. } = &mut anew.source {
        *fingerprint = None;
    }
    anew
}

/// How many rows name nobody, for the owner's answer. The number depends on the rows, so that it
/// goes there alone; empty if there are none.
pub(super) async fn unnamed(
    inner: &Inner,
    table: &Table,
    column: &str,
    rows: LogicalPlanBuilder,
    person: Expr,
) -> Result<String, Error> {
    let plan = rows
        .filter(person.is_null())
        .and_then(|rows| rows.aggregate(Vec::<Expr>::new(), vec![count(lit(1)).alias("rows")]))
        .and_then(LogicalPlanBuilder::build);
    let plan = plan.map_err(|e| unread(table, e))?;
    let batches = exact_rows(&plan, &inner.state).await.map_err(|e| unread(table, e))?;
    let name = &table.name;
    Ok(match first_number(&batches) {
        0 => String::new(),
        1 => format!(
            "; in 1 row of {name}, {column} is NULL: it belongs to nobody and is in no answer"
        ),
        rows => format!(
            "; in {rows} rows of {name}, {column} is NULL: they belong to nobody and are in no answer"
        ),
    })
}
