//! A cast that no optimizer sees through.
//!
//! In: a value, a type. Out: what CAST or TRY_CAST makes of it. DataFusion takes a cast off a column that is compared with a
//! literal and puts it on the literal, also where several values become one: `CAST(score AS BIGINT) = 5` became `score =
//! 5`, which 5.5 is not. What is a function stays where it is.
//!
//! Upstream: docs/upstream.md, 6. Delete with `lossy_casts`, its only caller.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::any_one;

/// The value as another type; NULL where it has none there, if `safe`, and an error else.
pub(crate) fn opaque_cast(x: Expr, to: &DataType, safe: bool) -> Expr {
    // Two casts are one where their names and operands are: the type is part of the name.
    let name = format!("{}_to_{to:?}", if safe { "try_cast" } else { "cast" });
    let to = to.clone();
    ScalarUDF::from(OpaqueCast { name, to, safe, signature: any_one() }).call(vec![x])
}

#[derive(Debug)]
struct OpaqueCast {
    name: String,
    to: DataType,
    safe: bool,
    signature: Signature,
}

impl PartialEq for OpaqueCast {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to && self.safe == other.safe
    }
}

impl Eq for OpaqueCast {}

impl Hash for OpaqueCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OpaqueCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(&self.name, self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [x] = args.args.as_slice() else { return exec_err!("a cast has one operand") };
        let options = CastOptions { safe: self.safe, format_options: DEFAULT_FORMAT_OPTIONS };
        x.cast_to(&self.to, Some(&options))
    }
}
