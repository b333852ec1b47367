//! Counts the lines of text files that are not rows, for the owner.
//!
//! In: a table of CSV or JSON files. Out: how many lines are not rows, how many have cells that are
//! not UTF-8, and how many cells of each column do not fit its type. The counts depend on private
//! rows, so only the owner may see them.

use std::io;
use std::sync::Arc;

use arrow::datatypes::FieldRef;

use super::check::OpenFiles;
use super::external_table::members;
use super::file_columns::{schema_of_columns, shape};
use super::lenient::{TextFormat, read_cells, read_object, unfit_cells};
use super::open_files::OpenFile;
use super::viewed;
use crate::catalog::{FileFormat, Source, Table};
use crate::sql_type::sql_type;

/// Counts of lines and cells that the reader skips or makes NULL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unread {
    /// Lines with another number of cells than the table has columns, or that are not a JSON
    /// object.
    pub(crate) lines: u64,
    /// Lines with a cell that is not UTF-8.
    pub(crate) not_utf8: u64,
    /// The columns with cells that do not fit their type: name, type, and number of cells.
    unfit: Vec<(String, String, u64)>,
}

impl Unread {
    /// Counts over a table's files; zeros for other formats, and if a file cannot be read. This may
    /// block.
    pub(crate) fn of(table: &Table, open: &OpenFiles) -> Self {
        Self::counted(table, open).unwrap_or_default()
    }

    fn counted(table: &Table, open: &OpenFiles) -> Option<Self> {
        let Source::File { format, location, options, files, .. } = &table.source else {
            return None;
        };
        match format {
            FileFormat::Csv | FileFormat::Json => {}
            FileFormat::Parquet | FileFormat::Arrow => return None,
        }
        let shape = shape(*format, options).ok()?;
        let all = match files {
            None => vec![(open.held(location).ok()?, shape)],
            Some(_) => members(open.checked(table).ok()?.as_ref(), shape, options),
        };
        let columns = table.file_columns();
        let schema = viewed(schema_of_columns(columns).ok()?.as_ref());
        let mut found = Self::default();
        let mut unfit = vec![0_u64; columns.len()];
        for (held, shape) in all {
            found.add(&held, shape, columns.len()).ok()?;
            for (all, own) in unfit.iter_mut().zip(unfit_cells(&held, shape, &schema).ok()?) {
                *all = all.saturating_add(own);
            }
        }
        let of = |(field, cells): (&FieldRef, u64)| {
            (field.name().clone(), sql_type(field.data_type()), cells)
        };
        let counted = schema.fields().iter().zip(unfit).filter(|(_, cells)| *cells > 0);
        found.unfit = counted.map(of).collect();
        Some(found)
    }

    fn add(&mut self, held: &Arc<OpenFile>, shape: TextFormat, columns: usize) -> io::Result<()> {
        let mut lines = shape.lines(held.reader())?;
        match shape {
            TextFormat::Csv { header, delimiter, .. } => {
                if header {
                    lines.next()?;
                }
                let mut record = csv::ByteRecord::new();
                while let Some(line) = lines.next()? {
                    let is_row = read_cells(line, delimiter, &mut record);
                    if !is_row || record.len() != columns {
                        self.lines += 1;
                    } else if std::str::from_utf8(line).is_err() {
                        self.not_utf8 += 1;
                    }
                }
            }
            TextFormat::Json { .. } => {
                while let Some(line) = lines.next()? {
                    let is_blank = line.trim_ascii().is_empty();
                    self.lines += u64::from(!is_blank && read_object(line).is_none());
                }
            }
        }
        Ok(())
    }

    /// The message for the owner; empty if every line is a row.
    pub(crate) fn text(self, table: &str) -> String {
        let Self { lines, not_utf8, unfit } = self;
        let are = |n: u64| if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
        let mut text = String::new();
        if lines > 0 {
            text = format!(
                "; {} of {table} cannot be read as a row, belong to nobody and are in no answer: a line break within quotes ends a row (Parquet keeps it)",
                are(lines)
            );
        }
        if not_utf8 > 0 {
            text.push_str(&format!(
                "; {} of {table} have cells that are not UTF-8, and those are NULL: convert the file",
                are(not_utf8)
            ));
        }
        for (column, data_type, cells) in unfit {
            let are =
                if cells == 1 { "1 cell is".to_owned() } else { format!("{cells} cells are") };
            text.push_str(&format!("; {are} not {data_type} in {column}: read as NULL"));
        }
        text
    }
}
