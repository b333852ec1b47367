//! Where the bounded inputs of private aggregates run: in this process, or elsewhere.
//!
//! In: the verified plan below the privatizing operator, after the query is paid for. Out: its rows
//! of keys and exact integers, in any order and any number of parts, which are added up here.
//! Everything else stays here: parsing, the charge, the sum and the draw.
//!
//! ```text
//! PrivatizeExec                       always here
//!   CoalescePartitionsExec            ┐ a site: its rows are integers that merge by addition
//!     BoundContributionsExec          │
//!       …                             ┘
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use crate::exec::source::HeldFiles;

/// Runs bounded inputs. The provided methods run them in this process.
pub trait Site: fmt::Debug + Send + Sync {
    /// Whether rows must be partitioned by their unit below the operator that bounds contributions,
    /// because several processes bound the contributions of different units.
    fn partitions_by_unit(&self) -> bool {
        false
    }

    /// The number of processes that run a plan together. Rows that all of them keep exist this many
    /// times.
    fn processes(&self) -> usize {
        1
    }

    /// Whether this plan can run there. The engine asks before the charge: the plan has no key yet,
    /// and the result must not depend on private rows.
    ///
    /// # Errors
    /// Why not, and what to do instead.
    fn accepts(
        &self,
        _plan: &Arc<dyn ExecutionPlan>,
        _config: &SessionConfig,
    ) -> Result<(), CannotRunThere> {
        Ok(())
    }

    /// The rows of a verified plan with one partition. The query is paid for, and the plan has its
    /// key.
    ///
    /// # Guarantee
    /// Every implementation keeps this: for each key, the integers of the rows add up to those that
    /// the plan yields here.
    ///
    /// # Errors
    /// Any failure. The error may quote cells: it must never reach an analyst.
    fn rows(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        plan.execute(0, context)
    }

    /// Whether to ask for the rows of a plan again after this error, when this has happened this
    /// many times before. Nothing was drawn yet, and the rows of the failed attempt are dropped.
    fn runs_again(&self, _error: &DataFusionError, _times: usize) -> bool {
        false
    }
}

/// This process.
#[derive(Debug)]
pub struct Here;

impl Site for Here {}

/// Why a bounded input cannot run at a site. Nothing was charged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {instead}")]
pub struct CannotRunThere {
    /// What cannot run, as a sentence without a full stop.
    pub problem: String,
    /// What to do instead.
    pub instead: String,
}

impl CannotRunThere {
    /// The refusal with this problem, and with what to do instead.
    pub fn new(problem: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { problem: problem.into(), instead: instead.into() }
    }
}

/// The site's refusal, if it caused an error of planning.
pub(crate) fn refused_by_site(error: &DataFusionError) -> Option<&CannotRunThere> {
    match error.find_root() {
        DataFusionError::External(cause) => cause.downcast_ref(),
        _ => None,
    }
}

/// The site of a session, as its extension.
struct Placed(Arc<dyn Site>);

/// Lets the private aggregates of a session run at a site, which may describe the files that the
/// session's statements hold.
pub(crate) fn place(state: &mut SessionState, site: Arc<dyn Site>, files: &Arc<HeldFiles>) {
    if site.partitions_by_unit() {
        // Even a small file is read in several partitions, so that an operator has to distribute
        // its rows among the processes.
        let options = state.config_mut().options_mut();
        options.optimizer.repartition_file_min_size = 0;
        let partitions = options.execution.target_partitions.max(2);
        options.execution.target_partitions = partitions;
    }
    state.config_mut().set_extension(Arc::new(Placed(site)));
    state.config_mut().set_extension(Arc::clone(files));
}

/// The site of a session: this process, unless it has another one.
pub(crate) fn site_of(config: &SessionConfig) -> Arc<dyn Site> {
    match config.get_extension::<Placed>() {
        Some(placed) => Arc::clone(&placed.0),
        None => Arc::new(Here),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::compute::cast;
    use arrow::datatypes::Int64Type;
    use datafusion::common::internal_err;
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;
    use crate::Engine;
    use crate::exec::distributed::BoundingKey;

    const DECLARED: [&str; 4] = [
        "ALTER TABLE visits SET PRIVACY UNIT (patient) MAX ROWS 4",
        "ALTER TABLE visits ALTER COLUMN minutes SET PRIVACY DOMAIN BETWEEN 0 AND 100",
        "CREATE PRIVACY BUDGET b FOR visits LIMIT (epsilon=900000)",
        "ALTER PRIVACY BUDGET b SET PER QUERY (default=10000, max=10000)",
    ];

    const ASKED: &str = "SELECT COUNT(*) AS n, SUM(minutes) AS m FROM visits";

    /// An engine with 100 patients, who have four visits each, of 25 minutes on average.
    async fn engine(site: Arc<dyn Site>) -> Engine {
        let engine = Engine::builder().site(site).in_memory().unwrap();
        let patient: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|i| i % 100)));
        let minutes: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|i| i % 51)));
        let visits = RecordBatch::try_from_iter([("patient", patient), ("minutes", minutes)]);
        engine.register_batch("visits", visits.unwrap()).unwrap();
        for statement in DECLARED {
            engine.owner().execute(statement).await.unwrap();
        }
        engine
    }

    async fn asked(engine: &Engine) -> (i64, i64) {
        numbers(&engine.analyst("lab").unwrap().query(ASKED).await.unwrap())
    }

    fn numbers(answer: &crate::Answer) -> (i64, i64) {
        let row = &answer.batches()[0];
        let cell = |i: usize| row.column(i).as_primitive::<Int64Type>().value(0);
        (cell(0), cell(1))
    }

    /// What a test site does, and the questions that it got.
    #[derive(Debug, Default)]
    struct Watched {
        refuses: bool,
        fails: bool,
        /// The number of times that its rows end with a failure.
        breaks: usize,
        partitions: bool,
        seen: Mutex<Vec<String>>,
    }

    impl Watched {
        fn saw(&self, what: &str, plan: &Arc<dyn ExecutionPlan>) {
            let paid = BoundingKey::of_plan(plan).and_then(|key| key.words()).is_some();
            let plan = displayable(plan.as_ref()).indent(false).to_string();
            let by_unit = plan.contains("RepartitionExec: partitioning=Hash([");
            self.seen.lock().unwrap().push(format!("{what}: paid {paid}, by unit {by_unit}"));
        }
    }

    impl Site for Watched {
        fn partitions_by_unit(&self) -> bool {
            self.partitions
        }

        fn accepts(
            &self,
            plan: &Arc<dyn ExecutionPlan>,
            _: &SessionConfig,
        ) -> Result<(), CannotRunThere> {
            self.saw("accepts", plan);
            match self.refuses {
                true => Err(CannotRunThere::new("this site is closed", "come back later")),
                false => Ok(()),
            }
        }

        fn rows(
            &self,
            plan: &Arc<dyn ExecutionPlan>,
            context: Arc<TaskContext>,
        ) -> Result<SendableRecordBatchStream> {
            self.saw("rows", plan);
            if self.fails {
                return internal_err!("a worker is lost: cell 4711");
            }
            if self.seen.lock().unwrap().len() <= 1 + self.breaks {
                let schema = plan.schema();
                let wrong = schema.fields().iter().map(|field| {
                    cast(&Int64Array::from(vec![7]), field.data_type()).map_err(Into::into)
                });
                let wrong = wrong.collect::<Result<Vec<ArrayRef>>>()?;
                let rows = [
                    RecordBatch::try_new(Arc::clone(&schema), wrong).map_err(Into::into),
                    internal_err!("a worker is lost: cell 4711"),
                ];
                let rows = futures::stream::iter(rows);
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
            }
            Here.rows(plan, context)
        }

        fn runs_again(&self, error: &DataFusionError, times: usize) -> bool {
            times < 2 && error.to_string().contains("lost")
        }
    }

    /// A site is asked before the charge, without a key, and runs after the charge. Its integers
    /// equal those of this process.
    #[tokio::test]
    async fn a_site_is_asked_before_the_charge_and_runs_after_it() {
        let local = asked(&engine(Arc::new(Here)).await).await;
        assert_eq!(local.0, 400);
        for partitions in [false, true] {
            let site = Arc::new(Watched { partitions, ..Watched::default() });
            let engine = engine(Arc::clone(&site) as _).await;
            assert_eq!(asked(&engine).await, local);
            let expected = [
                format!("accepts: paid false, by unit {partitions}"),
                format!("rows: paid true, by unit {partitions}"),
            ];
            assert_eq!(*site.seen.lock().unwrap(), expected);
        }
    }

    /// A plan that a site does not accept is refused in its words, and costs nothing.
    #[tokio::test]
    async fn what_a_site_does_not_accept_is_refused_before_the_charge() {
        let site = Arc::new(Watched { refuses: true, ..Watched::default() });
        let engine = engine(Arc::clone(&site) as _).await;
        let before = spent(&engine);
        let refused = engine.analyst("lab").unwrap().query(ASKED).await.unwrap_err();
        assert_eq!(refused.code(), Some("HQ018"));
        let text = refused.to_string();
        assert!(text.contains("this site is closed") && text.contains("come back later"), "{text}");
        assert_eq!(spent(&engine), before);
        assert_eq!(site.seen.lock().unwrap().len(), 1);
    }

    /// If a site fails, the analyst sees the constant sentence, and the charge stays.
    #[tokio::test]
    async fn a_site_that_fails_says_nothing_and_is_charged() {
        let site = Arc::new(Watched { fails: true, ..Watched::default() });
        let engine = engine(site).await;
        let before = spent(&engine);
        let failed = engine.analyst("lab").unwrap().query(ASKED).await.unwrap_err();
        assert!(matches!(failed, crate::Error::Execution), "{failed}");
        assert!(!failed.to_string().contains("4711"));
        assert_ne!(spent(&engine), before);
    }

    /// Rows that end with a failure are asked for again, a few times. Their integers count once,
    /// and the charge is made once.
    #[tokio::test]
    async fn rows_that_fail_are_asked_for_again_and_count_once() {
        let local = engine(Arc::new(Here)).await;
        let expected = asked(&local).await;
        for breaks in 0..4 {
            let site = Arc::new(Watched { breaks, ..Watched::default() });
            let engine = engine(Arc::clone(&site) as _).await;
            let answer = engine.analyst("lab").unwrap().query(ASKED).await;
            assert_eq!(spent(&engine), spent(&local));
            assert_eq!(site.seen.lock().unwrap().len(), 2 + breaks.min(2));
            match breaks < 3 {
                true => assert_eq!(numbers(&answer.unwrap()), expected),
                false => assert!(matches!(answer.unwrap_err(), crate::Error::Execution)),
            }
        }
    }

    fn spent(engine: &Engine) -> String {
        let budgets = engine.owner().budgets().unwrap();
        budgets.iter().map(|budget| format!("{:?}", budget.spent)).collect()
    }
}
