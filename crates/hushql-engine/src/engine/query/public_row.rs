//! A statement that reads only public tables and fails on one of their rows.
//!
//! In: the error of a run that read nothing private and is not charged. Out: a refusal with a code
//! that says what was wrong with the row, and what to write instead; nothing for an error without a
//! row, such as a lack of memory.
//!
//! ```text
//! SELECT 1 / x FROM public_table      HQ006: on a public row, a number is divided by zero
//! ```

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use crate::bind::of_a_constant;
use crate::refusal::{Reason, Refusal};

/// What was wrong with a public row, if a row caused the error.
///
/// # Guarantee
/// The caller has shown that the statement reads public tables alone, so the sentence may name one
/// of their values.
pub(super) fn on_a_public_row(error: &DataFusionError) -> Option<Refusal> {
    let (why, hint) = match error.find_root() {
        DataFusionError::ArrowError(error, _) => of_arrow(error)?,
        DataFusionError::Execution(why) => {
            (why.lines().next().unwrap_or_default().to_owned(), OTHERWISE)
        }
        _ => return None,
    };
    // The class of an error that another one holds.
    let why = why.strip_prefix("Execution error: ").unwrap_or(&why);
    let message = format!("this fails on a public row: {why}");
    Some(Refusal::new(Reason::Partial, "", message, hint))
}

const OTHERWISE: &str = "CASE WHEN … THEN … END around it, for the rows on which it does not fail";

fn of_arrow(error: &ArrowError) -> Option<(String, &'static str)> {
    Some(match error {
        ArrowError::DivideByZero => {
            ("a number is divided by zero".to_owned(), "x / NULLIF(y, 0), which is NULL there")
        }
        ArrowError::CastError(why) | ArrowError::ParseError(why) => {
            (of_a_constant(why), "TRY_CAST(x AS …), which is NULL there")
        }
        ArrowError::ArithmeticOverflow(_) => {
            ("a number does not fit its type".to_owned(), "CAST(x AS DOUBLE) of the operands")
        }
        ArrowError::ComputeError(why) | ArrowError::InvalidArgumentError(why) => {
            (why.clone(), OTHERWISE)
        }
        _ => return None,
    })
}
