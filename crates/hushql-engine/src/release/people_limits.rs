//! The limits from which numbers are shown under an owner's floor of people.
//!
//! In: the counts of people that a private aggregate draws, with their noise, and the floors that
//! bind it. Out: for each count the least noisy number of people with which its numbers are shown.
//! Nothing here depends on rows.
//!
//! ```text
//! people behind SUM(x), ε = 0.5, one group, floor 10, β = 5 %   →   shown from 15 on
//! ```

use num_bigint::BigInt;

use crate::analysis::{PeopleCount, PrivateAggregate};
use crate::catalog::FloorOf;
use crate::mechanism::{PeopleNoise, floor_limit, shown_with};
use crate::privacy::{Delta, Rational};
use crate::refusal::Refusal;
use crate::release::mechanism::{Mechanism, Mechanized, no_mechanism, too_noisy};

/// The least noisy number of people with which numbers are shown.
#[derive(Debug, Clone)]
pub(crate) struct PeopleLimit {
    /// The measure that counts the people.
    pub(crate) count: usize,
    /// The measures of the numbers.
    pub(crate) of: Vec<usize>,
    /// The limit.
    pub(crate) at_least: u64,
    /// The floor from which it follows.
    pub(crate) floor: FloorOf,
}

impl PeopleLimit {
    /// The numbers about which it decides, as written.
    pub(crate) fn numbers<'a>(&self, part: &'a PrivateAggregate) -> Vec<&'a str> {
        let of = self.of.iter().filter_map(|i| part.measures().get(*i));
        of.map(|measure| measure.clause.text.as_str()).collect()
    }
}

/// The limits of a private aggregate. Empty without a floor.
///
/// # Guarantee
/// A number of fewer people than a floor that binds it is shown with a probability of at most the
/// β of that floor: its limit is the largest of those of all floors, and the count carries the
/// noise of its own mechanism.
///
/// # Errors
/// A refusal if no limit can be reached.
pub(super) fn people_limits(
    part: &PrivateAggregate,
    mechanisms: &[Mechanized],
) -> Result<Vec<PeopleLimit>, Refusal> {
    let Some(floor) = part.people_floor() else { return Ok(Vec::new()) };
    let limit = |PeopleCount { measure, of, .. }: &PeopleCount| {
        let text = part.measures().get(*measure).map_or("GROUP BY", |m| m.clause.text.as_str());
        let one = mechanisms.get(*measure).ok_or_else(|| no_mechanism(text))?;
        let noise = people_noise(&one.mechanism).ok_or_else(|| no_mechanism(text))?;
        let highest = highest_limit(noise, &floor.floors, text)?;
        let (at_least, own) = highest.ok_or_else(|| no_mechanism(text))?;
        Ok(PeopleLimit { count: *measure, of: of.clone(), at_least, floor: own.clone() })
    };
    floor.counts.iter().map(limit).collect()
}

/// The least noisy number of people that all floors allow, and the floor from which it follows;
/// `None` without a floor.
///
/// # Guarantee
/// Fewer people than a floor reach it with a probability of at most the β of that floor.
///
/// # Errors
/// A refusal if it cannot be reached.
pub(super) fn highest_limit<'a>(
    noise: PeopleNoise<'_>,
    floors: &'a [FloorOf],
    text: &str,
) -> Result<Option<(u64, &'a FloorOf)>, Refusal> {
    let mut highest: Option<(u64, &FloorOf)> = None;
    for own in floors {
        let beta = beta(own).ok_or_else(|| no_mechanism(text))?;
        let limit = floor_limit(noise, own.floor.people, &beta);
        let limit = limit.map_err(|error| too_noisy(text, &error))?;
        if highest.is_none_or(|(known, _)| known < limit) {
            highest = Some((limit, own));
        }
    }
    Ok(highest)
}

/// The noise of a count of people; `None` for mechanisms that choose.
pub(crate) fn people_noise(mechanism: &Mechanism) -> Option<PeopleNoise<'_>> {
    match mechanism {
        Mechanism::Laplace(noise) => Some(PeopleNoise::Laplace(noise)),
        Mechanism::Gaussian(noise) => Some(PeopleNoise::Gaussian(noise)),
        Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_)
        | Mechanism::Cumulative(_)
        | Mechanism::ChosenBound(_)
        | Mechanism::Exact => None,
    }
}

/// β of a floor.
fn beta(own: &FloorOf) -> Option<Delta> {
    let atto = BigInt::from(own.floor.atto_beta);
    Delta::new(Rational::new(atto, BigInt::from(10).pow(18))).ok()
}

/// The probability that half of the floor's people are shown, and that number of people.
pub(crate) fn half_shown(noise: PeopleNoise<'_>, floor: u64, at_least: u64) -> (u64, f64) {
    let half = floor / 2;
    (half, shown_with(noise, half, at_least))
}
