//! What users rely on: the program, the dialect, files, the texts of the project.

pub(crate) mod bad_input;
pub(crate) mod chosen_bounds;
pub(crate) mod declarations;
pub(crate) mod errors;
pub(crate) mod examples;
pub(crate) mod exports;
pub(crate) mod files;
pub(crate) mod functions;
pub(crate) mod grammar;
pub(crate) mod interval_ends;
pub(crate) mod limits;
pub(crate) mod owners;
pub(crate) mod prepared;
pub(crate) mod program;
pub(crate) mod questions;
pub(crate) mod readme;
pub(crate) mod shell;
pub(crate) mod shown;
pub(crate) mod slt;
pub(crate) mod stream;
pub(crate) mod terminal;
pub(crate) mod tpch;
pub(crate) mod views;
pub(crate) mod visible;
pub(crate) mod ways_in;
pub(crate) mod within;
