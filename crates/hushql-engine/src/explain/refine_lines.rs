//! What an earlier draw of the same number means for a release.
//!
//! In: a release that is built on a kept draw, or that asks for less than a kept draw has. Out: a
//! line, and the same for programs.
//!
//! ```text
//!  refine       built on the draw of charge 17 at eps=0.5: only eps=1.5 is to be paid
//! ```

use serde_json::{Value, json};

use crate::answer::charges_text;
use crate::privacy::decimal_text;
use crate::release::Release;

/// What an earlier draw of the same number means for a release: it is built on that draw, or the
/// kept draw has less noise.
pub(super) fn refine_line(
    release: &Release,
    part: usize,
    measure: usize,
) -> Option<(&'static str, String)> {
    let text = match (release.refined(part, measure), release.finer(part, measure)) {
        (Some(draw), _) => {
            let charge = charges_text(&[draw.paid.number])?;
            let (before, left) = (&draw.before, decimal_text(draw.loss.epsilon()?, 12));
            format!("built on the draw of {charge} at eps={before}: only eps={left} is to be paid")
        }
        (None, Some((paid, epsilon))) => {
            let charge = charges_text(&[paid.number])?;
            format!(
                "{charge} paid for a draw at eps={epsilon}, with less noise: asking for that costs 0"
            )
        }
        (None, None) => return None,
    };
    Some(("refine", text))
}

/// The same for programs.
pub(super) fn refine_json(
    release: &Release,
    part: usize,
    measure: usize,
) -> Option<(String, Value)> {
    let of = |charge: i64, epsilon: String| json!({ "charge": charge, "eps": epsilon });
    match (release.refined(part, measure), release.finer(part, measure)) {
        (Some(draw), _) => {
            Some(("refine".to_owned(), of(draw.paid.number, draw.before.to_string())))
        }
        (None, Some((paid, epsilon))) => {
            Some(("finer".to_owned(), of(paid.number, epsilon.to_string())))
        }
        (None, None) => None,
    }
}
