//! The group key whose values are the candidates of a selection.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

/// A group key whose values are the candidates.
pub(crate) struct ChoiceTarget<'a> {
    /// All candidates of the private aggregate; `None` if they are unknown.
    pub(crate) values: Option<&'a [ScalarValue]>,
    /// The candidates of this selection, by their position among all.
    pub(crate) own: Vec<usize>,
    pub(crate) data_type: &'a DataType,
}
