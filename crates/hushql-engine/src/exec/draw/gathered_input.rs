//! Reads the bounded inputs of a release.
//!
//! In: the rows of a bounded input, from one partition, and the shape of its integers. Out: its
//! exact integers.

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;

use crate::analysis::{InputShape, KeySpace, Keys};
use hushql_exec::gather::{self, Gathered, KeyColumns};

/// Reads a bounded input in the shape that its measures need.
///
/// # Guarantee
/// The result is a function of the multiset of (key, integers) that the input yields: sums are
/// exact, and keys outside the key space are dropped. `first` is the first bounded input, if it was
/// gathered before: where the groups are those of the data, it says what groups there are.
pub(crate) async fn gather(
    rows: SendableRecordBatchStream,
    input_shape: InputShape,
    keys: &Keys,
    columns: usize,
    first: Option<&Gathered>,
) -> Result<Gathered> {
    match input_shape {
        InputShape::Sums | InputShape::Distinct => {
            gather::sums(rows, listed(keys.all()), columns).await.map(Gathered::Sums)
        }
        InputShape::Places => match first {
            Some(Gathered::Groups { keys, .. }) => {
                gather::places_of_groups(rows, keys).await.map(Gathered::Places)
            }
            Some(Gathered::Sums(_) | Gathered::Places(_) | Gathered::Keys { .. }) | None => {
                gather::places(rows, listed(keys.outer())).await.map(Gathered::Places)
            }
        },
        InputShape::Keys => gather::data_keys(rows).await,
        InputShape::Groups { counter } => {
            // The schema is public, so this number depends on no data.
            let key_columns = rows.schema().fields().len().saturating_sub(columns);
            gather::groups(rows, key_columns, columns, counter).await
        }
    }
}

/// The keys of a space.
fn listed(space: &KeySpace) -> KeyColumns<'_> {
    KeyColumns { columns: space.columns(), len: space.len() }
}
