//! Values that a program passes beside its statements: for a parameter of a query, or in a domain.
//!
//! In: Rust values. Out: literals for the dialect's clauses and for the syntax tree of a query. No text is parsed, so
//! a value is always one literal, whatever it contains.
//!
//! ```text
//! Value::Integer(-3)  →  Literal::Number("-3"), and in a tree the operator − before the number 3
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, Expr};

use crate::catalog::RESERVED;
use crate::dialect::clauses::number;
use crate::dialect::error::DialectError;
use crate::dialect::literal::{IN_A_CLAUSE, Literal};
use crate::refusal::{Reason, Refusal};

/// A value that a program gives: for a parameter of a query, or in a domain.
///
/// ```
/// use hushql::Value;
///
/// assert_eq!(Value::from("north"), Value::Text("north".to_owned()));
/// assert_eq!(Value::from(5), Value::Integer(5));
/// assert_eq!(Value::from(None::<bool>), Value::Null);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number. It means the shortest decimal that parses to this number.
    Float(f64),
    /// A text, or a date or timestamp in SQL's format, such as `2026-02-28`.
    Text(String),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The shortest decimal that parses to a number; `None` for a number that is not finite.
pub(crate) fn decimal(value: f64) -> Option<String> {
    let magnitude = value.abs();
    let plain = magnitude == 0.0 || (1e-9..1e15).contains(&magnitude);
    value.is_finite().then(|| if plain { format!("{value}") } else { format!("{value:?}") })
}

impl Value {
    /// The length of its text; 0 for a number, which is short.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Null | Self::Boolean(_) | Self::Integer(_) | Self::Float(_) => 0,
        }
    }

    /// The literal of a clause.
    ///
    /// # Errors
    /// A refusal for a number that is not finite, and for a text that is reserved for the engine.
    pub(crate) fn literal(&self) -> Result<Literal, Refusal> {
        Ok(match self {
            Self::Null => Literal::Null,
            Self::Boolean(value) => Literal::Boolean(*value),
            Self::Integer(value) => Literal::Number(value.to_string()),
            Self::Float(value) => Literal::Number(decimal(*value).ok_or_else(not_finite)?),
            Self::Text(text) if text.to_lowercase().starts_with(RESERVED) => {
                return Err(refusal(
                    format!("texts that begin with {RESERVED} belong to the engine"),
                    "another text",
                ));
            }
            Self::Text(text) => Literal::Text(text.clone()),
        })
    }

    /// The expression to which the parser turns the literal of this value.
    fn expression(&self) -> Result<Expr, Refusal> {
        let value = match self {
            // A float without a fraction remains a float.
            Self::Float(value) if value.is_finite() => return Ok(signed(&format!("{value:?}"))),
            _ => match self.literal()? {
                Literal::Number(text) => return Ok(signed(&text)),
                Literal::Text(text) => sql::Value::SingleQuotedString(text),
                Literal::Boolean(value) => sql::Value::Boolean(value),
                Literal::Null => sql::Value::Null,
            },
        };
        Ok(Expr::Value(value.into()))
    }
}

/// A number as the parser represents it: the sign is an operator.
fn signed(text: &str) -> Expr {
    match text.strip_prefix('-') {
        None => number(text),
        Some(digits) => {
            let (op, expr) = (sql::UnaryOperator::Minus, Box::new(number(digits)));
            Expr::UnaryOp { op, expr }
        }
    }
}

fn not_finite() -> Refusal {
    refusal("a value is a finite number".to_owned(), "NULL for a number that is not known")
}

fn refusal(message: String, hint: &str) -> Refusal {
    Refusal::new(Reason::Parameter, "a value", message, hint)
}

/// Replaces the parameters `$1`, `$2`, … of a query with values.
///
/// # Errors
/// A refusal if a parameter has no value, a value has no parameter, or a bound in a clause is a parameter.
pub(super) fn substitute(tree: &mut sql::Query, values: &[Value]) -> Result<(), DialectError> {
    let mut used = BTreeSet::new();
    let named = sql::visit_expressions(tree, |expr| match expr {
        Expr::Function(function) if has_named_parameter(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if named.is_break() {
        return Err(in_a_clause().into());
    }
    let replaced = sql::visit_expressions_mut(tree, |expr| {
        let Expr::Value(sql::ValueWithSpan { value: sql::Value::Placeholder(name), .. }) = expr
        else {
            return ControlFlow::Continue(());
        };
        match replacement(name, values) {
            Ok((position, literal)) => {
                used.insert(position);
                *expr = literal;
                ControlFlow::Continue(())
            }
            Err(refusal) => ControlFlow::Break(refusal),
        }
    });
    if let ControlFlow::Break(refusal) = replaced {
        return Err(refusal.into());
    }
    match (1..=values.len()).find(|position| !used.contains(position)) {
        None => Ok(()),
        Some(unused) => Err(Refusal::new(
            Reason::Parameter,
            format!("${unused}"),
            format!("a value is given for ${unused}, which is not in the query"),
            "as many values as the query has parameters",
        )
        .into()),
    }
}

/// The position of a parameter and its value as an expression.
fn replacement(name: &str, values: &[Value]) -> Result<(usize, Expr), Refusal> {
    let digits = name.strip_prefix('$').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    let position = digits.and_then(|digits| digits.parse::<usize>().ok()).filter(|n| *n > 0);
    let Some(position) = position else {
        let message = format!("{name} is not a parameter; parameters are numbered from $1");
        return Err(Refusal::new(Reason::Parameter, name, message, "$1, $2, …"));
    };
    match values.get(position - 1) {
        Some(value) => Ok((position, value.expression()?)),
        None => Err(Refusal::new(
            Reason::Parameter,
            name,
            format!("no value is given for {name}"),
            "as many values as the query has parameters",
        )),
    }
}

fn in_a_clause() -> Refusal {
    Refusal::new(Reason::Parameter, "a named argument", IN_A_CLAUSE, "the numbers themselves")
}

/// Whether a named argument, which is a bound, contains a parameter.
fn has_named_parameter(function: &sql::Function) -> bool {
    let sql::FunctionArguments::List(list) = &function.args else { return false };
    list.args.iter().any(|argument| match argument {
        sql::FunctionArg::Unnamed(_) => false,
        named => sql::visit_expressions(named, |expr| match expr {
            Expr::Value(value) if matches!(value.value, sql::Value::Placeholder(_)) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Size, Statement, parse, parse_with};

    /// The tree with values equals the tree of the statement with the same literals.
    #[test]
    fn values_are_the_literals_that_the_parser_reads() {
        let with =
            "SELECT $1 AS a, x + $2, $3 FROM t WHERE c = $4 AND d = $5 AND $1 IS NULL LIMIT $6";
        let written = "SELECT NULL AS a, x + -3, TRUE FROM t WHERE c = 'it''s' AND d = 2.0 AND NULL IS NULL LIMIT 7";
        let values: [Value; 6] =
            [Value::Null, (-3).into(), true.into(), "it's".into(), 2.0.into(), 7.into()];
        let parsed = parse_with(with, &Size::default(), &values).unwrap();
        let Statement::Query(parsed) = parsed else { panic!("{parsed:?}") };
        let Statement::Query(expected) = parse(written).unwrap() else { panic!("no query") };
        assert_eq!(parsed.tree.to_string(), expected.tree.to_string());
    }

    #[test]
    fn numbers_keep_every_digit() {
        for (value, text) in [
            (0.1, "0.1"),
            (120.0, "120"),
            (-2.5, "-2.5"),
            (1e-7, "0.0000001"),
            (1e-12, "1e-12"),
            (1e300, "1e300"),
            (0.0, "0"),
        ] {
            assert_eq!(decimal(value).as_deref(), Some(text));
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
        assert_eq!(decimal(f64::NAN), None);
        assert_eq!(decimal(f64::INFINITY), None);
    }

    #[test]
    fn parameters_stand_where_expressions_do_and_nowhere_else() {
        let said = |text: &str, values: &[Value]| match parse_with(text, &Size::default(), values) {
            Ok(statement) => panic!("{text}: {statement:?}"),
            Err(error) => error.to_string(),
        };
        let one = [Value::Integer(1)];
        for text in [
            "SELECT LAPLACE(eps=$1) COUNT(*) FROM t",
            "SELECT GAUSSIAN(eps=1, delta=$1) COUNT(*) FROM t",
            "SELECT LAPLACE(eps=1, rows=$1) COUNT(*) FROM t",
            "SELECT k, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY k KEYS ($1)",
            "SELECT ARGMAX EXPONENTIAL(eps=1) p IN RANGE(0, $1, 1) BY SUM(p) FROM t",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=$1) COUNT(*) FROM t",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(x, contribution_bounds_per_group => ($1, 2)) FROM t",
        ] {
            assert!(
                said(text, &one).contains("a parameter is not allowed here"),
                "{text}: {}",
                said(text, &one)
            );
        }
        assert!(said("SELECT $2 FROM t", &one).contains("no value is given for $2"));
        assert!(said("SELECT 1 FROM t", &one).contains("which is not in the query"));
        assert!(said("SELECT ? FROM t", &one).contains("numbered from $1"));
        assert!(said("SELECT $0 FROM t", &one).contains("numbered from $1"));
        assert!(said("SELECT $1 FROM t", &[]).contains("placeholder"));
        assert!(said("SELECT $1 FROM t", &[f64::NAN.into()]).contains("finite"));
        assert!(said("SELECT $1 FROM t", &["__hushql_release_0".into()]).contains("belong"));
    }
}
