//! Subqueries as values below a release: columns of the rows around them.
//!
//! In: rows, and expressions over them with subqueries. Out: the same rows with a column for each
//! subquery, and the expressions over these columns. EXISTS and IN become marks. A subquery with an
//! aggregate becomes an aggregate per unit, joined to the rows that it matches.
//!
//! ```text
//! CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id) …       CASE WHEN mark …
//! (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.id) > 2               COALESCE(n, 0) > 2
//! ```
//!
//! # Guarantee
//! Every row is returned exactly once, and the facts about its columns and its unit still hold.
//! Each new value depends on the row, on public rows, and on rows of the same unit.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::{AggregateFunction, Case, Exists, InSubquery};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, JoinType, LogicalPlan, Operator, when,
};

use super::correlation::{
    Correlated, ScalarAggregate, by_keys, names_outside, scalar_aggregate, single_row,
};
use super::public_side::public_value;
use super::relation::{Owner, PrivateRelation, has_subquery};
use super::semi_join::{Matches, because, public_names, refused, renamed};
use crate::analysis::below::pair::{Pair, combined};
use crate::analysis::below::walk::Walk;
use crate::analysis::expr::aggregate_call::CallOf;
use crate::analysis::expr::shape::readable;
use crate::analysis::not_analyzed::{NotAnalyzed, internal, lost};
use crate::analysis::recursion::deeper;
use crate::refusal::{Reason, Refusal};

/// The meaning of NULL where an expression is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    /// NULL means the same as FALSE.
    Condition,
    /// NULL differs from FALSE.
    Value,
}

/// The rows with the added columns, and the subqueries that these columns replace.
struct Added {
    flow: Option<PrivateRelation>,
    known: Vec<(Expr, Expr)>,
}

impl Walk<'_> {
    /// Adds columns for the subqueries in some expressions, and rewrites the expressions over them.
    pub(crate) fn valued(
        &mut self,
        flow: PrivateRelation,
        expressions: &[Expr],
    ) -> Result<(PrivateRelation, Vec<Expr>), NotAnalyzed> {
        self.in_sense(flow, expressions, Sense::Value)
    }

    /// Adds columns for the subqueries in a condition, and rewrites the condition over them.
    pub(super) fn valued_condition(
        &mut self,
        flow: PrivateRelation,
        condition: &Expr,
    ) -> Result<(PrivateRelation, Expr), NotAnalyzed> {
        let one = std::slice::from_ref(condition);
        let (flow, mut made) = self.in_sense(flow, one, Sense::Condition)?;
        self.step(format!("Filter {}", readable(condition)));
        Ok((flow, made.pop().ok_or_else(lost)?))
    }

    /// An aggregate whose keys and calls use columns in place of subqueries, and its rows with
    /// these columns.
    pub(crate) fn valued_aggregate(
        &mut self,
        flow: PrivateRelation,
        aggregate: &Aggregate,
    ) -> Result<(PrivateRelation, Aggregate), NotAnalyzed> {
        let all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
        let (flow, mut keys) = self.valued(flow, &all.cloned().collect::<Vec<_>>())?;
        let calls = keys.split_off(aggregate.group_expr.len());
        let (input, schema) = (Arc::clone(&aggregate.input), Arc::clone(&aggregate.schema));
        let valued = Aggregate::try_new_with_schema(input, keys, calls, schema);
        Ok((flow, valued.map_err(|e| internal(&e))?))
    }

    fn in_sense(
        &mut self,
        flow: PrivateRelation,
        expressions: &[Expr],
        sense: Sense,
    ) -> Result<(PrivateRelation, Vec<Expr>), NotAnalyzed> {
        let mut added = Added { flow: Some(flow), known: Vec::new() };
        let made = expressions.iter().map(|expr| self.replaced(expr, sense, &mut added));
        let made = made.collect::<Result<Vec<_>, _>>()?;
        Ok((added.flow.ok_or_else(lost)?, made))
    }

    /// An expression with a column in place of each subquery.
    fn replaced(
        &mut self,
        expr: &Expr,
        sense: Sense,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        if !has_subquery(expr) {
            return Ok(expr.clone());
        }
        if let Some((_, column)) = added.known.iter().find(|(known, _)| known == expr) {
            return Ok(column.clone());
        }
        deeper(|| self.replaced_node(expr, sense, added))
    }

    fn replaced_node(
        &mut self,
        expr: &Expr,
        sense: Sense,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                let exists = self.exists(&subquery.subquery, expr, added)?;
                let value = if *negated { Expr::Not(Box::new(exists)) } else { exists };
                added.known.push((expr.clone(), value.clone()));
                Ok(value)
            }
            Expr::InSubquery(asked) => self.is_in(asked, expr, sense, added),
            Expr::ScalarSubquery(subquery) => {
                let value = self.scalar(&subquery.subquery, expr, added)?;
                added.known.push((expr.clone(), value.clone()));
                Ok(value)
            }
            Expr::SetComparison(_) => Err(refused(expr).into()),
            // In the condition of a CASE, NULL counts as FALSE.
            Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
                let mut cases = Vec::new();
                for (when, then) in when_then_expr {
                    let when = self.replaced(when, Sense::Condition, added)?;
                    cases.push((Box::new(when), Box::new(self.replaced(then, sense, added)?)));
                }
                let otherwise = else_expr.as_ref().map(|e| self.replaced(e, sense, added));
                let otherwise = otherwise.transpose()?.map(Box::new);
                Ok(Expr::Case(Case { expr: None, when_then_expr: cases, else_expr: otherwise }))
            }
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::And | Operator::Or),
                right,
            }) => {
                let left = self.replaced(left, sense, added)?;
                let right = self.replaced(right, sense, added)?;
                Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
            }
            Expr::IsTrue(inner) => {
                let inner = self.replaced(inner, Sense::Condition, added)?;
                Ok(Expr::IsTrue(Box::new(inner)))
            }
            Expr::IsNotTrue(inner) => {
                let inner = self.replaced(inner, Sense::Condition, added)?;
                Ok(Expr::IsNotTrue(Box::new(inner)))
            }
            Expr::Alias(alias) => {
                let mut alias = alias.clone();
                *alias.expr = self.replaced(&alias.expr, sense, added)?;
                Ok(Expr::Alias(alias))
            }
            Expr::AggregateFunction(call) => self.replaced_in_call(call, added),
            other => self.replaced_below(other, added),
        }
    }

    fn replaced_in_call(
        &mut self,
        call: &AggregateFunction,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        let mut call = call.clone();
        for argument in &mut call.params.args {
            *argument = self.replaced(argument, Sense::Value, added)?;
        }
        if let Some(filter) = &mut call.params.filter {
            **filter = self.replaced(filter, Sense::Condition, added)?;
        }
        Ok(Expr::AggregateFunction(call))
    }

    /// An expression whose operands are used as values.
    fn replaced_below(&mut self, expr: &Expr, added: &mut Added) -> Result<Expr, NotAnalyzed> {
        let mut failed = None;
        let made =
            expr.clone().map_children(|child| match self.replaced(&child, Sense::Value, added) {
                Ok(made) => Ok(Transformed::yes(made)),
                Err(error) => {
                    failed.get_or_insert(error);
                    Ok(Transformed::new(child, false, TreeNodeRecursion::Stop))
                }
            });
        match failed {
            Some(error) => Err(error),
            None => Ok(made.map_err(|e| internal(&e))?.data),
        }
    }

    /// EXISTS as a column.
    fn exists(
        &mut self,
        subquery: &LogicalPlan,
        whole: &Expr,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        if let Some(single) = single_row(subquery) {
            // An aggregate over all rows always has a row, unless HAVING drops it.
            let Some(having) = single.having.clone() else { return Ok(single.value) };
            let single = ScalarAggregate { value: having, having: None, ..single };
            return Ok(Expr::IsTrue(Box::new(self.aggregated(single, whole, added)?)));
        }
        let (rows, matches) = self.existing_rows(subquery)?;
        Ok(self.mark(&rows, matches, added)?.0)
    }

    /// IN as a column.
    ///
    /// # Guarantee
    /// Where NULL differs from FALSE, neither side is ever NULL. Then IN holds exactly if a row
    /// matches.
    fn is_in(
        &mut self,
        asked: &InSubquery,
        whole: &Expr,
        sense: Sense,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        let InSubquery { expr, subquery, negated } = asked;
        let value = self.replaced(expr, Sense::Value, added)?;
        let plan = subquery.subquery.as_ref();
        let (rows, matches) = match names_outside(plan)?.is_empty() {
            true => (plan.clone(), Matches::Value(value)),
            false => self.compared_with(&value, plan, whole)?,
        };
        let (mark, exact) = self.mark(&rows, matches, added)?;
        if !exact && (*negated || sense == Sense::Value) {
            return Err(three_valued(whole).into());
        }
        Ok(if *negated { Expr::Not(Box::new(mark)) } else { mark })
    }

    fn mark(
        &mut self,
        rows: &LogicalPlan,
        matches: Matches,
        added: &mut Added,
    ) -> Result<(Expr, bool), NotAnalyzed> {
        let flow = added.flow.take().ok_or_else(lost)?;
        let name = self.fresh("mark");
        let (flow, exact) = self.marked(flow, rows, matches, &name)?;
        added.flow = Some(flow);
        Ok((Expr::Column(Column::from_name(name)), exact))
    }

    /// A subquery as a value.
    fn scalar(
        &mut self,
        subquery: &LogicalPlan,
        whole: &Expr,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        let correlated = !names_outside(subquery)?.is_empty();
        if !correlated && self.is_public(subquery) {
            return public_value(self.tables, subquery);
        }
        match scalar_aggregate(subquery) {
            Some(scalar) => self.aggregated(scalar, whole, added),
            None if correlated => Err(not_aggregated(whole).into()),
            None => Err(refused(whole).into()),
        }
    }

    /// An aggregate of the rows that match, as a value over new columns.
    ///
    /// # Guarantee
    /// The aggregate has one row for each unit and each value of the compared columns, and the join
    /// compares the unit and all these columns. So each row has at most one match, and is returned
    /// exactly once.
    fn aggregated(
        &mut self,
        scalar: ScalarAggregate<'_>,
        whole: &Expr,
        added: &mut Added,
    ) -> Result<Expr, NotAnalyzed> {
        let ScalarAggregate { value, having, aggregate } = scalar;
        let below = self.uncorrelated(&aggregate.input, true)?;
        // Without a condition, it is the aggregate of all rows of the block.
        if below.conditions.is_empty() && self.blocks.is_none() {
            return Err(refused(whole).into());
        }
        let groups = aggregate.group_expr.len();
        let Correlated { rows, conditions } = by_keys(aggregate, below)?;
        let LogicalPlan::Aggregate(by_key) = &rows else { return Err(lost()) };
        let compared_keys: usize = {
            let columns = by_key.schema.columns();
            let keys = columns.iter().take(by_key.group_expr.len());
            let is_compared =
                |key: &&Column| conditions.iter().any(|c| c.column_refs().contains(*key));
            keys.filter(is_compared).count()
        };
        if compared_keys != by_key.group_expr.len() {
            return Err(several_groups(whole).into());
        }
        let zero_of_none: Vec<bool> = {
            let keys = by_key.group_expr.iter().map(|_| Ok(false));
            let calls = by_key.aggr_expr.iter().map(|call| match of_no_rows(call) {
                Some(zero) => Ok(zero && groups == 0),
                None => Err(refused(whole)),
            });
            keys.chain(calls).collect::<Result<_, _>>()?
        };
        let before = rows.schema().columns();
        let other = self.rows(&rows).map_err(|error| match error {
            NotAnalyzed::ManyUnits(_) => NotAnalyzed::Refused(refused(whole)),
            NotAnalyzed::Refused(_) | NotAnalyzed::NoRange(_) | NotAnalyzed::Fault(_) => error,
        })?;
        let name = self.fresh("inner");
        let (other, conditions) = renamed(other, &name, Matches::Conditions(conditions))?;
        let after = other.scope.schema.columns();
        let flow = added.flow.take().ok_or_else(lost)?;
        added.flow = Some(self.beside(flow, other, &conditions)?);
        let over = |expr: Expr| {
            let column = |e: Expr| {
                let Expr::Column(column) = &e else { return Ok(Transformed::no(e)) };
                let place = before.iter().position(|b| b == column);
                let new = place.and_then(|i| Some((after.get(i)?, zero_of_none.get(i)?)));
                let Some((new, zero)) = new else { return Ok(Transformed::no(e)) };
                let new = Expr::Column(new.clone());
                let zero = zero.then(|| Expr::Literal(ScalarValue::Int64(Some(0)), None));
                Ok(Transformed::yes(match zero {
                    Some(zero) => coalesce(vec![new, zero]),
                    None => new,
                }))
            };
            expr.transform_up(column).map(|t| t.data).map_err(|e| internal(&e))
        };
        let mut conditions: Vec<Expr> = having.map(&over).transpose()?.into_iter().collect();
        if groups > 0 {
            // A row without a match belongs to no group and gets no value. On these rows alone, the
            // compared columns are NULL.
            let key = after.first().cloned().ok_or_else(lost)?;
            conditions.insert(0, Expr::Column(key).is_not_null());
        }
        let value = over(value)?;
        match conditions.into_iter().reduce(Expr::and) {
            Some(condition) => when(condition, value).end().map_err(|e| internal(&e)),
            None => Ok(value),
        }
    }

    /// Adds the columns of another relation's matching row to each row; NULL without a match. At
    /// most one row matches.
    fn beside(
        &mut self,
        flow: PrivateRelation,
        mut other: PrivateRelation,
        conditions: &[Expr],
    ) -> Result<PrivateRelation, NotAnalyzed> {
        if other.is_public() {
            if matches!(flow.owner, Owner::Row) {
                // The join uses exactly the rows that were read and found to be one per key.
                other = self.pinned_flow(other)?;
            }
            let names = public_names(&other);
            self.step(format!("Add an aggregate of the rows that match in {names} [public]"));
            let (owner, subject, fans) =
                (flow.owner.clone(), flow.subject.clone(), flow.fans.clone());
            let distinct = flow.distinct.clone();
            let pair = Pair { left: flow, right: other, on: Vec::new() };
            let flow = combined(pair, JoinType::Left, conditions)?;
            return Ok(PrivateRelation { owner, subject, fans, distinct, ..flow });
        }
        let basis = self.required_basis(&flow, &other, conditions)?;
        let (pair, basis) = self.paired(flow, other, basis, JoinType::Left)?;
        let tables = pair.right.subject.tables();
        self.step(format!(
            "Add an aggregate of the rows that match in {} [{}]",
            tables.join(", "),
            because(basis, self.whose())
        ));
        let (owner, fans) = (pair.left.owner.clone(), pair.left.fans.clone());
        let subject = pair.left.subject.clone().with_tables(tables);
        let distinct = pair.left.distinct.clone();
        let flow = combined(pair, JoinType::Left, conditions)?;
        Ok(PrivateRelation { owner, subject, fans, distinct, ..flow })
    }
}

/// True if an aggregate of no rows is 0, false if it is NULL; `None` for aggregates for which
/// neither is known.
fn of_no_rows(call: &Expr) -> Option<bool> {
    let function = CallOf::function(call)?;
    match function.func.name() {
        "count" => Some(true),
        "sum" | "min" | "max" | "avg" | "median" | "stddev" | "stddev_pop" | "var" | "var_samp"
        | "var_pop" | "bool_or" | "bool_and" => Some(false),
        _other => None,
    }
}

fn three_valued(whole: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(whole),
        "IN is neither true nor false if a value on either side is NULL, and here that makes a difference",
        "EXISTS (SELECT 1 FROM t WHERE t.unit = outer.unit AND t.x = outer.x), or NOT EXISTS",
    )
}

fn not_aggregated(whole: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(whole),
        "a subquery as a value may have several rows, unless it is an aggregate without a mechanism",
        "(SELECT MAX(t.x) FROM t WHERE t.unit = outer.unit), or a join",
    )
}

fn several_groups(whole: &Expr) -> Refusal {
    Refusal::new(
        Reason::Subquery,
        readable(whole),
        "a subquery as a value is one row, and this one has one for each group",
        "no GROUP BY in it, or only columns that its conditions equate with outer ones",
    )
}
