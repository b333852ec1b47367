//! Roles: who may log in to the server.
//!
//! In: parsed declarations. Out: one sentence each, without the password. The vault stores the
//! verifier of a password. A verifier that a client made, as psql's `\password` does, is stored as
//! it is. Every other verifier has the salt that a log-in under this name is sent in any case, so
//! that an observer of log-ins does not see a role come, go or change. A logged-in role may give
//! itself another password, and change nothing else.
//!
//! ```text
//! CREATE ROLE lab LOGIN PASSWORD 'a long one'   →   role lab may log in
//! ```

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

use crate::catalog::quoted_analyst;
use crate::dialect::{Password, RoleClause};
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{Role, RoleChange};
use crate::owner::declaration_script::text;
use crate::scram::{Fingerprint, Verifier, salt_of};

/// The fewest and the most characters of a password.
const FEWEST: usize = 8;
const MOST: usize = 256;

/// Creates a role.
pub(super) fn create(
    inner: &Inner,
    name: &str,
    options: &RoleClause,
    if_not_exists: bool,
) -> Result<String, Error> {
    if if_not_exists && inner.vault.roles()?.iter().any(|role| role.name == name) {
        return Ok(format!("there is a role {name} already; it stays as it is"));
    }
    let valid_until = options.valid_until.as_deref().map(time).transpose()?.flatten();
    let may_log_in = options.login.unwrap_or(true);
    let verifier = options.password.as_ref().map(|password| verifier(inner, name, password));
    let verifier = verifier.transpose()?.unwrap_or_default();
    let takes_defaults = options.defaults.unwrap_or(true);
    let role = Role { name: name.to_owned(), verifier, may_log_in, valid_until, takes_defaults };
    let templates_only = options.templates_only.unwrap_or(false);
    inner.vault.create_limited_role(&role, templates_only)?;
    Ok(format!("role {name}: {}{}", told(&role), limited(templates_only)))
}

/// Changes a role.
pub(super) fn alter(inner: &Inner, name: &str, options: &RoleClause) -> Result<String, Error> {
    let verifier = options.password.as_ref().map(|password| verifier(inner, name, password));
    let change = RoleChange {
        verifier: verifier.transpose()?,
        may_log_in: options.login,
        valid_until: options.valid_until.as_deref().map(time).transpose()?,
        takes_defaults: options.defaults,
        templates_only: options.templates_only,
    };
    let password = if change.verifier.is_some() { ", with a new password" } else { "" };
    inner.vault.alter_role(name, change)?;
    let role = inner.vault.roles()?.into_iter().find(|role| role.name == name);
    let role = role.ok_or(Error::Internal)?;
    let is_limited = inner.vault.catalog()?.grants().is_templates_only(name);
    Ok(format!("role {name}: {}{password}{}", told(&role), limited(is_limited)))
}

/// Gives the role that is logged in another password, and returns the password's fingerprint.
///
/// # Errors
/// [`Error::LogIn`] if the role may no longer log in, or if its password is no longer the one with
/// which it logged in.
pub(crate) fn change_own(
    inner: &Inner,
    name: &str,
    password: &Password,
    before: &Fingerprint,
) -> Result<Fingerprint, Error> {
    let verifier = verifier(inner, name, password)?;
    let of = |verifier: &str| Verifier::read(verifier).map(|verifier| verifier.fingerprint());
    let after = of(&verifier).ok_or(Error::Internal)?;
    let is_meant = |role: &Role| of(&role.verifier).is_some_and(|found| found == *before);
    match inner.vault.change_own_password(name, &verifier, is_meant)? {
        true => Ok(after),
        false => Err(Error::LogIn),
    }
}

/// What a role that is limited to templates is told beside.
fn limited(is_limited: bool) -> &'static str {
    match is_limited {
        true => "; it calls the templates that are granted to it, and nothing else",
        false => "",
    }
}

/// The statement that creates a role, with or without the verifier of its password.
pub(super) fn statement(role: &Role, with_verifier: bool, templates_only: bool) -> String {
    let Role { name, verifier, may_log_in, valid_until, takes_defaults } = role;
    let mut statement = format!("CREATE ROLE {}", quoted_analyst(name));
    statement.push_str(if *may_log_in { " LOGIN" } else { " NOLOGIN" });
    statement.push_str(if *takes_defaults { "" } else { " NODEFAULTS" });
    statement.push_str(if templates_only { " TEMPLATES ONLY" } else { "" });
    if with_verifier && role.has_password() {
        statement.push_str(&format!(" PASSWORD {}", text(verifier)));
    }
    if let Some(until) = valid_until.and_then(|until| DateTime::from_timestamp(until, 0)) {
        statement.push_str(&format!(" VALID UNTIL {}", text(&until.naive_utc().to_string())));
    }
    statement
}

/// The statement that gives an existing role these options, and limits it to templates or no longer
/// if that changes. Its password stays.
pub(super) fn alteration(role: &Role, templates_only: Option<bool>) -> String {
    let Role { name, verifier: _, may_log_in, valid_until, takes_defaults } = role;
    let login = if *may_log_in { "LOGIN" } else { "NOLOGIN" };
    let defaults = if *takes_defaults { "DEFAULTS" } else { "NODEFAULTS" };
    let until = valid_until.and_then(|until| DateTime::from_timestamp(until, 0));
    let until = until.map_or("infinity".to_owned(), |until| until.naive_utc().to_string());
    let limit = match templates_only {
        Some(true) => " TEMPLATES ONLY",
        Some(false) => " NOT TEMPLATES ONLY",
        None => "",
    };
    let name = quoted_analyst(name);
    format!("ALTER ROLE {name} {login} {defaults}{limit} VALID UNTIL {}", text(&until))
}

/// Drops a role.
pub(super) fn drop(inner: &Inner, name: &str, if_exists: bool) -> Result<String, Error> {
    if if_exists && !inner.vault.roles()?.iter().any(|role| role.name == name) {
        return Ok(format!("there is no role {name}"));
    }
    inner.vault.drop_role(name)?;
    Ok(format!("role {name} is dropped; its charges remain"))
}

fn told(role: &Role) -> String {
    let until = role.valid_until.and_then(|until| DateTime::from_timestamp(until, 0));
    let until = until.map_or_else(String::new, |until| format!(" until {} UTC", until.naive_utc()));
    let may = match (role.may_log_in, role.has_password()) {
        (false, _) => "may not log in".to_owned(),
        (true, true) => format!("may log in{until}"),
        (true, false) => format!(
            "may log in{until}, once it has a password: ALTER ROLE {} PASSWORD 'a long one'",
            quoted_analyst(&role.name)
        ),
    };
    match role.takes_defaults {
        true => may,
        false => format!("{may}; its queries name their mechanisms"),
    }
}

/// The verifier of a password for a role of this name.
///
/// # Guarantee
/// A log-in under this name is sent the same salt before and after, unless a client made the
/// verifier.
fn verifier(inner: &Inner, name: &str, password: &Password) -> Result<String, Error> {
    if let Some(made) = Verifier::read(password.text()) {
        return Ok(made.text());
    }
    let text = password.text();
    if ["SCRAM-SHA-256$", "md5"].iter().any(|begin| text.starts_with(begin)) {
        return Err(Error::catalog(
            "a verifier must be of SCRAM-SHA-256, with 4096 rounds and a salt of 16 bytes: write the password itself instead",
        ));
    }
    // Clients normalize other characters before they hash them, and differ in how they do it.
    let plain = text.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
    if !plain || !(FEWEST..=MOST).contains(&text.len()) {
        return Err(Error::catalog(format!(
            "a password has {FEWEST} to {MOST} characters, each a letter without accents, a digit, a space or a sign of ASCII"
        )));
    }
    let asked = inner.vault.role_to_log_in(name)?;
    let known = asked.role.and_then(|role| Verifier::read(&role.verifier));
    let verifier = match (known, asked.secret) {
        (Some(known), _) => known.with_password(text),
        (None, Some(secret)) => Some(Verifier::of_password(text, salt_of(&secret, name))),
        (None, None) => None,
    };
    Ok(verifier.ok_or(Error::Internal)?.text())
}

/// A time in UTC, in seconds since 1970. `None` for `infinity`.
fn time(text: &str) -> Result<Option<i64>, Error> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let plain = text.strip_suffix("UTC").or_else(|| text.strip_suffix('Z')).unwrap_or(text).trim();
    let formats = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"];
    let moment =
        formats.iter().find_map(|format| NaiveDateTime::parse_from_str(plain, format).ok());
    let day = || NaiveDate::parse_from_str(plain, "%Y-%m-%d").ok();
    let moment = moment.or_else(|| Some(day()?.and_time(NaiveTime::MIN)));
    let moment = moment.ok_or_else(|| {
        Error::catalog("VALID UNTIL takes a time in UTC, such as '2027-01-01 12:00', or 'infinity'")
    })?;
    Ok(Some(moment.and_utc().timestamp()))
}
