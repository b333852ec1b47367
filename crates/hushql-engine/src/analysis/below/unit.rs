//! The privacy units of a plan's rows: the unit domain, the column that identifies a unit, and the
//! number of rows of a unit.
//!
//! In: the declarations of the tables that are read. Out: a [`UnitScope`], which joins, unions and
//! per-unit aggregates combine. If a column identifies the unit, the bounding operator enforces the
//! number of rows. If each row is a unit, the number is a fact that every operator must preserve.
//!
//! ```text
//! visits, MAX ROWS 20                 patient_id, at most 20 rows/unit
//! visits ⋈ wards (each ward twice)    patient_id, at most 40 rows/unit
//! ```

use std::fmt;

/// One factor of the number of rows of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Factor {
    pub(crate) table: String,
    pub(crate) times: u64,
    /// True if a join with the table repeats rows. Otherwise `times` is the number of a unit's rows
    /// in the table.
    pub(crate) repeats: bool,
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, times, repeats } = self;
        write!(f, "{table}: {times} {}", if *repeats { "times" } else { "rows" })
    }
}

/// The privacy units of a plan's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitScope {
    unit_domain: String,
    tables: Vec<String>,
    column: Option<String>,
    rows: Option<u64>,
    /// The most rows of one unit that joins can produce before they are bounded, as far as it is
    /// known.
    reach: u64,
    /// The rows in each table, and the factor of each join.
    factors: Vec<Factor>,
    /// The columns of the tables that hold the unit.
    names: Vec<String>,
    /// The column with the date, if a unit is one month of a person.
    month_of: Option<String>,
    /// The columns that anyone may know of everyone, if the presence of people is public.
    public: Option<Vec<String>>,
    /// The number of blocks, if a block of units stands for them.
    blocks: Option<u32>,
}

impl UnitScope {
    /// Rows of one table, in which every row is a unit.
    pub(crate) fn of_rows(table: &str) -> Self {
        let table = table.to_owned();
        Self {
            unit_domain: table.clone(),
            tables: vec![table],
            column: None,
            rows: Some(1),
            reach: 1,
            factors: Vec::new(),
            names: Vec::new(),
            month_of: None,
            public: None,
            blocks: None,
        }
    }

    /// Rows of one table of a unit domain, in which a column identifies the unit.
    pub(crate) fn of_column(
        unit_domain: &str,
        table: &str,
        column: &str,
        rows: Option<u64>,
    ) -> Self {
        Self {
            unit_domain: unit_domain.to_owned(),
            tables: vec![table.to_owned()],
            column: Some(column.to_owned()),
            rows,
            reach: rows.unwrap_or(1),
            factors: rows
                .map(|times| Factor { table: table.to_owned(), times, repeats: false })
                .into_iter()
                .collect(),
            names: Vec::new(),
            month_of: None,
            public: None,
            blocks: None,
        }
    }

    /// The same rows. A unit is the rows of one person in one month of this column.
    #[must_use]
    pub(crate) fn per_month_of(mut self, date: &str) -> Self {
        self.month_of = Some(date.to_owned());
        self
    }

    /// The same rows. Anyone may know whose they are, and these columns of them.
    #[must_use]
    pub(crate) fn with_public(mut self, column: &str, others: &[String]) -> Self {
        let own = std::iter::once(column).chain(others.iter().map(String::as_str));
        self.public = Some(own.map(ToOwned::to_owned).collect());
        self
    }

    /// The same rows, as those of blocks of units. Nothing is known of their number.
    #[must_use]
    pub(crate) fn in_blocks(self, blocks: u32) -> Self {
        let column = self.column.clone().or_else(|| Some("row".to_owned()));
        Self { column, rows: None, reach: 1, factors: Vec::new(), blocks: Some(blocks), ..self }
    }

    /// The number of blocks, if a block of units stands for them.
    pub fn blocks(&self) -> Option<u32> {
        self.blocks
    }

    /// The columns that anyone may know of everyone, if the presence of people is public, so that
    /// neighbours replace what a person's row says.
    pub(crate) fn public(&self) -> Option<&[String]> {
        self.public.as_deref()
    }

    /// The column whose months tell units of one person apart, if a unit is one month of a person.
    pub(crate) fn month_of(&self) -> Option<&str> {
        self.month_of.as_deref()
    }

    /// The same units, which these columns of the table hold, too: those that lead to the column
    /// that identifies them.
    #[must_use]
    pub(crate) fn with_names(mut self, names: impl Iterator<Item = String>) -> Self {
        self.names.extend(names);
        self
    }

    /// Whether a column is one of those that hold the unit, by its name alone or behind the name of
    /// a table.
    pub(crate) fn is_named(&self, path: &str) -> bool {
        let last = path.rsplit('.').next().unwrap_or(path);
        let mut known = self.names.iter().map(String::as_str).chain(self.column());
        known.any(|name| name == path || name == last)
    }

    /// Public rows, which have no units.
    pub(crate) fn nobody() -> Self {
        Self {
            unit_domain: String::new(),
            tables: Vec::new(),
            column: None,
            rows: None,
            reach: 1,
            factors: Vec::new(),
            names: Vec::new(),
            month_of: None,
            public: None,
            blocks: None,
        }
    }

    /// The same units, whose rows also come from other tables.
    #[must_use]
    pub(crate) fn with_tables(mut self, tables: &[String]) -> Self {
        for table in tables {
            if !self.tables.contains(table) {
                self.tables.push(table.clone());
            }
        }
        self
    }

    /// The same units, with another bound on their rows.
    #[must_use]
    pub(crate) fn with_rows(self, rows: Option<u64>) -> Self {
        Self { rows, reach: rows.unwrap_or(self.reach), ..self }
    }

    /// The same units. A join with public rows repeats each of their rows at most this many times.
    #[must_use]
    pub(crate) fn repeated(mut self, table: &str, times: u64) -> Self {
        self.reach = self.reach.saturating_mul(times);
        if times != 1 {
            self.factors.push(Factor { table: table.to_owned(), times, repeats: true });
        }
        self
    }

    /// The same units, whose rows are joined with other rows of the same units; `rows` in total, if
    /// it is known.
    #[must_use]
    pub(crate) fn joined(self, other: &Self, rows: Option<u64>) -> Self {
        let reach = self.reach.saturating_mul(other.reach);
        let names = other.names.iter().cloned();
        let mut joined = self.with_tables(&other.tables).with_names(names).with_rows(rows);
        joined.reach = rows.unwrap_or(reach);
        joined.factors.extend(other.factors.iter().cloned());
        joined
    }

    /// The most rows of a unit before they are bounded, as far as it is known. It is at least the
    /// number of rows that joins with public rows make of one row.
    pub(crate) fn reach(&self) -> u64 {
        self.reach
    }

    /// The factors of that number.
    pub(crate) fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// The unit domain: the name under which the losses of these units add up.
    pub fn unit_domain(&self) -> &str {
        &self.unit_domain
    }

    /// The private tables that are read, each once.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The column that identifies the unit; `None` if every row is a unit.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// Whether every row of the table is a unit.
    pub fn is_row(&self) -> bool {
        self.column.is_none()
    }

    /// M: the most rows of one unit, if something bounds them.
    ///
    /// # Guarantee
    /// If rows are units, a row of the table has at most this many rows here. If a column
    /// identifies the unit, the bound must be enforced.
    pub fn max_rows(&self) -> Option<u64> {
        self.rows
    }

    /// The number of rows of a unit, in a few words.
    pub(crate) fn rows_text(&self) -> String {
        let month = self.month_of.as_ref();
        let month = month.map_or_else(String::new, |date| format!(" in one month of {date}"));
        match (&self.column, self.rows) {
            (None, Some(1)) => "1 row/unit".to_owned(),
            (None, rows) => format!("{} rows/unit", rows.unwrap_or(u64::MAX)),
            (Some(column), Some(1)) if self.public.is_some() => {
                format!("unit {column}, presence public, 1 row/unit")
            }
            (Some(column), Some(1)) => format!("unit {column}{month}, 1 row/unit"),
            (Some(column), Some(rows)) => format!("unit {column}{month}, at most {rows} rows/unit"),
            (Some(column), None) => format!("unit {column}{month}, any number of rows/unit"),
        }
    }
}
