//! The roles of a vault: created, changed, dropped, and looked up when somebody logs in.
//!
//! In: requests of the owner, and names of those who log in. Out: what [`roles`] keeps. Each method is one transaction. The
//! history says which roles were created, changed and dropped, and nothing of their passwords.

use crate::ledger::error::VaultError;
use crate::ledger::records::roles::{self, Role};
use crate::ledger::records::{analyst, time};
use crate::ledger::vault::Vault;

/// A change of a role; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RoleChange {
    /// The new verifier, as a text.
    pub(crate) verifier: Option<String>,
    /// Whether the role may log in.
    pub(crate) may_log_in: Option<bool>,
    /// Until when, in seconds since 1970 (UTC); `Some(None)` for ever.
    pub(crate) valid_until: Option<Option<i64>>,
}

/// What a log-in is compared with; it has a secret, and is not shown.
pub(crate) struct ToLogIn {
    /// The role of this name.
    pub(crate) role: Option<Role>,
    /// Whether it may log in now.
    pub(crate) may_log_in: bool,
    /// The secret of the decoys.
    pub(crate) secret: Option<[u8; 32]>,
}

impl Vault {
    /// Creates a role, and admits its name as that of an analyst.
    ///
    /// # Errors
    /// [`VaultError::AnalystName`] for a name that no analyst can have; [`VaultError::Catalog`] if there is such a role.
    pub(crate) fn create_role(&self, role: &Role) -> Result<(), VaultError> {
        analyst::admit(&role.name)?;
        let words = format!("role {}: created", role.name);
        self.declare_as(vec![words], |connection, _| roles::insert(connection, role))
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if there is no such role.
    pub(crate) fn alter_role(&self, name: &str, change: RoleChange) -> Result<(), VaultError> {
        let RoleChange { verifier, may_log_in, valid_until } = change;
        let words = [
            verifier.is_some().then(|| format!("role {name}: new password")),
            may_log_in.map(|may| match may {
                true => format!("role {name}: may log in"),
                false => format!("role {name}: may not log in"),
            }),
            valid_until.map(|_| format!("role {name}: new time of expiry")),
        ];
        self.declare_as(words.into_iter().flatten().collect(), |connection, _| {
            roles::change(connection, name, |role| {
                role.may_log_in = may_log_in.unwrap_or(role.may_log_in);
                role.valid_until = valid_until.unwrap_or(role.valid_until);
                if let Some(verifier) = verifier {
                    role.verifier = verifier;
                }
            })
        })
    }

    /// Drops a role. The analyst of this name and their charges remain.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if there is no such role.
    pub(crate) fn drop_role(&self, name: &str) -> Result<(), VaultError> {
        let words = format!("role {name}: dropped");
        self.declare_as(vec![words], |connection, _| roles::delete(connection, name))
    }

    /// All roles, by name.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if one was altered, or the file cannot be read.
    pub(crate) fn roles(&self) -> Result<Vec<Role>, VaultError> {
        self.read(|connection, _| roles::all(connection))
    }

    /// What a log-in under this name is compared with. All of it is read whether or not there is the role.
    ///
    /// # Errors
    /// As [`Vault::roles`].
    pub(crate) fn role_to_log_in(&self, name: &str) -> Result<ToLogIn, VaultError> {
        self.read(|connection, _| {
            let role = roles::all(connection)?.into_iter().find(|role| role.name == name);
            let may_log_in = role.as_ref().is_some_and(|role| role.is_valid(time::now()));
            Ok(ToLogIn { role, may_log_in, secret: roles::secret(connection)? })
        })
    }
}
