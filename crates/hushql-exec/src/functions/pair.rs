//! The two values of a row as one integer, for the moments of two columns.
//!
//! In: two columns of numbers and the intervals to which they are clamped. Out: the code of each
//! row's pair, see [`Pairs`]; NULL if one of the values is NULL or NaN. The function never fails.
//!
//! ```text
//! pair(x, y) of x in 0..4 and y in 0..2      (3, 2) → 11      (9, 2) → 14      (3, NULL) → NULL
//! ```

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::named;
use crate::grid::pairs::Pairs;

/// The codes of the pairs (x, y); both have the types of their grids.
pub fn pair(x: Expr, y: Expr, pairs: Pairs) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::from(Pair { name: named("pair", &pairs), pairs, signature }).call(vec![x, y])
}

/// The pairs whose codes a function yields; `None` for another function.
pub(super) fn paired(function: &ScalarUDF) -> Option<Pairs> {
    Some(function.inner().downcast_ref::<Pair>()?.pairs)
}

#[derive(Debug, PartialEq, Eq)]
struct Pair {
    name: String,
    pairs: Pairs,
    signature: Signature,
}

impl Hash for Pair {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Pair {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let [x, y] = columns.as_slice() else { return exec_err!("a pair has two values") };
        Ok(ColumnarValue::Array(Arc::new(self.pairs.encode(x, y)?)))
    }
}
