//! The scalar functions of the engine: `CLAMP`, `width_bucket`, the tick of a stepped domain, the
//! members of a listed one, and functions that replace values that make kernels fail.
//!
//! In: a column and literal bounds, or a list. Out: a column of the same type in which every value
//! lies between the bounds or is in the list. All of them are total: no input makes them fail. All
//! are row-local: the result for one row never depends on another.
//!
//! In every float column NaN becomes NULL and −0.0 becomes 0.0, because one NaN would make a sum
//! NaN.

mod axis;
mod block_of;
mod capped;
mod cast;
mod checked;
mod concat;
mod date_bin;
mod date_label;
mod date_trunc;
mod decided;
mod file_values;
pub mod function_parts;
mod growth;
mod histogram;
mod interval_end;
mod interval_product;
mod late_value;
mod list_aggregates;
mod list_in_units;
mod magnitude;
mod matched;
mod micros;
mod moment_text;
mod moments;
mod month_unit;
mod moved_times;
mod null_unsupported;
mod or_null;
mod ordered_list;
mod pair;
mod pruning;
mod round;
mod struct_fields;
pub mod travelling_values;
mod view_cache;
mod width_bucket;
mod written;

use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::nullif;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{HashSet, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sha2::{Digest, Sha256};

pub use axis::{AxisPlace, is_countable, place, snap};
pub use block_of::block_of;
pub use capped::capped;
pub use cast::{cast_value, opaque_cast, rounds};
pub use checked::{checked, checked_abs, is_checked_integer, not_negative, not_zero};
pub use concat::joined;
pub use date_bin::{Stride, date_bin_function, is_date_bin};
pub use date_label::{Finest, LabelFormat, date_label_functions, is_date_label};
pub use date_trunc::{date_trunc_function, is_date_trunc};
pub use decided::{Decision, decision};
pub use file_values::{
    UUID, counts_as_whole, declared_type, file_values, file_values_function, may_lose, widens,
};
pub use histogram::{Classes, histogram_function, is_histogram};
pub use interval_end::{IntervalEnd, interval_end, interval_end_functions};
pub use interval_product::{Corner, corners};
pub use late_value::{LateValue, in_values_words, is_late_value};
pub use list_aggregates::{bytes_of_column, gathered};
pub use list_in_units::list_in_units;
pub use magnitude::{is_magnitude, magnitude_function};
pub use matched::{matched, matching};
pub use micros::{computed_type, in_microseconds_function};
pub use moment_text::{
    has_offset, in_utc, is_without_offset, texts_without_offset, with_seconds, without_offset,
};
pub use moments::{Period, date_diff_function, is_date_diff, moved, moved_array, moved_constant};
pub use month_unit::{has_months, month_of, month_unit};
pub use moved_times::{is_moved_times, moved_times, moved_times_array, moved_times_function};
pub use null_unsupported::{
    LAST_MICROSECOND, MOST_OF_A_CELL, MOST_OF_A_CONSTANT, YEARS, ends_of_sound, has_ends,
    in_calendar, in_calendar_function, is_in_calendar, is_sound, reach_of_moments, sound,
    temporal_limits, ticks_a_day,
};
pub use or_null::{is_castable, or_null, tried};
pub use ordered_list::ordered_list_function;
pub use pair::pair;
pub use pruning::prunes;
pub use round::{Direction, Rounding};
pub use struct_fields::{field_of_structs, field_type, struct_field_function};
pub(crate) use view_cache::ViewCache;
pub use width_bucket::{EqualBuckets, is_width_bucket, width_bucket_function};
pub use written::{DecimalLiteral, in_quotes, is_fraction_in_quotes, with_numbers, written};

/// A float of 16 bits.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

static CLAMP: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Clamp::new())));

/// `CLAMP(x, lo, hi)`, for the planner.
pub fn clamp_function() -> Arc<ScalarUDF> {
    Arc::clone(&CLAMP)
}

/// Whether a function is `CLAMP` itself and not another of the same name.
pub fn is_clamp(function: &ScalarUDF) -> bool {
    function == CLAMP.as_ref()
}

/// `clamp(x, lo, hi)` with literals of x's own type.
pub fn clamp(x: Expr, lo: ScalarValue, hi: ScalarValue) -> Expr {
    CLAMP.call(vec![x, Expr::Literal(lo, None), Expr::Literal(hi, None)])
}

/// A float column without NaN and −0.0; other types are unchanged.
pub fn without_nan(x: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Float64 => clamp(
            x,
            ScalarValue::Float64(Some(f64::NEG_INFINITY)),
            ScalarValue::Float64(Some(f64::INFINITY)),
        ),
        DataType::Float32 => clamp(
            x,
            ScalarValue::Float32(Some(f32::NEG_INFINITY)),
            ScalarValue::Float32(Some(f32::INFINITY)),
        ),
        DataType::Float16 => clamp(
            x,
            ScalarValue::Float16(Some(Half::NEG_INFINITY)),
            ScalarValue::Float16(Some(Half::INFINITY)),
        ),
        _ => x,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Clamp {
    signature: Signature,
}

impl Clamp {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x, _, _] => Ok(x.clone()),
            _ => plan_err!("CLAMP takes three arguments: CLAMP(x, lo, hi)"),
        }
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [x, lo, hi] = arg_types else {
            return plan_err!("CLAMP takes three arguments: CLAMP(x, lo, hi)");
        };
        let all = [x, lo, hi];
        let common = if all.iter().all(|t| t.is_integer()) {
            if x.is_integer() { x.clone() } else { DataType::Int64 }
        } else if all.iter().all(|t| t.is_numeric()) {
            match x {
                DataType::Decimal128(..) | DataType::Float32 => x.clone(),
                // Literals do not become 16-bit floats, which are too coarse for most numbers.
                DataType::Float16 if [lo, hi].iter().all(|bound| *bound == x) => x.clone(),
                _ => DataType::Float64,
            }
        } else if matches!(x, DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..)) {
            x.clone()
        } else {
            let is_other = |t: &&&DataType| !t.is_numeric();
            let other = all.iter().find(is_other).unwrap_or(&x);
            return plan_err!("CLAMP takes numbers, dates, times or timestamps, not {other}");
        };
        Ok(vec![common; 3])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x, ColumnarValue::Scalar(lo), ColumnarValue::Scalar(hi)] = args.args.as_slice() else {
            return exec_err!("the bounds of CLAMP are literals");
        };
        match x {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(clamp_array(array, lo, hi)?)),
            ColumnarValue::Scalar(value) => {
                let clamped = clamp_array(&value.to_array()?, lo, hi)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&clamped, 0)?))
            }
        }
    }
}

fn clamp_array(array: &ArrayRef, lo: &ScalarValue, hi: &ScalarValue) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Int8 => integers::<Int8Type>(array, lo, hi)?,
        DataType::Int16 => integers::<Int16Type>(array, lo, hi)?,
        DataType::Int32 => integers::<Int32Type>(array, lo, hi)?,
        DataType::Int64 => integers::<Int64Type>(array, lo, hi)?,
        DataType::UInt8 => integers::<UInt8Type>(array, lo, hi)?,
        DataType::UInt16 => integers::<UInt16Type>(array, lo, hi)?,
        DataType::UInt32 => integers::<UInt32Type>(array, lo, hi)?,
        DataType::UInt64 => integers::<UInt64Type>(array, lo, hi)?,
        DataType::Date32 => integers::<Date32Type>(array, lo, hi)?,
        DataType::Decimal128(..) => integers::<Decimal128Type>(array, lo, hi)?,
        DataType::Time64(TimeUnit::Microsecond) => {
            integers::<Time64MicrosecondType>(array, lo, hi)?
        }
        DataType::Timestamp(TimeUnit::Second, _) => integers::<TimestampSecondType>(array, lo, hi)?,
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            integers::<TimestampMillisecondType>(array, lo, hi)?
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            integers::<TimestampMicrosecondType>(array, lo, hi)?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            integers::<TimestampNanosecondType>(array, lo, hi)?
        }
        DataType::Float16 => {
            let (lo, hi) = (bound::<Float16Type>(lo)?, bound::<Float16Type>(hi)?);
            let floats = array.as_primitive::<Float16Type>();
            Arc::new(of_numbers::<_, Float16Type>(floats, Half::is_nan, |v| {
                v.max(lo).min(hi) + Half::ZERO
            }))
        }
        DataType::Float32 => {
            let (lo, hi) = (bound::<Float32Type>(lo)?, bound::<Float32Type>(hi)?);
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(of_numbers::<_, Float32Type>(floats, f32::is_nan, |v| v.max(lo).min(hi) + 0.0))
        }
        DataType::Float64 => {
            let (lo, hi) = (bound::<Float64Type>(lo)?, bound::<Float64Type>(hi)?);
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(of_numbers::<_, Float64Type>(floats, f64::is_nan, |v| v.max(lo).min(hi) + 0.0))
        }
        _ => return exec_err!("CLAMP takes numbers, dates, times or timestamps"),
    })
}

/// Applies a function to every float that is a number; other rows become NULL. The function is
/// total, and is called for NaN as well.
fn of_numbers<T: ArrowPrimitiveType, To: ArrowPrimitiveType>(
    floats: &PrimitiveArray<T>,
    is_nan: impl Fn(T::Native) -> bool,
    function: impl Fn(T::Native) -> To::Native,
) -> PrimitiveArray<To> {
    let values = floats.values();
    let of_all: PrimitiveArray<To> = floats.unary(function);
    let numbers = BooleanBuffer::collect_bool(values.len(), |row| !is_nan(values[row]));
    if numbers.count_set_bits() == values.len() {
        return of_all;
    }
    let nulls = NullBuffer::union(floats.nulls(), Some(&NullBuffer::new(numbers)));
    PrimitiveArray::new(of_all.values().clone(), nulls)
}

/// The native value of a literal bound.
fn bound<T: ArrowPrimitiveType>(value: &ScalarValue) -> Result<T::Native> {
    let array = value.to_array()?;
    match array.as_primitive_opt::<T>() {
        Some(array) if array.len() == 1 && array.is_valid(0) => Ok(array.value(0)),
        _ => exec_err!("the bounds of CLAMP are literals"),
    }
}

fn integers<T>(array: &ArrayRef, lo: &ScalarValue, hi: &ScalarValue) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Ord,
{
    let (lo, hi) = (bound::<T>(lo)?, bound::<T>(hi)?);
    let clamped: PrimitiveArray<T> = array.as_primitive::<T>().unary(|v| v.max(lo).min(hi));
    Ok(Arc::new(clamped.with_data_type(array.data_type().clone())))
}

/// The column, with NULL for every value that is not among `members`; `None` for types without such
/// lists.
///
/// The expression `CASE WHEN x IN (…) THEN x END` means the same, but it copies every value, and
/// every step of planning walks its literals.
pub fn only_listed(x: Expr, members: &[ScalarValue]) -> Option<Expr> {
    let mut known = match members.first()?.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Members::texts(),
        DataType::Float32 | DataType::Float64 | DataType::Boolean => return None,
        _ => Members::integers(),
    };
    known.add(&ScalarValue::iter_to_array(members.iter().cloned()).ok()?)?;
    let name = named("listed", &members);
    let function = Listed { name, members: members.into(), known, signature: any_one() };
    Some(ScalarUDF::from(function).call(vec![x]))
}

/// The values of the list that a function compares with. Their order has no effect. `None` for any
/// other function.
pub fn members_of(function: &ScalarUDF) -> Option<&[ScalarValue]> {
    Some(&function.inner().downcast_ref::<Listed>()?.members)
}

/// The name of a function that has parameters in addition to its arguments. It contains a digest of
/// the parameters.
///
/// DataFusion treats two calls as the same value if their names and arguments are equal, even if
/// the functions differ.
///
/// # Guarantee
/// Parameters with different debug texts have different names, except for a collision of SHA-256.
fn named(kind: &str, parameters: &impl Debug) -> String {
    struct Digested(Sha256);
    impl Write for Digested {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text);
            Ok(())
        }
    }
    let mut digested = Digested(Sha256::new());
    // Writing to a digest cannot fail.
    let _ = write!(digested, "{parameters:?}");
    let digest = digested.0.finalize();
    digest.iter().fold(format!("{kind}_"), |name, byte| format!("{name}{byte:02x}"))
}

fn any_one() -> Signature {
    Signature::any(1, Volatility::Immutable)
}

/// A set of values, for look-ups.
enum Members {
    Texts(HashSet<Box<str>>),
    Integers(HashSet<i128>),
}

/// A set has no order, but plans are compared as texts. The function has its values in order.
impl Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Members")
    }
}

impl Members {
    fn texts() -> Self {
        Self::Texts(HashSet::default())
    }

    fn integers() -> Self {
        Self::Integers(HashSet::default())
    }

    /// Adds the values of a column; `None` if their type does not fit the set.
    fn add(&mut self, column: &ArrayRef) -> Option<()> {
        match self {
            Self::Texts(texts) => each_text(column, |text| {
                texts.insert(text.into());
            }),
            Self::Integers(integers) => each_integer(column, |integer| {
                integers.insert(integer);
            }),
        }
    }

    /// The rows whose value is not in the set. The result for NULLs does not matter.
    fn strangers(&self, column: &ArrayRef) -> Option<BooleanBuffer> {
        let mut strange = Vec::with_capacity(column.len());
        match self {
            Self::Texts(texts) => match column.as_string_view_opt() {
                Some(views) => {
                    let mut seen = ViewCache::of_one_column(false);
                    for (row, view) in views.views().iter().enumerate() {
                        strange.push(seen.of(*view, || !texts.contains(views.value(row))));
                    }
                }
                None => each_text(column, |text| strange.push(!texts.contains(text)))?,
            },
            Self::Integers(integers) => {
                each_integer(column, |integer| strange.push(!integers.contains(&integer)))?;
            }
        }
        Some(BooleanBuffer::from(strange))
    }
}

/// Visits every slot of a column of texts, including NULLs.
fn each_text(column: &ArrayRef, visit: impl FnMut(&str)) -> Option<()> {
    fn walk<'a>(texts: &impl ArrayAccessor<Item = &'a str>, mut visit: impl FnMut(&str)) {
        for row in 0..texts.len() {
            visit(texts.value(row));
        }
    }
    match column.data_type() {
        DataType::Utf8 => walk(&column.as_string::<i32>(), visit),
        DataType::LargeUtf8 => walk(&column.as_string::<i64>(), visit),
        DataType::Utf8View => walk(&column.as_string_view(), visit),
        _ => return None,
    }
    Some(())
}

/// Visits every slot of a column whose values are stored as integers, including NULLs.
fn each_integer(column: &ArrayRef, mut visit: impl FnMut(i128)) -> Option<()> {
    macro_rules! walk {
        ($type:ty) => {
            column.as_primitive::<$type>().values().iter().for_each(|v| visit(i128::from(*v)))
        };
    }
    match column.data_type() {
        DataType::Int8 => walk!(Int8Type),
        DataType::Int16 => walk!(Int16Type),
        DataType::Int32 => walk!(Int32Type),
        DataType::Int64 => walk!(Int64Type),
        DataType::UInt8 => walk!(UInt8Type),
        DataType::UInt16 => walk!(UInt16Type),
        DataType::UInt32 => walk!(UInt32Type),
        DataType::UInt64 => walk!(UInt64Type),
        DataType::Date32 => walk!(Date32Type),
        DataType::Decimal128(..) => walk!(Decimal128Type),
        DataType::Time64(TimeUnit::Microsecond) => walk!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => walk!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => walk!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => walk!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => walk!(TimestampNanosecondType),
        _ => return None,
    }
    Some(())
}

/// The function for one list. Two lists make two functions, so that no optimizer confuses them.
#[derive(Debug)]
struct Listed {
    name: String,
    members: Arc<[ScalarValue]>,
    known: Members,
    signature: Signature,
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Eq for Listed {}

impl Hash for Listed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Plans are hashed often, and a list can be long.
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Listed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x] => Ok(x.clone()),
            _ => plan_err!("a list has one column"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("a list has one column") };
        let array = x.to_array(args.number_rows)?;
        let Some(strange) = self.known.strangers(&array) else {
            return exec_err!("the list is of another type than the column");
        };
        if strange.count_set_bits() == 0 {
            return Ok(ColumnarValue::Array(array));
        }
        Ok(ColumnarValue::Array(nullif(&array, &BooleanArray::new(strange, None))?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Float64Array, Int64Array, StringArray, StringViewArray};

    use datafusion::common::cse::NormalizeEq;
    use datafusion::prelude::col;

    use super::*;

    /// The optimizer once replaced one list by another, because it compares names and arguments.
    #[test]
    fn other_lists_have_other_names() {
        let list = |words: [&str; 3]| only_listed(col("x"), &words.map(ScalarValue::from)).unwrap();
        let (one, other) = (list(["a", "b", "d"]), list(["a", "c", "d"]));
        assert!(one.normalize_eq(&list(["a", "b", "d"])));
        assert!(!one.normalize_eq(&other));
        assert_ne!(one, other);
    }

    #[test]
    fn clamping_is_total_on_hostile_floats() {
        let nan = -f64::NAN;
        let array: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(nan),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(-0.0),
            Some(0.5),
            None,
        ]));
        let lo = ScalarValue::Float64(Some(-1.0));
        let hi = ScalarValue::Float64(Some(1.0));
        let clamped = clamp_array(&array, &lo, &hi).unwrap();
        let clamped = clamped.as_primitive::<Float64Type>();
        let values: Vec<_> = clamped.iter().collect();
        assert_eq!(values, [None, Some(1.0), Some(-1.0), Some(0.0), Some(0.5), None]);
        assert!(clamped.value(3).is_sign_positive());
    }

    /// A constant operand over a batch without rows once read past the end of an empty array. The
    /// panic would have revealed that no row passed the filter.
    #[test]
    fn a_constant_over_no_rows_is_still_a_constant() {
        let constant = |v| ColumnarValue::Scalar(ScalarValue::Int64(Some(v)));
        let field = Arc::new(arrow::datatypes::Field::new("x", DataType::Int64, true));
        let clamped = Clamp::new()
            .invoke_with_args(ScalarFunctionArgs {
                args: vec![constant(12), constant(0), constant(9)],
                arg_fields: vec![Arc::clone(&field); 3],
                number_rows: 0,
                return_field: field,
                config_options: Arc::default(),
            })
            .unwrap();
        assert!(matches!(clamped, ColumnarValue::Scalar(ScalarValue::Int64(Some(9)))));
    }

    fn members_of(array: ArrayRef, members: &[ScalarValue]) -> ArrayRef {
        let Some(Expr::ScalarFunction(call)) = only_listed(Expr::default(), members) else {
            panic!("these members can be listed");
        };
        let field = Arc::new(arrow::datatypes::Field::new("x", array.data_type().clone(), true));
        let arguments = ScalarFunctionArgs {
            number_rows: array.len(),
            args: vec![ColumnarValue::Array(array)],
            arg_fields: vec![Arc::clone(&field)],
            return_field: field,
            config_options: Arc::default(),
        };
        call.func.invoke_with_args(arguments).unwrap().to_array(1).unwrap()
    }

    #[test]
    fn what_is_not_listed_is_null() {
        let rows = [Some("a"), None, Some("c"), Some(""), Some("a longer text than a view holds")];
        let kept = [Some("a"), None, None, None, Some("a longer text than a view holds")];
        let (a, long) = (rows[0].unwrap(), rows[4].unwrap());
        let texts = [ScalarValue::from(a), ScalarValue::from(long)];
        let array = members_of(Arc::new(StringArray::from(rows.to_vec())), &texts);
        assert_eq!(array.as_string::<i32>(), &StringArray::from(kept.to_vec()));
        let views = [a, long].map(|text| ScalarValue::Utf8View(Some(text.to_owned())));
        let array = members_of(Arc::new(StringViewArray::from(rows.to_vec())), &views);
        assert_eq!(array.as_string_view(), &StringViewArray::from(kept.to_vec()));
        let days = [ScalarValue::Date32(Some(-3)), ScalarValue::Date32(Some(7))];
        let array = members_of(Arc::new(Date32Array::from(vec![Some(7), Some(0), None])), &days);
        assert_eq!(
            array.as_primitive::<Date32Type>(),
            &Date32Array::from(vec![Some(7), None, None])
        );
    }

    /// A NULL slot can hold any bytes. They do not make it a member.
    #[test]
    fn a_null_is_no_member_whatever_lies_under_it() {
        let nulls = NullBuffer::from(vec![false, true]);
        let array: ArrayRef = Arc::new(Int64Array::new(vec![5, 5].into(), Some(nulls)));
        let array = members_of(array, &[ScalarValue::Int64(Some(5))]);
        assert_eq!(array.as_primitive::<Int64Type>(), &Int64Array::from(vec![None, Some(5)]));
    }

    #[test]
    fn two_lists_are_two_functions() {
        let list = |v: &[i64]| {
            let members: Vec<_> = v.iter().map(|v| ScalarValue::Int64(Some(*v))).collect();
            only_listed(Expr::default(), &members).unwrap()
        };
        assert_eq!(list(&[1, 2, 3]), list(&[1, 2, 3]));
        assert_ne!(list(&[1, 2, 3]), list(&[1, 9, 3]));
    }

    #[test]
    fn clamping_keeps_integers_exact() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, -1, 7, i64::MAX]));
        let clamped =
            clamp_array(&array, &ScalarValue::Int64(Some(0)), &ScalarValue::Int64(Some(9)))
                .unwrap();
        assert_eq!(clamped.as_primitive::<Int64Type>().values(), &[0, 0, 7, 9]);
    }
}
