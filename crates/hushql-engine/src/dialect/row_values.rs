//! Rewrites comparisons of rows as comparisons of their parts.
//!
//! In: an expression as sqlparser read it. Out: an equivalent one without row values, by the
//! three-valued logic of SQL. Rows are equal if all their parts are, unequal if some part is, and
//! otherwise ordered by the first parts that differ.
//!
//! ```text
//! (a, b) = (x, y)                     (a = x AND b = y)
//! (a, b) >= (1, 2)                    (a > 1 OR a = 1 AND b >= 2)
//! (a, b) IN ((1, 2), (3, 4))          (a = 1 AND b = 2 OR a = 3 AND b = 4)
//! (a, b) NOT IN ((1, 2))              NOT (a = 1 AND b = 2)
//! ```

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use crate::refusal::{Reason, Refusal};

/// The most parts of rows that are compared by order. The condition is nested once for each part.
const MOST_ORDERED: usize = 16;

/// The comparison of parts that means the same. `None` for other expressions. Parts that would be
/// repeated must be columns or constants: those of the left side of a list, and all but the last of
/// ordered rows.
///
/// # Errors
/// A refusal of rows of different lengths.
pub(super) fn by_parts(expr: &Expr) -> Result<Option<Expr>, Refusal> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Expr::Tuple(left), Expr::Tuple(right)) = (&**left, &**right) else {
                return Ok(None);
            };
            Ok(match op {
                BinaryOperator::Eq => all_equal(left, right, expr)?.map(nested),
                BinaryOperator::NotEq => all_equal(left, right, expr)?.map(not),
                BinaryOperator::Lt | BinaryOperator::LtEq => {
                    in_order(left, &BinaryOperator::Lt, op, right, expr)?
                }
                BinaryOperator::Gt | BinaryOperator::GtEq => {
                    in_order(left, &BinaryOperator::Gt, op, right, expr)?
                }
                _ => None,
            })
        }
        Expr::InList { expr: left, list, negated } => {
            let Expr::Tuple(left) = &**left else { return Ok(None) };
            if !left.iter().all(is_repeatable) {
                return Ok(None);
            }
            let rows = list.iter().map(|row| match row {
                Expr::Tuple(row) => all_equal(left, row, expr),
                _ => Ok(None),
            });
            let Some(rows) = rows.collect::<Result<Option<Vec<_>>, _>>()? else { return Ok(None) };
            let any = joined(&rows, &BinaryOperator::Or);
            Ok(any.map(if *negated { not } else { nested }))
        }
        _ => Ok(None),
    }
}

fn all_equal(left: &[Expr], right: &[Expr], whole: &Expr) -> Result<Option<Expr>, Refusal> {
    same_length(left, right, whole)?;
    let equal = |(left, right)| compared(left, BinaryOperator::Eq, right);
    let parts: Vec<Expr> = left.iter().zip(right).map(equal).collect();
    Ok(joined(&parts, &BinaryOperator::And))
}

/// The first parts are ordered by `strict`, or they are equal and the remaining parts are in order.
/// The last parts are compared by `op`.
fn in_order(
    left: &[Expr],
    strict: &BinaryOperator,
    op: &BinaryOperator,
    right: &[Expr],
    whole: &Expr,
) -> Result<Option<Expr>, Refusal> {
    same_length(left, right, whole)?;
    let mut pairs = left.iter().zip(right).rev();
    let Some((last, bound)) = pairs.next() else { return Ok(None) };
    if left.len() > MOST_ORDERED
        || !pairs.clone().all(|(l, r)| is_repeatable(l) && is_repeatable(r))
    {
        return Ok(None);
    }
    let both =
        |left, op, right| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    let ordered = pairs.fold(compared(last, op.clone(), bound), |rest, (left, right)| {
        let rest = if matches!(&rest, Expr::BinaryOp { op: BinaryOperator::Or, .. }) {
            nested(rest)
        } else {
            rest
        };
        let equal = both(compared(left, BinaryOperator::Eq, right), BinaryOperator::And, rest);
        both(compared(left, strict.clone(), right), BinaryOperator::Or, equal)
    });
    Ok(Some(nested(ordered)))
}

fn same_length(left: &[Expr], right: &[Expr], whole: &Expr) -> Result<(), Refusal> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::BadValue,
        whole.to_string(),
        format!("a row of {} values is compared with one of {}", left.len(), right.len()),
        "as many values on both sides, as in (a, b) IN ((1, 2), (3, 4))",
    ))
}

fn compared(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: operand(left), op, right: operand(right) }
}

/// Conditions with an operator between them, as a balanced tree. `None` if there are none.
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

/// True for a column or a constant: it has the same value wherever it is repeated.
fn is_repeatable(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(&**expr, Expr::Value(_)),
        _ => false,
    }
}

fn operand(expr: &Expr) -> Box<Expr> {
    match expr {
        Expr::Nested(_) => Box::new(expr.clone()),
        expr if is_repeatable(expr) => Box::new(expr.clone()),
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
            ("(1, 'x') IN ((a, b), (c, d))", "(1 = a AND 'x' = b OR 1 = c AND 'x' = d)"),
            ("(a, b) < (1, 2)", "(a < 1 OR a = 1 AND b < 2)"),
            ("(a, b + 1) >= (-1, x + 2)", "(a > -1 OR a = -1 AND (b + 1) >= (x + 2))"),
            ("NOT (a, b, c) <= (x, y, z)", "NOT (a < x OR a = x AND (b < y OR b = y AND c <= z))"),
            ("(a, b) > (1, 2) AND c", "(a > 1 OR a = 1 AND b > 2) AND c"),
            // Parts that would be repeated.
            ("(a + 1, b) < (1, 2)", "(a + 1, b) < (1, 2)"),
            ("(a + 1, b) IN ((1, 2))", "(a + 1, b) IN ((1, 2))"),
            ("(a, b) IN (SELECT 1, 2)", "(a, b) IN (SELECT 1, 2)"),
        ] {
            assert_eq!(condition(text), expected, "{text}");
        }
    }

    #[test]
    fn rows_of_other_lengths_are_refused() {
        for (text, says) in [
            ("(a, b) = (1, 2, 3)", "a row of 2 values is compared with one of 3"),
            ("(a, b, c) < (1, 2)", "a row of 3 values is compared with one of 2"),
            ("(a, b) IN ((1, 2), (3, 4, 5))", "a row of 2 values is compared with one of 3"),
        ] {
            let error = parse(&format!("SELECT 1 FROM t WHERE {text}")).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(text), "{text}: {error}");
        }
    }

    /// A condition on ordered rows is nested once for each part.
    #[test]
    fn long_rows_have_no_order() {
        for (parts, ordered) in [(16, true), (17, false)] {
            let row =
                |of: &str| (0..parts).map(|i| format!("{of}{i}")).collect::<Vec<_>>().join(", ");
            let text = format!("({}) < ({})", row("a"), row("b"));
            assert_eq!(condition(&text) != text, ordered, "{text}");
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
