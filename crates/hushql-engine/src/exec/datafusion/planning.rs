//! Limits planning: a deadline, and public rows that are read once.
//!
//! In: the clock of a statement. Out: an extension of its session's configuration, where all code
//! that reads public rows during planning finds it. The rows of one plan are read once.
//!
//! ```text
//! Deadline(3 s) ─▶ Planning ─▶ SessionState ─▶ rows_of_public: read, or stop at the deadline
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;

use crate::analysis::MOST_ROWS_OF_A_UNIT;
use hushql_exec::deadline::Deadline;

/// The limits of planning one statement, and the public rows that were read for it.
#[derive(Debug)]
pub(crate) struct Planning {
    deadline: Deadline,
    rows_of_a_unit: u64,
    read: Mutex<HashMap<PlanWithSources, Option<RecordBatch>>>,
}

/// A plan with the sources of its tables, because names alone do not identify them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlanWithSources {
    plan: LogicalPlan,
    /// The addresses of the sources; the plan keeps them alive.
    sources: Vec<usize>,
}

impl PlanWithSources {
    fn from_plan(plan: &LogicalPlan) -> Option<Self> {
        let mut sources = Vec::new();
        let walked = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                sources.push(Arc::as_ptr(&scan.source).addr());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.ok()?;
        Some(Self { plan: plan.clone(), sources })
    }
}

impl Planning {
    /// Planning with a deadline, for queries whose joins make at most `rows_of_a_unit` rows from
    /// the rows of one unit.
    pub(crate) fn new(deadline: Deadline, rows_of_a_unit: u64) -> Self {
        Self { deadline, rows_of_a_unit, read: Mutex::default() }
    }

    /// The session in which the query is planned.
    pub(crate) fn within(self, state: &SessionState) -> SessionState {
        let mut state = state.clone();
        state.config_mut().set_extension(Arc::new(self));
        state
    }

    /// The planning of a session; without limits if it has none.
    pub(crate) fn for_state(state: &SessionState) -> Arc<Self> {
        Self::of_config(state.config())
    }

    /// The planning of a session's configuration; without limits if it has none.
    pub(crate) fn of_config(config: &SessionConfig) -> Arc<Self> {
        let none = || Arc::new(Self::new(Deadline::default(), MOST_ROWS_OF_A_UNIT));
        config.get_extension().unwrap_or_else(none)
    }

    /// The deadline of planning.
    pub(crate) fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// The most rows that joins may make from the rows of one unit.
    pub(crate) fn rows_of_a_unit(&self) -> u64 {
        self.rows_of_a_unit
    }

    /// The rows of a plan over public tables. The first call for a plan reads them.
    pub(crate) fn once(
        &self,
        plan: &LogicalPlan,
        read: impl FnOnce() -> Option<RecordBatch>,
    ) -> Option<RecordBatch> {
        let key = PlanWithSources::from_plan(plan)?;
        let known = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = known().get(&key) {
            return rows.clone();
        }
        let rows = read();
        known().insert(key, rows.clone());
        rows
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;

    fn rows(n: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    }

    fn scan(n: i64) -> LogicalPlan {
        let table = MemTable::try_new(rows(n).schema(), vec![vec![rows(n)]]).unwrap();
        let scan = LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table)), None);
        scan.unwrap().build().unwrap()
    }

    /// Every private aggregate reads tables under the same names during planning.
    #[test]
    fn tables_of_the_same_name_keep_their_own_rows() {
        let planning = Planning::new(Deadline::default(), 1);
        let (one, other) = (scan(1), scan(2));
        assert_eq!(planning.once(&one, || Some(rows(1))), Some(rows(1)));
        assert_eq!(planning.once(&one.clone(), || None), Some(rows(1)));
        assert_eq!(planning.once(&other, || Some(rows(2))), Some(rows(2)));
        let filtered = LogicalPlanBuilder::from(one).limit(0, Some(1)).unwrap().build().unwrap();
        assert_eq!(planning.once(&filtered, || None), None);
        assert_eq!(planning.once(&filtered, || Some(rows(1))), None);
    }
}
