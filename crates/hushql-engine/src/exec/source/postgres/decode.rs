//! Decodes binary COPY into batches.
//!
//! In: the bytes that a server sends, in pieces of any length, and the encoding of each column.
//! Out: batches. A value that the engine's column cannot hold (a date of infinity, a number that is
//! too large, bytes that are not UTF-8) is NULL, so that no person's row makes the reading fail.
//! Bytes in another format do make it fail.
//!
//! ```text
//! PGCOPY\n\xff\r\n\0, flags, length of more    2 fields: 4 bytes 00 00 00 07, -1 (NULL)    …    -1: the end
//! ```

use std::io;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int16Builder, Int32Builder, Int64Builder, RecordBatch, RecordBatchOptions, StringViewBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::server_types::WireEncoding;

/// The most rows in a batch.
const BATCH: usize = 8_192;
/// The number of bytes at which a batch is full, so that long cells make short batches.
const BATCH_BYTES: usize = 16 << 20;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// A flag of an old version of the format, which no server has sent since 2005.
const HAS_OIDS: u32 = 1 << 16;

/// The days from 1970 to 2000; the next constant is the same in microseconds.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Decodes one COPY.
#[derive(Debug)]
pub(super) struct Decoder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    bytes: usize,
    /// The bytes that have arrived, and the number of them that were read.
    text: Vec<u8>,
    at: usize,
    state: DecoderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderState {
    Header,
    Rows,
    End,
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Decoder {
    /// A decoder for columns with these encodings.
    pub(super) fn new(schema: SchemaRef, kinds: &[WireEncoding]) -> Self {
        let columns = kinds.iter().map(|kind| ColumnBuilder::new(*kind)).collect();
        let (rows, bytes, at) = (0, 0, 0);
        Self { schema, columns, rows, bytes, text: Vec::new(), at, state: DecoderState::Header }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.extend_from_slice(bytes);
    }

    /// Reads rows until a batch is full; `None` if it needs more bytes.
    ///
    /// # Errors
    /// For bytes in another format.
    pub(super) fn next(&mut self) -> io::Result<Option<RecordBatch>> {
        if self.state == DecoderState::Header && !self.header()? {
            return Ok(None);
        }
        while self.state == DecoderState::Rows && self.row()? {
            if self.rows == BATCH || self.bytes >= BATCH_BYTES {
                return self.batch().map(Some);
            }
        }
        Ok(None)
    }

    /// The last rows, after all bytes have arrived.
    ///
    /// # Errors
    /// If the end is missing.
    pub(super) fn finish(&mut self) -> io::Result<Option<RecordBatch>> {
        match (self.state, self.rows) {
            (DecoderState::End, 0) => Ok(None),
            (DecoderState::End, _) => self.batch().map(Some),
            (DecoderState::Header | DecoderState::Rows, _) => Err(damaged()),
        }
    }

    fn batch(&mut self) -> io::Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .map(ColumnBuilder::finish)
            .collect::<Result<_, _>>()
            .map_err(|_| damaged())?;
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|_| damaged())
    }

    /// Reads the header; false if it has not arrived completely.
    fn header(&mut self) -> io::Result<bool> {
        let mut text = ByteCursor(self.text.get(self.at..).unwrap_or_default());
        let Some(signature) = text.take(SIGNATURE.len()) else { return Ok(false) };
        if signature != SIGNATURE {
            return Err(damaged());
        }
        let Some((flags, more)) = text.number().zip(text.number()) else { return Ok(false) };
        if u32::from_be_bytes(flags) & HAS_OIDS != 0 {
            return Err(damaged());
        }
        let more = usize::try_from(i32::from_be_bytes(more)).map_err(|_| damaged())?;
        if text.take(more).is_none() {
            return Ok(false);
        }
        self.at = self.text.len() - text.0.len();
        self.state = DecoderState::Rows;
        Ok(true)
    }

    /// Reads one row; false if it has not arrived completely, or at the end.
    fn row(&mut self) -> io::Result<bool> {
        let mut text = ByteCursor(self.text.get(self.at..).unwrap_or_default());
        let Some(fields) = text.number().map(i16::from_be_bytes) else { return Ok(false) };
        if fields == -1 {
            self.state = DecoderState::End;
            return Ok(false);
        }
        if usize::try_from(fields).ok() != Some(self.columns.len()) {
            return Err(damaged());
        }
        let first = text;
        for _ in 0..fields {
            match text.cell()? {
                Some(_) => {}
                None => return Ok(false),
            }
        }
        let length = first.0.len() - text.0.len();
        let mut cells = first;
        for column in &mut self.columns {
            let cell = cells.cell()?.ok_or_else(damaged)?;
            column.push(cell).ok_or_else(damaged)?;
        }
        self.at = self.text.len() - text.0.len();
        self.rows += 1;
        self.bytes += length;
        Ok(true)
    }
}

/// A cursor that reads bytes from the front.
#[derive(Clone, Copy)]
struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// The next cell: `None` if it has not arrived completely, `Some(None)` for NULL.
    fn cell(&mut self) -> io::Result<Option<Option<&'a [u8]>>> {
        let Some(length) = self.number().map(i32::from_be_bytes) else { return Ok(None) };
        if length == -1 {
            return Ok(Some(None));
        }
        let length = usize::try_from(length).map_err(|_| damaged())?;
        Ok(self.take(length).map(Some))
    }
}

/// The cells of a column in the present batch.
#[derive(Debug)]
enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, u8, i8),
    Text(StringViewBuilder),
    Uuid(StringViewBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

impl ColumnBuilder {
    fn new(kind: WireEncoding) -> Self {
        match kind {
            WireEncoding::Bool => Self::Bool(BooleanBuilder::new()),
            WireEncoding::Int2 => Self::Int2(Int16Builder::new()),
            WireEncoding::Int4 => Self::Int4(Int32Builder::new()),
            WireEncoding::Int8 => Self::Int8(Int64Builder::new()),
            WireEncoding::Float4 => Self::Float4(Float32Builder::new()),
            WireEncoding::Float8 => Self::Float8(Float64Builder::new()),
            WireEncoding::Numeric(precision, scale) => {
                Self::Numeric(Decimal128Builder::new(), precision, scale)
            }
            WireEncoding::Text | WireEncoding::Enum => Self::Text(StringViewBuilder::new()),
            WireEncoding::Uuid => Self::Uuid(StringViewBuilder::new()),
            WireEncoding::Date => Self::Date(Date32Builder::new()),
            WireEncoding::Timestamp => Self::Timestamp(TimestampMicrosecondBuilder::new()),
        }
    }

    /// Adds a cell; `None` if its bytes do not fit its type.
    fn push(&mut self, cell: Option<&[u8]>) -> Option<()> {
        fn number<const N: usize>(cell: Option<&[u8]>) -> Option<Option<[u8; N]>> {
            match cell {
                None => Some(None),
                Some(cell) => Some(Some(cell.try_into().ok()?)),
            }
        }
        match self {
            Self::Bool(column) => {
                let [byte] = match number(cell)? {
                    Some(byte) => byte,
                    None => {
                        column.append_null();
                        return Some(());
                    }
                };
                column.append_value(byte != 0);
            }
            Self::Int2(column) => column.append_option(number(cell)?.map(i16::from_be_bytes)),
            Self::Int4(column) => column.append_option(number(cell)?.map(i32::from_be_bytes)),
            Self::Int8(column) => column.append_option(number(cell)?.map(i64::from_be_bytes)),
            Self::Float4(column) => column.append_option(number(cell)?.map(f32::from_be_bytes)),
            Self::Float8(column) => column.append_option(number(cell)?.map(f64::from_be_bytes)),
            Self::Numeric(column, precision, scale) => match cell {
                Some(cell) => column.append_option(decimal(cell, *precision, *scale)?),
                None => column.append_null(),
            },
            Self::Text(column) => {
                column.append_option(cell.and_then(|cell| std::str::from_utf8(cell).ok()));
            }
            Self::Uuid(column) => {
                column.append_option(number::<16>(cell)?.map(|bytes| uuid(&bytes)));
            }
            Self::Date(column) => {
                let days = number(cell)?.map(i32::from_be_bytes);
                let days = days.filter(|days| !matches!(*days, i32::MIN | i32::MAX));
                column.append_option(days.and_then(|days| days.checked_add(EPOCH_DAYS)));
            }
            Self::Timestamp(column) => {
                let micros = number(cell)?.map(i64::from_be_bytes);
                let micros = micros.filter(|micros| !matches!(*micros, i64::MIN | i64::MAX));
                column.append_option(micros.and_then(|micros| micros.checked_add(EPOCH_MICROS)));
            }
        }
        Some(())
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Bool(column) => Arc::new(column.finish()),
            Self::Int2(column) => Arc::new(column.finish()),
            Self::Int4(column) => Arc::new(column.finish()),
            Self::Int8(column) => Arc::new(column.finish()),
            Self::Float4(column) => Arc::new(column.finish()),
            Self::Float8(column) => Arc::new(column.finish()),
            Self::Numeric(column, precision, scale) => {
                Arc::new(column.finish().with_precision_and_scale(*precision, *scale)?)
            }
            Self::Text(column) | Self::Uuid(column) => Arc::new(column.finish()),
            Self::Date(column) => Arc::new(column.finish()),
            Self::Timestamp(column) => Arc::new(column.finish()),
        })
    }
}

/// `00112233-4455-6677-8899-aabbccddeeff`.
fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Decodes a `numeric`, rounded to the scale as the server rounds: a half goes away from zero.
/// `Some(None)` if it is not a number or has more digits than the column; `None` if the bytes are
/// not a `numeric`.
///
/// The bytes hold the number of digits in base 10,000, the power of the first digit, the sign, the
/// number of decimal places to show, and the digits.
#[allow(
    clippy::option_option,
    reason = "bytes of another format, and a value that does not fit, end differently"
)]
fn decimal(cell: &[u8], precision: u8, scale: i8) -> Option<Option<i128>> {
    let mut bytes = ByteCursor(cell);
    let digits = usize::from(u16::from_be_bytes(bytes.number()?));
    let weight = i64::from(i16::from_be_bytes(bytes.number()?));
    let sign = u16::from_be_bytes(bytes.number()?);
    let _shown: [u8; 2] = bytes.number()?;
    if bytes.0.len() != digits.checked_mul(2)? {
        return None;
    }
    let is_negative = match sign {
        0x0000 => false,
        0x4000 => true,
        // NaN and the infinities.
        0xC000 | 0xD000 | 0xF000 => return Some(None),
        _ => return None,
    };
    let scale = i64::from(scale);
    let mut sum: i128 = 0;
    let (mut is_half, mut is_first_behind) = (false, true);
    let mut place = weight;
    let mut last = 0_i64;
    while let Some(digit) = bytes.number().map(u16::from_be_bytes) {
        if digit > 9_999 {
            return None;
        }
        for power in [1_000_u16, 100, 10, 1] {
            let figure = (digit / power) % 10;
            let exponent = place * 4 + i64::from(power.ilog10());
            if exponent >= -scale {
                let Some(next) = sum.checked_mul(10).and_then(|s| s.checked_add(figure.into()))
                else {
                    return Some(None);
                };
                (sum, last) = (next, exponent);
            } else if is_first_behind && exponent == -scale - 1 {
                is_half = figure >= 5;
                is_first_behind = false;
            }
        }
        place -= 1;
    }
    // The server does not send zeros after the last digit.
    if sum != 0 {
        let zeros = last + scale;
        let factor = u32::try_from(zeros).ok().and_then(|zeros| 10_i128.checked_pow(zeros));
        let Some(shifted) = factor.and_then(|factor| sum.checked_mul(factor)) else {
            return Some(None);
        };
        sum = shifted;
    }
    let Some(sum) = sum.checked_add(i128::from(is_half)) else { return Some(None) };
    let most = 10_i128.checked_pow(u32::from(precision))?;
    Some((sum < most).then_some(if is_negative { -sum } else { sum }))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Field, Int32Type, Schema};

    use super::*;

    fn numeric(weight: i16, sign: u16, digits: &[u16]) -> Vec<u8> {
        let count = u16::try_from(digits.len()).unwrap();
        let mut bytes = Vec::new();
        for number in [count, weight.cast_unsigned(), sign, 0].iter().chain(digits) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn decimals_are_exact_and_rounded_as_the_server_rounds() {
        let of = |weight, digits: &[u16], precision, scale| {
            decimal(&numeric(weight, 0, digits), precision, scale).unwrap()
        };
        assert_eq!(of(0, &[12], 9, 2), Some(1_200));
        assert_eq!(of(0, &[12, 3_400], 9, 2), Some(1_234));
        assert_eq!(of(1, &[1], 9, 0), Some(10_000));
        assert_eq!(of(1, &[1], 4, 0), None);
        // 2¹²⁷ − 1 and a half, at two scales: no value makes the reading fail.
        let most = [170, 1_411, 8_346, 469, 2_317, 3_168, 7_303, 7_158, 8_410, 5_727, 5_000];
        assert_eq!(of(9, &most, 38, 0), None);
        let most = [1, 7_014, 1_183, 4_604, 6_923, 1_731, 6_873, 371, 5_884, 1_057, 2_750];
        assert_eq!(of(9, &most, 18, 2), None);
        assert_eq!(of(0, &[], 9, 2), Some(0));
        assert_eq!(of(-1, &[50], 9, 2), Some(1));
        assert_eq!(of(-1, &[49], 9, 2), Some(0));
        assert_eq!(of(-1, &[49, 9_999], 9, 2), Some(0));
        assert_eq!(of(-3, &[5_000], 9, 2), Some(0));
        assert_eq!(of(0, &[9_999, 9_950], 6, 2), None);
        assert_eq!(of(0, &[9_999, 9_950], 7, 2), Some(1_000_000));
        assert_eq!(of(0, &[9_999, 9_949], 6, 2), Some(999_999));
        // 38 nines.
        let nines = [99_u16, 9_999, 9_999, 9_999, 9_999, 9_999, 9_999, 9_999, 9_999, 9_999];
        let most = 10_i128.pow(38) - 1;
        assert_eq!(of(9, &nines, 38, 0), Some(most));
        assert_eq!(of(0, &nines, 38, 36), Some(most));
        assert_eq!(of(10, &nines, 38, 0), None);
        assert_eq!(of(9, &nines, 38, 1), None);
        assert_eq!(of(32_767, &[1], 38, 0), None);
        assert_eq!(of(-32_768, &[1], 38, 38), Some(0));
        assert_eq!(decimal(&numeric(0, 0x4000, &[12, 3_450]), 9, 1), Some(Some(-123)));
        assert_eq!(decimal(&numeric(0, 0x4000, &[12, 3_500]), 9, 1), Some(Some(-124)));
        for sign in [0xC000, 0xD000, 0xF000] {
            assert_eq!(decimal(&numeric(0, sign, &[]), 9, 1), Some(None));
        }
        for bytes in [
            numeric(0, 0x8000, &[1]),
            numeric(0, 0, &[10_000]),
            vec![0, 1, 0, 0, 0, 0, 0, 0],
            vec![0, 0, 0],
        ] {
            assert_eq!(decimal(&bytes, 9, 1), None);
        }
    }

    /// Pieces of any length give the same rows, and an incomplete COPY fails.
    #[test]
    fn pieces_are_joined_and_damage_is_noticed() {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 2, 7, 7]);
        for n in [1_i32, -5, 9] {
            bytes.extend_from_slice(&[0, 2, 0, 0, 0, 4]);
            bytes.extend_from_slice(&n.to_be_bytes());
            bytes.extend_from_slice(if n < 0 { &[255; 4] } else { b"\0\0\0\x01\xff" });
        }
        bytes.extend_from_slice(&[255, 255]);
        let kinds = [WireEncoding::Int4, WireEncoding::Text];
        let schema = || {
            Arc::new(Schema::new(vec![
                Field::new("n", kinds[0].data_type(), true),
                Field::new("t", arrow::datatypes::DataType::Utf8View, true),
            ]))
        };
        for piece in [1, 3, 11, 1_000] {
            let mut decoder = Decoder::new(schema(), &kinds);
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                assert!(decoder.next().unwrap().is_none());
            }
            let batch = decoder.finish().unwrap().unwrap();
            assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[1, -5, 9]);
            // Bytes that are not UTF-8 are NULL.
            assert_eq!(batch.column(1).null_count(), 3);
        }
        for end in 0..bytes.len() - 1 {
            let mut decoder = Decoder::new(schema(), &kinds);
            decoder.push(&bytes[..end]);
            assert!(decoder.next().unwrap().is_none() && decoder.finish().is_err(), "{end}");
        }
        for (at, byte) in [(0, b'X'), (12, 1), (22, 3), (26, 5), (23, 128)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            let mut decoder = Decoder::new(schema(), &kinds);
            decoder.push(&damaged);
            assert!(decoder.next().is_err() || decoder.finish().is_err(), "{at}");
        }
    }

    #[test]
    fn identifiers_are_written_as_texts() {
        let bytes: Vec<u8> = (0..16).map(|i| i * 17).collect();
        let bytes = <[u8; 16]>::try_from(bytes.as_slice()).unwrap();
        assert_eq!(uuid(&bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
