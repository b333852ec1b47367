//! `width_bucket(x, lo, hi, n)`: the bucket that contains a number, as in PostgreSQL. There are n
//! buckets of equal width.
//!
//! In: numbers, as doubles, and literal bounds. Out: 1 to n; 0 before the first bucket, and n + 1
//! from the last bound on. If `lo` is above `hi`, the buckets are counted downwards. NULL and NaN
//! have no bucket. The function never fails.
//!
//! ```text
//! width_bucket(x, 0, 10, 5)      -1 → 0      0 → 1      1.9 → 1      2 → 2      10 → 6
//! width_bucket(x, 10, 0, 5)      11 → 0     10 → 1      8.1 → 1      8 → 2       0 → 6
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use num_traits::ToPrimitive;

static WIDTH_BUCKET: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(WidthBucket::new())));

/// `width_bucket(x, lo, hi, n)`, for the planner.
pub fn width_bucket_function() -> Arc<ScalarUDF> {
    Arc::clone(&WIDTH_BUCKET)
}

/// Whether a function is `width_bucket` itself and not another of the same name.
pub fn is_width_bucket(function: &ScalarUDF) -> bool {
    *function == **WIDTH_BUCKET
}

/// Buckets of equal width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EqualBuckets {
    lo: f64,
    hi: f64,
    n: i64,
}

impl EqualBuckets {
    /// The most buckets.
    pub const MOST: i64 = 10_000;

    /// Buckets with these literals as bounds and number; `None` for anything but two different
    /// finite numbers and a number of buckets from 1 to [`Self::MOST`].
    pub fn new(lo: &ScalarValue, hi: &ScalarValue, n: &ScalarValue) -> Option<Self> {
        let bound = |value: &ScalarValue| match value.cast_to(&DataType::Float64).ok()? {
            ScalarValue::Float64(Some(bound)) if bound.is_finite() => Some(bound + 0.0),
            _ => None,
        };
        let n = match n.data_type().is_integer().then(|| n.cast_to(&DataType::Int64))?.ok()? {
            ScalarValue::Int64(Some(n)) if (1..=Self::MOST).contains(&n) => n,
            _ => return None,
        };
        let buckets = Self { lo: bound(lo)?, hi: bound(hi)?, n };
        (buckets.lo < buckets.hi || buckets.hi < buckets.lo).then_some(buckets)
    }

    /// The number of the last bucket, n + 1, for everything beyond the others.
    pub fn last(self) -> i64 {
        self.n + 1
    }

    /// The bucket of a number; `None` for NaN.
    ///
    /// # Guarantee
    /// It never falls as the number grows if `lo < hi`, and never rises if `hi < lo`.
    pub fn bucket(self, x: f64) -> Option<i64> {
        let Self { lo, hi, n } = self;
        if x.is_nan() {
            return None;
        }
        let (before, beyond) = if lo < hi { (x < lo, x >= hi) } else { (x > lo, x <= hi) };
        if before {
            return Some(0);
        }
        if beyond {
            return Some(self.last());
        }
        let width = hi - lo;
        let share = match width.is_finite() {
            true => (x - lo) / width,
            // The difference of very distant bounds would be infinite.
            false => (x / 2.0 - lo / 2.0) / (hi / 2.0 - lo / 2.0),
        };
        // The share can be rounded up to 1.
        Some((n.to_f64()? * share).to_i64()?.clamp(0, n - 1) + 1)
    }

    fn buckets(self, array: &ArrayRef) -> Result<Int64Array> {
        match array.as_primitive_opt::<Float64Type>() {
            Some(numbers) => Ok(numbers.iter().map(|x| self.bucket(x?)).collect()),
            None => exec_err!("width_bucket takes numbers"),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WidthBucket {
    signature: Signature,
}

impl WidthBucket {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

const USAGE: &str = "width_bucket takes a number, two different literal bounds and a literal number of buckets from 1 to 10000: width_bucket(x, 0, 100, 10)";

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &'static str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
        match arg_types {
            // The literals keep their types, because the cast of a literal is not a literal while
            // the query is planned.
            [x, lo, hi, n] if [x, lo, hi].into_iter().all(is_number) && n.is_integer() => {
                Ok(vec![DataType::Float64, lo.clone(), hi.clone(), n.clone()])
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [_, Some(lo), Some(hi), Some(n)] = args.scalar_arguments else {
            return plan_err!("{USAGE}");
        };
        match EqualBuckets::new(lo, hi, n) {
            Some(_) => Ok(Arc::new(Field::new(self.name(), DataType::Int64, true))),
            None => plan_err!("{USAGE}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x, ColumnarValue::Scalar(lo), ColumnarValue::Scalar(hi), ColumnarValue::Scalar(n)] =
            args.args.as_slice()
        else {
            return exec_err!("{USAGE}");
        };
        let Some(buckets) = EqualBuckets::new(lo, hi, n) else { return exec_err!("{USAGE}") };
        match x {
            ColumnarValue::Array(array) => {
                Ok(ColumnarValue::Array(Arc::new(buckets.buckets(array)?)))
            }
            ColumnarValue::Scalar(value) => {
                let one = buckets.buckets(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(lo: f64, hi: f64, n: i64) -> EqualBuckets {
        let bound = |x: f64| ScalarValue::Float64(Some(x));
        EqualBuckets::new(&bound(lo), &bound(hi), &ScalarValue::Int64(Some(n))).unwrap()
    }

    /// The examples of PostgreSQL's documentation and of its tests.
    #[test]
    fn buckets_are_those_of_postgresql() {
        for (x, lo, hi, n, expected) in [
            (5.35, 0.024, 10.06, 5, 3),
            (5.35, 10.06, 0.024, 5, 3),
            (-5.2, 0.0, 10.0, 5, 0),
            (-1e-10, 0.0, 10.0, 5, 0),
            (1e-10, 0.0, 10.0, 5, 1),
            (1.0, 0.0, 10.0, 5, 1),
            (5.5, 0.0, 10.0, 5, 3),
            (8.0, 0.0, 10.0, 5, 5),
            (9.99999999999999, 0.0, 10.0, 5, 5),
            (10.0, 0.0, 10.0, 5, 6),
            (10.000001, 0.0, 10.0, 5, 6),
            (10.0, 10.0, 0.0, 5, 1),
            (10.5, 10.0, 0.0, 5, 0),
            (8.0, 10.0, 0.0, 5, 2),
            (0.0, 10.0, 0.0, 5, 6),
            (f64::INFINITY, 0.0, 10.0, 10, 11),
            (f64::NEG_INFINITY, 0.0, 10.0, 10, 0),
            (0.0, -1e308, 1e308, 10, 6),
        ] {
            assert_eq!(buckets(lo, hi, n).bucket(x), Some(expected), "{x}, {lo}, {hi}, {n}");
        }
        assert_eq!(buckets(0.0, 1.0, 3).bucket(f64::NAN), None);
    }

    #[test]
    fn a_larger_number_is_never_in_an_earlier_bucket() {
        for (lo, hi, n) in [(0.0, 1.0, 7), (-3.3, 1e-3, 10_000), (1e300, 1.5e308, 3)] {
            let all = (-50..150).map(|i| lo + (hi - lo) * f64::from(i) / 97.0);
            let up: Vec<_> = all.clone().map(|x| buckets(lo, hi, n).bucket(x)).collect();
            assert!(up.is_sorted(), "{lo}, {hi}");
            let down: Vec<_> = all.map(|x| buckets(hi, lo, n).bucket(x)).collect();
            assert!(down.is_sorted_by(|a, b| a >= b), "{hi}, {lo}");
        }
    }

    #[test]
    fn other_bounds_make_no_buckets() {
        let bound = |x: f64| ScalarValue::Float64(Some(x));
        let n = |n: i64| ScalarValue::Int64(Some(n));
        for (lo, hi, n) in [
            (bound(1.0), bound(1.0), n(3)),
            (bound(0.0), bound(-0.0), n(3)),
            (bound(f64::NAN), bound(1.0), n(3)),
            (bound(0.0), bound(f64::INFINITY), n(3)),
            (bound(0.0), bound(1.0), n(0)),
            (bound(0.0), bound(1.0), n(10_001)),
            (bound(0.0), bound(1.0), bound(3.0)),
            (bound(0.0), ScalarValue::Float64(None), n(3)),
        ] {
            assert_eq!(EqualBuckets::new(&lo, &hi, &n), None, "{lo}, {hi}, {n}");
        }
    }
}
