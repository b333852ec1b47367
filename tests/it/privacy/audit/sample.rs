//! Two samples of what an analyst sees, and the ε that they prove.
//!
//! In: what came out many times on a database and on its neighbour. Out: a lower bound of ε. One
//! half of either sample chooses the event that tells them apart best; the other half, which had no
//! say in it, gives the bounds of its two probabilities. If a mechanism is (ε, δ)-private, then
//! P(E) ≤ e^ε·P′(E) + δ for every event, so that ε ≥ ln((p − δ)/q) for a p that is too high with
//! probability α/2 and a q that is too low with α/2.

use std::collections::BTreeMap;

use super::binomial::{guessed, lower_bound, upper_bound};

/// How often one bound may be above the true ε. At most [`MOST_BOUNDS`] are computed in this file:
/// its false-alarm rate is at most 10⁻⁶.
pub const ALPHA: f64 = 5e-10;
pub const MOST_BOUNDS: usize = 2_000;

/// About as many standard deviations as α/2 has.
const DEVIATIONS: f64 = 6.2;

/// What was seen in one draw, as numbers and as a name.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The same number of them in each draw; what is missing is −∞.
    pub numbers: Vec<f64>,
    pub name: Option<String>,
}

/// What was seen on one database.
#[derive(Debug, Default)]
pub struct Sample {
    numbers: Vec<Vec<f64>>,
    names: Vec<String>,
    len: usize,
}

impl Sample {
    pub fn push(&mut self, seen: Seen) {
        if self.len == 0 {
            self.numbers = vec![Vec::new(); seen.numbers.len()];
        }
        assert_eq!(self.numbers.len(), seen.numbers.len(), "every draw shows as much");
        for (column, value) in self.numbers.iter_mut().zip(seen.numbers) {
            column.push(if value.is_nan() { f64::NEG_INFINITY } else { value });
        }
        self.names.extend(seen.name);
        assert!(self.names.is_empty() || self.names.len() == self.len + 1);
        self.len += 1;
    }

    pub fn of(draws: usize, mut draw: impl FnMut() -> Seen) -> Self {
        let mut sample = Self::default();
        (0..draws).for_each(|_| sample.push(draw()));
        sample
    }

    /// How often the event happened among these draws.
    fn count(&self, event: &Event, draws: std::ops::Range<usize>) -> u64 {
        let holds = |i: usize| match event {
            Event::UpTo(column, t) => self.numbers[*column][i] <= *t,
            Event::Above(column, t) => self.numbers[*column][i] > *t,
            Event::Named(name) => self.names[i] == *name,
            Event::NotNamed(name) => self.names[i] != *name,
        };
        draws.filter(|i| holds(*i)).count() as u64
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    UpTo(usize, f64),
    Above(usize, f64),
    Named(String),
    NotNamed(String),
}

/// An event, and on which side it is more frequent.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub event: Event,
    /// Whether it is more frequent on the first database.
    pub forth: bool,
}

/// ln((p − δ)/q) from bounds; −∞ where nothing is proved.
fn ratio(low: f64, high: f64, delta: f64) -> f64 {
    if low > delta { ((low - delta) / high).ln() } else { f64::NEG_INFINITY }
}

/// The event that tells the first `draws` of either sample apart best.
pub fn best_event(with: &Sample, without: &Sample, draws: usize, delta: f64) -> Chosen {
    let n = draws as u64;
    let mut best =
        (f64::NEG_INFINITY, Chosen { event: Event::UpTo(0, f64::NEG_INFINITY), forth: true });
    let mut look = |event: &dyn Fn() -> Event, with: u64, without: u64| {
        for (k, l, forth) in [(with, without, true), (without, with, false)] {
            if k <= l {
                continue;
            }
            let found = ratio(guessed(k, n, DEVIATIONS).0, guessed(l, n, DEVIATIONS).1, delta);
            if found > best.0 {
                best = (found, Chosen { event: event(), forth });
            }
        }
    };
    for column in 0..with.numbers.len() {
        let sorted = |sample: &Sample| {
            let mut values = sample.numbers[column][..draws].to_vec();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let (ours, theirs) = (sorted(with), sorted(without));
        let (mut i, mut j) = (0, 0);
        while i < draws || j < draws {
            let t = match (ours.get(i), theirs.get(j)) {
                (Some(a), Some(b)) => a.min(*b),
                (Some(a), None) => *a,
                (None, b) => *b.unwrap(),
            };
            while ours.get(i).is_some_and(|x| *x <= t) {
                i += 1;
            }
            while theirs.get(j).is_some_and(|x| *x <= t) {
                j += 1;
            }
            let (a, b) = (i as u64, j as u64);
            look(&|| Event::UpTo(column, t), a, b);
            look(&|| Event::Above(column, t), n - a, n - b);
        }
    }
    let mut names: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for name in with.names.iter().take(draws) {
        names.entry(name).or_default().0 += 1;
    }
    for name in without.names.iter().take(draws) {
        names.entry(name).or_default().1 += 1;
    }
    for (name, (a, b)) in names {
        look(&|| Event::Named(name.to_owned()), a, b);
        look(&|| Event::NotNamed(name.to_owned()), n - a, n - b);
    }
    best.1
}

/// What these draws prove about ε by one event.
pub fn proved(
    chosen: &Chosen,
    with: &Sample,
    without: &Sample,
    draws: std::ops::Range<usize>,
    delta: f64,
) -> f64 {
    let n = draws.len() as u64;
    let (more, less) = if chosen.forth { (with, without) } else { (without, with) };
    let low = lower_bound(more.count(&chosen.event, draws.clone()), n, ALPHA / 2.0);
    let high = upper_bound(less.count(&chosen.event, draws), n, ALPHA / 2.0);
    ratio(low, high, delta)
}

/// The lower bound of ε, and the event that gave it.
pub fn audit(with: &Sample, without: &Sample, delta: f64) -> (f64, Chosen) {
    assert_eq!(with.len, without.len);
    let half = with.len / 2;
    let chosen = best_event(with, without, half, delta);
    (proved(&chosen, with, without, half..with.len, delta), chosen)
}
