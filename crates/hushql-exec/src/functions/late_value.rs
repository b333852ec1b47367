//! A value that is released before the rows that use it are read.
//!
//! In: the position of a released number in a query, such as
//! `balance > (SELECT LAPLACE(eps=1) AVG(balance) …)`. Out: a function without arguments that takes
//! this position while the query is planned, and returns the number once it has been drawn. It is
//! volatile, so that no optimizer evaluates it too early.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::null_unsupported::{MOST_OF_A_CONSTANT, sound_array};

/// The prefix of the names of released values. Only the engine may use such names.
const RELEASED_VALUE: &str = "__hushql_value_";

/// A value that is released later. Each expression that uses it has a copy.
#[derive(Debug, Clone)]
pub struct LateValue {
    name: String,
    data_type: DataType,
    signature: Signature,
    value: Arc<OnceLock<ScalarValue>>,
}

impl LateValue {
    /// Number `number` of the released values in its query, without a value yet.
    pub fn new(number: usize, data_type: DataType) -> Self {
        Self {
            name: format!("{RELEASED_VALUE}{number}"),
            data_type,
            signature: Signature::nullary(Volatility::Volatile),
            value: Arc::default(),
        }
    }

    /// The expression that stands for it.
    pub fn expr(&self) -> Expr {
        ScalarUDF::from(self.clone()).call(Vec::new())
    }

    /// The name of the function, unique among the released values of its query.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the value.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Sets the value, once. A value that makes kernels fail becomes NULL.
    ///
    /// # Errors
    /// When the value is already set.
    pub fn set(&self, value: &ScalarValue) -> Result<()> {
        let kept = sound_array(&value.to_array()?, MOST_OF_A_CONSTANT)?;
        match self.value.set(ScalarValue::try_from_array(&kept, 0)?) {
            Ok(()) => Ok(()),
            Err(_) => internal_err!("a released value is drawn once"),
        }
    }
}

/// The parts of a released value: its name, its type, and the value once it is drawn. `None` for
/// other functions.
pub(crate) fn late_parts(function: &ScalarUDF) -> Option<(&str, &DataType, Option<&ScalarValue>)> {
    let late = function.inner().downcast_ref::<LateValue>()?;
    Some((&late.name, &late.data_type, late.value.get()))
}

/// A released value as another process holds it.
pub(crate) fn late_made(
    name: &str,
    data_type: &DataType,
    value: Option<&ScalarValue>,
) -> ScalarUDF {
    let value = value.cloned().map_or_else(OnceLock::new, OnceLock::from);
    let late = LateValue { name: name.to_owned(), ..LateValue::new(0, data_type.clone()) };
    ScalarUDF::from(LateValue { value: Arc::new(value), ..late })
}

/// Replaces the internal names of such values in a text by words.
pub fn in_values_words(text: &str) -> String {
    let mut parts = text.split(RELEASED_VALUE);
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        told.push_str("released value ");
        // The number, without the parentheses of the call.
        told.push_str(&part.replacen("()", "", 1));
    }
    told
}

/// Whether a function is a value that is released later.
pub fn is_late_value(function: &ScalarUDF) -> bool {
    function.inner().is::<LateValue>()
}

impl PartialEq for LateValue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value)
    }
}

impl Eq for LateValue {}

impl Hash for LateValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for LateValue {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.value.get() {
            Some(value) => Ok(ColumnarValue::Scalar(value.clone())),
            None => internal_err!("a released value is used before it is drawn"),
        }
    }
}
