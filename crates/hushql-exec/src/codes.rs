//! Public codes: each value of a column becomes a small number, by a rule that follows from
//! declarations alone.
//!
//! In: the values that a column can have, as a list or as ticks in buckets. Out: a code for every
//! value, one more code for NULL, and values for codes: a bucket yields one of its ticks, each with
//! the same probability. A rule is made before a row is read, and no row can change it. Unlisted
//! values get the code of NULL, and numbers beyond its ends get the code of the nearest bucket.
//!
//! ```text
//! Oslo, Rome          0, 1; NULL 2
//! 0 … 99,999 in 64    0 … 63 of 1,563 or 1,562 ticks each; NULL 64
//! ```

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit, UInt64Type};
use arrow::error::ArrowError;
use datafusion::common::{HashMap, ScalarValue};

use crate::grid::Grid;
use crate::ticks::Ticks;
use hushql_privacy::sampler::Uniform;
use hushql_privacy::synthetic::MOST_CODES;

/// By default, up to this number of ticks have a code each.
const ALL_TICKS: u64 = 128;

/// The number of buckets of equal width, if there are more ticks.
const BUCKETS: u64 = 64;

/// The public codes of a column: `0 … values − 1`, and one more for NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    data_type: DataType,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    /// These values, none of them NULL, each once.
    Listed(Vec<ScalarValue>),
    /// Ticks, and the number of the first tick of each bucket; the first bucket begins with tick 0.
    Ticks { ticks: Ticks, starts: Vec<u64> },
}

impl Codes {
    /// A code for each of these values, which have one type; NULL is left out. `None` if there are
    /// no values, or too many.
    pub fn listed(values: &[ScalarValue], data_type: &DataType) -> Option<Self> {
        let mut listed: Vec<ScalarValue> = Vec::new();
        let mut seen = datafusion::common::HashSet::new();
        for value in values.iter().filter(|value| !value.is_null()) {
            if seen.insert(value) {
                listed.push(value.clone());
            }
        }
        let fits = !listed.is_empty() && listed.len() < MOST_CODES;
        fits.then(|| Self { data_type: data_type.clone(), rule: Rule::Listed(listed) })
    }

    /// A code for each tick if there are few, otherwise for each of 64 buckets. The first buckets
    /// may be wider by one tick.
    pub fn ticks(ticks: Ticks, data_type: &DataType) -> Self {
        let count = ticks.count();
        let buckets = if count <= ALL_TICKS { count } else { BUCKETS };
        let (width, wider) = (count / buckets, count % buckets);
        let starts = (0..buckets).map(|i| i * width + i.min(wider)).collect();
        Self { data_type: data_type.clone(), rule: Rule::Ticks { ticks, starts } }
    }

    /// A code for each of at most `buckets` buckets. The number of ticks in a bucket grows by a
    /// constant factor.
    pub fn logarithmic(ticks: Ticks, buckets: u64, data_type: &DataType) -> Option<Self> {
        let count = num_traits::ToPrimitive::to_f64(&ticks.count())?;
        let share = |i: u64| {
            let part =
                num_traits::ToPrimitive::to_f64(&i)? / num_traits::ToPrimitive::to_f64(&buckets)?;
            let start = (count.powf(part) - 1.0).round().max(0.0);
            num_traits::ToPrimitive::to_u64(&start)
        };
        let mut starts = (0..buckets).map(share).collect::<Option<Vec<_>>>()?;
        starts.retain(|start| *start < ticks.count());
        starts.dedup();
        (starts.first() == Some(&0) && starts.len() < MOST_CODES)
            .then(|| Self { data_type: data_type.clone(), rule: Rule::Ticks { ticks, starts } })
    }

    /// A code for each bucket, and one for everything below the first of them. Each of these
    /// values, which have the column's type and are in order, is the first of a bucket. Values
    /// beyond the ticks begin no bucket. `None` if the values are not in order, or are too many.
    pub fn from_starts(ticks: Ticks, values: &[ScalarValue], data_type: &DataType) -> Option<Self> {
        let mut starts = vec![0_u64];
        let mut before: Option<&ScalarValue> = None;
        for value in values {
            if before
                .is_some_and(|before| before.partial_cmp(value) != Some(std::cmp::Ordering::Less))
            {
                return None;
            }
            before = Some(value);
            let below = ticks_below(&ticks, value)?;
            if below < ticks.count() && starts.last() != Some(&below) {
                starts.push(below);
            }
        }
        (starts.len() < MOST_CODES)
            .then(|| Self { data_type: data_type.clone(), rule: Rule::Ticks { ticks, starts } })
    }

    /// The number of codes, including that of NULL.
    pub fn len(&self) -> usize {
        self.values() + 1
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The most bytes that one value takes in a stored table, in addition to
    /// [`Codes::bytes_of_list`].
    pub fn bytes(&self) -> usize {
        let longest = self.texts().max().unwrap_or(0);
        // One bit says whether it is NULL.
        1 + match &self.data_type {
            // Views of texts that are stored once.
            DataType::Utf8View => 16,
            DataType::Utf8 => 4 + longest,
            other => other.primitive_width().unwrap_or(8 + longest),
        }
    }

    /// The bytes of all listed texts.
    pub fn bytes_of_list(&self) -> usize {
        self.texts().sum()
    }

    /// The lengths of the listed texts.
    fn texts(&self) -> impl Iterator<Item = usize> + '_ {
        let listed = match &self.rule {
            Rule::Listed(values) => values.as_slice(),
            Rule::Ticks { .. } => &[],
        };
        listed.iter().map(|value| value.try_as_str().flatten().map_or(0, str::len))
    }

    /// The number of codes of values. The code of NULL is the next one.
    fn values(&self) -> usize {
        match &self.rule {
            Rule::Listed(values) => values.len(),
            Rule::Ticks { starts, .. } => starts.len(),
        }
    }

    /// A short description of the codes.
    pub fn text(&self) -> String {
        let (count, what) = match &self.rule {
            Rule::Listed(values) => (values.len(), "value"),
            Rule::Ticks { ticks, starts } if ticks.count() == starts.len() as u64 => {
                (starts.len(), "value")
            }
            Rule::Ticks { starts, .. } => (starts.len(), "bucket"),
        };
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {what}{plural} and NULL")
    }

    /// The encoder of a column's values.
    ///
    /// # Errors
    /// Arrow's error if listed values have no common type.
    pub fn encoder(&self) -> Result<Encoder, ArrowError> {
        let null = u16::try_from(self.values()).unwrap_or(u16::MAX);
        let kind = match &self.rule {
            Rule::Listed(values) => listed(values)?,
            Rule::Ticks { ticks, starts } => {
                let floats = self.data_type.is_floating();
                let unit = |start: &u64| ticks.unit(*start);
                match (floats, starts.len() as u64 == ticks.count() && ticks.step() == 1) {
                    (true, _) => {
                        let ticks = ticks.floats();
                        CodeTable::Floats(starts.iter().map(|start| ticks.float(*start)).collect())
                    }
                    (false, true) => {
                        CodeTable::Offset(Offset::new(ticks.first(), null.saturating_sub(1)))
                    }
                    (false, false) => {
                        CodeTable::Starts(Starts::new(starts.iter().map(unit).collect()))
                    }
                }
            }
        };
        Ok(Encoder { kind, null })
    }

    /// Whether values of the column's type have codes, and codes have such values. This is known
    /// before a row is read.
    pub fn are_sound(&self) -> bool {
        let own = match &self.data_type {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        // Arrow would compare them as integers.
        if matches!(
            own,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal256(..)
        ) {
            return false;
        }
        let first = match &self.rule {
            Rule::Listed(values) => ScalarValue::iter_to_array(values.iter().cloned()).ok(),
            Rule::Ticks { ticks, .. } => {
                ticks.values(&[0, ticks.count() - 1], &self.data_type).ok()
            }
        };
        let encoded = |values: ArrayRef| {
            let own = cast(&values, &self.data_type).ok()?;
            let mut codes = Vec::new();
            self.encoder().ok()?.encode(&own, &mut codes).ok()?;
            codes.iter().all(|code| usize::from(*code) < self.values()).then_some(())
        };
        first.and_then(encoded).is_some()
    }

    /// Values for codes: a listed value, a tick of the bucket, or NULL.
    ///
    /// # Guarantee
    /// Each tick of a bucket comes out with the same probability. The choice depends on the codes
    /// and the rule alone.
    ///
    /// # Errors
    /// Arrow's error if a tick is not a value of the type.
    pub fn decode(&self, codes: &[u16], rng: &mut impl Uniform) -> Result<ArrayRef, ArrowError> {
        let (pool, indices): (ArrayRef, UInt64Array) = match &self.rule {
            Rule::Listed(values) => {
                let pool = ScalarValue::iter_to_array(values.iter().cloned())
                    .map_err(|error| ArrowError::ComputeError(error.to_string()))?;
                let index =
                    |code: &u16| Some(u64::from(*code)).filter(|i| *i < values.len() as u64);
                (pool, codes.iter().map(index).collect())
            }
            Rule::Ticks { ticks, starts } => {
                let mut drawn = Vec::with_capacity(codes.len());
                let mut indices = Vec::with_capacity(codes.len());
                for code in codes {
                    let at = usize::from(*code);
                    let Some(start) = starts.get(at) else {
                        indices.push(None);
                        continue;
                    };
                    let end = starts.get(at + 1).copied().unwrap_or(ticks.count());
                    indices.push(Some(drawn.len() as u64));
                    drawn.push(start + rng.below_u64(end - start));
                }
                (ticks.values(&drawn, &self.data_type)?, indices.into_iter().collect())
            }
        };
        let values = take(&pool, &indices, None)?;
        if values.data_type() == &self.data_type {
            Ok(values)
        } else {
            cast(&values, &self.data_type)
        }
    }
}

/// The number of ticks below a value of the column's type.
fn ticks_below(ticks: &Ticks, value: &ScalarValue) -> Option<u64> {
    match value {
        ScalarValue::Float64(Some(x)) => Some(ticks.below(*x)),
        ScalarValue::Float32(Some(x)) => Some(ticks.below(f64::from(*x))),
        ScalarValue::Decimal128(Some(units), _, scale) => {
            Some(ticks.exactly_below(*units, u8::try_from(*scale).ok()?, true))
        }
        other => {
            let array = other.to_array().ok()?;
            let units = whole(&array).ok()?;
            let first = units.iter().flatten().next()?;
            Some(ticks.exactly_below(first.into(), 0, true))
        }
    }
}

/// Maps values to codes.
#[derive(Debug, Clone)]
pub struct Encoder {
    kind: CodeTable,
    null: u16,
}

#[derive(Debug, Clone)]
enum CodeTable {
    Texts(HashMap<String, u16>),
    Booleans([Option<u16>; 2]),
    /// Integers, days, timestamps in units of their type, and decimals in units of their scale.
    Numbers(HashMap<i128, u16>),
    /// Floats, by their bits.
    FloatList(HashMap<u64, u16>),
    Offset(Offset),
    Starts(Starts),
    Floats(Vec<f64>),
}

/// A code for each number from the first one.
#[derive(Debug, Clone)]
struct Offset {
    first: i128,
    most: u16,
    /// Both ends, if they fit 64 bits.
    narrow: Option<(i64, i64)>,
}

impl Offset {
    fn new(first: i128, most: u16) -> Self {
        let narrow = |at: i128| i64::try_from(at).ok();
        let last = first.saturating_add(i128::from(most));
        Self { first, most, narrow: narrow(first).zip(narrow(last)) }
    }

    fn code(&self, value: i128) -> u16 {
        let at = value.saturating_sub(self.first).clamp(0, i128::from(self.most));
        u16::try_from(at).unwrap_or(self.most)
    }
}

/// A code for each bucket, by the first number of each bucket.
#[derive(Debug, Clone)]
struct Starts {
    wide: Vec<i128>,
    /// The same, if all of them fit 64 bits.
    narrow: Option<Vec<i64>>,
}

impl Starts {
    fn new(wide: Vec<i128>) -> Self {
        let narrow = wide.iter().map(|start| i64::try_from(*start).ok()).collect();
        Self { wide, narrow }
    }
}

/// The bucket of a value: the last one that begins at or below it, or the first one if none does.
fn bucket<T: PartialOrd>(starts: &[T], value: &T) -> u16 {
    let at = starts.partition_point(|start| start <= value).saturating_sub(1);
    u16::try_from(at).unwrap_or(u16::MAX)
}

fn listed(values: &[ScalarValue]) -> Result<CodeTable, ArrowError> {
    let code = |i: usize| u16::try_from(i).unwrap_or(u16::MAX);
    let array = ScalarValue::iter_to_array(values.iter().cloned())
        .map_err(|error| ArrowError::ComputeError(error.to_string()))?;
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(&array, values)?,
        _ => array,
    };
    Ok(match array.data_type() {
        DataType::Boolean => {
            let mut codes = [None; 2];
            for (i, value) in array.as_boolean().iter().enumerate() {
                if let Some(slot) = value.and_then(|v| codes.get_mut(usize::from(v))) {
                    *slot = Some(code(i));
                }
            }
            CodeTable::Booleans(codes)
        }
        floats if floats.is_floating() => {
            let floats = cast(&array, &DataType::Float64)?;
            let floats = floats.as_primitive::<Float64Type>();
            let codes = floats.iter().enumerate().filter_map(|(i, x)| Some((bits(x?), code(i))));
            CodeTable::FloatList(codes.collect())
        }
        text if is_text(text) => {
            let texts = cast(&array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>();
            let codes = texts.iter().enumerate();
            CodeTable::Texts(codes.filter_map(|(i, t)| Some((t?.to_owned(), code(i)))).collect())
        }
        _ => {
            let mut codes = HashMap::new();
            for_each_whole(&array, |i, value| {
                if let Some(value) = value {
                    codes.entry(value).or_insert(code(i));
                }
            })?;
            CodeTable::Numbers(codes)
        }
    })
}

/// Equal floats have equal bits: zero has one sign.
fn bits(x: f64) -> u64 {
    if x == 0.0 { 0 } else { x.to_bits() }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl Encoder {
    /// The number of codes, including that of NULL.
    pub fn len(&self) -> usize {
        usize::from(self.null) + 1
    }

    /// Appends the code of each value.
    ///
    /// # Guarantee
    /// One code for each value. It depends on this value and the rule alone, and no value makes it
    /// fail.
    ///
    /// # Errors
    /// Arrow's error if the column's type is not that of the codes.
    pub fn encode(&self, values: &ArrayRef, codes: &mut Vec<u16>) -> Result<(), ArrowError> {
        if let Some(dictionary) = values.as_any_dictionary_opt() {
            if dictionary.values().is_empty() {
                // All values are NULL. Arrow's `normalized_keys` would panic.
                codes.resize(codes.len() + dictionary.len(), self.null);
                return Ok(());
            }
            // Each value of the dictionary is coded once.
            let mut own = Vec::with_capacity(dictionary.values().len());
            self.encode(dictionary.values(), &mut own)?;
            let keys = dictionary.normalized_keys();
            codes.extend(keys.iter().enumerate().map(|(row, key)| match values.is_valid(row) {
                true => own.get(*key).copied().unwrap_or(self.null),
                false => self.null,
            }));
            return Ok(());
        }
        let null = self.null;
        match &self.kind {
            CodeTable::Texts(known) => {
                let code = |text: Option<&str>| {
                    text.and_then(|text| known.get(text).copied()).unwrap_or(null)
                };
                match values.data_type() {
                    DataType::Utf8 => codes.extend(values.as_string::<i32>().iter().map(code)),
                    DataType::LargeUtf8 => codes.extend(values.as_string::<i64>().iter().map(code)),
                    DataType::Utf8View => codes.extend(values.as_string_view().iter().map(code)),
                    _ => {
                        let texts = cast(values, &DataType::Utf8)?;
                        codes.extend(texts.as_string::<i32>().iter().map(code));
                    }
                }
            }
            CodeTable::Booleans(known) => {
                let booleans = cast(values, &DataType::Boolean)?;
                codes.extend(booleans.as_boolean().iter().map(|value| {
                    value.and_then(|v| known.get(usize::from(v)).copied().flatten()).unwrap_or(null)
                }));
            }
            CodeTable::FloatList(known) => each_float(
                values,
                codes,
                |x| {
                    if x.is_nan() { null } else { known.get(&bits(x)).copied().unwrap_or(null) }
                },
                null,
            )?,
            CodeTable::Floats(starts) => each_float(
                values,
                codes,
                |x| {
                    if x.is_nan() {
                        return null;
                    }
                    bucket(starts, &x)
                },
                null,
            )?,
            CodeTable::Numbers(known) => for_each_whole(values, |_, value| {
                codes.push(value.and_then(|v| known.get(&v).copied()).unwrap_or(null));
            })?,
            CodeTable::Offset(offset) => match (narrow(values)?, offset.narrow) {
                (Some(values), Some((first, last))) => each(&values, null, codes, |value| {
                    let at = value.clamp(first, last).wrapping_sub(first);
                    u16::try_from(at).unwrap_or(offset.most)
                }),
                (Some(_), None) | (None, _) => for_each_whole(values, |_, value| {
                    codes.push(value.map_or(null, |value| offset.code(value)));
                })?,
            },
            CodeTable::Starts(starts) => match (narrow(values)?, &starts.narrow) {
                (Some(values), Some(starts)) => {
                    each(&values, null, codes, |value| bucket(starts, &value));
                }
                (Some(_), None) | (None, _) => for_each_whole(values, |_, value| {
                    codes.push(value.map_or(null, |value| bucket(&starts.wide, &value)));
                })?,
            },
        }
        Ok(())
    }
}

fn each_float(
    values: &ArrayRef,
    codes: &mut Vec<u16>,
    code: impl Fn(f64) -> u16,
    null: u16,
) -> Result<(), ArrowError> {
    let floats = cast(values, &DataType::Float64)?;
    codes.extend(floats.as_primitive::<Float64Type>().iter().map(|x| x.map_or(null, &code)));
    Ok(())
}

/// Integers, days and timestamps as integers of 64 bits.
fn whole(values: &ArrayRef) -> Result<Int64Array, ArrowError> {
    let values = match values.data_type() {
        DataType::Date32 => &cast(values, &DataType::Int32)?,
        DataType::Timestamp(unit, Some(_)) => {
            // The timestamp itself, without the zone in which it is shown.
            &cast(values, &DataType::Timestamp(*unit, None))?
        }
        _ => values,
    };
    Ok(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// The same, for types whose values all fit 64 bits.
fn narrow(values: &ArrayRef) -> Result<Option<Int64Array>, ArrowError> {
    match values.data_type() {
        DataType::Decimal128(..) | DataType::UInt64 => Ok(None),
        _ => whole(values).map(Some),
    }
}

/// Appends the code of each value. A NULL slot first gets a code like any other, and then that of
/// NULL, so that the loop over values has no branch.
fn each(values: &Int64Array, null: u16, codes: &mut Vec<u16>, code: impl Fn(i64) -> u16) {
    let first = codes.len();
    codes.extend(values.values().iter().map(|value| code(*value)));
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else { return };
    for (code, is_valid) in codes.iter_mut().skip(first).zip(nulls) {
        if !is_valid {
            *code = null;
        }
    }
}

/// Calls `each` with the number of every row, and its value in units of the type.
fn for_each_whole(
    values: &ArrayRef,
    mut each: impl FnMut(usize, Option<i128>),
) -> Result<(), ArrowError> {
    match values.data_type() {
        DataType::Decimal128(..) => {
            let values = values.as_primitive::<Decimal128Type>();
            values.iter().enumerate().for_each(|(i, value)| each(i, value));
        }
        DataType::UInt64 => {
            let values = values.as_primitive::<UInt64Type>();
            values.iter().enumerate().for_each(|(i, value)| each(i, value.map(i128::from)));
        }
        _ => {
            let values = whole(values)?;
            values.iter().enumerate().for_each(|(i, value)| each(i, value.map(i128::from)));
        }
    }
    Ok(())
}

/// The ticks of a type in whole units between two ends; `None` for other types, and if the ends are
/// reversed.
pub fn units(data_type: &DataType, first: i128, last: i128) -> Option<Ticks> {
    let grid = match data_type {
        DataType::Decimal128(_, scale) if *scale > 0 => Grid::Decimal { scale: *scale },
        DataType::Decimal128(..) | DataType::Date32 => Grid::Integer,
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            _,
        ) => Grid::Integer,
        integer if integer.is_integer() => Grid::Integer,
        _ => return None,
    };
    Ticks::every(grid, first, last)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, StringArray,
    };

    use super::*;
    use hushql_privacy::sampler::QueryRng;

    #[expect(clippy::needless_pass_by_value, reason = "arrays are made for one call")]
    fn codes_of(codes: &Codes, values: ArrayRef) -> Vec<u16> {
        let mut all = Vec::new();
        codes.encoder().unwrap().encode(&values, &mut all).unwrap();
        all
    }

    #[test]
    fn lists_have_a_code_each_and_strangers_that_of_null() {
        let texts = ["b", "a", "b"].map(ScalarValue::from);
        let codes = Codes::listed(&texts, &DataType::Utf8).unwrap();
        assert_eq!((codes.len(), codes.text().as_str()), (3, "2 values and NULL"));
        let values = StringArray::from(vec![Some("a"), None, Some("b"), Some("c")]);
        assert_eq!(codes_of(&codes, Arc::new(values.clone())), [1, 2, 0, 2]);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let values: ArrayRef = Arc::new(values);
        let values = cast(&values, &dictionary).unwrap();
        assert_eq!(codes_of(&codes, Arc::clone(&values)), [1, 2, 0, 2]);
        let listed: Vec<ScalarValue> =
            [2, 0].map(|i| ScalarValue::try_from_array(&values, i).unwrap()).to_vec();
        let codes = Codes::listed(&listed, &dictionary).unwrap();
        assert!(codes.are_sound());
        assert_eq!(codes_of(&codes, values), [1, 2, 0, 2]);
        let nothing =
            cast(&(Arc::new(StringArray::from(vec![None::<&str>, None])) as ArrayRef), &dictionary);
        assert_eq!(codes_of(&codes, nothing.unwrap()), [2, 2]);
        let empty = arrow::array::new_empty_array(&dictionary);
        assert!(codes_of(&codes, empty).is_empty());
        let cents = ScalarValue::Decimal256(Some(arrow::datatypes::i256::from(120)), 40, 2);
        assert!(!Codes::listed(&[cents], &DataType::Decimal256(40, 2)).unwrap().are_sound());
        let bytes = [ScalarValue::Binary(Some(vec![1]))];
        assert!(!Codes::listed(&bytes, &DataType::Binary).unwrap().are_sound());
        let both = [ScalarValue::from(true), ScalarValue::from(false)];
        let codes = Codes::listed(&both, &DataType::Boolean).unwrap();
        let values = BooleanArray::from(vec![Some(false), Some(true), None]);
        assert_eq!(codes_of(&codes, Arc::new(values)), [1, 0, 2]);
        assert!(Codes::listed(&[ScalarValue::Utf8(None)], &DataType::Utf8).is_none());
    }

    #[test]
    fn numbers_have_buckets_and_are_clamped() {
        let few = Codes::ticks(units(&DataType::Int32, -1, 2).unwrap(), &DataType::Int32);
        let values = Int32Array::from(vec![Some(-9), Some(-1), Some(0), Some(2), Some(7), None]);
        assert_eq!(codes_of(&few, Arc::new(values)), [0, 0, 1, 3, 3, 4]);
        let many = Codes::ticks(units(&DataType::Int32, 0, 129).unwrap(), &DataType::Int32);
        assert_eq!(many.len(), 65);
        // 130 ticks: two buckets of three, then buckets of two.
        let values = Int32Array::from(vec![0, 2, 3, 5, 6, 7, 8, 129]);
        assert_eq!(codes_of(&many, Arc::new(values)), [0, 0, 1, 1, 2, 2, 3, 63]);
        let days = Codes::ticks(units(&DataType::Date32, 10, 12).unwrap(), &DataType::Date32);
        assert_eq!(codes_of(&days, Arc::new(Date32Array::from(vec![10, 12]))), [0, 2]);
        let money = DataType::Decimal128(10, 2);
        let cents = Codes::ticks(units(&money, 0, 99).unwrap(), &money);
        let values = Decimal128Array::from(vec![0, 99, 500]);
        let values = values.with_precision_and_scale(10, 2).unwrap();
        assert_eq!(codes_of(&cents, Arc::new(values)), [0, 99, 99]);
        let number = |text| hushql_privacy::privacy::parse_decimal(text).unwrap();
        let ticks = Ticks::binary(&number("0"), &number("1")).unwrap();
        let floats = Codes::ticks(ticks, &DataType::Float64);
        let values =
            Float64Array::from(vec![Some(f64::NAN), Some(-1.0), Some(0.999), Some(5.0), None]);
        assert_eq!(codes_of(&floats, Arc::new(values)), [64, 0, 63, 63, 64]);
    }

    #[test]
    fn buckets_can_be_chosen() {
        let age = units(&DataType::Int64, 17, 90).unwrap();
        let starts = [0, 18, 30, 65, 120]
            .map(ScalarValue::from)
            .map(|v: ScalarValue| v.cast_to(&DataType::Int64).unwrap());
        let codes = Codes::from_starts(age, &starts, &DataType::Int64).unwrap();
        let values = Int64Array::from(vec![17, 18, 29, 30, 64, 65, 90]);
        assert_eq!(codes_of(&codes, Arc::new(values)), [0, 1, 1, 2, 2, 3, 3]);
        assert!(
            Codes::from_starts(age, &[starts[2].clone(), starts[1].clone()], &DataType::Int64)
                .is_none()
        );
        let gain = units(&DataType::Int64, 0, 99_999).unwrap();
        let codes = Codes::logarithmic(gain, 5, &DataType::Int64).unwrap();
        let values = Int64Array::from(vec![0, 8, 9, 98, 99, 998, 999, 9_998, 9_999, 99_999]);
        assert_eq!(codes_of(&codes, Arc::new(values)), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn values_come_back_from_their_buckets() {
        let mut rng = QueryRng::seeded_for_tests(7);
        let gain = Codes::ticks(units(&DataType::Int64, 0, 129).unwrap(), &DataType::Int64);
        let codes: Vec<u16> = (0..65).flat_map(|code| [code; 200]).collect();
        let values = gain.decode(&codes, &mut rng).unwrap();
        assert_eq!(codes_of(&gain, Arc::clone(&values)), codes);
        let first: std::collections::BTreeSet<i64> =
            values.as_primitive::<Int64Type>().iter().take(200).flatten().collect();
        assert_eq!(first.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(values.null_count(), 200);
        let texts = ["b", "a"].map(ScalarValue::from);
        let codes = Codes::listed(&texts, &DataType::Utf8).unwrap();
        let values = codes.decode(&[1, 2, 0], &mut rng).unwrap();
        let expected: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
        assert_eq!(&values, &expected);
        let empty = codes.decode(&[], &mut rng).unwrap();
        assert_eq!(empty.len(), 0);
    }

    /// Numbers of 64 bits have the same codes as wider ones: by the nearest tick, or by the last
    /// bucket that begins at or below.
    #[test]
    fn narrow_numbers_are_coded_like_wide_ones() {
        let mut rng = QueryRng::seeded_for_tests(4);
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for turn in 0..200 {
            let number = |rng: &mut QueryRng| match rng.below_u64(4) {
                0 => ends[usize::try_from(rng.below_u64(7)).unwrap()],
                1 => i64::try_from(rng.below_u64(400)).unwrap() - 200,
                _ => i64::from_ne_bytes(rng.next_u64().to_ne_bytes()),
            };
            let values: Vec<Option<i64>> =
                (0..50).map(|_| rng.chance(4, 5).then(|| number(&mut rng))).collect();
            let (first, last) = match turn % 4 {
                0 => (-100, 20),
                1 => (i128::from(i64::MIN), i128::from(i64::MIN) + 1_000_000),
                2 => (i128::from(i64::MAX) - 5, i128::from(i64::MAX)),
                _ => (-150, 150),
            };
            let ticks = units(&DataType::Int64, first, last).unwrap();
            let codes = Codes::ticks(ticks, &DataType::Int64);
            let Rule::Ticks { starts, .. } = &codes.rule else { panic!() };
            let expected = values.iter().map(|value| match value {
                None => starts.len(),
                Some(value) => {
                    let value = i128::from(*value).clamp(first, last);
                    starts.iter().filter(|start| ticks.unit(**start) <= value).count() - 1
                }
            });
            let expected: Vec<u16> = expected.map(|code| u16::try_from(code).unwrap()).collect();
            let array: ArrayRef = Arc::new(Int64Array::from(values));
            assert_eq!(codes_of(&codes, Arc::clone(&array)), expected);
            // A slice whose NULLs begin in the middle of a byte.
            assert_eq!(codes_of(&codes, array.slice(3, 40)), expected[3..43]);
        }
    }
}
