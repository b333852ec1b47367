//! The functions that represent values while a query is planned: candidates of a choice, and
//! parameters. They never run, because the value takes their place first.
//!
//! ```text
//! __hushql_candidate_0()   BIGINT
//! ```

use arrow::datatypes::DataType;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// A function without arguments, of a type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Placeholder {
    name: String,
    data_type: DataType,
    signature: Signature,
}

impl Placeholder {
    /// The function with this name.
    pub(super) fn new(name: String, data_type: DataType, volatility: Volatility) -> Self {
        Self { name, data_type, signature: Signature::nullary(volatility) }
    }
}

impl ScalarUDFImpl for Placeholder {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("a value takes the place of this function before anything runs")
    }
}
