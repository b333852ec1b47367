//! Partition selection: the noisy number of a group, the threshold that it must reach, and the
//! other numbers that could be compared.
//!
//! In: the choice that `threshold` makes. Out: the numbers that EXPLAIN, the charge and the draw
//! read.

use crate::analysis::{Compares, UnknownPartitions};
use crate::mechanism::above_floor;
use crate::privacy::{Delta, Epsilon, Loss};
use crate::release::mechanism::Mechanism;

/// Which unknown partitions are released: those whose noisy number reaches the threshold.
#[derive(Debug, Clone)]
pub struct PartitionSelection {
    pub(super) threshold: u64,
    pub(super) least: u64,
    /// The owner's floor: the fewest people of a group that may be shown; 1 without one.
    pub(super) floor: u64,
    /// The least noisy number that the β of every floor allows.
    pub(super) by_beta: u64,
    pub(super) groups: u64,
    pub(super) epsilon: Option<Epsilon>,
    pub(super) delta: Delta,
    pub(super) counter: Option<usize>,
    pub(super) noise: Option<Mechanism>,
    pub(super) loss: Option<Loss>,
    /// The groups, with the released number that is compared. `None` if units are counted instead.
    pub(super) compared: Option<UnknownPartitions>,
    /// The kind of number that is compared.
    pub(super) compares: Compares,
    pub(super) others: Vec<Other>,
}

/// Another number that could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// The kind of number.
    pub compares: Compares,
    /// The measure that releases it. `None` if units are counted for the threshold alone.
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

    /// The owner's floor of people; 1 without one.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The smallest noisy number with which a partition is released, in steps of its grid.
    ///
    /// # Guarantee
    /// Never below τ, nor below what the query asks for. Under a floor, numbers of units are
    /// compared, and a partition of fewer units than the floor comes out with a probability of at
    /// most the threshold's δ, see [`above_floor`], and of at most the β of the floor.
    pub fn at_least(&self) -> u64 {
        above_floor(self.threshold, self.floor).max(self.by_beta).max(self.least)
    }

    /// C: the number of partitions in which a unit is counted.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// The ε of the counts that are drawn for the threshold alone. `None` if they share a ρ with a
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

    /// The kind of number that is compared.
    pub fn compares(&self) -> Compares {
        self.compares
    }

    /// True if noisy numbers of rows are compared; a unit may have several rows in a partition.
    pub fn compares_rows(&self) -> bool {
        self.compares == Compares::Rows
    }

    /// The other numbers that could be compared, each with its τ.
    pub fn others(&self) -> &[Other] {
        &self.others
    }

    /// This number as an alternative, for a selection that compares another one.
    pub(super) fn as_other(&self) -> Other {
        Other { compares: self.compares, measure: self.counter, threshold: self.threshold }
    }

    /// The most units that a partition can have while its exact number is below τ.
    pub(super) fn units(&self) -> u64 {
        self.compares.units(self.threshold)
    }

    /// The groups with the number that is compared, if it is not the one that the analysis names.
    pub(super) fn compared(&self) -> Option<&UnknownPartitions> {
        self.compared.as_ref()
    }

    /// The cost of the threshold, if no release pays for it.
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }
}
