//! Writes answers as CSV and as lines of JSON, so that different values look different.
//!
//! In: the batches of an answer. Out: bytes. Arrow's writers write an empty text like NULL, and an
//! infinite number as null. Here, CSV has an empty cell for NULL and `""` for an empty text, as in
//! PostgreSQL and DuckDB. JSON leaves NULL out, and writes a number that JSON lacks as a text, as
//! PostgreSQL's `to_json` does.
//!
//! ```text
//! (7, '', NULL)          →   7,"",
//! {x: Infinity, y: 1.5}  →   {"x":"Infinity","y":1.5}
//! ```

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{
    Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, WriterBuilder,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Writes a header and the rows, each on its own line (RFC 4180, with line feeds).
///
/// # Errors
/// Those of the writer, and of a type that cannot be written as text.
pub(super) fn csv(
    mut to: impl Write,
    schema: &Schema,
    batches: &[RecordBatch],
) -> Result<(), ArrowError> {
    let names = schema.fields().iter().map(|field| cell(field.name()));
    writeln!(to, "{}", names.collect::<Vec<_>>().join(","))?;
    let options = FormatOptions::default().with_null("NULL").with_display_error(false);
    for batch in batches {
        let columns = batch.columns().iter().map(|column| TextColumn::of(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column.cell(row));
            writeln!(to, "{}", cells.collect::<Result<Vec<_>, _>>()?.join(","))?;
        }
    }
    Ok(())
}

/// A column, with its formatter and its NULLs.
struct TextColumn<'a> {
    texts: ArrayFormatter<'a>,
    nulls: Option<NullBuffer>,
}

impl<'a> TextColumn<'a> {
    fn of(column: &'a ArrayRef, options: &FormatOptions<'a>) -> Result<Self, ArrowError> {
        // A column without a type, and a dictionary, have NULLs that are not in their own buffer.
        let (texts, nulls) = (ArrayFormatter::try_new(column, options)?, column.logical_nulls());
        Ok(Self { texts, nulls })
    }

    fn cell(&self, row: usize) -> Result<String, ArrowError> {
        match self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => Ok(String::new()),
            false => Ok(cell(&self.texts.value(row).try_to_string()?)),
        }
    }
}

/// A text as a cell: in quotes if it is empty, or could be read as several cells.
fn cell(text: &str) -> String {
    match text.is_empty() || text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Writes each row as an object on its own line.
///
/// # Errors
/// Those of the writer, and of a type that JSON cannot hold.
pub(super) fn json(to: impl Write, batches: &[RecordBatch]) -> Result<(), ArrowError> {
    let builder = WriterBuilder::new().with_encoder_factory(Arc::new(EveryFloat));
    let mut writer = builder.build::<_, LineDelimited>(to);
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

/// Encodes columns with floats that are not finite; Arrow encodes all others.
#[derive(Debug)]
struct EveryFloat;

impl EncoderFactory for EveryFloat {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if !array.data_type().is_floating() {
            return Ok(None);
        }
        let wide = cast(array, &DataType::Float64)?;
        let wide = wide.as_primitive::<Float64Type>();
        if wide.iter().flatten().all(f64::is_finite) {
            return Ok(None);
        }
        let digits: Vec<String> = match array.data_type() {
            DataType::Float64 => wide.values().iter().map(|value| format!("{value:?}")).collect(),
            _ => {
                let short = cast(array, &DataType::Float32)?;
                let short = short.as_primitive::<Float32Type>();
                short.values().iter().map(|value| format!("{value:?}")).collect()
            }
        };
        let nulls = array.nulls().cloned();
        Ok(Some(NullableEncoder::new(Box::new(Floats(digits)), nulls)))
    }
}

/// Floats in Rust's notation.
struct Floats(Vec<String>);

impl Encoder for Floats {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let text = match self.0.get(index).map_or("NaN", String::as_str) {
            "inf" => "\"Infinity\"",
            "-inf" => "\"-Infinity\"",
            "NaN" => "\"NaN\"",
            digits => digits,
        };
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array, NullArray, StringArray};

    use super::*;

    fn answer() -> RecordBatch {
        let columns: [(&str, ArrayRef); 4] = [
            ("t", Arc::new(StringArray::from(vec![Some(""), None, Some("a,\"b\"\n")]))),
            ("x", Arc::new(Float64Array::from(vec![Some(f64::INFINITY), None, Some(1.5)]))),
            ("y", Arc::new(Float32Array::from(vec![f32::NEG_INFINITY, f32::NAN, 0.1]))),
            ("n", Arc::new(NullArray::new(3))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn null_is_not_the_empty_text() {
        let (batch, mut written) = (answer(), Vec::new());
        csv(&mut written, &batch.schema(), &[batch]).unwrap();
        let expected = "t,x,y,n\n\"\",inf,-inf,\n,,NaN,\n\"a,\"\"b\"\"\n\",1.5,0.1,\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn infinity_is_not_null() {
        let mut written = Vec::new();
        json(&mut written, &[answer()]).unwrap();
        let expected = "{\"t\":\"\",\"x\":\"Infinity\",\"y\":\"-Infinity\"}\n\
                        {\"y\":\"NaN\"}\n\
                        {\"t\":\"a,\\\"b\\\"\\n\",\"x\":1.5,\"y\":0.1}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
