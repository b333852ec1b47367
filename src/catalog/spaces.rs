//! Unit spaces: the names under which losses add up, the tables that belong to each, and the spaces that were joined.
//!
//! In: the declared tables, and the pairs of spaces that were ever joined. Out: the current space of a table, which is
//! derived from its chain of links and never stored; and for a space, all spaces whose charges count for its people.
//! Spaces are joined when a table moves from one to another after something was charged: its people bring what was
//! spent on them. Joined spaces are never separated.
//!
//! ```text
//! visits (patient)                             space visits      its charges: visits
//! visits VIA (patient) REFERENCES people(id)   space people      its charges: people, visits: once joined, always
//! ```

use std::collections::BTreeSet;

use super::{Budget, Catalog, Table};
use crate::catalog::version::{CatalogVersion, Joined};

impl Catalog {
    /// The version of the declarations that this snapshot was read from.
    pub fn version(&self) -> CatalogVersion {
        self.version
    }

    /// The same snapshot with this version and these joins, as a vault keeps it.
    #[must_use]
    pub(crate) fn kept_as(mut self, version: CatalogVersion, joined: Joined) -> Self {
        (self.version, self.joined) = (version, joined);
        self
    }

    /// An empty snapshot that is current in every vault, for tests of the ledger alone.
    #[cfg(test)]
    pub(crate) fn of_any_vault() -> Self {
        Self::default().kept_as(CatalogVersion::any(), Joined::default())
    }

    /// The table at the end of the chain of links that begins here, and the number of links.
    ///
    /// # Guarantee
    /// `None` for a table that is not private, and for a chain that runs in circles or ends at a table that is not
    /// private. The unit of the returned table is its row or a column of its own.
    pub fn root(&self, table: &str) -> Option<(&Table, usize)> {
        let mut table = self.table(table)?;
        for links in 0..=self.tables.len() {
            match table.unit()?.link() {
                None => return Some((table, links)),
                Some(link) => table = self.table(&link.table)?,
            }
        }
        None
    }

    /// The unit space of a private table: the name under which losses of its people add up.
    ///
    /// # Guarantee
    /// Tables of different spaces share no privacy unit by declaration; charges on tables of one space are summed. A
    /// table whose unit is its row or a column of its own has a space of its own, with the table's name. A table that
    /// leads to its unit through others shares the space at the end of the chain, as the chain is in this snapshot.
    pub fn space(&self, table: &str) -> Option<&str> {
        self.root(table).map(|(root, _)| root.name.as_str())
    }

    /// The unit space that a budget binds: the space of its table, or the space of the table's name while it has no unit.
    pub fn space_of<'a>(&'a self, budget: &'a Budget) -> &'a str {
        self.space(&budget.table).unwrap_or(&budget.table)
    }

    /// Every unit space whose charges count for the people of this one.
    ///
    /// # Guarantee
    /// Every charge for rows of a table that is in this space today names one of these spaces, even if the unit of the
    /// table led elsewhere at the time of the charge.
    pub(crate) fn people(&self, space: &str) -> BTreeSet<String> {
        self.joined.with(space)
    }

    /// Whether the charges on these unit spaces are summed: they are the same space, or were joined.
    pub fn same_people(&self, one: &str, other: &str) -> bool {
        self.joined.first(one) == self.joined.first(other)
    }

    /// All budgets that a query on this unit space is charged to, by name.
    pub fn budgets_of(&self, space: &str) -> impl Iterator<Item = &Budget> {
        self.budgets().filter(move |budget| self.same_people(self.space_of(budget), space))
    }

    /// A private table whose chain of links leads to no unit, if there is one.
    pub(crate) fn broken_link(&self) -> Option<&Table> {
        let links = |table: &&Table| table.unit().is_some_and(|unit| unit.link().is_some());
        let named =
            |table: &Table| self.root(&table.name).and_then(|(root, _)| root.unit()?.column());
        self.tables().filter(links).find(|table| named(table).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_is_symmetric_and_transitive() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let joined = Joined::of([pair("d", "c"), pair("a", "b"), pair("b", "d"), pair("x", "y")]);
        let of = |names: &str| names.chars().map(String::from).collect::<BTreeSet<_>>();
        for space in ["a", "b", "c", "d"] {
            assert_eq!(joined.with(space), of("abcd"), "{space}");
        }
        assert_eq!(joined.with("y"), of("xy"));
        assert_eq!(joined.with("z"), of("z"));
        assert_eq!(Joined::of([pair("a", "a")]).with("a"), of("a"));
    }

    #[test]
    fn a_catalog_without_a_vault_is_never_current() {
        let none = CatalogVersion::default();
        let sealed = CatalogVersion::sealed([1; 32], [2; 32]);
        assert!(!none.is(&none) && !none.is(&sealed));
        assert!(sealed.is(&sealed) && !sealed.is(&CatalogVersion::sealed([1; 32], [3; 32])));
    }
}
