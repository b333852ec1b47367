//! The lines of an explanation about the rules of tables.
//!
//! In: the rules that bind a query. Out: a line for each, and JSON. Rules add nothing to what
//! privacy is promised, and each line says so.
//!
//! ```text
//! rule         (no_key=(zip)) of visits for everyone, which adds nothing to what privacy is promised
//! ```

use serde_json::{Value, json};

use super::Explanation;
use crate::catalog::TableRules;

impl Explanation {
    /// Adds the rules that bind the query.
    pub(crate) fn with_rules(mut self, rules: &[(&str, &TableRules)]) -> Self {
        let line = |(table, rules): &(&str, &TableRules)| {
            let audience = rules.audience();
            let text = format!(
                "{rules} of {table} for {audience}, which adds nothing to what privacy is promised"
            );
            ("rule", text)
        };
        let at = self.lines.iter().position(|(name, _)| *name == "cost");
        let at = at.unwrap_or(self.lines.len());
        self.lines.splice(at..at, rules.iter().map(line));
        let object = |(table, rules): &(&str, &TableRules)| {
            json!({
                "table": table,
                "role": rules.role,
                "no_key": rules.no_key,
                "no_filter": rules.no_filter,
                "join_only": rules.join_only,
                "aggregates": rules.aggregates,
            })
        };
        if let (false, Value::Object(map)) = (rules.is_empty(), &mut self.json) {
            map.insert("rules".to_owned(), rules.iter().map(object).collect());
        }
        self
    }
}
