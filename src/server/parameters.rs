//! The parameters of a statement: values that a client sends separately.
//!
//! In: the number of a type, a format and bytes. Out: a [`Value`], which becomes a literal in the
//! syntax tree. It is never parsed as SQL. A value that does not have its type is an error.
//!
//! ```text
//! int4, binary, 00 00 00 28   →   Value::Integer(40)
//! ```

use hushql::Value;
use hushql_engine::bind::truth_of;

use super::encode::kinds;
use super::encoding::Encoding;
use super::parameter_types::{element_of, is_element};
use super::{numeric, timestamp};

/// A parameter as a value.
///
/// # Errors
/// A sentence, if the type is unknown, or the bytes are not a value of it.
pub(super) fn value(
    kind: u32,
    format: i16,
    bytes: Option<&[u8]>,
    encoding: Encoding,
) -> Result<Value, String> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    let is_text = format == 0 || matches!(kind, kinds::TEXT | kinds::VARCHAR | kinds::NAME);
    let decoded = encoding.decoded(bytes).filter(|_| is_text && encoding != Encoding::Utf8);
    let bytes = decoded.as_ref().map_or(bytes, String::as_bytes);
    let read = if format == 1 { binary(kind, bytes) } else { text(kind, bytes) };
    read.map_err(|why| why.to_owned())
}

const WRONG: &str = "the bytes of a parameter are not a value of its type";
/// The most digits of a decimal.
const DIGITS: usize = 38;
const LONG: &str = "a decimal of a parameter has at most 38 digits";

fn text(kind: u32, bytes: &[u8]) -> Result<Value, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
    if text.contains('\0') {
        return Err(WRONG);
    }
    match kind {
        kinds::BOOL => truth_of(text).map(Value::Boolean).ok_or(WRONG),
        kinds::INT2 | kinds::INT4 | kinds::INT8 | kinds::OID => {
            text.trim().parse().map(Value::Integer).map_err(|_| WRONG)
        }
        kinds::FLOAT4 | kinds::FLOAT8 => text.trim().parse().map(Value::Float).map_err(|_| WRONG),
        kinds::NUMERIC => decimal(&written_out(text.trim()).ok_or(WRONG)?),
        kinds::BYTEA => Err("bytea is not a type of parameters"),
        kinds::TEXTS | kinds::VARCHARS | kinds::NAMES => Ok(Value::Text(in_quotes(text))),
        kinds::TIMESTAMPTZ => Ok(Value::Text(timestamp::in_utc(text))),
        // Any other value is a text, like a literal in single quotes.
        _ => Ok(Value::Text(text.to_owned())),
    }
}

fn binary(kind: u32, bytes: &[u8]) -> Result<Value, &'static str> {
    match kind {
        kinds::BOOL => match bytes {
            [0] => Ok(Value::Boolean(false)),
            [1] => Ok(Value::Boolean(true)),
            _ => Err(WRONG),
        },
        kinds::INT2 => Ok(Value::Integer(i16::from_be_bytes(of_size(bytes)?).into())),
        kinds::INT4 => Ok(Value::Integer(i32::from_be_bytes(of_size(bytes)?).into())),
        kinds::OID | kinds::REGCLASS => {
            Ok(Value::Integer(u32::from_be_bytes(of_size(bytes)?).into()))
        }
        array_kind if element_of(array_kind) != array_kind => array(bytes).map(Value::Text),
        kinds::INT8 => Ok(Value::Integer(i64::from_be_bytes(of_size(bytes)?))),
        // The double that is written with the same digits.
        kinds::FLOAT4 => {
            let digits = f32::from_be_bytes(of_size(bytes)?).to_string();
            digits.parse().map(Value::Float).map_err(|_| WRONG)
        }
        kinds::FLOAT8 => Ok(Value::Float(f64::from_be_bytes(of_size(bytes)?))),
        kinds::NUMERIC => decimal(&numeric::read(bytes, 64).ok_or(WRONG)?),
        kinds::DATE => {
            let date = timestamp::date_of(i32::from_be_bytes(of_size(bytes)?));
            date.map(Value::Text).ok_or(WRONG)
        }
        kinds::TIMESTAMP | kinds::TIMESTAMPTZ => {
            let moment = timestamp::timestamp_of(i64::from_be_bytes(of_size(bytes)?));
            moment.map(Value::Text).ok_or(WRONG)
        }
        kinds::TEXT | kinds::VARCHAR | kinds::BPCHAR | kinds::NAME | kinds::UNKNOWN | 0 => {
            text(kind, bytes)
        }
        _ => Err("parameters of this type are sent as text"),
    }
}

/// An array of texts with quotes around each element, so that none of them is read as a number.
fn in_quotes(array: &str) -> String {
    let inner = array.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(inner) = inner.filter(|inner| !inner.trim().is_empty()) else {
        return array.to_owned();
    };
    let (mut pieces, mut piece, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                piece.push(c);
                piece.extend(chars.next());
            }
            ',' if !is_quoted => pieces.push(std::mem::take(&mut piece)),
            c => {
                is_quoted ^= c == '"';
                piece.push(c);
            }
        }
    }
    pieces.push(piece);
    let quoted = pieces.iter().map(|piece| match piece.trim() {
        own if own.starts_with('"') || own.eq_ignore_ascii_case("null") => own.to_owned(),
        own => format!("\"{own}\""),
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

/// An array of one dimension, as PostgreSQL writes it: `{1,"a b"}`.
fn array(bytes: &[u8]) -> Result<String, &'static str> {
    let mut rest = bytes;
    let mut int = |count: usize| {
        let (head, tail) = rest.split_at_checked(count).ok_or(WRONG)?;
        rest = tail;
        Ok::<&[u8], &'static str>(head)
    };
    let number = |bytes: &[u8]| Ok::<_, &'static str>(i32::from_be_bytes(of_size(bytes)?));
    let (dimensions, _, element) = (number(int(4)?)?, int(4)?, number(int(4)?)?);
    let element = element.cast_unsigned();
    if dimensions == 0 {
        return Ok("{}".to_owned());
    }
    // Each element has at least the bytes of its length field, so a count larger than the message
    // is refused.
    let (count, _) = (number(int(4)?)?, int(4)?);
    if dimensions != 1 || !is_element(element) {
        return Err(WRONG);
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        let length = number(int(4)?)?;
        let Ok(length) = usize::try_from(length) else {
            texts.push("NULL".to_owned());
            continue;
        };
        texts.push(match binary(element, int(length)?)? {
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Decimal(digits) => digits,
            Value::Boolean(value) => value.to_string(),
            Value::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            _ => return Err(WRONG),
        });
    }
    if rest.is_empty() { Ok(format!("{{{}}}", texts.join(","))) } else { Err(WRONG) }
}

/// The digits of a number in scientific notation, which programs use for small and large decimals:
/// 0.0000001 for `1E-7`. Other texts stay unchanged.
fn written_out(text: &str) -> Option<String> {
    const FAR: i64 = 64;
    let Some((number, exponent)) = text.split_once(['e', 'E']) else {
        return Some(text.to_owned());
    };
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|digit| digit == b'0') {
        return Some("0".to_owned());
    }
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    // A decimal does not have so many digits.
    let point = usize::try_from(point.checked_add(FAR)?).ok().filter(|at| *at <= 4 * 64)?;
    let zeros = "0".repeat(64);
    let wide = format!("{zeros}{digits}{}", "0".repeat(point.saturating_sub(64 + digits.len())));
    let (whole, part) = wide.split_at_checked(point)?;
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(match part.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{part}"),
    })
}

fn of_size<const N: usize>(bytes: &[u8]) -> Result<[u8; N], &'static str> {
    bytes.try_into().map_err(|_| WRONG)
}

/// A decimal as the literal with the same digits.
fn decimal(text: &str) -> Result<Value, &'static str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_number || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(WRONG);
    }
    if let Ok(whole) = text.parse() {
        return Ok(Value::Integer(whole));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.contains('.') {
        return Err(WRONG);
    }
    let count = whole.trim_start_matches('0').len() + fraction.trim_end_matches('0').len();
    if count > DIGITS { Err(LONG) } else { Ok(Value::Decimal(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_mean_the_same() {
        let mut half = Vec::new();
        numeric::write("0.5", &mut half).unwrap();
        for (kind, text, binary, expected) in [
            (kinds::BOOL, "t", vec![1], Value::Boolean(true)),
            (kinds::INT2, "-7", (-7_i16).to_be_bytes().to_vec(), Value::Integer(-7)),
            (kinds::INT4, "40", 40_i32.to_be_bytes().to_vec(), Value::Integer(40)),
            (kinds::INT8, "40", 40_i64.to_be_bytes().to_vec(), Value::Integer(40)),
            (kinds::FLOAT4, "0.1", 0.1_f32.to_be_bytes().to_vec(), Value::Float(0.1)),
            (kinds::FLOAT8, "2.5", 2.5_f64.to_be_bytes().to_vec(), Value::Float(2.5)),
            (kinds::NUMERIC, "0.5", half, Value::Decimal("0.5".to_owned())),
            (kinds::TEXT, "it's", b"it's".to_vec(), Value::from("it's")),
            (0, "x", b"x".to_vec(), Value::from("x")),
            (
                kinds::TIMESTAMP,
                "2000-01-01 00:00:00",
                vec![0; 8],
                Value::from("2000-01-01 00:00:00"),
            ),
            (
                kinds::TIMESTAMPTZ,
                "2000-01-01 02:00:00+02",
                vec![0; 8],
                Value::from("2000-01-01 00:00:00"),
            ),
            (kinds::DATE, "2000-01-02", 1_i32.to_be_bytes().to_vec(), Value::from("2000-01-02")),
        ] {
            assert_eq!(value(kind, 0, Some(text.as_bytes()), Encoding::Utf8).unwrap(), expected);
            assert_eq!(value(kind, 1, Some(&binary), Encoding::Utf8).unwrap(), expected);
            assert_eq!(value(kind, 1, None, Encoding::Utf8).unwrap(), Value::Null);
        }
    }

    #[test]
    fn decimals_are_read_in_scientific_notation() {
        for (text, expected) in [
            ("1E-7", "0.0000001"),
            ("-1.25e-3", "-0.00125"),
            ("1E+30", "1000000000000000000000000000000"),
            ("+12.50E1", "125"),
            ("12.345e2", "1234.5"),
            ("0E-38", "0"),
            ("-0.000e+9", "0"),
            ("1e-38", "0.00000000000000000000000000000000000001"),
        ] {
            let read = value(kinds::NUMERIC, 0, Some(text.as_bytes()), Encoding::Utf8);
            let expected = match expected.parse() {
                Ok(whole) => Value::Integer(whole),
                Err(_) => Value::Decimal(expected.to_owned()),
            };
            assert_eq!(read, Ok(expected), "{text}");
        }
        for text in [
            "1E",
            "E5",
            "1E5E5",
            "1E1.5",
            "1E400",
            "1E-99",
            "1E99999999999999999999",
            ".e1",
            "1E38",
        ] {
            assert!(
                value(kinds::NUMERIC, 0, Some(text.as_bytes()), Encoding::Utf8).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn arrays_are_those_of_one_dimension() {
        let number = |n: i32| n.to_be_bytes();
        let head = [number(1), number(0), number(26), number(2), number(1)].concat();
        let two = [number(4), number(7), number(-1)].concat();
        let whole = [head.clone(), two].concat();
        assert_eq!(
            value(kinds::OIDS, 1, Some(&whole), Encoding::Utf8),
            Ok(Value::from("{7,NULL}"))
        );
        for (text, expected) in [
            ("{a}", r#"{"a"}"#),
            ("{17,a b,NULL}", r#"{"17","a b",NULL}"#),
            (r#"{"a,b",c\"d}"#, r#"{"a,b","c\"d"}"#),
            ("{}", "{}"),
        ] {
            let text = value(kinds::TEXTS, 0, Some(text.as_bytes()), Encoding::Utf8);
            assert_eq!(text, Ok(Value::from(expected)));
        }
        let none = [number(0), number(0), number(26)].concat();
        assert_eq!(value(kinds::OIDS, 1, Some(&none), Encoding::Utf8), Ok(Value::from("{}")));
        for end in 0..whole.len() {
            assert!(value(kinds::OIDS, 1, Some(&whole[..end]), Encoding::Utf8).is_err(), "{end}");
        }
        let many = [number(1), number(0), number(26), number(i32::MAX), number(1)].concat();
        assert!(value(kinds::OIDS, 1, Some(&many), Encoding::Utf8).is_err());
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        for (kind, format, bytes) in [
            (kinds::INT4, 0, &b"4 OR 1=1"[..]),
            (kinds::INT4, 1, b"\0\0"),
            (kinds::BOOL, 1, b"\x02"),
            (kinds::BOOL, 0, b"maybe"),
            (kinds::NUMERIC, 0, b"1) OR (1"),
            (kinds::NUMERIC, 0, b"0.123456789012345678901234567890123456789"),
            (kinds::NUMERIC, 0, b"1.2.3"),
            (kinds::NUMERIC, 0, b"-."),
            (kinds::NUMERIC, 1, b"\0"),
            (kinds::TEXT, 0, b"\xff"),
            (kinds::TEXT, 0, b"a\0b"),
            (kinds::DATE, 1, b"\x7f\xff\xff\xff"),
            (kinds::BYTEA, 0, b"x"),
            (600, 1, b"x"),
        ] {
            assert!(
                value(kind, format, Some(bytes), Encoding::Utf8).is_err(),
                "{kind} {format} {bytes:?}"
            );
        }
    }
}
