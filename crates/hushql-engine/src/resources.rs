//! The machine resources that one statement may use.
//!
//! In: limits chosen by the program that opens an engine. Out: a refusal before the charge, if the
//! statement and public tables alone decide: its size, its candidates, the rows into which its
//! joins turn those of one person, the time for planning. Otherwise (memory, time, rows) one
//! constant error after the charge. The error does not reveal which data made a statement fail,
//! although the failure itself may depend on them.
//!
//! ```
//! # use hushql_engine as hushql;
//! use hushql::{Engine, Resources};
//!
//! # fn main() -> Result<(), hushql::Error> {
//! let resources = Resources::default().with_memory(Some(2 << 30));
//! let engine = Engine::builder().resources(resources).demo()?;
//! # Ok(()) }
//! ```

use std::path::PathBuf;
use std::time::Duration;

use datafusion::execution::SessionState;

use crate::analysis::outcome::Analysis;
use crate::analysis::{
    CandidateAxis, CandidateSource, Choice, MOST_KEYS, MOST_ROWS_OF_A_UNIT, PrivateAggregate,
};
use crate::dialect::Size;
use crate::error::Error;
use crate::exec::session_state_within;
use crate::ledger::without_replays;
use crate::privacy::{Cost, Notion, Spend};
use crate::refusal::{Reason, Refusal};

pub(crate) use clock::Clock;

mod alarm;
mod clock;
mod default_memory;
mod threads;

/// The resources that one statement may use.
///
/// ```
/// # use hushql_engine as hushql;
/// use std::time::Duration;
///
/// use hushql::{Engine, Resources};
///
/// let resources = Resources::default().with_rows(1_000).with_time(Some(Duration::from_secs(60)));
/// let engine = Engine::builder().resources(resources).demo()?;
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// The largest size of a statement's text and syntax tree.
    pub statement: Size,
    /// The most keys or candidates of one release. The default, 100,000, is also the maximum.
    /// Candidates of a range do not count if no mechanism visits them one by one.
    pub keys: usize,
    /// The most rows of an answer. The default is a million.
    pub rows: usize,
    /// The most rows into which joins may turn the rows of one privacy unit before they are
    /// bounded. The default is 100,000. A join that may exceed this, according to the declarations
    /// and the public tables, is refused.
    pub rows_of_a_unit: u64,
    /// The least ε, in billionths, that a statement may cost if it is counted in ε. The default is
    /// 1,000, an ε of 10⁻⁶. A minimum is necessary because a statement reveals whether it fails,
    /// however little it costs. A budget can require more: `PER QUERY (min=…)`.
    pub least_epsilon: i64,
    /// Bytes of memory for all statements of the engine that run at the same time. The default is
    /// half of the memory of the machine or of the process's control group. The limit covers the
    /// tables that queries build, the collected rows of an answer, and the texts that expressions
    /// make, but not other batches. `None` means no limit.
    pub memory: Option<usize>,
    /// The folder for data that exceeds the memory while a statement runs. By default there is
    /// none, and such a statement fails. The files contain rows of private tables. They have no
    /// names, so they disappear with the process at the latest, however it ends.
    pub spill: Option<PathBuf>,
    /// The most time from the text of a statement to its answer. The default is five minutes. A
    /// statement whose planning takes longer is refused and costs nothing. Declarations have no
    /// limit. `None` means no limit.
    pub time: Option<Duration>,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            statement: Size::default(),
            keys: MOST_KEYS,
            rows: 1_000_000,
            rows_of_a_unit: MOST_ROWS_OF_A_UNIT,
            least_epsilon: 1_000,
            memory: Some(default_memory::half_of_the_machine()),
            spill: None,
            time: Some(Duration::from_secs(300)),
        }
    }
}

impl Resources {
    /// Sets the largest size of a statement; see [`Resources::statement`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Resources, Size};
    ///
    /// let resources = Resources::default().with_statement(Size { operators: 50, ..Size::default() });
    /// assert_eq!(resources.statement.operators, 50);
    /// ```
    #[must_use]
    pub fn with_statement(self, statement: Size) -> Self {
        Self { statement, ..self }
    }

    /// Sets the most keys or candidates of one release; see [`Resources::keys`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_keys(1_000);
    /// assert_eq!(resources.keys, 1_000);
    /// ```
    #[must_use]
    pub fn with_keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// Sets the most rows of an answer; see [`Resources::rows`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_rows(10_000);
    /// assert_eq!(resources.rows, 10_000);
    /// ```
    #[must_use]
    pub fn with_rows(self, rows: usize) -> Self {
        Self { rows, ..self }
    }

    /// Sets the most rows into which joins may turn those of one privacy unit; see
    /// [`Resources::rows_of_a_unit`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_rows_of_a_unit(500);
    /// assert_eq!(resources.rows_of_a_unit, 500);
    /// ```
    #[must_use]
    pub fn with_rows_of_a_unit(self, rows: u64) -> Self {
        Self { rows_of_a_unit: rows, ..self }
    }

    /// Sets the least ε that a statement may cost, in billionths; see [`Resources::least_epsilon`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{Engine, Resources};
    ///
    /// // A hundredth, in billionths.
    /// let engine = Engine::builder().resources(Resources::default().with_least_epsilon(10_000_000)).demo()?;
    /// let refused = engine.analyst("lab")?.cost("SELECT LAPLACE(eps=0.001) COUNT(*) FROM adult").unwrap_err();
    /// assert_eq!(refused.code(), Some("HQ026"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    #[must_use]
    pub fn with_least_epsilon(self, billionths: i64) -> Self {
        Self { least_epsilon: billionths, ..self }
    }

    /// Sets the bytes of memory for all statements together; see [`Resources::memory`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_memory(Some(2 << 30));
    /// assert_eq!(resources.memory, Some(2_147_483_648));
    /// ```
    #[must_use]
    pub fn with_memory(self, bytes: Option<usize>) -> Self {
        Self { memory: bytes, ..self }
    }

    /// Sets the folder for data that exceeds the memory; see [`Resources::spill`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_spill(Some(std::env::temp_dir()));
    /// assert!(resources.spill.is_some());
    /// ```
    #[must_use]
    pub fn with_spill(self, folder: Option<PathBuf>) -> Self {
        Self { spill: folder, ..self }
    }

    /// Sets the most time for a statement; see [`Resources::time`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use std::time::Duration;
    ///
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_time(Some(Duration::from_secs(30)));
    /// assert_eq!(resources.time, Some(Duration::from_secs(30)));
    /// ```
    #[must_use]
    pub fn with_time(self, time: Option<Duration>) -> Self {
        Self { time, ..self }
    }

    /// The session of DataFusion in which statements run with this memory.
    ///
    /// # Errors
    /// [`Error::Catalog`] if the folder for data that exceeds the memory cannot be used.
    pub(crate) fn session_state(&self) -> Result<SessionState, Error> {
        let state = session_state_within(self.memory, self.spill.as_deref());
        state.map_err(|e| Error::catalog_from("the folder to spill to cannot be used", e))
    }

    /// Refuses an analysis in which a release has more keys, or visits more candidates, than
    /// allowed.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_keys(&self, analysis: &Analysis) -> Result<(), Refusal> {
        for part in analysis.parts() {
            if part.keys().all().len() > self.keys || candidates(part).any(|n| n > self.keys) {
                let most = self.keys;
                return Err(Refusal::new(
                    Reason::TooManyKeys,
                    "",
                    format!("one release may have at most {most} keys or candidates"),
                    "fewer key columns, a coarser domain (STEP), or KEYS (…) with the keys of interest",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a query whose operators reserve more memory than is available before they read a
    /// row.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_memory(&self, needed: usize) -> Result<(), Refusal> {
        let Some(memory) = self.memory.filter(|memory| *memory < needed) else { return Ok(()) };
        let megabytes = |bytes: usize| bytes.div_ceil(1_000_000);
        let (needed, memory) = (megabytes(needed), megabytes(memory));
        Err(Refusal::new(
            Reason::TooLarge,
            "",
            format!(
                "the operators of this query reserve {needed} MB of memory before they read a row, but only {memory} MB are available"
            ),
            format!(
                "a query with fewer joins, groups and orders, or more memory: --memory {needed}MB"
            ),
        ))
    }

    /// Refuses a statement that costs less than the least ε but more than nothing. `shows_again`
    /// tells whether it also replays paid answers. The refusal then says that these do not count.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_cost(&self, cost: Cost, shows_again: bool) -> Result<(), Refusal> {
        let little = |nano: i64| nano > 0 && nano < self.least_epsilon;
        match cost.within(Notion::Approximate) {
            Some(spend) if little(spend.nano) => Err(Refusal::new(
                Reason::TooNoisy,
                format!("epsilon={}", spend.loss_text()),
                format!("a statement costs at least ε = {} here", epsilon_text(self.least_epsilon)),
                format!(
                    "eps={} or more for all releases of the statement together{}",
                    epsilon_text(self.least_epsilon),
                    without_replays(shows_again)
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a budget whose least ε is below the least ε of all statements.
    ///
    /// # Errors
    /// [`Error::Catalog`] with the smallest number that may be declared.
    pub(crate) fn check_least(&self, declared: Option<Spend>) -> Result<(), Error> {
        match declared {
            Some(declared)
                if declared.notion == Notion::Approximate && declared.nano < self.least_epsilon =>
            {
                let least = epsilon_text(self.least_epsilon);
                Err(Error::catalog(format!(
                    "every statement costs at least ε = {least} here, and no budget allows less: write min={least} or more, or leave min out"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Starts the clock of a statement.
    pub(crate) fn clock(&self) -> Clock {
        Clock::within(self.time)
    }
}

/// Billionths of ε as text.
fn epsilon_text(nano: i64) -> String {
    Spend::of_epsilon(nano, 0).loss_text()
}

/// The numbers of candidates that the selections of a private aggregate visit one by one, in all of
/// its groups.
fn candidates(part: &PrivateAggregate) -> impl Iterator<Item = usize> {
    let choices = part.measures().iter().filter_map(|measure| measure.choice());
    choices.filter_map(|choice: &Choice| {
        let each = match &choice.source {
            CandidateSource::Keys(candidates) => candidates.len(),
            CandidateSource::Each(axis) => usize::try_from(axis.count()).unwrap_or(usize::MAX),
            CandidateSource::Line { axis: CandidateAxis::Listed(values), .. } => values.len(),
            CandidateSource::Line { axis: CandidateAxis::Ticks(_), .. }
            | CandidateSource::Unknown { .. } => {
                return None;
            }
        };
        Some(each.saturating_mul(usize::try_from(choice.outer).unwrap_or(usize::MAX)))
    })
}
