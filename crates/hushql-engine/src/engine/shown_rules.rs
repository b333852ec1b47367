//! SHOW RULES: what queries may do with the columns of tables.
//!
//! In: the declarations, and a reader. Out: to the owner all rules; to an analyst those that bind
//! its own queries, of tables that exist for it.
//!
//! ```text
//! visits   everyone   (no_key=(zip))
//! ```

use super::text_columns::table;
use crate::answer::Answer;
use crate::catalog::{Catalog, TableRules};
use crate::error::Error;
use crate::ledger::OWNER;

/// What rules are not.
const NO_PROMISE: &str =
    "rules say which questions are answered; they add nothing to what privacy is promised";

/// The rules that a reader may see.
pub(super) fn rules(catalog: &Catalog, reader: &str) -> Result<Answer, Error> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for one in catalog.tables() {
        let row = |rules: &TableRules| [one.name.clone(), rules.audience(), rules.to_string()];
        match (reader == OWNER, one.unit().is_some()) {
            // Without a unit they bind nobody, and wait for the next one.
            (true, _) => rows.extend(catalog.table_rules(&one.name).iter().map(row)),
            (false, true) => rows.extend(catalog.rules_for(&one.name, reader).map(row)),
            (false, false) => {}
        }
    }
    let column =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).cloned().collect::<Vec<String>>();
    let answer = table(&[("table", column(0)), ("for", column(1)), ("rules", column(2))])?;
    Ok(answer.noted(NO_PROMISE.to_owned()))
}
