//! The lines of an explanation about a statistic of two columns.

use serde_json::Value;

use super::number_text::number;
use crate::analysis::{JointMoments, Measure, ends_text, step};
use crate::grid::pairs::Axis;
use crate::privacy::decimal_text;
use crate::release::exact_text::grid_text;
use crate::visible::rounded;

/// The range of one row, or the ranges of both columns.
pub(super) fn range_text(measure: &Measure) -> String {
    match measure.joint() {
        None => format!("{}..{}", grid_text(measure, measure.lo), grid_text(measure, measure.hi)),
        Some(joint) => {
            format!("x {}, y {}", ends_text(joint.pairs.x()), ends_text(joint.pairs.y()))
        }
    }
}

/// An end of the range of one row. Null for two columns, because each has its own range.
pub(super) fn end_json(measure: &Measure, end: i128) -> Value {
    match measure.joint() {
        None => number(&grid_text(measure, end)),
        Some(_) => Value::Null,
    }
}

/// The sums to which noise is added.
pub(super) fn products_text(joint: &JointMoments) -> String {
    let side = |axis: &Axis, below: &str, above: &str| match axis.degree() {
        2 => format!("({below} + {above})²"),
        _ => format!("({below} + {above})"),
    };
    let (x, y) = (joint.pairs.x(), joint.pairs.y());
    let terms = format!("{}·{}", side(x, "(W − X)", "X"), side(y, "(V − Y)", "Y"));
    let steps = |name: &str, axis: &Axis| match axis.shift() {
        0 => None,
        _ => Some(format!("{name} in steps of {}", decimal_text(&step(axis), 6))),
    };
    let rounded: Vec<String> = steps("x", x).into_iter().chain(steps("y", y)).collect();
    let rounded = match rounded.as_slice() {
        [] => String::new(),
        rounded => format!("; {}", rounded.join(", ")),
    };
    let products = joint.pairs.products();
    format!(
        ", released as the sums of the {products} terms of {terms} (X = x − lo, W = hi − lo{rounded})"
    )
}

/// What the noise means before anything is drawn. The answer shows what it means for the drawn
/// value.
pub(super) fn error_text(joint: &JointMoments, noise: f64) -> String {
    format!(
        "with 95 %: the noise on each of the {} sums is at most what {} rows add; the answer tells its own ±",
        joint.pairs.products(),
        rounded(noise),
    )
}
