//! Release tables: `CREATE RELEASE TABLE` and `DROP RELEASE TABLE`.
//!
//! In: a parser at the verb. Out: the statement with unresolved names.
//!
//! ```text
//! CREATE RELEASE TABLE IF NOT EXISTS r AS SELECT LAPLACE(eps=1) COUNT(*) n FROM t   →   r, kept if it exists, the query
//! DROP RELEASE TABLE r                                                              →   r
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use super::ast::{QueryStatement, Statement};
use super::declaration::ReleaseTableChange;
use super::declare::word_then;
use super::parser::HushDialect;
use crate::dialect::clauses::{expect_word, word_at};
use crate::dialect::error::DialectError;
use crate::dialect::query_syntax::{name, query};

/// True if `CREATE RELEASE TABLE` or `DROP RELEASE TABLE` comes next.
pub(super) fn names_release_table(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    (is(0, "CREATE") || is(0, "DROP")) && is(1, "RELEASE") && is(2, "TABLE")
}

/// A statement that creates or drops a release table.
pub(super) fn release_table(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<Statement, DialectError> {
    if word_at(parser, 0).is_some_and(|verb| verb.value.eq_ignore_ascii_case("CREATE")) {
        let (name, if_not_exists) = head(parser)?;
        let query = Box::new(query(parser, dialect)?);
        return Ok(Statement::CreateReleaseTable { name, if_not_exists, query });
    }
    for word in ["DROP", "RELEASE", "TABLE"] {
        expect_word(parser, word)?;
    }
    let if_exists = word_then(parser, "IF", "EXISTS");
    let name = name(parser)?;
    Ok(Statement::ReleaseTable(ReleaseTableChange::Drop { name, if_exists }))
}

/// The query of a statement that creates a release table.
pub(super) fn query_of_release_table(
    parser: &mut Parser,
    dialect: &HushDialect,
) -> Result<QueryStatement, DialectError> {
    head(parser)?;
    query(parser, dialect)
}

/// `CREATE RELEASE TABLE [IF NOT EXISTS] name AS`.
fn head(parser: &mut Parser) -> Result<(String, bool), ParserError> {
    for word in ["CREATE", "RELEASE", "TABLE"] {
        expect_word(parser, word)?;
    }
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    // All three words are needed, because a table may be named `if`.
    let if_not_exists = is(0, "IF") && is(1, "NOT") && is(2, "EXISTS");
    if if_not_exists {
        for word in ["IF", "NOT", "EXISTS"] {
            expect_word(parser, word)?;
        }
    }
    let name = name(parser)?;
    parser.expect_keyword(Keyword::AS)?;
    Ok((name, if_not_exists))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    #[test]
    fn release_tables_are_read() {
        for (text, keep) in [
            ("create release table R as SELECT LAPLACE(eps=1) COUNT(*) n FROM t;", false),
            (
                "CREATE RELEASE TABLE IF NOT EXISTS r AS SELECT LAPLACE(eps=1) COUNT(*) n FROM t",
                true,
            ),
        ] {
            let parsed = parse(text).unwrap();
            let Statement::CreateReleaseTable { name, if_not_exists, query } = parsed else {
                panic!("{parsed:?}")
            };
            assert_eq!((name.as_str(), if_not_exists, query.releases.len()), ("r", keep, 1));
        }
        let named = parse("CREATE RELEASE TABLE if AS SELECT 1 AS x").unwrap();
        assert!(matches!(named, Statement::CreateReleaseTable { name, .. } if name == "if"));
        let change = |text: &str| match parse(text) {
            Ok(Statement::ReleaseTable(change)) => change,
            other => panic!("{text}: {other:?}"),
        };
        let r = || "r".to_owned();
        assert_eq!(
            change("DROP RELEASE TABLE IF EXISTS r"),
            ReleaseTableChange::Drop { name: r(), if_exists: true }
        );
        assert_eq!(
            change("DROP RELEASE TABLE r"),
            ReleaseTableChange::Drop { name: r(), if_exists: false }
        );
        assert_eq!(
            change("grant select on r to \"Co-Lab\""),
            ReleaseTableChange::Grant { name: r(), analyst: "Co-Lab".to_owned(), may: true }
        );
        assert_eq!(
            change("REVOKE SELECT ON r FROM lab2;"),
            ReleaseTableChange::Grant { name: r(), analyst: "lab2".to_owned(), may: false }
        );
        for text in [
            "CREATE RELEASE TABLE r",
            "CREATE RELEASE TABLE r AS",
            "CREATE RELEASE TABLE r AS DROP TABLE t",
            "CREATE RELEASE TABLE AS SELECT 1",
            "DROP RELEASE TABLE",
            "GRANT ALL ON r TO lab",
            "GRANT SELECT ON r FROM lab",
            "REVOKE SELECT ON r TO lab",
            "GRANT SELECT ON r TO",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
