//! Queries, and parts that several kinds of statements share.

use std::ops::ControlFlow;

use sqlparser::ast as sql;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::consistent::is_mark;
use crate::dialect::ast::QueryStatement;
use crate::dialect::clauses::{Clauses, numbered};
use crate::dialect::distinct_on::spell_out_distinct_on;
use crate::dialect::error::DialectError;
use crate::dialect::headings::headings;
use crate::dialect::lower::{is_limited, lower};
use crate::dialect::markers_as_written::hiding_markers;
use crate::dialect::number_of_rows::respell_rows;
use crate::dialect::parser::HushDialect;
use crate::dialect::postgres_names::postgres_names;
use crate::dialect::postgres_spelling::respell_postgres;
use crate::dialect::template_call::take_call;
use crate::dialect::twice::name_repeated;
use crate::dialect::value::{Value, mark_parameters, substitute, substitute_named};

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
    let tree = parser.parse_query()?;
    let names = postgres_names(&tree, &dialect.clauses.borrow().releases);
    let mut tree = valued(tree, dialect)?;
    let template = take_call(&mut tree, &dialect.clauses.borrow())?;
    let headings = headings(&tree);
    let clauses = dialect.clauses.take();
    let other = limits_a_subquery(&tree).then(|| (tree.clone(), clauses.clone()));
    let (tree, clauses) = lowered_tree(tree, clauses, false)?;
    let null_values = dialect.values.contains(&Value::Null);
    let statement = |tree, clauses: Clauses| QueryStatement {
        tree,
        releases: clauses.releases,
        range_of: None,
        null_values,
        headings: headings.clone(),
        names: names.clone(),
        template: template.clone(),
        limited: None,
        text: String::new(),
    };
    let limited = other.and_then(|(tree, clauses)| lowered_tree(tree, clauses, true).ok());
    let limited = limited.map(|(tree, clauses)| Box::new(statement(tree, clauses)));
    Ok(QueryStatement { limited, ..statement(tree, clauses) })
}

/// Whether a subquery in FROM has a LIMIT.
fn limits_a_subquery(tree: &sql::Query) -> bool {
    struct Limited;
    impl sql::Visitor for Limited {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &sql::TableFactor) -> ControlFlow<()> {
            if is_limited(factor) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    sql::Visit::visit(tree, &mut Limited).is_break()
}

/// A query as plain SQL, and the dialect's own clauses in it.
pub(crate) fn lowered(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<(Box<sql::Query>, Clauses), DialectError> {
    let tree = valued(parser.parse_query()?, dialect)?;
    lowered_tree(tree, dialect.clauses.take(), false)
}

/// A query as it is written, with values in place of its parameters.
fn valued(
    mut tree: Box<sql::Query>,
    dialect: &HushDialect,
) -> Result<Box<sql::Query>, DialectError> {
    if dialect.is_unvalued {
        mark_parameters(&mut tree)?;
    } else if let Some(literals) = &dialect.named {
        substitute_named(&mut tree, literals)?;
    } else if !dialect.values.is_empty() {
        substitute(&mut tree, &dialect.values)?;
    }
    name_repeated(&mut tree);
    Ok(tree)
}

fn lowered_tree(
    mut tree: Box<sql::Query>,
    mut clauses: Clauses,
    frees_limited: bool,
) -> Result<(Box<sql::Query>, Clauses), DialectError> {
    respell_rows(&mut tree);
    respell_postgres(&mut tree);
    spell_out_distinct_on(&mut tree);
    lower(&mut tree, &mut clauses, frees_limited).map_err(|error| match error {
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
                return ControlFlow::Break("write KEYS after a column of GROUP BY");
            }
            if is_mark(&name) {
                return ControlFlow::Break("write ROLLUP (…) CONSISTENT in GROUP BY");
            }
            if numbered(&name, "_options_").is_some() {
                return ControlFlow::Break("write WITH DIFFERENTIAL_PRIVACY directly after SELECT");
            }
        }
        ControlFlow::Continue(())
    });
    match found {
        ControlFlow::Break(message) => Err(DialectError::syntax(message, None)),
        ControlFlow::Continue(()) => Ok(()),
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
