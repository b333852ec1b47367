//! How the program writes answers: as cells, files and pictures. The program's own formats do it,
//! so that the page, the shell and the files agree.

use hushql::{Answer, BudgetState, DaySpending};

/// The columns of a table, each with the names of its own.
pub(crate) type NamedTables = Vec<(String, Vec<String>)>;

/// A column of a shown answer.
#[derive(Debug, Clone)]
pub(crate) struct PageColumn {
    pub(crate) name: String,
    pub(crate) is_number: bool,
    /// The confidence of its errors, as in `95 %`, if it has errors.
    pub(crate) confidence: Option<String>,
}

/// A cell of a shown answer.
#[derive(Debug, Clone)]
pub(crate) struct PageCell {
    pub(crate) text: String,
    /// Its error.
    pub(crate) error: Option<String>,
    /// Whether it is NULL.
    pub(crate) is_null: bool,
}

/// An answer as texts.
#[derive(Debug, Clone)]
pub(crate) struct PageTable {
    pub(crate) columns: Vec<PageColumn>,
    pub(crate) rows: Vec<Vec<PageCell>>,
    /// One line about the accuracy of each winner.
    pub(crate) winners: Vec<String>,
}

/// What is drafted from what an owner typed: SQL, or how to type it.
pub(crate) type Drafted = Result<String, String>;

/// The writers of the program. Each is `None` if there is nothing to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presentation {
    pub(crate) table: fn(&Answer) -> Option<PageTable>,
    pub(crate) csv: fn(&Answer) -> Option<String>,
    pub(crate) json: fn(&Answer) -> Option<String>,
    pub(crate) parquet: fn(&Answer) -> Option<Vec<u8>>,
    pub(crate) chart: fn(&Answer) -> Option<String>,
    /// The spending of budgets, day by day.
    pub(crate) spending: fn(&[BudgetState], &[DaySpending]) -> Option<String>,
    /// The completions at a byte of a statement, and where the completed word begins.
    pub(crate) complete: fn(NamedTables, &str, usize) -> (usize, Vec<String>),
    /// The statement that makes a table of a file, from its path.
    pub(crate) table_of_file: fn(&str) -> Drafted,
    /// The clause for the domain of a column, from its type and what was typed.
    pub(crate) domain: fn(&str, &str) -> Drafted,
    /// How to type it, from the type.
    pub(crate) domain_asked: fn(&str) -> &'static str,
    /// The clause for the most rows of a person.
    pub(crate) most_rows: fn(&str) -> Drafted,
    /// The clause of a budget.
    pub(crate) budget: fn(&str) -> Drafted,
}
