//! What amounts that were spent elsewhere protect, where it is not a person with all rows.

/// The units for which an amount was spent, where they need a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpentUnit {
    /// One person in one month: `UNIT (person) PER MONTH OF (date)`.
    Months {
        /// The column that identifies the person.
        person: String,
        /// The column with the date.
        date: String,
    },
    /// What a person says whose presence is public: `PRESENCE PUBLIC`.
    Present,
}
