//! Records statements of guests that answer in another protocol.

use hushql::{Answer, Error};

use super::connections::{House, count};
use super::sqlstate;
use super::statement_kind::StatementText;

/// Records a statement of a role, or of the owner (`None`), and its outcome.
pub(super) fn statement(
    house: &House,
    role: Option<&str>,
    sql: &str,
    answered: Result<Option<&Answer>, &Error>,
) {
    count(&house.counts.statements);
    let Some(audit) = &house.audit else { return };
    let code = answered.err().map(|error| sqlstate::told(error, sql, None, role.is_none()).code);
    let receipt = answered.ok().flatten().and_then(Answer::receipt);
    let code = code.as_deref().unwrap_or("00000");
    // The answer is paid for: a full disk must not withhold it from the client.
    let _ = audit.statement(role.unwrap_or("owner"), &StatementText::of(sql), code, receipt);
}
