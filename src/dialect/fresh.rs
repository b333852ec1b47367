//! `FRESH` before an aggregate without a mechanism.
//!
//! In: a call as it was parsed behind FRESH. Out: the same call under a reserved name, until its SELECT is lowered: only then is it
//! known what the aggregate costs. Before a mechanism, FRESH needs no such name: there its clause exists already.
//!
//! ```text
//! SELECT FRESH COUNT(*) AS n, SUM(x) AS s FROM t      n is drawn again, s is shown again if it was paid for
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr, Ident, ObjectName};

use super::ast::AggregateName;
use super::spelling::respelled;
use crate::catalog::RESERVED;

const KIND: &str = "_fresh_";

/// Marks a call of an aggregate; `None` if it is none.
pub(super) fn marked_fresh(mut expr: Expr) -> Option<Expr> {
    let Expr::Function(function) = &mut expr else { return None };
    respelled(function);
    let name = function.name.to_string();
    if function.over.is_some() || AggregateName::parse(&name).is_none() {
        return None;
    }
    function.name = ObjectName::from(vec![Ident::new(format!("{RESERVED}{KIND}{name}"))]);
    Some(expr)
}

/// Whether a call is marked; it has its own name again.
pub(super) fn take_mark(function: &mut sql::Function) -> bool {
    let name = function.name.to_string();
    let Some(own) = name.strip_prefix(RESERVED).and_then(|name| name.strip_prefix(KIND)) else {
        return false;
    };
    function.name = ObjectName::from(vec![Ident::new(own)]);
    true
}

/// Whether an expression has a marked call, also in its subqueries.
pub(super) fn has_mark(expr: &Expr) -> bool {
    let found = sql::visit_expressions(expr, |expr| match expr {
        Expr::Function(function)
            if function.name.to_string().starts_with(&format!("{RESERVED}{KIND}")) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
