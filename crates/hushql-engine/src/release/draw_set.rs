//! Which draws are replayed together.
//!
//! `identity` makes a draw set where a release is recognised; `replay` reads it where draws are
//! kept and shown again, and `refined` where a draw is built on an earlier one.

use crate::privacy::Epsilon;

/// Draws that are replayed together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DrawSet {
    /// Bytes that are equal only for equal draws on equal tables.
    pub(crate) body: Vec<u8>,
    /// The private and public tables that are read, each once, in order.
    pub(crate) tables: Vec<String>,
    /// The unit domains of those tables, each once.
    pub(crate) unit_domains: Vec<String>,
    /// The draws of the set.
    pub(crate) draws: Vec<Draws>,
    /// What it asks, if a draw of it with another ε can be built on this one, or this one on that.
    pub(crate) question: Option<Question>,
}

/// A question whose draws can be built on one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Bytes that are equal only for draws of the same numbers, whatever their ε.
    pub(crate) body: Vec<u8>,
    /// The ε of the draw.
    pub(crate) epsilon: Epsilon,
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
        /// The measures, in the order in which they are kept.
        measures: Vec<usize>,
        /// The positions of the groups, in the order in which they are kept. KEYS with the same
        /// values in another order make the same draw.
        groups: Vec<usize>,
    },
}
