//! What the analysis of a query reads besides the plan.

use crate::analysis::below::walk::Tables;
use crate::analysis::call::lookup::Lookups;
use crate::bind::Bound;
use crate::catalog::Catalog;

/// What an analysis may read besides the plan.
pub(crate) struct Context<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) catalog: &'a Catalog,
    pub(crate) lookups: &'a Lookups,
    pub(crate) tables: &'a dyn Tables,
    /// True if sums and means of the time between two columns find their bounds.
    pub(crate) finds_spans: bool,
    /// True if plain SQL chooses a bound on the rows of a unit where nothing bounds them.
    pub(crate) chooses_rows: bool,
}
