//! PERCENTILE_DISC, which is released from private rows alone.
//!
//! In: `percentile_disc(x, f)`, to which WITHIN GROUP is respelled. Out: a placeholder with the
//! type of x. Above a private table the analysis makes the choice of QUANTILE of it; of public rows
//! and of answers it is refused there, because the engine has no such aggregate.

use arrow::datatypes::DataType;
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

/// The name of the aggregate.
pub(crate) const PERCENTILE_DISC: &str = "percentile_disc";

/// The aggregate while a query is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DiscreteQuantile {
    signature: Signature,
}

impl Default for DiscreteQuantile {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for DiscreteQuantile {
    fn name(&self) -> &str {
        PERCENTILE_DISC
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [x, _] => Ok(vec![x.clone(), DataType::Float64]),
            _ => plan_err!(
                "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) takes a share and a column"
            ),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [x, ..] => Ok(x.clone()),
            [] => plan_err!("PERCENTILE_DISC takes a share and a column"),
        }
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("PERCENTILE_DISC is refused before anything runs")
    }
}
