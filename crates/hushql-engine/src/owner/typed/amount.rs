//! Exact amounts of what a program writes as a float.
//!
//! ```text
//! 0.1_f64   →   exactly one tenth
//! ```

use std::str::FromStr;

use crate::dialect::decimal;
use crate::error::Error;
use crate::privacy::ParameterError;

/// An exact amount of ε, ρ or δ.
pub(super) fn amount<T: FromStr<Err = ParameterError>>(
    value: Option<f64>,
) -> Result<Option<T>, Error> {
    let Some(value) = value else { return Ok(None) };
    let text = decimal(value).unwrap_or_else(|| value.to_string());
    Ok(Some(text.parse()?))
}
