use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::display::array_value_to_string;
use datafusion::common::{JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::datasource::TableProvider;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_expr::expressions::{col, lit};
use datafusion::physical_plan::filter_pushdown::{
    FilterPushdownPhase, PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect, collect_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tokio::sync::Notify;

use super::*;
use crate::pinned::Pinned;

/// The most rows of a joined batch.
const MOST_ROWS: usize = 30;

fn session(batch_size: usize) -> SessionState {
    let config = SessionConfig::new().with_batch_size(batch_size);
    SessionContext::new_with_config(config).state()
}

/// Rows in some partitions and batches, each with a key, which is often NULL or a duplicate, and
/// with a unique text.
fn random(dice: &mut ChaCha20Rng, name: &str, keys: i64, rows: usize) -> Vec<Vec<RecordBatch>> {
    let batch = |dice: &mut ChaCha20Rng, rows: usize| {
        let key =
            |dice: &mut ChaCha20Rng| dice.random_bool(0.9).then(|| dice.random_range(-2..keys));
        let of_keys: Int64Array = (0..rows).map(|_| key(dice)).collect();
        let texts = (0..rows).map(|i| format!("{name}{i}{}", dice.random_range(0..1_000)));
        let columns: [(String, ArrayRef, bool); 2] = [
            (format!("{name}_t"), Arc::new(StringArray::from_iter_values(texts)), true),
            (format!("{name}_k"), Arc::new(of_keys), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let sizes: Vec<Vec<usize>> = (0..dice.random_range(1..4))
        .map(|_| (0..dice.random_range(1..3)).map(|_| dice.random_range(0..=rows)).collect())
        .collect();
    sizes.into_iter().map(|part| part.into_iter().map(|n| batch(dice, n)).collect()).collect()
}

async fn scan(parts: &[Vec<RecordBatch>], state: &SessionState) -> Arc<dyn ExecutionPlan> {
    let table = MemTable::try_new(parts[0][0].schema(), parts.to_vec()).unwrap();
    table.scan(state, None, &[], None).await.unwrap()
}

async fn rows(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Vec<String> {
    let (mut rows, is_look_up) = (Vec::new(), plan.is::<LookUpExec>());
    for batch in collect_partitioned(plan, state.task_ctx()).await.unwrap().concat() {
        // The rows of a batch stay together if each has at most one match.
        let most = state.config().batch_size().max(MOST_ROWS);
        assert!(batch.num_rows() <= most || !is_look_up);
        for i in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| array_value_to_string(column, i).unwrap();
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}

fn identity() -> RowsIdentity {
    RowsIdentity::of_file(Pinned::new("a file".to_owned(), 100, Arc::new(())), "a table")
}

/// Each kind of join that is replaced yields the rows of the hash join, with a new index and with a
/// kept one.
#[tokio::test]
async fn a_look_up_yields_the_rows_of_a_join() {
    let mut dice = ChaCha20Rng::seed_from_u64(31);
    let (mut found, mut several) = (0, 0);
    for _ in 0..150 {
        let state = session([1, 3, 8_192][dice.random_range(0..3)]);
        let (keys, most) =
            ([3, 20, 1 << 40][dice.random_range(0..3)], dice.random_range(0..MOST_ROWS));
        let own = random(&mut dice, "l", keys, most);
        let table = random(&mut dice, "r", keys, most);
        for (kind, columns) in [
            (JoinType::Inner, LookUpColumns::RowsThenTable),
            (JoinType::Inner, LookUpColumns::TableThenRows),
            (JoinType::LeftSemi, LookUpColumns::Rows),
        ] {
            let (left, right) = (scan(&own, &state).await, scan(&table, &state).await);
            let on = |name: &str, of: &Arc<dyn ExecutionPlan>| col(name, &of.schema()).unwrap();
            let join = |a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>, on| {
                let (a, b) = (Arc::clone(a), Arc::clone(b));
                let mode = PartitionMode::CollectLeft;
                let null = NullEquality::NullEqualsNothing;
                HashJoinExec::try_new(a, b, vec![on], None, &kind, None, mode, null, false).unwrap()
            };
            let gathered = |plan: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
                use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
                Arc::new(CoalescePartitionsExec::new(Arc::clone(plan)))
            };
            let (l, r) = (gathered(&left), gathered(&right));
            let join = match columns {
                LookUpColumns::TableThenRows => join(&r, &l, (on("r_k", &r), on("l_k", &l))),
                LookUpColumns::Rows | LookUpColumns::RowsThenTable => {
                    join(&l, &r, (on("l_k", &l), on("r_k", &r)))
                }
            };
            let schema = join.schema();
            let expected = rows(Arc::new(join), &state).await;
            let kept = Arc::<KeptLookUps>::default();
            for again in [false, true] {
                assert_eq!(kept.len(), usize::from(again));
                let kept = Arc::clone(&kept);
                let by = By { of_rows: 1, of_table: 1, columns, kept, identity: identity() };
                let (left, right) = (Arc::clone(&left), Arc::clone(&right));
                let look_up = LookUpExec::new(left, right, by, Arc::clone(&schema));
                assert_eq!(rows(Arc::new(look_up), &state).await, expected, "{columns:?}");
            }
            found += expected.len();
            several +=
                usize::from(expected.len() > own.concat().iter().map(RecordBatch::num_rows).sum());
        }
    }
    assert!(found > 10_000 && several > 20, "{found} {several}");
}

/// A kept index is found by the same files, read in the same way, and by nothing else.
#[test]
fn an_index_is_found_by_its_files_and_what_is_made_of_them() {
    let kept = KeptLookUps::default();
    let file = |stamp: &str| Pinned::new(stamp.to_owned(), 100, Arc::new(()));
    let of = |stamp: &str, columns: &str| RowsIdentity::of_file(file(stamp), columns);
    let batch = random(&mut ChaCha20Rng::seed_from_u64(1), "t", 5, 5)[0][0].clone();
    let look_up = Arc::new(LookUp::new(&batch.schema(), &[batch], 1).unwrap());
    let identities = [
        of("a", "x"),
        of("b", "x"),
        of("a", "y"),
        of("a", "x").then("present [0]"),
        of("a", "x").then("present [1]"),
        of("a", "x").with(of("b", "x"), "look up"),
        of("b", "x").with(of("a", "x"), "look up"),
        of("a", "x").with(of("c", "x"), "look up"),
        of("a", "x").with(of("b", "x").then("present [0]"), "look up"),
        of("a", "x").then("present [0]").with(of("b", "x"), "look up"),
    ];
    for (i, identity) in identities.iter().enumerate() {
        assert!(kept.find(identity).is_none(), "{i}");
        kept.keep(identity.clone(), &look_up);
        assert!(kept.find(identity).is_some(), "{i}");
        let others = identities.iter().map(|other| kept.in_use(other)).collect::<Vec<_>>();
        let own = kept.in_use(identity);
        let same = others.iter().map(|other| Arc::ptr_eq(other, &own));
        assert!(same.eq((0..identities.len()).map(|other| other == i)), "{i}");
    }
    assert_eq!(kept.len(), identities.len());
    let in_use = kept.in_use(&identities[0]);
    kept.clear();
    assert!(!Arc::ptr_eq(&kept.in_use(&identities[0]), &in_use));
    assert!(identities.iter().all(|identity| kept.find(identity).is_none()));
}

/// The least recently used look-ups make room.
#[test]
fn what_is_kept_is_limited() {
    let kept = KeptLookUps::default();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6_000_000));
    let batch = RecordBatch::try_from_iter([("k", keys)]).unwrap();
    let look_up = Arc::new(LookUp::new(&batch.schema(), &[batch], 0).unwrap());
    let fit = kept.most() / look_up.size();
    assert!(fit >= 2, "{fit}");
    let of = |i: usize| RowsIdentity::of_file(Pinned::new(i.to_string(), 100, Arc::new(())), "k");
    for i in 0..fit {
        kept.keep(of(i), &look_up);
    }
    assert!(kept.find(&of(0)).is_some());
    kept.keep(of(fit), &look_up);
    assert_eq!(kept.len(), fit);
    assert!(kept.find(&of(0)).is_some() && kept.find(&of(1)).is_none());
}

/// An index larger than the limit displaces nothing.
#[test]
fn what_does_not_fit_leaves_the_others() {
    let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 << 30));
    let kept = KeptLookUps::within(&memory).unwrap();
    let of = |rows: usize, name: &str| {
        let texts = StringArray::from_iter_values((0..rows).map(|_| "x".repeat(1 << 12)));
        let keys = Int64Array::from_iter_values((0..).take(rows));
        let columns: [(&str, ArrayRef); 2] = [("k", Arc::new(keys)), ("t", Arc::new(texts))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let look_up = Arc::new(LookUp::new(&batch.schema(), &[batch], 0).unwrap());
        let file = Pinned::new(name.to_owned(), 100, Arc::new(()));
        kept.keep(RowsIdentity::of_file(file, "k"), &look_up);
        look_up.size()
    };
    assert!(of(10, "small") < kept.most());
    assert!(of(70_000, "large") > kept.most());
    assert_eq!(kept.len(), 1);
}

/// A table that counts how often it is read, and fails the first times.
#[derive(Debug)]
struct Counted {
    rows: RecordBatch,
    reads: AtomicUsize,
    failures: usize,
    /// What it waits for, if anything.
    gate: Option<Arc<Notify>>,
}

impl PartitionStream for Counted {
    fn schema(&self) -> &SchemaRef {
        self.rows.schema_ref()
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let turn = self.reads.fetch_add(1, Ordering::Relaxed);
        let rows = if turn < self.failures { Err(failed()) } else { Ok(self.rows.clone()) };
        let gate = self.gate.clone();
        let rows = stream::once(async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            if let Some(gate) = gate {
                gate.notified().await;
            }
            rows
        });
        Box::pin(RecordBatchStreamAdapter::new(self.rows.schema(), rows))
    }
}

/// The rows whose keys are in a table.
fn by_keys_of(
    rows: &Arc<dyn ExecutionPlan>,
    table: &Arc<Counted>,
    kept: &Arc<KeptLookUps>,
) -> Arc<dyn ExecutionPlan> {
    let table: Arc<dyn PartitionStream> = Arc::clone(table) as _;
    let schema = Arc::clone(table.schema());
    let table = StreamingTableExec::try_new(schema, vec![table], None, [], false, None).unwrap();
    let (kept, columns) = (Arc::clone(kept), LookUpColumns::Rows);
    let by = By { of_rows: 1, of_table: 1, columns, kept, identity: identity() };
    Arc::new(LookUpExec::new(Arc::clone(rows), Arc::new(table), by, rows.schema()))
}

/// Concurrent statements that need an index make it once. If the one that makes it fails or is
/// cancelled, the next one does.
#[tokio::test]
async fn statements_at_the_same_time_share_an_index() {
    let state = session(8_192);
    let rows = random(&mut ChaCha20Rng::seed_from_u64(5), "l", 5, 20).concat();
    let own = scan(std::slice::from_ref(&rows), &state).await;
    for failures in [0, 1, 3] {
        let table =
            Counted { rows: rows[0].clone(), reads: AtomicUsize::new(0), failures, gate: None };
        let (kept, table) = (Arc::<KeptLookUps>::default(), Arc::new(table));
        let statement = || collect(by_keys_of(&own, &table, &kept), state.task_ctx());
        let mut given_up = Box::pin(statement());
        assert!(futures::poll!(&mut given_up).is_pending());
        let others = futures::future::join_all((0..5).map(|_| tokio::spawn(statement())));
        let given_up = tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(given_up);
        });
        let answers = others.await.into_iter().map(|answer| answer.unwrap());
        let answers: Vec<_> = answers.collect();
        given_up.await.unwrap();
        let found = |rows: &Vec<RecordBatch>| rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        let found: Vec<usize> = answers.iter().flatten().map(found).collect();
        assert!(found.len() + failures >= 5 && found[0] > 0, "{found:?}");
        assert!(found.iter().all(|rows| *rows == found[0]), "{found:?}");
        let reads = table.reads.load(Ordering::Relaxed);
        assert!((failures + 1..=failures + 2).contains(&reads), "{reads} reads");
        assert_eq!(kept.len(), 1);
    }
}

/// A statement that hangs while it makes an index does not delay another one for long. Neither does
/// one that lost patience.
#[tokio::test]
async fn a_statement_that_stands_still_is_not_waited_for() {
    let state = session(8_192);
    let rows = random(&mut ChaCha20Rng::seed_from_u64(6), "l", 5, 20).concat();
    let own = scan(std::slice::from_ref(&rows), &state).await;
    let (kept, gate) = (Arc::<KeptLookUps>::default(), Some(Arc::new(Notify::new())));
    let table = Counted { rows: rows[0].clone(), reads: AtomicUsize::new(0), failures: 0, gate };
    let (table, in_use) = (Arc::new(table), kept.in_use(&identity()));
    let mut standing = Box::pin(in_use.get_or_try_init(std::future::pending::<Result<_>>));
    assert!(futures::poll!(&mut standing).is_pending());
    let waiting = tokio::spawn(collect(by_keys_of(&own, &table, &kept), state.task_ctx()));
    while table.reads.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It makes its own index, and later statements start at once.
    drop(standing);
    let next = in_use.get_or_try_init(async || Err(failed()));
    assert!(timeout(Duration::from_secs(60), next).await.unwrap().is_err());
    table.gate.iter().for_each(|gate| gate.notify_one());
    assert!(!waiting.await.unwrap().unwrap().is_empty());
    assert!(in_use.initialized() && kept.len() == 1);
}

/// The memory that a statement reserves for an index does not depend on its keys.
#[test]
fn one_key_far_from_the_others_takes_no_other_memory() {
    let of = |last: i64| {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..5_000).chain([last])));
        let batch = RecordBatch::try_from_iter([("k", Arc::clone(&keys)), ("v", keys)]).unwrap();
        let look_up = LookUp::new(&batch.schema(), &[batch], 0).unwrap();
        assert!(look_up.size() <= look_up.most());
        (look_up.size(), look_up.most())
    };
    let ((near, of_near), (far, of_far)) = (of(5_000), of(i64::MAX));
    assert_eq!(of_near, of_far);
    assert!(near * 3 < far, "{near} {far}");
}

/// An engine keeps and reserves a sixteenth of its memory, or nothing.
#[test]
fn what_is_kept_is_reserved() {
    let within = |limit: usize| {
        let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(limit));
        let kept = KeptLookUps::within(&memory);
        (kept.as_ref().map(KeptLookUps::most), memory.reserved())
    };
    for gibibytes in [4, 12, 100] {
        let share = (gibibytes << 30) / 16;
        assert_eq!(within(gibibytes << 30), (Some(share), share));
    }
    assert_eq!(within((4 << 30) - 1), (None, 0));
}

/// If a filter reached the table, rows would be missing in an index that later statements without
/// the filter use.
#[tokio::test]
async fn no_filter_passes_through_the_operator() {
    let state = session(8_192);
    let rows = random(&mut ChaCha20Rng::seed_from_u64(3), "l", 5, 5);
    let (rows, table) = (scan(&rows, &state).await, scan(&rows, &state).await);
    let kept = Arc::<KeptLookUps>::default();
    let by =
        By { of_rows: 1, of_table: 1, columns: LookUpColumns::Rows, kept, identity: identity() };
    let schema = rows.schema();
    let look_up = LookUpExec::new(rows, table, by, schema);
    for phase in [FilterPushdownPhase::Pre, FilterPushdownPhase::Post] {
        let filters = vec![lit(true)];
        let passed = look_up.gather_filters_for_pushdown(phase, filters, &ConfigOptions::new());
        let passed = passed.unwrap();
        assert_eq!(passed.parent_filters().len(), 2);
        let none = |filter: &PushedDownPredicate| matches!(filter.discriminant, PushedDown::No);
        assert!(passed.parent_filters().iter().flatten().all(none));
        assert!(passed.self_filters().iter().all(Vec::is_empty));
    }
}
