//! Every form of selection draws by its law.
//!
//! Each statement is parsed, bound, analyzed, calibrated and run once on a small public table; then
//! only the draw repeats, from a seeded generator. What comes out is compared with probabilities
//! that the test computes from the rows by the definition of the score. Pearson's statistic must
//! stay below its 1 − 10⁻⁷ quantile (Wilson and Hilferty's approximation); seeds are fixed, so each
//! test gives one answer forever.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::util::display::array_value_to_string;
use hushql::sampler::QueryRng;
use hushql_engine::analysis::{Lookup, Lookups};
use hushql_engine::exec::{Draws, session_state};
use hushql_engine::release::{Predicted, Release};
use hushql_vault::catalog::{Privacy, Unit};

use crate::privacy::line;
use crate::privacy::selection::pearson;

const DRAWS: u32 = 20_000;

/// Rows of people: a group, a key with a domain, a word without one, a bid, a whole number.
struct People {
    rows: Vec<(i64, &'static str, &'static str, f64, i64)>,
    unit: Unit,
}

fn one_row_each(rows: &[(&'static str, &'static str, f64, i64)]) -> People {
    let rows = (0..).zip(rows).map(|(id, (g, k, bid, n))| (id, *g, *k, *bid, *n)).collect();
    People { rows, unit: Unit::Column { column: "id".to_owned(), max_rows: None, unique: true } }
}

impl People {
    fn batch(&self) -> RecordBatch {
        let rows = &self.rows;
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
        let g: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1)));
        let k: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2)));
        let bid: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.3)));
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.4)));
        let word = Arc::clone(&k);
        let columns = [("id", ids), ("g", g), ("k", k), ("word", word), ("bid", bid), ("n", n)];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, a)| (name, a, true))).unwrap()
    }

    fn release(&self, sql: &str, lookups: &Lookups) -> Release {
        let domain = |column: &str| match column {
            "g" => line::listed(&["x", "y"]),
            "k" => line::listed(&["a", "b", "c", "d"]),
            "n" => line::between("0", "9"),
            _ => None,
        };
        let (privacy, rows) = (Privacy::Private(self.unit.clone()), self.batch());
        let table = line::table("people", &rows.schema(), privacy, domain);
        line::release(sql, &table, vec![rows], lookups)
    }

    /// How often each answer comes out: the released column's values, row by row.
    async fn drawn(&self, sql: &str, lookups: &Lookups, seed: u64) -> BTreeMap<String, u32> {
        let release = self.release(sql, lookups);
        let draws = Draws::for_part(&release, 0, &session_state()).await.unwrap();
        let mut rng = QueryRng::seeded_for_tests(seed);
        let mut answers = BTreeMap::new();
        for _ in 0..DRAWS {
            let batch = draws.draw(&mut rng).unwrap();
            let last = batch.columns().last().unwrap();
            let text = |row| match last.is_null(row) {
                true => "NULL".to_owned(),
                false => array_value_to_string(last, row).unwrap(),
            };
            let answer: Vec<String> = (0..batch.num_rows()).map(text).collect();
            *answers.entry(answer.join(" ")).or_insert(0) += 1;
        }
        answers
    }

    async fn follows(&self, sql: &str, law: &[(String, f64)], seed: u64) {
        let answers = self.drawn(sql, &Lookups::default(), seed).await;
        agrees(sql, &answers, law);
    }
}

/// What came out follows the law, and nothing else came out.
fn agrees(what: &str, answers: &BTreeMap<String, u32>, law: &[(String, f64)]) {
    for answer in answers.keys() {
        assert!(law.iter().any(|(known, _)| known == answer), "{what}: {answer:?} in {answers:?}");
    }
    let seen = |answer: &String| f64::from(answers.get(answer).copied().unwrap_or(0));
    pearson(what, law.iter().map(|(answer, p)| (seen(answer), *p)), f64::from(DRAWS));
}

/// The exponential mechanism: weight·exp(rate·score), normalised.
fn exponential(rate: f64, scored: &[(String, f64, f64)]) -> Vec<(String, f64)> {
    let best = scored.iter().filter(|s| s.2 > 0.0).map(|s| s.1).fold(f64::MIN, f64::max);
    let weight = |score: f64, prior: f64| prior * (rate * (score - best)).exp();
    let total: f64 = scored.iter().map(|(_, score, prior)| weight(*score, *prior)).sum();
    scored.iter().map(|(name, s, prior)| (name.clone(), weight(*s, *prior) / total)).collect()
}

fn uniform<T: ToString>(candidates: &[T], score: impl Fn(&T) -> f64) -> Vec<(String, f64, f64)> {
    candidates.iter().map(|c| (c.to_string(), score(c), 1.0)).collect()
}

/// Rounds without replacement, each at the same rate.
fn in_rank_order(rate: f64, rounds: usize, scored: &[(String, f64, f64)]) -> Vec<(String, f64)> {
    if rounds == 0 {
        return vec![(String::new(), 1.0)];
    }
    let mut law = Vec::new();
    for (first, p) in exponential(rate, scored) {
        let left: Vec<_> = scored.iter().filter(|s| s.0 != first).cloned().collect();
        for (rest, q) in in_rank_order(rate, rounds - 1, &left) {
            law.push((format!("{first} {rest}").trim().to_owned(), p * q));
        }
    }
    law
}

fn sample() -> People {
    one_row_each(&[
        ("x", "a", 1.0, 1),
        ("x", "a", 1.0, 2),
        ("x", "b", 1.0, 2),
        ("y", "b", 3.01, 5),
        ("y", "c", 2.0, 7),
        ("y", "a", 0.5, 7),
        ("y", "a", 4.0, 3),
    ])
}

fn count(people: &People, holds: impl Fn(&(i64, &str, &str, f64, i64)) -> bool) -> f64 {
    people.rows.iter().filter(|r| holds(r)).count() as f64
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test]
async fn keys_in_rank_order_and_one_winner_per_group() {
    let people = sample();
    let counts = uniform(&KEYS, |k| count(&people, |r| r.2 == *k));
    let law = exponential(0.7, &counts);
    people.follows("SELECT ARGMAX EXPONENTIAL(eps=0.7) k FROM people GROUP BY k", &law, 1).await;
    let low: Vec<_> = counts.iter().map(|(k, score, w)| (k.clone(), -score, *w)).collect();
    let law = exponential(0.7, &low);
    people.follows("SELECT ARGMIN EXPONENTIAL(eps=0.7) k FROM people GROUP BY k", &law, 2).await;
    let law = in_rank_order(0.7, 3, &counts);
    assert_eq!(law.len(), 24);
    people.follows("SELECT TOP 3 EXPONENTIAL(eps=2.1) k FROM people GROUP BY k", &law, 3).await;
    // Each person is in one group, so that both winners have the whole ε.
    let group = |g: &'static str| uniform(&KEYS, |k| count(&people, |r| r.1 == g && r.2 == *k));
    let (x, y) = (exponential(0.9, &group("x")), exponential(0.9, &group("y")));
    let pairs: Vec<_> = x
        .iter()
        .flat_map(|(a, p)| y.iter().map(move |(b, q)| (format!("{a} {b}"), p * q)))
        .collect();
    for group in ["g, k", "k, g"] {
        let sql = format!("SELECT g, ARGMAX EXPONENTIAL(eps=0.9) k FROM people GROUP BY {group}");
        people.follows(&sql, &pairs, 4).await;
    }
}

/// The k best of counts with discrete Laplace noise of this scale on each, in the order of their
/// noisy counts; of equal ones the first in the public order comes first.
fn best_of_noisy(scale: f64, most: usize, scored: &[(String, f64, f64)]) -> Vec<(String, f64)> {
    // What lies beyond has a probability of 10⁻¹⁰.
    let reach = (24.0 * scale).ceil() as i32;
    let alpha = (-1.0 / scale).exp();
    let noise = |z: i32| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(z.abs());
    let all: Vec<(f64, f64)> = (-reach..=reach).map(|z| (f64::from(z), noise(z))).collect();
    let scores: Vec<f64> = scored.iter().map(|(_, score, _)| *score).collect();
    let [a, b, c, d] = scores.as_slice() else { panic!("four candidates") };
    let mut law: BTreeMap<[usize; 4], f64> = BTreeMap::new();
    for (i, p) in &all {
        for (j, q) in &all {
            for (k, r) in &all {
                for (l, s) in &all {
                    let noisy = [a + i, b + j, c + k, d + l];
                    let mut order = [0, 1, 2, 3];
                    // Stable: the public order stays among equals.
                    order.sort_by(|x, y| noisy[*y].total_cmp(&noisy[*x]));
                    order[most..].fill(0);
                    *law.entry(order).or_insert(0.0) += p * q * r * s;
                }
            }
        }
    }
    let names = |order: [usize; 4]| -> Vec<String> {
        order[..most].iter().map(|i| scored[*i].0.clone()).collect()
    };
    law.into_iter().map(|(order, p)| (names(order).join(" "), p)).collect()
}

/// How far each of a list is below the best left at its turn, at worst and on average over its
/// turns.
fn lost(answer: &str, scored: &[(String, f64, f64)]) -> (f64, f64) {
    let mut left: Vec<_> = scored.to_vec();
    let mut gaps = Vec::new();
    for name in answer.split(' ') {
        let best = left.iter().map(|s| s.1).fold(f64::MIN, f64::max);
        let at = left.iter().position(|s| s.0 == name).unwrap();
        gaps.push(best - left.remove(at).1);
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    (gaps.iter().copied().fold(0.0, f64::max), mean)
}

/// A person in one group moves one count: noise on all of them is that of one, where rounds have a
/// share of ε each. What AUTO and plain SQL draw is the law of the noisy counts, and within the
/// bounds that they publish.
#[tokio::test]
async fn noise_on_all_counts_where_it_errs_less() {
    let people = sample();
    let counts = uniform(&KEYS, |k| count(&people, |r| r.2 == *k));
    let low: Vec<_> = counts.iter().map(|(k, score, w)| (k.clone(), -score, *w)).collect();
    let plain = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1.4) k FROM people GROUP BY k ORDER BY COUNT(*)";
    for (sql, scored, most, seed) in [
        ("SELECT TOP 2 AUTO(eps=1.4) k FROM people GROUP BY k".to_owned(), &counts, 2, 51),
        ("SELECT BOTTOM 3 AUTO(eps=1.4) k FROM people GROUP BY k".to_owned(), &low, 3, 52),
        (format!("{plain} DESC LIMIT 3"), &counts, 3, 53),
        (format!("{plain} LIMIT 2"), &low, 2, 54),
    ] {
        let law = best_of_noisy(1.0 / 1.4, most, scored);
        people.follows(&sql, &law, seed).await;
        let release = people.release(&sql, &Lookups::default());
        let Predicted::Winner { worst, average } = release.mechanisms(0)[0].accuracy else {
            panic!("{sql}")
        };
        let kept: f64 =
            law.iter().filter(|(a, _)| lost(a, scored).0 <= worst).map(|(_, p)| p).sum();
        let mean: f64 = law.iter().map(|(a, p)| lost(a, scored).1 * p).sum();
        assert!(kept >= 0.95 && mean <= average, "{sql}: {kept} {worst} {mean} {average}");
    }
    // One list for each of two groups, which a person is in one of.
    let group = |g: &'static str| uniform(&KEYS, |k| count(&people, |r| r.1 == g && r.2 == *k));
    let (x, y) = (group("x"), group("y"));
    let (x, y) = (best_of_noisy(1.0, 2, &x), best_of_noisy(1.0, 2, &y));
    let pairs = x.iter().flat_map(|(a, p)| y.iter().map(move |(b, q)| (format!("{a} {b}"), p * q)));
    let sql = "SELECT g, TOP 2 AUTO(eps=1) k FROM people GROUP BY g, k";
    people.follows(sql, &pairs.collect::<Vec<_>>(), 55).await;
}

/// A person in two groups moves two counts: the noise has the scale of both together, not that of
/// one.
#[tokio::test]
async fn noise_has_the_scale_of_all_counts_together() {
    let unit = Unit::Column { column: "id".to_owned(), max_rows: Some(4), unique: false };
    let people = People { unit, ..sample() };
    let counts = uniform(&KEYS, |k| count(&people, |r| r.2 == *k));
    let sql = "SELECT TOP 3 AUTO(eps=1, rows=1, groups=2) k FROM people GROUP BY k";
    people.follows(sql, &best_of_noisy(2.0, 3, &counts), 56).await;
}

/// Which of both it is follows from the published bounds; what is asked for by its name stays, and
/// hears of the other.
#[tokio::test]
async fn the_mechanism_with_the_smaller_bound_is_taken() {
    let one = sample();
    let several = |most| People {
        unit: Unit::Column { column: "id".to_owned(), max_rows: Some(most), unique: false },
        rows: sample().rows,
    };
    let taken = |people: &People, list: &str| {
        let sql = format!("SELECT {list} k FROM people GROUP BY k");
        let release = people.release(&sql, &Lookups::default());
        let one = release.mechanisms(0)[0].clone();
        assert_eq!(release.loss().epsilon().map(ToString::to_string), Some("1".to_owned()));
        (one.mechanism.name().to_string(), one.instead)
    };
    for (people, list, mechanism) in [
        (&one, "ARGMAX AUTO(eps=1)", "PERMUTE_AND_FLIP"),
        (&one, "TOP 2 AUTO(eps=1)", "LAPLACE"),
        (&one, "TOP 2 AUTO(eps=1, monotonic=false)", "PERMUTE_AND_FLIP"),
        // Two rows in one group or in two: the range is that of two, like all counts together.
        (&several(2), "TOP 2 AUTO(eps=1)", "LAPLACE"),
        (&several(4), "TOP 2 AUTO(eps=1, rows=1, groups=1)", "LAPLACE"),
        (&several(4), "TOP 2 AUTO(eps=1, rows=1, groups=3)", "PERMUTE_AND_FLIP"),
        (&several(4), "TOP 3 AUTO(eps=1, rows=1, groups=3)", "PERMUTE_AND_FLIP"),
    ] {
        assert_eq!(taken(people, list), (mechanism.to_owned(), None), "{list}");
        for written in ["EXPONENTIAL", "PERMUTE_AND_FLIP"] {
            let list = list.replace("AUTO", written);
            let (name, instead) = taken(people, &list);
            assert_eq!((name, instead.is_some()), (written.to_owned(), mechanism == "LAPLACE"));
        }
    }
}

#[tokio::test]
async fn several_groups_of_one_person_share_the_cost() {
    // A person with two rows, possibly in two groups: at ε/2 each, or at ε with the range of two
    // rows.
    let mut people = sample();
    people.unit = Unit::Column { column: "id".to_owned(), max_rows: Some(2), unique: false };
    let group = |g: &'static str| uniform(&KEYS, |k| count(&people, |r| r.1 == g && r.2 == *k));
    let (x, y) = (exponential(0.5, &group("x")), exponential(0.5, &group("y")));
    let pairs: Vec<_> = x
        .iter()
        .flat_map(|(a, p)| y.iter().map(move |(b, q)| (format!("{a} {b}"), p * q)))
        .collect();
    let sql = "SELECT g, ARGMAX EXPONENTIAL(eps=1) k FROM people GROUP BY g, k";
    people.follows(sql, &pairs, 5).await;
}

#[tokio::test]
async fn prices_follow_their_revenue() {
    let people = sample();
    let revenue = |p: &f64| p * count(&people, |r| r.3 >= *p);
    // R = max of the price before the last and the spread of all.
    let list = [1.0, 1.5, 2.0, 3.0];
    let law = exponential(0.8 / 2.0, &uniform(&list, revenue));
    let shown: Vec<_> =
        law.iter().map(|(p, q)| (format!("{:?}", p.parse::<f64>().unwrap()), *q)).collect();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=0.8) price IN (1, 1.5, 2, 3) BY REVENUE(bid, price) FROM people";
    people.follows(sql, &shown, 6).await;
    let ticks: Vec<f64> = (1..=50).map(|i| f64::from(i) / 10.0).collect();
    let law = exponential(2.0 / 4.9, &uniform(&ticks, revenue));
    let shown: Vec<_> =
        law.iter().map(|(p, q)| (format!("{:?}", p.parse::<f64>().unwrap()), *q)).collect();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=2) price IN RANGE(0.1, 5, 0.1) BY REVENUE(bid, price) FROM people";
    people.follows(sql, &shown, 7).await;
    // Quantities up to 3; a textbook factor of 2 on the largest price.
    let sold = |p: &f64| {
        let bought = people.rows.iter().filter(|r| r.3 >= *p).map(|r| r.4.min(3) as f64);
        p * bought.sum::<f64>()
    };
    let law = exponential(1.0 / (2.0 * 3.0 * 5.0), &uniform(&ticks, sold));
    let shown: Vec<_> =
        law.iter().map(|(p, q)| (format!("{:?}", p.parse::<f64>().unwrap()), *q)).collect();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=1, monotonic=false) price IN RANGE(0.1, 5, 0.1) BY REVENUE(bid, price, LEAST(n, 3)) FROM people";
    people.follows(sql, &shown, 8).await;
    // In proportion to 1/price.
    let prior: Vec<_> = ticks.iter().map(|p| (format!("{p:?}"), revenue(p), 1.0 / p)).collect();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=2) price IN RANGE(0.1, 5, 0.1) BY REVENUE(bid, price) PRIOR LOG_UNIFORM FROM people";
    people.follows(sql, &exponential(2.0 / 4.9, &prior), 9).await;
    // Each price by its own size: in halves, with seven levels to a row and ten rows to put back;
    // in tenths, sixteen and seven.
    let by_margin = |list: &[i64], unit: f64, [per_row, back]: [i64; 2], epsilon: f64| {
        let score = |p: &i64| {
            let buyers = people.rows.iter().filter(|r| r.3 >= *p as f64 * unit - 1e-9);
            p * buyers.count() as i64 - back * p
        };
        let level = |p: &i64| {
            let margins = list.iter().map(|other| (score(p) - score(other), p + other));
            margins.map(|(gap, sizes)| (per_row * gap).div_euclid(sizes)).min().unwrap() as f64
        };
        let name = |p: &i64| format!("{:?}", *p as f64 * unit);
        let scored: Vec<_> = list.iter().map(|p| (name(p), level(p), 1.0)).collect();
        exponential(epsilon / (2.0 * per_row as f64), &scored)
    };
    let law = by_margin(&[2, 3, 4, 6], 0.5, [7, 10], 0.8);
    let sql = "SELECT ARGMAX GENERALIZED_EXPONENTIAL(eps=0.8) price IN (1, 1.5, 2, 3) BY REVENUE(bid, price) FROM people";
    people.follows(sql, &law, 60).await;
    let tenths: Vec<i64> = (1..=50).collect();
    let law = by_margin(&tenths, 0.1, [16, 7], 2.0);
    let law: Vec<_> = ticks.iter().zip(law).map(|(p, (_, q))| (format!("{p:?}"), q)).collect();
    for (mechanism, seed) in [("GENERALIZED_EXPONENTIAL", 61), ("AUTO", 62)] {
        let sql = format!(
            "SELECT ARGMAX {mechanism}(eps=2) price IN RANGE(0.1, 5, 0.1) BY REVENUE(bid, price) FROM people"
        );
        people.follows(&sql, &law, seed).await;
    }
    // Three prices bring 6; they are chosen alike.
    let best: Vec<_> = ["1.0", "2.0", "3.0"].map(|p| (p.to_owned(), 1.0 / 3.0)).to_vec();
    let sql = "SELECT ARGMAX PERMUTE_AND_FLIP(eps=1000) price IN RANGE(0.1, 5, 0.1) BY REVENUE(bid, price) FROM people";
    people.follows(sql, &best, 10).await;
}

/// A person's five rows, of which one is kept, move the sum of a small candidate by its own range,
/// and not by the widest one: all five were once added up to it, under the range of the largest
/// candidate.
#[tokio::test]
async fn what_is_kept_moves_a_sum_by_its_own_range() {
    let people = People {
        rows: vec![(1, "x", "a", 1.0, 1); 5],
        unit: Unit::Column { column: "id".to_owned(), max_rows: Some(5), unique: false },
    };
    // The score of 1 is 1. Eight levels to a row, eight rows to put back.
    let sizes = [1_i64, 2, 9];
    let back = |size: &i64| i64::from(*size == 1) - 8 * size;
    let level = |own: &i64| {
        let gaps = sizes.iter().map(|other| (8 * (back(own) - back(other)), own + other));
        gaps.map(|(gap, sizes)| gap.div_euclid(sizes)).min().unwrap() as f64
    };
    let law = exponential(1.0 / 16.0, &uniform(&sizes, level));
    let sql = "SELECT ARGMAX GENERALIZED_EXPONENTIAL(eps=1, rows=1) t IN (1, 2, 9) BY SUM(CASE WHEN n = t THEN t ELSE 0 END) FROM people";
    people.follows(sql, &law, 63).await;
}

/// What was chosen is gone: the prices behind it once moved up into its place, so that it was drawn
/// again, the query failed after its charge, and how often told how the scores were.
#[tokio::test]
async fn a_list_of_log_uniform_prices_leaves_out_what_it_has() {
    let people = one_row_each(&[("x", "a", 2.0, 0), ("x", "a", 1.0, 0)]);
    let prices: Vec<i64> = (1..=8).collect();
    let buyers = |p: i64| count(&people, |r| r.3 >= p as f64);
    let prior: Vec<_> =
        prices.iter().map(|p| (p.to_string(), buyers(*p), 1.0 / *p as f64)).collect();
    let law = in_rank_order(0.4, 3, &prior);
    assert_eq!(law.len(), 8 * 7 * 6);
    let sql = "SELECT TOP 3 EXPONENTIAL(eps=1.2) price IN RANGE(1, 8, 1) BY COUNT(*) FILTER (WHERE bid >= price) PRIOR LOG_UNIFORM FROM people";
    people.follows(sql, &law, 42).await;
}

/// A continuous range: the probabilities of the pieces between bids, which a fine grid comes near.
#[tokio::test]
async fn a_continuous_range_has_the_published_pieces() {
    let bids = [1.0, 1.0, 1.0, 3.01];
    let people = one_row_each(&bids.map(|bid| ("x", "a", bid, 0)));
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=1) price IN RANGE(0, 3.5) BY REVENUE(bid, price) FROM people";
    let answers = people.drawn(sql, &Lookups::default(), 11).await;
    let mut pieces = BTreeMap::new();
    for (price, n) in answers {
        let price: f64 = price.parse().unwrap();
        let piece = if price <= 1.0 {
            "up to 1"
        } else if price <= 3.01 {
            "up to 3.01"
        } else {
            "above"
        };
        *pieces.entry(piece.to_owned()).or_insert(0) += n;
    }
    // ∫ exp(k·p/3.5) dp over each piece, with k buyers.
    let piece =
        |k: f64, lo: f64, hi: f64| (3.5 / k) * ((k * hi / 3.5).exp() - (k * lo / 3.5).exp());
    let weights = [piece(4.0, 0.0, 1.0), piece(1.0, 1.0, 3.01), 3.5 - 3.01];
    let total: f64 = weights.iter().sum();
    let law: Vec<_> = ["up to 1", "up to 3.01", "above"]
        .iter()
        .zip(weights)
        .map(|(name, w)| ((*name).to_owned(), w / total))
        .collect();
    for ((_, p), published) in law.iter().zip([0.313, 0.605, 0.082]) {
        assert!((p - published).abs() < 0.0006, "{law:?}");
    }
    agrees(sql, &pieces, &law);
}

#[tokio::test]
async fn named_candidates_follow_their_scores() {
    let people = sample();
    let ticks: Vec<i64> = (0..=9).collect();
    for (op, seed) in [(">=", 12), (">", 13), ("<", 14), ("<=", 15)] {
        let holds = |n: i64, t: i64| match op {
            ">=" => n >= t,
            ">" => n > t,
            "<" => n < t,
            _ => n <= t,
        };
        let law = exponential(0.6, &uniform(&ticks, |t| count(&people, |r| holds(r.4, *t))));
        let sql = format!(
            "SELECT ARGMAX EXPONENTIAL(eps=0.6) t IN RANGE(0, 9, 1) BY COUNT(*) FILTER (WHERE n {op} t) FROM people"
        );
        people.follows(&sql, &law, seed).await;
    }
    // Scores that go down: R is the largest loss.
    let near = |t: &i64| -people.rows.iter().map(|r| (r.4 - t).abs() as f64).sum::<f64>();
    let law = exponential(0.5 / 8.0, &uniform(&[2, 5, 8], near));
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=0.5) t IN (2, 5, 8) BY SUM(-abs(n - t)) FROM people";
    people.follows(sql, &law, 16).await;
}

#[tokio::test]
async fn quantiles_follow_their_ranks() {
    let people = sample();
    let ticks: Vec<i64> = (0..=9).collect();
    let total = people.rows.len() as f64;
    let rank = |t: &i64, alpha: f64| {
        let (below, up_to) = (count(&people, |r| r.4 < *t), count(&people, |r| r.4 <= *t));
        -(below - alpha * total).max(alpha * total - up_to).max(0.0)
    };
    for (call, alpha, seed) in [("MEDIAN(n)", 0.5, 17), ("QUANTILE(n, 0.9)", 0.9, 18)] {
        let range = 2.0 * f64::max(alpha, 1.0 - alpha);
        let law = exponential(1.3 / range, &uniform(&ticks, |t| rank(t, alpha)));
        people
            .follows(&format!("SELECT EXPONENTIAL(eps=1.3) {call} FROM people"), &law, seed)
            .await;
    }
    // r = ⌈(2/20)·ln(200)⌉ = 1.
    let smallest = |t: &i64| {
        let (below, up_to) = (count(&people, |r| r.4 < *t), count(&people, |r| r.4 <= *t));
        -below.max(1.0 - up_to).max(0.0)
    };
    let law = exponential(10.0, &uniform(&ticks, smallest));
    people.follows("SELECT EXPONENTIAL(eps=20) MIN(n) FROM people", &law, 20).await;
    let largest = |t: &i64| {
        let (above, from) = (count(&people, |r| r.4 > *t), count(&people, |r| r.4 >= *t));
        -above.max(1.0 - from).max(0.0)
    };
    let law = exponential(10.0, &uniform(&ticks, largest));
    people.follows("SELECT EXPONENTIAL(eps=20) MAX(n) FROM people", &law, 21).await;
}

/// The law of a list: the median's part of a tick is drawn first, then each quartile among the
/// ticks of its half. Parts are so fine that the middle of every 2⁻¹⁰ of a tick stands for its
/// parts.
#[tokio::test]
async fn lists_of_quantiles_follow_their_law() {
    const FINE: usize = 1 << 10;
    let people = sample();
    let rows: Vec<f64> = (0..=9).map(|t| count(&people, |r| r.4 == t)).collect();
    let total: f64 = rows.iter().sum();
    let epsilon = 2.0 / 2.0;
    // Minus the distance of each place from a share of all, for the rows at each.
    let scores = |rows: &[f64], share: f64| -> Vec<f64> {
        let (all, mut below) = (rows.iter().sum::<f64>(), 0.0);
        rows.iter()
            .map(|own| {
                let score = -(below - share * all).max(share * all - below - own).max(0.0);
                below += own;
                score
            })
            .collect()
    };
    let law = |scores: &[f64], rate: f64| -> Vec<f64> {
        let weights: Vec<f64> = scores.iter().map(|score| (rate * score).exp()).collect();
        let all: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / all).collect()
    };
    let parts: Vec<f64> = rows.iter().flat_map(|n| vec![n / FINE as f64; FINE]).collect();
    let middle = law(&scores(&parts, 0.5), epsilon);
    let mut answers = BTreeMap::<String, f64>::new();
    let mut below = 0.0;
    for (part, p) in middle.iter().enumerate() {
        let (tick, within) = (part / FINE, (part % FINE) as f64 + 0.5);
        let mut low: Vec<f64> = rows[..=tick].to_vec();
        low[tick] = rows[tick] * within / FINE as f64;
        let mut high: Vec<f64> = rows[tick..].to_vec();
        high[0] = rows[tick] - low[tick];
        let first = law(&scores(&low, 0.5), epsilon);
        let third = law(&scores(&high, 0.5), epsilon);
        for (a, pa) in first.iter().enumerate() {
            for (c, pc) in third.iter().enumerate() {
                *answers.entry(format!("[{a}, {tick}, {}]", c + tick)).or_default() += p * pa * pc;
            }
        }
        below += parts[part];
    }
    assert!((below - total).abs() < 1e-6);
    let law: Vec<(String, f64)> = answers.into_iter().collect();
    let sql = "SELECT EXPONENTIAL(eps=2) QUANTILES(n, (0.25, 0.5, 0.75)) FROM people";
    people.follows(sql, &law, 24).await;
    // A list of one is a quantile.
    let ticks: Vec<i64> = (0..=9).collect();
    let rank = |t: &i64| {
        let (below, up_to) = (count(&people, |r| r.4 < *t), count(&people, |r| r.4 <= *t));
        -(below - total / 2.0).max(total / 2.0 - up_to).max(0.0)
    };
    let median = exponential(1.3, &uniform(&ticks, rank));
    let listed: Vec<(String, f64)> =
        median.into_iter().map(|(tick, p)| (format!("[{tick}]"), p)).collect();
    let sql = "SELECT EXPONENTIAL(eps=1.3) QUANTILES(n, (0.5)) FROM people";
    people.follows(sql, &listed, 25).await;
}

#[tokio::test]
async fn priors_weigh_candidates() {
    let people = sample();
    let mut lookups = Lookups::default();
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["b", "a", "c", "elsewhere"]));
    let weights: ArrayRef = Arc::new(Float64Array::from(vec![2.5, 0.0, 0.5, 9.0]));
    let columns = vec!["key".to_owned(), "weight".to_owned()];
    lookups.insert(Lookup { table: "prior".to_owned(), columns }, vec![keys, weights]);
    let counts: Vec<_> = KEYS
        .iter()
        .zip([0.0, 2.5, 0.5, 0.0])
        .map(|(k, w)| ((*k).to_owned(), count(&people, |r| r.2 == *k), w))
        .collect();
    let sql =
        "SELECT ARGMAX EXPONENTIAL(eps=0.4) k PRIOR prior(key, weight) FROM people GROUP BY k";
    let law: Vec<_> = exponential(0.4, &counts).into_iter().filter(|(_, p)| *p > 0.0).collect();
    agrees(sql, &people.drawn(sql, &lookups, 22).await, &law);
    // What the prior lists are candidates where nothing else does.
    let listed: Vec<_> = [("b", 2.5), ("c", 0.5), ("elsewhere", 9.0)]
        .map(|(k, w)| (k.to_owned(), count(&people, |r| r.2 == k), w))
        .to_vec();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=0.4) word PRIOR prior(key, weight) FROM people GROUP BY word";
    agrees(sql, &people.drawn(sql, &lookups, 23).await, &exponential(0.4, &listed));
}

#[tokio::test]
async fn unknown_candidates_compete_with_none() {
    let people = sample();
    // ⊥ scores 1 + ln(1/δ)/ε, rounded up.
    let (epsilon, delta) = (1.5_f64, 0.05_f64);
    let none = (1.0 + (1.0 / delta).ln() / epsilon).ceil();
    let mut scored = uniform(&["a", "b", "c"], |k| count(&people, |r| r.2 == *k));
    scored.push(("NULL".to_owned(), none, 1.0));
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=1.5, delta=0.05) word FROM people GROUP BY word";
    people.follows(sql, &exponential(epsilon, &scored), 24).await;
    let nobody = one_row_each(&[]);
    nobody.follows(sql, &[("NULL".to_owned(), 1.0)], 25).await;
    // Two rounds at half the cost each; the list ends where none stands out.
    let none = (1.0 + (2.0 / delta).ln() / (epsilon / 2.0)).ceil();
    let mut scored = uniform(&["a", "b", "c"], |k| count(&people, |r| r.2 == *k));
    scored.push(("NULL".to_owned(), none, 1.0));
    let mut law: BTreeMap<String, f64> = BTreeMap::new();
    for (answer, p) in in_rank_order(epsilon / 2.0, 2, &scored) {
        let ended = answer.split("NULL").next().unwrap().trim().to_owned();
        *law.entry(ended).or_insert(0.0) += p;
    }
    let law: Vec<_> = law.into_iter().collect();
    let sql = "SELECT TOP 2 EXPONENTIAL(eps=1.5, delta=0.05) word FROM people GROUP BY word";
    people.follows(sql, &law, 26).await;
    // AUTO puts noise of scale 1/ε on each count, and shows the best of those from τ on.
    let alpha = (-epsilon).exp();
    let noise = |x: i64| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.unsigned_abs() as i32);
    let tail = |t: i32| alpha.powi(t) / (1.0 + alpha);
    let tau = 1 + (0..).find(|t| tail(*t) <= delta).map_or(0, i64::from);
    let words = ["a", "b", "c"];
    let counts = words.map(|k| count(&people, |r| r.2 == k) as i64);
    let last = counts.iter().max().unwrap() + 40;
    let mut law: BTreeMap<String, f64> = BTreeMap::new();
    let at = |i: usize, value: i64| noise(value - counts[i]);
    let below = |i: usize, value: i64| (value - 80..value).map(|v| at(i, v)).sum::<f64>();
    law.insert(String::new(), (0..3).map(|i| below(i, tau)).product());
    for first in 0..3 {
        for value in tau..=last {
            let rest: f64 = (0..3).filter(|i| *i != first).map(|i| below(i, tau)).product();
            *law.entry(words[first].to_owned()).or_insert(0.0) += at(first, value) * rest;
            for second in (0..3).filter(|i| *i != first) {
                let third = 3 - first - second;
                for next in tau..=value {
                    // Of equal noisy counts, the first word comes first.
                    if next == value && second < first {
                        continue;
                    }
                    let others = below(third, next + i64::from(third > second));
                    *law.entry(format!("{} {}", words[first], words[second])).or_insert(0.0) +=
                        at(first, value) * at(second, next) * others;
                }
            }
        }
    }
    let law: Vec<_> = law.into_iter().collect();
    let sql = "SELECT TOP 2 AUTO(eps=1.5, delta=0.05) word FROM people GROUP BY word";
    people.follows(sql, &law, 28).await;
    nobody.follows(sql, &[(String::new(), 1.0)], 29).await;
}

#[tokio::test]
async fn a_roster_answers_truthfully_as_often_as_it_should() {
    let people = sample();
    let sql = "SELECT id, RANDOMIZED_RESPONSE(eps=1.2) g FROM people GROUP BY id KEYS (0, 3, 99)";
    let truth = 1.2_f64.exp() / (1.2_f64.exp() + 1.0);
    let answers = people.drawn(sql, &Lookups::default(), 27).await;
    let mut law = Vec::new();
    for (first, p) in [("x", truth), ("y", 1.0 - truth)] {
        for (second, q) in [("x", 1.0 - truth), ("y", truth)] {
            // Who has no row answers uniformly.
            for third in ["x", "y"] {
                law.push((format!("{first} {second} {third}"), p * q * 0.5));
            }
        }
    }
    agrees(sql, &answers, &law);
}

#[tokio::test]
async fn hostile_inputs_follow_the_law_too() {
    let nobody = one_row_each(&[]);
    let even = |candidates: &[&str]| -> Vec<(String, f64)> {
        candidates.iter().map(|c| ((*c).to_owned(), 1.0 / candidates.len() as f64)).collect()
    };
    let sql = |epsilon: &str| {
        format!("SELECT ARGMAX EXPONENTIAL(eps={epsilon}) k FROM people GROUP BY k")
    };
    nobody.follows(&sql("1"), &even(&KEYS), 30).await;
    nobody
        .follows(
            "SELECT EXPONENTIAL(eps=1000) MEDIAN(n) FROM people",
            &even(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
            31,
        )
        .await;
    let sold =
        "SELECT ARGMAX EXPONENTIAL(eps=3) price IN (1, 2) BY REVENUE(bid, price) FROM people";
    nobody.follows(sold, &even(&["1", "2"]), 32).await;
    let people = sample();
    people.follows(&sql("0.000001"), &even(&KEYS), 33).await;
    people.follows(&sql("1000"), &even(&["a"]), 34).await;
    let one = "SELECT ARGMAX EXPONENTIAL(eps=1) k IN ('b') FROM people GROUP BY k";
    people.follows(one, &even(&["b"]), 35).await;
    // All bids equal, and one bid at the top tick.
    let equal = one_row_each(&[("x", "a", 2.0, 0); 5]);
    let law = exponential(
        1.0 / 2.0,
        &uniform(&[1, 2, 3], |p| if *p <= 2 { *p as f64 * 5.0 } else { 0.0 }),
    );
    let sql =
        "SELECT ARGMAX EXPONENTIAL(eps=1) price IN (1, 2, 3) BY REVENUE(bid, price) FROM people";
    equal.follows(sql, &law, 36).await;
    let top = one_row_each(&[("x", "a", 3.0, 0)]);
    let law = exponential(1.0 / 2.0, &uniform(&[1, 2, 3], |p| f64::from(*p)));
    top.follows(sql, &law, 37).await;
}

/// A line of a million candidates: those between two values score alike, so the pieces have exact
/// probabilities.
#[tokio::test]
async fn a_million_candidates_are_pieces_of_a_line() {
    let people = sample();
    let sql = "SELECT ARGMAX EXPONENTIAL(eps=0.8) t IN RANGE(1, 1000000, 1) BY COUNT(*) FILTER (WHERE n * 100000 >= t) FROM people";
    let answers = people.drawn(sql, &Lookups::default(), 40).await;
    let mut pieces = BTreeMap::new();
    for (t, n) in answers {
        let piece = (t.parse::<i64>().unwrap() - 1) / 100_000;
        *pieces.entry(piece.to_string()).or_insert(0) += n;
    }
    let above = |piece: &i64| count(&people, |r| r.4 > *piece);
    let law = exponential(0.8, &uniform(&(0..10).collect::<Vec<i64>>(), above));
    agrees(sql, &pieces, &law);
}

/// Rows of groups that nobody asked for once used up the groups of a unit, where keys were truth
/// values or ticks: half of the people then missed in the group that was asked for.
#[tokio::test]
async fn only_groups_that_are_asked_for_use_up_a_unit() {
    let rows = (0..40).flat_map(|id| {
        let cost = if id < 15 { 1 } else { 9 };
        let others = (id >= 15).then_some((id, "x", "b", 2.0, 9));
        [Some((id, "x", "a", 1.0, cost)), others].into_iter().flatten()
    });
    let unit = Unit::Column { column: "id".to_owned(), max_rows: Some(2), unique: false };
    let people = People { rows: rows.collect(), unit };
    for key in ["bid < 1.5 KEYS (TRUE)", "k = 'a' KEYS (TRUE)", "k KEYS ('a')"] {
        let sql = format!("SELECT EXPONENTIAL(eps=1000) MEDIAN(n) FROM people GROUP BY {key}");
        people.follows(&sql, &[("9".to_owned(), 1.0)], 41).await;
    }
}

/// The estimate from randomized responses is unbiased for who has a row; who has none is half of
/// each value. One estimate has a variance of at most 50·2.164²/4 = 58.6 at ε = 1, so the mean of
/// 200 deviates by 3.25, six times its deviation, in less than 10⁻⁸ of all runs; uncorrected counts
/// would be 5.4 away.
#[tokio::test]
async fn responses_are_estimated_without_bias() {
    let engine = hushql::Engine::in_memory().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=40));
    let says = (1..=40).map(|id| if id <= 30 { "yes" } else { "no" });
    let says: ArrayRef = Arc::new(StringArray::from_iter_values(says));
    let batch = RecordBatch::try_from_iter([("id", ids), ("says", says)]).unwrap();
    engine.register_batch("survey", batch).unwrap();
    for statement in [
        "ALTER TABLE survey SET PRIVACY UNIT (id) UNIQUE",
        "ALTER TABLE survey ALTER COLUMN says SET PRIVACY DOMAIN IN ('yes', 'no')",
        "CREATE PRIVACY BUDGET survey FOR survey LIMIT (epsilon=1000)",
    ] {
        engine.owner().execute(statement).await.unwrap();
    }
    let roster: Vec<String> = (1..=50).map(|id| id.to_string()).collect();
    let sql = |estimate: &str| {
        format!(
            "SELECT {estimate} AS n FROM (SELECT id, RANDOMIZED_RESPONSE(eps=1) says AS w FROM survey GROUP BY id KEYS ({}))",
            roster.join(", ")
        )
    };
    let session = engine.analyst("lab").unwrap();
    let mut total = 0.0;
    for _ in 0..200 {
        let answer = session.query(&sql("RR_COUNT(w, 'yes', 1)")).await.unwrap();
        let column = Arc::clone(answer.batches()[0].column(0));
        total += column.as_any().downcast_ref::<Float64Array>().unwrap().value(0);
    }
    let mean: f64 = total / 200.0;
    assert!((mean - 35.0).abs() < 3.25, "{mean}");
    for wrong in [
        "RR_COUNT(w, 'yes', 2)",
        "RR_COUNT(id, 1, 1)",
        "RR_COUNT(DISTINCT w, 'yes', 1)",
        "RR_COUNT(w, 'yse', 1)",
    ] {
        assert!(session.query(&sql(wrong)).await.is_err(), "{wrong}");
    }
}
