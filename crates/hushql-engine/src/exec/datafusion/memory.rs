//! Sets aside the memory that operators reserve regardless of the number of rows, before the first
//! row is read.
//!
//! In: a finished plan. Out: an [`Advance`]: how many operators reserve memory, and how much each
//! of them needs for a single row. A statement takes its whole advance from the engine's memory
//! when it starts, and the first bytes of its operators come from the advance. If the memory limit
//! is too small for the advance, the statement is refused before the charge.
//!
//! This prevents an attack: operators reserve memory in blocks. If one more block exceeded the
//! limit, a query over the rows of one person would fail if and only if there is such a row, at a
//! negligible cost in ε.
//!
//! ```text
//! Sort (2 columns of 8 bytes, 4 partitions)     4 × (128 KiB + 8,192 × 16 bytes) = 1 MiB, with and without rows
//! Projection repeat(x, n), 4 partitions          4 × 128 × 65,536 bytes = 32 MiB
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::made_texts::MadeTexts;
use hushql_exec::operator::bound_contributions::BoundContributionsExec;
use hushql_exec::operator::look_up::LookUpExec;
use hushql_exec::operator::sample_rows::SampleContributionsExec;
use hushql_exec::operator::sum_by_key::SumByKeyExec;

/// What an operator reserves besides its columns: empty hash tables and buffers.
const BLOCK: usize = 128 << 10;

/// The bytes of a text or list that a column reserves regardless of its rows: a view, and a share
/// of its first buffer.
const VIEW: usize = 20;

/// The memory that the operators of a plan reserve regardless of the number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    /// The operators, each counted once for each of its partitions.
    operators: usize,
    /// The bytes of each operator.
    each: usize,
    /// The bytes that operators reserve for known keys.
    totals: usize,
    /// The texts that expressions make from one row.
    made: MadeTexts,
    /// The bytes of these texts in one batch of each partition.
    texts: usize,
}

impl Advance {
    /// The advance of a finished plan whose batches have at most `batch` rows, and whose scans
    /// `threads` threads read.
    ///
    /// # Guarantee
    /// Depends on the query and the declarations alone. Every operator that reserves memory in
    /// proportion to its rows is counted in each of its partitions, with a full batch of its
    /// columns. Large files are read in several partitions, which needs operators that distribute
    /// rows. This changes nothing, because each operator that reads distributed rows counts for
    /// them in any case.
    pub(crate) fn for_plan(plan: &Arc<dyn ExecutionPlan>, batch: usize, threads: usize) -> Self {
        let made = MadeTexts::of_plan(plan);
        let texts = made.of_a_batch(batch).saturating_mul(threads);
        Self { made, texts, ..Self::of_operators(plan, batch, threads) }
    }

    fn of_operators(plan: &Arc<dyn ExecutionPlan>, batch: usize, threads: usize) -> Self {
        let own = reserving(plan).map_or_else(Self::default, |operators| Self {
            operators: operators.saturating_mul(partitions(plan, threads)),
            each: BLOCK.saturating_add(batch.saturating_mul(widest(plan))),
            totals: totals(plan).saturating_mul(threads),
            ..Self::default()
        });
        let below =
            plan.children().into_iter().map(|child| Self::of_operators(child, batch, threads));
        below.fold(own, |all, one| Self {
            operators: all.operators.saturating_add(one.operators),
            each: all.each.max(one.each),
            totals: all.totals.saturating_add(one.totals),
            ..all
        })
    }

    /// The same advance with further operators, each of which needs `bytes` for a batch.
    pub(crate) fn beside(self, operators: usize, bytes: usize) -> Self {
        Self {
            operators: self.operators.saturating_add(operators),
            each: self.each.max(BLOCK.saturating_add(bytes)),
            ..self
        }
    }

    /// An advance that suffices for each of two plans that do not run at the same time.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            operators: self.operators.max(other.operators),
            each: self.each.max(other.each),
            totals: self.totals.max(other.totals),
            made: self.made.or(other.made),
            texts: self.texts.max(other.texts),
        }
    }

    /// The whole advance, in bytes.
    pub(crate) fn bytes(self) -> usize {
        let operators = self.operators.saturating_mul(self.each);
        operators.saturating_add(self.totals).saturating_add(self.texts)
    }
}

/// The bytes that an operator reserves in each of its partitions for the totals of known keys.
fn totals(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let bounding = plan.downcast_ref::<BoundContributionsExec>();
    let adding = plan.downcast_ref::<SumByKeyExec>();
    let reserved = bounding.map(BoundContributionsExec::reserved);
    reserved.or_else(|| adding.map(SumByKeyExec::reserved)).unwrap_or(0)
}

/// The most partitions in which an operator may run: those of its scans, if every scan is divided
/// among all threads.
fn partitions(plan: &Arc<dyn ExecutionPlan>, threads: usize) -> usize {
    let inputs = plan.children();
    let below = inputs.iter().map(|input| partitions(input, threads));
    let below = if plan.is::<UnionExec>() { below.sum() } else { below.max().unwrap_or(threads) };
    below.max(plan.output_partitioning().partition_count())
}

/// The number of operators that reserve memory for the rows that this one keeps: itself, and one
/// for each input that may distribute the input's rows. An aggregate counts for its first step,
/// too. `None` if it keeps no rows.
fn reserving(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return Some(match aggregate.mode() {
            AggregateMode::Partial | AggregateMode::PartialReduce => 0,
            AggregateMode::Final
            | AggregateMode::FinalPartitioned
            | AggregateMode::Single
            | AggregateMode::SinglePartitioned => 3,
        });
    }
    // A sort, and an operator that merges its sorted rows.
    if plan.is::<SortExec>() {
        return Some(3);
    }
    let keeps = plan.is::<HashJoinExec>()
        || plan.is::<LookUpExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<SampleContributionsExec>()
        || plan.is::<BoundContributionsExec>()
        || plan.is::<SumByKeyExec>();
    keeps.then(|| 1 + plan.children().len())
}

/// The number of bytes of an input row or an output row, whichever is larger.
fn widest(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below = plan.children().into_iter().map(|child| width(&child.schema())).sum();
    width(&plan.schema()).max(below)
}

/// The number of bytes of a row that its types determine.
pub(super) fn width(schema: &SchemaRef) -> usize {
    schema.fields().iter().map(|field| width_of(field.data_type())).sum()
}

fn width_of(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(VIEW).max(1)
}

/// The context for a plan whose long texts are made a few megabytes at a time.
pub(crate) fn in_small_batches(
    plan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
) -> Arc<TaskContext> {
    Arc::new(with_rows(TaskContext::from(state), MadeTexts::of_plan(plan)))
}

/// The context, with batches short enough for these texts.
fn with_rows(context: TaskContext, made: MadeTexts) -> TaskContext {
    let config = context.session_config();
    let (most, config) = (config.batch_size(), config.clone());
    match made.rows(most) {
        rows if rows < most => context.with_session_config(config.with_batch_size(rows)),
        _ => context,
    }
}

/// The context in which a statement runs. It takes the advance now, and returns it when the
/// statement ends. If expressions make long texts, batches have fewer rows.
///
/// # Errors
/// DataFusion's, if other statements leave too little memory for the advance.
pub(crate) fn context(state: &SessionState, advance: Advance) -> Result<Arc<TaskContext>> {
    let runtime = state.runtime_env();
    let context = with_rows(TaskContext::from(state), advance.made);
    let MemoryLimit::Finite(limit) = runtime.memory_pool.memory_limit() else {
        return Ok(Arc::new(context));
    };
    let pool = Arc::new(Advanced::new(&runtime.memory_pool, limit, advance)?);
    let runtime = RuntimeEnv { memory_pool: pool, ..runtime.as_ref().clone() };
    Ok(Arc::new(context.with_runtime(Arc::new(runtime))))
}

/// The memory of one statement: an advance for every operator, and the rest of the engine's memory.
#[derive(Debug)]
struct Advanced {
    each: usize,
    /// The engine's memory, and its limit.
    pool: Arc<dyn MemoryPool>,
    limit: usize,
    /// The advance, in bytes.
    advance: usize,
    /// The memory that is taken: the advance, and everything beyond it.
    taken: MemoryReservation,
    /// The memory of every operator, by its number.
    sizes: Mutex<HashMap<usize, usize>>,
}

impl Advanced {
    fn new(pool: &Arc<dyn MemoryPool>, limit: usize, advance: Advance) -> Result<Self> {
        let taken = MemoryConsumer::new("statement").register(pool);
        taken.try_grow(advance.bytes())?;
        // The operators reserve this part themselves, before their first row.
        taken.shrink(advance.totals);
        let (pool, each) = (Arc::clone(pool), advance.each);
        let advance = taken.size();
        Ok(Self { each, pool, limit, advance, taken, sizes: Mutex::default() })
    }

    fn sizes(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of an operator's `size` bytes that exceeds its advance.
    fn beyond(&self, size: usize) -> usize {
        size.saturating_sub(self.each)
    }
}

impl fmt::Display for Advanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(used: {})", self.name(), self.reserved())
    }
}

impl MemoryPool for Advanced {
    fn name(&self) -> &'static str {
        "advanced"
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.sizes().remove(&consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut sizes = self.sizes();
        let size = sizes.entry(reservation.consumer().id()).or_default();
        let grown = size.saturating_add(additional);
        self.taken.grow(self.beyond(grown).saturating_sub(self.beyond(*size)));
        *size = grown;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut sizes = self.sizes();
        let size = sizes.entry(reservation.consumer().id()).or_default();
        let less = size.saturating_sub(shrink);
        let freed = self.beyond(*size).saturating_sub(self.beyond(less));
        self.taken.shrink(freed.min(self.taken.size()));
        *size = less;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut sizes = self.sizes();
        let size = sizes.entry(reservation.consumer().id()).or_default();
        let grown = size.saturating_add(additional);
        self.taken.try_grow(self.beyond(grown).saturating_sub(self.beyond(*size)))?;
        *size = grown;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.sizes().values().sum()
    }

    /// The memory that the operators can take together: without the memory of other statements, and
    /// without the advance for later operators.
    fn memory_limit(&self) -> MemoryLimit {
        let others = self.pool.reserved().saturating_sub(self.taken.size());
        MemoryLimit::Finite(self.limit.saturating_sub(others).saturating_sub(self.advance))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::{MemTable, provider_as_source};
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::functions_aggregate::expr_fn::sum;
    use datafusion::logical_expr::{JoinType, LogicalPlanBuilder, col};

    use super::*;
    use crate::exec::datafusion::private_plans::planned;
    use crate::exec::{PrivateTable, session_state};

    /// Several threads read a large file, and one reads a small one. This adds operators that
    /// distribute rows.
    #[tokio::test]
    async fn the_size_of_a_file_decides_nothing() {
        let threads = 3;
        let mut advances = Vec::new();
        for partitions in [1, 2, 3] {
            let scan = |name: &str| {
                let columns = ["id", "x"].map(|column| {
                    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
                    (format!("{name}_{column}"), values)
                });
                let batch = RecordBatch::try_from_iter(columns).unwrap();
                let table = MemTable::try_new(batch.schema(), vec![vec![batch]; partitions]);
                let table = PrivateTable::new(name, Arc::new(table.unwrap()));
                LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None).unwrap()
            };
            let mut state = session_state();
            state.config_mut().options_mut().execution.target_partitions = threads;
            let keys = (vec!["a_id"], vec!["b_id"]);
            let joined = scan("a").join(scan("b").build().unwrap(), JoinType::Inner, keys, None);
            let plans = [
                scan("a").aggregate(vec![col("a_id")], vec![sum(col("a_x"))]).unwrap(),
                joined.unwrap().aggregate(vec![col("b_x")], vec![sum(col("a_x"))]).unwrap(),
                scan("a")
                    .union(scan("a").build().unwrap())
                    .and_then(|rows| rows.aggregate(vec![col("a_x")], vec![sum(col("a_id"))]))
                    .unwrap(),
            ];
            let mut own = Vec::new();
            for plan in plans {
                let plan = planned(&plan.build().unwrap(), &state, 1).await.unwrap();
                own.push(Advance::for_plan(&plan, 8_192, threads).operators);
            }
            advances.push(own);
        }
        assert!(advances[0].iter().all(|operators| *operators > 0));
        assert!(advances.iter().all(|own| *own == advances[0]), "{advances:?}");
    }

    /// An operator takes its first bytes from the advance, so that no row decides whether the
    /// engine has memory.
    #[test]
    fn the_first_bytes_of_an_operator_are_set_aside() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
        assert!(
            Advanced::new(&pool, 1_000, Advance { operators: 11, each: 100, ..Advance::default() })
                .is_err()
        );
        assert_eq!(pool.reserved(), 0);
        let statement: Arc<dyn MemoryPool> = Arc::new(
            Advanced::new(
                &pool,
                1_000,
                Advance { operators: 5, each: 100, totals: 300, ..Advance::default() },
            )
            .unwrap(),
        );
        assert_eq!(pool.reserved(), 500);
        let one = MemoryConsumer::new("one").register(&statement);
        let other = one.new_empty();
        one.try_grow(60).unwrap();
        other.try_grow(40).unwrap();
        assert_eq!((pool.reserved(), statement.reserved()), (500, 100));
        other.try_grow(500).unwrap();
        assert_eq!(pool.reserved(), 1_000);
        assert!(one.try_grow(1).is_err());
        // Another operator still has its own advance.
        let second = MemoryConsumer::new("second").register(&statement);
        second.try_grow(100).unwrap();
        assert!(second.try_grow(1).is_err());
        other.free();
        assert_eq!(pool.reserved(), 500);
        drop((one, other, second));
        assert_eq!(statement.reserved(), 0);
        drop(statement);
        assert_eq!(pool.reserved(), 0);
    }
}
