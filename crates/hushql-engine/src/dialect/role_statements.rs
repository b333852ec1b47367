//! Roles: `CREATE ROLE`, `ALTER ROLE` and `DROP ROLE`. USER may be written instead of ROLE.
//!
//! In: a parser after the verb and ROLE. Out: the declaration, with the password as written. No
//! message of this file repeats a word of the statement, because it could be the password.
//!
//! ```text
//! CREATE ROLE lab LOGIN PASSWORD 'a long one' VALID UNTIL '2027-01-01'   →   lab, may log in, the password, the time
//! ```

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::declaration::{Declaration, RoleClause};
use super::password::Password;
use super::slice_clauses::analyst;
use crate::dialect::clauses::{error, take_word, word_at};

/// The declaration that follows a verb and ROLE.
pub(super) fn role(parser: &mut Parser, verb: &str) -> Result<Declaration, ParserError> {
    match verb {
        "create" => {
            let is = |n: usize, word: &str| {
                word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
            };
            let if_not_exists = is(0, "IF") && is(1, "NOT") && is(2, "EXISTS");
            if if_not_exists {
                (0..3).for_each(|_| drop(parser.next_token()));
            }
            let name = analyst(parser)?;
            Ok(Declaration::CreateRole { name, options: options(parser)?, if_not_exists })
        }
        "alter" => {
            let name = analyst(parser)?;
            let options = options(parser)?;
            match options == RoleClause::default() {
                false => Ok(Declaration::AlterRole { name, options }),
                true => error(parser, TAKES),
            }
        }
        _ => {
            let if_exists = words(parser, "IF", "EXISTS");
            Ok(Declaration::DropRole { name: analyst(parser)?, if_exists })
        }
    }
}

/// Consumes these two words if they come next. Returns whether they did.
fn words(parser: &mut Parser, first: &str, second: &str) -> bool {
    let is = |n: usize, word: &str| {
        word_at(parser, n).is_some_and(|found| found.value.eq_ignore_ascii_case(word))
    };
    is(0, first) && is(1, second) && take_word(parser, first) && take_word(parser, second)
}

const TAKES: &str = "a role takes LOGIN, NOLOGIN, DEFAULTS, NODEFAULTS, TEMPLATES ONLY, NOT TEMPLATES ONLY, PASSWORD 'text' and VALID UNTIL '2027-01-01'";

fn options(parser: &mut Parser) -> Result<RoleClause, ParserError> {
    let mut options = RoleClause::default();
    let _ = take_word(parser, "WITH");
    loop {
        let _ = take_word(parser, "ENCRYPTED");
        let twice = if take_word(parser, "LOGIN") {
            options.login.replace(true).is_some()
        } else if take_word(parser, "NOLOGIN") {
            options.login.replace(false).is_some()
        } else if take_word(parser, "DEFAULTS") {
            options.defaults.replace(true).is_some()
        } else if take_word(parser, "NODEFAULTS") {
            options.defaults.replace(false).is_some()
        } else if words(parser, "TEMPLATES", "ONLY") {
            options.templates_only.replace(true).is_some()
        } else if words(parser, "NOT", "TEMPLATES") {
            match take_word(parser, "ONLY") {
                true => options.templates_only.replace(false).is_some(),
                false => return error(parser, TAKES),
            }
        } else if take_word(parser, "PASSWORD") {
            options.password.replace(Password::new(text(parser)?)).is_some()
        } else if words(parser, "VALID", "UNTIL") {
            options.valid_until.replace(text(parser)?).is_some()
        } else {
            return match parser.peek_token().token {
                Token::EOF | Token::SemiColon => Ok(options),
                _ => error(parser, TAKES),
            };
        };
        if twice {
            return error(parser, "each option of a role is written once");
        }
    }
}

/// A text in single quotes. The error does not repeat the token that was found.
fn text(parser: &mut Parser) -> Result<String, ParserError> {
    match parser.peek_token().token {
        Token::SingleQuotedString(text) => {
            parser.next_token();
            Ok(text)
        }
        _ => error(parser, "PASSWORD and VALID UNTIL take a text in single quotes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Statement, parse};

    fn declared(text: &str) -> Result<Declaration, String> {
        match parse(text) {
            Ok(Statement::Declare(declaration)) => Ok(*declaration),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn roles_are_read() {
        let read = declared(
            "create role Lab with login encrypted password 'it''s' valid until '2027-01-01';",
        );
        let Ok(Declaration::CreateRole { name, options, if_not_exists: false }) = read else {
            panic!("{read:?}")
        };
        assert_eq!((name.as_str(), options.login), ("Lab", Some(true)));
        assert_eq!(options.password.as_ref().map(Password::text), Some("it's"));
        assert_eq!(options.valid_until.as_deref(), Some("2027-01-01"));
        assert!(!format!("{options:?}").contains("it's"));
        let read = declared("CREATE USER IF NOT EXISTS lab PASSWORD 'x'");
        assert!(
            matches!(&read, Ok(Declaration::CreateRole { if_not_exists: true, .. })),
            "{read:?}"
        );
        let read = declared("CREATE ROLE lab LOGIN");
        assert!(
            matches!(&read, Ok(Declaration::CreateRole { options, .. }) if options.password.is_none()),
            "{read:?}"
        );
        let read = declared("ALTER USER lab NOLOGIN");
        assert!(
            matches!(&read, Ok(Declaration::AlterRole { options, .. }) if options.login == Some(false))
        );
        let read = declared("ALTER ROLE lab NODEFAULTS LOGIN");
        assert!(
            matches!(&read, Ok(Declaration::AlterRole { options, .. }) if options.defaults == Some(false))
        );
        assert!(declared("ALTER ROLE lab DEFAULTS NODEFAULTS").is_err());
        let read = declared("DROP ROLE IF EXISTS \"co-lab\"");
        assert!(
            matches!(&read, Ok(Declaration::DropRole { name, if_exists: true }) if name == "co-lab")
        );
    }

    #[test]
    fn no_message_repeats_a_password() {
        for text in [
            "CREATE ROLE lab PASSWORD hunter2",
            "CREATE ROLE lab PASSWORD \"hunter2\"",
            "CREATE ROLE lab hunter2",
            "CREATE ROLE lab PASSWORD 'x' hunter2",
            "CREATE ROLE lab PASSWORD 'x' PASSWORD 'hunter2'",
            "CREATE ROLE lab LOGIN LOGIN PASSWORD 'hunter2'",
            "CREATE ROLE lab PASSWORD 'x' 'hunter2'",
            "ALTER ROLE lab PASSWORD hunter2",
            "CREATE ROLE lab PASSWORD 'hunter2' VALID UNTIL tomorrow",
            "ALTER ROLE lab",
            "DROP ROLE",
        ] {
            let said = declared(text).unwrap_err();
            assert!(!said.contains("hunter2"), "{text}: {said}");
        }
    }
}
