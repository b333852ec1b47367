//! A release that is asked for each row of a public table, by its key.
//!
//! In: a subquery as a value with a release and conditions that columns outside equal its own. Out:
//! one release by these columns, and for each row outside the value of its key. One person adds to
//! the groups as under any GROUP BY, and is charged once.
//!
//! ```text
//! (SELECT LAPLACE(eps=1) SUM(x) FROM items i WHERE i.good = g.id AND i.x > 3)
//! (SELECT MAX(value_0) FROM (SELECT i.good AS key_0, LAPLACE(eps=1) SUM(x) AS value_0 FROM items i
//!                            WHERE i.x > 3 GROUP BY i.good) AS released WHERE released.key_0 = g.id)
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr,
    TableFactor, visit_expressions, visit_expressions_mut,
};

use super::ast::{AggregateName, Operand, ReleaseClause, marked};
use super::clauses::{call, folded, number};

/// The name of the released rows.
const RELEASED: &str = "released";

/// Rewrites each correlated release of a query. Others stay as they are.
pub(super) fn by_their_keys(query: &mut Query, releases: &[ReleaseClause]) {
    let _ = visit_expressions_mut(query, |expr| {
        if let Expr::Subquery(inner) = expr
            && let Some(by_key) = by_key(inner, releases)
        {
            **inner = by_key;
        }
        ControlFlow::<()>::Continue(())
    });
}

/// A column of the subquery that has to equal one outside.
struct Key {
    own: Expr,
    outer: Expr,
}

fn by_key(query: &Query, releases: &[ReleaseClause]) -> Option<Query> {
    let is_bare = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let has_groups = match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let [SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    if !is_bare || has_groups || select.having.is_some() || select.distinct.is_some() {
        return None;
    }
    let own = own_names(select)?;
    let (keys, rest) = split(select.selection.as_ref()?, &own);
    let stays = |expr: &Expr| !names_outer(expr, &own);
    if keys.is_empty() || !rest.iter().chain([shown]).all(stays) {
        return None;
    }
    let (outside, values) = values(shown, releases)?;
    let mut grouped = select.as_ref().clone();
    grouped.selection = rest.into_iter().reduce(|a, b| binary(a, BinaryOperator::And, b));
    let keyed = keys.iter().enumerate().map(|(n, key)| item(key.own.clone(), &key_name(n)));
    let valued = values.into_iter().enumerate().map(|(n, value)| item(value, &value_name(n)));
    grouped.projection = keyed.chain(valued).collect();
    let groups = keys.iter().map(|key| key.own.clone()).collect();
    grouped.group_by = GroupByExpr::Expressions(groups, Vec::new());
    let conditions = keys.into_iter().enumerate().map(|(n, key)| {
        let own = Expr::CompoundIdentifier(vec![Ident::new(RELEASED), Ident::new(key_name(n))]);
        binary(own, BinaryOperator::Eq, key.outer)
    });
    let mut looked_up = select.as_ref().clone();
    looked_up.projection = vec![SelectItem::UnnamedExpr(outside)];
    looked_up.selection = conditions.reduce(|a, b| binary(a, BinaryOperator::And, b));
    looked_up.from = vec![sql::TableWithJoins { relation: derived(query, grouped), joins: vec![] }];
    Some(Query { body: Box::new(SetExpr::Select(Box::new(looked_up))), ..query.clone() })
}

/// The names of the tables of a SELECT. `None` if it reads anything but tables.
fn own_names(select: &Select) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for sql::TableWithJoins { relation, joins } in &select.from {
        for relation in std::iter::once(relation).chain(joins.iter().map(|join| &join.relation)) {
            let TableFactor::Table { name, alias, .. } = relation else { return None };
            names.push(match alias {
                Some(alias) => folded(&alias.name),
                None => name.0.last()?.as_ident().map(folded)?,
            });
        }
    }
    Some(names)
}

/// Whether an expression names a column behind another table's name, or holds a subquery, in which
/// names mean something else.
fn names_outer(expr: &Expr, own: &[String]) -> bool {
    visit_expressions(expr, |e| {
        let is_outer = match e {
            Expr::CompoundIdentifier(parts) => {
                !parts.first().is_some_and(|table| own.contains(&folded(table)))
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
            _ => false,
        };
        if is_outer { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .is_break()
}

/// The conditions that a column outside equals one of the subquery's, and the others.
fn split(condition: &Expr, own: &[String]) -> (Vec<Key>, Vec<Expr>) {
    let (mut keys, mut rest) = (Vec::new(), Vec::new());
    let mut left = vec![condition];
    while let Some(one) = left.pop() {
        match one {
            Expr::Nested(inner) => left.push(inner),
            Expr::BinaryOp { left: a, op: BinaryOperator::And, right: b } => {
                left.push(b);
                left.push(a);
            }
            Expr::BinaryOp { left: a, op: BinaryOperator::Eq, right: b }
                if is_outer_column(a, own) && !names_outer(b, own) =>
            {
                keys.push(Key { own: b.as_ref().clone(), outer: a.as_ref().clone() });
            }
            Expr::BinaryOp { left: a, op: BinaryOperator::Eq, right: b }
                if is_outer_column(b, own) && !names_outer(a, own) =>
            {
                keys.push(Key { own: a.as_ref().clone(), outer: b.as_ref().clone() });
            }
            other => rest.push(other.clone()),
        }
    }
    (keys, rest)
}

fn is_outer_column(expr: &Expr, own: &[String]) -> bool {
    matches!(expr, Expr::CompoundIdentifier(_)) && names_outer(expr, own)
}

/// The shown expression, with the released values in place of the releases, and the releases.
/// `None` without a mechanism: the aggregate may then be of a public table. A count of a key that
/// does not come out is 0.
fn values(shown: &Expr, releases: &[ReleaseClause]) -> Option<(Expr, Vec<Expr>)> {
    let (mut outside, mut values, mut sound) = (shown.clone(), Vec::new(), true);
    let _ = visit_expressions_mut(&mut outside, |expr| {
        let Expr::Function(function) = &*expr else { return ControlFlow::<()>::Continue(()) };
        let Some(n) = marked(&function.name.to_string()) else {
            return ControlFlow::Continue(());
        };
        let value =
            call("max".to_owned(), vec![Expr::Identifier(Ident::new(value_name(values.len())))]);
        values.push(expr.clone());
        *expr = match releases.get(n).map(|release| &release.operand) {
            Some(Operand::Aggregate(aggregate)) if aggregate.function == AggregateName::Count => {
                call("coalesce".to_owned(), vec![value, number("0")])
            }
            Some(Operand::Aggregate(_)) => value,
            Some(Operand::Selection(_) | Operand::Response) | None => {
                sound = false;
                value
            }
        };
        ControlFlow::Continue(())
    });
    (sound && !values.is_empty()).then_some((outside, values))
}

fn derived(query: &Query, select: Select) -> TableFactor {
    let subquery = Query { body: Box::new(SetExpr::Select(Box::new(select))), ..query.clone() };
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(subquery),
        alias: Some(sql::TableAlias {
            explicit: true,
            name: Ident::new(RELEASED),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    }
}

fn item(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::new(name) }
}

fn key_name(n: usize) -> String {
    format!("key_{n}")
}

fn value_name(n: usize) -> String {
    format!("value_{n}")
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
