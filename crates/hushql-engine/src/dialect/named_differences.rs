//! The columns that a query names as differences of others, in a subquery or a CTE.
//!
//! In: a query. Out: their names. Whether one is the time between two timestamps is known once the
//! query is planned.
//!
//! ```text
//! SELECT MEDIAN(gap) FROM (SELECT until - since AS gap FROM visits) AS t      gap
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Visit, Visitor};

use super::calendar_calls::is_difference;

/// The names.
#[derive(Debug, Default)]
pub(super) struct NamedDifferences(Vec<String>);

impl NamedDifferences {
    /// The names in a query and its subqueries.
    pub(super) fn of(query: &Query) -> Self {
        let mut found = Self::default();
        let _ = Visit::visit(query, &mut found);
        found
    }

    /// True if an expression is a column with one of the names.
    pub(super) fn contains(&self, expr: &Expr) -> bool {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => name,
                None => return false,
            },
            _ => return false,
        };
        self.0.iter().any(|own| own.eq_ignore_ascii_case(&name.value))
    }

    fn add(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                let named = select.projection.iter().filter_map(|item| match item {
                    SelectItem::ExprWithAlias { expr, alias } if is_difference(expr) => {
                        Some(alias.value.clone())
                    }
                    _ => None,
                });
                self.0.extend(named);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.add(left);
                self.add(right);
            }
            // A query in parentheses is visited by itself.
            _ => {}
        }
    }
}

impl Visitor for NamedDifferences {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.add(&query.body);
        ControlFlow::Continue(())
    }
}
