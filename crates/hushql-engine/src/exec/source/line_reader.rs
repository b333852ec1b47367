//! The lines of a text file, one after the other.
//!
//! In: the bytes of a file, and the character with which comments begin. Out: its lines without
//! their endings, and their numbers.

use std::io::{self, BufRead, BufReader, Read};

/// The lines of a text file without their line endings. It skips empty lines, comments and a byte
/// order mark.
pub(super) struct LineReader {
    reader: BufReader<Box<dyn Read + Send>>,
    comment: Option<u8>,
    line: Vec<u8>,
    number: u64,
}

impl LineReader {
    pub(super) fn new(text: Box<dyn Read + Send>, comment: Option<u8>) -> Self {
        let reader = BufReader::with_capacity(1 << 20, text);
        Self { reader, comment, line: Vec::new(), number: 0 }
    }

    /// The next line.
    ///
    /// # Errors
    /// If the disk fails, or a compressed file is damaged.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.number == 0 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            self.number += 1;
            while self.line.pop_if(|byte| matches!(byte, b'\n' | b'\r')).is_some() {}
            match self.line.first() {
                None => {}
                first if self.comment.is_some() && first == self.comment.as_ref() => {}
                Some(_) => return Ok(Some(&self.line)),
            }
        }
    }

    /// The number of the line that [`LineReader::next`] returned last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}
