//! A server for language models that ask and never see: the Model Context Protocol, by its official
//! SDK. A guest of the library, like the shell and the server.
//!
//! In: requests of a client, on standard input and output or over HTTP. Out: tools that list
//! tables, tell the price of a query, ask it, and show budgets and release tables. Every tool is a
//! statement of an analyst's session: the engine alone decides what leaves, and charges it. Caps
//! that the owner sets bound each call and each day, whatever the statements name.
//!
//! ```text
//! client ─▶ stdio ──────────────▶ agent ─▶ tool_calls ─▶ hushql::Session ─▶ structured
//!        └▶ http_endpoint (token) ─┘           └▶ confirmation: a person is asked first
//! ```

mod agent;
mod confirmation;
mod http_endpoint;
mod limits;
mod recorder;
mod reference_texts;
mod structured;
mod tool_calls;
mod tool_list;
mod tool_request;

use hushql::Session;
use rmcp::ServiceExt;

use self::agent::{Agent, Asks};
pub(crate) use self::http_endpoint::{Endpoint, serve};
pub(crate) use self::limits::{AgentLimits, AmountOf};

/// Serves one client on standard input and output, until it closes them.
///
/// # Errors
/// A sentence, if the client does not speak the protocol.
pub(crate) async fn on_standard_streams(
    session: Session,
    limits: AgentLimits,
) -> Result<(), String> {
    let agent = Agent::new(Asks::One(Box::new(session)), limits);
    let serving = agent.serve(rmcp::transport::stdio()).await;
    let serving = serving.map_err(|error| {
        format!("the client does not speak the Model Context Protocol: {error}")
    })?;
    serving.waiting().await.map(drop).map_err(|error| error.to_string())
}
