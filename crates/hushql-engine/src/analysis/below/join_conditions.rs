//! The conditions of joins: the tables that each condition concerns, and the columns that it
//! equates.
//!
//! In: the conditions of inner joins and of the WHERE above them, as one list. Out: the conditions
//! that concern given relations, each once. A condition of an unknown shape stays in the list until
//! all its columns are in scope.
//!
//! ```text
//! a.x = b.y AND a.z > 3 AND (b.k = c.k AND … OR b.k = c.k AND …)
//!   about a: z > 3      a and b: x = y      b and c: k = k, taken out of the disjunction, which stays
//! ```

use datafusion::common::{Column, DFSchema, NullEquality};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, Operator};

use super::relation::{PrivateRelation, told};
use crate::analysis::below::refusals::operator;
use crate::analysis::expr::facts::type_range;
use crate::analysis::expr::shape::{is_string, type_of};
use crate::refusal::Refusal;

/// Conditions that have not been applied yet.
pub(crate) struct Pool {
    pub(crate) conditions: Vec<Expr>,
}

impl Pool {
    /// Takes the conditions whose columns are all in these relations.
    pub(crate) fn take(&mut self, flows: &[&PrivateRelation]) -> Vec<Expr> {
        let all = std::mem::take(&mut self.conditions);
        let (taken, left) = all.into_iter().partition(|condition| is_over(condition, flows));
        self.conditions = left;
        taken
    }

    /// The conditions over two relations together.
    pub(crate) fn between(&self, left: &PrivateRelation, right: &PrivateRelation) -> Vec<Expr> {
        self.conditions.iter().filter(|c| is_over(c, &[left, right])).cloned().collect()
    }

    /// Whether equal columns connect two relations.
    pub(crate) fn connects(&self, left: &PrivateRelation, right: &PrivateRelation) -> bool {
        !equal_columns(left, right, &self.conditions).is_empty()
    }

    /// Whether equal columns connect a relation with one of these.
    pub(crate) fn connects_any(&self, one: &PrivateRelation, others: &[PrivateRelation]) -> bool {
        others.iter().any(|other| self.connects(one, other))
    }

    /// True if a public relation has conditions with this relation and with no other.
    pub(crate) fn joins_only(&self, public: &PrivateRelation, flow: &PrivateRelation) -> bool {
        let about = self.conditions.iter().filter(|c| {
            c.column_refs().iter().any(|column| public.scope.schema.is_column_from_schema(column))
        });
        let mut about = about.peekable();
        about.peek().is_some()
            && self.connects(public, flow)
            && about.all(|c| is_over(c, &[public, flow]))
    }
}

/// Whether all columns of a condition are in these relations.
fn is_over(condition: &Expr, flows: &[&PrivateRelation]) -> bool {
    let known =
        |column: &&Column| flows.iter().any(|flow| flow.scope.schema.is_column_from_schema(column));
    condition.column_refs().iter().all(known)
}

/// The conditions of a join.
pub(crate) fn conditions_of(join: &Join) -> Vec<Expr> {
    let on = join.on.iter().map(|(l, r)| l.clone().eq(r.clone()));
    on.chain(join.filter.clone().into_iter().flat_map(split_conjunction_owned)).collect()
}

/// Refuses joins in which NULL matches NULL. These are INTERSECT and EXCEPT, which join rows on all
/// their columns.
pub(crate) fn plain(join: &Join) -> Result<(), Refusal> {
    if join.null_equality == NullEquality::NullEqualsNothing && !join.null_aware {
        return Ok(());
    }
    Err(operator(
        "INTERSECT or EXCEPT",
        "EXISTS (SELECT 1 FROM b WHERE b.x = a.x) in place of INTERSECT, NOT EXISTS (…) in place of EXCEPT",
    ))
}

/// The column that an expression is, directly or cast to a type that has all values of the column's
/// type.
pub(crate) fn widened<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Column> {
    match expr {
        Expr::Cast(Cast { expr: inner, field }) => {
            let column = inner.try_as_col()?;
            let (from, to) = (type_of(inner, schema).ok()?, field.data_type());
            let whole = from.is_integer() && to.is_integer();
            let fits = || Some(type_range(&from)?.is_within(&type_range(to)?));
            (whole && fits()? || is_string(&from) && is_string(to)).then_some(column)
        }
        other => other.try_as_col(),
    }
}

/// The pairs of columns that conditions equate, one column from each relation. A column cast to a
/// wider type counts as the same key.
pub(crate) fn equal_columns(
    left: &PrivateRelation,
    right: &PrivateRelation,
    conditions: &[Expr],
) -> Vec<(Column, Column)> {
    let has =
        |flow: &PrivateRelation, column: &Column| flow.scope.schema.is_column_from_schema(column);
    let pair = |condition: &Expr| match condition {
        Expr::BinaryExpr(BinaryExpr { left: l, op: Operator::Eq, right: r }) => {
            let column =
                |e| widened(e, &left.scope.schema).or_else(|| widened(e, &right.scope.schema));
            let (l, r) = (column(l)?, column(r)?);
            if has(left, l) && has(right, r) {
                Some((l.clone(), r.clone()))
            } else if has(left, r) && has(right, l) {
                Some((r.clone(), l.clone()))
            } else {
                None
            }
        }
        _ => None,
    };
    conditions.iter().filter_map(pair).collect()
}

/// Adds the conditions that every branch of a disjunction contains, because they may join two
/// tables.
pub(crate) fn factored(conditions: &mut Vec<Expr>) {
    let mut found = Vec::new();
    for condition in conditions.iter() {
        let branches = branches(condition);
        let [first, others @ ..] = branches.as_slice() else { continue };
        if others.is_empty() {
            continue;
        }
        let said = |branch: &Expr| split_conjunction_owned(branch.clone());
        let others: Vec<Vec<Expr>> = others.iter().map(|branch| said(branch)).collect();
        let everywhere = said(first).into_iter().filter(|c| others.iter().all(|o| o.contains(c)));
        found.extend(everywhere);
    }
    for condition in found {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
}

/// The branches of a disjunction.
fn branches(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = branches(left);
            all.extend(branches(right));
            all
        }
        other => vec![other],
    }
}

/// Conditions as text for a step of the explanation.
pub(crate) fn on_text(conditions: &[Expr]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" on {}", told(conditions)) }
}
