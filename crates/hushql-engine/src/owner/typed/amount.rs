//! Exact amounts from the floats that a program gives.
//!
//! ```text
//! 0.1_f64   →   exactly one tenth
//! ```

use std::str::FromStr;

use crate::dialect::decimal;
use crate::error::Error;
use crate::privacy::ParameterError;

/// The exact amount of ε, ρ or δ that a float stands for.
pub(super) fn amount<T: FromStr<Err = ParameterError>>(
    value: Option<f64>,
) -> Result<Option<T>, Error> {
    let Some(value) = value else { return Ok(None) };
    let text = decimal(value).unwrap_or_else(|| value.to_string());
    Ok(Some(text.parse()?))
}
