//! Digests of stored data, which reveal damage.
//!
//! Fields go in, one after the other; 32 bytes come out. A digest is not a signature: it has no
//! key.

use sha2::{Digest, Sha256};

/// A digest over a sequence of fields.
///
/// Every field is preceded by its length, so that no two different sequences have the same bytes.
#[derive(Debug, Clone)]
pub(crate) struct Fields(Sha256);

impl Fields {
    /// An empty sequence; `what` separates digests of different kinds of data.
    pub(crate) fn new(what: &str) -> Self {
        let mut fields = Self(Sha256::new());
        fields.bytes(what.as_bytes());
        fields
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // As 64 bits, so that every machine reads a vault in the same way.
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn integer(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    pub(crate) fn optional(&mut self, value: Option<i64>) {
        match value {
            Some(value) => self.integer(value),
            None => self.bytes(&[]),
        }
    }

    pub(crate) fn digest(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
