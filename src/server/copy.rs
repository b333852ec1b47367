//! The lines of `COPY (query) TO STDOUT`.
//!
//! ```text
//! text   a<tab>\N      csv   "a,b",
//! ```

use super::encode::{Table, Unencoded, texts};
use super::reply::Reply;
use super::words::Copied;

/// Writes all lines, and ends the copy.
pub(super) fn write(table: &Table, how: Copied, reply: &mut Reply) -> Result<(), Unencoded> {
    reply.copy_begins(table.schema.fields().len());
    if how.has_header {
        let names =
            table.schema.fields().iter().map(|field| Some(field.name().as_bytes().to_vec()));
        reply.copied(&line(&names.collect::<Vec<_>>(), how.is_csv));
    }
    for batch in &table.batches {
        texts(batch, |cells| reply.copied(&line(cells, how.is_csv)))?;
    }
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

/// A cell of CSV, in quotes where it could be read otherwise.
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
    fn cells_are_told_apart() {
        let cells =
            [Some(b"a\tb".to_vec()), None, Some(b"".to_vec()), Some(b"say \"no\", \\".to_vec())];
        assert_eq!(line(&cells, false), b"a\\tb\t\\N\t\tsay \"no\", \\\\\n");
        assert_eq!(line(&cells, true), b"a\tb,,\"\",\"say \"\"no\"\", \\\"\n");
        assert_eq!(line(&[Some(b"\\.".to_vec())], true), b"\"\\.\"\n");
    }
}
