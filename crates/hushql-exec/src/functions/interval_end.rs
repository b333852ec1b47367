//! `error_low(n)` and `error_high(n)`: placeholders for the planner, which the analysis replaces.
//!
//! In: a released number. Out, while a query is planned: a `Float64`. The functions themselves
//! never run: an end of the interval of the number replaces each call.
//!
//! ```text
//! error_low(n)  →  n − ±     the ± of n at 95 %, a column behind those of the released table
//! ```

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// An end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntervalEnd {
    /// The lower one.
    Low,
    /// The upper one.
    High,
}

impl IntervalEnd {
    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "error_low",
            Self::High => "error_high",
        }
    }
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [IntervalEnd::Low, IntervalEnd::High].map(|end| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::from(EndOfInterval { end, signature }))
    })
});

/// The two functions, for the planner.
pub fn interval_end_functions() -> &'static [Arc<ScalarUDF>] {
    FUNCTIONS.as_slice()
}

/// Which of the two a function is; `None` for all others, including others of the same name.
pub fn interval_end(function: &ScalarUDF) -> Option<IntervalEnd> {
    function.inner().downcast_ref::<EndOfInterval>().map(|function| function.end)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EndOfInterval {
    end: IntervalEnd,
    signature: Signature,
}

impl ScalarUDFImpl for EndOfInterval {
    fn name(&self) -> &'static str {
        self.end.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_] => Ok(DataType::Float64),
            _ => plan_err!("{} takes one released number", self.name()),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("an end of an interval is replaced before anything runs")
    }
}
