//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::porter::Porter;
use super::presentation::Presentation;
use super::visitors::{Visitor, Visitors, same_secret};

/// The console of a server.
pub(super) struct Console {
    pub(super) porter: Arc<dyn Porter>,
    pub(super) presentation: Presentation,
    pub(super) visitors: Visitors,
    /// The port that it listens on.
    pub(super) port: u16,
    pub(super) is_loopback: bool,
    pub(super) is_secured: bool,
    /// The most sessions of a role, and the most requests of it at once.
    pub(super) of_a_role: usize,
    /// Whether the owner enters here, by a link, instead of roles.
    pub(super) is_owners: bool,
    /// The secret of the owner's link, until it is used.
    pub(super) link: Mutex<Option<String>>,
    pub(super) places: Mutex<HashMap<Option<String>, Arc<Semaphore>>>,
}

impl Console {
    /// The name of the cookie. Cookies do not know ports, so it has the port.
    pub(super) fn cookie(&self) -> String {
        let prefix = if self.is_secured { "__Host-" } else { "" };
        format!("{prefix}hushql-{}", self.port)
    }

    /// Takes the owner's link, which works once.
    pub(super) fn takes_link(&self, secret: &str) -> bool {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.take_if(|link| same_secret(link, secret)).is_some()
    }

    /// A place for one more request of this visitor; `None` if the role has too many at once.
    pub(super) fn place(&self, visitor: &Visitor) -> Option<OwnedSemaphorePermit> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let of_role = places
            .entry(visitor.role.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.of_a_role)));
        Arc::clone(of_role).try_acquire_owned().ok()
    }
}
