//! How accurate the numbers of an answer are, also of those that are computed from released ones.

use num_bigint::BigInt;

use super::number::within;
use super::{Mechanism, PartitionSelection, Predicted, Release};
use crate::analysis::ErrorBars;
use crate::analysis::{Analysis, ReleaseKind};
use crate::mechanism::{Gaussian, Laplace};
use crate::privacy::Rational;

impl Release {
    /// The public plan with the errors of its numbers.
    pub(crate) fn error_bars(&self) -> &ErrorBars {
        &self.error_bars
    }

    /// Why an output that is computed from released numbers has no error; `None` if it has one, or shows no such number.
    pub(crate) fn without_error(&self, output: usize) -> Option<&'static str> {
        let is_told = self.error_bars.places().get(output)?.is_some();
        if is_told || self.analysis.origin(output).is_some() || !self.analysis.is_noisy(output) {
            return None;
        }
        let counter = |part: usize| self.partition_selection(part)?.counter();
        Some(match self.analysis.is_decided(output, &counter) {
            true => "released numbers that it is computed from decide which rows are shown",
            false => {
                "the errors of the released numbers that it is computed from are not followed through it"
            }
        })
    }

    /// The accuracy of a number where `among` numbers are within it together with 95 %.
    ///
    /// # Guarantee
    /// The number is off by more with probability at most 0.05/`among`.
    pub(crate) fn accuracy_among(&self, part: usize, measure: usize, among: u64) -> Predicted {
        let own = self.analysis.parts().get(part).and_then(|part| part.measures().get(measure));
        let (Some(own), Some(one)) = (own, self.mechanisms(part).get(measure)) else {
            return Predicted::Nothing;
        };
        let ReleaseKind::Number(_) = own.release_kind else { return Predicted::Nothing };
        let share = |beta: &Rational| beta / Rational::from_integer(BigInt::from(among));
        let laplace = |noise: &Laplace| within(own, &|beta| noise.error_at(&share(beta)));
        let gaussian = |noise: &Gaussian| within(own, &|beta| noise.error_at(&share(beta)));
        match &one.mechanism {
            Mechanism::Laplace(noise) => laplace(noise),
            Mechanism::Gaussian(noise) => gaussian(noise),
            Mechanism::Exponential(_)
            | Mechanism::PermuteAndFlip(_)
            | Mechanism::NoisyMax(_)
            | Mechanism::Unknown(..) => Predicted::Nothing,
        }
    }
}

/// The public plan with the errors of those outputs that do not simply show a number whose ± is the same on all rows, and
/// on which it does not depend which rows come out.
pub(super) fn error_bars(
    analysis: &Analysis,
    selections: &[Option<PartitionSelection>],
) -> ErrorBars {
    let counter = |part: usize| selections.get(part)?.as_ref()?.counter();
    let has_own = |output: usize| match analysis.origin(output) {
        None => true,
        Some(origin) => {
            let part = analysis.parts().get(origin.part);
            part.and_then(|part| part.measures().get(origin.measure)).is_some_and(|measure| {
                (measure.is_mean() || measure.moments().is_some())
                    && measure.clause.finding.is_none()
            })
        }
    };
    let outputs = 0..analysis.public_plan().schema().fields().len();
    let wanted: Vec<usize> = outputs
        .filter(|output| has_own(*output) && !analysis.is_decided(*output, &counter))
        .collect();
    ErrorBars::of(analysis, &wanted)
}
