//! Compares the operator with a plain restatement of its rules on small random tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, UInt32Array,
};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, displayable};
use num_bigint::BigInt;
use num_integer::Integer;

use super::{
    AggregateInput, BoundContributionsExec, EnforcedBounds, HashKey, InputKind, KeySpace, LateKey,
};
use crate::grid::pairs::Pairs;
use crate::grid::{Grid, GridRange};

mod ladders;
mod little_memory;
mod small_tables;

/// A key that is already set.
fn keyed(words: [u64; 4]) -> LateKey {
    let key = LateKey::default();
    key.set(HashKey::new(words));
    key
}

const UNIT: usize = 0;
const KEY: usize = 1;
const FLAG: usize = 3;
const INTEGER: usize = 4;
const FLOAT: usize = 5;
const DECIMAL: usize = 6;

/// A linear congruential generator, so that the tests are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

#[derive(Debug, Clone)]
struct Row {
    unit: Option<i64>,
    key: Option<&'static str>,
    number: Option<f64>,
    flag: Option<bool>,
    integer: Option<i64>,
    float: Option<f64>,
    decimal: Option<i128>,
}

/// A key tuple; columns that are not part of the key are `None`.
type Key = (Option<&'static str>, Option<f64>);

const NAMES: [Option<&str>; 6] = [Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), None];
const NUMBERS: [Option<f64>; 3] = [Some(0.0), Some(2.5), None];

fn random_rows(dice: &mut Dice, units: usize, rows: usize) -> Vec<Row> {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.125, 0.375, -2.625, 1e300, 3.0];
    let keys = 1 + dice.roll(6);
    // Around zero, codes are far from each other; elsewhere they are close. With a step, some are
    // left out.
    let (first, step) = (dice.pick(&[-3, 7, -9_000]), dice.pick(&[1, 16]));
    let mut out = Vec::new();
    for _ in 0..rows {
        let unit = dice.roll(units + 1);
        out.push(Row {
            unit: (unit > 0).then(|| first + step * i64::try_from(unit).unwrap()),
            key: NAMES[dice.roll(keys)],
            number: dice.pick(&[Some(0.0), Some(-0.0), Some(2.5), Some(f64::NAN), None, Some(7.0)]),
            flag: dice.pick(&[Some(true), Some(true), Some(false), None]),
            integer: dice.pick(&[
                Some(-9),
                Some(-3),
                Some(0),
                Some(4),
                Some(i64::MIN),
                Some(i64::MAX),
                None,
            ]),
            float: dice.roll(8).checked_sub(1).map(|_| dice.pick(&odd)),
            decimal: dice.pick(&[Some(-150), Some(25), Some(9_999_999_999), None]),
        });
    }
    out
}

fn units_of(rows: &[Row]) -> BTreeSet<i64> {
    rows.iter().filter_map(|row| row.unit).collect()
}

fn batch(rows: &[Row], unit_type: &DataType) -> RecordBatch {
    let unit: ArrayRef = Arc::new(rows.iter().map(|row| row.unit).collect::<Int64Array>());
    let decimal: Decimal128Array = rows.iter().map(|row| row.decimal).collect();
    let columns: [(&str, ArrayRef); 7] = [
        ("unit", cast(&unit, unit_type).unwrap()),
        ("key", Arc::new(rows.iter().map(|row| row.key).collect::<StringArray>())),
        ("number", Arc::new(rows.iter().map(|row| row.number).collect::<Float64Array>())),
        ("flag", Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>())),
        ("integer", Arc::new(rows.iter().map(|row| row.integer).collect::<Int64Array>())),
        ("float", Arc::new(rows.iter().map(|row| row.float).collect::<Float64Array>())),
        ("decimal", Arc::new(decimal.with_precision_and_scale(12, 2).unwrap())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// A random key space over 0, 1 or 2 columns; always a proper subset of the keys that occur.
fn random_space(dice: &mut Dice) -> (Vec<usize>, KeySpace, Vec<Key>) {
    let mut names = NAMES.to_vec();
    for i in (1..names.len()).rev() {
        names.swap(i, dice.roll(i + 1));
    }
    names.truncate(1 + dice.roll(6));
    match dice.roll(3) {
        0 => (vec![], KeySpace::global(), vec![(None, None)]),
        1 => {
            let column = names.iter().copied().collect::<StringArray>();
            let space = KeySpace::new(&[Arc::new(column)]).unwrap();
            (vec![KEY], space, names.into_iter().map(|name| (name, None)).collect())
        }
        _ => {
            let pairs: Vec<_> =
                names.iter().flat_map(|name| NUMBERS.map(|number| (*name, number))).collect();
            let left = pairs.iter().map(|pair| pair.0).collect::<StringArray>();
            let right = pairs.iter().map(|pair| pair.1).collect::<Float64Array>();
            let space = KeySpace::new(&[Arc::new(left), Arc::new(right)]).unwrap();
            (vec![KEY, 2], space, pairs)
        }
    }
}

/// Pairs of 0..2 and 0..3, whose codes are 0 to 11.
fn random_pairs(dice: &mut Dice) -> Pairs {
    let range = |hi| GridRange::new(Grid::Integer, 0, hi).unwrap();
    let squared = (dice.pick(&[false, true]), dice.pick(&[false, true]));
    Pairs::new(range(2), range(3), squared).unwrap()
}

fn random_inputs(dice: &mut Dice) -> Vec<AggregateInput> {
    let mut inputs = Vec::new();
    for kind in 0..11 {
        let filter = dice.pick(&[None, Some(FLAG)]);
        let (column, grid) = dice.pick(&[
            (INTEGER, Grid::Integer),
            (FLOAT, Grid::Binary { log2: 2 }),
            (DECIMAL, Grid::Decimal { scale: 2 }),
        ]);
        let (lo, hi) =
            dice.pick(&[(-7, 10), (2, 5), (-8, -3), (0, 6), (4, 4), (-(1 << 70), 1 << 70)]);
        let (per_group_lo, per_group_hi) = dice.pick(&[(-11, 9), (3, 20), (-5, 0)]);
        let kind = match kind {
            0 => InputKind::CountRows { filter: None },
            1 => InputKind::CountRows { filter },
            2 => InputKind::CountValues { column, filter },
            3 => InputKind::CountUnits { filter: None },
            4 => InputKind::CountUnits { filter },
            5 => InputKind::Sum { column, filter, grid, lo, hi },
            6 => InputKind::Mean { column, filter, grid, lo, hi },
            7 => InputKind::MeanPerUnit { column, filter, grid, lo, hi },
            8 => {
                let shift = if hi > 1 << 40 { 52 } else { dice.pick(&[0, 1, 2]) };
                InputKind::Moments { column, filter, grid, lo, hi, shift }
            }
            9 => InputKind::SumPerUnit { column, filter, grid, lo, hi, per_group_lo, per_group_hi },
            _ => InputKind::Products { column: INTEGER, filter, pairs: random_pairs(dice) },
        };
        let limits = EnforcedBounds {
            total: dice.pick(&[None, Some(1), Some(2), Some(4), Some(7)]),
            per_partition: dice.pick(&[None, Some(1), Some(2), Some(3)]),
            l0: dice.pick(&[None, Some(1), Some(2), Some(3)]),
        };
        inputs.push(AggregateInput::new(kind, limits));
    }
    inputs
}

/// The value of a row's column on its grid, unclamped, by the rules.
fn on_grid(row: &Row, column: usize) -> Option<i128> {
    match column {
        INTEGER => row.integer.map(i128::from),
        DECIMAL => row.decimal,
        #[expect(clippy::cast_possible_truncation, reason = "saturates, which is what is meant")]
        _ => row.float.filter(|x| !x.is_nan()).map(|x| (x * 4.0).round_ties_even() as i128),
    }
}

/// The rules restated: bounds and sums for one aggregate, unit by unit.
fn naive(
    rows: &[Row],
    keys: &[Key],
    columns: usize,
    input: &AggregateInput,
    hash: HashKey,
    unit_hash: &dyn Fn(i64) -> u64,
) -> Vec<Vec<i128>> {
    let mut units: BTreeMap<i64, BTreeMap<usize, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        let number = row.number.filter(|x| !x.is_nan()).map(|x| x + 0.0);
        let tuple = [(None, None), (row.key, None), (row.key, number)][columns];
        let key = keys.iter().position(|key| *key == tuple);
        if let (Some(unit), Some(key)) = (row.unit, key) {
            units.entry(unit).or_default().entry(key).or_default().push(row);
        }
    }
    let mut sums = vec![vec![0; keys.len()]; input.kind.outputs()];
    for (unit, groups) in units {
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(key, _)| {
            (hash.rank(unit_hash(unit), u32::try_from(*key).unwrap()), *key)
        });
        let once = matches!(
            input.kind,
            InputKind::CountUnits { .. }
                | InputKind::MeanPerUnit { .. }
                | InputKind::SumPerUnit { .. }
        );
        let most = if once { Some(1) } else { input.limits.per_partition };
        let (mut rest, mut used) = (input.limits.total, 0);
        for (key, rows) in groups {
            let n = u64::try_from(rows.len()).unwrap();
            let k = n.min(most.unwrap_or(n)).min(rest.unwrap_or(n));
            if k == 0 || input.limits.l0 == Some(used) {
                continue;
            }
            used += 1;
            rest = rest.map(|rest| rest - k);
            let pass: Vec<_> = rows
                .iter()
                .filter(|row| input.kind.filter().is_none() || row.flag == Some(true))
                .collect();
            let k = i128::from(k);
            let values: Vec<i128> = input
                .kind
                .column()
                .map(|column| pass.iter().filter_map(|row| on_grid(row, column)).collect())
                .unwrap_or_default();
            let count = i128::try_from(values.len()).unwrap();
            // Each row with a value counts as the same share, rounded by the hash of the unit and
            // the group.
            let rank = hash.rank(unit_hash(unit), u32::try_from(key).unwrap());
            let share = |sum: i128| shared(sum, k, count, hash.point(rank));
            let clamped = |lo: i128, hi: i128| values.iter().map(move |x| (*x).clamp(lo, hi));
            match input.kind {
                InputKind::CountRows { .. } => {
                    sums[0][key] += k.min(i128::try_from(pass.len()).unwrap());
                }
                InputKind::CountUnits { .. } => sums[0][key] += i128::from(!pass.is_empty()),
                InputKind::CountValues { .. } => sums[0][key] += k.min(count),
                InputKind::Sum { lo, hi, .. } => {
                    sums[0][key] += share(clamped(lo, hi).sum());
                }
                InputKind::Mean { lo, hi, .. } => {
                    let above = share(clamped(lo, hi).map(|x| x - lo).sum());
                    sums[0][key] += above;
                    sums[1][key] += count.min(k) * (hi - lo) - above;
                }
                InputKind::Moments { lo, hi, shift, .. } => {
                    let step = 1 << shift;
                    let width = (hi - lo + step - 1) / step;
                    // Rounds half up, then down again if the value was halfway and the result is
                    // odd.
                    let above = clamped(lo, hi).map(|x| {
                        let (up, rest) = (
                            (2 * (x - lo) + step) / (2 * step),
                            (2 * (x - lo) + step) % (2 * step),
                        );
                        up - i128::from(rest == 0 && up % 2 == 1)
                    });
                    let above: Vec<i128> = above.collect();
                    let parts: [&dyn Fn(i128) -> i128; 3] =
                        [&|x| (width - x) * (width - x), &|x| 2 * x * (width - x), &|x| x * x];
                    let (mut all, mut before) = (0, 0);
                    for (i, part) in parts.into_iter().enumerate() {
                        all += above.iter().map(|x| part(*x)).sum::<i128>();
                        sums[i][key] += share(all) - before;
                        before = share(all);
                    }
                }
                InputKind::Products { pairs, .. } => {
                    let factors = |x: i128, w: i128, degree: i32| match degree {
                        2 => vec![(w - x) * (w - x), 2 * x * (w - x), x * x],
                        _ => vec![w - x, x],
                    };
                    let mut all = vec![0; pairs.products()];
                    for code in clamped(0, 11) {
                        let x = factors(code / 4, 2, pairs.x().degree());
                        let y = factors(code % 4, 3, pairs.y().degree());
                        let products = x.iter().flat_map(|x| y.iter().map(move |y| x * y));
                        all.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
                    }
                    let (mut sum, mut before) = (0, 0);
                    for (i, part) in all.into_iter().enumerate() {
                        sum += part;
                        sums[i][key] += share(sum) - before;
                        before = share(sum);
                    }
                }
                InputKind::MeanPerUnit { lo, hi, .. } if count > 0 => {
                    let wide = 1 << 80;
                    let twice = 2 * clamped(-wide, wide).sum::<i128>();
                    // The integer nearest to twice/2count; of two, the even one.
                    let near = twice.div_euclid(2 * count);
                    let mean = [near, near + 1]
                        .into_iter()
                        .min_by_key(|mean| ((2 * count * mean - twice).abs(), mean.rem_euclid(2)))
                        .unwrap()
                        .clamp(lo, hi);
                    sums[0][key] += mean - lo;
                    sums[1][key] += hi - mean;
                }
                InputKind::SumPerUnit { lo, hi, per_group_lo, per_group_hi, .. } if count > 0 => {
                    sums[0][key] += clamped(lo, hi).sum::<i128>().clamp(per_group_lo, per_group_hi);
                }
                InputKind::MeanPerUnit { .. } | InputKind::SumPerUnit { .. } => {}
            }
        }
    }
    sums
}

/// sum·k/count, rounded down after point/2⁶⁴ is added, for fewer rows than hold a value.
fn shared(sum: i128, k: i128, count: i128, point: u64) -> i128 {
    if k >= count {
        return sum;
    }
    let exact = BigInt::from(sum) * k;
    let of = BigInt::from(count);
    let shifted: BigInt = (exact << 64_u32) + &of * point;
    shifted.div_floor(&(of << 64_u32)).try_into().unwrap()
}

fn source(partitions: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    let schema = partitions[0][0].schema();
    MemorySourceConfig::try_new_exec(partitions, schema, None).unwrap()
}

/// The batches, dealt to partitions at random.
fn dealt(dice: &mut Dice, batches: Vec<RecordBatch>, partitions: usize) -> Arc<dyn ExecutionPlan> {
    let mut dealt = vec![vec![batches[0].slice(0, 0)]; partitions];
    batches.into_iter().for_each(|batch| dealt[dice.roll(partitions)].push(batch));
    source(&dealt)
}

/// Runs a plan and adds up its partitions: for each output, one number for each key.
async fn outputs(plan: Arc<dyn ExecutionPlan>, keys: usize, columns: usize) -> Vec<Vec<i128>> {
    let batches = collect(plan, Arc::new(TaskContext::default())).await.unwrap();
    let width = batches[0].num_columns();
    let mut sums = vec![vec![0; keys]; width - columns];
    for batch in batches {
        assert_eq!(batch.num_rows(), keys);
        for (sums, column) in sums.iter_mut().zip(&batch.columns()[columns..]) {
            for (sum, part) in sums.iter_mut().zip(column.as_primitive::<Decimal128Type>().values())
            {
                *sum += part;
            }
        }
    }
    sums
}

const HASH: [u64; 4] = [11, 22, 33, 44];

/// The outputs of aggregates over batches. `keys` are the key columns and the number of keys.
async fn bounded(
    plan: Arc<dyn ExecutionPlan>,
    (columns, space, keys): (&[usize], &KeySpace, usize),
    inputs: &[AggregateInput],
) -> Vec<Vec<i128>> {
    let (own, space, inputs) = (columns.to_vec(), space.clone(), inputs.to_vec());
    let bound = BoundContributionsExec::new(plan, UNIT, own, space, inputs, keyed(HASH));
    outputs(Arc::new(bound.unwrap()), keys, columns.len()).await
}

#[tokio::test]
async fn random_tables_agree_with_the_rules_in_any_order_and_partitioning() {
    let mut dice = Dice(1);
    for round in 0..400 {
        let units = 1 + dice.roll(5);
        let length = dice.roll(70);
        let rows = random_rows(&mut dice, units, length);
        let (columns, space, keys) = random_space(&mut dice);
        let mut inputs = random_inputs(&mut dice);
        // With a single aggregate, rows may hold their own values.
        if dice.roll(2) == 0 {
            inputs = vec![dice.pick(&inputs)];
        }
        let hash = HashKey::new(HASH);
        let unit_type =
            dice.pick(&[DataType::Int64, DataType::Int16, DataType::Utf8, DataType::Utf8View]);
        let unit_hash = |unit: i64| match unit_type {
            DataType::Int64 | DataType::Int16 => hash.integer_unit(unit.cast_unsigned()),
            // Arrow's row encoding of a short string: a mark, blocks of 8 bytes, each with its
            // length.
            _ => hash.bytes_unit(&encoded(&unit.to_string())),
        };
        let mut expected = Vec::new();
        for input in &inputs {
            expected.extend(naive(&rows, &keys, columns.len(), input, hash, &unit_hash));
        }
        let whole = batch(&rows, &unit_type);
        for variant in 0..4 {
            let partitions = [1, 1, 2, 3][variant];
            let mut order: Vec<u32> = (0..u32::try_from(length).unwrap()).collect();
            if variant > 0 {
                for i in (1..order.len()).rev() {
                    order.swap(i, dice.roll(i + 1));
                }
            }
            let shuffled = take_record_batch(&whole, &UInt32Array::from(order)).unwrap();
            let pieces = pieces(&mut dice, &shuffled, 30);
            let plan = dealt(&mut dice, pieces, partitions);
            let got = bounded(plan, (&columns, &space, keys.len()), &inputs).await;
            assert_eq!(got, expected, "round {round} variant {variant} {rows:?} {inputs:?}");
        }
    }
}

/// Cuts rows into batches of 1 to `most` rows, after an empty one.
fn pieces(dice: &mut Dice, whole: &RecordBatch, most: usize) -> Vec<RecordBatch> {
    let length = whole.num_rows();
    let (mut pieces, mut start) = (vec![whole.slice(0, 0)], 0);
    while start < length {
        let step = (1 + dice.roll(most)).min(length - start);
        pieces.push(whole.slice(start, step));
        start += step;
    }
    pieces
}

/// Many units, of which none, a few or all exceed the bounds: the results do not depend on the path
/// that a unit's rows take.
#[tokio::test]
async fn units_within_and_beyond_their_bounds_agree_with_the_rules() {
    let mut dice = Dice(4);
    let bounds = |total, per_partition, l0| EnforcedBounds { total, per_partition, l0 };
    let hash = HashKey::new(HASH);
    for (round, limits) in [
        bounds(None, None, None),
        bounds(Some(1_000), Some(1_000), Some(1_000)),
        // About 6 rows of each unit, and at most 6 keys.
        bounds(Some(14), None, Some(18)),
        bounds(Some(9), None, None),
        bounds(Some(10), Some(3), Some(10)),
        bounds(None, Some(3), None),
        bounds(None, Some(4), Some(5)),
        bounds(None, None, Some(4)),
        bounds(Some(2), Some(1), Some(1)),
        bounds(Some(0), Some(0), Some(0)),
    ]
    .into_iter()
    .cycle()
    .take(40)
    .enumerate()
    {
        // With many rows, some wait before they reach the list of their bucket.
        let (units, length) = if round % 9 == 4 { (6_000, 40_000) } else { (300, 1_800) };
        let rows = random_rows(&mut dice, units, length);
        let (columns, space, keys) = random_space(&mut dice);
        let mut inputs = random_inputs(&mut dice);
        for input in &mut inputs {
            // Sometimes one aggregate has other bounds than the rest.
            if dice.roll(40) > 0 {
                input.limits = limits;
            }
        }
        // All aggregates, one, or those that are sums of rows.
        match dice.roll(3) {
            0 => inputs
                .retain(crate::operator::bound_contributions::columns::column_sums::is_sum_of_rows),
            1 => inputs = vec![dice.pick(&inputs)],
            _ => {}
        }
        let unit_hash = |unit: i64| hash.integer_unit(unit.cast_unsigned());
        let mut expected = Vec::new();
        for input in &inputs {
            expected.extend(naive(&rows, &keys, columns.len(), input, hash, &unit_hash));
        }
        let whole = batch(&rows, &DataType::Int64);
        for (partitions, most) in [(1, 3), (2, 500), (3, 1_800)] {
            let pieces = pieces(&mut dice, &whole, most);
            let plan = dealt(&mut dice, pieces, partitions);
            let got = bounded(plan, (&columns, &space, keys.len()), &inputs).await;
            assert_eq!(got, expected, "round {round} {partitions} {limits:?} {inputs:?}");
        }
    }
}

/// The outputs for each undeclared key, in the order of the keys.
async fn of_the_data(
    plan: Arc<dyn ExecutionPlan>,
    inputs: &[AggregateInput],
) -> BTreeMap<String, Vec<i128>> {
    let schema = plan.schema();
    let types = [KEY, 2].map(|key| schema.field(key).data_type().clone());
    let (space, keys) = (KeySpace::of_the_data(&types), vec![KEY, 2]);
    let bound = BoundContributionsExec::new(plan, UNIT, keys, space, inputs.to_vec(), keyed(HASH));
    let batches = collect(Arc::new(bound.unwrap()), Arc::new(TaskContext::default()));
    let [batch] = batches.await.unwrap().try_into().unwrap();
    let mut outputs = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key =
            format!("{:?} {:?}", batch.column(0).slice(row, 1), batch.column(1).slice(row, 1));
        let numbers = batch.columns()[2..].iter();
        let numbers = numbers.map(|column| column.as_primitive::<Decimal128Type>().value(row));
        assert!(outputs.insert(key, numbers.collect()).is_none(), "a key comes out twice");
    }
    outputs
}

/// The same rows, with the key in the form in which Parquet files yield it.
fn with_views(batch: &RecordBatch) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    columns[KEY] = cast(&columns[KEY], &DataType::Utf8View).unwrap();
    let names = batch.schema();
    let names = names.fields().iter().map(|field| field.name().clone());
    let columns = names.zip(columns).map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Undeclared keys, and units that are texts, are numbered in each partition independently.
#[tokio::test]
async fn what_partitions_number_for_themselves_is_put_together() {
    let mut dice = Dice(8);
    let mut cut = 0;
    for round in 0..60 {
        let (units, length) = (1 + dice.roll(40), dice.roll(400));
        let rows = random_rows(&mut dice, units, length);
        let inputs = random_inputs(&mut dice);
        let free: Vec<_> = inputs
            .iter()
            .map(|input| AggregateInput::new(input.kind.clone(), EnforcedBounds::default()))
            .collect();
        let unit_type = dice.pick(&[DataType::Int64, DataType::Utf8, DataType::Utf8View]);
        let mut whole = batch(&rows, &unit_type);
        if round % 2 == 0 {
            whole = with_views(&whole);
        }
        let one = of_the_data(source(&[vec![whole.clone()]]), &inputs).await;
        cut += usize::from(one != of_the_data(source(&[vec![whole.clone()]]), &free).await);
        for partitions in [2, 3] {
            let plan = dealt(&mut dice, pieces(&mut Dice(round), &whole, 40), partitions);
            assert_eq!(of_the_data(plan, &inputs).await, one, "round {round} {partitions}");
        }
    }
    assert!(cut > 30, "{cut}");
}

/// Every unit has exactly as many rows as the bound allows, or one more.
#[tokio::test]
async fn a_bound_cuts_the_first_row_beyond_it() {
    for most in [1_u64, 3] {
        for rows in [most, most + 1] {
            let ones = (0..500).flat_map(|unit| (0..rows).map(move |_| unit));
            let all: Vec<Row> = ones
                .map(|unit| Row {
                    unit: Some(unit),
                    key: Some("a"),
                    number: None,
                    flag: Some(true),
                    integer: Some(2),
                    float: None,
                    decimal: None,
                })
                .collect();
            let limits = EnforcedBounds { total: Some(most), ..EnforcedBounds::default() };
            let sum =
                InputKind::Sum { column: INTEGER, filter: None, grid: Grid::Integer, lo: 0, hi: 2 };
            let inputs = [
                InputKind::CountRows { filter: None },
                sum,
                InputKind::CountUnits { filter: None },
            ]
            .map(|kind| AggregateInput::new(kind, limits));
            let whole = batch(&all, &DataType::Int64);
            let pieces = pieces(&mut Dice(6), &whole, 100);
            let plan = dealt(&mut Dice(7), pieces, 2);
            let space = KeySpace::new(&[Arc::new(StringArray::from(vec!["b", "a"]))]).unwrap();
            let bound = BoundContributionsExec::new(
                plan,
                UNIT,
                vec![KEY],
                space,
                inputs.to_vec(),
                keyed(HASH),
            );
            let got = outputs(Arc::new(bound.unwrap()), 2, 1).await;
            let kept = 500 * i128::from(most);
            assert_eq!(got, [vec![0, kept], vec![0, 2 * kept], vec![0, 500]], "{most} {rows}");
        }
    }
}

/// Arrow's row encoding of a string of 1 to 8 bytes.
fn encoded(text: &str) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend(text.bytes());
    bytes.resize(9, 0);
    bytes.push(u8::try_from(text.len()).unwrap());
    bytes
}

/// What the analysis claims for one aggregate: Δ₁ and, if it has one output, the range R; `None` if
/// unbounded.
fn claimed(input: &AggregateInput) -> (Option<i128>, Option<i128>) {
    let limits = input.limits;
    let (lo, hi) = match input.kind {
        InputKind::CountRows { .. }
        | InputKind::CountValues { .. }
        | InputKind::CountUnits { .. } => (0, 1),
        InputKind::Sum { lo, hi, .. } => (lo, hi),
        InputKind::Mean { lo, hi, .. } | InputKind::MeanPerUnit { lo, hi, .. } => (0, hi - lo),
        InputKind::Moments { lo, hi, shift, .. } => {
            let step = 1 << shift;
            (0, ((hi - lo + step - 1) / step).pow(2))
        }
        InputKind::Products { pairs, .. } => (0, i128::try_from(pairs.weight()).unwrap()),
        InputKind::SumPerUnit { per_group_lo, per_group_hi, .. } => (per_group_lo, per_group_hi),
    };
    let once = matches!(
        input.kind,
        InputKind::CountUnits { .. } | InputKind::MeanPerUnit { .. } | InputKind::SumPerUnit { .. }
    );
    let whole = limits.total.map(i128::from);
    let group = if once { Some(1) } else { limits.per_partition.map(i128::from).or(whole) };
    let groups = limits.l0.map(i128::from).or(whole);
    let b = lo.abs().max(hi.abs());
    let rows = group.zip(groups).map(|(m, c)| m * c);
    let total = [rows, whole].into_iter().flatten().min().map(|rows| rows * b);
    let range = group.filter(|_| input.kind.outputs() == 1).map(|m| {
        let m = whole.map_or(m, |whole| whole.min(m));
        if groups == Some(1) {
            return m * b;
        }
        let other = whole.map_or(m, |whole| m.min(whole - m));
        m * b + other * hi.max(0).min((-lo).max(0))
    });
    (total, range)
}

/// Fails if the outputs with and without a unit differ by more than is claimed. Returns how many
/// aggregates differ by all of Δ₁, and by all of R.
fn check_claims(
    with: &[Vec<i128>],
    without: &[Vec<i128>],
    inputs: &[AggregateInput],
) -> (usize, usize) {
    let (mut output, mut full, mut full_range) = (0, 0, 0);
    for input in inputs {
        let next = output + input.kind.outputs();
        let changes: Vec<i128> = with[output..next]
            .iter()
            .zip(&without[output..next])
            .flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b))
            .collect();
        output = next;
        let (total, range) = claimed(input);
        if let Some(total) = total {
            let change: i128 = changes.iter().map(|change| change.abs()).sum();
            assert!(change <= total, "{change} > {total} {input:?}");
            full += usize::from(change == total);
        }
        if let Some(range) = range {
            let spread = changes.iter().max().unwrap() - changes.iter().min().unwrap();
            assert!(spread <= range, "{spread} > {range} {input:?}");
            full_range += usize::from(spread == range);
        }
    }
    (full, full_range)
}

#[tokio::test]
async fn removing_a_unit_changes_each_aggregate_by_no_more_than_claimed() {
    let mut dice = Dice(2);
    let (mut full, mut full_range) = (0, 0);
    for _ in 0..150 {
        let length = 10 + dice.roll(60);
        let rows = random_rows(&mut dice, 4, length);
        let (columns, space, keys) = random_space(&mut dice);
        let inputs = random_inputs(&mut dice);
        let hash = keyed([u64::try_from(dice.roll(1 << 30)).unwrap(), 1, 2, 3]);
        let run = async |rows: &[Row]| {
            let plan = source(&[vec![batch(rows, &DataType::Int64)]]);
            let (columns, inputs) = (columns.clone(), inputs.clone());
            let count = columns.len();
            let bound = BoundContributionsExec::new(
                plan,
                UNIT,
                columns,
                space.clone(),
                inputs,
                hash.clone(),
            );
            outputs(Arc::new(bound.unwrap()), keys.len(), count).await
        };
        let with = run(&rows).await;
        for unit in units_of(&rows) {
            let rest: Vec<_> = rows.iter().filter(|row| row.unit != Some(unit)).cloned().collect();
            let without = run(&rest).await;
            let reached = check_claims(&with, &without, &inputs);
            full += reached.0;
            full_range += reached.1;
        }
    }
    // The bounds are reached, and not only kept: a bound too large by one row would fail here.
    assert!(full > 100 && full_range > 20, "{full} {full_range}");
}

/// A plan over a table with one aggregate, to test the operator's shape.
fn small(input: Arc<dyn ExecutionPlan>) -> BoundContributionsExec {
    let keys = KeySpace::new(&[Arc::new(StringArray::from(vec!["a", "b"]))]).unwrap();
    let limits = EnforcedBounds { total: Some(2), ..EnforcedBounds::default() };
    let count = AggregateInput::new(InputKind::CountRows { filter: None }, limits);
    BoundContributionsExec::new(input, UNIT, vec![KEY], keys, vec![count], keyed(HASH)).unwrap()
}

fn table(rows: usize) -> RecordBatch {
    batch(&random_rows(&mut Dice(3), 9, rows), &DataType::Int64)
}

/// A unit has rows in every partition, and the planner moves none of them.
#[tokio::test]
async fn a_unit_spread_over_partitions_is_bounded_once() {
    let parts = [vec![table(50)], vec![table(50)], vec![table(20)]];
    let spread: Arc<dyn ExecutionPlan> = Arc::new(small(source(&parts)));
    assert_eq!(spread.output_partitioning().partition_count(), 1);
    assert!(spread.execute(1, Arc::new(TaskContext::default())).is_err());
    let mut config = ConfigOptions::new();
    config.execution.target_partitions = 3;
    let mut plan = spread;
    for rule in PhysicalOptimizer::new().rules {
        plan = rule.optimize(plan, &config).unwrap();
    }
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let expected = "BoundContributionsExec: unit=unit@0, keys=[key@1], inputs=1\n  DataSourceExec: \
                    partitions=3";
    assert!(text.starts_with(expected), "{text}");
    let schema = parts[0][0].schema();
    let whole = concat_batches(&schema, parts.iter().flatten()).unwrap();
    let one = outputs(Arc::new(small(source(&[vec![whole]]))), 2, 1).await;
    assert_eq!(outputs(plan, 2, 1).await, one);
    assert!(one[0].iter().sum::<i128>() > 0);
}

#[tokio::test]
async fn running_twice_gives_the_same() {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(small(source(&[vec![table(60)]])));
    let first = outputs(Arc::clone(&plan), 2, 1).await;
    assert_eq!(outputs(Arc::clone(&plan), 2, 1).await, first);
    let children = plan.children().into_iter().cloned().collect();
    #[expect(deprecated, reason = "still how optimizer rules rebuild operators")]
    let again = plan.with_new_children(children).unwrap();
    assert_eq!(outputs(again, 2, 1).await, first);
}

#[test]
fn nothing_passes_through_the_operator() {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(small(source(&[vec![table(5)]])));
    assert_eq!(plan.fetch(), None);
    assert!(plan.with_fetch(Some(1)).is_none());
    assert!(!plan.supports_limit_pushdown());
    assert_eq!(plan.maintains_input_order(), [false]);
    let config = ConfigOptions::new();
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
    let input = source(&[vec![table(5)]]);
    let limits = EnforcedBounds::default();
    let build = |unit, keys, kind| {
        let space = KeySpace::new(&[Arc::new(StringArray::from(vec!["a"]))]).unwrap();
        let inputs = vec![AggregateInput::new(kind, limits)];
        let input = Arc::clone(&input);
        BoundContributionsExec::new(input, unit, keys, space, inputs, keyed(HASH)).is_ok()
    };
    let count = |filter| InputKind::CountRows { filter };
    let sum = |column, lo, hi| InputKind::Sum { column, filter: None, grid: Grid::Integer, lo, hi };
    assert!(build(UNIT, vec![KEY], count(Some(FLAG))));
    assert!(build(UNIT, vec![KEY], sum(INTEGER, 0, 1)));
    assert!(!build(99, vec![KEY], count(None)));
    assert!(!build(UNIT, vec![], count(None)));
    assert!(!build(UNIT, vec![INTEGER], count(None)));
    assert!(!build(UNIT, vec![KEY], count(Some(INTEGER))));
    assert!(!build(UNIT, vec![KEY], count(Some(99))));
    assert!(!build(UNIT, vec![KEY], sum(FLOAT, 0, 1)));
    assert!(!build(UNIT, vec![KEY], sum(99, 0, 1)));
    assert!(!build(UNIT, vec![KEY], sum(INTEGER, 1, 0)));
    assert!(!build(UNIT, vec![KEY], InputKind::CountValues { column: 99, filter: None }));
}
