//! The tables that a query may name, as sources for the planner.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::logical_expr::TableSource;

/// The name under which the ledger is queried; the only name with a schema.
pub const LEDGER: &str = "hushql.ledger";

/// Whether a name in a query refers to the ledger.
pub(crate) fn is_ledger(name: &TableReference) -> bool {
    matches!(name, TableReference::Partial { .. }) && name.to_string() == LEDGER
}

/// The tables that a query may name, by name.
pub type Sources = BTreeMap<String, Arc<dyn TableSource>>;
