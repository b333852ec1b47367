//! The line from a text to a release, over one private table that a test makes.
//!
//! In: a table's columns, what is declared of them, rows, a statement. Out: its release, to be
//! drawn from again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::datasource::{MemTable, provider_as_source};
use hushql_engine::analysis::{Lookups, analyze};
use hushql_engine::bind::bind;
use hushql_engine::dialect::{Statement, parse};
use hushql_engine::exec::{PlannedTables, PrivateTable, session_state};
use hushql_engine::release::{Release, choose};
use hushql_vault::catalog::{Budget, Column, Domain, Privacy, Source, Table};
use hushql_vault::ledger::Vault;

/// A registered table of these columns, each with the domain that is given for its name.
pub fn table(
    name: &str,
    schema: &Schema,
    privacy: Privacy,
    domain: impl Fn(&str) -> Option<Domain>,
) -> Table {
    let columns = schema.fields().iter().map(|field| Column {
        name: field.name().clone(),
        data_type: field.data_type().to_string(),
        nullable: field.is_nullable(),
        domain: domain(field.name()),
        zone: None,
    });
    let columns = columns.collect();
    Table { name: name.to_owned(), source: Source::Registered, privacy, columns }
}

pub fn listed(values: &[&str]) -> Option<Domain> {
    Some(Domain::In(values.iter().map(|value| Some((*value).to_owned())).collect()))
}

pub fn between(lo: &str, hi: &str) -> Option<Domain> {
    let or_null = lo.starts_with('-');
    Some(Domain::Between { lo: lo.to_owned(), hi: hi.to_owned(), step: None, or_null })
}

/// The release of a query that names this private table only, and public ones in its clauses.
pub fn release(sql: &str, table: &Table, rows: Vec<RecordBatch>, lookups: &Lookups) -> Release {
    release_under(sql, table, rows, lookups, &[])
}

/// The same under budgets of the table.
pub fn release_under(
    sql: &str,
    table: &Table,
    rows: Vec<RecordBatch>,
    lookups: &Lookups,
    budgets: &[Budget],
) -> Release {
    let rows = Arc::new(MemTable::try_new(rows[0].schema(), vec![rows]).unwrap());
    release_over(sql, table, rows, lookups, budgets)
}

/// The same over rows that may change from run to run.
pub fn release_over(
    sql: &str,
    table: &Table,
    rows: Arc<dyn TableProvider>,
    lookups: &Lookups,
    budgets: &[Budget],
) -> Release {
    let Ok(Statement::Query(query)) = parse(sql) else { panic!("{sql}: {:?}", parse(sql)) };
    let vault = Vault::in_memory().unwrap();
    vault.create_table(table).unwrap();
    for budget in budgets {
        vault.create_budget(budget).unwrap();
    }
    let catalog = vault.catalog().unwrap();
    let name = &table.name;
    let source = provider_as_source(Arc::new(PrivateTable::new(name, rows)));
    let sources = BTreeMap::from([(name.clone(), source)]);
    let bound = bind(query, &sources).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let state = session_state();
    let tables = PlannedTables { sources: &sources, catalog: &catalog, state: &state };
    let analysis = analyze(&bound, &catalog, lookups, &tables);
    let analysis = analysis.unwrap_or_else(|e| panic!("{sql}: {e}"));
    choose(analysis, &catalog).unwrap_or_else(|e| panic!("{sql}: {e}"))
}
