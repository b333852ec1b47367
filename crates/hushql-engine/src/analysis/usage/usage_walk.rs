//! The walk that follows columns: what it knows of rows, and what it has seen.
//!
//! In: the catalog, and the columns that may do nothing but join. Out: the state of the walk, which
//! operators, expressions and releases extend, one file each.

use std::collections::BTreeSet;

use datafusion::common::{Column, DFSchemaRef};

use super::column_uses::{Lineage, TableColumn, UseKind, Uses};
use crate::catalog::Catalog;

/// Rows over which expressions are evaluated: where the values of their columns come from, and the
/// private tables that they are read from.
#[derive(Debug, Clone)]
pub(super) struct RowsUsed {
    pub(super) schema: DFSchemaRef,
    pub(super) columns: Vec<Lineage>,
    pub(super) tables: BTreeSet<String>,
    /// The columns of conditions that decided which rows are left.
    pub(super) decided: BTreeSet<TableColumn>,
    /// The columns that tell apart of which branch of a union a row is, and so how many there are.
    pub(super) told: BTreeSet<TableColumn>,
}

impl RowsUsed {
    /// What an operator makes of these rows, one for one or fewer of them.
    pub(super) fn with(self, schema: DFSchemaRef, columns: Vec<Lineage>) -> Self {
        Self { schema, columns, ..self }
    }

    /// Where the values of a column come from; `None` if the rows do not have it.
    pub(super) fn column(&self, column: &Column) -> Option<&Lineage> {
        self.columns.get(self.schema.maybe_index_of_column(column)?)
    }
}

/// A walk over the rows below a release.
pub(super) struct UsageWalk<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) uses: Uses,
    /// The rows around the present subquery, the nearest last.
    pub(super) around: Vec<RowsUsed>,
    /// The private tables of subqueries in the expressions of the present operator.
    pub(super) asked: BTreeSet<String>,
    /// Columns that join rows and do nothing else: what they join is not computed from them.
    pub(super) join_only: BTreeSet<TableColumn>,
    /// The private columns that expressions of the present release compare with public values, or
    /// with values that the query writes.
    pub(super) compared: BTreeSet<TableColumn>,
    /// How many tables were read so far.
    pub(super) scans: usize,
    /// What the present release shows, and how.
    pub(super) shown: Vec<(Lineage, UseKind, String)>,
}

impl<'a> UsageWalk<'a> {
    pub(super) fn new(catalog: &'a Catalog, join_only: BTreeSet<TableColumn>) -> Self {
        let (uses, around, asked) = (Uses::default(), Vec::new(), BTreeSet::new());
        let (compared, shown) = (BTreeSet::new(), Vec::new());
        Self { catalog, uses, around, asked, join_only, compared, scans: 0, shown }
    }

    /// Records that an expression compares values with others, if some of both kinds are there.
    pub(super) fn compares(&mut self, lineage: &Lineage) {
        if lineage.is_mixed() {
            self.compared.extend(lineage.columns.iter().cloned());
        }
    }

    /// Ends a release. What it shows of public rows, or of rows that the query writes, tells the
    /// private values with which its expressions compare such rows, as a condition on the rows
    /// would.
    pub(super) fn end_release(&mut self) {
        let compared = std::mem::take(&mut self.compared);
        let columns = compared.difference(&self.join_only).cloned().collect();
        let compared = Lineage { columns, ..Lineage::default() };
        for (lineage, kind, text) in std::mem::take(&mut self.shown) {
            if lineage.is_mixed() {
                self.uses.used(&compared, kind, &text);
            }
        }
    }
}
