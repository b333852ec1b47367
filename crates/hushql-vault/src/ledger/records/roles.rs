//! The roles of a vault: who may log in to its server, and the verifiers of their passwords.
//!
//! In: names and verifiers. Out: the same. The seal detects a row that was altered, removed or
//! added. A role is an analyst of the same name. Dropping it gives nothing back, and its charges
//! remain. Verifiers are in this table alone: no ledger entry, history entry or statement has one.
//!
//! ```text
//! role(name, verifier, may_log_in, valid_until, takes_defaults)    log_in_secret     seal('roles') = SHA-256 of all of them
//! ```

use hushql_privacy::sampler::QueryRng;
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalog::CatalogError;
use crate::catalog::grants::{self, Granted};
use crate::catalog::store::{self, Fields, SealedRows};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::analyst;

/// The table of roles, and the secret from which decoys for unknown names are made.
pub(crate) const SCHEMA: &str = "
CREATE TABLE role (
    name TEXT PRIMARY KEY NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    verifier TEXT NOT NULL,
    may_log_in INTEGER NOT NULL CHECK (may_log_in IN (0, 1)),
    valid_until INTEGER,
    takes_defaults INTEGER NOT NULL CHECK (takes_defaults IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE log_in_secret (
    number INTEGER PRIMARY KEY NOT NULL CHECK (number = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
";

/// A role.
#[derive(Clone, PartialEq, Eq)]
pub struct Role {
    /// Its name, which is that of an analyst.
    pub name: String,
    /// The verifier of its password, as a text; empty while it has no password.
    pub verifier: String,
    /// Whether it may log in.
    pub may_log_in: bool,
    /// The second since 1970 (UTC) from which on it may not log in; `None` for no end.
    pub valid_until: Option<i64>,
    /// Whether its queries may use the PER QUERY default of a budget as their cost.
    pub takes_defaults: bool,
}

/// The verifier is left out.
impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, may_log_in, valid_until, takes_defaults, verifier: _ } = self;
        let mut shown = f.debug_struct("Role");
        shown.field("name", name).field("may_log_in", may_log_in).field("valid_until", valid_until);
        shown.field("takes_defaults", takes_defaults).finish_non_exhaustive()
    }
}

impl Role {
    /// Whether it has a password.
    pub fn has_password(&self) -> bool {
        !self.verifier.is_empty()
    }

    /// Whether it may log in at this second.
    pub fn is_valid(&self, now: i64) -> bool {
        self.may_log_in && self.has_password() && self.valid_until.is_none_or(|until| now < until)
    }
}

/// All roles of one state of a vault, and the secret of the decoys.
#[derive(Clone)]
pub(crate) struct Roles {
    /// The roles by name.
    pub(crate) all: Vec<Role>,
    /// The secret.
    pub(crate) secret: Option<[u8; 32]>,
}

/// The secret is left out.
impl std::fmt::Debug for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roles").field("all", &self.all).finish_non_exhaustive()
    }
}

/// Seals a vault without roles. Its decoys have a secret from the beginning.
pub(crate) fn initialise(connection: &Connection) -> Result<(), Fault> {
    if secret(connection)?.is_none() {
        let half = || QueryRng::nonce().map_err(VaultError::Entropy);
        let secret = [half()?, half()?].concat();
        connection
            .execute("INSERT INTO log_in_secret (number, secret) VALUES (1, ?1)", [secret])?;
    }
    reseal(connection)
}

/// All roles by name, checked against the seal.
///
/// # Errors
/// [`Fault::Damage`] if a role differs from its declaration.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Role>, Fault> {
    let roles = rows(connection)?;
    store::check_seal(connection, SealedRows::Roles, digest(&roles, secret(connection)?))?;
    Ok(roles)
}

/// The secret from which decoys are made.
pub(crate) fn secret(connection: &Connection) -> Result<Option<[u8; 32]>, Fault> {
    let mut statement = connection.prepare_cached("SELECT secret FROM log_in_secret")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

/// Adds a role. The caller has checked its name, and holds the write lock.
///
/// # Errors
/// [`CatalogError::DuplicateRole`].
pub(crate) fn insert(connection: &Connection, role: &Role) -> Result<(), Fault> {
    let known = all(connection)?;
    if known.iter().any(|known| known.name == role.name) {
        return Err(CatalogError::DuplicateRole { role: role.name.clone() }.into());
    }
    analyst::add(connection, &role.name)?;
    grants::forget(connection, &Granted::Role(role.name.clone()))?;
    write(connection, role)
}

/// Changes a role; the caller holds the write lock.
///
/// # Errors
/// [`CatalogError::UnknownRole`].
pub(crate) fn change(
    connection: &Connection,
    name: &str,
    change: impl FnOnce(&mut Role),
) -> Result<(), Fault> {
    let known = all(connection)?.into_iter().find(|known| known.name == name);
    let unknown = || CatalogError::UnknownRole { role: name.to_owned() };
    let mut role = known.ok_or_else(unknown)?;
    change(&mut role);
    write(connection, &role)
}

/// Removes a role and its grants. Its charges remain. The caller holds the write lock.
///
/// # Errors
/// [`CatalogError::UnknownRole`].
pub(crate) fn delete(connection: &Connection, name: &str) -> Result<(), Fault> {
    all(connection)?;
    if connection.execute("DELETE FROM role WHERE name = ?1", [name])? == 0 {
        return Err(CatalogError::UnknownRole { role: name.to_owned() }.into());
    }
    grants::forget(connection, &Granted::Role(name.to_owned()))?;
    reseal(connection)
}

fn write(connection: &Connection, role: &Role) -> Result<(), Fault> {
    let Role { name, verifier, may_log_in, valid_until, takes_defaults } = role;
    connection.execute(
        "INSERT INTO role (name, verifier, may_log_in, valid_until, takes_defaults)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET verifier = excluded.verifier, may_log_in = excluded.may_log_in,
             valid_until = excluded.valid_until, takes_defaults = excluded.takes_defaults",
        params![name, verifier, may_log_in, valid_until, takes_defaults],
    )?;
    reseal(connection)
}

/// Seals the present roles.
fn reseal(connection: &Connection) -> Result<(), Fault> {
    let digest = digest(&rows(connection)?, secret(connection)?);
    Ok(store::set_seal(connection, SealedRows::Roles, digest)?)
}

fn rows(connection: &Connection) -> Result<Vec<Role>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT name, verifier, may_log_in, valid_until, takes_defaults FROM role ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Role {
            name: row.get(0)?,
            verifier: row.get(1)?,
            may_log_in: row.get(2)?,
            valid_until: row.get(3)?,
            takes_defaults: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn digest(roles: &[Role], secret: Option<[u8; 32]>) -> [u8; 32] {
    let mut fields = Fields::new("hushql roles 1");
    fields.bytes(secret.as_ref().map_or(&[], |secret| secret.as_slice()));
    for Role { name, verifier, may_log_in, valid_until, takes_defaults } in roles {
        fields.text(name);
        fields.text(verifier);
        fields.integer(i64::from(*may_log_in));
        fields.integer(i64::from(*takes_defaults));
        fields.optional(*valid_until);
    }
    fields.digest()
}
