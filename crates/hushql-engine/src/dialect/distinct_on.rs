//! `DISTINCT ON` as the first of numbered rows.
//!
//! In: a query whose ORDER BY begins with the keys of DISTINCT ON. Out: the same query with
//! ROW_NUMBER in a subquery. Any other DISTINCT ON stays, and is refused later: without an order,
//! the rows that come out are no answer.
//!
//! ```text
//! SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v DESC
//!     SELECT k, v FROM (SELECT k, v, k AS o0, v AS o1, ROW_NUMBER() OVER (PARTITION BY k ORDER BY k, v DESC) AS place
//!                       FROM t) AS numbered WHERE place = 1 ORDER BY o0, o1 DESC
//! SELECT DISTINCT ON (k) * FROM t ORDER BY k
//!     SELECT * EXCLUDE (o0, place) FROM (SELECT *, k AS o0, … AS place FROM t) AS numbered …
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, SelectItem, SetExpr,
    TableFactor, VisitMut, VisitorMut, WindowType,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::ast::{AggregateName, marked};
use crate::catalog::RESERVED;
use crate::dialect::headings::heading;

/// Rewrites each DISTINCT ON of a query.
pub(super) fn spell_out_distinct_on(query: &mut sql::Query) {
    let _: ControlFlow<()> = VisitMut::visit(query, &mut DistinctOn);
}

struct DistinctOn;

impl VisitorMut for DistinctOn {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        if let Some(numbered) = numbered(query) {
            *query = numbered;
        }
        ControlFlow::Continue(())
    }
}

fn reserved(name: &str) -> Ident {
    Ident::with_quote('"', format!("{RESERVED}_{name}"))
}

/// The query over numbered rows. `None` if it has no DISTINCT ON, or one that is not rewritten.
fn numbered(query: &sql::Query) -> Option<sql::Query> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Some(sql::Distinct::On(keys)) = &select.distinct else { return None };
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|by| &by.kind) else {
        return None;
    };
    let is_plain = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        && select.having.is_none()
        && select.qualify.is_none()
        && !select.projection.iter().any(has_aggregate);
    let order: Vec<OrderByExpr> =
        order.iter().map(|by| meant(by, &select.projection)).collect::<Option<_>>()?;
    let leading = order.get(..keys.len())?;
    let is_by_keys = keys.iter().all(|key| leading.iter().any(|by| by.expr == *key));
    if !is_plain || !is_by_keys {
        return None;
    }
    let (mut inner, mut shown, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let mut items = select.projection.iter().enumerate().peekable();
    let star = items.next_if(|(_, item)| is_star(item));
    inner.extend(star.map(|(_, item)| item.clone()));
    for (at, item) in items {
        let (expr, name) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            SelectItem::UnnamedExpr(expr) => (expr, own_name(expr)),
            // A star after other columns would show these twice.
            SelectItem::ExprWithAliases { .. }
            | SelectItem::QualifiedWildcard(..)
            | SelectItem::Wildcard(_) => return None,
        };
        let alias = reserved(&format!("item_{at}"));
        added.push(alias.clone());
        inner.push(SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() });
        shown.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(alias), alias: name });
    }
    let mut outer_order = order.clone();
    for (at, by) in outer_order.iter_mut().enumerate() {
        let alias = reserved(&format!("order_{at}"));
        added.push(alias.clone());
        let expr = std::mem::replace(&mut by.expr, Expr::Identifier(alias.clone()));
        inner.push(SelectItem::ExprWithAlias { expr, alias });
    }
    inner.push(SelectItem::ExprWithAlias {
        expr: row_number(keys, &order)?,
        alias: reserved("place"),
    });
    added.push(reserved("place"));
    if star.is_some() {
        shown.insert(0, all_but(added));
    }
    let mut rows = select.clone();
    rows.distinct = None;
    rows.projection = inner;
    let mut outer = query.clone();
    outer.body = Box::new(SetExpr::Select(first_of(rows, shown)?));
    if let Some(by) = &mut outer.order_by {
        by.kind = OrderByKind::Expressions(outer_order);
    }
    Some(outer)
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// `* EXCLUDE (names)`.
fn all_but(names: Vec<Ident>) -> SelectItem {
    let names = names.into_iter().map(|name| sql::ObjectName::from(vec![name]));
    SelectItem::Wildcard(sql::WildcardAdditionalOptions {
        opt_exclude: Some(sql::ExcludeSelectItem::Multiple(names.collect())),
        ..sql::WildcardAdditionalOptions::default()
    })
}

/// An item of ORDER BY, with the expression that a position or an alias stands for.
fn meant(by: &OrderByExpr, projection: &[SelectItem]) -> Option<OrderByExpr> {
    let item = match &by.expr {
        Expr::Value(value) => match &value.value {
            // A star is several columns.
            sql::Value::Number(..) if projection.iter().any(is_star) => return None,
            sql::Value::Number(n, _) => Some(projection.get(n.parse::<usize>().ok()?.checked_sub(1)?)?),
            _ => return None,
        },
        Expr::Identifier(name) => projection.iter().find(
            |item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value),
        ),
        _ => None,
    };
    match item {
        None => Some(by.clone()),
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            Some(OrderByExpr { expr: expr.clone(), ..by.clone() })
        }
        Some(_) => None,
    }
}

/// The name of a column without an alias.
fn own_name(expr: &Expr) -> Ident {
    match expr {
        Expr::Identifier(ident) => ident.clone(),
        Expr::CompoundIdentifier(parts) => {
            parts.last().cloned().unwrap_or_else(|| Ident::new("column"))
        }
        other => Ident::with_quote('"', heading(other).unwrap_or_else(|| "column".to_owned())),
    }
}

/// Whether an item contains an aggregate, which is not a value of a row.
fn has_aggregate(item: &SelectItem) -> bool {
    let found = sql::visit_expressions(item, |expr| match expr {
        Expr::Function(function) => {
            let name = function.name.to_string();
            match marked(&name).is_some() || AggregateName::parse(&name).is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `ROW_NUMBER() OVER (PARTITION BY keys ORDER BY order)`.
fn row_number(keys: &[Expr], order: &[OrderByExpr]) -> Option<Expr> {
    let template = "ROW_NUMBER() OVER (PARTITION BY a ORDER BY a)";
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(template).ok()?;
    let mut expr = parser.parse_expr().ok()?;
    let Expr::Function(sql::Function { over: Some(WindowType::WindowSpec(window)), .. }) =
        &mut expr
    else {
        return None;
    };
    window.partition_by = keys.to_vec();
    window.order_by = order.to_vec();
    Some(expr)
}

/// `SELECT shown FROM (rows) AS numbered WHERE place = 1`.
fn first_of(rows: Box<sql::Select>, shown: Vec<SelectItem>) -> Option<Box<sql::Select>> {
    let template = format!(
        "SELECT a FROM (SELECT 1) AS \"{RESERVED}_numbered\" WHERE \"{RESERVED}_place\" = 1"
    );
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&template).ok()?;
    let SetExpr::Select(mut outer) = *parser.parse_query().ok()?.body else { return None };
    outer.projection = shown;
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else {
        return None;
    };
    *subquery.body = SetExpr::Select(rows);
    Some(outer)
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn ordered_rows_are_numbered_and_others_refused() {
        let text =
            "SELECT DISTINCT ON (k) k, v + 1 AS w FROM t WHERE v > 0 ORDER BY k, w DESC LIMIT 3";
        let Ok(Statement::Query(query)) = parse(text) else { panic!("{:?}", parse(text)) };
        let tree = query.tree.to_string();
        assert!(
            tree.contains("ROW_NUMBER() OVER (PARTITION BY k ORDER BY k, v + 1 DESC)"),
            "{tree}"
        );
        assert!(tree.ends_with("\"__hushql_order_1\" DESC LIMIT 3"), "{tree}");
        let star = "SELECT DISTINCT ON (k) t.*, v + 1 AS w FROM t ORDER BY k";
        let Ok(Statement::Query(query)) = parse(star) else { panic!("{:?}", parse(star)) };
        let tree = query.tree.to_string();
        for part in ["* EXCLUDE (\"__hushql_item_1\"", "(SELECT t.*, v + 1 AS"] {
            assert!(tree.contains(part), "{tree}");
        }
        for text in [
            "SELECT DISTINCT ON (k) k, v FROM t",
            "SELECT DISTINCT ON (k) k, v FROM t ORDER BY v",
            "SELECT DISTINCT ON (k) *, v FROM t ORDER BY 1",
            "SELECT DISTINCT ON (k) v, * FROM t ORDER BY k",
            "SELECT DISTINCT ON (k) k, COUNT(*) FROM t GROUP BY k ORDER BY k",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
