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

use super::matched_rows::equal_columns;
use super::of_column::all_keys_of;
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
    for other in equal_columns(column, &flow.scope) {
        let Some(known) = all_keys_of(&other, &flow.scope, &flow.traces, tables) else { continue };
        let known: HashSet<ScalarValue> = known
            .iter()
            .filter_map(|key| key.cast_to(&data_type).ok())
            .filter(|key| !key.is_null())
            .collect();
        left.retain(|key| known.contains(key));
    }
    left
}
