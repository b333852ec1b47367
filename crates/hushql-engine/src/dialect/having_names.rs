//! HAVING by the name of an aggregate, also where a column of the rows has that name.
//!
//! In: a query. Out: the same with the aggregate in place of its name in HAVING. In HAVING, a
//! column outside of an aggregate can only be a key, so the name of an aggregate means nothing
//! else.
//!
//! ```text
//! SELECT k, SUM(x) AS x FROM t GROUP BY k HAVING x > 9     →  … HAVING (SUM(x)) > 9
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Visit, VisitMut, Visitor,
    VisitorMut,
};

use super::ast::AggregateName;
use crate::catalog::RESERVED;

/// Puts aggregates in the place of their names in every HAVING.
pub(super) fn having_by_names(query: &mut Query) {
    let _: ControlFlow<()> = VisitMut::visit(query, &mut Queries);
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        selects(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn selects(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => named(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left);
            selects(right);
        }
        // Other queries are visited by themselves.
        _ => {}
    }
}

fn named(select: &mut Select) {
    let Some(having) = &mut select.having else { return };
    let keys: Vec<&Ident> = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter().filter_map(name).collect(),
        GroupByExpr::All(_) => Vec::new(),
    };
    let aggregates = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if has_aggregate(expr) => Some((alias, expr)),
        _ => None,
    });
    // Other names stand for nothing else anyway, and messages keep them.
    let columns = columns(&select.projection);
    let aggregates: Vec<(Ident, Expr)> = aggregates
        .filter(|(alias, _)| columns.iter().any(|column| same(column, alias)))
        .filter(|(alias, _)| !keys.iter().any(|key| same(key, alias)))
        .map(|(alias, expr)| (alias.clone(), expr.clone()))
        .collect();
    if !aggregates.is_empty() {
        let mut names = Names { aggregates: &aggregates, within: 0 };
        let _: ControlFlow<()> = VisitMut::visit(having, &mut names);
    }
}

/// The column that an expression is.
fn name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Nested(inner) => name(inner),
        _ => None,
    }
}

fn same(one: &Ident, other: &Ident) -> bool {
    match (one.quote_style, other.quote_style) {
        (None, None) => one.value.eq_ignore_ascii_case(&other.value),
        _ => one.value == other.value,
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.to_string().to_lowercase();
    function.over.is_none() && (name.starts_with(RESERVED) || AggregateName::parse(&name).is_some())
}

/// The columns that the items of a SELECT name.
fn columns(items: &[SelectItem]) -> Vec<Ident> {
    struct Columns(Vec<Ident>);
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0.extend(name(expr).cloned());
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    for item in items {
        let _: ControlFlow<()> = Visit::visit(item, &mut columns);
    }
    columns.0
}

fn has_aggregate(expr: &Expr) -> bool {
    struct Found(bool);
    impl Visitor for Found {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0 |= is_aggregate(expr);
            ControlFlow::Continue(())
        }
    }
    let mut found = Found(false);
    let _: ControlFlow<()> = Visit::visit(expr, &mut found);
    found.0
}

/// Replaces names that stand outside of aggregates and subqueries.
struct Names<'a> {
    aggregates: &'a [(Ident, Expr)],
    within: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.within += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.within = self.within.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.within += usize::from(is_aggregate(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_aggregate(expr) {
            self.within = self.within.saturating_sub(1);
        } else if let (Expr::Identifier(name), 0) = (&*expr, self.within)
            && let Some((_, aggregate)) = self.aggregates.iter().find(|(own, _)| same(own, name))
        {
            *expr = Expr::Nested(Box::new(aggregate.clone()));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn names_of_aggregates_are_replaced() {
        for (text, having) in [
            ("SELECT k, SUM(x) AS x FROM t GROUP BY k HAVING x > 1", "HAVING (SUM(x)) > 1"),
            ("SELECT k, SUM(x) AS x FROM t GROUP BY k HAVING SUM(x) > 1", "HAVING SUM(x) > 1"),
            ("SELECT k, SUM(x) AS n FROM t GROUP BY k HAVING n > 1", "HAVING n > 1"),
            ("SELECT k, SUM(x) AS k FROM t GROUP BY k HAVING k > 1", "HAVING k > 1"),
            ("SELECT k, x + 1 AS y FROM t GROUP BY k, x HAVING y > 1", "HAVING y > 1"),
            (
                "SELECT k, SUM(x) / 2 AS X FROM t GROUP BY k HAVING ROUND(x) > (SELECT x FROM u)",
                "HAVING ROUND((SUM(x) / 2)) > (SELECT x FROM u)",
            ),
        ] {
            let Ok(Statement::Query(query)) = parse(text) else { panic!("{text}") };
            let tree = query.tree.to_string();
            assert!(tree.ends_with(having), "{tree}");
        }
    }
}
