//! Numbers as explanations write them.

use num_bigint::BigInt;
use num_traits::Zero;
use serde_json::{Value, json};

use crate::privacy::{Rational, decimal_text, parse_decimal};

/// An exact rate: a decimal, or a fraction if no short decimal is exact.
pub(crate) fn exact_rate(value: &Rational) -> String {
    let text = decimal_text(value, 9);
    if value.is_integer() && !value.is_zero() {
        format!("{text}.000")
    } else if parse_decimal(&text).as_ref() == Some(value) {
        text
    } else {
        // A rounded rate would not be the rate that is drawn with.
        value.to_string()
    }
}

/// The most digits that a short size has.
const DIGITS: u32 = 5;

/// The size of noise, never rounded down: `= 2000`, or, if that takes more than a few digits,
/// `≤ 707.11`. If a share of a cost was rounded down, the size is slightly above a whole number:
/// `just above 3600`.
///
/// ```text
/// 1200  →  = 1200          3600.000036  →  just above 3600          1/6  →  ≤ 0.16667
/// ```
pub(crate) fn at_most(value: &Rational) -> String {
    let text = decimal_text(value, 6);
    let digits = text.trim_start_matches(['0', '.']).bytes().filter(u8::is_ascii_digit).count();
    let is_short = value.is_integer() || u32::try_from(digits).is_ok_and(|digits| digits <= DIGITS);
    if is_short && parse_decimal(&text).as_ref() == Some(value) {
        return format!("= {text}");
    }
    let (low, small) = (decimal_text(value, 0), value / Rational::from_integer(1_000_000.into()));
    if let Some(low) = parse_decimal(&low).filter(|low| !low.is_zero() && low <= value)
        && value - &low < small
    {
        return format!("just above {}", decimal_text(&low, 0));
    }
    // One more decimal place for each power of ten that is missing.
    let ten = |power: u32| Rational::from_integer(BigInt::from(10).pow(power));
    let missing = (0..40).find(|places| value * ten(*places) >= ten(DIGITS - 1)).unwrap_or(40);
    let above = (value * ten(missing)).ceil() / ten(missing);
    format!("≤ {}", decimal_text(&above, missing))
}

/// A scale with its formula: `2000 = Δ₁/ε`, or `Δ₁/ε ≤ 707.11`.
pub(crate) fn equal_to(formula: &str, size: &str) -> String {
    match size.strip_prefix("= ") {
        Some(exact) => format!("{exact} = {formula}"),
        None => format!("{formula} {size}"),
    }
}

pub(crate) fn number(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| json!(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_short_and_never_too_low() {
        let shown = |numer: i64, denom: i64| at_most(&Rational::new(numer.into(), denom.into()));
        assert_eq!(shown(2000, 1), "= 2000");
        assert_eq!(shown(1, 2), "= 0.5");
        assert_eq!(shown(3_600_000_036, 1_000_000), "just above 3600");
        assert_eq!(shown(3_600_036, 1000), "≤ 3600.1");
        assert_eq!(shown(3_599_999_964, 1_000_000), "≤ 3600");
        assert_eq!(equal_to("Δ₁/ε", &shown(2, 1)), "2 = Δ₁/ε");
        assert_eq!(equal_to("Δ₁/ε", &shown(1, 3)), "Δ₁/ε ≤ 0.33334");
        assert_eq!(shown(1, 6), "≤ 0.16667");
        assert_eq!(shown(1, 3_000_000), "≤ 0.00000033334");
        assert_eq!(shown(123_456_789, 1), "= 123456789");
        assert_eq!(shown(1_234_567_891, 10), "just above 123456789");
        assert_eq!(shown(99_999_999, 1000), "≤ 100000");
    }
}
