//! The sample that a run of the gate takes of a test that is too long for every run.
//!
//! HUSHQL_SEED chooses; without it the number of the day does, so that everybody runs the same on
//! one day, and something else on the next. Every test that reads the seed prints it:
//! `HUSHQL_SEED=20780 cargo test` repeats what `cargo test` did on that day.

use std::sync::LazyLock;
use std::time::SystemTime;

static SEED: LazyLock<u64> = LazyLock::new(|| match std::env::var("HUSHQL_SEED") {
    Ok(text) => text.parse().expect("HUSHQL_SEED is a number"),
    Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 86_400,
});

/// SplitMix64's mixing: numbers in a row come out without any order.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of this run, for a test of this number: tests differ in what they draw.
pub fn seed(test: u64) -> u64 {
    println!("HUSHQL_SEED={}", *SEED);
    mixed(mixed(*SEED) ^ test)
}

/// A number below `of`: the next one with the next seed.
pub fn turn(of: usize) -> usize {
    println!("HUSHQL_SEED={}", *SEED);
    (*SEED % of as u64) as usize
}

/// A share of a list: one item in `of`, so that runs with `of` seeds in a row take every item once.
#[derive(Debug)]
pub struct Share {
    of: u64,
    turn: u64,
    items: u64,
}

impl Share {
    /// One item in `of`, at the gate.
    pub fn one_in(of: u64) -> Self {
        println!("HUSHQL_SEED={}", *SEED);
        Self { of, turn: *SEED % of, items: 0 }
    }

    /// Every item, at length.
    pub const fn all() -> Self {
        Self { of: 1, turn: 0, items: 0 }
    }

    /// Whether this is every item.
    pub const fn is_whole(&self) -> bool {
        self.of == 1
    }

    /// Whether the next item is taken.
    pub fn takes_next(&mut self) -> bool {
        self.items += 1;
        mixed(self.items) % self.of == self.turn
    }

    /// A number of items, where all of them have `all`.
    pub const fn of(&self, all: usize) -> usize {
        all / self.of as usize
    }
}

#[test]
fn shares_cover_everything_once() {
    let mut shares: Vec<Share> = (0..5).map(|turn| Share { of: 5, turn, items: 0 }).collect();
    let mut taken = [0; 5];
    for _ in 0..1_000 {
        let takes: Vec<usize> = (0..5).filter(|i| shares[*i].takes_next()).collect();
        assert_eq!(takes.len(), 1);
        taken[takes[0]] += 1;
    }
    assert!(taken.iter().all(|n| (150..250).contains(n)), "{taken:?}");
    assert!((0..100).all(|_| Share::all().takes_next()));
}
