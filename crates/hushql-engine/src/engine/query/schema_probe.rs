//! Questions for columns: programs ask a query that gives no row, before they ask the real one.
//!
//! In: a [`BoundQuery`], and the clause that lets no row through. Out: a query of the same columns
//! over no table, which is free. A count of everything is then 0, and any other aggregate NULL.
//!
//! ```text
//! SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS q WHERE 0 = 1   →   ward, n; no row
//! SELECT COUNT(*) FROM visits WHERE 0 = 1                                                 →   0
//! ```

use std::sync::Arc;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Alias};
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Expr, LogicalPlan, Projection, Sort,
};

use super::bind_query::BoundQuery;
use crate::bind::Bound;
use crate::dialect::{AggregateName, NoRow, Operand, marked};

impl BoundQuery {
    /// The same query, over no table if a clause of it lets no row through.
    ///
    /// # Guarantee
    /// The answer follows from the names and types of the query and from its literals. No release
    /// and no table is left in it.
    pub(super) fn without_rows(self, no_row: Option<NoRow>) -> Self {
        let plan = match no_row {
            Some(NoRow::Limit) => Some(no_rows(self.bound.plan())),
            Some(NoRow::Where) => match grouped(self.bound.plan()) {
                Some(aggregate) if aggregate.group_expr.is_empty() => self.one_row(aggregate),
                Some(_) | None => Some(no_rows(self.bound.plan())),
            },
            None => None,
        };
        match plan {
            Some(plan) => Self { bound: Bound::from_plan(plan, Vec::new()), ..self },
            None => self,
        }
    }

    /// The one row of an aggregate over nothing; `None` for anything but bare aggregates.
    fn one_row(&self, aggregate: &Aggregate) -> Option<LogicalPlan> {
        let mut top = self.bound.plan();
        // One row is in order, and differs from all others.
        while let LogicalPlan::Sort(Sort { input, .. })
        | LogicalPlan::Distinct(Distinct::All(input)) = top
        {
            top = input;
        }
        let LogicalPlan::Projection(shown) = top else { return None };
        if !matches!(&*shown.input, LogicalPlan::Aggregate(own) if own == aggregate) {
            return None;
        }
        let inner = aggregate.schema.clone();
        let mut cells = Vec::new();
        for (expr, (qualifier, field)) in shown.expr.iter().zip(shown.schema.iter()) {
            let mut bare = expr;
            while let Expr::Alias(Alias { expr, .. }) = bare {
                bare = expr;
            }
            let Expr::Column(column) = bare else { return None };
            let own = aggregate.aggr_expr.get(inner.maybe_index_of_column(column)?)?;
            let cell = match self.counts(own)? {
                true => ScalarValue::new_zero(field.data_type()).ok()?,
                false => ScalarValue::try_from(field.data_type()).ok()?,
            };
            let cell = Expr::Literal(cell, None);
            cells.push(cell.alias_qualified(qualifier.cloned(), field.name()));
        }
        let nothing = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
        let nothing = Arc::new(LogicalPlan::EmptyRelation(nothing));
        Projection::try_new(cells, nothing).ok().map(LogicalPlan::Projection)
    }

    /// Whether an aggregate counts, so that it is 0 over nothing. `None` for a choice.
    fn counts(&self, aggregate: &Expr) -> Option<bool> {
        let call = match aggregate {
            Expr::Alias(Alias { expr, .. }) => return self.counts(expr),
            Expr::AggregateFunction(call) => call,
            _ => return None,
        };
        let AggregateFunction { func, .. } = call;
        match marked(func.name()) {
            None => Some(func.name() == "count"),
            Some(n) => match &self.bound.releases().get(n)?.operand {
                Operand::Aggregate(call) => Some(call.function == AggregateName::Count),
                Operand::Selection(_) | Operand::Response => None,
            },
        }
    }
}

/// No rows of these columns.
fn no_rows(plan: &LogicalPlan) -> LogicalPlan {
    let schema = Arc::clone(plan.schema());
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
}

/// The aggregate of the outermost SELECT, if it has one.
fn grouped(plan: &LogicalPlan) -> Option<&Aggregate> {
    match plan {
        LogicalPlan::Projection(node) => grouped(&node.input),
        LogicalPlan::Sort(node) => grouped(&node.input),
        LogicalPlan::Limit(node) => grouped(&node.input),
        LogicalPlan::Window(node) => grouped(&node.input),
        LogicalPlan::Distinct(Distinct::All(input)) => grouped(input),
        // HAVING stands on its aggregate, and WHERE does not.
        LogicalPlan::Filter(node) => match &*node.input {
            LogicalPlan::Aggregate(aggregate) => Some(aggregate),
            _ => None,
        },
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    }
}
