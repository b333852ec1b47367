//! How the lines of a CSV file are cut into cells: its delimiter, quotation marks and comments.
//!
//! In: the options of a table, and one line. Out: the line's cells.
//!
//! ```text
//! 1,"a, b"                    1 | a, b
//! 1,"say \"hi\""              with escape '\':   1 | say "hi"
//! 1,5" pipe                   with quote '':     1 | 5" pipe
//! ```

use std::collections::BTreeMap;
use std::io;

use super::cell_reader::CellFormat;
use super::compressed::Compression;
use super::line_reader::{LineReader, RecordKind};
use super::open_files::FileReader;
use super::quotation::{QuoteMarks, is_closed};
use crate::error::Error;

/// The option that names the separator of cells.
pub(super) const DELIMITER: &str = "delimiter";

/// The option that names the character with which comment lines begin.
pub(super) const COMMENT: &str = "comment";

/// The option that says whether the first line names the columns.
pub(super) const HEADER: &str = "has_header";

/// The option that names the quotation mark.
pub(super) const QUOTE: &str = "quote";

/// The option that names the character before a quotation mark that is text.
pub(super) const ESCAPE: &str = "escape";

/// How a CSV file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CsvFormat {
    /// Whether the first line names the columns.
    pub(super) header: bool,
    /// The separator of cells.
    pub(super) delimiter: u8,
    /// The quotation mark. `None` if all characters are text.
    pub(super) quote: Option<u8>,
    /// The character before a quotation mark that is text. `None` if such a mark is doubled.
    pub(super) escape: Option<u8>,
    /// The first character of lines that are not read.
    pub(super) comment: Option<u8>,
    /// How the file is compressed.
    pub(super) compression: Compression,
    /// Whether a quotation may go on in the next line. Only where a declaration found it well
    /// formed.
    pub(super) over_lines: bool,
    /// How the cells are written.
    pub(super) cells: CellFormat,
    /// The cells that are left out of each line, if there are some.
    pub(super) left_out: Option<LeftOut>,
    /// Whether the owner wrote the delimiter, so that none is proposed.
    pub(super) says_delimiter: bool,
    /// Whether the owner wrote the comment character, so that none is proposed.
    pub(super) says_comment: bool,
}

/// Cells that the name of a folder says, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    places: Vec<usize>,
    /// The number of cells of the header.
    width: usize,
}

impl LeftOut {
    /// A record without these cells. One with another number of cells than the header stays no row.
    fn apply(&self, record: &mut csv::ByteRecord) {
        if record.len() == self.width {
            let own = record.iter().enumerate().filter(|(i, _)| !self.places.contains(i));
            *record = own.map(|(_, cell)| cell).collect();
        } else if record.len().saturating_add(self.places.len()) == self.width {
            record.push_field(b"");
        }
    }
}

impl CsvFormat {
    /// The format of a file with this first line, without the cells of these columns.
    pub(super) fn without(self, header: &csv::ByteRecord, keys: &[String]) -> Self {
        let is_key = |cell: &[u8]| keys.iter().any(|key| key.as_bytes() == cell);
        let places = header.iter().enumerate().filter(|(_, cell)| is_key(cell));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let left_out = LeftOut { places, width: header.len() };
        Self { left_out: Some(left_out).filter(|out| !out.places.is_empty()), ..self }
    }

    /// The same format with all cells of each line.
    pub(super) fn with_all_cells(&self) -> Self {
        Self { left_out: None, ..self.clone() }
    }

    /// Comma-separated values, as RFC 4180 has them.
    #[cfg(test)]
    pub(super) fn plain(header: bool) -> Self {
        Self {
            header,
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            comment: None,
            compression: Compression::Uncompressed,
            over_lines: false,
            cells: CellFormat::default(),
            left_out: None,
            says_delimiter: false,
            says_comment: false,
        }
    }

    /// The format that the options of a table say.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a value that cannot be meant.
    pub(super) fn of_options(options: &BTreeMap<String, String>) -> Result<Self, Error> {
        let header = is_true(options.get(HEADER), HEADER, true)?;
        let delimiter = match options.get(DELIMITER).map(String::as_str) {
            None => b',',
            Some(r"\t") => b'\t',
            Some(text) => byte(text).flatten().ok_or_else(|| {
                Error::catalog(
                    r"the delimiter of a CSV file is one ASCII character, or '\t' for a tab",
                )
            })?,
        };
        let one = |key: &str, unless: Option<u8>| match options.get(key) {
            None => Ok(unless),
            Some(text) => byte(text).ok_or_else(|| {
                Error::catalog(format!("{key} is one ASCII character, or '' for none"))
            }),
        };
        let (quote, escape, comment) =
            (one(QUOTE, Some(b'"'))?, one(ESCAPE, None)?, one(COMMENT, None)?);
        // A quotation mark escapes itself unless the options say otherwise.
        let escape = escape.filter(|escape| Some(*escape) != quote);
        for (first, second, is_same) in [
            (DELIMITER, QUOTE, quote == Some(delimiter)),
            (DELIMITER, ESCAPE, escape == Some(delimiter)),
            (DELIMITER, COMMENT, comment == Some(delimiter)),
            (QUOTE, COMMENT, comment.is_some() && comment == quote),
        ] {
            if is_same {
                return Err(Error::catalog(format!("{first} and {second} are the same character")));
            }
        }
        if escape.is_some() && quote.is_none() {
            return Err(Error::catalog("escape needs a quotation mark: leave one of them out"));
        }
        let compression = Compression::of_options(options)?;
        let cells = CellFormat::of_options(options)?;
        let says = |key: &str| options.contains_key(key);
        let (says_delimiter, says_comment) = (says(DELIMITER), says(COMMENT));
        Ok(Self {
            header,
            delimiter,
            quote,
            escape,
            comment,
            compression,
            over_lines: false,
            cells,
            left_out: None,
            says_delimiter,
            says_comment,
        })
    }

    /// The lines of a file of this format.
    ///
    /// # Errors
    /// If there is not enough memory to expand a compressed file.
    pub(super) fn lines(&self, file: FileReader) -> io::Result<LineReader> {
        let kind = match self.quote.filter(|_| self.over_lines) {
            Some(quote) => RecordKind::Quoted(QuoteMarks { quote, escape: self.escape }),
            None => RecordKind::Line,
        };
        Ok(LineReader::new(self.compression.text(file)?, self.comment, kind))
    }

    /// Splits a record, which is a line except in well-formed files, into cells; false if it is
    /// not one record.
    ///
    /// # Guarantee
    /// The cells depend on this record alone. A quotation ends with its record at the latest.
    /// Otherwise one person's open quotation mark would hide the lines of all people after it. A
    /// line in which a quotation is open is no record under any option.
    pub(super) fn read_cells(&self, line: &[u8], record: &mut csv::ByteRecord) -> bool {
        let is_one = self.read_all_cells(line, record);
        if let Some(left_out) = &self.left_out {
            left_out.apply(record);
        }
        is_one
    }

    fn read_all_cells(&self, line: &[u8], record: &mut csv::ByteRecord) -> bool {
        record.clear();
        let Some(quote) = self.quote.filter(|quote| line.contains(quote)) else {
            line.split(|byte| *byte == self.delimiter).for_each(|cell| record.push_field(cell));
            return true;
        };
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(self.delimiter)
            .quote(quote)
            .escape(self.escape)
            .flexible(true)
            .buffer_capacity(line.len())
            .from_reader(line);
        is_closed(line, QuoteMarks { quote, escape: self.escape })
            && matches!(reader.read_byte_record(record), Ok(true))
            && !matches!(reader.read_byte_record(&mut csv::ByteRecord::new()), Ok(true))
    }

    /// Whether a line has a quotation that it does not end.
    pub(super) fn is_open(&self, line: &[u8]) -> bool {
        let marks = self.quote.map(|quote| QuoteMarks { quote, escape: self.escape });
        marks.is_some_and(|marks| !is_closed(line, marks))
    }

    /// Whether each quotation of a record begins and ends a cell, as RFC 4180 has it.
    pub(super) fn is_strict(&self, record: &[u8]) -> bool {
        self.are_whole(record, false)
    }

    /// Whether a cell goes on behind its quotation, as `"a \"b\" c"` does where a backslash is no
    /// escape. Such a cell is read, and is not what its writer meant.
    pub(super) fn goes_on_behind_quotes(&self, record: &[u8]) -> bool {
        self.quote.is_some_and(|quote| record.contains(&quote)) && !self.are_whole(record, true)
    }

    /// Whether each quotation of a record ends its cell; `within`: marks within other cells are
    /// text.
    fn are_whole(&self, record: &[u8], within: bool) -> bool {
        /// The place in a cell.
        enum CellPlace {
            Beginning,
            Plain,
            Quoted,
            Escaped,
            BehindQuote,
        }
        let mut place = CellPlace::Beginning;
        for byte in record {
            let is_quote = Some(*byte) == self.quote;
            let ends_cell = *byte == self.delimiter;
            place = match place {
                CellPlace::Beginning if is_quote => CellPlace::Quoted,
                CellPlace::Beginning | CellPlace::Plain if ends_cell => CellPlace::Beginning,
                CellPlace::Plain if is_quote && !within => return false,
                CellPlace::Beginning | CellPlace::Plain => CellPlace::Plain,
                CellPlace::Quoted if Some(*byte) == self.escape => CellPlace::Escaped,
                CellPlace::Quoted if is_quote => CellPlace::BehindQuote,
                CellPlace::Quoted | CellPlace::Escaped => CellPlace::Quoted,
                CellPlace::BehindQuote if is_quote => CellPlace::Quoted,
                CellPlace::BehindQuote if ends_cell => CellPlace::Beginning,
                CellPlace::BehindQuote => return false,
            };
        }
        !matches!(place, CellPlace::Quoted | CellPlace::Escaped)
    }
}

/// The value of a Boolean option.
///
/// # Errors
/// [`Error::Catalog`] for another value.
pub(super) fn is_true(value: Option<&String>, option: &str, unless: bool) -> Result<bool, Error> {
    match value.map(|v| v.to_lowercase()).as_deref() {
        None => Ok(unless),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(value) => Err(Error::catalog(format!("{option} is true or false, not {value}"))),
    }
}

/// The character that a text is, if it is one, or none at all; `None` for another text.
fn byte(text: &str) -> Option<Option<u8>> {
    match text.as_bytes() {
        [] => Some(None),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Some(Some(*byte)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(written: &[(&str, &str)]) -> Result<CsvFormat, Error> {
        let options = written.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        CsvFormat::of_options(&options.collect())
    }

    #[test]
    fn lines_are_cut_as_the_options_say() {
        for (written, line, expected) in [
            (&[][..], r#"1,"a, ""b""""#, Some(vec!["1", r#"a, "b""#])),
            (&[], r#"1,5" pipe"#, None),
            (&[("quote", "")], r#"1,5" pipe"#, Some(vec!["1", r#"5" pipe"#])),
            (&[("quote", "'")], "1,'a, b'", Some(vec!["1", "a, b"])),
            (&[("quote", "'")], r#"1,5" pipe"#, Some(vec!["1", r#"5" pipe"#])),
            (&[("escape", r"\")], r#"1,"say \"hi\", you""#, Some(vec!["1", r#"say "hi", you"#])),
            (&[("escape", r"\")], r#"1,"five \"""#, Some(vec!["1", r#"five ""#])),
            (&[("escape", r"\")], r#"1,"back\\""#, Some(vec!["1", r"back\"])),
            // The second half of a record, and a quotation that never ends.
            (&[("escape", r"\")], r#"lines\", more""#, None),
            (&[("escape", r"\")], r#"1,"open \""#, None),
            (&[("escape", "\"")], r#"1,"a""b""#, Some(vec!["1", r#"a"b"#])),
            (&[("delimiter", ";"), ("decimal", ",")], "1;2,5", Some(vec!["1", "2,5"])),
        ] {
            let mut record = csv::ByteRecord::new();
            let is_read = format(written).unwrap().read_cells(line.as_bytes(), &mut record);
            let found: Vec<&str> =
                record.iter().map(|cell| std::str::from_utf8(cell).unwrap()).collect();
            assert_eq!(is_read.then_some(found), expected, "{written:?} {line}");
        }
    }

    /// A line whose number of cells differs from the header's is skipped, even if the columns that
    /// remain have as many.
    #[test]
    fn cells_of_keys_are_left_out() {
        let header = csv::ByteRecord::from(vec!["id", "year", "n"]);
        let format = format(&[]).unwrap().without(&header, &["year".to_owned()]);
        for (line, cells) in
            [("1,2025,5", vec!["1", "5"]), ("1,5", vec!["1", "5", ""]), ("1", vec!["1"])]
        {
            let mut record = csv::ByteRecord::new();
            assert!(format.read_cells(line.as_bytes(), &mut record));
            assert_eq!(record, csv::ByteRecord::from(cells), "{line}");
        }
        let plain = format.with_all_cells().without(&header, &["month".to_owned()]);
        assert!(plain.left_out.is_none());
    }

    /// A record over several lines is one only as RFC 4180 has it.
    #[test]
    fn quotations_over_lines_begin_and_end_cells() {
        for (written, record, expected) in [
            (&[][..], "1,\"a\nb\"", true),
            (&[], "\"a\n\"\"b\"\"\",\"\"", true),
            (&[], "1,\"a\n2,\"b", false),
            (&[], "1,5\" pipe\n2,6\" pipe", false),
            (&[], "1,\"a\nb\" ", false),
            (&[], "1,\"a\nb", false),
            (&[("escape", r"\")], "1,\"a\\\"\nb\"", true),
            (&[("escape", r"\")], "1,\"a\nb\\\"", false),
        ] {
            assert_eq!(format(written).unwrap().is_strict(record.as_bytes()), expected, "{record}");
        }
    }

    #[test]
    fn characters_that_cannot_be_meant_are_refused() {
        for written in [
            &[("delimiter", ";;")][..],
            &[("delimiter", "")],
            &[("delimiter", "\n")],
            &[("delimiter", "§")],
            &[("delimiter", "\"")],
            &[("quote", "''")],
            &[("quote", ",")],
            &[("escape", "ab")],
            &[("escape", ",")],
            &[("escape", r"\"), ("quote", "")],
            &[("comment", "//")],
            &[("comment", ",")],
            &[("comment", "\"")],
        ] {
            assert!(format(written).is_err(), "{written:?}");
        }
        assert!(format(&[("delimiter", r"\t"), ("comment", "#"), ("quote", "")]).is_ok());
    }
}
