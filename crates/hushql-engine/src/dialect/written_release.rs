//! A release as its statement has it, for what is said of it.
//!
//! In: a release. Out: the same release; where half of its cost finds its bound, with its own
//! operand and its whole cost again.
//!
//! ```text
//! median(x), released at eps=0.5 in units of the bound found, at eps=0.5   →   median(x) at eps=1
//! ```

use std::borrow::Cow;

use super::ast::{Finding, Parameters, ReleaseClause};
use crate::privacy::{Epsilon, Rational, Rho};

impl ReleaseClause {
    /// The release as the statement has it. This is for hints alone: nothing is calibrated to it.
    pub(crate) fn as_written(&self) -> Cow<'_, Self> {
        if !matches!(self.finding, Some(Finding::InUnits { .. })) {
            return Cow::Borrowed(self);
        }
        let halves = &self.parameters;
        let twice = |half: &Rational| half * Rational::from_integer(2.into());
        let epsilon = halves.epsilon.as_ref().and_then(|e| Epsilon::new(twice(e.value())).ok());
        let rho = halves.rho.as_ref().and_then(|rho| Rho::new(twice(rho.value())).ok());
        Cow::Owned(Self {
            parameters: Parameters { epsilon, rho, ..halves.clone() },
            text: Finding::as_written(&self.text).to_owned(),
            finding: None,
            ..self.clone()
        })
    }
}
