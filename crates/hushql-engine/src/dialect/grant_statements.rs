//! Grants: `GRANT`, `REVOKE` and `SET GRANTS`.
//!
//! In: a parser at the verb. Out: the statement with unresolved names. SELECT on one name for one
//! role may mean a release table, which analysts grant, too; the session decides that.
//!
//! ```text
//! GRANT SELECT ON visits, people TO lab     →   tables visits and people, lab, may
//! REVOKE clinic FROM eve                    →   role clinic, eve, may not
//! GRANT SELECT ON r TO lab                  →   r, lab, may: a table or a release table
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::ast::Statement;
use super::declaration::{Declaration, GrantClause, GrantObjects, ReleaseTableChange};
use super::declare::word_then;
use super::slice_clauses::analyst;
use crate::dialect::clauses::{error, expect_word, take_word, word_at};
use crate::dialect::query_syntax::name;

const TAKES: &str = "SELECT on tables, USAGE on budgets, EXECUTE on templates, and roles are granted: GRANT SELECT ON visits TO lab, GRANT SELECT ON ALL TABLES TO lab, GRANT USAGE ON BUDGET study TO lab, GRANT EXECUTE ON TEMPLATE monthly TO lab, GRANT clinic TO eve";

/// `GRANT … TO …` and `REVOKE … FROM …`.
pub(super) fn grant(parser: &mut Parser) -> Result<Statement, ParserError> {
    let may = word_at(parser, 0).is_some_and(|verb| verb.value.eq_ignore_ascii_case("GRANT"));
    expect_word(parser, if may { "GRANT" } else { "REVOKE" })?;
    let is_select = word_at(parser, 0).is_some_and(|word| word.keyword == Keyword::SELECT);
    // A role may have the name of a privilege, but no role is named `x ON`.
    let names_object =
        matches!(&parser.peek_nth_token(1).token, Token::Word(word) if word.keyword == Keyword::ON);
    let objects = match names_object {
        true if is_select => {
            expect_word(parser, "SELECT")?;
            parser.expect_keyword(Keyword::ON)?;
            tables(parser)?
        }
        true if take_word(parser, "USAGE") => {
            parser.expect_keyword(Keyword::ON)?;
            budgets(parser)?
        }
        true if take_word(parser, "EXECUTE") => {
            parser.expect_keyword(Keyword::ON)?;
            templates(parser)?
        }
        true => return error(parser, TAKES),
        false => GrantObjects::Roles(list(parser, analyst)?),
    };
    if !word_at(parser, 0)
        .is_some_and(|word| word.value.eq_ignore_ascii_case(if may { "TO" } else { "FROM" }))
    {
        return error(parser, TAKES);
    }
    parser.next_token();
    let mut roles = list(parser, analyst)?;
    match (objects, roles.as_slice()) {
        (GrantObjects::Tables(mut tables), [_]) if tables.len() == 1 => {
            let (Some(name), Some(analyst)) = (tables.pop(), roles.pop()) else {
                return error(parser, TAKES);
            };
            Ok(Statement::ReleaseTable(ReleaseTableChange::Grant { name, analyst, may }))
        }
        (objects, _) => {
            let clause = GrantClause { objects, roles, may };
            Ok(Statement::Declare(Box::new(Declaration::Grant(clause))))
        }
    }
}

/// `ALL TABLES [IN SCHEMA public]` or `[TABLE] name {, name}`.
fn tables(parser: &mut Parser) -> Result<GrantObjects, ParserError> {
    if word_then(parser, "ALL", "TABLES") {
        if word_then(parser, "IN", "SCHEMA") {
            expect_word(parser, "public")?;
        }
        return Ok(GrantObjects::AllTables);
    }
    // A table may be named `table`.
    let is_name = matches!(parser.peek_nth_token(1).token, Token::Word(ref word) if !["TO", "FROM"].iter().any(|end| word.value.eq_ignore_ascii_case(end)));
    let _ = is_name && take_word(parser, "TABLE");
    Ok(GrantObjects::Tables(list(parser, name)?))
}

/// `ALL BUDGETS` or `[PRIVACY] BUDGET name {, name}`.
fn budgets(parser: &mut Parser) -> Result<GrantObjects, ParserError> {
    if word_then(parser, "ALL", "BUDGETS") {
        return Ok(GrantObjects::AllBudgets);
    }
    let _ = take_word(parser, "PRIVACY");
    match take_word(parser, "BUDGET") {
        true => Ok(GrantObjects::Budgets(list(parser, name)?)),
        false => error(parser, "USAGE is granted on budgets: GRANT USAGE ON BUDGET study TO lab"),
    }
}

/// `ALL TEMPLATES` or `TEMPLATE name {, name}`.
fn templates(parser: &mut Parser) -> Result<GrantObjects, ParserError> {
    if word_then(parser, "ALL", "TEMPLATES") {
        return Ok(GrantObjects::AllTemplates);
    }
    match take_word(parser, "TEMPLATE") {
        true => Ok(GrantObjects::Templates(list(parser, name)?)),
        false => error(
            parser,
            "EXECUTE is granted on templates: GRANT EXECUTE ON TEMPLATE monthly TO lab",
        ),
    }
}

fn list(
    parser: &mut Parser,
    of: impl Fn(&mut Parser) -> Result<String, ParserError>,
) -> Result<Vec<String>, ParserError> {
    let mut names = vec![of(parser)?];
    while parser.consume_token(&Token::Comma) {
        names.push(of(parser)?);
    }
    Ok(names)
}

/// True if `SET GRANTS` comes next.
pub(super) fn sets_grants(parser: &Parser) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    is(0, "SET") && is(1, "GRANTS") && (is(2, "REQUIRED") || is(2, "NOT"))
}

/// `SET GRANTS [NOT] REQUIRED`.
pub(super) fn required(parser: &mut Parser) -> Result<Declaration, ParserError> {
    expect_word(parser, "SET")?;
    expect_word(parser, "GRANTS")?;
    let are_required = !take_word(parser, "NOT");
    expect_word(parser, "REQUIRED")?;
    Ok(Declaration::SetGrants { are_required })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::parse;

    fn declared(text: &str) -> Declaration {
        match parse(text) {
            Ok(Statement::Declare(declaration)) => *declaration,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn grants_are_read() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let grant = |objects: GrantObjects, roles: &[&str], may: bool| {
            Declaration::Grant(GrantClause { objects, roles: names(roles), may })
        };
        for (text, expected) in [
            (
                "grant select on table Visits, \"My people\" to lab;",
                grant(GrantObjects::Tables(names(&["visits", "My people"])), &["lab"], true),
            ),
            (
                "REVOKE SELECT ON visits FROM lab, Eve",
                grant(GrantObjects::Tables(names(&["visits"])), &["lab", "Eve"], false),
            ),
            (
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO lab",
                grant(GrantObjects::AllTables, &["lab"], true),
            ),
            (
                "GRANT USAGE ON PRIVACY BUDGET a, b TO lab",
                grant(GrantObjects::Budgets(names(&["a", "b"])), &["lab"], true),
            ),
            (
                "REVOKE USAGE ON ALL BUDGETS FROM lab",
                grant(GrantObjects::AllBudgets, &["lab"], false),
            ),
            (
                "GRANT clinic, \"co-lab\" TO eve",
                grant(GrantObjects::Roles(names(&["clinic", "co-lab"])), &["eve"], true),
            ),
            (
                "REVOKE EXECUTE ON TEMPLATE monthly, daily FROM lab",
                grant(GrantObjects::Templates(names(&["monthly", "daily"])), &["lab"], false),
            ),
            ("GRANT usage TO eve", grant(GrantObjects::Roles(names(&["usage"])), &["eve"], true)),
            ("SET GRANTS REQUIRED", Declaration::SetGrants { are_required: true }),
            ("set grants not required;", Declaration::SetGrants { are_required: false }),
        ] {
            assert_eq!(declared(text), expected, "{text}");
        }
        for text in ["GRANT SELECT ON table TO lab", "GRANT SELECT ON TABLE r TO lab"] {
            let parsed = parse(text);
            assert!(matches!(parsed, Ok(Statement::ReleaseTable(_))), "{text}: {parsed:?}");
        }
        for text in [
            "GRANT ALL ON r TO lab",
            "GRANT INSERT ON r TO lab",
            "GRANT SELECT ON r, s FROM lab",
            "GRANT USAGE ON b TO lab",
            "GRANT clinic",
            "GRANT clinic TO",
            "REVOKE clinic TO eve",
            "SET GRANTS",
            "SET GRANTS NOT",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
