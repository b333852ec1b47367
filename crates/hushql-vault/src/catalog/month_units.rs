//! Units in time: the rows of one person in one month, and the months that are cells.
//!
//! In: a table whose unit is `(person) PER MONTH OF (date)`. Out: the calendar of its cells, and a
//! row of the vault that says for good how the charges on a name are to be read. The row is stored
//! beside tables and views under a name that no table can have, and stays when the table goes.
//!
//! ```text
//! ALTER TABLE visits SET PRIVACY UNIT (patient) PER MONTH OF (visited_at)
//!     →   .months visits: { month_table: visits, months: { person: patient, date: visited_at } }
//! 2026-03-31   →   the cell '2026-03'          no date, 1969, 2050   →   the cell other
//! ```

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// The months that are cells, counted from January of year 0: 1970-01 to 2049-12. The calendar is
/// the same for every table and never changes, so no declaration moves a row to another month.
const CALENDAR: RangeInclusive<i64> = 1970 * 12..=2049 * 12 + 11;

/// The months of the calendar, as the cells of a column.
pub(super) static MONTHS: LazyLock<Vec<Option<String>>> =
    LazyLock::new(|| CALENDAR.map(|month| Some(month_text(month))).collect());

fn month_text(month: i64) -> String {
    format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12).saturating_add(1))
}

/// What stands for the dates before the calendar, until sets of cells are [`counted`].
const BEFORE: &str = "before";
/// What stands for the dates after the calendar.
const AFTER: &str = "after";

/// The cells of the rows whose dates lie in these months, counted from January of year 0; `None`
/// leaves an end open. Dates before and after the calendar are told apart, so that two conditions
/// with one open end each exclude both: [`counted`] gives the cells that are charged.
///
/// # Guarantee
/// Every date between the two ends is in one of these months, or beyond the calendar; then the
/// place before or after it is among the cells.
pub fn cells_of_months(first: Option<i64>, last: Option<i64>) -> BTreeSet<Cell> {
    let (start, end) = (*CALENDAR.start(), *CALENDAR.end());
    let before = first.is_none_or(|first| first < start);
    let after = last.is_none_or(|last| last > end);
    let from = first.map_or(start, |first| first.max(start));
    let to = last.map_or(end, |last| last.min(end));
    let beyond = |is_there: bool, name: &str| is_there.then(|| Cell::Value(name.to_owned()));
    let months = (from..=to).map(|month| Cell::Value(month_text(month)));
    months.chain(beyond(before, BEFORE)).chain(beyond(after, AFTER)).collect()
}

/// The cells that are charged for a set of months: *other* for dates beyond the calendar.
pub fn counted(cells: BTreeSet<Cell>) -> BTreeSet<Cell> {
    let counted = |cell: Cell| match &cell {
        Cell::Value(name) if name == BEFORE || name == AFTER => Cell::Other,
        Cell::Value(_) | Cell::Other => cell,
    };
    cells.into_iter().map(counted).collect()
}

/// The columns of a unit that is one month of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MonthUnit {
    /// The column that identifies the person.
    pub(crate) person: String,
    /// The column with the date.
    pub(crate) date: String,
}

/// What the charges on a name protect, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MonthsOfTable {
    /// The name of the table.
    pub(crate) month_table: String,
    /// The columns of its unit.
    pub(crate) months: MonthUnit,
}

impl MonthsOfTable {
    /// The name under which it is stored. Names of tables and views contain no dot.
    pub(crate) fn key(table: &str) -> String {
        format!(".months {table}")
    }

    /// True if a declaration can have written it.
    pub(crate) fn is_sound(&self) -> bool {
        self.months.person != self.months.date
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(first: Option<i64>, last: Option<i64>) -> String {
        let cells = counted(cells_of_months(first, last));
        let ends = [cells.first(), cells.last()].map(|cell| cell.map(Cell::to_string));
        format!("{} {} {}", cells.len(), ends[0].clone().unwrap(), ends[1].clone().unwrap())
    }

    #[test]
    fn open_ends_and_dates_beyond_the_calendar_are_in_other() {
        let march = 2026 * 12 + 2;
        assert_eq!(shown(Some(march), Some(march)), "1 '2026-03' '2026-03'");
        assert_eq!(shown(Some(march - 3), Some(march)), "4 '2025-12' '2026-03'");
        assert_eq!(shown(Some(march), None), "287 '2026-03' other");
        assert_eq!(shown(None, Some(march)), "676 '1970-01' other");
        assert_eq!(shown(None, None), "961 '1970-01' other");
        assert_eq!(shown(Some(0), Some(11)), "1 other other");
        assert_eq!(shown(Some(2050 * 12), Some(2051 * 12)), "1 other other");
        assert_eq!(shown(Some(2049 * 12 + 11), Some(2050 * 12)), "2 '2049-12' other");
        assert!(cells_of_months(Some(march), Some(march - 1)).is_empty());
        // Two conditions, each with an open end, leave what is between them.
        let (from, to) = (cells_of_months(Some(march), None), cells_of_months(None, Some(march)));
        let both: BTreeSet<Cell> = from.intersection(&to).cloned().collect();
        assert_eq!(counted(both), cells_of_months(Some(march), Some(march)));
        assert_eq!(MONTHS.len(), 960);
    }
}
