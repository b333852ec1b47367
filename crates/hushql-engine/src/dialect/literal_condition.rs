//! Queries that give no row because of their literals alone: how programs ask for columns.
//!
//! In: a query. Out: which of its clauses lets no row through, whatever the tables hold.
//!
//! ```text
//! SELECT * FROM t WHERE 0 = 1     SELECT * FROM (question) AS q WHERE FALSE     SELECT * FROM t LIMIT 0
//! ```

use std::cmp::Ordering;

use sqlparser::ast::{self as sql, BinaryOperator, Expr, GroupByExpr, SetExpr, UnaryOperator};

use super::literal::literal_of;
use crate::dialect::literal::Literal;
use crate::privacy::parse_decimal;

/// The clause of a whole query that lets no row through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRow {
    /// `LIMIT 0`: the answer is empty.
    Limit,
    /// A condition: there is nothing to group.
    Where,
}

/// The clause that lets no row through; `None` if the rows decide.
pub(crate) fn no_row(query: &sql::Query) -> Option<NoRow> {
    if let Some(sql::LimitClause::LimitOffset { limit: Some(limit), .. }) = &query.limit_clause
        && matches!(literal_of(limit), Some(Literal::Number(digits)) if digits == "0")
    {
        return Some(NoRow::Limit);
    }
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::Query(inner) => return no_row(inner),
        SetExpr::SetOperation { .. }
        | SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => return None,
    };
    let has_sets = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => {
            keys.iter().any(|key| matches!(key, Expr::GroupingSets(_)))
        }
    };
    let is_false = select.selection.as_ref().and_then(truth) == Some(false);
    (is_false && !has_sets && select.qualify.is_none()).then_some(NoRow::Where)
}

/// The truth of a condition over literals; `None` if it is not one.
fn truth(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Nested(inner) => truth(inner),
        Expr::Value(value) => match value.value {
            sql::Value::Boolean(value) => Some(value),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => truth(expr).map(|value| !value),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            match (truth(left), truth(right)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            match (truth(left), truth(right)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        }
        Expr::BinaryOp { left, op, right } => compared(op, order(left, right)?),
        _ => None,
    }
}

/// The order of two numbers, or of two texts that are equal or not.
fn order(left: &Expr, right: &Expr) -> Option<Ordering> {
    match (literal_of(left)?, literal_of(right)?) {
        (Literal::Number(left), Literal::Number(right)) => {
            Some(parse_decimal(&left)?.cmp(&parse_decimal(&right)?))
        }
        _ => None,
    }
}

fn compared(op: &BinaryOperator, order: Ordering) -> Option<bool> {
    match op {
        BinaryOperator::Eq => Some(order.is_eq()),
        BinaryOperator::NotEq => Some(order.is_ne()),
        BinaryOperator::Lt => Some(order.is_lt()),
        BinaryOperator::LtEq => Some(order.is_le()),
        BinaryOperator::Gt => Some(order.is_gt()),
        BinaryOperator::GtEq => Some(order.is_ge()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    #[test]
    fn literals_decide_and_nothing_else_does() {
        for (text, expected) in [
            ("SELECT a FROM t WHERE 0 = 1", Some(NoRow::Where)),
            ("SELECT a FROM t WHERE (1 <> 1.0) AND a > 3", Some(NoRow::Where)),
            ("SELECT a FROM t WHERE NOT (TRUE OR a = 1)", Some(NoRow::Where)),
            ("SELECT a FROM t WHERE FALSE", Some(NoRow::Where)),
            ("(SELECT a FROM t WHERE 2 < 1)", Some(NoRow::Where)),
            ("SELECT a FROM t LIMIT 0", Some(NoRow::Limit)),
            ("SELECT a FROM t UNION ALL SELECT b FROM u LIMIT 0", Some(NoRow::Limit)),
            ("SELECT a FROM t LIMIT 0 OFFSET 3", Some(NoRow::Limit)),
            ("SELECT a FROM t WHERE 1 = 1", None),
            ("SELECT a FROM t WHERE a = a + 1", None),
            ("SELECT a FROM t WHERE a > 3 AND a < 2", None),
            ("SELECT a FROM t WHERE 0 = 1 OR a > 3", None),
            ("SELECT a FROM t LIMIT 1", None),
            ("SELECT a FROM (SELECT a FROM t WHERE 0 = 1) AS q", None),
            ("SELECT a FROM t WHERE 0 = 1 UNION ALL SELECT b FROM u", None),
            ("SELECT a, COUNT(*) FROM t WHERE 0 = 1 GROUP BY ROLLUP(a)", None),
        ] {
            let Ok(Statement::Query(query)) = parse(text) else { panic!("{text}") };
            assert_eq!(no_row(&query.tree), expected, "{text}");
        }
    }
}
