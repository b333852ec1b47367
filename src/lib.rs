//! HushQL answers SQL questions about people without telling on anyone.
//!
//! An analyst writes SQL in an extended dialect; the engine derives how much one person can change
//! the answer, runs the query on Apache DataFusion with a privatizing final operator, charges a
//! durable budget, and returns a differentially private answer together with how accurate it is.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
//! let engine = hushql::Engine::demo()?;
//! let lab = engine.analyst("lab")?;
//! let answer = lab
//!     .query("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")
//!     .await?;
//! assert_eq!(answer.batches()[0].num_rows(), 1);
//! # Ok(()) }
//! ```
//!
//! # What is guaranteed
//!
//! Everything a session sees (answers, refusals, error texts, schemas, explanations, costs,
//! remaining budgets) is (ε, δ)-differentially private under adding or removing one privacy unit
//! from all tables that lead to it, with ε and δ no larger than the ledger shows as spent. Budgets
//! in ρ count zero-concentrated differential privacy in the same way, and `ACCOUNTANT ZCDP` uses it
//! to keep a declared (ε, δ). Not covered are attackers who read the data files or the memory of
//! the process, or who replace the vault by an older copy, and timing.
//!
//! # People in several tables
//!
//! A unit is a row, a column's value, or the unit at the end of a chain of declared links. Rows of
//! all tables that lead to one person are added and removed together, and share their budgets. They
//! can be joined with each other and with public tables. A query that could tie one person's rows
//! to another's is refused.
//!
//! ```text
//! ALTER TABLE customers SET PRIVACY UNIT (id) UNIQUE
//! ALTER TABLE orders SET PRIVACY UNIT VIA (customer) REFERENCES customers(id) MAX ROWS 50
//! SELECT LAPLACE(eps=1) AVG(spent) FROM (SELECT customer, SUM(total) AS spent FROM orders GROUP BY customer)
//! ```
//!
//! # Ways in
//!
//! | to | call |
//! |---|---|
//! | open a vault | [`Engine::init`], [`Engine::open`], [`Engine::in_memory`], [`Engine::demo`]; with an anchor or limits of statements, [`Engine::builder`] |
//! | anchor, move or upgrade its file | [`VaultFile`] |
//! | name tables | [`Engine::register_csv`], [`Engine::register_parquet`], [`Engine::register_batch`], [`Engine::register_table`] |
//! | declare | [`Engine::owner`]; [`Owner::execute`](Session::execute) with SQL, [`Owner::declare`] with [`ExternalTable`], [`PrivacyUnit`], [`PrivacyDomain`], [`PrivacyBudget`] |
//! | let others ask | [`Engine::analyst`] without a password, [`Engine::log_in`] with one; an [`Analyst`] cannot declare |
//! | look before paying | [`Session::prepare`], [`Session::explain`], [`Session::cost`], [`Session::budgets`] |
//! | ask | [`Session::query`], [`PreparedQuery::execute`]; the [`Answer`] has rows, accuracy and a receipt |
//! | ask for many rows | [`Session::stream`], [`PreparedQuery::stream`]; the [`AnswerStream`] gives them batch by batch |
//! | handle errors | [`Error::code`], [`Error::kind`], [`Error::hint`], [`Refusal`] |
//!
//! # What else is here
//!
//! [`mechanism`], [`sampler`] and [`privacy`] are the mathematics, for programs that draw noise
//! themselves; [`demo`] makes the built-in tables. [`arrow`] and [`datafusion`] are the versions
//! that tables and answers use.
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `cli` (default) | the program `hushql` |
//! | `serve` (default) | `hushql serve`, for clients of PostgreSQL |
//! | `console` (default) | `hushql console`, a page in a browser |
//! | `mcp` (default) | `hushql mcp`, for language models |
//! | `objects` | tables in object stores |
//! | `postgres` | tables of PostgreSQL servers |
//!
//! A program that embeds the engine says `default-features = false`, and builds neither a shell nor
//! TLS.

#![forbid(unsafe_code)]

// The program is a user of this library, and imports it by name like any other.
extern crate self as hushql;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "console")]
mod console;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "serve")]
mod server;

pub use arrow;
pub use datafusion;

pub use hushql_engine::ticks::Ticks;
pub use hushql_engine::{
    Accuracy, AccuracyKind, Analyst, Answer, AnswerFile, AnswerStream, ApplyPlan, BindError,
    BudgetSlice, DaySpending, Declaration, Description, Engine, EngineBuilder, Error, Explanation,
    ExternalTable, Forecast, LedgerError, LogIn, Output, Owner, PreparedQuery, PrivacyBudget,
    PrivacyDomain, PrivacyUnit, Reason, Receipt, Refusal, ReportForm, Resources, RoundsDone,
    ScriptStatement, Session, SessionSight, Size, TableSchema, TemplateSignature, Value, VaultFile,
    demo, split_statements, versions,
};
pub use hushql_privacy::privacy::{Cost, Notion, Spend};
pub use hushql_privacy::{mechanism, privacy, sampler};
pub use hushql_vault::catalog::{Budget, PerQuery, SliceOf};
pub use hushql_vault::ledger::{BudgetState, ChargeCaps, CostCap, SliceState};
