//! Pages for browsers, beside the server: the same log-ins, limits and records.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hushql::{Analyst, Answer, Engine, Error};

use super::connections::{House, count};
use super::recorded;
use super::tls::Tls;
use crate::console::{ConsoleAt, NotAdmitted, Porter, Presentation};

/// The time limit for a log-in, as on the wire.
const TO_LOG_IN: Duration = Duration::from_secs(15);

struct ConsoleGate(Arc<House>);

/// Serves browsers, and returns the bound address, and the path of the owner's link.
pub(super) async fn pages(
    house: &Arc<House>,
    (address, is_owners): (SocketAddr, bool),
    presentation: Presentation,
) -> Result<(SocketAddr, Option<String>), String> {
    let at = ConsoleAt {
        address,
        tls: house.tls.as_ref().map(Tls::for_http),
        connections: house.limits.connections,
        of_a_role: house.limits.of_a_role,
        is_owners,
    };
    crate::console::serve(at, Arc::new(ConsoleGate(Arc::clone(house))), presentation).await
}

impl Porter for ConsoleGate {
    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn admit(&self, role: &str, password: &str, from: IpAddr) -> Result<Analyst, NotAdmitted> {
        let house = &self.0;
        let log_in = house.engine.log_in(role).map_err(|_| NotAdmitted::Unreadable)?;
        let Some(turn) = house.turn_of(from, Instant::now() + TO_LOG_IN) else {
            count(&house.counts.refused_connections);
            return Err(NotAdmitted::Later);
        };
        match log_in.with_password(password) {
            Ok(analyst) => {
                house.record_log_in(role, Some(from), "00000");
                Ok(analyst)
            }
            Err(Error::LogIn) => {
                turn.failed();
                count(&house.counts.failed_log_ins);
                house.record_log_in(role, Some(from), "28P01");
                Err(NotAdmitted::Wrong)
            }
            Err(_) => Err(NotAdmitted::Unreadable),
        }
    }

    fn record(&self, role: Option<&str>, sql: &str, answered: Result<Option<&Answer>, &Error>) {
        recorded::statement(&self.0, role, sql, answered);
    }

    fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }
}
