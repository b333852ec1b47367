//! Scalar subqueries below a release, and joins with a released number.
//!
//! In: rows whose conditions use a subquery as a value, or that are joined with the one row of a
//! release. Out: the same rows with a simpler value in its place. A subquery that is itself a
//! release is charged and drawn first, once. Its result is then public, and only its type is known
//! while the query is planned. In plain SQL, an aggregate without GROUP BY is such a release, at
//! its share of the default cost. So is one group of a GROUP BY, by equations for all keys. A
//! subquery over public tables is read while the query is planned. Any other subquery is refused,
//! because it would be an exact value of private rows.
//!
//! ```text
//! WHERE balance > (SELECT LAPLACE(eps=1) AVG(balance) FROM customer)           balance > released value 0
//! WITH m AS (SELECT AVG(balance) AS mean FROM customer) … FROM customer, m     balance > released value 0
//! WHERE balance > m.mean
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{
    Aggregate, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery,
};

use crate::analysis::above::single_group::{is_plain, is_single_group};
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
        let input = self.joined_values(aggregate.input.as_ref().clone())?;
        let input = self.valued_plan(input)?;
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
        if !self.is_release(plan) {
            return Ok(None);
        }
        let expr = self.drawn_first(plan, column.data_type())?;
        let name = column.name().clone();
        Ok(Some(Expr::Alias(Alias { expr: Box::new(expr), relation: None, name, metadata: None })))
    }

    /// True if a plan names a release, or is one in plain SQL: an aggregate without GROUP BY, or
    /// one of its groups, in a statement that names no mechanism.
    fn is_release(&self, plan: &LogicalPlan) -> bool {
        let releases = self.context.bound.releases();
        let is_one = || is_of_all_rows(plan) || is_single_group(plan, releases);
        has_marker(plan) || is_plain(releases) && is_one()
    }

    /// A released value that is drawn before the rows are read that use it.
    fn drawn_first(&mut self, plan: &LogicalPlan, of: &DataType) -> Result<Expr, NotAnalyzed> {
        let is_single = is_single_group(plan, self.context.bound.releases());
        let plan = self.public(plan)?;
        if has_calls(&plan) {
            return Err(in_value().into());
        }
        if !is_single && !self.has_one_row(&plan) {
            return Err(several().into());
        }
        let late = LateValue::new(self.values.len(), of.clone());
        self.steps.push(format!("Released value {}: drawn first", self.values.len()));
        let expr = late.expr();
        self.values.push(Value { plan, late, before: self.parts.len() });
        Ok(expr)
    }

    /// Rows without joins with the one row of a release: its value becomes a column of theirs.
    fn joined_values(&mut self, plan: LogicalPlan) -> Result<LogicalPlan, NotAnalyzed> {
        let mut refusal = None;
        let replaced = plan.transform_up(|node| {
            let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
            match self.joined_value(join) {
                Ok(Some(plan)) => Ok(Transformed::yes(plan)),
                Ok(None) => Ok(Transformed::no(node)),
                Err(error) => {
                    refusal.get_or_insert(error);
                    Ok(Transformed::new(node, false, TreeNodeRecursion::Stop))
                }
            }
        });
        finished(refusal, replaced)
    }

    /// The rows of an inner join, one side of which is a released number, with the number as a
    /// column. `None` for any other join.
    ///
    /// # Guarantee
    /// An aggregate without GROUP BY has exactly one row, whatever is drawn, so that the join has
    /// the rows of the other side, each once, before its conditions.
    fn joined_value(&mut self, join: &Join) -> Result<Option<LogicalPlan>, NotAnalyzed> {
        if join.join_type != JoinType::Inner {
            return Ok(None);
        }
        let catalog = self.context.catalog;
        let is_value = |plan: &LogicalPlan| {
            is_of_all_rows(plan)
                && plan.schema().fields().len() == 1
                && !only_public(plan, catalog)
                && self.is_release(plan)
        };
        let (rows, one) = match (is_value(&join.left), is_value(&join.right)) {
            (false, true) => (&join.left, &join.right),
            (true, false) => (&join.right, &join.left),
            (true, true) | (false, false) => return Ok(None),
        };
        let (relation, column) = one.schema().qualified_field(0);
        let value = self.drawn_first(one, column.data_type())?;
        let columns = join.schema.iter().map(|(qualifier, field)| {
            if qualifier == relation && field.name() == column.name() {
                let (relation, name) = (relation.cloned(), column.name().clone());
                let expr = Box::new(value.clone());
                return Expr::Alias(Alias { expr, relation, name, metadata: None });
            }
            Expr::Column((qualifier, field).into())
        });
        let pairs = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        let conditions = pairs.chain(join.filter.clone()).reduce(Expr::and);
        let rows = LogicalPlanBuilder::from(rows.as_ref().clone()).project(columns);
        let rows = rows.and_then(|rows| match conditions {
            Some(conditions) => rows.filter(conditions),
            None => Ok(rows),
        });
        rows.and_then(LogicalPlanBuilder::build).map(Some).map_err(|e| internal(&e))
    }
}

/// Whether a plan is an aggregate of all of its rows, which are one group, and what is computed of
/// it.
fn is_of_all_rows(plan: &LogicalPlan) -> bool {
    if let LogicalPlan::Projection(projection) = plan {
        return is_of_all_rows(&projection.input);
    }
    if let LogicalPlan::SubqueryAlias(alias) = plan {
        return is_of_all_rows(&alias.input);
    }
    matches!(plan, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty())
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
