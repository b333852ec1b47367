//! How the cell of a text file is read as a value of its column's type.
//!
//! In: the text of one cell, the type of its column, and the owner's options. Out: the text that
//! Arrow casts to the type, or no value. Each cell is read by itself, so no person's cell changes
//! how another one is read.
//!
//! ```text
//! BIGINT     5.0 → 5      1e+05 → 100000      2.5 → no value
//! BOOLEAN    1.0 → 1      yes, T, TRUE, on: as Arrow and PostgreSQL read them
//! DOUBLE     with decimal ',':            3,5 → 3.5            1.234,5 → no value
//! DATE       with date_format '%d.%m.%Y': 31.12.2024 → 2024-12-31
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use chrono::{Datelike, NaiveDate};

use crate::error::Error;
use crate::functions::with_seconds;

/// The option that names the text of missing values.
pub(super) const NULL_VALUE: &str = "null_value";

/// The option that names the decimal separator.
pub(super) const DECIMAL: &str = "decimal";

/// The option that says how dates are written.
pub(super) const DATE_FORMAT: &str = "date_format";

/// Words that writers use for a missing value.
pub(super) const MISSING: [&str; 13] =
    ["NA", "N/A", "n/a", "na", "NULL", "null", "NaN", "nan", "None", r"\N", "#N/A", ".", "-"];

/// The most digits of a whole number that is written with an exponent. A BIGINT has 19, and a
/// DECIMAL 38.
const MOST_DIGITS: usize = 40;

/// How the cells of a table's text files are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CellFormat {
    /// The text that stands for NULL, besides an empty cell.
    null: Option<Arc<str>>,
    /// Whether numbers have a decimal comma.
    decimal_comma: bool,
    /// How dates are written. `None` for ISO 8601.
    date: Option<DateFormat>,
}

impl CellFormat {
    /// Whether numbers have a decimal comma.
    pub(super) fn has_decimal_comma(&self) -> bool {
        self.decimal_comma
    }

    /// The format that the options of a table say.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a value that cannot be meant.
    pub(super) fn of_options(options: &BTreeMap<String, String>) -> Result<Self, Error> {
        let null = match options.get(NULL_VALUE).map(|text| text.trim_ascii()) {
            Some(text) if text.chars().any(char::is_control) => {
                return Err(Error::catalog("null_value is a text without line breaks, as in 'NA'"));
            }
            null => null.filter(|text| !text.is_empty()).map(Arc::from),
        };
        let decimal_comma = match options.get(DECIMAL).map(String::as_str) {
            None | Some(".") => false,
            Some(",") => true,
            Some(_) => return Err(Error::catalog("decimal is ',' or '.'")),
        };
        let date = options.get(DATE_FORMAT).map(|written| DateFormat::new(written)).transpose()?;
        Ok(Self { null, decimal_comma, date })
    }

    /// The text of a cell as a file with a decimal point and ISO dates would have it, so that types
    /// can be inferred. A text that only such a file would read as a number or a date is marked, so
    /// that it is not taken for one.
    pub(super) fn usual<'a>(&self, cell: &'a str) -> Cow<'a, str> {
        let trimmed = cell.trim_ascii();
        if self.is_null(trimmed) {
            return Cow::Borrowed("");
        }
        if let Some(date) = &self.date {
            if let Some(text) = date.iso(trimmed) {
                return Cow::Owned(with_seconds(&text).into_owned());
            }
            if trimmed.as_bytes().iter().take(4).all(u8::is_ascii_digit) && trimmed.contains('-') {
                return Cow::Owned(format!("'{cell}"));
            }
        }
        match self.decimal_comma.then(|| with_point(trimmed)) {
            Some(Some(text)) if text.parse::<f64>().is_ok() => text,
            Some(None) => Cow::Owned(format!("'{cell}")),
            Some(Some(_)) | None => Cow::Borrowed(cell),
        }
    }

    fn is_null(&self, trimmed: &str) -> bool {
        self.null.as_deref() == Some(trimmed)
    }
}

/// How the cells of one column are read before Arrow casts them.
#[derive(Debug, Clone)]
pub(super) struct CellReader {
    kind: CellKind,
    null: Option<Arc<str>>,
}

/// How to read the cells of a column before they are converted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CellKind {
    /// Unchanged.
    Text,
    /// Without blanks at both ends.
    Plain,
    /// Without blanks, and with a decimal point for a decimal comma.
    WithComma,
    /// Without blanks, and a whole number without its fraction of zeros or its exponent: some
    /// programs write 5 as `5.0` if other values are missing, and 100000 as `1e+05`.
    Whole {
        /// Whether a comma stands before the fraction.
        comma: bool,
    },
    /// Without blanks, and with seconds if the moment ends with its minutes.
    Moment,
    /// Without blanks, with the date as the owner's format has it, and with seconds.
    Formatted(DateFormat),
}

/// What a cell holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadCell<'a> {
    /// Nothing.
    Null,
    /// A text that Arrow casts, and that may still not fit.
    Text(Cow<'a, str>),
    /// A text that is no value of the column's type.
    Unfit,
}

impl CellReader {
    /// The reader of a column.
    pub(super) fn new(data_type: &DataType, format: &CellFormat) -> Self {
        let comma = format.decimal_comma;
        let kind = match data_type {
            text if text.is_string() => CellKind::Text,
            DataType::Timestamp(..) | DataType::Date32 => match &format.date {
                Some(date) => CellKind::Formatted(date.clone()),
                None => CellKind::Moment,
            },
            DataType::Boolean | DataType::Decimal128(_, 0) => CellKind::Whole { comma },
            whole if whole.is_integer() => CellKind::Whole { comma },
            number if number.is_numeric() && comma => CellKind::WithComma,
            _ => CellKind::Plain,
        };
        Self { kind, null: format.null.clone() }
    }

    /// What a cell holds.
    ///
    /// # Guarantee
    /// It depends on this cell alone.
    pub(super) fn read<'a>(&self, cell: &'a str) -> ReadCell<'a> {
        if self.null.is_none() && self.kind == CellKind::Text {
            return ReadCell::Text(Cow::Borrowed(cell));
        }
        let trimmed = cell.trim_ascii();
        if self.null.as_deref().is_some_and(|null| null == trimmed) {
            return ReadCell::Null;
        }
        if trimmed.is_empty() && self.kind != CellKind::Text {
            return ReadCell::Null;
        }
        let text = match &self.kind {
            CellKind::Text => Some(Cow::Borrowed(cell)),
            CellKind::Plain => Some(Cow::Borrowed(trimmed)),
            CellKind::WithComma => with_point(trimmed),
            CellKind::Whole { comma: false } => Some(whole(trimmed)),
            CellKind::Whole { comma: true } => {
                with_point(trimmed).map(|text| Cow::Owned(whole(&text).into_owned()))
            }
            CellKind::Moment => Some(with_seconds(trimmed)),
            CellKind::Formatted(date) => {
                date.iso(trimmed).map(|text| Cow::Owned(with_seconds(&text).into_owned()))
            }
        };
        text.map_or(ReadCell::Unfit, ReadCell::Text)
    }
}

/// A number with a decimal point for its comma. `None` for a text with a point: that may separate
/// thousands.
fn with_point(cell: &str) -> Option<Cow<'_, str>> {
    if cell.contains('.') {
        return None;
    }
    Some(match cell.contains(',') {
        true => Cow::Owned(cell.replacen(',', ".", 1)),
        false => Cow::Borrowed(cell),
    })
}

/// A whole number without its fraction of zeros and its exponent; any other text unchanged.
fn whole(cell: &str) -> Cow<'_, str> {
    if !cell.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return Cow::Borrowed(cell);
    }
    match cell.split_once(['e', 'E']) {
        None => Cow::Borrowed(without_zeros(cell)),
        Some((mantissa, exponent)) => match shifted(mantissa, exponent) {
            Some(whole) => Cow::Owned(whole),
            None => Cow::Borrowed(cell),
        },
    }
}

/// A whole number without its fraction of zeros; any other text unchanged.
fn without_zeros(cell: &str) -> &str {
    match cell.split_once('.') {
        Some((whole, zeros))
            if whole.ends_with(|digit: char| digit.is_ascii_digit())
                && zeros.bytes().all(|digit| digit == b'0') =>
        {
            whole
        }
        Some(_) | None => cell,
    }
}

/// The whole number that a mantissa and an exponent of ten make; `None` if it is not whole, or has
/// very many digits.
fn shifted(mantissa: &str, exponent: &str) -> Option<String> {
    let (sign, digits) = match mantissa.strip_prefix(['-', '+']) {
        Some(digits) => (mantissa.starts_with('-'), digits),
        None => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let exponent: i32 = exponent.parse().ok()?;
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let all = [whole, fraction].concat();
    let end = i64::try_from(whole.len()).ok()?.checked_add(i64::from(exponent))?;
    let end = usize::try_from(end.max(0)).ok()?;
    if end > MOST_DIGITS {
        return None;
    }
    let (kept, cut) = all.split_at_checked(end).unwrap_or((&all, ""));
    let is_whole = cut.bytes().all(|digit| digit == b'0');
    is_whole.then(|| {
        format!("{}{kept:0<end$}{}", if sign { "-" } else { "" }, if end == 0 { "0" } else { "" })
    })
}

/// How the dates of a file are written, as in `%d.%m.%Y`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DateFormat(Arc<str>);

impl DateFormat {
    /// A format with a day, a month and a year, in any order.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a format that no date has.
    pub(super) fn new(written: &str) -> Result<Self, Error> {
        let (mut day, mut month, mut year) = (0, 0, 0);
        for item in StrftimeItems::new(written) {
            match item {
                Item::Numeric(Numeric::Day, _) => day += 1,
                Item::Numeric(Numeric::Month, _)
                | Item::Fixed(Fixed::ShortMonthName | Fixed::LongMonthName) => month += 1,
                Item::Numeric(Numeric::Year, _) => year += 1,
                Item::Literal(_) | Item::Space(_) => {}
                _ => return Err(no_date(written)),
            }
        }
        match (day, month, year) {
            (1, 1, 1) => Ok(Self(Arc::from(written))),
            _ => Err(no_date(written)),
        }
    }

    /// The date in ISO 8601, and what follows it: a time, and maybe a zone. `None` if the text does
    /// not begin with a date, or its year has not four digits.
    pub(super) fn iso(&self, text: &str) -> Option<String> {
        let (date, rest) = NaiveDate::parse_and_remainder(text, &self.0).ok()?;
        // A time follows a blank or a T.
        let is_apart = rest.is_empty() || rest.starts_with([' ', 'T', 't']);
        let year = date.year();
        (is_apart && (1000..=9999).contains(&year))
            .then(|| format!("{year:04}-{:02}-{:02}{rest}", date.month(), date.day()))
    }
}

fn no_date(written: &str) -> Error {
    Error::catalog(format!(
        "no date has the format '{written}': date_format has %d, %m (or %b, %B) and %Y once each, as in '%d.%m.%Y'; a time may follow the date"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(written: &[(&str, &str)]) -> BTreeMap<String, String> {
        written.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn reader(data_type: &DataType, written: &[(&str, &str)]) -> CellReader {
        CellReader::new(data_type, &CellFormat::of_options(&options(written)).unwrap())
    }

    #[track_caller]
    fn reads(data_type: &DataType, written: &[(&str, &str)], cells: &[(&str, Option<&str>)]) {
        let reader = reader(data_type, written);
        for (cell, expected) in cells {
            let found = match reader.read(cell) {
                ReadCell::Text(text) => Some(text.into_owned()),
                ReadCell::Null => Some("NULL".to_owned()),
                ReadCell::Unfit => None,
            };
            assert_eq!(found.as_deref(), *expected, "{data_type} {written:?} {cell}");
        }
    }

    /// R writes 100000 as `1e+05`. The value is exact, or the cell stays as it is and does not fit.
    #[test]
    fn exponents_of_whole_numbers_are_exact() {
        let same = |cell: &'static str| (cell, Some(cell));
        reads(
            &DataType::Int64,
            &[],
            &[
                ("1e+05", Some("100000")),
                ("-1E5", Some("-100000")),
                ("2.5e3", Some("2500")),
                ("+1.0e0", Some("1")),
                ("10e-1", Some("1")),
                ("0e0", Some("0")),
                ("0.0e-2", Some("0")),
                (" 9.223372036854775807e18 ", Some("9223372036854775807")),
                ("5.0", Some("5")),
                ("5.", Some("5")),
                ("", Some("NULL")),
                same("25e-1"),
                same("1e-1"),
                same(".5e1"),
                same("1e"),
                same("e5"),
                same("1e5e5"),
                same("1e400"),
                same("1e99999999999"),
                same("0x1e5"),
                same("1.2.3e4"),
                same("5.01"),
                same("true"),
            ],
        );
    }

    #[test]
    fn a_truth_value_may_be_a_number_with_zeros() {
        reads(
            &DataType::Boolean,
            &[],
            &[
                ("1.0", Some("1")),
                ("0.00", Some("0")),
                (" TRUE ", Some("TRUE")),
                ("yes", Some("yes")),
            ],
        );
    }

    /// A point may separate thousands, so a number with one is not guessed.
    #[test]
    fn a_decimal_comma_excludes_points() {
        let comma = [(DECIMAL, ",")];
        reads(
            &DataType::Float64,
            &comma,
            &[
                ("3,5", Some("3.5")),
                ("-1,5e3", Some("-1.5e3")),
                ("4", Some("4")),
                ("1.234", None),
                ("1.234,5", None),
            ],
        );
        reads(&DataType::Int64, &comma, &[("3,0", Some("3")), ("1e2", Some("100")), ("3.0", None)]);
        reads(&DataType::Decimal128(9, 2), &comma, &[("3,50", Some("3.50")), ("3.50", None)]);
        reads(&DataType::Utf8View, &comma, &[("3,5", Some("3,5")), ("1.234", Some("1.234"))]);
    }

    #[test]
    fn a_null_value_is_null_in_all_columns() {
        let na = [(NULL_VALUE, "NA")];
        for data_type in [DataType::Int64, DataType::Utf8View, DataType::Date32, DataType::Boolean]
        {
            reads(&data_type, &na, &[("NA", Some("NULL")), (" NA ", Some("NULL"))]);
        }
        reads(&DataType::Utf8View, &na, &[("na", Some("na")), ("NAN", Some("NAN"))]);
    }

    /// With a format, no other one is guessed: 2024-01-02 would be the first of February under
    /// `%Y-%d-%m`.
    #[test]
    fn dates_have_the_owners_format() {
        reads(
            &DataType::Date32,
            &[(DATE_FORMAT, "%d.%m.%Y")],
            &[
                ("31.12.2024", Some("2024-12-31")),
                (" 1.2.2024 ", Some("2024-02-01")),
                ("31.12.2024 10:30", Some("2024-12-31 10:30:00")),
                ("31.12.2024T10:30:05", Some("2024-12-31T10:30:05")),
                ("31.12.24", None),
                ("30.02.2024", None),
                ("31.12.20245", None),
                ("2024-12-31", None),
                ("31.12.2024x", None),
                ("ä", None),
                ("", Some("NULL")),
            ],
        );
        reads(
            &DataType::Date32,
            &[(DATE_FORMAT, "%Y-%d-%m")],
            &[("2024-01-02", Some("2024-02-01")), ("2024-01-13", None)],
        );
        reads(
            &DataType::Date32,
            &[(DATE_FORMAT, "%d-%b-%Y")],
            &[("05-Jan-2024", Some("2024-01-05"))],
        );
        for written in [
            "",
            "%d.%m",
            "%d.%m.%y",
            "%H:%M",
            "%Q",
            "%d.%m.%Y %H",
            "%d.%d.%m.%Y",
            "%",
            "dd.mm.yyyy",
        ] {
            assert!(DateFormat::new(written).is_err(), "{written}");
        }
    }

    #[test]
    fn other_options_are_refused() {
        for (key, value) in
            [(DECIMAL, ";"), (DECIMAL, ""), (NULL_VALUE, "a\nb"), (DATE_FORMAT, "%j")]
        {
            assert!(CellFormat::of_options(&options(&[(key, value)])).is_err(), "{key} {value}");
        }
    }
}
