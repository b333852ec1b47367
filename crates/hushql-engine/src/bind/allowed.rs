//! The functions of DataFusion that a query may call, by name.
//!
//! In: the name of a function. Out: whether a query may call it. A function is listed if its value
//! follows from its arguments alone, from the moment of the statement, or from a fresh random
//! number. A function that knows more is left out: the file that its rows come from, the version of
//! a library, or how many files the engine has opened, which depends on other statements.
//!
//! ```text
//! upper('a')             'A'
//! input_file_name()      there is no function `input_file_name`
//! ```

/// Scalar functions.
const SCALARS: [&str; 113] = [
    // Conditions, types and structs. `arrow_typeof` returns the type of its argument, which
    // DESCRIBE shows, too.
    "arrow_cast",
    "arrow_try_cast",
    "arrow_typeof",
    "cast_to_type",
    "coalesce",
    "get_field",
    "greatest",
    "least",
    "named_struct",
    "nullif",
    "nvl",
    "nvl2",
    "struct",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    // Dates. In one statement, `now`, `current_date` and `current_time` are the same moment.
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "from_unixtime",
    "make_date",
    "make_time",
    "now",
    "to_char",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    // Numbers. `random` draws from the operating system's generator, which no noise uses.
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "cot",
    "degrees",
    "exp",
    "factorial",
    "floor",
    "gcd",
    "isnan",
    "iszero",
    "lcm",
    "ln",
    "log",
    "log10",
    "log2",
    "nanvl",
    "pi",
    "power",
    "radians",
    "random",
    "round",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    // Patterns.
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    // Texts as bytes.
    "decode",
    "encode",
    // Texts. `uuid` is a fresh random number, like `random`.
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "contains",
    "ends_with",
    "find_in_set",
    "initcap",
    "left",
    "levenshtein",
    "lower",
    "lpad",
    "ltrim",
    "octet_length",
    "overlay",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substr_index",
    "to_hex",
    "translate",
    "upper",
    "uuid",
];

/// Aggregates.
const AGGREGATES: [&str; 39] = [
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Window functions that are not aggregates.
const WINDOWS: [&str; 11] = [
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Whether a query may call a scalar function of DataFusion, by its first name.
pub(super) fn is_scalar(name: &str) -> bool {
    SCALARS.contains(&name)
}

/// Whether a query may call an aggregate of DataFusion, by its first name.
pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// Whether a query may call a window function of DataFusion, by its name.
pub(super) fn is_window(name: &str) -> bool {
    WINDOWS.contains(&name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::execution::SessionStateDefaults;

    use super::*;

    /// Functions that know more than their arguments: the file and the row of a file, the metadata
    /// of a file's columns, the version of the library.
    const LEFT_OUT: [&str; 6] = [
        "arrow_field",
        "arrow_metadata",
        "file_row_index",
        "input_file_name",
        "version",
        "with_metadata",
    ];

    /// `input_file_name()` came with an upgrade, and told how many files other statements had
    /// opened. A new function of DataFusion must be listed above or here, after someone has checked
    /// what it knows.
    #[test]
    fn each_function_is_listed_or_left_out_on_purpose() {
        let scalars = SessionStateDefaults::default_scalar_functions();
        let scalars: BTreeSet<String> = scalars.iter().map(|f| f.name().to_owned()).collect();
        let left_out: Vec<&str> =
            scalars.iter().map(String::as_str).filter(|n| !is_scalar(n)).collect();
        assert_eq!(left_out, LEFT_OUT);
        assert!(SCALARS.iter().all(|name| scalars.contains(*name)), "{scalars:?}");
        let aggregates = SessionStateDefaults::default_aggregate_functions();
        let aggregates: BTreeSet<&str> = aggregates.iter().map(|f| f.name()).collect();
        assert_eq!(aggregates, AGGREGATES.into_iter().collect());
        let windows = SessionStateDefaults::default_window_functions();
        let windows: BTreeSet<&str> = windows.iter().map(|f| f.name()).collect();
        assert_eq!(windows, WINDOWS.into_iter().collect());
    }
}
