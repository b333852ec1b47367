//! Named candidates: in `ARGMAX … price IN (1, 2) BY REVENUE(bid, price)`, `price` is not a column.
//!
//! In: a SELECT's expression with its markers, and GROUP BY. Out: the same expression, in which a
//! call of a reserved function replaces each such name and represents the candidate. A target that
//! GROUP BY contains remains a key. Later `bind`, which knows the tables, finds out whether the
//! name is a column.

use sqlparser::ast::VisitMut;
use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, GroupByExpr, Ident, Query, VisitorMut};

use super::ast::{Operand, ReleaseClause, candidate_marker, marked};
use crate::dialect::clauses::{call, folded};

/// Replaces the names of candidates in the releases of an expression.
pub(super) fn name_candidates(
    expression: &mut Expr,
    group_by: &GroupByExpr,
    releases: &mut [ReleaseClause],
) {
    let _ = of_this_select(expression, |e| {
        let Expr::Function(function) = e else { return ControlFlow::<()>::Continue(()) };
        let Some(n) = marked(&function.name.to_string()) else {
            return ControlFlow::Continue(());
        };
        if let Some(Operand::Selection(selection)) = releases.get_mut(n).map(|r| &mut r.operand)
            && selection.candidates.is_some()
            && let Some(name) = target(function).filter(|name| !is_key(name, group_by))
        {
            selection.named = true;
            substitute(e, &name, n);
        }
        ControlFlow::Continue(())
    });
}

/// The target of a selection's marker, if it is a bare name.
fn target(function: &sql::Function) -> Option<Ident> {
    let sql::FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(Expr::Identifier(name))) => {
            Some(name.clone())
        }
        _ => None,
    }
}

fn is_key(name: &Ident, group_by: &GroupByExpr) -> bool {
    match group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(expressions, _) => expressions.iter().any(|e| match e {
            Expr::Identifier(key) => same(key, name),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|key| same(key, name)),
            _ => false,
        }),
    }
}

/// True if SQL reads two names as the same: unquoted letters count as lower case.
fn same(a: &Ident, b: &Ident) -> bool {
    folded(a) == folded(b)
}

fn substitute(marker: &mut Expr, name: &Ident, n: usize) {
    let _ = of_this_select(marker, |e| {
        if matches!(e, Expr::Identifier(ident) if same(ident, name)) {
            *e = call(candidate_marker(n), Vec::new());
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Visits an expression and its parts, but not its subqueries, which are SELECTs of their own.
pub(crate) fn of_this_select<B>(
    expression: &mut Expr,
    visit: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Shallow<F> {
        depth: usize,
        visit: F,
    }
    impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Shallow<F> {
        type Break = B;

        fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<B> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<B> {
            self.depth = self.depth.saturating_sub(1);
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
            if self.depth == 0 { (self.visit)(expr) } else { ControlFlow::Continue(()) }
        }
    }
    expression.visit(&mut Shallow { depth: 0, visit })
}
