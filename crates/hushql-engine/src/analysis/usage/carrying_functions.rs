//! The functions that carry a value on.
//!
//! In: a scalar function. Out: whether its result is another form of its arguments: a part of a
//! text, a rounded number, the month of a date. The result of any other function tells whether
//! something holds of its arguments, so that these decide about it.
//!
//! ```text
//! substr(zip, 1, 2)          carries zip on
//! starts_with(zip, '10')     zip decides
//! ```

use datafusion::logical_expr::ScalarUDF;

use crate::functions::{
    is_clamp, is_date_bin, is_date_diff, is_date_label, is_date_trunc, is_histogram, is_late_value,
    is_magnitude, is_moved_times, is_width_bucket, is_without_offset,
};

/// Functions of DataFusion that carry their arguments on.
const CARRYING: [&str; 20] = [
    "abs",
    "btrim",
    "ceil",
    "character_length",
    "concat",
    "concat_ws",
    "date_part",
    "floor",
    "get_field",
    "left",
    "lower",
    "ltrim",
    "reverse",
    "right",
    "round",
    "rtrim",
    "split_part",
    "substr",
    "trunc",
    "upper",
];

/// True if the result of a function is another form of its arguments. Only what is listed is.
pub(super) fn carries_on(function: &ScalarUDF) -> bool {
    CARRYING.contains(&function.name())
        || is_clamp(function)
        || is_date_bin(function)
        || is_date_diff(function)
        || is_date_label(function)
        || is_date_trunc(function)
        || is_histogram(function)
        || is_late_value(function)
        || is_magnitude(function)
        || is_moved_times(function)
        || is_width_bucket(function)
        || is_without_offset(function)
}
