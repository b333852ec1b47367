//! The password of a role on its way from a statement to its verifier.
//!
//! In: the text of a statement. Out: the same text for the code that makes the verifier. Printing a
//! parsed statement does not show it.

use std::fmt;

/// A password as written, or its verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The password.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// A log does not show the password.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
