use num_integer::Integer;

use super::*;
use crate::mechanism::PriceGrid;
use crate::privacy::parse_decimal;
use crate::sampler::tests::statistics::assert_frequencies;

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn run(count: u64, score: i128, step: i128, size: i128, size_step: i128) -> SizedRun {
    SizedRun { run: ScoredRun { count, score, step, weight: 1 }, size, size_step }
}

/// Every candidate, as its run and position, its score and its size.
fn flat(runs: &[SizedRun]) -> Vec<((usize, u64), i128, i128)> {
    let of = |(index, run): (usize, &SizedRun)| {
        let run = *run;
        (0..run.run.count).map(move |place| {
            let at = i128::from(place);
            ((index, place), run.run.score + at * run.run.step, run.size + at * run.size_step)
        })
    };
    runs.iter().enumerate().flat_map(of).collect()
}

/// The levels by definition: ⌊K·s⌋ by division, or the lowest level if that is higher.
fn defined(mechanism: &Generalized, runs: &[SizedRun]) -> Vec<i128> {
    let all = flat(runs);
    let back = |(_, score, size): &(_, i128, i128)| score - i128::from(mechanism.shift) * size;
    let per_row = i128::from(mechanism.per_row);
    let level = |own: &((usize, u64), i128, i128)| {
        let margins = all.iter().map(|other| (back(own) - back(other), own.2 + other.2));
        let levels = margins.map(|(gap, sizes)| match sizes {
            0 if gap < 0 => i128::MIN,
            0 => 0,
            _ => Integer::div_floor(&(per_row * gap), &sizes),
        });
        levels.min().unwrap().max(-i128::from(mechanism.deepest))
    };
    all.iter().map(level).collect()
}

/// The levels as the mechanism finds them, one for each candidate.
fn found(mechanism: &Generalized, runs: &[SizedRun]) -> Vec<i128> {
    let stretches = mechanism.levels(runs).unwrap();
    let mut levels = Vec::new();
    for (index, first, run) in stretches {
        for place in 0..run.count {
            levels.push(((index, first + place), run.score));
        }
    }
    let places: Vec<(usize, u64)> = flat(runs).iter().map(|(at, _, _)| *at).collect();
    assert_eq!(levels.iter().map(|(at, _)| *at).collect::<Vec<_>>(), places);
    levels.into_iter().map(|(_, level)| level).collect()
}

/// Deterministic numbers below a bound.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> i128 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i128::from((self.0 >> 33) % bound)
    }
}

fn some_runs(numbers: &mut Numbers) -> Vec<SizedRun> {
    (0..=numbers.below(5))
        .map(|_| {
            let (size, size_step) = (numbers.below(30), numbers.below(4));
            let (score, step) = (numbers.below(900) - 100, numbers.below(60) - 20);
            let count = u64::try_from(numbers.below(40)).unwrap();
            run(count + 1, score, step, size, size_step)
        })
        .collect()
}

#[test]
fn levels_are_those_of_the_definition() {
    let mut numbers = Numbers(5);
    for round in 0..400 {
        let runs = some_runs(&mut numbers);
        let price = ["0.05", "0.3", "1", "9"][round % 4];
        let mechanism = Generalized::calibrate(40, 1, 200, 1, &epsilon(price)).unwrap();
        assert_eq!(found(&mechanism, &runs), defined(&mechanism, &runs), "{runs:?}");
    }
    // The best price of undisputed revenues has level 0.
    let mechanism = Generalized::calibrate(2, 1, 100, 1, &epsilon("1")).unwrap();
    assert_eq!(found(&mechanism, &[run(1, 50, 0, 1, 0), run(1, 0, 0, 100, 0)])[0], 0);
}

/// By brute force: any `r` rows move all levels within a range of 2·K·r.
#[test]
fn rows_move_levels_within_their_range() {
    let mut numbers = Numbers(11);
    let mut widest = 0;
    for _ in 0..3_000 {
        let rows = numbers.below(3) + 1;
        let mechanism =
            Generalized::calibrate(12, 1, 100, rows.unsigned_abs(), &epsilon("0.7")).unwrap();
        let candidates = numbers.below(6) + 2;
        let before: Vec<SizedRun> =
            (0..candidates).map(|_| run(1, numbers.below(300), 0, numbers.below(90), 0)).collect();
        let after: Vec<SizedRun> = before
            .iter()
            .map(|one| {
                let most = rows * one.size;
                let change = match numbers.below(4) {
                    0 => most,
                    1 => -most,
                    _ => numbers.below(u64::try_from(2 * most + 1).unwrap()) - most,
                };
                run(1, one.run.score + change, 0, one.size, 0)
            })
            .collect();
        let (old, new) = (found(&mechanism, &before), found(&mechanism, &after));
        let changes: Vec<i128> = old.iter().zip(&new).map(|(old, new)| new - old).collect();
        let range = changes.iter().max().unwrap() - changes.iter().min().unwrap();
        let allowed = 2 * i128::from(mechanism.per_row) * rows;
        assert!(range <= allowed, "{range} > {allowed}: {before:?} {after:?}");
        widest = widest.max(range * 100 / allowed);
    }
    assert!(widest > 80, "the search is too weak to see a wrong range: {widest} %");
}

/// P(i) ∝ exp(ε·level/(2·K·rows)); the reported 95 % error holds, too. The false-alarm rate is
/// 10⁻⁹, see `statistics`; the seed is fixed.
#[test]
fn winners_follow_their_law() {
    let runs = [run(4, 90, -7, 3, 1), run(3, 40, 25, 8, 2), run(2, 0, 0, 0, 0)];
    let mechanism = Generalized::calibrate(9, 1, 20, 2, &epsilon("1.5")).unwrap();
    let levels = defined(&mechanism, &runs);
    let weight = |level: &i128| (1.5 * *level as f64 / (4.0 * f64::from(mechanism.per_row))).exp();
    let weights: Vec<f64> = levels.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let places: Vec<(usize, u64)> = flat(&runs).iter().map(|(at, _, _)| *at).collect();
    let mut rng = QueryRng::seeded_for_tests(41);
    let mut counts = vec![0_u64; places.len()];
    for _ in 0..40_000 {
        let winner = mechanism.choose_runs(&runs, &mut rng).unwrap();
        counts[places.iter().position(|at| *at == winner).unwrap()] += 1;
    }
    assert_frequencies("levels", &counts, &law);
}

/// The exact probability that some candidate beats the winner by more than the bound, over many
/// score vectors.
#[test]
fn errors_hold_for_every_candidate() {
    let mut numbers = Numbers(3);
    let beta = parse_decimal("0.05").unwrap();
    for round in 0..300 {
        let price = ["0.2", "1", "4"][round % 3];
        let runs = some_runs(&mut numbers);
        let all = flat(&runs);
        let mechanism = Generalized::calibrate(all.len(), 1, 200, 1, &epsilon(price)).unwrap();
        let rows = mechanism.error_at(all.len(), &beta);
        let rarely = mechanism.worst_at(all.len(), &parse_decimal("0.001").unwrap());
        assert!(rows <= 2.0 * f64::from(mechanism.shift) + 1e-6, "{rows}");
        let weights = defined(&mechanism, &runs)
            .into_iter()
            .map(|level| (level as f64 * mechanism.choice.exponent().to_f64().unwrap()).exp());
        let (mut failed, mut rare, mut total) = (0.0, 0.0, 0.0);
        for (weight, (_, own, _)) in weights.zip(&all) {
            let beaten = |(_, score, size): &(_, i128, i128)| {
                *score as f64 - rows * *size as f64 > *own as f64
            };
            total += weight;
            if all.iter().any(beaten) {
                failed += weight;
            }
            let largest = *all.iter().map(|(_, _, size)| size).max().unwrap() as f64;
            let short = all.iter().map(|(_, score, _)| score - own).max().unwrap() as f64;
            if short > rarely * largest {
                rare += weight;
            }
        }
        assert!(rare <= 0.001 * total, "{price}: {} of {runs:?}", rare / total);
        assert!(failed <= 0.05 * total, "{price}: {} of {runs:?}", failed / total);
    }
}

/// A billion prices make few stretches, and numbers that are too large to compute with are refused.
#[test]
fn the_work_follows_the_levels() {
    let mechanism = Generalized::calibrate(1_000_000_000, 1, 1 << 30, 1, &epsilon("0.05")).unwrap();
    let buyers = [900_i128, 400, 90, 8, 1, 0];
    let runs: Vec<SizedRun> = (0..)
        .zip(buyers)
        .map(|(at, buyers)| {
            let first = at * 160_000_000 + 1;
            run(160_000_000, buyers * first, buyers, first, 1)
        })
        .collect();
    let stretches = mechanism.levels(&runs).unwrap();
    assert!(stretches.len() < 20_000, "{}", stretches.len());
    assert_eq!(stretches.iter().map(|(_, _, run)| run.count).sum::<u64>(), 960_000_000);
    for refused in [run(1, i128::MAX, 0, 1, 0), run(1, 0, 0, -1, 0), run(2, 0, 0, 1 << 70, 1)] {
        assert!(mechanism.levels(&[refused]).is_err(), "{refused:?}");
    }
    assert!(mechanism.choose_runs(&[], &mut QueryRng::seeded_for_tests(1)).is_err());
    // Nothing is known about candidates that are cut off at the lowest level.
    let few = Generalized::calibrate(7, 1, 9, 1, &epsilon("1")).unwrap();
    let rows = |beta: &str| few.worst_at(7, &parse_decimal(beta).unwrap());
    assert!(rows("1e-15").is_finite() && rows("1e-25").is_infinite());
    assert!(Generalized::calibrate(7, 1, 1 << 71, 1, &epsilon("1")).is_err());
    assert!(Generalized::calibrate(7, 1, 1, 1, &epsilon("1e-6")).is_err());
    assert!(Generalized::calibrate(7, 1, 1, u128::MAX, &epsilon("1")).is_err());
}

/// Prices from 0.01 to 100 at ε = 0.05, where most buyers would pay about 1. The test computes the
/// exact mean loss against the best price. The exponential mechanism measures all prices by the
/// 100, and loses most of the revenue.
#[test]
fn the_loss_is_that_of_the_best_price() {
    let bids: Vec<u64> = (0..5_000_u64).map(|i| 40 + i * i / 100_000).collect();
    let grid = PriceGrid::new(1, 1, 10_000).unwrap();
    let histogram: Vec<(u64, i128)> = bids.iter().map(|bid| (*bid, 1)).collect();
    let ticks = grid.revenue_runs(&histogram).unwrap();
    let sized = |(run, first): (&ScoredRun, &u64)| SizedRun {
        run: *run,
        size: grid.price(*first),
        size_step: 1,
    };
    let runs: Vec<SizedRun> = ticks.runs.iter().zip(&ticks.first).map(sized).collect();
    let epsilon = epsilon("0.05");
    let generalized = Generalized::calibrate(10_000, 1, 10_000, 1, &epsilon).unwrap();
    let plain = Exponential::calibrate(grid.range(1).unwrap(), &epsilon).unwrap();
    let scores: Vec<i128> = flat(&runs).into_iter().map(|(_, score, _)| score).collect();
    let best = *scores.iter().max().unwrap() as f64;
    let lost = |probabilities: Vec<f64>| {
        let of = |(p, score): (f64, &i128)| p * (best - *score as f64);
        probabilities.into_iter().zip(&scores).map(of).sum::<f64>() / best
    };
    let by_size = lost(generalized.choice.probabilities(&found(&generalized, &runs)));
    let by_range = lost(plain.probabilities(&scores));
    assert!(by_size < 0.04 && by_range > 0.5, "{by_size} {by_range}");
}
