//! Compares the operator with a general aggregation on small random tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::collect_partitioned;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};
use futures::TryStreamExt;

use super::*;
use crate::aggregate::terms::{Term, TermKind, summed};
use hushql_privacy::sampler::{QueryRng, Uniform};

const PLACES: u64 = 5;
const FLAG: usize = 3;

/// The distances between places.
const FAR: [i64; 3] = [1, 1_000_000, 1_000_000_000];

/// Counts by the text of the groups and the place.
type Counts = BTreeMap<(Vec<String>, i64), i64>;

fn roll(rng: &mut QueryRng, sides: usize) -> usize {
    usize::try_from(rng.below_u64(u64::try_from(sides).unwrap())).unwrap()
}

/// A column of texts, one of floats, a place (also beyond the axis), and a flag.
fn random_batch(rng: &mut QueryRng, rows: usize, far: i64) -> RecordBatch {
    let texts = [Some("a"), Some("b"), None, Some("a text that is too long for a view")];
    let floats = [Some(0.0), Some(-0.0), Some(2.5), Some(f64::NAN), None];
    let mut text = || texts[roll(rng, texts.len())];
    let text: StringViewArray = (0..rows).map(|_| text()).collect();
    let mut float = || floats[roll(rng, floats.len())];
    let float: Float64Array = (0..rows).map(|_| float()).collect();
    let mut place =
        || roll(rng, 10).checked_sub(1).map(|place| far * i64::try_from(place).unwrap());
    let place: Int64Array = (0..rows).map(|_| place()).collect();
    let mut flag = || [Some(true), Some(false), None][roll(rng, 3)];
    let flag: BooleanArray = (0..rows).map(|_| flag()).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("text", Arc::new(text)),
        ("float", Arc::new(float)),
        ("place", Arc::new(place)),
        ("flag", Arc::new(flag)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn source(parts: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    let schema = parts[0][0].schema();
    MemorySourceConfig::try_new_exec(parts, schema, None).unwrap()
}

/// Leaves out the row for NULL places, which no reader counts, and merges all places beyond the
/// axis.
async fn counts(plan: Arc<dyn ExecutionPlan>, groups: usize, beyond: i64) -> Counts {
    let mut counts = Counts::new();
    let partitions = collect_partitioned(plan, Arc::new(TaskContext::default())).await.unwrap();
    for batch in partitions.iter().flatten() {
        for row in 0..batch.num_rows() {
            let text =
                |column: &ArrayRef| ScalarValue::try_from_array(column, row).unwrap().to_string();
            let group = batch.columns()[..groups].iter().map(text).collect();
            let places = batch.column(groups).as_primitive::<Int64Type>();
            let count = batch.column(groups + 1).as_primitive::<Int64Type>().value(row);
            if places.is_valid(row) && count > 0 {
                let place = places.value(row).min(beyond);
                *counts.entry((group, place)).or_default() += count;
            }
        }
    }
    counts
}

fn space() -> KeySpace {
    let text: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("a"),
        Some("a text that is too long for a view"),
        Some("a"),
        None,
        Some("of no row"),
    ]));
    let float: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(0.0), Some(2.5), None, None, Some(2.5)]));
    KeySpace::new(&[text, float]).unwrap()
}

#[tokio::test]
async fn counts_are_those_of_a_general_aggregation() {
    let mut rng = QueryRng::seeded_for_tests(71);
    let mut counted = 0;
    // Distant places are too many for counters; very distant ones are too many for 32 bits.
    for (turn, far) in (0..60).flat_map(|turn| FAR.map(|far| (turn, far))) {
        let (beyond, places) = (5 * far, 5 * u64::try_from(far).unwrap());
        let parts: Vec<Vec<RecordBatch>> = (0..=turn % 3)
            .map(|_| (0..=turn % 4).map(|_| random_batch(&mut rng, turn, far)).collect())
            .collect();
        let filter = (turn % 2 == 1).then_some(FLAG);
        let term = Term { kind: TermKind::Count, filter };
        let known = space();
        let columns = known.columns().to_vec();
        let mut expected =
            counts(summed(source(&parts), &[0, 1, 2], &[term]).unwrap(), 2, beyond).await;
        let keys: Vec<Vec<String>> = (0..known.len())
            .map(|row| {
                let text = |column: &ArrayRef| ScalarValue::try_from_array(column, row).unwrap();
                columns.iter().map(|column| text(column).to_string()).collect()
            })
            .collect();
        // The operator treats NaN as NULL and both zeros as one, as the bounds below it do.
        let normal = |text: &String| match text.as_str() {
            "NaN" => "NULL".to_owned(),
            "-0" | "0" | "-0.0" => "0.0".to_owned(),
            other => other.to_owned(),
        };
        let keys: Vec<Vec<String>> =
            keys.iter().map(|key| key.iter().map(normal).collect()).collect();
        let mut merged = Counts::new();
        for ((group, place), count) in std::mem::take(&mut expected) {
            let group: Vec<String> = group.iter().map(normal).collect();
            if keys.contains(&group) {
                *merged.entry((group, place)).or_default() += count;
            }
        }
        let plan = CountPlacesExec::new(source(&parts), known, places, filter).unwrap();
        let own = counts(Arc::new(plan), 2, beyond).await;
        let own: Counts = own
            .into_iter()
            .map(|((group, place), n)| ((group.iter().map(normal).collect(), place), n))
            .collect();
        assert_eq!(own, merged, "{turn} {far}");
        counted += own.values().sum::<i64>();
    }
    assert!(counted > 1_000, "{counted}");
}

#[tokio::test]
async fn without_groups_all_rows_are_in_one() {
    for far in FAR {
        let mut rng = QueryRng::seeded_for_tests(72);
        let batch = random_batch(&mut rng, 20_000, far).project(&[2, 3]).unwrap();
        let place = batch.column(0).as_primitive::<Int64Type>();
        let places = PLACES * u64::try_from(far).unwrap();
        let plan =
            CountPlacesExec::new(source(&[vec![batch.clone()]]), KeySpace::global(), places, None);
        let counts = counts(Arc::new(plan.unwrap()), 0, 5 * far).await;
        assert_eq!(counts.len(), 6);
        for ((_, at), count) in counts {
            let rows = place.iter().flatten().filter(|place| (*place).min(5 * far) == at).count();
            assert_eq!(usize::try_from(count).unwrap(), rows);
        }
    }
}

/// With too little memory for the numbers of all rows, counts come out in several parts, which add
/// up to the same counts.
#[tokio::test]
async fn with_little_memory_counts_come_out_in_parts() {
    let mut rng = QueryRng::seeded_for_tests(74);
    let far = 1_000_000;
    let batches: Vec<_> = (0..30).map(|_| random_batch(&mut rng, 500, far)).collect();
    let places = PLACES * u64::try_from(far).unwrap();
    let plan = CountPlacesExec::new(source(&[batches]), space(), places, Some(FLAG)).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(plan);
    let all = counts(Arc::clone(&plan), 2, 5 * far).await;
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(2_000, 1.0).build_arc().unwrap();
    let context = Arc::new(TaskContext::default().with_runtime(runtime));
    let parts = plan.execute(0, context).unwrap().try_collect::<Vec<_>>().await.unwrap();
    assert!(parts.len() > 4, "{}", parts.len());
    let mut added = Counts::new();
    for part in parts {
        for (at, count) in counts(source(&[vec![part]]), 2, 5 * far).await {
            *added.entry(at).or_default() += count;
        }
    }
    assert_eq!(added, all);
}

/// If counts fill more than one batch, each comes out once, in the order of their places.
#[tokio::test]
async fn counts_come_out_in_batches() {
    let all: Vec<i64> = (0..40_000).map(|i| (i * 7_919) % 20_000 * 1_000).collect();
    for places in [20_000, 1 << 40] {
        let far = if places == 20_000 { 1_000 } else { 1 };
        let place: ArrayRef = Arc::new(Int64Array::from_iter_values(all.iter().map(|p| p / far)));
        let batch = RecordBatch::try_from_iter([("place", place)]).unwrap();
        let source = source(&[vec![batch]]);
        let plan = CountPlacesExec::new(source, KeySpace::global(), places, None).unwrap();
        let context = Arc::new(TaskContext::default());
        let out = collect_partitioned(Arc::new(plan), context).await.unwrap().concat();
        let column = |at: usize| {
            let values = out.iter().map(move |b| b.column(at).as_primitive::<Int64Type>().values());
            values.flat_map(|values| values.to_vec()).collect::<Vec<i64>>()
        };
        let step = 1_000 / far;
        assert!(out.len() > 1);
        assert_eq!(column(0), (0..20_000).map(|place| place * step).collect::<Vec<_>>());
        assert!(column(1).iter().all(|count| *count == 2));
    }
}

/// If a group ends with a batch, the next group follows.
#[tokio::test]
async fn groups_end_where_batches_do() {
    for lengths in [[BATCH, 3, 1], [2 * BATCH, BATCH, 7], [0, BATCH, BATCH], [BATCH - 1, 1, 9]] {
        let rows = (0..3_i64).zip(lengths);
        let rows =
            rows.flat_map(|(group, length)| (0_i64..).take(length).map(move |at| (group, at)));
        let rows: Vec<(i64, i64)> = rows.collect();
        let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let batch = [("group", column(|row| row.0)), ("place", column(|row| row.1 * 1_000))];
        let source = source(&[vec![RecordBatch::try_from_iter(batch).unwrap()]]);
        let groups: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2]));
        for places in [1_000_000, 1 << 40] {
            let space = KeySpace::new(&[Arc::clone(&groups)]).unwrap();
            let plan = CountPlacesExec::new(Arc::clone(&source), space, places, None).unwrap();
            let all = counts(Arc::new(plan), 1, i64::MAX).await;
            assert_eq!(all.len(), rows.len(), "{lengths:?} {places}");
            assert!(all.values().all(|count| *count == 1));
        }
    }
}

/// Listed numbers, in one list or in a list for each group, are turned into counters once they take
/// as much memory; the rows after them are counted at once.
#[tokio::test]
async fn many_rows_are_counted_at_last() {
    let rows = 2_500_000;
    for (groups, places) in [(3, MANY as u64 / 3 + 9), (1 + i64::try_from(LISTS).unwrap(), 2_100)] {
        let all = (0..rows).map(|i| (i % groups, i * i % 3_000_017 % 750_000));
        let all: Vec<(i64, i64)> = all.collect();
        let integers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let beyond = i64::try_from(places).unwrap();
        let mut expected = BTreeMap::<(i64, i64), i64>::new();
        for (group, place) in &all {
            *expected.entry((*group, (*place).min(beyond))).or_default() += 1;
        }
        for memory in [usize::MAX, 1 << 27, 1 << 25] {
            let batches = all.chunks(700_000).map(|all| {
                let group = integers(all.iter().map(|(group, _)| *group).collect());
                let place = integers(all.iter().map(|(_, place)| *place).collect());
                RecordBatch::try_from_iter([("group", group), ("place", place)]).unwrap()
            });
            let source = source(&[batches.collect()]);
            let space = KeySpace::new(&[integers((0..groups).collect())]).unwrap();
            let plan = CountPlacesExec::new(source, space, places, None).unwrap();
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0);
            let runtime = runtime.build_arc().unwrap();
            let context = Arc::new(TaskContext::default().with_runtime(runtime));
            let batches = collect_partitioned(Arc::new(plan), context).await.unwrap().concat();
            let mut counts = BTreeMap::<(i64, i64), i64>::new();
            for batch in batches {
                let column = |at| batch.column(at).as_primitive::<Int64Type>().values();
                let rows = column(0).iter().zip(column(1)).zip(column(2));
                for ((group, place), count) in rows {
                    *counts.entry((*group, *place)).or_default() += count;
                }
            }
            assert_eq!(counts, expected, "{groups} groups");
        }
    }
}

/// A place below the axis is a defect of the plan.
#[tokio::test]
async fn places_below_the_axis_fail() {
    let place: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
    let batch = RecordBatch::try_from_iter([("place", place)]).unwrap();
    let plan = CountPlacesExec::new(source(&[vec![batch]]), KeySpace::global(), 3, None).unwrap();
    let context = Arc::new(TaskContext::default());
    assert!(collect_partitioned(Arc::new(plan), context).await.is_err());
}

#[test]
fn wrong_columns_and_too_many_places_are_refused_when_planned() {
    let mut rng = QueryRng::seeded_for_tests(73);
    let batch = random_batch(&mut rng, 3, 1);
    let build = |columns: &[usize], space, places, filter| {
        let batch = batch.project(columns).unwrap();
        CountPlacesExec::new(source(&[vec![batch]]), space, places, filter).is_ok()
    };
    assert!(build(&[0, 1, 2, 3], space(), 5, Some(3)));
    assert!(!build(&[0, 2, 3], space(), 5, None));
    assert!(!build(&[0, 1, 3], space(), 5, None));
    assert!(!build(&[0, 1, 2, 3], space(), 5, Some(2)));
    assert!(!build(&[0, 1, 2, 3], space(), 5, Some(9)));
    assert!(build(&[2], KeySpace::global(), u64::MAX - 1, None));
    assert!(!build(&[0, 1, 2], space(), u64::MAX / 5, None));
    assert!(!build(&[2], KeySpace::global(), u64::MAX, None));
}

#[test]
fn nothing_passes_through_the_operator() {
    let mut rng = QueryRng::seeded_for_tests(74);
    let input = source(&[vec![random_batch(&mut rng, 3, 1)]]);
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(CountPlacesExec::new(input, space(), PLACES, None).unwrap());
    assert_eq!(plan.fetch(), None);
    assert!(plan.with_fetch(Some(1)).is_none());
    assert!(!plan.supports_limit_pushdown());
    let config = ConfigOptions::new();
    for phase in [FilterPushdownPhase::Pre, FilterPushdownPhase::Post] {
        let filters = plan.gather_filters_for_pushdown(phase, vec![lit(true)], &config).unwrap();
        let passed = filters.parent_filters();
        assert!(
            passed.iter().flatten().all(|filter| matches!(filter.discriminant, PushedDown::No))
        );
    }
    #[expect(deprecated, reason = "what other rules may still ask for")]
    let statistics = plan.partition_statistics(None).unwrap();
    assert_eq!(statistics.num_rows.get_value(), None);
}
