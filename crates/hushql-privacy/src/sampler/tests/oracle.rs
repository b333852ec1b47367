//! A source of draws that follows every branch of a sampler, and computes exact probabilities.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Zero};

use super::super::rng::Uniform;
use crate::privacy::Rational;

/// The exact probability of every outcome found, and the probability of the unexplored paths.
pub(crate) struct Enumerated<T> {
    pub(crate) mass: BTreeMap<T, Rational>,
    pub(crate) unexplored: Rational,
}

/// One decision on the current path: the branch taken, the number of branches, and the probability
/// of the path up to here.
struct Decision {
    branch: u64,
    branches: u64,
    first: Rational,
    before: Rational,
}

impl Decision {
    /// The probability after this decision. The first branch of a coin has probability `first`, and
    /// so has each branch of a uniform draw.
    fn after(&self, coin: bool) -> Rational {
        let part = if coin && self.branch == 1 {
            Rational::one() - &self.first
        } else {
            self.first.clone()
        };
        &self.before * part
    }
}

/// Replays the decided part of a path, then always takes the first branch.
pub(crate) struct Oracle {
    path: Vec<(Decision, bool)>,
    place: usize,
    least: Rational,
}

/// Thrown when a path has become too unlikely to follow.
struct TooDeep;

impl Oracle {
    fn weight(&self) -> Rational {
        self.path.last().map_or_else(Rational::one, |(decision, coin)| decision.after(*coin))
    }

    fn decide(&mut self, branches: u64, first: impl FnOnce() -> Rational, coin: bool) -> u64 {
        if self.place == self.path.len() {
            let before = self.weight();
            self.path.push((Decision { branch: 0, branches, first: first(), before }, coin));
        }
        self.place += 1;
        let branch = self.path[self.place - 1].0.branch;
        if self.place == self.path.len() && self.weight() < self.least {
            resume_unwind(Box::new(TooDeep));
        }
        branch
    }

    fn flip(&mut self, chance: Rational) -> bool {
        if chance.is_zero() || chance >= Rational::one() {
            return !chance.is_zero();
        }
        self.decide(2, || chance, true) == 0
    }

    /// Moves on to the next path; false when there is none.
    fn advance(&mut self) -> bool {
        self.place = 0;
        while let Some((decision, _)) = self.path.last_mut() {
            decision.branch += 1;
            if decision.branch < decision.branches {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

impl Uniform for Oracle {
    fn below_u64(&mut self, n: u64) -> u64 {
        if n <= 1 { 0 } else { self.decide(n, || Rational::new(BigInt::one(), n.into()), false) }
    }

    fn below_u128(&mut self, n: u128) -> u128 {
        self.below_u64(u64::try_from(n).expect("few branches")).into()
    }

    fn below_big(&mut self, n: &BigUint) -> BigUint {
        self.below_u64(u64::try_from(n).expect("few branches")).into()
    }

    // A comparison has two outcomes, however many integers it compares.
    fn chance(&mut self, num: u64, den: u64) -> bool {
        self.flip(Rational::new(num.into(), den.into()))
    }

    fn chance_wide(&mut self, num: u128, den: u128) -> bool {
        self.flip(Rational::new(num.into(), den.into()))
    }

    fn chance_big(&mut self, num: &BigUint, den: &BigUint) -> bool {
        self.flip(Rational::new(num.clone().into(), den.clone().into()))
    }
}

/// Follows every path of probability at least 2^−`depth`.
pub(crate) fn enumerate<T: Ord>(
    depth: u32,
    mut draw: impl FnMut(&mut Oracle) -> T,
) -> Enumerated<T> {
    let least = Rational::new(BigInt::one(), BigInt::one() << depth);
    let mut oracle = Oracle { path: Vec::new(), place: 0, least };
    let mut seen = Enumerated { mass: BTreeMap::new(), unexplored: Rational::zero() };
    loop {
        match catch_unwind(AssertUnwindSafe(|| draw(&mut oracle))) {
            Ok(outcome) => {
                *seen.mass.entry(outcome).or_insert_with(Rational::zero) += oracle.weight()
            }
            Err(thrown) if thrown.is::<TooDeep>() => seen.unexplored += oracle.weight(),
            Err(thrown) => resume_unwind(thrown),
        }
        if !oracle.advance() {
            return seen;
        }
    }
}

/// num/den.
pub(crate) fn rational(num: i64, den: i64) -> Rational {
    Rational::new(num.into(), den.into())
}

/// exp(−x) for x ≥ 0, within a relative 10⁻²⁰: the series of exp(x/2ᵏ) with x/2ᵏ < 1, squared k
/// times, then inverted.
pub(crate) fn exp_neg(x: &Rational) -> Rational {
    let halvings = x.to_integer().bits();
    let small = x / Rational::from_integer(BigInt::one() << halvings);
    let (mut sum, mut term) = (Rational::one(), Rational::one());
    for n in 1..40 {
        term = term * &small / rational(n, 1);
        sum += &term;
    }
    for _ in 0..halvings {
        // 300 bits suffice, and they keep the fractions short.
        sum = Rational::new(
            (&sum * &sum * Rational::from_integer(BigInt::one() << 300_u32)).to_integer(),
            BigInt::one() << 300_u32,
        );
    }
    sum.recip()
}
