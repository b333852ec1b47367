//! How accurate the numbers of an answer are, including numbers computed from released ones.

use super::cumulative::accuracy_of;
use super::mechanism::{Mechanism, Mechanized, Predicted};
use super::number::{Noise, within};
use super::partition_selection::PartitionSelection;
use crate::analysis::{Analysis, ErrorBars, Measure, ReleaseKind};
use crate::mechanism::Rung;

/// Why an output that is computed from released numbers has no error. `None` if it has an error, or
/// is not computed from released numbers.
pub(super) fn without_error(
    analysis: &Analysis,
    selections: &[Option<PartitionSelection>],
    error_bars: &ErrorBars,
    output: usize,
) -> Option<&'static str> {
    let is_told = error_bars.places().get(output)?.is_some();
    // The end of an interval has no error of its own.
    let is_end = analysis.is_end(output);
    if is_told || is_end || analysis.origin(output).is_some() || !analysis.is_noisy(output) {
        return None;
    }
    Some(match analysis.is_decided(output, &counter(selections)) {
        true => "it is computed from released numbers that decide which rows are shown",
        false if analysis.parts().iter().any(|part| part.people_floor().is_some()) => {
            "it is computed from several released numbers, or in place of one, and a floor of people may hide some of them"
        }
        false => "no error is derived for an expression of this kind",
    })
}

/// Why an output has no error on any row, although the answer carries errors for it.
pub(super) fn without_bound(analysis: &Analysis, output: usize) -> &'static str {
    if analysis.origin(output).is_some() {
        "the noise may be larger than the number itself: a larger eps gives a ±"
    } else if analysis.reads_nonnegative(output) {
        "numbers that are kept from falling below 0 have no known error: without NONNEGATIVE there is a ±"
    } else if analysis.reads_moments(output) {
        "a variance, correlation or line has a ±, and what is computed from it has none"
    } else {
        "the noise may be as large as the divisor: a larger eps gives a ±"
    }
}

/// The accuracy of a measure: with 95 % confidence, `among` such numbers are all within it.
///
/// # Guarantee
/// The number is off by more with probability at most 0.05/`among`.
pub(super) fn accuracy_among(measure: &Measure, one: &Mechanized, among: u64) -> Predicted {
    let mechanism = &one.mechanism;
    let ReleaseKind::Number(_) = measure.release_kind else { return Predicted::Nothing };
    match mechanism {
        Mechanism::Laplace(noise) => {
            let Some(together) = &one.together else {
                return within(measure, Noise::Laplace(noise), among);
            };
            let error_at = |beta: &_| together.error_at(noise, beta);
            let mean_error_at = |beta: &_| together.mean_error_at(noise, beta);
            within(measure, Noise::Vector(&error_at, &mean_error_at), among)
        }
        Mechanism::Gaussian(noise) => within(measure, Noise::Gaussian(noise), among),
        Mechanism::Exact => one.accuracy,
        Mechanism::Cumulative(own) => accuracy_of(own, among),
        // The bound holds whichever contribution bound is chosen.
        Mechanism::ChosenBound(_) => {
            let all = accuracies_under_bounds(measure, mechanism, among);
            all.last().copied().unwrap_or(Predicted::Nothing)
        }
        Mechanism::Exponential(_)
        | Mechanism::Generalized(_)
        | Mechanism::PermuteAndFlip(_)
        | Mechanism::NoisyMax(_)
        | Mechanism::Unknown(..)
        | Mechanism::NoisyKeys(_) => Predicted::Nothing,
    }
}

/// The accuracy of a measure under each bound of its ladder, if it has one, as [`accuracy_among`].
///
/// # Guarantee
/// Under a given bound, the distance between the drawn number and the number under that bound
/// without noise exceeds the accuracy with probability at most 0.05/`among`. The noise is drawn
/// after the bound is chosen, so this holds for every bound.
pub(crate) fn accuracies_under_bounds(
    measure: &Measure,
    mechanism: &Mechanism,
    among: u64,
) -> Vec<Predicted> {
    let Mechanism::ChosenBound(chosen) = mechanism else { return Vec::new() };
    let of = |rung: &Rung| within(measure, Noise::Laplace(&rung.noise), among);
    chosen.rungs().iter().map(of).collect()
}

/// The public plan with error columns for some outputs. An output needs no column if it shows a
/// number whose ± is the same on all rows, and if that number does not decide which rows come out.
/// The ± of a mean depends on the rows of its group, so with one group alone all rows have one.
pub(super) fn error_bars(
    analysis: &Analysis,
    selections: &[Option<PartitionSelection>],
) -> ErrorBars {
    let has_own = |output: usize| match analysis.origin(output) {
        None => true,
        Some(origin) => {
            let part = analysis.parts().get(origin.part);
            part.is_some_and(|part| {
                part.measures().get(origin.measure).is_some_and(|measure| {
                    let is_of_group = measure.is_mean()
                        || measure.moments().is_some()
                        || measure.joint().is_some();
                    let is_alone = part.keys().all().len() == 1;
                    is_of_group && (measure.clause.finding.is_none() || !is_alone)
                })
            })
        }
    };
    let outputs = 0..analysis.public_plan().schema().fields().len();
    let wanted: Vec<usize> = outputs
        .filter(|output| has_own(*output) && !analysis.is_end(*output))
        .filter(|output| !analysis.is_decided(*output, &counter(selections)))
        .collect();
    ErrorBars::for_analysis(analysis, &wanted)
}

/// By the number of a private aggregate: the measure whose noisy counts decide which of its groups
/// are shown.
fn counter(selections: &[Option<PartitionSelection>]) -> impl Fn(usize) -> Option<usize> {
    |part| selections.get(part)?.as_ref()?.counter()
}
