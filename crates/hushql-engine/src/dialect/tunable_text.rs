//! The text of a question whose ε and bounds are tuned, and the places in it that hold them.
//!
//! In: other parameters of its mechanism, and other ends for its values. Out: the question with
//! these, as one would write it. What is analyzed for a setting is this text, read again, so the
//! clause that is proposed is the one that was tried.
//!
//! ```text
//! SELECT LAPLACE(eps=1) SUM(price) FROM orders
//!                ─────      ─────
//!   ⇒  SELECT LAPLACE(eps=1, rows=4) SUM(CLAMP(price, 0, 25)) FROM orders
//! ```

use std::ops::Range;

use super::asked::Parameters;

/// The text of a question, and where its parameters and its argument are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunableText {
    pub(super) text: String,
    /// What stands in the parentheses of the mechanism.
    pub(super) parameters: Range<usize>,
    /// What stands in the parentheses of the aggregate.
    pub(super) argument: Range<usize>,
    /// The values that are added up: the argument without its CLAMP.
    pub(super) values: Range<usize>,
}

impl TunableText {
    /// The question as it is written, on one line.
    pub fn as_written(&self) -> &str {
        &self.text
    }

    /// The question with these parameters, and with its values between these ends.
    pub(crate) fn with(&self, parameters: &Parameters, ends: Option<&[String; 2]>) -> String {
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        let argument = match ends {
            Some([lo, hi]) => format!("CLAMP({}, {lo}, {hi})", part(self.values.clone())),
            None => part(self.argument.clone()).to_owned(),
        };
        format!(
            "{}{parameters}{}{argument}{}",
            part(0..self.parameters.start),
            part(self.parameters.end..self.argument.start),
            part(self.argument.end..self.text.len()),
        )
    }
}
