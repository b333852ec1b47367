//! Refined draws: a number that is asked again with a larger ε builds on the draw that is kept, and
//! costs what that draw leaves of its ε.
//!
//! In: a measure that is to be drawn, and an earlier draw of the same numbers. Out: the mechanism
//! and the loss of a draw that is built on it. One record says what is built on what; it decides
//! both what is charged and how it is drawn.
//!
//! ```text
//! COUNT(*) at ε = 0.5, kept                  charged ε = 0.5
//! COUNT(*) at ε = 1, built on it             charged ε = 0.5, drawn with the law of ε = 1
//! ```
//!
//! # Guarantee
//! Both draws together lose the larger ε if they are draws of the very same integers, and if at
//! most one draw is built on each (see
//! [`refined_laplace`](hushql_privacy::sampler::refined_laplace())). The ledger gives each kept
//! draw to one charge. The integers are the same for equal questions on one version of the tables
//! if each of these is held to its bytes, and if no bound can cut a row: otherwise, the rows of a
//! unit that count are chosen anew for each draw, and two groups lose 1.24 where 1 is charged.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use num_traits::ToPrimitive;

use super::draw_set::{DrawSet, Draws, Of};
use super::replay::{PaidBy, columns_of};
use crate::analysis::{Input, Measure, PrivateAggregate, ReleaseKind};
use crate::grid::Grid;
use crate::mechanism::{Laplace, RefinedLaplace};
use crate::privacy::{Epsilon, Loss};
use crate::release::mechanism::{Mechanism, Mechanized};

/// The ε of a draw on which another one can be built, or that can be built on another one. `None`
/// for any other draw.
///
/// # Guarantee
/// `Some` only for pure Laplace noise, drawn for this number alone, on a count or sum of public
/// groups of which no bound cuts any row, and which neighbours change by adding or removing a
/// person.
pub(crate) fn refinable(
    part: &PrivateAggregate,
    measure: &Measure,
    mechanized: &Mechanized,
) -> Option<Epsilon> {
    let Mechanized { mechanism: Mechanism::Laplace(noise), loss, together: None, .. } = mechanized
    else {
        return None;
    };
    let is_added_up = match measure.input {
        Input::Rows | Input::Values(_) | Input::Units | Input::Sum(_) => true,
        Input::Distinct(_)
        | Input::Mean(_)
        | Input::SumPerUnit(_)
        | Input::MeanPerUnit(_)
        | Input::Moments(_)
        | Input::Joint(_)
        | Input::Terms { .. }
        | Input::Places { .. }
        | Input::Bins { .. } => false,
    };
    let subject = part.subject();
    let is_plain = measure.ladder.is_none()
        && measure.replaced.is_none()
        && measure.clause.consistent.is_none()
        && measure.clause.parameters.rho.is_none()
        && part.people_floor().is_none()
        && part.unknown_partitions().is_none()
        && !part.keys().are_unknown()
        && subject.month_of().is_none()
        && subject.public().is_none()
        && subject.blocks().is_none();
    let ReleaseKind::Number(sensitivity) = &measure.release_kind else { return None };
    let epsilon = Epsilon::new(loss.epsilon()?.clone()).ok()?;
    let is_pure = *loss == Loss::pure(&epsilon)
        && Laplace::calibrate(sensitivity.l1, &epsilon).ok().as_ref() == Some(noise)
        && !noise.is_exact();
    (is_added_up && is_plain && is_pure && keeps_all(part, measure)).then_some(epsilon)
}

/// True if the declarations allow a unit no more than the bounds of a measure let through.
fn keeps_all(part: &PrivateAggregate, measure: &Measure) -> bool {
    let Some(most) = part.subject().max_rows() else { return false };
    let groups = u64::try_from(part.keys().all().len()).unwrap_or(u64::MAX);
    let limits = &measure.limits;
    limits.total.is_none_or(|total| total >= most)
        && (measure.once_per_group() || limits.per_partition >= most)
        && limits.l0.is_some_and(|l0| l0 >= most.min(groups))
}

/// A measure that is built on an earlier draw.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RefinedDraw {
    /// The charge that paid for the earlier draw.
    pub(crate) paid: PaidBy,
    /// The ε of the earlier draw.
    pub(crate) before: Epsilon,
    /// The noisy numbers that were drawn earlier, in the order of the groups.
    pub(crate) kept: Vec<i128>,
    /// The noise that is built on theirs.
    pub(crate) noise: RefinedLaplace,
    /// What is left to pay.
    pub(crate) loss: Loss,
}

/// The draws of the measures of a release that earlier draws concern, by private aggregate and
/// measure.
#[derive(Debug, Default)]
pub(crate) struct EarlierDraws {
    refined: BTreeMap<(usize, usize), RefinedDraw>,
    finer: BTreeMap<(usize, usize), (PaidBy, Epsilon)>,
}

impl EarlierDraws {
    /// The earlier draw on which a measure is built.
    pub(crate) fn refined(&self, part: usize, measure: usize) -> Option<&RefinedDraw> {
        self.refined.get(&(part, measure))
    }

    /// The kept draw of the same numbers with a larger ε, and its charge.
    pub(crate) fn finer(&self, part: usize, measure: usize) -> Option<&(PaidBy, Epsilon)> {
        self.finer.get(&(part, measure))
    }

    /// The measures that are built on an earlier draw.
    pub(super) fn all(&self) -> impl Iterator<Item = &RefinedDraw> {
        self.refined.values()
    }

    /// Builds a draw set on an earlier draw of its question at ε = `before`. `None`, and nothing
    /// changes, if the noise of that draw cannot be refined, or its numbers cannot be read back.
    pub(super) fn refine(
        &mut self,
        parts: &[PrivateAggregate],
        mechanisms: &[Vec<Mechanized>],
        unit: &DrawSet,
        (paid, before): (PaidBy, &Epsilon),
        drawn: &[RecordBatch],
    ) -> Option<()> {
        let (at @ (part, measure), groups) = only(unit)?;
        let own = parts.get(part)?;
        let (one, mechanized) = (own.measures().get(measure)?, mechanisms.get(part)?.get(measure)?);
        let epsilon = refinable(own, one, mechanized)?;
        let ReleaseKind::Number(sensitivity) = &one.release_kind else { return None };
        let Mechanism::Laplace(finer) = &mechanized.mechanism else { return None };
        let [batch] = drawn else { return None };
        let columns = columns_of(own, &[measure], groups, batch)?;
        let [column] = columns.first()?.as_slice() else { return None };
        let coarse = Laplace::calibrate(sensitivity.l1, before).ok()?;
        let refined = RefinedDraw {
            paid,
            before: before.clone(),
            kept: steps_of(column, one.grid)?,
            noise: RefinedLaplace::new(&coarse, finer).ok()?,
            loss: Loss::refined(before, &epsilon).ok()?,
        };
        self.refined.insert(at, refined);
        Some(())
    }

    /// Notes that a draw of the question with at least the ε of this draw set is kept.
    pub(super) fn note_finer(&mut self, unit: &DrawSet, paid: PaidBy, epsilon: Epsilon) {
        if let Some((at, _)) = only(unit) {
            self.finer.insert(at, (paid, epsilon));
        }
    }
}

/// The only measure of a draw set, and the order in which its groups are kept.
fn only(unit: &DrawSet) -> Option<((usize, usize), &[usize])> {
    let [Draws { part, of: Of::Measures { measures, groups } }] = unit.draws.as_slice() else {
        return None;
    };
    let [measure] = measures.as_slice() else { return None };
    Some(((*part, *measure), groups))
}

/// The noisy integers of which a column was made: the inverse of `exec::draw::number`.
///
/// # Guarantee
/// `None` if one of them is not certain, because the column holds the end of its type there or a
/// float with too few digits. It depends on released numbers alone.
pub(crate) fn steps_of(column: &ArrayRef, grid: Grid) -> Option<Vec<i128>> {
    /// A decimal of 38 digits ends there.
    const MOST_DIGITS: i128 = 10_i128.pow(38) - 1;
    (column.null_count() == 0).then_some(())?;
    match (column.data_type(), grid) {
        (DataType::Int64, Grid::Integer) => {
            let inside = |v: &i64| (*v != i64::MIN && *v != i64::MAX).then(|| i128::from(*v));
            column.as_primitive_opt::<Int64Type>()?.values().iter().map(inside).collect()
        }
        (DataType::UInt64, Grid::Integer) => {
            let inside = |v: &u64| (*v != 0 && *v != u64::MAX).then(|| i128::from(*v));
            column.as_primitive_opt::<UInt64Type>()?.values().iter().map(inside).collect()
        }
        (DataType::Decimal128(_, scale), Grid::Decimal { scale: own }) => {
            let unit = 10_i128.checked_pow(u32::from(scale.checked_sub(own)?.unsigned_abs()))?;
            let steps = |v: &i128| {
                let is_whole = v.checked_rem(unit) == Some(0) && v.abs() < MOST_DIGITS;
                is_whole.then(|| v.checked_div(unit)).flatten()
            };
            column.as_primitive_opt::<Decimal128Type>()?.values().iter().map(steps).collect()
        }
        (DataType::Float64, grid) => {
            let unit = match grid {
                Grid::Integer => 1.0,
                Grid::Decimal { scale } => 10_f64.powi(-i32::from(scale)),
                Grid::Binary { log2 } => 2_f64.powi(-log2),
            };
            // Whole numbers of 50 bits have different products with the unit, and so does 0.
            let steps = |v: &f64| {
                let steps = (v / unit).round();
                let is_same = (steps * unit).to_bits() == v.to_bits();
                let is_certain = steps.abs() < 2_f64.powi(50) && is_same;
                is_certain.then(|| steps.to_i128()).flatten()
            };
            column.as_primitive_opt::<Float64Type>()?.values().iter().map(steps).collect()
        }
        _ => None,
    }
}
