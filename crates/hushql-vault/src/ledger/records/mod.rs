//! The records of the vault: the entries of the ledger with their hash chain, and the tables beside
//! them.

pub(crate) mod analyst;
pub(crate) mod answers;
pub(crate) mod chain;
pub(crate) mod checkpoint;
pub(crate) mod draw_records;
pub(crate) mod drift;
pub(crate) mod history;
pub(crate) mod kinds;
pub(crate) mod quota;
pub(crate) mod requests;
pub(crate) mod roles;
pub(crate) mod statements;
pub(crate) mod sums;
pub(crate) mod time;
mod touched;
