//! The exact (ε, δ) of short lists, in both directions, and mistakes that break it.

use std::collections::BTreeMap;

use num_traits::ToPrimitive;

use super::*;
use crate::sampler::tests::statistics::assert_frequencies;

/// Candidates and their scores.
type Table = BTreeMap<u32, i64>;
/// The probability of each list.
type Law = BTreeMap<Vec<u32>, f64>;
/// Calibrates the mechanism to bounds, Δ₁ and Δ₂². Returns it with its ε and δ.
type Calibrating<'a> = &'a dyn Fn(&Alone, u128, u128) -> (NoisyKeys, f64, f64);

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn delta(text: &str) -> Delta {
    text.parse().unwrap()
}

/// The probabilities of a noise's integers, from −reach to reach.
fn noise_law(noise: &ScoreNoise, reach: i64) -> Vec<f64> {
    let weight = |x: i64| match noise {
        ScoreNoise::Laplace(noise) => (-(x.abs() as f64) / noise.scale().to_f64().unwrap()).exp(),
        ScoreNoise::Gaussian(noise) => {
            let sigma = noise.sigma().to_f64().unwrap();
            (-((x * x) as f64) / (2.0 * sigma * sigma)).exp()
        }
    };
    let all: f64 = (-reach..=reach).map(weight).sum();
    (-reach..=reach).map(|x| weight(x) / all).collect()
}

/// The law of the lists of at most two candidates above the threshold, ordered by noisy score, then
/// by candidate.
fn lists(table: &Table, noise: &[f64], threshold: i64, most: usize) -> Law {
    let reach = (noise.len() as i64 - 1) / 2;
    let at = |key: u32, value: i64| -> f64 {
        let x = value - table[&key] + reach;
        usize::try_from(x).ok().and_then(|x| noise.get(x)).copied().unwrap_or(0.0)
    };
    let last = table.values().max().copied().unwrap_or(0) + reach;
    // below[key][value − threshold]: the probability of a noisy score below the value.
    let below: BTreeMap<u32, Vec<f64>> = table
        .keys()
        .map(|key| {
            let least = (table[key] - reach).min(threshold);
            let mut sum: f64 = (least..threshold).map(|value| at(*key, value)).sum();
            let row = (threshold..=last + 1).map(|value| {
                let own = sum;
                sum += at(*key, value);
                own
            });
            (*key, row.collect())
        })
        .collect();
    // The probability that a candidate comes after another one with this value. At equal values,
    // the later candidate comes after.
    let after = |key: u32, (first, value): (u32, i64)| {
        let i = (value - threshold) as usize;
        below[&key][if key > first { i + 1 } else { i }]
    };
    let mut law = Law::new();
    let none: f64 = table.keys().map(|key| below[key][0]).product();
    law.insert(Vec::new(), none);
    for first in table.keys().copied() {
        for value in threshold..=last {
            let own = at(first, value);
            let others = || table.keys().copied().filter(move |key| *key != first);
            let alone: f64 = match most {
                1 => others().map(|key| after(key, (first, value))).product(),
                _ => others().map(|key| below[&key][0]).product(),
            };
            *law.entry(vec![first]).or_insert(0.0) += own * alone;
            if most == 1 {
                continue;
            }
            for second in others() {
                let from_second = |next: i64| next < value || next == value && second > first;
                for next in (threshold..=value).filter(|next| from_second(*next)) {
                    let rest = others().filter(|key| *key != second);
                    let rest: f64 = rest.map(|key| after(key, (second, next))).product();
                    *law.entry(vec![first, second]).or_insert(0.0) += own * at(second, next) * rest;
                }
            }
        }
    }
    law
}

/// The least δ with P(S) ≤ e^ε·P′(S) + δ for all S.
fn least_delta(p: &Law, other: &Law, epsilon: f64) -> f64 {
    let excess = |(list, chance): (&Vec<u32>, &f64)| {
        (chance - epsilon.exp() * other.get(list).copied().unwrap_or(0.0)).max(0.0)
    };
    p.iter().map(excess).sum()
}

/// Every table that one more unit can make of `table`, with rows in existing candidates or in new
/// ones.
fn neighbours(table: &Table, alone: &Alone, adds: &[i64]) -> Vec<Table> {
    let mut found: Vec<(Table, u64, Vec<u32>)> = vec![(table.clone(), 0, Vec::new())];
    let mut from = 0;
    while from < found.len() {
        let (next, used, touched) = found[from].clone();
        from += 1;
        if touched.len() as u64 == alone.groups {
            continue;
        }
        // In ascending order, so that no table is made twice.
        let last = touched.last().copied();
        let keys = table.keys().copied().chain(100..100 + alone.groups as u32);
        for key in keys.filter(|key| last.is_none_or(|last| *key > last)) {
            let left = alone.total.map_or(alone.rows, |total| alone.rows.min(total - used));
            for rows in 1..=left {
                for add in adds {
                    let mut changed = next.clone();
                    *changed.entry(key).or_insert(0) += add * rows as i64;
                    found.push((changed, used + rows, [&touched[..], &[key]].concat()));
                }
            }
        }
    }
    found.into_iter().map(|(table, ..)| table).collect()
}

fn tables(threshold: i64) -> Vec<Table> {
    let table = |scores: &[i64]| (0..).zip(scores.iter().copied()).collect::<Table>();
    vec![table(&[]), table(&[0]), table(&[threshold, threshold - 2]), table(&[threshold + 3])]
}

const BOUNDS: [(u64, u64, Option<u64>, u64); 4] =
    [(1, 1, None, 1), (2, 1, None, 1), (2, 2, Some(3), 1), (2, 1, None, 3)];

/// Compares all lists of one and of two candidates, for all tables and all neighbours. The excess
/// never exceeds δ, and somewhere it is more than the share `least` of δ.
fn are_private(case: &str, least: f64, of: Calibrating<'_>) {
    for (groups, rows, total, of_row) in BOUNDS {
        let alone = Alone { groups, rows, total, of_row };
        let most = u128::from(total.unwrap_or(u64::MAX).min(groups * rows));
        let l1 = most * u128::from(of_row);
        // As many groups as possible have all of their rows; one more group has the rest.
        let (full, rest) = (most / u128::from(rows), most % u128::from(rows));
        let l2_squared = (full * u128::from(rows * rows) + rest * rest) * u128::from(of_row).pow(2);
        let (keys, at, goal) = of(&alone, l1, l2_squared);
        let threshold = i64::try_from(keys.threshold()).unwrap();
        let noise = noise_law(keys.noise(), 3 * threshold + 30);
        let adds: &[i64] = if of_row == 1 { &[0, 1] } else { &[0, of_row as i64] };
        let mut tightest = 0.0_f64;
        for table in tables(threshold) {
            for neighbour in neighbours(&table, &alone, adds) {
                for most in [1, 2] {
                    let p = lists(&table, &noise, threshold, most);
                    let q = lists(&neighbour, &noise, threshold, most);
                    assert!((p.values().sum::<f64>() - 1.0).abs() < 1e-9);
                    assert!((q.values().sum::<f64>() - 1.0).abs() < 1e-9);
                    let spent = least_delta(&p, &q, at).max(least_delta(&q, &p, at));
                    assert!(
                        spent <= goal * (1.0 + 1e-9) + 1e-12,
                        "{case} {alone:?}: {spent} from {table:?} to {neighbour:?}"
                    );
                    tightest = tightest.max(spent / goal);
                }
            }
        }
        assert!(tightest > least, "{case} {alone:?}: {tightest} of δ at most");
    }
}

#[test]
fn lists_are_private_with_laplace_noise() {
    for (e, d) in [("1", "0.01"), ("3", "0.2")] {
        are_private(e, 0.2, &|alone, l1, _| {
            let keys = NoisyKeys::laplace(l1, &epsilon(e), &delta(d), alone).unwrap();
            (keys, e.parse().unwrap(), d.parse().unwrap())
        });
    }
}

#[test]
fn lists_are_private_with_gaussian_noise() {
    for (e, d) in [("1", "0.02"), ("3", "0.2")] {
        are_private(e, 0.02, &|alone, _, l2_squared| {
            let groups = alone.groups;
            let keys =
                NoisyKeys::gaussian(l2_squared, groups, &epsilon(e), &delta(d), alone).unwrap();
            (keys, e.parse().unwrap(), d.parse().unwrap())
        });
    }
}

/// Rényi: unless a candidate of one unit alone is shown, which has probability at most δ, the laws
/// are those of the other candidates. Their divergence of order α is at most α·ρ.
#[test]
fn lists_are_concentrated_but_for_delta() {
    let alone = Alone { groups: 2, rows: 1, total: None, of_row: 1 };
    let (rho, d) = ("0.3", 0.01);
    let keys = NoisyKeys::concentrated(2, &rho.parse().unwrap(), &delta("0.01"), &alone).unwrap();
    let threshold = i64::try_from(keys.threshold()).unwrap();
    let noise = noise_law(keys.noise(), 3 * threshold + 30);
    for table in tables(threshold) {
        for neighbour in neighbours(&table, &alone, &[0, 1]) {
            let p = lists(&table, &noise, threshold, 2);
            let q = lists(&neighbour, &noise, threshold, 2);
            let own = |list: &Vec<u32>| list.iter().all(|key| table.contains_key(key));
            let shared: Law = q.into_iter().filter(|(list, _)| own(list)).collect();
            let kept: f64 = shared.values().sum();
            assert!(kept >= 1.0 - d, "{table:?} {neighbour:?}: {kept}");
            for alpha in [1.5_f64, 4.0, 30.0] {
                let divergence = |p: &dyn Fn(&Vec<u32>) -> f64, q: &dyn Fn(&Vec<u32>) -> f64| {
                    let sum: f64 = shared
                        .keys()
                        .map(|list| p(list).powf(alpha) * q(list).powf(1.0 - alpha))
                        .filter(|term| term.is_finite())
                        .sum();
                    sum.ln() / (alpha - 1.0)
                };
                let of = |list: &Vec<u32>| p.get(list).copied().unwrap_or(0.0);
                let conditional = |list: &Vec<u32>| shared[list] / kept;
                for found in [divergence(&of, &conditional), divergence(&conditional, &of)] {
                    assert!(found <= alpha * 0.3 + 1e-6, "{table:?} {neighbour:?} {alpha} {found}");
                }
            }
        }
    }
}

#[test]
fn what_breaks_it() {
    let alone = Alone { groups: 1, rows: 1, total: None, of_row: 1 };
    let keys = NoisyKeys::laplace(1, &epsilon("1"), &delta("0.01"), &alone).unwrap();
    let threshold = i64::try_from(keys.threshold()).unwrap();
    let noise = noise_law(keys.noise(), 60);
    let none = Table::new();
    let spent = |to: &Table, threshold: i64| {
        least_delta(&lists(to, &noise, threshold, 2), &lists(&none, &noise, threshold, 2), 1.0)
    };
    let one = Table::from([(7, 1)]);
    assert!(spent(&one, threshold) <= 0.01);
    // A threshold that is one lower is not private.
    assert!(spent(&one, threshold - 1) > 0.01);
    // Neither are three new candidates where the calibration allows one, nor a row that adds three.
    assert!(spent(&Table::from([(7, 1), (8, 1), (9, 1)]), threshold) > 0.01);
    assert!(spent(&Table::from([(7, 3)]), threshold) > 0.03);
}

#[test]
fn thresholds_are_those_of_partitions() {
    let of = |groups, rows, of_row, l1| {
        let alone = Alone { groups, rows, total: None, of_row };
        NoisyKeys::laplace(l1, &epsilon("1"), &delta("1e-6"), &alone).unwrap()
    };
    let one = of(1, 1, 1, 1);
    assert_eq!(one.threshold(), 15);
    // P(X < −2) = e⁻³/(1 + e⁻¹) = 0.036.
    assert_eq!(one.reached_from(&Rational::new(1.into(), 20.into())), 17);
    assert_eq!(of(3, 1, 1, 3).threshold(), 45);
    assert_eq!(of(1, 1, 1000, 1000).threshold(), 14_123);
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; the seed is fixed.
#[test]
fn draws_follow_the_law() {
    let alone = Alone { groups: 2, rows: 1, total: None, of_row: 1 };
    let at = epsilon("1");
    let laplace = NoisyKeys::laplace(2, &at, &delta("0.1"), &alone).unwrap();
    let rho: Rho = "0.2".parse().unwrap();
    let gaussian = NoisyKeys::concentrated(2, &rho, &delta("0.1"), &alone).unwrap();
    for keys in [laplace, gaussian] {
        let threshold = i64::try_from(keys.threshold()).unwrap();
        let table: Table = (0..).zip([threshold - 1, threshold, 0]).collect();
        let noise = noise_law(keys.noise(), 120);
        let scores: Vec<i128> = table.values().map(|score| (*score).into()).collect();
        let law = lists(&table, &noise, threshold, 2);
        let (names, chances): (Vec<_>, Vec<_>) = law.into_iter().unzip();
        let mut counts = vec![0_u64; names.len()];
        let mut rng = QueryRng::seeded_for_tests(23);
        for _ in 0..60_000 {
            // The candidates in another order than that of their places.
            let turned: Vec<i128> = scores.iter().rev().copied().collect();
            let chosen = keys.choose(&turned, &[2, 1, 0], 2, &mut rng);
            let list: Vec<u32> = chosen.into_iter().map(|i| 2 - i as u32).collect();
            counts[names.iter().position(|name| *name == list).unwrap()] += 1;
        }
        assert_frequencies("lists", &counts, &chances);
        assert!(keys.choose(&[], &[], 2, &mut rng).is_empty());
    }
}
