//! A cast that is opaque to optimizers.
//!
//! In: a value and a type. Out: the result of CAST or TRY_CAST. When DataFusion compares a cast column with a
//! literal, it moves the cast to the literal, even if the cast maps several values to one: `CAST(score AS BIGINT) =
//! 5` became `score = 5`, which is false for 5.5. A function call stays where it is.

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

/// The value cast to another type. A value that does not fit becomes NULL if `safe`, and is an error otherwise.
pub(crate) fn opaque_cast(x: Expr, to: &DataType, safe: bool) -> Expr {
    // DataFusion takes two casts with equal names and operands for the same value, so the name contains the type.
    let name = format!("{}_to_{to:?}", if safe { "try_cast" } else { "cast" });
    let to = to.clone();
    ScalarUDF::from(OpaqueCast { name, to, safe, signature: any_one() }).call(vec![x])
}

/// The type to which a function casts, and whether what does not fit becomes NULL; `None` for another function.
pub(super) fn cast_parts(function: &ScalarUDF) -> Option<(DataType, bool)> {
    let cast = function.inner().downcast_ref::<OpaqueCast>()?;
    Some((cast.to.clone(), cast.safe))
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
