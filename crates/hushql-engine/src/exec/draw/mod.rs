//! The draw: from exact integers to a released column, and from the grid to SQL's numbers.
//!
//! In: the sums of every key, and a source of randomness that a charge paid for. Out: the released
//! batch. The mechanism of a number is drawn once for each key, and that of a selection once, in
//! the order of the key space. A mechanism receives the exact integers of this query and nothing
//! else. Everything after the draw is a function of the noisy integers alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use num_traits::ToPrimitive;

use crate::analysis::{
    CandidateSource, Choice, JointMoments, Keys, Ladder, Measure, PrivateAggregate, ReleaseKind,
    VarianceMoments,
};
use crate::exec::draw::draw_plan::{DrawError, DrawPlan};
use crate::grid::{Grid, failed};
use crate::mechanism::ChosenBound;
use crate::release::mechanism::{Mechanism, Predicted, Together};
use crate::sampler::QueryRng;
use draw_plan::Specification;
use hidden_groups::hide;
use hidden_numbers::{PeopleCounts, hide_numbers};
use hushql_exec::gather::Gathered;
use joint_estimate::JointScale;
use rungs::OfLadder;
use running_totals::running_totals;
use select::choose;
use variance_estimate::Scale;

pub(crate) mod draw_plan;
mod drawn_vectors;
pub(crate) mod gathered_input;
pub(crate) mod hidden_groups;
mod hidden_numbers;
pub(crate) mod joint_estimate;
pub(crate) mod rungs;
mod running_totals;
pub(crate) mod select;
pub(crate) mod variance_estimate;

/// Draws every measure.
///
/// # Guarantee
/// Each mechanism receives the exact integers of its measure once, and nothing else; it is
/// calibrated for their sensitivity. The whole result is computed from the drawn values and public
/// keys. If the keys are not declared, the result covers the groups whose number of units, which is
/// also drawn, reaches the threshold. Under an owner's floor, a number is NULL where the number of
/// people behind it, which is also drawn, is below its limit.
pub(super) fn draw(
    specification: &Specification,
    gathered: &[Gathered],
    rng: &mut QueryRng,
) -> Result<RecordBatch, DrawError> {
    Ok(only_shown(&drawn(specification, gathered, rng)?)?)
}

/// Copies the rows into new arrays. A text array keeps the bytes of all rows that it was taken
/// from, including those of hidden groups.
fn only_shown(batch: &RecordBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
    let written = RowConverter::new(fields.collect())?;
    let rows = written.convert_columns(batch.columns())?;
    // The conversion expands dictionaries.
    let read = written.convert_rows(&rows)?.into_iter().zip(schema.fields());
    let columns =
        read.map(|(column, field)| cast(&column, field.data_type())).collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

fn drawn(
    specification: &Specification,
    gathered: &[Gathered],
    rng: &mut QueryRng,
) -> Result<RecordBatch, DrawError> {
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut mean_rows: Vec<ArrayRef> = Vec::new();
    let mut rungs: Vec<ArrayRef> = Vec::new();
    let mut rows: Option<Vec<usize>> = None;
    let mut vectors = drawn_vectors::DrawnVectors::new();
    let mut bounds = BTreeMap::new();
    let deciding = specification.hidden.as_ref().and_then(|(hidden, _)| hidden.counter());
    let mut compared: Option<Vec<i128>> = None;
    let mut people = PeopleCounts::new();
    for draw_plan in &specification.draw_plans {
        if let Some(shown) = &draw_plan.shown {
            let (column, beside, rung) = parted(&draw_plan.measure, shown)?;
            if let ReleaseKind::Choice(choice) = &draw_plan.measure.release_kind {
                rows = Some(rows_each(choice, specification.keys.outer().len())?);
            }
            columns.push(column);
            mean_rows.extend(beside);
            rungs.extend(rung);
            continue;
        }
        let own = gathered.get(draw_plan.bounded_input).ok_or_else(failed)?;
        match &draw_plan.measure.release_kind {
            ReleaseKind::Choice(choice) => {
                let keys = &specification.keys;
                let chosen = choose(draw_plan, choice, own, draw_plan.first, keys, rng)?;
                columns.push(values(draw_plan, choice, own, keys, &chosen)?);
                let is_list = matches!(draw_plan.measure.data_type, DataType::List(_));
                let of = |answers: &Vec<_>| if is_list { 1 } else { answers.len() };
                rows = Some(chosen.iter().map(of).collect());
            }
            ReleaseKind::Number(_) => {
                if let Mechanism::Cumulative(mechanism) = &draw_plan.mechanism {
                    columns.push(running_totals(draw_plan, mechanism, own, rng)?);
                    continue;
                }
                let (Gathered::Sums(sums) | Gathered::Groups { sums, .. }) = own else {
                    return Err(failed().into());
                };
                if let Some(together) = &draw_plan.together {
                    let own = drawn_vectors::vector(
                        together,
                        draw_plan,
                        specification,
                        gathered,
                        &mut vectors,
                        rng,
                    )?;
                    let (column, beside) = of_vector(draw_plan, together, own)?;
                    columns.push(column);
                    mean_rows.extend(beside);
                    continue;
                }
                if let Some(chosen) = bounded(draw_plan, specification, gathered, &mut bounds, rng)?
                {
                    let keys = chosen.under.first().map_or(0, Vec::len);
                    let (column, beside) = under_bound(&chosen, rng)?;
                    columns.push(column);
                    mean_rows.extend(beside);
                    rungs.push(Arc::new(Float64Array::from(vec![chosen.number; keys])));
                    continue;
                }
                let first = sums.get(draw_plan.first).ok_or_else(failed)?;
                if draw_plan.measure.is_mean() {
                    let second = sums.get(draw_plan.first + 1).ok_or_else(failed)?;
                    let (means, rows) = mean(draw_plan, first, second, rng)?;
                    // In plain SQL, the mean of decimals is a decimal.
                    columns.push(cast(&means, &draw_plan.measure.data_type)?);
                    mean_rows.push(rows);
                } else if let Some(moments) = draw_plan.measure.moments() {
                    let three = [0, 1, 2].map(|i| sums.get(draw_plan.first + i));
                    let [Some(a), Some(b), Some(c)] = three else { return Err(failed().into()) };
                    let noisy = a.iter().zip(b).zip(c).map(|((a, b), c)| {
                        let mut noisy = |sum: &i128| draw_plan.perturb(*sum, rng);
                        Ok([noisy(a)?, noisy(b)?, noisy(c)?])
                    });
                    let (values, within) = spreads(draw_plan, moments, noisy)?;
                    columns.push(values);
                    mean_rows.push(within);
                } else if let Some(moments) = draw_plan.measure.joint() {
                    let (values, within) = joints(draw_plan, moments, sums, rng)?;
                    columns.push(values);
                    mean_rows.push(within);
                } else {
                    let noisy = draw_plan.noisy(first, rng)?;
                    let Measure { grid, data_type, .. } = &draw_plan.measure;
                    let column = number(&noisy, *grid, data_type)?;
                    if specification.floors.iter().any(|floor| floor.count == columns.len()) {
                        people.insert(columns.len(), noisy.clone());
                    }
                    if deciding == Some(columns.len()) {
                        compared = Some(noisy);
                    }
                    columns.push(column);
                }
            }
        }
    }
    hide_numbers(specification, &people, &mut columns, &mut mean_rows)?;
    let groups = gathered.first().filter(|own| matches!(own, Gathered::Groups { .. }));
    let mut released = match groups {
        Some(Gathered::Groups { keys, .. }) if !keys.is_empty() => keys.clone(),
        Some(_) => return Ok(RecordBatch::new_empty(Arc::clone(&specification.released))),
        None => key_columns(&specification.keys, rows.as_deref(), columns.first())?,
    };
    released.append(&mut columns);
    released.append(&mut mean_rows);
    released.append(&mut rungs);
    let released = batch(&specification.released, released)?;
    match (&specification.hidden, groups) {
        (None, None) => Ok(released),
        (Some((hidden, counter)), Some(own)) => {
            hide(hidden, &released, own, *counter, compared.as_deref(), rng)
        }
        // Undeclared groups never come out without a threshold.
        (Some(_), None) | (None, Some(_)) => Err(failed().into()),
    }
}

/// A count, sum, mean or variance from a drawn vector, and its side column: the noisy numbers of
/// rows behind means, or the ± of variances.
fn of_vector(
    draw_plan: &DrawPlan,
    together: &Together,
    vector: &[drawn_vectors::NoisyVector],
) -> Result<(ArrayRef, Option<ArrayRef>), DrawError> {
    let measure = &draw_plan.measure;
    if measure.is_mean() {
        let around = vector.iter().map(|parts| drawn_vectors::around_mean(together, *parts));
        let around = around.collect::<Option<Vec<_>>>().ok_or_else(failed)?;
        let weight = if together.of_moments() { 2.0 * as_float(together.width) } else { 1.0 };
        let (means, rows) = means(measure, around.into_iter(), weight);
        return Ok((cast(&means, &measure.data_type)?, Some(rows)));
    }
    if let Some(moments) = measure.moments() {
        let parts = vector.iter().copied().map(Ok);
        let (values, within) = spreads(draw_plan, moments, parts)?;
        return Ok((values, Some(within)));
    }
    let values: Vec<i128> =
        vector.iter().map(|parts| drawn_vectors::whole(together, *parts)).collect();
    Ok((number(&values, measure.grid, &measure.data_type)?, None))
}

/// The columns of a private aggregate with public groups whose measures were all drawn before.
///
/// # Errors
/// An internal error for columns that do not belong to the measures.
pub(crate) fn shown_again(
    part: &PrivateAggregate,
    measures: &[&[ArrayRef]],
) -> Result<Vec<ArrayRef>> {
    let (mut columns, mut beside, mut rungs) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = None;
    for (measure, shown) in part.measures().iter().zip(measures) {
        let (column, own, rung) = parted(measure, shown)?;
        if let ReleaseKind::Choice(choice) = &measure.release_kind {
            rows = Some(rows_each(choice, part.keys().outer().len())?);
        }
        columns.push(column);
        beside.extend(own);
        rungs.extend(rung);
    }
    let keys = key_columns(part.keys(), rows.as_deref(), columns.first())?;
    Ok([keys, columns, beside, rungs].concat())
}

/// A measure's own column, its side column, and the position of its bound.
type Parted = (ArrayRef, Option<ArrayRef>, Option<ArrayRef>);

/// The columns of a measure that was drawn before.
fn parted(measure: &Measure, shown: &[ArrayRef]) -> Result<Parted> {
    match (shown, measure.ladder.is_some()) {
        ([column], false) => Ok((Arc::clone(column), None, None)),
        ([column, rung], true) => Ok((Arc::clone(column), None, Some(Arc::clone(rung)))),
        ([column, beside], false) => Ok((Arc::clone(column), Some(Arc::clone(beside)), None)),
        ([column, beside, rung], true) => {
            Ok((Arc::clone(column), Some(Arc::clone(beside)), Some(Arc::clone(rung))))
        }
        _ => Err(failed()),
    }
}

/// The number of rows in each group of a choice.
fn rows_each(choice: &Choice, groups: usize) -> Result<Vec<usize>> {
    let rounds = usize::try_from(choice.rounds).map_err(|_| failed())?;
    Ok(vec![rounds; groups])
}

/// The chosen bound of a measure.
struct Chosen {
    /// The exact integers under this bound, by output and key.
    under: Vec<Vec<i128>>,
    /// The position of the bound on its ladder.
    number: f64,
    /// How to draw the values under this bound.
    plan: DrawPlan,
}

/// The positions of the chosen bounds, by the number of the measure that chooses.
type ChosenPlaces = BTreeMap<usize, usize>;

/// Chooses the bound of a measure with a ladder, and returns its integers under that bound; `None`
/// for other measures.
///
/// # Guarantee
/// The choice is drawn from the numbers of units beyond the bounds, once for all measures that
/// share the ladder, by the mechanism of the release that pays for it. Every later draw uses the
/// noise that was calibrated to the chosen bound.
fn bounded(
    draw_plan: &DrawPlan,
    specification: &Specification,
    gathered: &[Gathered],
    places: &mut ChosenPlaces,
    rng: &mut QueryRng,
) -> Result<Option<Chosen>, DrawError> {
    let Some(ladder) = &draw_plan.measure.ladder else { return Ok(None) };
    let plans = &specification.draw_plans;
    let own_number = plans.iter().position(|plan| std::ptr::eq(plan, draw_plan));
    let leader = ladder.follows.or(own_number).ok_or_else(failed)?;
    let place = match places.get(&leader) {
        Some(place) => *place,
        None => {
            let plan = plans.get(leader).filter(|plan| plan.shown.is_none()).ok_or_else(failed)?;
            let (ladder, mechanism, own) = of_ladder(plan, gathered)?;
            if mechanism.follows() || ladder.follows.is_some() {
                return Err(failed().into());
            }
            let place = mechanism.choose(&own.beyond()?, rng)?;
            places.insert(leader, place);
            place
        }
    };
    let (ladder, mechanism, own) = of_ladder(draw_plan, gathered)?;
    let rung = mechanism.rungs().get(place).ok_or_else(failed)?;
    if ladder.rungs.get(place) != Some(&rung.bound) {
        return Err(failed().into());
    }
    let noise = Mechanism::Laplace(rung.noise.clone());
    let plan = DrawPlan { mechanism: noise, first: 0, ..draw_plan.clone() };
    let number = place.to_f64().ok_or_else(failed)?;
    Ok(Some(Chosen { under: own.under(place)?, number, plan }))
}

/// The ladder of a measure, its mechanism and its columns.
fn of_ladder<'a>(
    plan: &'a DrawPlan,
    gathered: &'a [Gathered],
) -> Result<(&'a Ladder, &'a ChosenBound, OfLadder<'a>), DrawError> {
    let (Some(ladder), Mechanism::ChosenBound(mechanism)) = (&plan.measure.ladder, &plan.mechanism)
    else {
        return Err(failed().into());
    };
    let (Gathered::Sums(sums) | Gathered::Groups { sums, .. }) =
        gathered.get(plan.bounded_input).ok_or_else(failed)?
    else {
        return Err(failed().into());
    };
    let own = OfLadder::new(sums, plan.first, ladder, plan.measure.parts())?;
    Ok((ladder, mechanism, own))
}

/// A count, sum or mean from its integers under a bound, and the noisy numbers of rows behind
/// means.
fn under_bound(
    chosen: &Chosen,
    rng: &mut QueryRng,
) -> Result<(ArrayRef, Option<ArrayRef>), DrawError> {
    let Chosen { under, plan, .. } = chosen;
    let data_type = &plan.measure.data_type;
    match (under.as_slice(), plan.measure.is_mean()) {
        ([above, below], true) => {
            let (means, rows) = mean(plan, above, below, rng)?;
            Ok((cast(&means, data_type)?, Some(rows)))
        }
        ([values], false) => {
            let noisy = values.iter().map(|value| plan.perturb(*value, rng));
            let noisy = noisy.collect::<Result<Vec<_>, _>>()?;
            Ok((number(&noisy, plan.measure.grid, data_type)?, None))
        }
        _ => Err(failed().into()),
    }
}

/// A variance or standard deviation from its three noisy sums, with its own ±.
///
/// # Guarantee
/// A function of the drawn integers and public numbers; NULL if they show too few rows.
fn spreads(
    draw_plan: &DrawPlan,
    moments: &VarianceMoments,
    noisy: impl Iterator<Item = Result<[i128; 3], DrawError>>,
) -> Result<(ArrayRef, ArrayRef), DrawError> {
    let Measure { lo, hi, grid, .. } = draw_plan.measure;
    let Predicted::Spread { noise } = draw_plan.accuracy else { return Err(failed().into()) };
    let scale = Scale::new(moments, lo, hi, unit(grid), noise);
    let (mut values, mut within) = (Vec::new(), Vec::new());
    for three in noisy {
        let one = scale.of(three?);
        values.push(one.map(|one| one.value));
        within.push(one.map(|one| one.within));
    }
    Ok((Arc::new(Float64Array::from(values)), Arc::new(Float64Array::from(within))))
}

/// A statistic of two columns from its noisy sums, with its own ±.
///
/// # Guarantee
/// A function of the drawn integers and public numbers; NULL if they show too few rows, or a column
/// that does not vary.
fn joints(
    draw_plan: &DrawPlan,
    moments: &JointMoments,
    sums: &[Vec<i128>],
    rng: &mut QueryRng,
) -> Result<(ArrayRef, ArrayRef), DrawError> {
    let Predicted::Spread { noise } = draw_plan.accuracy else { return Err(failed().into()) };
    let scale = JointScale::new(moments, noise);
    let products = draw_plan.first..draw_plan.first + moments.pairs.products();
    let sums = sums.get(products).ok_or_else(failed)?;
    let groups = sums.first().map_or(0, Vec::len);
    let (mut values, mut within) = (Vec::with_capacity(groups), Vec::with_capacity(groups));
    for group in 0..groups {
        let noisy = sums.iter().map(|sums| {
            let sum = sums.get(group).ok_or_else(failed)?;
            draw_plan.perturb(*sum, rng)
        });
        let one = scale.of(&noisy.collect::<Result<Vec<_>, DrawError>>()?);
        values.push(one.map(|one| one.value));
        within.push(one.map(|one| one.within));
    }
    Ok((Arc::new(Float64Array::from(values)), Arc::new(Float64Array::from(within))))
}

/// The key columns of the released rows: each outer group, repeated for each of its answers, and
/// the chosen candidates in the target's column.
fn key_columns(
    keys: &Keys,
    rows: Option<&[usize]>,
    chosen: Option<&ArrayRef>,
) -> Result<Vec<ArrayRef>> {
    let mut outer = match rows {
        None => keys.outer().columns().to_vec(),
        Some(rows) => {
            let repeated = (0_u64..).zip(rows).flat_map(|(i, n)| std::iter::repeat_n(i, *n));
            let indices = UInt64Array::from_iter_values(repeated);
            let take = |column: &ArrayRef| arrow::compute::take(column, &indices, None);
            keys.outer().columns().iter().map(take).collect::<Result<_, _>>()?
        }
    };
    if let (Some(position), Some(chosen)) = (keys.target_position(), chosen) {
        outer.insert(position.min(outer.len()), Arc::clone(chosen));
    }
    Ok(outer)
}

/// The chosen candidates of all groups as one column.
fn values(
    draw_plan: &DrawPlan,
    choice: &Choice,
    gathered: &Gathered,
    keys: &Keys,
    chosen: &[Vec<Option<u64>>],
) -> Result<ArrayRef, DrawError> {
    let data_type = &draw_plan.measure.data_type;
    let flat: Vec<Option<u64>> = chosen.iter().flatten().copied().collect();
    let taken = |values: &ArrayRef, indices: Vec<Option<u64>>| {
        Ok::<_, DrawError>(arrow::compute::take(values, &UInt64Array::from(indices), None)?)
    };
    match (&choice.source, gathered) {
        (CandidateSource::Keys(candidates), _) => {
            let position = keys.target_position().ok_or_else(failed)?;
            let column = keys.all().columns().get(position).ok_or_else(failed)?;
            let row = |candidate: Option<u64>| {
                let i = usize::try_from(candidate?).ok()?;
                u64::try_from(keys.row(0, *candidates.get(i)?)).ok()
            };
            taken(column, flat.into_iter().map(row).collect())
        }
        (CandidateSource::Each(axis) | CandidateSource::Line { axis, .. }, _) => {
            let flat: Option<Vec<u64>> = flat.into_iter().collect();
            let flat = flat.ok_or_else(failed)?;
            let DataType::List(field) = data_type else {
                return Ok(axis.values(&flat, data_type)?);
            };
            let values = axis.values(&flat, field.data_type())?;
            let lengths = OffsetBuffer::from_lengths(chosen.iter().map(Vec::len));
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), lengths, values, None)?))
        }
        (CandidateSource::Unknown { .. }, Gathered::Keys { values: Some(values), .. }) => {
            taken(values, flat)
        }
        (CandidateSource::Unknown { .. }, _) => {
            Ok(arrow::array::new_null_array(data_type, flat.len()))
        }
    }
}

/// The largest unscaled value of a decimal.
pub(super) const MOST_DIGITS: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

/// Noisy integers on a grid as a SQL column; values that do not fit its type saturate.
fn number(noisy: &[i128], grid: Grid, data_type: &DataType) -> Result<ArrayRef, DrawError> {
    Ok(match (data_type, grid) {
        (DataType::Int64, Grid::Integer) => {
            let saturated = noisy
                .iter()
                .map(|v| i64::try_from(*v).unwrap_or(if *v < 0 { i64::MIN } else { i64::MAX }));
            Arc::new(Int64Array::from_iter_values(saturated))
        }
        // In plain SQL, a sum of unsigned numbers is unsigned.
        (DataType::UInt64, Grid::Integer) => {
            let saturated = noisy
                .iter()
                .map(|v| u64::try_from(*v).unwrap_or(if *v < 0 { 0 } else { u64::MAX }));
            Arc::new(UInt64Array::from_iter_values(saturated))
        }
        (DataType::Decimal128(precision, scale), Grid::Decimal { scale: own }) => {
            // A step of the grid is at least one unit of the column.
            let unit = 10_i128.saturating_pow(u32::from(scale.saturating_sub(own).unsigned_abs()));
            let saturated =
                noisy.iter().map(|v| v.saturating_mul(unit).clamp(-MOST_DIGITS, MOST_DIGITS));
            let array = Decimal128Array::from_iter_values(saturated);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        (DataType::Float64, grid) => {
            let unit = unit(grid);
            let scaled = noisy.iter().map(|v| v.to_f64().unwrap_or(0.0) * unit);
            Arc::new(Float64Array::from_iter_values(scaled))
        }
        _ => return Err(failed().into()),
    })
}

fn as_float(steps: i128) -> f64 {
    steps.to_f64().unwrap_or(0.0)
}

/// The value of one grid step as a float.
fn unit(grid: Grid) -> f64 {
    match grid {
        Grid::Integer => 1.0,
        Grid::Decimal { scale } => 10_f64.powi(-i32::from(scale)),
        Grid::Binary { log2 } => 2_f64.powi(-log2),
    }
}

/// AVG: draws its two exact parts and divides.
fn mean(
    draw_plan: &DrawPlan,
    above: &[i128],
    below: &[i128],
    rng: &mut QueryRng,
) -> Result<(ArrayRef, ArrayRef), DrawError> {
    let mut noisy = Vec::with_capacity(above.len());
    for (a, b) in above.iter().zip(below) {
        let noisy_above = draw_plan.perturb(*a, rng)?;
        // If the number of rows is public, so is the total of both parts: one of them is drawn.
        let noisy_below = match draw_plan.measure.knows_rows() {
            true => a.saturating_add(*b).saturating_sub(noisy_above),
            false => draw_plan.perturb(*b, rng)?,
        };
        noisy.push((noisy_above, noisy_below));
    }
    Ok(means(&draw_plan.measure, noisy.into_iter(), 1.0))
}

/// AVG from its two noisy parts A = Σ(x − lo) and B = Σ(hi − x), or `times` as much: lo + w·A/(A +
/// B), within [lo, hi]; and the noisy numbers of rows.
///
/// # Guarantee
/// A function of the two drawn integers and the public bounds; NULL if they show no rows.
fn means(
    measure: &Measure,
    noisy: impl Iterator<Item = (i128, i128)>,
    times: f64,
) -> (ArrayRef, ArrayRef) {
    let unit = unit(measure.grid);
    let (lo, hi) = (as_float(measure.lo), as_float(measure.hi));
    let (mut means, mut counts) = (Vec::new(), Vec::new());
    for (a, b) in noisy {
        let (a, b) = (as_float(a), as_float(b));
        let rows = (a + b) / times / (hi - lo);
        // Fewer than half a row: no average.
        counts.push((rows >= 0.5).then_some(rows));
        means.push((rows >= 0.5).then(|| ((lo + (hi - lo) * a / (a + b)).clamp(lo, hi)) * unit));
    }
    (Arc::new(Float64Array::from(means)), Arc::new(Float64Array::from(counts)))
}

/// Builds the released batch from its columns.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::refined::steps_of;

    /// A later draw reads back the noisy integers of an earlier one, or none of them.
    #[test]
    fn the_steps_of_a_column_are_read_back() {
        let decimal = DataType::Decimal128(20, 4);
        let kinds = [
            (DataType::Int64, Grid::Integer),
            (DataType::UInt64, Grid::Integer),
            (decimal.clone(), Grid::Decimal { scale: 4 }),
            (decimal, Grid::Decimal { scale: 2 }),
            (DataType::Float64, Grid::Integer),
            (DataType::Float64, Grid::Decimal { scale: 3 }),
            (DataType::Float64, Grid::Decimal { scale: -2 }),
            (DataType::Float64, Grid::Binary { log2: 17 }),
            (DataType::Float64, Grid::Binary { log2: -9 }),
        ];
        let mut rng = QueryRng::seeded_for_tests(12);
        let noise = crate::mechanism::Laplace::calibrate(1 << 40, &"0.01".parse().unwrap());
        let noise = noise.unwrap();
        for (data_type, grid) in kinds {
            for round in 0..2_000_i128 {
                let far = noise.draw(&mut rng) >> (round % 60);
                let some = [round - 1_000, far.clamp(-(1 << 49), 1 << 49), 1 << 49];
                let some = match data_type {
                    DataType::UInt64 => some.map(|v| v.abs() + 1),
                    _ => some,
                };
                let column = number(&some, grid, &data_type).unwrap();
                assert_eq!(steps_of(&column, grid), Some(some.to_vec()), "{data_type} {grid:?}");
            }
            // What does not fit the type is at its end, and floats have 53 bits.
            for beyond in [i128::MAX / 2, i128::MIN / 2, (1 << 60) + 1] {
                let column = number(&[5, beyond], grid, &data_type).unwrap();
                let read = steps_of(&column, grid);
                assert!(read.is_none() || read == Some(vec![5, beyond]), "{data_type} {grid:?}");
            }
        }
        let column = number(&[0], Grid::Integer, &DataType::UInt64).unwrap();
        assert_eq!(steps_of(&column, Grid::Integer), None, "a negative number is 0, too");
        let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(steps_of(&null, Grid::Integer), None);
    }
}
