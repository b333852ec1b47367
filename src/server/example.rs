//! Example values for the parameters of a statement that is described before it gets values, where
//! it is planned with literals.
//!
//! In: the types of parameters. Out: a value of each type.
//!
//! ```text
//! integer, text   →   1, 'example 2'
//! ```

use hushql::Value;

use super::encode::kinds;

/// A value for each type, different for each parameter. A number lies between 0 and 1 where it may,
/// as the fraction of a quantile does.
pub(super) fn examples(types: &[u32]) -> Vec<Value> {
    let of = |(at, kind): (usize, &u32)| {
        let number = i64::try_from(at).unwrap_or(0).saturating_add(1);
        match *kind {
            kinds::BOOL => Value::Boolean(true),
            kinds::INT2 | kinds::INT4 | kinds::INT8 => Value::Integer(number),
            kinds::FLOAT4 | kinds::FLOAT8 | kinds::NUMERIC => Value::Float(0.5),
            kinds::DATE => Value::from("2000-01-01"),
            kinds::TIMESTAMP | kinds::TIMESTAMPTZ => Value::from("2000-01-01 00:00:00"),
            _ => Value::from(format!("example {number}").as_str()),
        }
    };
    types.iter().enumerate().map(of).collect()
}
