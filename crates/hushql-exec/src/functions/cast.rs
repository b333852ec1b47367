//! A cast that is opaque to optimizers, and rounds as PostgreSQL does.
//!
//! In: a value and a type. Out: the result of CAST or TRY_CAST. When DataFusion compares a cast
//! column with a literal, it moves the cast to the literal, even if the cast maps several values to
//! one: `CAST(score AS BIGINT) = 5` became `score = 5`, which is false for 5.5. A function call
//! stays where it is.
//!
//! ```text
//! DECIMAL to whole numbers    the nearest, halves away from zero    2.5 → 3, -2.5 → -3
//! floats to whole numbers     the nearest, halves to the even one   2.5 → 2, 3.5 → 4
//! DECIMAL to floats           the nearest float
//! ```
//!
//! Arrow's kernel cuts off the digits after the point. For floats, it rounds a decimal's digits to
//! a float before it divides.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, Field, FieldRef, Float32Type, Float64Type,
};
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::any_one;

/// The value cast to another type. A value that does not fit becomes NULL if `safe`, and an error
/// otherwise.
pub fn opaque_cast(x: Expr, to: &DataType, safe: bool) -> Expr {
    // DataFusion treats two casts with equal names and operands as the same value, so the name
    // contains the type.
    let name = format!("{}_to_{to:?}", if safe { "try_cast" } else { "cast" });
    let to = to.clone();
    ScalarUDF::from(OpaqueCast { name, to, safe, signature: any_one() }).call(vec![x])
}

/// The type to which a function casts, and whether values that do not fit become NULL; `None` for
/// another function.
pub(super) fn cast_parts(function: &ScalarUDF) -> Option<(DataType, bool)> {
    let cast = function.inner().downcast_ref::<OpaqueCast>()?;
    Some((cast.to.clone(), cast.safe))
}

#[derive(Debug)]
struct OpaqueCast {
    name: String,
    to: DataType,
    safe: bool,
    signature: Signature,
}

impl PartialEq for OpaqueCast {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to && self.safe == other.safe
    }
}

impl Eq for OpaqueCast {}

impl Hash for OpaqueCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OpaqueCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(&self.name, self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("a cast has one operand") };
        let options = CastOptions { safe: self.safe, format_options: DEFAULT_FORMAT_OPTIONS };
        if !rounds(&x.data_type(), &self.to) {
            return x.cast_to(&self.to, Some(&options));
        }
        Ok(match x {
            ColumnarValue::Array(array) => {
                ColumnarValue::Array(rounded(array, &self.to, &options)?)
            }
            ColumnarValue::Scalar(value) => {
                let rounded = rounded(&value.to_array()?, &self.to, &options)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?)
            }
        })
    }
}

/// A constant in another type, rounded as a column would be.
///
/// # Errors
/// For a value that does not fit the type. Some of these become NULL instead.
pub fn cast_value(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    if !rounds(&value.data_type(), to) {
        return value.cast_to(to);
    }
    let options = CastOptions { safe: false, format_options: DEFAULT_FORMAT_OPTIONS };
    ScalarValue::try_from_array(&rounded(&value.to_array()?, to, &options)?, 0)
}

/// Whether a cast rounds differently from Arrow's.
pub fn rounds(from: &DataType, to: &DataType) -> bool {
    match from {
        DataType::Decimal128(_, scale) if *scale >= 0 => to.is_integer() || is_float(to),
        from => is_float(from) && to.is_integer(),
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// A column in another type, if the cast [`rounds`].
fn rounded(array: &ArrayRef, to: &DataType, options: &CastOptions<'_>) -> Result<ArrayRef> {
    let whole: ArrayRef = match (array.data_type(), to) {
        (DataType::Decimal128(precision, scale), DataType::Float64) => {
            let (precision, scale) = (*precision, *scale);
            let decimals = array.as_primitive::<Decimal128Type>();
            let floats: Float64Array = decimals.unary_opt(|v| double(v, precision, scale));
            return Ok(Arc::new(floats));
        }
        (DataType::Decimal128(precision, scale), DataType::Float32) => {
            let (precision, scale) = (*precision, *scale);
            let decimals = array.as_primitive::<Decimal128Type>();
            let floats: Float32Array = decimals.unary_opt(|v| single(v, precision, scale));
            return Ok(Arc::new(floats));
        }
        (DataType::Decimal128(_, scale), _) => {
            let scale = u32::from(scale.unsigned_abs());
            let decimals = array.as_primitive::<Decimal128Type>();
            let whole: Decimal128Array = decimals.unary(|v| whole(v, scale));
            Arc::new(whole.with_precision_and_scale(38, 0)?)
        }
        (DataType::Float64, _) => {
            let whole: Float64Array =
                array.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Arc::new(whole)
        }
        (DataType::Float32, _) => {
            let whole: Float32Array =
                array.as_primitive::<Float32Type>().unary(f32::round_ties_even);
            Arc::new(whole)
        }
        _ => return exec_err!("numbers of another type are rounded"),
    };
    Ok(cast_with_options(&whole, to, options)?)
}

/// `v`·10^−scale as an integer: the nearest one, and of two the one that is farther from zero.
fn whole(v: i128, scale: u32) -> i128 {
    // 10^scale exceeds every value, so the quotient is at most a half.
    let Some(unit) = 10_i128.checked_pow(scale) else { return 0 };
    let (quotient, rest) = (v / unit, v % unit);
    // The unit is even, or it is 1 and there is no remainder.
    let away = scale > 0 && rest.unsigned_abs() >= unit.unsigned_abs() / 2;
    quotient + if away { rest.signum() } else { 0 }
}

/// The double nearest to `v`·10^−scale.
#[expect(clippy::cast_precision_loss, reason = "only of integers that doubles hold")]
fn double(v: i128, precision: u8, scale: i8) -> Option<f64> {
    // Both operands are exact, so the quotient is rounded once.
    if v.unsigned_abs() <= 1 << 53 && (0..=22).contains(&scale) {
        return Some(v as f64 / 10_f64.powi(scale.into()));
    }
    Decimal128Type::format_decimal(v, precision, scale).parse().ok()
}

/// The float of 32 bits nearest to `v`·10^−scale.
#[expect(clippy::cast_precision_loss, reason = "only of integers that floats hold")]
fn single(v: i128, precision: u8, scale: i8) -> Option<f32> {
    if v.unsigned_abs() <= 1 << 24 && (0..=10).contains(&scale) {
        return Some(v as f32 / 10_f32.powi(scale.into()));
    }
    Decimal128Type::format_decimal(v, precision, scale).parse().ok()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Int8Array, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn cast_to(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
        let options = CastOptions { safe, format_options: DEFAULT_FORMAT_OPTIONS };
        assert!(rounds(array.data_type(), to));
        rounded(array, to, &options)
    }

    fn decimals(values: Vec<i128>, precision: u8, scale: i8) -> ArrayRef {
        let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
        Arc::new(array.unwrap())
    }

    /// Compares every scale with integer arithmetic: an integer is nearest if twice the distance is
    /// at most a unit.
    #[test]
    fn decimals_become_the_nearest_whole_number() {
        for scale in 0..=38_i8 {
            let unit = 10_i128.pow(scale.unsigned_abs().into());
            let half = unit / 2;
            let values: Vec<i128> =
                [0, 1, half - 1, half, half + 1, unit - 1, unit, unit + half, 3 * (unit / 2)]
                    .into_iter()
                    .flat_map(|v| [v, -v])
                    .filter(|v| v.unsigned_abs() < 10_u128.pow(38))
                    .collect();
            let found = cast_to(&decimals(values.clone(), 38, scale), &DataType::Int64, true);
            let found = found.unwrap();
            let found = found.as_primitive::<Int64Type>();
            for (v, found) in values.iter().zip(found.iter()) {
                let found = i128::from(found.unwrap());
                let distance = (v - found * unit).abs();
                assert!(2 * distance <= unit, "{v} {scale} {found}");
                let tie = scale > 0 && 2 * distance == unit;
                assert!(!tie || found.abs() * unit > v.abs(), "{v} {scale} {found}");
            }
        }
    }

    #[test]
    fn floats_become_the_nearest_whole_number() {
        let values = vec![0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 2.6, f64::NAN, f64::INFINITY, 1e300];
        let values: ArrayRef = Arc::new(Float64Array::from(values));
        let found = cast_to(&values, &DataType::Int64, true).unwrap();
        let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
        let expected = [0, 2, 2, 0, -2, 2, 3].map(Some);
        assert_eq!(found[..7], expected);
        assert_eq!(found[7..], [None, None, None]);
        let short: ArrayRef = Arc::new(Float32Array::from(vec![0.5, 1.5, 127.5, 127.4]));
        let found = cast_to(&short, &DataType::Int8, true).unwrap();
        assert_eq!(
            found.as_ref(),
            &Int8Array::from(vec![Some(0), Some(2), None, Some(127)]) as &dyn Array
        );
        assert!(cast_to(&short, &DataType::Int8, false).is_err());
    }

    /// The nearest float is the one that parsing the digits yields.
    #[test]
    fn decimals_become_the_nearest_float() {
        let mut state = 5_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 20
        };
        for scale in 0..=38_i8 {
            let mut values = vec![0, 1, -1, 1_701, (1 << 53) + 1, 1 - 10_i128.pow(38)];
            for digits in 1..=38 {
                let wide = i128::from(random()) << 64 | i128::from(random()) << 20;
                values.push(wide.rem_euclid(10_i128.pow(digits)));
            }
            let column = decimals(values.clone(), 38, scale);
            let found = cast_to(&column, &DataType::Float64, true).unwrap();
            let short = cast_to(&column, &DataType::Float32, true).unwrap();
            for (i, v) in values.into_iter().enumerate() {
                let text = Decimal128Type::format_decimal(v, 38, scale);
                let double: f64 = text.parse().unwrap();
                let found = found.as_primitive::<Float64Type>().value(i);
                assert_eq!(found.to_bits(), (double + 0.0).to_bits(), "{text}");
                let single: f32 = text.parse().unwrap();
                let short = short.as_primitive::<Float32Type>().value(i);
                assert_eq!(short.to_bits(), (single + 0.0).to_bits(), "{text}");
            }
        }
    }

    #[test]
    fn constants_are_rounded_like_columns() {
        let half = ScalarValue::Decimal128(Some(25), 2, 1);
        assert_eq!(cast_value(&half, &DataType::Int64).unwrap(), ScalarValue::Int64(Some(3)));
        let half = ScalarValue::Float64(Some(2.5));
        assert_eq!(cast_value(&half, &DataType::Int64).unwrap(), ScalarValue::Int64(Some(2)));
        assert!(cast_value(&ScalarValue::Float64(Some(1e30)), &DataType::Int64).is_err());
        let text = ScalarValue::from("7");
        assert_eq!(cast_value(&text, &DataType::Int64).unwrap(), ScalarValue::Int64(Some(7)));
        let none: ArrayRef = Arc::new(Int64Array::from(vec![None]));
        let none = ScalarValue::try_from_array(&none, 0).unwrap();
        assert!(cast_value(&none, &DataType::Float64).unwrap().is_null());
    }
}
