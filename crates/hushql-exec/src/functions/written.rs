//! Numbers with a decimal point as they are written: exact decimals unless they meet a float.
//!
//! In: an expression. Out: the digits of a number with a point. The planner has no exact literal
//! for such a number, so it becomes a cast of its digits to a decimal that holds them. The other
//! operand decides whether it stays a decimal: next to a float, its digits are cast to that float
//! directly, because a decimal in between would round twice.
//!
//! ```text
//! 17.01     CAST('17.01' AS DECIMAL(4, 2))
//! ```

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

/// The most digits of a decimal.
const MOST_DIGITS: usize = 38;

/// A number as its digits, and the smallest decimal type that holds them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecimalLiteral {
    /// The sign, at least one digit, and a point only before other digits.
    pub text: String,
    /// All digits without leading zeros, at least as many as the scale.
    pub precision: u8,
    /// The digits after the point.
    pub scale: u8,
}

impl DecimalLiteral {
    /// A number without an exponent, such as `-12.50`; `None` for any other text, and for one of
    /// more than 38 digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let fraction = match whole.len() + fraction.len() > MOST_DIGITS {
            true => fraction.trim_end_matches('0'),
            false => fraction,
        };
        let digits = whole.len() + fraction.len();
        if digits > MOST_DIGITS {
            return None;
        }
        let sign = if negative { "-" } else { "" };
        let zero = if whole.is_empty() { "0" } else { whole };
        let point = if fraction.is_empty() { "" } else { "." };
        Some(Self {
            text: format!("{sign}{zero}{point}{fraction}"),
            precision: u8::try_from(digits.max(1)).ok()?,
            scale: u8::try_from(fraction.len()).ok()?,
        })
    }

    /// The number that a text spells, with or without an exponent: `1.5e2` is 150. `None` for any
    /// other text, and for a number of more than 38 digits.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('+').unwrap_or(text);
        let Some((number, exponent)) = text.split_once(['e', 'E']) else {
            return Self::parse(text);
        };
        let by: i64 = exponent.parse().ok()?;
        let sign = if number.starts_with('-') { "-" } else { "" };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{}{fraction}", whole.strip_prefix('-').unwrap_or(whole));
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let before = i64::try_from(digits.len() - fraction.len()).ok()?.checked_add(by)?;
        let most = u64::try_from(MOST_DIGITS + digits.len()).ok()?;
        if !is_number || before.unsigned_abs() > most {
            return None;
        }
        let zeros = |n: i64| "0".repeat(usize::try_from(n).unwrap_or(0));
        let behind = before - i64::try_from(digits.len()).ok()?;
        let all = format!("{}{digits}{}", zeros(-before), zeros(behind));
        let (whole, fraction) = all.split_at_checked(usize::try_from(before).unwrap_or(0))?;
        Self::parse(&format!("{sign}{whole}.{fraction}0"))?.trimmed()
    }

    /// The same number without trailing zeros after the point.
    pub fn trimmed(&self) -> Option<Self> {
        match self.text.contains('.') {
            true => Self::parse(self.text.trim_end_matches('0').trim_end_matches('.')),
            false => Some(self.clone()),
        }
    }

    /// The number as a decimal.
    pub fn value(&self) -> Option<ScalarValue> {
        let (precision, scale) = (self.precision, i8::try_from(self.scale).ok()?);
        let digits = self.text.replace('.', "").parse().ok()?;
        Some(ScalarValue::Decimal128(Some(digits), precision, scale))
    }

    /// The digits as a value of another type.
    pub fn cast_to(&self, to: &DataType) -> Expr {
        let text = Expr::Literal(ScalarValue::Utf8(Some(self.text.clone())), None);
        Expr::Cast(Cast::new(Box::new(text), to.clone()))
    }
}

/// The number with a point that an expression stands for.
pub fn written(expr: &Expr) -> Option<DecimalLiteral> {
    let Expr::Cast(Cast { expr, field }) = expr else { return None };
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr.as_ref() else { return None };
    let is_point = field.data_type().is_decimal() || field.data_type().is_floating();
    is_point.then(|| DecimalLiteral::parse(text)).flatten()
}

/// Whether a constant is a number in quotes that is not an integer literal, such as '10.5' and
/// '1e1'.
pub fn is_fraction_in_quotes(expr: &Expr) -> bool {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else { return false };
    text.contains(['.', 'e', 'E']) && in_quotes(expr).is_some()
}

/// The number in quotes that a constant stands for.
pub fn in_quotes(expr: &Expr) -> Option<DecimalLiteral> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else { return None };
    DecimalLiteral::read(text)
}

/// An expression for display, with numbers as they were written.
pub fn with_numbers(expr: &Expr) -> Expr {
    let shown = expr.clone().transform_up(|e| {
        Ok(match written(&e).and_then(|number| number.value()) {
            Some(value) => Transformed::yes(Expr::Literal(value, None)),
            None => Transformed::no(e),
        })
    });
    shown.map_or_else(|_| expr.clone(), |shown| shown.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_kept_as_they_are_written() {
        let of = |text: &str| {
            DecimalLiteral::parse(text).map(|number| (number.text, number.precision, number.scale))
        };
        for (text, expected) in [
            ("17.01", ("17.01", 4, 2)),
            ("-17.010", ("-17.010", 5, 3)),
            (".5", ("0.5", 1, 1)),
            ("5.", ("5", 1, 0)),
            ("0.0", ("0.0", 1, 1)),
            ("007.10", ("7.10", 3, 2)),
            ("18446744073709551616", ("18446744073709551616", 20, 0)),
            ("0", ("0", 1, 0)),
        ] {
            let (text_of, precision, scale) = expected;
            assert_eq!(of(text), Some((text_of.to_owned(), precision, scale)), "{text}");
        }
        let long = "9".repeat(38);
        assert_eq!(of(&long), Some((long.clone(), 38, 0)));
        assert_eq!(of(&format!("{long}.000")), Some((long.clone(), 38, 0)));
        assert_eq!(of(&format!("{long}.001")), None);
        for text in ["", ".", "-", "1e5", "1.5.2", "+1", "1_000.5", "NaN", "٣.٤"] {
            assert_eq!(of(text), None, "{text}");
        }
        let read = |text: &str| DecimalLiteral::read(text).map(|number| number.text);
        for (text, expected) in [
            ("1e1", "10"),
            (" +1.50E2 ", "150"),
            ("-12.5e-1", "-1.25"),
            ("1e-7", "0.0000001"),
            (".5e3", "500"),
            ("5.e0", "5"),
            ("0e9", "0"),
            ("10.50", "10.50"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["1e38", "1e-39", "1e", "e1", "1e1.5", "--1e1", "1-e1", "inf", "1e9999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
        for number in ["1", "12.5", ".5"] {
            for exponent in [i64::MIN, i64::MAX] {
                assert_eq!(read(&format!("{number}e{exponent}")), None, "{number}e{exponent}");
            }
        }
        let trimmed = |text: &str| DecimalLiteral::parse(text).unwrap().trimmed().unwrap().text;
        assert_eq!(["17.010", "5.00", "500", "-0.50"].map(trimmed), ["17.01", "5", "500", "-0.5"]);
    }
}
