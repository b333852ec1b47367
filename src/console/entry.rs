//! Log-ins: a role with its password, the owner with a link that works once.

use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use hushql::Session;

use super::form::FormFields;
use super::frame::bare;
use super::html::Html;
use super::porter::NotAdmitted;
use super::responses::{Answered, page, redirect, sentence, with_cookie};
use super::state::Console;

/// The page to log in on, with why the last attempt failed.
pub(super) fn form(console: &Console, status: StatusCode, failed: Option<&str>) -> Answered {
    let mut main = Html::default();
    main.markup("<h1>HushQL</h1>");
    if console.is_owners {
        main.markup("<p>This page is the owner's. Open the link that the terminal shows; it works once. <code>hushql console</code> prints another.</p>");
        return page(status, bare("Log in", &main));
    }
    if let Some(failed) = failed {
        main.element("p", &[("class", "refusal"), ("role", "alert")], failed);
    }
    main.markup("<form method=\"post\" action=\"/log-in\" class=\"stack\"><label for=\"role\">Role</label><input id=\"role\" name=\"role\" autocomplete=\"username\" autocapitalize=\"none\" spellcheck=\"false\" required autofocus><label for=\"password\">Password</label><input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required><button>Log in</button></form>");
    page(status, bare("Log in", &main))
}

/// Logs a role in.
pub(super) async fn log_in(console: &Arc<Console>, fields: &FormFields, from: IpAddr) -> Answered {
    if console.is_owners {
        return form(console, StatusCode::FORBIDDEN, None);
    }
    let (role, password) = (fields.get("role"), fields.get("password"));
    let (porter, name) = (Arc::clone(&console.porter), role.clone());
    let admitted = tokio::task::spawn_blocking(move || porter.admit(&name, &password, from)).await;
    let failed = match admitted {
        Ok(Ok(analyst)) => return entered(console, analyst.into(), Some(role)),
        Ok(Err(failed)) => failed,
        Err(_) => NotAdmitted::Unreadable,
    };
    let (status, sentence) = match failed {
        NotAdmitted::Wrong => (
            StatusCode::UNAUTHORIZED,
            "The role or the password is wrong, or the role may not log in.",
        ),
        NotAdmitted::Later => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many log-ins of this address failed or wait: try again later.",
        ),
        NotAdmitted::Unreadable => (StatusCode::SERVICE_UNAVAILABLE, "The vault cannot be read."),
    };
    form(console, status, Some(sentence))
}

/// Lets the owner in, who has the link.
pub(super) fn by_link(console: &Console, secret: &str) -> Answered {
    match console.is_owners && console.takes_link(secret) {
        true => entered(console, console.porter.engine().owner().into(), None),
        false => form(console, StatusCode::FORBIDDEN, None),
    }
}

fn entered(console: &Console, session: Session, role: Option<String>) -> Answered {
    match console.visitors.enter(session, role, console.of_a_role) {
        Some(secret) => {
            with_cookie(redirect("/ask"), &console.cookie(), &secret, console.is_secured)
        }
        None => sentence(StatusCode::SERVICE_UNAVAILABLE, "the system has no randomness"),
    }
}

/// Ends a session.
pub(super) fn log_out(console: &Console, secret: &str) -> Answered {
    console.visitors.leave(secret);
    with_cookie(redirect("/log-in"), &console.cookie(), "", console.is_secured)
}
