//! Example values for the parameters of a statement that is described before it gets values.
//!
//! In: the types of parameters, and a refusal of a condition that no row can satisfy with the
//! examples so far. Out: other values, taken from the refusal. The columns of an answer do not
//! depend on values, but a value that no row can have is refused.
//!
//! ```text
//! city = $1     'example 1' → refused: city is one of 'Oslo', 'Rome'     → 'Oslo'
//! ```

use hushql::{Reason, Refusal, Value};

use super::encode::kinds;

/// A value for each type, different for each parameter. The fraction of a quantile lies between 0
/// and 1.
pub(super) fn examples(types: &[u32], fractions: &[bool]) -> Vec<Value> {
    let of = |(at, kind): (usize, &u32)| {
        let number = i64::try_from(at).unwrap_or(0).saturating_add(1);
        match *kind {
            kinds::BOOL => Value::Boolean(true),
            kinds::INT2 | kinds::INT4 | kinds::INT8 => Value::Integer(number),
            kinds::FLOAT4 | kinds::FLOAT8 | kinds::NUMERIC => {
                Value::Float(if fractions.get(at) == Some(&true) { 0.5 } else { 1.5 })
            }
            kinds::DATE => Value::from("2000-01-01"),
            kinds::TIMESTAMP | kinds::TIMESTAMPTZ => Value::from("2000-01-01 00:00:00"),
            _ => Value::from(format!("example {number}").as_str()),
        }
    };
    types.iter().enumerate().map(of).collect()
}

/// Another value for the parameter whose value made a condition unsatisfiable, with the parameter's
/// position; `None` if the refusal suggests none.
pub(super) fn nearer(refusal: &Refusal, values: &[Value]) -> Option<(usize, Value)> {
    if refusal.reason() != Reason::BadValue {
        return None;
    }
    let tried = literals(refusal.clause());
    // The hint names allowed values; the message names the ends of a range.
    let named = [refusal.hint(), refusal.message()].into_iter().flat_map(literals);
    let named: Vec<Value> = named.collect();
    let at = values.iter().position(|value| tried.contains(value))?;
    let tried_value = values.get(at)?;
    let is_other = |other: &&Value| {
        *other != tried_value
            && matches!(
                (other, tried_value),
                (Value::Text(_), Value::Text(_)) | (Value::Integer(_), Value::Integer(_))
            )
    };
    Some((at, named.iter().find(is_other)?.clone()))
}

/// The texts and integers in a condition.
fn literals(condition: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (at, piece) in condition.split('\'').enumerate() {
        if at % 2 == 1 {
            all.push(Value::from(piece));
            continue;
        }
        let words =
            piece.split(|sign: char| !(sign.is_ascii_alphanumeric() || "_.-".contains(sign)));
        let numbers = words.filter_map(|word| word.replace('_', "").parse().ok());
        all.extend(numbers.map(Value::Integer));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_texts_and_whole_numbers() {
        let all = literals("city IN ('Oslo', 'New York 2') AND a1 < -17 AND x = 1.5 AND y = 90");
        let expected = [
            Value::from("Oslo"),
            Value::from("New York 2"),
            Value::Integer(-17),
            Value::Integer(90),
        ];
        assert_eq!(all, expected);
    }
}
