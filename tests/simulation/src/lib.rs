//! One seeded world: a vault on a simulated disk, the engine, two analysts, an owner, a clock that
//! jumps, faults, crashes and power cuts. One seed decides all of it.
//!
//! In: a seed and a number of steps. Out: a history of events, each with its outcome, held after
//! every step to the promises of the module `account`, a reference that knows nothing of the
//! engine's code. README.md says what is simulated and what is not.
//!
//! ```text
//! seed ─▶ setup + events ─▶ world ─┬─ engine ─ SQLite, std ─▶ machine (system calls, time, entropy) ─▶ disk
//!                                  └─ account: may this be answered? may this be refused? is it still there?
//! ```

#![cfg(all(test, target_os = "linux"))]
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::missing_panics_doc,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod account;
mod disk;
mod history;
mod known;
mod machine;
mod outcome;
mod setup;
mod shrink;
mod world;
mod worlds;
