//! Rewrites the spellings of PostgreSQL that drivers and tools write.
//!
//! In: a query as sqlparser read it, with values in place of its parameters. Out: the same query in
//! the words that the engine knows. What is not among them stays as it is.
//!
//! ```text
//! E'it\'s'                                       'it''s'
//! x ~~ 'a%', x !~~* 'a%'                         x LIKE 'a%', x NOT ILIKE 'a%'
//! x = ANY('{1,2}'), x <> ALL(ARRAY[1, 2])        x IN (1, 2), x NOT IN (1, 2)
//! '%' || 'a' || '%', x AT TIME ZONE 'UTC'        '%a%', x
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self as sql, BinaryOperator, Expr, Value, VisitMut, VisitorMut};

use crate::catalog::RESERVED;
use crate::dialect::clauses::number;
use crate::dialect::markers::parameter_of;

/// Rewrites a query in place.
pub(super) fn respell_postgres(query: &mut sql::Query) {
    let _: ControlFlow<()> = VisitMut::visit(query, &mut Spelling);
}

struct Spelling;

impl VisitorMut for Spelling {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(other) =
            pattern(expr).or_else(|| among(expr)).or_else(|| joined(expr)).or_else(|| in_utc(expr))
        {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}

/// The operators of LIKE as LIKE.
fn pattern(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op, right } = expr else { return None };
    let (negated, is_folded) = match op {
        BinaryOperator::PGLikeMatch => (false, false),
        BinaryOperator::PGILikeMatch => (false, true),
        BinaryOperator::PGNotLikeMatch => (true, false),
        BinaryOperator::PGNotILikeMatch => (true, true),
        _ => return None,
    };
    let (any, escape_char) = (false, None);
    let (expr, pattern) = (left.clone(), right.clone());
    Some(match is_folded {
        false => Expr::Like { negated, any, expr, pattern, escape_char },
        true => Expr::ILike { negated, any, expr, pattern, escape_char },
    })
}

/// Texts that are joined with `||`, as one text: a pattern around a value.
fn joined(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = expr else {
        return None;
    };
    let whole = format!("{}{}", written(left)?, written(right)?);
    free(whole)
}

/// The text of a literal.
fn written(expr: &Expr) -> Option<&str> {
    match bare(expr) {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `x AT TIME ZONE 'UTC'` as x: all moments are in UTC.
fn in_utc(expr: &Expr) -> Option<Expr> {
    let Expr::AtTimeZone { timestamp, time_zone } = expr else { return None };
    let zone = written(time_zone)?.to_ascii_lowercase();
    let is_utc = ["utc", "gmt", "z", "etc/utc", "+00:00", "zulu"].contains(&zone.as_str());
    is_utc.then(|| (**timestamp).clone())
}

/// `x = ANY(array)` and `x <> ALL(array)` as lists, for an array that is written out. A parameter
/// without a value stands for one of its elements.
fn among(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: _ } => {
            (left, right, false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return None,
    };
    if let Expr::Subquery(query) = bare(right) {
        let (expr, subquery) = (left.clone(), query.clone());
        return Some(Expr::InSubquery { expr, subquery, negated });
    }
    let list = elements(right)?;
    if list.is_empty() {
        return Some(Expr::Value(Value::Boolean(negated).into()));
    }
    Some(Expr::InList { expr: left.clone(), list, negated })
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The elements of an array that is written out.
fn elements(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => elements(inner),
        Expr::Array(sql::Array { elem, .. }) => Some(elem.clone()),
        Expr::Cast { expr, data_type: sql::DataType::Array(of), format: None, .. } => {
            let own = elements(expr)?;
            let inner = match of {
                sql::ArrayElemTypeDef::AngleBracket(inner)
                | sql::ArrayElemTypeDef::SquareBracket(inner, _)
                | sql::ArrayElemTypeDef::Parenthesis(inner) => Some(&**inner),
                sql::ArrayElemTypeDef::None => None,
            };
            let is_text = inner.is_some_and(is_text);
            Some(own.into_iter().map(|one| if is_text { as_text(one) } else { one }).collect())
        }
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => array_of_text(text),
            _ => None,
        },
        Expr::Function(function) => {
            parameter_of(&function.name.to_string()).map(|_| vec![array.clone()])
        }
        _ => None,
    }
}

fn is_text(data_type: &sql::DataType) -> bool {
    matches!(
        data_type,
        sql::DataType::Text | sql::DataType::Varchar(_) | sql::DataType::CharacterVarying(_)
    )
}

/// A number among texts as a text.
fn as_text(element: Expr) -> Expr {
    match element {
        Expr::Value(sql::ValueWithSpan { value: Value::Number(digits, _), .. }) => text(digits),
        other => other,
    }
}

fn text(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}

/// A text that does not belong to the engine.
fn free(own: String) -> Option<Expr> {
    (!own.to_lowercase().starts_with(RESERVED)).then(|| text(own))
}

/// The most elements of an array in a text.
const MOST_ELEMENTS: usize = 10_000;

/// The elements of an array as PostgreSQL writes it: `{1,"a b",NULL}`. `None` for another text, and
/// for an array of arrays.
fn array_of_text(array: &str) -> Option<Vec<Expr>> {
    let inner = array.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut rest = inner.trim_start();
    if rest.is_empty() {
        return Some(elements);
    }
    loop {
        let (element, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (own, behind) = unquoted(quoted)?;
                (free(own)?, behind)
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (own, behind) = rest.split_at(end);
                (unquoted_element(own.trim())?, behind)
            }
        };
        if elements.len() == MOST_ELEMENTS {
            return None;
        }
        elements.push(element);
        match behind.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None if behind.trim().is_empty() => return Some(elements),
            None => return None,
        }
    }
}

/// The text up to the closing quote, and what follows it.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut own = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((own, quoted.get(at + 1..)?)),
            '\\' => own.push(chars.next()?.1),
            c => own.push(c),
        }
    }
    None
}

/// An element without quotes: NULL, a number or a text.
fn unquoted_element(element: &str) -> Option<Expr> {
    if element.is_empty() || element.contains(['{', '}', '"', '\\']) {
        return None;
    }
    if element.eq_ignore_ascii_case("null") {
        return Some(Expr::Value(Value::Null.into()));
    }
    let digits = element.strip_prefix('-').unwrap_or(element);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.matches('.').count() <= 1
        && !digits.ends_with('.');
    if ["true", "false"].contains(&element) {
        return Some(Expr::Value(Value::Boolean(element == "true").into()));
    }
    Some(match (is_number, element.starts_with('-')) {
        (false, _) => free(element.to_owned())?,
        (true, false) => number(digits),
        (true, true) => {
            let expr = Box::new(number(digits));
            Expr::UnaryOp { op: sql::UnaryOperator::Minus, expr }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Statement, parse};

    #[test]
    fn spellings_of_postgres_are_read() {
        for (written, expected) in [
            (r"x = E'it\'s \\ a'", r"x = 'it''s \ a'"),
            ("x ~~ 'a%' AND x !~~ 'b%'", "x LIKE 'a%' AND x NOT LIKE 'b%'"),
            ("x ~~* 'a%' AND x !~~* 'b%'", "x ILIKE 'a%' AND x NOT ILIKE 'b%'"),
            ("x = ANY('{1,-2,NULL}')", "x IN (1, -2, NULL)"),
            (r#"x = ANY('{"a b","c\"d",e}')"#, r#"x IN ('a b', 'c"d', 'e')"#),
            ("x = ANY(ARRAY[1, 2])", "x IN (1, 2)"),
            ("x <> ALL((ARRAY['a', 'b'])::text[])", "x NOT IN ('a', 'b')"),
            ("x = ANY('{17,18}'::text[])", "x IN ('17', '18')"),
            ("x ILIKE '%' || 'a' || '%'", "x ILIKE '%a%'"),
            ("x AT TIME ZONE 'UTC' > y", "x > y"),
            ("x = ANY (SELECT y FROM u)", "x IN (SELECT y FROM u)"),
            ("x = ANY('{}')", "false"),
            ("x != ALL('{}')", "true"),
        ] {
            let parsed = parse(&format!("SELECT a FROM t WHERE {written}"));
            let Ok(Statement::Query(query)) = parsed else { panic!("{written}: {parsed:?}") };
            assert_eq!(query.tree.to_string(), format!("SELECT a FROM t WHERE {expected}"));
        }
        let Ok(Statement::Query(query)) = parse("TABLE t LIMIT 3") else { panic!() };
        assert_eq!(query.tree.to_string(), "SELECT * FROM t LIMIT 3");
        // The parser would lose two words behind it.
        assert!(parse("SELECT a FROM t UNION ALL TABLE u").is_err());
        for text in ["{1", "{{1,2}}", "1,2", "{1,,2}", r#"{"a}"#, r#"{"a"b}"#] {
            let parsed = parse(&format!("SELECT a FROM t WHERE x = ANY('{text}')"));
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
