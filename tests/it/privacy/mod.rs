//! What the promise rests on: sensitivities, noise, audits, attacks, the ledger under faults.

pub(crate) mod attacks;
pub(crate) mod audit;
pub(crate) mod choices;
pub(crate) mod coverage;
pub(crate) mod draws;
#[cfg(target_os = "linux")]
pub(crate) mod faults;
pub(crate) mod found_bounds;
pub(crate) mod fuzz;
pub(crate) mod held;
pub(crate) mod line;
pub(crate) mod noiseless;
pub(crate) mod numbers;
pub(crate) mod rare;
pub(crate) mod redteam;
pub(crate) mod relations;
pub(crate) mod selection;
pub(crate) mod sensitivity;
pub(crate) mod shared_keys;
pub(crate) mod silence;
pub(crate) mod sources;
pub(crate) mod sqlite;
pub(crate) mod statistics;
pub(crate) mod swap;
pub(crate) mod unknown_partitions;
pub(crate) mod watch;
