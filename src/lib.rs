//! HushQL answers SQL questions about people without telling on anyone.
//!
//! An analyst writes SQL in an extended dialect; the engine derives by itself how much one person can change
//! the answer, runs the query on Apache DataFusion with a privatizing final operator, charges a durable
//! budget, and returns a differentially private answer together with how accurate it is.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
//! let engine = hushql::Engine::demo()?;
//! let session = engine.analyst("lab")?;
//! let answer = session
//!     .query("SELECT ARGMAX EXPONENTIAL(eps=1) status FROM adult GROUP BY status")
//!     .await?;
//! assert_eq!(answer.batches()[0].num_rows(), 1);
//! # Ok(()) }
//! ```
//!
//! # What is guaranteed
//!
//! Everything a session sees (answers, refusals, error texts, schemas, explanations, costs, what is left) is
//! (ε, δ)-differentially private under adding or removing one privacy unit from all tables that lead to it,
//! with ε and δ no larger than what the ledger shows as spent; budgets in ρ count zero-concentrated differential privacy
//! in the same way, and `ACCOUNTANT ZCDP` keeps a declared (ε, δ) by it. Not covered: who reads the data files or the
//! memory of the process, who puts an old vault file back, and timing.
//!
//! # People in several tables
//!
//! A unit is a row, a column's value, or what a chain of declared links leads to. Rows of all tables that lead to one
//! person are added and removed together, share their budgets, and are joined with each other and with public tables;
//! what could tie one person's rows to another's is refused.
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
//! | open a vault | [`Engine::init`], [`Engine::open`], [`Engine::in_memory`], [`Engine::demo`] |
//! | name tables | [`Engine::register_csv`], [`Engine::register_parquet`], [`Engine::register_batch`], [`Engine::register_table`] |
//! | declare | [`Session::execute`] with SQL, [`Session::declare`] with [`ExternalTable`], [`PrivacyUnit`], [`PrivacyDomain`], [`PrivacyBudget`] |
//! | look before paying | [`Session::prepare`], [`Session::explain`], [`Session::cost`], [`Session::budgets`] |
//! | ask | [`Session::query`], [`PreparedQuery::execute`]; the [`Answer`] has rows, accuracy and a receipt |
//! | ask for many rows | [`Session::stream`], [`PreparedQuery::stream`]; the [`AnswerStream`] gives them batch by batch |
//! | handle errors | [`Error::code`], [`Error::kind`], [`Error::hint`], [`Refusal`] |
//!
//! # Life of a query
//!
//! | stage | from → to | module |
//! |---|---|---|
//! | 1 parse | text → `Statement` | `dialect` |
//! | 2 bind | → `Bound`: names and types resolved, views in their places, each release one aggregate | `bind` |
//! | 3 analyze | → `Analysis`: private aggregates, sensitivity, enforced plans | `analysis` |
//! | 4 choose | → `Release`: mechanisms, cost, accuracy | `release` |
//! | 5 prepare | → `Prepared`: verified physical plans, nothing opened yet | `exec` |
//! | 6 charge | → `Charge`: durable, the only proof of payment | `ledger` |
//! | 7 run | → rows, through the privatizing operator | `exec` |
//! | 8 answer | → [`Answer`]: rows, accuracy, receipt | `answer` |

#![forbid(unsafe_code)]

// Hidden modules are not part of the API, and change without notice. They are public for the tests, the benches and the program
// of this package.
#[doc(hidden)]
pub mod analysis;
#[doc(hidden)]
pub mod bind;
#[doc(hidden)]
pub mod demo;
#[doc(hidden)]
pub mod dialect;
#[doc(hidden)]
pub mod exec;
#[doc(hidden)]
pub mod grid;
#[doc(hidden)]
pub mod refusal;
#[doc(hidden)]
pub mod release;
#[doc(hidden)]
pub mod ticks;
#[doc(hidden)]
pub mod visible;

mod answer;
mod buckets;
mod codes;
mod engine;
mod error;
mod explain;
mod functions;
mod guard;
mod instance;
mod owner;
mod resources;
mod sql_type;
mod views;

// The mathematics and the vault are crates of their own.
use hushql_privacy::{hierarchy, synthetic};
#[doc(hidden)]
pub use hushql_privacy::{mechanism, privacy, sampler};
use hushql_vault::scram;
#[doc(hidden)]
pub use hushql_vault::{catalog, ledger};

pub use answer::{Accuracy, AccuracyKind, Answer, Receipt};
pub use bind::BindError;
pub use catalog::{Budget, PerQuery, SliceOf};
pub use dialect::{ScriptStatement, Size, Value};
pub use engine::Engine;
pub use engine::copy::AnswerFile;
pub use engine::forecast::Forecast;
pub use engine::log_in::LogIn;
pub use engine::output::Output;
pub use engine::prepared::PreparedQuery;
pub use engine::progress::RoundsDone;
pub use engine::schemas::TableSchema;
pub use engine::session::Session;
pub use engine::spending::DaySpending;
pub use engine::split_statements;
pub use engine::stream::AnswerStream;
pub use error::{Error, LedgerError};
pub use explain::Explanation;
pub use ledger::{BudgetState, SliceState};
pub use owner::typed::{
    BudgetSlice, Declaration, ExternalTable, PrivacyBudget, PrivacyDomain, PrivacyUnit,
};
pub use privacy::{Cost, Notion, Spend};
pub use refusal::{Reason, Refusal};
pub use resources::Resources;
