//! What the console needs of the server that it stands in: who may enter, and what is recorded.

use std::net::IpAddr;

use hushql::{Analyst, Answer, Engine, Error};

/// Why nobody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The password is wrong, or there is no such role.
    Wrong,
    /// Too many log-ins of this address failed or wait.
    Later,
    /// The vault cannot be read.
    Unreadable,
}

/// The server behind the console.
pub(crate) trait Porter: Send + Sync {
    /// The engine that answers.
    fn engine(&self) -> &Engine;

    /// The session of a role that names its password. It waits for its turn, as log-ins over the
    /// wire do, so it may block for seconds.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, role: &str, password: &str, from: IpAddr) -> Result<Analyst, NotAdmitted>;

    /// Records a statement of a role, or of the owner (`None`), and its outcome.
    fn record(&self, role: Option<&str>, sql: &str, answered: Result<Option<&Answer>, &Error>);

    /// Whether the server takes no more statements.
    fn is_stopping(&self) -> bool;
}
