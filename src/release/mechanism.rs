//! The mechanism of a measure, with what it costs and how accurate it is.

use crate::analysis::Measure;
use crate::dialect::MechanismName;
use crate::mechanism::{
    Exponential, Gaussian, Laplace, MechanismError, NoisyMax, PermuteAndFlip, Unknown, UnknownRule,
};
use crate::privacy::Loss;
use crate::refusal::{Reason, Refusal};

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

/// Whether a measure's cost is the budget's PER QUERY default.
pub(crate) fn is_bare(measure: &Measure) -> bool {
    measure.clause.mechanism == MechanismName::Default
        && measure.clause.parameters.epsilon.is_none()
        && measure.clause.parameters.rho.is_none()
}

pub(crate) fn no_mechanism(text: &str) -> Refusal {
    Refusal::new(
        Reason::NoMechanism,
        text,
        format!("{text} has no mechanism, and no budget of its table has a PER QUERY default"),
        format!("LAPLACE(eps=1) {text}"),
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
