//! The extended protocol: statements are prepared, bound to parameters, and described before they
//! run.
//!
//! In: Parse, Bind, Describe, Execute, Close and Sync. Out: the replies. Describe charges nothing
//! and draws nothing: a query is planned as it would be for its charge, and rows that cost nothing
//! are computed immediately. A portal runs once; Execute with a limit returns the next page of its
//! answer. Another Bind makes another portal, which is charged when it runs.
//!
//! ```text
//! Parse  SELECT LAPLACE(eps=1) COUNT(*) FROM t WHERE age > $1
//! Bind   $1 = 40        planned with the literal 40: columns and cost are known
//! Execute               charged, drawn, encoded, kept
//! ```

use std::sync::Arc;

use hushql::Value;

use super::catalog;
use super::client::{Desk, Failed, Portal, PortalSource, Statement, Stored};
use super::cursor::Passed;
use super::encode::{self, shown};
use super::message::{Bind, StatementOrPortal};
use super::parameters;
use super::prepared_statement::{self, run_any, statement};
use super::run::{StatementOutcome, may_hold, may_store, run};
use super::simple::{answered, append, complete};
use super::sqlstate::{after_charge, hinted, said};
use super::statement_kind::{StatementKind, StatementText};

/// Prepares a statement.
pub(super) fn parse(
    desk: &mut Desk,
    name: String,
    sql: &str,
    types: Vec<u32>,
) -> Result<(), Failed> {
    prepared_statement::prepare(desk, name, sql, types)?;
    desk.reply.parsed();
    Ok(())
}

/// Makes a portal: the parameters become literals, and a query is planned with them.
pub(super) fn bind(desk: &mut Desk, bind: Bind) -> Result<(), Failed> {
    let Bind { portal, statement: name, formats, values, results } = bind;
    let statement = statement(desk, &name)?;
    let Statement { text, types, .. } = &statement;
    if !portal.is_empty() && desk.portals.contains_key(&portal) {
        return Err(said("42P03", format!("the portal {portal} exists already")).into());
    }
    may_hold(desk)?;
    if values.len() != types.len() {
        let message = format!("{} values are given for {} parameters", values.len(), types.len());
        return Err(said("08P01", message).into());
    }
    let formats = encode::formats(&formats, values.len()).map_err(|why| said("08P01", why))?;
    let encoding = desk.reply.encoding;
    let typed = types.iter().zip(&formats).zip(&values);
    let values = typed
        .map(|((kind, format), value)| {
            parameters::value(*kind, *format, value.as_deref(), encoding)
        })
        .collect::<Result<Vec<Value>, String>>()
        .map_err(|why| said("22P02", why))?;
    let (source, schema) = source(desk, text, values)?;
    let columns = schema.as_ref().map_or(0, |schema| schema.fields().len());
    let formats = match schema {
        Some(_) => encode::formats(&results, columns).map_err(|why| said("08P01", why))?,
        None => Vec::new(),
    };
    if let (true, Some(told), Some(schema)) =
        (statement.is_described, statement.columns(desk.with_errors()), &schema)
    {
        still_as_described(&told, schema, &formats)?;
    }
    let text = Arc::clone(text);
    desk.portals.insert(portal, Portal { text, source, schema, formats, stored: None });
    desk.reply.bound();
    Ok(())
}

/// Refuses columns in binary whose types are not those that the client was told: it would read
/// other values.
fn still_as_described(
    described: &arrow::datatypes::SchemaRef,
    schema: &arrow::datatypes::SchemaRef,
    formats: &[i16],
) -> Result<(), Failed> {
    let (told, now) = (described.fields(), schema.fields());
    let differs = told.len() != now.len()
        || told.iter().zip(now).zip(formats).any(|((told, now), format)| {
            *format == 1 && encode::kind(told.data_type()).0 != encode::kind(now.data_type()).0
        });
    match differs {
        false => Ok(()),
        true => {
            let message = "the columns of this statement are not those that were described";
            Err(hinted("0A000", message, "prepare it again, with a type for each parameter").into())
        }
    }
}

type Sourced = (PortalSource, Option<arrow::datatypes::SchemaRef>);

/// What a statement with these parameters runs, and its columns.
fn source(
    desk: &mut Desk,
    text: &Arc<StatementText>,
    values: Vec<Value>,
) -> Result<Sourced, Failed> {
    let is_plain = values.is_empty();
    let sql = text.sql.as_str();
    match &text.kind {
        StatementKind::Query => {
            let answered = catalog::answer(desk, sql, &values)?;
            if let Some(table) = answered {
                let schema = Some(table.schema.clone());
                return Ok((PortalSource::Rows { table, tag: "SELECT" }, schema));
            }
            let query = desk.prepare(sql, values)?;
            let schema = shown(&query.schema(), desk.with_errors());
            Ok((PortalSource::Query(Box::new(query)), Some(schema)))
        }
        StatementKind::Declare(..) | StatementKind::Copy(..) => {
            Ok((PortalSource::Text(Arc::clone(text), values), None))
        }
        _ if !is_plain => Err(said("42P02", "only queries take parameters").into()),
        StatementKind::Free | StatementKind::Setting(_) => match run(desk, text, &[])? {
            StatementOutcome::Rows { table, tag, .. } => {
                let schema = Some(table.schema.clone());
                Ok((PortalSource::Rows { table, tag }, schema))
            }
            _ => Err(said("XX000", "the server does not know this result").into()),
        },
        StatementKind::Fetch { cursor, moves: false, .. } => {
            let portal = desk.portals.get(cursor);
            let schema = portal.and_then(|portal| portal.schema.clone());
            let missing = || said("34000", format!("there is no cursor {cursor}"));
            Ok((
                PortalSource::Text(Arc::clone(text), Vec::new()),
                Some(schema.ok_or_else(missing)?),
            ))
        }
        _ => Ok((PortalSource::Text(Arc::clone(text), Vec::new()), None)),
    }
}

/// Describes a statement or a portal, without a charge.
pub(super) fn describe(
    desk: &mut Desk,
    named: StatementOrPortal,
    name: &str,
) -> Result<(), Failed> {
    match named {
        StatementOrPortal::Statement => {
            let known = statement(desk, name)?;
            let schema = known.columns(desk.with_errors());
            let Statement { text, types, .. } = known;
            let schema = match &text.kind {
                StatementKind::Fetch { cursor, moves: false, .. } => {
                    desk.portals.get(cursor).and_then(|portal| portal.schema.clone())
                }
                _ => schema,
            };
            if let Some(known) = desk.statements.get_mut(name) {
                known.is_described = true;
            }
            desk.reply.parameters(&types);
            match schema {
                Some(schema) => desk.reply.columns(&encode::columns(&schema, &[])),
                None => desk.reply.no_columns(),
            }
        }
        StatementOrPortal::Portal => {
            let Desk { portals, reply, .. } = desk;
            let Some(portal) = portals.get(name) else {
                return Err(said("34000", format!("there is no portal {name}")).into());
            };
            match &portal.schema {
                Some(schema) => reply.columns(&encode::columns(schema, &portal.formats)),
                None => reply.no_columns(),
            }
        }
    }
    Ok(())
}

/// Runs a portal, or continues with its answer.
pub(super) fn execute(desk: &mut Desk, name: &str, limit: usize) -> Result<(), Failed> {
    let Some(portal) = desk.portals.get(name) else {
        return Err(said("34000", format!("there is no portal {name}")).into());
    };
    if portal.stored.is_none() {
        may_store(desk)?;
        let Some(portal) = desk.portals.get(name) else { return Ok(()) };
        let (asked, source, formats) =
            (Arc::clone(&portal.text), portal.source.clone(), portal.formats.clone());
        let schema = portal.schema.clone();
        let (table, tag) = match source {
            PortalSource::Rows { table, tag } => {
                desk.record(&asked, "00000", None);
                (table, tag)
            }
            PortalSource::Query(query) => {
                let answer = desk.queried(async move { query.execute().await })?;
                desk.record(&asked, "00000", Some(&answer));
                answer.remarks().for_each(|remark| desk.notice(remark));
                // The columns must be those that were described, even if settings have changed
                // since.
                let fields = answer.schema().fields().len();
                let with = schema.is_some_and(|schema| schema.fields().len() != fields);
                (encode::EncodedTable::of(&answer, with).map_err(|_| after_charge())?, "SELECT")
            }
            PortalSource::Text(other, values) => return run_text(desk, name, &other, &values),
        };
        let rows =
            encode::rows(&table, &formats, desk.reply.encoding).map_err(|_| after_charge())?;
        if let Some(portal) = desk.portals.get_mut(name) {
            portal.stored = Some(Stored { rows, values: None, tag, sent: 0 });
        }
    }
    let Desk { portals, reply, .. } = desk;
    if let Some(stored) = portals.get_mut(name).and_then(|portal| portal.stored.as_mut()) {
        let all = stored.rows.rows();
        let from = stored.sent.min(all);
        let to = if limit == 0 { all } else { from.saturating_add(limit).min(all) };
        reply.append(stored.rows.page(from, to));
        stored.sent = to;
        match to < all {
            true => reply.suspended(),
            false => reply.complete(&complete(stored.tag, to - from)),
        }
    }
    Ok(())
}

/// Runs a statement that was described as having no columns.
fn run_text(
    desk: &mut Desk,
    name: &str,
    text: &StatementText,
    values: &[Value],
) -> Result<(), Failed> {
    match run_any(desk, text, values)? {
        outcome @ (StatementOutcome::Nothing
        | StatementOutcome::Done(_)
        | StatementOutcome::Declared(_)
        | StatementOutcome::Copied { .. }) => answered(desk, text, outcome)?,
        StatementOutcome::Rows { table, tag, answer } => {
            desk.record(text, "00000", answer.as_ref());
            if let Some(answer) = &answer {
                answer.remarks().for_each(|remark| desk.notice(remark));
            }
            // A sentence about stored data is a notice. An answer that could not be stored is paid
            // for, so it has to be shown.
            let is_summary = ["release_table", "file"]
                .contains(&table.schema.fields().first().map_or("", |first| first.name()));
            if !is_summary {
                let formats = vec![0; table.schema.fields().len()];
                let rows = encode::rows(&table, &formats, desk.reply.encoding)
                    .map_err(|_| after_charge())?;
                desk.reply.columns(&encode::columns(&table.schema, &formats));
                desk.reply.append(rows.page(0, rows.rows()));
            }
            desk.reply.complete(&complete(tag, table.rows()));
        }
        StatementOutcome::Page { cursor, passed, tag } => {
            let formats = desk.portals.get(name).map(|portal| portal.formats.clone());
            append_page(desk, &cursor, passed, &formats.unwrap_or_default())?;
            desk.reply.complete(&tag);
        }
    }
    // A portal runs only once.
    if let Some(portal) = desk.portals.get_mut(name) {
        portal.source = PortalSource::Text(Arc::new(StatementText::of("")), Vec::new());
    }
    Ok(())
}

/// Sends the rows that a cursor passes, in the formats that this FETCH was bound with.
fn append_page(
    desk: &mut Desk,
    cursor: &str,
    passed: Passed,
    formats: &[i16],
) -> Result<(), Failed> {
    let Desk { portals, reply, .. } = desk;
    let Some(portal) = portals.get(cursor) else { return Ok(()) };
    match &portal.stored {
        None => {}
        Some(stored) if portal.formats == formats => append(reply, &stored.rows, passed),
        Some(Stored { values: Some(values), .. }) => {
            let Passed { from, to, .. } = passed;
            let rows = encode::rows(&values.page(from, to), formats, reply.encoding);
            let rows = rows.map_err(|_| after_charge())?;
            append(reply, &rows, Passed { from: 0, to: to.saturating_sub(from), ..passed });
        }
        Some(_) => {
            let message = "the rows of a portal come in the formats that it was bound with";
            return Err(said("0A000", message).into());
        }
    }
    Ok(())
}

/// Forgets a statement or a portal. Closing a missing one is not an error.
pub(super) fn close(desk: &mut Desk, named: StatementOrPortal, name: &str) {
    match named {
        StatementOrPortal::Statement => drop(desk.statements.remove(name)),
        StatementOrPortal::Portal => drop(desk.portals.remove(name)),
    }
    desk.reply.closed();
}
