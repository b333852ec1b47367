//! What a query does with columns of private tables: the vocabulary of the walk.
//!
//! In: the steps of the walk. Out: plain data. A [`Lineage`] says from which columns a value comes,
//! and a [`ColumnUse`] what is done with one of them.
//!
//! ```text
//! CASE WHEN zip = '1' THEN age END AS a … GROUP BY a     a: zip, age; uses: zip decides, zip and age are keys
//! ```

use std::collections::BTreeSet;

/// A column of a private table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableColumn {
    pub(crate) table: String,
    pub(crate) column: String,
}

/// Where the values of an expression come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// The columns from which they are computed, or that decide them.
    pub(crate) columns: BTreeSet<TableColumn>,
    /// True if rows of a private table have them.
    pub(crate) reads_private: bool,
    /// True if rows of a public table have them.
    pub(crate) reads_public: bool,
    /// The columns of public tables among them: the number of the scan in the query, and the
    /// column.
    pub(crate) public: BTreeSet<(usize, String)>,
    /// True if they are columns of rows that the query writes itself.
    pub(crate) reads_written: bool,
    /// True if they are not those of a whole column: they are computed, or something decided by
    /// them which rows are left.
    pub(crate) is_made: bool,
}

impl Lineage {
    /// Adds what another value comes from.
    pub(crate) fn add(&mut self, other: &Self) {
        self.columns.extend(other.columns.iter().cloned());
        self.public.extend(other.public.iter().cloned());
        self.reads_private |= other.reads_private;
        self.reads_public |= other.reads_public;
        self.reads_written |= other.reads_written;
        self.is_made |= other.is_made;
    }

    /// The same values, as those that are computed.
    pub(crate) fn made(self) -> Self {
        Self { is_made: true, ..self }
    }

    /// True if no row of a table has the values, as those of a literal.
    pub(crate) fn is_constant(&self) -> bool {
        !self.reads_private && !self.reads_public
    }

    /// True if public rows, or rows that the query writes, have some of the values.
    pub(crate) fn is_mixed(&self) -> bool {
        self.reads_public || self.reads_written
    }

    /// What several values come from, together.
    pub(crate) fn of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }
}

/// What is done with a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UseKind {
    /// Rows are grouped by its values, or by what is computed from them.
    Key,
    /// One of its values is chosen or shown.
    Choice,
    /// It decides which rows count, or which value an expression has.
    Condition,
    /// Rows are joined where it equals a column of other rows.
    Join,
    /// An aggregate adds it up or compares it.
    Argument,
    /// The engine finds the bounds of its values, and shows them.
    Bounds,
}

/// A use of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnUse {
    pub(crate) column: TableColumn,
    pub(crate) kind: UseKind,
    /// The expression that uses it, as text.
    pub(crate) text: String,
}

/// A call of an aggregate over rows of private tables, or another release of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallUse {
    /// Its first name in lower case.
    pub(crate) name: String,
    /// The mechanism that releases it, in lower case; `None` if it is not released.
    pub(crate) mechanism: Option<String>,
    /// The private tables whose rows it reads.
    pub(crate) tables: BTreeSet<String>,
    /// The call, as text.
    pub(crate) text: String,
}

/// Everything that a query does with private rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) columns: Vec<ColumnUse>,
    pub(crate) calls: Vec<CallUse>,
}

impl Uses {
    /// Records a use of all columns of a value.
    pub(crate) fn used(&mut self, lineage: &Lineage, kind: UseKind, text: &str) {
        for column in &lineage.columns {
            let text = text.to_owned();
            self.columns.push(ColumnUse { column: column.clone(), kind, text });
        }
    }
}
