//! The rows that the groups of a unit stand for.
//!
//! In: the keys of a GROUP BY over the rows of a unit. Out: the table whose rows the groups stand
//! for, if there is one. A unit then has no more groups than rows in that table.
//!
//! ```text
//! SELECT order_id, SUM(quantity) FROM items GROUP BY order_id      a row of orders each: MAX ROWS of orders, not of items
//! ```

use datafusion::logical_expr::Expr;

use super::column_origin::Origin;
use super::relation::PrivateRelation;
use crate::analysis::below::walk::Walk;
use crate::catalog::Unit;

impl Walk<'_> {
    /// The table whose rows determine the keys, the most rows of a unit in it, and whether the keys
    /// identify one of its rows. For example, the keys of `GROUP BY order_id` identify rows of
    /// orders.
    ///
    /// # Guarantee
    /// No bound relies on it, see [`OfUnit`].
    pub(crate) fn row_of_keys(
        &self,
        flow: &PrivateRelation,
        keys: &[Expr],
    ) -> Option<(String, Option<u64>, bool)> {
        let mut origins: Vec<(&Origin, usize)> = Vec::new();
        for key in keys.iter().filter(|key| !flow.is_alike(key)) {
            for column in key.column_refs() {
                let trace = flow.trace(&Expr::Column(column.clone()))?;
                if trace.padded {
                    return None;
                }
                origins.push((trace.origin.as_ref()?, trace.reading));
            }
        }
        let (first, reading) = origins.first()?;
        if origins.iter().any(|(origin, row)| origin.table != first.table || row != reading) {
            return None;
        }
        let own = |column: &String| {
            keys.iter().any(|key| {
                let origin = flow.trace(key).and_then(|trace| trace.origin.as_ref());
                origin.is_some_and(|origin| origin.table == first.table && origin.column == *column)
            })
        };
        let unit = self.catalog.table(&first.table)?.unit()?;
        // The columns of a link lead to one row, if no other column of the table is a key.
        if let Some(link) = unit.link()
            && link.columns.iter().all(own)
            && origins.iter().all(|(origin, _)| link.columns.contains(&origin.column))
        {
            let led = self.catalog.table(&link.table)?.unit()?;
            return Some((link.table.clone(), led.max_rows(), true));
        }
        let mut links = self.catalog.referring(&first.table);
        let named = links.any(|table| {
            let link = table.unit().and_then(Unit::link);
            link.is_some_and(|link| link.references.iter().all(own))
        });
        Some((first.table.clone(), unit.max_rows(), named))
    }
}
