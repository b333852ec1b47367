//! What is drawn: for each measure its mechanism, and where its integers are.

use arrow::datatypes::SchemaRef;

use crate::analysis::{InputShape, Keys, Measure};
use crate::mechanism::MechanismError;
use crate::release::PartitionSelection;
use crate::release::mechanism::{Mechanism, Predicted};

/// How one released column is made.
#[derive(Debug, Clone)]
pub(crate) struct DrawPlan {
    pub(crate) measure: Measure,
    pub(crate) mechanism: Mechanism,
    /// How accurate it was said to be.
    pub(crate) accuracy: Predicted,
    /// The r of MIN and MAX.
    pub(crate) rank: Option<u64>,
    /// Which feed it reads.
    pub(crate) bounded_input: usize,
    /// Its first column of integers there.
    pub(crate) first: usize,
}

/// Why a released table could not be made; none of it depends on the data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrawError {
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    #[error(transparent)]
    DataFusion(#[from] datafusion::error::DataFusionError),
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

/// What a private part releases: the keys, and for each measure how its answer is drawn.
#[derive(Debug)]
pub(crate) struct Specification {
    pub(crate) keys: Keys,
    pub(crate) draw_plans: Vec<DrawPlan>,
    pub(crate) released: SchemaRef,
    /// How each input is read, and how many columns of integers it has.
    pub(crate) bounded_inputs: Vec<(InputShape, usize)>,
    /// What hides groups that only the data know, and the feed's column that is the number of their units.
    pub(crate) hidden: Option<(PartitionSelection, usize)>,
}
