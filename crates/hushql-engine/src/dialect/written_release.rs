//! A release as its statement has it, for what is said of it.
//!
//! In: a release. Out: the same release; where half of its cost finds its bound, with its own
//! operand and its whole cost again.
//!
//! ```text
//! median(x), released at eps=0.5 in units of the bound found, at eps=0.5   →   median(x) at eps=1
//! ```

use std::borrow::Cow;

use super::ast::{
    AggregateCall, AggregateName, Finding, Joint, Operand, Parameters, ReleaseClause,
};
use crate::privacy::{Epsilon, Rational, Rho};

impl ReleaseClause {
    /// The statistic of two columns that a release is.
    pub(crate) fn joint(&self) -> Option<Joint> {
        match &self.operand {
            Operand::Aggregate(AggregateCall { function: AggregateName::Joint(joint), .. }) => {
                Some(*joint)
            }
            Operand::Aggregate(_) | Operand::Selection(_) | Operand::Response => None,
        }
    }

    /// True if a release moves with its argument, so that a range that is found for it may have its
    /// middle anywhere: a mean moves as far, and a variance stays. A sum needs 0 in the middle.
    pub(crate) fn has_any_middle(&self) -> bool {
        matches!(
            &self.operand,
            Operand::Aggregate(AggregateCall {
                function: AggregateName::Avg | AggregateName::Spread(_) | AggregateName::Joint(_),
                ..
            })
        )
    }

    /// The release as the statement has it. This is for hints alone: nothing is calibrated to it.
    pub(crate) fn as_written(&self) -> Cow<'_, Self> {
        if !self.finding.is_some_and(Finding::is_in_units) {
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
