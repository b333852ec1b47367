//! How far each number of the answer can be off: the error that noise causes, carried through the
//! public plan.
//!
//! In: the public plan over released tables. Out: the same plan with further columns: for each
//! number that is computed from released ones, the largest distance to its value without noise. The
//! method is interval arithmetic: each released number is within its own ± of the bounded
//! aggregate, so the result is within the ends that these intervals allow.
//!
//! ```text
//! a ± 30, n ± 3:    a / n            between (a − 30) / (n + 3) and (a + 30) / (n − 3)
//!                   SUM(n) OVER ()   every n is off by its own ±
//! ```
//!
//! If a result depends on m released numbers, each has a confidence of 1 − 0.05/m, so that all of
//! them are within their ± with 95 %. Only released numbers and public scales are read.

mod called;
mod error_interval;
mod grouped;
mod node;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::functions::core::expr_fn::greatest;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};

use crate::analysis::above::null_on_failure::null_on_failure;
use crate::analysis::outcome::Analysis;
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::catalog::RESERVED;
pub(crate) use called::with_called_ends;
use node::{Carrier, ColumnError, nth, with_errors};

/// The public plan with further columns for the errors of its numbers.
#[derive(Debug, Clone)]
pub(crate) struct ErrorBars {
    plan: LogicalPlan,
    /// For each output, the index of the column with its error.
    places: Vec<Option<usize>>,
    /// The distinct counts of released numbers that results depend on. The counts of the interval
    /// ends that the query asks for come first.
    among: Vec<u64>,
}

impl ErrorBars {
    /// The errors of the wanted outputs. An output has no error if its error cannot be carried.
    ///
    /// # Guarantee
    /// The first columns of the plan are the columns of the public plan, with the same rows in the
    /// same order. If the noise of each released number is within its ± at confidence 1 − 0.05/m,
    /// an error bounds how far the value is from the one without noise, up to the rounding of
    /// floats. All m hold together with 95 %, by the union bound.
    pub(crate) fn for_analysis(analysis: &Analysis, wanted: &[usize]) -> Self {
        let (public_plan, parts) = (&analysis.as_written, analysis.parts());
        let outputs = public_plan.schema().fields().len();
        // The plan reads the columns of the ends that it asks for. Further columns come after them.
        let asked = analysis.called_ends().map_or(&[][..], |called| &called.among);
        let none = || Self {
            plan: analysis.public_plan().clone(),
            places: vec![None; outputs],
            among: asked.to_vec(),
        };
        let behind_asked = |levels: &[u64]| {
            let further = levels.iter().filter(|level| !asked.contains(level));
            asked.iter().chain(further).copied().collect::<Vec<u64>>()
        };
        let numeric = |output: &&usize| {
            let fields = public_plan.schema().fields();
            fields.get(**output).is_some_and(|field| field.data_type().is_numeric())
        };
        let wanted: Vec<usize> = wanted.iter().filter(numeric).copied().collect();
        // A first pass finds the numbers on which each output depends. The confidences follow from
        // these.
        let first = behind_asked(&[1]);
        let counted: Vec<(usize, u64)> = wanted
            .iter()
            .filter_map(|output| {
                let carried =
                    Carrier::new(parts, &first, "end").carry(public_plan, &[(*output, 1)])?;
                match carried.known.first()? {
                    Some(ColumnError::Within { numbers, .. }) => Some((*output, *numbers)),
                    Some(ColumnError::Exact) | None => None,
                }
            })
            .collect();
        if counted.is_empty() {
            return none();
        }
        let mut levels: Vec<u64> = counted.iter().map(|(_, numbers)| *numbers).collect();
        levels.sort_unstable();
        levels.dedup();
        let among = behind_asked(&levels);
        let carried = Carrier::new(parts, &among, "end").carry(public_plan, &counted);
        let with_errors = carried.and_then(|carried| {
            let own = carried.plan.schema().columns().into_iter().take(outputs);
            let mut columns: Vec<Expr> = own.map(Expr::Column).collect();
            let mut places = vec![None; outputs];
            for ((output, _), known) in counted.iter().zip(&carried.known) {
                let Some(ColumnError::Within { lo, hi, .. }) = known else { continue };
                let column = |i: usize| Some(Expr::Column(nth(&carried.plan, i)?));
                let value = error_interval::as_float(column(*output)?, carried.plan.schema())?;
                let ends = [column(*lo)?, column(*hi)?];
                let [below, above] = [value.clone() - column(*lo)?, column(*hi)? - value];
                let error = error_interval::where_known(&ends, greatest(vec![below, above]));
                *places.get_mut(*output)? = Some(columns.len());
                columns.push(error.alias(format!("{RESERVED}_error_{output}")));
            }
            let plan = Projection::try_new(columns, Arc::new(carried.plan)).ok()?;
            Some((null_on_failure(LogicalPlan::Projection(plan)).ok()?, places))
        });
        match with_errors {
            Some((plan, places)) => Self { plan, places, among },
            None => none(),
        }
    }

    /// The plan that runs.
    pub(crate) fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// For each output, the index of the plan's column with its error.
    pub(crate) fn places(&self) -> &[Option<usize>] {
        &self.places
    }

    /// The distinct counts of released numbers that results depend on, in the order of the columns
    /// behind a released table.
    pub(crate) fn among(&self) -> &[u64] {
        &self.among
    }

    /// The released table of a private aggregate, with further columns for the ± of its measures at
    /// each confidence in use.
    pub(crate) fn released(&self, part: &PrivateAggregate) -> SchemaRef {
        with_errors(part, &self.among)
    }
}
