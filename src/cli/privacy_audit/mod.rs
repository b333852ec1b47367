//! `hushql audit`: a lower bound of ε from the answers themselves.
//!
//! In: a query, declarations, and two databases that differ in one person. The same engine that
//! answers analysts answers the query many times on each; every run is a charge of its own, since
//! the budgets replay nothing. Out: a lower bound of ε with its confidence, against what was
//! charged. Nothing here is a part of how answers are made, and no test feature is needed: whoever
//! has the program and two invented tables can run it.
//!
//! ```text
//! 5,000 runs choose an event  ─▶  5,000 others bound it  ─▶  proved ε ≥ 0.87 with 95 %, charged ε = 1
//! ```

mod audit_report;
mod audited_tables;
mod clopper_pearson;
mod seen_answers;
mod telling_event;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use hushql::privacy::{Notion, Spend};
use hushql::{Answer, Error, Resources};
use tokio::task::JoinSet;

use self::audit_report::AuditReport;
use self::audited_tables::{AuditedTables, Side};
use self::seen_answers::{SeenAnswer, SeenAnswers};
use self::telling_event::{audit, most_provable};
use super::exec;
use super::failure::Failure;
use super::print::{Format, Printer};
use super::view::View;

/// The analyst who asks.
const ANALYST: &str = "audit";

/// The most statements that one engine answers, before a fresh one takes over.
const BY_ONE_ENGINE: u32 = 500;

/// The most runs on each database.
const MOST_RUNS: i64 = 10_000_000;

/// The exit status when more was proved than charged.
const BROKEN: u8 = 1;

/// What is audited, and how.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(super) struct AuditArguments {
    /// The query
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    query: String,
    /// The declarations of the tables: units, domains, public tables; budgets of them are raised
    #[arg(long, value_name = "FILE")]
    declare: PathBuf,
    /// A table, and the file that has its rows
    #[arg(long, value_name = "NAME=FILE", required = true)]
    table: Vec<String>,
    /// The same table with the rows of one person less, or more; other tables stay as they are
    #[arg(long, value_name = "NAME=FILE", required = true)]
    neighbour: Vec<String>,
    /// The number of times that each database is asked
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=MOST_RUNS))]
    runs: u32,
    /// How sure the bound is: a promise that is kept is accused with the rest of the probability at
    /// most
    #[arg(long, value_name = "P", default_value = "0.95", value_parser = confidence)]
    confidence: String,
    /// Compare with this ε instead of what was charged: half of it shows whether the audit would
    /// notice
    #[arg(long, value_name = "EPSILON", value_parser = claim)]
    claim: Option<String>,
    /// Allow this δ instead of what was charged
    #[arg(long, value_name = "DELTA", value_parser = claimed_delta)]
    claim_delta: Option<String>,
    /// Print one object of JSON
    #[arg(long)]
    json: bool,
}

/// A confidence as it is written.
fn confidence(text: &str) -> Result<String, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.5..=0.999_999_999).contains(value));
    value.map(|_| text.to_owned()).ok_or("write a number from 0.5 to 0.999999999".to_owned())
}

/// A claimed ε as it is written.
fn claim(text: &str) -> Result<String, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1e6).contains(value));
    value.map(|_| text.to_owned()).ok_or("write a number from 0 to 1000000".to_owned())
}

/// A claimed δ as it is written.
fn claimed_delta(text: &str) -> Result<String, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..1.0).contains(value));
    value.map(|_| text.to_owned()).ok_or("write a number from 0 to below 1".to_owned())
}

/// A number that was checked when it was read.
fn checked(text: &str) -> Result<f64, Failure> {
    text.parse().map_err(|_| Failure::Lost)
}

/// What all runs on one database came to.
#[derive(Debug, Default)]
struct Runs {
    seen: SeenAnswers,
    /// Everything that a run was charged: the same for each, if what is charged is public.
    charged: BTreeSet<(i64, i64)>,
}

/// Audits a query, prints the bound, and returns the exit status.
pub(super) async fn run(
    arguments: &AuditArguments,
    resources: Resources,
    printer: Printer,
) -> Result<u8, Failure> {
    let script = exec::read(&arguments.declare)?;
    let (named, others) = (&arguments.table, &arguments.neighbour);
    let mut tables = AuditedTables::new(named, others, &script, resources)?;
    for remark in tables.read_columns().await? {
        printer.note(&remark);
    }
    let charge = charge_of(&tables, &arguments.query, printer).await?;
    let units = tables.units_apart().await?;
    if let Some(warning) = audit_report::not_neighbours(units) {
        printer.warn(&warning);
    }
    let or = |claim: &Option<String>, charged: f64| {
        claim.as_ref().map_or(Ok(charged), |text| checked(text))
    };
    let claimed = or(&arguments.claim, charge.epsilon)?;
    let delta = or(&arguments.claim_delta, charge.delta)?;
    let alpha = 1.0 - checked(&arguments.confidence)?;
    let counted = arguments.runs - arguments.runs / 2;
    let most = most_provable(counted, delta, alpha);
    if let Some(warning) = audit_report::too_few(arguments.runs, most, claimed, delta, alpha) {
        printer.warn(&warning);
    }
    let tables = Arc::new(tables);
    let by_one = charge.by_one_budget();
    let table = asked(&tables, Side::Table, arguments, by_one).await?;
    let neighbour = asked(&tables, Side::Neighbour, arguments, by_one).await?;
    if table.charged.len() != 1 || table.charged != neighbour.charged {
        return Err(Failure::Usage(
            "the runs were charged differently: what is charged depends on the rows".to_owned(),
        ));
    }
    let report = AuditReport {
        query: &arguments.query,
        runs: arguments.runs,
        confidence: checked(&arguments.confidence)?,
        units,
        charged: (charge.epsilon, charge.delta),
        claimed: (claimed, delta),
        most,
        proof: audit(&table.seen, &neighbour.seen, delta, alpha),
    };
    match arguments.json || printer.format == Format::Json {
        true => printer.result(&report.json())?,
        false => printer.result(&report.text())?,
    }
    Ok(if report.verdict() == Some(false) { BROKEN } else { 0 })
}

/// What one run is charged.
#[derive(Debug, Clone, Copy)]
struct Charge {
    epsilon: f64,
    delta: f64,
    spent: Spend,
}

impl Charge {
    fn of(spent: Spend) -> Self {
        let per = |units: i64, one: u32| -> f64 {
            // Exact in decimal first, so that 0.1 is 0.1.
            format!("{units}e-{one}").parse().unwrap_or(f64::INFINITY)
        };
        Self { epsilon: per(spent.nano, 9), delta: per(spent.atto_delta, 18), spent }
    }

    /// The number of runs that one budget surely pays for.
    fn by_one_budget(self) -> u32 {
        let fits = |limit: i64, one: i64| limit.checked_div(one).unwrap_or(i64::MAX);
        let epsilon = fits(900_000_000_000_000, self.spent.nano);
        let delta = fits(950_000_000_000_000_000, self.spent.atto_delta);
        u32::try_from(epsilon.min(delta)).unwrap_or(u32::MAX).clamp(1, BY_ONE_ENGINE)
    }
}

/// What the query costs, on either database alike; its refusal, if it is refused.
async fn charge_of(
    tables: &AuditedTables,
    query: &str,
    printer: Printer,
) -> Result<Charge, Failure> {
    let mut spent = None;
    for (side, option) in [(Side::Table, "--table"), (Side::Neighbour, "--neighbour")] {
        let engine = tables.engine(side).await.inspect_err(|_| {
            printer.note(&format!("in the database of {option}:"));
        })?;
        let cost = engine.analyst(ANALYST)?.cost(query)?;
        let own = cost.within(Notion::Approximate).filter(|own| own.nano > 0 || own.atto_delta > 0);
        let Some(own) = own else {
            return Err(Failure::Usage(
                "the query is charged no ε, so there is nothing to audit: write a release, such as \
                 SELECT LAPLACE(eps=1) COUNT(*) FROM people"
                    .to_owned(),
            ));
        };
        if spent.is_some_and(|spent| spent != own) {
            return Err(Failure::Usage(
                "the query costs differently on the two databases".to_owned(),
            ));
        }
        spent = Some(own);
    }
    spent.map(Charge::of).ok_or(Failure::Lost)
}

/// Asks one database as often as there are runs, on all cores.
async fn asked(
    tables: &Arc<AuditedTables>,
    side: Side,
    arguments: &AuditArguments,
    by_one: u32,
) -> Result<Runs, Failure> {
    let (mut waiting, mut engines) = (arguments.runs, 0_u32);
    // In the order in which they were begun: when an engine is done may depend on what it drew.
    let mut in_order: BTreeMap<u32, Vec<Asked>> = BTreeMap::new();
    let mut asking: JoinSet<Result<(u32, Vec<Asked>), Failure>> = JoinSet::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    while waiting > 0 || !asking.is_empty() {
        while waiting > 0 && asking.len() < cores {
            let runs = waiting.min(by_one);
            waiting -= runs;
            let number = engines;
            engines += 1;
            let (tables, query) = (Arc::clone(tables), arguments.query.clone());
            asking.spawn(
                async move { Ok((number, by_one_engine(&tables, side, &query, runs).await?)) },
            );
        }
        let Some(done) = asking.join_next().await else { break };
        let (number, answers) = done.map_err(|_| Failure::Lost)??;
        in_order.insert(number, answers);
    }
    let mut all = Runs::default();
    for asked in in_order.into_values().flatten() {
        all.charged.extend(asked.charged);
        all.seen.push(asked.seen);
    }
    Ok(Runs { seen: all.seen.complete(), ..all })
}

/// What one run came to.
struct Asked {
    seen: SeenAnswer,
    charged: Option<(i64, i64)>,
}

/// The answers of one fresh engine.
async fn by_one_engine(
    tables: &AuditedTables,
    side: Side,
    query: &str,
    runs: u32,
) -> Result<Vec<Asked>, Failure> {
    let engine = tables.engine(side).await?;
    let analyst = engine.analyst(ANALYST)?;
    let mut all = Vec::new();
    for _ in 0..runs {
        all.push(match analyst.query(query).await {
            Ok(answer) => answered(&answer)?,
            // What fails after its charge is an answer, too.
            Err(Error::Execution) => {
                Asked { seen: SeenAnswer::failed("the statement failed"), charged: None }
            }
            Err(error) => return Err(error.into()),
        });
    }
    Ok(all)
}

/// What an answer shows and was charged; an error if it was not drawn for this run.
fn answered(answer: &Answer) -> Result<Asked, Failure> {
    let drawn = answer.receipt().filter(|one| !one.is_replayed && one.replayed.is_empty());
    let spent = drawn.and_then(|receipt| receipt.spent.within(Notion::Approximate));
    let Some(spent) = spent else {
        let sentence = "a run was not charged: an answer was shown again";
        return Err(Failure::Usage(sentence.to_owned()));
    };
    let seen = SeenAnswer::of(&View::for_answer(answer)?);
    Ok(Asked { seen, charged: Some((spent.nano, spent.atto_delta)) })
}
