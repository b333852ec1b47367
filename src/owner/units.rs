//! Declaring whom a table is about: the checks, and what is verified on files.
//!
//! In: a unit clause from an owner's session. Out: a [`Unit`] that the catalog keeps. Columns that name a person,
//! or lead to one, exist, have the same comparable types on either side, and carry no domain; a chain of links
//! ends at a column that names the person. Of files, MAX ROWS is verified once, so that
//! an owner hears at once that a declaration would drop rows; every plan enforces it again. That what a link leads
//! to is unique is verified too, on whatever holds the rows. Of a file it stays so, for the file is held to what it
//! was; of other tables it may be wrong later, and no claim rests on it: see `resolved` in `crate::analysis`.
//!
//! ```text
//! lineitem VIA (l_orderkey) → orders(o_orderkey) VIA (o_custkey) → customer(c_custkey)      space: customer
//! ```

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Column as PlanColumn;
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, col, lit};

use crate::catalog::{Catalog, Fingerprint, Link, Source, Table, Unit};
use crate::dialect::UnitClause;
use crate::engine::Inner;
use crate::engine::show::known;
use crate::error::Error;
use crate::exec::exact_rows;
use crate::exec::source::{OpenFiles, hashes_content};
use crate::owner::columns::{column_of, data_type};

/// The unit that a clause declares for a table, checked against the catalog.
pub(super) fn checked(
    catalog: &Catalog,
    table: &Table,
    clause: &UnitClause,
) -> Result<Unit, Error> {
    let unit = match clause {
        UnitClause::Row => Unit::Row,
        UnitClause::Column { column, unique, max_rows } => {
            comparable(table, column)?;
            Unit::Column { column: column.clone(), max_rows: *max_rows, unique: *unique }
        }
        UnitClause::Via { columns, table: to, references, max_rows } => {
            linked(catalog, table, columns, to, references)?;
            Unit::Via(Link {
                columns: columns.clone(),
                table: to.clone(),
                references: references.clone(),
                max_rows: *max_rows,
            })
        }
    };
    keeps_links(catalog, table, &unit)?;
    Ok(unit)
}

/// Checks a link.
fn linked(
    catalog: &Catalog,
    table: &Table,
    columns: &[String],
    to: &str,
    references: &[String],
) -> Result<(), Error> {
    let target = known(catalog, to)?;
    let root = catalog.root(to).map(|(root, _)| root);
    let named = root.filter(|root| matches!(root.unit(), Some(Unit::Column { .. })));
    let Some(root) = named else {
        return Err(Error::catalog(format!(
            "{to} does not lead to a column that names a person: ALTER TABLE {to} SET PRIVACY UNIT (column) first"
        )));
    };
    if root.name == table.name || to == table.name {
        return Err(Error::catalog(format!("the chain of {} leads in a circle", table.name)));
    }
    for (column, reference) in columns.iter().zip(references) {
        comparable(table, column)?;
        comparable(target, reference)?;
        let (from, into) =
            (data_type(column_of(table, column)?)?, data_type(column_of(target, reference)?)?);
        if from != into {
            return Err(Error::catalog(format!(
                "{column} of {} is of type {from}, {reference} of {to} of type {into}; a link joins equal types",
                table.name
            )));
        }
        if column_of(target, reference)?.domain.is_some() {
            return Err(Error::catalog(format!(
                "{reference} of {to} has a domain, and what a link leads to has none: ALTER TABLE {to} ALTER COLUMN {reference} DROP PRIVACY DOMAIN"
            )));
        }
    }
    Ok(())
}

/// Units and links are compared and hashed as they are: no floats, no booleans, no domain.
fn comparable(table: &Table, column: &str) -> Result<(), Error> {
    let data_type = data_type(column_of(table, column)?)?;
    let allowed = data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Decimal128(..)
        );
    if !allowed {
        return Err(Error::catalog(format!(
            "a unit is named by an integer, string, date or decimal, not by {column} of type {data_type}"
        )));
    }
    Ok(())
}

/// Tables that lead through this one keep their unit space.
fn keeps_links(catalog: &Catalog, table: &Table, unit: &Unit) -> Result<(), Error> {
    let space = match unit {
        Unit::Row => None,
        Unit::Column { .. } => Some(table.name.as_str()),
        Unit::Via(link) => catalog.space(&link.table),
    };
    match catalog.referring(&table.name).find(|other| catalog.space(&other.name) != space) {
        Some(other) => Err(referred(table, &other.name)),
        None => Ok(()),
    }
}

/// Refuses to take the unit of a table away while others lead through it.
pub(super) fn nothing_leads_through(catalog: &Catalog, table: &str) -> Result<(), Error> {
    match catalog.referring(table).next() {
        Some(other) => Err(referred(known(catalog, table)?, &other.name)),
        None => Ok(()),
    }
}

fn referred(table: &Table, other: &str) -> Error {
    Error::catalog(format!(
        "{other} reaches its unit through {}; ALTER TABLE {other} DROP PRIVACY UNIT first",
        table.name
    ))
}

/// Refuses a domain on a column that links lead to.
pub(super) fn no_link_leads_to(catalog: &Catalog, table: &str, column: &str) -> Result<(), Error> {
    let leads = |other: &&Table| {
        let link = other.unit().and_then(Unit::link);
        link.is_some_and(|link| link.references.iter().any(|reference| reference == column))
    };
    match catalog.referring(table).find(leads) {
        Some(other) => Err(Error::catalog(format!(
            "{} leads to {column}, and what a link leads to has no domain",
            other.name
        ))),
        None => Ok(()),
    }
}

/// Verifies on files what a unit's declaration says of them.
pub(super) async fn verified(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<(), Error> {
    if matches!(unit, Unit::Row) {
        return Ok(());
    }
    if let Some(link) = unit.link() {
        leads_to_one_row(inner, open, known(catalog, &link.table)?, &link.references).await?;
    }
    for link in catalog.referring(&table.name).filter_map(|other| other.unit()?.link()) {
        leads_to_one_row(inner, open, table, &link.references).await?;
    }
    let (Some(most), Source::File { .. }) = (unit.max_rows(), &table.source) else {
        return Ok(());
    };
    let rows = scan(inner, open, table)?;
    let (rows, person) = with_person(inner, open, catalog, table, unit, rows)?;
    if most_alike(inner, table, rows, vec![person]).await? > most {
        return Err(Error::catalog(format!(
            "a unit of {} has more than {most} rows; declare a larger MAX ROWS, or none and bound each query with rows=m",
            table.name
        )));
    }
    Ok(())
}

/// Verifies that the columns which links refer to are unique in their table.
async fn leads_to_one_row(
    inner: &Inner,
    open: &Arc<OpenFiles>,
    target: &Table,
    columns: &[String],
) -> Result<(), Error> {
    let keys = columns.iter().map(|c| qualified(&target.name, c)).collect();
    if most_alike(inner, target, scan(inner, open, target)?, keys).await? > 1 {
        return Err(Error::catalog(format!(
            "({}) of {} holds a value twice; a link leads to one row",
            columns.join(", "),
            target.name
        )));
    }
    Ok(())
}

fn qualified(table: &str, column: &str) -> Expr {
    Expr::Column(PlanColumn::new(Some(table.to_owned()), column))
}

fn unread(table: &Table, error: datafusion::common::DataFusionError) -> Error {
    Error::catalog_from(format!("the rows of {} cannot be read", table.name), error)
}

/// The rows of a table, whatever was verified of another file in its place.
fn scan(inner: &Inner, open: &Arc<OpenFiles>, table: &Table) -> Result<LogicalPlanBuilder, Error> {
    let mut anew = table.clone();
    if let Source::File { fingerprint, .. } = &mut anew.source {
        *fingerprint = None;
    }
    let provider = inner
        .provider(&anew, open)
        .ok_or_else(|| Error::catalog(format!("{} is not registered yet", table.name)))?;
    LogicalPlanBuilder::scan(table.name.as_str(), provider_as_source(provider), None)
        .map_err(|e| unread(table, e))
}

/// Rows joined along their chain, and the column that names their person.
fn with_person(
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
    let person = person.ok_or_else(|| Error::catalog("the chain names no person"))?;
    Ok((rows, person))
}

/// The largest number of rows with the same keys, none of them NULL.
async fn most_alike(
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
    let most = batches
        .iter()
        .find(|b| b.num_rows() > 0)
        .and_then(|b| b.column(0).as_primitive_opt::<Int64Type>()?.iter().next().flatten());
    Ok(most.and_then(|most| u64::try_from(most).ok()).unwrap_or(0))
}

/// The fingerprint of a table's file, where something was verified on it or the owner wants its bytes to stay.
pub(super) fn fingerprint(
    open: &OpenFiles,
    catalog: &Catalog,
    table: &Table,
    unit: &Unit,
) -> Result<Option<Fingerprint>, Error> {
    let bounded = unit.max_rows().is_some() && !matches!(unit, Unit::Row);
    let is_target = catalog.referring(&table.name).next().is_some();
    match &table.source {
        Source::File { location, options, .. } => {
            let hashes = hashes_content(options);
            let wanted = bounded || is_target || hashes;
            wanted.then(|| open.fingerprint(location)).transpose()
        }
        Source::Registered => Ok(None),
    }
}

/// The fingerprint of the file that a link leads to: it was verified that its columns are unique. Where it has one, the
/// file must be that one still.
pub(super) fn fingerprint_of_target(
    open: &OpenFiles,
    catalog: &Catalog,
    unit: &Unit,
) -> Result<Option<(String, Fingerprint)>, Error> {
    let Some(link) = unit.link() else { return Ok(None) };
    let target = known(catalog, &link.table)?;
    match &target.source {
        Source::File { location, fingerprint: None, .. } => {
            Ok(Some((target.name.clone(), open.fingerprint(location)?)))
        }
        Source::File { .. } => {
            open.check(target)?;
            match open.is_unchanged() {
                true => Ok(None),
                false => Err(Error::catalog(format!(
                    "the file of {} was changed while it was verified",
                    target.name
                ))),
            }
        }
        Source::Registered => Ok(None),
    }
}
