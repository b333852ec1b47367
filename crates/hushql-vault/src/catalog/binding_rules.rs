//! Which rules bind an analyst.
//!
//! In: the declarations, a table, and the name of an analyst. Out: the rules of the table for
//! everyone, for this role, and for all groups that it is in.
//!
//! ```text
//! visits: no_key=(zip), no_filter=(age) FOR clinic      eve, in clinic   →   both      lab   →   no_key=(zip)
//! ```

use super::Catalog;
use super::table_rules::{RulesOfTable, TableRules};

impl Catalog {
    /// The same snapshot with these rules of tables.
    #[must_use]
    pub(crate) fn with_rules(mut self, rules: impl IntoIterator<Item = RulesOfTable>) -> Self {
        self.rules.extend(rules.into_iter().map(|row| (row.rules_table, row.rules)));
        self
    }

    /// All rules of a table: first those for everyone, then those for roles.
    pub fn table_rules(&self, table: &str) -> &[TableRules] {
        self.rules.get(table).map_or(&[], Vec::as_slice)
    }

    /// The rules of a table that bind an analyst.
    ///
    /// # Guarantee
    /// Those for everyone, those for the role of this name, and those for every group that the role
    /// is in. All of them hold.
    pub fn rules_for<'a>(
        &'a self,
        table: &str,
        analyst: &'a str,
    ) -> impl Iterator<Item = &'a TableRules> {
        let groups = self.grants().groups_of(analyst);
        let binds = move |rules: &&TableRules| {
            rules.role.as_ref().is_none_or(|role| groups.contains(role.as_str()))
        };
        self.table_rules(table).iter().filter(binds)
    }

    /// The tables with rules that name a role.
    pub(crate) fn rules_name(&self, role: &str) -> Vec<&str> {
        let names = |rules: &TableRules| rules.role.as_deref() == Some(role);
        let named = self.rules.iter().filter(|(_, rules)| rules.iter().any(names));
        named.map(|(table, _)| table.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::grants::{Granted, Grants};

    fn rules(role: Option<&str>, column: &str) -> TableRules {
        TableRules {
            role: role.map(ToOwned::to_owned),
            no_key: vec![column.to_owned()],
            ..TableRules::default()
        }
    }

    #[test]
    fn rules_for_everyone_and_for_all_groups_of_a_role_bind_it() {
        let row = RulesOfTable {
            rules_table: "visits".to_owned(),
            rules: vec![
                rules(None, "zip"),
                rules(Some("clinic"), "age"),
                rules(Some("ward"), "sex"),
            ],
        };
        assert!(row.is_sound());
        let group = |name: &str| Granted::Role(name.to_owned());
        let given =
            [("eve".to_owned(), group("ward")), ("ward".to_owned(), group("clinic"))].into();
        let catalog =
            Catalog::default().with_rules([row]).with_grants(Grants { given, ..Grants::default() });
        for (analyst, bound) in
            [("lab", "zip"), ("clinic", "zip age"), ("ward", "zip age sex"), ("eve", "zip age sex")]
        {
            let names = catalog.rules_for("visits", analyst).flat_map(|own| own.no_key.clone());
            assert_eq!(names.collect::<Vec<_>>().join(" "), bound, "{analyst}");
            assert_eq!(catalog.rules_for("people", analyst).count(), 0);
        }
        assert_eq!(catalog.rules_name("ward"), ["visits"]);
        assert!(catalog.rules_name("eve").is_empty());
    }
}
