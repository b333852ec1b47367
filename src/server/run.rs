//! Runs one statement for a connection.
//!
//! In: a statement. Out: rows, a tag, or an error. Nothing is sent here: the caller encodes the
//! whole result first.

use std::sync::Arc;

use hushql::{Answer, Explanation, Output, Value};

use super::catalog;
use super::client::{Desk, Failed, MOST_HELD, MOST_PORTALS, Portal, PortalSource, Stored};
use super::cursor::{Passed, Step, passed};
use super::encode::{self, EncodedTable};
use super::run_texts::texts;
use super::settings;
use super::sqlstate::{after_charge, hinted, said};
use super::statement_kind::{Copied, StatementKind, StatementText};

/// The result of a statement.
#[derive(Debug)]
pub(super) enum StatementOutcome {
    /// There was no statement.
    Nothing,
    /// A tag, such as `SET`.
    Done(String),
    /// Rows, and the word of their tag.
    Rows { table: EncodedTable, tag: &'static str, answer: Option<Answer> },
    /// Rows to be copied.
    Copied { table: EncodedTable, how: Copied, answer: Option<Answer> },
    /// A cursor, and the answer that it holds.
    Declared(Option<Answer>),
    /// Rows of a cursor, and the tag.
    Page { cursor: String, passed: Passed, tag: String },
}

/// Runs a statement, with values for its parameters.
pub(super) fn run(
    desk: &mut Desk,
    text: &StatementText,
    values: &[Value],
) -> Result<StatementOutcome, Failed> {
    let done = |tag: &str| Ok(StatementOutcome::Done(tag.to_owned()));
    let sql = text.sql.as_str();
    match &text.kind {
        StatementKind::Empty => Ok(StatementOutcome::Nothing),
        StatementKind::Begin => {
            desk.in_transaction = true;
            desk.has_failed = false;
            if !desk.knows_transactions {
                desk.knows_transactions = true;
                desk.notice(
                    "a transaction gives nothing back: what a statement costs is charged when it runs, and ROLLBACK does not undo it",
                );
            }
            done("BEGIN")
        }
        StatementKind::End(tag) => {
            // Nothing is undone, but a client has to see that its transaction failed.
            let tag = if desk.has_failed { "ROLLBACK" } else { *tag };
            (desk.in_transaction, desk.has_failed) = (false, false);
            desk.portals.clear();
            done(tag)
        }
        StatementKind::Savepoint(tag) => {
            desk.has_failed = false;
            done(tag)
        }
        StatementKind::Set(name, value) => {
            settings::set(desk, name, value.clone())?;
            done("SET")
        }
        StatementKind::Reset(name) => {
            match name {
                Some(name) => drop(desk.settings.remove(name)),
                None => desk.settings.clear(),
            }
            desk.settle_again();
            done("RESET")
        }
        StatementKind::Setting(name) => {
            let value = match (name.as_str(), &desk.role) {
                ("is_superuser", None) => "on".to_owned(),
                (name, _) => desk.setting(name),
            };
            let table = texts(&[(name, vec![value])])?;
            Ok(StatementOutcome::Rows { table, tag: "SHOW", answer: None })
        }
        // Plans, sequences and temporary tables do not exist here. The rows of portals are paid
        // for, and stay.
        StatementKind::Discard(Some(tag)) => done(tag),
        StatementKind::Discard(None) => {
            desk.statements.clear();
            desk.portals.clear();
            desk.settings.clear();
            desk.settle_again();
            done("DISCARD ALL")
        }
        StatementKind::Deallocate(name) => {
            match name {
                Some(name) => drop(desk.statements.remove(name)),
                None => desk.statements.clear(),
            }
            done("DEALLOCATE")
        }
        StatementKind::Unlisten => done("UNLISTEN"),
        StatementKind::Declare(name, query) => declare(desk, text, name.clone(), (query, values)),
        StatementKind::Fetch { cursor, step, moves } => fetch(desk, cursor.clone(), *step, *moves),
        StatementKind::Prepare { .. } | StatementKind::Execute => {
            Err(said("0A000", "a prepared statement prepares no other one").into())
        }
        StatementKind::Close(name) => {
            match name {
                Some(name) => drop(desk.portals.remove(name)),
                None => desk.portals.clear(),
            }
            done("CLOSE CURSOR")
        }
        StatementKind::Copy(query, how) => {
            let how = *how;
            if let Some(table) = catalog::answer(desk, query, values)? {
                return Ok(StatementOutcome::Copied { table, how, answer: None });
            }
            let answer = query_answer(desk, query, values)?;
            let table = shown(desk, &answer)?;
            Ok(StatementOutcome::Copied { table, how, answer: Some(answer) })
        }
        StatementKind::Query => {
            if let Some(table) = catalog::answer(desk, sql, values)? {
                return Ok(StatementOutcome::Rows { table, tag: "SELECT", answer: None });
            }
            let answer = query_answer(desk, sql, values)?;
            let table = shown(desk, &answer)?;
            Ok(StatementOutcome::Rows { table, tag: "SELECT", answer: Some(answer) })
        }
        StatementKind::Free | StatementKind::Other => {
            let tag = tag(&text.words);
            let (session, asked) = (desk.session.clone(), sql.to_owned());
            match desk.charged(async move { session.execute(&asked).await })? {
                Output::Answer(answer) => {
                    let table = EncodedTable::of(&answer, false).map_err(|_| after_charge())?;
                    Ok(StatementOutcome::Rows { table, tag, answer: Some(answer) })
                }
                Output::Explanation(explanation) => explained(&explanation.to_string(), tag),
                Output::ExplanationJson(explanation) => {
                    explained(&Explanation::to_json(&explanation), tag)
                }
                Output::Done(sentence) => {
                    desk.notice(sentence);
                    Ok(StatementOutcome::Done(text.words.clone()))
                }
                _ => Err(said("XX000", "the server does not know this result").into()),
            }
        }
    }
}

/// The answer to a query, which may be charged.
fn query_answer(desk: &Desk, sql: &str, values: &[Value]) -> Result<Answer, Failed> {
    if !values.is_empty() {
        let query = desk.prepare(sql, values.to_vec())?;
        return desk.queried(async move { query.execute().await });
    }
    let (session, text) = (desk.session.clone(), sql.to_owned());
    desk.queried(async move { session.query(&text).await })
}

/// The rows of an answer, in the form that the settings of this connection ask for.
pub(super) fn shown(desk: &Desk, answer: &Answer) -> Result<EncodedTable, Failed> {
    Ok(EncodedTable::of(answer, desk.with_errors()).map_err(|_| after_charge())?)
}

/// An explanation, one row for each line.
fn explained(text: &str, tag: &'static str) -> Result<StatementOutcome, Failed> {
    let lines = text.lines().map(str::to_owned).collect();
    Ok(StatementOutcome::Rows { table: texts(&[("explanation", lines)])?, tag, answer: None })
}

/// The tag of a statement that answers with rows.
fn tag(words: &str) -> &'static str {
    let first: String = words.chars().take_while(|c| c.is_alphabetic()).collect();
    match first.as_str() {
        "EXPLAIN" => "EXPLAIN",
        "SHOW" | "DESCRIBE" | "ALTER" => "SHOW",
        _ => "SELECT",
    }
}

/// Declares a cursor: a portal whose rows are computed when it is declared.
fn declare(
    desk: &mut Desk,
    text: &StatementText,
    name: String,
    (query, values): (&str, &[Value]),
) -> Result<StatementOutcome, Failed> {
    if desk.portals.contains_key(&name) {
        return Err(said("42P03", format!("the cursor {name} exists already")).into());
    }
    may_hold(desk)?;
    let (table, answer) = match catalog::answer(desk, query, values)? {
        Some(table) => (table, None),
        None => {
            let answer = query_answer(desk, query, values)?;
            (shown(desk, &answer)?, Some(answer))
        }
    };
    let formats = vec![0; table.schema.fields().len()];
    let rows = encode::rows(&table, &formats, desk.reply.encoding).map_err(|_| after_charge())?;
    if let Some(answer) = &answer {
        answer.remarks().for_each(|remark| desk.notice(remark));
    }
    let text = Arc::new(text.clone());
    let portal = Portal {
        schema: Some(Arc::clone(&table.schema)),
        source: PortalSource::Text(Arc::clone(&text), Vec::new()),
        text,
        formats,
        stored: Some(Stored { rows, values: Some(table), tag: "SELECT", sent: 0 }),
    };
    desk.portals.insert(name, portal);
    Ok(StatementOutcome::Declared(answer))
}

/// Refuses another portal if there are too many, or if they hold too much, before anything is
/// charged for it.
pub(super) fn may_hold(desk: &Desk) -> Result<(), Failed> {
    if desk.portals.len() >= MOST_PORTALS {
        return Err(said("54000", "a connection has at most 100 portals and cursors").into());
    }
    may_store(desk)
}

/// Refuses to run a portal if the others hold too much.
pub(super) fn may_store(desk: &Desk) -> Result<(), Failed> {
    match desk.held() < MOST_HELD {
        true => Ok(()),
        false => {
            let message =
                "the portals and cursors of a connection hold at most 64 MiB; nothing was charged";
            Err(hinted("54000", message, "CLOSE ALL").into())
        }
    }
}

fn fetch(
    desk: &mut Desk,
    cursor: String,
    step: Step,
    moves: bool,
) -> Result<StatementOutcome, Failed> {
    let stored = desk.portals.get_mut(&cursor).and_then(|portal| portal.stored.as_mut());
    let Some(stored) = stored else {
        return Err(said("34000", format!("there is no cursor {cursor}")).into());
    };
    let passed = passed(step, stored.sent, stored.rows.rows());
    stored.sent = passed.position;
    let count = passed.to - passed.from;
    match moves {
        true => Ok(StatementOutcome::Done(format!("MOVE {count}"))),
        false => Ok(StatementOutcome::Page { cursor, passed, tag: format!("FETCH {count}") }),
    }
}
