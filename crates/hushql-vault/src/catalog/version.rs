//! One state of the declarations, and which unit domains are joined in it.

use std::collections::{BTreeMap, BTreeSet};

/// One state of all declarations.
///
/// # Guarantee
/// Equal versions were read from equal declarations. A version consists of the seals of the tables,
/// of the budgets, of the numbers of declarations and of the grants, so a REFRESH makes a new one,
/// and so does a REVOKE. The default is the version of a catalog that was not read from a vault; no
/// vault accepts it as current.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatalogVersion(VersionState);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum VersionState {
    #[default]
    OfNoVault,
    Sealed([[u8; 32]; 4]),
    /// For tests of the ledger alone, which plan nothing. Other code never constructs it.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests make it"))]
    OfAnyVault,
}

impl CatalogVersion {
    /// The version with these seals: of the tables, of the budgets, of the numbers of the tables'
    /// last declarations, and of the grants.
    pub(crate) fn sealed(seals: [[u8; 32]; 4]) -> Self {
        Self(VersionState::Sealed(seals))
    }

    /// A version that every vault accepts as its own.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self(VersionState::OfAnyVault)
    }

    /// Whether this is the current version of a vault.
    pub fn is(&self, current: &Self) -> bool {
        match self.0 {
            VersionState::OfNoVault => false,
            VersionState::Sealed(_) => self == current,
            VersionState::OfAnyVault => true,
        }
    }
}

/// The joined unit domains. Each maps to the first unit domain, by name, of its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Joined(BTreeMap<String, String>);

impl Joined {
    /// The classes that these pairs form.
    pub(crate) fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut joined = Self::default();
        pairs.into_iter().for_each(|(one, other)| joined.join(&one, &other));
        joined
    }

    pub(crate) fn first<'a>(&'a self, unit_domain: &'a str) -> &'a str {
        self.0.get(unit_domain).map_or(unit_domain, String::as_str)
    }

    fn join(&mut self, one: &str, other: &str) {
        let (one_first, other_first) = (self.first(one).to_owned(), self.first(other).to_owned());
        let (kept, lost) = match one_first <= other_first {
            true => (one_first, other_first),
            false => (other_first, one_first),
        };
        for first in self.0.values_mut().filter(|first| **first == lost) {
            first.clone_from(&kept);
        }
        for unit_domain in [one, other, &lost] {
            self.0.insert(unit_domain.to_owned(), kept.clone());
        }
    }

    /// This unit domain and all unit domains that were joined with it.
    pub(crate) fn with(&self, unit_domain: &str) -> BTreeSet<String> {
        let first = self.first(unit_domain);
        let others = self.0.iter().filter(|(_, of)| *of == first).map(|(other, _)| other.clone());
        others.chain([unit_domain.to_owned()]).collect()
    }
}
