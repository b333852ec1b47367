//! `ANALYZE PRIVACY DOMAIN`: finds the range of a column by a query for its noisy histogram.
//!
//! In: a parser at the start of the statement. Out: an ordinary query, which counts each bucket of
//! magnitudes with noise, and the name of the column whose range the answer shows. So the usual
//! stages decide its cost and its contribution bounds.
//!
//! ```text
//! ANALYZE PRIVACY DOMAIN orders(price) WITH (eps=0.1)
//!   →  SELECT magnitude(price), LAPLACE(eps=0.1) COUNT(*) FROM orders GROUP BY magnitude(price)
//! ```

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::{ColumnName, MechanismName, QueryStatement};
use super::parameters::mechanism_parameters;
use super::parser::HushDialect;
use crate::catalog::RESERVED;
use crate::dialect::clauses::{error, expect_word, take_word};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{RECURSION_LIMIT, name, query};
use crate::dialect::tokens::tokens;

/// The name of the function that the analysis replaces by buckets.
pub(crate) fn magnitude_name() -> String {
    format!("{RESERVED}_magnitude")
}

/// Whether `ANALYZE PRIVACY` comes next.
pub(super) fn asks_for_domain(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| matches!(&parser.peek_nth_token(n).token, Token::Word(w) if w.value.eq_ignore_ascii_case(word));
    is(0, "ANALYZE") && is(1, "PRIVACY")
}

/// `ANALYZE PRIVACY DOMAIN table(column) WITH (parameters)`.
pub(super) fn domain_query(parser: &mut Parser) -> Result<QueryStatement, DialectError> {
    let (column, parameters) = question(parser)?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let bucket = format!("{}({})", magnitude_name(), quoted(&column.column));
    let text = format!(
        "SELECT {bucket} AS {RESERVED}_bucket, LAPLACE({parameters}) COUNT(*) AS {RESERVED}_n FROM {} GROUP BY {bucket}",
        quoted(&column.table),
    );
    let mut tokens = tokens(&text)?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let dialect = HushDialect::for_tokens(tokens.len());
    let mut histogram = Parser::new(&dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let histogram = query(&mut histogram, &dialect)?;
    Ok(QueryStatement {
        range_of: Some(column),
        headings: Vec::new(),
        names: Vec::new(),
        ..histogram
    })
}

fn question(parser: &mut Parser) -> Result<(ColumnName, super::Parameters), ParserError> {
    for word in ["ANALYZE", "PRIVACY", "DOMAIN"] {
        expect_word(parser, word)?;
    }
    let table = name(parser)?;
    parser.expect_token(&Token::LParen)?;
    let column = name(parser)?;
    parser.expect_token(&Token::RParen)?;
    if !take_word(parser, "WITH") {
        let found = parser.peek_token();
        return parser.expected("WITH (eps=0.1), the cost of the histogram", found);
    }
    let parameters = mechanism_parameters(parser, MechanismName::Laplace)?;
    if parameters.rows_auto {
        return error(
            parser,
            "rows=auto is not for ranges; write a bound, such as rows=2, groups=2",
        );
    }
    if parameters.within.is_some() {
        return error(parser, "a range has no ±, so within has no effect; write eps=0.1");
    }
    Ok((ColumnName { table, column }, parameters))
}
