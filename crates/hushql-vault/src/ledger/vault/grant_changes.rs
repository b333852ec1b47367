//! Grants of a vault: given, taken and required.
//!
//! In: grants of the owner. Out: the rows that [`grants`](crate::catalog::grants) stores. Each
//! method is one transaction. The history records each change.
//!
//! ```text
//! GRANT SELECT ON visits TO lab     role_grant ('lab', 'table', 'visits')
//! ```

use std::collections::BTreeSet;

use crate::catalog::store;
use crate::catalog::{Catalog, CatalogError, Granted, grants};
use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::roles;
use crate::ledger::vault::Vault;

impl Vault {
    /// Gives grants to roles, or takes them. Returns those that changed.
    ///
    /// # Errors
    /// [`VaultError::Catalog`] if a role, table, budget or template does not exist, or a group
    /// would contain itself.
    pub fn change_grants(
        &self,
        to: &[String],
        granted: &[Granted],
        may: bool,
    ) -> Result<Vec<(String, Granted)>, VaultError> {
        let verb = if may { "granted" } else { "revoked" };
        let pairs = to.iter().flat_map(|role| granted.iter().map(move |one| (role, one)));
        let words = pairs.map(|(role, one)| format!("role {role}: {one} {verb}")).collect();
        self.declare_as(words, |connection, _| {
            let catalog = store::load(connection)?;
            let known: BTreeSet<String> =
                roles::all(connection)?.into_iter().map(|role| role.name).collect();
            let groups = granted.iter().filter_map(|one| match one {
                Granted::Role(group) => Some(group),
                Granted::Table(_) | Granted::Budget(_) | Granted::Template(_) => None,
            });
            for role in to.iter().chain(groups) {
                if !known.contains(role) {
                    return Err(CatalogError::UnknownRole { role: role.clone() }.into());
                }
            }
            granted.iter().try_for_each(|one| exists(&catalog, one))?;
            Ok(grants::change(connection, (to, granted), may)?)
        })
    }

    /// Requires grants from now on, or no longer.
    ///
    /// # Errors
    /// [`VaultError::Corrupt`] if the grants were altered, or the file cannot be written.
    pub fn require_grants(&self, is_required: bool) -> Result<(), VaultError> {
        let words = if is_required { "grants: required" } else { "grants: not required" };
        self.declare_as(vec![words.to_owned()], |connection, _| {
            Ok(grants::require(connection, is_required)?)
        })
    }
}

/// Refuses a grant of something that is not declared.
fn exists(catalog: &Catalog, granted: &Granted) -> Result<(), Fault> {
    match granted {
        Granted::Table(name) => {
            store::table(catalog, name)?;
        }
        Granted::Budget(name) if catalog.budget(name).is_none() => {
            return Err(CatalogError::UnknownBudget { budget: name.clone() }.into());
        }
        Granted::Template(name) if catalog.template(name).is_none() => {
            return Err(CatalogError::UnknownTemplate { template: name.clone() }.into());
        }
        Granted::Budget(_) | Granted::Role(_) | Granted::Template(_) => {}
    }
    Ok(())
}
