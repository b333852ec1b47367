//! The event that tells two tables apart, and the ε that it proves.
//!
//! In: what the runs on two tables showed. Out: a lower bound of ε. One half of the runs chooses
//! the event; the other half, which had no say in it, bounds its two probabilities. If what was
//! charged is kept, P(E) ≤ e^ε·P′(E) + δ for every event, so ε ≥ ln((p − δ)/q), for a p that is
//! too high with probability α/2 at most and a q that is too low with α/2 at most.
//!
//! ```text
//! n > 0: 2,500 of 5,000 against 910 of 5,000   →   ε ≥ 0.93 with 95 %
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::clopper_pearson::{lower_bound, roughly, upper_bound};
use super::seen_answers::SeenAnswers;

/// The longest text that a description of an event quotes.
const MOST_QUOTED: usize = 120;

/// A property that an answer has or has not.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// The number of this name is at most this, or not there.
    UpTo(String, f64),
    /// The number of this name is there, and above this.
    Above(String, f64),
    /// The whole answer is this.
    Is(String),
    /// The whole answer is not this.
    IsNot(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| text.chars().take(MOST_QUOTED).collect::<String>();
        match self {
            Self::UpTo(name, t) if *t == f64::NEG_INFINITY => write!(f, "{name} is not shown"),
            Self::Above(name, t) if *t == f64::NEG_INFINITY => write!(f, "{name} is shown"),
            Self::UpTo(name, t) => write!(f, "{name} ≤ {t}"),
            Self::Above(name, t) => write!(f, "{name} > {t}"),
            Self::Is(text) => write!(f, "the answer is {}", quoted(text)),
            Self::IsNot(text) => write!(f, "the answer is not {}", quoted(text)),
        }
    }
}

impl Event {
    fn count(&self, seen: &SeenAnswers, runs: Range<usize>) -> u32 {
        let number = |name: &str, holds: &dyn Fn(f64) -> bool| {
            let value = |i: usize| seen.numbers.get(name).and_then(|values| values.get(i));
            let value = |i| value(i).copied().unwrap_or(f64::NEG_INFINITY);
            runs.clone().filter(|i| holds(value(*i))).count()
        };
        let text = |wanted: &str| {
            runs.clone().filter(|i| seen.texts.get(*i).is_some_and(|text| text == wanted)).count()
        };
        let count = match self {
            Self::UpTo(name, t) => number(name, &|value| value <= *t),
            Self::Above(name, t) => number(name, &|value| value > *t),
            Self::Is(wanted) => text(wanted),
            Self::IsNot(wanted) => runs.len() - text(wanted),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// The ε that an event proves.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proof {
    pub(super) event: Event,
    /// How often it was seen on the table, and on its neighbour.
    pub(super) counts: [u32; 2],
    /// The number of runs on each that were counted.
    pub(super) of: u32,
    /// The lower bound of ε; 0 where nothing is proved.
    pub(super) epsilon: f64,
}

/// What an event of these counts proves, in the better direction: the bounds may be wrong with
/// probability `alpha` together.
fn proved(counts: [u32; 2], of: u32, delta: f64, alpha: f64, forth: bool) -> f64 {
    let [table, neighbour] = counts;
    let (more, less) = if forth { (table, neighbour) } else { (neighbour, table) };
    let (low, high) = (lower_bound(more, of, alpha / 2.0), upper_bound(less, of, alpha / 2.0));
    ratio(low, high, delta).max(0.0)
}

/// ln((p − δ)/q); −∞ where nothing is proved.
fn ratio(low: f64, high: f64, delta: f64) -> f64 {
    if low > delta { ((low - delta) / high).ln() } else { f64::NEG_INFINITY }
}

/// The largest ε that so many counted runs could prove: all of them show the event on one table,
/// and none on the other.
pub(super) fn most_provable(of: u32, delta: f64, alpha: f64) -> f64 {
    proved([of, 0], of, delta, alpha, true)
}

/// Chooses an event by the first half of the runs, and bounds it by the second.
pub(super) fn audit(table: &SeenAnswers, other: &SeenAnswers, delta: f64, alpha: f64) -> Proof {
    let runs = table.texts.len().min(other.texts.len());
    let half = runs / 2;
    let (event, forth) = best_event([table, other], half, delta, alpha);
    let counts = [table, other].map(|seen| event.count(seen, half..runs));
    let of = u32::try_from(runs - half).unwrap_or(u32::MAX);
    Proof { epsilon: proved(counts, of, delta, alpha, forth), event, counts, of }
}

/// The best event so far.
struct Best {
    epsilon: f64,
    event: Event,
    forth: bool,
}

/// The event that tells the first runs of the two tables apart best, and whether it is more
/// frequent on the first.
fn best_event(seen: [&SeenAnswers; 2], runs: usize, delta: f64, alpha: f64) -> (Event, bool) {
    let of = u32::try_from(runs).unwrap_or(u32::MAX);
    let deviations = (2.0 * (2.0 / alpha).ln()).sqrt();
    let mut best =
        Best { epsilon: f64::NEG_INFINITY, event: Event::Is(String::new()), forth: true };
    let mut look = |event: &dyn Fn() -> Event, counts: [u32; 2]| {
        for (more, less, forth) in [(counts[0], counts[1], true), (counts[1], counts[0], false)] {
            if more <= less {
                continue;
            }
            let bounds = (roughly(more, of, deviations).0, roughly(less, of, deviations).1);
            let epsilon = ratio(bounds.0, bounds.1, delta);
            if epsilon > best.epsilon {
                best = Best { epsilon, event: event(), forth };
            }
        }
    };
    let mut names: Vec<&String> = seen[0].numbers.keys().chain(seen[1].numbers.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let sorted = seen.map(|seen| sorted(seen, name, runs));
        let (mut counts, mut at) = ([0_u32; 2], [0_usize; 2]);
        while let Some(t) = next(&sorted, at) {
            for ((values, at), count) in sorted.iter().zip(&mut at).zip(&mut counts) {
                while values.get(*at).is_some_and(|value| *value <= t) {
                    *at += 1;
                    *count += 1;
                }
            }
            look(&|| Event::UpTo(name.clone(), t), counts);
            look(&|| Event::Above(name.clone(), t), counts.map(|count| of - count));
        }
    }
    let mut texts: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for (side, seen) in seen.into_iter().enumerate() {
        for text in seen.texts.iter().take(runs) {
            texts.entry(text).or_default()[side] += 1;
        }
    }
    for (text, counts) in texts {
        look(&|| Event::Is(text.to_owned()), counts);
        look(&|| Event::IsNot(text.to_owned()), counts.map(|count| of - count));
    }
    (best.event, best.forth)
}

/// The least value that is not yet passed.
fn next(sorted: &[Vec<f64>; 2], at: [usize; 2]) -> Option<f64> {
    let values = (0..2).filter_map(|side| sorted[side].get(at[side]).copied());
    values.min_by(f64::total_cmp)
}

/// The values of a number in the first runs, in order.
fn sorted(seen: &SeenAnswers, name: &str, runs: usize) -> Vec<f64> {
    let mut values = match seen.numbers.get(name) {
        Some(values) => values.iter().take(runs).copied().collect(),
        None => vec![f64::NEG_INFINITY; runs],
    };
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::super::seen_answers::SeenAnswer;
    use super::*;

    fn seen(runs: u32, run: impl Fn(u32) -> (f64, &'static str)) -> SeenAnswers {
        let mut seen = SeenAnswers::default();
        for i in 0..runs {
            let (value, text) = run(i);
            let numbers = [("n".to_owned(), value)].into();
            seen.push(SeenAnswer { numbers, text: text.to_owned() });
        }
        seen.complete()
    }

    #[test]
    fn numbers_and_texts_are_both_found() {
        // A tenth of the numbers differ, half of the texts.
        let number = |i: u32| f64::from(i % 100);
        let ours = seen(4_000, |i| (number(i), if i % 2 == 0 { "one" } else { "both" }));
        let theirs = seen(4_000, |i| (number(i), if i % 2 == 0 { "other" } else { "both" }));
        let proof = audit(&ours, &theirs, 0.0, 0.05);
        assert!(proof.epsilon > 5.0 && matches!(proof.event, Event::Is(_)), "{proof:?}");
        let ours = seen(4_000, |i| (number(i) + 10.0, "same"));
        let theirs = seen(4_000, |i| (number(i), "same"));
        let proof = audit(&ours, &theirs, 0.0, 0.05);
        assert!(proof.epsilon > 3.5 && matches!(proof.event, Event::UpTo(..)), "{proof:?}");
        // The way back is found, too.
        assert_eq!(audit(&theirs, &ours, 0.0, 0.05).epsilon.to_bits(), proof.epsilon.to_bits());
        let nothing = audit(&theirs, &theirs, 0.0, 0.05);
        assert!(nothing.epsilon <= 0.0, "{nothing:?}");
    }

    #[test]
    fn what_delta_allows_is_no_proof() {
        // Shown in one run of twenty on one table, and never on the other.
        let ours = seen(4_000, |i| (0.0, if i % 20 == 0 { "shown" } else { "hidden" }));
        let theirs = seen(4_000, |_| (0.0, "hidden"));
        assert!(audit(&ours, &theirs, 0.0, 0.05).epsilon > 2.0);
        assert!(audit(&ours, &theirs, 0.05, 0.05).epsilon <= 0.0);
        assert!(audit(&ours, &theirs, 0.02, 0.05).epsilon > 1.0);
    }

    /// Two hundred audits of answers that are alike, each with the best of thousands of events. An
    /// event that is bounded by the runs that chose it would nearly always prove something.
    #[test]
    fn what_is_alike_is_seldom_told_apart() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from(u32::try_from(state >> 40).unwrap())
        };
        let mut random = || {
            let mut seen = SeenAnswers::default();
            for _ in 0..100 {
                let numbers = (0..20).map(|i| (format!("n{i}"), draw())).collect();
                seen.push(SeenAnswer { numbers, text: String::new() });
            }
            seen.complete()
        };
        let wrong = (0..200).filter(|_| audit(&random(), &random(), 0.0, 0.05).epsilon > 0.0);
        let wrong = wrong.count();
        assert!(wrong <= 10, "{wrong} of 200, with confidence 0.95");
    }

    #[test]
    fn few_runs_prove_little() {
        let (few, many) = (most_provable(100, 0.0, 0.05), most_provable(5_000, 0.0, 0.05));
        assert!((3.0..4.0).contains(&few) && (7.0..8.0).contains(&many), "{few} {many}");
        assert!(most_provable(5_000, 0.05, 0.05) < many);
        assert!(most_provable(1, 0.5, 0.05) <= 0.0);
    }

    #[test]
    fn events_say_what_they_are() {
        let said = |event: Event| event.to_string();
        assert_eq!(said(Event::UpTo("n".to_owned(), 2.5)), "n ≤ 2.5");
        let missing = Event::Above("n of Rome".to_owned(), f64::NEG_INFINITY);
        assert_eq!(said(missing), "n of Rome is shown");
        assert_eq!(said(Event::IsNot("Rome".to_owned())), "the answer is not Rome");
    }
}
