//! `ordered_list(x, y, …)`: values of one type as a list, the least first. NULL stands last.
//!
//! In: released quantiles of one column, each chosen by itself. Out: a list that is in order, as
//! quantiles of one column are. Sorting released values costs nothing.
//!
//! ```text
//! ordered_list(7, 3, NULL, 5)  →  [3, 5, 7, NULL]
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, concat, sort, take};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static ORDERED_LIST: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::from(OrderedList { signature }))
});

/// The function, for the planner.
pub fn ordered_list_function() -> Arc<ScalarUDF> {
    Arc::clone(&ORDERED_LIST)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedList {
    signature: Signature,
}

impl ScalarUDFImpl for OrderedList {
    fn name(&self) -> &'static str {
        "ordered_list"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [first, rest @ ..] if rest.iter().all(|other| other == first) => {
                Ok(DataType::List(Arc::new(Field::new_list_field(first.clone(), true))))
            }
            _ => plan_err!("an ordered list has values of one type"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let columns: Vec<&dyn arrow::array::Array> = columns.iter().map(AsRef::as_ref).collect();
        let all = concat(&columns)?;
        let order = SortOptions { descending: false, nulls_first: false };
        let in_order = |row: usize| -> Result<ArrayRef> {
            let places = (0..columns.len()).map(|column| (column * rows + row) as u64);
            let own = take(&all, &UInt64Array::from_iter_values(places), None)?;
            Ok(sort(&own, Some(order))?)
        };
        let lists = (0..rows).map(in_order).collect::<Result<Vec<_>>>()?;
        let lists: Vec<&dyn arrow::array::Array> = lists.iter().map(AsRef::as_ref).collect();
        let values = if lists.is_empty() { all.slice(0, 0) } else { concat(&lists)? };
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let ends = OffsetBuffer::from_lengths(std::iter::repeat_n(columns.len(), rows));
        Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(field, ends, values, None)?)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::config::ConfigOptions;

    use super::*;

    #[test]
    fn each_row_is_in_order() {
        let columns = [[Some(7), None], [Some(3), Some(2)], [None, Some(1)]];
        let args: Vec<ColumnarValue> = columns
            .into_iter()
            .map(|column| ColumnarValue::Array(Arc::new(Int64Array::from(column.to_vec()))))
            .collect();
        let arg_fields = args.iter().map(|_| Arc::new(Field::new("x", DataType::Int64, true)));
        let arg_fields = arg_fields.collect();
        let function = ordered_list_function();
        let return_type = function.return_type(&[DataType::Int64, DataType::Int64]).unwrap();
        let listed = function
            .invoke_with_args(ScalarFunctionArgs {
                args,
                arg_fields,
                number_rows: 2,
                return_field: Arc::new(Field::new("l", return_type, true)),
                config_options: Arc::new(ConfigOptions::default()),
            })
            .unwrap();
        let ColumnarValue::Array(listed) = listed else { panic!("an array") };
        let row = |n: usize| {
            let own = listed.as_list::<i32>().value(n);
            own.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        assert_eq!(row(0), [Some(3), Some(7), None]);
        assert_eq!(row(1), [Some(1), Some(2), None]);
    }
}
