//! `fixed_sum`: a sum that clamps, rounds to a grid and adds in 128 bits, in one pass.
//!
//! In: one numeric column (and FILTER). Out: Decimal128(38, 0) whose raw integer is the sum in grid
//! steps, 0 for no rows. It assumes nothing about the column: NULL and NaN count as absent, and
//! every other value is clamped. It guarantees that the result is the same for every order and
//! partitioning of the rows, which a float sum cannot guarantee, and that it never wraps.
//!
//! ```text
//! // Ages in [0, 120], one function instance per interval:
//! let total = AggregateUDF::new_from_impl(FixedSum::new(Grid::Integer, 0, 120)?);
//! let plan = scan.aggregate(vec![], vec![total.call(vec![col("age")])])?;
//! ```

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use serde::{Deserialize, Serialize};

use crate::grid::pairs::Pairs;
use crate::grid::{Grid, GridRange, coarse_width, failed, passing};

#[cfg(test)]
mod tests;

/// The type of every raw sum. Only the integer matters; its digits are never checked.
pub(crate) const SUM_TYPE: DataType = DataType::Decimal128(38, 0);

/// What a row with the clamped value x contributes to the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Measured {
    /// x itself.
    Value,
    /// x − lo: the distance from the lower end.
    AboveLow,
    /// hi − x: the distance from the upper end.
    BelowHigh,
    /// (w − X)², with X = x − lo and w = hi − lo in steps of 2^shift grid units.
    BelowHighSquared {
        /// The shift.
        shift: u32,
    },
    /// 2X(w − X).
    TwiceBoth {
        /// The shift.
        shift: u32,
    },
    /// X².
    AboveLowSquared {
        /// The shift.
        shift: u32,
    },
    /// One product of the pair with the code x.
    Product {
        /// The pairs.
        pairs: Pairs,
        /// The index of the product.
        which: usize,
    },
}

/// The largest number of steps that is squared: a sum of 2⁴⁶ such squares fits.
const MOST_SQUARED: i128 = 1 << 40;

impl Measured {
    fn shift(self) -> Option<u32> {
        match self {
            Self::Value | Self::AboveLow | Self::BelowHigh | Self::Product { .. } => None,
            Self::BelowHighSquared { shift }
            | Self::TwiceBoth { shift }
            | Self::AboveLowSquared { shift } => Some(shift),
        }
    }
}

/// A row's term: the clamped value, or its distance from an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowTerm {
    range: GridRange,
    measured: Measured,
}

impl RowTerm {
    fn width(&self, shift: u32) -> i128 {
        coarse_width(self.range.lo(), self.range.hi(), shift).unwrap_or(0)
    }

    fn for_each(
        &self,
        values: &ArrayRef,
        mask: Option<&NullBuffer>,
        mut add: impl FnMut(usize, i128),
    ) -> Result<()> {
        // The ends are within ±2⁸⁰, so no difference overflows.
        match self.measured {
            Measured::Value => self.range.for_each(values, mask, add),
            Measured::AboveLow => {
                let lo = self.range.lo();
                self.range.for_each(values, mask, |row, value| add(row, value - lo))
            }
            Measured::BelowHigh => {
                let hi = self.range.hi();
                self.range.for_each(values, mask, |row, value| add(row, hi - value))
            }
            // The constructor checked the width, so squares do not overflow.
            Measured::BelowHighSquared { shift } => {
                let width = self.width(shift);
                self.range.for_each(values, mask, |row, value| {
                    let below = width - self.range.above(value, shift);
                    add(row, below * below);
                })
            }
            Measured::TwiceBoth { shift } => {
                let width = self.width(shift);
                self.range.for_each(values, mask, |row, value| {
                    let above = self.range.above(value, shift);
                    add(row, 2 * above * (width - above));
                })
            }
            Measured::AboveLowSquared { shift } => {
                self.range.for_each(values, mask, |row, value| {
                    let above = self.range.above(value, shift);
                    add(row, above * above);
                })
            }
            // At most 2⁴⁴, whatever the value.
            Measured::Product { pairs, which } => {
                self.range.for_each(values, mask, |row, code| add(row, pairs.product(code, which)))
            }
        }
    }
}

/// The aggregate function of one grid and one interval.
///
/// The parameters are part of its name, equality and hash. So two sums over one column with
/// different intervals are two functions, and no optimizer replaces one by the other.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FixedSum {
    term: RowTerm,
    name: String,
    signature: Signature,
}

impl FixedSum {
    /// A sum of values clamped to the grid integers [lo, hi]; `measured` says what each value
    /// contributes.
    ///
    /// # Guarantee
    /// One row moves the sum by at most max(|lo|, |hi|) grid steps, and a sum of distances from an
    /// end by at most hi − lo. A row's distances from both ends add up to exactly hi − lo; their
    /// squares and twice their product add up to w². The products of a row's pair add up to
    /// [`Pairs::weight`].
    ///
    /// # Errors
    /// A planning error for an empty or too wide interval, see [`GridRange::new`]; for squares,
    /// also for an interval of more than 2⁴⁰ steps; for products, for an interval other than that
    /// of the codes.
    pub fn new(grid: Grid, lo: i128, hi: i128, measured: Measured) -> Result<Self> {
        let range = GridRange::new(grid, lo, hi)?;
        if let Some(shift) = measured.shift()
            && coarse_width(lo, hi, shift).is_none_or(|width| width > MOST_SQUARED)
        {
            return plan_err!("the interval is too wide to be squared");
        }
        if let Measured::Product { pairs, which } = measured
            && (pairs.codes()? != range || which >= pairs.products())
        {
            return plan_err!("products are taken of codes");
        }
        let grid = match grid {
            Grid::Integer => "integer".to_owned(),
            Grid::Decimal { scale } => format!("decimal {scale}"),
            Grid::Binary { log2 } => format!("binary {log2}"),
        };
        Ok(Self {
            term: RowTerm { range, measured },
            name: format!("fixed_sum[{grid}, {lo}, {hi}, {measured:?}]"),
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

impl FixedSum {
    /// The grid and the interval, and what each value contributes.
    pub fn parts(&self) -> (GridRange, Measured) {
        (self.term.range, self.term.measured)
    }
}

impl AggregateUDFImpl for FixedSum {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] if self.term.range.accepts(argument) => Ok(SUM_TYPE),
            _ => plan_err!("{} does not take {arguments:?}", self.name),
        }
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        Ok(scalar(0))
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(&arguments)?;
        Ok(Box::new(Total { term: self.term, sum: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(arguments.name, "sum"), SUM_TYPE, false))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        refuse_distinct(&arguments)?;
        Ok(Box::new(GroupSums { term: self.term, sums: Vec::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// DISTINCT would make one unit's contribution depend on other units' values.
fn refuse_distinct(arguments: &AccumulatorArgs) -> Result<()> {
    if arguments.is_distinct {
        return not_impl_err!("fixed_sum does not support DISTINCT");
    }
    Ok(())
}

/// The sum of an ungrouped query.
#[derive(Debug)]
struct Total {
    term: RowTerm,
    sum: i128,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (mut sum, mut overflow) = (self.sum, false);
        self.term.for_each(argument(values)?, None, |_, value| {
            let (next, wrapped) = sum.overflowing_add(value);
            sum = next;
            overflow |= wrapped;
        })?;
        self.sum = sum;
        if overflow { Err(failed()) } else { Ok(()) }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(scalar(self.sum))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![scalar(self.sum)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for part in argument(states)?.as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = self.sum.checked_add(part).ok_or_else(failed)?;
        }
        Ok(())
    }
}

/// The sums of a grouped query, one for each group.
#[derive(Debug)]
struct GroupSums {
    term: RowTerm,
    sums: Vec<i128>,
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_groups, 0);
        let mask = filter.map(passing);
        let sums = &mut self.sums[..];
        let mut overflow = false;
        self.term.for_each(argument(values)?, mask.as_ref(), |row, value| {
            let sum = &mut sums[groups[row]];
            let (next, wrapped) = sum.overflowing_add(value);
            *sum = next;
            overflow |= wrapped;
        })?;
        if overflow { Err(failed()) } else { Ok(()) }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        column(emit_to.take_needed(&mut self.sums))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_groups, 0);
        let parts = argument(states)?.as_primitive::<Decimal128Type>();
        for (part, group) in parts.iter().zip(groups) {
            let sum = &mut self.sums[*group];
            *sum = sum.checked_add(part.unwrap_or(0)).ok_or_else(failed)?;
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = argument(values)?;
        let mask = filter.map(passing);
        let mut states = vec![0; values.len()];
        self.term.for_each(values, mask.as_ref(), |row, value| states[row] = value)?;
        Ok(vec![column(states)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>()
    }
}

fn argument(values: &[ArrayRef]) -> Result<&ArrayRef> {
    values.first().ok_or_else(failed)
}

fn scalar(sum: i128) -> ScalarValue {
    ScalarValue::Decimal128(Some(sum), 38, 0)
}

fn column(sums: Vec<i128>) -> Result<ArrayRef> {
    Ok(Arc::new(Decimal128Array::from(sums).with_precision_and_scale(38, 0)?))
}
