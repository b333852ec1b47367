//! From exact integers to a released column: the draw, and the way back from the grid to SQL's numbers.
//!
//! In: the sums of every key and a paid-for source of randomness. Out: the released batch. Each measure's
//! mechanism is drawn once per key (numbers) or once (selections), in the order of the key space, so nothing
//! but the exact integers of this very query reaches a mechanism. What follows the draw is a function of the
//! noisy integers alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use num_traits::ToPrimitive;

use super::physical::{Specification, batch};
use crate::analysis::{Measure, Use, prefers_low};
use crate::grid::{Grid, failed};
use crate::mechanism::MechanismError;
use crate::release::{Mechanism, Mechanized};
use crate::sampler::QueryRng;

/// How one released column is made.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) measure: Measure,
    pub(super) mechanism: Mechanism,
}

impl Recipe {
    pub(super) fn new(measure: &Measure, mechanized: &Mechanized) -> Self {
        Self { measure: measure.clone(), mechanism: mechanized.mechanism.clone() }
    }

    /// How many columns of integers it reads.
    pub(super) fn width(&self) -> usize {
        self.measure.width()
    }
}

/// Why a released table could not be made; none of it depends on the data.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrawError {
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    #[error(transparent)]
    DataFusion(#[from] datafusion::error::DataFusionError),
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

/// Draws every measure.
///
/// # Guarantee
/// Each mechanism is given the exact integers of its measure once, and nothing else; it is calibrated for
/// their sensitivity. Everything returned is computed from the drawn values and public keys.
pub(super) fn draw(
    specification: &Specification,
    sums: &[Vec<i128>],
    rng: &mut QueryRng,
) -> Result<RecordBatch, DrawError> {
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut mean_rows: Vec<ArrayRef> = Vec::new();
    let mut next = 0;
    let mut winner = None;
    for recipe in &specification.recipes {
        let (first, second) = (sums.get(next), sums.get(next + 1));
        next += recipe.width();
        let first = first.ok_or_else(failed)?;
        columns.push(match &recipe.measure.use_ {
            Use::Score { selector, candidates, .. } => {
                let row = choose(recipe, first, candidates, prefers_low(*selector), rng)?;
                winner = Some(row);
                take(specification, row)?
            }
            Use::Number(_) if recipe.width() == 2 => {
                let (means, rows) = mean(recipe, first, second.ok_or_else(failed)?, rng)?;
                mean_rows.push(rows);
                means
            }
            Use::Number(_) => {
                let noisy: Vec<i128> =
                    first.iter().map(|v| perturb(recipe, *v, rng)).collect::<Result<_, _>>()?;
                number(&noisy, recipe.measure.grid, &recipe.measure.data_type)?
            }
        });
    }
    let mut released: Vec<ArrayRef> = match winner {
        Some(row) => vec![take(specification, row)?],
        None => specification.keys.columns().to_vec(),
    };
    released.append(&mut columns);
    released.append(&mut mean_rows);
    Ok(batch(&specification.released, released)?)
}

/// One candidate of the key space, chosen by its score.
fn choose(
    recipe: &Recipe,
    scores: &[i128],
    candidates: &[usize],
    low: bool,
    rng: &mut QueryRng,
) -> Result<usize, DrawError> {
    let own = candidates.iter().map(|row| {
        let score = scores.get(*row).copied().ok_or_else(failed)?;
        Ok(if low { score.checked_neg().ok_or_else(failed)? } else { score })
    });
    let own: Vec<i128> = own.collect::<Result<_, DrawError>>()?;
    let index = match &recipe.mechanism {
        Mechanism::Exponential(mechanism) => mechanism.choose(&own, rng)?,
        Mechanism::PermuteAndFlip(mechanism) => mechanism.choose(&own, rng)?,
        Mechanism::NoisyMax(mechanism) => mechanism.choose(&own, rng)?,
        Mechanism::Laplace(_) | Mechanism::Gaussian(_) => return Err(failed().into()),
    };
    candidates.get(index).copied().ok_or_else(|| failed().into())
}

/// The key of one row, as a column of length 1.
fn take(specification: &Specification, row: usize) -> Result<ArrayRef, DrawError> {
    let column = specification.keys.columns().first().ok_or_else(failed)?;
    let row = u64::try_from(row).map_err(|_| failed())?;
    Ok(arrow::compute::take(column, &UInt64Array::from(vec![row]), None)?)
}

fn perturb(recipe: &Recipe, value: i128, rng: &mut QueryRng) -> Result<i128, DrawError> {
    let noise = match &recipe.mechanism {
        Mechanism::Laplace(mechanism) => mechanism.draw(rng),
        Mechanism::Gaussian(mechanism) => mechanism.draw(rng),
        Mechanism::Exponential(_) | Mechanism::PermuteAndFlip(_) | Mechanism::NoisyMax(_) => {
            return Err(failed().into());
        }
    };
    Ok(value.saturating_add(noise))
}

/// Noisy integers on a grid as a SQL column; what its type cannot hold saturates.
fn number(noisy: &[i128], grid: Grid, data_type: &DataType) -> Result<ArrayRef, DrawError> {
    const MOST_DIGITS: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;
    Ok(match (data_type, grid) {
        (DataType::Int64, Grid::Integer) => {
            let saturated = noisy
                .iter()
                .map(|v| i64::try_from(*v).unwrap_or(if *v < 0 { i64::MIN } else { i64::MAX }));
            Arc::new(Int64Array::from_iter_values(saturated))
        }
        (DataType::Decimal128(precision, scale), Grid::Decimal { .. }) => {
            let saturated = noisy.iter().map(|v| (*v).clamp(-MOST_DIGITS, MOST_DIGITS));
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

/// What one grid step is worth as a float.
fn unit(grid: Grid) -> f64 {
    match grid {
        Grid::Integer => 1.0,
        Grid::Decimal { scale } => 10_f64.powi(-i32::from(scale)),
        Grid::Binary { log2 } => 2_f64.powi(-log2),
    }
}

/// AVG from its two noisy parts A = Σ(x − lo) and B = Σ(hi − x): lo + w·A/(A + B), within [lo, hi].
///
/// # Guarantee
/// A function of the two drawn integers and the public bounds; NULL where they say that there is no row.
fn mean(
    recipe: &Recipe,
    above: &[i128],
    below: &[i128],
    rng: &mut QueryRng,
) -> Result<(ArrayRef, ArrayRef), DrawError> {
    let unit = unit(recipe.measure.grid);
    let as_float = |v: i128| v.to_f64().unwrap_or(0.0);
    let (lo, hi) = (as_float(recipe.measure.lo), as_float(recipe.measure.hi));
    let mut means = Vec::with_capacity(above.len());
    let mut counts = Vec::with_capacity(above.len());
    for (a, b) in above.iter().zip(below) {
        let a = as_float(perturb(recipe, *a, rng)?);
        let b = as_float(perturb(recipe, *b, rng)?);
        let rows = (a + b) / (hi - lo);
        // Less than half a row: nothing to average.
        counts.push((rows >= 0.5).then_some(rows));
        means.push((rows >= 0.5).then(|| ((lo + (hi - lo) * a / (a + b)).clamp(lo, hi)) * unit));
    }
    Ok((Arc::new(Float64Array::from(means)), Arc::new(Float64Array::from(counts))))
}
