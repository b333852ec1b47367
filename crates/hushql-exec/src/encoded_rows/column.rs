//! The codes of one column, in as few bytes as they need.
//!
//! In: codes below the size of a column. Out: the same codes, one byte each if all of them fit,
//! otherwise two. Counting reads the codes from memory many times, and bytes take half as long.
//!
//! ```text
//! 101 codes   0, 100, 7 …    one byte each
//! 300 codes   0, 299, 7 …    two bytes each
//! ```

/// The codes of a column, row by row.
#[derive(Debug)]
pub(super) enum ColumnCodes {
    /// Codes below 256.
    Bytes(Vec<u8>),
    /// All other codes.
    Wide(Vec<u16>),
}

/// A code that does not fit into its column, because of a defect.
#[derive(Debug)]
pub(super) struct Beyond;

impl ColumnCodes {
    /// An empty column for this number of codes.
    pub(super) fn new(size: usize) -> Self {
        if size <= 1 << u8::BITS { Self::Bytes(Vec::new()) } else { Self::Wide(Vec::new()) }
    }

    /// Appends codes.
    ///
    /// # Errors
    /// [`Beyond`] if a code does not fit.
    pub(super) fn extend(&mut self, codes: &[u16]) -> Result<(), Beyond> {
        match self {
            Self::Bytes(own) => {
                let low = |code: &u16| {
                    let [low, _] = code.to_le_bytes();
                    low
                };
                own.extend(codes.iter().map(low));
                let largest = codes.iter().copied().max().unwrap_or(0);
                if largest > u16::from(u8::MAX) { Err(Beyond) } else { Ok(()) }
            }
            Self::Wide(own) => {
                own.extend_from_slice(codes);
                Ok(())
            }
        }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(codes) => codes.len(),
            Self::Wide(codes) => codes.len(),
        }
    }

    /// The bytes in use.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bytes(codes) => codes.capacity(),
            Self::Wide(codes) => codes.capacity().saturating_mul(2),
        }
    }

    /// Whether all codes are below `size`.
    pub(super) fn is_below(&self, size: usize) -> bool {
        let largest = match self {
            Self::Bytes(codes) => codes.iter().copied().max().map(usize::from),
            Self::Wide(codes) => codes.iter().copied().max().map(usize::from),
        };
        largest.is_none_or(|largest| largest < size)
    }
}
