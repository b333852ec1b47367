//! Groups that only the data know: their feed, their integers, and which of them come out.
//!
//! In: a part whose groups are those of the data. Out: a plan that yields the integers of every measure for every
//! group that a unit has, with the number of its units, all bounded per unit; the same, added up and in the order of
//! the keys; and of the released rows those whose noisy number of units reaches the threshold. It assumes
//! that the threshold was calibrated for the limits that the plan enforces. What is hidden, hides with all its
//! released numbers: nothing that comes out depends on the draws of a hidden group but its being hidden.
//!
//! ```text
//! PrivatizeExec                                      adds partitions up, draws for every group, hides the small ones
//!   CoalescePartitionsExec
//!     BoundContributionsExec (keys of the data)      AggregateExec by key, where every row is a unit
//!       FilterExec                                   columns with public keys: those keys
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{SortOptions, filter_record_batch, take};
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::EmitTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use futures::StreamExt;

use super::{bounded_inputs, by_unit, column, is_asked_for, planned, row_sums};
use crate::analysis::{DataGroups, Gathering, Measure, Part};
use crate::exec::draw::DrawError;
use crate::exec::draw::gather::{Gathered, add, each_integer};
use crate::exec::operator::bound_contributions as bound;
use crate::exec::operator::bound_contributions::{
    BoundContributionsExec, BoundedInput, InputKind, LateKey, Limits, canonical,
};
use crate::grid::failed;
use crate::release::{HiddenGroups, Mechanism};
use crate::sampler::QueryRng;

/// How the feed of a part's groups is read: which of its columns of integers is the number of units.
pub(crate) fn gathering(groups: &DataGroups, measures: &[Measure]) -> Gathering {
    let before = measures.get(..groups.counter.unwrap_or(measures.len())).unwrap_or_default();
    Gathering::Groups { counter: before.iter().map(Measure::width).sum() }
}

/// How many columns of integers the feed has beside those of the measures.
pub(crate) fn extra_columns(gathering: Gathering, measures: &[Measure]) -> usize {
    let own: usize = measures.iter().map(Measure::width).sum();
    match gathering {
        Gathering::Groups { counter } => usize::from(counter == own),
        Gathering::Sums | Gathering::Distinct | Gathering::Places | Gathering::Keys => 0,
    }
}

/// The plan that yields the exact integers of every group of the data, bounded per unit, and its number of units.
///
/// # Guarantee
/// For all data, removing one unit changes the integers of the groups by no more than the limits and ranges of the
/// measures say, and numbers of units by at most 1 in each of at most C groups. Which groups a unit is counted in
/// depends on its own rows and the key of the hash alone.
///
/// # Errors
/// What DataFusion says while planning; it has seen no data.
pub(crate) async fn groups_of_the_data(
    part: &Part,
    groups: &DataGroups,
    state: &SessionState,
    key: &LateKey,
) -> Result<Arc<dyn ExecutionPlan>> {
    let measures: Vec<&Measure> = part.measures().iter().collect();
    let rows = only_known_keys(part)?;
    if !part.has_unit() {
        // Every row is a unit, in one group.
        let counted = groups.counter.is_none();
        return planned(&row_sums(part, rows, &measures, counted)?, state).await;
    }
    let keys: Vec<usize> = (1..=part.key_names().len()).collect();
    let rows = by_unit(&rows, state).await?;
    let mut inputs = Vec::new();
    for measure in measures {
        inputs.extend(bounded_inputs(measure)?);
    }
    if groups.counter.is_none() {
        let limits = Limits {
            rows_per_unit: groups.limits.rows_in_all,
            rows_per_group: Some(1),
            groups: Some(groups.groups),
        };
        inputs.push(BoundedInput { kind: InputKind::CountUnits { filter: None }, limits });
    }
    let schema = rows.schema();
    let types = keys.iter().filter_map(|i| schema.fields().get(*i)).map(|f| f.data_type());
    let space = bound::KeySpace::of_the_data(types);
    Ok(Arc::new(BoundContributionsExec::new(rows, 0, keys, space, inputs, key.clone())?))
}

/// The enforced rows, but for those whose value in a column with public keys is none of these. It comes before the
/// bounds, so that rows that count for nothing use up none of them.
fn only_known_keys(part: &Part) -> Result<LogicalPlan> {
    let input = part.input();
    let unit = usize::from(part.has_unit());
    let known = (0..part.key_names().len())
        .map(|i| (i, part.keys().of_column(i)))
        .filter(|(_, keys)| !keys.is_empty())
        .map(|(i, keys)| is_asked_for(&column(input, unit + i), keys));
    match known.reduce(Expr::and) {
        Some(condition) => LogicalPlanBuilder::from(input.clone()).filter(condition)?.build(),
        None => Ok(input.clone()),
    }
}

/// Adds up the groups of the data: rows of (keys, integers).
///
/// # Guarantee
/// A function of the multiset of the feed's rows: every group with a unit once, in ascending order of the keys, NULL
/// last. Groups without a counted unit are left out, whatever their integers are: without that one unit's rows they
/// might not be there.
pub(crate) async fn groups(
    mut rows: SendableRecordBatchStream,
    key_columns: usize,
    columns: usize,
    counter: usize,
) -> Result<Gathered> {
    let schema = rows.schema();
    if schema.fields().len() != key_columns + columns || counter >= columns {
        return internal_err!("a release has as many inputs as it was planned with");
    }
    let fields: Vec<_> = schema.fields().iter().take(key_columns).cloned().collect();
    let key_schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let mut groups = new_group_values(key_schema, &GroupOrdering::None)?;
    let (mut sums, mut ids) = (vec![Vec::new(); columns], Vec::new());
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let (keys, integers) = batch.columns().split_at_checked(key_columns).ok_or_else(failed)?;
        let keys: Vec<ArrayRef> = keys.iter().map(canonical).collect();
        groups.intern(&keys, &mut ids)?;
        for (column, sums) in integers.iter().zip(&mut sums) {
            sums.resize(groups.len(), 0_i128);
            each_integer(column, |row, value| {
                match ids.get(row).and_then(|id| sums.get_mut(*id)) {
                    Some(entry) => add(entry, value),
                    None => Ok(()),
                }
            })?;
        }
    }
    if groups.is_empty() {
        return Ok(Gathered::Groups { keys: Vec::new(), sums });
    }
    let keys = groups.emit(EmitTo::All)?;
    sorted(&keys, sums, counter)
}

/// The groups that a unit is counted in, in the order of their keys.
fn sorted(keys: &[ArrayRef], sums: Vec<Vec<i128>>, counter: usize) -> Result<Gathered> {
    let order = |column: &ArrayRef| {
        let last = SortOptions { descending: false, nulls_first: false };
        SortField::new_with_options(column.data_type().clone(), last)
    };
    let names = RowConverter::new(keys.iter().map(order).collect())?.convert_columns(keys)?;
    let counts = sums.get(counter).map(Vec::as_slice).unwrap_or_default();
    let mut places: Vec<usize> =
        counts.iter().enumerate().filter(|(_, n)| **n >= 1).map(|(i, _)| i).collect();
    places.sort_unstable_by(|a, b| names.row(*a).cmp(&names.row(*b)));
    let indices = places.iter().map(|i| u64::try_from(*i)).collect::<Result<Vec<_>, _>>();
    let indices = arrow::array::UInt64Array::from(indices.map_err(|_| failed())?);
    let keys = keys.iter().map(|column| take(column, &indices, None));
    let pick = |sums: Vec<i128>| places.iter().filter_map(|i| sums.get(*i).copied()).collect();
    Ok(Gathered::Groups {
        keys: keys.collect::<Result<_, _>>()?,
        sums: sums.into_iter().map(pick).collect(),
    })
}

/// Hides the groups whose noisy number of units is below the threshold.
///
/// # Guarantee
/// A row stays exactly if the number compared, either the released column itself or a draw of its own for every
/// group that is there, is at least the threshold. Source: the numbers' noise is that of `hidden`.
///
/// # Errors
/// An internal error for columns that were not planned so.
pub(crate) fn hide(
    hidden: &HiddenGroups,
    key_columns: usize,
    released: &RecordBatch,
    gathered: &Gathered,
    counter: usize,
    rng: &mut QueryRng,
) -> Result<RecordBatch, DrawError> {
    let least = i128::from(hidden.at_least());
    let shown: BooleanArray = match (hidden.noise(), hidden.counter()) {
        (None, Some(measure)) => {
            let column = released.columns().get(key_columns + measure).ok_or_else(failed)?;
            let counts = column.as_primitive_opt::<Int64Type>().ok_or_else(failed)?;
            counts.iter().map(|n| n.map(|n| i128::from(n) >= least)).collect()
        }
        (Some(noise), None) => {
            let Gathered::Groups { sums, .. } = gathered else { return Err(failed().into()) };
            let counts = sums.get(counter).ok_or_else(failed)?;
            let mut compare = |count: &i128| {
                let noise = match noise {
                    Mechanism::Laplace(noise) => noise.draw(rng),
                    Mechanism::Gaussian(noise) => noise.draw(rng),
                    Mechanism::Exponential(_)
                    | Mechanism::PermuteAndFlip(_)
                    | Mechanism::NoisyMax(_)
                    | Mechanism::Unknown(..) => return Err(failed()),
                };
                Ok(Some(count.saturating_add(noise) >= least))
            };
            counts.iter().map(&mut compare).collect::<Result<_>>()?
        }
        (None, None) | (Some(_), Some(_)) => return Err(failed().into()),
    };
    if shown.len() != released.num_rows() || *shown.data_type() != DataType::Boolean {
        return Err(failed().into());
    }
    Ok(filter_record_batch(released, &shown)?)
}
