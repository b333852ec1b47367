//! Whether every row has a key that is listed.
//!
//! In: a GROUP BY key, what is known of it, and the keys that come out. Out: whether the rows of all groups are all rows: nothing is
//! outside of the list, and NULL is in it, or on no row. No bound relies on it.
//!
//! ```text
//! domain IN ('A', 'B')              not complete: other wards are NULL, which is not a key
//! … OR NULL, or WHERE ward IS NOT NULL      complete
//! ward KEYS ('A')                   not complete
//! ```

use datafusion::common::{HashSet, ScalarValue};
use datafusion::logical_expr::Expr;

use super::lookup::Lookups;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::expr::facts::never_null;
use crate::analysis::expr::total;
use crate::analysis::measure::input_columns::{Group, keys_of};

/// Whether each row below has one of these keys.
pub(crate) fn is_complete(
    expr: &Expr,
    group: &Group,
    keys: &[ScalarValue],
    flow: &PrivateRelation,
    lookups: &Lookups,
) -> bool {
    let Ok(known) = keys_of(group, None, lookups) else { return false };
    let listed: HashSet<&ScalarValue> = keys.iter().collect();
    let all = known.iter().all(|key| listed.contains(key));
    all && (keys.iter().any(ScalarValue::is_null) || !may_be_null(expr, flow))
}

/// Whether an expression is NULL on some row that meets the conditions of the query.
fn may_be_null(expr: &Expr, flow: &PrivateRelation) -> bool {
    let mut scope = flow.scope.clone();
    for column in flow.scope.conditions.iter().flat_map(never_null) {
        let index = flow.scope.schema.index_of_column(column).ok();
        if let Some(facts) = index.and_then(|i| scope.facts.get_mut(i)) {
            facts.nullable = false;
        }
    }
    total(expr, &scope).map_or(true, |total| total.facts.nullable)
}
