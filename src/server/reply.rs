//! The messages of the server.
//!
//! In: the contents of messages. Out: bytes in a buffer, which is sent in one piece. An answer is
//! encoded completely before its first byte is sent, so that no value makes an answer break off.

use std::fmt::Write as _;

use super::encoding::Encoding;

/// The description of an answer's column for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplyColumn {
    pub(super) name: String,
    /// The number of the table and that of its column, or 0 if it is not a column of a table.
    pub(super) table: u32,
    pub(super) column: u16,
    /// The number of its type.
    pub(super) kind: u32,
    /// The bytes of a value; -1 if they vary.
    pub(super) size: i16,
    /// 0 for text, 1 for binary.
    pub(super) format: i16,
}

/// The fields of an error or a notice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// SQLSTATE.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// The position of the character in the statement, from 1.
    pub(super) position: Option<usize>,
}

/// Messages that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Reply {
    bytes: Vec<u8>,
    /// The encoding of texts.
    pub(super) encoding: Encoding,
}

impl Reply {
    /// An empty buffer for texts in this encoding.
    pub(super) fn with(encoding: Encoding) -> Self {
        Self { encoding, ..Self::default() }
    }

    /// Takes the bytes out of the buffer.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends encoded messages.
    pub(super) fn append(&mut self, other: &[u8]) {
        self.bytes.extend_from_slice(other);
    }

    /// One message, whose body `write` adds.
    fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX).to_be_bytes();
        if let Some(place) = self.bytes.get_mut(start..start + 4) {
            place.copy_from_slice(&length);
        }
    }

    fn empty(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    /// Asks for a log-in by one of these mechanisms.
    pub(super) fn mechanisms(&mut self, mechanisms: &[&str]) {
        self.message(b'R', |to| {
            int(to, 10);
            mechanisms.iter().for_each(|mechanism| text(to, mechanism, Encoding::Utf8));
            to.push(0);
        });
    }

    /// The server's first message of a log-in.
    pub(super) fn log_in_goes_on(&mut self, said: &str) {
        self.message(b'R', |to| {
            int(to, 11);
            to.extend_from_slice(said.as_bytes());
        });
    }

    /// The server's last message of a log-in.
    pub(super) fn log_in_ends(&mut self, said: &str) {
        self.message(b'R', |to| {
            int(to, 12);
            to.extend_from_slice(said.as_bytes());
        });
    }

    /// The log-in succeeded.
    pub(super) fn logged_in(&mut self) {
        self.message(b'R', |to| int(to, 0));
    }

    pub(super) fn parameter(&mut self, name: &str, value: &str) {
        let encoding = self.encoding;
        self.message(b'S', |to| {
            text(to, name, encoding);
            text(to, value, encoding);
        });
    }

    /// The key with which a client can cancel a statement of this connection.
    pub(super) fn key(&mut self, process: i32, secret: i32) {
        self.message(b'K', |to| {
            int(to, process);
            int(to, secret);
        });
    }

    /// The newest minor version that the server speaks, and the unknown options.
    pub(super) fn negotiate(&mut self, unknown: &[&str]) {
        self.message(b'v', |to| {
            int(to, 3 << 16);
            int(to, i32::try_from(unknown.len()).unwrap_or(0));
            unknown.iter().for_each(|name| text(to, name, Encoding::Utf8));
        });
    }

    /// The server is ready for the next statement: `I` outside of a transaction, `T` within one,
    /// `E` within one that has failed.
    pub(super) fn ready(&mut self, state: u8) {
        self.message(b'Z', |to| to.push(state));
    }

    pub(super) fn error(&mut self, severity: &str, said: &Said) {
        let encoding = self.encoding;
        self.message(b'E', |to| fields(to, severity, said, encoding));
    }

    pub(super) fn notice(&mut self, severity: &str, said: &Said) {
        let encoding = self.encoding;
        self.message(b'N', |to| fields(to, severity, said, encoding));
    }

    pub(super) fn columns(&mut self, columns: &[ReplyColumn]) {
        let encoding = self.encoding;
        self.message(b'T', |to| {
            short(to, columns.len());
            for ReplyColumn { name, table, column, kind, size, format } in columns {
                text(to, name, encoding);
                to.extend_from_slice(&table.to_be_bytes());
                to.extend_from_slice(&column.to_be_bytes());
                to.extend_from_slice(&kind.to_be_bytes());
                to.extend_from_slice(&size.to_be_bytes());
                int(to, -1);
                to.extend_from_slice(&format.to_be_bytes());
            }
        });
    }

    pub(super) fn no_columns(&mut self) {
        self.empty(b'n');
    }

    /// One row, each cell with its length.
    pub(super) fn row(&mut self, columns: usize, cells: &[u8]) {
        self.message(b'D', |to| {
            short(to, columns);
            to.extend_from_slice(cells);
        });
    }

    pub(super) fn complete(&mut self, tag: &str) {
        self.message(b'C', |to| text(to, tag, Encoding::Utf8));
    }

    pub(super) fn nothing_asked(&mut self) {
        self.empty(b'I');
    }

    pub(super) fn parsed(&mut self) {
        self.empty(b'1');
    }

    pub(super) fn bound(&mut self) {
        self.empty(b'2');
    }

    pub(super) fn closed(&mut self) {
        self.empty(b'3');
    }

    pub(super) fn suspended(&mut self) {
        self.empty(b's');
    }

    /// The types of parameters.
    pub(super) fn parameters(&mut self, types: &[u32]) {
        self.message(b't', |to| {
            short(to, types.len());
            types.iter().for_each(|kind| to.extend_from_slice(&kind.to_be_bytes()));
        });
    }

    /// A COPY to the client begins, with this number of columns, as text or in binary.
    pub(super) fn copy_begins(&mut self, columns: usize, binary: bool) {
        self.message(b'H', |to| {
            to.push(binary.into());
            short(to, columns);
            (0..columns).for_each(|_| short(to, binary.into()));
        });
    }

    pub(super) fn copied(&mut self, line: &[u8]) {
        self.message(b'd', |to| to.extend_from_slice(line));
    }

    pub(super) fn copy_ends(&mut self) {
        self.empty(b'c');
    }
}

fn int(to: &mut Vec<u8>, value: i32) {
    to.extend_from_slice(&value.to_be_bytes());
}

fn short(to: &mut Vec<u8>, value: usize) {
    to.extend_from_slice(&u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes());
}

/// A text, up to its first zero byte.
fn text(to: &mut Vec<u8>, text: &str, encoding: Encoding) {
    let bytes = encoding.encoded(text.as_bytes());
    to.extend(bytes.iter().take_while(|byte| **byte != 0));
    to.push(0);
}

fn fields(to: &mut Vec<u8>, severity: &str, said: &Said, encoding: Encoding) {
    let mut field = |kind: u8, value: &str| {
        to.push(kind);
        text(to, value, encoding);
    };
    field(b'S', severity);
    field(b'V', severity);
    field(b'C', &said.code);
    field(b'M', &said.message);
    if let Some(hint) = &said.hint {
        field(b'H', hint);
    }
    if let Some(position) = said.position {
        let mut written = String::new();
        let _ = write!(written, "{position}");
        field(b'P', &written);
    }
    to.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length() {
        let mut reply = Reply::default();
        assert!(reply.is_empty());
        reply.ready(b'T');
        reply.complete("SELECT 1");
        assert_eq!(reply.take(), b"Z\0\0\0\x05TC\0\0\0\x0dSELECT 1\0");
        let said = Said { code: "HQ007".into(), message: "no\0t".into(), ..Said::default() };
        reply.error("ERROR", &said);
        assert_eq!(reply.take(), b"E\0\0\0\x1eSERROR\0VERROR\0CHQ007\0Mno\0\0".as_slice());
    }
}
