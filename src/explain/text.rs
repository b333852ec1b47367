//! Numbers as explanations write them.

use num_traits::Zero;
use serde_json::{Value, json};

use crate::privacy::{Rational, decimal_text, parse_decimal};

/// A rate, exactly: as a decimal, or as a fraction where no short decimal is exact.
pub(crate) fn exact_rate(value: &Rational) -> String {
    let text = decimal_text(value, 9);
    if value.is_integer() && !value.is_zero() {
        format!("{text}.000")
    } else if parse_decimal(&text).as_ref() == Some(value) {
        text
    } else {
        // A rounded rate would not be the one that is drawn with.
        value.to_string()
    }
}

pub(crate) fn number(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| json!(text), Value::Number)
}
