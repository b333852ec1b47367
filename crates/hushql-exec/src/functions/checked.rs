//! Arithmetic that returns NULL if the result does not fit, or is not finite.
//!
//! In: an operation and its operands, coerced by the planner. Out: the result in the operation's
//! own type. In DataFusion, integers wrap around, decimals and divisions by zero fail, and floats
//! become infinite or NaN; noise alone can make released values large or zero.
//!
//! ```text
//! n * 9223372036854775807      NULL where n is 2, not -2
//! ```
//!
//! Upstream: docs/upstream.md, 16. Keep when DataFusion fails instead of wrapping: NULL is our
//! choice.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, new_null_array};
use arrow::compute::kernels::cmp::{eq, lt};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{CastOptions, cast_with_options, concat, kernels::numeric, nullif};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckedOperation {
    /// The sum, difference, product, quotient or remainder of two operands.
    Arithmetic(Operator),
    /// The magnitude of one number.
    Magnitude,
    /// A number, unless it is negative.
    NotNegative,
    /// A number, unless it is zero of either sign.
    NotZero,
}

/// `left op right`, of type `to`; NULL if it overflows or divides by zero. `None` for operators
/// other than + - * / %.
pub fn checked(left: Expr, op: Operator, right: Expr, to: &DataType) -> Option<Expr> {
    let name = match op {
        Operator::Plus => "sum_or_null",
        Operator::Minus => "difference_or_null",
        Operator::Multiply => "product_or_null",
        Operator::Divide => "quotient_or_null",
        Operator::Modulo => "remainder_or_null",
        _ => return None,
    };
    Some(called(name, CheckedOperation::Arithmetic(op), to, vec![left, right]))
}

/// The magnitude of an integer of type `to`; NULL if it does not fit.
pub fn checked_abs(x: Expr, to: &DataType) -> Expr {
    called("magnitude_or_null", CheckedOperation::Magnitude, to, vec![x])
}

/// A number of type `to`; NULL if it is negative.
pub fn not_negative(x: Expr, to: &DataType) -> Expr {
    called("not_negative_or_null", CheckedOperation::NotNegative, to, vec![x])
}

/// A number of type `to`; NULL if it is zero. That includes −0.0, which Arrow's comparison of
/// floats distinguishes from 0.0.
pub fn not_zero(x: Expr, to: &DataType) -> Expr {
    called("not_zero_or_null", CheckedOperation::NotZero, to, vec![x])
}

fn called(name: &'static str, kind: CheckedOperation, to: &DataType, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(args.len(), Volatility::Immutable);
    ScalarUDF::from(Checked { name, kind, to: to.clone(), signature }).call(args)
}

/// The type of the results of checked arithmetic; `None` for another function.
pub(super) fn checked_to(function: &ScalarUDF) -> Option<DataType> {
    Some(function.inner().downcast_ref::<Checked>()?.to.clone())
}

/// True if a function adds, subtracts or multiplies integers, with NULL for what does not fit.
pub fn is_checked_integer(function: &ScalarUDF) -> bool {
    let checked = function.inner().downcast_ref::<Checked>();
    checked.is_some_and(|own| {
        let adds = [Operator::Plus, Operator::Minus, Operator::Multiply];
        let is_sum = adds.map(CheckedOperation::Arithmetic).contains(&own.kind);
        is_sum && own.to.is_integer()
    })
}

#[derive(Debug)]
struct Checked {
    /// The name of the operation. It does not contain the type, which follows from the types of the
    /// operands.
    name: &'static str,
    kind: CheckedOperation,
    to: DataType,
    signature: Signature,
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.to == other.to
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let operands = args.args.iter().map(|side| side.to_array(rows));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let result = match (self.kind, operands.as_slice()) {
            (CheckedOperation::Arithmetic(op), [left, right]) => self.each(op, left, right)?,
            (CheckedOperation::Magnitude, [x]) => {
                let zero = ScalarValue::new_zero(&self.to)?.to_scalar()?;
                let zeros = ScalarValue::new_zero(&self.to)?.to_array_of_size(rows)?;
                zip(&lt(x, &zero)?, &self.each(Operator::Minus, &zeros, x)?, x)?
            }
            (CheckedOperation::NotNegative, [x]) => {
                let zero = ScalarValue::new_zero(&self.to)?.to_scalar()?;
                nullif(x, &lt(x, &zero)?)?
            }
            (CheckedOperation::NotZero, [x]) => {
                let zero = ScalarValue::new_zero(&self.to)?;
                let positive = nullif(x, &eq(x, &zero.to_scalar()?)?)?;
                match self.to.is_floating() {
                    true => {
                        let negative = zero.arithmetic_negate()?.to_scalar()?;
                        nullif(&positive, &eq(&positive, &negative)?)?
                    }
                    false => positive,
                }
            }
            (
                CheckedOperation::Arithmetic(_)
                | CheckedOperation::Magnitude
                | CheckedOperation::NotNegative
                | CheckedOperation::NotZero,
                _,
            ) => {
                return exec_err!("checked arithmetic has other operands");
            }
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl Checked {
    /// The results of all rows. If the kernel fails, each row is computed separately.
    fn each(&self, op: Operator, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        if let Ok(all) = self.apply(op, left, right) {
            return Ok(all);
        }
        if left.is_empty() {
            return Ok(new_null_array(&self.to, 0));
        }
        let rows = (0..left.len()).map(|row| {
            let one = self.apply(op, &left.slice(row, 1), &right.slice(row, 1));
            one.unwrap_or_else(|_| new_null_array(&self.to, 1))
        });
        let rows: Vec<ArrayRef> = rows.collect();
        let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
        Ok(concat(&rows)?)
    }

    fn apply(
        &self,
        op: Operator,
        left: &ArrayRef,
        right: &ArrayRef,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let kernel: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> =
            match op {
                Operator::Plus => numeric::add,
                Operator::Minus => numeric::sub,
                Operator::Multiply => numeric::mul,
                Operator::Divide => numeric::div,
                _ => numeric::rem,
            };
        let result = finite(kernel(left, right)?);
        if *result.data_type() == self.to {
            return Ok(result);
        }
        let options = CastOptions { safe: true, ..CastOptions::default() };
        cast_with_options(&result, &self.to, &options)
    }
}

/// The same numbers, with NULL in place of NaN and of infinite floats.
pub(super) fn finite(numbers: ArrayRef) -> ArrayRef {
    if let Some(floats) = numbers.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary_opt::<_, Float64Type>(|x| x.is_finite().then_some(x)));
    }
    if let Some(floats) = numbers.as_primitive_opt::<Float32Type>() {
        return Arc::new(floats.unary_opt::<_, Float32Type>(|x| x.is_finite().then_some(x)));
    }
    if let Some(floats) = numbers.as_primitive_opt::<Float16Type>() {
        return Arc::new(floats.unary_opt::<_, Float16Type>(|x| x.is_finite().then_some(x)));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, Int64Array};
    use arrow::datatypes::{Decimal128Type, Field, Int64Type};

    use super::*;

    fn results(op: Operator, left: ArrayRef, right: ArrayRef, to: &DataType) -> ArrayRef {
        let Some(Expr::ScalarFunction(call)) = checked(Expr::default(), op, Expr::default(), to)
        else {
            panic!("{op} is arithmetic");
        };
        let field = Arc::new(Field::new("x", left.data_type().clone(), true));
        let rows = left.len();
        let arguments = ScalarFunctionArgs {
            number_rows: rows,
            args: vec![ColumnarValue::Array(left), ColumnarValue::Array(right)],
            arg_fields: vec![Arc::clone(&field); 2],
            return_field: Arc::new(Field::new("x", to.clone(), true)),
            config_options: Arc::default(),
        };
        call.func.invoke_with_args(arguments).unwrap().to_array(rows).unwrap()
    }

    #[test]
    fn no_zero_divides() {
        let Expr::ScalarFunction(call) = not_zero(Expr::default(), &DataType::Float64) else {
            panic!("it is a function");
        };
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, 1e-300, -2.0]));
        let field = Arc::new(Field::new("x", DataType::Float64, true));
        let arguments = ScalarFunctionArgs {
            number_rows: 4,
            args: vec![ColumnarValue::Array(numbers)],
            arg_fields: vec![Arc::clone(&field)],
            return_field: field,
            config_options: Arc::default(),
        };
        let result = call.func.invoke_with_args(arguments).unwrap().to_array(4).unwrap();
        let result: Vec<_> = result.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(result, [None, None, Some(1e-300), Some(-2.0)]);
    }

    #[test]
    fn what_does_not_fit_is_null_and_the_rest_stays() {
        let (most, least) = (i64::MAX, i64::MIN);
        for (op, left, right, expected) in [
            (Operator::Plus, [most, 1, 2], [1, 1, -2], [None, Some(2), Some(0)]),
            (Operator::Minus, [least, 1, 0], [1, 2, least], [None, Some(-1), None]),
            (Operator::Multiply, [most, 3, -4], [2, 3, 5], [None, Some(9), Some(-20)]),
            (Operator::Divide, [least, 7, 1], [-1, 2, 0], [None, Some(3), None]),
            (Operator::Modulo, [7, -7, 1], [4, 4, 0], [Some(3), Some(-3), None]),
        ] {
            let array =
                |values: [i64; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
            let found = results(op, array(left), array(right), &DataType::Int64);
            let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
            assert_eq!(found, expected, "{op}");
        }
    }

    #[test]
    fn sums_and_products_of_integers_are_known() {
        let is_known = |call: Expr| match call {
            Expr::ScalarFunction(call) => is_checked_integer(&call.func),
            other => panic!("{other} is no function"),
        };
        let of = |op, to| checked(Expr::default(), op, Expr::default(), &to).unwrap();
        for (op, known) in [
            (Operator::Plus, true),
            (Operator::Minus, true),
            (Operator::Multiply, true),
            (Operator::Divide, false),
            (Operator::Modulo, false),
        ] {
            assert_eq!(is_known(of(op, DataType::Int64)), known, "{op}");
            assert!(!is_known(of(op, DataType::Decimal128(38, 0))), "{op}");
        }
        assert!(!is_known(checked_abs(Expr::default(), &DataType::Int64)));
    }

    #[test]
    fn magnitudes_and_roots_are_null_where_there_are_none() {
        let of = |call: Expr, x: ArrayRef| {
            let Expr::ScalarFunction(call) = call else { panic!("a call") };
            let field = Arc::new(Field::new("x", x.data_type().clone(), true));
            let arguments = ScalarFunctionArgs {
                number_rows: x.len(),
                args: vec![ColumnarValue::Array(x)],
                arg_fields: vec![Arc::clone(&field)],
                return_field: field,
                config_options: Arc::default(),
            };
            call.func.invoke_with_args(arguments).unwrap().to_array(4).unwrap()
        };
        let whole = Int64Array::from(vec![Some(i64::MIN), Some(-3), Some(4), None]);
        let found = of(checked_abs(Expr::default(), &DataType::Int64), Arc::new(whole));
        let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(found, [None, Some(3), Some(4), None]);
        let floats = Float64Array::from(vec![Some(-0.5), Some(0.0), Some(4.0), None]);
        let found = of(not_negative(Expr::default(), &DataType::Float64), Arc::new(floats));
        let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found, [None, Some(0.0), Some(4.0), None]);
    }

    #[test]
    fn floats_are_finite_or_null() {
        let array =
            |values: [f64; 4]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
        for (op, left, right, expected) in [
            (
                Operator::Divide,
                [1.0, 0.0, 6.0, -1.0],
                [0.0, 0.0, 3.0, -0.0],
                [None, None, Some(2.0), None],
            ),
            (
                Operator::Multiply,
                [1e200, -1e200, 2.0, 0.0],
                [1e200, 1e200, 3.0, 1e300],
                [None, None, Some(6.0), Some(0.0)],
            ),
            (
                Operator::Modulo,
                [1.0, 7.0, 0.0, 1.0],
                [0.0, 4.0, 0.0, 3.0],
                [None, Some(3.0), None, Some(1.0)],
            ),
        ] {
            let found = results(op, array(left), array(right), &DataType::Float64);
            let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
            assert_eq!(found, expected, "{op}");
        }
    }

    #[test]
    fn decimals_do_not_fail() {
        let array = |values: Vec<i128>| -> ArrayRef {
            let array = Decimal128Array::from(values).with_precision_and_scale(38, 0);
            Arc::new(array.unwrap())
        };
        let most = 10_i128.pow(38) - 1;
        let to = DataType::Decimal128(38, 0);
        let found = results(Operator::Multiply, array(vec![most, 2]), array(vec![most, 3]), &to);
        let found: Vec<_> = found.as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(found, [None, Some(6)]);
    }
}
