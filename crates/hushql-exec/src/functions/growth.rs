//! The length of the results of functions that make texts.
//!
//! In: a function's name and its arguments. Out: for each row the number of bytes of the result, or
//! an upper bound, before the result is built.
//!
//! ```text
//! repeat('ab', 3)                 6 bytes
//! lpad('x', 5, 'ä')               9 bytes
//! regexp_replace('ab', 'b', 'cd') at most 10 bytes
//! ```

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

/// The bytes of a value other than a text when it is written as one: more than any number, date or
/// interval has.
const WRITTEN: usize = 128;

/// The most bytes of a moment for each byte of a format: `%c` writes "Sun Jul 8 00:34:60 2001", and
/// `%+` writes 35 bytes.
const OF_A_FORMAT: usize = 20;

/// How the length of a result depends on the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// The first argument, repeated as often as the second says.
    Repeat,
    /// As many characters as the second argument says. The first ones are those of the first
    /// argument, the others those of the third.
    Pad,
    /// The first argument with each occurrence of the second replaced by the third.
    Replace,
    /// The first argument with each match of a pattern replaced by the third, which may refer to
    /// the match.
    ReplaceMatches,
    /// The concatenation of all arguments.
    Concat,
    /// The concatenation of all arguments but the first, with the first between them.
    ConcatWith,
    /// At most the first two arguments together.
    Overlay,
    /// Each character of the first argument becomes at most one other.
    Translate,
    /// The first argument in another case: no character grows to more than three times its bytes.
    Case,
    /// Each byte of the first argument becomes at most two.
    Encode,
    /// A moment in a format.
    Format,
    /// The parts of the first argument that the groups of a pattern match.
    Groups,
}

impl Growth {
    /// How the results of a function grow; `None` if they are never longer than its longest
    /// argument or than a number.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "repeat" => Self::Repeat,
            "lpad" | "rpad" => Self::Pad,
            "replace" => Self::Replace,
            "regexp_replace" => Self::ReplaceMatches,
            "concat" => Self::Concat,
            "concat_ws" => Self::ConcatWith,
            "overlay" => Self::Overlay,
            "translate" => Self::Translate,
            "initcap" | "lower" | "upper" => Self::Case,
            "encode" => Self::Encode,
            "to_char" => Self::Format,
            "regexp_match" => Self::Groups,
            _ => return None,
        })
    }

    /// Whether [`Growth::bytes`] is the exact number of bytes, not only a bound.
    pub(super) fn is_exact(self) -> bool {
        match self {
            Self::Repeat
            | Self::Pad
            | Self::Replace
            | Self::Concat
            | Self::ConcatWith
            | Self::Groups => true,
            Self::ReplaceMatches
            | Self::Overlay
            | Self::Translate
            | Self::Case
            | Self::Encode
            | Self::Format => false,
        }
    }

    /// The number of bytes of the result of a row, or an upper bound. A bound suffices if it is at
    /// most `enough`.
    ///
    /// # Guarantee
    /// Never less than the number of bytes of the result. The groups of a pattern count as if each
    /// matched the whole text.
    pub(super) fn bytes(self, arguments: &[Argument], row: usize, enough: usize) -> usize {
        let bytes = |i: usize| arguments.get(i).map_or(0, |argument| argument.bytes(row));
        let text = |i: usize| arguments.get(i).and_then(|argument| argument.text(row));
        let number = |i: usize| arguments.get(i).map_or(0, |argument| argument.number(row));
        let all = |from: usize| {
            let each = (from..arguments.len()).map(bytes);
            each.fold(0_usize, usize::saturating_add)
        };
        match self {
            Self::Repeat => bytes(0).saturating_mul(number(1)),
            Self::Pad => {
                // A character has at most four bytes.
                let most = number(1).saturating_mul(4);
                let fill = if arguments.len() > 2 { text(2) } else { Some(" ") };
                match (text(0), fill) {
                    _ if most <= enough => most,
                    (Some(text), Some(fill)) => padded(text, number(1), fill),
                    _ => most,
                }
            }
            Self::Replace => match (text(0), text(1), text(2)) {
                (Some(text), Some(old), Some(new)) => replaced(text, old, new, enough),
                _ => 0,
            },
            Self::ReplaceMatches => {
                let new = text(2).unwrap_or_default();
                // A replacement refers to its match by `$` or `\`. All matches together are no
                // longer than the whole text.
                let references = new.bytes().filter(|byte| matches!(byte, b'$' | b'\\')).count();
                let everywhere = text(3).is_none_or(|flags| flags.contains('g'));
                let matches = match everywhere && arguments.len() > 3 {
                    true => bytes(0).saturating_add(1),
                    false => 1,
                };
                let kept = bytes(0).saturating_mul(references.saturating_add(1));
                kept.saturating_add(matches.saturating_mul(new.len()))
            }
            Self::Concat => all(0),
            Self::ConcatWith => {
                let is_null = |argument: &&Argument| argument.is_null(row);
                let texts = arguments.len() - arguments.iter().filter(is_null).count();
                all(1).saturating_add(bytes(0).saturating_mul(texts.saturating_sub(2)))
            }
            Self::Overlay => bytes(0).saturating_add(bytes(1)),
            Self::Translate => bytes(0).saturating_mul(4),
            Self::Case => bytes(0).saturating_mul(3),
            Self::Encode => bytes(0).saturating_mul(2),
            Self::Format => bytes(1).max(1).saturating_mul(OF_A_FORMAT),
            Self::Groups => {
                let opened = text(1).unwrap_or_default().bytes().filter(|byte| *byte == b'(');
                bytes(0).saturating_mul(opened.count().max(1))
            }
        }
    }
}

/// The bytes of a text that is padded or cut to this number of characters.
fn padded(text: &str, characters: usize, fill: &str) -> usize {
    let of_first = |text: &str, n: usize| text.chars().take(n).map(char::len_utf8).sum::<usize>();
    let own = text.chars().count();
    let Some(missing) = characters.checked_sub(own) else { return of_first(text, characters) };
    let each = fill.chars().count();
    let Some(times) = missing.checked_div(each) else { return text.len() };
    let rest = of_first(fill, missing % each);
    text.len().saturating_add(times.saturating_mul(fill.len())).saturating_add(rest)
}

/// The bytes of a text in which one text replaces another, or an upper bound that is at most
/// `enough`.
fn replaced(text: &str, old: &str, new: &str, enough: usize) -> usize {
    // An empty text never occurs.
    let Some(most_found) = text.len().checked_div(old.len()) else { return text.len() };
    let longer = new.len().saturating_sub(old.len());
    let most = text.len().saturating_add(most_found.saturating_mul(longer));
    if most <= enough {
        return most;
    }
    let found = text.matches(old).count();
    let kept = text.len().saturating_sub(found.saturating_mul(old.len()));
    kept.saturating_add(found.saturating_mul(new.len()))
}

/// An argument of a call: one value for all rows, or one for each row.
pub(super) enum Argument {
    Texts { texts: ArrayRef, constant: bool },
    Numbers { numbers: ArrayRef, constant: bool },
    Other,
}

impl Argument {
    /// An argument in the form in which a function gets it.
    ///
    /// # Errors
    /// None for texts, bytes and integers.
    pub(super) fn new(value: &ColumnarValue) -> Result<Self> {
        let (column, constant) = match value {
            ColumnarValue::Array(column) => (ArrayRef::clone(column), false),
            ColumnarValue::Scalar(value) => (ScalarValue::to_array(value)?, true),
        };
        Ok(match column.data_type() {
            data_type if data_type.is_integer() => {
                Self::Numbers { numbers: cast(&column, &DataType::Int64)?, constant }
            }
            DataType::Dictionary(_, value) if value.is_string() => {
                Self::Texts { texts: cast(&column, &DataType::Utf8View)?, constant }
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Texts { texts: column, constant },
            _ => Self::Other,
        })
    }

    fn bytes(&self, row: usize) -> usize {
        match self {
            Self::Texts { texts, constant } => length(texts, if *constant { 0 } else { row }),
            Self::Numbers { .. } | Self::Other => WRITTEN,
        }
    }

    /// The text of a row; `None` for NULL and for values that are not texts.
    fn text(&self, row: usize) -> Option<&str> {
        let Self::Texts { texts, constant } = self else { return None };
        let row = if *constant { 0 } else { row };
        if row >= texts.len() || texts.is_null(row) {
            return None;
        }
        match texts.data_type() {
            DataType::Utf8 => Some(texts.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(texts.as_string_view().value(row)),
            _ => None,
        }
    }

    /// Whether a text of this row is NULL.
    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Texts { texts, constant } => texts.is_null(if *constant { 0 } else { row }),
            Self::Numbers { .. } | Self::Other => false,
        }
    }

    /// Whether its lengths are known exactly.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Texts { .. })
    }

    fn number(&self, row: usize) -> usize {
        match self {
            Self::Numbers { numbers, constant } => {
                let row = if *constant { 0 } else { row };
                let numbers = numbers.as_primitive::<Int64Type>();
                match row < numbers.len() && numbers.is_valid(row) {
                    true => usize::try_from(numbers.value(row)).unwrap_or(0),
                    false => 0,
                }
            }
            Self::Texts { .. } | Self::Other => usize::MAX,
        }
    }
}

/// The length of a row's text or bytes; 0 for NULL.
pub(super) fn length(texts: &ArrayRef, row: usize) -> usize {
    fn of<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, row: usize) -> usize {
        let ends = (offsets.get(row), offsets.get(row.saturating_add(1)));
        let (Some(from), Some(to)) = ends else { return 0 };
        (*to - *from).as_usize()
    }
    let of_view = |view: Option<&u128>| {
        // The low half of a view is the length of its text.
        let length = view.map_or(0, |view| view & u128::from(u32::MAX));
        usize::try_from(length).unwrap_or(usize::MAX)
    };
    if row >= texts.len() || texts.is_null(row) {
        return 0;
    }
    match texts.data_type() {
        DataType::Utf8 => of(texts.as_string::<i32>().offsets(), row),
        DataType::LargeUtf8 => of(texts.as_string::<i64>().offsets(), row),
        DataType::Binary => of(texts.as_binary::<i32>().offsets(), row),
        DataType::LargeBinary => of(texts.as_binary::<i64>().offsets(), row),
        DataType::Utf8View => of_view(texts.as_string_view().views().get(row)),
        DataType::BinaryView => of_view(texts.as_binary_view().views().get(row)),
        _ => 0,
    }
}
