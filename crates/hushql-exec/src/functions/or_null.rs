//! A function that returns NULL for the rows that make it fail.
//!
//! In: a function of DataFusion. Out: the same function, with NULL where it returns an error, NaN,
//! or an infinite number. A released value is paid for before a function sees it, and noise alone
//! can move it to where the function fails. The query would then be charged without an answer.
//!
//! ```text
//! chr(n)      NULL where n is no code of a character, instead of a failed query
//! ln(n)       NULL where n is 0, instead of -Infinity
//! ```
//!
//! Upstream: docs/upstream.md, 17. Keep when kernels fail on fewer values: NULL is our choice.
//!
//! # Guarantee
//! If a kernel returns an error for some row, this row becomes NULL, and no other. This does not
//! help against a kernel that panics: such a function is refused (`decided`).

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use super::checked::finite;

/// The same function, but NULL where it fails or its result is not finite.
pub fn or_null(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if function.inner().is::<OrNull>() {
        return function;
    }
    let name = format!("{}_or_null", function.name());
    Arc::new(ScalarUDF::from(OrNull { name, function }))
}

/// Calls a function once, for one row, with these values, and with a harmless value for each
/// missing one.
///
/// # Errors
/// The errors of the function, which depend on these values and types alone.
pub fn tried(function: &ScalarUDF, arguments: &[(Option<ScalarValue>, DataType)]) -> Result<()> {
    let arg_fields: Vec<FieldRef> = arguments
        .iter()
        .map(|(_, data_type)| Arc::new(Field::new("x", data_type.clone(), true)))
        .collect();
    let scalar_arguments: Vec<Option<&ScalarValue>> =
        arguments.iter().map(|(value, _)| value.as_ref()).collect();
    let return_field = function.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })?;
    let args = arguments.iter().map(|(value, data_type)| match value {
        Some(value) => Ok(ColumnarValue::Scalar(value.clone())),
        None => Ok(ColumnarValue::Array(harmless(data_type)?.to_array()?)),
    });
    let config_options = Arc::new(ConfigOptions::default());
    function.invoke_with_args(ScalarFunctionArgs {
        args: args.collect::<Result<_>>()?,
        arg_fields,
        number_rows: 1,
        return_field,
        config_options,
    })?;
    Ok(())
}

/// Whether values of one type can be cast to another, if they fit.
pub fn is_castable(from: &DataType, to: &DataType) -> bool {
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let value = harmless(from).and_then(|value| value.to_array());
    value.is_ok_and(|value| cast_with_options(&value, to, &lenient).is_ok())
}

/// A value of a type that does not make functions fail: one, the empty text, or the first moment
/// of 1970.
fn harmless(data_type: &DataType) -> Result<ScalarValue> {
    let value = match data_type {
        number if number.is_numeric() => ScalarValue::new_one(number),
        other => ScalarValue::new_default(other),
    };
    value.or_else(|_| ScalarValue::try_new_null(data_type))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    /// DataFusion treats two calls with equal names and operands as the same value.
    name: String,
    function: Arc<ScalarUDF>,
}

impl OrNull {
    /// The results of these rows. Rows that make the kernel fail are found by halving.
    fn of_rows(&self, args: &ScalarFunctionArgs, from: usize, rows: usize) -> Result<ArrayRef> {
        let to = args.return_type();
        let part = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(column) => ColumnarValue::Array(column.slice(from, rows)),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
        });
        let part = ScalarFunctionArgs { args: part.collect(), number_rows: rows, ..args.clone() };
        match self.function.invoke_with_args(part).and_then(|made| made.to_array(rows)) {
            Ok(made) if made.data_type() == to => Ok(finite(made)),
            Ok(made) => Ok(finite(cast(&made, to)?)),
            Err(_) if rows <= 1 => Ok(new_null_array(to, rows)),
            Err(_) => self.in_halves(args, from, rows),
        }
    }

    fn in_halves(&self, args: &ScalarFunctionArgs, from: usize, rows: usize) -> Result<ArrayRef> {
        let half = rows / 2;
        let first = self.of_rows(args, from, half)?;
        let second = self.of_rows(args, from + half, rows - half)?;
        Ok(concat(&[first.as_ref(), second.as_ref()])?)
    }
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.function.return_field_from_args(args)?;
        Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = self.function.invoke_with_args(args.clone());
        match made {
            Ok(ColumnarValue::Array(made)) => return Ok(ColumnarValue::Array(finite(made))),
            Ok(ColumnarValue::Scalar(made)) => {
                let made = finite(made.to_array()?);
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
            }
            Err(_) => {}
        }
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(args.return_type())?));
        }
        let rows = args.number_rows;
        Ok(ColumnarValue::Array(match rows {
            0 | 1 => new_null_array(args.return_type(), rows),
            _ => self.in_halves(&args, 0, rows)?,
        }))
    }
}
