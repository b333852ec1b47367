//! From noisy marginals to a model of all columns: a graphical model on a junction tree (McKenna,
//! Sheldon, Miklau 2019).
//!
//! In: released values and public sizes only. Out: tables of expected counts whose marginals are
//! near the measured ones and agree with each other. Floats are fine here: everything is computed
//! from released values, so no privacy rests on it. It must end, and not fail.
//!
//! ```text
//! measured {0}, {1}, {0, 1}, {1, 2}   →  cliques {0, 1} and {1, 2}, which share {1}
//! ```

mod exp;
mod fit;
mod junction_tree;
mod marginals;
mod table;

pub(super) use fit::Model;
pub(super) use junction_tree::{MOST_COLUMNS, Tree};
pub(super) use marginals::{KeptAnswers, Paths};
pub(super) use table::{FactorTable, float};
