//! Compares the operator with DataFusion's aggregation of the same terms on small random tables.

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};

use super::*;
use crate::aggregate::fixed_sum::Measured;
use crate::aggregate::terms::{Term, TermKind, summed};
use crate::aggregate::tests_keys::{ListedKeys, sums_of_keys};
use crate::grid::Grid;
use crate::operator::bound_contributions::{EnforcedBounds, InputKind};
use hushql_privacy::sampler::{QueryRng, Uniform};

/// The number of columns after the keys.
const ARGUMENTS: usize = 3;

/// The form of a key column. Its first values are the keys. Close and distant integers are found in
/// different ways.
#[derive(Debug, Clone, Copy)]
enum Key {
    Text,
    Close,
    Far,
    Float,
    Flag,
    Moment,
    Decimal,
}

impl Key {
    /// One of seven values, or NULL.
    fn value(self, which: usize) -> ScalarValue {
        let number = i64::try_from(which).unwrap();
        let known = (which < 7).then_some(number);
        match self {
            Self::Text if which == 7 => ScalarValue::Utf8View(None),
            Self::Text => {
                let long =
                    if which.is_multiple_of(2) { "" } else { ", which is too long for a view" };
                ScalarValue::Utf8View(Some(format!("{which}{long}")))
            }
            Self::Close => ScalarValue::Int64(known.map(|number| number - 2)),
            Self::Far => ScalarValue::Int64(known.map(|number| number << 50)),
            Self::Float => ScalarValue::Float64(known.map(|_| [0.0, 2.5, -1e9][which % 3])),
            Self::Flag => ScalarValue::Boolean(known.map(|_| which.is_multiple_of(2))),
            Self::Moment => ScalarValue::TimestampMicrosecond(known, None),
            Self::Decimal => ScalarValue::Decimal128(known.map(i128::from), 10, 2),
        }
    }

    /// The values that are keys, with or without NULL.
    fn keys(self, null: bool) -> Vec<ScalarValue> {
        let known = if matches!(self, Self::Float | Self::Flag) { 2 } else { 5 };
        (0..known).chain(null.then_some(7)).map(|which| self.value(which)).collect()
    }
}

fn roll(rng: &mut QueryRng, sides: u64) -> usize {
    usize::try_from(rng.below_u64(sides)).unwrap()
}

fn random_batch(rng: &mut QueryRng, keys: &[Key], rows: usize) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef, bool)> = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        let values = (0..rows).map(|_| key.value(roll(rng, 8)));
        let empty = || key.value(0).to_array_of_size(0).unwrap();
        let column = if rows == 0 { empty() } else { ScalarValue::iter_to_array(values).unwrap() };
        columns.push((format!("k{i}"), column, true));
    }
    let mut whole = || roll(rng, 2_000).checked_sub(9).map(|x| i64::try_from(x).unwrap() - 800);
    let whole: Int64Array = (0..rows).map(|_| whole()).collect();
    let floats = [Some(0.25), Some(f64::NAN), None, Some(-1e300), Some(3.125), Some(-0.0)];
    let float: Float64Array = (0..rows).map(|_| floats[roll(rng, 6)]).collect();
    let flags = [Some(true), Some(false), None];
    let flag: BooleanArray = (0..rows).map(|_| flags[roll(rng, 3)]).collect();
    columns.push(("whole".to_owned(), Arc::new(whole), true));
    columns.push(("float".to_owned(), Arc::new(float), true));
    columns.push(("flag".to_owned(), Arc::new(flag), true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Each aggregate over arguments that begin at `first`, with the equivalent terms.
fn aggregates(first: usize, filter: Option<usize>) -> Vec<(InputKind, Vec<TermKind>)> {
    let (integer, halves) = (Grid::Integer, Grid::Binary { log2: 2 });
    let (whole, float) = (first, first + 1);
    let of = |column, grid, (lo, hi): (i128, i128), measured: &[Measured]| {
        let sum = |measured| TermKind::Sum { column, grid, lo, hi, measured };
        measured.iter().copied().map(sum).collect::<Vec<_>>()
    };
    let shift = 1;
    let squared = [
        Measured::BelowHighSquared { shift },
        Measured::TwiceBoth { shift },
        Measured::AboveLowSquared { shift },
    ];
    let both = [Measured::AboveLow, Measured::BelowHigh];
    let sum = |column, grid, ends: (i128, i128)| {
        let kind = InputKind::Sum { column, filter, grid, lo: ends.0, hi: ends.1 };
        (kind, of(column, grid, ends, &[Measured::Value]))
    };
    let mean = |column, grid, ends: (i128, i128)| {
        let kind = InputKind::Mean { column, filter, grid, lo: ends.0, hi: ends.1 };
        (kind, of(column, grid, ends, &both))
    };
    let (lo, hi) = (-40, 900);
    let moments = InputKind::Moments { column: whole, filter, grid: integer, lo, hi, shift };
    let wide = (-(1_i128 << 70), 1_i128 << 70);
    vec![
        (InputKind::CountRows { filter }, vec![TermKind::Count]),
        (InputKind::CountValues { column: whole, filter }, vec![TermKind::CountValues(whole)]),
        sum(whole, integer, (lo, hi)),
        sum(whole, integer, (0, 9)),
        sum(float, halves, (-40, 900)),
        sum(float, Grid::Binary { log2: 60 }, wide),
        mean(whole, integer, (lo, hi)),
        mean(float, halves, (1, 12)),
        (moments, of(whole, integer, (lo, hi), &squared)),
    ]
}

fn source(parts: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    let schema = parts[0][0].schema();
    MemorySourceConfig::try_new_exec(parts, schema, None).unwrap()
}

fn inputs(kinds: impl IntoIterator<Item = InputKind>) -> Vec<AggregateInput> {
    let input = |kind| AggregateInput::new(kind, EnforcedBounds::default());
    kinds.into_iter().map(input).collect()
}

fn space(keys: &ListedKeys) -> KeySpace {
    KeySpace::new(keys.columns()).unwrap()
}

/// The integers of each key, added up over all partitions.
async fn read(plan: Arc<dyn ExecutionPlan>, keys: &ListedKeys, columns: usize) -> Vec<Vec<i128>> {
    let plan = CoalescePartitionsExec::new(plan);
    let rows = plan.execute(0, Arc::new(TaskContext::default())).unwrap();
    sums_of_keys(rows, keys, columns).await
}

/// Covers all kinds of keys, partitions and batches, also empty ones.
#[tokio::test]
async fn integers_are_those_of_a_general_aggregation() {
    let mut rng = QueryRng::seeded_for_tests(81);
    let mut shapes = vec![vec![]];
    use Key::{Close, Decimal, Far, Flag, Float, Moment, Text};
    for one in [Text, Close, Far, Float, Flag, Moment, Decimal] {
        shapes.push(vec![one]);
        shapes.extend([Text, Close].map(|other| vec![one, other]));
    }
    for (turn, shape) in (0..4).flat_map(|turn| shapes.iter().map(move |shape| (turn, shape))) {
        let lists: Vec<_> = shape.iter().map(|key| key.keys(turn % 2 == 0)).collect();
        let keys = ListedKeys::product(&lists);
        let most = [0, 1, 30, 400][turn];
        let parts: Vec<Vec<RecordBatch>> = (0..=turn % 3)
            .map(|_| (0..3).map(|_| random_batch(&mut rng, shape, most)).collect())
            .collect();
        for filter in [None, Some(shape.len() + 2)] {
            let (kinds, terms): (Vec<_>, Vec<_>) =
                aggregates(shape.len(), filter).into_iter().unzip();
            let term = |kind| Term { kind, filter };
            let terms: Vec<_> = terms.into_iter().flatten().map(term).collect();
            let groups: Vec<usize> = (0..shape.len()).collect();
            let general = summed(source(&parts), &groups, &terms).unwrap();
            let expected = read(general, &keys, terms.len()).await;
            let own = SumByKeyExec::new(source(&parts), space(&keys), inputs(kinds)).unwrap();
            assert_eq!(own.properties.partitioning.partition_count(), parts.len());
            let found = read(Arc::new(own), &keys, terms.len()).await;
            assert_eq!(found, expected, "{turn} {shape:?} {filter:?}");
            let counted: i128 = found[0].iter().sum();
            assert!(turn < 2 || counted > 9, "{turn} {shape:?} {counted}");
        }
    }
}

/// One row is in one group, and changes each aggregate by no more than the width of its interval.
#[tokio::test]
async fn removing_a_row_changes_each_aggregate_by_no_more_than_claimed() {
    let mut rng = QueryRng::seeded_for_tests(82);
    let shape = [Key::Text, Key::Close];
    let keys = ListedKeys::product(&shape.map(|key| key.keys(true)));
    let batch = random_batch(&mut rng, &shape, 60);
    let kinds: Vec<_> = aggregates(2, None).into_iter().map(|(kind, _)| kind).collect();
    let inputs = inputs(kinds);
    let columns = inputs.iter().map(AggregateInput::outputs).sum();
    let of = |batches: Vec<RecordBatch>| {
        let plan = SumByKeyExec::new(source(&[batches]), space(&keys), inputs.clone());
        read(Arc::new(plan.unwrap()), &keys, columns)
    };
    let all = of(vec![batch.clone()]).await;
    let mut largest = vec![0; inputs.len()];
    for row in 0..batch.num_rows() {
        let without = of(vec![batch.slice(0, row), batch.slice(row + 1, 59 - row)]).await;
        let mut output = 0;
        for (largest, input) in largest.iter_mut().zip(&inputs) {
            let own = output..output + input.outputs();
            output = own.end;
            let differences = all[own.clone()].iter().zip(&without[own]).map(|(all, without)| {
                all.iter().zip(without).map(|(a, b)| (a - b).abs()).collect::<Vec<_>>()
            });
            let differences: Vec<_> = differences.collect();
            let of_group = |group: usize| differences.iter().map(|own| own[group]).sum::<i128>();
            let changed: Vec<_> =
                (0..keys.len()).map(of_group).filter(|change| *change > 0).collect();
            assert!(changed.len() <= 1, "a row is in {} groups", changed.len());
            *largest = changed.into_iter().fold(*largest, i128::max);
        }
    }
    // Counts: 1. Sums: the largest magnitude. Means: hi − lo. Variances: the square of the coarse
    // width.
    let steps = i128::from((900 + 40) / 2);
    assert_eq!(largest, [1, 1, 900, 9, 40, 1 << 70, 940, 11, steps * steps]);
}

/// The reserved memory depends on keys and aggregates alone. The first partition reserves it for
/// all, before it reads a row.
#[tokio::test]
async fn memory_follows_from_the_keys_alone() {
    let mut rng = QueryRng::seeded_for_tests(83);
    let keys = ListedKeys::product(&[Key::Close.keys(false)]);
    let kinds = || aggregates(1, None).into_iter().map(|(kind, _)| kind);
    for rows in [0, 5_000] {
        let batch = random_batch(&mut rng, &[Key::Close], rows);
        let plan = || -> Arc<dyn ExecutionPlan> {
            let parts = [vec![batch.clone()], vec![batch.clone()], vec![]];
            Arc::new(SumByKeyExec::new(source(&parts), space(&keys), inputs(kinds())).unwrap())
        };
        let reserved = 3 * plan().downcast_ref::<SumByKeyExec>().unwrap().reserved();
        assert!(reserved > 3_000);
        for (memory, enough) in [(reserved, true), (reserved - 1, false)] {
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0);
            let runtime = runtime.build_arc().unwrap();
            let pool = Arc::clone(&runtime.memory_pool);
            let context = Arc::new(TaskContext::default().with_runtime(runtime));
            let plan = plan();
            assert_eq!(plan.execute(1, Arc::clone(&context)).is_ok(), enough, "{rows}");
            assert_eq!(pool.reserved(), if enough { reserved } else { 0 });
            assert_eq!(collect(Arc::clone(&plan), context).await.is_ok(), enough, "{rows}");
            drop(plan);
            assert_eq!(pool.reserved(), 0);
        }
    }
}

#[test]
fn wrong_columns_and_aggregates_are_refused_when_planned() {
    let mut rng = QueryRng::seeded_for_tests(84);
    let batch = random_batch(&mut rng, &[Key::Text], 3);
    let keys = || space(&ListedKeys::product(&[Key::Text.keys(true)]));
    let build = |space, kind| {
        SumByKeyExec::new(source(&[vec![batch.clone()]]), space, inputs([kind])).is_ok()
    };
    let rows = InputKind::CountRows { filter: None };
    assert!(build(keys(), rows.clone()));
    assert!(build(KeySpace::global(), rows.clone()));
    assert!(!build(space(&ListedKeys::product(&[Key::Close.keys(true)])), rows.clone()));
    assert!(!build(KeySpace::of_the_data([&arrow::datatypes::DataType::Utf8View]), rows));
    assert!(build(keys(), InputKind::CountRows { filter: Some(ARGUMENTS) }));
    assert!(!build(keys(), InputKind::CountRows { filter: Some(1) }));
    assert!(!build(keys(), InputKind::CountValues { column: 9, filter: None }));
    let sum = |lo| InputKind::Sum { column: 1, filter: None, grid: Grid::Integer, lo, hi: 5 };
    assert!(build(keys(), sum(0)) && !build(keys(), sum(6)));
    // Rows alone do not tell which unit is which.
    assert!(!build(keys(), InputKind::CountUnits { filter: None }));
    let mut ladder = inputs([sum(0)]);
    ladder[0].ladder = Some(vec![1, 2]);
    assert!(SumByKeyExec::new(source(&[vec![batch.clone()]]), keys(), ladder).is_err());
}

#[test]
fn nothing_passes_through_the_operator() {
    let mut rng = QueryRng::seeded_for_tests(85);
    let input = source(&[vec![random_batch(&mut rng, &[], 3)]]);
    let rows = inputs([InputKind::CountRows { filter: None }]);
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(SumByKeyExec::new(input, KeySpace::global(), rows).unwrap());
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
