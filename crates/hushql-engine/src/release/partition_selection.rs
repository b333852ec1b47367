//! What hides groups that only the data know: the number that is compared, its threshold, and what
//! else could be compared.
//!
//! In: nothing but what `threshold` chose. Out: the numbers that EXPLAIN, the charge and the draw
//! read.

use crate::analysis::{Compares, UnknownPartitions};
use crate::privacy::{Delta, Epsilon, Loss};
use crate::release::mechanism::Mechanism;

/// Which unknown partitions are released: those whose noisy number of units reaches the threshold.
#[derive(Debug, Clone)]
pub struct PartitionSelection {
    pub(super) threshold: u64,
    pub(super) least: u64,
    pub(super) groups: u64,
    pub(super) epsilon: Option<Epsilon>,
    pub(super) delta: Delta,
    pub(super) counter: Option<usize>,
    pub(super) noise: Option<Mechanism>,
    pub(super) loss: Option<Loss>,
    /// The groups with the released number that is compared, if that was chosen.
    pub(super) compared: Option<UnknownPartitions>,
    /// What is compared.
    pub(super) compares: Compares,
    pub(super) others: Vec<Other>,
}

/// Another number that could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// What it is of.
    pub compares: Compares,
    /// The measure that it is; none if units are counted apart.
    pub measure: Option<usize>,
    /// Its τ, in steps of its grid.
    pub threshold: u64,
}

impl PartitionSelection {
    /// τ: the smallest noisy number that δ allows, in steps of its grid.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The smallest number of units that the query asks for.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The smallest noisy number with which a partition is released, in steps of its grid.
    pub fn at_least(&self) -> u64 {
        self.threshold.max(self.least)
    }

    /// C: the number of partitions in which a unit is counted.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// The ε of the counts that are drawn for the threshold alone; none if they share a ρ with a
    /// release.
    pub fn epsilon(&self) -> Option<&Epsilon> {
        self.epsilon.as_ref()
    }

    /// The δ of the threshold.
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// The measure whose released number is compared with the threshold.
    pub fn counter(&self) -> Option<usize> {
        self.counter
    }

    /// The noise of the counts that are drawn for the threshold alone.
    pub fn noise(&self) -> Option<&Mechanism> {
        self.noise.as_ref()
    }

    /// What the numbers that are compared are of.
    pub fn compares(&self) -> Compares {
        self.compares
    }

    /// Whether noisy numbers of rows are compared, of which a unit may have several in a partition.
    pub fn compares_rows(&self) -> bool {
        self.compares == Compares::Rows
    }

    /// The other numbers that could be compared, each with its τ.
    pub fn others(&self) -> &[Other] {
        &self.others
    }

    /// The number as it would be compared instead of another.
    pub(super) fn as_other(&self) -> Other {
        Other { compares: self.compares, measure: self.counter, threshold: self.threshold }
    }

    /// The most units of a partition whose number is below τ, without noise.
    pub(super) fn units(&self) -> u64 {
        self.compares.units(self.threshold)
    }

    /// The groups with the number that is compared, where that is not the one of the analysis.
    pub(super) fn compared(&self) -> Option<&UnknownPartitions> {
        self.compared.as_ref()
    }

    /// The cost of the threshold, if no release pays for it.
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }
}
