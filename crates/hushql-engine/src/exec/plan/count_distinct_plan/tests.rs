//! Compares the plan with a simple version of its rules on small random tables, and the counts with
//! and without one unit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::collect;

use super::*;
use crate::sampler::{QueryRng, Uniform};
use hushql_exec::operator::bound_contributions::HashKey;

const HASH: [u64; 4] = [5, 6, 7, 8];

struct Dice(QueryRng);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.0.below_u64(u64::try_from(sides).unwrap())).unwrap()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

/// A unit, its two group keys and its value; the value is never NULL here, as in every plan.
#[derive(Debug, Clone, PartialEq)]
struct Visit {
    unit: Option<i64>,
    key: Option<&'static str>,
    number: Option<f64>,
    value: &'static str,
}

const VALUES: [&str; 7] = ["", "a", "b", "a value that no view holds inline", "d", "e", "f"];

fn visits(dice: &mut Dice, units: usize, rows: usize) -> Vec<Visit> {
    let (keys, values) = (1 + dice.roll(4), 1 + dice.roll(VALUES.len()));
    (0..rows)
        .map(|_| Visit {
            unit: dice.roll(units + 1).checked_sub(1).map(|unit| i64::try_from(unit).unwrap()),
            key: [None, Some("x"), Some("y"), Some("z")][dice.roll(keys)],
            number: dice.pick(&[Some(0.0), Some(-0.0), Some(1.5), None]),
            value: VALUES[dice.roll(values)],
        })
        .collect()
}

/// The unit, some of the keys, and the value as text or as a number.
fn batch(visits: &[Visit], groups: usize, unit_type: &DataType, numbers: bool) -> RecordBatch {
    let unit: ArrayRef = Arc::new(visits.iter().map(|v| v.unit).collect::<Int64Array>());
    let keys: [(&str, ArrayRef); 2] = [
        ("key", Arc::new(visits.iter().map(|v| v.key).collect::<StringArray>())),
        ("number", Arc::new(visits.iter().map(|v| v.number).collect::<Float64Array>())),
    ];
    let value: ArrayRef = if numbers {
        // 0.0 and −0.0 are equal.
        let number = |v: &Visit| match v.value.len() {
            0 => -0.0,
            n => [0.0, 1.0, 2.5][n % 3],
        };
        Arc::new(visits.iter().map(|v| Some(number(v))).collect::<Float64Array>())
    } else {
        Arc::new(visits.iter().map(|v| Some(v.value)).collect::<StringArray>())
    };
    let mut columns = vec![("unit", cast(&unit, unit_type).unwrap())];
    columns.extend(keys.into_iter().take(groups));
    columns.push(("value", value));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn limits(dice: &mut Dice) -> EnforcedBounds {
    EnforcedBounds {
        total: dice.pick(&[None, Some(1), Some(2), Some(4), Some(7)]),
        per_partition: dice.pick(&[None, Some(1), Some(2), Some(3)]),
        l0: dice.pick(&[None, Some(1), Some(2), Some(3)]),
    }
}

/// Counts by group, with the group as text.
type Counts = BTreeMap<String, i64>;

async fn run(batches: Vec<RecordBatch>, partitions: usize, limits: EnforcedBounds) -> Counts {
    let schema = batches[0].schema();
    let groups = schema.fields().len() - 2;
    let mut rows: Arc<dyn ExecutionPlan> =
        MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
    if partitions > 1 {
        let dealt = Partitioning::RoundRobinBatch(partitions);
        rows = Arc::new(RepartitionExec::try_new(rows, dealt).unwrap());
    }
    let key = LateKey::default();
    key.set(HashKey::new(HASH));
    let plan = counted(rows, limits, &key).unwrap();
    let mut counts = Counts::new();
    for batch in collect(plan, Arc::new(TaskContext::default())).await.unwrap() {
        let sums = batch.column(groups).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            *counts.entry(group(&batch.columns()[..groups], row)).or_default() += sums.value(row);
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

fn group(columns: &[ArrayRef], row: usize) -> String {
    let cell = |column: &ArrayRef| ScalarValue::try_from_array(column, row).unwrap();
    columns.iter().map(|c| format!("{:?} ", cell(c))).collect()
}

fn encoded(columns: &[ArrayRef], rows: usize) -> Vec<Vec<u8>> {
    if columns.is_empty() {
        return vec![Vec::new(); rows];
    }
    let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let encoded = RowConverter::new(fields).unwrap().convert_columns(columns).unwrap();
    encoded.iter().map(|row| row.data().to_vec()).collect()
}

/// The name of one of a unit's groups, and its values there.
type Own = (String, BTreeSet<Vec<u8>>);

/// The rules in their simple version: unit by unit, with sets.
fn naive(whole: &RecordBatch, limits: EnforcedBounds, of: impl Fn(usize) -> Option<i64>) -> Counts {
    let hash = HashKey::new(HASH);
    let columns: Vec<ArrayRef> =
        whole.columns().iter().map(hushql_exec::operator::bound_contributions::canonical).collect();
    let (last, length) = (columns.len() - 1, whole.num_rows());
    let (keys, values) = (encoded(&columns[1..last], length), encoded(&columns[last..], length));
    let names = encoded(&columns[..1], length);
    let mut units: BTreeMap<i64, BTreeMap<Vec<u8>, Own>> = BTreeMap::new();
    let mut hashes = BTreeMap::new();
    for row in 0..length {
        let Some(unit) = of(row) else { continue };
        hashes.entry(unit).or_insert(match columns[0].data_type() {
            DataType::Int64 => hash.integer_unit(unit.cast_unsigned()),
            _ => hash.bytes_unit(&names[row]),
        });
        let own = units.entry(unit).or_default().entry(keys[row].clone());
        let (_, own) = own.or_insert_with(|| (group(&columns[1..last], row), BTreeSet::new()));
        own.insert(values[row].clone());
    }
    let mut pairs: BTreeSet<(String, Vec<u8>)> = BTreeSet::new();
    for (unit, groups) in units {
        let rank = |key: &Vec<u8>| hash.group_rank(hashes[&unit], key);
        let mut order: Vec<_> = groups.into_iter().collect();
        order.sort_by_key(|(key, _)| rank(key));
        let (mut rest, mut used) = (limits.total, 0);
        for (key, (name, values)) in order {
            let n = u64::try_from(values.len()).unwrap();
            let k = n.min(limits.per_partition.unwrap_or(n)).min(rest.unwrap_or(n));
            if k == 0 || limits.l0 == Some(used) {
                continue;
            }
            used += 1;
            rest = rest.map(|rest| rest - k);
            let mut values: Vec<_> = values.into_iter().collect();
            values.sort_by_key(|value| hash.row_rank(rank(&key), value));
            values.truncate(usize::try_from(k).unwrap());
            pairs.extend(values.into_iter().map(|value| (name.clone(), value)));
        }
    }
    let mut counts = Counts::new();
    for (name, _) in pairs {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

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

#[tokio::test]
async fn random_tables_agree_with_the_rules_in_any_order_and_partitioning() {
    let mut dice = Dice(QueryRng::seeded_for_tests(31));
    let mut cut = 0;
    for round in 0..200 {
        let (units, length) = (1 + dice.roll(5), dice.roll(70));
        let visits = visits(&mut dice, units, length);
        let (groups, numbers, limits) = (dice.roll(3), dice.roll(2) == 0, limits(&mut dice));
        let unit_type = dice.pick(&[DataType::Int64, DataType::Utf8]);
        let whole = batch(&visits, groups, &unit_type, numbers);
        let expected = naive(&whole, limits, |row| visits[row].unit);
        let free = naive(&whole, EnforcedBounds::default(), |row| visits[row].unit);
        cut += usize::from(expected != free);
        for (partitions, step) in [(1, 8_192), (2, 5), (3, 1)] {
            let got = run(shuffled(&mut dice, &whole, step), partitions, limits).await;
            assert_eq!(got, expected, "round {round} {partitions} {limits:?} {visits:?}");
        }
    }
    assert!(cut > 50, "{cut}");
}

/// Without bounds, the counts of large tables equal those of plain sets, even if a unit has more
/// rows than a batch.
#[tokio::test]
async fn without_bounds_every_value_counts_once() {
    let mut dice = Dice(QueryRng::seeded_for_tests(32));
    let visits = visits(&mut dice, 3, 30_000);
    let mut whole: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for visit in visits.iter().filter(|visit| visit.unit.is_some()) {
        let key = ScalarValue::Utf8(visit.key.map(str::to_owned));
        whole.entry(format!("{key:?} ")).or_default().insert(visit.value);
    }
    let expected: Counts =
        whole.into_iter().map(|(key, set)| (key, i64::try_from(set.len()).unwrap())).collect();
    let batch = batch(&visits, 1, &DataType::Int64, false);
    assert_eq!(
        run(shuffled(&mut dice, &batch, 4_000), 2, EnforcedBounds::default()).await,
        expected
    );
    // Bounds that no unit reaches change nothing, although every unit has more rows than they
    // allow.
    let wide = EnforcedBounds { total: Some(40), per_partition: Some(7), l0: Some(4) };
    assert_eq!(run(shuffled(&mut dice, &batch, 4_000), 2, wide).await, expected);
}

/// Removing one unit lowers each count by at most what its bounds allow and raises none; the bounds
/// are reached.
#[tokio::test]
async fn removing_a_unit_changes_the_counts_by_no_more_than_claimed() {
    let mut dice = Dice(QueryRng::seeded_for_tests(33));
    let mut full = 0;
    for round in 0..150 {
        let length = 10 + dice.roll(50);
        let visits = visits(&mut dice, 4, length);
        let (groups, limits) = (dice.roll(3), limits(&mut dice));
        let of = |visits: &[Visit]| vec![batch(visits, groups, &DataType::Int64, false)];
        let with = run(of(&visits), 1, limits).await;
        for unit in 0..4 {
            let rest: Vec<_> = visits.iter().filter(|v| v.unit != Some(unit)).cloned().collect();
            let without = run(of(&rest), 1, limits).await;
            assert!(without.keys().all(|key| with.contains_key(key)), "round {round}");
            let changes: Vec<u64> = with
                .iter()
                .map(|(key, count)| count - without.get(key).copied().unwrap_or(0))
                .map(|change| u64::try_from(change).unwrap())
                .collect();
            let all: u64 = changes.iter().sum();
            let most = changes.iter().copied().max().unwrap_or(0);
            let moved = changes.iter().filter(|change| **change > 0).count();
            let moved = u64::try_from(moved).unwrap();
            let EnforcedBounds { total, per_partition, l0: groups } = limits;
            assert!(total.is_none_or(|limit| all <= limit), "round {round}");
            assert!(per_partition.is_none_or(|limit| most <= limit), "round {round}");
            assert!(groups.is_none_or(|limit| moved <= limit), "round {round}");
            full += usize::from(total == Some(all) || per_partition == Some(most));
        }
    }
    assert!(full > 60, "{full}");
}
