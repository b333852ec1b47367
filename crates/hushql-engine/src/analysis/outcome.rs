//! The result of an analysis: the private aggregates of a query, and the public plan above them.

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::logical_expr::LogicalPlan;

use crate::analysis::expr::interval_ends::CalledEnds;
use crate::analysis::hierarchies::Hierarchy;
use crate::analysis::measure::unknown_partitions::UnknownPartitions;
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::catalog::RESERVED;
use crate::functions::LateValue;

/// What a query releases, and how far one unit can change it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) parts: Vec<PrivateAggregate>,
    pub(crate) public_plan: LogicalPlan,
    /// The public plan with the arithmetic of the query, which can fail.
    pub(crate) as_written: LogicalPlan,
    /// The ends of intervals that the query asks for.
    pub(crate) called_ends: Option<CalledEnds>,
    pub(crate) values: Vec<Value>,
    /// The releases whose numbers are made consistent.
    pub(crate) hierarchies: Vec<Hierarchy>,
    pub(crate) steps: Vec<String>,
}

impl Analysis {
    /// The private aggregates, in the order in which they run.
    pub fn parts(&self) -> &[PrivateAggregate] {
        &self.parts
    }

    /// Sets the number that a private aggregate compares with its threshold.
    pub(crate) fn compare(&mut self, part: usize, groups: UnknownPartitions) {
        let own = self.parts.get_mut(part).and_then(PrivateAggregate::unknown_partitions_mut);
        if let Some(own) = own {
            *own = groups;
        }
    }

    /// The public plan. It scans one released table per private aggregate.
    pub fn public_plan(&self) -> &LogicalPlan {
        &self.public_plan
    }

    /// The ends of intervals that the query asks for, if any.
    pub(crate) fn called_ends(&self) -> Option<&CalledEnds> {
        self.called_ends.as_ref()
    }

    /// True if an output is an end of an interval, or is computed from one.
    pub(crate) fn is_end(&self, output: usize) -> bool {
        self.called_ends.as_ref().is_some_and(|ends| ends.outputs.get(output) == Some(&true))
    }

    /// The released values that later private aggregates use.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The releases whose numbers are made consistent. Each hierarchy holds one release in all sets
    /// of its ROLLUP.
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// The steps of the analysis, for EXPLAIN.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }
}

/// The name under which the public plan scans the released table of a private aggregate.
pub fn released_name(part: usize) -> String {
    format!("{RESERVED}_released_{part}")
}

/// The private aggregate whose released table has this name.
pub fn released_part(name: &str) -> Option<usize> {
    name.strip_prefix(RESERVED)?.strip_prefix("_released_")?.parse().ok()
}

/// The private aggregates whose released tables a plan reads, including subqueries.
pub(crate) fn released_parts(plan: &LogicalPlan) -> Vec<usize> {
    let mut found = Vec::new();
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found.extend(released_part(scan.table_name.table()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // If the plan cannot be walked, the result is empty.
    walked.map(|_| found).unwrap_or_default()
}

/// A released value that later private aggregates use.
#[derive(Debug, Clone)]
pub struct Value {
    pub(crate) plan: LogicalPlan,
    pub(crate) late: LateValue,
    pub(crate) before: usize,
}

impl Value {
    /// The public plan over released tables that computes the value, as one row with one column.
    pub fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The index of the first private aggregate that may use it.
    pub fn before(&self) -> usize {
        self.before
    }

    /// Passes the value to the rows that use it: the one row that its plan returned, or NULL if
    /// there is no row. Returns the value if it is a floating-point number.
    ///
    /// # Errors
    /// If there are several rows, or the value was passed before.
    pub fn give(&self, rows: &[RecordBatch]) -> datafusion::common::Result<Option<f64>> {
        let mut rows = rows.iter().filter(|batch| batch.num_rows() > 0);
        let one = match (rows.next(), rows.next()) {
            (None, _) => ScalarValue::try_new_null(self.late.data_type())?,
            (Some(batch), None) if batch.num_rows() == 1 => {
                ScalarValue::try_from_array(batch.column(0), 0)?
            }
            _ => return internal_err!("a released value is one row"),
        };
        self.late.set(&one)?;
        Ok(if let ScalarValue::Float64(number) = one { number } else { None })
    }
}
