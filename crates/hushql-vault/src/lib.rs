//! The vault of HushQL: one file that records what its owner declared and what was spent. It never
//! gives a charge back.
//!
//! In: declarations, and the exact privacy loss of each release of a statement. Out: a catalog to
//! plan against, and a [`Charge`](ledger::Charge), the only proof of payment. This crate knows no
//! SQL of analysts, no DataFusion and no data files: it depends on SQLite and on `hushql-privacy`
//! alone. Everything that it stores or reports is public, except paid answers.
//! | module | holds |
//! |---|---|
//! | [`catalog`] | tables, the people whom they are about, and budgets, as immutable snapshots |
//! | [`ledger`] | the vault itself: charges, the chain that protects them, stored answers, roles |
//! | [`scram`] | passwords: what a vault keeps of them, and the proof of knowing one |
//!
//! ```
//! use hushql_vault::catalog::{Privacy, Source, Table, Unit};
//! use hushql_vault::ledger::Vault;
//!
//! let vault = Vault::in_memory()?;
//! vault.create_table(&Table {
//!     name: "adult".to_owned(),
//!     source: Source::Registered,
//!     privacy: Privacy::Private(Unit::Row),
//!     columns: Vec::new(),
//! })?;
//! assert_eq!(vault.catalog()?.unit_domain("adult"), Some("adult"));
//! # Ok::<(), hushql_vault::ledger::VaultError>(())
//! ```

#![forbid(unsafe_code)]

pub mod catalog;
pub mod ledger;
pub mod scram;
