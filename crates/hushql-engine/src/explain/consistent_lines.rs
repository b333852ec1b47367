//! The lines of an explanation about numbers that are made consistent.

use serde_json::{Value, json};

use crate::hierarchy::WholeNumbers;
use crate::release::fitted_levels::FittedLevel;
use crate::release::mechanism::Predicted;
use crate::visible::rounded;

/// The line about a number that is made consistent with the numbers of other grouping sets.
pub(super) fn line(level: &FittedLevel) -> (&'static str, String) {
    let others = match level.of - 1 {
        0 => "there is no other set".to_owned(),
        1 => "with the numbers of the other set".to_owned(),
        others => format!("with the numbers of the {others} other sets"),
    };
    let WholeNumbers { nonnegative, integer } = level.shape;
    let shape = match (nonnegative, integer) {
        (false, false) => "",
        (true, false) => ", none below 0",
        (false, true) => ", all whole",
        (true, true) => ", all whole, none below 0",
    };
    let drawn = match drawn(level) {
        Some(error) => format!("; as it is drawn it is within {}", rounded(error)),
        None => String::new(),
    };
    let text = format!(
        "{others}, by least squares: each group is the sum of those below it{shape}, computed from what is drawn, at no further cost{drawn}"
    );
    ("consistent", text)
}

/// The same line as JSON.
pub(super) fn object(level: &FittedLevel) -> Value {
    json!({
        "sets": level.of,
        "nonnegative": level.shape.nonnegative,
        "integer": level.shape.integer,
        "drawn_within": drawn(level),
    })
}

fn drawn(level: &FittedLevel) -> Option<f64> {
    if let Predicted::Within(error) = level.drawn { Some(error) } else { None }
}

/// Why a number that is kept from falling below 0 has no error.
pub(super) const NO_ERROR: &str = "numbers that are kept from falling below 0 have no known error; without NONNEGATIVE there is one";
