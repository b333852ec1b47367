//! The vault: what was declared and what was spent, in one file that never gives anything back.
//!
//! In goes the exact loss of every release of a statement; out comes a [`Charge`], the only proof of
//! payment, and only after the loss has been written to every budget it touches and reached the disk.
//! Nothing that depends on data is stored. The vault assumes that nobody puts its file back to an older
//! one (with an anchor, that is noticed) and that the disk keeps what it confirmed; it then guarantees that, over all processes and all
//! time, the losses of the charges it handed out are at most what its ledger shows as spent, and that this
//! is at most the limit of every budget.
//!
//! ```
//! use hushql::catalog::{Budget, PerQuery, Privacy, Source, Table, Unit};
//! use hushql::ledger::{ChargeEntry, ChargeRequest, Vault, plan_hash};
//! use hushql::privacy::{Loss, Spend};
//!
//! let vault = Vault::in_memory()?;
//! vault.create_table(&Table {
//!     name: "adult".to_owned(),
//!     source: Source::Registered,
//!     privacy: Privacy::Private(Unit::Row),
//!     columns: Vec::new(),
//! })?;
//! vault.create_budget(&Budget {
//!     name: "research".to_owned(),
//!     table: "adult".to_owned(),
//!     limit: Spend::of_epsilon(10_000_000_000, 0),
//!     promise: None,
//!     per_query: PerQuery::default(),
//! })?;
//! let charge = vault.charge(&ChargeRequest {
//!     analyst: "lab".to_owned(),
//!     plan_hash: plan_hash("Aggregate: COUNT(*)"),
//!     statement: "SELECT LAPLACE(eps=1) COUNT(*) FROM adult".to_owned(),
//!     entries: vec![ChargeEntry {
//!         mechanism: "LAPLACE".to_owned(),
//!         parameters: "eps=1".to_owned(),
//!         sensitivity: "1".to_owned(),
//!         loss: Loss::pure(&"1".parse()?),
//!     }],
//!     spaces: vec!["adult".to_owned()],
//!     catalog: vault.catalog()?,
//! })?;
//! assert_eq!(charge.spend().to_string(), "ε = 1");
//! assert_eq!(charge.left()[0].1.to_string(), "ε = 9");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::float_arithmetic, clippy::arithmetic_side_effects)]

mod analyst;
mod anchor;
mod chain;
mod charge;
mod checkpoint;
mod error;
mod handle;
mod history;
mod home;
mod journal;
mod moves;
mod open;
mod pages;
mod place;
mod queue;
mod schema;
mod statements;
#[cfg(test)]
mod tests;
mod time;
mod upgrade;
mod vault;
mod verify;
pub(crate) mod version;
mod wait;

pub use analyst::OWNER;
pub use chain::{LedgerEntry, plan_hash};
pub use charge::{BudgetQuote, Charge, ChargeEntry, ChargeRequest, Due};
pub use error::VaultError;
pub use history::Declared;
pub(crate) use pages::{Extent, PAGE};
pub use vault::BudgetState;
pub use vault::Vault;
pub use verify::Verified;
