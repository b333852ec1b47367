//! Views: stored queries.
//!
//! In: a parser after `CREATE VIEW`, or the stored text. Out: the text of the query, or its tree.
//! The query is plain SQL. A view contains no release, so a query that uses it twice neither draws
//! nor pays twice.
//!
//! ```text
//! CREATE VIEW grown (id, years) AS SELECT id, age FROM adult WHERE age >= 18
//!   →  name grown, columns (id, years), query "SELECT id, age FROM adult WHERE age >= 18"
//! ```

use sqlparser::ast as sql;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::declaration::{Declaration, Taken};
use super::parser::HushDialect;
use super::script::TokenOffsets;
use super::size::operators;
use crate::dialect::clauses::Clauses;
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{RECURSION_LIMIT, ended, lowered, name, names};
use crate::dialect::tokens::{significant, tokens};
use crate::refusal::{Reason, Refusal};

/// `name [(columns)] AS query` after VIEW.
pub(super) fn create_view(
    parser: &mut Parser,
    dialect: &HushDialect,
    mut places: TokenOffsets<'_>,
    taken: Taken,
) -> Result<Declaration, DialectError> {
    let view = name(parser)?;
    let columns = match parser.peek_token().token {
        Token::LParen => names(parser)?,
        _ => Vec::new(),
    };
    parser.expect_keyword(Keyword::AS)?;
    let start = places.offset(parser.peek_token().span.start);
    plain(parser, dialect)?;
    let behind = parser.peek_token();
    let end = match behind.token {
        Token::EOF => places.text.len(),
        _ => places.offset(behind.span.start),
    };
    let query = places.text.get(start..end).unwrap_or_default().trim_end().to_owned();
    Ok(Declaration::CreateView { name: view, columns, query, taken })
}

/// Reads the text of a view's query, and counts its operators.
///
/// # Errors
/// The errors of [`super::parse`], and a refusal of a text that contains a release.
pub(crate) fn view_query(text: &str) -> Result<(Box<sql::Query>, usize), DialectError> {
    let tokens = significant(tokens(text)?)?;
    let operators = operators(&tokens);
    let dialect = HushDialect::default();
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens);
    let tree = plain(&mut parser, &dialect)?;
    ended(&parser)?;
    Ok((tree, operators))
}

/// A query without any of the dialect's own clauses.
fn plain(parser: &mut Parser, dialect: &HushDialect) -> Result<Box<sql::Query>, DialectError> {
    let first = parser.peek_token();
    let begins = match &first.token {
        Token::LParen => true,
        Token::Word(word) => {
            matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES)
        }
        _ => false,
    };
    if !begins {
        return Ok(parser.expected("a query, such as SELECT", first)?);
    }
    let (tree, clauses) = lowered(parser, dialect)?;
    match release_of(&clauses) {
        None => Ok(tree),
        Some(found) => Err(Refusal::new(
            Reason::Place,
            found,
            "a view cannot contain a release, which would be drawn and charged at each use of the view",
            "a view without the release, and the release in the queries that read the view",
        )
        .into()),
    }
}

/// The first of the dialect's own clauses in a query, if there is one.
fn release_of(clauses: &Clauses) -> Option<String> {
    if let Some(release) = clauses.releases.first() {
        return Some(release.text.clone());
    }
    if !clauses.options.is_empty() {
        return Some("WITH DIFFERENTIAL_PRIVACY".to_owned());
    }
    (!clauses.keys.is_empty()).then(|| "KEYS".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    fn view(text: &str) -> (String, Vec<String>, String, bool) {
        let Ok(Statement::Declare(declaration)) = parse(text) else {
            panic!("{text}: {:?}", parse(text))
        };
        let Declaration::CreateView { name, columns, query, taken } = *declaration else {
            panic!("{text}")
        };
        (name, columns, query, taken == Taken::Replace)
    }

    #[test]
    fn the_query_is_kept_as_it_was_written() {
        for query in [
            "SELECT 1",
            "WITH a AS (SELECT 'it''s' AS \"x\"\"y\") SELECT * FROM a",
            "(SELECT 1) UNION ALL (VALUES (2))",
            "SELECT x -- why\n  FROM t /* ; */ WHERE x <> 'ü;'",
            "SELECT top FROM t ORDER BY top DESC LIMIT 3",
        ] {
            for (head, tail) in [
                ("CREATE VIEW v AS ", ""),
                ("\n -- é\nCREATE OR REPLACE VIEW \"V w\"\nAS\n\t", " ;"),
            ] {
                let (name, columns, kept, replace) = view(&format!("{head}{query}{tail}"));
                assert_eq!(kept, query);
                assert_eq!(
                    (name.as_str(), replace),
                    if tail.is_empty() { ("v", false) } else { ("V w", true) }
                );
                assert!(columns.is_empty());
            }
            assert!(view_query(query).is_ok(), "{query}");
        }
        let (name, columns, ..) = view("create view V(A, \"B\") as select 1, 2");
        assert_eq!((name.as_str(), columns), ("v", vec!["a".to_owned(), "B".to_owned()]));
        assert_eq!(view("CREATE VIEW if AS SELECT 1").0, "if");
    }

    #[test]
    fn a_view_contains_no_release() {
        for query in [
            "SELECT LAPLACE(eps=1) COUNT(*) FROM t",
            "SELECT x FROM (SELECT ARGMAX EXPONENTIAL(eps=1) x FROM t GROUP BY x)",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) x FROM t GROUP BY x",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM t",
            "SELECT COUNT(*) FROM t GROUP BY x KEYS ('a')",
            "SELECT x FROM t WHERE x > (SELECT LAPLACE(eps=1) AVG(x) FROM t)",
            "SELECT x FROM t ORDER BY LAPLACE(eps=1) COUNT(*)",
        ] {
            for found in [
                parse(&format!("CREATE VIEW v AS {query}")).map(|_| ()),
                view_query(query).map(|_| ()),
            ] {
                let Err(DialectError::Refused(refusal)) = found else {
                    panic!("{query}: {found:?}")
                };
                assert_eq!(refusal.reason(), Reason::Place, "{query}");
            }
        }
    }

    #[test]
    fn other_texts_are_not_views() {
        for text in [
            "CREATE VIEW v",
            "CREATE VIEW v SELECT 1",
            "CREATE VIEW v AS",
            "CREATE VIEW v AS FROM t",
            "CREATE VIEW v AS SHOW TABLES",
            "CREATE VIEW v AS INSERT INTO t VALUES (1)",
            "CREATE VIEW v AS EXPLAIN SELECT 1",
            "CREATE VIEW v AS CREATE VIEW w AS SELECT 1",
            "CREATE VIEW v AS SELECT 1; SELECT 2",
            "CREATE VIEW v AS SELECT 1 AS x )",
            "CREATE VIEW v() AS SELECT 1",
            "CREATE VIEW a.v AS SELECT 1",
            "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
            "CREATE OR VIEW v AS SELECT 1",
            "CREATE VIEW __hushql_v AS SELECT 1",
            "CREATE VIEW v(\"__hushql_unit\") AS SELECT 1",
            "CREATE VIEW v AS SELECT 1 AS __hushql_unit",
            "DROP VIEW",
            "DROP VIEW v, w",
            "DROP VIEW IF EXISTS",
        ] {
            assert!(
                matches!(parse(text), Err(DialectError::Syntax { .. })),
                "{text}: {:?}",
                parse(text)
            );
        }
        for text in ["SELECT 1; SELECT 2", "SHOW TABLES", "", "FROM t"] {
            assert!(view_query(text).is_err(), "{text}");
        }
        for text in [
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "CREATE TEMPORARY VIEW v AS SELECT 1",
            "CREATE VIEW v AS WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r",
            "CREATE VIEW v AS SELECT x FROM t TABLESAMPLE (10 PERCENT)",
            "CREATE TABLE v AS SELECT 1",
        ] {
            assert!(
                matches!(parse(text), Err(DialectError::Refused(_))),
                "{text}: {:?}",
                parse(text)
            );
        }
    }
}
