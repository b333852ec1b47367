//! Aggregates under every bound of a ladder, compared with a plain restatement of the rules, and
//! their changes with the bounds.

use super::*;

/// The outputs by bound, output and key; and the number of units beyond each bound, then of all
/// that contribute anything.
type Under = (Vec<Vec<Vec<i128>>>, Vec<i128>);

fn random_kind(dice: &mut Dice) -> InputKind {
    let filter = dice.pick(&[None, Some(FLAG)]);
    let (lo, hi) = dice.pick(&[(-3, 4), (0, 5), (-7, -2)]);
    let (column, grid) = dice.pick(&[
        (INTEGER, Grid::Integer),
        (FLOAT, Grid::Binary { log2: 2 }),
        (DECIMAL, Grid::Decimal { scale: 2 }),
    ]);
    match dice.roll(4) {
        0 => InputKind::CountRows { filter },
        1 => InputKind::CountValues { column, filter },
        2 => InputKind::Sum { column, filter, grid, lo, hi },
        _ => InputKind::Mean { column, filter, grid, lo, hi },
    }
}

fn random_ladder(dice: &mut Dice) -> Vec<u128> {
    let ladders =
        [vec![1, 2, 4, 8], vec![1, 2, 3], vec![2, 7, 100], vec![1], vec![1, 2, 4, 8, 16, 32]];
    dice.pick(&ladders)
}

/// The rules restated: takes each unit's groups in the order of the hash.
fn naive_under(
    rows: &[Row],
    keys: &[Key],
    columns: usize,
    (kind, by_rows): (&InputKind, bool),
    ladder: &[u128],
    hash: HashKey,
) -> Under {
    let mut units: BTreeMap<i64, BTreeMap<usize, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        let number = row.number.filter(|x| !x.is_nan()).map(|x| x + 0.0);
        let tuple = [(None, None), (row.key, None), (row.key, number)][columns];
        let key = keys.iter().position(|key| *key == tuple);
        let passes = kind.filter().is_none() || row.flag == Some(true);
        let value = kind.column().is_none_or(|column| on_grid(row, column).is_some());
        if let (Some(unit), Some(key), true, true) = (row.unit, key, passes, value) {
            units.entry(unit).or_default().entry(key).or_default().push(row);
        }
    }
    let outputs = kind.outputs();
    let mut under = vec![vec![vec![0; keys.len()]; outputs]; ladder.len()];
    let mut beyond = vec![0; ladder.len() + 1];
    for (unit, groups) in units {
        let rank = |key: usize| {
            let unit = hash.integer_unit(unit.cast_unsigned());
            (hash.rank(unit, u32::try_from(key).unwrap()), key)
        };
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(key, _)| rank(*key));
        let values = |rows: &[&Row]| -> Vec<i128> {
            let column = kind.column();
            let value = |row: &&Row| column.map_or(1, |column| on_grid(row, column).unwrap());
            let (lo, hi) = match kind {
                InputKind::Sum { lo, hi, .. } | InputKind::Mean { lo, hi, .. } => (*lo, *hi),
                _ => (1, 1),
            };
            rows.iter().map(|row| value(row).clamp(lo, hi)).collect()
        };
        let used = |rows: &[&Row]| match kind {
            InputKind::Sum { .. } if !by_rows => values(rows).iter().sum::<i128>().abs(),
            _ => i128::try_from(rows.len()).unwrap(),
        };
        let all: i128 = groups.iter().map(|(_, rows)| used(rows)).sum();
        beyond[ladder.len()] += i128::from(all > 0);
        for (j, bound) in ladder.iter().enumerate() {
            let bound = i128::try_from(*bound).unwrap();
            beyond[j] += i128::from(all > bound);
            let mut rest = bound;
            let own = hash.integer_unit(unit.cast_unsigned());
            let (mut before, mut given) = (0, 0);
            for (key, rows) in &groups {
                let (n, sum) = (used(rows), values(rows).iter().sum::<i128>());
                let kept = n.min(rest);
                rest -= kept;
                let mut add = |output: usize, part: i128| under[j][output][*key] += part;
                match kind {
                    InputKind::Sum { .. } if by_rows => {
                        let rank = hash.rank(own, u32::try_from(*key).unwrap());
                        add(0, shared(sum, kept, n, hash.point(rank)));
                    }
                    InputKind::Sum { .. } if all > bound => {
                        before += sum.abs();
                        let next = shared(before, bound, all, hash.point(own));
                        add(0, (next - given) * sum.signum());
                        given = next;
                    }
                    InputKind::Sum { .. } => add(0, sum),
                    InputKind::Mean { lo, hi, .. } => {
                        let rank = hash.rank(own, u32::try_from(*key).unwrap());
                        let above = shared(sum - n * lo, kept, n, hash.point(rank));
                        add(0, above);
                        add(1, kept * (hi - lo) - above);
                    }
                    _ => add(0, kept),
                }
            }
        }
    }
    (under, beyond)
}

/// Reads the columns of an aggregate.
fn read(columns: &[Vec<i128>], outputs: usize, rungs: usize) -> Under {
    let under = (0..rungs).map(|j| {
        let whole = columns[..outputs].to_vec();
        if j + 1 == rungs {
            return whole;
        }
        let cut = &columns[outputs * (j + 1)..outputs * (j + 2)];
        let less = |(all, cut): (&Vec<i128>, &Vec<i128>)| {
            all.iter().zip(cut).map(|(a, b)| a - b).collect()
        };
        whole.iter().zip(cut).map(less).collect()
    });
    let beyond = columns[outputs * rungs..].iter().map(|column| column.iter().sum());
    (under.collect(), beyond.collect())
}

#[tokio::test]
async fn each_bound_of_a_ladder_agrees_with_the_rules_and_its_claim() {
    let mut dice = Dice(11);
    let (mut tight, mut moved) = (0, 0);
    for round in 0..220 {
        let length = 5 + dice.roll(60);
        let rows = random_rows(&mut dice, 4, length);
        let (columns, space, keys) = random_space(&mut dice);
        let kinds: Vec<_> = (0..1 + dice.roll(3)).map(|_| random_kind(&mut dice)).collect();
        let mut inputs: Vec<_> = kinds
            .iter()
            .map(|kind| AggregateInput {
                ladder: Some(random_ladder(&mut dice)),
                by_rows: dice.roll(2) == 0,
                ..AggregateInput::new(kind.clone(), EnforcedBounds::default())
            })
            .collect();
        // A second aggregate, with bounds of its own.
        let limits = EnforcedBounds { total: Some(2), ..EnforcedBounds::default() };
        inputs.push(AggregateInput::new(InputKind::CountRows { filter: None }, limits));
        let whole = batch(&rows, &DataType::Int64);
        let split = pieces(&mut dice, &whole, 30);
        let mut run = async |batches: Vec<RecordBatch>, partitions: usize| {
            let plan = dealt(&mut dice, batches, partitions);
            let got = bounded(plan, (&columns, &space, keys.len()), &inputs).await;
            let mut first = 0;
            let ladders = inputs.iter().filter(|input| input.ladder.is_some()).map(|input| {
                let next = first + input.outputs();
                let rungs = input.ladder.as_ref().unwrap().len();
                let read = read(&got[first..next], input.kind.outputs(), rungs);
                first = next;
                read
            });
            ladders.collect::<Vec<Under>>()
        };
        let hash = HashKey::new(HASH);
        let expected: Vec<Under> = inputs
            .iter()
            .filter_map(|input| {
                let ladder = input.ladder.as_ref()?;
                let kind = (&input.kind, input.by_rows);
                Some(naive_under(&rows, &keys, columns.len(), kind, ladder, hash))
            })
            .collect();
        let full = run(vec![whole.clone()], 1).await;
        assert_eq!(full, expected, "round {round} {inputs:?}");
        assert_eq!(run(split, 2).await, expected, "round {round}: partitions {inputs:?}");
        for unit in units_of(&rows) {
            let rest: Vec<_> = rows.iter().filter(|row| row.unit != Some(unit)).cloned().collect();
            let without = run(vec![batch(&rest, &DataType::Int64)], 1).await;
            for ((with, without), input) in full.iter().zip(&without).zip(&inputs) {
                let weight = match input.kind {
                    InputKind::Mean { lo, hi, .. } => hi - lo,
                    InputKind::Sum { lo, hi, .. } if input.by_rows => hi.abs().max(lo.abs()),
                    _ => 1,
                };
                let steps: Vec<i128> = with.1.iter().zip(&without.1).map(|(a, b)| a - b).collect();
                assert!(steps.iter().all(|step| [0, 1].contains(step)), "{steps:?} {input:?}");
                moved += usize::from(steps.contains(&1));
                for ((with, without), bound) in
                    with.0.iter().zip(&without.0).zip(input.ladder.as_ref().unwrap())
                {
                    let change = |(a, b): (&Vec<i128>, &Vec<i128>)| -> i128 {
                        a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
                    };
                    let change: i128 = with.iter().zip(without).map(change).sum();
                    let most = i128::try_from(*bound).unwrap() * weight;
                    assert!(change <= most, "{change} > {most} {input:?}");
                    tight += usize::from(change == most);
                }
            }
        }
    }
    // The bounds are reached, and not only kept.
    assert!(tight > 300 && moved > 300, "{tight} {moved}");
}
