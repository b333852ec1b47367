//! Comparisons of rows, written as comparisons of their parts.
//!
//! In: an expression as sqlparser read it. Out: the same by the three-valued logic of SQL, without row values: rows are equal if all their
//! parts are, and not equal if one of them is not. Other comparisons of rows stay as they are, and are refused.
//!
//! ```text
//! (a, b) = (x, y)                     (a = x AND b = y)
//! (a, b) IN ((1, 2), (3, 4))          (a = 1 AND b = 2 OR a = 3 AND b = 4)
//! (a, b) NOT IN ((1, 2))              NOT (a = 1 AND b = 2)
//! ```

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// The comparison of parts that says the same; `None` for other expressions, and for rows that are compared with others of another
/// length. The left side of a list is repeated, so that it has to be columns.
pub(super) fn by_parts(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Expr::Tuple(left), Expr::Tuple(right)) = (&**left, &**right) else { return None };
            let equal = all_equal(left, right)?;
            match op {
                BinaryOperator::Eq => Some(nested(equal)),
                BinaryOperator::NotEq => Some(not(equal)),
                _ => None,
            }
        }
        Expr::InList { expr, list, negated } => {
            let Expr::Tuple(left) = &**expr else { return None };
            if !left.iter().all(is_column) {
                return None;
            }
            let rows = list.iter().map(|row| match row {
                Expr::Tuple(row) => all_equal(left, row),
                _ => None,
            });
            let any = joined(&rows.collect::<Option<Vec<_>>>()?, &BinaryOperator::Or)?;
            Some(if *negated { not(any) } else { nested(any) })
        }
        _ => None,
    }
}

fn all_equal(left: &[Expr], right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        return None;
    }
    let equal = |(left, right): (&Expr, &Expr)| Expr::BinaryOp {
        left: operand(left),
        op: BinaryOperator::Eq,
        right: operand(right),
    };
    let parts: Vec<Expr> = left.iter().zip(right).map(equal).collect();
    joined(&parts, &BinaryOperator::And)
}

/// Conditions with an operator between them, no deeper than the logarithm of how many they are; `None` for none.
fn joined(conditions: &[Expr], op: &BinaryOperator) -> Option<Expr> {
    let (first, last) = conditions.split_at(conditions.len().div_ceil(2));
    match first {
        [] => None,
        [only] if last.is_empty() => Some(only.clone()),
        _ => {
            let (left, right) = (joined(first, op)?, joined(last, op)?);
            let (left, right) = (Box::new(left), Box::new(right));
            Some(Expr::BinaryOp { left, op: op.clone(), right })
        }
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn not(expr: Expr) -> Expr {
    let expr = Box::new(nested(expr));
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr })
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn operand(expr: &Expr) -> Box<Expr> {
    match expr {
        Expr::Value(_) | Expr::Nested(_) | Expr::TypedString(_) => Box::new(expr.clone()),
        expr if is_column(expr) => Box::new(expr.clone()),
        other => Box::new(nested(other.clone())),
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    fn condition(text: &str) -> String {
        match parse(&format!("SELECT 1 FROM t WHERE {text}")) {
            Ok(Statement::Query(query)) => {
                query.tree.to_string().trim_start_matches("SELECT 1 FROM t WHERE ").to_owned()
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn rows_are_compared_by_their_parts() {
        for (text, expected) in [
            ("(a, t.b) = (1, x + 2)", "(a = 1 AND t.b = (x + 2))"),
            ("(a, b) <> (x, DATE '2025-01-01')", "(NOT (a = x AND b = DATE '2025-01-01'))"),
            ("(a, b) IN ((1, 2))", "(a = 1 AND b = 2)"),
            ("(a, b) IN ((1, 2), (3, NULL))", "(a = 1 AND b = 2 OR a = 3 AND b = NULL)"),
            ("(a, b, c) NOT IN ((1, 2, 3))", "(NOT (a = 1 AND b = 2 AND c = 3))"),
            ("((a, b) = (1, 2)) IS TRUE", "((a = 1 AND b = 2)) IS TRUE"),
            // Rows of another length, an order of rows, and a left side that would be repeated.
            ("(a, b) = (1, 2, 3)", "(a, b) = (1, 2, 3)"),
            ("(a, b) IN ((1, 2), (3, 4, 5))", "(a, b) IN ((1, 2), (3, 4, 5))"),
            ("(a, b) < (1, 2)", "(a, b) < (1, 2)"),
            ("(a + 1, b) IN ((1, 2))", "(a + 1, b) IN ((1, 2))"),
            ("(a, b) IN (SELECT 1, 2)", "(a, b) IN (SELECT 1, 2)"),
        ] {
            assert_eq!(condition(text), expected, "{text}");
        }
    }

    /// The expression of a long list stays shallow.
    #[test]
    fn lists_are_halved() {
        let rows: Vec<String> = (0..1_000).map(|i| format!("({i}, 0)")).collect();
        let text = condition(&format!("(a, b) IN ({})", rows.join(", ")));
        assert_eq!(text.matches(" OR ").count(), 999);
        assert!(text.starts_with("(a = 0 AND b = 0 OR a = 1 AND b = 0 OR"), "{}", &text[..60]);
    }
}
