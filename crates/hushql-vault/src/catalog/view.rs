//! Views as they are stored: a name, and the text of a query.
//!
//! In: the declaration of an owner's session, which the caller has parsed and bound. Out: plain
//! data. A view has no rows, unit, domain or budget, and no privacy decision depends on it:
//! whenever a query names it, its text is parsed again and replaces the name.
//!
//! ```
//! use hushql_vault::catalog::View;
//!
//! let grown = View {
//!     name: "grown".to_owned(),
//!     columns: Vec::new(),
//!     query: "SELECT age FROM adult WHERE age >= 18".to_owned(),
//! };
//! assert!(grown.check().is_ok());
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{CatalogError, RESERVED};
use crate::catalog::name::check_name;

/// A view as the owner created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The name that queries use.
    pub name: String,
    /// The names of its columns; if empty, those of its query.
    pub columns: Vec<String>,
    /// The text of its query: plain SQL, without a release.
    pub query: String,
}

impl View {
    /// Checks that the view does not contradict itself; the parser checks its query.
    ///
    /// # Errors
    /// [`CatalogError::Name`] for an unusable name, [`CatalogError::View`] for a repeated column or
    /// a column with a hidden name of the engine.
    pub fn check(&self) -> Result<(), CatalogError> {
        check_name(&self.name)?;
        let refuse = |reason| Err(CatalogError::View { view: self.name.clone(), reason });
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            if !seen.insert(column) {
                return refuse(format!("it has two columns `{column}`"));
            }
            if column.to_lowercase().starts_with(RESERVED) {
                return refuse(format!("names that begin with {RESERVED} belong to the engine"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_contradict_themselves() {
        let view = |name: &str, columns: &[&str]| View {
            name: name.to_owned(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            query: "SELECT 1, 2".to_owned(),
        };
        assert!(view("v", &["a", "b"]).check().is_ok());
        let long = "v".repeat(129);
        for name in ["", "a.v", "__HushQL_v", "a\nb", long.as_str()] {
            assert!(matches!(view(name, &[]).check(), Err(CatalogError::Name { .. })), "{name}");
        }
        for columns in [["a", "a"], ["a", "__hushql_unit"]] {
            assert!(matches!(view("v", &columns).check(), Err(CatalogError::View { .. })));
        }
    }
}
