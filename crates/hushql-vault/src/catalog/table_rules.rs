//! The rules of a table: what queries of analysts may do with its columns.
//!
//! In: the declaration of an owner's session. Out: plain data, stored beside tables and views under
//! a name that no table can have. A table has rules for everyone, and more rules for some roles.
//! Rules say which questions an owner wants to answer. They add nothing to what privacy is
//! promised.
//!
//! ```text
//! ALTER TABLE visits SET RULES (no_key=(zip)) FOR lab   →   .rules visits: { rules_table: visits, rules: [{ role: lab, no_key: [zip], … }] }
//! ```

use serde::{Deserialize, Serialize};

use super::{quoted, quoted_analyst};

/// The rules of a table for everyone, or for a role.
///
/// ```
/// use hushql_vault::catalog::TableRules;
///
/// let rules = TableRules { no_key: vec!["zip".to_owned()], ..TableRules::default() };
/// assert_eq!(rules.to_string(), "(no_key=(zip))");
/// assert!(rules.role.is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRules {
    /// The role that they bind; `None` for everyone.
    pub role: Option<String>,
    /// Columns whose values do not come out: they are no keys, and are not chosen.
    pub no_key: Vec<String>,
    /// Columns that decide nothing: no condition and no join reads them.
    pub no_filter: Vec<String>,
    /// Columns that join rows, and do nothing else.
    pub join_only: Vec<String>,
    /// The aggregates, mechanisms and methods that are allowed, in lower case; empty for all.
    pub aggregates: Vec<String>,
}

impl TableRules {
    /// The lists of columns, with the name of each rule.
    pub fn of_columns(&self) -> [(&'static str, &[String]); 3] {
        [("no_key", &self.no_key), ("no_filter", &self.no_filter), ("join_only", &self.join_only)]
    }

    /// True if they say something.
    pub fn is_some(&self) -> bool {
        !self.aggregates.is_empty() || self.of_columns().iter().any(|(_, names)| !names.is_empty())
    }

    /// Whom they bind, in words.
    pub fn audience(&self) -> String {
        self.role.as_ref().map_or_else(|| "everyone".to_owned(), |role| format!("role {role}"))
    }

    /// The statement that declares them.
    pub fn statement(&self, table: &str) -> String {
        format!("ALTER TABLE {} SET RULES {self}{}", quoted(table), self.for_role())
    }

    /// The statement that drops them.
    pub fn drop_statement(&self, table: &str) -> String {
        format!("ALTER TABLE {} DROP RULES{}", quoted(table), self.for_role())
    }

    fn for_role(&self) -> String {
        let role = self.role.as_ref();
        role.map_or_else(String::new, |role| format!(" FOR {}", quoted_analyst(role)))
    }
}

impl std::fmt::Display for TableRules {
    /// As in SET RULES.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list =
            |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let columns = self.of_columns().into_iter().filter(|(_, names)| !names.is_empty());
        let mut all: Vec<String> =
            columns.map(|(rule, names)| format!("{rule}=({})", list(names))).collect();
        if !self.aggregates.is_empty() {
            all.push(format!("aggregates=({})", self.aggregates.join(", ")));
        }
        write!(f, "({})", all.join(", "))
    }
}

/// All rules of a table, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RulesOfTable {
    /// The table.
    pub(crate) rules_table: String,
    /// Its rules: at most one for everyone, and one for each role, in order.
    pub(crate) rules: Vec<TableRules>,
}

impl RulesOfTable {
    /// The name under which they are stored. Names of tables and views contain no dot.
    pub(crate) fn key(table: &str) -> String {
        format!(".rules {table}")
    }

    /// True if each audience has one entry, in order, and each entry says something.
    pub(crate) fn is_sound(&self) -> bool {
        let in_order = self.rules.is_sorted_by(|one, other| one.role < other.role);
        in_order && !self.rules.is_empty() && self.rules.iter().all(TableRules::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(role: Option<&str>, column: &str) -> TableRules {
        TableRules {
            role: role.map(ToOwned::to_owned),
            no_key: vec![column.to_owned()],
            ..TableRules::default()
        }
    }

    #[test]
    fn stored_rules_are_in_order_and_say_something() {
        let of = |rules: Vec<TableRules>| {
            RulesOfTable { rules_table: "visits".to_owned(), rules }.is_sound()
        };
        assert!(of(vec![rules(None, "a")]) && of(vec![rules(Some("a"), "a")]));
        assert!(!of(Vec::new()) && !of(vec![TableRules::default()]));
        assert!(!of(vec![rules(Some("b"), "a"), rules(None, "a")]));
        assert!(!of(vec![rules(None, "a"), rules(None, "b")]));
    }

    #[test]
    fn statements_quote_names() {
        let all = TableRules {
            role: Some("the lab".to_owned()),
            no_key: vec!["zip code".to_owned(), "age".to_owned()],
            no_filter: Vec::new(),
            join_only: vec!["region".to_owned()],
            aggregates: vec!["count".to_owned(), "laplace".to_owned()],
        };
        assert_eq!(
            all.statement("my visits"),
            "ALTER TABLE \"my visits\" SET RULES (no_key=(\"zip code\", age), join_only=(region), aggregates=(count, laplace)) FOR \"the lab\""
        );
        assert_eq!(all.drop_statement("visits"), "ALTER TABLE visits DROP RULES FOR \"the lab\"");
    }
}
