//! The best candidates if only the data contain them: rounds against "none stands out", or noise on
//! all scores and a threshold.
//!
//! In: rounds that are calibrated for the cost, and the bounds of a unit's contribution. Out:
//! whichever way needs the smaller score for a candidate to come out with 95 %, and the score that
//! the other way needs. Each of k rounds has a k-th of ε. All noisy scores together have the whole
//! ε, and a sensitivity that grows with the candidates of a unit. Everything follows from the query
//! and the catalog.
//!
//! ```text
//! TOP 5 at ε = 1, δ = 10⁻⁶, a person in one group:   5 rounds: 99     noise of scale 1, τ = 15: 17
//! ```

use num_traits::ToPrimitive;

use super::cost::{Accounts, StatedCost};
use crate::analysis::{CandidateSource, Choice, Measure, of_sums};
use crate::dialect::MechanismName;
use crate::mechanism::{Alone, NoisyKeys, ScoreNoise};
use crate::privacy::{Delta, Epsilon, Loss, Rational, Rho};
use crate::release::mechanism::{Instead, Mechanism, Mechanized};

/// The chosen mechanism for a list of candidates that only the data contain. Noise on all their
/// scores replaces it if that is better and no mechanism was requested by name. The result names
/// the least score at which a candidate comes out in the other way. If only one candidate is
/// chosen, the mechanism stays, because a round has a smaller error than noise of its scale.
///
/// # Guarantee
/// Both have the cost of the choice, and the result is one of them. Noise on all scores is
/// calibrated to their sensitivity over all candidates of a unit. The threshold is calibrated to
/// the enforced bounds of its rows and candidates: see [`NoisyKeys`]. The comparison uses the query
/// and the catalog alone.
pub(super) fn or_noisy_keys(
    measure: &Measure,
    choice: &Choice,
    chosen: Mechanized,
    cost: &StatedCost,
    accounts: &Accounts,
    delta: Option<&Delta>,
) -> Mechanized {
    let beta = Rational::new(1.into(), 20.into());
    let Mechanism::Unknown(rounds, rule) = &chosen.mechanism else { return chosen };
    if choice.rounds == 1 {
        return chosen;
    }
    let by_rounds = rounds.kept_from(*rule, choice.rounds, &beta);
    let reached = |one: &NoisyKeys| one.reached_from(&beta).to_f64().unwrap_or(f64::INFINITY);
    let all = delta.map(|delta| noisy(measure, choice, &chosen, cost, accounts, delta));
    let all = all.into_iter().flatten();
    let best = all.min_by(|one, other| reached(&one.0).total_cmp(&reached(&other.0)));
    let Some((keys, loss)) = best else { return chosen };
    let by_noise = reached(&keys);
    let unit = choice.unit.to_f64().unwrap_or(1.0);
    let is_auto = matches!(measure.clause.mechanism, MechanismName::Auto | MechanismName::Default);
    match (by_noise < by_rounds, is_auto) {
        (true, true) => {
            let instead = Some(Instead::Rounds { from: by_rounds * unit });
            Mechanized { mechanism: Mechanism::NoisyKeys(keys), loss, instead, ..chosen }
        }
        (true, false) | (false, true) => {
            Mechanized { instead: Some(Instead::NoisyKeys { from: by_noise * unit }), ..chosen }
        }
        (false, false) => chosen,
    }
}

/// Noise on all scores with its loss, in those ways that cost no budget more than the rounds.
///
/// # Guarantee
/// If an ε and a δ are stated, (ε, δ): with Laplace noise the threshold has all of δ, with Gaussian
/// noise half of it. If every budget counts ρ, and neither ε nor δ is promised, the ρ and the δ
/// that the rounds would cost.
fn noisy(
    measure: &Measure,
    choice: &Choice,
    rounds: &Mechanized,
    cost: &StatedCost,
    accounts: &Accounts,
    delta: &Delta,
) -> Vec<(NoisyKeys, Loss)> {
    let CandidateSource::Unknown { per_unit } = choice.source else { return Vec::new() };
    let sensitivity = measure.weight().and_then(|weight| of_sums(&measure.limits, weight));
    let of_row = u64::try_from(measure.hi.max(1)).ok();
    let (Some(sensitivity), Some(of_row)) = (sensitivity, of_row) else { return Vec::new() };
    let rows = measure.limits.per_partition;
    let alone = Alone { groups: per_unit, rows, total: measure.limits.total, of_row };
    let (l1, l2_squared) = (sensitivity.l1, sensitivity.l2_squared);
    let in_epsilon = |epsilon: &Epsilon| {
        // At equal scales, the error of a selection is never larger than that of noise.
        let is_smaller = choice.calibrated(true).is_some_and(|range| l1 < range);
        let laplace = is_smaller.then(|| NoisyKeys::laplace(l1, epsilon, delta, &alone).ok());
        let laplace = laplace.flatten();
        let laplace = laplace.map(|keys| (keys, Loss::approximate(epsilon, delta)));
        let gaussian = NoisyKeys::gaussian(l2_squared, per_unit, epsilon, delta, &alone).ok();
        let gaussian = gaussian.zip(delta.share(2).ok()).and_then(|(keys, half)| {
            let ScoreNoise::Gaussian(noise) = keys.noise() else { return None };
            let loss = Loss::thresholded(epsilon, delta, noise.rho(), &half);
            Some((keys, loss))
        });
        laplace.into_iter().chain(gaussian).collect()
    };
    let in_rho = |rho: &Rho| {
        let keys = NoisyKeys::concentrated(l2_squared, rho, delta, &alone).ok();
        let loss = Loss::concentrated(rho).plus(&Loss::of_delta(delta));
        keys.map(|keys| (keys, loss)).into_iter().collect()
    };
    match cost {
        StatedCost::Epsilon(epsilon) if accounts.noisy_scores(cost) => in_epsilon(epsilon),
        StatedCost::Rho(rho) if accounts.concentrated() => in_rho(rho),
        StatedCost::Epsilon(_)
            if accounts.concentrated() && measure.clause.mechanism == MechanismName::Default =>
        {
            Rho::new(rounds.loss.rho().clone()).map(|rho| in_rho(&rho)).unwrap_or_default()
        }
        StatedCost::Epsilon(_) | StatedCost::Rho(_) => Vec::new(),
    }
}
