//! Reads numbers with a point as exact decimals, where their context needs that.
//!
//! In: the syntax tree of a query. Out: the same tree, in which a number with a point is a decimal
//! with all of its digits if it is compared, added, subtracted, multiplied, chosen or listed. The
//! planner would make it a float, and the DECIMAL(4, 2) 17.01 is not equal to the float 17.01.
//! Everywhere else it stays a float: as the argument of a function of floats, and in a division. A
//! number with an exponent is always a float.
//!
//! ```text
//! m = 17.01                 m = CAST('17.01' AS DECIMAL(4, 2))
//! x / 2.0, sqrt(2.0)        as they are
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, UnaryOperator, Value, VisitMut,
    VisitorMut,
};

use crate::functions::DecimalLiteral;

/// Turns numbers with a point into decimals.
pub(super) fn with_decimals(query: &mut sql::Query) {
    let _ = query.visit(&mut Points);
}

/// Functions that return one of their arguments, or compare them.
const OF_EQUALS: [&str; 6] = ["coalesce", "nullif", "greatest", "least", "lag", "lead"];

/// Functions whose first argument may be a decimal.
const OF_DECIMALS: [&str; 6] = ["abs", "round", "trunc", "sum", "min", "max"];

struct Points;

impl VisitorMut for Points {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<()> {
        body(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                exact(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        operands(expr);
        ControlFlow::Continue(())
    }
}

/// Turns the numbers that an expression compares, computes or chooses into decimals.
fn operands(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op, right } = expr
        && keeps_decimals(op)
    {
        exact(left);
        exact(right);
    } else if let Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) = expr {
        exact(left);
        exact(right);
    } else if let Expr::Between { expr, low, high, .. } = expr {
        [expr, low, high].into_iter().for_each(|side| exact(side));
    } else if let Expr::InList { expr, list, .. } = expr {
        exact(expr);
        list.iter_mut().for_each(exact);
    } else if let Expr::InSubquery { expr, .. } = expr {
        exact(expr);
    } else if let Expr::Case { operand, conditions, else_result, .. } = expr {
        for case in conditions {
            exact(&mut case.condition);
            exact(&mut case.result);
        }
        operand.iter_mut().chain(else_result).for_each(|side| exact(side));
    } else if let Expr::Cast { expr, data_type, .. } = expr
        && !is_float(data_type)
    {
        exact(expr);
    } else if let Expr::Function(function) = expr {
        arguments(function);
    }
}

/// True if the operands of an operator may be decimals.
fn keeps_decimals(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Modulo
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship
    )
}

fn is_float(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Real
            | DataType::Float(_)
            | DataType::Float4
            | DataType::Float8
            | DataType::Float32
            | DataType::Float64
            | DataType::Double(_)
            | DataType::DoublePrecision
    )
}

/// Turns the numbers among the arguments of a function into decimals, if it takes decimals.
fn arguments(function: &mut sql::Function) {
    let name = function.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &mut function.args else { return };
    let all = OF_EQUALS.contains(&name.as_str()) || name == "clamp";
    let first = OF_DECIMALS.contains(&name.as_str());
    let taken = if all { list.args.len() } else { usize::from(first) };
    for argument in list.args.iter_mut().take(taken) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            exact(expr);
        }
    }
}

/// The rows of VALUES: turns columns into decimals if each cell is NULL or a number with all of its
/// digits. The planner derives the type of a column from its cells before any other code sees them.
fn body(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            self::body(left);
            self::body(right);
        }
        SetExpr::Values(values) => {
            let columns = values.rows.iter().map(|row| row.len()).max().unwrap_or(0);
            for column in 0..columns {
                let mut cells = values.rows.iter().filter_map(|row| row.get(column));
                if cells.all(is_exact) {
                    let rows = values.rows.iter_mut();
                    rows.filter_map(|row| row.get_mut(column)).for_each(exact);
                }
            }
        }
        SetExpr::Select(_)
        | SetExpr::Query(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => {}
    }
}

/// True if a cell is NULL, or a number that fits a decimal or a whole number.
fn is_exact(cell: &Expr) -> bool {
    if let Expr::Value(value) = cell
        && value.value == Value::Null
    {
        return true;
    }
    signed(cell).is_some_and(|text| DecimalLiteral::parse(&text).is_some())
}

/// Turns an expression into a decimal if it is a number with a point, or a whole number with more
/// digits than integers have.
fn exact(expr: &mut Expr) {
    if let Expr::Nested(inner) = expr {
        return exact(inner);
    }
    if let Some(text) = signed(expr)
        && let Some(number) = decimal(&text)
    {
        *expr = number;
    }
}

/// The digits of a number, with its sign.
fn signed(expr: &Expr) -> Option<String> {
    if let Expr::Value(value) = expr
        && let Value::Number(text, _) = &value.value
    {
        return Some(text.clone());
    }
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expr {
        let digits = signed(expr)?;
        return (!digits.starts_with('-')).then(|| format!("-{digits}"));
    }
    if let Expr::UnaryOp { op: UnaryOperator::Plus, expr } | Expr::Nested(expr) = expr {
        return signed(expr);
    }
    None
}

fn decimal(text: &str) -> Option<Expr> {
    // The planner reads whole numbers that fit an integer.
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return None;
    }
    let number = DecimalLiteral::parse(text)?;
    let digits = ExactNumberInfo::PrecisionAndScale(number.precision.into(), number.scale.into());
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(number.text).into())),
        data_type: DataType::Decimal(digits),
        array: false,
        format: None,
    })
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn marked(text: &str) -> String {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
        let mut query = parser.parse_query().unwrap();
        with_decimals(&mut query);
        query.to_string()
    }

    #[test]
    fn numbers_with_a_point_are_decimals_beside_what_may_be_one() {
        for (text, number) in [
            ("SELECT m = 17.01 FROM t", "'17.01' AS DECIMAL(4,2)"),
            ("SELECT -17.01 < m FROM t", "'-17.01' AS DECIMAL(4,2)"),
            ("SELECT m IN (1, (17.01)) FROM t", "'17.01' AS DECIMAL(4,2)"),
            ("SELECT m BETWEEN 0 AND 17.01 FROM t", "'17.01' AS DECIMAL(4,2)"),
            ("SELECT CASE WHEN a THEN fee ELSE 0.0 END FROM t", "'0.0' AS DECIMAL(1,1)"),
            ("SELECT coalesce(fee, 0.0) FROM t", "'0.0' AS DECIMAL(1,1)"),
            ("SELECT round(2.345, 2)", "'2.345' AS DECIMAL(4,3)"),
            ("VALUES (1), (2.5), (NULL)", "'2.5' AS DECIMAL(2,1)"),
            ("SELECT 1 UNION ALL VALUES (2.5)", "'2.5' AS DECIMAL(2,1)"),
            ("SELECT 0.5 AS x", "'0.5' AS DECIMAL(1,1)"),
            ("SELECT a + -18446744073709551616", "'-18446744073709551616' AS DECIMAL(20,0)"),
        ] {
            let marked = marked(text);
            assert_eq!(marked.matches("CAST").count(), 1, "{marked}");
            assert!(marked.contains(number), "{marked}");
        }
        for text in [
            "SELECT x / 2.0 FROM t",
            "SELECT x = 1e2 FROM t",
            "SELECT sqrt(2.0)",
            "SELECT quantile(x, 0.5) FROM t",
            "SELECT CAST(1.5 AS DOUBLE)",
            "VALUES (1.5), (1e2)",
            "SELECT x = 18446744073709551615 FROM t",
            "SELECT 1 LIMIT 1.5",
        ] {
            let marked = marked(text);
            assert!(!marked.contains("DECIMAL"), "{marked}");
        }
    }
}
