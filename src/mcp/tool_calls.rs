//! Runs tools: each is a statement of an analyst's session.
//!
//! In: a tool with its arguments. Out: a structured result. A refusal is a result, too, which the
//! model reads: it says what to write instead.

use hushql::{Error, Output, Session};
use rmcp::model::{CallToolResponse, CallToolResult, ErrorData};
use serde_json::{Value, json};

use super::confirmation::{self, Consent};
use super::limits::units;
use super::structured;
use super::tool_list::ToolName;
use super::tool_request::Call;

/// The outcome of a call that is no result.
enum CallFailure {
    /// An error of the statement, which the client reads.
    Statement(Error),
    /// A mistake in the arguments, which the client reads.
    Arguments(String),
    /// The statement ran, and its answer cannot be written.
    Unwritten,
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

impl CallFailure {
    fn told(self) -> CallToolResult {
        let error = match self {
            Self::Statement(error) => structured::error(&error),
            Self::Arguments(message) => {
                json!({ "kind": "arguments", "code": null, "message": message, "instead": null })
            }
            Self::Unwritten => {
                json!({ "kind": "internal", "code": null, "message": "the answer cannot be written as JSON", "instead": null })
            }
        };
        CallToolResult::structured_error(json!({ "error": error }))
    }
}

/// Runs a tool.
///
/// # Errors
/// An error of the protocol, if a person cannot be asked for consent.
pub(super) async fn run(tool: ToolName, call: Call) -> Result<CallToolResponse, ErrorData> {
    let result = match tool {
        ToolName::Tables => tables(&call).await,
        ToolName::Price => price(&call).await,
        ToolName::Ask => return ask(call).await,
        ToolName::Budget => budget(&call).await,
        ToolName::ReleaseTables => release_tables(&call).await,
    };
    Ok(result.map_or_else(CallFailure::told, CallToolResult::structured).into())
}

/// An argument that is a text.
fn text(call: &Call, name: &str) -> Result<Option<String>, CallFailure> {
    match call.arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(CallFailure::Arguments(format!("`{name}` is a text"))),
    }
}

fn sql(call: &Call) -> Result<String, CallFailure> {
    text(call, "sql")?.ok_or_else(|| {
        CallFailure::Arguments(
            "`sql` is missing: the query, such as SELECT LAPLACE(eps=0.1) COUNT(*) FROM visits"
                .to_owned(),
        )
    })
}

/// An argument that is an amount, in 10⁻⁹.
fn amount(call: &Call, name: &str) -> Result<Option<i64>, CallFailure> {
    let text = match call.arguments.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => String::new(),
    };
    let nano = units(&text, 9).filter(|nano| *nano > 0);
    nano.map(Some).ok_or_else(|| {
        CallFailure::Arguments(format!(
            "`{name}` is a number greater than 0 with at most nine decimals"
        ))
    })
}

/// The rows of a statement that shows declarations.
async fn shown(session: &Session, statement: &str) -> Result<Value, CallFailure> {
    match session.execute(statement).await? {
        Output::Answer(answer) => structured::answer(&answer).map_err(|_| CallFailure::Unwritten),
        // No statement of a tool here has another outcome.
        _ => Err(CallFailure::Unwritten),
    }
}

/// A name in SQL.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

async fn tables(call: &Call) -> Result<Value, CallFailure> {
    match text(call, "table")? {
        Some(table) => shown(&call.session, &format!("DESCRIBE {}", name(&table))).await,
        None if calls_templates_alone(&call.session) => {
            shown(&call.session, "SHOW TEMPLATES").await
        }
        None => shown(&call.session, "SHOW TABLES").await,
    }
}

/// Whether templates are all that exists for a session.
fn calls_templates_alone(session: &Session) -> bool {
    session.tables().is_ok_and(|tables| tables.is_empty())
        && session.templates().is_ok_and(|templates| !templates.is_empty())
}

async fn release_tables(call: &Call) -> Result<Value, CallFailure> {
    match text(call, "name")? {
        Some(table) => shown(&call.session, &format!("SHOW RELEASE TABLE {}", name(&table))).await,
        None => shown(&call.session, "SHOW TABLES").await,
    }
}

async fn budget(call: &Call) -> Result<Value, CallFailure> {
    let mut shown = shown(&call.session, "SHOW PRIVACY").await?;
    if let Value::Object(all) = &mut shown {
        all.insert("limits".to_owned(), Value::String(call.limits.told()));
    }
    Ok(shown)
}

async fn price(call: &Call) -> Result<Value, CallFailure> {
    let (session, sql) = (call.session.clone().with_caps(call.limits.caps), sql(call)?);
    // Planning takes a processor for a while.
    let prepared = tokio::task::spawn_blocking(move || session.prepare(&sql)).await;
    let prepared = prepared.map_err(|_| CallFailure::Unwritten)??;
    Ok(structured::price(&prepared))
}

async fn ask(call: Call) -> Result<CallToolResponse, ErrorData> {
    let asked = match asked(&call) {
        Ok(asked) => asked,
        Err(failed) => return Ok(failed.told().into()),
    };
    let (sql, session) = asked;
    match confirmation::needed(&call, &session, &sql).await? {
        Consent::Given => {}
        Consent::Asked(question) => return Ok(question.into()),
        Consent::Refused(why) => return Ok(CallFailure::Arguments(why).told().into()),
    }
    let answered = session.query(&sql).await;
    if let Some((record, role)) = &call.record {
        record(role, &sql, answered.as_ref());
    }
    let answered = match answered {
        Ok(answer) => structured::answer(&answer).map_err(|_| CallFailure::Unwritten),
        Err(error) => Err(error.into()),
    };
    Ok(answered.map_or_else(CallFailure::told, CallToolResult::structured).into())
}

/// The query, and the session with the caps of this call.
fn asked(call: &Call) -> Result<(String, Session), CallFailure> {
    let (sql, epsilon, rho) = (sql(call)?, amount(call, "epsilon")?, amount(call, "rho")?);
    if epsilon.is_none() && rho.is_none() {
        return Err(CallFailure::Arguments(
            "`epsilon` is missing: the most that this call may spend, such as 0.1".to_owned(),
        ));
    }
    let caps = call.limits.of_a_call(epsilon, rho);
    Ok((sql, call.session.clone().with_caps(caps)))
}
