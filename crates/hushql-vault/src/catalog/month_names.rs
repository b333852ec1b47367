//! Which names are counted by months of people.
//!
//! In: the stored rows. Out: look-ups by the name of a table, which need not exist any more.
//!
//! ```text
//! .months visits: { person: patient, date: visited_at }   →   visits, patient, visited_at
//! ```

use super::Catalog;
use super::month_units::{MonthUnit, MonthsOfTable};

impl Catalog {
    /// The same snapshot with these units in time.
    #[must_use]
    pub(crate) fn with_months(mut self, rows: impl IntoIterator<Item = MonthsOfTable>) -> Self {
        self.months.extend(rows.into_iter().map(|row| (row.month_table, row.months)));
        self
    }

    /// The unit in time in which charges on a name are counted, whether or not the table exists.
    pub(crate) fn counted_months(&self, name: &str) -> Option<&MonthUnit> {
        self.months.get(name)
    }

    /// The names whose charges are counted by months, with the columns of the person and the date.
    pub fn month_names(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let months = self.months.iter();
        months.map(|(name, unit)| (name.as_str(), unit.person.as_str(), unit.date.as_str()))
    }
}
