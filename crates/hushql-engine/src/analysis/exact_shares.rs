//! Gives the shares of exact numbers to those that are drawn.
//!
//! In: the private aggregates of a query. OPTIONS and the sets of ROLLUP divide a cost before
//! anything is known of the tables; a number that public columns alone decide needs none of it.
//! Out: the same aggregates, in which the other numbers of the same SELECT, or else the same
//! release in other sets, have these shares.
//!
//! ```text
//! OPTIONS(epsilon=2) COUNT(*), SUM(age)                    COUNT exact        SUM: 1 → 2
//! LAPLACE(eps=1) COUNT(*) GROUP BY ROLLUP (age > 40)       () exact           (age > 40): 0.5 → 1
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::measure::Measure;
use super::private_aggregate::PrivateAggregate;
use crate::dialect::{MechanismName, Parameters};
use crate::privacy::{Delta, Epsilon, ParameterError, Rational, Rho};

/// A cost that is handed on: the ε, ρ and δ of exact numbers.
#[derive(Debug, Clone, Default)]
struct Given {
    epsilon: Option<Rational>,
    rho: Option<Rational>,
    delta: Option<Rational>,
}

impl Given {
    fn add(&mut self, parameters: &Parameters) {
        let add = |sum: &mut Option<Rational>, more: Option<&Rational>| {
            if let Some(more) = more {
                *sum = Some(sum.take().map_or_else(|| more.clone(), |sum| sum + more));
            }
        };
        add(&mut self.epsilon, parameters.epsilon.as_ref().map(Epsilon::value));
        add(&mut self.rho, parameters.rho.as_ref().map(Rho::value));
        add(&mut self.delta, parameters.delta.as_ref().map(Delta::value));
    }

    /// Adds one of `parts` equal shares to the cost of a release that states one.
    ///
    /// # Guarantee
    /// `parts` of them add up to no more than what is given: each is rounded down.
    fn share_with(&self, own: &mut Parameters, parts: usize) {
        raised(
            &mut own.epsilon,
            self.epsilon.as_ref(),
            parts,
            (Epsilon::value, Epsilon::share, Epsilon::new),
        );
        raised(&mut own.rho, self.rho.as_ref(), parts, (Rho::value, Rho::share, Rho::new));
        raised(
            &mut own.delta,
            self.delta.as_ref(),
            parts,
            (Delta::value, Delta::share, Delta::new),
        );
    }
}

/// How a cost is read, divided and made.
type CostOperations<T> = (
    fn(&T) -> &Rational,
    fn(&T, usize) -> Result<T, ParameterError>,
    fn(Rational) -> Result<T, ParameterError>,
);

/// Raises a cost by a share of what is given. It stays as it is if the share is too small to count.
fn raised<T>(own: &mut Option<T>, given: Option<&Rational>, parts: usize, of: CostOperations<T>) {
    let (value, share, new) = of;
    let (Some(cost), Some(given)) = (own.as_ref(), given) else { return };
    let more = new(given.clone()).and_then(|given| share(&given, parts));
    if let Ok(raised) = more.and_then(|more| new(value(cost) + value(&more))) {
        *own = Some(raised);
    }
}

/// Gives the shares of exact numbers to those that are drawn.
///
/// # Guarantee
/// The costs of all releases together do not rise: each share is given once, to the drawn numbers
/// of its SELECT, or, if it has none there, to its own release in other sets.
pub(super) fn give_shares(parts: &mut [PrivateAggregate]) {
    let mut kept: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (at, part) in parts.iter_mut().enumerate() {
        let measures = part.measures_mut();
        let exact: Vec<usize> =
            (0..).zip(measures.iter()).filter(|(_, m)| m.is_exact()).map(|(i, _)| i).collect();
        if exact.is_empty() {
            continue;
        }
        let shares = |measure: &Measure| {
            let clause = &measure.clause;
            clause.grouping.is_some() && clause.mechanism == MechanismName::Default
        };
        let mut given = Given::default();
        for i in &exact {
            match measures.get(*i) {
                Some(measure) if shares(measure) => given.add(&measure.clause.parameters),
                Some(_) | None => {
                    kept.insert((at, *i));
                }
            }
        }
        let mut drawn: Vec<&mut Measure> =
            measures.iter_mut().filter(|m| !m.is_exact() && shares(m)).collect();
        if drawn.is_empty() {
            kept.extend(exact.iter().map(|i| (at, *i)));
        }
        let among = drawn.len();
        drawn.iter_mut().for_each(|m| given.share_with(&mut m.clause.parameters, among));
    }
    between_sets(parts, &kept);
}

/// Gives the shares of exact numbers that no other number of their SELECT has to their own release
/// in other sets.
fn between_sets(parts: &mut [PrivateAggregate], kept: &BTreeSet<(usize, usize)>) {
    // A set that a query uses twice may be cut twice, and gives its share once.
    let mut given: BTreeMap<usize, BTreeMap<usize, Parameters>> = BTreeMap::new();
    for (at, i) in kept {
        let measure = parts.get(*at).and_then(|part| part.measures().get(*i));
        if let Some((measure, set)) = measure.and_then(|own| Some((own, own.clause.set?))) {
            let own = given.entry(set.of).or_default();
            own.insert(set.number, measure.clause.parameters.clone());
        }
    }
    for (of, sets) in given {
        let mut drawn: Vec<&mut Measure> = parts
            .iter_mut()
            .flat_map(|part| part.measures_mut().iter_mut())
            .filter(|own| !own.is_exact() && own.clause.set.is_some_and(|set| set.of == of))
            .collect();
        let is_drawn = |number: usize| {
            drawn.iter().any(|own| own.clause.set.is_some_and(|set| set.number == number))
        };
        let mut all = Given::default();
        let exact = sets.iter().filter(|(number, _)| !is_drawn(**number));
        exact.for_each(|(_, parameters)| all.add(parameters));
        let among = drawn.len();
        drawn.iter_mut().for_each(|own| all.share_with(&mut own.clause.parameters, among));
    }
}
