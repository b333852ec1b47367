//! Prepared statements: what is known of one before its parameters have values.
//!
//! In: a statement, and the types that the client gives its parameters. Out: the types of all of
//! them, and the columns of the answer. Errors of syntax, names and rights come here, before the
//! client has sent a value. Whether a question can be answered is decided when it has values.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE age > $1   →   $1 BIGINT; n BIGINT
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use hushql::{Description, Error, Value, split_statements};

use super::catalog;
use super::client::{Desk, Failed, MOST_STATEMENTS, Statement};
use super::encode::kinds;
use super::encoding::Encoding;
use super::example::examples;
use super::parameter_types;
use super::parameters;
use super::run::{StatementOutcome, run};
use super::sqlstate::said;
use super::statement_kind::{self, StatementKind, StatementText, Token};

/// The most bytes of a prepared statement, and of all prepared statements of a connection.
const MOST_BYTES: usize = 1 << 20;
const MOST_BYTES_TOGETHER: usize = 16 << 20;

/// Runs a statement, with values for its parameters: PREPARE and EXECUTE, and all others.
pub(super) fn run_any(
    desk: &mut Desk,
    text: &StatementText,
    values: &[Value],
) -> Result<StatementOutcome, Failed> {
    match &text.kind {
        StatementKind::Prepare { name, types, query } => {
            prepare(desk, name.clone(), query, types.clone())?;
            Ok(StatementOutcome::Done("PREPARE".to_owned()))
        }
        StatementKind::Execute => {
            let (text, values) = executed(desk, &text.sql)?;
            run(desk, &text, &values)
        }
        _ => run(desk, text, values),
    }
}

/// Keeps a statement under a name.
pub(super) fn prepare(
    desk: &mut Desk,
    name: String,
    sql: &str,
    types: Vec<u32>,
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
    let statement = examined(desk, sql, types)?;
    desk.statements.insert(name, statement);
    Ok(())
}

/// A statement with the types of its parameters and its columns.
fn examined(desk: &mut Desk, sql: &str, mut types: Vec<u32>) -> Result<Statement, Failed> {
    let tokens = statement_kind::tokens(sql);
    let count = statement_kind::parameters(&tokens);
    if count > 1_000 {
        return Err(said("54023", "a statement has at most 1000 parameters").into());
    }
    types.resize(count.max(types.len()), 0);
    let text = Arc::new(StatementText::of_tokens(sql, &tokens));
    let (types, schema, is_question) = match &text.kind {
        StatementKind::Query => described(desk, sql, &tokens, &types)?,
        StatementKind::Declare(_, query) | StatementKind::Copy(query, _) => {
            (described(desk, query, &tokens, &types)?.0, None, false)
        }
        // Its parameters are those of another statement.
        StatementKind::Prepare { .. } => (Vec::new(), None, false),
        // Running them changes and costs nothing, and tells whether they run.
        StatementKind::Free | StatementKind::Setting(_) if count == 0 => {
            match run(desk, &text, &[])? {
                StatementOutcome::Rows { table, .. } => (types, Some(table.schema), false),
                _ => (types, None, false),
            }
        }
        _ if count > 0 => return Err(takes_none(desk, sql)),
        _ => (types, None, false),
    };
    Ok(Statement { text, types, schema, is_question, is_described: false })
}

/// Why a statement that is not a query takes no parameters: the engine does not run it, or it is a
/// declaration.
fn takes_none(desk: &Desk, sql: &str) -> Failed {
    match desk.session.describe(sql, &[]) {
        Err(error @ (Error::Refused(_) | Error::Syntax { .. })) => Failed::Engine(error),
        _ => said("42P02", "only queries take parameters").into(),
    }
}

/// Types, columns, and whether the engine answers.
type Described = (Vec<u32>, Option<SchemaRef>, bool);

/// The types of a query's parameters, where `given` leaves them to the query, and its columns.
fn described(desk: &Desk, sql: &str, tokens: &[Token], given: &[u32]) -> Result<Described, Failed> {
    let is_open = |kind: u32| kind == 0 || kind == kinds::UNKNOWN;
    let filled = |known: Vec<Option<u32>>, given: &[u32]| {
        let mut known = known.into_iter().chain(std::iter::repeat(None));
        let each = given.iter().map(|kind| (kind, known.next().flatten()));
        each.map(|(kind, known)| if is_open(*kind) { known.unwrap_or(0) } else { *kind })
            .collect::<Vec<u32>>()
    };
    let as_text = |types: &[u32]| {
        types.iter().map(|kind| if is_open(*kind) { kinds::TEXT } else { *kind }).collect()
    };
    let guessed = match given.iter().any(|kind| is_open(*kind)) {
        true => filled(parameter_types::inferred(tokens, &desk.session.schemas()?), given),
        false => given.to_vec(),
    };
    let guessed: Vec<u32> = as_text(&guessed);
    let stated = filled(parameter_types::stated(tokens), given);
    if let Some((schema, met)) = catalog::columns(desk, sql, &examples(&guessed))? {
        return Ok((as_text(&filled(met, &stated)), Some(schema), false));
    }
    match description(desk, sql, &stated) {
        Ok(description) => {
            let arrays = parameter_types::arrays(tokens);
            let expected = description.parameters().iter().enumerate().map(|(at, known)| {
                let is_array = arrays.get(at) == Some(&true);
                known.as_ref().map(|known| parameter_types::expected(known, is_array))
            });
            let types = filled(expected.collect(), &stated);
            Ok((as_text(&types), Some(description.schema().clone()), true))
        }
        // Some places take a literal alone. The query is then planned with one.
        Err(error) => match guessed.is_empty() {
            true => Err(error),
            false => match desk.prepare(sql, examples(&guessed)) {
                Ok(query) => Ok((guessed, Some(query.schema()), true)),
                Err(_) => Err(error),
            },
        },
    }
}

/// The engine's description of a query.
fn description(desk: &Desk, sql: &str, types: &[u32]) -> Result<Description, Failed> {
    let types: Vec<_> = types.iter().map(|kind| parameter_types::known(*kind)).collect();
    let (session, sql) = (desk.session.clone(), sql.to_owned());
    desk.wait(async move {
        let described = tokio::task::spawn_blocking(move || session.describe(&sql, &types));
        described.await.unwrap_or(Err(Error::Internal))
    })
}

/// The prepared statement with this name.
pub(super) fn statement(desk: &Desk, name: &str) -> Result<Statement, Failed> {
    let known = desk.statements.get(name).cloned();
    known.ok_or_else(|| said("26000", format!("there is no prepared statement {name}")).into())
}

/// The name and the values of `EXECUTE name (values)`.
fn executed(desk: &Desk, execute: &str) -> Result<(Arc<StatementText>, Vec<Value>), Failed> {
    let unread = || Failed::from(said("42601", "EXECUTE takes a name and literals"));
    let tokens = statement_kind::tokens(execute);
    let Some(Token::Word(name) | Token::Name(name)) = tokens.get(1) else { return Err(unread()) };
    let given = match tokens.len() {
        2 => Vec::new(),
        _ => execute.split_once('(').and_then(|(_, rest)| literals(rest)).ok_or_else(unread)?,
    };
    let Statement { text, types, .. } = statement(desk, name)?;
    if given.len() != types.len() {
        let message = format!("{} values are given for {} parameters", given.len(), types.len());
        return Err(said("42601", message).into());
    }
    let values = given.iter().zip(types).map(|(text, kind)| {
        // The text of the statement was decoded already.
        let text = text.as_deref().map(str::as_bytes);
        let value = parameters::value(kind, 0, text, Encoding::Utf8);
        value.map_err(|why| Failed::from(said("22P02", why)))
    });
    Ok((text, values.collect::<Result<_, _>>()?))
}

/// The texts of literals up to a closing parenthesis, which ends the statement; an inner `None` is
/// NULL.
fn literals(mut rest: &str) -> Option<Vec<Option<String>>> {
    let mut all = Vec::new();
    loop {
        rest = rest.trim_start();
        let (literal, behind) = match rest.strip_prefix('\'') {
            Some(quoted) => {
                let (mut own, mut from) = (String::new(), quoted);
                loop {
                    let (piece, behind) = from.split_once('\'')?;
                    own.push_str(piece);
                    match behind.strip_prefix('\'') {
                        Some(more) => {
                            own.push('\'');
                            from = more;
                        }
                        None => break (Some(own), behind),
                    }
                }
            }
            None => {
                let end = rest.find([',', ')', ':'])?;
                let (word, behind) = rest.split_at(end);
                let word = word.trim();
                let is_plain = word.chars().all(|c| c.is_alphanumeric() || "+-._".contains(c));
                if word.is_empty() || !is_plain {
                    return None;
                }
                let is_null = word.eq_ignore_ascii_case("null");
                (Some(word.to_owned()).filter(|_| !is_null), behind)
            }
        };
        all.push(literal);
        // The statement says the type of each parameter.
        let behind = behind.trim_start();
        let behind = match behind.strip_prefix("::") {
            Some(cast) => cast.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
            None => behind,
        };
        match behind.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None => return (behind.trim() == ")").then_some(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::literals;

    #[test]
    fn literals_are_texts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            literals(" 4, 'it''s, (a)' , NULL,-1.5::numeric, true)"),
            Some(vec![some("4"), some("it's, (a)"), None, some("-1.5"), some("true")])
        );
        for text in ["1", "1, )", "a b)", "'a", "(1))", "1) 2", "f(1))"] {
            assert_eq!(literals(text), None, "{text}");
        }
    }
}
