//! The clause of a privacy unit, as an owner writes it.
//!
//! ```text
//! (patient) MAX ROWS 20   →   Column { column: patient, unique: false, max_rows: 20 }
//! ```

/// The privacy unit of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitClause {
    /// `ROW`.
    Row,
    /// `(column) [UNIQUE] [MAX ROWS n]`.
    Column {
        /// The column that identifies the person.
        column: String,
        /// Each unit has at most one row.
        unique: bool,
        /// Each unit has at most this many rows.
        max_rows: Option<u64>,
    },
    /// `(column) PER MONTH OF (date) [MAX ROWS n]`.
    Month {
        /// The column that identifies the person.
        person: String,
        /// The column with the date.
        date: String,
        /// Each unit has at most this many rows.
        max_rows: Option<u64>,
    },
    /// `(column) UNIQUE PRESENCE PUBLIC [WITH (columns)]`.
    Present {
        /// The column that identifies the person.
        column: String,
        /// The other columns whose values are public.
        public: Vec<String>,
    },
    /// `VIA (columns) REFERENCES table(columns) [MAX ROWS n]`.
    Via {
        /// The columns that lead to the other table.
        columns: Vec<String>,
        /// The other table.
        table: String,
        /// Its columns.
        references: Vec<String>,
        /// Each unit has at most this many rows.
        max_rows: Option<u64>,
    },
}
