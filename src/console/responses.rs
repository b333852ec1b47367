//! Responses, each with the headers that keep a page to itself.
//!
//! No page runs a script or a style but the console's own, is shown in a frame, or is kept by a
//! cache. No other site learns an address.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use super::html::Html;

/// A response.
pub(super) type Answered = Response<Full<Bytes>>;

/// What a page may load and do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A response of this type.
pub(super) fn body(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answered {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        // With `no-referrer`, browsers do not say where a form comes from either.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "interest-cohort=(), browsing-topics=()"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A page.
pub(super) fn page(status: StatusCode, page: Html) -> Answered {
    body(status, "text/html; charset=utf-8", page.into_text())
}

/// A value for the script of the page.
pub(super) fn json(value: &Value) -> Answered {
    body(StatusCode::OK, "application/json", value.to_string())
}

/// A sentence.
pub(super) fn sentence(status: StatusCode, sentence: &'static str) -> Answered {
    let mut response = body(status, "text/plain; charset=utf-8", sentence);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}

/// Sends the browser to another page by GET.
pub(super) fn redirect(to: &str) -> Answered {
    let mut response = body(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// A file to store.
pub(super) fn file(kind: &'static str, name: &str, content: impl Into<Bytes>) -> Answered {
    let mut response = body(StatusCode::OK, kind, content);
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    response
}

/// The same response, which sets a cookie, or removes it if `secret` is empty.
pub(super) fn with_cookie(
    mut response: Answered,
    name: &str,
    secret: &str,
    is_secured: bool,
) -> Answered {
    let secure = if is_secured { "; Secure" } else { "" };
    let age = if secret.is_empty() { "; Max-Age=0" } else { "" };
    let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
