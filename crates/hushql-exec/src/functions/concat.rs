//! `||` whose results fit a cell.
//!
//! In: two texts. Out: their concatenation, in the operator's own type. It is NULL if either text
//! is NULL, or if both together have more than 65,536 bytes. The length is known before the result
//! is built.
//!
//! The attack prevented: twenty nested subqueries, each with `x || x`, turn one cell into a
//! gigabyte.
//!
//! ```text
//! 'ab' || 'c' = 'abc'        (repeat('x', 60000) || repeat('x', 60000)) IS NULL
//! ```
//!
//! Upstream: docs/upstream.md, 18. Delete with `capped`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::null_unsupported::MOST_OF_A_CELL;

/// `left || right`, a text of type `to`.
pub fn joined(left: Expr, right: Expr, to: &DataType) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let name = format!("joined_as_{to:?}");
    ScalarUDF::from(Joined { name, to: to.clone(), signature }).call(vec![left, right])
}

/// The type of the results of a function that concatenates texts; `None` for another function.
pub(super) fn joined_to(function: &ScalarUDF) -> Option<DataType> {
    Some(function.inner().downcast_ref::<Joined>()?.to.clone())
}

#[derive(Debug)]
struct Joined {
    /// DataFusion treats two calls with equal names and operands as the same value, so the name
    /// contains the type.
    name: String,
    to: DataType,
    signature: Signature,
}

impl PartialEq for Joined {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to
    }
}

impl Eq for Joined {}

impl Hash for Joined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, self.to.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let [left, right] = args.args.as_slice() else {
            return exec_err!("|| has two operands");
        };
        let (left, right) = (texts(left, rows)?, texts(right, rows)?);
        let made = cast(&one_behind_the_other(&left, &right), &self.to)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn texts(operand: &ColumnarValue, rows: usize) -> Result<StringViewArray> {
    let column = cast(&operand.to_array(rows)?, &DataType::Utf8View)?;
    Ok(column.as_string_view().clone())
}

fn one_behind_the_other(left: &StringViewArray, right: &StringViewArray) -> ArrayRef {
    let mut made = StringViewBuilder::with_capacity(left.len());
    let mut text = String::new();
    for pair in left.iter().zip(right.iter()) {
        let (Some(left), Some(right)) = pair else {
            made.append_null();
            continue;
        };
        if left.len().saturating_add(right.len()) > MOST_OF_A_CELL {
            made.append_null();
            continue;
        }
        text.clear();
        text.push_str(left);
        text.push_str(right);
        made.append_value(&text);
    }
    Arc::new(made.finish())
}
