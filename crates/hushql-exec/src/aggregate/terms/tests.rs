use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema};
use datafusion::datasource::MemTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlanProperties, Partitioning, collect};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;
use crate::aggregate::tests_keys::{ListedKeys, sums_of_keys};
use crate::operator::bound_contributions::{EnforcedBounds, HashKey, LateKey};
use crate::operator::sample_rows::SampleContributionsExec;

/// unit, key, x, y, flag: 3,000 rows of 100 units, seven keys (one of them NULL).
fn rows() -> RecordBatch {
    let n = 0..3_000_i64;
    let names = [Some("a"), None, Some("b"), Some("c"), Some("d"), Some("e"), Some("f")];
    let key = |i: i64| names[usize::try_from(i * i % 7).unwrap()];
    let y = |i: i64| {
        let odd = [Some(0.25), Some(f64::NAN), None, Some(-1e300), Some(3.125), Some(-0.0)];
        odd[usize::try_from(i % 6).unwrap()]
    };
    let columns: [(&str, ArrayRef); 5] = [
        ("unit", Arc::new(Int64Array::from_iter(n.clone().map(|i| Some(i * 7 % 101))))),
        ("key", Arc::new(StringArray::from_iter(n.clone().map(key)))),
        ("x", Arc::new(Int64Array::from_iter(n.clone().map(|i| (i % 5 > 0).then_some(i - 1_000))))),
        ("y", Arc::new(Float64Array::from_iter(n.clone().map(y)))),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                n.map(|i| [Some(true), Some(false), None][usize::try_from(i % 3).unwrap()]),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Every kind of term with and without a filter, over columns x, y and flag, which begin at
/// `first`.
fn terms(first: usize) -> Vec<Term> {
    let [x, y, flag] = [first, first + 1, first + 2];
    let sum = |column, grid, measured| TermKind::Sum { column, grid, lo: -40, hi: 900, measured };
    let kinds = [
        TermKind::Count,
        TermKind::CountValues(x),
        sum(x, Grid::Integer, Measured::Value),
        sum(x, Grid::Integer, Measured::AboveLow),
        sum(x, Grid::Integer, Measured::BelowHigh),
        sum(y, Grid::Binary { log2: 2 }, Measured::Value),
    ];
    let both =
        |kind: TermKind| [None, Some(flag)].map(|filter| Term { kind: kind.clone(), filter });
    kinds.into_iter().flat_map(both).collect()
}

fn key_space() -> ListedKeys {
    let names = [Some("f"), Some("a"), None, Some("z"), Some("b"), Some("c")];
    let names = names.map(|name| ScalarValue::Utf8(name.map(ToOwned::to_owned)));
    ListedKeys::product(&[names.to_vec()])
}

/// The terms restated, over rows of key, x, y and flag.
fn naive(batches: &[RecordBatch], keys: &ListedKeys) -> Vec<Vec<i128>> {
    let mut sums = vec![vec![0; keys.len()]; terms(1).len()];
    for batch in batches {
        let column = batch.column(0).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let key = column.is_valid(row).then(|| column.value(row));
            let listed = keys.columns().first().map(|names| {
                let names = names.as_string::<i32>();
                names.iter().position(|name| name == key)
            });
            let Some(place) = listed.unwrap_or(Some(0)) else { continue };
            let x = batch.column(1).as_primitive::<Int64Type>();
            let x = x.is_valid(row).then(|| i128::from(x.value(row)));
            let clamped = x.map(|x| x.clamp(-40, 900));
            let y = ScalarValue::try_from_array(batch.column(2), row).unwrap();
            let y = match y {
                ScalarValue::Float64(Some(0.25)) => 1,
                ScalarValue::Float64(Some(3.125)) => 12,
                ScalarValue::Float64(Some(y)) if y < 0.0 => -40,
                _ => 0,
            };
            let flag = batch.column(3).as_boolean();
            let passes = flag.is_valid(row) && flag.value(row);
            let values = [
                1,
                i128::from(x.is_some()),
                clamped.unwrap_or(0),
                clamped.map_or(0, |x| x + 40),
                clamped.map_or(0, |x| 900 - x),
                y,
            ];
            for (i, value) in values.into_iter().enumerate() {
                sums[2 * i][place] += value;
                sums[2 * i + 1][place] += if passes { value } else { 0 };
            }
        }
    }
    sums
}

/// The kept rows of a table, in `partitions` partitions.
fn kept(batch: &RecordBatch, partitions: usize) -> Arc<dyn ExecutionPlan> {
    let pieces = (0..batch.num_rows()).step_by(100).map(|start| batch.slice(start, 100)).collect();
    let mut plan: Arc<dyn ExecutionPlan> =
        MemorySourceConfig::try_new_exec(&[pieces], batch.schema(), None).unwrap();
    if partitions > 1 {
        let partitioning = Partitioning::RoundRobinBatch(partitions);
        plan = Arc::new(RepartitionExec::try_new(plan, partitioning).unwrap());
    }
    let key = LateKey::default();
    key.set(HashKey::new([5, 6, 7, 8]));
    let limits = EnforcedBounds { total: Some(12), per_partition: Some(4), l0: Some(5) };
    Arc::new(SampleContributionsExec::new(plan, 0, vec![1], limits, key).unwrap())
}

/// A session that passes rows on unaggregated wherever an aggregation allows it.
fn pass_through_session() -> Arc<TaskContext> {
    let mut config = SessionConfig::new().with_batch_size(64);
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = 0;
    config.options_mut().execution.skip_partial_aggregation_probe_ratio_threshold = 0.0;
    SessionContext::new_with_config(config).task_ctx()
}

#[tokio::test]
async fn partitions_add_up_to_the_terms_over_all_kept_rows() {
    let whole = rows();
    for (groups, keys) in [(&[0][..], key_space()), (&[], ListedKeys::product(&[]))] {
        let rows = collect(kept(&whole, 1), pass_through_session()).await.unwrap();
        let expected = naive(&rows, &keys);
        assert!(expected.iter().all(|sums| sums.iter().any(|sum| *sum != 0)));
        for partitions in [1, 2, 7] {
            let plan = summed(kept(&whole, partitions), groups, &terms(1)).unwrap();
            assert_eq!(plan.output_partitioning().partition_count(), partitions);
            for (i, field) in plan.schema().fields().iter().skip(groups.len()).enumerate() {
                let sum = !matches!(terms(1)[i].kind, TermKind::Count | TermKind::CountValues(_));
                let expected = if sum { DataType::Decimal128(38, 0) } else { DataType::Int64 };
                assert_eq!((field.name(), field.data_type()), (&format!("sum{i}"), &expected));
            }
            // There is one row for each group and partition: no row passes through unaggregated.
            let mut found = 0;
            for partition in 0..partitions {
                let rows = plan.execute(partition, pass_through_session()).unwrap();
                let rows: Vec<_> = futures::TryStreamExt::try_collect(rows).await.unwrap();
                let rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
                assert!(rows <= if groups.is_empty() { 1 } else { 7 }, "{rows}");
                found += rows;
            }
            assert!(found >= partitions);
            let again = summed(kept(&whole, partitions), groups, &terms(1)).unwrap();
            let single = Arc::new(CoalescePartitionsExec::new(again));
            let rows = single.execute(0, pass_through_session()).unwrap();
            let sums = sums_of_keys(rows, &keys, terms(1).len()).await;
            assert_eq!(sums, expected, "{partitions} {groups:?}");
        }
    }
}

/// The sums or counts over the batches' rows, whatever their type.
fn integers(batches: &[RecordBatch], keys: usize) -> Vec<(String, Vec<i128>)> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns()[..keys].iter();
            let key = cells.map(|c| ScalarValue::try_from_array(c, row).unwrap().to_string());
            let numbers = batch.columns()[keys..].iter().map(|column| match column.data_type() {
                DataType::Int64 => i128::from(column.as_primitive::<Int64Type>().value(row)),
                _ => column.as_primitive::<Decimal128Type>().value(row),
            });
            rows.push((key.collect(), numbers.collect()));
        }
    }
    rows.sort();
    rows
}

#[tokio::test]
async fn a_term_means_the_same_in_both_plans() {
    let whole = rows();
    let context = SessionContext::new();
    let table = MemTable::try_new(whole.schema(), vec![vec![whole.clone()]]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    for groups in [&[1][..], &[]] {
        let frame = context.table("t").await.unwrap();
        let schema = frame.schema().clone();
        let calls = terms(2).iter().map(|term| term.logical(&schema).unwrap()).collect();
        let keys = groups.iter().map(|i| Expr::Column(schema.qualified_field(*i).into()));
        let logical = frame.aggregate(keys.collect(), calls).unwrap().collect().await.unwrap();
        let input =
            MemorySourceConfig::try_new_exec(&[vec![whole.clone()]], whole.schema(), None).unwrap();
        let physical = summed(input, groups, &terms(2)).unwrap();
        let physical = collect(physical, pass_through_session()).await.unwrap();
        let expected = integers(&logical, groups.len());
        assert_eq!(expected.len(), if groups.is_empty() { 1 } else { 4 });
        assert_eq!(integers(&physical, groups.len()), expected);
    }
}

#[test]
fn wrong_columns_are_refused_when_planned() {
    let input: Arc<dyn ExecutionPlan> =
        MemorySourceConfig::try_new_exec(&[vec![rows()]], rows().schema(), None).unwrap();
    let logical = DFSchema::try_from(Schema::clone(&rows().schema())).unwrap();
    let sum = |column, lo, hi| TermKind::Sum {
        column,
        grid: Grid::Integer,
        lo,
        hi,
        measured: Measured::Value,
    };
    let build = |groups: &[usize], kind: TermKind, filter| {
        let term = Term { kind, filter };
        (
            summed(Arc::clone(&input), groups, std::slice::from_ref(&term)).is_ok(),
            term.logical(&logical).is_ok(),
        )
    };
    assert_eq!(build(&[1], sum(2, 0, 1), Some(4)), (true, true));
    assert_eq!(build(&[99], TermKind::Count, None), (false, true));
    assert_eq!(build(&[], TermKind::CountValues(99), None), (false, false));
    assert_eq!(build(&[], sum(99, 0, 1), None), (false, false));
    assert_eq!(build(&[], sum(2, 1, 0), None), (false, false));
    assert_eq!(build(&[], TermKind::Count, Some(99)), (false, false));
    assert!(!build(&[], TermKind::Count, Some(2)).0);
    assert!(!build(&[], sum(3, 0, 1), None).0);
    let empty = Arc::new(Schema::new(vec![Field::new("flag", DataType::Boolean, true)]));
    let none = MemorySourceConfig::try_new_exec(&[vec![]], empty, None).unwrap();
    let flagged = Term { kind: TermKind::Count, filter: Some(0) };
    assert!(summed(none, &[], &[flagged]).is_ok());
}
