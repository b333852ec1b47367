//! Conditions on public rows that follow from conditions on other rows.
//!
//! In: the conditions of inner joins, and the relations that are joined. Out: the same conditions,
//! and those that follow for the public relations through equal columns. With them, fewer public
//! rows are read, and fewer of their values are keys.
//!
//! ```text
//! v.day = d.day AND v.day = x.day AND v.day < 3      d and x public
//!   adds      d.day < 3, x.day < 3
//! ```
//!
//! An equality of two public columns is not added. It would join the public rows with each other
//! while the query is planned, and tables with several rows per key would multiply each other.

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::relation::{PrivateRelation, has_subquery};
use crate::analysis::expr::shape::type_of;
use crate::functions::is_late_value;

/// Adds the conditions on public relations that follow from others.
///
/// # Guarantee
/// A row of the inner join meets the added conditions if it meets the written ones. The added
/// conditions depend only on the query.
pub(super) fn restated(conditions: &mut Vec<Expr>, leaves: &[PrivateRelation]) {
    let classes = classes(conditions, leaves);
    let mut found = Vec::new();
    for class in &classes {
        let public: Vec<&ColumnOfRelation> = class.iter().filter(|place| place.is_public).collect();
        for condition in conditions.iter().filter(|condition| !has_subquery(condition)) {
            let columns = condition.column_refs();
            let (Some(column), 1) = (columns.iter().next(), columns.len()) else { continue };
            if !is_known_now(condition) || !class.iter().any(|place| place.column == **column) {
                continue;
            }
            let others = public.iter().filter(|place| place.column != **column);
            found.extend(others.filter_map(|place| of_other(condition, column, &place.column)));
        }
    }
    for condition in found {
        let known = conditions.iter().any(|one| *one == condition || swapped(one) == condition);
        if !known {
            conditions.push(condition);
        }
    }
}

/// True if a condition can be computed while the query is planned, when public rows are read.
pub(super) fn is_known_now(condition: &Expr) -> bool {
    let is_late =
        |part: &Expr| Ok(matches!(part, Expr::ScalarFunction(call) if is_late_value(&call.func)));
    !condition.is_volatile() && !condition.exists(is_late).unwrap_or(true)
}

/// A column of one of the relations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ColumnOfRelation {
    leaf: usize,
    column: Column,
    is_public: bool,
}

/// Columns of one type that conditions equate, directly or through other columns.
fn classes(conditions: &[Expr], leaves: &[PrivateRelation]) -> Vec<BTreeSet<ColumnOfRelation>> {
    let place = |expr: &Expr| {
        let column = expr.try_as_col()?;
        let is_here = |flow: &PrivateRelation| flow.scope.schema.is_column_from_schema(column);
        let leaf = leaves.iter().position(is_here)?;
        let flow = leaves.get(leaf)?;
        let data_type = type_of(expr, &flow.scope.schema).ok()?;
        // Equal floats can differ: −0.0 and 0.0.
        let place = ColumnOfRelation { leaf, column: column.clone(), is_public: flow.is_public() };
        (!data_type.is_floating()).then_some((place, data_type))
    };
    let mut classes: Vec<BTreeSet<ColumnOfRelation>> = Vec::new();
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            continue;
        };
        let (Some((left, from)), Some((right, to))) = (place(left), place(right)) else { continue };
        if from != to {
            continue;
        }
        let touches =
            |class: &BTreeSet<ColumnOfRelation>| class.contains(&left) || class.contains(&right);
        let (joined, rest): (Vec<_>, Vec<_>) = classes.into_iter().partition(touches);
        let mut all: BTreeSet<ColumnOfRelation> = joined.into_iter().flatten().collect();
        all.extend([left, right]);
        classes = rest;
        classes.push(all);
    }
    classes
}

/// An equality with its sides swapped; any other condition unchanged.
fn swapped(condition: &Expr) -> Expr {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return condition.clone();
    };
    Expr::BinaryExpr(BinaryExpr::new(right.clone(), Operator::Eq, left.clone()))
}

/// A condition on one column, rewritten for another.
fn of_other(condition: &Expr, column: &Column, other: &Column) -> Option<Expr> {
    let said = condition.clone().transform_up(|part| {
        Ok(match part.try_as_col() == Some(column) {
            true => Transformed::yes(Expr::Column(other.clone())),
            false => Transformed::no(part),
        })
    });
    said.ok().map(|said| said.data)
}
