//! The order of rows.

use std::cmp::Ordering;

use super::compile::Sort;
use super::datum::{Row, Unanswered};
use super::node::Env;

/// Sorts rows by nodes over them.
pub(super) fn sort(rows: &mut Vec<Row>, order: &[Sort], env: &Env<'_>) -> Result<(), Unanswered> {
    if order.is_empty() {
        return Ok(());
    }
    let mut keyed = Vec::new();
    for row in rows.drain(..) {
        let here = Env { row: &row, ..*env };
        let key = order.iter().map(|sort| sort.by.value(&here)).collect::<Result<Row, _>>()?;
        keyed.push((key, row));
    }
    keyed.sort_by(|(a, _), (b, _)| by(order, a, b));
    rows.extend(keyed.into_iter().map(|(_, row)| row));
    Ok(())
}

/// Compares two rows of sort keys.
pub(super) fn by(order: &[Sort], a: &Row, b: &Row) -> Ordering {
    let each =
        order.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if sort.nulls_first => Ordering::Less,
            (false, true) if !sort.nulls_first => Ordering::Less,
            (true, false) | (false, true) => Ordering::Greater,
            (false, false) => {
                let order = a.cmp(b);
                if sort.descends { order.reverse() } else { order }
            }
        });
    each.fold(Ordering::Equal, Ordering::then)
}
