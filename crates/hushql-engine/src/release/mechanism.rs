//! The mechanism of a measure, with what it costs and how accurate it is.

use crate::dialect::MechanismName;
use crate::mechanism::{
    ChosenBound, CountNoise, Cumulative, Exponential, Gaussian, Generalized, Laplace,
    MechanismError, NoisyKeys, NoisyMax, PermuteAndFlip, ScoreNoise, Unknown, UnknownRule,
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
    /// For MIN and MAX: the rank of the value that is sought, counted from the end.
    pub rank: Option<u64>,
    /// For a selection that was requested by name: what AUTO would choose instead, if its error is
    /// smaller. For candidates that only the data contain: the alternative, also for AUTO.
    pub instead: Option<Instead>,
    /// How the number is computed from a vector that it shares with other numbers. If it is set,
    /// the mechanism is the vector's.
    pub together: Option<Together>,
}

/// An alternative draw at the same cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Instead {
    /// Noise on all scores; the best are shown. With 95 % confidence, they are within this of the
    /// best.
    NoisyScores(f64),
    /// The generalised exponential mechanism. With 95 % confidence, no candidate is better by more
    /// than this number of rows of its own.
    OwnSizes {
        /// The number of rows.
        rows: f64,
    },
    /// Noise on all scores, and a threshold. From this score on, a candidate reaches it with 95 %.
    NoisyKeys {
        /// The score.
        from: f64,
    },
    /// Rounds against "none stands out". If a candidate has at least this score, that outcome wins
    /// with at most 5 %.
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
    /// A choice among candidates that only the data contain; the outcome may also be that no
    /// candidate stands out.
    Unknown(Unknown, UnknownRule),
    /// Noise on the scores of candidates that only the data contain. The best that reach a
    /// threshold come out.
    NoisyKeys(NoisyKeys),
    /// Discrete Laplace noise under a bound that is chosen first.
    ChosenBound(ChosenBound),
    /// Noise on the counts of a tree of bins, from which all running totals are estimated.
    Cumulative(Cumulative),
    /// The number itself: public columns of people whose presence is public decide it.
    Exact,
}

impl Mechanism {
    /// The mechanism's name in the dialect.
    pub fn name(&self) -> MechanismName {
        match self {
            Self::Laplace(_) | Self::ChosenBound(_) => MechanismName::Laplace,
            Self::Exact => MechanismName::Default,
            Self::Cumulative(own) => match own.noise() {
                CountNoise::Laplace(_) => MechanismName::Laplace,
                CountNoise::Gaussian(_) => MechanismName::Gaussian,
            },
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

/// The accuracy of an answer, known before the answer is drawn. It covers the noise, not the effect
/// of bounding contributions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Predicted {
    /// With 95 % confidence, the released number is within this of the bounded aggregate.
    Within(f64),
    /// With 95 % confidence, a mean over n rows is within this value divided by n of the bounded
    /// mean.
    WithinOverCount(f64),
    /// For a variance or a statistic of two columns: with 95 % confidence, the noise on each of its
    /// sums is at most the contribution of this many rows. The resulting error depends on the value
    /// itself.
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
    /// With 95 % confidence, no candidate's score exceeds the winner's by more than `rows` times
    /// the amount by which one row changes that candidate's score, and by at most `worst`.
    WinnerBySize {
        /// The bound at 95 %, in rows of the better candidate, whatever the data.
        rows: f64,
        /// The bound at 95 % if the largest candidate is the best, whatever the data.
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

/// The refusal of a number without a mechanism.
pub(crate) fn no_mechanism(text: &str) -> Refusal {
    not_mechanized(text, "LAPLACE(eps=1)")
}

/// The refusal of any release without a mechanism, with a mechanism to write.
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
