//! Keeps rows of public tables that were read to plan a statement, for later statements.
//!
//! In: a plan over public tables. Out: its rows, if an earlier statement read the same plan over
//! the same files. A file is the same if its device, inode, size and times in the file system are
//! the same; it stays open as long as its rows are kept. Only small results are kept, such as how
//! often a key occurs, or the list of keys. Other tables are read each time.
//!
//! ```text
//! max(count(*)) of partsupp by ps_partkey, ps_suppkey      1, until the file changes or the owner declares something
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, Volatility};

use crate::exec::source::{Pinned, pinned_public};

/// The most bytes of a result to keep.
const MOST_BYTES: usize = 64 << 10;

/// The most results to keep; the least recently used one is dropped first.
const MOST: usize = 64;

/// The results that an engine keeps, the most recently used one last.
#[derive(Default)]
pub(crate) struct KeptPublic(Mutex<Vec<(PlanKey, RecordBatch)>>);

impl fmt::Debug for KeptPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptPublic").finish_non_exhaustive()
    }
}

/// Identifies the rows of a plan without reading them.
///
/// # Guarantee
/// Equal keys stand for the same expressions over the same columns of the same files.
#[derive(PartialEq)]
struct PlanKey {
    /// The plan without its sources, which would keep all files of a statement open.
    plan: LogicalPlan,
    files: Vec<Pinned>,
}

impl PlanKey {
    /// The key of a plan over public files that did not change since its statement opened them;
    /// `None` for any other plan.
    fn of(plan: &LogicalPlan) -> Option<Self> {
        if !is_timeless(plan).ok()? {
            return None;
        }
        let mut files = Vec::new();
        let bare = plan.clone().transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
            let Some(file) = pinned_public(source_as_provider(&scan.source)?.as_ref()) else {
                return internal_err!("the table is not a file");
            };
            files.push(file);
            let source = Arc::new(LogicalTableSource::new(scan.source.schema()));
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        });
        Some(Self { plan: bare.ok()?.data, files })
    }
}

/// Whether the tables of a plan alone determine its rows.
fn is_timeless(plan: &LogicalPlan) -> Result<bool> {
    let mut all = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part {
                    all &= call.func.signature().volatility == Volatility::Immutable;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(all)
}

impl KeptPublic {
    fn all(&self) -> MutexGuard<'_, Vec<(PlanKey, RecordBatch)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a plan over public tables: the kept ones, or else those that `read` returns.
    /// These are kept if they are few and no file changed meanwhile.
    pub(crate) fn or_read(
        &self,
        plan: &LogicalPlan,
        read: impl FnOnce() -> Option<RecordBatch>,
    ) -> Option<RecordBatch> {
        let Some(key) = PlanKey::of(plan) else { return read() };
        if let Some(rows) = self.find(&key) {
            return Some(rows);
        }
        let rows = read()?;
        if rows.get_array_memory_size() <= MOST_BYTES && PlanKey::of(plan).as_ref() == Some(&key) {
            let mut all = self.all();
            all.retain(|(kept, _)| *kept != key);
            if all.len() >= MOST {
                all.remove(0);
            }
            all.push((key, rows.clone()));
        }
        Some(rows)
    }

    fn find(&self, key: &PlanKey) -> Option<RecordBatch> {
        let mut all = self.all();
        let at = all.iter().position(|(kept, _)| kept == key)?;
        let found = all.remove(at);
        let rows = found.1.clone();
        all.push(found);
        Some(rows)
    }

    /// Forgets everything, and closes the files.
    pub(crate) fn clear(&self) {
        self.all().clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }
}
