//! The program `hushql` as a function of Python: the console script of the package calls it.
//!
//! In: the arguments, with the program's name first. Out: the exit status. It is the program of the
//! library, so that the package holds one copy of the engine.
//!
//! ```text
//! hushql demo -c "SELECT …"  ─▶  hushql.__main__.main  ─▶  _hushql.run_program(["hushql", "demo", …])  ─▶  0
//! ```

use std::ffi::OsString;

use hushql::cli;
use pyo3::prelude::*;

/// Runs the program without the GIL and returns its exit status. Arguments that cannot be read,
/// `--help` and `--version` end the process.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cli::run_within(arguments))
}
