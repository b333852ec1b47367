//! Faults under the ledger: system calls that fail or never return, power that is cut, files that
//! are exchanged, crowds that race. Whatever happens, a vault holds at least what was answered, and
//! never more than its limit.
//!
//! The child is the binary itself. A library that is loaded before the system's
//! (`tests/faults/shim.c`) numbers its calls on the vault and makes one of them fail, or be the
//! last. Every case then opens the vault without the shim and looks: the state is the one before a
//! charge or the one after it, never one between.

mod anchor;
mod bench;
mod charge;
mod check;
mod declare;
mod drift;
mod home;
mod journal;
mod kept;
mod kills;
mod moved;
mod power;
mod races;
#[cfg(feature = "serve")]
mod served;
mod shim;
mod stored;
