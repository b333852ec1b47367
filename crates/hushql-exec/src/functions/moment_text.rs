//! Reads texts of moments as PostgreSQL does: for a type without a time zone, the offset of a text
//! has no effect.
//!
//! In: texts. Out: the same texts without their offsets, and with seconds, for a cast to DATE or
//! TIMESTAMP; other texts as they are. With `in_utc`, the moment of the text in UTC, for a cast to
//! TIMESTAMP WITH TIME ZONE. Without this, Arrow would move a moment to UTC by its offset, and the
//! texts that drivers send would match other rows everywhere outside of UTC. Arrow also cannot read
//! a text without seconds.
//!
//! ```text
//! 2024-01-05 10:30:00+01              2024-01-05 10:30:00
//! 2024-01-05T10:30:00.000Z            2024-01-05T10:30:00.000
//! 2024-01-05 10:30:00 Europe/Berlin   2024-01-05 10:30:00
//! 2024-01-05 +00                      2024-01-05
//! 2024-01-05 10:30                    2024-01-05 10:30:00
//! ```

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::DataType;
use chrono::Utc;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::any_one;

/// The lengths of `2024-01-05` and of `2024-01-05 10:30`.
const DATE: usize = 10;
const MINUTE: usize = 16;

/// A text of a date or timestamp without its offset or zone, and with seconds; any other text as it
/// is.
pub fn without_offset(text: &str) -> Cow<'_, str> {
    match with_seconds(text) {
        Cow::Borrowed(text) => Cow::Borrowed(split(text).map_or(text, |(moment, _)| moment)),
        Cow::Owned(mut text) => {
            let moment = split(&text).map_or(text.len(), |(moment, _)| moment.len());
            text.truncate(moment);
            Cow::Owned(text)
        }
    }
}

/// Whether a text of a date or timestamp has an offset or a zone.
pub fn has_offset(text: &str) -> bool {
    split(text).is_some()
}

/// The moment of a text in UTC, as a text without an offset. A text without an offset only gets its
/// seconds, if it is a moment.
pub fn in_utc(text: &str) -> String {
    let text = with_seconds(text);
    let shifted = split(&text).and_then(|(moment, zone)| {
        let midnight = if moment.len() == DATE { " 00:00:00" } else { "" };
        let whole = format!("{moment}{midnight}{zone}");
        let utc = string_to_datetime(&Utc, &whole).ok()?.naive_utc();
        Some(utc.format("%Y-%m-%d %H:%M:%S%.f").to_string())
    });
    shifted.unwrap_or_else(|| text.into_owned())
}

/// Adds seconds to the text of a moment that ends with its minutes, with or without an offset. Any
/// other text stays as it is.
pub fn with_seconds(text: &str) -> Cow<'_, str> {
    let Some((minute, behind)) = text.trim().split_at_checked(MINUTE) else {
        return Cow::Borrowed(text);
    };
    let is_minute = match minute.as_bytes().split_at_checked(DATE) {
        Some((date, [b'T' | b't' | b' ', a, b, b':', c, d])) => {
            is_date(date) && [a, b, c, d].iter().all(|digit| digit.is_ascii_digit())
        }
        _ => false,
    };
    match is_minute && (behind.is_empty() || is_zone(behind.trim_start())) {
        true => Cow::Owned(format!("{minute}:00{behind}")),
        false => Cow::Borrowed(text),
    }
}

/// Whether bytes look like `2024-01-05`.
fn is_date(bytes: &[u8]) -> bool {
    bytes.len() == DATE
        && bytes.iter().enumerate().all(|(i, byte)| match i {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The moment of a text, and the offset or zone after it; `None` if one of them is missing.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (date, rest) = text.as_bytes().split_at_checked(DATE)?;
    if !is_date(date) {
        return None;
    }
    let time = match rest {
        [b'T' | b't' | b' ', digit, ..] if digit.is_ascii_digit() => {
            let of_time = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
            1 + rest.iter().skip(1).take_while(of_time).count()
        }
        _ => 0,
    };
    let (moment, behind) = text.split_at_checked(DATE + time)?;
    let zone = behind.trim_start();
    // In 2024-01-05-05, the last digits are ambiguous.
    let is_apart =
        time > 0 || zone.len() < behind.len() || !zone.starts_with('-') || zone.contains(':');
    (is_apart && is_zone(zone)).then_some((moment, zone))
}

/// `Z`, `+01`, `-05:30`, `+0100`, or the name of a zone.
fn is_zone(zone: &str) -> bool {
    zone.eq_ignore_ascii_case("z") || zone.parse::<Tz>().is_ok()
}

static WITHOUT_OFFSET: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(WithoutOffset { signature: any_one() })));

/// The function behind [`texts_without_offset`].
pub(super) fn without_offset_function() -> Arc<ScalarUDF> {
    Arc::clone(&WITHOUT_OFFSET)
}

/// [`without_offset`] of each row.
pub fn texts_without_offset(x: Expr) -> Expr {
    WITHOUT_OFFSET.call(vec![x])
}

/// Whether a function is that of [`texts_without_offset`].
pub fn is_without_offset(function: &ScalarUDF) -> bool {
    *function == **WITHOUT_OFFSET
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WithoutOffset {
    signature: Signature,
}

impl ScalarUDFImpl for WithoutOffset {
    fn name(&self) -> &'static str {
        "without_offset"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x] => Ok(x.clone()),
            _ => plan_err!("without_offset takes one text"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(stripped(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let stripped = stripped(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&stripped, 0)?))
            }
            _ => exec_err!("without_offset takes one text"),
        }
    }
}

fn stripped(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8View)?;
    let moments = texts.as_string_view().iter().map(|text| text.map(without_offset));
    let moments: ArrayRef = Arc::new(moments.collect::<StringViewArray>());
    Ok(cast(&moments, array.data_type())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_left_out() {
        for (text, moment, utc) in [
            ("2024-01-05 10:30:00+01", "2024-01-05 10:30:00", "2024-01-05 09:30:00"),
            ("2024-01-05 10:30:00-05:00", "2024-01-05 10:30:00", "2024-01-05 15:30:00"),
            ("2024-01-05T10:30:00.250+0530", "2024-01-05T10:30:00.250", "2024-01-05 05:00:00.250"),
            ("2024-01-05T10:30:00.000Z", "2024-01-05T10:30:00.000", "2024-01-05 10:30:00"),
            ("2024-01-05 10:30:00 Europe/Berlin", "2024-01-05 10:30:00", "2024-01-05 09:30:00"),
            ("2024-01-05 10:30", "2024-01-05 10:30:00", "2024-01-05 10:30:00"),
            ("2024-01-05 10:30+01", "2024-01-05 10:30:00", "2024-01-05 09:30:00"),
            ("2024-01-05T10:30Z", "2024-01-05T10:30:00", "2024-01-05 10:30:00"),
            (" 2024-01-05t10:30 Europe/Berlin ", "2024-01-05t10:30:00", "2024-01-05 09:30:00"),
            ("2024-01-05 +00", "2024-01-05", "2024-01-05 00:00:00"),
            ("2024-01-05+02:00", "2024-01-05", "2024-01-04 22:00:00"),
            ("2024-01-05-05:00", "2024-01-05", "2024-01-05 05:00:00"),
            (" 9999-12-31 23:59:59-11 ", "9999-12-31 23:59:59", "+10000-01-01 10:59:59"),
            ("0001-01-01 00:00:00+00", "0001-01-01 00:00:00", "0001-01-01 00:00:00"),
        ] {
            assert_eq!(without_offset(text), moment);
            assert_eq!(in_utc(text), utc, "{text}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "2024-01-05",
            "2024-01-05 10:30:00",
            "2024-01-05-05",
            "2024-01-05 10:30:00 nowhere",
            "2024-01-05 10:30:00+",
            "12-01-05 10:30+01",
            "2024-01-05 10:3",
            "2024-01-05 10:300",
            "2024-01-05 10:30:",
            "2024-01-05 10:30 nowhere",
            "2024-01-05 10:30 pm",
            "2024-01-05 1:30:00",
            "",
            "+01",
            "ä024-01-05 10:30:00+01",
            "2024-01-05 10:30:00+01 and more",
        ] {
            assert_eq!((without_offset(text).as_ref(), in_utc(text).as_str()), (text, text));
        }
    }

    #[test]
    fn columns_keep_their_type() {
        let texts = [Some("2024-01-05 10:30:00+01"), None, Some("x")];
        let views: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        for data_type in [DataType::Utf8View, DataType::Utf8, DataType::LargeUtf8] {
            let array = cast(&views, &data_type).unwrap();
            let kept = stripped(&array).unwrap();
            assert_eq!(kept.data_type(), &data_type);
            let kept = cast(&kept, &DataType::Utf8View).unwrap();
            let expected = [Some("2024-01-05 10:30:00"), None, Some("x")];
            assert!(kept.as_string_view().iter().eq(expected));
        }
    }
}
