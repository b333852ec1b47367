//! Tests of runs: they follow every branch exactly on tiny runs with a coarse initial precision,
//! test frequencies on hostile runs, and compare counts with brute force.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use num_bigint::BigInt;

use super::*;
use crate::privacy::Rational;
use crate::sampler::rng::QueryRng;
use crate::sampler::tests::oracle::{Enumerated, enumerate, exp_neg, rational};
use crate::sampler::tests::statistics::assert_frequencies;

fn run(count: u64, gap: u128, fall: u128, weight: u128) -> Run {
    Run { count, gap, fall, weight }
}

/// ln of weight·count·exp(−rate·gap) for each candidate of short runs, in floats.
fn log_weights(runs: &[Run], rate: f64) -> Vec<((usize, u64), f64)> {
    let nearest = runs.iter().filter(|run| run.counts()).map(|run| run.gap).min().unwrap_or(0);
    runs.iter()
        .enumerate()
        .filter(|(_, run)| run.counts())
        .flat_map(|(index, run)| {
            (0..run.count).map(move |place| {
                let gap = (run.gap - nearest) as f64 + place as f64 * run.fall as f64;
                ((index, place), (run.weight as f64).ln() - rate * gap)
            })
        })
        .collect()
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed.
fn assert_drawn(what: &str, runs: &[Run], rate: (u128, u128), draws: usize) {
    let logs = log_weights(runs, rate.0 as f64 / rate.1 as f64);
    let highest = logs.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|(_, log)| (log - highest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let places: BTreeMap<(usize, u64), usize> =
        logs.iter().enumerate().map(|(cell, (key, _))| (*key, cell)).collect();
    let mut rng = QueryRng::seeded_for_tests(2_027);
    let mut choice = RunChoice::new(runs, rate.0, rate.1).unwrap();
    let mut counts = vec![0_u64; law.len()];
    for _ in 0..draws {
        counts[places[&choice.draw(&mut rng)]] += 1;
    }
    assert_frequencies(what, &counts, &law);
}

fn whole(level: usize) -> Rational {
    Rational::from_integer(level.into())
}

/// Asserts that the enumerated probabilities agree with `law`, up to the unexplored part. `slack`
/// bounds that part.
fn assert_exact<T: Ord + std::fmt::Debug>(
    what: &str,
    seen: &Enumerated<T>,
    law: &BTreeMap<T, Rational>,
    slack: &Rational,
) {
    assert!(&seen.unexplored < slack, "{what}: {} unexplored", seen.unexplored);
    let tiny = rational(1, 1 << 50);
    for outcome in seen.mass.keys() {
        assert!(law.contains_key(outcome), "{what}: {outcome:?} cannot be");
    }
    for (outcome, chance) in law {
        let found = seen.mass.get(outcome).cloned().unwrap_or_default();
        assert!(found <= chance + &tiny, "{what}: {outcome:?} too likely");
        assert!(chance <= &(found + &seen.unexplored + &tiny), "{what}: {outcome:?} too unlikely");
    }
}

/// A source that yields the first twelve bits of a uniform number, and no more.
struct Prefix {
    bits: u64,
    left: u32,
}

/// Thrown when the twelve bits do not decide the draw.
struct NoMoreBits;

impl Uniform for Prefix {
    fn below_u64(&mut self, n: u64) -> u64 {
        debug_assert!(n.is_power_of_two());
        let Some(left) = self.left.checked_sub(n.trailing_zeros()) else {
            resume_unwind(Box::new(NoMoreBits));
        };
        let drawn = self.bits >> left;
        *self = Self { bits: self.bits & ((1 << left) - 1), left };
        drawn
    }

    fn below_u128(&mut self, _: u128) -> u128 {
        unreachable!("a level is drawn from bits")
    }

    fn below_big(&mut self, _: &BigUint) -> BigUint {
        unreachable!("a level is drawn from bits")
    }
}

/// The result for each prefix; unexplored where the draw needs more bits.
fn by_prefix(draw: impl Fn(&mut Prefix) -> usize) -> Enumerated<usize> {
    let each = rational(1, 1 << 12);
    let mut seen = Enumerated { mass: BTreeMap::new(), unexplored: Rational::default() };
    for bits in 0..1 << 12 {
        match catch_unwind(AssertUnwindSafe(|| draw(&mut Prefix { bits, left: 12 }))) {
            Ok(level) => *seen.mass.entry(level).or_default() += &each,
            Err(thrown) if thrown.is::<NoMoreBits>() => seen.unexplored += &each,
            Err(thrown) => resume_unwind(thrown),
        }
    }
    seen
}

#[test]
fn tiny_runs_are_exact() {
    let wide = 1_u128 << 100;
    for (runs, num, den) in [
        (vec![run(1, 0, 0, 1), run(3, 1, 2, 1)], 1_u128, 1_u128),
        (vec![run(2, 0, 1, 3), run(1, 2, 0, 20)], 3, 2),
        (vec![run(1, 0, 0, 0), run(2, 7, 0, 1), run(4, 5, 1, 2)], 1, 3),
        (vec![run(2, 5, 0, 1), run(0, 0, 0, 9), run(1, 6, 0, 2)], 0, 1),
        (vec![run(1, wide, 0, 1), run(2, 2 * wide, wide, 5)], 1 << 27, 1 << 127),
        (vec![run(1, 0, 0, 1), run(1, 3, 0, 1 << 6)], 5, 3),
    ] {
        // Weight and exponent of each candidate.
        let nearest = runs.iter().filter(|run| run.counts()).map(|run| run.gap).min().unwrap();
        let mut candidates: BTreeMap<(usize, u64), (Rational, Rational)> = BTreeMap::new();
        for (index, run) in runs.iter().enumerate().filter(|(_, run)| run.counts()) {
            for place in 0..run.count {
                let gap = BigInt::from(run.gap - nearest) + BigInt::from(run.fall) * place;
                let exponent = Rational::new(gap * BigInt::from(num), den.into());
                candidates
                    .insert((index, place), (Rational::from_integer(run.weight.into()), exponent));
            }
        }
        let mut on: BTreeMap<usize, Rational> = BTreeMap::new();
        for (weight, exponent) in candidates.values() {
            *on.entry(exponent.to_integer().to_usize().unwrap()).or_default() += weight;
        }
        let level_weight = |level: usize| &on[&level] * exp_neg(&whole(level));
        let total: Rational = on.keys().map(|level| level_weight(*level)).sum();
        let law = on.keys().map(|level| (*level, level_weight(*level) / &total)).collect();

        // Levels, also from an initial precision so coarse that almost every draw needs refinement.
        for (levels, point, bits) in [(2, 4, 3), (3, 9, 6), (4, 3, 3), (40, 64, 12)] {
            let what = format!("levels of {runs:?} from {levels}, {point}, {bits}");
            let start = RunChoice::with_precision(&runs, num, den, levels, point, bits).unwrap();
            let seen = by_prefix(|bits| start.clone().level(bits));
            assert_exact(&what, &seen, &law, &rational(1, 20));
        }
        // On each level, candidates are drawn by weight and kept with the rest of their exponents.
        let choice = RunChoice::new(&runs, num, den).unwrap();
        for (level, weight_on) in on {
            let mut law: BTreeMap<Option<(usize, u64)>, Rational> = BTreeMap::new();
            let mut lost = rational(1, 1);
            for (key, (weight, exponent)) in &candidates {
                if exponent.to_integer() == level.into() {
                    let left = exponent - whole(level);
                    let chance = weight / &weight_on * exp_neg(&left);
                    lost -= &chance;
                    law.insert(Some(*key), chance);
                }
            }
            law.insert(None, lost);
            let what = format!("level {level} of {runs:?}");
            if weight_on < rational(100, 1) {
                let seen = enumerate(20, |oracle| choice.attempt_on(level, oracle));
                assert_exact(&what, &seen, &law, &rational(1, 1_000));
            }
        }
    }
}

#[test]
fn a_coarse_first_look_leaves_the_law_alone() {
    let runs = [run(3, 0, 1, 5), run(1, 2, 0, 40), run(20, 1, 2, 1)];
    let logs = log_weights(&runs, 0.5);
    let total: f64 = logs.iter().map(|(_, log)| log.exp()).sum();
    let law: Vec<f64> = logs.iter().map(|(_, log)| log.exp() / total).collect();
    for (levels, point, bits) in [(1, 1, 1), (1, 3, 7), (3, 2, 1), (2, 70, 3)] {
        let mut rng = QueryRng::seeded_for_tests(5);
        let mut counts = vec![0_u64; law.len()];
        for _ in 0..50_000 {
            // A new choice each time, so that each draw starts at the coarse precision.
            let mut choice = RunChoice::with_precision(&runs, 1, 2, levels, point, bits).unwrap();
            let winner = choice.draw(&mut rng);
            counts[logs.iter().position(|(key, _)| *key == winner).unwrap()] += 1;
        }
        assert_frequencies(&format!("from {levels}, {point}, {bits}"), &counts, &law);
    }
}

#[test]
fn frequencies_follow_the_law() {
    let ends = u128::MAX;
    assert_drawn("equal", &[run(4, 9, 0, 1), run(4, 9, 0, 1)], (1, 1), 40_000);
    assert_drawn("tiny rate", &[run(5, 0, 100_000, 1), run(9, 3, 0, 1)], (1, 1_000_000), 60_000);
    assert_drawn("rate 1000", &[run(2, 7, 0, 1), run(9, 8, 0, 1)], (1_000, 1), 20_000);
    assert_drawn("rate 10⁶", &[run(3, 7, 0, 1), run(1, 8, 0, 1)], (1_000_000, 1), 20_000);
    assert_drawn(
        "best excluded",
        &[run(9, 0, 0, 0), run(4, 1_000_000_000, 1, 1), run(1, 999_999_999, 0, 2)],
        (1, 1),
        60_000,
    );
    // A factor e^69 makes up for a weight of 10^30.
    assert_drawn(
        "weights 1 to 10³⁰",
        &[run(1, 0, 0, 1), run(3, 69, 1, 1_000_000_000_000_000_000_000_000_000_000)],
        (1, 1),
        60_000,
    );
    // Weights and products beyond 128 bits.
    assert_drawn(
        "widest",
        &[run(2, 5, 1, ends), run(4, 5, 0, ends / 2), run(1, ends, ends, ends)],
        (3, 2),
        60_000,
    );
    let far = [run(1, ends, 0, 1), run(3, ends - (1 << 100), 1 << 99, 1)];
    assert_drawn("ends", &far, (1, 1 << 99), 60_000);
    assert_drawn("ends, wide rate", &far, (1 << 27, 1 << 126), 60_000);
    assert_drawn("rate 0", &[run(3, 0, ends, 1), run(2, ends, 0, 4)], (0, 1), 40_000);
    assert_drawn(
        "mixed",
        &[run(6, 2, 3, 7), run(3, 0, 5, 1), run(1, 1, 0, 9), run(8, 30, 0, 5_000)],
        (2, 7),
        100_000,
    );
}

#[test]
fn long_runs_are_geometric() {
    // 10⁹ candidates that fall by 1 at rate 10⁻⁷, then 10⁹ equal ones. A closed form gives the
    // bins.
    let (size, rate) = (1_000_000_000_u64, 1e-7);
    let runs = [run(size, 0, 1, 1), run(size, 30_000_000, 0, 1)];
    let falling =
        |from: f64, to: f64| ((-rate * from).exp() - (-rate * to).exp()) / -(-rate).exp_m1();
    let mut law: Vec<f64> =
        (0..50).map(|bin| falling(f64::from(bin) * 2e7, f64::from(bin + 1) * 2e7)).collect();
    law.extend((0..50).map(|_| 2e7 * (-3_f64).exp()));
    let total: f64 = law.iter().sum();
    law.iter_mut().for_each(|weight| *weight /= total);
    let mut rng = QueryRng::seeded_for_tests(9);
    let mut choice = RunChoice::new(&runs, 1, 10_000_000).unwrap();
    let mut counts = vec![0_u64; 100];
    let mut parity = vec![0_u64; 2];
    for _ in 0..100_000 {
        let (index, place) = choice.draw(&mut rng);
        counts[index * 50 + (place / 20_000_000) as usize] += 1;
        parity[(place % 2) as usize] += 1;
    }
    assert_frequencies("long runs", &counts, &law);
    assert_frequencies("places are spread", &parity, &[0.5, 0.5]);
}

#[test]
fn one_candidate_always_wins() {
    let mut rng = QueryRng::seeded_for_tests(1);
    for (num, den) in [(1, 1), (0, 1), (1, 0), (u128::MAX, 1), (1, u128::MAX)] {
        let only = [run(5, 0, 0, 0), run(1, u128::MAX, u128::MAX, u128::MAX), run(0, 0, 0, 1)];
        assert_eq!(exponential_runs(&only, num, den, &mut rng).unwrap(), (1, 0));
    }
    // An infinite rate: the draw is by weight among the best.
    let best = [run(2, 4, 1, 1), run(1, 4, 0, 3), run(1, 5, 0, 1 << 100)];
    let mut counts = vec![0_u64; 3];
    for _ in 0..20_000 {
        let (index, place) = exponential_runs(&best, 1, 0, &mut rng).unwrap();
        assert_eq!(place, 0);
        counts[index] += 1;
    }
    assert_frequencies("infinite rate", &counts, &[0.25, 0.75, 0.0]);
    for none in [vec![], vec![run(0, 0, 0, 1)], vec![run(7, 3, 1, 0)]] {
        let found = exponential_runs(&none, 1, 1, &mut rng);
        assert!(matches!(found, Err(SamplerError::NoCandidate)));
    }
}

#[test]
fn levels_are_counted() {
    let mut rng = QueryRng::seeded_for_tests(3);
    let mut pick = |choices: &[u128]| choices[rng.below_u64(choices.len() as u64) as usize];
    for _ in 0..3_000 {
        let runs: Vec<Run> = (0..4)
            .map(|_| Run {
                count: pick(&[0, 1, 2, 7, 30]) as u64,
                gap: pick(&[0, 1, 5, 20, 1 << 90]),
                fall: pick(&[0, 1, 3, 10, 1 << 40]),
                weight: pick(&[0, 1, 2, 1 << 126]),
            })
            .collect();
        let (num, den) =
            (pick(&[0, 1, 2, 7, 1000, 1 << 100]), pick(&[1, 3, 10, 1 << 99, 1 << 127]));
        let levels = pick(&[1, 2, 10, 50]) as usize;
        let Ok(choice) = RunChoice::with_precision(&runs, num, den, levels, 8, 8) else {
            assert!(runs.iter().all(|run| run.count == 0 || run.weight == 0));
            continue;
        };
        let nearest = runs.iter().filter(|run| run.counts()).map(|run| run.gap).min().unwrap();
        let (mut weights, mut rest) = (vec![BigUint::ZERO; levels], BigUint::ZERO);
        let mut members: Vec<Vec<(usize, u64)>> = vec![Vec::new(); levels];
        for (index, run) in runs.iter().enumerate().filter(|(_, run)| run.counts()) {
            for place in 0..run.count {
                let gap = BigUint::from(run.gap - nearest) + BigUint::from(run.fall) * place;
                match (gap * num / den).to_usize().filter(|level| *level < levels) {
                    Some(level) => {
                        weights[level] += run.weight;
                        members[level].push((index, place));
                    }
                    None => rest += run.weight,
                }
            }
        }
        let counted = choice.weights.len();
        assert_eq!(choice.weights, weights[..counted], "{runs:?} at {num}/{den}");
        assert!(weights[counted..].iter().all(BigUint::is_zero) && choice.rest == rest);
        // Every unit of a level's weight belongs to one candidate, in order. The test checks the
        // first and the last unit of each candidate.
        for (level, members) in members.iter().enumerate().take(counted) {
            let mut before = BigUint::ZERO;
            for (index, place) in members {
                let weight = runs[*index].weight;
                for unit in [before.clone(), &before + (weight - 1)] {
                    assert_eq!(choice.member_at_big(level, unit.clone()), Some((*index, *place)));
                    if let (Some(unit), Some(_)) = (unit.to_u128(), weights[level].to_u128()) {
                        assert_eq!(choice.member_at(level, unit), Some((*index, *place)));
                    }
                }
                before += weight;
            }
        }
    }
}

/// Prints the time for two million runs:
/// `cargo test --release -- --ignored --nocapture runs_are_quick`.
#[test]
#[ignore = "a measurement"]
fn runs_are_quick() {
    let mut rng = QueryRng::seeded_for_tests(4);
    let single: Vec<Run> = (0..1_000_000).map(|_| run(1, rng.below_u128(1 << 40), 0, 1)).collect();
    let long: Vec<Run> = (0..2_000_000_u128).map(|i| run(500, i * 300, 1 + i % 7, 1)).collect();
    for (what, runs, rate) in [
        ("10⁶ candidates", &single, (1, 1 << 20)),
        ("2·10⁶ runs of 500", &long, (1, 10_000)),
        ("2·10⁶ runs of 500, flat", &long, (1, 1 << 30)),
        ("2·10⁶ runs of 500, steep", &long, (1, 100)),
    ] {
        let start = std::time::Instant::now();
        let winner = exponential_runs(runs, rate.0, rate.1, &mut rng).unwrap();
        println!("{what}: {winner:?} after {:?}", start.elapsed());
    }
}
