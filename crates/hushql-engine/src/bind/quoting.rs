//! The names of columns as refusals write them, ready to paste.
//!
//! In: an expression of a plan, or the name of a column. Out: SQL with names in double quotes where
//! the bare name would mean another one.
//!
//! ```text
//! v.Age Group > 5   →   v."Age Group" > 5
//! ```

use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::Dialect;
use sqlparser::ast::{Value, ValueWithSpan, VisitMut, VisitorMut};

use crate::catalog::{RESERVED, quoted};
use crate::functions::with_numbers;
use crate::visible::heading;

struct Quoting;

impl Dialect for Quoting {
    fn identifier_quote_style(&self, name: &str) -> Option<char> {
        (name_of_column(name) != name).then_some('"')
    }
}

/// The name of a column as a statement writes it. The planner names a column without an alias after
/// its expression; such a name is written as that expression.
pub(crate) fn name_of_column(name: &str) -> String {
    let is_computed = name.contains(['(', '*', '+', '=', '<', '>'])
        || [" - ", " / ", " % ", RESERVED].iter().any(|sign| name.contains(sign));
    if is_computed { name.to_owned() } else { quoted(name) }
}

/// An expression as SQL, with numbers as they were written.
///
/// # Errors
/// An error for an expression that the planner cannot write as SQL.
pub(crate) fn as_sql(expr: &Expr) -> Result<String> {
    let mut sql = Unparser::new(&Quoting).with_pretty(true).expr_to_sql(&with_numbers(expr))?;
    let _ = VisitMut::visit(&mut sql, &mut ShortNumbers);
    Ok(sql.to_string())
}

/// Writes numbers that are too long for a decimal with an exponent.
struct ShortNumbers;

impl VisitorMut for ShortNumbers {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        const MOST_DIGITS: usize = 38;
        if let Value::Number(digits, _) = &mut value.value
            && digits.bytes().filter(u8::is_ascii_digit).count() > MOST_DIGITS
            && let Ok(number) = digits.parse::<f64>()
        {
            *digits = format!("{number:e}");
        }
        ControlFlow::Continue(())
    }
}

/// The text of an expression as SQL.
pub(super) fn written(expr: &Expr) -> String {
    let text = as_sql(expr).unwrap_or_else(|_| expr.human_display().to_string());
    heading(&text).replace("count(1)", "COUNT(*)")
}

/// The text of an expression as an operand of a comparison.
pub(super) fn operand(expr: &Expr) -> String {
    let text = written(expr);
    if is_condition(expr) { format!("({text})") } else { text }
}

/// True if an expression needs brackets as an operand of a comparison, because it is a condition.
fn is_condition(expr: &Expr) -> bool {
    let connects = |op: &Operator| {
        matches!(
            op,
            Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
        )
    };
    matches!(expr, Expr::BinaryExpr(binary) if connects(&binary.op))
        || matches!(
            expr,
            Expr::Not(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Like(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsTrue(_)
                | Expr::IsFalse(_)
                | Expr::IsNotTrue(_)
                | Expr::IsNotFalse(_)
                | Expr::IsUnknown(_)
                | Expr::IsNotUnknown(_)
        )
}

#[cfg(test)]
mod tests {
    use datafusion::common::Column;
    use datafusion::logical_expr::lit;

    use super::*;

    #[test]
    fn names_stand_in_quotes_where_they_need_them() {
        for (name, expected) in [
            ("age", "age"),
            ("Age", "\"Age\""),
            ("age group", "\"age group\""),
            ("zip-code", "\"zip-code\""),
            ("2nd", "\"2nd\""),
            ("say \"so\"", "\"say \"\"so\"\"\""),
            ("sum(t.Fee)", "sum(t.Fee)"),
            ("t.Fee + t.x", "t.Fee + t.x"),
        ] {
            assert_eq!(name_of_column(name), expected);
        }
        for (number, expected) in [(1e308, "1e308"), (-1.5e-300, "-1.5e-300"), (10.5, "10.5")] {
            assert_eq!(as_sql(&lit(number)).unwrap(), expected);
        }
        let column = Expr::Column(Column::new(Some("Visits of Rome"), "Fee"));
        assert_eq!(as_sql(&column).unwrap(), "\"Visits of Rome\".\"Fee\"");
    }
}
