//! `ROUND`, `TRUNC`, `FLOOR` and `CEIL` to a number of decimal places. They never fail.
//!
//! In: a column of numbers, and literal places. Out: the numbers, in the type that the planner
//! expects. Halves are rounded away from zero. A result that does not fit its type is NULL;
//! DataFusion would fail. For negative places, floats are divided by a power of ten, because its
//! reciprocal is inexact.
//!
//! ```text
//! round(37, -1) = 40        trunc(2.567, 2) = 2.56        round(127, -1) IS NULL, where 127 is a TINYINT
//! ```

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use num_traits::ToPrimitive;

use super::named;

/// Which of its two neighbours a number is rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The nearer one; halves away from zero.
    Nearest,
    /// The one toward zero.
    Zero,
    /// The lesser one.
    Down,
    /// The greater one.
    Up,
}

/// How numbers of one type are rounded to another type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounding {
    direction: Direction,
    places: i32,
    from: DataType,
    to: DataType,
}

impl Rounding {
    /// The most decimal places, before and after the point.
    pub const MOST_PLACES: i32 = 30;

    /// `None` for types and places that are not handled.
    pub fn new(direction: Direction, places: i32, from: &DataType, to: &DataType) -> Option<Self> {
        let handled = match (from, to) {
            (DataType::Decimal128(_, own), DataType::Decimal128(_, scale)) => {
                // The remaining digits fit the places of the result.
                0 <= *own && 0 <= *scale && i32::from(*scale) >= places.min(i32::from(*own))
            }
            (DataType::Float32 | DataType::Float64, _) => from == to,
            (whole, _) => whole.is_integer() && from == to,
        };
        let handled = handled && (-Self::MOST_PLACES..=Self::MOST_PLACES).contains(&places);
        handled.then(|| Self { direction, places, from: from.clone(), to: to.clone() })
    }

    /// The rounded numbers, as an expression.
    pub fn applied_to(&self, x: Expr) -> Expr {
        let signature = Signature::any(1, Volatility::Immutable);
        let name = named("rounded", self);
        ScalarUDF::from(Rounded { name, rounding: self.clone(), signature }).call(vec![x])
    }

    /// The most decimal places of the results: they are multiples of 10^−places.
    pub fn places(&self) -> i32 {
        match &self.from {
            DataType::Decimal128(_, scale) => self.places.min(i32::from(*scale)),
            whole if whole.is_integer() => self.places.min(0),
            _ => self.places,
        }
    }

    /// k · 10^−places as a result, with as many digits as a rounded row has.
    pub fn multiple(&self, k: i64) -> Option<ScalarValue> {
        let (places, power) = (self.places(), self.places().unsigned_abs());
        match &self.to {
            DataType::Float64 => {
                let (k, power) = (k.to_f64()?, 10_f64.powi(self.places.abs()));
                let multiple = if places >= 0 { k / power } else { k * power };
                Some(ScalarValue::Float64(Some(multiple + 0.0)))
            }
            DataType::Float32 => {
                let (k, power) = (k.to_f32()?, 10_f32.powi(self.places.abs()));
                let multiple = if places >= 0 { k / power } else { k * power };
                Some(ScalarValue::Float32(Some(multiple + 0.0)))
            }
            DataType::Decimal128(precision, scale) => {
                let back = u32::try_from(i32::from(*scale) - places).ok()?;
                let units = i128::from(k).checked_mul(10_i128.checked_pow(back)?)?;
                Some(ScalarValue::Decimal128(Some(units), *precision, *scale))
            }
            whole => {
                let units = i128::from(k).checked_mul(10_i128.checked_pow(power)?)?;
                let units = ScalarValue::Decimal128(Some(units), 38, 0).cast_to(whole).ok()?;
                (!units.is_null()).then_some(units)
            }
        }
    }

    /// The rounded numbers of a column.
    ///
    /// # Guarantee
    /// A larger number never becomes a smaller one.
    ///
    /// # Errors
    /// If the column is of another type.
    pub fn array(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if *array.data_type() != self.from {
            return exec_err!("numbers of another type are rounded");
        }
        Ok(match &self.from {
            DataType::Int8 => self.integers::<Int8Type>(array),
            DataType::Int16 => self.integers::<Int16Type>(array),
            DataType::Int32 => self.integers::<Int32Type>(array),
            DataType::Int64 => self.integers::<Int64Type>(array),
            DataType::UInt8 => self.integers::<UInt8Type>(array),
            DataType::UInt16 => self.integers::<UInt16Type>(array),
            DataType::UInt32 => self.integers::<UInt32Type>(array),
            DataType::UInt64 => self.integers::<UInt64Type>(array),
            DataType::Decimal128(_, scale) => {
                let rounded: PrimitiveArray<Decimal128Type> =
                    array.as_primitive::<Decimal128Type>().unary_opt(|v| self.exact(v, *scale));
                Arc::new(rounded.with_data_type(self.to.clone()))
            }
            DataType::Float32 => {
                let rounded: PrimitiveArray<Float32Type> =
                    array.as_primitive::<Float32Type>().unary_opt(|v| self.single(v));
                Arc::new(rounded)
            }
            DataType::Float64 => {
                let rounded: PrimitiveArray<Float64Type> =
                    array.as_primitive::<Float64Type>().unary_opt(|v| self.double(v));
                Arc::new(rounded)
            }
            _ => return exec_err!("only numbers are rounded"),
        })
    }

    fn double(&self, v: f64) -> Option<f64> {
        /// Numbers from 2^53 on have no decimal places.
        const WHOLE: f64 = 9_007_199_254_740_992.0;
        let power = 10_f64.powi(self.places.abs());
        if v.is_nan() || v.is_infinite() || (self.places >= 0 && v.abs() >= WHOLE) {
            return Some(v);
        }
        let rounded = match self.places >= 0 {
            true => self.direction.double(v * power) / power,
            false => self.direction.double(v / power) * power,
        };
        rounded.is_finite().then_some(rounded + 0.0)
    }

    fn single(&self, v: f32) -> Option<f32> {
        /// Numbers from 2^24 on have no decimal places.
        const WHOLE: f32 = 16_777_216.0;
        let power = 10_f32.powi(self.places.abs());
        if v.is_nan() || v.is_infinite() || (self.places >= 0 && v.abs() >= WHOLE) {
            return Some(v);
        }
        let rounded = match self.places >= 0 {
            true => self.direction.single(v * power) / power,
            false => self.direction.single(v / power) * power,
        };
        rounded.is_finite().then_some(rounded + 0.0)
    }

    fn integers<T>(&self, array: &ArrayRef) -> ArrayRef
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128> + TryFrom<i128>,
    {
        let rounded: PrimitiveArray<T> = array
            .as_primitive::<T>()
            .unary_opt(|v| T::Native::try_from(self.exact(v.into(), 0)?).ok());
        Arc::new(rounded)
    }

    /// A number in units of 10^−scale, converted to units of the result; `None` if it does not fit.
    fn exact(&self, v: i128, scale: i8) -> Option<i128> {
        let (digits, to_scale) = match &self.to {
            DataType::Decimal128(precision, scale) => (u32::from(*precision), i32::from(*scale)),
            _ => (38, 0),
        };
        let dropped = (i32::from(scale) - self.places).max(0);
        let whole = match 10_i128.checked_pow(dropped.unsigned_abs()) {
            Some(unit) => self.direction.quotient(v, unit)?,
            // The unit exceeds twice the magnitude of every number.
            None => match self.direction {
                Direction::Nearest | Direction::Zero => 0,
                Direction::Down => -i128::from(v < 0),
                Direction::Up => i128::from(v > 0),
            },
        };
        let places = i32::from(scale) - dropped;
        let back = u32::try_from(to_scale - places).ok()?;
        let rounded = match whole {
            0 => 0,
            whole => whole.checked_mul(10_i128.checked_pow(back)?)?,
        };
        let most = 10_i128.checked_pow(digits)?;
        (-most < rounded && rounded < most).then_some(rounded)
    }
}

impl Direction {
    fn double(self, v: f64) -> f64 {
        match self {
            Self::Nearest => v.round(),
            Self::Zero => v.trunc(),
            Self::Down => v.floor(),
            Self::Up => v.ceil(),
        }
    }

    fn single(self, v: f32) -> f32 {
        match self {
            Self::Nearest => v.round(),
            Self::Zero => v.trunc(),
            Self::Down => v.floor(),
            Self::Up => v.ceil(),
        }
    }

    /// `v / unit`, rounded. The unit is positive.
    fn quotient(self, v: i128, unit: i128) -> Option<i128> {
        let (quotient, remainder) = (v.checked_div(unit)?, v.checked_rem(unit)?);
        let away = match self {
            // The only odd unit is 1, and it leaves no remainder.
            Self::Nearest => remainder != 0 && remainder.abs() >= unit / 2,
            Self::Zero => false,
            Self::Down => remainder < 0,
            Self::Up => remainder > 0,
        };
        quotient.checked_add(if away { remainder.signum() } else { 0 })
    }
}

/// The direction and the places of a rounding function, and its types; `None` for another function.
pub(super) fn rounding_parts(function: &ScalarUDF) -> Option<(Direction, i32, DataType, DataType)> {
    let Rounding { direction, places, from, to } =
        &function.inner().downcast_ref::<Rounded>()?.rounding;
    Some((*direction, *places, from.clone(), to.clone()))
}

#[derive(Debug)]
struct Rounded {
    name: String,
    rounding: Rounding,
    signature: Signature,
}

impl PartialEq for Rounded {
    fn eq(&self, other: &Self) -> bool {
        self.rounding == other.rounding
    }
}

impl Eq for Rounded {}

impl Hash for Rounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.rounding.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("a rounding has one operand") };
        match x {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.rounding.array(array)?)),
            ColumnarValue::Scalar(value) => {
                let rounded = self.rounding.array(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, UInt64Array,
    };

    use super::*;

    const DIRECTIONS: [Direction; 4] =
        [Direction::Nearest, Direction::Zero, Direction::Down, Direction::Up];

    fn rounded(direction: Direction, places: i32, array: &ArrayRef, to: &DataType) -> ArrayRef {
        let rounding = Rounding::new(direction, places, array.data_type(), to).unwrap();
        rounding.array(array).unwrap()
    }

    #[test]
    fn places_beyond_the_most_are_not_handled() {
        let most = Rounding::MOST_PLACES;
        for (places, handled) in
            [(most, true), (-most, true), (most + 1, false), (-most - 1, false), (i32::MIN, false)]
        {
            for of in [DataType::Int64, DataType::Float64] {
                let rounding = Rounding::new(Direction::Nearest, places, &of, &of);
                assert_eq!(rounding.is_some(), handled, "{places} of {of}");
            }
        }
    }

    #[test]
    fn whole_numbers_are_rounded_before_the_point() {
        let numbers = [14, 15, -15, -14, 99, 0, i64::MAX];
        for (direction, expected) in [
            (
                Direction::Nearest,
                [Some(10), Some(20), Some(-20), Some(-10), Some(100), Some(0), None],
            ),
            (
                Direction::Zero,
                [Some(10), Some(10), Some(-10), Some(-10), Some(90), Some(0), Some(i64::MAX - 7)],
            ),
        ] {
            let array: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
            let found = rounded(direction, -1, &array, &DataType::Int64);
            let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
            assert_eq!(found, expected, "{direction:?}");
        }
        let array: ArrayRef =
            Arc::new(Int8Array::from(vec![Some(127), Some(-128), Some(124), None]));
        let found = rounded(Direction::Nearest, -1, &array, &DataType::Int8);
        let found: Vec<_> = found.as_primitive::<Int8Type>().iter().collect();
        assert_eq!(found, [None, None, Some(120), None]);
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 5]));
        let found = rounded(Direction::Nearest, -30, &array, &DataType::UInt64);
        let found: Vec<_> = found.as_primitive::<UInt64Type>().iter().collect();
        assert_eq!(found, [Some(0), Some(0)]);
    }

    #[test]
    fn decimals_are_rounded_in_their_own_digits() {
        let values = vec![1_250, -1_250, 1_249, 99_999, -99_999, 0];
        for (direction, places, scale, expected) in [
            (Direction::Nearest, 1, 1, [125, -125, 125, 10_000, -10_000, 0]),
            (Direction::Nearest, 0, 0, [13, -13, 12, 1_000, -1_000, 0]),
            (Direction::Nearest, -2, 0, [0, 0, 0, 1_000, -1_000, 0]),
            (Direction::Zero, 1, 2, [1_250, -1_250, 1_240, 99_990, -99_990, 0]),
            (Direction::Nearest, 7, 2, [1_250, -1_250, 1_249, 99_999, -99_999, 0]),
        ] {
            let array = Decimal128Array::from(values.clone()).with_precision_and_scale(5, 2);
            let to = DataType::Decimal128(5, scale);
            let found = rounded(direction, places, &(Arc::new(array.unwrap()) as ArrayRef), &to);
            let found: Vec<i128> = found.as_primitive::<Decimal128Type>().values().to_vec();
            assert_eq!(found, expected, "{direction:?}, {places}");
        }
        // 999.99 has no ceiling that fits five digits with two decimal places.
        let array = Decimal128Array::from(vec![99_999, -99_999, 150]);
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(5, 2).unwrap());
        let to = DataType::Decimal128(5, 2);
        for (direction, expected) in [
            (Direction::Up, [None, Some(-99_900), Some(200)]),
            (Direction::Down, [Some(99_900), None, Some(100)]),
        ] {
            let found = rounded(direction, 0, &array, &to);
            let found: Vec<_> = found.as_primitive::<Decimal128Type>().iter().collect();
            assert_eq!(found, expected, "{direction:?}");
        }
        let most = Decimal128Array::from(vec![10_i128.pow(38) - 1, 5]);
        let most: ArrayRef = Arc::new(most.with_precision_and_scale(38, 0).unwrap());
        let found = rounded(Direction::Nearest, -1, &most, &DataType::Decimal128(38, 0));
        let found: Vec<_> = found.as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(found, [None, Some(10)]);
    }

    /// Rounding keeps the order of numbers, so the rounded ends of a range are the ends of the
    /// rounded range.
    #[test]
    fn a_larger_number_never_becomes_a_smaller_one() {
        let mut doubles: Vec<f64> = (-4_000..4_000).map(|i| f64::from(i) * 0.005).collect();
        doubles.extend((-300..300).map(|i| 1.7_f64.powi(i)));
        doubles.extend((-300..300).map(|i| -(1.7_f64.powi(i))));
        doubles.extend((-9..9).map(|i| 9_007_199_254_740_992.0 + f64::from(i)));
        doubles.extend([f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY, 5e-324]);
        doubles.sort_by(f64::total_cmp);
        let mut singles: Vec<f32> = (-4_000_i16..4_000).map(|i| f32::from(i) * 0.005).collect();
        singles.extend((-60..60).map(|i| 3.7_f32.powi(i)));
        singles.extend((-9_i8..9).map(|i| 16_777_216.0 + f32::from(i)));
        singles.extend([f32::MAX, f32::MIN, f32::INFINITY]);
        singles.sort_by(f32::total_cmp);
        for direction in DIRECTIONS {
            for places in [-30, -3, -1, 0, 1, 2, 7, 30] {
                let array: ArrayRef = Arc::new(Float64Array::from(doubles.clone()));
                let found = rounded(direction, places, &array, &DataType::Float64);
                let found: Vec<f64> =
                    found.as_primitive::<Float64Type>().iter().flatten().collect();
                assert!(found.is_sorted(), "{direction:?}, {places}");
                let array: ArrayRef = Arc::new(Float32Array::from(singles.clone()));
                let found = rounded(direction, places, &array, &DataType::Float32);
                let found: Vec<f32> =
                    found.as_primitive::<Float32Type>().iter().flatten().collect();
                assert!(found.is_sorted(), "{direction:?}, {places}");
            }
        }
    }

    #[test]
    fn floats_before_the_point_are_exact_multiples() {
        let array: ArrayRef =
            Arc::new(Float64Array::from(vec![149.0, 150.0, -250.0, -0.4, f64::MAX]));
        let found = rounded(Direction::Nearest, -2, &array, &DataType::Float64);
        let found: Vec<_> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found[..4], [Some(100.0), Some(200.0), Some(-300.0), Some(0.0)]);
        assert!(found[3].unwrap().is_sign_positive());
    }

    #[test]
    fn other_types_and_places_are_not_handled() {
        let half = DataType::Float16;
        assert!(Rounding::new(Direction::Zero, 1, &half, &half).is_none());
        let coarse = DataType::Decimal128(5, -2);
        assert!(Rounding::new(Direction::Zero, 1, &coarse, &coarse).is_none());
        let whole = DataType::Int64;
        assert!(Rounding::new(Direction::Zero, 31, &whole, &whole).is_none());
        assert!(Rounding::new(Direction::Zero, i32::MIN + 1, &whole, &whole).is_none());
    }
}
