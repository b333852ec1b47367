//! The records of a text file, one after the other: its lines, or more than lines.
//!
//! In: the bytes of a file, the character with which comments begin, and what a record is. Out: the
//! records without their line endings, and the numbers of their lines.
//!
//! ```text
//! 1,"two ⏎ lines"       two lines, or one record with quotation marks
//! { ⏎ "id": 1 ⏎ }       three lines, or one object
//! ```

use std::io::{self, BufRead, BufReader, Read};

use super::json_objects::{DocumentByte, DocumentState};
use super::quotation::{QuotationState, QuoteMarks};

/// The most bytes of a record that has several lines.
const LONGEST: usize = 64 << 20;

/// The mark of byte order at the beginning of a text.
const BYTE_ORDER: &[u8] = b"\xef\xbb\xbf";

/// What a record of a text file is.
#[derive(Debug)]
pub(super) enum RecordKind {
    /// A line.
    Line,
    /// A line, with those in which its quotation goes on. Only for files that a declaration found
    /// well formed: an open quotation mark takes all lines behind it.
    Quoted(QuoteMarks),
    /// An object of a JSON document. Only for files that a declaration found well formed.
    Object(DocumentState),
}

/// The records of a text file without their line endings. It skips empty lines, comments and a byte
/// order mark.
pub(super) struct LineReader {
    reader: BufReader<Box<dyn Read + Send>>,
    comment: Option<u8>,
    kind: RecordKind,
    record: Vec<u8>,
    /// The number of the first line of the record.
    first: u64,
    /// The number of lines that were read.
    number: u64,
    /// The line in which a document of objects has something else.
    broken: Option<u64>,
}

impl LineReader {
    pub(super) fn new(text: Box<dyn Read + Send>, comment: Option<u8>, kind: RecordKind) -> Self {
        let reader = BufReader::with_capacity(1 << 20, text);
        Self { reader, comment, kind, record: Vec::new(), first: 0, number: 0, broken: None }
    }

    /// The next record.
    ///
    /// # Errors
    /// If the disk fails, or a compressed file is damaged.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if let RecordKind::Object(_) = self.kind {
            return Ok(self.next_object()?.then_some(self.record.as_slice()));
        }
        loop {
            self.record.clear();
            if self.reader.read_until(b'\n', &mut self.record)? == 0 {
                return Ok(None);
            }
            if self.number == 0 && self.record.starts_with(BYTE_ORDER) {
                self.record.drain(..BYTE_ORDER.len());
            }
            self.number += 1;
            self.first = self.number;
            match self.record.first() {
                first if self.comment.is_some() && first == self.comment.as_ref() => continue,
                _ => {}
            }
            if let RecordKind::Quoted(marks) = self.kind {
                self.read_quotation(marks)?;
            }
            while self.record.pop_if(|byte| matches!(byte, b'\n' | b'\r')).is_some() {}
            if !self.record.is_empty() {
                return Ok(Some(&self.record));
            }
        }
    }

    /// Adds the lines in which the quotation of a line goes on.
    fn read_quotation(&mut self, marks: QuoteMarks) -> io::Result<()> {
        let mut state = QuotationState::default();
        let mut read = 0;
        loop {
            state.read(self.record.get(read..).unwrap_or_default(), marks);
            read = self.record.len();
            if !state.is_open()
                || read > LONGEST
                || self.reader.read_until(b'\n', &mut self.record)? == 0
            {
                return Ok(());
            }
            self.number += 1;
        }
    }

    /// Reads the next object of a document; false at its end, and where it is broken.
    fn next_object(&mut self) -> io::Result<bool> {
        let RecordKind::Object(state) = &mut self.kind else { return Ok(false) };
        self.record.clear();
        if self.number == 0 {
            self.number = 1;
            if self.reader.fill_buf()?.starts_with(BYTE_ORDER) {
                self.reader.consume(BYTE_ORDER.len());
            }
        }
        while self.broken.is_none() {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                if !state.may_end() {
                    self.broken = Some(self.number);
                }
                return Ok(false);
            }
            let (mut from, mut used, mut is_whole) = (None, 0, false);
            for byte in bytes {
                match state.step(*byte) {
                    DocumentByte::Between => {}
                    DocumentByte::OfObject => {
                        if from.is_none() {
                            from = Some(used);
                            if self.record.is_empty() {
                                self.first = self.number;
                            }
                        }
                    }
                    DocumentByte::EndsObject => {
                        from = from.or(Some(used));
                        is_whole = true;
                    }
                    DocumentByte::Misplaced => self.broken = Some(self.number),
                }
                self.number += u64::from(*byte == b'\n');
                used += 1;
                if is_whole || self.broken.is_some() {
                    break;
                }
            }
            if let Some(from) = from {
                self.record.extend_from_slice(bytes.get(from..used).unwrap_or_default());
            }
            self.reader.consume(used);
            if is_whole {
                return Ok(true);
            }
            if self.record.len() > LONGEST {
                self.broken = Some(self.first);
            }
        }
        Ok(false)
    }

    /// The number of the first line of the record that [`LineReader::next`] returned last, from 1.
    pub(super) fn first_line(&self) -> u64 {
        self.first
    }

    /// The number of lines of that record.
    pub(super) fn lines_of_record(&self) -> u64 {
        (self.number + 1).saturating_sub(self.first)
    }

    /// Whether the object that [`LineReader::next`] returned last is in an array.
    pub(super) fn is_in_array(&self) -> bool {
        matches!(&self.kind, RecordKind::Object(state) if state.is_in_array())
    }

    /// The line in which a document of objects has something else, or does not end.
    pub(super) fn broken(&self) -> Option<u64> {
        self.broken
    }
}
