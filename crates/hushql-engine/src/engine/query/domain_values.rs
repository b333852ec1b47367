//! The values of a declared domain, for programs that fill a list to choose from.
//!
//! In: a [`BoundQuery`] that asks for the different values of one column of a private table, and
//! for nothing else. Out: the same query over the values that the declaration lists. It is free,
//! and says that these are not the values of the data.
//!
//! ```text
//! SELECT DISTINCT ward FROM visits ORDER BY ward LIMIT 100
//! SELECT ward FROM visits WHERE ward LIKE 'a%' GROUP BY ward
//! ```

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, TableScan};

use super::bind_query::BoundQuery;
use crate::analysis::typed;
use crate::bind::Bound;
use crate::catalog::{Domain, Privacy};

/// The most values of such a list.
const MOST: usize = 100_000;

impl BoundQuery {
    /// The same query over the values of a declared domain, if it asks for these alone.
    ///
    /// # Guarantee
    /// The answer follows from the declaration and the query. No release and no private table is
    /// left in it.
    pub(super) fn over_domain(self) -> Self {
        if !self.bound.releases().is_empty() || !self.views.is_empty() || self.range_of.is_some() {
            return self;
        }
        match self.domain_query() {
            Some((plan, note)) => {
                let bound = Bound::from_plan(plan, Vec::new());
                Self { bound, note: Some(note), ..self }
            }
            None => self,
        }
    }

    /// The plan over the values, and what to say about them.
    fn domain_query(&self) -> Option<(LogicalPlan, String)> {
        let plan = self.bound.plan();
        let scan = scan_of_values(plan)?;
        let column = only_column(plan, scan)?;
        let name = scan.table_name.table();
        let table = self.declared.catalog.table(name)?;
        let is_private = match table.privacy {
            Privacy::Public | Privacy::Undeclared => false,
            Privacy::Private(_) => true,
        };
        let Some(Domain::In(listed)) = &table.column(&column)?.domain else { return None };
        if !is_private || listed.len() > MOST {
            return None;
        }
        let (qualifier, field) =
            scan.projected_schema.qualified_field_with_unqualified_name(&column).ok()?;
        let rows = listed.iter().map(|value| {
            let value = match value {
                Some(text) => typed(text, field.data_type()).ok()?,
                None => datafusion::common::ScalarValue::try_from(field.data_type()).ok()?,
            };
            Some(vec![Expr::Literal(value, None)])
        });
        let values = LogicalPlanBuilder::values(rows.collect::<Option<Vec<_>>>()?).ok()?;
        let listed = Expr::Column(Column::from_name("column1")).alias(&column);
        let values = values.project([listed]).ok()?.alias(qualifier?.clone()).ok()?.build().ok()?;
        let replaced = plan.clone().transform_up(|node| match node {
            LogicalPlan::TableScan(_) => Ok(Transformed::yes(values.clone())),
            other => Ok(Transformed::yes(other.recompute_schema()?)),
        });
        let note = format!(
            "{column}: these are the values of the declared domain of {name}.{column}, whether or not a row has them"
        );
        Some((replaced.ok()?.data, note))
    }
}

/// The scan of a query for the different values of one column: sorting and limits, DISTINCT or
/// GROUP BY, conditions, the scan.
fn scan_of_values(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::Limit(node) => scan_of_values(&node.input),
        LogicalPlan::Sort(node) => scan_of_values(&node.input),
        LogicalPlan::Projection(node) if is_one_column(&node.expr) => scan_of_values(&node.input),
        LogicalPlan::SubqueryAlias(node) => scan_of_values(&node.input),
        LogicalPlan::Distinct(Distinct::All(input)) => scan_of_rows(input),
        LogicalPlan::Aggregate(node)
            if node.aggr_expr.is_empty() && is_one_column(&node.group_expr) =>
        {
            scan_of_rows(&node.input)
        }
        _ => None,
    }
}

/// The scan below DISTINCT or GROUP BY. A second GROUP BY of the same column changes nothing.
fn scan_of_rows(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::Projection(node) => {
            let columns = node.expr.iter().all(|expr| column_of(expr).is_some());
            if columns { scan_of_rows(&node.input) } else { None }
        }
        LogicalPlan::Filter(node) => scan_of_rows(&node.input),
        LogicalPlan::SubqueryAlias(node) => scan_of_rows(&node.input),
        LogicalPlan::Aggregate(node)
            if node.aggr_expr.is_empty() && is_one_column(&node.group_expr) =>
        {
            scan_of_rows(&node.input)
        }
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() && scan.filters.is_empty() => {
            Some(scan)
        }
        _ => None,
    }
}

fn is_one_column(exprs: &[Expr]) -> bool {
    matches!(exprs, [one] if column_of(one).is_some())
}

fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// The only column of the scan that the query reads. `None` if it reads several, or has a subquery.
fn only_column(plan: &LogicalPlan, scan: &TableScan) -> Option<String> {
    let (mut names, mut has_subquery) = (BTreeSet::new(), false);
    let walked = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                has_subquery |= matches!(
                    e,
                    Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                );
                Ok(TreeNodeRecursion::Continue)
            })?;
            let is_below = !matches!(node, LogicalPlan::Sort(_));
            let own = expr.column_refs().into_iter().filter(|_| is_below);
            names.extend(own.map(|column| column.name.clone()));
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.ok()?;
    let of_table: Vec<String> = names
        .into_iter()
        .filter(|name| scan.projected_schema.has_column_with_unqualified_name(name))
        .collect();
    match (of_table.as_slice(), has_subquery) {
        ([one], false) => Some(one.clone()),
        _ => None,
    }
}
