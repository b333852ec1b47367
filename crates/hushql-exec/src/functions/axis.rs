//! Functions onto an axis of ticks: the nearest tick of a stepped domain, and a row's place among
//! candidates.
//!
//! In: a column of numbers, dates or timestamps. Out: the nearest tick, the number of candidates at
//! or below the value, or the index of the value among the ticks of the column's range. The
//! parameters are part of the function's name, so that no optimizer confuses two axes. All
//! functions are total: NULL and NaN become NULL, and every other value has a place.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{named, of_numbers};
use crate::grid::{Grid, GridRange, present};
use crate::ticks::{TickFloats, Ticks};

/// The tick nearest to a float or to a decimal of the ticks' scale, as a value of its type; halves
/// go to the even tick.
pub fn snap(x: Expr, ticks: Ticks) -> Expr {
    ScalarUDF::from(AxisFunction::new("snap", OnLine::Nearest(ticks))).call(vec![x])
}

/// A row's place on an axis of candidates, as an `Int64`.
pub fn place(x: Expr, place: AxisPlace) -> Expr {
    ScalarUDF::from(AxisFunction::new("place", OnLine::Place(place))).call(vec![x])
}

/// The number of candidates before a value, or the index of its tick.
#[derive(Debug, Clone, PartialEq)]
pub enum AxisPlace {
    /// The number of ticks at or below the value (or below it, if `strict`).
    Ticks {
        /// The ticks.
        ticks: Ticks,
        /// Whether a tick at the value does not count.
        strict: bool,
    },
    /// The number of these ascending numbers at or below the value (or below it, if `strict`).
    Floats {
        /// The numbers.
        numbers: Arc<[f64]>,
        /// Whether a number at the value does not count.
        strict: bool,
    },
    /// The same for exact columns. The numbers are ascending, in units of 10^−scale, and rounded up
    /// to values of the column's scale.
    Units {
        /// The numbers, in units of the column.
        numbers: Arc<[i128]>,
        /// Whether a number at the value does not count.
        strict: bool,
    },
    /// The index in a range of integers on a grid: the clamped and rounded value, counted from the
    /// lower end of the range.
    Index(GridRange),
    /// The index of the tick in a stepped domain.
    Tick(Ticks),
}

impl AxisPlace {
    /// How floats find their places.
    fn of_floats(&self) -> OfFloats<'_> {
        match self {
            Self::Ticks { ticks, strict: true } => OfFloats::Below(ticks.floats()),
            Self::Ticks { ticks, strict: false } => OfFloats::AtOrBelow(ticks.floats()),
            Self::Floats { numbers, strict } => OfFloats::Among { numbers, strict: *strict },
            Self::Tick(ticks) => OfFloats::Nearest(ticks.floats()),
            // Only exact columns use these.
            Self::Units { .. } | Self::Index(_) => OfFloats::Among { numbers: &[], strict: true },
        }
    }

    fn of_units(&self, units: i128, scale: u8) -> u64 {
        match self {
            Self::Ticks { ticks, strict } => ticks.exactly_below(units, scale, *strict),
            Self::Units { numbers, strict } => {
                let before =
                    numbers.partition_point(|n| if *strict { *n < units } else { *n <= units });
                u64::try_from(before).unwrap_or(u64::MAX)
            }
            Self::Tick(ticks) => {
                ticks.exactly_below(units, scale, false).saturating_sub(1).min(ticks.count() - 1)
            }
            Self::Floats { .. } | Self::Index(_) => 0,
        }
    }
}

/// How floats find their places on an axis.
#[derive(Debug)]
enum OfFloats<'a> {
    Below(TickFloats),
    AtOrBelow(TickFloats),
    Nearest(TickFloats),
    Among { numbers: &'a [f64], strict: bool },
}

impl OfFloats<'_> {
    /// The place of a number.
    ///
    /// # Guarantee
    /// Every value has one place. Equal values have the same place, and a larger value never has a
    /// smaller one.
    fn place(&self, x: f64) -> u64 {
        match self {
            Self::Below(ticks) => ticks.below(x),
            Self::AtOrBelow(ticks) => ticks.at_or_below(x),
            Self::Nearest(ticks) => ticks.nearest(x),
            Self::Among { numbers, strict } => {
                let before = numbers.partition_point(|n| if *strict { *n < x } else { *n <= x });
                u64::try_from(before).unwrap_or(u64::MAX)
            }
        }
    }
}

/// The axis of a function, and what the function computes on it; `None` for another function.
pub(super) fn on_line(function: &ScalarUDF) -> Option<&OnLine> {
    Some(&function.inner().downcast_ref::<AxisFunction>()?.on)
}

/// What a function computes on its axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OnLine {
    Nearest(Ticks),
    Place(AxisPlace),
}

/// A function of one column, with an axis as its parameter.
#[derive(Debug)]
struct AxisFunction {
    name: String,
    on: OnLine,
    signature: Signature,
}

impl AxisFunction {
    fn new(kind: &str, on: OnLine) -> Self {
        Self { name: named(kind, &on), on, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl PartialEq for AxisFunction {
    fn eq(&self, other: &Self) -> bool {
        self.on == other.on
    }
}

// The floats of an axis are finite, because they were literals.
impl Eq for AxisFunction {}

impl Hash for AxisFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for AxisFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (&self.on, arg_types) {
            (OnLine::Nearest(_), [x @ (DataType::Float64 | DataType::Decimal128(..))]) => {
                Ok(x.clone())
            }
            (OnLine::Place(_), [_]) => Ok(DataType::Int64),
            _ => plan_err!("the function takes one column of numbers"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("the function takes one column") };
        let array = x.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(match &self.on {
            OnLine::Nearest(ticks) if array.data_type().is_decimal() => {
                let decimals = array.as_primitive_opt::<Decimal128Type>();
                let Some(decimals) = decimals else { return exec_err!("the ticks are decimals") };
                let snapped: PrimitiveArray<Decimal128Type> =
                    decimals.unary(|units| ticks.nearest_unit(units));
                Arc::new(snapped.with_data_type(array.data_type().clone()))
            }
            OnLine::Nearest(ticks) => {
                let floats = array.as_primitive_opt::<Float64Type>();
                let Some(floats) = floats else { return exec_err!("the ticks are floats") };
                let ticks = ticks.floats();
                let snapped: PrimitiveArray<Float64Type> =
                    of_numbers(floats, f64::is_nan, |x| ticks.float(ticks.nearest(x)));
                Arc::new(snapped)
            }
            OnLine::Place(place) => places(place, &array)?,
        }))
    }
}

fn places(place: &AxisPlace, array: &ArrayRef) -> Result<ArrayRef> {
    if let AxisPlace::Index(range) = place {
        return indices(range, array);
    }
    let places = match array.data_type() {
        DataType::Int8 => exact::<Int8Type>(place, array, 0),
        DataType::Int16 => exact::<Int16Type>(place, array, 0),
        DataType::Int32 => exact::<Int32Type>(place, array, 0),
        DataType::Int64 => exact::<Int64Type>(place, array, 0),
        DataType::UInt8 => exact::<UInt8Type>(place, array, 0),
        DataType::UInt16 => exact::<UInt16Type>(place, array, 0),
        DataType::UInt32 => exact::<UInt32Type>(place, array, 0),
        DataType::UInt64 => exact::<UInt64Type>(place, array, 0),
        DataType::Decimal128(_, scale) => match u8::try_from(*scale) {
            Ok(scale) => exact::<Decimal128Type>(place, array, scale),
            Err(_) => return exec_err!("a decimal that counts in tens has no place"),
        },
        DataType::Float32 => floats::<Float32Type>(place, array),
        DataType::Float64 => floats::<Float64Type>(place, array),
        other => return exec_err!("a value of type {other} has no place"),
    };
    Ok(Arc::new(places))
}

fn as_place(place: u64) -> i64 {
    // An axis has at most 2⁶² ticks.
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn exact<T>(place: &AxisPlace, array: &ArrayRef, scale: u8) -> Int64Array
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    array.as_primitive::<T>().unary(|v| as_place(place.of_units(v.into(), scale)))
}

fn floats<T>(place: &AxisPlace, array: &ArrayRef) -> Int64Array
where
    T: ArrowPrimitiveType,
    T::Native: Into<f64>,
{
    let places = place.of_floats();
    let is_nan = |v: T::Native| Into::<f64>::into(v).is_nan();
    of_numbers(array.as_primitive::<T>(), is_nan, |v| as_place(places.place(v.into())))
}

/// The index of each value in a range of integers; dates, times and timestamps are integers.
fn indices(range: &GridRange, array: &ArrayRef) -> Result<ArrayRef> {
    let integers: ArrayRef = match array.data_type() {
        DataType::Date32 => {
            Arc::new(array.as_primitive::<Date32Type>().reinterpret_cast::<Int32Type>())
        }
        DataType::Time64(TimeUnit::Microsecond) => ticks_of::<Time64MicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => ticks_of::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            ticks_of::<TimestampMillisecondType>(array)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            ticks_of::<TimestampMicrosecondType>(array)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ticks_of::<TimestampNanosecondType>(array),
        _ => Arc::clone(array),
    };
    if let Ok(lo) = i64::try_from(range.lo())
        && range.is_narrow()
        && range.accepts(integers.data_type())
        && is_countable(range.grid(), range.lo(), range.hi())
    {
        let (mut places, _) = range.numbers::<i64>(&integers, None)?;
        // Rows without a value hold 0, whose distance from the lower end may not fit 64 bits.
        places.iter_mut().for_each(|place| *place = place.wrapping_sub(lo));
        return Ok(Arc::new(Int64Array::new(places.into(), present(&integers))));
    }
    let mut places: Vec<Option<i64>> = vec![None; integers.len()];
    range.for_each(&integers, None, |row, value| {
        places[row] = i64::try_from(value - range.lo()).ok();
    })?;
    Ok(Arc::new(Int64Array::from(places)))
}

fn ticks_of<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> ArrayRef {
    Arc::new(array.as_primitive::<T>().reinterpret_cast::<Int64Type>())
}

/// Whether 64 bits can index a range from its lower end.
pub fn is_countable(grid: Grid, lo: i128, hi: i128) -> bool {
    Ticks::every(grid, lo, hi).is_some()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, UInt64Array};

    use datafusion::common::cse::NormalizeEq;
    use datafusion::prelude::col;

    use super::*;
    use hushql_privacy::privacy::parse_decimal;

    fn ticks(lo: &str, hi: &str, step: &str) -> Ticks {
        let number = |text| parse_decimal(text).unwrap();
        Ticks::decimal(&number(lo), &number(hi), &number(step)).unwrap()
    }

    /// The optimizer compares functions by their names. Two medians of one column, one of them with
    /// a FILTER, therefore once shared the places of the first.
    #[test]
    fn other_lines_have_other_names() {
        let line = |ticks| place(col("x"), AxisPlace::Tick(ticks));
        let one = line(ticks("0", "10", "1"));
        assert!(one.normalize_eq(&line(ticks("0", "10", "1"))));
        for other in [ticks("0", "10", "2"), ticks("1", "10", "1"), ticks("0", "9", "1")] {
            assert!(!one.normalize_eq(&line(other)), "{other:?}");
            assert!(!snap(col("x"), other).normalize_eq(&snap(col("x"), ticks("0", "10", "1"))));
        }
        let floats = |strict| AxisPlace::Floats { numbers: Arc::from([0.5, 1.5]), strict };
        assert!(!place(col("x"), floats(true)).normalize_eq(&place(col("x"), floats(false))));
    }

    fn places_of(place: &AxisPlace, array: impl Array + 'static) -> Vec<Option<i64>> {
        let array: ArrayRef = Arc::new(array);
        places(place, &array).unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn bids_buy_at_their_own_price() {
        let cents = AxisPlace::Ticks { ticks: ticks("0.01", "5", "0.01"), strict: false };
        let bids =
            Float64Array::from(vec![Some(0.29), Some(-1.0), None, Some(f64::NAN), Some(9.0)]);
        assert_eq!(places_of(&cents, bids), [Some(29), Some(0), None, None, Some(500)]);
        let decimals = Decimal128Array::from(vec![290, 289, -5, 100_000]);
        let decimals = decimals.with_precision_and_scale(10, 3).unwrap();
        assert_eq!(places_of(&cents, decimals), [29, 28, 0, 500].map(Some));
        let list = AxisPlace::Floats { numbers: vec![1.0, 1.5, 2.0].into(), strict: true };
        assert_eq!(places_of(&list, Float64Array::from(vec![1.5, 1.6])), [1, 2].map(Some));
    }

    #[test]
    fn values_are_the_ticks_of_their_range() {
        let range = GridRange::new(Grid::Binary { log2: 1 }, -4, 6).unwrap();
        let floats = Float64Array::from(vec![-9.0, -2.0, 0.2, 0.3, f64::NAN, 3.0, 1e300]);
        let places = places_of(&AxisPlace::Index(range), floats);
        assert_eq!(places, [Some(0), Some(0), Some(4), Some(5), None, Some(10), Some(10)]);
        let days = GridRange::new(Grid::Integer, 100, 200).unwrap();
        let dates = arrow::array::Date32Array::from(vec![Some(150), None, Some(-7)]);
        assert_eq!(places_of(&AxisPlace::Index(days), dates), [Some(50), None, Some(0)]);
        // Far from 0, and beyond 63 bits.
        let far = |lo: i128| AxisPlace::Index(GridRange::new(Grid::Integer, lo, lo + 9).unwrap());
        let longs = Int64Array::from(vec![Some(i64::MAX), None, Some(3)]);
        assert_eq!(places_of(&far(i64::MAX.into()), longs), [Some(0), None, Some(0)]);
        let longs = Int64Array::from(vec![Some(i64::MIN), None, Some(3)]);
        assert_eq!(places_of(&far(i64::MIN.into()), longs), [Some(0), None, Some(9)]);
        let wide = UInt64Array::from(vec![Some(u64::MAX), None, Some(1 << 63), Some(3)]);
        let places = places_of(&far(1 << 63), wide);
        assert_eq!(places, [Some(9), None, Some(0), Some(0)]);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the very float is meant")]
    fn the_nearest_tick_is_nearest() {
        let thirds = ticks("-0.9", "3", "0.3");
        for (x, tick) in
            [(0.89, 0.9), (-5.0, -0.9), (99.0, 3.0), (0.44, 0.3), (0.46, 0.6), (-0.46, -0.6)]
        {
            assert_eq!(thirds.float(thirds.floats().nearest(x)), tick, "{x}");
        }
        let whole = ticks("0", "9", "1");
        assert_eq!([0.5, 1.5, 2.5, 3.5].map(|x| whole.floats().nearest(x)), [0, 2, 2, 4]);
    }
}
