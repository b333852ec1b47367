//! Privacy units: what one unit of a private table is.
//!
//! In: an owner's declaration. Out: plain data, stored with the table.
//!
//! ```text
//! (patient) MAX ROWS 4                        all rows of one patient
//! (patient) PER MONTH OF (visited_at)         the rows of one patient in one month
//! (id) UNIQUE PRESENCE PUBLIC WITH (region)   what the row of one id says, id and region aside
//! VIA (patient) REFERENCES people(id)         the rows that lead to one row of people
//! ```

use serde::{Deserialize, Serialize};

use super::quoted::quoted;

/// The definition of one person in a private table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Unit {
    /// Every row is one person.
    Row,
    /// A column identifies the person.
    Column {
        /// The column.
        column: String,
        /// The largest number of rows of one person, if declared.
        max_rows: Option<u64>,
        /// Whether each person has at most one row.
        unique: bool,
    },
    /// A column identifies the person, and a date the month: one person's rows in one month.
    Month {
        /// The column that identifies the person.
        person: String,
        /// The column with the date.
        date: String,
        /// The largest number of rows of one person in one month, if declared.
        max_rows: Option<u64>,
    },
    /// A column identifies the person, everyone has one row, and anyone may know who has one.
    /// Neighbours replace the other values of one person, and the person stays.
    Present {
        /// The column that identifies the person. Its values are public.
        column: String,
        /// The other columns whose values are public.
        public: Vec<String>,
    },
    /// Columns lead to a row of another private table. The row belongs to the person of that row.
    Via(Link),
}

/// How the rows of a table lead to their person through another table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenLink")]
pub struct Link {
    /// The columns of this table that lead to the other table.
    pub columns: Vec<String>,
    /// The other table.
    pub table: String,
    /// The matching columns of that table: rows with equal values belong together.
    pub references: Vec<String>,
    /// The largest number of rows of one person, if declared.
    pub max_rows: Option<u64>,
}

/// A link as stored. Earlier versions also stored the unit domain at its end, which is now derived
/// from the chain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLink {
    columns: Vec<String>,
    table: String,
    references: Vec<String>,
    max_rows: Option<u64>,
    #[serde(default, rename = "space")]
    _space: Option<String>,
}

impl From<WrittenLink> for Link {
    fn from(link: WrittenLink) -> Self {
        let WrittenLink { columns, table, references, max_rows, _space } = link;
        Self { columns, table, references, max_rows }
    }
}

impl Unit {
    /// The text after SET PRIVACY UNIT that declares it.
    pub fn declaration(&self) -> String {
        let rows = |most: Option<u64>| most.map_or(String::new(), |n| format!(" MAX ROWS {n}"));
        match self {
            Self::Row => "ROW".to_owned(),
            Self::Column { column, max_rows, unique } => {
                let unique = if *unique { " UNIQUE" } else { "" };
                format!("({}){unique}{}", quoted(column), rows(*max_rows))
            }
            Self::Month { person, date, max_rows } => {
                let rows = rows(*max_rows);
                format!("({}) PER MONTH OF ({}){rows}", quoted(person), quoted(date))
            }
            Self::Present { column, public } => {
                let names: Vec<String> = public.iter().map(|name| quoted(name)).collect();
                let with = match names.as_slice() {
                    [] => String::new(),
                    names => format!(" WITH ({})", names.join(", ")),
                };
                format!("({}) UNIQUE PRESENCE PUBLIC{with}", quoted(column))
            }
            Self::Via(link) => {
                let names = |names: &[String]| {
                    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
                };
                format!(
                    "VIA ({}) REFERENCES {}({}){}",
                    names(&link.columns),
                    quoted(&link.table),
                    names(&link.references),
                    rows(link.max_rows)
                )
            }
        }
    }

    /// The largest number of rows of one unit, if the declaration bounds it.
    ///
    /// # Guarantee
    /// In every database that satisfies the declaration, no unit has more rows than this; `None`
    /// means that no bound is declared. Other code verifies or enforces that the data satisfy it.
    pub fn max_rows(&self) -> Option<u64> {
        match self {
            Self::Row => Some(1),
            Self::Column { unique: true, .. } => Some(1),
            Self::Column { max_rows, unique: false, .. } => *max_rows,
            Self::Month { max_rows, .. } => *max_rows,
            Self::Present { .. } => Some(1),
            Self::Via(link) => link.max_rows,
        }
    }

    /// True if `MAX ROWS` or `UNIQUE` is declared. Files are verified for it.
    pub fn is_bounded(&self) -> bool {
        self.max_rows().is_some() && !matches!(self, Self::Row)
    }

    /// The table's own column that identifies the person, if there is one.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Row | Self::Via(_) => None,
            Self::Column { column, .. } | Self::Present { column, .. } => Some(column),
            Self::Month { person, .. } => Some(person),
        }
    }

    /// The link through which rows lead to their person, if there is one.
    pub fn link(&self) -> Option<&Link> {
        match self {
            Self::Via(link) => Some(link),
            Self::Row | Self::Column { .. } | Self::Month { .. } | Self::Present { .. } => None,
        }
    }

    /// The columns with the person and the date, if a unit is one month of a person.
    pub fn month(&self) -> Option<(&str, &str)> {
        match self {
            Self::Row | Self::Column { .. } | Self::Present { .. } | Self::Via(_) => None,
            Self::Month { person, date, .. } => Some((person, date)),
        }
    }

    /// The column with the person and the other public columns, if presence is public.
    ///
    /// # Guarantee
    /// `None` for every unit whose neighbours add or remove one.
    pub fn present(&self) -> Option<(&str, &[String])> {
        match self {
            Self::Row | Self::Column { .. } | Self::Month { .. } | Self::Via(_) => None,
            Self::Present { column, public } => Some((column, public)),
        }
    }

    /// The columns that assign a row to a person; they have no domain. The date that assigns it to
    /// a month may have one: the month is that of the date in the file.
    pub fn columns(&self) -> &[String] {
        match self {
            Self::Row => &[],
            Self::Column { column, .. } | Self::Present { column, .. } => {
                std::slice::from_ref(column)
            }
            Self::Month { person, .. } => std::slice::from_ref(person),
            Self::Via(link) => &link.columns,
        }
    }
}
