//! The query of a template in the place of its call.
//!
//! In: the text of the template's query, and a literal for each parameter. Out: the query, and the
//! statement around the call with the query as a subquery in FROM. The literals are put into the
//! syntax tree, never into a text: whatever a value contains, it stays one literal.
//!
//! ```text
//! SELECT n FROM monthly('north') ORDER BY n
//!   →  SELECT n FROM (SELECT … WHERE region = 'north') AS monthly ORDER BY n
//! ```

use sqlparser::ast::{self as sql, Expr, Ident, TableFactor};
use sqlparser::parser::Parser;

use super::called_template::TemplateCall;
use super::parser::HushDialect;
use super::size::{Size, too_deep};
use crate::catalog::ParameterType;
use crate::dialect::ast::QueryStatement;
use crate::dialect::clauses::number;
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{RECURSION_LIMIT, ended, query};
use crate::dialect::tokens::{significant, tokens};
use crate::refusal::{Reason, Refusal};

/// The query of a template, with these literals in the place of its parameters.
///
/// # Errors
/// As [`parse_within`](crate::dialect::parse_within), and a refusal of a parameter that the
/// template does not have.
pub(super) fn template_query(
    body: &str,
    size: &Size,
    literals: &[(String, Expr)],
) -> Result<QueryStatement, DialectError> {
    let beside: usize = literals.iter().map(|(_, literal)| literal.to_string().len()).sum();
    size.check_bytes(body.len().saturating_add(beside))?;
    let tokens = significant(tokens(body)?)?;
    size.check_tokens(&tokens)?;
    let dialect = HushDialect::for_tokens(tokens.len()).with_named(literals);
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let read = query(&mut parser, &dialect);
    // A result counts only if the text was read to its end.
    if dialect.is_exhausted() {
        return Err(too_deep().into());
    }
    let read = read?;
    ended(&parser)?;
    match &read.template {
        None => Ok(read),
        Some(call) => Err(Refusal::new(
            Reason::Clause,
            &call.name,
            "a template calls no other template",
            "the query itself, or a view",
        )
        .into()),
    }
}

/// The statement around a call, with the template's query in the place of the call.
pub(crate) fn with_body(
    outer: &QueryStatement,
    call: &TemplateCall,
    body: QueryStatement,
) -> Option<QueryStatement> {
    let QueryStatement { tree: inner, releases, limited, .. } = body;
    let mut tree = outer.tree.clone();
    let sql::SetExpr::Select(select) = tree.body.as_mut() else { return None };
    let relation = &mut select.from.first_mut()?.relation;
    let TableFactor::Table { alias, .. } = &*relation else { return None };
    let own = || sql::TableAlias {
        explicit: true,
        name: Ident::with_quote('"', &call.name),
        columns: Vec::new(),
        at: None,
    };
    let alias = Some(alias.clone().unwrap_or_else(own));
    *relation = TableFactor::Derived { lateral: false, subquery: inner, alias, sample: None };
    let limited = limited.and_then(|limited| with_body(outer, call, *limited)).map(Box::new);
    Some(QueryStatement { tree, releases, limited, template: None, ..outer.clone() })
}

/// A value as the literal of its type.
pub(crate) fn typed_literal(data_type: ParameterType, value: &str) -> Expr {
    let text = || sql::Value::SingleQuotedString(value.to_owned());
    let typed = |data_type| {
        Expr::TypedString(sql::TypedString {
            data_type,
            value: text().into(),
            uses_odbc_syntax: false,
        })
    };
    match data_type {
        ParameterType::Varchar => Expr::Value(text().into()),
        ParameterType::Boolean => Expr::Value(sql::Value::Boolean(value == "true").into()),
        ParameterType::Bigint | ParameterType::Double => match value.strip_prefix('-') {
            None => number(value),
            Some(digits) => {
                Expr::UnaryOp { op: sql::UnaryOperator::Minus, expr: Box::new(number(digits)) }
            }
        },
        ParameterType::Date => typed(sql::DataType::Date),
        ParameterType::Timestamp => typed(sql::DataType::Timestamp(None, sql::TimezoneInfo::None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::parse_template;

    #[test]
    fn a_value_is_one_literal() {
        let quoted = "x' OR '1' = '1";
        let literals = [
            ("a".to_owned(), typed_literal(ParameterType::Varchar, quoted)),
            ("b".to_owned(), typed_literal(ParameterType::Bigint, "-3")),
        ];
        let body = "SELECT COUNT(*) AS n FROM t WHERE x = $a AND y > $b";
        let read = parse_template(body, &Size::default(), &literals).unwrap();
        assert_eq!(
            read.tree.to_string(),
            "SELECT COUNT(*) AS n FROM t WHERE x = 'x'' OR ''1'' = ''1' AND y > -3"
        );
        for body in [
            "SELECT COUNT(*) AS n FROM t WHERE x = $a",
            "SELECT COUNT(*) AS n FROM t WHERE x = $a AND y > $c AND y < $b",
            "SELECT COUNT(*) AS n FROM t WHERE x = $a AND y > $1 AND y < $b",
            "SELECT x FROM t WHERE x = $a ORDER BY $b",
            "SELECT COUNT(*) AS n FROM t WHERE x = $a AND y > $b; SELECT 1",
            "SELECT * FROM m($a, $b)",
        ] {
            assert!(parse_template(body, &Size::default(), &literals).is_err(), "{body}");
        }
    }
}
