//! Functions that can make long texts from short ones, capped at the largest size of a cell.
//!
//! In: a function of texts whose result can be longer than its arguments. Out: the same function,
//! with NULL for results of more than 65,536 bytes. The length is computed from the arguments
//! before the result is built, so that no longer result is built. If the length is known only
//! afterwards, a few megabytes are built at a time.
//!
//! The attack prevented: a text of billions of letters takes gigabytes and seconds, even while a
//! query is planned, and no limit on statements stops it. Nor should a batch build a text of a
//! megabyte for each row, only to replace it by NULL.
//!
//! ```text
//! repeat('ab', 3) = 'ababab'        repeat('ab', 100000) IS NULL
//! ```
//!
//! Upstream: docs/upstream.md, 18. Delete when the memory pool counts such texts, also while a
//! query is planned.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, UInt64Array, new_null_array,
};
use arrow::compute::{concat, filter, take};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use super::growth::{Argument, Growth, length};
use super::null_unsupported::MOST_OF_A_CELL;

/// The most bytes that one call of the inner function may produce, estimated from its arguments.
const MOST_AT_A_TIME: usize = 16 << 20;

/// The most bytes that one row may produce by this estimate, if the actual length is known only
/// afterwards. It is seldom that large.
const MOST_OF_A_ROW: usize = 16 << 20;

/// The most bytes of a list of texts.
const MOST_OF_A_LIST: usize = 1 << 20;

/// The function with results that fit a cell. A function that cannot make long texts is returned
/// unchanged.
pub fn capped(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match Growth::of(function.name()) {
        Some(growth) => Arc::new(ScalarUDF::from(Capped { function, growth })),
        None => function,
    }
}

/// Whether [`capped`] made this function.
pub(super) fn is_capped(function: &ScalarUDF) -> bool {
    function.inner().is::<Capped>()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Capped {
    function: Arc<ScalarUDF>,
    growth: Growth,
}

/// What happens to the result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is built, and has at most this many bytes.
    Built(usize),
    /// It is NULL.
    TooLong,
}

impl Capped {
    /// The most bytes of a result.
    fn most(&self) -> usize {
        if self.growth == Growth::Groups { MOST_OF_A_LIST } else { MOST_OF_A_CELL }
    }

    /// What happens to each row.
    fn fates(&self, arguments: &[Argument], rows: usize) -> Vec<Fate> {
        let is_exact = self.growth.is_exact()
            && (arguments.iter().all(Argument::is_text)
                || !matches!(self.growth, Growth::Concat | Growth::ConcatWith));
        let most = if is_exact { self.most() } else { MOST_OF_A_ROW };
        let fate = |row| match self.growth.bytes(arguments, row, self.most()) {
            bytes if bytes > most => Fate::TooLong,
            bytes => Fate::Built(bytes),
        };
        (0..rows).map(fate).collect()
    }

    /// The function over a range of rows, with NULL for results that are too long.
    fn of_rows(&self, args: &ScalarFunctionArgs, fates: &[Fate], from: usize) -> Result<ArrayRef> {
        let is_built: BooleanArray =
            fates.iter().map(|fate| Some(matches!(fate, Fate::Built(_)))).collect();
        let built = is_built.true_count();
        if built == 0 {
            return Ok(new_null_array(args.return_field.data_type(), fates.len()));
        }
        let part = |argument: &ColumnarValue| {
            Ok(match argument {
                ColumnarValue::Array(column) => {
                    ColumnarValue::Array(filter(&column.slice(from, fates.len()), &is_built)?)
                }
                ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.clone()),
            })
        };
        let part = ScalarFunctionArgs {
            args: args.args.iter().map(part).collect::<Result<_>>()?,
            arg_fields: args.arg_fields.clone(),
            number_rows: built,
            return_field: Arc::clone(&args.return_field),
            config_options: Arc::clone(&args.config_options),
        };
        let made = self.function.invoke_with_args(part)?.to_array(built)?;
        let fits: BooleanArray =
            (0..made.len()).map(|row| Some(length(&made, row) <= self.most())).collect();
        if built == fates.len() && fits.true_count() == built {
            return Ok(made);
        }
        // What is too long goes at once. A view at a place without a value would keep its text.
        let kept = compact(filter(&made, &fits)?);
        let (mut row, mut next) = (0_usize, 0_u64);
        let place = |fate: &Fate| {
            let Fate::Built(_) = fate else { return None };
            let is_kept = row < fits.len() && fits.value(row);
            row = row.saturating_add(1);
            let own = next;
            next = next.saturating_add(u64::from(is_kept));
            is_kept.then_some(own)
        };
        let places: UInt64Array = fates.iter().map(place).collect();
        Ok(take(&kept, &places, None)?)
    }
}

/// The same texts, without the bytes of other texts.
fn compact(texts: ArrayRef) -> ArrayRef {
    match texts.data_type() {
        DataType::Utf8View => Arc::new(texts.as_string_view().gc()),
        DataType::BinaryView => Arc::new(texts.as_binary_view().gc()),
        _ => texts,
    }
}

/// Caps the lengths of padded texts at those of the results. The kernels reserve memory by the sum
/// of lengths, and take a negative length for the largest one; with an empty filling, a result is
/// shorter than its length.
///
/// # Guarantee
/// The results of rows that are built do not change: each has at least as many bytes as characters.
fn with_lengths_that_fit(mut args: ScalarFunctionArgs, fates: &[Fate]) -> ScalarFunctionArgs {
    let bytes = |fate: &Fate| match fate {
        Fate::Built(bytes) => i64::try_from(*bytes).unwrap_or(i64::MAX),
        Fate::TooLong => 0,
    };
    match args.args.get_mut(1) {
        Some(ColumnarValue::Array(lengths)) => {
            if let Some(whole) = lengths.as_primitive_opt::<Int64Type>() {
                let rows = whole.iter().zip(fates);
                let fitting: PrimitiveArray<Int64Type> =
                    rows.map(|(n, fate)| n.map(|n| n.clamp(0, bytes(fate)))).collect();
                *lengths = Arc::new(fitting);
            }
        }
        Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(n)))) => {
            *n = (*n).clamp(0, fates.iter().map(bytes).max().unwrap_or(0));
        }
        Some(ColumnarValue::Scalar(_)) | None => {}
    }
    args
}

impl ScalarUDFImpl for Capped {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
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

    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // A simplified expression would lack the cap.
        Ok(ExprSimplifyResult::Original(args))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arguments = args.args.iter().map(Argument::new).collect::<Result<Vec<_>>>()?;
        let fates = self.fates(&arguments, rows);
        let args = match self.growth == Growth::Pad {
            true => with_lengths_that_fit(args, &fates),
            false => args,
        };
        let fits = |fate: &Fate| matches!(fate, Fate::Built(bytes) if *bytes <= self.most());
        if fates.iter().all(fits) {
            return self.function.invoke_with_args(args);
        }
        let (mut made, mut from, mut sum) = (Vec::new(), 0, 0_usize);
        let part = |from: usize, to: usize| {
            self.of_rows(&args, fates.get(from..to).unwrap_or_default(), from)
        };
        for (row, fate) in fates.iter().enumerate() {
            let Fate::Built(bytes) = fate else { continue };
            if sum.saturating_add(*bytes) > MOST_AT_A_TIME && from < row {
                made.push(part(from, row)?);
                (from, sum) = (row, 0);
            }
            sum = sum.saturating_add(*bytes);
        }
        made.push(part(from, rows)?);
        let made: Vec<&dyn Array> = made.iter().map(AsRef::as_ref).collect();
        let made = concat(&made)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch, StringArray, StringViewArray};
    use arrow::compute::cast;
    use datafusion::execution::SessionStateDefaults;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "written SQL, without a table")]
    async fn rows(sql: &str) -> Vec<Option<i64>> {
        let context = SessionContext::new();
        for function in SessionStateDefaults::default_scalar_functions() {
            context.register_udf(capped(function).as_ref().clone());
        }
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        let column = |batch: &RecordBatch| {
            let lengths = cast(batch.column(0), &DataType::Int64).unwrap();
            lengths.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        batches.iter().flat_map(column).collect()
    }

    /// Making a text of billions of letters took seconds and gigabytes, although no table was read.
    #[tokio::test]
    async fn no_function_makes_long_texts() {
        for (made, length) in [
            ("repeat('ab', 3)", Some(6)),
            ("repeat('ab', 32768)", Some(65_536)),
            ("repeat('ab', 32769)", None),
            ("repeat('x', 100000)", None),
            ("repeat('x', -1)", Some(0)),
            ("repeat(NULL, 3)", None),
            ("lpad('x', 100000, 'y')", None),
            ("lpad('x', 20000, 'y')", Some(20_000)),
            ("rpad('x', 65537)", None),
            ("replace(repeat('a', 60000), 'a', 'bb')", None),
            ("replace(repeat('a', 30000), 'a', 'bb')", Some(60_000)),
            ("replace(repeat('a', 60000), 'a', repeat('b', 60000))", None),
            ("regexp_replace(repeat('ab', 3000), '(a)(b)', '${2}xx', 'g')", Some(9_000)),
            ("concat(repeat('a', 60000), repeat('b', 60000))", None),
            ("concat(repeat('a', 30000), NULL, 7)", Some(30_001)),
            ("concat_ws(',', 'a', NULL, 'b')", Some(3)),
        ] {
            assert_eq!(rows(&format!("SELECT length({made})")).await, [length], "{made}");
        }
        let sql = "SELECT length(repeat(x, n)) FROM (VALUES ('ab', 2), ('c', 100000), (NULL, 4), ('d', 65536),
                   ('e', 60000), ('f', 60000)) AS t(x, n)";
        let lengths = [Some(4), None, None, Some(65_536), Some(60_000), Some(60_000)];
        assert_eq!(rows(sql).await, lengths);
    }

    /// Ten texts of a megabyte each were kept until the end of the batch, although none is a
    /// result. A text that stays is among them.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "written SQL, without a table")]
    async fn what_is_too_long_goes_at_once() {
        let context = SessionContext::new();
        for function in SessionStateDefaults::default_scalar_functions() {
            context.register_udf(capped(function).as_ref().clone());
        }
        for data_type in ["Utf8View", "Utf8"] {
            let sql = format!(
                "SELECT regexp_replace(arrow_cast(repeat('z', CASE WHEN k = 0 THEN 1 ELSE 1000 + k END), '{data_type}'), 'z', repeat('y', 1000), 'g')
                 FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS t(k) UNION ALL SELECT regexp_replace(arrow_cast('z', '{data_type}'), 'z', 'y')"
            );
            let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let nulls: usize = batches.iter().map(|batch| batch.column(0).null_count()).sum();
            let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
            assert_eq!((rows, nulls), (12, 10));
            assert!(bytes < 1 << 20, "{bytes} bytes of {data_type}");
        }
    }

    /// For random short and long texts, a function has the result that it has without a cap, or
    /// NULL if that is too long.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "written SQL")]
    async fn results_are_those_of_the_function_or_null() {
        let texts = |column: usize| {
            let text = |row: usize| match (row * 7 + column * 3) % 11 {
                0 => None,
                n @ 1..=7 => Some("aäb-€".chars().cycle().take(n).collect::<String>()),
                n => Some("ßä-x".repeat(n * 1_000)),
            };
            (0..60).map(text).collect::<Vec<_>>()
        };
        let numbers: Int64Array = (0..60).map(|row| Some([0, 1, 3, 9, 40_000][row % 5])).collect();
        let (x, y, z) = (texts(0), texts(1), texts(2));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(x.clone())),
            Arc::new(StringViewArray::from(x)),
            Arc::new(StringArray::from(y)),
            Arc::new(StringArray::from(z)),
            Arc::new(numbers),
        ];
        let names = ["x", "v", "y", "z", "n"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let (plain, bounded) = (SessionContext::new(), SessionContext::new());
        for function in SessionStateDefaults::default_scalar_functions() {
            bounded.register_udf(capped(function).as_ref().clone());
        }
        for context in [&plain, &bounded] {
            context.register_batch("t", batch.clone()).unwrap();
        }
        for made in [
            "repeat(x, n % 9)",
            "repeat(v, n % 9)",
            "lpad(x, n, 'ä')",
            "rpad(v, n, '')",
            "rpad(v, n)",
            "replace(x, 'ß', 'sz')",
            "replace(v, '', '+')",
            "replace(x, y, z)",
            "regexp_replace(x, '(ß)(ä)', '${2}${1}!', 'g')",
            "regexp_replace(v, 'a|b', y)",
            "concat(x, y, v)",
            "concat_ws(y, x, NULL, v)",
            "overlay(x placing y from 2 for 3)",
            "translate(x, 'aß-', '€bc')",
            "upper(x)",
            "lower(v)",
            "initcap(v)",
            "encode(v, 'hex')",
            "encode(x, 'base64')",
        ] {
            let sql = format!("SELECT CAST({made} AS VARCHAR) AS r FROM t");
            let rows = async |context: &SessionContext| {
                let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
                let texts = batches.iter().flat_map(|batch| {
                    let texts = cast(batch.column(0), &DataType::Utf8View).unwrap();
                    let texts = texts.as_string_view().clone();
                    (0..texts.len())
                        .map(|row| texts.is_valid(row).then(|| texts.value(row).to_owned()))
                        .collect::<Vec<_>>()
                });
                texts.collect::<Vec<_>>()
            };
            let expected = rows(&plain).await.into_iter();
            let expected = expected.map(|text| text.filter(|text| text.len() <= MOST_OF_A_CELL));
            assert_eq!(rows(&bounded).await, expected.collect::<Vec<_>>(), "{made}");
        }
    }

    /// Results that become NULL are not built first.
    #[test]
    fn what_is_too_long_is_not_built() {
        let texts = StringArray::from_iter_values((0..3_000).map(|row| format!("name {row}")));
        let args = [
            ColumnarValue::Array(Arc::new(texts)),
            ColumnarValue::Scalar(ScalarValue::Int64(Some(1_600_000))),
        ];
        let arguments: Vec<Argument> = args.iter().map(|arg| Argument::new(arg).unwrap()).collect();
        let function = datafusion::functions::string::repeat();
        let repeat = Capped { function, growth: Growth::Repeat };
        assert!(repeat.fates(&arguments, 3_000).iter().all(|fate| *fate == Fate::TooLong));
    }
}
