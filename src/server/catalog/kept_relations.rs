//! The rows of relations, kept as long as the declarations and the role are the same.
//!
//! In: a role, and the list of tables that exist for it. Out: the rows of a relation, with an index
//! by each column that a query has looked up. A new declaration makes a new list, for which nothing
//! is kept. A client that opens a tree of 200 tables asks for the same rows hundreds of times.
//!
//! ```text
//! pg_attribute … WHERE attrelid = c.oid, for 200 rows of pg_class      10,000 rows and one index, made once
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hushql_engine::bind::truth_of;

use super::datum::{Datum, Row};

/// Where rows are, by the value of one column.
pub(super) type RowPlaces = HashMap<IndexKey, Vec<usize>>;

/// Rows, and indexes of them by the number of the column.
#[derive(Debug, Default)]
pub(super) struct IndexedRows {
    pub(super) rows: Vec<Row>,
    indexes: Mutex<HashMap<usize, Arc<RowPlaces>>>,
}

impl IndexedRows {
    pub(super) fn new(rows: Vec<Row>) -> Self {
        Self { rows, indexes: Mutex::default() }
    }

    /// Where the rows are, by the values of a column.
    pub(super) fn places(&self, column: usize) -> Arc<RowPlaces> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let places = indexes.entry(column).or_insert_with(|| {
            let mut places = RowPlaces::new();
            for (at, row) in self.rows.iter().enumerate() {
                let key = row.get(column).map_or(IndexKey::Null, IndexKey::of);
                places.entry(key).or_default().push(at);
            }
            Arc::new(places)
        });
        Arc::clone(places)
    }
}

/// A value by which rows are found. Values that are equal in a comparison have one key: a number or
/// truth value and its texts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum IndexKey {
    Null,
    Int(i64),
    Text(Arc<str>),
}

impl IndexKey {
    pub(super) fn of(value: &Datum) -> Self {
        match value {
            Datum::Null => Self::Null,
            Datum::Int(number) => Self::Int(*number),
            Datum::Bool(value) => Self::Int((*value).into()),
            Datum::Text(text) => match (text.trim().parse(), truth_of(text)) {
                (Ok(number), _) => Self::Int(number),
                (Err(_), Some(truth)) => Self::Int(truth.into()),
                (Err(_), None) => Self::Text(Arc::clone(text)),
            },
            value => Self::Text(value.text().unwrap_or_default().into()),
        }
    }
}

/// The relations of one role and one list of tables.
#[derive(Debug, Default)]
pub(crate) struct KeptRelations {
    rows: Mutex<HashMap<i64, Arc<IndexedRows>>>,
    numbers: OnceLock<HashMap<i64, usize>>,
}

impl KeptRelations {
    /// The places of the tables by their numbers, which `numbered` computes once.
    pub(super) fn places(
        &self,
        numbered: impl FnOnce() -> HashMap<i64, usize>,
    ) -> &HashMap<i64, usize> {
        self.numbers.get_or_init(numbered)
    }

    /// The rows of the relation with this number, which `made` computes once.
    pub(super) fn rows(&self, relation: i64, made: impl FnOnce() -> Vec<Row>) -> Arc<IndexedRows> {
        let mut kept = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = kept.entry(relation).or_insert_with(|| Arc::new(IndexedRows::new(made())));
        Arc::clone(rows)
    }
}
