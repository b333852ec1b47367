//! Errors as clients see them: SQLSTATE, sentence, hint and position.
//!
//! In: an error of the engine. Out: fields of the protocol. All failures after a charge have the
//! same code and the same sentence.
//!
//! | code | stands for |
//! |---|---|
//! | `42601` | a text that does not parse |
//! | `42P01` `42703` `42883` `42803` | an unknown table, column or function; an ungrouped column next to an aggregate |
//! | `HQ001` … | a refusal, by its own code |
//! | `42501` | a statement that only owners may run |
//! | `53400` | a budget that does not suffice |
//! | `58000` | any failure after the charge |

use hushql::{BindError, Error, Reason, ScriptStatement};

use super::reply::Said;

/// An error with a code of the server's own.
pub(super) fn said(code: &str, message: impl Into<String>) -> Said {
    Said { code: code.to_owned(), message: message.into(), ..Said::default() }
}

/// The same, with a hint.
pub(super) fn hinted(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Said {
    Said { hint: Some(hint.into()), ..said(code, message) }
}

/// A failure after a charge.
pub(super) fn after_charge() -> Said {
    told(&Error::Execution, "", None, true)
}

/// An error in a text, or in one of its statements, as the client sees it.
pub(super) fn told(
    error: &Error,
    text: &str,
    statement: Option<&ScriptStatement>,
    is_owner: bool,
) -> Said {
    let place = error.position().map(|place| match statement {
        Some(statement) => statement.in_script(place),
        None => place,
    });
    let message = match error.code() {
        Some(code) => format!("{code}: {}", error.message()),
        None => error.message(),
    };
    Said {
        code: code(error, is_owner),
        message,
        hint: error.hint(),
        position: place.map(|place| character(text, place)),
    }
}

fn code(error: &Error, is_owner: bool) -> String {
    let code = match error {
        Error::Syntax { .. } => "42601",
        Error::Bind(error) => bind(error),
        Error::Refused(refusal) => match refusal.reason() {
            Reason::Statement if !is_owner && is_owners(refusal.hint(), refusal.message()) => {
                "42501"
            }
            _ => refusal.code(),
        },
        Error::Budget(_) => "53400",
        Error::Catalog { .. } => "42P17",
        Error::Ledger(error) if error.may_be_tried_again() => "40001",
        Error::Ledger(_) => "58030",
        Error::Execution => "58000",
        Error::LogIn => "28P01",
        _ => "XX000",
    };
    code.to_owned()
}

/// Whether a refusal says that only owners may run a statement.
fn is_owners(hint: &str, message: &str) -> bool {
    message.contains("only owners")
        || message.contains("only the owner")
        || hint.contains("--owner")
}

fn bind(error: &BindError) -> &'static str {
    match error {
        BindError::At { source, .. } => bind(source),
        BindError::UnknownTable { .. } => "42P01",
        BindError::UnknownColumn { .. } | BindError::Unquoted { .. } | BindError::Quoted { .. } => {
            "42703"
        }
        BindError::UnknownFunction { .. } => "42883",
        BindError::Ungrouped { .. } => "42803",
        _ => "42000",
    }
}

/// The position of the character at a line and a column. All of them count from 1.
fn character(text: &str, (line, column): (u64, u64)) -> usize {
    let (line, column) = (usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    before.map(|line| line.chars().count()).sum::<usize>() + column
}

#[cfg(test)]
mod tests {
    use super::*;
    use hushql::{Engine, split_statements};

    #[test]
    fn each_error_has_its_code() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        for (sql, code, position) in [
            ("SELEC 1", "42601", Some(1)),
            ("SELECT 1 FROM nowhere", "42P01", None),
            ("SELECT\n oops FROM census", "42703", Some(9)),
            ("SELECT NOSUCH(1)", "42883", None),
            ("SELECT age FROM adult", "HQ001", None),
            ("SELECT LAPLACE(eps=1000) COUNT(*) FROM adult", "53400", None),
        ] {
            let error = session.prepare(sql).unwrap_err();
            let said = told(&error, sql, None, false);
            assert_eq!(said.code, code, "{sql}: {said:?}");
            if position.is_some() {
                assert_eq!(said.position, position, "{sql}: {said:?}");
            }
        }
        let script = "SELECT 1;\n  SELECT oops FROM census";
        let statements = split_statements(script).unwrap();
        let error = session.prepare(statements[1].text()).unwrap_err();
        assert_eq!(told(&error, script, Some(&statements[1]), false).position, Some(20));
        assert_eq!(after_charge().code, "58000");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn statements_of_owners_are_not_permitted() {
        let session = Engine::demo().unwrap().analyst("lab").unwrap();
        for sql in [
            "ALTER TABLE adult SET PUBLIC",
            "SHOW ROLES",
            "SHOW CREATE TABLE adult",
            "CREATE ROLE x PASSWORD 'secret word'",
        ] {
            let error = session.execute(sql).await.unwrap_err();
            assert_eq!(told(&error, sql, None, false).code, "42501", "{sql}");
        }
        let error = session.execute("INSERT INTO adult VALUES (1)").await.unwrap_err();
        assert_eq!(told(&error, "", None, false).code, "HQ003");
    }
}
