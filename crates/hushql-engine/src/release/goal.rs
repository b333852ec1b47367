//! Accuracy first: the least cost at which the error of a release is at most `within`.
//!
//! In: a measure with `within` in place of a cost, and a function that calibrates releases of it.
//! Out: the same measure with the cost. The cost is a function of the query and the catalog, which
//! include the numbers of candidates and of public keys, so neighbouring databases are charged the
//! same.
//!
//! ```text
//! LAPLACE(within=100) COUNT(*)                        ε = 0.029807177
//! LAPLACE(within=100, jointly) COUNT(*), 100 keys     ε = 0.075372259
//! ARGMAX EXPONENTIAL(within=100) of seven             ε = 0.046893054
//! ```

use std::borrow::Cow;

use num_bigint::BigInt;
use num_traits::One;

use super::cost::Accounts;
use super::shortfall::shortfall;
use crate::analysis::{CandidateSource, Measure, ReleaseKind};
use crate::dialect::{MechanismName, Operand, Parameters, ReleaseClause};
use crate::privacy::enclosure::{exp_neg, ln};
use crate::privacy::{Epsilon, Rational, Rho, Spend};
use crate::refusal::{Reason, Refusal};
use crate::release::mechanism::{Mechanism, Mechanized};

/// The largest ε and ρ of a release, in units of the ledger.
const MOST: i64 = 1_000_000_000_000_000;

/// The smallest ε that the search tries, in units of the ledger. It is the least that a statement
/// costs, unless an operator sets a higher one.
const LEAST: i64 = 1_000;

/// One, in units of the ledger.
const ONE: i64 = 1_000_000_000;

/// The precision, in bits, of the enclosures that divide a probability among groups.
const BITS: u32 = 192;

/// The groups of a release.
#[derive(Debug, Clone, Copy)]
pub(super) enum Groups {
    /// A known number of groups, with public keys.
    Public(usize),
    /// Groups whose keys are not declared; small ones are hidden.
    Hidden,
}

/// The measure at the least cost on the ledger's grid at which its error is at most `within`. A
/// measure without `within` is returned as it is. `release` calibrates the measure at a cost.
///
/// # Guarantee
/// At the cost that comes out, the error of one draw is proved to exceed `within` with a
/// probability of at most β = 1 − `confidence`. At a cost that is one unit of the ledger lower,
/// that is not proved. For numbers, the tail of the noise is enclosed in rationals. With `jointly`,
/// the draws of G groups are independent, so each has 1 − (1 − β)^(1/G), rounded down. Under
/// thresholds, the bound holds for the draw before small groups are hidden. The cost depends on the
/// query and the catalog alone.
///
/// # Errors
/// A refusal of `within` if no error bound holds for all data, or if no cost suffices. A release
/// that cannot be calibrated returns its own refusal.
pub(super) fn priced<'a>(
    measure: &'a Measure,
    groups: Groups,
    accounts: &Accounts,
    release: &dyn Fn(&Measure) -> Result<Mechanized, Refusal>,
) -> Result<Cow<'a, Measure>, Refusal> {
    let parameters = &measure.clause.parameters;
    if let Groups::Public(_) = groups {
        refuse_complete(
            measure,
            "no group is hidden here: only groups with undeclared keys can be",
        )?;
    }
    let Some(within) = &parameters.within else { return Ok(Cow::Borrowed(measure)) };
    // What is exact is within any bound, at no cost.
    if measure.is_exact() {
        return Ok(Cow::Borrowed(measure));
    }
    may_ask(measure)?;
    let beta = shared(&failure(measure), among(measure, groups)?);
    let search = Search { measure, within, beta, release };
    let is_number = matches!(measure.release_kind, ReleaseKind::Number(_));
    let laplace = || {
        // Laplace noise needs a δ only for thresholds.
        let delta = parameters.delta.clone().filter(|_| matches!(groups, Groups::Hidden));
        search.least(
            MechanismName::Laplace,
            CostUnit::Epsilon,
            Parameters { delta, ..parameters.clone() },
        )
    };
    // A threshold takes δ also if a ρ is stated.
    let of_curve = accounts.concentrated() && matches!(groups, Groups::Hidden);
    let other = match (measure.clause.mechanism, &parameters.delta) {
        (MechanismName::Gaussian, delta) if delta.is_none() || of_curve => {
            return Ok(Cow::Owned(
                search.as_written(MechanismName::Gaussian, CostUnit::Rho)?.measure,
            ));
        }
        (MechanismName::Auto, Some(_)) if is_number && of_curve => {
            Some(search.as_written(MechanismName::Gaussian, CostUnit::Rho))
        }
        (MechanismName::Auto, Some(_)) if is_number => {
            Some(search.as_written(MechanismName::Gaussian, CostUnit::Epsilon))
        }
        (MechanismName::Auto, None) if is_number && accounts.concentrated() => {
            Some(search.as_written(MechanismName::Gaussian, CostUnit::Rho))
        }
        (MechanismName::Auto, None) if is_number => None,
        (name, _) => return Ok(Cow::Owned(search.as_written(name, CostUnit::Epsilon)?.measure)),
    };
    let pure = laplace()?;
    Ok(Cow::Owned(match other {
        Some(Ok(other)) if other.is_cheaper(&pure, accounts) => other.measure,
        Some(Ok(_) | Err(_)) | None => pure.measure,
    }))
}

/// Refuses `within` if no error bound holds for all data.
fn may_ask(measure: &Measure) -> Result<(), Refusal> {
    let text = &measure.clause.text;
    let name = measure.clause.mechanism;
    let without =
        |why: &str, instead: String| Err(Refusal::new(Reason::Parameter, "within", why, instead));
    if measure.clause.operand == Operand::Response {
        return without(
            "each response is right or wrong, so it has no error to keep within a bound",
            format!("{name}(eps=1) {text}"),
        );
    }
    if measure.ladder.is_some() {
        return without(
            "the error depends on the bound, which only the draw chooses",
            format!(
                "{name}(eps=1, rows=auto) {text}, or a bound in place of auto, such as total=50"
            ),
        );
    }
    match &measure.release_kind {
        ReleaseKind::Choice(choice) if matches!(choice.source, CandidateSource::Unknown { .. }) => {
            without(
                "the error of a choice among undeclared candidates is not known: it would reveal how many there are",
                format!(
                    "{name}(eps=1, delta=1e-6) {text}, or the candidates after it: IN ('a', 'b')"
                ),
            )
        }
        ReleaseKind::Number(_)
            if measure.is_mean() || measure.moments().is_some() || measure.joint().is_some() =>
        {
            without(
                &format!(
                    "the error of {text} depends on how many rows there are, which is private"
                ),
                match measure.is_mean() {
                    true => format!(
                        "{name}(eps=1) {text}, or SUM and COUNT with within, and their quotient"
                    ),
                    false => format!("{name}(eps=1) {text}"),
                },
            )
        }
        ReleaseKind::Choice(_) | ReleaseKind::Number(_) => Ok(()),
    }
}

/// Refuses `complete_above` where it has no effect.
pub(super) fn refuse_complete(measure: &Measure, why: &str) -> Result<(), Refusal> {
    let ReleaseClause { mechanism, parameters, text, .. } = &measure.clause;
    if parameters.complete_above.is_none() {
        return Ok(());
    }
    let rest = Parameters { complete_above: None, confidence: None, ..parameters.clone() };
    let rest = match parameters.within {
        Some(_) => Parameters { confidence: parameters.confidence.clone(), ..rest },
        None => Parameters { epsilon: Epsilon::new(Rational::one()).ok(), ..rest },
    };
    let instead = format!("{mechanism}({rest}) {text}");
    Err(Refusal::new(Reason::Parameter, "complete_above", why, instead))
}

/// The probability with which the requested accuracy may be missed.
pub(super) fn failure(measure: &Measure) -> Rational {
    let confidence = &measure.clause.parameters.confidence;
    let confidence = confidence.clone().unwrap_or_else(|| Rational::new(19.into(), 20.into()));
    Rational::one() - confidence
}

/// The number of draws that share this probability of failure.
fn among(measure: &Measure, groups: Groups) -> Result<u64, Refusal> {
    let jointly = measure.clause.parameters.jointly;
    Ok(match (&measure.release_kind, groups) {
        _ if !jointly => 1,
        (_, Groups::Hidden) => {
            return Err(Refusal::new(
                Reason::Parameter,
                "jointly",
                "how many groups the data have is private, so they cannot share a confidence",
                "within without jointly, or GROUP BY x KEYS (…)",
            ));
        }
        (ReleaseKind::Choice(choice), Groups::Public(_)) => choice.outer,
        (ReleaseKind::Number(_), Groups::Public(keys)) => u64::try_from(keys).unwrap_or(u64::MAX),
    })
}

/// 1 − (1 − β)^(1/G), rounded down.
fn shared(beta: &Rational, groups: u64) -> Rational {
    let right = Rational::one() - beta;
    match ln(&right, BITS) {
        Some(log) if groups > 1 => {
            let rate = -log.upper / Rational::from_integer(BigInt::from(groups));
            Rational::one() - exp_neg(&rate, BITS).upper
        }
        Some(_) | None => beta.clone(),
    }
}

/// The unit of a cost.
#[derive(Debug, Clone, Copy)]
pub(super) enum CostUnit {
    Epsilon,
    Rho,
}

impl CostUnit {
    /// States a cost, in units of the ledger.
    pub(super) fn state(self, cost: i64, parameters: &mut Parameters) {
        match self {
            Self::Epsilon => {
                parameters.epsilon = Epsilon::new(Spend::of_epsilon(cost, 0).loss()).ok();
            }
            Self::Rho => parameters.rho = Rho::new(Spend::of_rho(cost, 0).loss()).ok(),
        }
    }
}

/// The least cost that suffices, in units of the ledger, by bisection. The search assumes that
/// every larger cost suffices, too. `None` if no cost suffices.
pub(super) fn least_cost(unit: CostUnit, mut suffices: impl FnMut(i64) -> bool) -> Option<i64> {
    if !suffices(MOST) {
        return None;
    }
    let least = match unit {
        CostUnit::Epsilon => LEAST,
        CostUnit::Rho => 1,
    };
    let (mut low, mut high) = (least - 1, MOST);
    while high - low > 1 {
        // Costs span many magnitudes, so the first steps halve the number of digits.
        let middle = match high / 4 > low.max(1) {
            true => (low.max(1).isqrt() * high.isqrt()).clamp(low + 1, high - 1),
            false => low + (high - low) / 2,
        };
        match suffices(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// The release at its least cost.
struct LeastCost {
    measure: Measure,
    mechanized: Mechanized,
}

impl LeastCost {
    /// True if it costs the budgets less.
    fn is_cheaper(&self, than: &Self, accounts: &Accounts) -> bool {
        let (own, other) = (&self.mechanized.loss, &than.mechanized.loss);
        if accounts.concentrated() {
            return own.rho() < other.rho();
        }
        own.epsilon().zip(other.epsilon()).is_some_and(|(own, other)| own < other)
    }
}

/// The search for the least cost.
struct Search<'a> {
    measure: &'a Measure,
    within: &'a Rational,
    beta: Rational,
    release: &'a dyn Fn(&Measure) -> Result<Mechanized, Refusal>,
}

impl Search<'_> {
    fn as_written(&self, name: MechanismName, unit: CostUnit) -> Result<LeastCost, Refusal> {
        self.least(name, unit, self.measure.clause.parameters.clone())
    }

    /// The least cost, by bisection: a cost above one that suffices also suffices.
    fn least(
        &self,
        name: MechanismName,
        unit: CostUnit,
        parameters: Parameters,
    ) -> Result<LeastCost, Refusal> {
        let mut measure = self.measure.clone();
        measure.clause.mechanism = name;
        measure.clause.parameters = parameters;
        let mut at = |cost: i64| -> Result<Mechanized, Refusal> {
            unit.state(cost, &mut measure.clause.parameters);
            (self.release)(&measure)
        };
        // If a release is refused at an ordinary cost for a reason other than noise, it is refused
        // at every cost.
        if let Err(refusal) = at(ONE)
            && refusal.reason() != Reason::TooNoisy
        {
            return Err(refusal);
        }
        let cost = least_cost(unit, |cost| at(cost).is_ok_and(|one| self.holds(&one)));
        let mechanized = at(cost.ok_or_else(|| self.out_of_reach())?)?;
        Ok(LeastCost { measure, mechanized })
    }

    /// True if the error is proved to exceed `within` with a probability of at most β.
    fn holds(&self, one: &Mechanized) -> bool {
        match (&self.measure.release_kind, &one.mechanism) {
            (ReleaseKind::Choice(choice), mechanism) => {
                let most = (self.within / &choice.unit).floor();
                let short = shortfall(choice, mechanism, &self.beta);
                short.and_then(Rational::from_float).is_some_and(|short| short <= most)
            }
            (ReleaseKind::Number(_), Mechanism::Laplace(noise)) => {
                self.covers(noise.error_at(&self.beta))
            }
            (ReleaseKind::Number(_), Mechanism::Gaussian(noise)) => {
                self.covers(noise.error_at(&self.beta))
            }
            (
                ReleaseKind::Number(_),
                Mechanism::Exponential(_)
                | Mechanism::Generalized(_)
                | Mechanism::PermuteAndFlip(_)
                | Mechanism::NoisyMax(_)
                | Mechanism::Unknown(..)
                | Mechanism::NoisyKeys(_)
                | Mechanism::Cumulative(_)
                | Mechanism::ChosenBound(_)
                | Mechanism::Exact,
            ) => false,
        }
    }

    /// True if this number of grid steps is at most `within`.
    fn covers(&self, steps: u128) -> bool {
        Rational::from_integer(steps.into()) * self.measure.grid_unit() <= *self.within
    }

    fn out_of_reach(&self) -> Refusal {
        let text = &self.measure.clause.text;
        Refusal::new(
            Reason::TooNoisy,
            text,
            format!("no cost makes {text} as accurate as that"),
            "a larger within, a lower confidence, or tighter bounds: CLAMP(x, lo, hi), rows=m, groups=C",
        )
    }
}
