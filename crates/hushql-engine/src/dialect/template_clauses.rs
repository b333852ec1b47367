//! Templates: questions that an owner fixed, with typed parameters.
//!
//! In: a parser after CREATE or DROP. Out: the statement. The text of the query stays as it was
//! written; `$name` stands for a parameter in it.
//!
//! ```text
//! CREATE TEMPLATE monthly(region VARCHAR IN ('north', 'south')) AS SELECT … WHERE region = $region
//!   →  name monthly, parameters (region VARCHAR IN ('north', 'south')), body "SELECT … = $region"
//! ```

use sqlparser::ast as sql;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::declaration::{Declaration, Taken};
use super::literal::{literal, literal_list};
use super::parameter_clauses::{ParameterClause, ParameterDomainClause, TemplateClause};
use super::parser::HushDialect;
use super::script::TokenOffsets;
use crate::catalog::ParameterType;
use crate::dialect::clauses::{error, expect_word, take_word};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{column_name, name};

/// `name(parameters) AS query` after TEMPLATE.
pub(super) fn create_template(
    parser: &mut Parser,
    dialect: &HushDialect,
    mut places: TokenOffsets<'_>,
    taken: Taken,
) -> Result<Declaration, DialectError> {
    let name = name(parser)?;
    let parameters = parameters(parser)?;
    parser.expect_keyword(Keyword::AS)?;
    let start = places.offset(parser.peek_token().span.start);
    parser.parse_query()?;
    dialect.clauses.take();
    let behind = parser.peek_token();
    let end = match behind.token {
        Token::EOF => places.text.len(),
        _ => places.offset(behind.span.start),
    };
    let body = places.text.get(start..end).unwrap_or_default().trim_end().to_owned();
    let template = TemplateClause { name, parameters, body };
    Ok(Declaration::CreateTemplate { template, taken })
}

/// `(name type [domain] [DEFAULT literal], …)`; `()` for none.
fn parameters(parser: &mut Parser) -> Result<Vec<ParameterClause>, ParserError> {
    let mut parameters = Vec::new();
    parser.expect_token(&Token::LParen)?;
    if parser.consume_token(&Token::RParen) {
        return Ok(parameters);
    }
    loop {
        let name = name(parser)?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if name != name.to_lowercase() || !name.chars().all(is_word) {
            return error(
                parser,
                "the name of a parameter has letters, digits and _ only, since $name stands for it",
            );
        }
        let data_type = parameter_type(parser)?;
        let domain = domain(parser)?;
        let default = if take_word(parser, "DEFAULT") { Some(literal(parser)?) } else { None };
        parameters.push(ParameterClause { name, data_type, domain, default });
        if !parser.consume_token(&Token::Comma) {
            parser.expect_token(&Token::RParen)?;
            return Ok(parameters);
        }
    }
}

/// The type of a parameter, in any of its spellings.
fn parameter_type(parser: &mut Parser) -> Result<ParameterType, ParserError> {
    use sql::DataType as T;
    let written = parser.parse_data_type()?;
    match written {
        T::Varchar(None) | T::Text | T::String(None) | T::CharVarying(None) => {
            Ok(ParameterType::Varchar)
        }
        T::BigInt(None) | T::Int8(None) | T::Int(None) | T::Integer(None) | T::Int4(None) => {
            Ok(ParameterType::Bigint)
        }
        T::Double(_) | T::DoublePrecision | T::Float8 => Ok(ParameterType::Double),
        T::Boolean | T::Bool => Ok(ParameterType::Boolean),
        T::Date => Ok(ParameterType::Date),
        T::Timestamp(None, sql::TimezoneInfo::None | sql::TimezoneInfo::WithoutTimeZone) => {
            Ok(ParameterType::Timestamp)
        }
        other => {
            let known: Vec<String> = ParameterType::ALL.iter().map(ToString::to_string).collect();
            error(
                parser,
                &format!("a parameter has one of the types {}, not {other}", known.join(", ")),
            )
        }
    }
}

fn domain(parser: &mut Parser) -> Result<Option<ParameterDomainClause>, ParserError> {
    if parser.parse_keyword(Keyword::IN) {
        return Ok(Some(ParameterDomainClause::In(literal_list(parser)?)));
    }
    if take_word(parser, "REFERENCES") {
        let table = name(parser)?;
        parser.expect_token(&Token::LParen)?;
        let column = column_name(parser)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(Some(ParameterDomainClause::References { table, column }));
    }
    if !take_word(parser, "BETWEEN") {
        return Ok(None);
    }
    let in_parentheses = parser.consume_token(&Token::LParen);
    let lo = literal(parser)?;
    match in_parentheses {
        true => drop(parser.expect_token(&Token::Comma)?),
        false => expect_word(parser, "AND")?,
    }
    let hi = literal(parser)?;
    if in_parentheses {
        parser.expect_token(&Token::RParen)?;
    }
    Ok(Some(ParameterDomainClause::Between(lo, hi)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Literal, Statement, parse};

    fn created(text: &str) -> (TemplateClause, Taken) {
        match parse(text) {
            Ok(Statement::Declare(declaration)) => match *declaration {
                Declaration::CreateTemplate { template, taken } => (template, taken),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn templates_are_read() {
        let query = "SELECT LAPLACE(eps=0.5) COUNT(*) AS n FROM visits WHERE region = $region";
        let text = format!(
            "CREATE OR REPLACE TEMPLATE Monthly(Region VARCHAR IN ('north', 'south'), least BIGINT BETWEEN (0, 90), share DOUBLE BETWEEN 0 AND 1, since DATE DEFAULT DATE '2026-01-01', code TEXT REFERENCES codes(name)) AS {query} ;"
        );
        let (TemplateClause { name, parameters, body }, taken) = created(&text);
        assert_eq!((name.as_str(), body.as_str(), taken), ("monthly", query, Taken::Replace));
        let types: Vec<String> = parameters.iter().map(|p| p.data_type.to_string()).collect();
        assert_eq!(types, ["VARCHAR", "BIGINT", "DOUBLE", "DATE", "VARCHAR"]);
        assert_eq!(parameters[0].name, "region");
        assert_eq!(parameters[3].default, Some(Literal::Text("2026-01-01".to_owned())));
        assert!(created("CREATE TEMPLATE t() AS SELECT 1 AS n").0.parameters.is_empty());
        assert!(matches!(
            created("CREATE TEMPLATE IF NOT EXISTS t() AS SELECT 1 AS n").1,
            Taken::Keep
        ));
    }

    #[test]
    fn other_texts_are_not_templates() {
        for text in [
            "CREATE TEMPLATE t AS SELECT 1 AS n",
            "CREATE TEMPLATE t() SELECT 1 AS n",
            "CREATE TEMPLATE t(a) AS SELECT 1 AS n",
            "CREATE TEMPLATE t(a BLOB) AS SELECT 1 AS n",
            "CREATE TEMPLATE t(\"a b\" BIGINT) AS SELECT 1 AS n",
            "CREATE TEMPLATE t(a BIGINT DEFAULT 1 + 1) AS SELECT 1 AS n",
            "CREATE TEMPLATE t(a BIGINT IN (SELECT 1)) AS SELECT 1 AS n",
            "CREATE TEMPLATE t(a BIGINT BETWEEN (1)) AS SELECT 1 AS n",
            "CREATE TEMPLATE t() AS SELECT 1 AS n; SELECT 2",
            "CREATE TEMPLATE t(e DOUBLE) AS SELECT LAPLACE(eps=$e) COUNT(*) AS n FROM v",
            "DROP TEMPLATE",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
