//! Stage 4: [`Analysis`] → [`Release`].
//!
//! In: what is measured and how much one unit can change it. Out: for every measure a calibrated mechanism,
//! its exact cost, and the accuracy it will have, all before anything is read. The cost depends on the query
//! and the catalog alone, so it is the same on neighbouring databases.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::{Analysis, Limits, Measure, Use, approximate};
use crate::catalog::Catalog;
use crate::dialect::{MechanismName, Parameters};
use crate::mechanism::{Exponential, Gaussian, Laplace, MechanismError, NoisyMax, PermuteAndFlip};
use crate::privacy::{Delta, Epsilon, Loss, Rational, Spend};
use crate::refusal::{Reason, Refusal};

/// The confidence of every reported accuracy.
pub const CONFIDENCE: f64 = 0.95;

/// A query whose every release has a calibrated mechanism and a cost.
#[derive(Debug)]
pub struct Release {
    analysis: Analysis,
    parts: Vec<Vec<Mechanized>>,
    loss: Loss,
}

impl Release {
    /// The analysis that was calibrated.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The mechanisms of a part, one per measure.
    pub fn mechanisms(&self, part: usize) -> &[Mechanized] {
        self.parts.get(part).map_or(&[], Vec::as_slice)
    }

    /// The exact cost of the whole query.
    ///
    /// # Guarantee
    /// The sum of the releases' losses, by basic composition.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }
}

/// A measure's mechanism, cost and accuracy.
#[derive(Debug, Clone)]
pub struct Mechanized {
    /// The calibrated mechanism.
    pub mechanism: Mechanism,
    /// What its one draw costs.
    pub loss: Loss,
    /// How accurate the answer will be.
    pub accuracy: Predicted,
}

/// A calibrated mechanism.
#[derive(Debug, Clone)]
pub enum Mechanism {
    /// Discrete Laplace noise.
    Laplace(Laplace),
    /// Discrete Gaussian noise.
    Gaussian(Gaussian),
    /// The exponential mechanism.
    Exponential(Exponential),
    /// Permute-and-flip.
    PermuteAndFlip(PermuteAndFlip),
    /// Report noisy max.
    NoisyMax(NoisyMax),
}

impl Mechanism {
    /// The mechanism's name in the dialect.
    pub fn name(&self) -> MechanismName {
        match self {
            Self::Laplace(_) => MechanismName::Laplace,
            Self::Gaussian(_) => MechanismName::Gaussian,
            Self::Exponential(_) => MechanismName::Exponential,
            Self::PermuteAndFlip(_) => MechanismName::PermuteAndFlip,
            Self::NoisyMax(_) => MechanismName::NoisyMax,
        }
    }
}

/// The accuracy of an answer, known before it is given; of the noise alone, not of what bounding cuts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicted {
    /// With 95 %, the released number is within this of the bounded aggregate.
    Within(f64),
    /// With 95 %, a mean over n rows is within this divided by n of the bounded mean.
    WithinOverCount(f64),
    /// With 95 %, the winner's score is within `worst` of the best, on average within `average`.
    Winner {
        /// The bound at 95 %, whatever the data.
        worst: f64,
        /// The bound on the average, whatever the data.
        average: f64,
    },
}

/// Chooses and calibrates the mechanism of every measure.
///
/// # Guarantee
/// Each mechanism is calibrated to the measure's own sensitivity or range at the stated ε (and δ); the
/// resulting noise is never smaller than that calls for.
///
/// # Errors
/// A refusal: no ε, a mechanism that cannot release the operand, a parameter that it does not take, noise
/// too large to sample.
pub fn choose(analysis: Analysis, catalog: &Catalog) -> Result<Release, Refusal> {
    let steps = analysis.steps().to_vec();
    let mut parts = Vec::new();
    let mut loss = Loss::zero();
    for part in analysis.parts() {
        let default = default_of(&analysis, part.table(), catalog);
        let mut mechanized = Vec::new();
        for measure in part.measures() {
            let one = mechanize(measure, &default).map_err(|refusal| refusal.after(&steps))?;
            loss = loss.plus(&one.loss);
            mechanized.push(one);
        }
        parts.push(mechanized);
    }
    Ok(Release { analysis, parts, loss })
}

/// What the budgets of a table let a query spend that names no cost, shared by its bare aggregates.
#[derive(Debug, Default)]
struct Fallback {
    epsilon: Option<Epsilon>,
    delta: Option<Delta>,
}

fn default_of(analysis: &Analysis, table: &str, catalog: &Catalog) -> Fallback {
    let Some(space) = catalog.table(table).and_then(|t| t.space()) else {
        return Fallback::default();
    };
    let bare = analysis
        .parts()
        .iter()
        .filter(|part| part.table() == table)
        .flat_map(|part| part.measures())
        .filter(|m| is_bare(m))
        .count();
    let per_query = |pick: fn(&crate::catalog::PerQuery) -> Option<i64>| {
        catalog.budgets_of(space).filter_map(|budget| pick(&budget.per_query)).min()
    };
    let epsilon = per_query(|p| p.default).and_then(|nano| {
        Epsilon::new(Spend { nano_epsilon: nano, atto_delta: 0 }.epsilon()).ok()?.share(bare).ok()
    });
    let delta = per_query(|p| p.default_delta).and_then(|atto| {
        Delta::new(Spend { nano_epsilon: 0, atto_delta: atto }.delta()).ok()?.share(bare).ok()
    });
    Fallback { epsilon, delta }
}

/// Whether a measure's cost is the budget's PER QUERY default.
pub(crate) fn is_bare(measure: &Measure) -> bool {
    measure.clause.mechanism == MechanismName::Default
        && measure.clause.parameters.epsilon.is_none()
}

fn mechanize(measure: &Measure, default: &Fallback) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let name = measure.clause.mechanism;
    let parameters = &measure.clause.parameters;
    if name == MechanismName::RandomizedResponse {
        return Err(Refusal::new(
            Reason::NotYet,
            name,
            "randomized response is not built yet: without a public roster the number of rows would be the secret",
            "LAPLACE(eps=1) COUNT(*) with GROUP BY",
        ));
    }
    let epsilon = match (&parameters.epsilon, name) {
        (Some(epsilon), _) => epsilon.clone(),
        (None, MechanismName::Default) => match &default.epsilon {
            Some(epsilon) => epsilon.clone(),
            None => return Err(no_mechanism(text)),
        },
        (None, _) => {
            return Err(Refusal::new(
                Reason::NoEpsilon,
                name,
                format!("{name} does not say what it may cost"),
                format!("{name}(eps=1) {text}"),
            ));
        }
    };
    match &measure.use_ {
        Use::Number(sensitivity) => {
            if parameters.monotonic.is_some() {
                return Err(unused("monotonic", name, "monotonic belongs to selections"));
            }
            let delta = parameters.delta.clone();
            let delta = match name {
                MechanismName::Default => delta.or_else(|| default.delta.clone()),
                _ => delta,
            };
            number(measure, *sensitivity, name, &epsilon, delta.as_ref())
        }
        Use::Score { candidates, range, largest, .. } => {
            if parameters.delta.is_some() {
                let why = "known candidates need no delta: the answer is purely ε-private";
                return Err(unused("delta", name, why));
            }
            let doubled = parameters.monotonic == Some(false);
            let range = if doubled { largest.checked_mul(2) } else { Some(*range) };
            let range = range.ok_or_else(|| too_noisy(text, &MechanismError::RangeTooWide))?;
            selection(measure, candidates.len(), range, name, &epsilon)
        }
    }
}

fn no_mechanism(text: &str) -> Refusal {
    Refusal::new(
        Reason::NoMechanism,
        text,
        format!("{text} has no mechanism, and no budget of its table has a PER QUERY default"),
        format!("LAPLACE(eps=1) {text}"),
    )
}

fn unused(parameter: &str, name: MechanismName, message: &str) -> Refusal {
    Refusal::new(
        Reason::Parameter,
        parameter,
        message,
        format!("{name}(eps=1) without {parameter}"),
    )
}

fn too_noisy(text: &str, error: &MechanismError) -> Refusal {
    Refusal::new(
        Reason::TooNoisy,
        text,
        error.to_string(),
        "a larger eps, or tighter bounds: CLAMP(x, lo, hi), rows=m, groups=C",
    )
}

fn number(
    measure: &Measure,
    sensitivity: crate::analysis::Sensitivity,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let too_noisy = |error| too_noisy(text, &error);
    let laplace = || -> Result<Mechanized, Refusal> {
        let laplace = Laplace::calibrate(sensitivity.l1, epsilon).map_err(too_noisy)?;
        let accuracy = within(measure, &|beta| laplace.error_at(beta));
        Ok(Mechanized {
            mechanism: Mechanism::Laplace(laplace),
            loss: Loss::pure(epsilon),
            accuracy,
        })
    };
    let gaussian = |delta: &Delta| -> Result<Mechanized, Refusal> {
        // The two parts of a mean move together, in a plane; a count or sum of one group on a line.
        let on_a_line = measure.limits.groups == Some(1) && measure.width() == 1;
        let gaussian = Gaussian::calibrate(sensitivity.l2_squared, on_a_line, epsilon, delta)
            .map_err(too_noisy)?;
        let accuracy = within(measure, &|beta| gaussian.error_at(beta));
        Ok(Mechanized {
            mechanism: Mechanism::Gaussian(gaussian),
            loss: Loss::approximate(epsilon, delta),
            accuracy,
        })
    };
    match name {
        MechanismName::Laplace => match delta {
            None => laplace(),
            Some(_) => Err(unused("delta", name, "Laplace noise over known keys needs no delta")),
        },
        MechanismName::Gaussian => match delta {
            Some(delta) => gaussian(delta),
            None => Err(Refusal::new(
                Reason::NoDelta,
                name,
                "Gaussian noise cannot be purely ε-private; it needs a delta",
                format!(
                    "GAUSSIAN(eps={epsilon}, delta=1e-6) {text}, or LAPLACE(eps={epsilon}) {text}"
                ),
            )),
        },
        MechanismName::Auto | MechanismName::Default => {
            let pure = laplace()?;
            let Some(delta) = delta else { return Ok(pure) };
            match gaussian(delta) {
                Ok(approximate) if size(approximate.accuracy) < size(pure.accuracy) => {
                    Ok(approximate)
                }
                Ok(_) | Err(_) => Ok(pure),
            }
        }
        MechanismName::Exponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::RandomizedResponse => Err(Refusal::new(
            Reason::Operand,
            text,
            format!("{name} chooses among candidates; {text} is a number"),
            format!("LAPLACE(eps={epsilon}) {text}"),
        )),
    }
}

fn size(accuracy: Predicted) -> f64 {
    match accuracy {
        Predicted::Within(t) | Predicted::WithinOverCount(t) => t,
        Predicted::Winner { worst, .. } => worst,
    }
}

/// The accuracy of a number from its noise's error at a failure probability, in grid units.
///
/// # Guarantee
/// A count or sum is off by more with probability at most 5 %. A mean L + w·A/(A+B) whose parts are each off
/// by at most t is off by at most t/n̂, n̂ = (Â+B̂)/w: |Â·B − A·B̂| ≤ t(A+B), divided by (A+B)(Â+B̂)/w; both
/// parts hold together with 95 % when each fails with at most 2.5 %.
fn within(measure: &Measure, error_at: &dyn Fn(&Rational) -> u128) -> Predicted {
    let unit = measure.grid_unit();
    let in_units =
        |steps: u128| approximate(&(Rational::from_integer(BigInt::from(steps)) * &unit));
    let beta = |of: i32| Rational::new(1.into(), of.into());
    match measure.width() {
        1 => Predicted::Within(in_units(error_at(&beta(20)))),
        _ => Predicted::WithinOverCount(in_units(error_at(&beta(40)))),
    }
}

fn selection(
    measure: &Measure,
    candidates: usize,
    range: u128,
    name: MechanismName,
    epsilon: &Epsilon,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let unit = measure.grid_unit().to_f64().unwrap_or(1.0);
    let beta = Rational::new(1.into(), 20.into());
    let winner = |worst: f64, average: f64| Predicted::Winner {
        worst: worst * unit,
        average: average * unit,
    };
    let (mechanism, accuracy) = match name {
        MechanismName::Exponential => {
            let m = Exponential::calibrate(range, epsilon).map_err(|e| too_noisy(text, &e))?;
            let accuracy = winner(m.error_at(candidates, &beta), m.expected_error(candidates));
            (Mechanism::Exponential(m), accuracy)
        }
        // Never worse than the exponential mechanism at the same pure cost.
        MechanismName::PermuteAndFlip | MechanismName::Auto => {
            let m = PermuteAndFlip::calibrate(range, epsilon).map_err(|e| too_noisy(text, &e))?;
            let accuracy = winner(m.error_at(candidates, &beta), m.expected_error(candidates));
            (Mechanism::PermuteAndFlip(m), accuracy)
        }
        MechanismName::NoisyMax => {
            let m = NoisyMax::calibrate(range, epsilon).map_err(|e| too_noisy(text, &e))?;
            let accuracy = winner(m.error_at(candidates, &beta), m.expected_error(candidates));
            (Mechanism::NoisyMax(m), accuracy)
        }
        MechanismName::Laplace
        | MechanismName::Gaussian
        | MechanismName::RandomizedResponse
        | MechanismName::Default => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!("{name} perturbs numbers; a selection never shows one"),
                format!("ARGMAX EXPONENTIAL(eps={epsilon}) {text}"),
            ));
        }
    };
    Ok(Mechanized { mechanism, loss: Loss::pure(epsilon), accuracy })
}

/// The parameters of a release as the ledger and the explanation show them.
pub(crate) fn parameters_text(parameters: &Parameters, loss: &Loss, limits: &Limits) -> String {
    let mut shown = Parameters { epsilon: None, delta: None, ..parameters.clone() };
    shown.groups = limits.groups.filter(|_| parameters.groups.is_some());
    let mut parts = vec![format!("eps={}", crate::privacy::decimal_text(loss.epsilon(), 12))];
    if let Ok(delta) = Delta::new(loss.delta().clone()) {
        parts.push(format!("delta={delta}"));
    }
    parts.extend(Some(shown.to_string()).filter(|rest| !rest.is_empty()));
    parts.join(", ")
}
