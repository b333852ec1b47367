//! The tables and views that a query may name, as sources for the planner.
//!
//! In: a query, the catalog, and the registered or declared tables. Out: a source for each table,
//! for each view that the query reads, and for the ledger if the query reads it. The names in the
//! query, as `bind` resolves them, decide what the query reads. Only this file marks tables that
//! are not public as private.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::provider_as_source;
use sqlparser::ast as sql;

use super::Views;
use crate::analysis::Lookups;
use crate::bind::names::tables_named;
use crate::bind::sources::{LEDGER, Sources};
use crate::catalog::{Catalog, FileFormat, Source, Unit};
use crate::dialect::{Size, Statement, parse, parse_unvalued};
use crate::error::Error;
use crate::exec::source as files;
use crate::exec::source::OpenFiles;
use crate::exec::{LedgerSight, LedgerTable, PrivateTable};
use crate::instance::Inner;
use crate::instance::entry_numbers::is_apart;
use crate::refusal::{Reason, Refusal};

/// The number of rows that the planner of joins assumes for a unit of a table without MAX ROWS.
const UNBOUNDED: u32 = 1_000;

impl Inner {
    /// The tables that a query may name and the views that it names, as sources for the planner.
    /// Private tables are marked as private.
    pub(crate) fn sources(
        &self,
        query: &sql::Query,
        catalog: &Catalog,
        reader: &str,
        open: &Arc<OpenFiles>,
    ) -> Result<Sources, Error> {
        let named = tables_named(query);
        let views = Views::for_query(query, catalog, &self.resources.statement)?;
        let mut sources: Sources = BTreeMap::new();
        for table in catalog.shared_tables() {
            let Some(provider) = self.provider(table, open) else { continue };
            let provider: Arc<dyn TableProvider> = if table.is_public() {
                provider
            } else {
                let rows =
                    table.unit().and_then(Unit::max_rows).and_then(|n| u32::try_from(n).ok());
                let mut private = PrivateTable::new(&table.name, provider)
                    .with_rows_of_a_unit(rows.unwrap_or(UNBOUNDED));
                private = match files::pinned(table, open) {
                    Some(file) => private.in_file(file),
                    None => private,
                };
                if let Source::File { files, .. } = &table.source {
                    let (open, table) = (Arc::clone(open), Arc::clone(table));
                    private = private.on_damage(Arc::new(move || open.found_damaged(&table)));
                    if files.is_some() {
                        private = private.listed_when_paid();
                    }
                }
                if files::is_read_elsewhere(table) {
                    private = private.read_elsewhere();
                }
                match &table.source {
                    Source::File { format: FileFormat::Parquet, .. } => Arc::new(private.pruned()),
                    Source::File { .. }
                    | Source::Postgres { .. }
                    | Source::Registered
                    | Source::Released { .. } => Arc::new(private),
                }
            };
            sources.insert(table.name.clone(), provider_as_source(provider));
        }
        if named.iter().any(|name| name == LEDGER) || views.read_table(LEDGER) {
            let ledger = LedgerTable::for_reader(&self.vault, reader, is_apart(catalog, reader))?;
            let catalog = Arc::new(catalog.clone());
            let ledger = ledger.within(LedgerSight { catalog, names_only });
            sources.insert(LEDGER.to_owned(), provider_as_source(Arc::new(ledger)));
        }
        refuse_system_tables(&named)?;
        views.plan_into(&mut sources)?;
        Ok(sources)
    }
}

/// Whether every table that a statement names exists in this catalog: in its queries, and in the
/// clauses of its releases. False for a text that cannot be read.
fn names_only(statement: &str, catalog: &Catalog) -> bool {
    // Texts with parameters are kept as they were written, with the values below.
    let size = Size::default();
    let query = match parse(statement).or_else(|_| parse_unvalued(statement, &size)) {
        Ok(Statement::Query(query)) => query,
        Ok(Statement::Copy { query, .. } | Statement::CreateReleaseTable { query, .. }) => *query,
        Ok(Statement::CreateSyntheticTable(statement)) => statement.query,
        Ok(_) | Err(_) => return false,
    };
    let called = query.template.as_ref().filter(|call| catalog.template(&call.name).is_some());
    let exists = |name: &String| {
        let is_called = called.is_some_and(|call| call.name == *name);
        let is_read = catalog.table(name).is_some() || catalog.view(name).is_some();
        name == LEDGER || is_called || is_read
    };
    tables_named(&query.tree).iter().all(exists)
        && Lookups::needed(&query.releases, catalog).is_ok()
}

/// Refuses DataFusion's own catalogs, which would reveal settings and paths. SHOW shows ours.
fn refuse_system_tables(named: &[String]) -> Result<(), Error> {
    match named.iter().find(|name| name.starts_with("information_schema.")) {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            Reason::SystemTable,
            name,
            "there is no information schema",
            "SHOW TABLES, DESCRIBE table, SHOW PRIVACY, SELECT * FROM hushql.ledger",
        )
        .into()),
    }
}
