//! IN and EXISTS below a release, as semi and anti joins.
//!
//! In: a condition with a subquery, over private rows. Out: the rows that have a match, or those that have none. A
//! subquery over public tables is read while the query is planned. A subquery over private tables must match rows of the
//! same unit, by the unit itself or along a declared link, so that whether a row passes depends only on its own unit.
//!
//! ```text
//! EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND …)     orders ⋉ lineitem, along the link
//! c_custkey NOT IN (SELECT o_custkey FROM orders)                          customer ▷ orders, by unit
//! ```

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, Filter, JoinType, LogicalPlan, Projection,
};

use super::relation::PrivateRelation;
use crate::analysis::below::pair::{Basis, Pair, combined};
use crate::analysis::below::relation::has_subquery;
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::refusal::{Reason, Refusal};

impl Walk<'_> {
    /// The rows for which a condition with one subquery holds.
    ///
    /// # Guarantee
    /// Whether a row passes depends on the row, on public rows, and on rows of the same unit.
    pub(crate) fn matched(
        &mut self,
        flow: PrivateRelation,
        condition: &Expr,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let (condition, flipped) = match condition {
            Expr::Not(inner) => (inner.as_ref(), true),
            other => (other, false),
        };
        match condition {
            Expr::InSubquery(InSubquery { expr, subquery, negated })
                if !has_subquery(expr) && subquery.outer_ref_columns.is_empty() =>
            {
                let matches = Matches::Value(expr.as_ref().clone());
                self.semi(flow, &subquery.subquery, matches, *negated != flipped, condition)
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let (rows, conditions) = uncorrelated(&subquery.subquery)?;
                let matches = Matches::Conditions(conditions);
                self.semi(flow, &rows, matches, *negated != flipped, condition)
            }
            Expr::InSubquery(InSubquery { subquery, .. })
                if !subquery.outer_ref_columns.is_empty() =>
            {
                let outer: Vec<String> = subquery.outer_ref_columns.iter().map(readable).collect();
                Err(Refusal::new(
                    Reason::Subquery,
                    readable(condition),
                    format!(
                        "a subquery after IN names a column of the outer query: {}",
                        outer.join(", ")
                    ),
                    "a column of the subquery's own tables, or EXISTS (SELECT 1 FROM t WHERE t.unit = outer.unit AND …)",
                ).into())
            }
            _ => Err(refused(condition).into()),
        }
    }

    fn semi(
        &mut self,
        flow: PrivateRelation,
        subquery: &LogicalPlan,
        matches: Matches,
        negated: bool,
        whole: &Expr,
    ) -> Result<PrivateRelation, NotAnalyzed> {
        let other =
            if self.is_public(subquery) { self.pinned(subquery)? } else { self.rows(subquery)? };
        // The same table may occur inside and outside of the subquery, so it gets a name of its own inside.
        let name = self.fresh("inner");
        let is_in = matches!(matches, Matches::Value(_));
        let (other, conditions) = renamed(other, &name, matches)?;
        let text = if negated { "Rows without" } else { "Rows with" };
        if other.is_public() {
            if negated && is_in {
                return Err(Refusal::new(
                    Reason::Subquery,
                    readable(whole),
                    "NOT IN over public rows is no answer when one of them is NULL",
                    "NOT EXISTS (SELECT 1 FROM … WHERE … = …)",
                )
                .into());
            }
            let kind = if negated { JoinType::RightAnti } else { JoinType::RightSemi };
            let (owner, subject) = (flow.owner.clone(), flow.subject.clone());
            let names = other.public.iter().cloned().collect::<Vec<_>>().join(", ");
            self.step(format!("{text} a match in {names} [public]"));
            let pair = Pair { left: other, right: flow, on: Vec::new() };
            return Ok(PrivateRelation { owner, subject, ..combined(pair, kind, &conditions)? });
        }
        let basis = self.required_basis(&flow, &other, &conditions)?;
        if negated && is_in {
            neither_null(&flow, &other, &conditions, subquery, whole)?;
        }
        // The join must not change the unit of a row, so rows that lead to another table are resolved first.
        let keep = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        let (pair, basis) = self.paired(flow, other, basis, keep)?;
        let subject = pair.left.subject.clone().with_tables(pair.right.subject.tables());
        let why =
            if basis == Basis::Compared { "rows of one unit" } else { "along the declared link" };
        self.step(format!("{text} a match in {} [{why}]", pair.right.subject.tables().join(", ")));
        let flow = combined(pair, keep, &conditions)?;
        Ok(PrivateRelation { subject, ..flow })
    }
}

/// Refuses NOT IN where either side may be NULL.
///
/// In SQL, `x NOT IN (…)` does not hold if x is NULL, unless there are no rows, and never holds if one of the values
/// is NULL: both depend on rows of other units. Without NULL it holds if no row matches.
fn neither_null(
    flow: &PrivateRelation,
    other: &PrivateRelation,
    conditions: &[Expr],
    subquery: &LogicalPlan,
    whole: &Expr,
) -> Result<(), NotAnalyzed> {
    let present =
        |flow: &PrivateRelation, e: &Expr| flow.trace(e).is_some_and(|trace| trace.present);
    let refused = |what: &str, hint: String| {
        let message = format!(
            "NOT IN where {what} may be NULL depends on the rows of other people: one NULL among them changes the answer"
        );
        Err(Refusal::new(Reason::Subquery, readable(whole), message, hint))
    };
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = condition else {
            return Err(lost());
        };
        if !present(flow, left) {
            let value = readable(left);
            return Ok(refused(&value, format!("{value} IS NOT NULL AND {}", readable(whole)))?);
        }
        if !present(other, right) {
            let columns = subquery.schema().columns();
            let named = columns.first().map(|column| readable(&Expr::Column(column.clone())));
            let named = named.unwrap_or_default();
            return Ok(refused(&named, format!("WHERE {named} IS NOT NULL in the subquery"))?);
        }
    }
    Ok(())
}

/// The condition that a row of the subquery must match.
enum Matches {
    /// Its only column must equal this value.
    Value(Expr),
    /// Conditions in which outer columns are marked.
    Conditions(Vec<Expr>),
}

/// A relation under a unique name, and the conditions rewritten to that name.
fn renamed(
    inner: PrivateRelation,
    name: &str,
    matches: Matches,
) -> Result<(PrivateRelation, Vec<Expr>), NotAnalyzed> {
    let before = inner.scope.schema.columns();
    let columns: Vec<Expr> = before.iter().cloned().map(Expr::Column).collect();
    // Columns of different tables can have the same name; numbers distinguish them.
    let fields = inner.scope.schema.fields().iter().enumerate();
    let fields = fields.map(|(i, f)| f.as_ref().clone().with_name(format!("{name}_{i}")));
    let arrow = Schema::new(fields.collect::<Vec<_>>());
    let bare = DFSchema::try_from(arrow.clone()).map_err(|e| internal(&e))?;
    let alias = TableReference::bare(name.to_owned());
    let qualified = DFSchema::try_from_qualified_schema(alias.clone(), &arrow);
    let qualified = Arc::new(qualified.map_err(|e| internal(&e))?);
    let after = qualified.columns();
    let renamed = inner.projected(&columns, &Arc::new(bare))?.named(&alias, &qualified)?;
    let conditions = match matches {
        Matches::Value(value) => {
            let [column] = after.as_slice() else { return Err(lost()) };
            vec![value.eq(Expr::Column(column.clone()))]
        }
        Matches::Conditions(conditions) => {
            let meant = |e: Expr| {
                Ok(match e {
                    Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
                    Expr::Column(column) => {
                        let new = before.iter().position(|b| *b == column);
                        match new.and_then(|i| after.get(i)) {
                            Some(new) => Transformed::yes(Expr::Column(new.clone())),
                            None => Transformed::no(Expr::Column(column)),
                        }
                    }
                    other => Transformed::no(other),
                })
            };
            let all = conditions.into_iter().map(|c| c.transform(meant).map(|t| t.data));
            all.collect::<Result<_, _>>().map_err(|e| internal(&e))?
        }
    };
    Ok((renamed, conditions))
}

/// A subquery without the conditions that name outer columns, and these conditions.
fn uncorrelated(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<Expr>), NotAnalyzed> {
    match plan {
        // For EXISTS, the selected columns do not matter.
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Distinct(Distinct::All(input)) => uncorrelated(input),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let conditions = split_conjunction_owned(predicate.clone());
            let (outer, own): (Vec<_>, Vec<_>) =
                conditions.into_iter().partition(Expr::contains_outer);
            let rest = match own.into_iter().reduce(Expr::and) {
                Some(own) => LogicalPlan::Filter(
                    Filter::try_new(own, input.clone()).map_err(|e| internal(&e))?,
                ),
                None => input.as_ref().clone(),
            };
            if rest.contains_outer_reference() {
                return Err(deep().into());
            }
            Ok((rest, outer))
        }
        other if other.contains_outer_reference() => Err(deep().into()),
        other => Ok((other.clone(), Vec::new())),
    }
}

fn deep() -> Refusal {
    Refusal::new(
        Reason::Subquery,
        "EXISTS",
        "the outer query's columns are named deep inside the subquery",
        "EXISTS (SELECT 1 FROM t WHERE t.unit = outer.unit AND …)",
    )
}

fn refused(expr: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(expr),
        "a subquery below a release stands alone in WHERE, as IN or EXISTS",
        "x > (SELECT LAPLACE(eps=1) AVG(x) FROM t), which releases the value; x IN (SELECT …) or EXISTS (SELECT …) as a condition of its own",
    )
}
