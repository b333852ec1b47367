//! What happens to each scalar function of DataFusion above a release, where its arguments are
//! already paid for.
//!
//! In: the name of a function. Out: whether it stays as it is, returns NULL where it fails, or is
//! tried before the charge. When a new version of DataFusion has a new function, a test fails until
//! somebody has examined the function and put it on a list.
//!
//! Ask of each function: on which values does its kernel fail, and on which does it panic?
//!
//! ```text
//! date_trunc('month', x)     Tried: the unit is tried before the charge
//! chr(n)                     OrNull: NULL where n is no code of a character
//! ```

/// What happens to a call of a scalar function above a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is: no value makes it fail, or the planner replaces it by an expression that
    /// is examined instead.
    AsItIs,
    /// It is a cast, and becomes TRY_CAST.
    Cast,
    /// It becomes NULL where it fails. If all arguments are constants, it is tried before the
    /// charge.
    OrNull,
    /// As [`Decision::OrNull`]. In addition, its constants are tried together with harmless values
    /// for the other arguments, which alone do not make it fail.
    Tried,
    /// As [`Decision::OrNull`]. In addition, the arguments after the first one are formats of
    /// dates, which are parsed before the charge.
    Formats,
    /// No query may call it.
    Refused,
}

/// The scalar functions of DataFusion by their own names. An alias stands for the function that it
/// names.
const SCALARS: [(Decision, &[&str]); 6] = [
    (
        Decision::AsItIs,
        &[
            "arrow_typeof",
            "coalesce",
            "current_date",
            "current_time",
            "date_bin",
            "now",
            "nvl",
            "nvl2",
            "pi",
            "random",
            "uuid",
        ],
    ),
    (Decision::Cast, &["arrow_cast", "arrow_try_cast", "cast_to_type", "try_cast_to_type"]),
    (
        Decision::OrNull,
        &[
            "abs",
            "acos",
            "acosh",
            "ascii",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "bit_length",
            "btrim",
            "cbrt",
            "ceil",
            "character_length",
            "concat",
            "concat_ws",
            "contains",
            "cos",
            "cosh",
            "cot",
            "degrees",
            "ends_with",
            "exp",
            "find_in_set",
            "floor",
            "get_field",
            "greatest",
            "initcap",
            "isnan",
            "iszero",
            "least",
            "left",
            "levenshtein",
            "ln",
            "log10",
            "log2",
            "lower",
            "ltrim",
            "named_struct",
            "nanvl",
            "nullif",
            "octet_length",
            "overlay",
            "radians",
            "reverse",
            "right",
            "rtrim",
            "signum",
            "sin",
            "sinh",
            "sqrt",
            "starts_with",
            "strpos",
            "struct",
            "substr_index",
            "tan",
            "tanh",
            "to_hex",
            "to_local_time",
            "translate",
            "trunc",
            "union_extract",
            "union_tag",
            "upper",
        ],
    ),
    (
        Decision::Tried,
        &[
            "chr",
            "date_part",
            "date_trunc",
            "decode",
            "encode",
            "factorial",
            "from_unixtime",
            "gcd",
            "lcm",
            "log",
            "lpad",
            "make_date",
            "make_time",
            "power",
            "regexp_count",
            "regexp_instr",
            "regexp_like",
            "regexp_match",
            "regexp_replace",
            "repeat",
            "replace",
            "round",
            "rpad",
            "split_part",
            "substr",
            "to_char",
        ],
    ),
    (
        Decision::Formats,
        &[
            "to_date",
            "to_time",
            "to_timestamp",
            "to_timestamp_micros",
            "to_timestamp_millis",
            "to_timestamp_nanos",
            "to_timestamp_seconds",
            "to_unixtime",
        ],
    ),
    (
        // These read more than their arguments: files, or the metadata of columns.
        Decision::Refused,
        &[
            "arrow_field",
            "arrow_metadata",
            "file_row_index",
            "input_file_name",
            "version",
            "with_metadata",
        ],
    ),
];

/// What happens to a scalar function above a release; `None` for one that DataFusion does not
/// register.
pub fn decision(name: &str) -> Option<Decision> {
    SCALARS.iter().find(|(_, names)| names.contains(&name)).map(|(decision, _)| *decision)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, UInt64Array};
    use arrow::compute::{concat, take};
    use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
    use datafusion::common::ScalarValue;
    use datafusion::execution::SessionStateDefaults;
    use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
    use datafusion::logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility,
    };

    use super::*;
    use crate::functions::{capped, or_null};

    #[test]
    fn every_function_of_datafusion_is_decided_once() {
        let listed: Vec<&str> =
            SCALARS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let once: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(once.len(), listed.len());
        let scalars = SessionStateDefaults::default_scalar_functions();
        let known: BTreeSet<&str> = scalars.iter().map(|function| function.name()).collect();
        assert_eq!(known.difference(&once).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert_eq!(once.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    }

    /// Values of a type that may make kernels fail, including NULL.
    fn hostile(data_type: &DataType) -> ArrayRef {
        let of = |values: Vec<ScalarValue>| ScalarValue::iter_to_array(values).unwrap();
        let cast = |values: Vec<ScalarValue>, to: &DataType| {
            let cast = values.iter().filter_map(|value| value.cast_to(to).ok());
            let mut cast: Vec<ScalarValue> = cast.collect();
            cast.push(ScalarValue::try_new_null(to).unwrap());
            of(cast)
        };
        let whole = [i64::MIN, i64::MAX, -1, 0, 1, 13, 64, 1 << 40].map(ScalarValue::from).to_vec();
        let floats =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.5, -2.5, 1e308, 1e-320, 1.0];
        let long = "x".repeat(3_000);
        let texts = [
            "",
            "a",
            "é漢",
            "(",
            "%",
            "month",
            "2024-02-30",
            "-1",
            "%Q",
            "UTC",
            "[a-z",
            "g",
            long.as_str(),
        ];
        match data_type {
            DataType::Null => Arc::new(arrow::array::NullArray::new(1)),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                cast(texts.map(ScalarValue::from).to_vec(), data_type)
            }
            number if number.is_floating() => {
                cast(floats.map(ScalarValue::from).to_vec(), data_type)
            }
            DataType::Decimal128(precision, scale) => {
                let end = 10_i128.pow(u32::from(*precision)) - 1;
                let values = [-end, end, 0, 1, -5, end / 2].map(Some);
                let values = values.into_iter().chain([None]);
                of(values.map(|v| ScalarValue::Decimal128(v, *precision, *scale)).collect())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let value = |months, days, nanoseconds| {
                    let value =
                        arrow::datatypes::IntervalMonthDayNano::new(months, days, nanoseconds);
                    ScalarValue::IntervalMonthDayNano(Some(value))
                };
                of(vec![
                    value(0, 0, 0),
                    value(i32::MAX, i32::MAX, i64::MAX),
                    value(i32::MIN, i32::MIN, i64::MIN),
                    value(1, -1, 1),
                    ScalarValue::IntervalMonthDayNano(None),
                ])
            }
            DataType::Time64(_) => {
                cast([0_i64, 86_399_999_999, 1].map(ScalarValue::from).to_vec(), data_type)
            }
            other => cast(whole, other),
        }
    }

    fn field(data_type: &DataType) -> FieldRef {
        Arc::new(Field::new("x", data_type.clone(), true))
    }

    /// All combinations of values of these columns, up to a limit.
    fn all_rows(columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let mut rows: Vec<Vec<u64>> = vec![Vec::new()];
        for column in columns {
            let count = column.len() as u64;
            rows = rows
                .into_iter()
                .flat_map(|row| (0..count).map(move |i| [row.as_slice(), &[i]].concat()))
                .collect();
            // Every value of the next column is combined with some of the rows so far.
            if rows.len() > 700 {
                let step = (rows.len() / 350) | 1;
                rows = rows.into_iter().step_by(step).collect();
            }
        }
        let of = |(i, column): (usize, &ArrayRef)| {
            let places = UInt64Array::from_iter_values(rows.iter().map(|row| row[i]));
            take(column, &places, None).unwrap()
        };
        columns.iter().enumerate().map(of).collect()
    }

    /// Calls a function with columns, and with the constants of each row. An error names a call
    /// that panicked.
    fn called(function: &Arc<ScalarUDF>, types: &[DataType]) -> Result<(), String> {
        let columns: Vec<ArrayRef> = types.iter().map(hostile).collect();
        let columns = all_rows(&columns);
        let arg_fields: Vec<FieldRef> = types.iter().map(field).collect();
        let rows = columns.first().map_or(1, |column| column.len());
        let run = |args: Vec<ColumnarValue>, number_rows: usize| -> Result<ArrayRef, String> {
            let literals: Vec<Option<ScalarValue>> = args
                .iter()
                .map(|arg| match arg {
                    ColumnarValue::Scalar(value) => Some(value.clone()),
                    ColumnarValue::Array(_) => None,
                })
                .collect();
            let scalar_arguments: Vec<Option<&ScalarValue>> =
                literals.iter().map(Option::as_ref).collect();
            let arguments =
                ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalar_arguments };
            // A call that is refused while the query is planned is not run.
            let Ok(return_field) = function.return_field_from_args(arguments) else {
                return Ok(Arc::new(arrow::array::NullArray::new(number_rows)));
            };
            let arguments = ScalarFunctionArgs {
                args,
                arg_fields: arg_fields.clone(),
                number_rows,
                return_field,
                config_options: Arc::default(),
            };
            let made = catch_unwind(AssertUnwindSafe(|| function.invoke_with_args(arguments)));
            let made = made.map_err(|_| "panicked".to_owned())?.map_err(|e| e.to_string())?;
            made.to_array(number_rows).map_err(|e| e.to_string())
        };
        let said = |how: String, row: Option<usize>| {
            let values = row.map(|row| {
                let value = |column: &ArrayRef| ScalarValue::try_from_array(column, row).unwrap();
                columns.iter().map(value).map(|v| format!("{v:.40}")).collect::<Vec<_>>()
            });
            format!("{} of {types:?} {how} {values:?}", function.name())
        };
        let mut apart = Vec::new();
        for row in 0..rows {
            let values =
                columns.iter().map(|column| ScalarValue::try_from_array(column, row).unwrap());
            let made = run(values.map(ColumnarValue::Scalar).collect(), 1);
            apart.push(made.map_err(|how| said(how, Some(row)))?);
        }
        let whole = columns.iter().cloned().map(ColumnarValue::Array).collect();
        let together = run(whole, rows).map_err(|how| said(how, None))?;
        assert_eq!(together.len(), rows);
        let apart: Vec<&dyn Array> = apart.iter().map(AsRef::as_ref).collect();
        // Some kernels read only constants, and return NULL for columns.
        if let Ok(apart) = concat(&apart)
            && together.null_count() < rows
            && apart.null_count() != together.null_count()
            && function.signature().volatility == Volatility::Immutable
        {
            return Err(said(
                "is NULL on other rows where its arguments are constants".to_owned(),
                None,
            ));
        }
        Ok(())
    }

    fn tuples(of: &[DataType], arity: usize) -> Vec<Vec<DataType>> {
        (0..arity).fold(vec![Vec::new()], |all, _| {
            all.iter()
                .flat_map(|tuple| {
                    of.iter().map(move |t| [tuple.as_slice(), std::slice::from_ref(t)].concat())
                })
                .collect()
        })
    }

    /// The types of released values, public values and constants.
    fn types() -> Vec<DataType> {
        vec![
            DataType::Utf8View,
            DataType::Int64,
            DataType::Float64,
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Date32,
            DataType::Null,
            DataType::Boolean,
            DataType::Utf8,
            DataType::Int32,
            DataType::UInt64,
            DataType::Decimal128(38, 10),
            DataType::Decimal128(9, 0),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Timestamp(TimeUnit::Second, Some("+02:00".into())),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Second),
            DataType::Float32,
            DataType::Binary,
        ]
    }

    #[test]
    fn no_function_above_a_release_fails_on_a_value() {
        let all = types();
        let (mut wrong, mut calls) = (Vec::new(), 0);
        for function in SessionStateDefaults::default_scalar_functions() {
            let is_wrapped = match decision(function.name()).unwrap() {
                Decision::AsItIs | Decision::Cast | Decision::Refused => false,
                Decision::OrNull | Decision::Tried | Decision::Formats => true,
            };
            if !is_wrapped {
                continue;
            }
            let total = or_null(capped(Arc::clone(&function)));
            let mut seen = HashSet::new();
            let mut own = Vec::new();
            for (arity, among) in [(1, all.len()), (2, all.len()), (3, 8), (4, 3)] {
                for types in tuples(&all[..among], arity) {
                    let fields: Vec<FieldRef> = types.iter().map(field).collect();
                    let Ok(coerced) = fields_with_udf(&fields, total.as_ref()) else { continue };
                    let coerced: Vec<DataType> =
                        coerced.iter().map(|field| field.data_type().clone()).collect();
                    if !seen.insert(coerced.clone()) {
                        continue;
                    }
                    calls += 1;
                    own.extend(called(&total, &coerced).err());
                }
            }
            assert!(!seen.is_empty(), "{} was not called", function.name());
            own.truncate(4);
            wrong.extend(own);
        }
        assert!(calls > 500, "{calls}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
