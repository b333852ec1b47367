//! What the cells of a column that do not fit its type have in common: a wider type that reads them
//! all, or one word for a missing value.
//!
//! In: the cells of a column that its type cannot hold, one after the other. Out: their number, the
//! first one, and what their owner may declare so that all cells of the column are read.
//!
//! ```text
//! BIGINT     2.5, 1e3.5, -7.25          declare DOUBLE
//! INT        3000000000                 declare BIGINT
//! BIGINT     NA, NA, NA                 OPTIONS ('null_value' 'NA')
//! BIGINT     A7                         declare VARCHAR
//! ```
//!
//! A column without a declared type has one from the first rows, so this is where an owner learns
//! what later rows contradict.

use arrow::array::{Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;

use super::cell_reader::{
    CellFormat, CellReader, DATE_FORMAT, DECIMAL, MISSING, NULL_VALUE, ReadCell,
};
use crate::sql_type::sql_type;

/// The most digits of a decimal.
const MOST_DIGITS: u8 = 38;

/// A cell that does not fit the type of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnfitCell {
    /// Its line in a text file, or its row in another file. The first one is 1.
    pub(super) line: u64,
    /// `line` or `row`.
    pub(super) place: &'static str,
    pub(super) text: String,
}

/// Counts of the cells of one column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CellCounts {
    /// The cells with a value.
    pub(super) valid: u64,
    /// The cells with a text that does not fit the type. Each of them is NULL.
    pub(super) unfit: u64,
    /// The first one of those.
    pub(super) first: Option<UnfitCell>,
    /// What reads all of them. `None` before the first, and in files that are not text.
    fitting: Option<Fitting>,
    /// The cells of text files of which the type holds a part: a date without its time of day, a
    /// number without its last digits.
    pub(super) cut: u64,
    /// The first one of those.
    pub(super) first_cut: Option<UnfitCell>,
    /// The most digits behind the point of a number that is cut.
    places: usize,
}

/// What reads all cells that do not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fitting {
    /// The types that read them, the narrowest first.
    types: Vec<DataType>,
    /// The word for a missing value that all of them are.
    missing: Option<&'static str>,
    /// True if the options of the table name a decimal comma.
    has_comma: bool,
}

impl CellCounts {
    /// Counts a cell that does not fit.
    pub(super) fn unfit(&mut self, line: u64, place: &'static str, text: &str) {
        self.unfit = self.unfit.saturating_add(1);
        // A cell of this batch that its cast loses may stand before this one.
        if self.first.as_ref().is_none_or(|first| line < first.line) {
            self.first = Some(UnfitCell { line, place, text: text.to_owned() });
        }
    }

    /// Counts a cell of a text file that its type holds, if it holds only a part of it.
    pub(super) fn fit(
        &mut self,
        data_type: &DataType,
        (line, place): (u64, &'static str),
        text: &str,
    ) {
        let is_cut = match data_type {
            DataType::Date32 => has_time(text),
            DataType::Decimal128(_, scale) => {
                let most = usize::try_from(*scale).unwrap_or_default();
                let places = places(text);
                self.places = self.places.max(places);
                places > most
            }
            _ => false,
        };
        if is_cut {
            self.cut = self.cut.saturating_add(1);
            if self.first_cut.as_ref().is_none_or(|first| line < first.line) {
                self.first_cut = Some(UnfitCell { line, place, text: text.to_owned() });
            }
        }
    }

    /// What the owner declares so that nothing of these cells is left out.
    pub(super) fn advice_for_cut(&self, data_type: &DataType) -> String {
        match data_type {
            DataType::Decimal128(precision, scale) => {
                let before =
                    usize::from(*precision).saturating_sub(usize::from(scale.unsigned_abs()));
                let digits = before.saturating_add(self.places);
                match digits <= usize::from(MOST_DIGITS) {
                    true => format!("declare DECIMAL({digits}, {})", self.places),
                    false => "declare DOUBLE".to_owned(),
                }
            }
            _ => "declare TIMESTAMP".to_owned(),
        }
    }

    /// Leaves out the types that do not read a cell of a text file.
    pub(super) fn narrow(&mut self, data_type: &DataType, format: &CellFormat, text: &str) {
        let fitting = self.fitting.get_or_insert_with(|| Fitting {
            types: wider(data_type),
            missing: MISSING.into_iter().find(|word| *word == text.trim_ascii()),
            has_comma: format.has_decimal_comma(),
        });
        fitting.missing = fitting.missing.filter(|word| *word == text.trim_ascii());
        fitting.types.retain(|to| reads(text, to, format));
    }

    /// Adds the counts of the same column in another file.
    pub(super) fn add(&mut self, other: Self) {
        self.valid = self.valid.saturating_add(other.valid);
        self.unfit = self.unfit.saturating_add(other.unfit);
        if self.first.is_none() {
            self.first = other.first;
        }
        self.cut = self.cut.saturating_add(other.cut);
        self.places = self.places.max(other.places);
        if self.first_cut.is_none() {
            self.first_cut = other.first_cut;
        }
        match (&mut self.fitting, other.fitting) {
            (Some(own), Some(other)) => {
                own.types.retain(|to| other.types.contains(to));
                own.missing = own.missing.filter(|word| other.missing == Some(*word));
            }
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }

    /// What the owner writes so that the cells are read; empty for a file that is not text. JSON
    /// files have no options for cells.
    pub(super) fn advice(&self, data_type: &DataType, is_json: bool) -> String {
        let Some(Fitting { types, missing, has_comma }) = &self.fitting else {
            return String::new();
        };
        if let Some(word) = missing.as_ref().filter(|_| !is_json) {
            return format!(": OPTIONS ('{NULL_VALUE}' '{word}') reads them as missing values");
        }
        if let Some(to) = types.first() {
            return format!(": declare {}, which reads them all", sql_type(to));
        }
        let option = match data_type {
            _ if is_json => String::new(),
            DataType::Date32 | DataType::Timestamp(..) => {
                format!(", or OPTIONS ('{DATE_FORMAT}' …)")
            }
            number if number.is_numeric() && !has_comma => {
                format!(", or OPTIONS ('{NULL_VALUE}' …) or ('{DECIMAL}' ',')")
            }
            _ => format!(", or OPTIONS ('{NULL_VALUE}' …)"),
        };
        format!(": declare VARCHAR{option}")
    }
}

/// Whether a date has a time of day that is not midnight, or a zone, in which it may be another
/// day.
fn has_time(text: &str) -> bool {
    let behind = text.split_once([' ', 'T', 't']).map_or("", |(_, behind)| behind);
    behind.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// The number of digits behind the point that a number has, without zeros at its end.
fn places(number: &str) -> usize {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let Ok(exponent) = exponent.parse::<i64>() else { return 0 };
    let digits = whole.bytes().chain(fraction.bytes());
    let last = (1_i64..).zip(digits).filter(|(_, digit)| matches!(digit, b'1'..=b'9')).last();
    let Some((place, _)) = last else { return 0 };
    let whole = i64::try_from(whole.len()).unwrap_or_default();
    let places = place.saturating_sub(whole).saturating_sub(exponent);
    usize::try_from(places).unwrap_or_default()
}

/// The types that hold all values of a type, and more.
fn wider(data_type: &DataType) -> Vec<DataType> {
    let whole = DataType::Decimal128(MOST_DIGITS, 0);
    match data_type {
        DataType::Int64 | DataType::UInt64 => vec![whole, DataType::Float64],
        whole_number if whole_number.is_integer() => {
            vec![DataType::Int64, whole, DataType::Float64]
        }
        DataType::Decimal128(digits, places) if *digits < MOST_DIGITS => {
            vec![DataType::Decimal128(MOST_DIGITS, *places), DataType::Float64]
        }
        DataType::Decimal128(..) => vec![DataType::Float64],
        _ => Vec::new(),
    }
}

/// Whether a cell is a value of a type, exactly.
fn reads(cell: &str, to: &DataType, format: &CellFormat) -> bool {
    let reader = CellReader::new(to, format);
    let ReadCell::Text(text) = reader.read(cell) else { return false };
    let is_exact = match to {
        // A cast to a decimal would round.
        DataType::Decimal128(_, places) => {
            let behind = text.split_once('.').map_or("", |(_, behind)| behind);
            behind.len() <= usize::try_from(*places).unwrap_or_default()
                && !text.contains(['e', 'E'])
        }
        DataType::Float64 => text.parse::<f64>().is_ok_and(f64::is_finite),
        _ => true,
    };
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let one = StringArray::from(vec![text.as_ref()]);
    is_exact && cast_with_options(&one, to, &lenient).is_ok_and(|value| value.is_valid(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::datatypes::TimeUnit;

    use super::*;

    fn advice(data_type: &DataType, cells: &[&str]) -> String {
        let mut counts = CellCounts::default();
        for (line, cell) in (1..).zip(cells) {
            counts.unfit(line, "line", cell);
            counts.narrow(data_type, &CellFormat::default(), cell);
        }
        assert_eq!(counts.unfit, cells.len() as u64);
        counts.advice(data_type, false)
    }

    /// An option that the table has is not proposed.
    #[test]
    fn a_decimal_comma_is_proposed_once() {
        let options = BTreeMap::from([(DECIMAL.to_owned(), ",".to_owned())]);
        for (format, proposes) in
            [(CellFormat::default(), true), (CellFormat::of_options(&options).unwrap(), false)]
        {
            let mut counts = CellCounts::default();
            counts.unfit(1, "line", "A7");
            counts.narrow(&DataType::Float64, &format, "A7");
            let found = counts.advice(&DataType::Float64, false);
            assert_eq!(found.contains("decimal"), proposes, "{found}");
            assert!(found.contains("null_value"), "{found}");
        }
    }

    #[test]
    fn the_narrowest_type_that_reads_all_cells_is_named() {
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (data_type, cells, expected) in [
            (DataType::Int64, &["2.5", " -1e-3 "][..], ": declare DOUBLE, which"),
            (DataType::Int64, &["9223372036854775808"], ": declare DECIMAL(38, 0), which"),
            (DataType::Int64, &["9223372036854775808", "2.5"], ": declare DOUBLE, which"),
            (DataType::Int64, &["2.5", "9223372036854775808"], ": declare DOUBLE, which"),
            (DataType::Int32, &["3000000000"], ": declare BIGINT, which"),
            (DataType::Int32, &["3e9", "1e30"], ": declare DECIMAL(38, 0), which"),
            (DataType::Int64, &["2.5", "A7"], ": declare VARCHAR, or OPTIONS ('null_value' …)"),
            (DataType::Int64, &["NaN", "2.5"], ": declare VARCHAR, or"),
            (DataType::Int64, &["NA", " NA"], ": OPTIONS ('null_value' 'NA') reads"),
            (DataType::Int64, &["NA", "."], ": declare VARCHAR, or"),
            (DataType::Decimal128(4, 2), &["12345.67"], ": declare DECIMAL(38, 2), which"),
            (DataType::Decimal128(4, 2), &["12345.678"], ": declare DOUBLE, which"),
            (DataType::Date32, &["31.12.1990"], ": declare VARCHAR, or OPTIONS ('date_format' …)"),
            (DataType::Boolean, &["2"], ": declare VARCHAR, or OPTIONS ('null_value' …)"),
            (moment, &["soon"], ": declare VARCHAR, or OPTIONS ('date_format' …)"),
        ] {
            let found = advice(&data_type, cells);
            assert!(found.starts_with(expected), "{data_type} {cells:?}: {found}");
        }
    }

    /// A midnight is no time of day, and zeros are no digits.
    #[test]
    fn parts_of_cells_that_types_leave_out_are_counted() {
        let cut = |data_type: &DataType, cell: &str| {
            let mut counts = CellCounts::default();
            counts.fit(data_type, (3, "line"), cell);
            (counts.cut == 1).then(|| counts.advice_for_cut(data_type))
        };
        for cell in ["2024-01-05", "2024-01-05 00:00:00", "2024-01-05T00:00:00.000Z"] {
            assert_eq!(cut(&DataType::Date32, cell), None, "{cell}");
        }
        for cell in ["2024-01-05 10:30:00", "2024-01-05T00:00:00.5", "2024-01-05 00:00:00+02:00"] {
            let advice = cut(&DataType::Date32, cell);
            assert_eq!(advice.as_deref(), Some("declare TIMESTAMP"), "{cell}");
        }
        let money = DataType::Decimal128(9, 2);
        for cell in ["1.25", "-1.250", "1e-2", "1.5e3", "125e-2", "0.00e-9", "7", ".5"] {
            assert_eq!(cut(&money, cell), None, "{cell}");
        }
        for (cell, expected) in [
            ("1.255", "declare DECIMAL(10, 3)"),
            ("-0.0001", "declare DECIMAL(11, 4)"),
            ("1e-3", "declare DECIMAL(10, 3)"),
            ("1.2345e1", "declare DECIMAL(10, 3)"),
            ("1e-40", "declare DOUBLE"),
        ] {
            assert_eq!(cut(&money, cell).as_deref(), Some(expected), "{cell}");
        }
    }

    /// What one file's cells need is not enough for another's.
    #[test]
    fn files_are_read_by_one_type() {
        let of = |cell: &str| {
            let mut counts = CellCounts::default();
            counts.unfit(3, "line", cell);
            counts.narrow(&DataType::Int64, &CellFormat::default(), cell);
            counts
        };
        let mut all = CellCounts::default();
        for (cell, expected) in [
            ("18446744073709551616", ": declare DECIMAL(38, 0), which"),
            ("0.5", ": declare DOUBLE, which"),
            ("NA", ": declare VARCHAR, or"),
        ] {
            all.add(of(cell));
            assert!(all.advice(&DataType::Int64, false).starts_with(expected), "{cell}");
        }
        assert_eq!((all.unfit, all.first.map(|first| first.line)), (3, Some(3)));
    }
}
