//! What all phases of the operator read: positions, aggregates, and the key of its hashes.

use crate::operator::bound_contributions::columns::grid_values::ValueSources;
use crate::operator::bound_contributions::exact::keyed_order::HashKey;
use crate::operator::bound_contributions::exact::unit_contribution::AggregateInput;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct BoundingTask {
    pub(super) unit: usize,
    pub(super) keys: Vec<usize>,
    pub(super) inputs: Vec<AggregateInput>,
    pub(super) sources: ValueSources,
    pub(super) hash: HashKey,
}
