//! The side columns of a private aggregate: columns that follow its released ones.
//!
//! In: its measures, and the batch that it drew. Out: the noisy numbers of rows behind means, the ±
//! of variances, and the positions of chosen bounds; and from each side column the one number that
//! accuracy depends on.

use std::sync::Arc;

use ::datafusion::common::Result;
use arrow::array::{AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use num_traits::ToPrimitive;

use crate::analysis::Measure;

/// A side column, on which the accuracy of a measure depends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beside {
    /// The noisy numbers of rows behind a mean; the least one decides.
    Rows,
    /// The ± of a variance or of a statistic of two columns; the largest one decides.
    Within,
}

impl Beside {
    /// The side column of a measure, if it has one.
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

    /// The number of a side column that decides the accuracy.
    fn number(self, column: &Float64Array) -> f64 {
        match self {
            Self::Rows => column.iter().flatten().fold(f64::INFINITY, f64::min),
            Self::Within => column.iter().flatten().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// The columns of the released table, followed by the side columns of its measures in their order,
/// and the positions of the chosen bounds.
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

/// The released columns of a batch, the deciding number of each side column, and the position of
/// each chosen bound.
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
