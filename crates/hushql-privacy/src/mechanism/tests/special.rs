//! Special cases of selection that have other names elsewhere, with exact probabilities.

use super::{decimal, epsilon};
use crate::mechanism::{Exponential, Laplace, PermuteAndFlip, ScoredRun};
use crate::sampler::QueryRng;
use crate::sampler::tests::statistics::assert_frequencies;

/// ∫ f over [from, to], by Simpson's rule in fine steps.
fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let steps = 40_000_u32;
    let width = (to - from) / f64::from(steps);
    let sum: f64 = (0..=steps)
        .map(|i| {
            let weight = match i {
                0 => 1.0,
                i if i == steps => 1.0,
                i if i % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * f(from + f64::from(i) * width)
        })
        .sum();
    sum * width / 3.0
}

/// P(score_i + noise_i is the largest), for noise with this density and distribution that starts at
/// `from`.
fn noisy_max(
    scores: &[i128],
    exponent: f64,
    from: f64,
    density: impl Fn(f64) -> f64,
    below: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let scaled: Vec<f64> = scores.iter().map(|score| exponent * *score as f64).collect();
    let highest = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (0..scores.len())
        .map(|i| {
            let others = || scaled.iter().enumerate().filter(move |(j, _)| *j != i);
            // The integrand has a corner where the noise of another candidate starts. It leaves 0
            // at the highest start.
            let start = (from + highest).max(from + scaled[i]);
            let start = if from.is_finite() { start } else { highest - 10.0 };
            integral(start, highest + 45.0, |x| {
                density(x - scaled[i]) * others().map(|(_, s)| below(x - s)).product::<f64>()
            })
        })
        .collect()
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= within, "{what}: {found} is not {expected}");
    }
}

const SCORES: [&[i128]; 5] = [&[4], &[0, 1], &[5, 3, 3, 0], &[2, 2, 2, 2, 2], &[0, 20, 19, -40]];

#[test]
fn the_exponential_mechanism_is_the_largest_of_gumbel_noises() {
    for scores in SCORES {
        let mechanism = Exponential::calibrate(2, &epsilon("1.5")).unwrap();
        let law = noisy_max(
            scores,
            0.75,
            f64::NEG_INFINITY,
            |x| (-x - (-x).exp()).exp(),
            |x| (-(-x).exp()).exp(),
        );
        assert_close("Gumbel", &mechanism.probabilities(scores), &law, 1e-9);
    }
}

#[test]
fn permute_and_flip_is_the_largest_of_exponential_noises() {
    for scores in SCORES {
        let mechanism = PermuteAndFlip::calibrate(2, &epsilon("1.5")).unwrap();
        let law = noisy_max(
            scores,
            0.75,
            0.0,
            |x| if x < 0.0 { 0.0 } else { (-x).exp() },
            |x| if x < 0.0 { 0.0 } else { 1.0 - (-x).exp() },
        );
        assert_close("exponential noise", &mechanism.probabilities(scores), &law, 1e-9);
    }
}

/// The candidates are the integers, and r scores −|f − r|. The score moves by Δ either way, so R =
/// 2Δ, and the noise is twice as wide as the Laplace mechanism's at the same ε. The false-alarm
/// rate is 10⁻⁹, see `statistics`; the seed is fixed.
#[test]
fn laplace_noise_is_a_selection_among_the_integers() {
    let (truth, reach, sensitivity) = (1_000_000_i128, 400_i128, 3_u128);
    let mechanism = Exponential::calibrate(2 * sensitivity, &epsilon("0.6")).unwrap();
    let scores: Vec<i128> = (-reach..=reach).map(|r| -r.abs()).collect();
    let alpha = (-0.1_f64).exp();
    let laplace = |r: i128| (1.0 - alpha) / (1.0 + alpha) * alpha.powi(r.abs() as i32);
    let law: Vec<f64> = (-reach..=reach).map(laplace).collect();
    assert_close("Laplace", &mechanism.probabilities(&scores), &law, 1e-12);
    assert_eq!(*mechanism.exponent(), decimal("0.1"));
    let half = Laplace::calibrate(sensitivity, &epsilon("0.3")).unwrap();
    assert_eq!(half.scale().recip(), *mechanism.exponent(), "a factor 2 of ε is lost");

    // As two runs: all integers of a range, drawn without listing them.
    let last = 2_000_000_u64;
    let runs = [
        ScoredRun { count: 1_000_000, score: -truth, step: 1, weight: 1 },
        ScoredRun { count: last + 1 - 1_000_000, score: 0, step: -1, weight: 1 },
    ];
    let mut rng = QueryRng::seeded_for_tests(77);
    let mut counts = vec![0_u64; scores.len()];
    for _ in 0..60_000 {
        let (run, place) = mechanism.choose_runs(&runs, &mut rng).unwrap();
        let noise = i128::from(place) + if run == 0 { -truth } else { 0 };
        counts[usize::try_from(noise + reach).unwrap()] += 1;
    }
    assert_frequencies("Laplace by runs", &counts, &law);
}

/// One unit; the true value scores 1 and all others 0: R = 1.
#[test]
fn randomized_response_is_a_selection_of_one_person() {
    let factor = 1.1_f64.exp();
    for values in [2_usize, 3, 10] {
        let mechanism = Exponential::calibrate(1, &epsilon("1.1")).unwrap();
        for truth in 0..values {
            let scores: Vec<i128> = (0..values).map(|value| i128::from(value == truth)).collect();
            let law: Vec<f64> = (0..values)
                .map(|v| if v == truth { factor } else { 1.0 } / (factor + values as f64 - 1.0))
                .collect();
            assert_close("response", &mechanism.probabilities(&scores), &law, 1e-12);
        }
        // Without the unit's row all values are equally likely, and presence costs at most ε.
        let absent = mechanism.probabilities(&vec![0; values]);
        assert_close("absent", &absent, &vec![1.0 / values as f64; values], 1e-12);
    }
    // Permute-and-flip lies between two values with probability e^−ε/2, less often than 1/(e^ε +
    // 1).
    let flip = PermuteAndFlip::calibrate(1, &epsilon("1.1")).unwrap();
    let wrong = flip.probabilities(&[1, 0])[1];
    assert!((wrong - 0.5 / factor).abs() < 1e-12, "{wrong}");
}
