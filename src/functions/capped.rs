//! Functions that make long texts from short ones, capped at the largest size of a cell.
//!
//! In: a function of texts whose result can be longer than its arguments. Out: the same function, with NULL for
//! results of more than 65,536 bytes. The length is estimated from the arguments before the result is built.
//!
//! The attack prevented: `repeat('x', 2000000000)` takes gigabytes and seconds, even while a query is planned, and no
//! limit on statements stops it.
//!
//! ```text
//! repeat('ab', 3) = 'ababab'        repeat('ab', 2000000000) IS NULL
//! ```
//!
//! Upstream: docs/upstream.md, 18. Delete when the memory pool counts such texts, also while a query is planned.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{cast, concat, nullif};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use super::sound::{MOST_OF_A_CELL, sound_array};

/// The most bytes that one call of the inner function may produce, estimated from its arguments.
const MOST_AT_A_TIME: usize = 64 << 20;

/// The most bytes that one row may produce by this estimate. The actual length is known only afterwards, and is
/// seldom that large.
const MOST_OF_A_ROW: usize = 16 << 20;

/// How the length of a result depends on the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument, repeated as often as the second says.
    Repeat,
    /// As many characters as the second argument says.
    Pad,
    /// The third argument replaces pieces of the first.
    Replace,
    /// All arguments together, possibly with the first between the others.
    Concat,
}

fn growth(name: &str) -> Option<Growth> {
    match name {
        "repeat" => Some(Growth::Repeat),
        "lpad" | "rpad" => Some(Growth::Pad),
        "replace" | "regexp_replace" => Some(Growth::Replace),
        "concat" | "concat_ws" => Some(Growth::Concat),
        _ => None,
    }
}

/// The function with results that fit a cell. A function that cannot make long texts is returned unchanged.
pub(crate) fn capped(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match growth(function.name()) {
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

impl Capped {
    /// An upper bound of the bytes that a row produces.
    fn most(&self, arguments: &[Argument], row: usize) -> usize {
        let bytes = |i: usize| arguments.get(i).map_or(0, |argument| argument.bytes(row));
        let number = |i: usize| arguments.get(i).map_or(0, |argument| argument.number(row));
        match self.growth {
            Growth::Repeat => bytes(0).saturating_mul(number(1)),
            // A character has four bytes at most.
            Growth::Pad => number(1).saturating_mul(4),
            // A pattern can match the empty text before and after each character, and a replacement can refer to its
            // match twice.
            Growth::Replace => {
                let pieces = bytes(0).saturating_add(1);
                bytes(0).saturating_add(pieces.saturating_mul(bytes(2)).saturating_mul(2))
            }
            Growth::Concat => (0..arguments.len())
                .fold(0_usize, |all, i| all.saturating_add(bytes(i)).saturating_add(bytes(0))),
        }
    }

    /// The function over a range of rows, with NULL for results that are too long.
    fn of_rows(
        &self,
        args: &ScalarFunctionArgs,
        columns: &[ArrayRef],
        from: usize,
        rows: usize,
    ) -> Result<ArrayRef> {
        let args = ScalarFunctionArgs {
            args: columns.iter().map(|c| ColumnarValue::Array(c.slice(from, rows))).collect(),
            arg_fields: args.arg_fields.clone(),
            number_rows: rows,
            return_field: Arc::clone(&args.return_field),
            config_options: Arc::clone(&args.config_options),
        };
        let made = self.function.invoke_with_args(args)?.to_array(rows)?;
        sound_array(&made, MOST_OF_A_CELL)
    }
}

/// An argument of a call: the lengths of its texts, or its numbers.
enum Argument {
    Bytes(Vec<usize>),
    Numbers(Vec<usize>),
    Other,
}

impl Argument {
    fn from_column(column: &ArrayRef) -> Result<Self> {
        if column.data_type().is_integer() {
            let numbers = cast(column, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>().iter();
            let numbers = numbers.map(|n| usize::try_from(n.unwrap_or(0)).unwrap_or(0));
            return Ok(Self::Numbers(numbers.collect()));
        }
        if !matches!(
            column.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..)
        ) {
            return Ok(Self::Other);
        }
        let texts = cast(column, &DataType::Utf8View)?;
        let texts = texts.as_string_view().iter().map(|text| text.map_or(0, str::len));
        Ok(Self::Bytes(texts.collect()))
    }

    fn bytes(&self, row: usize) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.get(row).copied().unwrap_or(0),
            // A value other than a text is written in fewer bytes than this.
            Self::Numbers(_) | Self::Other => 64,
        }
    }

    fn number(&self, row: usize) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.get(row).copied().unwrap_or(0),
            Self::Bytes(_) | Self::Other => usize::MAX,
        }
    }
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
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let arguments = columns.iter().map(Argument::from_column).collect::<Result<Vec<_>>>()?;
        let most: Vec<usize> = (0..rows).map(|row| self.most(&arguments, row)).collect();
        if most.iter().fold(0_usize, |all, n| all.saturating_add(*n)) <= MOST_OF_A_CELL {
            // No result can be too long.
            return self.function.invoke_with_args(args);
        }
        // For a row that would produce too much the arguments become NULL. The result is then NULL too, except for
        // CONCAT.
        let too_long: BooleanArray = most.iter().map(|n| Some(*n > MOST_OF_A_ROW)).collect();
        let kept = columns.iter().map(|column| match column.data_type() {
            DataType::Null => Ok(Arc::clone(column)),
            _ => Ok(nullif(column, &too_long)?),
        });
        let kept = kept.collect::<Result<Vec<ArrayRef>>>()?;
        let (mut made, mut from, mut sum) = (Vec::new(), 0, 0_usize);
        for (row, n) in most.iter().enumerate() {
            let n = if *n > MOST_OF_A_ROW { 0 } else { *n };
            if sum.saturating_add(n) > MOST_AT_A_TIME {
                made.push(self.of_rows(&args, &kept, from, row - from)?);
                (from, sum) = (row, 0);
            }
            sum = sum.saturating_add(n);
        }
        made.push(self.of_rows(&args, &kept, from, rows.saturating_sub(from))?);
        let made: Vec<&dyn Array> = made.iter().map(AsRef::as_ref).collect();
        let made = nullif(&concat(&made)?, &too_long)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

#[cfg(test)]
mod tests {
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
        let column = |batch: &arrow::array::RecordBatch| {
            let lengths = cast(batch.column(0), &DataType::Int64).unwrap();
            lengths.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        batches.iter().flat_map(column).collect()
    }

    /// `repeat('x', 2000000000)` took seconds and gigabytes although no table was read.
    #[tokio::test]
    async fn no_function_makes_long_texts() {
        for (made, length) in [
            ("repeat('ab', 3)", Some(6)),
            ("repeat('ab', 32768)", Some(65_536)),
            ("repeat('ab', 32769)", None),
            ("repeat('x', 2000000000)", None),
            ("repeat('x', -1)", Some(0)),
            ("repeat(NULL, 3)", None),
            ("lpad('x', 2000000000, 'y')", None),
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
        let sql = "SELECT length(repeat(x, n)) FROM (VALUES ('ab', 2), ('c', 2000000000), (NULL, 4), ('d', 65536),
                   ('e', 60000), ('f', 60000)) AS t(x, n)";
        let lengths = [Some(4), None, None, Some(65_536), Some(60_000), Some(60_000)];
        assert_eq!(rows(sql).await, lengths);
    }
}
