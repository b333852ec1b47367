//! Stage 4: [`Analysis`] → [`Release`].
//!
//! In: what is measured and how much one unit can change it. Out: for every measure a calibrated mechanism,
//! its exact cost, and the accuracy it will have, all before anything is read. The cost depends on the query
//! and the catalog alone, so it is the same on neighbouring databases.

mod noisy_scores;
mod number;
mod price;
mod threshold;

pub use threshold::HiddenGroups;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::analysis::outcome::Analysis;
use crate::analysis::{
    Axis, Choice, Limits, LineScore, MOST_KEYS, Measure, Prior, Sharing, Source, Use,
};
use crate::catalog::Catalog;
use crate::dialect::{MechanismName, Operand, Parameters};
use crate::mechanism::{
    Exponential, Gaussian, Laplace, MechanismError, NoisyMax, PermuteAndFlip, PriceGrid, Unknown,
    UnknownRule, rank_for,
};
use crate::privacy::{Delta, Epsilon, Loss, Rational, Selecting, decimal_text};
use crate::refusal::{Reason, Refusal};
use noisy_scores::noisy_scores;
use number::size;
use price::{Accounts, Fallback, Price, default_of};

/// The confidence of every reported accuracy.
pub const CONFIDENCE: f64 = 0.95;

/// A query whose every release has a calibrated mechanism and a cost.
#[derive(Debug)]
pub struct Release {
    analysis: Analysis,
    parts: Vec<Vec<Mechanized>>,
    hidden: Vec<Option<HiddenGroups>>,
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

    /// What hides the small groups of a part whose groups only the data know.
    pub fn hidden_groups(&self, part: usize) -> Option<&HiddenGroups> {
        self.hidden.get(part)?.as_ref()
    }

    /// What is drawn, part by part, each with its loss: nothing else costs anything.
    pub fn draws(&self) -> impl Iterator<Item = Drawn<'_>> {
        let parts = self.analysis.parts().iter().zip(&self.parts).zip(&self.hidden);
        parts.flat_map(|((part, mechanisms), hidden)| {
            let measures = part.measures().iter().zip(mechanisms);
            let hiding = hidden.iter().filter_map(|h| Some(Drawn::Hiding(h, h.loss()?)));
            measures.map(|(measure, one)| Drawn::Measure(measure, one)).chain(hiding)
        })
    }

    /// The exact cost of the whole query.
    ///
    /// # Guarantee
    /// The sum of the losses of all draws, in each notion by basic composition.
    pub fn loss(&self) -> Loss {
        self.draws().fold(Loss::zero(), |all, drawn| all.plus(drawn.loss()))
    }

    /// The unit spaces of all private tables that are read, each once.
    pub fn spaces(&self) -> Vec<String> {
        let mut spaces: Vec<String> = Vec::new();
        for part in self.analysis.parts() {
            let space = part.subject().space();
            if !spaces.iter().any(|known| known == space) {
                spaces.push(space.to_owned());
            }
        }
        spaces
    }

    /// What is done, as a text that is hashed into the ledger.
    pub fn plan_text(&self) -> String {
        let steps = self.analysis.steps().join("\n");
        format!("{}\n{steps}", self.analysis.remainder().display_indent())
    }
}

/// Something that is drawn, and paid for.
#[derive(Debug, Clone, Copy)]
pub enum Drawn<'a> {
    /// A measure, by its mechanism.
    Measure(&'a Measure, &'a Mechanized),
    /// The numbers of units that hide small groups, where no measure has paid for them.
    Hiding(&'a HiddenGroups, &'a Loss),
}

impl Drawn<'_> {
    /// Its exact loss.
    pub fn loss(&self) -> &Loss {
        match self {
            Self::Measure(_, mechanized) => &mechanized.loss,
            Self::Hiding(_, loss) => loss,
        }
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
    /// MIN and MAX: which value from the end is looked for.
    pub rank: Option<u64>,
    /// Of a selection that was asked for by its name: the error of what AUTO would take in its place, where that is less.
    pub instead: Option<f64>,
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
    /// A choice among candidates that only the data know, and one more: none of them.
    Unknown(Unknown, UnknownRule),
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
            Self::Unknown(_, UnknownRule::PermuteAndFlip) => MechanismName::PermuteAndFlip,
            Self::Unknown(_, UnknownRule::Exponential) => MechanismName::Exponential,
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
    /// Of a variance: with 95 %, no noise on its three sums is larger than that of this many rows. What that means for
    /// the value depends on the value.
    Spread {
        /// τ = t/w².
        noise: f64,
    },
    /// With 95 %, the winner's score is within `worst` of the best, on average within `average`.
    Winner {
        /// The bound at 95 %, whatever the data.
        worst: f64,
        /// The bound on the average, whatever the data.
        average: f64,
    },
    /// With 95 %, the rank of the value is within `worst` of the one asked for, on average within `average`, where
    /// a value of that rank lies on a tick.
    Rank {
        /// The bound at 95 %, in rows, whatever the data.
        worst: f64,
        /// The bound on the average, in rows, whatever the data.
        average: f64,
    },
    /// Each answer is the entry's own value with this probability.
    Truthful(f64),
    /// Nothing that would not tell how many candidates the data have.
    Nothing,
}

/// Chooses and calibrates the mechanism of every measure.
///
/// # Guarantee
/// Each mechanism is calibrated to the measure's own sensitivity or range at the stated ε (and δ); the
/// resulting noise is never smaller than that calls for.
///
/// # Errors
/// A refusal: no ε, a mechanism that cannot release the operand, a parameter that it does not take, noise
/// too large to sample, a price in ρ where a budget counts in ε.
pub fn choose(analysis: Analysis, catalog: &Catalog) -> Result<Release, Refusal> {
    let steps = analysis.steps().to_vec();
    let accounts = Accounts::of(&analysis, catalog);
    let (mut parts, mut hidden) = (Vec::new(), Vec::new());
    for part in analysis.parts() {
        let default = default_of(&analysis, part.subject().space(), catalog);
        let calibrated = match part.data_groups() {
            Some(groups) => threshold::of_the_data(part, groups, &default, &accounts)
                .map(|(mechanized, hidden)| (mechanized, Some(hidden))),
            None => {
                let measures = part.measures().iter();
                measures
                    .map(|measure| mechanize(measure, &default, &accounts))
                    .collect::<Result<Vec<_>, _>>()
                    .map(|mechanized| (mechanized, None))
            }
        };
        let (mechanized, hidden_groups) = calibrated.map_err(|refusal| refusal.after(&steps))?;
        for (measure, one) in part.measures().iter().zip(&mechanized) {
            accounts.admit(measure, one).map_err(|refusal| refusal.after(&steps))?;
        }
        parts.push(mechanized);
        hidden.push(hidden_groups);
    }
    Ok(Release { analysis, parts, hidden })
}

/// Whether a measure's cost is the budget's PER QUERY default.
pub(crate) fn is_bare(measure: &Measure) -> bool {
    measure.clause.mechanism == MechanismName::Default
        && measure.clause.parameters.epsilon.is_none()
        && measure.clause.parameters.rho.is_none()
}

fn mechanize(
    measure: &Measure,
    default: &Fallback,
    accounts: &Accounts,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let name = measure.clause.mechanism;
    let parameters = &measure.clause.parameters;
    let written = Price::of(parameters);
    let price = match (written, name) {
        (Some(price), _) => price,
        (None, MechanismName::Default) => {
            default.price.clone().ok_or_else(|| no_mechanism(text))?
        }
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
            number::number(measure, *sensitivity, name, &price, delta.as_ref(), accounts)
        }
        Use::Choice(choice) => {
            let delta = parameters.delta.as_ref().or(match name {
                MechanismName::Default => default.delta.as_ref(),
                _ => None,
            });
            let rule = accounts.rule(name, choice, &price);
            let epsilon = price.epsilon(text, rule.divisor().saturating_mul(draws(choice)))?;
            let chosen = selection(measure, choice, name, &epsilon, delta, rule)?;
            let noisy = accounts.noisy_scores(&price).then(|| noisy_scores(choice, &epsilon));
            Ok(price.charged(erring_less(measure, chosen, noisy.flatten())))
        }
    }
}

/// Rounds of a selection or noise on all scores, whichever errs less at 95 %; a mechanism that was asked for stays.
///
/// # Guarantee
/// Both have the ε of the choice, and the result is one of them: what is compared are the bounds that EXPLAIN shows, which
/// follow from the query and the catalog.
fn erring_less(measure: &Measure, chosen: Mechanized, noisy: Option<Mechanized>) -> Mechanized {
    let Some(noisy) = noisy.filter(|noisy| size(noisy.accuracy) < size(chosen.accuracy)) else {
        return chosen;
    };
    match measure.clause.mechanism {
        // It is compared with what the literature calibrates to.
        _ if measure.clause.parameters.monotonic.is_some() => chosen,
        MechanismName::Auto | MechanismName::Default => noisy,
        MechanismName::Exponential
        | MechanismName::PermuteAndFlip
        | MechanismName::NoisyMax
        | MechanismName::RandomizedResponse
        | MechanismName::Laplace
        | MechanismName::Gaussian => Mechanized { instead: Some(size(noisy.accuracy)), ..chosen },
    }
}

/// How many draws of a choice depend on one unit, each at an equal share of ε.
///
/// # Guarantee
/// [`Choice::calibrated`] divides ε by this, or, where rows are shared, into parts that add up to ε in each round.
fn draws(choice: &Choice) -> u64 {
    match choice.sharing {
        Sharing::Alone | Sharing::Rows(_) => choice.rounds,
        Sharing::Groups(groups) => choice.rounds.saturating_mul(groups),
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

/// The mechanism of a choice.
///
/// # Guarantee
/// All rounds in all outer groups are together ε-private (and δ, among candidates that only the data know):
/// the mechanism of one draw is calibrated to the choice's own range times rounds and groups.
fn selection(
    measure: &Measure,
    choice: &Choice,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
    rule: Selecting,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let parameters = &measure.clause.parameters;
    let is_aggregate = matches!(measure.clause.operand, Operand::Aggregate(_));
    let responds = measure.clause.operand == Operand::Response;
    if (is_aggregate || responds) && parameters.monotonic.is_some() {
        return Err(unused("monotonic", name, "monotonic belongs to scores of one's own choice"));
    }
    let responds = measure.clause.operand == Operand::Response;
    if responds && parameters.monotonic.is_some() {
        return Err(unused("monotonic", name, "a response has no scores of one's own choice"));
    }
    if !responds && !name.chooses() {
        let (message, hint) = if is_aggregate {
            (
                format!(
                    "{name} cannot release {text}: one person can move it far, so it is chosen, not perturbed"
                ),
                format!("EXPONENTIAL(eps={epsilon}) {text}"),
            )
        } else if name == MechanismName::RandomizedResponse {
            (
                format!("{name} gives every entry's own answer; it chooses no winner"),
                format!("ARGMAX EXPONENTIAL(eps={epsilon}) {text}"),
            )
        } else {
            (
                format!("{name} perturbs numbers; a selection never shows one"),
                format!("ARGMAX EXPONENTIAL(eps={epsilon}) {text}"),
            )
        };
        return Err(Refusal::new(Reason::Operand, text, message, hint));
    }
    if let Source::Unknown { per_unit } = choice.source {
        return among_unknown(measure, choice, per_unit, name, epsilon, delta, rule);
    }
    // The delta of OPTIONS is for what needs one.
    if parameters.delta.is_some() && name != MechanismName::Default {
        let why = "known candidates need no delta: the answer is purely ε-private";
        return Err(unused("delta", name, why));
    }
    let too_noisy = |e: &MechanismError| too_noisy(text, e);
    let range = choice.calibrated(parameters.monotonic != Some(false));
    let range = range.ok_or_else(|| too_noisy(&MechanismError::RangeTooWide))?;
    let candidates = choice.candidates().and_then(|n| usize::try_from(n).ok());
    let candidates = candidates.ok_or_else(|| too_noisy(&MechanismError::RangeTooWide))?;
    let name = match (name, rule) {
        // Randomized response is the exponential mechanism of one entry.
        (MechanismName::RandomizedResponse, _) => MechanismName::Exponential,
        (MechanismName::Auto | MechanismName::Default, Selecting::BoundedRange) => {
            MechanismName::Exponential
        }
        (MechanismName::Auto | MechanismName::Default, Selecting::Pure) => {
            MechanismName::PermuteAndFlip
        }
        (named, _) => named,
    };
    if name != MechanismName::Exponential {
        if choice.prior != Prior::Uniform {
            return Err(unused("PRIOR", name, "only EXPONENTIAL takes a prior"));
        }
        let outer = usize::try_from(choice.outer).unwrap_or(usize::MAX);
        if candidates.checked_mul(outer).is_none_or(|all| all > MOST_KEYS) {
            return Err(Refusal::new(
                Reason::TooManyKeys,
                text,
                format!("{name} looks at every candidate, and there are more than {MOST_KEYS}"),
                format!("EXPONENTIAL(eps={epsilon}), which does not, or a coarser step"),
            ));
        }
    }
    // All rounds hold together when each fails with its share of 5 %.
    let rounds = i64::try_from(choice.rounds).unwrap_or(i64::MAX);
    let beta = Rational::new(1.into(), BigInt::from(20) * rounds);
    let unit = choice.unit.to_f64().unwrap_or(1.0);
    let winner = |worst: f64, average: f64| {
        let (worst, average) = (worst * unit, average * unit);
        if is_aggregate {
            Predicted::Rank { worst, average }
        } else {
            Predicted::Winner { worst, average }
        }
    };
    let (mechanism, accuracy) = match name {
        MechanismName::Exponential => {
            let m = Exponential::calibrate(range, epsilon).map_err(|e| too_noisy(&e))?;
            let accuracy = match weights(choice) {
                _ if responds => Predicted::Truthful(m.truth(candidates)),
                None => winner(m.error_at(candidates, &beta), m.expected_error(candidates)),
                Some((total, least)) => winner(
                    m.error_at_weights(total, least, &beta),
                    m.expected_error_weights(total, least),
                ),
            };
            (Mechanism::Exponential(m), accuracy)
        }
        MechanismName::NoisyMax => {
            let m = NoisyMax::calibrate(range, epsilon).map_err(|e| too_noisy(&e))?;
            let accuracy = winner(m.error_at(candidates, &beta), m.expected_error(candidates));
            (Mechanism::NoisyMax(m), accuracy)
        }
        _ => {
            let m = PermuteAndFlip::calibrate(range, epsilon).map_err(|e| too_noisy(&e))?;
            let accuracy = winner(m.error_at(candidates, &beta), m.expected_error(candidates));
            (Mechanism::PermuteAndFlip(m), accuracy)
        }
    };
    let rank = match &choice.source {
        Source::Line { axis, score: LineScore::Smallest | LineScore::Largest } => {
            Some(rank_for(range, epsilon, axis.count()))
        }
        Source::Line { .. } | Source::Keys(_) | Source::Each(_) | Source::Unknown { .. } => None,
    };
    let loss = Loss::choice(epsilon, None, draws(choice), rule);
    Ok(Mechanized { mechanism, loss, accuracy, rank, instead: None })
}

/// The prior's weight of all candidates and of the lightest that can win; `None` when all are alike.
fn weights(choice: &Choice) -> Option<(f64, f64)> {
    match &choice.prior {
        Prior::Uniform => None,
        Prior::Weights(weights) => {
            let total: f64 = weights.iter().filter_map(ToPrimitive::to_f64).sum();
            let least = weights.iter().filter(|w| **w > 0).min()?.to_f64()?;
            Some((total, least))
        }
        Prior::LogUniform => {
            let Source::Line { axis: Axis::Ticks(ticks), .. } = &choice.source else { return None };
            let grid = PriceGrid::new(ticks.first(), ticks.step(), ticks.count()).ok()?;
            Some((grid.log_uniform_spread(), 1.0))
        }
    }
}

fn among_unknown(
    measure: &Measure,
    choice: &Choice,
    per_unit: u64,
    name: MechanismName,
    epsilon: &Epsilon,
    delta: Option<&Delta>,
    selecting: Selecting,
) -> Result<Mechanized, Refusal> {
    let text = measure.clause.text.as_str();
    let Some(delta) = delta else { return Err(no_mechanism(text)) };
    if measure.clause.parameters.monotonic.is_some() {
        return Err(unused("monotonic", name, "among unknown candidates the range is what it is"));
    }
    let rule = match (name, selecting) {
        (MechanismName::Exponential, _)
        | (MechanismName::Auto | MechanismName::Default, Selecting::BoundedRange) => {
            UnknownRule::Exponential
        }
        (MechanismName::PermuteAndFlip | MechanismName::Auto | MechanismName::Default, _) => {
            UnknownRule::PermuteAndFlip
        }
        _ => {
            return Err(Refusal::new(
                Reason::Operand,
                text,
                format!("{name} cannot choose among candidates that only the data know"),
                format!("EXPONENTIAL(eps={epsilon}, delta={delta})"),
            ));
        }
    };
    let rounds = usize::try_from(choice.rounds).unwrap_or(usize::MAX);
    let mechanism = Unknown::calibrate(choice.range, epsilon, delta, per_unit, rounds);
    let mechanism = mechanism.map_err(|e| match e {
        MechanismError::DeltaTooLarge => {
            Refusal::new(Reason::TooNoisy, text, e.to_string(), "a smaller delta, or a larger eps")
        }
        _ => too_noisy(text, &e),
    })?;
    Ok(Mechanized {
        mechanism: Mechanism::Unknown(mechanism, rule),
        loss: Loss::choice(epsilon, Some(delta), draws(choice), selecting),
        accuracy: Predicted::Nothing,
        rank: None,
        instead: None,
    })
}

/// The parameters of a release as the ledger and the explanation show them.
pub(crate) fn parameters_text(parameters: &Parameters, loss: &Loss, limits: &Limits) -> String {
    let mut shown = Parameters { epsilon: None, rho: None, delta: None, ..parameters.clone() };
    shown.groups = limits.groups.filter(|_| parameters.groups.is_some());
    let mut text = loss_text(loss, parameters.rho.is_some());
    let rest = shown.to_string();
    if !rest.is_empty() {
        text += ", ";
        text += &rest;
    }
    text
}

/// A loss as parameters: ε and δ, or ρ where it was asked for or no ε was named.
pub(crate) fn loss_text(loss: &Loss, in_rho: bool) -> String {
    let mut text = match loss.epsilon().filter(|_| !in_rho) {
        Some(epsilon) => format!("eps={}", decimal_text(epsilon, 12)),
        None => format!("rho={}", decimal_text(loss.rho(), 12)),
    };
    let delta = loss.delta().unwrap_or(loss.rho_delta());
    if let Ok(delta) = Delta::new(delta.clone()) {
        text += &format!(", delta={delta}");
    }
    text
}
