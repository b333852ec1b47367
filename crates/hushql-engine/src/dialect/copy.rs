//! `COPY (query) TO 'file'`: the answer of a query in a file.
//!
//! In: a parser at COPY. Out: the query, the path as written, the format that its ending names, and
//! whether the file has columns for the ±.
//!
//! ```text
//! COPY (SELECT city, COUNT(*) FROM orders GROUP BY city) TO 'cities.csv'   →   the query, cities.csv, CSV
//! COPY people TO 'people.parquet'                                          →   SELECT * FROM people, people.parquet, Parquet
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::ast::Statement;
use super::copy_format::{CopyFormat, CopyTarget};
use super::declare::options;
use super::parser::HushDialect;
use crate::catalog::quoted;
use crate::dialect::clauses::{error, expect_word};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{name, query};

/// Whether the text begins with `COPY (` or `COPY name TO`.
pub(super) fn copies(parser: &Parser) -> bool {
    let is_name = matches!(parser.peek_nth_token(1).token, Token::Word(_));
    let is_to =
        matches!(parser.peek_nth_token(2).token, Token::Word(word) if word.keyword == Keyword::TO);
    parser.peek_nth_token(1).token == Token::LParen || (is_name && is_to)
}

/// `COPY (query) TO 'path' [OPTIONS ('errors' 'true')]`, or `COPY name TO …` for all rows of a
/// table.
pub(super) fn copy(parser: &mut Parser, dialect: &HushDialect) -> Result<Statement, DialectError> {
    expect_word(parser, "COPY")?;
    let query = if parser.consume_token(&Token::LParen) {
        let query = query(parser, dialect)?;
        parser.expect_token(&Token::RParen)?;
        query
    } else {
        let all = format!("SELECT * FROM {}", quoted(&name(parser)?));
        query(&mut Parser::new(dialect).try_with_sql(&all)?, dialect)?
    };
    expect_word(parser, "TO")?;
    let path = parser.parse_literal_string()?;
    let Some(format) = CopyFormat::for_path(&path) else {
        return Ok(error(
            parser,
            "the name of the file ends with .csv, .json, .parquet or .arrow: 'answer.csv'",
        )?);
    };
    let errors = with_errors(parser)?;
    Ok(Statement::Copy { query: Box::new(query), to: CopyTarget { path, format, errors } })
}

/// Whether the OPTIONS that follow ask for columns of errors.
fn with_errors(parser: &mut Parser) -> Result<bool, DialectError> {
    let mut errors = false;
    for (key, value) in options(parser)? {
        errors = match (key.as_str(), value.to_lowercase().as_str()) {
            ("errors", "true") => true,
            ("errors", "false") => false,
            _ => {
                return Ok(error(
                    parser,
                    "COPY has one option: OPTIONS ('errors' 'true'), for a column x_error after each column x with a ±",
                )?);
            }
        };
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{DialectError, Statement, parse};

    #[test]
    fn the_ending_names_the_format() {
        for (path, format) in [
            ("a.csv", Some(CopyFormat::Csv)),
            ("/x/y.z/a.JSON", Some(CopyFormat::Json)),
            ("a.b.parquet", Some(CopyFormat::Parquet)),
            ("a.arrow", Some(CopyFormat::Arrow)),
            ("a", None),
            (".csv", None),
            ("x/.csv", None),
            ("a.csv.gz", None),
            ("a.csv/", None),
            ("", None),
        ] {
            assert_eq!(CopyFormat::for_path(path), format, "{path}");
            let parsed = parse(&format!("COPY (SELECT 1 AS x) TO '{path}';"));
            match (format, parsed) {
                (Some(format), Ok(Statement::Copy { query, to })) => {
                    assert_eq!((to.path.as_str(), to.format, to.errors), (path, format, false));
                    assert!(query.releases.is_empty());
                }
                (None, Err(DialectError::Syntax { .. })) => {}
                (_, parsed) => panic!("{path}: {parsed:?}"),
            }
        }
        let released = parse("copy (SELECT LAPLACE(eps=1) COUNT(*) FROM t) to 'a''b.csv'");
        let Ok(Statement::Copy { query, to }) = released else { panic!("{released:?}") };
        assert_eq!((query.releases.len(), to.path.as_str()), (1, "a'b.csv"));
        let errors = |options: &str| match parse(&format!("COPY t TO 'a.csv' {options}")) {
            Ok(Statement::Copy { to, .. }) => to.errors,
            parsed => panic!("{options}: {parsed:?}"),
        };
        assert!(errors("OPTIONS ('errors' 'true')") && errors("options (errors TRUE)"));
        assert!(!errors("OPTIONS ('errors' 'false')"));
        for text in [
            "COPY (SELECT 1)",
            "COPY (SELECT 1) TO a.csv",
            "COPY () TO 'a.csv'",
            "COPY t TO 'a.csv' OPTIONS ('errors' 'maybe')",
            "COPY t TO 'a.csv' OPTIONS ('header' 'true')",
            "COPY t TO 'a.csv' OPTIONS ()",
        ] {
            assert!(matches!(parse(text), Err(DialectError::Syntax { .. })), "{text}");
        }
        assert!(matches!(parse("COPY t FROM 'a.csv'"), Err(DialectError::Refused(_))));
        let table = parse("COPY \"T\" TO 'a.csv'");
        let Ok(Statement::Copy { query, .. }) = table else { panic!("{table:?}") };
        assert_eq!(query.tree.to_string(), "SELECT * FROM \"T\"");
    }
}
