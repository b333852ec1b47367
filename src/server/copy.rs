//! The lines of `COPY (query) TO STDOUT`, or its rows in binary.
//!
//! ```text
//! text   a<tab>\N      csv   "a,b",      binary   PGCOPY…, and for each row: 2 columns, 8 bytes …, -1 for NULL
//! ```

use super::encode::{self, EncodedTable, Unencoded, texts};
use super::reply::Reply;
use super::statement_kind::Copied;

/// Writes all rows in the encoding of the reply, and ends the copy.
pub(super) fn write(table: &EncodedTable, how: Copied, reply: &mut Reply) -> Result<(), Unencoded> {
    let (is_csv, has_header) = match how {
        Copied::Binary => return binary(table, reply),
        Copied::Csv { has_header } => (true, has_header),
        Copied::Text { has_header } => (false, has_header),
    };
    reply.copy_begins(table.schema.fields().len(), false);
    if has_header {
        let names =
            table.schema.fields().iter().map(|field| Some(field.name().as_bytes().to_vec()));
        let names = line(&names.collect::<Vec<_>>(), is_csv);
        reply.copied(&reply.encoding.encoded(&names));
    }
    for batch in &table.batches {
        texts(batch, |cells| {
            let line = line(cells, is_csv);
            reply.copied(&reply.encoding.encoded(&line));
        })?;
    }
    reply.copy_ends();
    Ok(())
}

/// The beginning of binary rows: a signature, no flags, and an empty header extension. And their
/// end.
const BEGIN: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: [u8; 2] = [0xff, 0xff];

/// The bytes before a row's columns in its message: a letter and a length.
const HEAD: usize = 5;

fn binary(table: &EncodedTable, reply: &mut Reply) -> Result<(), Unencoded> {
    let columns = table.schema.fields().len();
    let rows = encode::rows(table, &vec![1; columns], reply.encoding)?;
    reply.copy_begins(columns, true);
    // The beginning comes with the first row, or with the end if there is none: clients expect both
    // in one message.
    let mut message = BEGIN.to_vec();
    for row in 0..rows.rows() {
        message.extend_from_slice(rows.page(row, row + 1).get(HEAD..).ok_or(Unencoded)?);
        reply.copied(&message);
        message.clear();
    }
    message.extend_from_slice(&END);
    reply.copied(&message);
    reply.copy_ends();
    Ok(())
}

fn line(cells: &[Option<Vec<u8>>], is_csv: bool) -> Vec<u8> {
    let mut line = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            line.push(if is_csv { b',' } else { b'\t' });
        }
        match cell {
            None if is_csv => {}
            None => line.extend_from_slice(b"\\N"),
            Some(cell) if is_csv => quoted(cell, cells.len() == 1, &mut line),
            Some(cell) => escaped(cell, &mut line),
        }
    }
    line.push(b'\n');
    line
}

/// A cell of CSV, in quotes if it could be misread otherwise.
fn quoted(cell: &[u8], is_alone: bool, to: &mut Vec<u8>) {
    let special = |byte: &u8| [b',', b'"', b'\n', b'\r'].contains(byte);
    let is_end = is_alone && cell == b"\\.";
    if !(cell.is_empty() || is_end || cell.iter().any(special)) {
        to.extend_from_slice(cell);
        return;
    }
    to.push(b'"');
    for byte in cell {
        if *byte == b'"' {
            to.push(b'"');
        }
        to.push(*byte);
    }
    to.push(b'"');
}

fn escaped(cell: &[u8], to: &mut Vec<u8>) {
    for byte in cell {
        match byte {
            b'\\' => to.extend_from_slice(b"\\\\"),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            8 => to.extend_from_slice(b"\\b"),
            11 => to.extend_from_slice(b"\\v"),
            12 => to.extend_from_slice(b"\\f"),
            byte => to.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_rows_have_lengths_and_an_end() {
        use std::sync::Arc;

        use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from(vec![Some(7), None]))),
            ("city", Arc::new(StringArray::from(vec!["Rome", ""]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let table = EncodedTable { schema: batch.schema(), batches: vec![batch] };
        let mut reply = Reply::default();
        write(&table, Copied::Binary, &mut reply).unwrap();
        let bytes = reply.take();
        let mut expected = b"H\0\0\0\x0b\x01\0\x02\0\x01\0\x01d\0\0\0\x2d".to_vec();
        expected.extend_from_slice(BEGIN);
        expected.extend_from_slice(b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x04Rome");
        expected.extend_from_slice(b"d\0\0\0\x0e\0\x02\xff\xff\xff\xff\0\0\0\0");
        expected.extend_from_slice(b"d\0\0\0\x06\xff\xffc\0\0\0\x04");
        assert_eq!(bytes, expected);
        assert_eq!(BEGIN.len(), 19);
    }

    #[test]
    fn cells_are_told_apart() {
        let cells =
            [Some(b"a\tb".to_vec()), None, Some(b"".to_vec()), Some(b"say \"no\", \\".to_vec())];
        assert_eq!(line(&cells, false), b"a\\tb\t\\N\t\tsay \"no\", \\\\\n");
        assert_eq!(line(&cells, true), b"a\tb,,\"\",\"say \"\"no\"\", \\\"\n");
        assert_eq!(line(&[Some(b"\\.".to_vec())], true), b"\"\\.\"\n");
    }
}
