//! The keys of a column that conditions equate with other columns: only the keys that these columns
//! can have, too.
//!
//! In: the keys of a column, and the conditions of the query. Out: the keys that all equal columns
//! have.
//!
//! ```text
//! v.ward = w.code GROUP BY v.ward      ward IN ('A', 'B', 'C'), and w has the codes B, C, D: B, C
//! ```

use datafusion::common::{Column, HashSet, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::key_image::keys_that_pass;
use super::of_column::with_known_keys;
use super::{known_keys, possible};
use crate::analysis::below::join_conditions::widened;
use crate::analysis::below::relation::PrivateRelation;
use crate::analysis::below::walk::Tables;

/// The keys that this column shares with all columns that equal it.
///
/// # Guarantee
/// No row of the relation has a key that is left out. Depends only on the query, the declarations
/// and public rows.
pub(crate) fn of_equal_columns(
    keys: Vec<ScalarValue>,
    column: &Column,
    flow: &PrivateRelation,
    tables: &dyn Tables,
) -> Vec<ScalarValue> {
    let Some(data_type) = keys.first().map(ScalarValue::data_type) else { return keys };
    let mut left = keys;
    for other in equal_columns(column, flow) {
        let Some(known) = keys_of(&other, flow, tables) else { continue };
        let known: HashSet<ScalarValue> = known
            .iter()
            .filter_map(|key| key.cast_to(&data_type).ok())
            .filter(|key| !key.is_null())
            .collect();
        left.retain(|key| known.contains(key));
    }
    left
}

/// The columns that equal this one on every row, directly or through other columns.
fn equal_columns(column: &Column, flow: &PrivateRelation) -> Vec<Column> {
    let side = |expr: &Expr| widened(expr, &flow.scope.schema).cloned();
    let pair = |condition: &Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            return None;
        };
        side(left).zip(side(right))
    };
    let pairs: Vec<(Column, Column)> = flow.scope.conditions.iter().filter_map(pair).collect();
    let mut found = vec![column.clone()];
    let mut next = 0;
    while let Some(one) = found.get(next).cloned() {
        for (l, r) in &pairs {
            let other = if *l == one { r } else { l };
            if (*l == one || *r == one) && !found.contains(other) {
                found.push(other.clone());
            }
        }
        next += 1;
    }
    found.split_off(1)
}

/// The known keys of a column.
fn keys_of(
    column: &Column,
    flow: &PrivateRelation,
    tables: &dyn Tables,
) -> Option<Vec<ScalarValue>> {
    let scope = with_known_keys(&Expr::Column(column.clone()), &flow.scope, &flow.traces, tables);
    let facts = scope.facts_of(column).filter(|facts| !facts.is_unit)?;
    let index = scope.schema.index_of_column(column).ok()?;
    let data_type = scope.schema.field(index).data_type();
    let known = || Some(possible(known_keys(facts, data_type, "", false).ok()?, facts));
    keys_that_pass(column, &scope, tables).or_else(known)
}
