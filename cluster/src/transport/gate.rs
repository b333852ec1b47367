//! The gate before a worker's service: a request to run a plan passes only with the driver's
//! signature.
//!
//! In: a request of a client whose certificate the authority signed. Out: the same request for the
//! service, or a refusal. The service can be reached only through the gate. The gate knows requests
//! by name, and refuses unknown ones.
//!
//! | request | allowed for |
//! |---|---|
//! | run a plan | the driver: its first message is signed, for this worker and once |
//! | rows of a task | the driver and workers of the authority |
//! | version | the same |

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use super::first::first_message;
use super::{ROWS, RUN, VERSION, now};
use crate::identity::Checker;

/// How long a request may take to send its plan.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate<S> {
    service: S,
    checker: Arc<Checker>,
}

impl<S> Gate<S> {
    pub(crate) fn new(service: S, checker: Checker) -> Self {
        Self { service, checker: Arc::new(checker) }
    }
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

/// The request, if the driver signed its plan.
async fn checked(checker: &Checker, request: Request<Body>) -> Result<Request<Body>, Status> {
    let (parts, body) = request.into_parts();
    let first = tokio::time::timeout(PATIENCE, first_message(body)).await;
    let (message, body) =
        first.map_err(|_| Status::deadline_exceeded("a plan came too slowly"))??;
    let checked = checker.check(now(), &parts.headers, &message);
    checked.map_err(|problem| Status::permission_denied(problem.to_string()))?;
    Ok(Request::from_parts(parts, body))
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The instance that is ready handles this request.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        let checker = Arc::clone(&self.checker);
        async move {
            let request = match request.uri().path() {
                RUN => checked(&checker, request).await,
                ROWS | VERSION => Ok(request),
                _ => Err(Status::unimplemented("a worker has no such request")),
            };
            match request {
                Ok(request) => service.call(request).await,
                Err(status) => Ok(status.into_http()),
            }
        }
        .boxed()
    }
}
