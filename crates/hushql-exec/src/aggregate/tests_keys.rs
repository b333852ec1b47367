//! Listed keys, and the integers of each, for tests.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::gather::KeyColumns;

/// Every combination of some columns' keys.
pub(crate) struct ListedKeys {
    columns: Vec<ArrayRef>,
    len: usize,
}

impl ListedKeys {
    /// Every combination of these keys; the last column changes fastest.
    pub(crate) fn product(keys: &[Vec<ScalarValue>]) -> Self {
        let len: usize = keys.iter().map(Vec::len).product();
        let mut repeat = len;
        let column = |values: &Vec<ScalarValue>| {
            repeat /= values.len();
            let column = (0..len).map(|i| values[(i / repeat) % values.len()].clone());
            ScalarValue::iter_to_array(column).unwrap()
        };
        Self { columns: keys.iter().map(column).collect(), len }
    }

    /// The key columns.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The keys in the form that the reader of bounded inputs takes.
    pub(crate) fn listed(&self) -> KeyColumns<'_> {
        KeyColumns { columns: &self.columns, len: self.len }
    }

    /// The number of combinations; 1 without a column.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The values of a row.
fn key(columns: &[ArrayRef], row: usize) -> Vec<String> {
    let text = |column: &ArrayRef| ScalarValue::try_from_array(column, row).unwrap().to_string();
    columns.iter().map(text).collect()
}

/// Adds up the integers of every key, column by column; rows of other keys have no effect.
pub(crate) async fn sums_of_keys(
    mut rows: SendableRecordBatchStream,
    keys: &ListedKeys,
    columns: usize,
) -> Vec<Vec<i128>> {
    let places: BTreeMap<_, _> = (0..keys.len).map(|i| (key(&keys.columns, i), i)).collect();
    let mut sums = vec![vec![0; keys.len]; columns];
    while let Some(batch) = rows.next().await {
        let batch = batch.unwrap();
        let (own, integers) = batch.columns().split_at(keys.columns.len());
        assert_eq!(integers.len(), columns);
        for row in 0..batch.num_rows() {
            let Some(place) = places.get(&key(own, row)) else { continue };
            for (sums, column) in sums.iter_mut().zip(integers) {
                sums[*place] += match column.data_type() {
                    _ if column.is_null(row) => 0,
                    DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
                    _ => column.as_primitive::<Decimal128Type>().value(row),
                };
            }
        }
    }
    sums
}
