//! Names whose people are known: presence is public, and what a person's row says is not.
//!
//! In: a table whose unit is `(person) UNIQUE PRESENCE PUBLIC`. Out: a row of the vault that says
//! for good how the charges on a name are to be read. The row is stored beside tables and views
//! under a name that no table can have, and stays when the table goes.
//!
//! ```text
//! ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE PRESENCE PUBLIC
//!     →   .present survey: { present_table: survey, known: [id] }
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Catalog;

/// A name whose charges protect what people say, and not that they are there, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PresenceOfTable {
    /// The name of the table.
    pub(crate) present_table: String,
    /// The columns that were ever public: exact answers may have shown them.
    pub(crate) known: BTreeSet<String>,
}

impl PresenceOfTable {
    /// The name under which it is stored. Names of tables and views contain no dot.
    pub(crate) fn key(table: &str) -> String {
        format!(".present {table}")
    }
}

impl Catalog {
    /// The same snapshot with these names.
    #[must_use]
    pub(crate) fn with_present(mut self, rows: impl IntoIterator<Item = PresenceOfTable>) -> Self {
        self.present.extend(rows.into_iter().map(|row| (row.present_table, row.known)));
        self
    }

    /// Whether charges on a name are for people whose presence is public, whether or not the table
    /// exists.
    pub fn counts_present(&self, name: &str) -> bool {
        self.present.contains_key(name)
    }

    /// The columns of a name that were ever public, if its people's presence is.
    pub(crate) fn ever_public(&self, name: &str) -> Option<&BTreeSet<String>> {
        self.present.get(name)
    }

    /// The names whose charges are for people whose presence is public.
    pub fn present_names(&self) -> impl Iterator<Item = &str> {
        self.present.keys().map(String::as_str)
    }
}
