//! HushQL: a SQL engine that answers questions about people without telling on anyone.

#![forbid(unsafe_code)]

pub mod dialect;
pub mod privacy;
pub mod refusal;
