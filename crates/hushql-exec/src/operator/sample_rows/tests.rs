//! Compares the operator with a plain restatement of its rules on small random tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{collect, displayable};

use arrow::row::{RowConverter, SortField};
use datafusion::physical_expr::expressions::Column;

use super::*;
use crate::grid::failed;
use crate::operator::bound_contributions::{HashKey, canonical};
use crate::operator::shelf::tests::LittleMemory;
use hushql_privacy::sampler::{QueryRng, Uniform};

const KEY: usize = 0;
const UNIT: usize = 1;
const NUMBER: usize = 2;

const HASH: [u64; 4] = [11, 22, 33, 44];

/// A key that is already set.
fn keyed(words: [u64; 4]) -> LateKey {
    let key = LateKey::default();
    key.set(HashKey::new(words));
    key
}

/// Random choices that are the same on every run.
struct Dice(QueryRng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(QueryRng::seeded_for_tests(seed))
    }

    fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.0.below_u64(u64::try_from(sides).unwrap())).unwrap()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

#[derive(Debug, Clone)]
struct Person {
    key: Option<&'static str>,
    unit: Option<i64>,
    number: Option<f64>,
    value: Option<i64>,
}

fn random_rows(dice: &mut Dice, units: usize, rows: usize) -> Vec<Person> {
    let keys = 1 + dice.roll(5);
    let values = 1 + i64::try_from(dice.roll(9)).unwrap();
    let mut row = || {
        let unit = dice.roll(units + 1);
        Person {
            key: [None, Some("a"), Some(""), Some("a longer key than views hold"), Some("b")]
                [dice.roll(keys)],
            unit: (unit > 0).then(|| i64::try_from(unit).unwrap() - 3),
            number: dice.pick(&[Some(0.0), Some(-0.0), Some(2.5), Some(f64::NAN), None]),
            value: dice.roll(8).checked_sub(1).map(|v| i64::try_from(v).unwrap() % values),
        }
    };
    (0..rows).map(|_| row()).collect()
}

/// The last column repeats the unit, because the operator does not show the unit of a kept row.
fn batch(rows: &[Person], unit_type: &DataType) -> RecordBatch {
    let unit: ArrayRef = Arc::new(rows.iter().map(|row| row.unit).collect::<Int64Array>());
    let columns: [(&str, ArrayRef); 5] = [
        ("key", Arc::new(rows.iter().map(|row| row.key).collect::<StringArray>())),
        ("unit", cast(&unit, unit_type).unwrap()),
        ("number", Arc::new(rows.iter().map(|row| row.number).collect::<Float64Array>())),
        ("value", Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>())),
        ("owner", unit),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn random_limits(dice: &mut Dice) -> EnforcedBounds {
    EnforcedBounds {
        total: dice.pick(&[None, Some(1), Some(2), Some(4), Some(7), Some(0)]),
        per_partition: dice.pick(&[None, Some(1), Some(2), Some(3), Some(0)]),
        l0: dice.pick(&[None, Some(1), Some(2), Some(3), Some(0)]),
    }
}

fn source(partitions: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    let schema = partitions[0][0].schema();
    MemorySourceConfig::try_new_exec(partitions, schema, None).unwrap()
}

/// The rows in random order, each in a random partition, in batches of `step` rows.
fn dealt(
    dice: &mut Dice,
    whole: &RecordBatch,
    partitions: usize,
    step: usize,
) -> Arc<dyn ExecutionPlan> {
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); partitions];
    for row in 0..u32::try_from(whole.num_rows()).unwrap() {
        rows[dice.roll(partitions)].push(row);
    }
    let part = |rows| take_record_batch(whole, &UInt32Array::from(rows)).unwrap();
    let parts: Vec<_> = rows.into_iter().map(|rows| shuffled(dice, &part(rows), step)).collect();
    source(&parts)
}

fn keep(
    input: Arc<dyn ExecutionPlan>,
    group: &[usize],
    limits: EnforcedBounds,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(
        SampleContributionsExec::new(input, UNIT, group.to_vec(), limits, keyed(HASH)).unwrap(),
    )
}

async fn run(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    collect(plan, Arc::new(TaskContext::default())).await.unwrap()
}

/// Rows as text, sorted: a multiset.
fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let cell = ScalarValue::try_from_array(column, row).unwrap();
                format!("{cell:?}")
            });
            lines.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    lines.sort();
    lines
}

fn encoded(columns: &[ArrayRef], rows: usize) -> Vec<Vec<u8>> {
    if columns.is_empty() {
        return vec![Vec::new(); rows];
    }
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let encoded = RowConverter::new(fields).unwrap().convert_columns(columns).unwrap();
    encoded.iter().map(|row| row.data().to_vec()).collect()
}

/// The rules restated, unit by unit.
fn naive(whole: &RecordBatch, group: &[usize], limits: EnforcedBounds) -> Vec<String> {
    let hash = HashKey::new(HASH);
    let mut columns = whole.columns().to_vec();
    for group in group {
        columns[*group] = canonical(&columns[*group]);
    }
    let unit = columns[UNIT].clone();
    let length = whole.num_rows();
    let pick = |wanted: bool| {
        let is = |i: usize| i != UNIT && group.contains(&i) == wanted;
        (0..columns.len()).filter(|i| is(*i)).map(|i| columns[i].clone()).collect::<Vec<_>>()
    };
    // Groups are encoded in the order of `group`.
    let group_columns: Vec<_> = group.iter().map(|i| columns[*i].clone()).collect();
    let (groups, others) = (encoded(&group_columns, length), encoded(&pick(false), length));
    let names = encoded(&[Arc::clone(&unit)], length);
    let owner = whole.column(4).as_primitive::<Int64Type>();
    let mut units: BTreeMap<i64, BTreeMap<Vec<u8>, Vec<usize>>> = BTreeMap::new();
    for row in (0..length).filter(|row| owner.is_valid(*row)) {
        let groups_of_unit = units.entry(owner.value(row)).or_default();
        groups_of_unit.entry(groups[row].clone()).or_default().push(row);
    }
    let mut kept = Vec::new();
    for (owner, groups) in units {
        let first = groups.values().next().unwrap()[0];
        let name = if unit.data_type().is_integer() {
            hash.integer_unit(owner.cast_unsigned())
        } else {
            hash.bytes_unit(&names[first])
        };
        let mut order: Vec<_> =
            groups.into_iter().map(|(group, rows)| (hash.group_rank(name, &group), rows)).collect();
        order.sort_by_key(|(rank, _)| *rank);
        let (mut rest, mut used) = (limits.total, 0);
        for (rank, rows) in order {
            let n = u64::try_from(rows.len()).unwrap();
            let k = n.min(limits.per_partition.unwrap_or(n)).min(rest.unwrap_or(n));
            if k == 0 || limits.l0 == Some(used) {
                continue;
            }
            used += 1;
            rest = rest.map(|rest| rest - k);
            let mut copies: HashMap<&[u8], u64> = HashMap::new();
            let mut ranked: Vec<_> = rows
                .iter()
                .map(|row| {
                    let copy = copies.entry(&others[*row]).or_default();
                    *copy += 1;
                    let rank = hash.row_rank(rank, &others[*row]);
                    (hash.copy_rank(rank, *copy - 1), *row)
                })
                .collect();
            ranked.sort_unstable();
            kept.extend(
                ranked[..usize::try_from(k).unwrap()].iter().map(|(_, r)| u32::try_from(*r)),
            );
        }
    }
    let kept: Vec<u32> = kept.into_iter().map(Result::unwrap).collect();
    columns.remove(UNIT);
    let names = ["key", "number", "value", "owner"].into_iter().zip(columns);
    let rows = RecordBatch::try_from_iter(names).unwrap();
    lines(&[take_record_batch(&rows, &UInt32Array::from(kept)).unwrap()])
}

/// The rows in a random order, in batches of `step` rows.
fn shuffled(dice: &mut Dice, whole: &RecordBatch, step: usize) -> Vec<RecordBatch> {
    let length = whole.num_rows();
    let mut order: Vec<u32> = (0..u32::try_from(length).unwrap()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, dice.roll(i + 1));
    }
    let shuffled = take_record_batch(whole, &UInt32Array::from(order)).unwrap();
    let mut pieces = vec![shuffled.slice(0, 0)];
    let starts = (0..length).step_by(step);
    pieces.extend(starts.map(|start| shuffled.slice(start, step.min(length - start))));
    pieces
}

const GROUPS: [&[usize]; 5] = [&[], &[KEY], &[NUMBER], &[KEY, NUMBER], &[3, KEY]];

#[tokio::test]
async fn random_tables_agree_with_the_rules_in_any_order_and_partitioning() {
    let mut dice = Dice::new(1);
    let (mut cut, mut whole_units) = (0, 0);
    for round in 0..300 {
        let units = 1 + dice.roll(5);
        let length = dice.roll(70);
        let rows = random_rows(&mut dice, units, length);
        let (group, limits) = (dice.pick(&GROUPS), random_limits(&mut dice));
        let types = [DataType::Int64, DataType::Int16, DataType::Utf8, DataType::Utf8View];
        let whole = batch(&rows, &dice.pick(&types));
        let expected = naive(&whole, group, limits);
        let known = rows.iter().filter(|row| row.unit.is_some()).count();
        cut += usize::from(expected.len() < known);
        whole_units += usize::from(expected.len() == known);
        for (partitions, step) in [(1, 1), (1, 8192), (2, 7), (7, 1), (7, 8192)] {
            let plan = dealt(&mut dice, &whole, partitions, step);
            let kept = lines(&run(keep(plan, group, limits)).await);
            assert_eq!(kept, expected, "round {round} {partitions} {step} {group:?} {limits:?}");
        }
    }
    assert!(cut > 100 && whole_units > 10, "{cut} {whole_units}");
}

/// Buckets have several batches, and units have more rows than a batch.
#[tokio::test]
async fn large_units_agree_with_the_rules() {
    let mut dice = Dice::new(2);
    let whole = batch(&random_rows(&mut dice, 3, 60_000), &DataType::Int64);
    for (group, most) in [(GROUPS[0], 9_000), (GROUPS[1], 12_000), (GROUPS[3], 100)] {
        let limits = EnforcedBounds { total: Some(most), per_partition: Some(7_000), l0: Some(3) };
        let plan = dealt(&mut dice, &whole, 2, 5_000);
        let kept = run(keep(plan, group, limits)).await;
        let rows: usize = kept.iter().map(RecordBatch::num_rows).sum();
        assert!(rows > 0 && rows <= 3 * usize::try_from(most).unwrap());
        assert!(lines(&kept) == naive(&whole, group, limits), "{group:?}");
    }
}

/// Many units, of which none, a few or all exceed the bounds: the results do not depend on the path
/// that a unit's rows take.
#[tokio::test]
async fn units_within_and_beyond_their_bounds_agree_with_the_rules() {
    let mut dice = Dice::new(7);
    let bounds = |total, per_partition, l0| EnforcedBounds { total, per_partition, l0 };
    for (limits, group) in [
        // About 6 rows of each unit.
        (bounds(None, None, None), GROUPS[1]),
        (bounds(Some(100), Some(100), Some(100)), GROUPS[3]),
        (bounds(Some(11), Some(11), Some(1)), GROUPS[0]),
        (bounds(Some(11), Some(8), Some(11)), GROUPS[2]),
        (bounds(None, Some(10), None), GROUPS[1]),
        (bounds(Some(7), Some(7), None), GROUPS[4]),
        (bounds(Some(2), Some(1), Some(2)), GROUPS[1]),
        (bounds(None, Some(9), Some(0)), GROUPS[0]),
    ] {
        for unit_type in [DataType::Int64, DataType::Utf8View] {
            let whole = batch(&random_rows(&mut dice, 300, 1_800), &unit_type);
            let expected = naive(&whole, group, limits);
            for (partitions, step) in [(1, 3), (2, 200), (3, 8_192)] {
                let plan = dealt(&mut dice, &whole, partitions, step);
                let kept = lines(&run(keep(plan, group, limits)).await);
                assert!(kept == expected, "{partitions} {step} {group:?} {limits:?}");
            }
        }
    }
}

/// Kept rows by owner.
fn by_owner(batches: &[RecordBatch]) -> BTreeMap<i64, Vec<String>> {
    let mut owners: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let owner = batch.column(3).as_primitive::<Int64Type>().value(row);
            owners.entry(owner).or_default().extend(lines(&[batch.slice(row, 1)]));
        }
    }
    owners.values_mut().for_each(|lines| lines.sort());
    owners
}

#[tokio::test]
async fn every_unit_obeys_its_bounds_and_no_unit_moves_anothers_rows() {
    let mut dice = Dice::new(3);
    let (mut full_unit, mut full_group, mut full_groups) = (0, 0, 0);
    for round in 0..150 {
        let length = 10 + dice.roll(60);
        let rows = random_rows(&mut dice, 4, length);
        let (group, limits) = (dice.pick(&GROUPS), random_limits(&mut dice));
        let unit_type = dice.pick(&[DataType::Int64, DataType::Utf8]);
        let outcome = async |dice: &mut Dice, rows: &[Person]| {
            let plan = dealt(dice, &batch(rows, &unit_type), 2, 8);
            run(keep(plan, group, limits)).await
        };
        let with = outcome(&mut dice, &rows).await;
        let mut groups: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
        for batch in &with {
            for row in 0..batch.num_rows() {
                let owner = batch.column(3).as_primitive::<Int64Type>().value(row);
                let cells = group.iter().map(|i| {
                    let column = batch.column(i - usize::from(*i > UNIT));
                    format!("{:?}", ScalarValue::try_from_array(column, row).unwrap())
                });
                let name = cells.collect::<Vec<_>>().join(" ");
                *groups.entry(owner).or_default().entry(name).or_default() += 1;
            }
        }
        for counts in groups.values() {
            let all = counts.values().sum::<u64>();
            let most = *counts.values().max().unwrap();
            let number = u64::try_from(counts.len()).unwrap();
            assert!(limits.total.is_none_or(|limit| all <= limit), "round {round}");
            assert!(limits.per_partition.is_none_or(|limit| most <= limit), "round {round}");
            assert!(limits.l0.is_none_or(|limit| number <= limit), "round {round}");
            full_unit += usize::from(limits.total == Some(all));
            full_group += usize::from(limits.per_partition == Some(most));
            full_groups += usize::from(limits.l0 == Some(number));
        }
        let with = by_owner(&with);
        for unit in -2..=1 {
            let rest: Vec<_> = rows.iter().filter(|row| row.unit != Some(unit)).cloned().collect();
            let mut others = with.clone();
            others.remove(&unit);
            assert_eq!(
                by_owner(&outcome(&mut dice, &rest).await),
                others,
                "round {round} unit {unit}"
            );
        }
    }
    // The bounds are reached, and not only kept.
    assert!(full_unit > 50 && full_group > 50 && full_groups > 50);
}

#[tokio::test]
async fn another_key_chooses_other_rows() {
    let rows: Vec<_> = (0..400).map(|i| Person { value: Some(i), ..person(i % 20) }).collect();
    let limits = EnforcedBounds { total: Some(3), ..EnforcedBounds::default() };
    let mut seen = BTreeSet::new();
    for key in [HASH, [11, 22, 33, 45], [11, 22, 34, 44], [12, 22, 33, 44], [11, 23, 33, 44]] {
        for group in [vec![], vec![3]] {
            let plan = source(&[vec![batch(&rows, &DataType::Int64)]]);
            let plan = SampleContributionsExec::new(plan, UNIT, group, limits, keyed(key)).unwrap();
            let kept = lines(&run(Arc::new(plan)).await);
            assert_eq!(kept.len(), 60);
            assert!(seen.insert(kept));
        }
    }
}

fn person(unit: i64) -> Person {
    Person { key: None, unit: Some(unit), number: None, value: None }
}

/// How often each value is kept if every one of 60,000 units keeps one of these rows.
async fn wins(values: &[i64], group: &[usize]) -> Vec<i64> {
    let rows: Vec<_> = (0..60_000)
        .flat_map(|unit| values.iter().map(move |v| Person { value: Some(*v), ..person(unit) }))
        .collect();
    let limits = match group {
        [] => EnforcedBounds { total: Some(1), ..EnforcedBounds::default() },
        _ => EnforcedBounds { l0: Some(1), ..EnforcedBounds::default() },
    };
    let owners: ArrayRef = Arc::new(Int64Array::from(vec![None; rows.len()]));
    let whole = batch(&rows, &DataType::Int64);
    // Only the value distinguishes a unit's rows, and one unit's rows from another's.
    let mut columns = whole.columns().to_vec();
    columns[4] = owners;
    let whole = RecordBatch::try_new(whole.schema(), columns).unwrap();
    let mut wins = vec![0; values.len()];
    for batch in run(keep(source(&[vec![whole]]), group, limits)).await {
        for value in batch.column(2).as_primitive::<Int64Type>().values() {
            wins[usize::try_from(*value).unwrap()] += 1;
        }
    }
    wins
}

/// With little memory, rows wait in files and are chosen in several turns. The same rows are kept.
#[tokio::test]
async fn rows_in_files_and_several_turns_change_nothing() {
    let mut dice = Dice::new(12);
    let folder = tempfile::tempdir().unwrap();
    let (mut failed, mut in_files, mut in_turns) = (0, 0, 0);
    for round in 0..16 {
        let units = dice.pick(&[3, 400, 8_000]);
        let unit_type =
            dice.pick(&[DataType::Int64, DataType::Utf8, DataType::Utf8View, DataType::Int16]);
        let mut whole = batch(&random_rows(&mut dice, units, 20_000), &unit_type);
        if dice.roll(2) == 0 {
            let mut columns = whole.columns().to_vec();
            columns[KEY] = cast(&columns[KEY], &DataType::Utf8View).unwrap();
            let names = ["key", "unit", "number", "value", "owner"].into_iter();
            let columns = names.zip(columns).map(|(name, column)| (name, column, true));
            whole = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        }
        let limits = random_limits(&mut dice);
        let partitions = 1 + dice.roll(3);
        let input = dealt(&mut dice, &whole, partitions, 500);
        let distinct = dice.roll(3) == 0;
        let plan = || -> Arc<dyn ExecutionPlan> {
            let (input, group) = (Arc::clone(&input), vec![KEY]);
            let plan = match distinct {
                false => SampleContributionsExec::new(input, UNIT, group, limits, keyed(HASH)),
                true => SampleContributionsExec::distinct(input, UNIT, group, limits, keyed(HASH)),
            };
            Arc::new(plan.unwrap())
        };
        let different = |batches: &[RecordBatch]| {
            let mut lines = lines(batches);
            if distinct {
                lines.dedup();
            }
            lines
        };
        let expected = different(&run(plan()).await);
        for memory in [800_000, 1_200_000, 2_000_000, 3_000_000] {
            let little = LittleMemory::new(folder.path(), memory);
            let Ok(got) = collect(plan(), little.context()).await else {
                failed += 1;
                continue;
            };
            assert_eq!(different(&got), expected, "round {round}, {memory} bytes {limits:?}");
            in_files += usize::from(little.files() > 0);
            // Each partition has at most one file, unless its rows were dealt.
            in_turns += usize::from(little.files() > partitions);
        }
    }
    assert!(in_files > 20 && in_turns > 10 && failed < 32, "{in_files} {in_turns} {failed}");
}

/// The key is fixed, so the test always gives the same result. If choices are even, chi-square with
/// 5 degrees of freedom exceeds 40 with probability 1.5e-7, and with 1 degree 28 with probability
/// 1.2e-7.
#[tokio::test]
async fn groups_and_rows_are_chosen_evenly() {
    for group in [&[][..], &[3]] {
        let wins = wins(&[0, 1, 2, 3, 4, 5], group).await;
        let squares: i64 = wins.iter().map(|wins| (wins - 10_000).pow(2)).sum();
        assert_eq!(wins.iter().sum::<i64>(), 60_000);
        assert!(squares < 40 * 10_000, "{wins:?}");
    }
    // A row's chance does not depend on how many rows equal it: three of four rows are 0.
    let wins = wins(&[0, 0, 0, 1], &[]).await;
    let off = wins[1] - 15_000;
    assert_eq!(wins[0] + wins[1], 60_000);
    assert!(off * off * 60_000 < 28 * 15_000 * 45_000, "{wins:?}");
}

#[tokio::test]
async fn equal_rows_stay_as_often_as_they_may() {
    let rows = vec![person(5); 30];
    let plan = || source(&[vec![batch(&rows, &DataType::Int64)]]);
    for (most, kept) in [(Some(4), 4), (Some(30), 30), (None, 30), (Some(0), 0)] {
        let limits = EnforcedBounds { total: Some(29), per_partition: most, l0: Some(1) };
        let batches = run(keep(plan(), &[KEY], limits)).await;
        assert_eq!(lines(&batches).len(), kept.min(29));
        let limits = EnforcedBounds { per_partition: most, ..EnforcedBounds::default() };
        assert_eq!(lines(&run(keep(plan(), &[KEY], limits)).await).len(), kept);
    }
}

#[tokio::test]
async fn equal_numbers_are_one_group_and_null_is_another() {
    let numbers = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, Some(1.0)];
    let rows = numbers.map(|number| Person { number, ..person(1) });
    let plan = source(&[vec![batch(&rows, &DataType::Int64)]]);
    let limits = EnforcedBounds { per_partition: Some(1), ..EnforcedBounds::default() };
    let kept = lines(&run(keep(plan, &[NUMBER], limits)).await);
    let expected = ["Float64(0)", "Float64(1)", "Float64(NULL)"];
    assert_eq!(kept.len(), 3, "{kept:?}");
    for (line, number) in kept.iter().zip(expected) {
        assert_eq!(*line, format!("Utf8(NULL) {number} Int64(NULL) Int64(1)"));
    }
}

/// A projection may leave only the unit column. The rows are still counted.
#[tokio::test]
async fn rows_without_columns_are_counted() {
    let units: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..20_000).map(|i| Some(i % 100).filter(|unit| *unit > 0)),
    ));
    let whole = RecordBatch::try_from_iter_with_nullable([("unit", units, true)]).unwrap();
    let plan = source(&[vec![whole.slice(0, 15_000), whole.slice(15_000, 5_000)]]);
    let limits = EnforcedBounds { total: Some(150), ..EnforcedBounds::default() };
    let plan = SampleContributionsExec::new(plan, 0, vec![], limits, keyed(HASH)).unwrap();
    let batches = run(Arc::new(plan)).await;
    assert_eq!(batches[0].num_columns(), 0);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 99 * 150);
}

fn table(seed: u64, rows: usize) -> RecordBatch {
    batch(&random_rows(&mut Dice::new(seed), 9, rows), &DataType::Int64)
}

const TWO: EnforcedBounds = EnforcedBounds { total: Some(2), per_partition: None, l0: None };

/// Nothing repartitions rows below the operator, and its partitions may be read one after the
/// other, and again.
#[tokio::test]
async fn the_rows_of_a_unit_may_be_in_several_partitions() {
    let parts = [vec![table(1, 50)], vec![table(2, 50)], vec![table(3, 20)]];
    let mut config = ConfigOptions::new();
    config.execution.target_partitions = 3;
    let mut plan = keep(source(&parts), &[KEY], TWO);
    for rule in PhysicalOptimizer::new().rules {
        plan = rule.optimize(plan, &config).unwrap();
    }
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let expected = "SampleContributionsExec: unit=unit@1, groups=[key@0], rows=2, rows per group=any, \
                    groups per unit=any\n  DataSourceExec";
    assert!(text.starts_with(expected), "{text}");
    let schema = parts[0][0].schema();
    let whole = concat_batches(&schema, parts.iter().flatten()).unwrap();
    let one = lines(&run(keep(source(&[vec![whole]]), &[KEY], TWO)).await);
    assert_eq!(one.len(), 18);
    assert_eq!(lines(&run(Arc::clone(&plan)).await), one);
    for order in [[0, 1, 2], [2, 0, 1]] {
        let mut kept = Vec::new();
        for partition in order {
            let rows = plan.execute(partition, Arc::new(TaskContext::default())).unwrap();
            kept.extend(datafusion::physical_plan::common::collect(rows).await.unwrap());
        }
        assert_eq!(lines(&kept), one);
    }
}

#[tokio::test]
async fn running_twice_gives_the_same_and_running_uncharged_nothing() {
    let plan = keep(source(&[vec![table(4, 60)]]), &[KEY], TWO);
    let first = lines(&run(Arc::clone(&plan)).await);
    assert_eq!(lines(&run(Arc::clone(&plan)).await), first);
    let children = plan.children().into_iter().cloned().collect();
    #[expect(deprecated, reason = "still how optimizer rules rebuild operators")]
    let again = plan.with_new_children(children).unwrap();
    assert_eq!(lines(&run(again).await), first);
    let input = source(&[vec![table(4, 60)]]);
    let early =
        SampleContributionsExec::new(input, UNIT, vec![KEY], TWO, LateKey::default()).unwrap();
    assert!(early.execute(0, Arc::new(TaskContext::default())).is_err());
}

/// The operator requests memory for the rows from the pool, and the error reveals nothing about
/// them.
#[tokio::test]
async fn memory_is_limited() {
    let plan = keep(source(&[vec![table(5, 50_000)]]), &[KEY], TWO);
    for (limit, enough) in [(1 << 17, false), (1 << 26, true)] {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(limit, 1.0).build_arc().unwrap();
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        match collect(Arc::clone(&plan), context).await {
            Ok(_) => assert!(enough),
            Err(error) => {
                assert!(!enough, "{error}");
                assert_eq!(error.to_string(), failed().to_string());
            }
        }
    }
}

#[test]
fn nothing_passes_through_the_operator() {
    let plan = keep(source(&[vec![table(6, 5)]]), &[KEY], TWO);
    assert_eq!(plan.fetch(), None);
    assert!(plan.with_fetch(Some(1)).is_none());
    assert!(!plan.supports_limit_pushdown());
    assert_eq!(plan.maintains_input_order(), [false]);
    let config = ConfigOptions::new();
    assert!(plan.repartitioned(4, &config).unwrap().is_none());
    for phase in [FilterPushdownPhase::Pre, FilterPushdownPhase::Post] {
        let filters = plan.gather_filters_for_pushdown(phase, vec![lit(true)], &config).unwrap();
        let passed = filters.parent_filters();
        assert!(
            passed.iter().flatten().all(|filter| matches!(filter.discriminant, PushedDown::No))
        );
    }
    let column = ProjectionExpr { expr: Arc::new(Column::new("key", 0)), alias: "key".to_owned() };
    let projection = ProjectionExec::try_new(vec![column], Arc::clone(&plan)).unwrap();
    assert!(plan.try_swapping_with_projection(&projection).unwrap().is_none());
    #[expect(deprecated, reason = "what other rules may still ask for")]
    let statistics = plan.partition_statistics(None).unwrap();
    assert_eq!(statistics.num_rows.get_value(), None);
    let text = format!("{plan:?}");
    assert!(text.contains("HashKey(..)"), "{text}");
}

#[test]
fn wrong_columns_are_refused_when_planned() {
    let input = source(&[vec![table(7, 5)]]);
    let build = |unit, group| {
        SampleContributionsExec::new(Arc::clone(&input), unit, group, TWO, keyed(HASH)).is_ok()
    };
    assert!(build(UNIT, vec![KEY]));
    assert!(build(UNIT, vec![]));
    assert!(!build(99, vec![KEY]));
    assert!(!build(UNIT, vec![99]));
    assert!(!build(UNIT, vec![KEY, UNIT]));
    let keys = SampleContributionsExec::new(input, UNIT, vec![NUMBER], TWO, keyed(HASH)).unwrap();
    let schema = keys.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["key", "number", "value", "owner"]);
}
