//! What all phases of the operator read: positions, aggregates, and the key of its hashes.

use super::lanes::Sources;
use super::order::HashKey;
use super::partial::AggregateInput;

/// The constant state that all phases of the operator read.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) unit: usize,
    pub(super) keys: Vec<usize>,
    pub(super) inputs: Vec<AggregateInput>,
    pub(super) sources: Sources,
    pub(super) hash: HashKey,
}
