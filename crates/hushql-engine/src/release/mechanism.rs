//! The mechanism of a measure, with what it costs and how accurate it is.

use crate::analysis::Measure;
use crate::dialect::MechanismName;
use crate::mechanism::{
    ChosenBound, Exponential, Gaussian, Generalized, Laplace, MechanismError, NoisyKeys, NoisyMax,
    PermuteAndFlip, ScoreNoise, Unknown, UnknownRule,
};
use crate::privacy::Loss;
use crate::refusal::{Reason, Refusal};

pub use super::shared_vector::Together;
pub(crate) use super::shared_vector::{Vector, VectorMember};

/// A measure's mechanism, cost and accuracy.
#[derive(Debug, Clone)]
pub struct Mechanized {
    /// The calibrated mechanism.
    pub mechanism: Mechanism,
    /// The cost of its draw.
    pub loss: Loss,
    /// How accurate the answer will be.
    pub accuracy: Predicted,
    /// MIN and MAX: which value from the end is sought.
    pub rank: Option<u64>,
    /// For a selection that was requested by name: what AUTO would choose instead, if that errs
    /// less. Among candidates that only the data know: the other way, also for AUTO.
    pub instead: Option<Instead>,
    /// How the number is computed from a vector that it shares with others, if it is; the mechanism
    /// is then that of the vector.
    pub together: Option<Together>,
}

/// What else could be drawn at the same cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Instead {
    /// Noise on all scores, of which the best come out: with 95 % within this of the best.
    NoisyScores(f64),
    /// The generalised exponential mechanism: with 95 % no candidate is better by more than this
    /// many rows of its own.
    OwnSizes {
        /// The rows.
        rows: f64,
    },
    /// Noise on all scores and a threshold, which a candidate reaches with 95 % from this score on.
    NoisyKeys {
        /// The score.
        from: f64,
    },
    /// Rounds against "none stands out", which wins with 5 % at most where a candidate has this
    /// score or more.
    Rounds {
        /// The score.
        from: f64,
    },
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
    /// The generalised exponential mechanism.
    Generalized(Generalized),
    /// Permute-and-flip.
    PermuteAndFlip(PermuteAndFlip),
    /// Report noisy max.
    NoisyMax(NoisyMax),
    /// A choice among candidates that only the data contain, with the additional outcome that none
    /// of them wins.
    Unknown(Unknown, UnknownRule),
    /// Noise on the scores of candidates that only the data contain, of which the best that reach a
    /// threshold come out.
    NoisyKeys(NoisyKeys),
    /// Discrete Laplace noise under a bound that is chosen first.
    ChosenBound(ChosenBound),
}

impl Mechanism {
    /// The mechanism's name in the dialect.
    pub fn name(&self) -> MechanismName {
        match self {
            Self::Laplace(_) | Self::ChosenBound(_) => MechanismName::Laplace,
            Self::Gaussian(_) => MechanismName::Gaussian,
            Self::Exponential(_) => MechanismName::Exponential,
            Self::Generalized(_) => MechanismName::GeneralizedExponential,
            Self::PermuteAndFlip(_) => MechanismName::PermuteAndFlip,
            Self::NoisyMax(_) => MechanismName::NoisyMax,
            Self::Unknown(_, UnknownRule::PermuteAndFlip) => MechanismName::PermuteAndFlip,
            Self::Unknown(_, UnknownRule::Exponential) => MechanismName::Exponential,
            Self::NoisyKeys(keys) => match keys.noise() {
                ScoreNoise::Laplace(_) => MechanismName::Laplace,
                ScoreNoise::Gaussian(_) => MechanismName::Gaussian,
            },
        }
    }
}

/// The accuracy of an answer, known before it is given. It covers the noise, not the effect of
/// bounding contributions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicted {
    /// With 95 % confidence, the released number is within this of the bounded aggregate.
    Within(f64),
    /// With 95 % confidence, a mean over n rows is within this divided by n of the bounded mean.
    WithinOverCount(f64),
    /// For a variance or a statistic of two columns: with 95 % confidence, the noise on each of its
    /// sums is at most the contribution of this many rows. The resulting error of the value depends
    /// on the value.
    Spread {
        /// τ = t/w², or t over the weight of a pair.
        noise: f64,
    },
    /// With 95 % confidence, the winner's score is within `worst` of the best, on average within
    /// `average`.
    Winner {
        /// The bound at 95 %, whatever the data.
        worst: f64,
        /// The bound on the average, whatever the data.
        average: f64,
    },
    /// With 95 % confidence, no candidate scores more than the winner by over `rows` times what a
    /// row changes *its* score by; by `worst` at most.
    WinnerBySize {
        /// The bound at 95 %, in rows of whichever candidate it is, whatever the data.
        rows: f64,
        /// The bound at 95 % where the largest candidate is the best.
        worst: f64,
    },
    /// With 95 % confidence, the rank of the value is within `worst` of the requested one, on
    /// average within `average`, if a value of that rank lies on a tick.
    Rank {
        /// The bound at 95 %, in rows, whatever the data.
        worst: f64,
        /// The bound on the average, in rows, whatever the data.
        average: f64,
    },
    /// Each response is the entry's own value with this probability.
    Truthful(f64),
    /// Unknown: any bound would reveal how many candidates the data contain.
    Nothing,
}

/// Whether a measure names no cost, so that the budget's PER QUERY default applies.
pub(crate) fn is_bare(measure: &Measure) -> bool {
    measure.clause.mechanism == MechanismName::Default
        && measure.clause.parameters.epsilon.is_none()
        && measure.clause.parameters.rho.is_none()
}

/// The refusal of a number without a mechanism.
pub(crate) fn no_mechanism(text: &str) -> Refusal {
    not_mechanized(text, "LAPLACE(eps=1)")
}

/// The refusal of anything without a mechanism, with one to write.
pub(crate) fn not_mechanized(text: &str, mechanism: &str) -> Refusal {
    Refusal::new(
        Reason::NoMechanism,
        text,
        format!("{text} has no mechanism, and no PER QUERY default of a budget applies to it"),
        format!("{mechanism} {text}"),
    )
}

pub(crate) fn unused(parameter: &str, name: MechanismName, message: &str) -> Refusal {
    Refusal::new(
        Reason::Parameter,
        parameter,
        message,
        format!("{name}(eps=1) without {parameter}"),
    )
}

pub(crate) fn too_noisy(text: &str, error: &MechanismError) -> Refusal {
    Refusal::new(
        Reason::TooNoisy,
        text,
        error.to_string(),
        "a larger eps, or tighter bounds: CLAMP(x, lo, hi), rows=m, groups=C",
    )
}
