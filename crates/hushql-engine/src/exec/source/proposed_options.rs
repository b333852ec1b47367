//! Options that the first rows of a CSV file suggest, for the owner who declares it.
//!
//! In: a new table of CSV files. Out: a sentence for each kind of cells that no declared or
//! inferred type reads: numbers with a decimal comma, numbers beside a word for missing values,
//! dates that are not written as in ISO 8601. It names columns and options, and no cell. Nothing is
//! changed: the owner decides.
//!
//! ```text
//! fee: 3,50 ⏎ 12,00                 OPTIONS ('decimal' ',')
//! age: 31 ⏎ NA                      OPTIONS ('null_value' 'NA')
//! born: 31.12.1990 ⏎ 05.01.1980     OPTIONS ('date_format' '%d.%m.%Y')
//! ```

use std::str::FromStr;

use arrow::datatypes::DataType;

use super::cell_reader::{CellFormat, DATE_FORMAT, DECIMAL, DateFormat, MISSING, NULL_VALUE};
use super::check::OpenFiles;
use super::csv_format::CsvFormat;
use super::external_table::members;
use super::file_columns::{Sample, shape};
use super::json_columns::{INFERRED_ROWS, JsonKeys};
use super::lenient::TextFormat;
use super::line_breaks::LineBreaks;
use super::well_formed::text_files;
use crate::catalog::{FileFormat, Source, Table, quoted};

/// The formats of dates that are proposed.
const DATES: [&str; 8] = [
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%b-%Y", "%d %b %Y",
];

/// What the first cells of a column may be.
#[derive(Debug, PartialEq, Eq)]
enum Proposal {
    /// Numbers, or this word for a missing one.
    Missing(&'static str),
    /// Numbers with a decimal comma, and maybe a word for a missing one.
    DecimalComma(Option<&'static str>),
    /// Dates in these formats, and maybe a word for a missing one.
    Dates(Vec<&'static str>, Option<&'static str>),
}

/// A sentence for each column whose cells suggest an option; empty where none does, where the owner
/// declared a text, and if the file cannot be read. Another one says which declared keys no JSON
/// object has, or that texts go over several lines. This may block.
pub(crate) fn proposed_options(table: &Table, open: &OpenFiles, is_declared: bool) -> String {
    if is_declared && let Some(missing) = missing_keys(table, open) {
        return missing;
    }
    let mut text = over_lines(table, open).unwrap_or_default();
    let Some(columns) = first_cells(table, open) else { return text };
    for (column, cells) in table.file_columns().iter().zip(columns) {
        let Ok(data_type) = DataType::from_str(&column.data_type) else { continue };
        // A declared text is a text, and an inferred type reads the cells.
        if data_type.is_string() == is_declared {
            continue;
        }
        let name = quoted(&column.name);
        text.push_str(&match proposal(&cells).filter(|found| found.is_for(&data_type)) {
            None => continue,
            Some(Proposal::Missing(word)) => format!(
                "; the cells of {name} look like numbers or {word}: OPTIONS ('{NULL_VALUE}' '{word}') reads them"
            ),
            Some(Proposal::DecimalComma(word)) => format!(
                "; the cells of {name} look like numbers with a decimal comma: OPTIONS ('{DECIMAL}' ','{}) reads them",
                and_missing(word)
            ),
            Some(Proposal::Dates(formats, word)) => {
                let both = formats.iter().map(|format| format!("'{format}'"));
                format!(
                    "; the cells of {name} look like dates: OPTIONS ('{DATE_FORMAT}' {}{}) reads them",
                    both.collect::<Vec<_>>().join(" or "),
                    and_missing(word)
                )
            }
        });
    }
    text
}

/// A sentence about declared columns that no object of JSON files has.
fn missing_keys(table: &Table, open: &OpenFiles) -> Option<String> {
    let files = text_files(table, open)?.into_iter();
    let files: Vec<_> = files.map(|(held, shape, _)| (held, shape)).collect();
    if !matches!(files.first(), Some((_, TextFormat::Json { .. }))) {
        return None;
    }
    let mut missing: Vec<&str> =
        table.file_columns().iter().map(|column| column.name.as_str()).collect();
    for most in [Some(INFERRED_ROWS), None] {
        let keys = JsonKeys::of(&files, most).ok()?;
        missing.retain(|key| !keys.has(key));
        if missing.is_empty() {
            return None;
        }
    }
    let missing: Vec<String> = missing.into_iter().map(quoted).collect();
    Some(format!("; no object has a key {}, which is NULL until one has", missing.join(" or ")))
}

/// A sentence about texts of CSV files that go over several lines.
fn over_lines(table: &Table, open: &OpenFiles) -> Option<String> {
    let Source::File { options, .. } = &table.source else { return None };
    let is_unsaid = LineBreaks::of_options(options).ok()? == LineBreaks::Unsaid;
    let goes_on = |(held, shape, _)| match shape {
        TextFormat::Csv(format) => {
            Sample::first(&held, &format).is_ok_and(|first| first.over_lines)
        }
        TextFormat::Json { .. } => false,
    };
    let found = is_unsaid && text_files(table, open)?.into_iter().any(goes_on);
    found.then(|| {
        "; texts go over several lines: UNIQUE, MAX ROWS n, ROW and SET PUBLIC read them if the whole file is well formed and its bytes are held, and otherwise a quotation ends with its line".to_owned()
    })
}

fn and_missing(word: Option<&str>) -> String {
    word.map_or_else(String::new, |word| format!(", '{NULL_VALUE}' '{word}'"))
}

/// The first cells of each column of a table of CSV files.
fn first_cells(table: &Table, open: &OpenFiles) -> Option<Vec<Vec<String>>> {
    let Source::File { format: FileFormat::Csv, location, options, files, .. } = &table.source
    else {
        return None;
    };
    let shape = shape(FileFormat::Csv, options).ok()?;
    let (held, shape) = match files {
        None => (open.held(location).ok()?, shape),
        Some(_) => {
            members(open.checked(table).ok()?.as_ref(), &shape, options).into_iter().next()?
        }
    };
    let TextFormat::Csv(format) = shape else { return None };
    let over_lines = Sample::first(&held, &format).ok()?.over_lines;
    let format = CsvFormat { over_lines, ..format };
    // The usual options read these cells.
    if format.cells != CellFormat::default() {
        return None;
    }
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); table.file_columns().len()];
    let mut lines = format.lines(held.reader()).ok()?;
    if format.header {
        lines.next().ok()?;
    }
    let mut record = csv::ByteRecord::new();
    for _ in 0..INFERRED_ROWS {
        let Some(line) = lines.next().ok()? else { break };
        if !CsvFormat::read_cells(&format, line, &mut record) || record.len() != columns.len() {
            continue;
        }
        for (column, cell) in columns.iter_mut().zip(&record) {
            let cell = String::from_utf8_lossy(cell).trim().to_owned();
            if !cell.is_empty() {
                column.push(cell);
            }
        }
    }
    Some(columns)
}

impl Proposal {
    /// Whether the option can be meant for a column of this type.
    fn is_for(&self, data_type: &DataType) -> bool {
        let is_date = matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
        data_type.is_string()
            || match self {
                Self::Missing(_) | Self::DecimalComma(_) => data_type.is_numeric(),
                Self::Dates(..) => is_date,
            }
    }
}

/// What cells may be, if they are not what the usual options read.
fn proposal(cells: &[String]) -> Option<Proposal> {
    let word = MISSING.into_iter().find(|word| cells.iter().any(|cell| cell == word));
    let values: Vec<&str> =
        cells.iter().map(String::as_str).filter(|cell| Some(*cell) != word).collect();
    if values.is_empty() {
        return None;
    }
    if values.iter().all(|cell| is_number(cell, '.')) {
        return word.map(Proposal::Missing);
    }
    if values.iter().all(|cell| is_number(cell, ',')) {
        return Some(Proposal::DecimalComma(word));
    }
    let reads = |written: &&str| {
        let format = DateFormat::new(written);
        format.is_ok_and(|format| values.iter().all(|cell| format.iso(cell).is_some()))
    };
    let formats: Vec<&str> = DATES.into_iter().filter(reads).collect();
    (!formats.is_empty()).then_some(Proposal::Dates(formats, word))
}

/// Whether a cell is a number with this decimal separator.
fn is_number(cell: &str, separator: char) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let cell = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    let (number, exponent) = cell.split_once(['e', 'E']).unwrap_or((cell, "0"));
    let (whole, fraction) = number.split_once(separator).unwrap_or((number, ""));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    !whole.is_empty() && !exponent.is_empty() && [whole, fraction, exponent].into_iter().all(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_suggest_options() {
        let of = |cells: &[&str]| {
            proposal(&cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["31", "NA", "-4.5e3"]), Some(Proposal::Missing("NA")));
        assert_eq!(of(&["3,50", "4", "-1,0"]), Some(Proposal::DecimalComma(None)));
        assert_eq!(of(&["3,50", "."]), Some(Proposal::DecimalComma(Some("."))));
        assert_eq!(of(&["31.12.1990"]), Some(Proposal::Dates(vec!["%d.%m.%Y"], None)));
        let both = vec!["%d/%m/%Y", "%m/%d/%Y"];
        assert_eq!(of(&["05/01/1990", "NA"]), Some(Proposal::Dates(both, Some("NA"))));
        assert_eq!(of(&["31-Jan-1990 10:30"]), Some(Proposal::Dates(vec!["%d-%b-%Y"], None)));
        for cells in [
            &[][..],
            &["NA"],
            &["1", "2.5"],
            &["1990-12-31"],
            &["1.234,5"],
            &["Oslo", "NA"],
            &["31.12.1990", "12.31.1990"],
            &["1,2,3"],
            &["e5"],
            &[","],
        ] {
            assert_eq!(of(cells), None, "{cells:?}");
        }
    }
}
