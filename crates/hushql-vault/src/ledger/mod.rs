//! The vault: one file that records declarations and charges, and never gives a charge back.
//!
//! In: the exact privacy loss of each release of a statement. Out: a [`Charge`], the only proof of
//! payment. The vault returns it only after the loss is written to every affected budget and has
//! reached the disk. The vault stores nothing that depends on data, with two exceptions: answers
//! that were paid for before they were drawn, and failures that were paid for and reported. It
//! assumes that no one replaces its file with an older copy (an anchor detects that) and that the
//! disk keeps what it confirms. Under these assumptions it guarantees, over all processes and all
//! time, that the losses of its charges are at most the amount that its ledger shows as spent, and
//! that this amount is at most the limit of every budget.
//!
//! ```
//! use hushql_vault::catalog::{Budget, PerQuery, Replay, Privacy, Source, Table, Unit};
//! use hushql_vault::ledger::{ChargeCaps, ChargeEntry, ChargeRequest, Vault, plan_hash};
//! use hushql_privacy::privacy::{Loss, Spend};
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
//!     coupon: None,
//!     per_query: PerQuery::default(),
//!     replay: Replay::All,
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
//!         shared: false,
//!         cells: None,
//!     }],
//!     shows_again: false,
//!     unit_domains: vec!["adult".to_owned()],
//!     tables: ["adult".to_owned()].into(),
//!     catalog: vault.catalog()?,
//!     caps: ChargeCaps::default(),
//!     built_on: Vec::new(),
//! })?;
//! assert_eq!(charge.spend().to_string(), "ε = 1");
//! assert_eq!(charge.left()[0].1.to_string(), "ε = 9");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::float_arithmetic, clippy::arithmetic_side_effects)]

mod charging;
mod error;
mod file;
pub(crate) mod format_version;
mod records;
#[cfg(test)]
mod tests;
mod vault;
mod withheld_paths;
mod wording;

pub use charging::caps::{ChargeCaps, CostCap};
pub use charging::carried::Elsewhere;
pub use charging::charge::{BudgetQuote, Charge, ChargeEntry, ChargeRequest, Due};
pub use charging::slice_shares::SliceState;
pub use error::VaultError;
pub use file::cached_read::Moment;
pub use format_version::{sqlite_version, vault_format};
pub use records::analyst::OWNER;
pub use records::answers::{MOST_BYTES_OF_ONE, NewAnswer, ReleaseTable};
pub use records::chain::{LedgerEntry, plan_hash};
pub use records::draw_records::{BuiltOn, KeptDraw};
pub use records::history::Declared;
pub use records::kinds::{OwnEntries, kind};
pub use records::requests::{BudgetRequest, RequestState, is_of_another, own_requests, requests};
pub use records::roles::Role;
pub use records::sums::REFINED;
pub use vault::budgets::SliceChange;
pub use vault::declared::{Inventory, Spending};
pub use vault::declared_cells::CellState;
pub use vault::kept_draws::{AskedDraw, DrawLookUp, Noted, RefinableLookUp};
pub use vault::pages::{Extent, PAGE};
pub use vault::role_changes::{RoleChange, ToLogIn};
pub use vault::spending::{Spent, SpentLately};
pub use vault::verify::Verified;
pub use vault::{BudgetState, Vault};
pub use wording::{DRIFTED, without_replays};
