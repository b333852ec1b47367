//! The integration tests, one binary: a test binary that links DataFusion is large.

mod sensitivity;
mod swap;
