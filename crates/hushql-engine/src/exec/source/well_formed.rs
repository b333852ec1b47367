//! Decides whether the records of text files may go over several lines.
//!
//! In: the files of a table that is being declared, read to their end. Out: whether quotations may
//! go on in the next line, and objects in the next one or in an array. A file is read so only if
//! all of it is well formed: each quotation ends, each record has the table's number of cells, and
//! nothing but objects is in a document.
//!
//! ```text
//! 1,"two ⏎ lines" ⏎ 2,b               over lines: rows 1 and 2
//! 1,"open ⏎ 2,b                       by lines: row 2
//! 1,"open ⏎ 2,b ⏎ 3,"open             refused, as a quotation over lines would hide row 2
//! {"id":1,"x": ⏎ {"id":2} ⏎ }         refused, as an object over lines would hide row 2
//! [{"id": 1}, ⏎ {"id": 2}]            over lines: rows 1 and 2
//! ```
//!
//! # Guarantee
//! No query decides. The result belongs to the fingerprint of the files, and every query compares
//! them with it before it reads a record over several lines. For such a table, neighbouring files
//! are well-formed files without the records of one person: each record is read by itself, so the
//! others stay the same.
//!
//! No one line turns the reading of a private table over. Without an open line, both readings are
//! the same. With one, it alone is lost by lines. With more, the files are read over lines or
//! refused, so an open quotation mark beside texts over several lines leads to a refusal that only
//! the owner sees, and never to another reading of the other rows. If a line within quotes, or
//! within an object, reads by itself like a row of somebody, its beginning and its end may be those
//! of other people, and the files are refused, too. A row is somebody's if the cells that lead to
//! its person can be read: what its other cells hold counts for nothing, since by lines it is
//! counted whatever they hold.

use std::io;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::check::OpenFiles;
use super::csv_format::CsvFormat;
use super::external_table::members;
use super::file_columns::{schema_of_columns, shape_of};
use super::json_columns::is_document;
use super::json_objects::{is_open, read_object};
use super::lenient::{TextFormat, cells_fit};
use super::line_breaks::{LINE_BREAKS, LineBreaks};
use super::open_files::OpenFile;
use super::text_views::viewed;
use crate::catalog::{FileFormat, Privacy, Source, Table, Unit};
use crate::error::Error;

/// The text files of a table, as [`read_files`] returns them; `None` for other formats.
pub(super) fn text_files(
    table: &Table,
    open: &OpenFiles,
) -> Option<Vec<(Arc<OpenFile>, TextFormat, String)>> {
    let Source::File { format, .. } = &table.source else { return None };
    match format {
        FileFormat::Csv | FileFormat::Json => read_files(table, open),
        FileFormat::Parquet | FileFormat::Arrow | FileFormat::Sqlite => None,
    }
}

/// The files of a table, each with what its messages add for the owner: nothing, or its name;
/// `None` if a file cannot be opened. This may block.
pub(super) fn read_files(
    table: &Table,
    open: &OpenFiles,
) -> Option<Vec<(Arc<OpenFile>, TextFormat, String)>> {
    let Source::File { location, options, files, .. } = &table.source else { return None };
    let shape = shape_of(table).ok()?;
    Some(match files {
        None => vec![(open.held(location).ok()?, shape, String::new())],
        Some(_) => {
            // The caller finds the values that the declared types cannot hold.
            let table = &Table { privacy: Privacy::Undeclared, ..table.clone() };
            let set = open.checked(table).ok()?;
            let all = members(&set, &shape, options).into_iter().zip(&set.members);
            all.map(|((held, shape), member)| (held, shape, format!(" of {}", member.shown())))
                .collect()
        }
    })
}

/// Lines that do not end what they begin.
#[derive(Default)]
struct OpenLines {
    lines: u64,
    first: Option<String>,
    /// Whether a file is a JSON document, as its first lines show.
    has_document: bool,
}

/// Why files are not well formed.
struct Flaw {
    /// What is wrong, with the line.
    what: String,
    /// Whether the file is well formed if the owner says so.
    is_doubtful: bool,
}

/// What makes a line a row that an answer may count.
enum RowSign {
    /// Public rows: every cell fits its column, so that a text is hardly taken for a row.
    Fits(Vec<usize>),
    /// Private rows: the cells of these columns lead to a person. No column, if each row is one.
    LeadsTo(Vec<usize>),
}

impl RowSign {
    fn of(unit: Option<&Unit>, schema: &SchemaRef) -> Self {
        let place = |name: &String| schema.index_of(name).ok();
        match unit {
            None => Self::Fits((0..schema.fields().len()).collect()),
            Some(Unit::Row) => Self::LeadsTo(Vec::new()),
            Some(
                Unit::Column { column: person, .. }
                | Unit::Month { person, .. }
                | Unit::Present { column: person, .. },
            ) => Self::LeadsTo(place(person).into_iter().collect()),
            Some(Unit::Via(link)) => Self::LeadsTo(link.columns.iter().filter_map(place).collect()),
        }
    }

    fn is_cells(
        &self,
        record: &csv::ByteRecord,
        format: &CsvFormat,
        schema: &SchemaRef,
    ) -> io::Result<bool> {
        let (Self::Fits(places) | Self::LeadsTo(places)) = self;
        if record.len() != schema.fields().len() {
            return Ok(false);
        }
        if places.is_empty() {
            return Ok(true);
        }
        let wanted: csv::ByteRecord =
            places.iter().filter_map(|place| record.get(*place)).collect();
        let schema = Arc::new(schema.project(places).map_err(io::Error::other)?);
        cells_fit(&wanted, format, &schema).map_err(io::Error::other)
    }

    /// Whether a line of JSON is an object that names a person, with or without the comma behind
    /// it.
    fn is_object(&self, line: &[u8], schema: &SchemaRef) -> bool {
        let Self::LeadsTo(places) = self else { return false };
        let line = line.trim_ascii();
        let Some(object) = read_object(line.strip_suffix(b",").unwrap_or(line)) else {
            return false;
        };
        let names = places.iter().filter_map(|place| schema.fields().get(*place));
        // A field of a struct is a column of its own.
        names.into_iter().all(|field| {
            let name = field.name();
            name.contains('.') || object.get(name).is_some_and(|value| !value.is_null())
        })
    }
}

/// Whether the records of a table are read over several lines, a private one if a unit is given.
/// The caller keeps the result in the fingerprint of the files, which it takes from the same open
/// files. This may block.
///
/// # Errors
/// [`Error::Catalog`], for the owner alone, if several lines of a private table do not end what
/// they begin and the files are not well formed, or if the owner says that records go over several
/// lines and they are not well formed.
pub(crate) fn reads_over_lines(
    table: &Table,
    open: &OpenFiles,
    unit: Option<&Unit>,
) -> Result<bool, Error> {
    let Source::File { options, .. } = &table.source else { return Ok(false) };
    let said = LineBreaks::of_options(options)?;
    let Some(files) = text_files(table, open).filter(|_| said != LineBreaks::Between) else {
        return Ok(false);
    };
    let schema = viewed(schema_of_columns(table.file_columns())?.as_ref());
    // A damaged file is found where its rows are read.
    let Ok(found) = open_lines(&files) else { return Ok(false) };
    if found.lines == 0 && !found.has_document {
        return Ok(false);
    }
    let sign = RowSign::of(unit, &schema);
    let Ok(flaw) = flaw_of(&files, &schema, &sign) else { return Ok(false) };
    let flaw = flaw.filter(|flaw| said == LineBreaks::Unsaid || !flaw.is_doubtful);
    let is_json = files.iter().any(|(_, shape, _)| matches!(shape, TextFormat::Json { .. }));
    match flaw {
        None => Ok(true),
        Some(flaw) if said == LineBreaks::Within => Err(Error::catalog(format!(
            "{} has OPTIONS ('{LINE_BREAKS}' 'true') and is not well formed: {}",
            table.name, flaw.what
        ))),
        Some(flaw) if unit.is_some() && (found.lines > 1 || found.has_document) => {
            Err(Error::catalog(refusal(&table.name, &found, &flaw, is_json)))
        }
        Some(_) => Ok(false),
    }
}

/// The refusal of private files that are read neither by lines nor over lines.
fn refusal(table: &str, found: &OpenLines, flaw: &Flaw, is_json: bool) -> String {
    let what = &flaw.what;
    let first = found.first.as_deref().unwrap_or("line 1");
    if is_json {
        let meant = match flaw.is_doubtful {
            true => {
                format!(", or ('{LINE_BREAKS}' 'true') if it belongs to the object around it")
            }
            false => String::new(),
        };
        return format!(
            "{table} is neither one JSON object a line nor a document of objects: {what}; mend the file, or declare {table} with OPTIONS ('{LINE_BREAKS}' 'false'), which reads the lines that are objects{meant}"
        );
    }
    let meant = match flaw.is_doubtful {
        true => format!(", with ('{LINE_BREAKS}' 'true') if it belongs to a text"),
        false => String::new(),
    };
    format!(
        "{} lines of {table} have an open quotation mark, the first is {first}, and they are no texts over several lines: {what}. Mend the file, or declare {table} with OPTIONS ('{LINE_BREAKS}' 'false'), which ends a quotation with its line{meant}, with ('quote' '') if quotation marks are text, or with ('escape' '\\') if one behind a backslash is",
        found.lines
    )
}

/// Refuses a declaration that does not read and hold files whose records go over several lines.
///
/// # Errors
/// [`Error::Catalog`] with what to declare.
pub(crate) fn refuse_unread_documents(table: &Table, open: &OpenFiles) -> Result<(), Error> {
    let Source::File { options, .. } = &table.source else { return Ok(()) };
    let name = &table.name;
    let declare = "where a declaration reads the files and holds their bytes: declare UNIQUE or MAX ROWS n (for one file, ROW and PUBLIC do, too), without OPTIONS ('content_hash' 'false')";
    match LineBreaks::of_options(options)? {
        LineBreaks::Between => return Ok(()),
        LineBreaks::Within => {
            return Err(Error::catalog(format!(
                "{name} has OPTIONS ('{LINE_BREAKS}' 'true'), and records over several lines are read only {declare}"
            )));
        }
        LineBreaks::Unsaid => {}
    }
    let files = text_files(table, open).unwrap_or_default();
    let json = files.iter().filter(|(_, shape, _)| matches!(shape, TextFormat::Json { .. }));
    match json.into_iter().any(|(held, shape, _)| is_document(held, shape).unwrap_or_default()) {
        false => Ok(()),
        true => Err(Error::catalog(format!(
            "the objects of {name} are in an array, or go over several lines, and are read only {declare}; or write one object a line, as `jq -c` does"
        ))),
    }
}

/// The lines of all files that do not end what they begin.
fn open_lines(files: &[(Arc<OpenFile>, TextFormat, String)]) -> io::Result<OpenLines> {
    let mut found = OpenLines::default();
    for (held, shape, file) in files {
        let by_lines = shape.clone().over_lines(false);
        let mut lines = by_lines.lines(held.reader())?;
        while let Some(line) = lines.next()? {
            let is_open = match &by_lines {
                TextFormat::Csv(format) => format.is_open(line),
                TextFormat::Json { .. } => is_open(line),
            };
            if is_open {
                found.lines += 1;
                let number = lines.first_line();
                found.first.get_or_insert_with(|| format!("line {number}{file}"));
            }
        }
        if let TextFormat::Json { .. } = by_lines {
            found.has_document |= is_document(held, &by_lines)?;
        }
    }
    Ok(found)
}

/// Why files are not well formed over lines; `None` if they are.
fn flaw_of(
    files: &[(Arc<OpenFile>, TextFormat, String)],
    schema: &SchemaRef,
    sign: &RowSign,
) -> io::Result<Option<Flaw>> {
    let mut doubtful = None;
    for (held, shape, file) in files {
        let found = match shape.clone().over_lines(true) {
            TextFormat::Csv(format) => flaw_of_csv(held, &format, (schema, sign), file)?,
            json @ TextFormat::Json { .. } => flaw_of_json(held, &json, (schema, sign), file)?,
        };
        match found {
            Some(flaw) if flaw.is_doubtful => drop(doubtful.get_or_insert(flaw)),
            Some(flaw) => return Ok(Some(flaw)),
            None => {}
        }
    }
    Ok(doubtful)
}

fn flaw_of_csv(
    held: &Arc<OpenFile>,
    format: &CsvFormat,
    (schema, sign): (&SchemaRef, &RowSign),
    file: &str,
) -> io::Result<Option<Flaw>> {
    let width = schema.fields().len();
    let mut records = format.lines(held.reader())?;
    if format.header {
        records.next()?;
    }
    let mut record = csv::ByteRecord::new();
    let mut doubtful = None;
    while let Some(text) = records.next()? {
        let is_closed = format.read_cells(text, &mut record);
        let has_lines = text.contains(&b'\n');
        let is_open = !is_closed && format.is_open(text);
        let is_whole = is_closed && (!has_lines || format.is_strict(text));
        let row_within = match has_lines && doubtful.is_none() {
            true => row_within(text, format, (schema, sign))?,
            false => None,
        };
        let (cells, line) = (record.len(), records.first_line());
        let what = if is_open {
            format!("the quotation in line {line}{file} does not end")
        } else if !is_whole {
            format!("line {line}{file} has text beside the quotation marks of a cell")
        } else if cells != width {
            let has = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
            format!("the row in line {line}{file} has {has}, and the table has {width} columns")
        } else {
            if let Some(behind) = row_within {
                let line = line.saturating_add(behind);
                let what = format!("line {line}{file} is within quotes and reads like a row");
                doubtful = Some(Flaw { what, is_doubtful: true });
            }
            continue;
        };
        return Ok(Some(Flaw { what, is_doubtful: false }));
    }
    Ok(doubtful)
}

/// How many lines behind its first one a record has a line that lies within quotes as a whole, and
/// that would be a row by itself.
///
/// # Guarantee
/// Without such a line in a private file, the record hides no row that a query by lines would give
/// to a person.
fn row_within(
    text: &[u8],
    format: &CsvFormat,
    (schema, sign): (&SchemaRef, &RowSign),
) -> io::Result<Option<u64>> {
    let mut record = csv::ByteRecord::new();
    let mut lines = text.split(|byte| *byte == b'\n').peekable();
    let mut behind = 0;
    lines.next();
    while let Some(line) = lines.next() {
        behind += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_comment = format.comment.is_some() && line.first() == format.comment.as_ref();
        if lines.peek().is_none() || line.is_empty() || is_comment {
            continue;
        }
        if format.read_cells(line, &mut record) && sign.is_cells(&record, format, schema)? {
            return Ok(Some(behind));
        }
    }
    Ok(None)
}

fn flaw_of_json(
    held: &Arc<OpenFile>,
    shape: &TextFormat,
    (schema, sign): (&SchemaRef, &RowSign),
    file: &str,
) -> io::Result<Option<Flaw>> {
    let mut objects = shape.lines(held.reader())?;
    let flaw = |what: String| Some(Flaw { what, is_doubtful: false });
    let mut last_line = 0;
    let mut doubtful = None;
    while let Some(text) = objects.next()? {
        let is_object = read_object(text).is_some();
        let mut behind = (1..).zip(text.split(|byte| *byte == b'\n').skip(1));
        let within = behind.find(|(_, line)| sign.is_object(line, schema));
        let within: Option<u64> = within.map(|(lines, _)| lines);
        let line = objects.first_line();
        if !is_object {
            return Ok(flaw(format!("the object in line {line}{file} cannot be read")));
        }
        // By lines, neither of the two would be a row.
        if line == last_line && !objects.is_in_array() {
            return Ok(flaw(format!("line {line}{file} has two objects that are in no array")));
        }
        last_line = (line + objects.lines_of_record()).saturating_sub(1);
        if let (None, Some(lines)) = (&doubtful, within) {
            let line = line.saturating_add(lines);
            let what = format!("line {line}{file} is within an object and reads like a row");
            doubtful = Some(Flaw { what, is_doubtful: true });
        }
    }
    let broken = objects.broken();
    let broken = broken
        .and_then(|line| flaw(format!("line {line}{file} has something else than whole objects")));
    Ok(broken.or(doubtful))
}
