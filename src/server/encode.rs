//! Answers in the formats of PostgreSQL.
//!
//! In: columns of Arrow. Out: for each row a message with its cells, as text or in binary; both
//! represent the same value. Types that PostgreSQL does not have are sent as text.
//!
//! ```text
//! Int64 [1, NULL]   →   bigint: text "1", NULL; binary 00 00 00 00 00 00 00 01, NULL
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema,
    SchemaRef, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hushql::{Answer, Receipt};

use super::binary;
use super::encoding::Encoding;
use super::reply::{Reply, ReplyColumn};
use super::timestamp;
use super::types;
pub(super) use super::types::kinds;

/// An answer cannot be encoded. This is a defect; the client gets the same error as for every
/// failure after a charge.
#[derive(Debug)]
pub(super) struct Unencoded;

/// The PostgreSQL type for an Arrow type, its number of bytes, and the Arrow type to encode.
pub(super) fn kind(data_type: &DataType) -> (u32, i16, DataType) {
    let micros = TimeUnit::Microsecond;
    match data_type {
        DataType::Boolean => (kinds::BOOL, 1, DataType::Boolean),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => (kinds::INT2, 2, DataType::Int16),
        DataType::Int32 | DataType::UInt16 => (kinds::INT4, 4, DataType::Int32),
        DataType::Int64 | DataType::UInt32 => (kinds::INT8, 8, DataType::Int64),
        DataType::UInt64 => (kinds::NUMERIC, -1, DataType::UInt64),
        DataType::Float16 | DataType::Float32 => (kinds::FLOAT4, 4, DataType::Float32),
        DataType::Float64 => (kinds::FLOAT8, 8, DataType::Float64),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => (kinds::NUMERIC, -1, data_type.clone()),
        DataType::Date32 | DataType::Date64 => (kinds::DATE, 4, DataType::Date32),
        DataType::Time32(_) | DataType::Time64(_) => (kinds::TIME, 8, DataType::Time64(micros)),
        DataType::Timestamp(_, None) => (kinds::TIMESTAMP, 8, DataType::Timestamp(micros, None)),
        DataType::Timestamp(_, Some(zone)) => {
            (kinds::TIMESTAMPTZ, 8, DataType::Timestamp(micros, Some(Arc::clone(zone))))
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => (kinds::BYTEA, -1, DataType::LargeBinary),
        DataType::Dictionary(_, values) => kind(values),
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _)
            if !of.data_type().is_nested() =>
        {
            let elements = types::array_of(kind(of.data_type()).0);
            (elements, -1, DataType::LargeList(Arc::clone(of)))
        }
        _ => (kinds::TEXT, -1, data_type.clone()),
    }
}

/// The keys under which the field of a text says which type of PostgreSQL its values have, and
/// which column of which table it is.
const TYPE: &str = "hushql.type";
const TABLE: &str = "hushql.table";
const COLUMN: &str = "hushql.column";

/// A column of texts that are values of another type of PostgreSQL.
pub(super) fn typed_field(name: &str, kind: u32, origin: Option<(u32, u16)>) -> Field {
    let mut about = HashMap::from([(TYPE.to_owned(), kind.to_string())]);
    if let Some((table, column)) = origin {
        about.insert(TABLE.to_owned(), table.to_string());
        about.insert(COLUMN.to_owned(), column.to_string());
    }
    Field::new(name, DataType::Utf8, true).with_metadata(about)
}

fn about<T: std::str::FromStr>(field: &Field, key: &str) -> Option<T> {
    field.metadata().get(key)?.parse().ok()
}

/// Rows to encode.
#[derive(Debug, Clone)]
pub(super) struct EncodedTable {
    pub(super) schema: SchemaRef,
    pub(super) batches: Vec<RecordBatch>,
}

impl EncodedTable {
    /// The rows of an answer. If the client wants more columns, a column of errors follows each
    /// column of numbers, and the last columns hold the cost of the answer and the remaining
    /// budget, the same in each row.
    pub(super) fn of(answer: &Answer, with_more: bool) -> Result<Self, Unencoded> {
        let schema = shown(&answer.schema(), with_more);
        if !with_more {
            return Ok(Self { schema, batches: answer.batches().to_vec() });
        }
        let mut errors: Vec<_> =
            (0..answer.schema().fields().len()).map(|column| answer.errors(column)).collect();
        let [cost, left] = paid(answer);
        let mut batches = Vec::new();
        for batch in answer.batches() {
            let mut columns: Vec<ArrayRef> = Vec::new();
            for (column, errors) in batch.columns().iter().zip(&mut errors) {
                let own: Float64Array = errors.take(batch.num_rows()).collect();
                columns.push(Arc::clone(column));
                if is_number(column.data_type()) {
                    columns.push(Arc::new(own));
                }
            }
            for text in [&cost, &left] {
                columns.push(Arc::new(StringArray::from(vec![text.as_deref(); batch.num_rows()])));
            }
            let batch = RecordBatch::try_new(SchemaRef::clone(&schema), columns);
            batches.push(batch.map_err(|_| Unencoded)?);
        }
        Ok(Self { schema, batches })
    }

    /// The rows behind `from`, up to `to`.
    pub(super) fn page(&self, from: usize, to: usize) -> Self {
        let mut before = 0;
        let mut batches = Vec::new();
        for batch in &self.batches {
            let end = before + batch.num_rows();
            let (start, stop) = (from.max(before), to.min(end));
            if start < stop {
                batches.push(batch.slice(start - before, stop - start));
            }
            before = end;
        }
        Self { schema: SchemaRef::clone(&self.schema), batches }
    }

    /// The memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// The columns for the cost of an answer, and for the remaining budget.
const PAID: [&str; 2] = ["hushql_cost", "hushql_left"];

/// The cost of an answer and the remaining budget, as in its receipt.
fn paid(answer: &Answer) -> [Option<String>; 2] {
    let receipt = answer.receipt();
    let left = receipt.map(Receipt::left_text).filter(|left| !left.is_empty());
    [receipt.map(|receipt| receipt.spent.neat().to_string()), left]
}

/// The columns to show for an answer with these columns.
pub(super) fn shown(schema: &SchemaRef, with_more: bool) -> SchemaRef {
    if !with_more {
        return SchemaRef::clone(schema);
    }
    let fields = schema.fields().iter().flat_map(|field| {
        let error = is_number(field.data_type()).then(|| {
            Arc::new(Field::new(format!("{}_error", field.name()), DataType::Float64, true))
        });
        // Clients are not told whether a column may be NULL, and this must not prevent an answer
        // from being shown.
        let own = Field::new(field.name(), field.data_type().clone(), true);
        std::iter::once(Arc::new(own)).chain(error)
    });
    let paid = PAID.map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
    Arc::new(Schema::new(fields.chain(paid).collect::<Vec<_>>()))
}

/// The format of each column. The client gives none for text, one for all columns, or one for each.
///
/// # Errors
/// A sentence, if the number of formats is wrong, or a format is unknown.
pub(super) fn formats(given: &[i16], columns: usize) -> Result<Vec<i16>, &'static str> {
    if given.iter().any(|format| ![0, 1].contains(format)) {
        return Err("a format is 0 for text or 1 for binary");
    }
    match given {
        [] => Ok(vec![0; columns]),
        [one] => Ok(vec![*one; columns]),
        each if each.len() == columns => Ok(each.to_vec()),
        _ => Err("there are not as many formats as columns"),
    }
}

/// The description of the columns for the client.
pub(super) fn columns(schema: &SchemaRef, formats: &[i16]) -> Vec<ReplyColumn> {
    let formats = formats.iter().copied().chain(std::iter::repeat(0));
    let columns = schema.fields().iter().zip(formats).map(|(field, format)| {
        let (kind, size) = match about(field, TYPE) {
            Some(kind) => (kind, types::size_of(kind)),
            None => {
                let (kind, size, _) = kind(field.data_type());
                (kind, size)
            }
        };
        let table = about(field, TABLE).unwrap_or(0);
        let column = about(field, COLUMN).unwrap_or(0);
        ReplyColumn { name: field.name().clone(), table, column, kind, size, format }
    });
    columns.collect()
}

/// Encoded rows, one message each.
#[derive(Debug, Default)]
pub(super) struct EncodedRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl EncodedRows {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The messages of a range of rows.
    pub(super) fn page(&self, from: usize, to: usize) -> &[u8] {
        let start = from.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        let end = to.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Encodes all rows, with texts in the encoding of the client.
pub(super) fn rows(
    table: &EncodedTable,
    formats: &[i16],
    encoding: Encoding,
) -> Result<EncodedRows, Unencoded> {
    let mut encoded = EncodedRows::default();
    let mut reply = Reply::default();
    let mut cells = Vec::new();
    for batch in &table.batches {
        let columns = batch.columns().iter().zip(table.schema.fields()).zip(formats);
        let columns = columns.map(|((column, field), format)| {
            let writer = CellWriter::of(column, *format == 1)?.with_encoding(encoding);
            Ok(CellWriter { kind: about(field, TYPE), ..writer })
        });
        let columns = columns.collect::<Result<Vec<_>, Unencoded>>()?;
        for row in 0..batch.num_rows() {
            cells.clear();
            for column in &columns {
                column.write(row, &mut cells)?;
            }
            reply.row(columns.len(), &cells);
            encoded.bytes.append(&mut reply.take());
            encoded.ends.push(encoded.bytes.len());
        }
    }
    Ok(encoded)
}

/// The text of each cell of a row; `None` for NULL.
pub(super) fn texts(
    batch: &RecordBatch,
    mut with: impl FnMut(&[Option<Vec<u8>>]),
) -> Result<(), Unencoded> {
    let columns = batch.columns().iter().map(|column| CellWriter::of(column, false));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cells = columns.iter().map(|column| {
            let mut cell = Vec::new();
            column.write(row, &mut cell)?;
            // After four bytes of length, which are all ones for NULL.
            Ok(match cell.split_at_checked(4) {
                Some((length, text)) if length != [0xff; 4] => Some(text.to_vec()),
                _ => None,
            })
        });
        with(&cells.collect::<Result<Vec<_>, Unencoded>>()?);
    }
    Ok(())
}

/// A column whose cells are encoded one by one.
struct CellWriter {
    column: ArrayRef,
    nulls: Option<NullBuffer>,
    /// The cells as texts, if the type has no format of its own.
    texts: Option<Vec<String>>,
    /// The cells as arrays.
    arrays: Option<ArrayWriter>,
    /// The type of PostgreSQL that the texts are of, if it is not that of the column.
    kind: Option<u32>,
    binary: bool,
    /// The encoding of texts.
    encoding: Encoding,
}

impl CellWriter {
    fn of(column: &ArrayRef, binary: bool) -> Result<Self, Unencoded> {
        let (_, _, data_type) = kind(column.data_type());
        let column = match *column.data_type() == data_type {
            true => Arc::clone(column),
            false => cast(column, &data_type).map_err(|_| Unencoded)?,
        };
        let arrays = ArrayWriter::of(&column, binary)?;
        let texts = match column.data_type() {
            _ if arrays.is_some() => None,
            DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::LargeBinary => None,
            _ => Some(formatted(&column)?),
        };
        // The NULLs of a column of the type NULL, and of a dictionary, are not in its own buffer.
        let nulls = column.logical_nulls();
        Ok(Self { column, nulls, texts, arrays, kind: None, binary, encoding: Encoding::Utf8 })
    }

    /// The same with texts in the encoding of the client.
    fn with_encoding(self, encoding: Encoding) -> Self {
        let arrays = self.arrays.map(|arrays| arrays.with_encoding(encoding));
        Self { encoding, arrays, ..self }
    }

    /// Writes a cell: its length, and its bytes.
    fn write(&self, row: usize, to: &mut Vec<u8>) -> Result<(), Unencoded> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            to.extend_from_slice(&(-1_i32).to_be_bytes());
            return Ok(());
        }
        let start = to.len();
        to.extend_from_slice(&[0; 4]);
        match (&self.arrays, &self.texts) {
            (Some(arrays), _) => arrays.write(row, self.binary, to)?,
            (None, Some(texts)) => {
                let text = texts.get(row).ok_or(Unencoded)?;
                let kind = self.kind.unwrap_or_else(|| kind(self.column.data_type()).0);
                match (self.binary, kind) {
                    (true, kind) if ![kinds::TEXT, kinds::NAME].contains(&kind) => {
                        binary::write(kind, text, to).ok_or(Unencoded)?;
                    }
                    _ => to.extend_from_slice(&self.encoding.encoded(text.as_bytes())),
                }
            }
            (None, None) if self.binary => self.binary(row, to)?,
            (None, None) => self.text(row, to)?,
        }
        let length = i32::try_from(to.len() - start - 4).map_err(|_| Unencoded)?;
        to.get_mut(start..start + 4).ok_or(Unencoded)?.copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn binary(&self, row: usize, to: &mut Vec<u8>) -> Result<(), Unencoded> {
        let column = &self.column;
        match column.data_type() {
            DataType::Boolean => to.push(u8::from(column.as_boolean().value(row))),
            DataType::Int16 => put(to, column.as_primitive::<Int16Type>().value(row).to_be_bytes()),
            DataType::Int32 => put(to, column.as_primitive::<Int32Type>().value(row).to_be_bytes()),
            DataType::Int64 => put(to, column.as_primitive::<Int64Type>().value(row).to_be_bytes()),
            DataType::Float32 => {
                put(to, column.as_primitive::<Float32Type>().value(row).to_be_bytes());
            }
            DataType::Float64 => {
                put(to, column.as_primitive::<Float64Type>().value(row).to_be_bytes());
            }
            DataType::Date32 => {
                let days = column.as_primitive::<Date32Type>().value(row);
                put(to, timestamp::date(days).to_be_bytes());
            }
            DataType::Time64(_) => {
                let micros = column.as_primitive::<Time64MicrosecondType>().value(row);
                put(to, micros.to_be_bytes());
            }
            DataType::Timestamp(..) => {
                let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
                put(to, timestamp::timestamp(micros).to_be_bytes());
            }
            DataType::LargeBinary => {
                to.extend_from_slice(column.as_binary::<i64>().value(row));
            }
            _ => return Err(Unencoded),
        }
        Ok(())
    }

    fn text(&self, row: usize, to: &mut Vec<u8>) -> Result<(), Unencoded> {
        let column = &self.column;
        let text = match column.data_type() {
            DataType::Boolean => if column.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
            DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Float32 => {
                let value = column.as_primitive::<Float32Type>().value(row);
                float(f64::from(value), &value.to_string(), &format!("{value:e}"))
            }
            DataType::Float64 => {
                let value = column.as_primitive::<Float64Type>().value(row);
                float(value, &value.to_string(), &format!("{value:e}"))
            }
            DataType::Date32 => {
                timestamp::date_text(column.as_primitive::<Date32Type>().value(row))
            }
            DataType::Time64(_) => {
                timestamp::time_text(column.as_primitive::<Time64MicrosecondType>().value(row))
            }
            DataType::Timestamp(_, zone) => {
                let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
                timestamp::timestamp_text(micros, zone.is_some())
            }
            DataType::LargeBinary => {
                let bytes = column.as_binary::<i64>().value(row);
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("\\x{hex}")
            }
            _ => return Err(Unencoded),
        };
        to.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A column of lists, whose cells are arrays of one dimension.
struct ArrayWriter {
    elements: Box<CellWriter>,
    /// The type of PostgreSQL that the elements have.
    kind: u32,
    /// Where the elements of each cell begin and end.
    places: Vec<(usize, usize)>,
    encoding: Encoding,
}

impl ArrayWriter {
    /// `None` for a column of other values.
    fn of(column: &ArrayRef, binary: bool) -> Result<Option<Self>, Unencoded> {
        let Some(lists) = column.as_list_opt::<i64>() else { return Ok(None) };
        let offsets = lists.value_offsets().iter().map(|offset| usize::try_from(*offset));
        let offsets: Vec<usize> = offsets.collect::<Result<_, _>>().map_err(|_| Unencoded)?;
        let (first, last) = offsets.first().zip(offsets.last()).ok_or(Unencoded)?;
        let values = lists.values().slice(*first, last - first);
        let places = offsets.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
        let places = places.map(|(from, to)| (from - first, to - first)).collect();
        let kind = kind(values.data_type()).0;
        let elements = Box::new(CellWriter::of(&values, binary)?);
        Ok(Some(Self { elements, kind, places, encoding: Encoding::Utf8 }))
    }

    fn with_encoding(self, encoding: Encoding) -> Self {
        // Quotes are put around elements before their text is encoded.
        let elements = match self.elements.binary {
            true => Box::new(self.elements.with_encoding(encoding)),
            false => self.elements,
        };
        Self { elements, encoding, ..self }
    }

    /// Appends the array of a row.
    fn write(&self, row: usize, binary: bool, to: &mut Vec<u8>) -> Result<(), Unencoded> {
        let (start, end) = *self.places.get(row).ok_or(Unencoded)?;
        let is_null = |at| self.elements.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
        if binary {
            let has_nulls = (start..end).any(is_null);
            binary::head(self.kind, end - start, has_nulls, to).ok_or(Unencoded)?;
            return (start..end).try_for_each(|at| self.elements.write(at, to));
        }
        let texts = (start..end).map(|at| {
            let mut cell = Vec::new();
            self.elements.write(at, &mut cell)?;
            let text = cell.get(4..).filter(|_| !is_null(at)).map(<[u8]>::to_vec);
            text.map(String::from_utf8).transpose().map_err(|_| Unencoded)
        });
        let texts = texts.collect::<Result<Vec<_>, Unencoded>>()?;
        to.extend_from_slice(&self.encoding.encoded(binary::array(&texts).as_bytes()));
        Ok(())
    }
}

fn put<const N: usize>(to: &mut Vec<u8>, bytes: [u8; N]) {
    to.extend_from_slice(&bytes);
}

/// A float as PostgreSQL writes it: the shortest digits that yield the same value.
fn float(value: f64, plain: &str, scientific: &str) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else if magnitude == 0.0 || (1e-4..1e15).contains(&magnitude) {
        plain.to_owned()
    } else {
        scientific.to_owned()
    }
}

/// The cells of a column in Arrow's text format.
fn formatted(column: &ArrayRef) -> Result<Vec<String>, Unencoded> {
    let options = FormatOptions::default().with_null("NULL").with_display_error(false);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options).map_err(|_| Unencoded)?;
    let text = |row| match column.is_null(row) {
        true => Ok(String::new()),
        false => formatter.value(row).try_to_string().map_err(|_| Unencoded),
    };
    (0..column.len()).map(text).collect()
}
