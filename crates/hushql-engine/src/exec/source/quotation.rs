//! Finds where quotations of CSV files are open.
//!
//! In: the marks of quotations, and bytes in pieces. Out: whether a quotation is open behind them.
//!
//! ```text
//! 1,"two            open
//! lines",3          closed again
//! ```

/// The marks of quotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuoteMarks {
    pub(super) quote: u8,
    pub(super) escape: Option<u8>,
}

/// Whether a quotation is open behind the bytes that were read.
#[derive(Debug, Default)]
pub(super) struct QuotationState {
    is_open: bool,
    is_escaped: bool,
}

impl QuotationState {
    /// Reads on. A mark behind an escape does not count outside of quotes, either: the bytes may be
    /// the second half of a record.
    pub(super) fn read(&mut self, bytes: &[u8], marks: QuoteMarks) {
        if marks.escape.is_none() && !bytes.contains(&marks.quote) {
            return;
        }
        for byte in bytes {
            if self.is_escaped {
                self.is_escaped = false;
            } else if Some(*byte) == marks.escape {
                self.is_escaped = true;
            } else if *byte == marks.quote {
                self.is_open = !self.is_open;
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// Whether each quotation mark of a record has its other one.
pub(super) fn is_closed(record: &[u8], marks: QuoteMarks) -> bool {
    let mut state = QuotationState::default();
    state.read(record, marks);
    !state.is_open()
}
