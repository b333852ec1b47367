use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, EmitTo, ExprFunctionExt, GroupsAccumulator,
};
use datafusion::prelude::{SessionConfig, SessionContext, col, lit};

use super::{FixedSum, Grid, GridRange, GroupSums, Measured, Pairs, RowTerm, Total};

fn raw(column: &ArrayRef) -> Vec<i128> {
    assert_eq!(column.data_type(), &DataType::Decimal128(38, 0));
    assert_eq!(column.null_count(), 0);
    column.as_primitive::<Decimal128Type>().values().to_vec()
}

fn totals(grid: Grid, lo: i128, hi: i128) -> GroupSums {
    let range = GridRange::new(grid, lo, hi).unwrap();
    GroupSums { term: RowTerm { range, measured: Measured::Value }, sums: Vec::new() }
}

#[test]
fn groups_see_filters_nulls_and_bounds() {
    let mut sums = totals(Grid::Integer, -10, 10);
    let values: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(-4), Some(3), Some(9)]))];
    let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(true), Some(false)]);
    sums.update_batch(&values, &[0, 1, 1, 2, 2], Some(&filter), 4).unwrap();
    assert_eq!(sums.sums, [10, 0, 3, 0]);
    sums.update_batch(&values, &[4, 4, 4, 0, 1], None, 5).unwrap();
    assert_eq!(sums.sums, [13, 9, 3, 0, 6]);
    assert_eq!(raw(&sums.evaluate(EmitTo::First(2)).unwrap()), [13, 9]);
    assert_eq!(raw(&sums.state(EmitTo::All).unwrap()[0]), [3, 0, 6]);
    assert!(sums.sums.is_empty());
}

#[test]
fn states_of_single_rows_merge_to_the_same_sums() {
    let values: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(vec![
        Some(0.5),
        None,
        Some(f64::NAN),
        Some(f64::INFINITY),
        Some(-0.75),
    ]))];
    let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), Some(true), None]);
    let groups = [0, 0, 1, 1, 0];
    for filter in [None, Some(&filter)] {
        let mut direct = totals(Grid::Binary { log2: 2 }, -100, 100);
        direct.update_batch(&values, &groups, filter, 2).unwrap();
        let mut merged = totals(Grid::Binary { log2: 2 }, -100, 100);
        let states = merged.convert_to_state(&values, filter).unwrap();
        merged.merge_batch(&states, &groups, 2).unwrap();
        assert_eq!(direct.sums, merged.sums);
        assert_eq!(direct.sums, [if filter.is_some() { 2 } else { -1 }, 100]);
    }
}

#[test]
fn sums_beyond_38_digits_survive_and_overflow_is_an_error() {
    let mut sums = totals(Grid::Integer, 0, 1);
    let huge = Decimal128Array::from(vec![i128::MAX - 1]).with_precision_and_scale(38, 0).unwrap();
    let huge: Vec<ArrayRef> = vec![Arc::new(huge)];
    sums.merge_batch(&huge, &[0], 1).unwrap();
    let one: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1]))];
    sums.update_batch(&one, &[0], None, 1).unwrap();
    assert_eq!(sums.sums, [i128::MAX]);
    let error = sums.update_batch(&one, &[0], None, 1).unwrap_err();
    assert_eq!(error.to_string(), "Execution error: the query could not be executed");
    sums.sums = vec![2];
    assert!(sums.merge_batch(&huge, &[0], 1).is_err());
}

/// A code beyond the last one belongs to no pair. It moves the sums by no more than a pair does.
#[test]
fn products_are_taken_of_codes_only() {
    let range = |hi| GridRange::new(Grid::Integer, 0, hi).unwrap();
    let pairs = Pairs::new(range(2), range(3), (true, false)).unwrap();
    let codes: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![Some(-5), None, Some(6), Some(99)]))];
    let mut all = 0;
    for which in 0..pairs.products() {
        let measured = Measured::Product { pairs, which };
        let sum = FixedSum::new(Grid::Integer, 0, pairs.last(), measured).unwrap();
        let mut total = Total { term: sum.term, sum: 0 };
        total.update_batch(&codes).unwrap();
        let of = |code| pairs.product(code, which);
        assert_eq!(total.sum, of(0) + of(6) + of(11));
        all += total.sum;
        assert!(FixedSum::new(Grid::Integer, 0, pairs.last() + 1, measured).is_err());
        assert!(FixedSum::new(Grid::Integer, -1, pairs.last(), measured).is_err());
    }
    assert_eq!(all, 3 * i128::try_from(pairs.weight()).unwrap());
    let measured = Measured::Product { pairs, which: pairs.products() };
    assert!(FixedSum::new(Grid::Integer, 0, pairs.last(), measured).is_err());
}

#[test]
fn different_intervals_are_different_functions() {
    let one = FixedSum::new(Grid::Integer, 0, 1, Measured::Value).unwrap();
    let two = FixedSum::new(Grid::Integer, 0, 2, Measured::Value).unwrap();
    assert_ne!(one, two);
    assert_ne!(one.name, two.name);
    assert_eq!(one, FixedSum::new(Grid::Integer, 0, 1, Measured::Value).unwrap());
}

/// Runs three sums over one column through DataFusion's optimizer, in several partitions and
/// batches.
async fn run(
    partitions: usize,
    batch_rows: usize,
    grouped: bool,
) -> Vec<(Option<String>, [i128; 3])> {
    let rows = 4_000_i64;
    let x = Int64Array::from_iter((0..rows).map(|i| (i % 7 != 0).then_some(i - 2_000)));
    let g = StringArray::from_iter((0..rows).map(|i| Some(format!("g{}", i % 1_300))));
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(x) as ArrayRef),
        ("g", Arc::new(g) as ArrayRef),
    ])
    .unwrap();
    let mut parts = vec![Vec::new(); partitions];
    for (piece, start) in (0..batch.num_rows()).step_by(batch_rows).enumerate() {
        let length = batch_rows.min(batch.num_rows() - start);
        parts[piece % partitions].push(batch.slice(start, length));
    }
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(100);
    let context = SessionContext::new_with_config(config);
    context
        .register_table("t", Arc::new(MemTable::try_new(batch.schema(), parts).unwrap()))
        .unwrap();
    let sum = |lo, hi| {
        AggregateUDF::new_from_impl(FixedSum::new(Grid::Integer, lo, hi, Measured::Value).unwrap())
            .call(vec![col("x")])
    };
    let keys = if grouped { vec![col("g")] } else { vec![] };
    let filtered = sum(-50, 900).filter(col("x").gt(lit(0_i64))).build().unwrap();
    let frame = context.table("t").await.unwrap();
    let frame = frame.aggregate(keys, vec![sum(-50, 900), sum(-50, 901), filtered]).unwrap();
    let mut out = Vec::new();
    for batch in frame.collect().await.unwrap() {
        let first = usize::from(grouped);
        let sums = [0, 1, 2].map(|i| raw(batch.column(first + i)));
        for (row, ((a, b), c)) in sums[0].iter().zip(&sums[1]).zip(&sums[2]).enumerate() {
            let key = grouped
                .then(|| ScalarValue::try_from_array(batch.column(0), row).unwrap().to_string());
            out.push((key, [*a, *b, *c]));
        }
    }
    out.sort();
    out
}

#[tokio::test]
async fn datafusion_runs_it_alike_in_every_partitioning() {
    let x = |i: i64| (i % 7 != 0).then_some(i128::from(i - 2_000));
    let total = |keep: &dyn Fn(i64) -> bool, lo: i128, hi: i128, positive: bool| -> i128 {
        let rows = (0..4_000).filter(|i| keep(*i)).filter_map(x);
        rows.filter(|x| !positive || *x > 0).map(|x| x.clamp(lo, hi)).sum()
    };
    let mut expected: Vec<_> = (0..1_300)
        .map(|g| {
            let keep = move |i: i64| i % 1_300 == g;
            let sums = [
                total(&keep, -50, 900, false),
                total(&keep, -50, 901, false),
                total(&keep, -50, 900, true),
            ];
            (Some(format!("g{g}")), sums)
        })
        .collect();
    expected.sort();
    let all = |_| true;
    let global =
        [total(&all, -50, 900, false), total(&all, -50, 901, false), total(&all, -50, 900, true)];
    for (partitions, batch_rows) in [(1, 4_000), (1, 13), (3, 500), (4, 7)] {
        assert_eq!(run(partitions, batch_rows, true).await, expected);
        assert_eq!(run(partitions, batch_rows, false).await, [(None, global)]);
    }
}

#[tokio::test]
async fn no_rows_sum_to_zero_and_wrong_types_are_refused() {
    let context = SessionContext::new();
    let empty = Float64Array::from(Vec::<f64>::new());
    let batch = RecordBatch::try_from_iter([("x", Arc::new(empty) as ArrayRef)]).unwrap();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    let sum =
        |grid| AggregateUDF::new_from_impl(FixedSum::new(grid, 5, 6, Measured::Value).unwrap());
    let frame = context.table("t").await.unwrap();
    let binary = sum(Grid::Binary { log2: 0 }).call(vec![col("x")]);
    let batches = frame.clone().aggregate(vec![], vec![binary]).unwrap().collect().await.unwrap();
    assert_eq!(raw(batches[0].column(0)), [0]);
    assert!(frame.aggregate(vec![], vec![sum(Grid::Integer).call(vec![col("x")])]).is_err());
}

/// AVG is released as the distances from both ends, which add up to hi − lo for every row.
#[test]
fn distances_from_both_ends_add_up() {
    let range = GridRange::new(Grid::Integer, -2, 5).unwrap();
    let values: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![Some(-9), None, Some(0), Some(5), Some(99)]))];
    let sum = |measured| {
        let mut sums = GroupSums { term: RowTerm { range, measured }, sums: Vec::new() };
        sums.update_batch(&values, &[0, 0, 0, 1, 1], None, 2).unwrap();
        sums.sums
    };
    assert_eq!(sum(Measured::AboveLow), [2, 14]);
    assert_eq!(sum(Measured::BelowHigh), [12, 0]);
}

/// VAR is released as three sums that add up to w² for every row, even if values are rounded.
#[test]
fn squared_distances_add_up() {
    let range = GridRange::new(Grid::Integer, -2, 5).unwrap();
    let values: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![Some(-9), None, Some(0), Some(5), Some(99)]))];
    let sum = |measured| {
        let mut sums = GroupSums { term: RowTerm { range, measured }, sums: Vec::new() };
        sums.update_batch(&values, &[0, 0, 0, 1, 1], None, 2).unwrap();
        sums.sums
    };
    let three = |shift| {
        [
            sum(Measured::BelowHighSquared { shift }),
            sum(Measured::TwiceBoth { shift }),
            sum(Measured::AboveLowSquared { shift }),
        ]
    };
    // X is 0, 2, 7, 7, with w = 7.
    assert_eq!(three(0), [[49 + 25, 0], [20, 0], [4, 98]]);
    // In steps of 2, X is 0, 1, 4 (7/2 is rounded to the even neighbour), 4, with w = 4.
    assert_eq!(three(1), [[16 + 9, 0], [6, 0], [1, 32]]);
    let squares =
        |hi| FixedSum::new(Grid::Integer, 0, hi, Measured::TwiceBoth { shift: 3 }).is_ok();
    assert!(squares(1 << 43) && !squares((1 << 43) + 1));
}
