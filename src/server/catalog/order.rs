//! The order of rows, and their numbers in it.

use std::cmp::Ordering;

use super::compile::{Sort, Window};
use super::datum::{Datum, Row, Unanswered};
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

/// Appends the value of a window function to each row. Rows that are equal in its order have one
/// rank.
pub(super) fn number(window: &Window, rows: &mut [Row], env: &Env<'_>) -> Result<(), Unanswered> {
    let mut keyed = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let here = Env { row, ..*env };
        let key =
            window.partition.iter().map(|node| node.value(&here)).collect::<Result<Row, _>>()?;
        let order =
            window.order.iter().map(|sort| sort.by.value(&here)).collect::<Result<Row, _>>()?;
        keyed.push((key, order, at));
    }
    keyed.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then_with(|| by(&window.order, x, y)));
    let mut last: Option<(Row, Row)> = None;
    let (mut place, mut rank, mut dense_rank) = (0, 0, 0);
    for (key, order, at) in keyed {
        let is_first = last.as_ref().is_none_or(|(last, _)| *last != key);
        if is_first {
            (place, rank, dense_rank) = (0, 0, 0);
        }
        place += 1;
        let is_equal = |(_, last): &(Row, Row)| by(&window.order, last, &order).is_eq();
        if is_first || !last.as_ref().is_some_and(is_equal) {
            rank = place;
            dense_rank += 1;
        }
        let value = match window.function.as_str() {
            "rank" => rank,
            "dense_rank" => dense_rank,
            _ => place,
        };
        last = Some((key, order));
        if let Some(row) = rows.get_mut(at) {
            row.push(Datum::Int(value));
        }
    }
    Ok(())
}
