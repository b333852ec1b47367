//! Values that a program passes beside a statement: for a parameter of a query, or in a domain.
//!
//! In: Rust values. Out: literals for the dialect's clauses and for the syntax tree of a query. No
//! text is parsed, so a value is always one literal, whatever it contains.
//!
//! ```text
//! Value::Integer(-3)  →  Literal::Number("-3"), and in a tree the operator − before the number 3
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    self as sql, Expr, GroupByExpr, OrderByKind, Visit, VisitMut, Visitor, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::catalog::RESERVED;
use crate::dialect::clauses::{call, number, numbered};
use crate::dialect::error::DialectError;
use crate::dialect::literal::{IN_A_CLAUSE, Literal};
use crate::dialect::markers::parameter_marker;
use crate::dialect::number_of_rows::uncast;
use crate::dialect::rollup_cube::written_keys;
use crate::functions::DecimalLiteral;
use crate::refusal::{Reason, Refusal};
use crate::visible::steers;

/// A value that a program gives: for a parameter of a query, or in a domain.
///
/// ```
/// # use hushql_engine as hushql;
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
    /// A number in digits, such as `-17.010`, with at most 38 significant digits. All of them are
    /// kept.
    Decimal(String),
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

/// The shortest decimal that parses to a number. `None` if the number is not finite.
pub(crate) fn decimal(value: f64) -> Option<String> {
    let magnitude = value.abs();
    let plain = magnitude == 0.0 || (1e-9..1e15).contains(&magnitude);
    value.is_finite().then(|| if plain { format!("{value}") } else { format!("{value:?}") })
}

impl Value {
    /// The length of the value's text. 0 for a number, which is short.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Null
            | Self::Boolean(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Decimal(_) => 0,
        }
    }

    /// The value as a literal of a clause.
    ///
    /// # Errors
    /// A refusal of a number that is not finite or not a decimal of 38 digits, and of a text that
    /// is reserved for the engine.
    pub(crate) fn literal(&self) -> Result<Literal, Refusal> {
        Ok(match self {
            Self::Null => Literal::Null,
            Self::Boolean(value) => Literal::Boolean(*value),
            Self::Integer(value) => Literal::Number(value.to_string()),
            Self::Float(value) => Literal::Number(decimal(*value).ok_or_else(not_finite)?),
            Self::Decimal(text) => match DecimalLiteral::parse(text) {
                Some(number) => Literal::Number(number.text),
                None => {
                    return Err(refusal(
                        "a decimal is digits with at most one point, and at most 38 of them"
                            .to_owned(),
                        "fewer digits, or a float",
                    ));
                }
            },
            Self::Text(text) if text.to_lowercase().starts_with(RESERVED) => {
                return Err(refusal(
                    format!("texts that begin with {RESERVED} belong to the engine"),
                    "another text",
                ));
            }
            Self::Text(text) => Literal::Text(text.clone()),
        })
    }

    /// The value as the ledger records it: the text of its literal, in one line.
    ///
    /// # Errors
    /// See [`Value::literal`].
    pub(crate) fn recorded(&self) -> Result<String, Refusal> {
        let literal = self.literal()?;
        Ok(match (self, literal) {
            // A float stays a float, because a whole number would divide differently.
            (Self::Float(value), _) => format!("{value:?}"),
            (_, Literal::Text(text)) if text.contains(steers) => escaped(&text),
            (_, literal) => literal.to_string(),
        })
    }

    /// The expression that the parser would make of the value's literal.
    fn expression(&self) -> Result<Expr, Refusal> {
        let value = match self {
            // A float without a fraction stays a float.
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

/// A text as a literal with escapes for its control characters.
fn escaped(text: &str) -> String {
    let mut written = "E'".to_owned();
    for c in text.chars() {
        match c {
            '\'' => written.push_str("''"),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            c if steers(c) => written.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => written.push(c),
        }
    }
    written.push('\'');
    written
}

/// A number as the parser reads it: the sign is an operator.
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

/// The total bytes of the values that replace the parameters of a statement; saturates. A value
/// counts at each use.
pub(super) fn bytes_of_values(tokens: &[TokenWithSpan], values: &[Value]) -> usize {
    let of_token = |token: &TokenWithSpan| match &token.token {
        Token::Placeholder(name) => replacement(name, values).map_or(0, |(_, value)| value.bytes()),
        _ => 0,
    };
    tokens.iter().map(of_token).fold(0, usize::saturating_add)
}

/// Replaces the parameters `$1`, `$2`, … of a query by values.
///
/// # Errors
/// A refusal if a parameter has no value or a value has no parameter. Also if a parameter stands
/// where its value would decide more than a value: in a bound of a clause, or as a column of GROUP
/// BY or ORDER BY.
pub(super) fn substitute(tree: &mut sql::Query, values: &[Value]) -> Result<(), DialectError> {
    substituted(tree, Given::Values(values))
}

/// Replaces the parameters of a query by calls of the functions that represent them while nobody
/// has given values. A number of rows, which has to be a literal, becomes 1.
///
/// # Errors
/// As [`substitute`].
pub(super) fn mark_parameters(tree: &mut sql::Query) -> Result<(), DialectError> {
    substituted(tree, Given::Later)
}

/// Replaces the parameters `$name` of a template by literals.
///
/// # Errors
/// As [`substitute`].
pub(super) fn substitute_named(
    tree: &mut sql::Query,
    literals: &[(String, Expr)],
) -> Result<(), DialectError> {
    substituted(tree, Given::Named(literals))
}

/// The refusal of a value that the query does not use.
fn unused_value(given: Given<'_>, unused: usize) -> Refusal {
    let named = match given {
        Given::Named(literals) => unused.checked_sub(1).and_then(|at| literals.get(at)),
        Given::Values(_) | Given::Later => None,
    };
    match named {
        Some((name, _)) => Refusal::new(
            Reason::Parameter,
            name,
            format!("the parameter {name} is not in the query"),
            format!("${name} in the query, or the template without this parameter"),
        ),
        None => Refusal::new(
            Reason::Parameter,
            format!("${unused}"),
            format!("a value is given for ${unused}, which is not in the query"),
            "as many values as the query has parameters",
        ),
    }
}

fn unknown_parameter(name: &str, literals: &[(String, Expr)]) -> Refusal {
    let known: Vec<String> = literals.iter().map(|(name, _)| format!("${name}")).collect();
    let hint = match known.as_slice() {
        [] => "the value itself, or a parameter: CREATE TEMPLATE t(region VARCHAR) AS …".to_owned(),
        known => known.join(", "),
    };
    Refusal::new(
        Reason::Parameter,
        name,
        format!("{name} is not a parameter of the template"),
        hint,
    )
}

/// What a query has in place of its parameters.
#[derive(Clone, Copy)]
enum Given<'a> {
    Values(&'a [Value]),
    /// Nothing yet: each parameter stays one.
    Later,
    /// The literals of a template's parameters, by name.
    Named(&'a [(String, Expr)]),
}

impl Given<'_> {
    /// The expression for a parameter, and the parameter's position.
    fn expression(self, name: &str) -> Result<(usize, Expr), Refusal> {
        match self {
            Self::Values(values) => {
                let (position, value) = replacement(name, values)?;
                Ok((position, value.expression()?))
            }
            Self::Later => {
                let position = position(name)?;
                Ok((position, call(parameter_marker(position), Vec::new())))
            }
            Self::Named(literals) => {
                let own = name.strip_prefix('$').unwrap_or(name).to_lowercase();
                let found = literals.iter().position(|(name, _)| *name == own);
                let literal = found.and_then(|at| Some((at + 1, literals.get(at)?.1.clone())));
                literal.ok_or_else(|| unknown_parameter(name, literals))
            }
        }
    }
}

fn substituted(tree: &mut sql::Query, given: Given<'_>) -> Result<(), DialectError> {
    let given_values = match given {
        Given::Values(values) => values.len(),
        Given::Later => 0,
        Given::Named(literals) => literals.len(),
    };
    let mut substitution = Substitution { given, used: BTreeSet::new() };
    if let ControlFlow::Break(refusal) = tree.visit(&mut substitution) {
        return Err(refusal.into());
    }
    if let ControlFlow::Break(refusal) = Visit::visit(tree, &mut Leftover) {
        return Err(refusal.into());
    }
    match (1..=given_values).find(|position| !substitution.used.contains(position)) {
        None => Ok(()),
        Some(unused) => Err(unused_value(given, unused).into()),
    }
}

/// Replaces the parameters that are expressions.
struct Substitution<'a> {
    given: Given<'a>,
    used: BTreeSet<usize>,
}

impl VisitorMut for Substitution<'_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, query: &mut sql::Query) -> ControlFlow<Refusal> {
        if let (Given::Later, Some(rows)) = (self.given, query.limit_clause.as_mut()) {
            one_row(rows);
        }
        match query.order_by.as_ref().map(|order_by| &order_by.kind) {
            Some(OrderByKind::Expressions(sorts)) => {
                no_position(sorts.iter().map(|sort| &sort.expr), "ORDER BY")
            }
            Some(OrderByKind::All(_)) | None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut sql::Select) -> ControlFlow<Refusal> {
        match &select.group_by {
            GroupByExpr::Expressions(keys, _) => {
                no_position(written_keys(keys).into_iter(), "GROUP BY")
            }
            GroupByExpr::All(_) => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Refusal> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if has_named_parameter(function) {
            return ControlFlow::Break(in_a_clause());
        }
        if matches!(self.given, Given::Later)
            && let Some(unit) = unit(function)
            && let Some(position) = parameter(unit).and_then(|name| position(name).ok())
        {
            self.used.insert(position);
            *unit = Expr::Value(sql::Value::SingleQuotedString("day".to_owned()).into());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Refusal> {
        let Some(name) = parameter(expr) else { return ControlFlow::Continue(()) };
        match self.given.expression(name) {
            Ok((position, given)) => {
                self.used.insert(position);
                *expr = given;
                ControlFlow::Continue(())
            }
            Err(refusal) => ControlFlow::Break(refusal),
        }
    }
}

/// Refuses the remaining parameters, which are not expressions: `DATE $1`, `ESCAPE $1`.
struct Leftover;

impl Visitor for Leftover {
    type Break = Refusal;

    fn pre_visit_value(&mut self, value: &sql::ValueWithSpan) -> ControlFlow<Refusal> {
        let sql::Value::Placeholder(name) = &value.value else {
            return ControlFlow::Continue(());
        };
        let message = format!("{name} stands where a text is written out, as after DATE or ESCAPE");
        let hint = format!("CAST({name} AS DATE) for DATE {name}; otherwise the text itself");
        ControlFlow::Break(Refusal::new(Reason::Parameter, name, message, hint))
    }
}

/// The unit that a function of dates takes, which has to be a literal.
fn unit(function: &mut sql::Function) -> Option<&mut Expr> {
    let name = function.name.to_string().to_lowercase();
    if !["date_trunc", "datetrunc", "date_part", "datepart", "date_diff"].contains(&name.as_str()) {
        return None;
    }
    let sql::FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.first_mut() {
        Some(sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(first))) => Some(first),
        _ => None,
    }
}

/// Replaces the parameters of LIMIT and OFFSET by the number 1.
fn one_row(clause: &mut sql::LimitClause) {
    let rows = match clause {
        sql::LimitClause::LimitOffset { limit, offset, limit_by: _ } => {
            [limit.as_mut(), offset.as_mut().map(|offset| &mut offset.value)]
        }
        sql::LimitClause::OffsetCommaLimit { offset, limit } => [Some(offset), Some(limit)],
    };
    for rows in rows.into_iter().flatten() {
        if parameter(uncast(rows)).is_some() {
            *rows = number("1");
        }
    }
}

/// The parameter's name, if the expression is a parameter.
fn parameter(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(sql::ValueWithSpan { value: sql::Value::Placeholder(name), .. }) => Some(name),
        _ => None,
    }
}

/// Refuses a parameter where a whole number would be the position of a column, because its value
/// would choose the column to group or sort by.
fn no_position<'a>(
    mut items: impl Iterator<Item = &'a Expr>,
    clause: &str,
) -> ControlFlow<Refusal> {
    match items.find_map(|item| parameter(bare(item))) {
        None => ControlFlow::Continue(()),
        Some(name) => ControlFlow::Break(Refusal::new(
            Reason::Parameter,
            format!("{clause} {name}"),
            format!("{clause} names columns, and a value is not the name or the position of one"),
            format!("{clause} and the column"),
        )),
    }
}

/// An item of GROUP BY or ORDER BY without KEYS, parentheses and signs.
fn bare(item: &Expr) -> &Expr {
    match item {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => bare(inner),
        Expr::Function(sql::Function {
            name,
            args: sql::FunctionArguments::List(sql::FunctionArgumentList { args, .. }),
            ..
        }) if numbered(&name.to_string(), "_keys_").is_some() => match args.as_slice() {
            [sql::FunctionArg::Unnamed(sql::FunctionArgExpr::Expr(inner))] => bare(inner),
            _ => item,
        },
        _ => item,
    }
}

/// The position of a parameter, from 1 on.
fn position(name: &str) -> Result<usize, Refusal> {
    let digits = name.strip_prefix('$').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
    let position = digits.and_then(|digits| digits.parse::<usize>().ok()).filter(|n| *n > 0);
    position.ok_or_else(|| {
        let message = format!("{name} is not a parameter; parameters are numbered from $1");
        Refusal::new(Reason::Parameter, name, message, "$1, $2, …")
    })
}

/// The position of a parameter, and its value.
fn replacement<'a>(name: &str, values: &'a [Value]) -> Result<(usize, &'a Value), Refusal> {
    let position = position(name)?;
    match values.get(position - 1) {
        Some(value) => Ok((position, value)),
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

/// True if a named argument contains a parameter. Named arguments are bounds.
fn has_named_parameter(function: &sql::Function) -> bool {
    let sql::FunctionArguments::List(list) = &function.args else { return false };
    list.args.iter().any(|argument| match argument {
        sql::FunctionArg::Unnamed(_) => false,
        named => sql::visit_expressions(named, |expr| match expr {
            expr if parameter(expr).is_some() => ControlFlow::Break(()),
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
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(x, contribution_bounds_per_row => (0, -$1)) FROM t",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=$1) COUNT(*) FROM t",
            "SELECT LAPLACE(eps=-$1) COUNT(*) FROM t",
            "SELECT ARGMAX EXPONENTIAL(eps=1) p IN (1, $1) BY SUM(p) FROM t",
            "ANALYZE PRIVACY DOMAIN t(x) WITH (eps=$1)",
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
        // These need a name or a literal number.
        for text in [
            "SELECT LAPLACE($1=1) COUNT(*) FROM t",
            "SELECT TOP $1 EXPONENTIAL(eps=1) k FROM t GROUP BY k",
            "SELECT EXPONENTIAL(eps=1) QUANTILE(x, $1) FROM t",
            "SELECT k, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY k KEYS $1",
            "SELECT k, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY k KEYS TABLE $1(k)",
            "SELECT LAPLACE(eps=1) COUNT(*) FROM $1",
            "SELECT LAPLACE(eps=1) COUNT(*) AS $1 FROM t",
            "SELECT CAST(x AS DECIMAL($1, 2)) FROM t",
        ] {
            assert!(!said(text, &one).contains("does not hold"), "{text}: {}", said(text, &one));
        }
    }

    /// A whole number in GROUP BY or ORDER BY is the position of a column: a value there once chose
    /// the groups.
    #[test]
    fn a_value_does_not_choose_a_column() {
        for item in ["$1", "($1)", "+$1", "- (-($1))", "x, $1"] {
            for text in [
                format!("SELECT x, COUNT(*) FROM t GROUP BY {item}"),
                format!("SELECT x FROM t ORDER BY {item} DESC"),
                format!("SELECT 1 FROM (SELECT x FROM t GROUP BY {item})"),
                format!("SELECT x FROM t UNION ALL SELECT x FROM t GROUP BY {item}"),
                format!("SELECT x, LAPLACE(eps=1) COUNT(*) FROM t GROUP BY {item} KEYS (1)"),
            ] {
                for value in [Value::Integer(1), Value::Text("x".to_owned())] {
                    let error = parse_with(&text, &Size::default(), &[value]).unwrap_err();
                    assert!(error.to_string().contains("names columns"), "{text}: {error}");
                }
            }
        }
        // Inside an expression, a parameter is just a value.
        let text = "SELECT x > $1 FROM t GROUP BY x > $1 ORDER BY x + $1";
        assert!(parse_with(text, &Size::default(), &[Value::Integer(1)]).is_ok());
    }

    /// The syntax tree holds some values that are not expressions.
    #[test]
    fn a_parameter_in_the_place_of_a_written_text_is_refused() {
        for text in ["DATE $1", "TIMESTAMP $1", "x LIKE 'a' ESCAPE $1", "x ILIKE 'a' ESCAPE $1"] {
            for list in [text.to_owned(), format!("{text}, $1")] {
                let sql = format!("SELECT {list} FROM t");
                for values in [&[][..], &[Value::Text("a".to_owned())]] {
                    let error = parse_with(&sql, &Size::default(), values).unwrap_err();
                    let DialectError::Refused(refusal) = &error else { panic!("{sql}: {error}") };
                    assert_eq!(refusal.reason(), Reason::Parameter, "{sql}: {error}");
                    assert!(!error.to_string().contains("does not hold"), "{sql}: {error}");
                }
            }
        }
    }

    /// A text of half a megabyte that is used a thousand times once became half a gigabyte.
    #[test]
    fn a_value_is_as_long_as_it_is_used_often() {
        let size = Size { bytes: 1_000, ..Size::default() };
        let used = |times: usize| {
            let sql = format!("SELECT 1 FROM t WHERE x IN ({})", vec!["$1"; times].join(", "));
            parse_with(&sql, &size, &["y".repeat(100).into()]).is_ok()
        };
        assert!(used(9));
        assert!(!used(10));
    }

    /// Records of different values differ, and each is one line.
    #[test]
    fn values_are_recorded_one_to_one() {
        for (value, record) in [
            (Value::Null, "NULL"),
            (true.into(), "TRUE"),
            ((-3).into(), "-3"),
            (2.0.into(), "2.0"),
            ((-0.0).into(), "-0.0"),
            (1e300.into(), "1e300"),
            ("2.0".into(), "'2.0'"),
            ("a', $2 = 'b".into(), "'a'', $2 = ''b'"),
            ("two\nlines".into(), r"E'two\nlines'"),
            (r"two\nlines".into(), r"'two\nlines'"),
            ("two\n-- $1 = 'lines\\'".into(), r"E'two\n-- $1 = ''lines\\'''"),
            ("\u{0}\r\u{85}\u{2028}\u{202e}".into(), r"E'\u0000\u000d\u0085\u2028\u202e'"),
        ] {
            let recorded = value.recorded().unwrap();
            assert_eq!(recorded, record);
            assert!(!recorded.contains(steers));
        }
        assert!(Value::from(f64::INFINITY).recorded().is_err());
    }
}
