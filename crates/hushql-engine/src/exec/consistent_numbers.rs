//! Makes released numbers consistent.
//!
//! In: the released columns of the private aggregates of a hierarchy, after all of them have drawn.
//! Out: the same columns with numbers that add up. They are a function of released numbers, public
//! keys and public variances, so this costs nothing.

use std::sync::Arc;

use ::datafusion::common::{Result, internal_err};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use num_traits::ToPrimitive;

use super::PreparedPart;
use super::error_columns::with_margins;
use crate::grid::failed;
use crate::release::Release;

/// What a private aggregate drew.
pub(super) struct DrawnPart {
    pub(super) index: usize,
    pub(super) part: PreparedPart,
    /// The whole batch that it drew.
    pub(super) batch: RecordBatch,
    /// Its released columns.
    pub(super) columns: RecordBatch,
    /// The positions of the chosen bounds.
    pub(super) rungs: Vec<Option<usize>>,
}

impl DrawnPart {
    /// Gives its rows to the plans that read them.
    fn give(&self) -> Result<()> {
        let Self { index: _, part, batch, columns, rungs } = self;
        part.released.give(&with_margins(batch, columns, rungs, part)?)
    }
}

/// The private aggregates that wait for others of their hierarchies.
#[derive(Default)]
pub(super) struct WaitingParts(Vec<DrawnPart>);

impl WaitingParts {
    /// Gives the rows of a draw to the plans that read them. Those of a hierarchy wait until all of
    /// its private aggregates have drawn.
    ///
    /// # Guarantee
    /// Numbers outside of hierarchies stay as they were drawn.
    pub(super) fn give(&mut self, drawn: DrawnPart, release: &Release) -> Result<()> {
        let index = drawn.index;
        self.0.push(drawn);
        let hierarchies = release.analysis().hierarchies();
        let is_complete = |part: usize| {
            let own = hierarchies.iter().filter(|one| one.levels.iter().any(|l| l.0 == part));
            own.map(|one| one.last()).max().is_none_or(|last| last <= index)
        };
        if !self.0.iter().all(|drawn| is_complete(drawn.index)) {
            return Ok(());
        }
        for (number, hierarchy) in hierarchies.iter().enumerate() {
            if hierarchy.levels.iter().any(|level| self.at(level.0).is_some()) {
                self.fit(release, number)?;
            }
        }
        std::mem::take(&mut self.0).iter().try_for_each(DrawnPart::give)
    }

    fn at(&self, part: usize) -> Option<usize> {
        self.0.iter().position(|drawn| drawn.index == part)
    }

    /// Makes the numbers of one hierarchy consistent.
    fn fit(&mut self, release: &Release, number: usize) -> Result<()> {
        let hierarchy = release.analysis().hierarchies().get(number).ok_or_else(failed)?;
        let fit = release.fits().get(number).ok_or_else(failed)?;
        let mut places = Vec::with_capacity(hierarchy.levels.len());
        for (part, measure) in &hierarchy.levels {
            let keys = release.analysis().parts().get(*part).ok_or_else(failed)?.key_names().len();
            places.push((self.at(*part).ok_or_else(failed)?, keys + measure));
        }
        let column = |(at, column): &(usize, usize)| -> Option<&ArrayRef> {
            self.0.get(*at)?.columns.columns().get(*column)
        };
        let noisy: Option<Vec<Vec<f64>>> =
            places.iter().map(|place| numbers(column(place)?)).collect();
        let noisy = noisy.ok_or_else(failed)?;
        if !noisy.iter().map(Vec::len).eq(hierarchy.tree.sizes()) {
            return internal_err!("every group of a hierarchy has its number");
        }
        let variances: Vec<f64> = fit.levels.iter().map(|level| level.variance).collect();
        let fitted = hierarchy.tree.fitted(&noisy, &variances, fit.shape);
        for ((at, column), numbers) in places.into_iter().zip(fitted) {
            let drawn = self.0.get_mut(at).ok_or_else(failed)?;
            let mut columns = drawn.columns.columns().to_vec();
            let own = columns.get_mut(column).ok_or_else(failed)?;
            *own = as_type(numbers, own.data_type())?;
            drawn.columns = RecordBatch::try_new(drawn.columns.schema(), columns)?;
        }
        Ok(())
    }
}

/// The numbers of a released column.
fn numbers(column: &ArrayRef) -> Option<Vec<f64>> {
    if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
        return Some(floats.iter().map(|number| number.unwrap_or(0.0)).collect());
    }
    let whole = column.as_primitive_opt::<Int64Type>()?;
    whole.iter().map(|number| number.unwrap_or(0).to_f64()).collect()
}

/// Numbers as a column of this type; whole numbers that do not fit saturate.
fn as_type(numbers: Vec<f64>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Float64 => Arc::new(Float64Array::from(numbers)),
        DataType::Int64 => {
            let whole = numbers.into_iter().map(|number| {
                number.to_i64().unwrap_or(if number < 0.0 { i64::MIN } else { i64::MAX })
            });
            Arc::new(Int64Array::from_iter_values(whole))
        }
        _ => return internal_err!("a consistent number is a float or a whole number"),
    })
}
