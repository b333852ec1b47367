//! Answers the queries of clients on PostgreSQL's catalog: about their role, the database and its
//! tables.
//!
//! In: a query. Out: its answer, if it names only relations of PostgreSQL's catalog, or no relation
//! and a function on the session. Any other query goes to the engine, which refuses unknown names.
//! The answers follow from declarations alone, and nothing is charged. From here, no query reaches
//! rows of tables: this is a small engine of its own, over rows that it generates from
//! declarations.
//!
//! DataFusion over tables in memory answered only 36 of 61 recorded queries, and needs features
//! that would widen the language of private queries. Casts to `regclass`, recursion within a CASE
//! (asyncpg) and subscripts of function results (JDBC, Grafana) are interpreted here one row at a
//! time, with limits on steps, cells and depth.
//!
//! ```text
//! words ─▶ sqlparser ─▶ select (compile) ─▶ plan (node) ─▶ rows of relations
//! SELECT current_schema()                                →   public
//! SELECT relname FROM pg_class WHERE relkind = 'r'       →   the tables
//! SELECT count(*) FROM pg_class, people                  →   the engine's to refuse
//! ```

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hushql::Value;
use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use self::compile::{Compiler, MOST_EXPRESSIONS};
use self::datum::{CatalogType, Datum, Unknown};
use self::node::{Env, Steps, SubqueryRows};
use self::plan::CatalogQuery;
use self::relations::World;
use self::select::Within;
use super::client::{Desk, Failed};
use super::encode::EncodedTable;
use super::statement_kind::{SETTINGS, VERSION};

mod compile;
mod datum;
mod functions;
mod named;
mod node;
mod plan;
mod relations;
mod select;
#[cfg(test)]
mod tests;
mod types;

/// The name of the only database.
pub(super) const DATABASE: &str = "hushql";

/// The most bytes of a query on the catalog, and the stack size for it.
const LONGEST: usize = 64 << 10;
const STACK: usize = 64 << 20;

/// A query on the catalog contains at least one of these words.
const SIGNS: [&str; 9] = [
    "pg_",
    "information_schema",
    "current_",
    "version",
    "session_user",
    "user",
    "has_",
    "regtype",
    "to_reg",
];

/// The answer to a query of a tool, with values for its parameters; `None` if it is not about the
/// catalog.
///
/// # Errors
/// The errors of the vault.
pub(super) fn answer(
    desk: &Desk,
    sql: &str,
    values: &[Value],
) -> Result<Option<EncodedTable>, Failed> {
    let Some(world) = world(desk, sql)? else { return Ok(None) };
    Ok(with_room(|| asked(&world, sql, values)))
}

/// The columns of the answer to a query with these values.
///
/// # Errors
/// As [`answer`].
pub(super) fn columns(
    desk: &Desk,
    sql: &str,
    values: &[Value],
) -> Result<Option<SchemaRef>, Failed> {
    let Some(world) = world(desk, sql)? else { return Ok(None) };
    let plan = with_room(|| Some(schema(&compiled(&world, sql, values).ok()?)));
    Ok(plan)
}

/// Runs on a stack that is deep enough for every query of the allowed length.
fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, work)
}

/// The data that the catalog is generated from, for a query that may be about it.
fn world(desk: &Desk, sql: &str) -> Result<Option<World>, Failed> {
    let lower = sql.to_ascii_lowercase();
    if sql.len() > LONGEST || !SIGNS.iter().any(|sign| lower.contains(sign)) {
        return Ok(None);
    }
    let settings = SETTINGS.iter().map(|(name, _)| ((*name).to_owned(), desk.setting(name)));
    Ok(Some(World {
        tables: desk.session.schemas()?,
        role: desk.role.clone().unwrap_or_else(|| "owner".to_owned()),
        database: DATABASE,
        version: VERSION.to_owned(),
        process: desk.seat.process,
        settings: settings.collect(),
    }))
}

/// The plan of a query on the catalog.
fn compiled(world: &World, sql: &str, values: &[Value]) -> Result<CatalogQuery, Unknown> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|_| Unknown)?;
    let [Statement::Query(query)] = statements.as_slice() else { return Err(Unknown) };
    let within = Within::new();
    let (touched, left) = (Cell::new(false), Cell::new(MOST_EXPRESSIONS));
    let compiler = Compiler { world, values, queries: &within, touched: &touched, left: &left };
    let plan = within.plan(&compiler, query, None)?;
    if touched.get() { Ok(plan) } else { Err(Unknown) }
}

/// The answer to a query on the catalog.
fn asked(world: &World, sql: &str, values: &[Value]) -> Option<EncodedTable> {
    let plan = compiled(world, sql, values).ok()?;
    let steps = Steps::new();
    let env = Env { world, steps: &steps, row: &[], aggregates: &[], outer: None };
    let rows = plan.rows(&env).ok()?;
    table(&plan, &rows)
}

fn schema(plan: &CatalogQuery) -> SchemaRef {
    let fields = plan.columns.iter().map(|(name, kind)| {
        let data_type = match kind {
            CatalogType::Bool => DataType::Boolean,
            CatalogType::Int => DataType::Int64,
            CatalogType::Text => DataType::Utf8,
        };
        Field::new(name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows as Arrow batches; `None` if a value does not have the declared type.
fn table(plan: &CatalogQuery, rows: &[Vec<Datum>]) -> Option<EncodedTable> {
    let schema = schema(plan);
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (at, (_, kind)) in plan.columns.iter().enumerate() {
        let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Datum::Null));
        columns.push(match kind {
            CatalogType::Bool => {
                let one =
                    |cell: &Datum| if cell.is_null() { Some(None) } else { cell.truth().map(Some) };
                Arc::new(cells.map(one).collect::<Option<BooleanArray>>()?)
            }
            CatalogType::Int => {
                let one =
                    |cell: &Datum| if cell.is_null() { Some(None) } else { cell.int().map(Some) };
                Arc::new(cells.map(one).collect::<Option<Int64Array>>()?)
            }
            CatalogType::Text => Arc::new(cells.map(Datum::text).collect::<StringArray>()),
        });
    }
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).ok()?;
    Some(EncodedTable { schema, batches: vec![batch] })
}
