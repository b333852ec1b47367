//! Stage 2 of a query: its names and types.
//!
//! In: a statement, and the declarations. Out: a [`BoundQuery`]: the planner's tree over the tables
//! and views that the statement names, with private tables marked.

use super::declared::DeclaredState;
use crate::bind::sources::Sources;
use crate::bind::{Bound, Unbound, bind};
use crate::dialect::{ColumnName, QueryStatement};
use crate::engine::session::Session;
use crate::error::Error;
use crate::instance::table_names::suggesting;
use crate::views;

/// A query whose names and types are resolved; only [`Session::bind`] makes one.
pub(crate) struct BoundQuery {
    pub(super) bound: Bound,
    pub(super) sources: Sources,
    /// The views that the query names.
    pub(super) views: Vec<String>,
    /// The column whose range the query asks for.
    pub(super) range_of: Option<ColumnName>,
    pub(super) declared: DeclaredState,
    /// What to say beside the answer.
    pub(super) note: Option<String>,
}

impl Session {
    /// Resolves names and types.
    pub(crate) fn bind(
        &self,
        query: QueryStatement,
        mut declared: DeclaredState,
    ) -> Result<BoundQuery, Error> {
        self.inner.resources.statement.check_tree(&query.tree)?;
        let range_of = query.range_of.clone();
        if let Some(ColumnName { table, column }) = &range_of {
            views::refuse_range(&declared.catalog, table)?;
            // Otherwise, a declared domain would determine the answer.
            declared.catalog = declared.catalog.without_domain(table, column);
        }
        let DeclaredState { catalog, open, template: _, rules: _ } = &declared;
        let sources = self.inner.sources(&query.tree, catalog, &self.analyst, open)?;
        let views = views::named(&query.tree, catalog);
        let bound = bind(query, &sources).map_err(|error| match error {
            Unbound::Mistake(mistake) => Error::Bind(suggesting(mistake, catalog)),
            Unbound::Refused(refusal) => Error::Refused(refusal.over_views(&views)),
        })?;
        Ok(BoundQuery { bound, sources, views, range_of, declared, note: None })
    }
}
