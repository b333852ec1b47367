//! Below a release: the walk over private rows, with one arm per operator.
//!
//! In: the plan under an aggregate. Out: a [`PrivateRelation`]: the same rows, from a plan that
//! enforces every assumption. An operator that is not known to keep the rows of units apart is
//! refused. Sub-plans that read only public tables are walked, too; if that is impossible, they are
//! read once while the query is planned, and the result replaces them.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, JoinType, LogicalPlan, Projection, SubqueryAlias,
};

use crate::analysis::below::refusals::operator;
use crate::analysis::not_analyzed::NotAnalyzed;
use crate::analysis::recursion::deeper;
use crate::catalog::Catalog;
use crate::dialect::marked;
use relation::{PrivateRelation, has_subquery, scanned, told};
use walk::Walk;

mod blocks;
pub(crate) mod column_origin;
pub(crate) mod contradiction;
mod correlation;
mod distinct;
mod float_grid;
mod frame;
mod group_by_unit;
pub(crate) mod join;
pub(crate) mod join_conditions;
pub(crate) mod mentioned;
mod month_groups;
pub(crate) mod outer_join;
pub(crate) mod pair;
mod public_conditions;
pub(crate) mod public_reads;
pub(crate) mod public_side;
mod read_above;
pub(crate) mod refusals;
pub(crate) mod relation;
mod row_of_keys;
pub(crate) mod scan;
pub(crate) mod semi_join;
mod shares;
pub(crate) mod subquery_semantics;
mod subquery_values;
pub(crate) mod union;
pub(crate) mod unit;
mod unit_aggregates;
mod unit_statistics;
pub(crate) mod walk;
pub(crate) mod window;

impl Walk<'_> {
    /// Walks the rows over which a private aggregate is computed.
    ///
    /// # Guarantee
    /// As [`Self::rows`]. In addition, an outer join directly below may preserve public rows.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) fn below(&mut self, aggregate: &Aggregate) -> Result<PrivateRelation, NotAnalyzed> {
        if self.blocks.is_some() {
            return self.rows(&aggregate.input);
        }
        match self.preserving(aggregate)? {
            Some(relation) => Ok(relation),
            None => self.rows(&aggregate.input),
        }
    }

    /// Walks the rows under a release.
    ///
    /// # Guarantee
    /// In the resulting plan, every row of a unit depends only on the rows of this unit and on
    /// public rows; every expression is total, and every column obeys its facts.
    ///
    /// # Errors
    /// Refuses every operator, expression and table that is not on the allow-list.
    pub(super) fn rows(&mut self, plan: &LogicalPlan) -> Result<PrivateRelation, NotAnalyzed> {
        deeper(|| {
            if !self.is_public(plan) {
                return self.node(plan);
            }
            let before = self.steps.len();
            self.node(plan).or_else(|_| {
                self.steps.truncate(before);
                self.pinned(plan)
            })
        })
    }

    fn node(&mut self, plan: &LogicalPlan) -> Result<PrivateRelation, NotAnalyzed> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let rows = self.scan(scan, plan)?;
                self.in_blocks(rows)
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                if stands_on_join(input) {
                    return self.joined(plan);
                }
                let flow = self.rows(input)?;
                self.filtered(flow, split_conjunction_owned(predicate.clone()))
            }
            LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
                let flow = self.rows(input)?;
                let (flow, expr) = self.valued(flow, expr)?;
                flow.projected(&expr, schema)
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, schema, .. }) => {
                self.rows(input)?.named(alias, schema)
            }
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => self.joined(plan),
            LogicalPlan::Join(join) => self.outer_join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Aggregate(aggregate) => self.per_unit(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Distinct(Distinct::On(_)) => {
                Err(operator("DISTINCT ON", "MIN or MAX with GROUP BY the unit").into())
            }
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) if self.blocks.is_some() => Err(operator(
                "ORDER BY with LIMIT",
                "WHERE r <= 3 around a subquery with ROW_NUMBER() OVER (ORDER BY x) AS r",
            )
            .into()),
            LogicalPlan::Sort(_) => {
                let refusal = operator(
                    "ORDER BY",
                    "the subquery without ORDER BY, which sorts released rows only",
                );
                Err(NotAnalyzed::ManyUnits(refusal))
            }
            LogicalPlan::Limit(_) => {
                let refusal =
                    operator("LIMIT", "the subquery without LIMIT, which cuts released rows only");
                Err(NotAnalyzed::ManyUnits(refusal))
            }
            LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => {
                Err(operator("VALUES", "the aggregate without a mechanism: constants need none")
                    .into())
            }
            LogicalPlan::Subquery(_) => Err(operator("a subquery", "the query without it").into()),
            LogicalPlan::Repartition(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => {
                Err(operator("this operator", "SELECT … FROM … WHERE … below the release").into())
            }
        }
    }

    /// The rows that satisfy all conditions. Conditions with subqueries are applied last.
    pub(super) fn filtered(
        &mut self,
        mut flow: PrivateRelation,
        conditions: Vec<Expr>,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(has_subquery);
        if let Some(predicate) = without.iter().cloned().reduce(Expr::and) {
            flow = flow.filtered(&predicate)?;
            self.step(format!("Filter {}", told(&without)));
        }
        for condition in with {
            flow = self.matched(flow, &condition)?;
        }
        Ok(flow)
    }

    /// Whether a plan reads only public tables and no released values.
    pub(super) fn is_public(&self, plan: &LogicalPlan) -> bool {
        only_public(plan, self.catalog)
    }

    /// The public tables of a plan.
    pub(super) fn public_tables(&self, plan: &LogicalPlan) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        // The walk cannot fail, because its closure does not.
        let _ = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(table) = scanned(scan, self.catalog)
            {
                names.insert(table.name.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        names
    }
}

/// Whether a plan reads only public tables and no released values.
pub(crate) fn only_public(plan: &LogicalPlan, catalog: &Catalog) -> bool {
    let mut public = true;
    let walked = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                public &= scanned(scan, catalog).is_some_and(|table| table.is_public());
            }
            LogicalPlan::Aggregate(aggregate) => {
                public &= !aggregate.aggr_expr.iter().any(is_release);
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    public && walked.is_ok()
}

/// Whether an expression contains a release.
fn is_release(expr: &Expr) -> bool {
    expr.exists(|e| {
        Ok(matches!(e, Expr::AggregateFunction(call) if marked(call.func.name()).is_some()))
    })
    .unwrap_or(true)
}

/// True if rows come directly from inner joins, whose conditions may be in WHERE.
fn stands_on_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        LogicalPlan::Filter(filter) => stands_on_join(&filter.input),
        _ => false,
    }
}
