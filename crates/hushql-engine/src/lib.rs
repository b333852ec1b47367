//! The engine of HushQL: from the text of a statement to a differentially private answer.
//!
//! In: SQL, tables, and a vault. Out: answers with their accuracy, each of them charged. The
//! package `hushql` exports what people import. The modules that are public here are the stages of
//! a query's life, for the program, the guests, the tests and the benches of this workspace. They
//! change without notice.
//!
//! It needs DataFusion and Arrow, and from this workspace `hushql-privacy` (noise, choices and
//! their privacy) and `hushql-vault` (declarations and charges). It never needs the shell or the
//! server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql_engine::Error> {
//! let engine = hushql_engine::Engine::demo()?;
//! let answer = engine.analyst("lab")?.query("SELECT LAPLACE(eps=1) COUNT(*) FROM adult").await?;
//! assert_eq!(answer.batches()[0].num_rows(), 1);
//! # Ok(()) }
//! ```
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
//! | 6 charge | → `Charge`: durable, the only proof of payment | `hushql_vault::ledger` |
//! | 7 run | → rows, through the privatizing operator | `exec` |
//! | 8 answer | → [`Answer`]: rows, accuracy, receipt | `answer` |

#![forbid(unsafe_code)]

pub mod analysis;
pub mod bind;
pub mod demo;
pub mod dialect;
pub mod exec;
pub mod refusal;
pub mod release;
pub mod visible;

mod answer;
mod buckets;
mod engine;
mod error;
mod explain;
mod guard;
mod instance;
mod owner;
mod resources;
mod sql_type;
mod templates;
mod versions;
mod views;

// The mathematics, the vault and the loops are crates of their own.
use hushql_exec::{codes, functions};
#[doc(hidden)]
pub use hushql_exec::{grid, ticks};
use hushql_privacy::{hierarchy, mechanism, privacy, sampler, synthetic};
use hushql_vault::{catalog, ledger, scram};

pub use answer::{Accuracy, AccuracyKind, Answer, Receipt};
pub use bind::BindError;
pub use catalog::{Budget, PerQuery, SliceOf};
pub use dialect::{ScriptStatement, Size, Value};
pub use engine::Engine;
pub use engine::analyst_session::Analyst;
pub use engine::answer_files::AnswerFile;
pub use engine::applied::ApplyPlan;
pub use engine::builder::EngineBuilder;
pub use engine::described::Description;
pub use engine::forecast::Forecast;
pub use engine::log_in::LogIn;
pub use engine::output::Output;
pub use engine::owner_session::Owner;
pub use engine::prepared::PreparedQuery;
pub use engine::progress::RoundsDone;
pub use engine::reports::ReportForm;
pub use engine::session::Session;
pub use engine::shown_templates::TemplateSignature;
pub use engine::spending::DaySpending;
pub use engine::split_statements;
pub use engine::stream::AnswerStream;
pub use engine::vault_file::VaultFile;
pub use engine::visible_catalog::SessionSight;
pub use error::{Error, LedgerError};
pub use explain::Explanation;
pub use instance::known_schemas::TableSchema;
pub use ledger::{BudgetState, ChargeCaps, CostCap, SliceState};
pub use owner::typed::{
    BudgetSlice, Declaration, ExternalTable, PrivacyBudget, PrivacyDomain, PrivacyUnit,
};
pub use privacy::{Cost, Notion, Spend};
pub use refusal::{Reason, Refusal};
pub use resources::Resources;
pub use versions::versions;
