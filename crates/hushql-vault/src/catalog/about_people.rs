//! About how many people a table holds, as its owner states it.
//!
//! In: the declaration of an owner's session. Out: plain data, stored beside tables and views under
//! a name that no table can have. The number is public like every declaration, and never counted
//! from rows.
//!
//! ```text
//! ALTER TABLE visits SET ABOUT 5000 PEOPLE   →   .about visits: { about_table: visits, people: 5000 }
//! ```

use serde::{Deserialize, Serialize};

use super::Catalog;

/// A statement of the owner: a table is about so many people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AboutPeople {
    /// The table.
    pub(crate) about_table: String,
    /// The number of its people; at least 1.
    pub(crate) people: u64,
}

impl AboutPeople {
    /// The name under which it is stored. Names of tables and views contain no dot.
    pub(crate) fn key(table: &str) -> String {
        format!(".about {table}")
    }
}

impl Catalog {
    /// The same snapshot with these numbers of people.
    #[must_use]
    pub(crate) fn with_about(mut self, about: impl IntoIterator<Item = AboutPeople>) -> Self {
        self.about.extend(about.into_iter().map(|about| (about.about_table, about.people)));
        self
    }

    /// About how many people a table holds, as its owner stated it.
    pub fn about_people(&self, table: &str) -> Option<u64> {
        self.about.get(table).copied()
    }
}
