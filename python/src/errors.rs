//! Errors of the engine as exceptions.
//!
//! In: an error. Out: an exception of `hushql._errors`, which has its kind, sentence, code, hint
//! and position. Inner errors, such as that of a file, are dropped.
//!
//! ```text
//! Error::Refused ─▶ hushql.Refused(code = "HQ007", hint = "CLAMP(…)")
//! ```

use hushql::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let budget = match error {
        Error::Budget(error) => error.budget().map(str::to_owned),
        _ => None,
    };
    made(py, (error.kind(), error.message(), error.code(), error.hint(), error.position(), budget))
}

/// An exception that does not come from the engine: a closed vault, or data without columns and
/// rows.
pub(crate) fn of_kind(py: Python<'_>, kind: &str, message: &str) -> PyErr {
    made(py, (kind, message.to_owned(), None, None, None, None))
}

/// Kind, sentence, code, hint, position and budget.
type Parts<'a> =
    (&'a str, String, Option<&'a str>, Option<String>, Option<(u64, u64)>, Option<String>);

fn made(py: Python<'_>, parts: Parts<'_>) -> PyErr {
    let made = py.import("hushql._errors").and_then(|module| module.getattr("made")?.call1(parts));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err("the package hushql is not whole: install it again"),
    }
}
