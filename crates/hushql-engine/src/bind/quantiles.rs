//! QUANTILES, a list of quantiles that is released from private rows alone.
//!
//! In: `quantiles(x, f, …)`, to which the fractions in parentheses are respelled. Out: a
//! placeholder with the type of a list of x. Above a private table the analysis makes a choice of
//! it; of public rows and of answers it is refused there, because the engine has no such aggregate.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

/// The name of the aggregate.
pub(crate) const QUANTILES: &str = "quantiles";

/// The type of a list of values.
pub(super) fn list_of(values: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values.clone(), true)))
}

/// The aggregate while a query is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct QuantileList {
    signature: Signature,
}

impl Default for QuantileList {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for QuantileList {
    fn name(&self) -> &str {
        QUANTILES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x, fractions @ ..] if !fractions.is_empty() => {
                let fractions = std::iter::repeat_n(DataType::Float64, fractions.len());
                Ok(std::iter::once(x.clone()).chain(fractions).collect())
            }
            _ => {
                plan_err!("QUANTILES takes a column and fractions: QUANTILES(x, (0.25, 0.5, 0.75))")
            }
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x, ..] => Ok(list_of(x)),
            [] => plan_err!("QUANTILES takes a column and fractions"),
        }
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("QUANTILES is refused before anything runs")
    }
}
