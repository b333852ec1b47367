//! `x ^ y`, a power as in PostgreSQL.
//!
//! In: a query as sqlparser read it, with `^` at PostgreSQL's precedence. Out: the query with calls
//! of `power`. sqlparser reads the operator as exclusive or, so DataFusion would compute 2 ^ 3 = 1.
//!
//! ```text
//! 2 ^ 3 * 4      power(CAST(2 AS DOUBLE), CAST(3 AS DOUBLE)) * 4
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, UnaryOperator,
    visit_expressions,
};

use crate::dialect::error::DialectError;
use crate::refusal::{Reason, Refusal};

/// The precedence of `^`: higher than that of products, as in PostgreSQL.
pub(super) const PRECEDENCE: u8 = 45;

/// Refuses a power without parentheses after a minus sign: some databases negate the power, others
/// its base.
///
/// # Errors
/// The refusal.
pub(super) fn check(query: &sql::Query) -> Result<(), DialectError> {
    let found = visit_expressions(query, |expr| match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: power } => match power.as_ref() {
            Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } => {
                ControlFlow::Break(Refusal::new(
                    Reason::BadValue,
                    expr.to_string(),
                    format!(
                        "-{left} ^ {right} is (-{left}) ^ {right} in some databases, and -({left} ^ {right}) in others"
                    ),
                    format!("-({left} ^ {right}), or (-{left}) ^ {right}"),
                ))
            }
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(refusal) => Err(refusal.into()),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// `x ^ y` as a call on DOUBLE, as in PostgreSQL. `None` for any other expression.
pub(super) fn power(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::BitwiseXor, right } = expr else { return None };
    let double = |side: &Expr| {
        let cast = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(side.clone()),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        };
        FunctionArg::Unnamed(FunctionArgExpr::Expr(cast))
    };
    Some(Expr::Function(sql::Function {
        name: ObjectName::from(vec![Ident::new("power")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![double(left), double(right)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn powers_bind_as_in_postgresql() {
        let tree = |text: &str| match parse(text) {
            Ok(Statement::Query(query)) => query.tree.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        let double = |x: &str| format!("CAST({x} AS DOUBLE)");
        let power = |x: &str, y: &str| format!("power({}, {})", double(x), double(y));
        for (text, expected) in [
            ("2 ^ 3", power("2", "3")),
            ("x * y ^ 2 + 1", format!("x * {} + 1", power("y", "2"))),
            ("2 ^ 3 ^ 2", power(&power("2", "3"), "2")),
            ("2 ^ -1", power("2", "-1")),
            ("(-2) ^ 2", power("(-2)", "2")),
        ] {
            assert_eq!(tree(&format!("SELECT {text} FROM t")), format!("SELECT {expected} FROM t"));
        }
        let refused = parse("SELECT -2 ^ 2 FROM t").unwrap_err().to_string();
        assert!(refused.contains("-(2 ^ 2), or (-2) ^ 2"), "{refused}");
    }
}
