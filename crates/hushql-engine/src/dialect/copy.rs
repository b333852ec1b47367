//! `COPY (query) TO 'file'`: the answer of a query in a file.
//!
//! In: a parser at COPY. Out: the query, the path as written, and the format that its ending names.
//!
//! ```text
//! COPY (SELECT city, COUNT(*) FROM orders GROUP BY city) TO 'cities.csv'   →   the query, cities.csv, CSV
//! COPY people TO 'people.parquet'                                          →   SELECT * FROM people, people.parquet, Parquet
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::ast::Statement;
use super::copy_format::CopyFormat;
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

/// `COPY (query) TO 'path'`, or `COPY name TO 'path'` for all rows of a table.
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
    match CopyFormat::for_path(&path) {
        Some(format) => Ok(Statement::Copy { query: Box::new(query), path, format }),
        None => Ok(error(
            parser,
            "the name of the file ends with .csv, .json or .parquet: 'answer.csv'",
        )?),
    }
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
                (Some(format), Ok(Statement::Copy { query, path: to, format: read })) => {
                    assert_eq!((to.as_str(), read), (path, format));
                    assert!(query.releases.is_empty());
                }
                (None, Err(DialectError::Syntax { .. })) => {}
                (_, parsed) => panic!("{path}: {parsed:?}"),
            }
        }
        let released = parse("copy (SELECT LAPLACE(eps=1) COUNT(*) FROM t) to 'a''b.csv'");
        let Ok(Statement::Copy { query, path, .. }) = released else { panic!("{released:?}") };
        assert_eq!((query.releases.len(), path.as_str()), (1, "a'b.csv"));
        for text in ["COPY (SELECT 1)", "COPY (SELECT 1) TO a.csv", "COPY () TO 'a.csv'"] {
            assert!(matches!(parse(text), Err(DialectError::Syntax { .. })), "{text}");
        }
        assert!(matches!(parse("COPY t FROM 'a.csv'"), Err(DialectError::Refused(_))));
        let table = parse("COPY \"T\" TO 'a.csv'");
        let Ok(Statement::Copy { query, .. }) = table else { panic!("{table:?}") };
        assert_eq!(query.tree.to_string(), "SELECT * FROM \"T\"");
    }
}
