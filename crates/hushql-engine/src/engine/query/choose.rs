//! Stage 4 of a query: the mechanisms.
//!
//! In: an [`Analyzed`] query. Out: a [`Planned`] one: a mechanism for each release, its cost, its
//! predicted error, and, if the query asks for a range, how to derive the range.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use super::analyze::Analyzed;
use super::declared::{CalledTemplate, DeclaredState};
use crate::analysis::{Analysis, Measure};
use crate::catalog::{Catalog, Replay, Source, Table, TableRules};
use crate::dialect::ColumnName;
use crate::engine::range::Proposal;
use crate::engine::session::Session;
use crate::error::Error;
use crate::exec::source::OpenFiles;
use crate::ledger::BuiltOn;
use crate::release::{Release, choose};

/// An analyzed and calibrated query, with the state of the declarations that it was planned under.
/// Only [`Session::choose`] makes one.
#[derive(Debug)]
pub(crate) struct Planned {
    release: Release,
    /// Present if the query asks for a range.
    proposal: Option<Proposal>,
    /// The public tables that were read during planning.
    looked_up: Vec<String>,
    is_timeless: bool,
    declared: DeclaredState,
    note: Option<String>,
    /// The kept draws that releases are built on.
    built_on: Vec<BuiltOn>,
}

impl Planned {
    /// The kept draws that releases are built on.
    pub(super) fn built_on(&self) -> &[BuiltOn] {
        &self.built_on
    }

    /// Adds a kept draw that a release is built on.
    pub(super) fn build_on(&mut self, draw: BuiltOn) {
        self.built_on.push(draw);
    }

    /// What the query releases.
    pub(crate) fn release(&self) -> &Release {
        &self.release
    }

    /// An error as whoever asks may see it.
    pub(super) fn told(&self, error: Error) -> Error {
        self.declared.told(error)
    }

    /// The template that the query calls.
    pub(super) fn template(&self) -> Option<&Arc<CalledTemplate>> {
        self.declared.template.as_ref()
    }

    /// The template of the query, if tables or budgets of it do not exist for whoever asks.
    pub(crate) fn hidden(&self) -> Option<&str> {
        let template = self.declared.template.as_ref().filter(|template| template.is_hidden);
        template.map(|template| template.name.as_str())
    }

    /// The rules that bind it, each with its table.
    pub(crate) fn rules(&self) -> Vec<(&str, &TableRules)> {
        let parts = self.release.analysis().parts().iter();
        self.declared.rules.of_tables(parts.flat_map(|part| part.subject().tables()))
    }

    /// The same, to replace draws by earlier ones.
    pub(super) fn release_mut(&mut self) -> &mut Release {
        &mut self.release
    }

    /// How to derive the answer from the releases, if the query asks for a range.
    pub(crate) fn proposal(&self) -> Option<&Proposal> {
        self.proposal.as_ref()
    }

    /// The declarations that the query was planned with.
    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.declared.catalog
    }

    /// Whose answers may be shown again: the strictest rule among the budgets of a unit domain.
    pub(super) fn replay_of(&self, unit_domain: &str) -> Replay {
        let budgets = self.catalog().budgets_of(unit_domain).map(|budget| budget.replay);
        budgets.reduce(Replay::strictest).unwrap_or(Replay::Off)
    }

    /// What to say beside the answer.
    pub(super) fn note(&self) -> Option<&String> {
        self.note.as_ref()
    }

    /// The files that the query read and will read.
    pub(super) fn open(&self) -> &Arc<OpenFiles> {
        &self.declared.open
    }

    /// Whether the query means the same at any time: it names no function of the clock.
    pub(super) fn is_timeless(&self) -> bool {
        self.is_timeless
    }

    /// Every public table whose rows the query reads, or that was read during planning.
    pub(super) fn public_tables(&self) -> impl Iterator<Item = &Table> {
        let parts = self.release.analysis().parts().iter().flat_map(|part| part.public());
        let named = parts.chain(&self.looked_up).filter_map(|name| self.catalog().table(name));
        self.remaining_tables().chain(named)
    }

    /// The tables of people whose presence is public, of which the query shows exact numbers.
    pub(super) fn shown_exactly(&self) -> impl Iterator<Item = &Table> {
        let parts = self.release.analysis().parts().iter();
        let exact = parts.filter(|part| part.measures().iter().any(Measure::is_exact));
        let names = exact.flat_map(|part| part.subject().tables());
        names.filter_map(|name| self.catalog().table(name))
    }

    /// All tables that the query reads, directly, through views, and in its clauses.
    pub(crate) fn read_tables(&self) -> BTreeSet<String> {
        let parts = self.release.analysis().parts().iter();
        let private = parts.flat_map(|part| part.subject().tables()).cloned();
        private.chain(self.public_tables().map(|table| table.name.clone())).collect()
    }

    /// The release tables that the query reads, by name.
    pub(crate) fn release_tables(&self) -> BTreeSet<String> {
        let is_stored = |table: &&Table| matches!(table.source, Source::Released { .. });
        self.public_tables().filter(is_stored).map(|table| table.name.clone()).collect()
    }

    /// The public tables that the public plan reads.
    pub(super) fn remaining_tables(&self) -> impl Iterator<Item = &Table> {
        names_in(self.release.analysis()).into_iter().filter_map(|name| self.catalog().table(&name))
    }
}

/// The tables in a public plan, by name.
fn names_in(analysis: &Analysis) -> Vec<String> {
    let mut names = Vec::new();
    // The closure never fails, so the walk does not.
    let _ = analysis.public_plan().apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            names.push(scan.table_name.table().to_owned());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

impl Session {
    /// Chooses a mechanism for each release.
    pub(crate) fn choose(&self, query: Analyzed) -> Result<Planned, Error> {
        let Analyzed { analysis, looked_up, range_of, is_timeless, declared, note } = query;
        let release = choose(analysis, &declared.catalog)?;
        let proposal = range_of.map(|column| self.proposal(&release, column, &declared));
        let proposal = proposal.transpose()?;
        let built_on = Vec::new();
        Ok(Planned { proposal, release, looked_up, is_timeless, declared, note, built_on })
    }

    /// How to derive the answer to `ANALYZE PRIVACY DOMAIN` from its histogram.
    fn proposal(
        &self,
        release: &Release,
        column: ColumnName,
        declared: &DeclaredState,
    ) -> Result<Proposal, Error> {
        let table = declared.catalog.shared_table(&column.table).ok_or(Error::Internal)?;
        let provider = self.inner.provider(table, &declared.open).ok_or(Error::Internal)?;
        let schema = provider.schema();
        let field = schema.field_with_name(&column.column).map_err(|_| Error::Internal)?;
        Proposal::from_release(release, column, field.data_type().clone()).ok_or(Error::Internal)
    }
}
