//! What stands beside the columns that a private aggregate releases.
//!
//! In: its measures, and the batch that it drew. Out: the columns behind the released ones: the
//! noisy numbers of rows behind means, the ± of variances, and the places of bounds that were
//! chosen; and the one number of each that counts.

use std::sync::Arc;

use ::datafusion::common::Result;
use arrow::array::{AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use num_traits::ToPrimitive;

use crate::analysis::Measure;

/// A column behind the released ones that the accuracy of a measure depends on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beside {
    /// The noisy number of rows behind a mean: the least one counts.
    Rows,
    /// The ± of a variance or of a statistic of two columns: the largest one counts.
    Within,
}

impl Beside {
    /// What stands beside a measure, if anything does.
    pub(super) fn for_measure(measure: &Measure) -> Option<Self> {
        let has_own = measure.moments().is_some() || measure.joint().is_some();
        match (measure.is_mean(), has_own) {
            (true, _) => Some(Self::Rows),
            (false, true) => Some(Self::Within),
            (false, false) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Within => "within",
        }
    }

    /// The one number of a column that counts.
    fn number(self, column: &Float64Array) -> f64 {
        match self {
            Self::Rows => column.iter().flatten().fold(f64::INFINITY, f64::min),
            Self::Within => column.iter().flatten().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// The released table, and behind it what stands beside its measures, in their order, and the
/// places of the bounds that were chosen for them.
pub(super) fn with_columns_beside(released: &SchemaRef, measures: &[Measure]) -> SchemaRef {
    let beside = measures.iter().enumerate().filter_map(|(i, measure)| {
        let name = format!("{}{i}", Beside::for_measure(measure)?.name());
        Some(Arc::new(Field::new(name, DataType::Float64, true)))
    });
    let rungs = measures.iter().enumerate().filter(|(_, measure)| measure.ladder.is_some());
    let rungs =
        rungs.map(|(i, _)| Arc::new(Field::new(format!("rung{i}"), DataType::Float64, true)));
    let fields = released.fields().iter().cloned().chain(beside).chain(rungs);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The released columns of a batch, what stands beside each measure, and the place of its chosen
/// bound.
pub(super) type Parted = (RecordBatch, Vec<Option<f64>>, Vec<Option<usize>>);

pub(super) fn split(
    batch: &RecordBatch,
    columns: usize,
    beside: &[Option<Beside>],
    is_chosen: &[bool],
) -> Result<Parted> {
    let mut behind = batch.columns().iter().skip(columns);
    let numbers = beside.iter().map(|beside| {
        let beside = (*beside)?;
        let column = behind.next()?.as_primitive_opt::<Float64Type>()?;
        Some(beside.number(column))
    });
    let numbers = numbers.collect();
    let rungs = is_chosen.iter().map(|is_chosen| {
        let column = is_chosen.then(|| behind.next()).flatten()?;
        let place = column.as_primitive_opt::<Float64Type>()?.iter().flatten().next()?;
        place.to_usize()
    });
    let rungs = rungs.collect();
    let released: Vec<usize> = (0..columns).collect();
    Ok((batch.project(&released)?, numbers, rungs))
}
