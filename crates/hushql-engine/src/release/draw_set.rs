//! Which draws are shown again together.
//!
//! A unit is made where a release is recognised (`identity`), and read where its draws are kept and
//! shown again (`shown`).

/// Draws that are shown again together, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DrawSet {
    /// Equal only for equal draws of equal tables.
    pub(crate) body: Vec<u8>,
    /// The tables that are read, private and public ones, each once, in order.
    pub(crate) tables: Vec<String>,
    /// The unit domains of the people in them, each once.
    pub(crate) unit_domains: Vec<String>,
    /// What it consists of.
    pub(crate) draws: Vec<Draws>,
}

/// Draws of one private aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draws {
    pub(crate) part: usize,
    pub(crate) of: Of,
}

/// Which draws of a private aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of {
    /// All of them, as they come out.
    All,
    /// Some measures of public groups.
    Measures {
        /// Which ones, in the order in which they are kept.
        measures: Vec<usize>,
        /// The places of the groups, in the order in which they are kept: another list of the same
        /// KEYS is the same draw.
        groups: Vec<usize>,
    },
}
