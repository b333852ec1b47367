//! Stage 3: [`Bound`] → [`Analysis`].
//!
//! In: the planned query and the catalog. Out: its private aggregates and the public plan. Each
//! private aggregate is a sub-plan that ends in one aggregate across privacy units, with everything
//! that a mechanism must know (unit, ranges, contribution bounds, sensitivity, public keys). In the
//! public plan, a scan of its released table stands in place of each private aggregate.
//!
//! The rewritten plan enforces everything that a sensitivity relies on: domains at the scan, total
//! expressions, bounded contributions, clamped integer sums. A plan node or expression that no rule
//! covers is refused.
//!
//! ```text
//! Projection n > 3                       Projection n > 3
//!   Aggregate status: LAPLACE count  ⇒     Scan released 0      part 0: Aggregate over enforced rows
//!     Scan adult
//! ```

use crate::analysis::splitter::{Splitter, has_marker};
use crate::bind::Bound;
use crate::catalog::Catalog;
use crate::dialect::hiding_markers;
use crate::refusal::{Reason, Refusal};
use above::error_bars::with_called_ends;
use above::failing_calls::no_failing_call;
use above::implicit_bounds::with_bounds_found;
use above::joined_groups::with_joins_replaced;
use above::never_met::no_impossible_condition;
use above::null_on_failure::{null_on_failure, without_wrapping};
use above::unmatched_joins::no_unmatched_join;
use above::unranged::no_histogram;
use below::subquery_semantics::only_true_joins;
use context::Context;
use exact_shares::give_shares;
use hierarchies::hierarchies;
use not_analyzed::lost;
use outcome::released_parts;

mod above;
mod below;
mod call;
mod cells;
pub(crate) mod context;
pub(crate) mod default_shares;
mod exact_shares;
mod expr;
mod hierarchies;
mod keys;
mod measure;
pub(crate) mod not_analyzed;
pub(crate) mod null_keys;
pub(crate) mod outcome;
mod private_aggregate;
pub(crate) mod private_rows;
pub(crate) mod public_presence;
pub(crate) mod recursion;
mod selection;
pub(crate) mod splitter;
mod usage;

pub(crate) use above::error_bars::ErrorBars;
pub use above::origin::Origin;
pub use below::unit::UnitScope;
pub use below::walk::MOST_ROWS_OF_A_UNIT;
pub use below::walk::Tables;
pub use call::lookup::{Lookup, Lookups};
pub(crate) use cells::CellsRead;
pub(crate) use expr::calendar::cuts_moments;
pub(crate) use expr::date_arithmetic::{counts_microseconds, is_column_of_seconds};
pub(crate) use expr::domain::enforced;
pub use expr::domain::{DomainError, typed};
pub(crate) use expr::interval_ends::{EndTold, EndWorth};
pub use hierarchies::Hierarchy;
pub use keys::public_keys::Keys;
pub use keys::{KeySpace, MOST_KEYS};
pub use measure::choice::{
    CandidateAxis, CandidateSource, Choice, LineScore, MissingBlocks, Prices, Prior, Sharing,
    Sizes, SizesOfRows,
};
pub use measure::ladder_rungs::Ladder;
pub use measure::neighbours::{Replaced, RowChange};
pub(crate) use measure::people_behind::stated_parameters;
pub use measure::people_behind::{PeopleCount, PeopleFloor};
pub(crate) use measure::row_bound_ladder::proposed;
pub use measure::sensitivity::{ContributionBounds, Sensitivity, of_sums, range_of_scores};
pub use measure::unknown_partitions::{Compares, Payer, UnknownPartitions};
pub use measure::{Input, InputShape, Measure, ReleaseKind, TermColumns};
pub use measure::{JointMoments, VarianceMoments};
pub use not_analyzed::{Fault, NoRange, NotAnalyzed};
pub use outcome::{Analysis, Value, released_name, released_part};
pub use private_aggregate::PrivateAggregate;
pub use selection::selection_limits::MOST_TERMS;

pub use usage::rule_check::BindingRules;

pub(crate) use measure::{approximate, ends_text, step};

/// Analyzes a bound query against the catalog.
///
/// # Guarantee
/// For every pair of neighbouring databases, and every measure of every private aggregate of the
/// result, the integers that the enforced plan yields differ by at most the measure's sensitivity
/// (by at most its range, for scores). The public plan reads released and public tables only.
///
/// # Errors
/// [`NotAnalyzed`]. A refusal lists the steps that had succeeded.
pub fn analyze(
    bound: &Bound,
    catalog: &Catalog,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Result<Analysis, NotAnalyzed> {
    let found = |bound: &Bound, finds_spans: bool| {
        let chooses_rows = true;
        let once = |bound: &Bound| {
            analyze_once(Context { bound, catalog, lookups, tables, finds_spans, chooses_rows })
        };
        match once(bound) {
            Err(NotAnalyzed::NoRange(missing)) => with_bounds_found(bound, missing, catalog, &once),
            analyzed => analyzed,
        }
    };
    // What finds no bounds has those that follow from the declarations, if there are some.
    let whole = |bound: &Bound| found(bound, true).or_else(|_| found(bound, false));
    let refused = match whole(bound) {
        Err(refused @ (NotAnalyzed::Refused(_) | NotAnalyzed::ManyUnits(_))) => refused,
        analyzed => return analyzed,
    };
    match with_joins_replaced(bound, catalog, &whole) {
        Some(replaced) => whole(&replaced),
        None => Err(refused),
    }
}

/// Analyzes a query as it is written, without finding bounds for it.
pub(crate) fn analyze_as_written(
    bound: &Bound,
    catalog: &Catalog,
    lookups: &Lookups,
    tables: &dyn Tables,
) -> Result<Analysis, NotAnalyzed> {
    let (finds_spans, chooses_rows) = (false, false);
    analyze_once(Context { bound, catalog, lookups, tables, finds_spans, chooses_rows })
}

/// Analyzes a query as it is written.
fn analyze_once(context: Context<'_>) -> Result<Analysis, NotAnalyzed> {
    let Context { bound, tables, .. } = context;
    let (parts, values, steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut cutter = Splitter { context, parts, values, steps, sets: None };
    let hidden = |error: NotAnalyzed, steps: &[String]| {
        error.said(|refusal| hiding_markers(&refusal.after(steps), bound.releases()))
    };
    let public_plan = match cutter.public(bound.plan()) {
        Ok(public_plan) => public_plan,
        Err(error) => {
            return Err(hidden(error, &cutter.steps));
        }
    };
    if has_marker(&public_plan) {
        let refusal = Refusal::new(
            Reason::Place,
            "a release",
            "a release stands where none can",
            "the release in the SELECT list, HAVING or ORDER BY of a query over a private table",
        );
        return Err(refusal.after(&cutter.steps).into());
    }
    only_true_joins(&public_plan)?;
    no_histogram(&public_plan)?;
    no_failing_call(&public_plan)?;
    no_impossible_condition(&public_plan, &cutter.parts, tables)
        .and_then(|()| no_unmatched_join(&public_plan, &cutter.parts, tables))
        .map_err(|error| hidden(error, &cutter.steps))?;
    for value in &mut cutter.values {
        only_true_joins(&value.plan)?;
        no_failing_call(&value.plan)?;
        no_impossible_condition(&value.plan, &cutter.parts, tables)
            .and_then(|()| no_unmatched_join(&value.plan, &cutter.parts, tables))
            .map_err(|error| hidden(error, &cutter.steps))?;
        // This plan, too, runs after the charge.
        value.plan = null_on_failure(value.plan.clone())?;
    }
    let called_ends = with_called_ends(&public_plan, &cutter.parts, bound.releases());
    let called_ends = called_ends.map_err(|error| hidden(error, &cutter.steps))?;
    let as_written = called_ends.as_ref().map_or(public_plan, |called| called.plan.clone());
    let public_plan = as_written.clone();
    let public_plan = match cutter.parts.is_empty() {
        true => without_wrapping(public_plan)?,
        false => null_on_failure(public_plan)?,
    };
    let Splitter { mut parts, values, steps, context: _, sets: _ } = cutter;
    if called_ends.is_some() {
        // A number that decides which groups are shown has no interval. This query asks for the
        // ends of intervals, so no released number decides.
        let unknown = parts.iter_mut().filter_map(PrivateAggregate::unknown_partitions_mut);
        unknown.for_each(|groups| groups.released.clear());
    }
    give_shares(&mut parts);
    let refused = |error: NotAnalyzed| error.said(|refusal| refusal.after(&steps));
    let hierarchies = hierarchies(&parts).map_err(refused)?;
    let early = |value: &Value| {
        let read = released_parts(value.plan());
        hierarchies.iter().any(|one| one.is_needed_early(value.before(), &read))
    };
    if values.iter().any(early) {
        return Err(lost());
    }
    Ok(Analysis { parts, public_plan, as_written, called_ends, values, hierarchies, steps })
}
