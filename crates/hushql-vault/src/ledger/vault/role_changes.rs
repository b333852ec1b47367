//! The roles of a vault: created, changed, dropped, and looked up at a log-in.
//!
//! In: requests of the owner, and names at log-ins. Out: the rows that [`roles`] stores. Each
//! method is one transaction. The history records which roles were created, changed and dropped,
//! but nothing of their passwords.

use std::sync::Arc;

use rusqlite::Connection;

use crate::catalog::store::{self, SealedRows};
use crate::catalog::{CatalogError, TableRules, grants};
use crate::ledger::error::VaultError;
use crate::ledger::records::roles::{self, Role, Roles};
use crate::ledger::records::{analyst, answers, history, time};
use crate::ledger::vault::Vault;

/// How often a role may change its own password on one day. The history keeps each change forever.
const MOST_CHANGES_A_DAY: i64 = 20;

/// A change of a role; `None` leaves a property unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleChange {
    /// The new verifier, as a text.
    pub verifier: Option<String>,
    /// Whether the role may log in.
    pub may_log_in: Option<bool>,
    /// The end of its log-in, in seconds since 1970 (UTC); `Some(None)` for no end.
    pub valid_until: Option<Option<i64>>,
    /// Whether its queries may use the default of a budget as their cost.
    pub takes_defaults: Option<bool>,
    /// Whether it may call templates, and nothing else.
    pub templates_only: Option<bool>,
}

/// The data that a log-in is compared with. It has a secret, and is not shown.
pub struct ToLogIn {
    /// The role of this name.
    pub role: Option<Role>,
    /// Whether it may log in now.
    pub may_log_in: bool,
    /// The secret of the decoys.
    pub secret: Option<[u8; 32]>,
}

impl std::fmt::Debug for ToLogIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToLogIn")
    }
}

impl Vault {
    /// Creates a role, and admits its name as that of an analyst.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] for a name that no analyst can have; [`VaultError::Catalog`] if
    /// the role exists already.
    pub fn create_role(&self, role: &Role) -> Result<(), VaultError> {
        self.create_limited_role(role, false)
    }

    /// As [`Vault::create_role`]; the role may be limited to templates from its first moment on.
    ///
    /// # Errors
    /// As [`Vault::create_role`].
    pub fn create_limited_role(&self, role: &Role, to_templates: bool) -> Result<(), VaultError> {
        analyst::admit(&role.name)?;
        let limit = if to_templates { ", may only call templates" } else { "" };
        let words = format!("role {}: created{limit}", role.name);
        self.declare_as(vec![words], |connection, _| {
            roles::insert(connection, role)?;
            Ok(grants::limit_to_templates(connection, &role.name, to_templates)?)
        })
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the role does not exist.
    pub fn alter_role(&self, name: &str, change: RoleChange) -> Result<(), VaultError> {
        let RoleChange { verifier, may_log_in, valid_until, takes_defaults, templates_only } =
            change;
        let words = [
            verifier.is_some().then(|| format!("role {name}: new password")),
            may_log_in.map(|may| match may {
                true => format!("role {name}: may log in"),
                false => format!("role {name}: may not log in"),
            }),
            valid_until.map(|_| format!("role {name}: new time of expiry")),
            takes_defaults.map(|takes| match takes {
                true => format!("role {name}: takes the defaults of budgets"),
                false => format!("role {name}: takes no defaults of budgets"),
            }),
            templates_only.map(|only| match only {
                true => format!("role {name}: may only call templates"),
                false => format!("role {name}: is not limited to templates"),
            }),
        ];
        self.declare_as(words.into_iter().flatten().collect(), |connection, _| {
            roles::change(connection, name, |role| {
                role.may_log_in = may_log_in.unwrap_or(role.may_log_in);
                role.valid_until = valid_until.unwrap_or(role.valid_until);
                role.takes_defaults = takes_defaults.unwrap_or(role.takes_defaults);
                if let Some(verifier) = verifier {
                    role.verifier = verifier;
                }
            })?;
            if let Some(is_limited) = templates_only {
                grants::limit_to_templates(connection, name, is_limited)?;
            }
            Ok(())
        })
    }

    /// Gives a role another password, at the request of a client that is logged in as this role.
    /// The role must be allowed to log in now, and must be the one that the client means. Otherwise
    /// returns `false` and writes nothing.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if a role was altered, or the file cannot be written.
    pub fn change_own_password(
        &self,
        name: &str,
        verifier: &str,
        is_meant: impl FnOnce(&Role) -> bool,
    ) -> Result<bool, VaultError> {
        self.write(|connection, _| {
            let role = roles::all(connection)?.into_iter().find(|role| role.name == name);
            let now = time::now()?;
            if history::number_today(connection, name)? >= MOST_CHANGES_A_DAY {
                return Err(VaultError::EnoughPasswords { most: MOST_CHANGES_A_DAY }.into());
            }
            if !role.is_some_and(|role| role.is_valid(now) && is_meant(&role)) {
                return Ok(false);
            }
            roles::change(connection, name, |role| verifier.clone_into(&mut role.verifier))?;
            history::append(connection, name, vec![format!("role {name}: new password")])?;
            Ok(true)
        })
    }

    /// Drops a role. The analyst of this name and their charges remain, in budgets and slices. The
    /// owner and the analysts with grants keep access to their release tables. Grants to the
    /// dropped role end.
    ///
    /// # Guarantee
    /// Another role of this name sees none of the earlier tables, kept draws and texts, and has no
    /// export folder.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if the role does not exist, or rules of a table name it.
    pub fn drop_role(&self, name: &str) -> Result<(), VaultError> {
        let words = format!("role {name}: dropped");
        self.declare_as(vec![words], |connection, witness| {
            roles::delete(connection, name)?;
            // Another role of this name would not be bound by the rules that named this one.
            let catalog = store::load(connection)?;
            if let Some(table) = catalog.rules_name(name).first() {
                let drop = TableRules { role: Some(name.to_owned()), ..TableRules::default() };
                return Err(CatalogError::Declaration {
                    table: (*table).to_owned(),
                    reason: format!(
                        "its rules bind role {name}: write {} first",
                        drop.drop_statement(table)
                    ),
                }
                .into());
            }
            witness.advance(connection)?;
            answers::leave(connection, name, witness.mark().sequence)?;
            Ok(store::set_export(connection, name, None)?)
        })
    }

    /// All roles, by name.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if one was altered, or the file cannot be read.
    pub fn roles(&self) -> Result<Vec<Role>, VaultError> {
        self.read(|connection, _| roles::all(connection))
    }

    /// True if queries of this analyst may use the PER QUERY default of a budget as their cost. An
    /// analyst without a role may.
    ///
    /// # Errors
    /// As [`Vault::roles`].
    pub fn takes_defaults(&self, analyst: &str) -> Result<bool, VaultError> {
        let known = self.known_roles()?;
        Ok(known
            .all
            .iter()
            .find(|role| role.name == analyst)
            .is_none_or(|role| role.takes_defaults))
    }

    /// The data that a log-in under this name is compared with. The same data is read, whether or
    /// not the role exists.
    ///
    /// # Errors
    /// As [`Vault::roles`].
    pub fn role_to_log_in(&self, name: &str) -> Result<ToLogIn, VaultError> {
        let known = self.known_roles()?;
        let role = known.all.iter().find(|role| role.name == name).cloned();
        let now = time::now()?;
        let may_log_in = role.as_ref().is_some_and(|role| role.is_valid(now));
        Ok(ToLogIn { role, may_log_in, secret: known.secret })
    }

    /// The present roles. Cheap if nothing has changed since the last call, because the server
    /// calls it before each statement.
    fn known_roles(&self) -> Result<Arc<Roles>, VaultError> {
        let seal = |connection: &Connection| Ok(store::seal(connection, SealedRows::Roles)?);
        self.known(&self.roles, seal, |connection| {
            Ok(Roles { all: roles::all(connection)?, secret: roles::secret(connection)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(may_log_in: bool, valid_until: Option<i64>) -> Vault {
        let vault = Vault::in_memory().unwrap();
        let (name, verifier) = ("lab".to_owned(), "one".to_owned());
        let role = Role { name, verifier, may_log_in, valid_until, takes_defaults: true };
        vault.create_role(&role).unwrap();
        vault
    }

    #[test]
    fn a_password_is_changed_for_whoever_is_meant() {
        let changes = |vault: &Vault, is_meant: bool| {
            let before = (vault.roles().unwrap(), vault.declarations().unwrap());
            let done = vault.change_own_password("lab", "other", |_| is_meant).unwrap();
            let after = (vault.roles().unwrap(), vault.declarations().unwrap());
            assert_eq!(done, before != after);
            done
        };
        assert!(!changes(&vault(true, None), false));
        assert!(!changes(&vault(false, None), true));
        assert!(!changes(&vault(true, Some(1)), true));
        let vault = vault(true, Some(i64::MAX));
        assert!(!vault.change_own_password("eve", "other", |_| true).unwrap());
        assert!(changes(&vault, true));
        assert_eq!(vault.roles().unwrap()[0].verifier, "other");
        let last = vault.declarations().unwrap().pop().unwrap();
        assert_eq!((&*last.analyst, &*last.change), ("lab", "role lab: new password"));
    }

    /// The number of password changes per day is limited, because the history keeps each change
    /// forever.
    #[test]
    fn a_password_is_changed_so_often_a_day() {
        let vault = vault(true, None);
        for number in 0..MOST_CHANGES_A_DAY {
            let done = vault.change_own_password("lab", &format!("{number}"), |_| true);
            assert!(done.unwrap());
        }
        let refused = vault.change_own_password("lab", "other", |_| true).unwrap_err();
        assert!(matches!(refused, VaultError::EnoughPasswords { .. }), "{refused}");
        // Changes by the owner do not count.
        let change = RoleChange { verifier: Some("two".to_owned()), ..RoleChange::default() };
        vault.alter_role("lab", change).unwrap();
    }

    #[test]
    fn what_a_log_in_is_compared_with_is_that_of_now() {
        let vault = vault(true, None);
        let looked = |vault: &Vault| {
            let ToLogIn { role, may_log_in, secret } = vault.role_to_log_in("lab").unwrap();
            (role.map(|role| role.verifier), may_log_in, secret)
        };
        let (verifier, may, secret) = looked(&vault);
        assert_eq!((verifier.as_deref(), may), (Some("one"), true));
        assert!(secret.is_some());
        assert_eq!(looked(&vault), (verifier, may, secret));
        let change = RoleChange { verifier: Some("two".to_owned()), ..RoleChange::default() };
        vault.alter_role("lab", change).unwrap();
        assert_eq!(looked(&vault), (Some("two".to_owned()), true, secret));
        let past = RoleChange { valid_until: Some(Some(1)), ..RoleChange::default() };
        vault.alter_role("lab", past).unwrap();
        assert_eq!(looked(&vault), (Some("two".to_owned()), false, secret));
        vault.drop_role("lab").unwrap();
        assert_eq!(looked(&vault), (None, false, secret));
    }

    #[test]
    fn a_role_without_a_password_may_not_log_in() {
        let vault = Vault::in_memory().unwrap();
        let role = Role {
            name: "lab".to_owned(),
            verifier: String::new(),
            may_log_in: true,
            valid_until: None,
            takes_defaults: true,
        };
        vault.create_role(&role).unwrap();
        assert!(!vault.role_to_log_in("lab").unwrap().may_log_in);
    }
}
