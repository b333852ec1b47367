//! The walk over the rows below a release: the tables that it can read, and the steps that it has
//! taken.
//!
//! In: the catalog, and the tables as sources of the planner. Out: names that no other column has,
//! and a line for each step, for EXPLAIN. The operators extend [`Walk`], one file each.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::logical_expr::{LogicalPlan, TableSource};

use super::mentioned::Mentioned;
use super::read_above::ReadAbove;
use crate::catalog::{Catalog, RESERVED};
use crate::visible::heading;

/// A walk over the rows of one private aggregate.
pub(crate) struct Walk<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) tables: &'a dyn Tables,
    pub(crate) steps: &'a mut Vec<String>,
    /// The columns that the query mentions.
    pub(super) mentioned: Mentioned,
    /// What is read of the rows of windows.
    pub(super) read_above: ReadAbove,
    /// The number of blocks into which people are divided, if a block stands for its people.
    pub(super) blocks: Option<u32>,
    hidden: usize,
    readings: usize,
}

impl<'a> Walk<'a> {
    /// A walk for a plan: an aggregate, or rows that are all read.
    pub(crate) fn new(
        catalog: &'a Catalog,
        tables: &'a dyn Tables,
        steps: &'a mut Vec<String>,
        plan: &LogicalPlan,
    ) -> Self {
        let (mentioned, read_above) = (Mentioned::of(plan), ReadAbove::of(plan));
        let (blocks, hidden, readings) = (None, 0, 0);
        Self { catalog, tables, steps, mentioned, read_above, blocks, hidden, readings }
    }

    /// The same walk over rows of blocks of people, if there are blocks.
    #[must_use]
    pub(crate) fn in_blocks_of(self, blocks: Option<u32>) -> Self {
        Self { blocks, ..self }
    }

    /// A hidden name that no other column has.
    pub(crate) fn fresh(&mut self, what: &str) -> String {
        self.hidden += 1;
        format!("{RESERVED}_{what}_{}", self.hidden)
    }

    /// A number that no other scan of a table has.
    pub(crate) fn reading(&mut self) -> usize {
        self.readings += 1;
        self.readings
    }

    /// Adds a step to the explanation, with literals and counts as SQL writes them.
    pub(crate) fn step(&mut self, step: impl Into<String>) {
        let step = step.into();
        let step = heading(&step).replace("count(1) AS count(*)", "count(*)");
        self.steps.push(step.replace("count(1)", "count(*)"));
    }
}

/// The tables that a query may read. Public ones can be read while it is planned.
pub trait Tables {
    /// The source of a table, with private tables marked; `None` if the table does not exist.
    fn source(&self, table: &str) -> Option<Arc<dyn TableSource>>;

    /// All rows of a plan over public tables, in one batch; `None` if they cannot be read.
    fn read(&self, plan: &LogicalPlan) -> Option<RecordBatch>;

    /// A source with exactly the rows of a batch.
    fn pinned(&self, rows: RecordBatch) -> Option<Arc<dyn TableSource>>;

    /// The most rows of one unit that joins may produce.
    fn most_rows_of_a_unit(&self) -> u64 {
        MOST_ROWS_OF_A_UNIT
    }
}

/// The most rows of one unit that joins may produce before they are bounded, unless the engine is
/// configured otherwise.
pub const MOST_ROWS_OF_A_UNIT: u64 = 100_000;
