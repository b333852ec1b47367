//! Selections in plain SQL: keys ordered by an aggregate that is not displayed, under a LIMIT.
//!
//! In: a plan. Out: the aggregate and the selector that the plan means. If it means none, the
//! result is `None`, and its numbers are released.
//!
//! ```text
//! SELECT status FROM adult GROUP BY status ORDER BY COUNT(*) DESC LIMIT 1      ARGMAX status
//! ```

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

use crate::dialect::Selector;

/// `SELECT k … GROUP BY k ORDER BY aggregate LIMIT n`: a selection in plain SQL.
pub(crate) struct PlainSelection<'a> {
    pub(crate) aggregate: &'a Aggregate,
    pub(crate) selector: Selector,
}

/// The selection that a LIMIT means, if one aggregate orders the keys below it and only the keys
/// are displayed.
pub(crate) fn plain_selection(plan: &LogicalPlan) -> Option<PlainSelection<'_>> {
    let LogicalPlan::Limit(limit) = plan else { return None };
    let count = match (limit.skip.as_deref(), limit.fetch.as_deref()) {
        (None, Some(Expr::Literal(ScalarValue::Int64(Some(n)), _))) => u64::try_from(*n).ok()?,
        _ => return None,
    };
    let mut below = limit.input.as_ref();
    // The columns that the loop follows: the outputs, then the sort key.
    let mut shown: Vec<Column> = below.schema().columns();
    let mut sorted: Option<(Column, bool)> = None;
    loop {
        match below {
            LogicalPlan::Projection(projection) => {
                let through = |column: &Column| {
                    let i = projection.schema.maybe_index_of_column(column)?;
                    match projection.expr.get(i)?.clone().unalias() {
                        Expr::Column(column) => Some(column),
                        _ => None,
                    }
                };
                shown = shown.iter().map(through).collect::<Option<_>>()?;
                if let Some((column, _)) = &mut sorted {
                    *column = through(column)?;
                }
                below = &projection.input;
            }
            LogicalPlan::Sort(sort) if sorted.is_none() && sort.fetch.is_none() => {
                let [key] = sort.expr.as_slice() else { return None };
                let Expr::Column(column) = key.expr.clone().unalias() else { return None };
                sorted = Some((column, key.asc));
                below = &sort.input;
            }
            LogicalPlan::Aggregate(aggregate) => {
                let (column, ascending) = sorted?;
                let columns = aggregate.schema.columns();
                let [key, score] = columns.as_slice() else { return None };
                let matches = aggregate.group_expr.len() == 1
                    && column == *score
                    && count > 0
                    && shown.iter().all(|c| c == key);
                let selector = match (ascending, count) {
                    (false, 1) => Selector::ArgMax,
                    (false, n) => Selector::Top(n),
                    (true, 1) => Selector::ArgMin,
                    (true, n) => Selector::Bottom(n),
                };
                return matches.then_some(PlainSelection { aggregate, selector });
            }
            _ => return None,
        }
    }
}
