//! QUANTILES and CDF, lists that are released from private rows alone.
//!
//! In: `quantiles(x, f, …)`, to which the fractions in parentheses are respelled, and `cdf(x, n)`.
//! Out: a placeholder with the type of a list of x, or of counts. Above a private table the
//! analysis makes a release of it; of public rows and of answers it is refused there, because the
//! engine has no such aggregate.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

/// The name of the list of quantiles.
pub(crate) const QUANTILES: &str = "quantiles";

/// The name of the cumulative distribution.
pub(crate) const CDF: &str = "cdf";

/// The type of a list of values.
pub(super) fn list_of(values: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values.clone(), true)))
}

/// The aggregate while a query is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ListAggregate {
    name: &'static str,
    signature: Signature,
}

impl ListAggregate {
    pub(super) fn quantiles() -> Self {
        Self { name: QUANTILES, signature: Signature::user_defined(Volatility::Immutable) }
    }

    pub(super) fn cdf() -> Self {
        Self { name: CDF, ..Self::quantiles() }
    }
}

impl AggregateUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [_, _] if self.name == CDF => Ok(arg_types.to_vec()),
            _ if self.name == CDF => {
                plan_err!("CDF takes a column and a number of bins: CDF(x, 100)")
            }
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
            [_, ..] if self.name == CDF => Ok(list_of(&DataType::Int64)),
            [x, ..] => Ok(list_of(x)),
            [] => plan_err!("{} takes a column", self.name),
        }
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("{} is refused before anything runs", self.name)
    }
}
