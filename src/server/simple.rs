//! The simple protocol: a text of one statement or several, each answered in text.
//!
//! In: a text. Out: the answer of each statement, as soon as it is ready, so that a paid answer is
//! sent before a later statement can fail.

use std::io::{self, Write};

use hushql::split_statements;

use super::client::{Desk, Failed};
use super::copy;
use super::cursor::Passed;
use super::encode::{self, EncodedRows};
use super::prepared_statement::run_any;
use super::reply::{Reply, Said};
use super::run::StatementOutcome;
use super::sqlstate::{after_charge, said, told};
use super::statement_kind::StatementText;

/// Runs the statements of a text, and tells the client that the server is ready for the next text.
///
/// # Errors
/// The errors of the connection.
pub(super) fn query(desk: &mut Desk, text: &str, to: &mut impl Write) -> io::Result<()> {
    let is_owner = desk.role.is_none();
    match split_statements(text) {
        Err(error) => {
            let said = told(&error, text, None, is_owner);
            desk.error(&said);
        }
        Ok(statements) => {
            if statements.is_empty() {
                desk.reply.nothing_asked();
            }
            for (at, statement) in statements.iter().enumerate() {
                let sql = &StatementText::of(statement.text());
                // For the first statement, this was checked when the message came.
                if at > 0 && (desk.house.is_stopping() || desk.may_go_on().is_err()) {
                    desk.error(&said("57P01", "the rest of this message is not run any more"));
                    break;
                }
                let may = desk.may_run(&sql.kind).map_err(Failed::Said);
                let ran = may
                    .and_then(|()| run_any(desk, sql, &[]))
                    .and_then(|outcome| answered(desk, sql, outcome));
                if let Err(failed) = ran {
                    let said = match failed {
                        Failed::Engine(error) => told(&error, text, Some(statement), is_owner),
                        Failed::Said(said) => said,
                    };
                    desk.record(sql, &said.code, None);
                    desk.error(&said);
                    break;
                }
                // The last reply is sent together with the messages after it, which wakes the
                // client only once.
                if at + 1 < statements.len() {
                    to.write_all(&desk.reply.take())?;
                    to.flush()?;
                }
            }
        }
    }
    // A portal without a name lasts for one statement.
    desk.portals.remove("");
    let state = desk.state();
    desk.reply.ready(state);
    to.write_all(&desk.reply.take())?;
    to.flush()
}

/// Encodes the result of a statement.
pub(super) fn answered(
    desk: &mut Desk,
    text: &StatementText,
    outcome: StatementOutcome,
) -> Result<(), Failed> {
    let unencoded = |_| Failed::Said(after_charge());
    match outcome {
        StatementOutcome::Nothing => desk.reply.nothing_asked(),
        StatementOutcome::Done(tag) => {
            desk.record(text, "00000", None);
            desk.reply.complete(&tag);
        }
        StatementOutcome::Declared(answer) => {
            desk.record(text, "00000", answer.as_ref());
            desk.reply.complete("DECLARE CURSOR");
        }
        StatementOutcome::Rows { table, tag, answer } => {
            let formats = vec![0; table.schema.fields().len()];
            let rows = encode::rows(&table, &formats, desk.reply.encoding).map_err(unencoded)?;
            desk.record(text, "00000", answer.as_ref());
            if let Some(answer) = &answer {
                answer.remarks().for_each(|remark| desk.notice(remark));
            }
            desk.reply.columns(&encode::columns(&table.schema, &formats));
            desk.reply.append(rows.page(0, rows.rows()));
            desk.reply.complete(&complete(tag, rows.rows()));
        }
        StatementOutcome::Copied { table, how, answer } => {
            let mut lines = Reply::with(desk.reply.encoding);
            copy::write(&table, how, &mut lines).map_err(unencoded)?;
            desk.record(text, "00000", answer.as_ref());
            if let Some(answer) = &answer {
                answer.remarks().for_each(|remark| desk.notice(remark));
            }
            desk.reply.append(&lines.take());
            desk.reply.complete(&format!("COPY {}", table.rows()));
        }
        StatementOutcome::Page { cursor, passed, tag } => {
            let Desk { portals, reply, .. } = desk;
            if let Some(portal) = portals.get(&cursor)
                && let (Some(schema), Some(stored)) = (&portal.schema, &portal.stored)
            {
                reply.columns(&encode::columns(schema, &portal.formats));
                append(reply, &stored.rows, passed);
            }
            reply.complete(&tag);
        }
    }
    Ok(())
}

/// The rows that a cursor passes.
pub(super) fn append(reply: &mut Reply, rows: &EncodedRows, passed: Passed) {
    let Passed { from, to, is_reversed, .. } = passed;
    match is_reversed {
        false => reply.append(rows.page(from, to)),
        true => (from..to).rev().for_each(|row| reply.append(rows.page(row, row + 1))),
    }
}

/// The tag of a statement that answered with rows.
pub(super) fn complete(tag: &str, rows: usize) -> String {
    match tag {
        "SELECT" => format!("SELECT {rows}"),
        other => other.to_owned(),
    }
}

/// A failure in the terms of the protocol.
pub(super) fn said_of(failed: Failed, sql: &str, is_owner: bool) -> Said {
    match failed {
        Failed::Engine(error) => told(&error, sql, None, is_owner),
        Failed::Said(said) => said,
    }
}
