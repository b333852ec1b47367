//! `strftime(x, '%Y-%m')`, `date_format`, and `to_char(x, 'YYYY-MM')`: a moment as a text.
//!
//! In: dates, or timestamps without a time zone, and a literal format, in the notation of
//! `strftime` or, for `to_char` without a percent sign, in that of PostgreSQL. Out: texts. The
//! functions never fail: a format that could fail is refused while the query is planned, and a
//! moment outside of the calendar becomes NULL.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use chrono::{DateTime, NaiveDateTime};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::moments::{Moments, is_local_moment};

/// The most bytes of a format.
const LONGEST: usize = 100;

static LABELS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
    ["strftime", "date_format", "to_char"].map(|name| Arc::new(ScalarUDF::from(Label::new(name))))
});

/// The functions that write moments as texts, for the planner.
pub fn date_label_functions() -> &'static [Arc<ScalarUDF>] {
    LABELS.as_slice()
}

/// Whether a function is one of [`date_label_functions`] and not another of the same name.
pub fn is_date_label(function: &ScalarUDF) -> bool {
    LABELS.iter().any(|label| **label == *function)
}

/// How moments are written.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelFormat {
    items: Vec<Item<'static>>,
    /// How names of months and days are written, in the order of their items. Empty if all are
    /// written as they are.
    styles: Vec<NameStyle>,
}

/// The letters in which a name is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LetterCase {
    First,
    Upper,
    Lower,
}

/// How the name of a month or of a day is written.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NameStyle {
    case: LetterCase,
    /// The characters that it fills, with spaces behind it.
    width: usize,
}

impl NameStyle {
    fn write(self, name: &str) -> String {
        let name = match self.case {
            LetterCase::First => name.to_owned(),
            LetterCase::Upper => name.to_uppercase(),
            LetterCase::Lower => name.to_lowercase(),
        };
        format!("{name:<width$}", width = self.width)
    }
}

/// Whether an item is the name of a month or of a day.
fn is_name(item: &Item<'_>) -> bool {
    matches!(
        item,
        Item::Fixed(
            Fixed::ShortMonthName
                | Fixed::LongMonthName
                | Fixed::ShortWeekdayName
                | Fixed::LongWeekdayName
        )
    )
}

/// A period of the calendar or the clock, the longest first. A label has the shortest period on
/// which it depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finest {
    /// A year.
    Year,
    /// Three months.
    Quarter,
    /// A month.
    Month,
    /// A week that begins on Monday.
    Week,
    /// A day.
    Day,
    /// An hour.
    Hour,
    /// A minute.
    Minute,
    /// A second or a part of one.
    Second,
}

impl LabelFormat {
    /// The format of a call of one of [`date_label_functions`] by this name.
    ///
    /// `None` for formats that write no part of a moment, or have parts that are unknown or could
    /// fail.
    pub fn parse(function: &str, format: &ScalarValue) -> Option<Self> {
        let format = format.try_as_str().flatten().filter(|format| format.len() <= LONGEST)?;
        let (format, styles) = match function == "to_char" && !format.contains('%') {
            true => from_postgresql(format)?,
            false => (format.to_owned(), Vec::new()),
        };
        let items = StrftimeItems::new(&format).parse_to_owned().ok()?;
        let mut parts = 0;
        for item in &items {
            parts += usize::from(part_of(item)?.is_some());
        }
        (parts > 0).then_some(Self { items, styles })
    }

    /// The shortest part of time on which its labels depend.
    pub fn finest(&self) -> Finest {
        let parts = self.items.iter().filter_map(|item| part_of(item).flatten());
        parts.map(|part| part.0).max().unwrap_or(Finest::Second)
    }

    /// Whether two years of the same length that begin on the same weekday have the same labels.
    pub fn is_cyclic(&self) -> bool {
        self.items.iter().filter_map(|item| part_of(item).flatten()).all(|part| part.1)
    }

    /// Whether its labels depend on the day.
    pub fn has_days(&self) -> bool {
        let is_day = |part: (Finest, bool)| part.0 <= Finest::Day;
        self.items.iter().filter_map(|item| part_of(item).flatten()).any(is_day)
    }

    /// The label of each moment.
    ///
    /// # Errors
    /// For types other than dates and timestamps.
    pub fn labels(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let Moments { a_day, ticks } = Moments::from_array(array)?;
        let mut labels = StringBuilder::with_capacity(ticks.len(), ticks.len() * 8);
        let second = |tick: i64| -> Option<NaiveDateTime> {
            let second = i128::from(tick) * 86_400;
            let second = i64::try_from(second.div_euclid(i128::from(a_day))).ok()?;
            Some(DateTime::from_timestamp(second, 0)?.naive_utc())
        };
        for tick in &ticks {
            match tick.and_then(second) {
                Some(moment) => {
                    self.write(&mut labels, moment)?;
                    labels.append_value("");
                }
                None => labels.append_null(),
            }
        }
        Ok(Arc::new(labels.finish()))
    }
}

impl LabelFormat {
    fn write(&self, label: &mut impl Write, moment: NaiveDateTime) -> std::fmt::Result {
        if self.styles.is_empty() {
            return write!(label, "{}", moment.format_with_items(self.items.iter()));
        }
        let mut styles = self.styles.iter();
        for item in &self.items {
            let written = moment.format_with_items(std::iter::once(item));
            match is_name(item).then(|| styles.next()).flatten() {
                Some(style) => label.write_str(&style.write(&written.to_string()))?,
                None => write!(label, "{written}")?,
            }
        }
        Ok(())
    }
}

/// The part of a moment that an item writes, and whether it is the same in all years of equal form.
/// `Some(None)` for fixed text; `None` for an item that is unknown or could fail.
fn part_of(item: &Item<'_>) -> Option<Option<(Finest, bool)>> {
    Some(Some(match item {
        Item::Literal(_) | Item::OwnedLiteral(_) | Item::Space(_) | Item::OwnedSpace(_) => {
            return Some(None);
        }
        Item::Numeric(numeric, _) => match numeric {
            Numeric::Year | Numeric::YearDiv100 | Numeric::YearMod100 => (Finest::Year, false),
            Numeric::IsoYear | Numeric::IsoYearDiv100 | Numeric::IsoYearMod100 => {
                (Finest::Day, false)
            }
            Numeric::Quarter => (Finest::Quarter, true),
            Numeric::Month => (Finest::Month, true),
            Numeric::Day
            | Numeric::WeekFromSun
            | Numeric::WeekFromMon
            | Numeric::IsoWeek
            | Numeric::NumDaysFromSun
            | Numeric::WeekdayFromMon
            | Numeric::Ordinal => (Finest::Day, true),
            Numeric::Hour | Numeric::Hour12 => (Finest::Hour, true),
            Numeric::Minute => (Finest::Minute, true),
            Numeric::Second => (Finest::Second, true),
            _ => return None,
        },
        Item::Fixed(fixed) => match fixed {
            Fixed::ShortMonthName | Fixed::LongMonthName => (Finest::Month, true),
            Fixed::ShortWeekdayName | Fixed::LongWeekdayName => (Finest::Day, true),
            Fixed::LowerAmPm | Fixed::UpperAmPm => (Finest::Hour, true),
            _ => return None,
        },
        Item::Error => return None,
    }))
}

/// The name that a format of PostgreSQL begins with: what it covers, its part and its style.
/// Without FM or TM, the names of months and days fill nine characters.
fn name_pattern(rest: &str) -> Option<(usize, &'static str, NameStyle)> {
    const PATTERNS: [(&str, &str, usize); 4] =
        [("Month", "%B", 9), ("Mon", "%b", 0), ("Day", "%A", 9), ("Dy", "%a", 0)];
    // TM translates the names. They are English, and it adds no spaces.
    let after_fill = ["FM", "fm", "TM"].iter().find_map(|mark| rest.strip_prefix(mark));
    let after_fill = after_fill.unwrap_or(rest);
    PATTERNS.iter().find_map(|(pattern, part, width)| {
        let written = after_fill.get(..pattern.len())?;
        let case = match written {
            _ if written == *pattern => LetterCase::First,
            _ if written == pattern.to_uppercase() => LetterCase::Upper,
            _ if written == pattern.to_lowercase() => LetterCase::Lower,
            _ => return None,
        };
        let fill = rest.len() - after_fill.len();
        let width = if fill > 0 { 0 } else { *width };
        Some((fill + pattern.len(), *part, NameStyle { case, width }))
    })
}

/// The number that a format of PostgreSQL begins with: what it covers, and the same for `strftime`.
/// It is written in capitals or in small letters; FM leaves out its zeros.
fn number_pattern(rest: &str) -> Option<(usize, String)> {
    // Longer patterns come first.
    const PATTERNS: [(&str, char); 15] = [
        ("YYYY", 'Y'),
        ("IYYY", 'G'),
        ("HH24", 'H'),
        ("HH12", 'I'),
        ("DDD", 'j'),
        ("YY", 'y'),
        ("MM", 'm'),
        ("DD", 'd'),
        ("ID", 'u'),
        ("IW", 'V'),
        ("MI", 'M'),
        ("SS", 'S'),
        ("HH", 'I'),
        ("AM", 'p'),
        ("Q", 'q'),
    ];
    let after_fill = ["FM", "fm"].iter().find_map(|mark| rest.strip_prefix(mark));
    let fill = if after_fill.is_some() { 2 } else { 0 };
    let after_fill = after_fill.unwrap_or(rest);
    let (length, part) = PATTERNS.iter().find_map(|(pattern, part)| {
        let small = pattern.to_lowercase();
        match part {
            _ if after_fill.starts_with(pattern) => Some((pattern.len(), *part)),
            'p' if after_fill.starts_with(&small) => Some((pattern.len(), 'P')),
            _ if after_fill.starts_with(&small) => Some((pattern.len(), *part)),
            _ => None,
        }
    })?;
    let is_name = part.eq_ignore_ascii_case(&'p');
    let bare = if fill > 0 && !is_name { "-" } else { "" };
    Some((fill + length, format!("%{bare}{part}")))
}

/// A format of PostgreSQL's `to_char` in the notation of `strftime`, with the styles of its names;
/// `None` for unknown patterns.
fn from_postgresql(format: &str) -> Option<(String, Vec<NameStyle>)> {
    let mut rest = format;
    let (mut made, mut styles) = (String::new(), Vec::new());
    while let Some(next) = rest.chars().next() {
        // The seconds of the day, which `strftime` cannot write.
        if rest.starts_with("SSSS") || rest.starts_with("ssss") {
            return None;
        }
        if let Some((length, part, style)) = name_pattern(rest) {
            made += part;
            styles.push(style);
            rest = rest.get(length..)?;
        } else if let Some((length, part)) = number_pattern(rest) {
            made += &part;
            rest = rest.get(length..)?;
        } else if next == '"' {
            let (quoted, after) = rest.strip_prefix('"')?.split_once('"')?;
            made += quoted;
            rest = after;
        } else if next.is_alphabetic() {
            return None;
        } else {
            made.push(next);
            rest = rest.strip_prefix(next)?;
        }
    }
    Some((made, styles))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Label {
    name: &'static str,
    signature: Signature,
}

impl Label {
    fn new(name: &'static str) -> Self {
        Self { name, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn usage(&self) -> String {
        match self.name {
            "to_char" => "to_char takes a date or a timestamp, and a literal format of YYYY, YY, Q, MM, Mon, Month, FMMonth, TMMonth, IYYY, IW, DD, DDD, Dy, Day, FMDay, HH24, HH12, MI, SS and AM: to_char(ts, 'YYYY-MM')".to_owned(),
            name => format!(
                "{name} takes a date or a timestamp, and a literal format of %Y %y %q %m %b %B %G %V %U %d %j %a %A %u %w %H %I %p %M %S: {name}(ts, '%Y-%m')"
            ),
        }
    }
}

/// The moment and the format among the arguments of a label. Some databases write the format first.
fn moment_and_format<T>(args: &[T], is_text: impl Fn(&T) -> bool) -> Option<[&T; 2]> {
    match args {
        [x, format] if is_text(format) => Some([x, format]),
        [format, x] if is_text(format) => Some([x, format]),
        _ => None,
    }
}

impl ScalarUDFImpl for Label {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match moment_and_format(arg_types, DataType::is_string) {
            Some([x, _]) if is_local_moment(x) => Ok(arg_types.to_vec()),
            _ => plan_err!("{}", self.usage()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_text = |field: &FieldRef| field.data_type().is_string();
        let place = args.arg_fields.iter().rposition(is_text);
        let format = place.and_then(|i| args.scalar_arguments.get(i).copied().flatten());
        match format.and_then(|format| LabelFormat::parse(self.name, format)) {
            Some(_) => Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true))),
            None => plan_err!("{}", self.usage()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let sorted = moment_and_format(&args.args, |arg| arg.data_type().is_string());
        let Some([x, ColumnarValue::Scalar(format)]) = sorted else {
            return exec_err!("{}", self.usage());
        };
        let Some(format) = LabelFormat::parse(self.name, format) else {
            return exec_err!("{}", self.usage());
        };
        Ok(ColumnarValue::Array(format.labels(&x.to_array(args.number_rows)?)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Date32Array, TimestampMillisecondArray};

    use super::*;

    fn parse(function: &str, format: &str) -> Option<LabelFormat> {
        LabelFormat::parse(function, &ScalarValue::Utf8(Some(format.to_owned())))
    }

    fn one(function: &str, format: &str) -> String {
        // 2025-02-03 16:05:09, a Monday.
        let moment: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_738_598_709_999]));
        let labels = parse(function, format).unwrap().labels(&moment).unwrap();
        labels.as_string::<i32>().value(0).to_owned()
    }

    #[test]
    fn moments_are_written_in_both_notations() {
        for (format, label) in [
            ("%Y-%m", "2025-02"),
            ("%d.%m.%y", "03.02.25"),
            ("%B %Y", "February 2025"),
            ("%a %H:%M:%S", "Mon 16:05:09"),
            ("%G-W%V, day %u of 7", "2025-W06, day 1 of 7"),
            ("%I %p, %j", "04 PM, 034"),
            ("Q%q", "Q1"),
            ("%F", "2025-02-03"),
            ("100%% %-d", "100% 3"),
        ] {
            assert_eq!(one("strftime", format), label, "{format}");
            assert_eq!(one("to_char", format), label, "{format}");
        }
        for (format, label) in [
            ("YYYY-MM", "2025-02"),
            ("DD.MM.YY HH24:MI:SS", "03.02.25 16:05:09"),
            ("FMMonth YYYY", "February 2025"),
            ("Dy, FMDay", "Mon, Monday"),
            ("Month|DAY|", "February |MONDAY   |"),
            ("MON dy FMday FMMONTH", "FEB mon monday FEBRUARY"),
            ("IYYY-\"W\"IW", "2025-W06"),
            ("YYYY \"quarter\" Q", "2025 quarter 1"),
            ("HH AM", "04 PM"),
            ("yyyy-mm-dd hh24:mi:ss", "2025-02-03 16:05:09"),
            ("hh am, q, iyyy-iw", "04 pm, 1, 2025-06"),
            ("FMDD.FMMM.YYYY FMMI", "3.2.2025 5"),
            ("TMMonth|TMDay|TMmon", "February|Monday|feb"),
        ] {
            assert_eq!(one("to_char", format), label, "{format}");
        }
    }

    #[test]
    fn a_format_that_could_fail_is_none() {
        for format in ["", "year", "%", "%z", "%Z", "%s", "%+", "%c %Z", "%Q", "%N", "%f", "%.3f"] {
            assert_eq!(parse("strftime", format), None, "{format}");
        }
        for format in ["", "Year", "J", "YYYY \"open", "TZ", "SSSS", "SSSSS", "a"] {
            assert_eq!(parse("to_char", format), None, "{format}");
        }
        assert_eq!(parse("strftime", &"%Y".repeat(51)), None);
        assert_eq!(LabelFormat::parse("strftime", &ScalarValue::Int64(Some(1))), None);
        assert_eq!(LabelFormat::parse("strftime", &ScalarValue::Utf8(None)), None);
    }

    #[test]
    fn what_is_outside_of_the_calendar_has_no_label() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(i32::MAX), None, Some(0)]));
        let labels = parse("strftime", "%Y").unwrap().labels(&days).unwrap();
        let labels: Vec<_> = labels.as_string::<i32>().iter().collect();
        assert_eq!(labels, [None, None, Some("1970")]);
    }

    #[test]
    fn the_finest_part_counts() {
        for (format, finest, cyclic) in [
            ("%Y", Finest::Year, false),
            ("%Y-%m", Finest::Month, false),
            ("%q", Finest::Quarter, true),
            ("%A", Finest::Day, true),
            ("%G-%V", Finest::Day, false),
            ("%b %H", Finest::Hour, true),
            ("%H:%M", Finest::Minute, true),
            ("%F %T", Finest::Second, false),
        ] {
            let format = parse("strftime", format).unwrap();
            assert_eq!((format.finest(), format.is_cyclic()), (finest, cyclic));
        }
    }
}
