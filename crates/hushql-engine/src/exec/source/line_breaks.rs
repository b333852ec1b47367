//! The option that says whether records of text files may go over several lines.
//!
//! In: the options of a table. Out: what its owner says, if anything.
//!
//! ```text
//! OPTIONS ('line_breaks' 'true')      the declaration refuses files that are not well formed
//! OPTIONS ('line_breaks' 'false')     a quotation ends with its line, and an object, too
//! ```

use std::collections::BTreeMap;

use super::csv_format::is_true;
use crate::error::Error;

/// The name of the option.
pub(super) const LINE_BREAKS: &str = "line_breaks";

/// What the owner says about records over several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineBreaks {
    /// Nothing: the declaration decides.
    Unsaid,
    /// They may.
    Within,
    /// Each line is a record.
    Between,
}

impl LineBreaks {
    /// What the options of a table say.
    ///
    /// # Errors
    /// [`Error::Catalog`] for a value other than true and false.
    pub(super) fn of_options(options: &BTreeMap<String, String>) -> Result<Self, Error> {
        let value = options.get(LINE_BREAKS);
        Ok(match (value, is_true(value, LINE_BREAKS, false)?) {
            (None, _) => Self::Unsaid,
            (Some(_), true) => Self::Within,
            (Some(_), false) => Self::Between,
        })
    }
}
