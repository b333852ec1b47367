//! What an analysis finds: the private aggregates of a query, and the public plan above them.

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

/// What a query releases, and how much one unit can change it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) parts: Vec<PrivateAggregate>,
    pub(crate) public_plan: LogicalPlan,
    /// The public plan with arithmetic as it was written, which may fail.
    pub(crate) as_written: LogicalPlan,
    /// The ends of intervals that the query asks for.
    pub(crate) called_ends: Option<CalledEnds>,
    pub(crate) values: Vec<Value>,
    /// The releases whose numbers are made consistent.
    pub(crate) hierarchies: Vec<Hierarchy>,
    pub(crate) steps: Vec<String>,
}

impl Analysis {
    /// The private parts, in the order in which they run.
    pub fn parts(&self) -> &[PrivateAggregate] {
        &self.parts
    }

    /// Decides which number a part compares with its threshold.
    pub(crate) fn compare(&mut self, part: usize, groups: UnknownPartitions) {
        let own = self.parts.get_mut(part).and_then(PrivateAggregate::unknown_partitions_mut);
        if let Some(own) = own {
            *own = groups;
        }
    }

    /// The public remainder, over one released table per part.
    pub fn public_plan(&self) -> &LogicalPlan {
        &self.public_plan
    }

    /// The ends of intervals that the query asks for, if it does.
    pub(crate) fn called_ends(&self) -> Option<&CalledEnds> {
        self.called_ends.as_ref()
    }

    /// Whether an output is an end of an interval, or computed from one.
    pub(crate) fn is_end(&self, output: usize) -> bool {
        self.called_ends.as_ref().is_some_and(|ends| ends.outputs.get(output) == Some(&true))
    }

    /// The released values that later parts use.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The releases whose numbers are made consistent, each with those of the other sets of its
    /// ROLLUP.
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// How the analysis went, step by step, for the explanation.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }
}

/// The name under which the remainder scans the released table of part `i`.
pub fn released_name(part: usize) -> String {
    format!("{RESERVED}_released_{part}")
}

/// The part whose released table this is the name of.
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
    // If the plan cannot be walked, nothing is known.
    walked.map(|_| found).unwrap_or_default()
}

/// A released value that later parts use.
#[derive(Debug, Clone)]
pub struct Value {
    pub(crate) plan: LogicalPlan,
    pub(crate) late: LateValue,
    pub(crate) before: usize,
}

impl Value {
    /// The public plan over released tables that gives it, in one row and one column.
    pub fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The first part that needs it.
    pub fn before(&self) -> usize {
        self.before
    }

    /// Hands it to the rows that use it, out of what its plan gave: NULL for no row. Returns the
    /// number that it is.
    ///
    /// # Errors
    /// When there are several rows, or it was handed on before.
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
