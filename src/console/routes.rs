//! Which request gets which page, and which gets none.
//!
//! In: a request. Out: a response. The checks come in this order: the name of the host, so that no
//! name that a browser was led to reaches a loopback address; the origin of what is sent; the
//! session, and whether its role may still ask; the token of the form. Nothing before the session
//! reads the vault, except for the password of a log-in.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::ask;
use super::declare;
use super::entry;
use super::form::{FormFields, decoded};
use super::price;
use super::responses::{Answered, body, redirect, sentence};
use super::see;
use super::state::Console;
use super::tuning;
use super::visitors::{Visitor, same_secret};

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");

/// Answers a request.
pub(super) async fn answer(
    request: Request<Incoming>,
    console: &Arc<Console>,
    from: IpAddr,
) -> Answered {
    let (head, content) = request.into_parts();
    let path = head.uri.path().to_owned();
    if !is_own_host(&head.headers, console) {
        return sentence(StatusCode::MISDIRECTED_REQUEST, "this is not the name of this page");
    }
    match (&head.method, path.as_str()) {
        (&Method::GET, _) => {
            let query = FormFields::of(head.uri.query().unwrap_or_default().as_bytes());
            return shown(console, &head.headers, &path, &query).await;
        }
        (&Method::POST, _) => {}
        _ => return sentence(StatusCode::METHOD_NOT_ALLOWED, "GET or POST"),
    }
    if !is_own_origin(&head.headers, console) || !is_form(&head.headers) {
        return sentence(StatusCode::FORBIDDEN, "this form was sent by another page");
    }
    let Some(fields) = FormFields::read(content).await else {
        return sentence(
            StatusCode::PAYLOAD_TOO_LARGE,
            "this form is too long, or came too slowly",
        );
    };
    if path == "/log-in" {
        return entry::log_in(console, &fields, from).await;
    }
    let Some((secret, visitor)) = visitor(console, &head.headers).await else {
        return match path.as_str() {
            "/price" | "/complete" => {
                sentence(StatusCode::UNAUTHORIZED, "this session is over: log in again")
            }
            _ => redirect("/log-in"),
        };
    };
    if !same_secret(&fields.get("token"), &visitor.form_token) {
        return sentence(
            StatusCode::FORBIDDEN,
            "this form is of another session: open the page again",
        );
    }
    if path == "/log-out" {
        return entry::log_out(console, &secret);
    }
    if console.porter.is_stopping() {
        return sentence(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    }
    let Some(place) = console.place(&visitor) else {
        return sentence(
            StatusCode::TOO_MANY_REQUESTS,
            "this role has too many requests at once: try again",
        );
    };
    match path.as_str() {
        "/ask" => ask::sent(console, &visitor, &fields, place).await,
        "/price" => price::price(visitor, &fields, place).await,
        "/declare" if visitor.role.is_none() => {
            declare::sent(console, &visitor, &fields, place).await
        }
        "/tune" => tuning::sent(&visitor, &fields, place).await,
        "/complete" => price::complete(console, visitor, &fields, place).await,
        _ => sentence(StatusCode::NOT_FOUND, "there is no such page"),
    }
}

/// Answers a request that changes nothing.
async fn shown(
    console: &Arc<Console>,
    headers: &HeaderMap,
    path: &str,
    query: &FormFields,
) -> Answered {
    if let Some(secret) = path.strip_prefix("/enter/") {
        return entry::by_link(console, secret);
    }
    match path {
        "/assets/console.css" => return body(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        "/assets/console.js" => {
            return body(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT);
        }
        "/favicon.ico" => return sentence(StatusCode::NOT_FOUND, "no icon"),
        "/log-in" => return entry::form(console, StatusCode::OK, None),
        _ => {}
    }
    let Some((_, visitor)) = visitor(console, headers).await else { return redirect("/log-in") };
    let Some(_place) = console.place(&visitor) else {
        return sentence(
            StatusCode::TOO_MANY_REQUESTS,
            "this role has too many requests at once: try again",
        );
    };
    match path {
        "/" => redirect("/ask"),
        "/ask" => ask::empty(&visitor, &query.get("table")).await,
        "/budgets" => see::budgets(console, &visitor).await,
        "/budgets.svg" => see::spending(console, &visitor),
        "/tune" => tuning::empty(&visitor),
        "/links.svg" => see::links(console, &visitor).await,
        "/history" => see::history(console, &visitor).await,
        "/tables" => see::tables(console, &visitor).await,
        "/declare" if visitor.role.is_none() => declare::walk(console, &visitor, "").await,
        _ => match (path.strip_prefix("/answers/"), path.strip_prefix("/declare/")) {
            (Some(name), _) => ask::seen(console, &visitor, name).await,
            (None, Some(table)) if visitor.role.is_none() => {
                declare::walk(console, &visitor, &decoded(table)).await
            }
            (None, _) => sentence(StatusCode::NOT_FOUND, "there is no such page"),
        },
    }
}

/// Who sent a request, and the secret of the session. A role that may no longer log in is nobody.
async fn visitor(console: &Console, headers: &HeaderMap) -> Option<(String, Arc<Visitor>)> {
    let name = console.cookie();
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
    let mut own = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    let found = own.find_map(|secret| Some((secret, console.visitors.find(secret)?)));
    let (secret, visitor) = found?;
    let session = visitor.session.clone();
    let may = tokio::task::spawn_blocking(move || session.may_go_on()).await;
    match may {
        Ok(Ok(true)) => Some((secret.to_owned(), visitor)),
        Ok(Ok(false)) => {
            console.visitors.leave(secret);
            None
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether the browser knows this page by a name of this machine. On other addresses nobody knows
/// the names of the machine, and the certificate decides.
fn is_own_host(headers: &HeaderMap, console: &Console) -> bool {
    let Some(host) = text(headers, HOST) else { return false };
    let port = console.port;
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    !console.is_loopback || own.iter().any(|own| own == host)
}

/// Whether a form was sent by a page of this console. Programs that are no browsers name no origin;
/// they have no cookies of others either.
fn is_own_origin(headers: &HeaderMap, console: &Console) -> bool {
    let scheme = if console.is_secured { "https" } else { "http" };
    let own = text(headers, HOST).map(|host| format!("{scheme}://{host}"));
    let site = text(headers, HeaderName::from_static("sec-fetch-site"));
    let is_same_site = site.is_none_or(|site| site == "same-origin");
    match headers.get(ORIGIN) {
        Some(origin) => is_same_site && origin.to_str().ok() == own.as_deref(),
        None => is_same_site,
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    text(headers, CONTENT_TYPE)
        .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"))
}
