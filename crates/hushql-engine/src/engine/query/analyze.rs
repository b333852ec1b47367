//! Stage 3 of a query: what it releases, and how much one unit can change it.
//!
//! In: a [`BoundQuery`]. Out: an [`Analyzed`]. The stage first reads the public tables that the
//! query's clauses name, and during the analysis the public rows that its joins need.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::execution::SessionState;

use super::bind_query::BoundQuery;
use super::declared::DeclaredState;
use crate::analysis::{
    Analysis, Lookups, NotAnalyzed, PrivateAggregate, analyze, analyze_as_written,
};
use crate::bind::Bound;
use crate::catalog::Table;
use crate::dialect::ColumnName;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::OpenFiles;
use crate::exec::{self, PlannedTables};

/// A query that is cut into private aggregates; only [`Session::analyze`] makes one.
#[derive(Debug)]
pub(crate) struct Analyzed {
    pub(super) analysis: Analysis,
    /// The public tables that were read for its clauses.
    pub(super) looked_up: Vec<String>,
    pub(super) range_of: Option<ColumnName>,
    /// Whether it means the same at any time.
    pub(super) is_timeless: bool,
    pub(super) declared: DeclaredState,
    /// What to say beside the answer.
    pub(super) note: Option<String>,
}

/// The refusal of a query that the analysis refuses: that of a rule, if one forbids it as well,
/// because whatever is written instead would be forbidden, too.
fn ruled_out(error: NotAnalyzed, bound: &Bound, declared: &DeclaredState) -> NotAnalyzed {
    // With ManyUnits, the query may become another one, whose subquery is a release.
    if matches!(error, NotAnalyzed::Fault(_) | NotAnalyzed::ManyUnits(_)) {
        return error;
    }
    let ruled = declared.rules.refusal_as_written(bound, &declared.catalog);
    ruled.map_or(error, NotAnalyzed::from)
}

impl Session {
    /// Cuts a query into private aggregates with their sensitivity, and the public plan above them.
    pub(crate) fn analyze(
        &self,
        query: BoundQuery,
        state: &SessionState,
    ) -> Result<Analyzed, Error> {
        let BoundQuery { bound, sources, views, range_of, declared, note } = query;
        let (lookups, looked_up) = self.look_up(&bound, &declared, state)?;
        let tables = PlannedTables { sources: &sources, catalog: &declared.catalog, state };
        let analyzed = match self.declared_bounds {
            false => analyze(&bound, &declared.catalog, &lookups, &tables),
            true => analyze_as_written(&bound, &declared.catalog, &lookups, &tables),
        };
        let analysis = analyzed
            .map_err(|error| ruled_out(error, &bound, &declared))
            .map_err(|error| error.said(|refusal| refusal.over_views(&views)))?;
        self.inner.resources.check_keys(&analysis)?;
        if let Some(floor) = analysis.parts().iter().find_map(PrivateAggregate::people_floor)
            && range_of.is_some()
        {
            let why = "a range that is read from a histogram shows where few people are";
            let write = "ALTER TABLE t ALTER COLUMN x SET PRIVACY DOMAIN BETWEEN (lo, hi), with ends that anyone may know";
            return Err(floor.refusal("ANALYZE PRIVACY DOMAIN", why, write).into());
        }
        declared
            .rules
            .check_releases(&analysis, &declared.catalog)
            .map_err(|error| error.said(|refusal| refusal.over_views(&views)))?;
        let is_timeless = bound.is_timeless();
        Ok(Analyzed { analysis, looked_up, range_of, is_timeless, declared, note })
    }

    /// The contents and the names of the public tables in clauses.
    fn look_up(
        &self,
        bound: &Bound,
        declared: &DeclaredState,
        state: &SessionState,
    ) -> Result<(Lookups, Vec<String>), Error> {
        let (mut lookups, mut names) = (Lookups::default(), Vec::new());
        for lookup in Lookups::needed(bound.releases(), &declared.catalog)? {
            let table = declared.catalog.shared_table(&lookup.table).ok_or(Error::Internal)?;
            let values = self.read_public(table, &lookup.columns, &declared.open, state)?;
            names.push(lookup.table.clone());
            lookups.insert(lookup, values);
        }
        Ok((lookups, names))
    }

    /// The contents of columns of a public table.
    pub(super) fn read_public(
        &self,
        table: &Arc<Table>,
        columns: &[String],
        open: &Arc<OpenFiles>,
        state: &SessionState,
    ) -> Result<Vec<ArrayRef>, Error> {
        open.check(table)?;
        let provider = self.inner.provider(table, open).ok_or(Error::Internal)?;
        exec::columns_of_public(provider, columns, state)
            .map_err(|_| Error::catalog(format!("`{}` cannot be read", table.name)))
    }
}
