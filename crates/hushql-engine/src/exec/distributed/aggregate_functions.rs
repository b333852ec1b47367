//! The aggregate function of private plans as plain values.
//!
//! In: a sum on a grid. Out: its grid, its interval and what each value adds, from which another
//! process makes the same function. DataFusion's own aggregate functions are sent by name.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::AggregateUDF;
use serde::{Deserialize, Serialize};

use crate::grid::Grid;
use hushql_exec::aggregate::fixed_sum::{FixedSum, Measured};

/// A sum that clamps, rounds to a grid, and adds exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    grid: Grid,
    lo: i128,
    hi: i128,
    measured: Measured,
}

impl Aggregate {
    /// The values that describe an aggregate function of the engine; `None` for other functions.
    pub fn of(function: &AggregateUDF) -> Option<Self> {
        let (range, measured) = function.inner().downcast_ref::<FixedSum>()?.parts();
        Some(Self { grid: range.grid(), lo: range.lo(), hi: range.hi(), measured })
    }

    /// Makes the function.
    ///
    /// # Errors
    /// A planning error for an interval that is invalid for a sum.
    pub fn made(&self) -> Result<Arc<AggregateUDF>> {
        let sum = FixedSum::new(self.grid, self.lo, self.hi, self.measured)?;
        Ok(Arc::new(AggregateUDF::new_from_impl(sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_come_back_as_they_were() {
        let (decimal, binary) = (Grid::Decimal { scale: 2 }, Grid::Binary { log2: 20 });
        for (grid, lo, hi, measured) in [
            (Grid::Integer, -5, 120, Measured::Value),
            (decimal, 0, i128::from(u64::MAX) * 9, Measured::AboveLow),
            (binary, -(1 << 70), 0, Measured::BelowHigh),
            (Grid::Integer, 0, 1 << 30, Measured::BelowHighSquared { shift: 3 }),
            (Grid::Integer, 0, 1 << 30, Measured::TwiceBoth { shift: 3 }),
            (Grid::Integer, 0, 1 << 30, Measured::AboveLowSquared { shift: 3 }),
        ] {
            let sum = FixedSum::new(grid, lo, hi, measured).unwrap();
            let function = AggregateUDF::new_from_impl(sum);
            let text = serde_json::to_string(&Aggregate::of(&function).unwrap()).unwrap();
            let back: Aggregate = serde_json::from_str(&text).unwrap();
            assert_eq!(*back.made().unwrap(), function);
        }
        assert_eq!(Aggregate::of(&datafusion::functions_aggregate::count::count_udaf()), None);
    }
}
