//! Scalar subqueries below a release.
//!
//! In: rows whose conditions use a subquery as a value. Out: the same rows with a simpler value in
//! its place. A subquery that is itself a release is charged and drawn first, once. Its result is
//! then public, and only its type is known while the query is planned. A subquery over public
//! tables is read while the query is planned. Any other subquery is refused, because it would be an
//! exact value of private rows.
//!
//! ```text
//! WHERE balance > (SELECT LAPLACE(eps=1) AVG(balance) FROM customer)      balance > released value 0
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Subquery};

use crate::analysis::below::only_public;
use crate::analysis::below::public_side::public_value;
use crate::analysis::below::refusals::several;
use crate::analysis::expr::interval_ends::has_calls;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::outcome::{Value, released_part};
use crate::analysis::private_aggregate::PrivateAggregate;
use crate::analysis::splitter::{Splitter, has_marker};
use crate::functions::LateValue;
use crate::refusal::{Reason, Refusal};

impl Splitter<'_> {
    /// An aggregate over rows without scalar subqueries.
    pub(crate) fn with_values(&mut self, aggregate: &Aggregate) -> Result<Aggregate, NotAnalyzed> {
        let input = self.valued_plan(aggregate.input.as_ref().clone())?;
        let aggr_expr = aggregate.aggr_expr.iter().map(|e| self.valued(e.clone()));
        let aggr_expr = aggr_expr.collect::<Result<_, _>>()?;
        let (keys, schema) = (aggregate.group_expr.clone(), Arc::clone(&aggregate.schema));
        Aggregate::try_new_with_schema(Arc::new(input), keys, aggr_expr, schema)
            .map_err(|e| internal(&e))
    }

    /// True if a plan over released tables has at most one row for every possible draw.
    fn has_one_row(&self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Projection(projection) => self.has_one_row(&projection.input),
            LogicalPlan::Filter(filter) => self.has_one_row(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => self.has_one_row(&alias.input),
            LogicalPlan::Sort(sort) => sort.fetch == Some(1) || self.has_one_row(&sort.input),
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
            LogicalPlan::Limit(limit) => {
                let one = Some(Expr::Literal(ScalarValue::Int64(Some(1)), None));
                limit.fetch.as_deref() == one.as_ref() || self.has_one_row(&limit.input)
            }
            LogicalPlan::TableScan(scan) => {
                let part = released_part(scan.table_name.table()).and_then(|i| self.parts.get(i));
                part.and_then(PrivateAggregate::rows) == Some(1)
            }
            _ => false,
        }
    }

    fn valued_plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
        let mut refusal = None;
        let replaced = plan.transform_down(|node| {
            node.map_expressions(|expr| match self.valued(expr.clone()) {
                Ok(valued) => Ok(Transformed::yes(valued)),
                Err(error) => {
                    refusal.get_or_insert(error);
                    Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
                }
            })
        });
        finished(refusal, replaced)
    }

    /// An expression in which values replace scalar subqueries.
    fn valued(&mut self, expr: Expr) -> Result<Expr, NotAnalyzed> {
        let mut refusal = None;
        let replaced = expr.transform_down(|e| {
            let Expr::ScalarSubquery(subquery) = &e else { return Ok(Transformed::no(e)) };
            match self.value(subquery) {
                Ok(Some(value)) => Ok(Transformed::new(value, true, TreeNodeRecursion::Jump)),
                Ok(None) => Ok(Transformed::no(e)),
                Err(error) => {
                    refusal.get_or_insert(error);
                    Ok(Transformed::new(e, false, TreeNodeRecursion::Stop))
                }
            }
        });
        finished(refusal, replaced)
    }

    /// The value that replaces a scalar subquery; `None` leaves the subquery in place, where a
    /// later rule refuses it.
    fn value(&mut self, subquery: &Subquery) -> Result<Option<Expr>, NotAnalyzed> {
        let plan = subquery.subquery.as_ref();
        let [column] = plan.schema().fields().as_ref() else { return Ok(None) };
        if !subquery.outer_ref_columns.is_empty() {
            return Ok(None);
        }
        if only_public(plan, self.context.catalog) {
            return public_value(self.context.tables, plan).map(Some);
        }
        if !has_marker(plan) {
            return Ok(None);
        }
        let plan = self.public(plan)?;
        if has_calls(&plan) {
            return Err(in_value().into());
        }
        if !self.has_one_row(&plan) {
            return Err(several().into());
        }
        let late = LateValue::new(self.values.len(), column.data_type().clone());
        self.steps.push(format!("Released value {}: drawn first", self.values.len()));
        let expr = late.expr();
        self.values.push(Value { plan, late, before: self.parts.len() });
        let name = column.name().clone();
        Ok(Some(Expr::Alias(Alias { expr: Box::new(expr), relation: None, name, metadata: None })))
    }
}

fn finished<T>(
    failed: Option<NotAnalyzed>,
    replaced: Result<Transformed<T>, DataFusionError>,
) -> Result<T, NotAnalyzed> {
    match (failed, replaced) {
        (Some(error), _) => Err(error),
        (None, Ok(replaced)) => Ok(replaced.data),
        (None, Err(error)) => Err(internal(&error)),
    }
}

fn in_value() -> Refusal {
    Refusal::new(
        Reason::NotYet,
        "a subquery as a value",
        "error_low and error_high are not computed below a release yet",
        "the number itself, or error_low in a query over what was released",
    )
}
