//! Queries, and parts that several kinds of statements share.

use sqlparser::ast as sql;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::consistent::is_mark;
use crate::dialect::ast::QueryStatement;
use crate::dialect::clauses::{Clauses, numbered};
use crate::dialect::error::DialectError;
use crate::dialect::headings::headings;
use crate::dialect::lower::lower;
use crate::dialect::markers_as_written::hiding_markers;
use crate::dialect::parser::HushDialect;
use crate::dialect::twice::name_repeated;
use crate::dialect::value::{Value, substitute};

/// The deepest nesting of expressions and queries.
pub(crate) const RECURSION_LIMIT: usize = 50;

/// Refuses text after a statement.
pub(crate) fn ended(parser: &Parser) -> Result<(), ParserError> {
    let found = parser.peek_token();
    if found.token == Token::EOF {
        return Ok(());
    }
    parser.expected("the end of the statement", found)
}

pub(crate) fn query(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<QueryStatement, DialectError> {
    let tree = parsed(parser, dialect)?;
    let headings = headings(&tree);
    let (tree, clauses) = lowered_tree(tree, dialect)?;
    let null_values = dialect.values.contains(&Value::Null);
    let Clauses { releases, .. } = clauses;
    Ok(QueryStatement {
        tree,
        releases,
        range_of: None,
        null_values,
        headings,
        text: String::new(),
    })
}

/// A query as plain SQL, and the dialect's own clauses in it.
pub(crate) fn lowered(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<(Box<sql::Query>, Clauses), DialectError> {
    let tree = parsed(parser, dialect)?;
    lowered_tree(tree, dialect)
}

/// A query as it is written, with values in place of its parameters.
fn parsed(parser: &mut Parser, dialect: &HushDialect) -> Result<Box<sql::Query>, DialectError> {
    let mut tree = parser.parse_query()?;
    if !dialect.values.is_empty() {
        substitute(&mut tree, &dialect.values)?;
    }
    name_repeated(&mut tree);
    Ok(tree)
}

fn lowered_tree(
    mut tree: Box<sql::Query>,
    dialect: &HushDialect,
) -> Result<(Box<sql::Query>, Clauses), DialectError> {
    let mut clauses = dialect.clauses.take();
    lower(&mut tree, &mut clauses).map_err(|error| match error {
        DialectError::Refused(refusal) => hiding_markers(&refusal, &clauses.releases).into(),
        syntax => syntax,
    })?;
    refuse_leftovers(&tree)?;
    Ok((tree, clauses))
}

/// Refuses KEYS and OPTIONS outside of their places. The parser reads them in every expression.
pub(crate) fn refuse_leftovers(tree: &sql::Query) -> Result<(), DialectError> {
    let found = sql::visit_expressions(tree, |e| {
        if let sql::Expr::Function(function) = e {
            let name = function.name.to_string();
            if numbered(&name, "_keys_").is_some() {
                return std::ops::ControlFlow::Break("write KEYS after a column of GROUP BY");
            }
            if is_mark(&name) {
                return std::ops::ControlFlow::Break("write ROLLUP (…) CONSISTENT in GROUP BY");
            }
            if numbered(&name, "_options_").is_some() {
                return std::ops::ControlFlow::Break(
                    "write WITH DIFFERENTIAL_PRIVACY directly after SELECT",
                );
            }
        }
        std::ops::ControlFlow::Continue(())
    });
    match found {
        std::ops::ControlFlow::Break(message) => Err(DialectError::syntax(message, None)),
        std::ops::ControlFlow::Continue(()) => Ok(()),
    }
}

/// The name of a table, view, column or budget. Unquoted names are lower case, as in queries.
pub(crate) fn name(parser: &mut Parser) -> Result<String, ParserError> {
    let ident = parser.parse_identifier()?;
    Ok(match ident.quote_style {
        Some(_) => ident.value,
        None => ident.value.to_lowercase(),
    })
}

/// The name of a column, or of a field of its structs, as in `address.city`.
pub(crate) fn column_name(parser: &mut Parser) -> Result<String, ParserError> {
    let mut column = name(parser)?;
    while parser.consume_token(&Token::Period) {
        column = format!("{column}.{}", name(parser)?);
    }
    Ok(column)
}

/// `(a, b)`.
pub(crate) fn names(parser: &mut Parser) -> Result<Vec<String>, ParserError> {
    in_parentheses(parser, name)
}

/// `(a, b.c)`: columns, and fields of their structs.
pub(crate) fn column_names(parser: &mut Parser) -> Result<Vec<String>, ParserError> {
    in_parentheses(parser, column_name)
}

fn in_parentheses(
    parser: &mut Parser,
    one: fn(&mut Parser) -> Result<String, ParserError>,
) -> Result<Vec<String>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut names = vec![one(parser)?];
    while parser.consume_token(&Token::Comma) {
        names.push(one(parser)?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(names)
}
