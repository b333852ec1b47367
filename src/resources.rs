//! What one statement may use of the machine.
//!
//! In: numbers that whoever opens an engine chooses. Out: refusals before anything is charged where a number depends
//! on the statement and on public tables alone (its size, its candidates, the rows that its joins make of one person's, the
//! time that planning takes), and else one constant error after the charge (memory, time, rows): which data made a
//! statement fail is not told, although *that* it failed may depend on them.
//!
//! ```
//! use hushql::{Engine, Resources};
//!
//! # fn main() -> Result<(), hushql::Error> {
//! let resources = Resources::default().with_memory(Some(2 << 30));
//! let engine = Engine::demo()?.with_resources(resources)?;
//! # Ok(()) }
//! ```

use std::path::PathBuf;
use std::time::Duration;

use datafusion::execution::SessionState;

use crate::analysis::outcome::Analysis;
use crate::analysis::{
    CandidateAxis, Choice, MOST_KEYS, MOST_ROWS_OF_A_UNIT, PrivateAggregate, Source,
};
use crate::dialect::Size;
use crate::error::Error;
use crate::exec::session_state_within;
use crate::privacy::{Cost, Notion, Spend};
use crate::refusal::{Reason, Refusal};

pub(crate) use clock::Clock;

mod clock;
mod memory;

/// What one statement may use.
///
/// ```
/// use std::time::Duration;
///
/// use hushql::{Engine, Resources};
///
/// let resources = Resources::default().with_rows(1_000).with_time(Some(Duration::from_secs(60)));
/// let engine = Engine::demo()?.with_resources(resources)?;
/// # Ok::<(), hushql::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// How large its text and its tree may be.
    pub statement: Size,
    /// How many keys or candidates one release may have; at most, and by default, 100,000. (Numbers of a line that no
    /// mechanism looks at one by one are not counted.)
    pub keys: usize,
    /// How many rows an answer may have; by default a million.
    pub rows: usize,
    /// How many rows joins may make of those of one privacy unit before they are bounded; by default 100,000. A join that may
    /// make more, by what is declared and by what is in public tables, is refused.
    pub rows_of_a_unit: u64,
    /// The least ε, in billionths, that a statement may cost where it is counted in ε; by default 1,000, an ε of 10⁻⁶.
    /// Whether a statement fails is told at any price. A budget may ask for more: `PER QUERY (min=…)`.
    pub least_epsilon: i64,
    /// Bytes of memory for all statements of the engine that run at the same time; by default half of what the machine, or
    /// the control group of the process, has. Counted are the tables that queries build, not single batches. `None`: no
    /// limit.
    pub memory: Option<usize>,
    /// Where what does not fit into the memory may be kept while a statement runs; by default nowhere, and the
    /// statement fails. The files hold rows of private tables. They have no names, so that they end with the process at the
    /// latest, however it ends.
    pub spill: Option<PathBuf>,
    /// How long a statement may take, from its text to its answer; by default five minutes. What runs out of time while it is
    /// planned is refused and costs nothing. Declarations take as long as they take. `None`: no limit.
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
            memory: Some(memory::half_of_the_machine()),
            spill: None,
            time: Some(Duration::from_secs(300)),
        }
    }
}

impl Resources {
    /// How large a statement may be; see [`Resources::statement`].
    ///
    /// ```
    /// use hushql::{Resources, Size};
    ///
    /// let resources = Resources::default().with_statement(Size { operators: 50, ..Size::default() });
    /// assert_eq!(resources.statement.operators, 50);
    /// ```
    #[must_use]
    pub fn with_statement(self, statement: Size) -> Self {
        Self { statement, ..self }
    }

    /// How many keys or candidates one release may have; see [`Resources::keys`].
    ///
    /// ```
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_keys(1_000);
    /// assert_eq!(resources.keys, 1_000);
    /// ```
    #[must_use]
    pub fn with_keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// How many rows an answer may have; see [`Resources::rows`].
    ///
    /// ```
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_rows(10_000);
    /// assert_eq!(resources.rows, 10_000);
    /// ```
    #[must_use]
    pub fn with_rows(self, rows: usize) -> Self {
        Self { rows, ..self }
    }

    /// How many rows joins may make of those of one privacy unit; see [`Resources::rows_of_a_unit`].
    ///
    /// ```
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_rows_of_a_unit(500);
    /// assert_eq!(resources.rows_of_a_unit, 500);
    /// ```
    #[must_use]
    pub fn with_rows_of_a_unit(self, rows: u64) -> Self {
        Self { rows_of_a_unit: rows, ..self }
    }

    /// The least ε that a statement may cost, in billionths; see [`Resources::least_epsilon`].
    ///
    /// ```
    /// use hushql::{Engine, Resources};
    ///
    /// // A hundredth, in billionths.
    /// let engine = Engine::demo()?.with_resources(Resources::default().with_least_epsilon(10_000_000))?;
    /// let refused = engine.analyst("lab")?.cost("SELECT LAPLACE(eps=0.001) COUNT(*) FROM adult").unwrap_err();
    /// assert_eq!(refused.code(), Some("HQ026"));
    /// # Ok::<(), hushql::Error>(())
    /// ```
    #[must_use]
    pub fn with_least_epsilon(self, billionths: i64) -> Self {
        Self { least_epsilon: billionths, ..self }
    }

    /// Bytes of memory for all statements together; see [`Resources::memory`].
    ///
    /// ```
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_memory(Some(2 << 30));
    /// assert_eq!(resources.memory, Some(2_147_483_648));
    /// ```
    #[must_use]
    pub fn with_memory(self, bytes: Option<usize>) -> Self {
        Self { memory: bytes, ..self }
    }

    /// Where what does not fit into the memory may be kept; see [`Resources::spill`].
    ///
    /// ```
    /// use hushql::Resources;
    ///
    /// let resources = Resources::default().with_spill(Some(std::env::temp_dir()));
    /// assert!(resources.spill.is_some());
    /// ```
    #[must_use]
    pub fn with_spill(self, folder: Option<PathBuf>) -> Self {
        Self { spill: folder, ..self }
    }

    /// How long a statement may take; see [`Resources::time`].
    ///
    /// ```
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

    /// The session in which statements run within this memory.
    ///
    /// # Errors
    /// [`Error::Catalog`] when the folder for what does not fit cannot be used.
    pub(crate) fn session_state(&self) -> Result<SessionState, Error> {
        let state = session_state_within(self.memory, self.spill.as_deref());
        state.map_err(|e| Error::catalog_from("the folder to spill to cannot be used", e))
    }

    /// Refuses an analysis in which a release has more keys, or looks at more candidates, than allowed.
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
                    format!("one release may have at most {most} keys or candidates here"),
                    "fewer key columns, a coarser domain (STEP), or KEYS (…) with the keys of interest",
                ));
            }
        }
        Ok(())
    }

    /// Refuses a query whose operators reserve more memory than there is, whatever rows they find.
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
                "the operators of this query reserve {needed} MB of memory before they read a row, and there are {memory} MB"
            ),
            format!(
                "a query with fewer joins, groups and orders, or more memory: --memory {needed}MB"
            ),
        ))
    }

    /// Refuses a statement that costs something, and less than the least ε.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check_cost(&self, cost: Cost) -> Result<(), Refusal> {
        let little = |nano: i64| nano > 0 && nano < self.least_epsilon;
        match cost.within(Notion::Approximate) {
            Some(spend) if little(spend.nano) => Err(Refusal::new(
                Reason::TooNoisy,
                format!("epsilon={}", spend.loss_text()),
                format!("a statement costs at least ε = {} here", epsilon_text(self.least_epsilon)),
                format!(
                    "eps={} or more, in all releases of a statement together",
                    epsilon_text(self.least_epsilon)
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses to declare a least ε of a budget that is below the least ε of every statement, which holds anyway.
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

/// The candidates that each selection of a part looks at one by one, in all its groups.
fn candidates(part: &PrivateAggregate) -> impl Iterator<Item = usize> {
    let choices = part.measures().iter().filter_map(|measure| measure.choice());
    choices.filter_map(|choice: &Choice| {
        let each = match &choice.source {
            Source::Keys(candidates) => candidates.len(),
            Source::Each(axis) => usize::try_from(axis.count()).unwrap_or(usize::MAX),
            Source::Line { axis: CandidateAxis::Listed(values), .. } => values.len(),
            Source::Line { axis: CandidateAxis::Ticks(_), .. } | Source::Unknown { .. } => {
                return None;
            }
        };
        Some(each.saturating_mul(usize::try_from(choice.outer).unwrap_or(usize::MAX)))
    })
}
