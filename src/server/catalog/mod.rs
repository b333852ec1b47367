//! Answers the queries of clients on PostgreSQL's catalog: about their role, the database and its
//! tables.
//!
//! In: a query. Out: its answer, if it names only relations of PostgreSQL's catalog, or no relation
//! and a function on the session. Any other query goes to the engine, which refuses unknown names.
//! The answers follow from declarations alone, and nothing is charged. From here, no query reaches
//! rows of tables: this is a small engine of its own, over rows that it generates from
//! declarations.
//!
//! Casts to `regclass`, recursion within a CASE (asyncpg) and subscripts of function results (JDBC,
//! Grafana) are interpreted one row at a time, with limits on steps, cells and depth. Decision 0015
//! (docs/decisions) says why DataFusion does not do it.
//!
//! ```text
//! words ─▶ sqlparser ─▶ select (compile) ─▶ plan (node) ─▶ rows of relations
//! SELECT current_schema()                                →   public
//! SELECT relname FROM pg_class WHERE relkind = 'r'       →   the tables
//! SELECT count(*) FROM pg_class, people                  →   the engine's to refuse
//! ```

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use hushql::Value;
use sqlparser::ast::{Query, Statement, visit_relations};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use self::compile::{Compiler, MOST_EXPRESSIONS, parts};
use self::datum::{Datum, Unanswered};
use self::met::Met;
use self::node::{Env, Steps, SubqueryRows};
use self::plan::CatalogQuery;
use self::relations::World;
use self::select::Within;
use super::client::{Desk, Failed};
use super::encode::{EncodedTable, typed_field};
use super::known_settings::{self, VERSION};
use super::settings;
use super::sqlstate::said;
use super::timestamp::timestamp_text;

mod aggregates;
mod calls;
mod compile;
mod datum;
mod described_columns;
mod functions;
mod kept_relations;
mod keywords;
mod met;
mod named;
mod node;
mod operators;
mod order;
mod plan;
mod relations;
mod rows;
mod select;
mod set_functions;
mod templates;
#[cfg(test)]
mod tests;
mod time_zones;

/// The name of the only database.
pub(super) const DATABASE: &str = "hushql";

/// The most bytes of a query on the catalog, and the stack size for it.
const LONGEST: usize = 64 << 10;
const STACK: usize = 64 << 20;

/// A query on the catalog contains at least one of these words.
const SIGNS: [&str; 14] = [
    "pg_",
    "information_schema",
    "current_",
    "version",
    "session_user",
    "user",
    "has_",
    "regtype",
    "to_reg",
    "set_config",
    "quote_ident",
    "col_description",
    "obj_description",
    "row_security_active",
];

/// The answer to a query of a tool, with values for its parameters; `None` if it is not about the
/// catalog.
///
/// # Errors
/// The errors of the vault, and a sentence for a query on the catalog that has no answer.
pub(super) fn answer(
    desk: &mut Desk,
    sql: &str,
    values: &[Value],
) -> Result<Option<EncodedTable>, Failed> {
    let Some(world) = world(desk, sql)? else { return Ok(None) };
    let found = with_room(|| asked(&world, sql, values));
    let table = answered(desk, sql, found)?;
    for (name, value) in world.configured.take() {
        settings::set(desk, &name, Some(value).filter(|value| !value.is_empty()))?;
    }
    Ok(table)
}

/// The columns of an answer, and the type of each parameter that is known.
pub(super) type CatalogColumns = (SchemaRef, Vec<Option<u32>>);

/// The columns of the answer to a query with these values, and the types that its parameters take
/// from what they are compared with.
///
/// # Errors
/// As [`answer`].
pub(super) fn columns(
    desk: &Desk,
    sql: &str,
    values: &[Value],
) -> Result<Option<CatalogColumns>, Failed> {
    let Some(world) = world(desk, sql)? else { return Ok(None) };
    let described = || {
        let met = Met::default();
        let plan = compiled(&world, sql, values, &met)?;
        Ok((schema(&plan), met.types()))
    };
    answered(desk, sql, with_room(described))
}

/// What the client gets: an answer, a sentence, or `None` if the query is the engine's.
fn answered<T>(desk: &Desk, sql: &str, found: Result<T, Unanswered>) -> Result<Option<T>, Failed> {
    let (code, message) = match found {
        Ok(found) => return Ok(Some(found)),
        Err(Unanswered::Elsewhere | Unanswered::Relation(_)) => return Ok(None),
        Err(Unanswered::Unparsed) => {
            let lower = sql.to_ascii_lowercase();
            if lower.contains("pg_") || lower.contains("information_schema") {
                desk.refused_by_catalog(sql, "this does not parse");
            }
            return Ok(None);
        }
        Err(Unanswered::Said(code, message)) => (code, message),
        Err(Unanswered::TooLong) => {
            ("54001", "this query of the catalog takes too many steps".to_owned())
        }
        Err(Unanswered::Unclear) => {
            ("0A000", "the catalog does not answer a query of this shape".to_owned())
        }
    };
    desk.refused_by_catalog(sql, &message);
    Err(said(code, message).into())
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
    let names: Vec<&str> = match lower.contains("setting") {
        true => known_settings::names().collect(),
        false => vec!["application_name", "client_encoding"],
    };
    let settings = names.into_iter().map(|name| (name.to_owned(), desk.setting(name)));
    let time = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        timestamp_text(i64::try_from(since.as_micros()).unwrap_or(0), true)
    };
    let tables = desk.session.schema_list()?;
    let role = desk.role.clone().unwrap_or_else(|| "owner".to_owned());
    Ok(Some(World {
        kept: desk.house.relations.of(&role, &tables),
        tables,
        templates: desk.session.templates()?,
        role,
        database: DATABASE,
        version: VERSION.to_owned(),
        process: desk.seat.process,
        settings: settings.collect(),
        now: time(SystemTime::now()),
        started: time(desk.house.started),
        configured: RefCell::default(),
    }))
}

/// The plan of a query on the catalog.
fn compiled(
    world: &World,
    sql: &str,
    values: &[Value],
    met: &Met,
) -> Result<CatalogQuery, Unanswered> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    let statements = statements.map_err(|_| Unanswered::Unparsed)?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return Err(Unanswered::Elsewhere);
    };
    let within = Within::new();
    let (touched, left) = (Cell::new(false), Cell::new(MOST_EXPRESSIONS));
    let compiler =
        Compiler { world, values, queries: &within, touched: &touched, left: &left, met };
    match within.plan(&compiler, query, None) {
        Ok(plan) if touched.get() => Ok(plan),
        Err(Unanswered::Relation(name)) => Err(other_table(world, query, name)),
        Err(why) if touched.get() => Err(why),
        Ok(_) | Err(_) => Err(Unanswered::Elsewhere),
    }
}

/// A query that names a relation which the catalog does not have is the engine's, unless it names
/// one of the catalog, too.
fn other_table(world: &World, query: &Query, name: String) -> Unanswered {
    let named = visit_relations(query, |relation| {
        let parts = parts(relation).unwrap_or_default();
        let (schema, bare) = match parts.as_slice() {
            [bare] => (None, bare.as_str()),
            [.., schema, bare] => (Some(schema.as_str()), bare.as_str()),
            [] => return ControlFlow::Continue(()),
        };
        let is_own = schema.is_none() && world.tables.iter().any(|table| table.name == bare);
        match !is_own && relations::relation(schema, bare).is_some() {
            true => ControlFlow::Break(bare.to_owned()),
            false => ControlFlow::Continue(()),
        }
    });
    let ControlFlow::Break(relation) = named else { return Unanswered::Relation(name) };
    let bare = name.rsplit('.').next().unwrap_or(&name);
    match world.tables.iter().any(|table| table.name == bare) {
        true => Unanswered::Said(
            "0A000",
            format!("a query reads the catalog, as {relation}, or tables, as {name}, but not both"),
        ),
        false => Unanswered::Said("42P01", format!("there is no table {name}")),
    }
}

/// The answer to a query on the catalog.
fn asked(world: &World, sql: &str, values: &[Value]) -> Result<EncodedTable, Unanswered> {
    let plan = compiled(world, sql, values, &Met::default())?;
    let steps = Steps::new();
    let env = Env { world, steps: &steps, row: &[], aggregates: &[], outer: None };
    let rows = plan.rows(&env)?;
    table(&plan, &rows)
}

/// The columns of an answer. All of them are texts; their fields say of which type.
fn schema(plan: &CatalogQuery) -> SchemaRef {
    let origins = plan.origins();
    let fields = plan.columns.iter().enumerate().map(|(at, (name, kind))| {
        let origin = origins.get(at).copied().flatten();
        typed_field(name, kind.0, origin)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows as an Arrow batch.
fn table(plan: &CatalogQuery, rows: &[Vec<Datum>]) -> Result<EncodedTable, Unanswered> {
    let schema = schema(plan);
    let columns = plan.columns.iter().enumerate().map(|(at, (_, kind))| {
        let text = |row: &Vec<Datum>| match row.get(at) {
            // A vector is written without braces.
            Some(Datum::List(list)) if matches!(kind.0, 22 | 30) => {
                Some(list.iter().filter_map(Datum::text).collect::<Vec<_>>().join(" "))
            }
            Some(value) => value.text(),
            None => None,
        };
        Arc::new(rows.iter().map(text).collect::<StringArray>()) as ArrayRef
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
    Ok(EncodedTable { schema, batches: vec![batch.map_err(|_| Unanswered::Unclear)?] })
}
