//! The exact (ε, δ) of small selections, in both directions, and mistakes that break it.

use std::collections::BTreeMap;

use super::*;
use crate::mechanism::{Exponential, PermuteAndFlip};
use crate::sampler::tests::statistics::assert_frequencies;

const RULES: [UnknownRule; 2] = [UnknownRule::Exponential, UnknownRule::PermuteAndFlip];

/// Candidates and their scores.
type Table = BTreeMap<u32, i128>;
/// Permute-and-flip reaches a new key only if it comes before ⊥, so it never spends half of δ.
fn slack(rule: UnknownRule) -> f64 {
    match rule {
        UnknownRule::Exponential => 1.0,
        UnknownRule::PermuteAndFlip => 2.0,
    }
}

/// The outcomes that can be shown: a key, or ⊥.
type Law = BTreeMap<Option<u32>, f64>;

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn delta(text: &str) -> Delta {
    text.parse().unwrap()
}

/// The law of one round in which ⊥ scores `nobody`; without a score, there is no ⊥.
fn law(table: &Table, nobody: Option<i128>, rule: UnknownRule, range: u128, at: &Epsilon) -> Law {
    let scores: Vec<i128> = table.values().copied().chain(nobody).collect();
    let chances = match rule {
        UnknownRule::Exponential => {
            Exponential::calibrate(range, at).unwrap().probabilities(&scores)
        }
        UnknownRule::PermuteAndFlip => {
            PermuteAndFlip::calibrate(range, at).unwrap().probabilities(&scores)
        }
    };
    table.keys().map(|key| Some(*key)).chain(nobody.map(|_| None)).zip(chances).collect()
}

/// The least δ with P(S) ≤ e^ε·P′(S) + δ for all S.
fn least_delta<T: Ord>(p: &BTreeMap<T, f64>, other: &BTreeMap<T, f64>, epsilon: f64) -> f64 {
    let excess = |(outcome, chance): (&T, &f64)| {
        (chance - epsilon.exp() * other.get(outcome).copied().unwrap_or(0.0)).max(0.0)
    };
    p.iter().map(excess).sum()
}

/// The least δ for both directions of neighbourhood.
fn worse_delta<T: Ord>(p: &BTreeMap<T, f64>, q: &BTreeMap<T, f64>, epsilon: f64) -> f64 {
    least_delta(p, q, epsilon).max(least_delta(q, p, epsilon))
}

/// Every table that one more unit can make of `table`: at most `keys` candidates changed or
/// created, by one of `changes`.
fn neighbours(table: &Table, keys: usize, changes: &[i128]) -> Vec<Table> {
    let mut found = vec![table.clone()];
    for _ in 0..keys {
        let mut more = Vec::new();
        for next in &found {
            let touched = |key: &u32| next.get(key) != table.get(key);
            for key in table.keys().copied().chain(100..100 + keys as u32) {
                if !touched(&key) {
                    for change in changes {
                        let mut changed = next.clone();
                        *changed.entry(key).or_insert(0) += change;
                        more.push(changed);
                    }
                }
            }
        }
        found.extend(more);
    }
    found.sort();
    found.dedup();
    found
}

fn tables(nobody: i128) -> Vec<Table> {
    let table = |scores: &[i128]| (0..).zip(scores.iter().copied()).collect::<Table>();
    vec![
        table(&[]),
        table(&[0]),
        table(&[1, 2]),
        table(&[nobody]),
        table(&[nobody - 1, nobody - 3]),
        table(&[nobody + 2, 0, nobody]),
        table(&[3 * nobody]),
    ]
}

#[test]
fn nobody_scores_what_the_formula_says() {
    let nobody = |range, e: &str, d: &str, keys, rounds| {
        Unknown::calibrate(range, &epsilon(e), &delta(d), keys, rounds).unwrap().nobody()
    };
    // 1 + ln 10⁶ = 14.8155; ·1000; + ln 3; two rounds: 1 + 2·(ln 6 + ln 10⁶); ε = 2: 1 + (ln
    // 10⁶)/2.
    assert_eq!(nobody(1, "1", "1e-6", 1, 1), 15);
    assert_eq!(nobody(1000, "1", "1e-6", 1, 1), 14_816);
    assert_eq!(nobody(1000, "1", "1e-6", 3, 1), 15_915);
    assert_eq!(nobody(1000, "1", "1e-6", 3, 2), 32_215);
    assert_eq!(nobody(1000, "2", "1e-6", 1, 1), 7_908);
    assert_eq!(nobody(0, "1", "1e-6", 0, 1), 15);
    // A share that is rounded down raises the score of ⊥: a third of ε is 0.333333333.
    assert!(nobody(1 << 40, "1", "1e-6", 1, 3) > (1_i128 << 40) * 45);
    assert!(Unknown::calibrate(u128::MAX, &epsilon("1"), &delta("1e-6"), 1, 1).is_err());
    for (e, d, rounds) in [("1e-9", "1e-12", 2), ("1", "1e-18", 2), ("1", "1e-6", 0)] {
        let refused = Unknown::calibrate(1, &epsilon(e), &delta(d), 1, rounds);
        assert!(matches!(refused, Err(MechanismError::TooManyRounds)), "{e} {d}");
    }
}

#[test]
fn delta_beyond_the_growth_of_epsilon_is_refused() {
    let fine = |e: &str, d: &str| Unknown::calibrate(1, &epsilon(e), &delta(d), 1, 1).is_ok();
    // e^0.1 − 1 = 0.105170918075647624…; e^0.000001 − 1 = 10⁻⁶ + 5·10⁻¹³ + ….
    assert!(fine("0.1", "0.105170918075647624") && !fine("0.1", "0.105170918075647625"));
    assert!(fine("1e-6", "1.0000005e-6") && !fine("1e-6", "1.000000500001e-6"));
    assert!(fine("0.7", "0.999999999999999999") && !fine("0.69", "0.999999999999999999"));
    assert!(fine("1e-9", "1e-9") && !fine("1e-9", "1.1e-9") && fine("1000000", "0.5"));
    let refused = Unknown::calibrate(1, &epsilon("0.1"), &delta("0.2"), 1, 1);
    assert!(matches!(refused, Err(MechanismError::DeltaTooLarge)));
    // Per round: e^0.05 − 1 = 0.051.
    assert!(Unknown::calibrate(1, &epsilon("0.1"), &delta("0.1025"), 1, 2).is_ok());
    assert!(Unknown::calibrate(1, &epsilon("0.1"), &delta("0.1026"), 1, 2).is_err());
}

/// Counts (0 or +1 per key: range 1, and keys of score 0), signed sums (−1 … +2: range 3), and a
/// finer grid.
#[test]
fn small_selections_are_private_and_tight() {
    let cases: [(u128, &[i128]); 3] = [(1, &[0, 1]), (3, &[-1, 0, 2]), (40, &[0, 1, 40])];
    for rule in RULES {
        for (e, d) in [("1", "0.01"), ("0.3", "0.2"), ("2", "1e-6"), ("0.1", "0.105")] {
            let (mut tightest, goal) = (0.0_f64, delta(d).value().to_f64().unwrap());
            for (range, changes) in cases {
                for keys in 1..=3 {
                    let (at, most) = (epsilon(e), delta(d));
                    let unknown = Unknown::calibrate(range, &at, &most, keys as u64, 1).unwrap();
                    let nobody = Some(unknown.nobody());
                    for table in tables(unknown.nobody()) {
                        let p = law(&table, nobody, rule, range, &at);
                        for neighbour in neighbours(&table, keys.min(2 + 2 / keys), changes) {
                            let q = law(&neighbour, nobody, rule, range, &at);
                            let spent = worse_delta(&p, &q, e.parse().unwrap());
                            assert!(
                                spent <= goal * (1.0 + 1e-9) + 1e-14,
                                "{rule:?} {e} {d}, {keys} keys: {spent} from {table:?} to {neighbour:?}"
                            );
                            tightest = tightest.max(spent / goal);
                        }
                    }
                }
            }
            assert!(tightest * slack(rule) > 0.75, "{rule:?} {e} {d}: {tightest} of δ at most");
        }
    }
}

#[test]
fn what_breaks_it() {
    let (at, most, range) = (epsilon("1"), delta("1e-6"), 1000);
    let unknown = |keys| Unknown::calibrate(range, &at, &most, keys, 1).unwrap().nobody();
    for rule in RULES {
        let spent = |nobody, from: &Table, to: &Table| {
            let laws = (law(from, nobody, rule, range, &at), law(to, nobody, rule, range, &at));
            worse_delta(&laws.0, &laws.1, 1.0) / 1e-6 * slack(rule)
        };
        let none = Table::new();
        let one = Table::from([(7, 1000)]);
        assert!(spent(Some(unknown(1)), &none, &one) <= slack(rule));
        // ⊥ scores one R less: e times δ.
        let less = spent(Some(unknown(1) - 1000), &none, &one);
        assert!((less - 1_f64.exp()).abs() < 0.01, "{less}");
        // Three new keys where the calibration allows one. Keys of score 0 are keys as well.
        let three = Table::from([(7, 1000), (8, 1000), (9, 1000)]);
        assert!(spent(Some(unknown(1)), &none, &three) > 2.9);
        assert!(spent(Some(unknown(3)), &none, &three) <= slack(rule));
        let zeros = Table::from([(7, 1000), (8, 0), (9, 0)]);
        assert!(spent(Some(unknown(1)), &none, &zeros) > 1.7);
        // A new key that scores twice the range.
        assert!(spent(Some(unknown(1)), &none, &Table::from([(7, 2000)])) > 2.7);
        // Without ⊥ (for example, removed after it won), the only key of one unit is certain to
        // win.
        let other = Table::from([(1, 0)]);
        let both = Table::from([(1, 0), (7, 1000)]);
        assert!(spent(None, &other, &both) > 500_000.0);
    }
}

/// Two rounds: winners are removed; ⊥ stays and ends the list.
#[test]
fn lists_are_private_in_all() {
    let (at, most, range) = (epsilon("2"), delta("0.02"), 1_u128);
    for rule in RULES {
        let unknown = Unknown::calibrate(range, &at, &most, 2, 2).unwrap();
        let share = at.share(2).unwrap();
        let lists = |table: &Table| {
            let mut lists: BTreeMap<Vec<Option<u32>>, f64> = BTreeMap::new();
            for (first, chance) in law(table, Some(unknown.nobody()), rule, range, &share) {
                let Some(key) = first else {
                    lists.insert(vec![None], chance);
                    continue;
                };
                let left =
                    table.iter().filter(|(k, _)| **k != key).map(|(k, s)| (*k, *s)).collect();
                for (second, then) in law(&left, Some(unknown.nobody()), rule, range, &share) {
                    lists.insert(vec![first, second], chance * then);
                }
            }
            assert!((lists.values().sum::<f64>() - 1.0).abs() < 1e-9);
            lists
        };
        let mut worst = 0.0_f64;
        for table in tables(unknown.nobody()) {
            let p = lists(&table);
            for neighbour in neighbours(&table, 2, &[0, 1]) {
                worst = worst.max(worse_delta(&p, &lists(&neighbour), 2.0));
            }
        }
        assert!(worst <= 0.02 && worst > 0.001, "{rule:?}: {worst}");
    }
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; the seed is fixed.
#[test]
fn draws_follow_the_law() {
    let unknown = Unknown::calibrate(2, &epsilon("0.5"), &delta("0.1"), 2, 1).unwrap();
    let nobody = unknown.nobody();
    let table: Table = (0..).zip([nobody - 1, nobody + 2, 0, nobody]).collect();
    let scores: Vec<i128> = table.values().copied().collect();
    let mut rng = QueryRng::seeded_for_tests(17);
    for rule in RULES {
        let law = law(&table, Some(nobody), rule, 2, &epsilon("0.5"));
        let mut counts = [0_u64; 5];
        for _ in 0..50_000 {
            let winner = unknown.choose(&scores, rule, &mut rng).unwrap();
            counts[winner.map_or(0, |winner| winner + 1)] += 1;
        }
        // `None` comes first in the map, then the keys in order.
        assert_frequencies("with ⊥", &counts, &law.into_values().collect::<Vec<_>>());
        assert_eq!(unknown.choose(&[], rule, &mut rng).unwrap(), None);
    }
}
