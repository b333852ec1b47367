//! Joins above a release that no group can pass.
//!
//! In: inner joins of released groups with public tables, with the conditions on them, and the keys
//! of each release. Out: a refusal if no key and no public row meet the conditions. Keys are
//! public, so the check costs nothing. Without it, the answer would be empty at the full price.
//!
//! ```text
//! SELECT … FROM (SELECT k, LAPLACE(eps=1) COUNT(*) … GROUP BY k) q JOIN w ON w.k = q.k WHERE w.c = 'q'
//!   no row of w has c = 'q', or the only one has a k that is not a key: refused
//! ```

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result as DataFusionResult};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder};

use crate::analysis::PrivateAggregate;
use crate::analysis::below::join_conditions::conditions_of;
use crate::analysis::below::public_side::refuse_volatile;
use crate::analysis::below::relation::has_subquery;
use crate::analysis::below::walk::Tables;
use crate::analysis::expr::facts::Facts;
use crate::analysis::expr::shape::readable;
use crate::analysis::keys::MOST_KEYS;
use crate::analysis::keys::joined_rows::{Joining, Side, Term};
use crate::analysis::keys::trial::is_late;
use crate::analysis::not_analyzed::{NotAnalyzed, internal};
use crate::analysis::outcome::{released_part, released_parts};
use crate::analysis::recursion::deeper;
use crate::catalog::RESERVED;
use crate::refusal::{Reason, Refusal};

/// Refuses inner joins above releases of which no row can exist.
///
/// # Guarantee
/// Depends only on the query, the declarations and public tables.
///
/// # Errors
/// The first such refusal.
pub(crate) fn no_unmatched_join(
    plan: &LogicalPlan,
    parts: &[PrivateAggregate],
    tables: &dyn Tables,
) -> Result<(), NotAnalyzed> {
    if parts.is_empty() { Ok(()) } else { checked(plan, parts, tables) }
}

fn checked(
    plan: &LogicalPlan,
    parts: &[PrivateAggregate],
    tables: &dyn Tables,
) -> Result<(), NotAnalyzed> {
    let (mut leaves, mut conditions) = (Vec::new(), Vec::new());
    gather(plan, &mut leaves, &mut conditions);
    if leaves.len() > 1 && leaves.iter().any(|leaf| !released_parts(leaf).is_empty()) {
        refuse_unmatched(&leaves, &conditions, parts, tables)?;
    }
    let mut below: Vec<LogicalPlan> = Vec::new();
    for condition in &conditions {
        subqueries(condition, &mut below).map_err(|e| internal(&e))?;
    }
    for leaf in leaves {
        below.extend(leaf.inputs().into_iter().cloned());
        let walked = leaf.apply_expressions(|expr| {
            subqueries(expr, &mut below)?;
            Ok(TreeNodeRecursion::Continue)
        });
        walked.map_err(|e| internal(&e))?;
    }
    below.iter().try_for_each(|plan| deeper(|| checked(plan, parts, tables)))
}

/// The subqueries in an expression.
fn subqueries(expr: &Expr, found: &mut Vec<LogicalPlan>) -> DataFusionResult<()> {
    let walked = expr.apply(|part| {
        if let Expr::ScalarSubquery(subquery)
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::Exists(Exists { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) = part
        {
            found.push(subquery.subquery.as_ref().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map(|_| ())
}

/// The leaves of a tree of inner joins and filters, and its conditions.
fn gather<'a>(
    plan: &'a LogicalPlan,
    leaves: &mut Vec<&'a LogicalPlan>,
    conditions: &mut Vec<Expr>,
) {
    if let LogicalPlan::Join(join) = plan
        && join.join_type == JoinType::Inner
    {
        gather(&join.left, leaves, conditions);
        gather(&join.right, leaves, conditions);
        conditions.extend(conditions_of(join));
    } else if let LogicalPlan::Filter(filter) = plan {
        gather(&filter.input, leaves, conditions);
        conditions.extend(split_conjunction_owned(filter.predicate.clone()));
    } else {
        leaves.push(plan);
    }
}

fn refuse_unmatched(
    leaves: &[&LogicalPlan],
    conditions: &[Expr],
    parts: &[PrivateAggregate],
    tables: &dyn Tables,
) -> Result<(), Refusal> {
    let is_tried = |one: &&Expr| !is_late(one) && !has_subquery(one) && !one.is_volatile();
    let tried: Vec<Expr> = conditions.iter().filter(is_tried).cloned().collect();
    if tried.is_empty() {
        return Ok(());
    }
    let sides = leaves.iter().enumerate();
    let sides: Vec<Side> = sides
        .filter_map(|(i, leaf)| match released_parts(leaf).is_empty() {
            true => public_side(leaf, i, tables),
            false => released_side(leaf, i, parts),
        })
        .collect();
    let none = sides.iter().any(|side| side.len() == 0)
        || Joining::new(sides, &tried, &[], tables)
            .and_then(|joining| joining.combinations(&[]))
            .is_some_and(|rows| rows.is_empty());
    if !none {
        return Ok(());
    }
    let text = tried.iter().map(readable).collect::<Vec<_>>().join(" AND ");
    Err(Refusal::new(
        Reason::BadValue,
        text,
        "no group can pass this join: no released key and no row of the public tables meet these conditions together",
        "conditions that a key and a public row meet; SELECT * FROM the public table shows its rows",
    ))
}

/// The rows of a public leaf; `None` if they cannot be read now.
fn public_side(leaf: &LogicalPlan, number: usize, tables: &dyn Tables) -> Option<Side> {
    refuse_volatile(leaf, "").ok()?;
    let columns = leaf.schema().columns();
    let name = |i: usize| format!("{RESERVED}_leaf{number}_{i}");
    let named = columns.iter().enumerate();
    let named = named.map(|(i, column)| Expr::Column(column.clone()).alias(name(i)));
    let plan = LogicalPlanBuilder::from(leaf.clone())
        .project(named)
        .and_then(|rows| rows.limit(0, Some(MOST_KEYS + 1)))
        .and_then(LogicalPlanBuilder::build)
        .ok()?;
    let rows = tables.read(&plan)?;
    if rows.num_rows() > MOST_KEYS {
        return None;
    }
    let terms =
        columns.into_iter().enumerate().zip(rows.columns()).map(|((i, column), values)| Term {
            expr: Expr::Column(column),
            name: name(i),
            data_type: values.data_type().clone(),
            facts: Facts::of_type(values.data_type()),
            null_counts: true,
        });
    Side::new(terms.collect(), rows.columns().to_vec())
}

/// The keys of a leaf that shows released groups; `None` if they are unknown.
fn released_side(leaf: &LogicalPlan, number: usize, parts: &[PrivateAggregate]) -> Option<Side> {
    let (part, places) = keys_of(leaf)?;
    let keys = parts.get(part)?.keys().all();
    let (mut terms, mut values) = (Vec::new(), Vec::new());
    for (column, place) in leaf.schema().columns().into_iter().zip(places) {
        let Some(own) = place.and_then(|place| keys.columns().get(place)) else { continue };
        terms.push(Term {
            expr: Expr::Column(column),
            name: format!("{RESERVED}_leaf{number}_{}", terms.len()),
            data_type: own.data_type().clone(),
            facts: Facts::of_type(own.data_type()),
            null_counts: true,
        });
        values.push(own.clone());
    }
    (!terms.is_empty()).then(|| Side::new(terms, values)).flatten()
}

/// The release of which a plan shows groups, and for each column of the plan the position of the
/// key that it is.
///
/// # Guarantee
/// Each row of the plan has the keys of a group of the release.
fn keys_of(plan: &LogicalPlan) -> Option<(usize, Vec<Option<usize>>)> {
    if let LogicalPlan::TableScan(scan) = plan {
        let part = released_part(scan.table_name.table())?;
        return Some((part, (0..scan.projected_schema.fields().len()).map(Some).collect()));
    }
    if let LogicalPlan::Projection(projection) = plan {
        let (part, places) = keys_of(&projection.input)?;
        let schema = projection.input.schema();
        let place =
            |column: &Column| places.get(schema.maybe_index_of_column(column)?).copied().flatten();
        let of_expr = |expr: &Expr| {
            let expr = if let Expr::Alias(alias) = expr { &alias.expr } else { expr };
            expr.try_as_col().and_then(place)
        };
        return Some((part, projection.expr.iter().map(of_expr).collect()));
    }
    // These nodes have the columns of their input, and some of its rows.
    let input = if let LogicalPlan::Filter(filter) = plan {
        &filter.input
    } else if let LogicalPlan::SubqueryAlias(alias) = plan {
        &alias.input
    } else if let LogicalPlan::Sort(sort) = plan {
        &sort.input
    } else if let LogicalPlan::Limit(limit) = plan {
        &limit.input
    } else {
        return None;
    };
    keys_of(input)
}
