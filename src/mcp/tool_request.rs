//! A call of a tool: who asks, with which limits, and for what.

use hushql::Session;
use rmcp::RoleServer;
use rmcp::model::{InputResponses, JsonObject};
use rmcp::service::RequestContext;

use super::limits::AgentLimits;
use super::recorder::Recorder;

/// A call of a tool.
pub(super) struct Call {
    pub(super) session: Session,
    pub(super) limits: AgentLimits,
    /// The audit log, and the role that it names.
    pub(super) record: Option<(Recorder, String)>,
    pub(super) arguments: JsonObject,
    pub(super) context: RequestContext<RoleServer>,
    /// What a person answered, where the request is a second attempt.
    pub(super) consent: Option<InputResponses>,
}
