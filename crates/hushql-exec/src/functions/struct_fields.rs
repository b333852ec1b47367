//! Takes fields out of the structs of Parquet and Arrow files.
//!
//! In: a column of structs, and the place of a field. Out: the values of the field, row by row. The
//! function never fails: the field of a NULL is NULL, whatever the file holds there.
//!
//! ```text
//! address: {city: Oslo}, NULL, {city: NULL}      city:  Oslo, NULL, NULL
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

static STRUCT_FIELD: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(StructField::new())));

/// `struct_field(column, place)`: the field at this place of each struct, counted from 0.
pub fn struct_field_function() -> Arc<ScalarUDF> {
    Arc::clone(&STRUCT_FIELD)
}

/// The values of a field of structs. The field of a NULL is NULL.
///
/// # Errors
/// An internal error for a column that has no such field.
pub fn field_of_structs(structs: &ArrayRef, place: usize) -> Result<ArrayRef> {
    let Some(structs) = structs.as_struct_opt() else {
        return exec_err!("this is no column of structs");
    };
    let Some(field) = structs.columns().get(place) else {
        return exec_err!("the structs have fewer fields");
    };
    // These have no NULLs of their own, and nothing is computed from them.
    let is_opaque = matches!(
        field.data_type(),
        DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)
    );
    match structs.nulls() {
        // A file may hold values of the fields of a NULL.
        Some(nulls) if nulls.null_count() > 0 && !is_opaque => {
            Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?)
        }
        Some(_) | None => Ok(Arc::clone(field)),
    }
}

/// The type of the field at a place of a type.
pub fn field_type(structs: &DataType, place: usize) -> Option<&FieldRef> {
    let DataType::Struct(fields) = structs else { return None };
    fields.get(place)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StructField {
    signature: Signature,
}

impl StructField {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

fn place_of(place: &ScalarValue) -> Option<usize> {
    let ScalarValue::Int64(Some(place)) = place else { return None };
    usize::try_from(*place).ok()
}

impl ScalarUDFImpl for StructField {
    fn name(&self) -> &'static str {
        "struct_field"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        plan_err!("the type of struct_field follows from its second argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let ([structs, _], [_, Some(place)]) = (args.arg_fields, args.scalar_arguments) else {
            return plan_err!("struct_field takes a column and a place");
        };
        match place_of(place).and_then(|place| field_type(structs.data_type(), place)) {
            Some(field) => Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), true))),
            None => plan_err!("the structs have no such field"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [structs, ColumnarValue::Scalar(place)] = args.args.as_slice() else {
            return exec_err!("struct_field takes a column and a place");
        };
        let Some(place) = place_of(place) else {
            return exec_err!("struct_field takes a column and a place");
        };
        match structs {
            ColumnarValue::Array(array) => {
                Ok(ColumnarValue::Array(field_of_structs(array, place)?))
            }
            ColumnarValue::Scalar(value) => {
                let value = field_of_structs(&value.to_array()?, place)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::NullBuffer;

    use arrow::array::{DictionaryArray, Int64Array, StringArray, StructArray};
    use arrow::datatypes::{Fields, Int32Type, Int64Type};

    use super::*;

    /// A NULL hides what its fields hold.
    #[test]
    fn the_field_of_a_null_is_null() {
        let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
            Arc::new(StringArray::from(vec!["x", "y", "z"])),
            Arc::new(words),
        ];
        let fields: Fields = columns
            .iter()
            .enumerate()
            .map(|(i, column)| Field::new(format!("f{i}"), column.data_type().clone(), true))
            .collect();
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let structs: ArrayRef = Arc::new(StructArray::new(fields, columns, nulls));
        let numbers = field_of_structs(&structs, 0).unwrap();
        let numbers: Vec<_> = numbers.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(numbers, [Some(1), None, None]);
        let texts = field_of_structs(&structs, 1).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("x"), None, Some("z")]);
        let words = field_of_structs(&structs, 2).unwrap();
        let valid: Vec<_> = (0..3).map(|i| words.is_valid(i)).collect();
        assert_eq!(valid, [true, false, true]);
        assert!(field_of_structs(&structs, 3).is_err());
        assert!(field_of_structs(&words, 0).is_err());
    }
}
