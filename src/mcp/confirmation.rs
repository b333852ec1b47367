//! Asks a person before a charge beyond a stated share of a day's cap.
//!
//! In: a query. Out: whether it may be asked. A client of 2025 is asked at once; one of 2026 gets
//! the question as a result and calls again with the answer. A client may answer by itself: the
//! caps are what holds, and this is a courtesy to the person beside it.

use hushql::{Error, Session};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, ErrorData,
    InputRequest, InputRequests, InputRequiredResult, ProtocolVersion,
};
use serde_json::Value;

use super::tool_request::Call;

/// The name of the question.
const QUESTION: &str = "spend";

/// The field of its answer.
const FIELD: &str = "allow";

/// Whether a query may be asked.
pub(super) enum Consent {
    /// It may.
    Given,
    /// The client has to ask a person first, and to call again.
    Asked(InputRequiredResult),
    /// It may not, for this reason.
    Refused(String),
}

/// Whether a query needs consent, and has it.
///
/// # Errors
/// An error of the protocol.
pub(super) async fn needed(
    call: &Call,
    session: &Session,
    sql: &str,
) -> Result<Consent, ErrorData> {
    let caps = call.limits.of_a_call(None, None);
    let Some(share) = call.limits.without_consent(caps) else { return Ok(Consent::Given) };
    let (whole, query) = (session.clone(), sql.to_owned());
    // The cap of the call itself is checked with the charge.
    let small =
        session.clone().with_caps(hushql::ChargeCaps { statement: None, stated: None, ..share });
    let looked = move || (whole.cost(&query), small.cost(&query));
    let looked = tokio::task::spawn_blocking(looked).await;
    let (cost, within) =
        looked.map_err(|_| ErrorData::internal_error("the query cannot be priced", None))?;
    // What would be refused anyway is refused by the query itself.
    let Ok(cost) = cost else { return Ok(Consent::Given) };
    if !matches!(within, Err(Error::Budget(_))) {
        return Ok(Consent::Given);
    }
    let question = format!(
        "An agent asks to spend {} of what may be learnt about people, beyond the share that needs no consent. The query: {}",
        cost.neat(),
        hushql_engine::visible::line(sql)
    );
    match answer(call, question).await? {
        Some(consent) => Ok(consent),
        None => Ok(Consent::Refused(
            "a person has to allow this charge first, and this client cannot ask one: spend less, or ask the owner to start the server with another --confirm".to_owned(),
        )),
    }
}

/// The answer of a person; `None` if the client cannot ask.
async fn answer(call: &Call, question: String) -> Result<Option<Consent>, ErrorData> {
    let declined = || Consent::Refused("a person declined this charge".to_owned());
    if let Some(answers) = &call.consent {
        let answer = answers.get(QUESTION);
        let accepted = answer.is_some_and(|answer| {
            answer.get("action") == Some(&Value::from("accept"))
                && answer.get("content").and_then(|content| content.get(FIELD))
                    == Some(&Value::Bool(true))
        });
        return Ok(Some(if accepted { Consent::Given } else { declined() }));
    }
    let schema = ElicitationSchema::builder().required_bool(FIELD).build();
    let schema = schema.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let asked = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question,
        requested_schema: schema,
    };
    let version = call.context.protocol_version();
    if version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()) {
        let asked = InputRequest::Elicitation(ElicitRequest::new(asked));
        let questions = InputRequests::from([(QUESTION.to_owned(), asked)]);
        return Ok(Some(Consent::Asked(InputRequiredResult::new(Some(questions), None))));
    }
    let able = call.context.peer.peer_info();
    if able.is_none_or(|client| client.capabilities.elicitation.is_none()) {
        return Ok(None);
    }
    let Ok(given) = call.context.peer.create_elicitation(asked).await else { return Ok(None) };
    let allows = given.content.as_ref().and_then(|content| content.get(FIELD));
    let accepted = given.action == ElicitationAction::Accept && allows == Some(&Value::Bool(true));
    Ok(Some(if accepted { Consent::Given } else { declined() }))
}
