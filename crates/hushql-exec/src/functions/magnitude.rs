//! The bucket of a number by magnitude: a placeholder for the planner, which the analysis replaces.
//!
//! In: one column of numbers. Out, while a query is planned: an `Int64`. The function itself never
//! runs: a [`Place`](super::AxisPlace) among the buckets of the column's type replaces it. No query
//! can name it.
//!
//! ```text
//! magnitude(price)  →  place(price) among … [4, 7] [8, 15] …
//! ```

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static MAGNITUDE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::from(Magnitude { signature: Signature::any(1, Volatility::Immutable) }))
});

/// The function, for the planner.
pub fn magnitude_function() -> Arc<ScalarUDF> {
    Arc::clone(&MAGNITUDE)
}

/// Whether a function is this one and not another of the same name.
pub fn is_magnitude(function: &ScalarUDF) -> bool {
    function.inner().is::<Magnitude>()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Magnitude {
    signature: Signature,
}

impl ScalarUDFImpl for Magnitude {
    fn name(&self) -> &'static str {
        "magnitude"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_] => Ok(DataType::Int64),
            _ => plan_err!("a magnitude takes one column"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a magnitude is replaced by a place among buckets")
    }
}
