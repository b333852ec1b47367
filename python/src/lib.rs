//! The engine as a module of Python, which the package `hushql` wraps.
//!
//! In: texts, paths and tables of Python. Out: answers, texts and tuples, which the package turns
//! into its classes. A guest of the library: it uses what any program can import.
//!
//! ```text
//! hushql/ (Python: names, documentation, plots)  ─▶  _hushql (here)  ─▶  hushql (the engine)
//!     Vault, Session                                 vault, session       Engine, Session
//!     sql, asql, %%hush                              running              a task of Tokio, which the GIL does not stop
//!     Answer                                         answer               Answer
//!     Error, Refused, …                              errors               Error
//!     the command hushql                             program              the program
//! ```

use pyo3::prelude::*;

mod answer;
mod errors;
mod open_vault;
mod program;
mod running;
mod session;
mod tables;
mod told;
mod vault;

/// The native half of the package `hushql`.
#[pymodule]
mod _hushql {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::answer::Answer;
    #[pymodule_export]
    use crate::running::Running;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::vault::Vault;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The message of a panic may quote a cell. The hook is that of this library alone, not that
        // of the process.
        std::panic::set_hook(Box::new(|_| ()));
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("run_program", wrap_pyfunction!(crate::program::run_program, module)?)?;
        module.add("_panics", wrap_pyfunction!(crate::running::panics, module)?)
    }
}
