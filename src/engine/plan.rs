//! Stages 2 to 5 of a query's life, up to its charge: nothing is paid for, and no row of a person is read.
//!
//! In: a statement, and the session in which public rows are read while it is planned. Out: what it releases, costs and runs.
//! All of it has a thread of its own, under the statement's clock.
//!
//! ```text
//! QueryStatement ─▶ bind ─▶ look up ─▶ analyze ─▶ choose ─▶ quote ─▶ prepare ─▶ Ready
//! ```

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::execution::SessionState;

use super::range::Proposal;
use super::unplanned::unplanned;
use super::{Inner, show};
use crate::analysis::outcome::Analysis;
use crate::analysis::{Lookups, analyze};
use crate::bind::{Bound, bind};
use crate::catalog::{Catalog, Table};
use crate::dialect::{ColumnName, QueryStatement};
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::OpenFiles;
use crate::exec::{self, PlannedTables, Planning, Prepared};
use crate::explain::threshold_ledger_texts;
use crate::ledger::{ChargeEntry, ChargeRequest, VaultError, plan_hash};
use crate::privacy::{Cost, Notion};
use crate::release::record::ledger_texts;
use crate::release::{Drawn, Release, choose};
use crate::resources::Clock;
use crate::views;

/// A query that waits to be paid for.
pub(super) struct Ready {
    pub(super) planned: Planned,
    /// What is asked of the ledger; `None` for what is free.
    pub(super) request: Option<ChargeRequest>,
    pub(super) prepared: Prepared,
}

impl Session {
    /// The session of DataFusion in which one statement is planned and run.
    pub(super) fn state(&self, clock: &Clock) -> SessionState {
        let Inner { state, resources, .. } = &*self.inner;
        Planning::new(clock.deadline(), resources.rows_of_a_unit).within(state)
    }

    /// Everything before the charge. `prepare` may wait, on this runtime.
    pub(super) fn ready(
        &self,
        query: QueryStatement,
        state: &SessionState,
        runtime: Option<tokio::runtime::Handle>,
    ) -> Result<Ready, Error> {
        let planned = self.plan(query, state)?;
        let request = self.request(&planned)?.map(|(request, _)| request);
        if let Some(request) = &request {
            self.inner.vault.quote(request)?;
        }
        self.check_files(&planned)?;
        let preparing = exec::prepare(&planned.release, state);
        let prepared = match runtime {
            Some(runtime) => runtime.block_on(preparing),
            None => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map_err(|_| Error::Internal)?.block_on(preparing)
            }
        };
        let prepared = prepared.map_err(|error| unplanned(&planned.release, &error))?;
        self.inner.resources.check_memory(prepared.memory())?;
        Ok(Ready { planned, request, prepared })
    }

    /// Stages 2 to 4, on one state of the declarations.
    ///
    /// # Guarantee
    /// Public tables that were read for the plan (keys, priors, how often a join multiplies) were public when they had
    /// been read: what the plan or a refusal says of their values may be said.
    pub(super) fn plan(
        &self,
        query: QueryStatement,
        state: &SessionState,
    ) -> Result<Planned, Error> {
        let catalog = self.inner.vault.catalog()?;
        let planned = self.plan_with(query, Arc::clone(&catalog), state);
        match self.inner.vault.catalog()?.version().is(&catalog.version()) {
            true => planned,
            false => Err(VaultError::Redeclared.into()),
        }
    }

    /// Stages 2 to 4, with these declarations.
    fn plan_with(
        &self,
        query: QueryStatement,
        mut catalog: Arc<Catalog>,
        state: &SessionState,
    ) -> Result<Planned, Error> {
        self.inner.resources.statement.check_tree(&query.tree)?;
        let range_of = query.range_of.clone();
        if let Some(ColumnName { table, column }) = &range_of {
            views::refuse_range(&catalog, table)?;
            // What was declared of the values would answer in their place.
            catalog = Arc::new(catalog.without_domain(table, column));
        }
        let open = self.inner.open_files();
        let inner = &self.inner;
        let sources = inner.sources(&query.tree, &catalog, &self.analyst, &open)?;
        let over = views::named(&query.tree, &catalog);
        let bound: Bound = bind(query, &sources).map_err(|e| show::suggesting(e, &catalog))?;
        let (lookups, looked_up) = self.look_up(&bound, &catalog, &open, state)?;
        let tables = PlannedTables { sources: &sources, catalog: &catalog, state };
        let analysis: Analysis = analyze(&bound, &catalog, &lookups, &tables)
            .map_err(|refusal| refusal.over_views(&over))?;
        self.inner.resources.check_keys(&analysis)?;
        let release: Release = choose(analysis, &catalog)?;
        let proposal = range_of.map(|column| self.proposal(&release, column, &catalog, &open));
        Ok(Planned { proposal: proposal.transpose()?, release, looked_up, catalog, open })
    }

    /// How the answer to `ANALYZE PRIVACY DOMAIN` is read off its histogram.
    fn proposal(
        &self,
        release: &Release,
        column: ColumnName,
        catalog: &Catalog,
        open: &Arc<OpenFiles>,
    ) -> Result<Proposal, Error> {
        let table = catalog.table(&column.table).ok_or(Error::Internal)?;
        let provider = self.inner.provider(table, open).ok_or(Error::Internal)?;
        let schema = provider.schema();
        let field = schema.field_with_name(&column.column).map_err(|_| Error::Internal)?;
        Proposal::of(release, column, field.data_type().clone()).ok_or(Error::Internal)
    }

    /// The public tables that clauses name, read before the analysis, and their names.
    fn look_up(
        &self,
        bound: &Bound,
        catalog: &Catalog,
        open: &Arc<OpenFiles>,
        state: &SessionState,
    ) -> Result<(Lookups, Vec<String>), Error> {
        let (mut lookups, mut names) = (Lookups::default(), Vec::new());
        for lookup in Lookups::needed(bound.releases(), catalog)? {
            let table = catalog.table(&lookup.table).ok_or(Error::Internal)?;
            let values = self.read_public(table, &lookup.columns, open, state)?;
            names.push(lookup.table.clone());
            lookups.insert(lookup, values);
        }
        Ok((lookups, names))
    }

    fn read_public(
        &self,
        table: &Table,
        columns: &[String],
        open: &Arc<OpenFiles>,
        state: &SessionState,
    ) -> Result<Vec<ArrayRef>, Error> {
        open.check(table)?;
        let provider = self.inner.provider(table, open).ok_or(Error::Internal)?;
        exec::columns_of_public(provider, columns, state)
            .map_err(|_| Error::catalog(format!("`{}` cannot be read", table.name)))
    }

    /// What a release asks of the ledger; `None` for a query that releases nothing.
    pub(super) fn request(
        &self,
        planned: &Planned,
    ) -> Result<Option<(ChargeRequest, Cost)>, Error> {
        let Planned { release, catalog, .. } = planned;
        let mut entries = Vec::new();
        let mut cost = Cost::zero();
        for drawn in release.draws() {
            let (mechanism, parameters, sensitivity) = match drawn {
                Drawn::Measure(measure, mechanized) => ledger_texts(measure, mechanized),
                Drawn::Threshold(hidden, loss) => threshold_ledger_texts(hidden, loss),
            };
            let loss = drawn.loss().clone();
            cost = cost.plus(Cost::round_up(&loss)?)?;
            entries.push(ChargeEntry { mechanism, parameters, sensitivity, loss });
        }
        if entries.is_empty() {
            return Ok(None);
        }
        self.inner.resources.check_cost(cost)?;
        let spaces = release.spaces();
        let plan_hash = plan_hash(&release.plan_text());
        let analyst = self.analyst.clone();
        let counts: Vec<Notion> = spaces
            .iter()
            .flat_map(|space| catalog.budgets_of(space))
            .map(|budget| budget.limit.notion)
            .collect();
        let cost = cost.counted_in(&counts);
        // Whoever charges it knows how it was written.
        let statement = String::new();
        let catalog = Arc::clone(catalog);
        let request = ChargeRequest { analyst, plan_hash, statement, entries, spaces, catalog };
        Ok(Some((request, cost)))
    }

    /// A file that is no longer the declared one is refused before anything is charged.
    fn check_files(&self, planned: &Planned) -> Result<(), Error> {
        for part in planned.release.analysis().parts() {
            for name in part.subject().tables() {
                planned.open.check(planned.catalog.table(name).ok_or(Error::Internal)?)?;
            }
            // What was read while the query was planned is no file any more.
            for table in part.public().iter().filter_map(|name| planned.catalog.table(name)) {
                planned.open.check(table)?;
            }
        }
        for table in remaining_tables(planned.release.analysis(), &planned.catalog) {
            planned.open.check(table)?;
        }
        Ok(())
    }
}

/// A query that is analyzed and calibrated, and what it was planned with.
pub(super) struct Planned {
    pub(super) release: Release,
    /// Where a range is asked for.
    pub(super) proposal: Option<Proposal>,
    /// The public tables that were read while it was planned.
    pub(super) looked_up: Vec<String>,
    pub(super) catalog: Arc<Catalog>,
    /// The files that were and will be read.
    pub(super) open: Arc<OpenFiles>,
}

impl Planned {
    /// Every public table whose rows the query reads, or its plan has read.
    pub(super) fn public_tables(&self) -> impl Iterator<Item = &Table> {
        let parts = self.release.analysis().parts().iter().flat_map(|part| part.public());
        let named = parts.chain(&self.looked_up).filter_map(|name| self.catalog.table(name));
        remaining_tables(self.release.analysis(), &self.catalog).chain(named)
    }
}

/// The public tables that the remainder reads.
fn remaining_tables<'a>(
    analysis: &'a Analysis,
    catalog: &'a Catalog,
) -> impl Iterator<Item = &'a Table> {
    let mut names = Vec::new();
    let _ = analysis.public_plan().apply_with_subqueries(|node| {
        if let datafusion::logical_expr::LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.table().to_owned());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    names.into_iter().filter_map(|name| catalog.table(&name))
}
