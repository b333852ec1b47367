//! Counts the lines and cells of files that are not read, for the owner.
//!
//! In: a table of files. Out: how many lines are not rows and why, how many have cells that are not
//! UTF-8, how many cells of each column do not fit its type, and where the first one of each kind
//! is. All of it depends on private rows, so only the owner may see it, and only in the answer to
//! the declaration: it is not written to the vault, to the history or to a log.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::check::OpenFiles;
use super::file_columns::{plain_columns, schema_of_columns};
use super::fitting_types::CellCounts;
use super::json_objects::read_object;
use super::lenient::{TextFormat, count_cells};
use super::lossy_columns::{count_values, lossy_columns};
use super::open_files::OpenFile;
use super::sqlite_table::{count_stored, table_of};
use super::text_views::viewed;
use super::well_formed::read_files;
use crate::catalog::{FileFormat, Source, Table, Unit, quoted};
use crate::error::Error;
use crate::sql_type::sql_type;
use crate::visible;

/// The longest text of a cell that is shown.
const SHOWN: usize = 40;

/// Counts of lines and cells that the reader skips or makes NULL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unread {
    /// The number of columns in the files.
    width: usize,
    /// Whether the files are JSON or SQLite, whose cells no option reads.
    is_json: bool,
    /// Lines with another number of cells than the table has columns, and the cells of the first
    /// one.
    ragged: Skipped,
    cells: usize,
    /// Lines with an open quotation mark.
    open: Skipped,
    /// Lines with a cell that goes on behind its quotation.
    behind_quotes: Skipped,
    /// Lines that are no JSON object.
    no_object: Skipped,
    /// Lines with a cell that is not UTF-8.
    not_utf8: Skipped,
    /// Rows over several lines, and the most lines of one.
    over_lines: Skipped,
    longest: u64,
    /// The counts of each column: its name, its type, its counts, and the files of its first cell
    /// that does not fit, and of the first one of which a part is left out.
    columns: Vec<(String, DataType, CellCounts, (String, String))>,
}

/// A number of lines, and where the first one is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Skipped {
    lines: u64,
    first: String,
}

impl Skipped {
    fn add(&mut self, line: u64, file: &str) {
        if self.lines == 0 {
            self.first = format!("line {}{file}", grouped(line));
        }
        self.lines += 1;
    }
}

impl Unread {
    /// Counts over a table's files; zeros for other formats, and if a file cannot be read. This may
    /// block.
    pub(crate) fn of(table: &Table, open: &OpenFiles) -> Self {
        Self::counted(table, open).unwrap_or_default()
    }

    /// Counts over the files of a strict table, of which everything must be read. This may block.
    /// `claim` says what the table is to be, and `otherwise` how to do without.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a file that cannot be read, and with the first line and the first
    /// cells that cannot.
    pub(crate) fn of_strict(
        table: &Table,
        open: &OpenFiles,
        (claim, otherwise): (&str, &str),
    ) -> Result<Self, Error> {
        let name = quoted(&table.name);
        let Source::File { location, .. } = &table.source else {
            return Err(Error::catalog(format!("{name} has no files, so it cannot be STRICT")));
        };
        let found = Self::counted(table, open).ok_or_else(|| {
            Error::catalog(format!("{name} {claim}, and the files of `{location}` cannot be read"))
        })?;
        match found.text(&table.name) {
            text if text.is_empty() => Ok(found),
            text => Err(Error::catalog(format!(
                "{name} {claim}, and not all of `{location}` is read as declared{text}; {otherwise}"
            ))),
        }
    }

    fn counted(table: &Table, open: &OpenFiles) -> Option<Self> {
        let Source::File { format, location, .. } = &table.source else { return None };
        let all = read_files(table, open)?;
        let columns = table.file_columns();
        let schema = viewed(schema_of_columns(columns).ok()?.as_ref());
        let fields = schema.fields().iter();
        let fields = fields.map(|field| (field.name().clone(), field.data_type().clone()));
        let columns = fields
            .map(|(name, data_type)| (name, data_type, CellCounts::default(), Default::default()))
            .collect();
        let is_json = matches!(format, FileFormat::Json | FileFormat::Sqlite);
        let width = schema.fields().len();
        let mut found = Self { width, is_json, columns, ..Self::default() };
        let mut lossy = BTreeSet::new();
        if let FileFormat::Parquet | FileFormat::Arrow = format {
            for (held, shape, _) in &all {
                plain_columns(held, *format, shape, location).ok()?;
                lossy.extend(lossy_columns(held, &schema));
            }
        }
        for (held, shape, file) in all {
            let counts = match format {
                FileFormat::Csv | FileFormat::Json => {
                    found.add(&held, &shape, &file).ok()?;
                    count_cells(&held, &shape, &schema).ok()?
                }
                FileFormat::Parquet | FileFormat::Arrow => {
                    count_values(&held, *format, &schema, &lossy).ok()?
                }
                FileFormat::Sqlite => count_stored(&held, table_of(table)?, &schema).ok()?,
            };
            for ((_, _, all, first), own) in found.columns.iter_mut().zip(counts) {
                if let (None, Some(_)) = (&all.first, &own.first) {
                    first.0.clone_from(&file);
                }
                if let (None, Some(_)) = (&all.first_cut, &own.first_cut) {
                    first.1.clone_from(&file);
                }
                all.add(own);
            }
        }
        Some(found)
    }

    fn add(&mut self, held: &Arc<OpenFile>, shape: &TextFormat, file: &str) -> io::Result<()> {
        let mut lines = shape.lines(held.reader())?;
        match shape {
            TextFormat::Csv(format) => {
                if format.header {
                    lines.next()?;
                }
                let mut record = csv::ByteRecord::new();
                while let Some(line) = lines.next()? {
                    let is_text = std::str::from_utf8(line).is_ok();
                    let is_closed = format.read_cells(line, &mut record);
                    let goes_on = is_closed && format.goes_on_behind_quotes(line);
                    let number = lines.first_line();
                    self.add_lines(number, lines.lines_of_record(), file);
                    if goes_on {
                        self.behind_quotes.add(number, file);
                    }
                    if !is_closed {
                        self.open.add(number, file);
                    } else if record.len() != self.width {
                        if self.ragged.lines == 0 {
                            self.cells = record.len();
                        }
                        self.ragged.add(number, file);
                    } else if !is_text {
                        self.not_utf8.add(number, file);
                    }
                }
            }
            TextFormat::Json { .. } => {
                while let Some(line) = lines.next()? {
                    let is_object = line.trim_ascii().is_empty() || read_object(line).is_some();
                    let number = lines.first_line();
                    self.add_lines(number, lines.lines_of_record(), file);
                    if !is_object {
                        self.no_object.add(number, file);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts a row with its lines, if it has several.
    fn add_lines(&mut self, first: u64, lines: u64, file: &str) {
        if lines > 1 {
            self.over_lines.add(first, file);
            self.longest = self.longest.max(lines);
        }
    }

    /// Refuses a unit that was verified on no row, although there are lines.
    ///
    /// # Errors
    /// [`Error::Catalog`] with the first line or cell that cannot be read.
    pub(crate) fn refuse_unreadable(&self, table: &str, unit: &Unit) -> Result<(), Error> {
        let skipped = self.open.lines + self.ragged.lines + self.no_object.lines;
        // Where everyone may know that a person has a row, what the person says must not decide
        // whether the line can be read.
        if unit.present().is_some() && skipped + self.not_utf8.lines > 0 {
            return Err(Error::catalog(format!(
                "PRESENCE PUBLIC needs every line of {table} to be a row, so that what people say changes no number of rows: mend the files, or write SET PRIVACY UNIT ({}) UNIQUE{}",
                unit.columns().first().map_or_else(String::new, |column| quoted(column)),
                self.text(table)
            )));
        }
        let is_empty = self.columns.iter().all(|(_, _, counts, _)| counts.valid == 0);
        let no_rows = skipped > 0 && is_empty;
        let unread = self.columns.iter().find(|(name, _, counts, _)| {
            unit.columns().contains(name) && counts.valid == 0 && counts.unfit > 0
        });
        match (no_rows, unread) {
            (false, None) => Ok(()),
            (false, Some((name, _, _, _))) => Err(Error::catalog(format!(
                "the unit of {table} cannot be {name}, as no row has a value there{}",
                self.text(table)
            ))),
            (true, _) => Err(Error::catalog(format!(
                "no line of {table} can be read as a row{}",
                self.text(table)
            ))),
        }
    }

    /// The message for the owner; empty if everything is read.
    pub(crate) fn text(&self, table: &str) -> String {
        let Self { ragged, open, behind_quotes, no_object, not_utf8, .. } = self;
        let are = |n: u64| match n {
            1 => "1 line".to_owned(),
            n => format!("{} lines", grouped(n)),
        };
        let nobody = |n: u64| match n {
            1 => "belongs to nobody and is in no answer",
            _ => "belong to nobody and are in no answer",
        };
        let mut text = String::new();
        if self.over_lines.lines > 0 {
            let over = &self.over_lines;
            text.push_str(&format!(
                "; {} of {table} {} over several lines: the first begins in {}, and the longest has {} lines",
                if over.lines == 1 { "1 row".to_owned() } else { format!("{} rows", grouped(over.lines)) },
                if over.lines == 1 { "goes" } else { "go" },
                over.first,
                grouped(self.longest),
            ));
        }
        if ragged.lines > 0 {
            text.push_str(&format!(
                "; {} of {table} with another number of cells than its {} columns {}: the first is {}, with {} cells",
                are(ragged.lines),
                self.width,
                nobody(ragged.lines),
                ragged.first, self.cells
            ));
        }
        if open.lines > 0 {
            text.push_str(&format!(
                "; {} of {table} with an open quotation mark {}: the first is {}. A quotation ends with its line here; OPTIONS ('quote' '') reads quotation marks as text, and OPTIONS ('escape' '\\') marks behind a backslash",
                are(open.lines),
                nobody(open.lines),
                open.first
            ));
        }
        if behind_quotes.lines > 0 {
            text.push_str(&format!(
                "; {} of {table} {} text behind a quotation mark that ends a cell, which is read with it: the first is {}. OPTIONS ('escape' '\\') reads a mark behind a backslash as text, as Spark writes it",
                are(behind_quotes.lines),
                if behind_quotes.lines == 1 { "has" } else { "have" },
                behind_quotes.first
            ));
        }
        if no_object.lines > 0 {
            text.push_str(&format!(
                "; {} of {table} without a JSON object {}: the first is {}. Each line is an object here",
                are(no_object.lines),
                nobody(no_object.lines),
                no_object.first
            ));
        }
        if not_utf8.lines > 0 {
            text.push_str(&format!(
                "; {} of {table} {} cells that are not UTF-8, and those are NULL: the first is {}. Convert the file, as `iconv -f WINDOWS-1252 -t UTF-8` does",
                are(not_utf8.lines),
                if not_utf8.lines == 1 { "has" } else { "have" },
                not_utf8.first
            ));
        }
        for (column, data_type, counts, (file, file_of_cut)) in &self.columns {
            text.push_str(&unfit(table, column, data_type, counts, file, self.is_json));
            text.push_str(&cut(table, column, data_type, counts, file_of_cut));
        }
        text
    }
}

/// The message about the cells of a column that do not fit its type.
fn unfit(
    table: &str,
    column: &str,
    data_type: &DataType,
    counts: &CellCounts,
    file: &str,
    is_json: bool,
) -> String {
    let Some(first) = &counts.first else { return String::new() };
    let (shown, dots) = shortened(&first.text);
    let (all, place) = (grouped(counts.valid.saturating_add(counts.unfit)), first.place);
    let are = if counts.unfit == 1 { "is" } else { "are" };
    format!(
        "; {} of {all} cells of {}.{} {are} not {}: read as NULL. The first is `{}{dots}` in {place} {}{file}{}",
        grouped(counts.unfit),
        quoted(table),
        quoted(column),
        sql_type(data_type),
        visible::line(&shown),
        grouped(first.line),
        counts.advice(data_type, is_json),
    )
}

/// The message about the cells of a column of which its type leaves a part out.
fn cut(table: &str, column: &str, data_type: &DataType, counts: &CellCounts, file: &str) -> String {
    let Some(first) = &counts.first_cut else { return String::new() };
    let (shown, dots) = shortened(&first.text);
    let all = grouped(counts.valid.saturating_add(counts.unfit));
    let is_one = counts.cut == 1;
    let what = match data_type {
        DataType::Date32 if is_one => "has a time of day, which DATE leaves out".to_owned(),
        DataType::Date32 => "have a time of day, which DATE leaves out".to_owned(),
        other if is_one => format!("is rounded to the digits of {}", sql_type(other)),
        other => format!("are rounded to the digits of {}", sql_type(other)),
    };
    format!(
        "; {} of {all} cells of {}.{} {what}. The first is `{}{dots}` in {} {}{file}: {}",
        grouped(counts.cut),
        quoted(table),
        quoted(column),
        visible::line(&shown),
        first.place,
        grouped(first.line),
        counts.advice_for_cut(data_type),
    )
}

/// The beginning of a cell, and dots if it goes on.
fn shortened(text: &str) -> (String, &'static str) {
    let shown: String = text.chars().take(SHOWN).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    (shown, dots)
}

/// A number with commas between its thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
