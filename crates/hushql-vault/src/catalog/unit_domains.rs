//! Unit domains: the names under which losses add up, the tables that belong to each, and the unit
//! domains that were joined.
//!
//! In: the declared tables, and the pairs of unit domains that were ever joined. Out: the current
//! unit domain of a table, which is derived from its chain of links and never stored; and for a
//! unit domain, all unit domains whose charges count for its people. Unit domains are joined when a
//! table moves from one to another after a charge: its people keep what was spent on them. Joined
//! unit domains are never separated.
//!
//! ```text
//! visits (patient)                             unit domain visits      its charges: visits
//! visits VIA (patient) REFERENCES people(id)   unit domain people      its charges: people, visits: once joined, always
//! ```

use std::collections::BTreeSet;

use super::{Budget, Catalog, Table};
use crate::catalog::numbers::TableNumbers;
use crate::catalog::version::{CatalogVersion, Joined};

impl Catalog {
    /// The version of the declarations that this snapshot was read from.
    pub fn version(&self) -> CatalogVersion {
        self.version
    }

    /// The numbers of the last declarations of tables.
    pub(crate) fn numbers(&self) -> &TableNumbers {
        &self.numbers
    }

    /// The number of the last declaration of a table; 0 if there was none. It only grows.
    pub fn declared_number(&self, table: &str) -> i64 {
        self.numbers.of(table)
    }

    /// True if the table that had this name at the declaration with this number was dropped since.
    /// A table that has the name now is another one.
    pub fn was_dropped_after(&self, table: &str, number: i64) -> bool {
        self.numbers.was_dropped_after(table, number)
    }

    /// The same snapshot with the version, the joins and the numbers that the vault stores.
    #[must_use]
    pub(crate) fn kept_as(
        mut self,
        version: CatalogVersion,
        joined: Joined,
        numbers: TableNumbers,
    ) -> Self {
        (self.version, self.joined, self.numbers) = (version, joined, numbers);
        self
    }

    /// An empty snapshot that is current in every vault, for tests of the ledger alone.
    #[cfg(test)]
    pub(crate) fn of_any_vault() -> Self {
        Self::default().kept_as(CatalogVersion::any(), Joined::default(), TableNumbers::default())
    }

    /// The table at the end of the chain of links that begins here, and the number of links.
    ///
    /// # Guarantee
    /// `None` for a table that is not private, and for a chain that is circular or ends at a table
    /// that is not private. The unit of the returned table is its row or one of its columns.
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

    /// The unit domain of a private table: the name under which losses of its people add up.
    ///
    /// # Guarantee
    /// Tables of different unit domains share no privacy unit by declaration; charges on tables of
    /// one unit domain are summed. A table whose unit is its row or one of its columns has a
    /// separate unit domain with the table's name. A table that leads to its unit through others
    /// shares the unit domain at the end of the chain, as the chain is in this snapshot.
    pub fn unit_domain(&self, table: &str) -> Option<&str> {
        self.root(table).map(|(root, _)| root.name.as_str())
    }

    /// The unit domain that a budget covers: that of its table, or, while the table has no unit,
    /// the unit domain of the table's name.
    pub fn unit_domain_of<'a>(&'a self, budget: &'a Budget) -> &'a str {
        self.unit_domain(&budget.table).unwrap_or(&budget.table)
    }

    /// Every unit domain whose charges count for the people of this one.
    ///
    /// # Guarantee
    /// Every charge for rows of a table that is in this unit domain today names one of these unit
    /// domains, even if the table's unit led elsewhere at the time of the charge.
    pub fn people(&self, unit_domain: &str) -> BTreeSet<String> {
        self.joined.with(unit_domain)
    }

    /// True if the charges on these unit domains are summed: they are the same unit domain, or were
    /// joined.
    pub fn same_people(&self, one: &str, other: &str) -> bool {
        self.joined.first(one) == self.joined.first(other)
    }

    /// All budgets that a query on this unit domain is charged to, by name.
    pub fn budgets_of(&self, unit_domain: &str) -> impl Iterator<Item = &Budget> {
        self.budgets()
            .filter(move |budget| self.same_people(self.unit_domain_of(budget), unit_domain))
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
        let joined =
            Joined::from_pairs([pair("d", "c"), pair("a", "b"), pair("b", "d"), pair("x", "y")]);
        let of = |names: &str| names.chars().map(String::from).collect::<BTreeSet<_>>();
        for unit_domain in ["a", "b", "c", "d"] {
            assert_eq!(joined.with(unit_domain), of("abcd"), "{unit_domain}");
        }
        assert_eq!(joined.with("y"), of("xy"));
        assert_eq!(joined.with("z"), of("z"));
        assert_eq!(Joined::from_pairs([pair("a", "a")]).with("a"), of("a"));
    }

    #[test]
    fn a_catalog_without_a_vault_is_never_current() {
        let none = CatalogVersion::default();
        let sealed = CatalogVersion::sealed([[1; 32], [2; 32], [3; 32], [4; 32]]);
        assert!(!none.is(&none) && !none.is(&sealed));
        assert!(
            sealed.is(&sealed)
                && !sealed.is(&CatalogVersion::sealed([[1; 32], [2; 32], [3; 32], [3; 32]]))
        );
    }
}
