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

use hushql::{Error, Value, split_statements};

use super::catalog;
use super::client::{Desk, Failed, MOST_STATEMENTS, Portal, PortalSource, Statement, Stored};
use super::encode::{self, kinds, shown};
use super::example::{examples, nearer};
use super::message::{Bind, StatementOrPortal};
use super::parameter_types;
use super::parameters;
use super::run::{StatementOutcome, may_hold, may_store, run};
use super::simple::{answered, complete};
use super::sqlstate::{after_charge, said};
use super::statement_kind::{self, StatementKind, StatementText};

/// The most bytes of a prepared statement, and of all prepared statements of a connection.
const MOST_BYTES: usize = 1 << 20;
const MOST_BYTES_TOGETHER: usize = 16 << 20;

/// Prepares a statement.
pub(super) fn parse(
    desk: &mut Desk,
    name: String,
    sql: &str,
    mut types: Vec<u32>,
) -> Result<(), Failed> {
    if sql.len() > MOST_BYTES {
        return Err(said("54000", "a prepared statement has at most 1 MiB").into());
    }
    let kept: usize = desk.statements.values().map(|known| known.text.sql.len()).sum();
    if kept + sql.len() > MOST_BYTES_TOGETHER {
        return Err(
            said("54000", "the prepared statements of a connection have at most 16 MiB").into()
        );
    }
    let statements = split_statements(sql)?;
    if statements.len() > 1 {
        return Err(said("42601", "a prepared statement is one statement").into());
    }
    let sql = statements.first().map_or("", |statement| statement.text());
    if !name.is_empty() && desk.statements.contains_key(&name) {
        return Err(said("42P05", format!("the statement {name} exists already")).into());
    }
    if desk.statements.len() >= MOST_STATEMENTS {
        return Err(said("54000", "a connection has at most 1000 prepared statements").into());
    }
    let tokens = statement_kind::tokens(sql);
    let count = statement_kind::parameters(&tokens);
    if count > 1_000 {
        return Err(said("54023", "a statement has at most 1000 parameters").into());
    }
    let known = match types.iter().take(count).filter(|kind| **kind != 0).count() < count {
        true => parameter_types::inferred(&tokens, &desk.session.schemas()?),
        false => Vec::new(),
    };
    types.resize(count.max(types.len()), 0);
    for (i, kind) in types.iter_mut().enumerate().filter(|(_, kind)| **kind == 0) {
        *kind = known.get(i).copied().flatten().unwrap_or(kinds::TEXT);
    }
    let text = Arc::new(StatementText::of_tokens(sql, &tokens));
    let fractions = parameter_types::fractions(&tokens);
    desk.statements.insert(name, Statement { text, types, fractions });
    desk.reply.parsed();
    Ok(())
}

/// The prepared statement with this name.
fn statement(desk: &Desk, name: &str) -> Result<Statement, Failed> {
    let known = desk.statements.get(name).cloned();
    known.ok_or_else(|| said("26000", format!("there is no prepared statement {name}")).into())
}

/// Makes a portal: the parameters become literals, and a query is planned with them.
pub(super) fn bind(desk: &mut Desk, bind: Bind) -> Result<(), Failed> {
    let Bind { portal, statement: name, formats, values, results } = bind;
    let Statement { text, types, .. } = statement(desk, &name)?;
    if !portal.is_empty() && desk.portals.contains_key(&portal) {
        return Err(said("42P03", format!("the portal {portal} exists already")).into());
    }
    may_hold(desk)?;
    if values.len() != types.len() {
        let message = format!("{} values are given for {} parameters", values.len(), types.len());
        return Err(said("08P01", message).into());
    }
    let formats = encode::formats(&formats, values.len()).map_err(|why| said("08P01", why))?;
    let typed = types.iter().zip(&formats).zip(&values);
    let values = typed
        .map(|((kind, format), value)| parameters::value(*kind, *format, value.as_deref()))
        .collect::<Result<Vec<Value>, String>>()
        .map_err(|why| said("22P02", why))?;
    if matches!(text.kind, StatementKind::Fetch { .. }) && results.contains(&1) {
        // The rows of a cursor are already encoded as text. Refused here, the cursor does not move.
        return Err(said("0A000", "the rows of a cursor come as text").into());
    }
    let (source, schema) = source(desk, &text, values)?;
    let columns = schema.as_ref().map_or(0, |schema| schema.fields().len());
    let formats = match schema {
        Some(_) => encode::formats(&results, columns).map_err(|why| said("08P01", why))?,
        None => Vec::new(),
    };
    desk.portals.insert(portal, Portal { text, source, schema, formats, stored: None });
    desk.reply.bound();
    Ok(())
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
            let answered = if is_plain {
                catalog::answer(desk, sql)?
            } else {
                catalog::answer_with(desk, sql, &values)?
            };
            if let Some(table) = answered {
                let schema = Some(table.schema.clone());
                return Ok((PortalSource::Rows { table, tag: "SELECT" }, schema));
            }
            let query = desk.prepare(sql, values)?;
            let schema = shown(&query.schema(), desk.with_errors());
            Ok((PortalSource::Query(Box::new(query)), Some(schema)))
        }
        _ if !is_plain => Err(said("42P02", "only queries take parameters").into()),
        StatementKind::Free | StatementKind::Setting(_) => match run(desk, text)? {
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
            Ok((PortalSource::Text(Arc::clone(text)), Some(schema.ok_or_else(missing)?)))
        }
        _ => Ok((PortalSource::Text(Arc::clone(text)), None)),
    }
}

/// The columns of a statement with example values for its parameters.
fn described(
    desk: &mut Desk,
    text: &Arc<StatementText>,
    mut values: Vec<Value>,
) -> Result<Option<arrow::datatypes::SchemaRef>, Failed> {
    // Each value may have to be replaced twice, for the two ends of a range.
    for _ in 0..values.len().saturating_mul(2) {
        match source(desk, text, values.clone()) {
            Err(Failed::Engine(Error::Refused(refusal))) => match nearer(&refusal, &values) {
                Some((at, other)) => values[at] = other,
                None => return Err(Failed::Engine(Error::Refused(refusal))),
            },
            done => return Ok(done?.1),
        }
    }
    Ok(source(desk, text, values)?.1)
}

/// Describes a statement or a portal, without a charge.
pub(super) fn describe(
    desk: &mut Desk,
    named: StatementOrPortal,
    name: &str,
) -> Result<(), Failed> {
    match named {
        StatementOrPortal::Statement => {
            let Statement { text, types, fractions } = statement(desk, name)?;
            // The columns depend on the types of parameters, not on their values.
            let values = examples(&types, &fractions);
            let schema = match text.kind {
                StatementKind::Query => catalog::columns(desk, &text.sql, &values)?,
                _ => None,
            };
            let schema = match schema {
                Some(schema) => Some(schema),
                None => described(desk, &text, values)?,
            };
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
            PortalSource::Text(other) => return run_text(desk, name, &other),
        };
        let rows = encode::rows(&table, &formats).map_err(|_| after_charge())?;
        if let Some(portal) = desk.portals.get_mut(name) {
            portal.stored = Some(Stored { rows, tag, sent: 0 });
        }
    }
    let Desk { portals, reply, .. } = desk;
    if let Some(stored) = portals.get_mut(name).and_then(|portal| portal.stored.as_mut()) {
        let (from, all) = (stored.sent, stored.rows.rows());
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
fn run_text(desk: &mut Desk, name: &str, text: &StatementText) -> Result<(), Failed> {
    match run(desk, text)? {
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
                let rows = encode::rows(&table, &formats).map_err(|_| after_charge())?;
                desk.reply.columns(&encode::columns(&table.schema, &formats));
                desk.reply.append(rows.page(0, rows.rows()));
            }
            desk.reply.complete(&complete(tag, table.rows()));
        }
        StatementOutcome::Page { cursor, from, to, tag } => {
            let Desk { portals, reply, .. } = desk;
            if let Some(stored) = portals.get(&cursor).and_then(|portal| portal.stored.as_ref()) {
                reply.append(stored.rows.page(from, to));
            }
            reply.complete(&tag);
        }
    }
    // A portal runs only once.
    if let Some(portal) = desk.portals.get_mut(name) {
        portal.source = PortalSource::Text(Arc::new(StatementText::of("")));
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
