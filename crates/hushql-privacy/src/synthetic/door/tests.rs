//! The exact privacy loss of everything that the door releases, enumerated on tiny tables.

use num_traits::ToPrimitive;

use super::*;
use crate::privacy::{Loss, Selecting};
use crate::sampler::Uniform;
use crate::synthetic::task::{Method, SyntheticBudget};
use crate::synthetic::tests::{Rows, task};

/// A unit's rows, as the amounts that they add to each cell of 2 × 2.
type Unit = [i64; 4];

/// All ways to put at most `most` rows into four cells, with the weight of a row in each case.
fn tables(most: usize, weight: impl Fn(usize) -> i64) -> Vec<Unit> {
    let mut all = Vec::new();
    for code in 0..(most + 1).pow(4) {
        let rows = [0, 1, 2, 3].map(|cell| code / (most + 1).pow(cell) % (most + 1));
        let count: usize = rows.iter().sum();
        if count <= most {
            all.push(rows.map(|rows| rows as i64 * weight(count)));
        }
    }
    all
}

/// Sensitivities with matching tables and units: one row, three rows, persons with up to two rows.
fn worlds() -> Vec<(Sensitivity, Vec<Unit>, Vec<Unit>)> {
    let person = Sensitivity::person(Some(2));
    let one = |_| 1;
    let whole = 1 << person.grid();
    vec![
        (Sensitivity::rows(1), tables(3, one), tables(1, one)),
        (Sensitivity::rows(3), tables(1, one), tables(3, one)),
        (person, tables(2, |_| whole), tables(2, |rows| person.weight(rows as u64))),
    ]
}

fn plus(table: &Unit, unit: &Unit) -> Unit {
    [0, 1, 2, 3].map(|cell| table[cell] + unit[cell])
}

fn rows(cells: &Unit) -> Rows {
    Rows { sizes: vec![2, 2], cells: cells.to_vec() }
}

/// Candidates, and a model's answer to each.
type Offered = (Vec<Candidate>, Vec<Vec<i64>>);

fn candidates(weights: [u64; 3], far: u32, grid: u32) -> Offered {
    biased(weights, [1; 3], far, grid)
}

/// Three candidates. The bits of `far` say which models are far above all counts; there, one more
/// row is an improvement.
fn biased(weights: [u64; 3], biases: [i64; 3], far: u32, grid: u32) -> Offered {
    let sets = [ColumnSet::new([0]), ColumnSet::new([1]), ColumnSet::new([0, 1])];
    let offered = |(at, columns): (usize, ColumnSet)| {
        let far = if far >> at & 1 == 1 { 9 << grid } else { 0 };
        let model = vec![far; columns.cells(&[2, 2])];
        (Candidate { weight: weights[at], columns, bias: biases[at] << grid }, model)
    };
    sets.into_iter().enumerate().map(offered).unzip()
}

/// The answer of a model.
fn answer((candidates, models): &Offered) -> impl FnMut(&ColumnSet) -> Option<Vec<i64>> + '_ {
    |set| {
        let at = candidates.iter().position(|candidate| candidate.columns == *set)?;
        Some(models[at].clone())
    }
}

fn scored(rows: &Rows, task: &SyntheticTask, offered: &Offered) -> (Vec<i128>, u128) {
    let scored = Door::exact(task, rows).scored(&offered.0, &mut answer(offered)).unwrap();
    assert_eq!(scored.places, [0, 1, 2]);
    (scored.scores, scored.range)
}

/// The stated range is attained, and never exceeded: 5 for the weights 3, 1, 2, and 2 for equal
/// weights.
#[test]
fn ranges_are_those_of_all_scores() {
    for (sensitivity, tables, units) in worlds() {
        let task = SyntheticTask {
            sensitivity,
            ..task(&[2, 2], 2, Method::Aim, SyntheticBudget::Pure { epsilon_nano: 1_000_000_000 })
        };
        for (weights, expected) in [([3, 1, 2], 5), ([1, 1, 1], 2), ([2, 7, 7], 14)] {
            let mut widest = 0;
            for (table, unit) in tables.iter().flat_map(|t| units.iter().map(move |u| (t, u))) {
                for far in 0..8 {
                    let candidates = candidates(weights, far, sensitivity.grid());
                    let (with, range) = scored(&rows(&plus(table, unit)), &task, &candidates);
                    let (without, _) = scored(&rows(table), &task, &candidates);
                    assert_eq!(range, expected * u128::from(sensitivity.l1()));
                    let moved: Vec<i128> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
                    let gap = moved.iter().max().unwrap() - moved.iter().min().unwrap();
                    widest = widest.max(gap.unsigned_abs());
                }
            }
            assert_eq!(widest, expected * u128::from(sensitivity.l1()), "{weights:?}");
        }
    }
}

fn probabilities(chooser: &Chooser, scores: &[i128]) -> Vec<f64> {
    match chooser {
        Chooser::PermuteAndFlip(mechanism) => mechanism.probabilities(scores),
        Chooser::Exponential(mechanism) => mechanism.probabilities(scores),
    }
}

/// The Rényi divergence of order α between discrete Gaussian noise and the same noise shifted by a
/// whole number.
fn moved(alpha: f64, sigma: f64, by: i64) -> f64 {
    let by = by as f64;
    let log = |x: f64| -x * x / (2.0 * sigma * sigma);
    let reach = (12.0 * sigma + alpha * by.abs()).ceil() as i64;
    let terms = (-reach..=reach).map(|x| x as f64);
    let top = log(by * (1.0 - alpha)) * alpha + (1.0 - alpha) * log(by * (1.0 - alpha) - by);
    let sum: f64 =
        terms.clone().map(|x| (alpha * log(x) + (1.0 - alpha) * log(x - by) - top).exp()).sum();
    let all: f64 = terms.map(|x| log(x).exp()).sum();
    (top + sum.ln() - all.ln()) / (alpha - 1.0)
}

/// A whole round under ρ: the chosen marginal, and its noisy counts. ε_s = 0.8 and σ² = 4 Δ² cost
/// 0.08 and 0.125.
#[test]
fn a_round_costs_what_it_says_under_rho() {
    let (select, measure) = (80_000_000, 125_000_000);
    for (sensitivity, tables, units) in worlds() {
        let task = SyntheticTask {
            sensitivity,
            ..task(
                &[2, 2],
                2,
                Method::Aim,
                SyntheticBudget::Concentrated { rho_nano: 1_000_000_000 },
            )
        };
        let noise = Noise::calibrate(Mode::Concentrated, sensitivity, measure).unwrap();
        let sigma = noise.variance().sqrt();
        let mut most: f64 = 0.0;
        // In the last case, two candidates are equally good, before and after, and a third is far
        // off.
        let cases = [([3, 1, 2], [1; 3], 0), ([3, 1, 2], [1; 3], 4), ([2, 1, 2], [1; 3], 1)];
        for (weights, biases, far) in cases.into_iter().chain([([1, 1, 1], [0, 60, 33], 4)]) {
            let candidates = biased(weights, biases, far, sensitivity.grid());
            let laws: Vec<(Unit, Vec<f64>)> = (tables.iter())
                .chain(
                    tables
                        .iter()
                        .flat_map(|t| units.iter().map(|u| plus(t, u)))
                        .collect::<Vec<_>>()
                        .iter(),
                )
                .map(|table| {
                    let (scores, range) = scored(&rows(table), &task, &candidates);
                    let chooser = Chooser::calibrate(Mode::Concentrated, range, select).unwrap();
                    (*table, probabilities(&chooser, &scores))
                })
                .collect();
            let law = |table: &Unit| &laws.iter().find(|(other, _)| other == table).unwrap().1;
            for (table, unit) in tables.iter().flat_map(|t| units.iter().map(move |u| (t, u))) {
                let (p, q) = (law(table), law(&plus(table, unit)));
                for alpha in [1.01, 2.0, 8.0, 40.0] {
                    let noises: Vec<f64> = (candidates.0.iter())
                        .map(|c| {
                            rows(unit)
                                .onto(&c.columns)
                                .into_iter()
                                .map(|by| moved(alpha, sigma, by))
                                .sum()
                        })
                        .collect();
                    for (p, q) in [(p, q), (q, p)] {
                        let parts = p.iter().zip(q).zip(&noises).map(|((p, q), noise)| {
                            alpha * p.ln() + (1.0 - alpha) * q.ln() + (alpha - 1.0) * noise
                        });
                        let parts: Vec<f64> = parts.collect();
                        let top = parts.iter().copied().fold(f64::MIN, f64::max);
                        let sum: f64 = parts.iter().map(|part| (part - top).exp()).sum();
                        most = most.max((top + sum.ln()) / (alpha - 1.0) / alpha);
                    }
                }
            }
        }
        assert!(most <= 0.205 + 1e-9, "{sensitivity:?}: {most}");
        assert!(most > 0.2, "{sensitivity:?}: {most}");
    }
}

/// A whole round under ε.
#[test]
fn a_round_costs_what_it_says_under_epsilon() {
    let (select, measure) = (400_000_000, 600_000_000);
    for (sensitivity, tables, units) in worlds() {
        let task = SyntheticTask {
            sensitivity,
            ..task(&[2, 2], 2, Method::Aim, SyntheticBudget::Pure { epsilon_nano: 1_000_000_000 })
        };
        let Noise::Laplace(laplace) = Noise::calibrate(Mode::Pure, sensitivity, measure).unwrap()
        else {
            panic!("under a pure budget noise is Laplace's");
        };
        let scale = laplace.scale().to_f64().unwrap();
        let mut most: f64 = 0.0;
        for (table, unit) in tables.iter().flat_map(|t| units.iter().map(move |u| (t, u))) {
            for far in 0..8 {
                let candidates = candidates([3, 1, 2], far, sensitivity.grid());
                let law = |table: &Unit| {
                    let (scores, range) = scored(&rows(table), &task, &candidates);
                    let chooser = Chooser::calibrate(Mode::Pure, range, select).unwrap();
                    probabilities(&chooser, &scores)
                };
                let laws = law(table).into_iter().zip(law(&plus(table, unit)));
                for ((p, q), candidate) in laws.zip(&candidates.0) {
                    let moves = rows(unit).onto(&candidate.columns);
                    let noise = moves.iter().sum::<i64>() as f64 / scale;
                    most = most.max((p / q).ln().abs() + noise);
                }
            }
        }
        assert!(most <= 1.0 + 1e-9, "{sensitivity:?}: {most}");
        assert!(most > 0.9, "{sensitivity:?}: {most}");
    }
}

/// Small databases: the loss of the choice is ε = 1 and ρ = 1/8, for units of one row, of three
/// rows, and for persons.
#[test]
fn small_databases_cost_what_they_say() {
    let (share, mut largest) = (1_000_000_000, 0.0_f64);
    for (sensitivity, tables, units) in worlds() {
        for sets in [vec![ColumnSet::new([0, 1])], vec![ColumnSet::new([0]), ColumnSet::new([1])]] {
            for m in 1..=3 {
                let method = Method::SmallDatabase { rows: m };
                let budget = SyntheticBudget::Pure { epsilon_nano: share };
                let task = SyntheticTask { sensitivity, ..task(&[2, 2], 2, method, budget) };
                let score = |table: &Unit| {
                    Door::exact(&task, &rows(table)).scored_databases(&sets, m).unwrap()
                };
                let (mut most, mut widest, mut rho): (f64, u128, f64) = (0.0, 0, 0.0);
                for (table, unit) in tables.iter().flat_map(|t| units.iter().map(move |u| (t, u))) {
                    let ((with, range), (without, _)) = (score(&plus(table, unit)), score(table));
                    let moved = with.iter().zip(&without).map(|(a, b)| a - b);
                    let gap = moved.clone().max().unwrap() - moved.min().unwrap();
                    widest = widest.max(gap.unsigned_abs());
                    let chooser = Chooser::exponential(Mode::Pure, range, share).unwrap();
                    let laws = probabilities(&chooser, &with).into_iter();
                    let laws: Vec<(f64, f64)> =
                        laws.zip(probabilities(&chooser, &without)).collect();
                    for (p, q) in &laws {
                        most = most.max((p / q).ln().abs());
                    }
                    for alpha in [1.001, 1.5, 2.0, 5.0, 20.0, 100.0] {
                        let of = |sum: f64| sum.ln() / (alpha - 1.0) / alpha;
                        let moment = |(p, q): &(f64, f64)| q * (p / q).powf(alpha);
                        let back = |(p, q): &(f64, f64)| p * (q / p).powf(alpha);
                        rho = rho.max(of(laws.iter().map(moment).sum()));
                        rho = rho.max(of(laws.iter().map(back).sum()));
                    }
                    assert_eq!(range, u128::from(2 * m - 1) * u128::from(sensitivity.l1()));
                    assert!(gap.unsigned_abs() <= range);
                }
                assert!(most <= 1.0 + 1e-9, "{sensitivity:?} {m}: {most}");
                // ε²/8: the charge for a choice under ρ.
                let charged = Loss::choice(&"1".parse().unwrap(), None, 1, Selecting::BoundedRange);
                assert!(
                    rho <= charged.rho().to_f64().unwrap() + 1e-9,
                    "{sensitivity:?} {m}: {rho}"
                );
                largest = largest.max(rho);
                if sensitivity == Sensitivity::rows(1) && sets.len() == 1 {
                    assert_eq!(widest, u128::from(2 * m - 1), "{m}");
                }
            }
        }
    }
    assert!(largest > 0.1, "{largest}");
}

/// Candidates are counted in as many passes as necessary, and scored one by one. The scores stay
/// the same.
#[test]
fn scores_do_not_depend_on_memory() {
    let budget = SyntheticBudget::Concentrated { rho_nano: 1_000 };
    let table = rows(&[3, 0, 5, 1]);
    let offered = candidates([3, 1, 2], 5, 0);
    let mut seen = Vec::new();
    for (most_held, passes) in [(1 << 22, 1), (4, 2), (1, 3)] {
        let task = SyntheticTask { most_held, ..task(&[2, 2], 2, Method::Aim, budget) };
        let mut door = Door::exact(&task, &table);
        let scored = door.scored(&offered.0, &mut answer(&offered)).unwrap();
        let looks = door.log.asked.iter().filter(|asked| asked[0].1.is_empty()).count();
        assert_eq!(looks, passes, "{most_held}");
        let held: usize = door.kept.values().map(Vec::len).sum();
        assert!(held <= most_held.max(4), "{held}");
        seen.push((scored.places, scored.scores, scored.range));
    }
    assert!(seen.iter().all(|one| *one == seen[0]));
    // Candidates that the model does not answer do not compete: the range is that of the others.
    let task = task(&[2, 2], 2, Method::Aim, budget);
    let mut door = Door::exact(&task, &table);
    let mut but_the_first = |set: &ColumnSet| answer(&offered)(set).filter(|_| set.contains(1));
    let scored = door.scored(&offered.0, &mut but_the_first).unwrap();
    assert_eq!((scored.places, scored.range), (vec![1, 2], 3));
    let mut last = |set: &ColumnSet| answer(&offered)(set).filter(|_| set.len() == 2);
    assert_eq!(*door.select(&offered.0, &mut last, 1).unwrap().get(), 2);
    assert!(door.select(&offered.0, &mut |_| None, 1).is_err());
}

/// The door shuts when the statement is over.
#[test]
fn the_door_shuts_when_nobody_waits() {
    let budget = SyntheticBudget::Concentrated { rho_nano: 1_000 };
    let (task, table) = (task(&[2, 2], 2, Method::Aim, budget), rows(&[3, 0, 5, 1]));
    let offered = candidates([3, 1, 2], 5, 0);
    let both = ColumnSet::new([0, 1]);
    let mut door = Door { stop: &|| true, ..Door::exact(&task, &table) };
    let stopped = |error: Failed| assert!(matches!(error, Failed::Stopped), "{error:?}");
    stopped(door.measure(std::slice::from_ref(&both), 1).unwrap_err());
    stopped(door.measure_total(1).unwrap_err());
    stopped(door.measure_cell(&both, 0, 1).unwrap_err());
    stopped(door.select(&offered.0, &mut answer(&offered), 1).unwrap_err());
    stopped(door.select_cell(&offered.0, &mut answer(&offered), 1).unwrap_err());
    stopped(door.select_database(std::slice::from_ref(&both), 2, 1).unwrap_err());
    assert!(door.log.told.is_empty() && door.log.asked.is_empty());
}

/// Beyond the budget the door releases nothing, neither counts nor choices.
#[test]
fn the_door_keeps_the_account() {
    let budget = SyntheticBudget::Concentrated { rho_nano: 100 };
    let task = task(&[2, 2], 2, Method::Aim, budget);
    let table = rows(&[1, 2, 3, 4]);
    let mut door = Door::exact(&task, &table);
    let (first, both) = (ColumnSet::new([0]), ColumnSet::new([0, 1]));
    let measured = door.measure(std::slice::from_ref(&first), 60).unwrap();
    assert_eq!((measured[0].get().values.clone(), door.used()), (vec![3, 7], 60));
    assert!(door.measure(&[first.clone(), both.clone()], 21).is_err());
    let mut door = Door::exact(&task, &table);
    assert!(door.measure(std::slice::from_ref(&first), 101).is_err());
    assert!(door.measure_total(101).is_err() && door.measure_cell(&both, 3, 101).is_err());
    let offered = candidates([1, 1, 1], 0, 0);
    assert!(door.select(&offered.0, &mut answer(&offered), 101).is_err());
    assert!(door.select_cell(&offered.0, &mut answer(&offered), 101).is_err());
    assert!(door.select_database(std::slice::from_ref(&both), 2, 101).is_err());
    assert!(door.log.told.is_empty());
    assert_eq!(door.measure_total(50).unwrap().get().values, [10]);
    assert_eq!(*door.measure_cell(&both, 2, 50).unwrap().get(), 3);
    assert!(door.measure_total(1).is_err());
    // A share of 0 has no noise.
    assert!(Door::exact(&task, &table).measure(&[first], 0).is_err());
}

/// The account holds whole billionths. Shares that use up a budget are all paid, each is counted to
/// the last billionth, and nothing is left afterwards. Sums of floats would be off, in either
/// direction.
#[test]
fn the_account_is_exact() {
    let mut rng = QueryRng::seeded_for_tests(13);
    let table = rows(&[1, 2, 3, 4]);
    for turn in 0..2_000 {
        let digits = if turn % 2 == 0 { 30 } else { 57 };
        let shares: Vec<u64> = (0..rng.below_u64(60) + 1)
            .map(|_| {
                let most = 1 << rng.below_u64(digits);
                2 * rng.below_u64(most) + 1
            })
            .collect();
        let total: u64 = shares.iter().sum();
        let budget = match turn % 4 {
            0 | 1 => SyntheticBudget::Concentrated { rho_nano: total },
            _ => SyntheticBudget::Pure { epsilon_nano: total },
        };
        let task = task(&[2, 2], 2, Method::Aim, budget);
        let mut door = Door::exact(&task, &table);
        let mut used = 0;
        for share in &shares {
            assert!(door.pay(total - used + 1).is_err(), "{used} of {total}");
            assert!(door.pay(*share).is_ok(), "{share} after {used} of {total}");
            used += share;
            assert_eq!(door.used(), used, "of {total}");
        }
        assert!(door.pay(1).is_err() && door.pay(u64::MAX).is_err());
        assert_eq!(door.used(), total);
    }
}

/// Counts of the wrong shape are a fault, and nothing is released.
#[test]
fn counts_of_another_shape_are_no_counts() {
    struct Wrong;
    impl Count for Wrong {
        fn count(&self, sets: &[ColumnSet]) -> Result<Vec<Vec<i64>>, super::super::CountError> {
            Ok(vec![vec![1; 3]; sets.len()])
        }
    }
    let task = task(&[2, 2], 2, Method::Aim, SyntheticBudget::Pure { epsilon_nano: 1_000 });
    assert!(Door::exact(&task, &Wrong).measure(&[ColumnSet::new([0])], 10).is_err());
}
