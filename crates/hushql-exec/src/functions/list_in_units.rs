//! `list_in_units(l, b)`: a list of released values in units of a bound, in the column's own unit.
//!
//! In: lists of floats from −1 to 1, and the bound that was found for them. Out: lists of a
//! column's type. Whole numbers are rounded. Values beyond the type are its ends. NULL stays NULL.
//!
//! ```text
//! list_in_units([-0.5, 0.25], 8)  →  [-4, 2]
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The call for lists of this type, whose values lie in −`most`..`most`.
pub fn list_in_units(list: Expr, bound: Expr, of: &DataType, most: f64) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let (of, most) = (of.clone(), most.to_bits());
    ScalarUDF::from(ListInUnits { of, most, signature }).call(vec![list, bound])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListInUnits {
    /// The type of the values.
    of: DataType,
    /// The bits of the largest of them.
    most: u64,
    signature: Signature,
}

impl ScalarUDFImpl for ListInUnits {
    fn name(&self) -> &'static str {
        "list_in_units"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::List(_), _] => {
                Ok(DataType::List(Arc::new(Field::new_list_field(self.of.clone(), true))))
            }
            _ => plan_err!("a list of values and a bound"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let [lists, bounds] = columns.as_slice() else {
            return plan_err!("a list of values and a bound");
        };
        let (Some(lists), Some(bounds)) =
            (lists.as_list_opt::<i32>(), bounds.as_primitive_opt::<Float64Type>())
        else {
            return plan_err!("a list of floats and a float");
        };
        let most = f64::from_bits(self.most);
        let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..lists.len() {
            let own = lists.value(row);
            let bound = bounds.is_valid(row).then(|| bounds.value(row));
            let Some(own) = own.as_primitive_opt::<Float64Type>() else {
                return plan_err!("a list of floats");
            };
            lengths.push(own.len());
            values.extend(own.iter().map(|value| {
                let value = (value? * bound?).clamp(-most, most);
                Some(if self.of.is_integer() { value.round() } else { value })
            }));
        }
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let safe = CastOptions { safe: true, ..CastOptions::default() };
        let values = cast_with_options(&values, &self.of, &safe)?;
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let ends = arrow::buffer::OffsetBuffer::from_lengths(lengths);
        let nulls = lists.nulls().cloned();
        Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(field, ends, values, nulls)?)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int32Type;
    use datafusion::common::ScalarValue;
    use datafusion::config::ConfigOptions;

    use super::*;

    fn listed(of: &DataType, most: f64) -> ArrayRef {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(-0.5), Some(0.3), None]),
            None,
            Some(vec![Some(1.0)]),
        ]);
        let signature = Signature::any(2, Volatility::Immutable);
        let function = ListInUnits { of: of.clone(), most: most.to_bits(), signature };
        let field = Arc::new(Field::new("l", lists.data_type().clone(), true));
        let return_type = function.return_type(&[lists.data_type().clone(), DataType::Float64]);
        let all = function.invoke_with_args(ScalarFunctionArgs {
            args: vec![
                ColumnarValue::Array(Arc::new(lists)),
                ColumnarValue::Scalar(ScalarValue::Float64(Some(8.0))),
            ],
            arg_fields: vec![Arc::clone(&field), field],
            number_rows: 3,
            return_field: Arc::new(Field::new("l", return_type.unwrap(), true)),
            config_options: Arc::new(ConfigOptions::default()),
        });
        let ColumnarValue::Array(all) = all.unwrap() else { panic!("an array") };
        all
    }

    #[test]
    fn lists_have_the_unit_and_the_type_of_their_column() {
        let whole = listed(&DataType::Int32, 6.0);
        let expected = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(-4), Some(2), None]),
            None,
            Some(vec![Some(6)]),
        ]);
        assert_eq!(*whole.as_list::<i32>(), expected);
        let decimals = listed(&DataType::Decimal128(5, 2), 999.99);
        let values = decimals.as_list::<i32>().value(0);
        let values = arrow::compute::cast(&values, &DataType::Utf8).unwrap();
        assert_eq!(
            values.as_string::<i32>().iter().collect::<Vec<_>>()[..2],
            [Some("-4.00"), Some("2.40")]
        );
    }
}
