//! Arrays, types and values as text, for descriptions of plans that are sent to other processes.
//!
//! In: columns of Arrow, types, or values of one type. Out: an Arrow IPC stream in base 64, and
//! back. The types of the columns come back unchanged. Use it as `#[serde(with = "…")]`.
//!
//! ```text
//! [Int64Array [1, 2]] ─▶ "/////3gAAAAQAAAAAAAKAAwA…" ─▶ [Int64Array [1, 2]]
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::{ArrowError, Result};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Columns of equal length, at least one.
fn text_of(columns: &[ArrayRef]) -> Result<String> {
    let field = |(i, column): (usize, &ArrayRef)| {
        Field::new(i.to_string(), column.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec())?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    Ok(STANDARD.encode(writer.into_inner()?))
}

fn columns_in(text: &str) -> Result<Vec<ArrayRef>> {
    let bytes = STANDARD.decode(text).map_err(|e| ArrowError::ExternalError(Box::new(e)))?;
    let mut batches = StreamReader::try_new(bytes.as_slice(), None)?;
    match (batches.next().transpose()?, batches.next()) {
        (Some(batch), None) => Ok(batch.columns().to_vec()),
        _ => Err(ArrowError::IpcError("one batch is expected".to_owned())),
    }
}

fn one_column_in(text: &str) -> Result<ArrayRef> {
    let columns = columns_in(text)?;
    let one = columns.into_iter().next();
    one.ok_or_else(|| ArrowError::IpcError("a column is expected".to_owned()))
}

/// A type.
pub mod data_type {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Array, DataType, new_empty_array, one_column_in, text_of};

    /// Writes them as text.
    ///
    /// # Errors
    /// The errors of Arrow and of the writer.
    pub fn serialize<S: Serializer>(of: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text_of(&[new_empty_array(of)]).map_err(S::Error::custom)?)
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// For any other text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        let text = String::deserialize(from)?;
        Ok(one_column_in(&text).map_err(D::Error::custom)?.data_type().clone())
    }
}

/// Columns of equal length. No columns make an empty text.
pub mod columns {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{ArrayRef, columns_in, text_of};

    /// Writes them as text.
    ///
    /// # Errors
    /// The errors of Arrow and of the writer.
    pub fn serialize<S: Serializer>(of: &[ArrayRef], to: S) -> Result<S::Ok, S::Error> {
        match of {
            [] => to.serialize_str(""),
            of => to.serialize_str(&text_of(of).map_err(S::Error::custom)?),
        }
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// For any other text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ArrayRef>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        columns_in(&text).map_err(D::Error::custom)
    }
}

/// Values of one type. No values make an empty text.
pub mod values {
    use datafusion::common::ScalarValue;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Array, one_column_in, text_of};

    /// Writes them as text.
    ///
    /// # Errors
    /// The errors of Arrow and of the writer.
    pub fn serialize<S: Serializer>(of: &[ScalarValue], to: S) -> Result<S::Ok, S::Error> {
        if of.is_empty() {
            return to.serialize_str("");
        }
        let column = ScalarValue::iter_to_array(of.iter().cloned()).map_err(S::Error::custom)?;
        to.serialize_str(&text_of(&[column]).map_err(S::Error::custom)?)
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// For any other text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ScalarValue>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let column = one_column_in(&text).map_err(D::Error::custom)?;
        let value = |i| ScalarValue::try_from_array(&column, i).map_err(D::Error::custom);
        (0..column.len()).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, StringViewArray};
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn columns_come_back_as_they_were() {
        let cents = Decimal128Array::from(vec![Some(i128::MAX / 7), None, Some(-1)]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from(vec![
                Some("a text that is behind a view"),
                None,
                Some(""),
            ])),
            Arc::new(cents.with_precision_and_scale(38, 2).unwrap()),
            Arc::new(Float64Array::from(vec![
                f64::NEG_INFINITY,
                -0.0,
                f64::from_bits(0x7ff8_0000_0000_0001),
            ])),
        ];
        let back = columns_in(&text_of(&columns).unwrap()).unwrap();
        for (column, back) in columns.iter().zip(&back) {
            assert_eq!(column.to_data(), back.to_data());
        }
        assert_eq!(back.len(), 3);
        assert!(columns_in("no base 64!").is_err() && columns_in("AAAA").is_err());
    }

    #[test]
    fn types_come_back_as_they_were() {
        for data_type in [
            DataType::Int64,
            DataType::Utf8View,
            DataType::Decimal128(12, -3),
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        ] {
            let text = text_of(&[new_empty_array(&data_type)]).unwrap();
            assert_eq!(*one_column_in(&text).unwrap().data_type(), data_type);
        }
    }
}
