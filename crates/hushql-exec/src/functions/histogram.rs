//! `HISTOGRAM(x, n)`: the class that contains a number, as a text. There are n classes of equal
//! width.
//!
//! In: numbers, and their declared range. Out: the class's name, `17..25` for integers and
//! `[0, 12.5)` for others; the last class includes its end. NULL and NaN have no class, and values
//! beyond the range belong to the nearest class. The function never fails.
//!
//! The planner sees the call as it is written, with x and n. The analysis, which knows the range,
//! replaces it.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use num_traits::ToPrimitive;

use super::{any_one, named};
use hushql_privacy::privacy::Rational;

static HISTOGRAM: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(BucketLabel::new())));

/// `HISTOGRAM(x, n)` as it is written, for the planner.
pub fn histogram_function() -> Arc<ScalarUDF> {
    Arc::clone(&HISTOGRAM)
}

/// Whether a function is `HISTOGRAM` itself and not another of the same name.
pub fn is_histogram(function: &ScalarUDF) -> bool {
    *function == **HISTOGRAM
}

/// Classes of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes {
    /// The beginnings of all classes but the first, in order.
    starts: Vec<f64>,
    names: Vec<String>,
}

impl Classes {
    /// The most classes.
    pub const MOST: i64 = 1_000;

    /// The number of classes that a literal asks for; `None` for anything but 1 to [`Self::MOST`].
    pub fn number(n: &ScalarValue) -> Option<i64> {
        match n.data_type().is_integer().then(|| n.cast_to(&DataType::Int64))?.ok()? {
            ScalarValue::Int64(Some(n)) => Some(n).filter(|n| (1..=Self::MOST).contains(n)),
            _ => None,
        }
    }

    /// At most n classes from one number to another. For integers, all but the last class have
    /// equally many, and none is empty.
    ///
    /// `None` if different ends are equal as doubles, or the ends are not in order.
    pub fn new(lo: &Rational, hi: &Rational, n: i64, whole: bool) -> Option<Self> {
        if lo == hi && !whole {
            let end = lo.to_f64()?;
            return Some(Self { starts: Vec::new(), names: vec![format!("[{end}, {end}]")] });
        }
        match whole {
            true => Self::of_whole(
                lo.ceil().to_integer().to_i64()?,
                hi.floor().to_integer().to_i64()?,
                n,
            ),
            false => Self::of_numbers(lo.to_f64()?, hi.to_f64()?, n),
        }
    }

    fn of_whole(lo: i64, hi: i64, n: i64) -> Option<Self> {
        let exact = -(1_i64 << 53)..=1_i64 << 53;
        if !exact.contains(&lo) || !exact.contains(&hi) || lo > hi || n < 1 {
            return None;
        }
        let width = (hi - lo) / n + 1;
        let firsts: Vec<i64> =
            (0..n).map(|k| lo + k * width).take_while(|first| *first <= hi).collect();
        let name = |first: &i64| match (*first + width - 1).min(hi) {
            last if last == *first => first.to_string(),
            last => format!("{first}..{last}"),
        };
        let starts = firsts.iter().skip(1).map(ToPrimitive::to_f64).collect::<Option<_>>()?;
        Some(Self { starts, names: firsts.iter().map(name).collect() })
    }

    fn of_numbers(lo: f64, hi: f64, n: i64) -> Option<Self> {
        let n = n.to_f64()?;
        let width = (hi - lo) / n;
        if !width.is_finite() || lo >= hi {
            return None;
        }
        // 0.3 instead of 0.30000000000000004.
        let short = |edge: f64| format!("{edge:.11e}").parse().unwrap_or(edge);
        let edge = |k: f64| if 0.0 < k && k < n { short(lo + k * width) } else { hi };
        let edge = |k: f64| if k > 0.0 { edge(k) } else { lo };
        let mut edges = Vec::new();
        let mut k = 0.0;
        while k <= n {
            edges.push(edge(k) + 0.0);
            k += 1.0;
        }
        if !edges.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let last = edges.len() - 2;
        let names = edges.windows(2).enumerate().map(|(k, ends)| match ends {
            [a, b] if k == last => format!("[{a}, {b}]"),
            [a, b] => format!("[{a}, {b})"),
            _ => String::new(),
        });
        Some(Self { names: names.collect(), starts: edges[1..=last].to_vec() })
    }

    /// The names, in the order of the classes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The class of each number of a column.
    ///
    /// # Guarantee
    /// On every row the result is NULL or one of the classes' names.
    pub fn of(self, x: Expr) -> Expr {
        let name = named("classes", &self);
        let function = ClassOf { name, classes: self, signature: any_one() };
        let double = TryCast::new(Box::new(x), DataType::Float64);
        ScalarUDF::from(function).call(vec![Expr::TryCast(double)])
    }

    fn name_of(&self, x: f64) -> Option<&str> {
        if x.is_nan() {
            return None;
        }
        let place = self.starts.partition_point(|start| *start <= x);
        self.names.get(place).map(String::as_str)
    }
}

/// The beginnings of all classes but the first, and the names of all; `None` for another function.
pub(super) fn classes_parts(function: &ScalarUDF) -> Option<(&[f64], &[String])> {
    let classes = &function.inner().downcast_ref::<ClassOf>()?.classes;
    Some((&classes.starts, &classes.names))
}

/// The function with these parts.
pub(super) fn classes_made(starts: Vec<f64>, names: Vec<String>) -> ScalarUDF {
    let classes = Classes { starts, names };
    let name = named("classes", &classes);
    ScalarUDF::from(ClassOf { name, classes, signature: any_one() })
}

#[derive(Debug, PartialEq)]
struct ClassOf {
    name: String,
    classes: Classes,
    signature: Signature,
}

impl Eq for ClassOf {}

impl Hash for ClassOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ClassOf {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("classes have one operand") };
        let x = x.to_array(args.number_rows)?;
        let Some(numbers) = x.as_primitive_opt::<Float64Type>() else {
            return exec_err!("classes are of numbers");
        };
        let names: StringArray = numbers.iter().map(|x| self.classes.name_of(x?)).collect();
        let names: ArrayRef = Arc::new(names);
        Ok(ColumnarValue::Array(names))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BucketLabel {
    signature: Signature,
}

impl BucketLabel {
    fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

const USAGE: &str =
    "HISTOGRAM takes a number and a literal number of classes from 1 to 1000: HISTOGRAM(x, 10)";

impl ScalarUDFImpl for BucketLabel {
    fn name(&self) -> &'static str {
        "histogram"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x, n] if x.is_numeric() && n.is_integer() => Ok(arg_types.to_vec()),
            _ => plan_err!("{USAGE}"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.scalar_arguments {
            [_, Some(n)] if Classes::number(n).is_some() => {
                Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true)))
            }
            _ => plan_err!("{USAGE}"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "HISTOGRAM takes the range that is declared for a private column; of other numbers write width_bucket(x, 0, 100, 10)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(lo: i64, hi: i64, n: i64, whole: bool) -> Option<Classes> {
        let end = |end: i64| Rational::new(end.into(), 2.into());
        Classes::new(&end(lo), &end(hi), n, whole)
    }

    #[test]
    fn whole_numbers_lie_in_classes_of_equal_width() {
        for (lo, hi, n, names) in [
            (17, 90, 8, "17..26 27..36 37..46 47..56 57..66 67..76 77..86 87..90"),
            (0, 3, 9, "0 1 2 3"),
            (0, 9, 4, "0..2 3..5 6..8 9"),
            (5, 5, 1, "5"),
            (-3, 3, 2, "-3..0 1..3"),
        ] {
            let made = classes(2 * lo, 2 * hi, n, true).unwrap();
            assert_eq!(made.names().collect::<Vec<_>>().join(" "), names);
            for x in lo..=hi {
                let name = made.name_of(x.to_f64().unwrap()).unwrap();
                let (first, last) = name.split_once("..").unwrap_or((name, name));
                let (first, last): (i64, i64) = (first.parse().unwrap(), last.parse().unwrap());
                assert!((first..=last).contains(&x), "{x} in {name}");
            }
        }
    }

    #[test]
    fn other_numbers_lie_between_edges() {
        let made = classes(0, 25, 5, false).unwrap();
        let names: Vec<&str> = made.names().collect();
        assert_eq!(names, ["[0, 2.5)", "[2.5, 5)", "[5, 7.5)", "[7.5, 10)", "[10, 12.5]"]);
        for (x, place) in [(-1.0, 0), (0.0, 0), (2.5, 1), (2.499, 0), (12.5, 4), (1e300, 4)] {
            assert_eq!(made.name_of(x), Some(names[place]), "{x}");
        }
        assert_eq!(made.name_of(f64::NAN), None);
    }

    #[test]
    fn other_ends_make_no_classes() {
        assert_eq!(classes(2, 1, 3, false), None);
        assert_eq!(classes(1, 1, 3, false).unwrap().names().collect::<Vec<_>>(), ["[0.5, 0.5]"]);
        let tenths = Classes::new(
            &Rational::new(0.into(), 1.into()),
            &Rational::new(1.into(), 1.into()),
            10,
            false,
        );
        assert_eq!(tenths.unwrap().names().nth(3), Some("[0.3, 0.4)"));
        assert_eq!(classes(6, 4, 3, true), None);
        assert_eq!(classes(0, i64::MAX, 3, true), None);
        let near = |by: i64| Rational::new((i64::MAX - by).into(), 1.into());
        assert_eq!(Classes::new(&near(1), &near(0), 3, false), None);
        for n in [0, -1, 1_001] {
            assert_eq!(Classes::number(&ScalarValue::Int64(Some(n))), None);
        }
        assert_eq!(Classes::number(&ScalarValue::Float64(Some(3.0))), None);
        assert_eq!(Classes::number(&ScalarValue::Int32(Some(3))), Some(3));
    }
}
