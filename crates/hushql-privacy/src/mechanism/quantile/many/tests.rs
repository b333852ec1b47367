//! Tests the law of lists of quantiles on small tables against its definition, its loss on all
//! neighbours of them, and its errors.

use std::collections::BTreeMap;

use super::*;
use crate::mechanism::quantile::range;
use crate::mechanism::quantile::tests::{flat, multisets};
use crate::privacy::{Epsilon, Selecting, parse_decimal};
use crate::sampler::tests::statistics::assert_frequencies;

/// What each quantile drew: a part, or for a leaf a tick. `None` if its interval is empty.
type Transcript = Vec<Option<u64>>;
type Law = BTreeMap<Transcript, f64>;

fn histogram(rows: &[u64]) -> Vec<(u64, i128)> {
    rows.chunk_by(u64::eq).map(|equal| (equal[0], equal.len() as i128)).collect()
}

fn fractions(nums: &[u64], den: u64) -> Fractions {
    Fractions::new(nums.to_vec(), den).unwrap()
}

fn calibrated(rows: u128, epsilon: &str) -> Exponential {
    Exponential::calibrate(2 * rows, &epsilon.parse().unwrap()).unwrap()
}

/// A list of quantiles with the law of each of its choices: winners and probabilities.
trait Choices {
    fn ends(&self) -> (u64, u64);
    fn is_leaf(&self, quantile: usize) -> bool;
    fn winners(&self, quantile: usize, within: &Range<u64>) -> Vec<(u64, f64)>;
}

/// The law of all transcripts.
fn law(choices: &dyn Choices, within: Range<u64>, quantiles: Range<usize>, most: usize) -> Law {
    let middle = (quantiles.start + quantiles.end) / 2;
    if quantiles.is_empty() || within.is_empty() {
        return Law::from([(vec![None; most], 1.0)]);
    }
    let mut all = Law::new();
    for (winner, p) in choices.winners(middle, &within) {
        let split = winner + 1;
        let [lower, upper] = match choices.is_leaf(middle) {
            true => [0..0, 0..0],
            false => [within.start..split, split..within.end],
        };
        let lower = law(choices, lower, quantiles.start..middle, most);
        let upper = law(choices, upper, middle + 1..quantiles.end, most);
        for (low, below) in &lower {
            for (high, above) in &upper {
                let mut both: Transcript = low.iter().zip(high).map(|(a, b)| a.or(*b)).collect();
                both[middle] = Some(winner);
                *all.entry(both).or_default() += p * below * above;
            }
        }
    }
    all
}

/// The choices as they are drawn.
struct Drawn<'a> {
    many: &'a ManyQuantiles,
    points: Vec<(u64, i128)>,
}

impl Choices for Drawn<'_> {
    fn ends(&self) -> (u64, u64) {
        (0, (self.many.last + 1) * self.many.parts)
    }

    fn is_leaf(&self, quantile: usize) -> bool {
        self.many.splits[quantile].is_leaf
    }

    fn winners(&self, quantile: usize, within: &Range<u64>) -> Vec<(u64, f64)> {
        let split = &self.many.splits[quantile];
        let runs = self.many.runs(&self.points, within, split).unwrap();
        let (mut candidates, mut scores) = (Vec::new(), Vec::new());
        for (first, run) in runs.each() {
            assert_eq!(run.weight, 1);
            candidates.extend((0..run.count).map(|place| first + place));
            scores.extend((0..run.count).map(|place| run.score_at(place).unwrap()));
        }
        assert!(candidates.is_sorted_by(|a, b| a + 1 == *b), "each candidate once, in order");
        let probabilities = split.exponential.probabilities(&scores);
        candidates.into_iter().zip(probabilities).collect()
    }
}

/// The choices by their definition: each row is counted part by part.
struct Defined<'a> {
    rows: &'a [u64],
    last: u64,
    parts: u64,
    fractions: &'a Fractions,
    /// ε over the rows of a unit.
    per_row: f64,
}

impl Defined<'_> {
    /// The numbers of the fractions around one, by halving the list.
    fn around(&self, quantile: usize) -> [u64; 2] {
        let nums = self.fractions.nums();
        let (mut from, mut to, mut ends) = (0, nums.len(), [0, self.fractions.den()]);
        loop {
            let middle = (from + to) / 2;
            match quantile {
                own if own < middle => (to, ends[1]) = (middle, nums[middle]),
                own if own > middle => (from, ends[0]) = (middle + 1, nums[middle]),
                _ => return ends,
            }
        }
    }
}

impl Choices for Defined<'_> {
    fn ends(&self) -> (u64, u64) {
        (0, (self.last + 1) * self.parts)
    }

    /// By the sizes of halves: k, ⌊k/2⌋, ….
    fn is_leaf(&self, quantile: usize) -> bool {
        let (mut from, mut to) = (0, self.fractions.nums().len());
        while to - from > 1 {
            let middle = (from + to) / 2;
            match quantile {
                own if own < middle => to = middle,
                own if own > middle => from = middle + 1,
                _ => return false,
            }
        }
        true
    }

    fn winners(&self, quantile: usize, within: &Range<u64>) -> Vec<(u64, f64)> {
        let [low, high] = self.around(quantile);
        let (num, den) = ((self.fractions.nums()[quantile] - low) as f64, (high - low) as f64);
        let place = num / den;
        // One part of each row on each part of its tick that lies in the interval.
        let mut inside: Vec<f64> = Vec::new();
        for part in within.clone() {
            let tick = part / self.parts;
            let rows = self.rows.iter().filter(|row| **row == tick).count();
            inside.push(rows as f64 / self.parts as f64);
        }
        let total: f64 = inside.iter().sum();
        let is_leaf = self.is_leaf(quantile);
        let group = |part: u64| if is_leaf { part / self.parts } else { part };
        let mut candidates: Vec<u64> = within.clone().map(group).collect();
        candidates.dedup();
        let distance = |candidate: u64| {
            let sum = |which: &dyn Fn(u64) -> bool| -> f64 {
                let own = within.clone().zip(&inside).filter(|(part, _)| which(group(*part)));
                own.map(|(_, rows)| *rows).sum()
            };
            let below = sum(&|other| other < candidate);
            let up_to = sum(&|other| other <= candidate);
            (below - place * total).max(place * total - up_to).max(0.0)
        };
        let levels = f64::from(usize::BITS - self.fractions.nums().len().leading_zeros());
        let rate = self.per_row / levels / (2.0 * place.max(1.0 - place));
        let weight = |candidate: &u64| (-rate * distance(*candidate)).exp();
        let weights: Vec<f64> = candidates.iter().map(weight).collect();
        let all: f64 = weights.iter().sum();
        candidates.into_iter().zip(weights).map(|(c, weight)| (c, weight / all)).collect()
    }
}

fn law_of(choices: &dyn Choices, most: usize) -> Law {
    let (start, end) = choices.ends();
    law(choices, start..end, 0..most, most)
}

fn drawn(many: &ManyQuantiles, rows: &[u64]) -> Law {
    law_of(&Drawn { many, points: histogram(rows) }, many.splits.len())
}

#[test]
fn fractions_ascend_between_the_ends() {
    for nums in [vec![], vec![0, 1], vec![1, 1], vec![2, 1], vec![1, 4], vec![1; 101]] {
        assert_eq!(Fractions::new(nums.clone(), 4), None, "{nums:?}");
    }
    assert_eq!(Fractions::new((1..=101).collect(), 1_000), None);
    let levels = |k: u64| Fractions::new((1..=k).collect(), 1_000).unwrap().levels();
    assert_eq!([1, 2, 3, 4, 7, 8, 9, 100].map(levels), [1, 2, 2, 3, 3, 4, 4, 7]);
    assert_eq!(parts_of_a_tick(74), 1 << 20);
    assert_eq!((parts_of_a_tick(1 << 50), parts_of_a_tick(u64::MAX)), (1 << 12, 1));
}

/// All tables of at most four rows: every transcript has the probability of the definition.
#[test]
fn every_transcript_has_its_probability() {
    let mut transcripts = 0;
    for (nums, den, last, parts) in [
        (vec![1, 2, 3], 4, 2, 2),
        (vec![1, 5, 9], 10, 2, 3),
        (vec![2, 3], 7, 3, 2),
        (vec![1, 2, 3, 4], 5, 2, 1),
        (vec![1, 2, 3, 4, 5, 6, 7], 8, 1, 2),
        (vec![1], 4, 4, 3),
    ] {
        let list = fractions(&nums, den);
        let many = ManyQuantiles::with_parts(&calibrated(2, "3"), &list, last, parts).unwrap();
        for rows in multisets(last, 4) {
            let defined =
                Defined { rows: &rows, last, parts, fractions: &list, per_row: 3.0 / 2.0 };
            let (own, defined) = (drawn(&many, &rows), law_of(&defined, nums.len()));
            assert!(own.keys().eq(defined.keys()), "{nums:?} {rows:?}");
            for (transcript, p) in &own {
                let expected = defined[transcript];
                assert!(
                    (p / expected - 1.0).abs() < 1e-9,
                    "{rows:?} {transcript:?} {p} {expected}"
                );
            }
            assert!((own.values().sum::<f64>() - 1.0).abs() < 1e-9);
            transcripts += own.len();
        }
    }
    assert!(transcripts > 4_000, "{transcripts}");
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed. The ticks follow the law
/// of the transcripts, an interval without parts included.
#[test]
fn draws_follow_the_law() {
    for (turn, (nums, rows, last, parts)) in (0..).zip([
        (vec![1, 2, 3], vec![0, 1, 1, 3], 3, 2),
        (vec![1, 2, 3], vec![2, 2, 2, 2], 2, 3),
        (vec![1, 3], vec![], 1, 2),
        (vec![1, 2, 3], vec![1, 1, 1, 1], 1, 1),
    ]) {
        let list = fractions(&nums, 4);
        let many = ManyQuantiles::with_parts(&calibrated(1, "6"), &list, last, parts).unwrap();
        let mut ticks: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
        for (transcript, p) in drawn(&many, &rows) {
            let tick = |i: usize| {
                transcript[i]
                    .map(|drawn| if many.splits[i].is_leaf { drawn } else { drawn / parts })
            };
            // An empty interval follows the last part of a tick, or lies behind the last one.
            let middle = nums.len() / 2;
            let own = (0..nums.len()).map(|i| tick(i).or_else(|| tick(middle)).unwrap());
            *ticks.entry(own.collect()).or_default() += p;
        }
        let (keys, law): (Vec<Vec<u64>>, Vec<f64>) = ticks.into_iter().unzip();
        assert!(keys.iter().all(|ticks| ticks.is_sorted()), "ascending");
        let mut rng = QueryRng::seeded_for_tests(80 + turn);
        let mut counts = vec![0_u64; keys.len()];
        for _ in 0..20_000 {
            let own = many.choose(&histogram(&rows), &mut rng).unwrap();
            counts[keys.iter().position(|key| *key == own).unwrap()] += 1;
        }
        assert_frequencies(&format!("{nums:?} {rows:?}"), &counts, &law);
    }
}

/// One quantile has the law of a quantile alone, and so its loss.
#[test]
fn a_list_of_one_is_one_quantile() {
    for (num, den) in [(1, 2), (1, 4), (9, 10)] {
        let rank = Rank::Fraction { num, den };
        let alone = Exponential::calibrate(range(rank, 3).unwrap(), &"2".parse().unwrap()).unwrap();
        let list = fractions(&[num], den);
        let many = ManyQuantiles::new(&calibrated(3, "2"), &list, 4).unwrap();
        let beta = parse_decimal("0.05").unwrap();
        let in_rows = alone.error_at(5, &beta) / den as f64;
        assert!((many.error_at(&beta) - in_rows).abs() <= 1.0 / den as f64, "{num}/{den}");
        for rows in multisets(4, 4) {
            let scores = flat(&quantile_runs(&histogram(&rows), 4, rank).unwrap());
            let law = drawn(&many, &rows);
            for (tick, p) in alone.probabilities(&scores).into_iter().enumerate() {
                let own = law[&vec![Some(tick as u64)]];
                assert!((own - p).abs() < 1e-12, "{rows:?} {tick}");
            }
        }
    }
}

/// The largest loss of `many`, as a part of `epsilon`, between any table of at most `most` rows and
/// the same with a unit of at most `unit` rows; and the largest Rényi divergence over its order, as
/// a part of `rho`.
fn loss(many: &ManyQuantiles, most: usize, unit: usize, epsilon: f64, rho: f64) -> [f64; 2] {
    let last = many.last;
    let laws: BTreeMap<Vec<u64>, Law> = multisets(last, most + unit)
        .into_iter()
        .map(|rows| (rows.clone(), drawn(many, &rows)))
        .collect();
    let (mut worst, mut divergence) = (0.0_f64, 0.0_f64);
    for rows in multisets(last, most) {
        for own in multisets(last, unit) {
            let mut all: Vec<u64> = rows.iter().chain(&own).copied().collect();
            all.sort_unstable();
            for (p, q) in [(&laws[&rows], &laws[&all]), (&laws[&all], &laws[&rows])] {
                for (transcript, p) in p {
                    worst = worst.max((p / q[transcript]).ln());
                }
                for order in [1.1, 1.5, 2.0, 4.0, 16.0] {
                    let moment = |(t, p): (&Transcript, &f64)| p * (p / q[t]).powf(order - 1.0);
                    let moment: f64 = p.iter().map(moment).sum();
                    divergence = divergence.max(moment.ln() / (order - 1.0) / order);
                }
            }
        }
    }
    [worst / epsilon, divergence / rho]
}

/// One unit changes the probability of any transcript by a factor of at most e^ε, and the release
/// costs no more ρ than its levels: with a person's rows on both sides of a split, on its tick, and
/// among rows of the same value. The same lists at the ε of one level, or of one row, lose more.
#[test]
fn a_person_is_worth_epsilon() {
    let at = |list: &Fractions, rows: u128, epsilon: &str, last, parts| {
        ManyQuantiles::with_parts(&calibrated(rows, epsilon), list, last, parts).unwrap()
    };
    let rho = |epsilon: &str, levels: u32| {
        let epsilon: Epsilon = epsilon.parse().unwrap();
        Selecting::BoundedRange.rho(epsilon.value(), levels.into()).to_f64().unwrap()
    };
    for (nums, den, last, parts, most, unit, epsilon) in [
        (vec![1, 2, 3], 4, 2, 1, 2, 1, "3"),
        (vec![1, 2, 3], 4, 2, 2, 2, 1, "6"),
        (vec![1, 5, 9], 10, 1, 3, 2, 1, "1"),
        (vec![1, 2, 3], 4, 1, 4, 3, 1, "12"),
        (vec![1, 2, 3], 4, 3, 1, 2, 2, "6"),
        (vec![1, 2, 3], 4, 1, 2, 3, 2, "12"),
        (vec![1, 2, 3, 4], 5, 2, 1, 2, 1, "24"),
        (vec![1, 2, 3, 4, 5], 6, 1, 2, 1, 2, "16"),
        (vec![1, 2, 3, 4, 5, 6, 7], 8, 2, 1, 1, 1, "4"),
    ] {
        let list = fractions(&nums, den);
        let what = format!("{nums:?}/{den} last {last} parts {parts} unit {unit}");
        let exact = epsilon.parse::<f64>().unwrap();
        let rho = rho(epsilon, list.levels());
        let many = at(&list, unit as u128, epsilon, last, parts);
        let [own, divergence] = loss(&many, most, unit, exact, rho);
        assert!(own <= 1.0 + 1e-9 && own > 0.3, "{what}: {own}");
        assert!(divergence <= 1.0 + 1e-9 && divergence > 0.05, "{what}: {divergence}");
    }
    // Every level at the whole ε.
    let list = fractions(&[1, 2, 3], 4);
    let [twice, _] = loss(&at(&list, 1, "6", 2, 1), 2, 1, 3.0, 1.0);
    assert!(twice > 1.1, "{twice}");
    // Calibrated to one row of two.
    let [of_one, _] = loss(&at(&list, 1, "6", 3, 1), 2, 2, 6.0, 1.0);
    assert!(of_one > 1.1, "{of_one}");
    // A row as a part of itself: the choices know nothing of parts.
    let parts = 4;
    let mut blunt = at(&list, 1, "12", 1, parts);
    for split in &mut blunt.splits {
        let whole = split.exponential.exponent() * Rational::from_integer(parts.into());
        split.exponential.rate = Rate::at_most(whole).unwrap();
    }
    let [of_parts, _] = loss(&blunt, 3, 1, 12.0, 1.0);
    assert!(of_parts > 1.1, "{of_parts}");
}

/// The stated error holds for all tables of at most four rows: with its parents' errors.
#[test]
fn errors_hold() {
    let mut exceeded = 0.0_f64;
    for (nums, den, last, parts) in
        [(vec![1, 2, 3], 4, 1, 64), (vec![1, 9], 10, 2, 64), (vec![1, 2, 3, 4, 5], 6, 1, 16)]
    {
        let list = fractions(&nums, den);
        let many = ManyQuantiles::with_parts(&calibrated(1, "40"), &list, last, parts).unwrap();
        for beta in ["0.05", "0.5"] {
            let error = many.error_at(&parse_decimal(beta).unwrap());
            for rows in multisets(last, 4) {
                let most = histogram(&rows).iter().map(|(_, rows)| *rows).max().unwrap_or(0);
                let bound = error + 7.0 * most as f64 / parts as f64;
                let mut worse = 0.0;
                for (transcript, p) in drawn(&many, &rows) {
                    let is_worse = (0..nums.len()).any(|i| {
                        let Some(drawn) = transcript[i] else { return false };
                        let tick = if many.splits[i].is_leaf { drawn } else { drawn / parts };
                        let wanted = nums[i] as f64 / den as f64 * rows.len() as f64;
                        let below = rows.iter().filter(|row| **row < tick).count() as f64;
                        let up_to = rows.iter().filter(|row| **row <= tick).count() as f64;
                        (below - wanted).max(wanted - up_to) > bound
                    });
                    worse += if is_worse { p } else { 0.0 };
                }
                assert!(worse <= beta.parse::<f64>().unwrap(), "{nums:?} {rows:?}: {worse}");
                exceeded = exceeded.max(worse);
            }
        }
        assert!(many.expected_error() > 0.0 && many.expected_error().is_finite());
    }
    assert!(exceeded > 0.0, "no error is as large as the bound");
    // Seven quantiles in three levels, each in the middle of its interval: the second level has
    // half of the error of the first, and the third half of the errors of both.
    let list = fractions(&[1, 2, 3, 4, 5, 6, 7], 8);
    let many = ManyQuantiles::new(&calibrated(1, "1"), &list, 99).unwrap();
    let (beta, each) = (parse_decimal("0.07").unwrap(), parse_decimal("0.01").unwrap());
    let in_rows = 2.0 * many.parts as f64;
    let alone = |split: usize, candidates: usize| {
        many.splits[split].exponential.error_at(candidates, &each) / in_rows
    };
    let [root, leaf] = [alone(3, 100 * many.parts as usize), alone(2, 100)];
    let second = root / 2.0 + root;
    let third = (root + second) / 2.0 + leaf;
    assert!((many.error_at(&beta) / second.max(third) - 1.0).abs() < 1e-9, "{root} {leaf}");
}

#[test]
fn many_equal_rows_are_divided() {
    // Three of four rows are 40: the quartiles from 25 % on are 40.
    let rows = [(20, 20_000), (40, 75_000), (60, 5_000)];
    let list = fractions(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 10);
    let many = ManyQuantiles::new(&calibrated(1, "1"), &list, 98).unwrap();
    let mut rng = QueryRng::seeded_for_tests(5);
    for _ in 0..50 {
        let chosen = many.choose(&rows, &mut rng).unwrap();
        assert_eq!(chosen[0], 20);
        assert!(chosen[2..].iter().all(|tick| *tick == 40), "{chosen:?}");
    }
}

#[test]
fn extremes_do_not_overflow() {
    let list = fractions(&[250_000_000, 500_000_000, 999_999_999], 1_000_000_000);
    let mut rng = QueryRng::seeded_for_tests(9);
    let whole = calibrated(1, "1");
    assert!(ManyQuantiles::new(&whole, &list, u64::MAX).is_err());
    let widest = ManyQuantiles::new(&whole, &list, u64::MAX - 1).unwrap();
    let chosen = widest.choose(&[(u64::MAX - 1, 1 << 60)], &mut rng).unwrap();
    assert!(chosen.is_sorted());
    let many = ManyQuantiles::new(&whole, &list, 9).unwrap();
    assert!(many.choose(&[(3, i128::MAX)], &mut rng).is_err());
    assert!(many.choose(&[(3, i128::MAX >> 10), (4, 1)], &mut rng).is_err());
    // 2⁴⁶ rows fit.
    let most = many.choose(&[(3, 1 << 45), (99, 1 << 44), (2, -7)], &mut rng).unwrap();
    assert_eq!(most, [3, 3, 9]);
    assert!(ManyQuantiles::new(&calibrated(1 << 100, "0.001"), &list, 9).is_err());
}
