//! What to draw: the mechanism of each measure, and the position of its integers.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use crate::analysis::{InputShape, Keys, Measure};
use crate::grid::failed;
use crate::mechanism::MechanismError;
use crate::release::PartitionSelection;
use crate::release::mechanism::{Mechanism, Predicted, Together};
use crate::release::refined::RefinedDraw;
use crate::sampler::QueryRng;

/// How to make one released column.
#[derive(Debug, Clone)]
pub(crate) struct DrawPlan {
    pub(crate) measure: Measure,
    pub(crate) mechanism: Mechanism,
    pub(crate) accuracy: Predicted,
    /// How to compute it from a vector that it shares with other measures, if it shares one.
    pub(crate) together: Option<Together>,
    /// The r of MIN and MAX.
    pub(crate) rank: Option<u64>,
    /// The columns of an earlier draw, if they are shown again; then nothing is drawn.
    pub(crate) shown: Option<Vec<ArrayRef>>,
    /// The earlier draw that it is built on, if it is built on one.
    pub(crate) refined: Option<RefinedDraw>,
    /// The bounded input that it reads.
    pub(crate) bounded_input: usize,
    /// Its first column of integers in that input.
    pub(crate) first: usize,
}

impl DrawPlan {
    /// Adds the mechanism's noise to the exact integers of a number, one for each key.
    ///
    /// # Guarantee
    /// If it is built on an earlier draw, each integer is drawn from the earlier noisy integer of
    /// its key, or nothing is.
    pub(super) fn noisy(&self, exact: &[i128], rng: &mut QueryRng) -> Result<Vec<i128>, DrawError> {
        match &self.refined {
            None => exact.iter().map(|value| self.perturb(*value, rng)).collect(),
            Some(RefinedDraw { kept, noise, .. }) if kept.len() == exact.len() => {
                let pairs = kept.iter().zip(exact);
                Ok(pairs.map(|(kept, value)| noise.draw(*kept, *value, rng)).collect())
            }
            Some(_) => Err(failed().into()),
        }
    }

    /// Adds the mechanism's noise to an exact integer that is not built on an earlier draw.
    pub(super) fn perturb(&self, value: i128, rng: &mut QueryRng) -> Result<i128, DrawError> {
        if self.refined.is_some() {
            return Err(failed().into());
        }
        Ok(value.saturating_add(noise(&self.mechanism, rng)?))
    }
}

/// The noise of one number.
///
/// # Errors
/// An error with a constant text for mechanisms that choose.
pub(super) fn noise(mechanism: &Mechanism, rng: &mut QueryRng) -> Result<i128, DrawError> {
    Ok(match mechanism {
        Mechanism::Laplace(mechanism) => mechanism.draw(rng),
        Mechanism::Gaussian(mechanism) => mechanism.draw(rng),
        Mechanism::Exact => 0,
        Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_)
        | Mechanism::Cumulative(_)
        | Mechanism::ChosenBound(_) => return Err(failed().into()),
    })
}

/// The reason why a released table could not be computed. No message depends on the data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrawError {
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    #[error(transparent)]
    DataFusion(#[from] datafusion::error::DataFusionError),
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

/// What a private aggregate releases: the keys, and how to draw each measure.
#[derive(Debug)]
pub(crate) struct Specification {
    pub(crate) keys: Keys,
    pub(crate) draw_plans: Vec<DrawPlan>,
    pub(crate) released: SchemaRef,
    /// The shape of each bounded input, and the number of its columns of integers.
    pub(crate) bounded_inputs: Vec<(InputShape, usize)>,
    /// The selection that hides undeclared groups, and the input column with the number of their
    /// units.
    pub(crate) hidden: Option<(PartitionSelection, usize)>,
    /// The counts of people that decide which numbers are shown.
    pub(crate) floors: Vec<DrawnFloor>,
}

/// A count of people that decides which numbers are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DrawnFloor {
    /// The measure that counts.
    pub(crate) count: usize,
    /// The measures of the numbers.
    pub(crate) of: Vec<usize>,
    /// The least noisy count with which they are shown.
    pub(crate) at_least: u64,
}
