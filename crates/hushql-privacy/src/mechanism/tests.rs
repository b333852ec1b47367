//! Tests of the mechanisms together: published numbers, draws against stated laws, and privacy by
//! brute force.

mod chosen;
mod special;

use num_traits::{One, ToPrimitive};

use super::{Exponential, Gaussian, Laplace, NoisyMax, PermuteAndFlip};
use crate::privacy::{Delta, Epsilon, Rational, parse_decimal};
use crate::sampler::QueryRng;
use crate::sampler::tests::statistics::assert_frequencies;

/// Marital status in the Adult data.
const STATUS: [i128; 7] = [14_976, 10_683, 4_443, 1_025, 993, 418, 23];

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn delta(text: &str) -> Delta {
    text.parse().unwrap()
}

fn decimal(text: &str) -> Rational {
    parse_decimal(text).unwrap()
}

fn assert_digits(found: &[f64], expected: &[f64], digits: i32) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 0.5 * 10_f64.powi(-digits),
            "{found} is not {expected}"
        );
    }
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed.
fn assert_draws(what: &str, law: &[f64], mut draw: impl FnMut(&mut QueryRng) -> usize) {
    assert!(
        (law.iter().sum::<f64>() - 1.0).abs() < 1e-9,
        "{what} sums to {}",
        law.iter().sum::<f64>()
    );
    let mut rng = QueryRng::seeded_for_tests(2_026);
    let mut counts = vec![0_u64; law.len()];
    for _ in 0..100_000 {
        counts[draw(&mut rng)] += 1;
    }
    assert_frequencies(what, &counts, law);
}

#[test]
fn adult_follows_the_literature() {
    let textbook = Exponential::calibrate(2, &epsilon("0.001")).unwrap();
    let law = textbook.probabilities(&STATUS);
    assert_digits(&law, &[0.8888, 0.1039, 0.0046, 0.0008, 0.0008, 0.0006, 0.0005], 4);
    assert_draws("EM, R = 2", &law, |rng| textbook.choose(&STATUS, rng).unwrap());

    let ranged = Exponential::calibrate(1, &epsilon("0.001")).unwrap();
    let law = ranged.probabilities(&STATUS);
    assert_digits(&law, &[0.986], 3);
    assert_draws("EM, R = 1", &law, |rng| ranged.choose(&STATUS, rng).unwrap());

    let flip = PermuteAndFlip::calibrate(1, &epsilon("0.001")).unwrap();
    let law = flip.probabilities(&STATUS);
    assert_digits(&law, &[0.993], 3);
    assert_draws("PF, R = 1", &law, |rng| flip.choose(&STATUS, rng).unwrap());

    let noisy = NoisyMax::calibrate(1, &epsilon("0.001")).unwrap();
    let law = noisy.probabilities(&STATUS);
    assert_digits(&law, &[0.9785, 0.0215], 4);
    assert_draws("noisy max", &law, |rng| noisy.choose(&STATUS, rng).unwrap());
}

#[test]
fn close_scores_are_drawn_by_their_law_too() {
    let scores = [3_i128, 5, 5, 4, 0, 2];
    let exponential = Exponential::calibrate(2, &epsilon("1.3")).unwrap();
    let flip = PermuteAndFlip::calibrate(3, &epsilon("1.3")).unwrap();
    let noisy = NoisyMax::calibrate(2, &epsilon("1.3")).unwrap();
    assert_draws("EM", &exponential.probabilities(&scores), |rng| {
        exponential.choose(&scores, rng).unwrap()
    });
    assert_draws("PF", &flip.probabilities(&scores), |rng| flip.choose(&scores, rng).unwrap());
    assert_draws("noisy max", &noisy.probabilities(&scores), |rng| {
        noisy.choose(&scores, rng).unwrap()
    });
    // Two candidates one point apart: e⁻¹/2 for the worse.
    let two = PermuteAndFlip::calibrate(1, &epsilon("1")).unwrap().probabilities(&[1, 0]);
    assert_digits(&two, &[1.0 - (-1_f64).exp() / 2.0, (-1_f64).exp() / 2.0], 12);
}

/// Neighbouring scores of range R never change a winner's probability by more than a factor e^ε.
/// Some pair comes close to it, or the mechanism would waste budget.
#[test]
fn choices_are_private_and_tight() {
    let factor = 0.7_f64.exp();
    type Law = Box<dyn Fn(&[i128]) -> Vec<f64>>;
    let laws: [(&str, Law); 3] = [
        ("EM", {
            let m = Exponential::calibrate(2, &epsilon("0.7")).unwrap();
            Box::new(move |scores| m.probabilities(scores))
        }),
        ("PF", {
            let m = PermuteAndFlip::calibrate(2, &epsilon("0.7")).unwrap();
            Box::new(move |scores| m.probabilities(scores))
        }),
        ("noisy max", {
            let m = NoisyMax::calibrate(2, &epsilon("0.7")).unwrap();
            Box::new(move |scores| m.probabilities(scores))
        }),
    ];
    for (what, law) in laws {
        let mut worst = 0.0_f64;
        for base in [[0_i128, 0, 0], [0, 3, 1], [10, 0, 10], [40, 0, 1]] {
            for change in 0..27 {
                // Every change of each score by 0, 1 or 2, and the same changes shifted down: the
                // range is 2.
                let moved: Vec<i128> = (0..3)
                    .map(|i| base[i] + i128::from(change / 3_i32.pow(i as u32) % 3) - 1)
                    .collect();
                for (p, q) in law(&base).iter().zip(law(&moved)) {
                    worst = worst.max(p / q).max(q / p);
                }
            }
        }
        assert!(worst <= factor * (1.0 + 1e-9), "{what}: {worst} exceeds {factor}");
        assert!(worst >= 0.95 * factor, "{what}: {worst} is far below {factor}");
    }
}

#[test]
fn reported_accuracy() {
    let exponential = Exponential::calibrate(1, &epsilon("1")).unwrap();
    let flip = PermuteAndFlip::calibrate(1, &epsilon("1")).unwrap();
    let noisy = NoisyMax::calibrate(1, &epsilon("1")).unwrap();
    let beta = decimal("0.05");
    assert_digits(
        &[exponential.error_at(7, &beta), exponential.expected_error(7)],
        &[4.0, 1.95],
        2,
    );
    assert_digits(&[flip.error_at(7, &beta), flip.expected_error(7)], &[4.0, 1.95], 2);
    // Published values: ε = 0.046893054 for an error within 100 among seven candidates, and
    // 0.040255907.
    let errors = |text: &str| {
        let e = epsilon(text);
        let flip = PermuteAndFlip::calibrate(1, &e).unwrap();
        [Exponential::calibrate(1, &e).unwrap().error_at(7, &beta), flip.error_at(7, &beta)]
    };
    assert_digits(&errors("0.0468931"), &[100.0, 86.0], 0);
    assert_digits(&errors("0.0468930"), &[101.0, 86.0], 0);
    assert_digits(&errors("0.0402560"), &[117.0, 100.0], 0);
    assert_digits(&errors("0.0402559"), &[117.0, 101.0], 0);
    assert_eq!(exponential.error_at(1, &beta).to_bits(), 0);
    assert_eq!(noisy.error_at(1, &beta).to_bits(), 0);

    // The reported errors hold for the worst of many score vectors; noisy max comes close to its
    // bound.
    for spread in 0..12_i128 {
        let scores: Vec<i128> = std::iter::once(spread).chain(std::iter::repeat_n(0, 6)).collect();
        for (law, error, mean) in [
            (
                exponential.probabilities(&scores),
                exponential.error_at(7, &beta),
                exponential.expected_error(7),
            ),
            (flip.probabilities(&scores), flip.error_at(7, &beta), flip.expected_error(7)),
            (noisy.probabilities(&scores), noisy.error_at(7, &beta), noisy.expected_error(7)),
        ] {
            let lost = 1.0 - law[0];
            assert!(lost <= 0.05 || spread as f64 <= error, "{spread}: {lost}");
            assert!(lost * spread as f64 <= mean, "{spread}: {lost}");
            assert!(error < 9.0 && mean < 4.0, "{error} {mean}");
        }
    }
    assert!(noisy.error_at(1_000_000, &decimal("1e-9")) < 45.0);
    assert!(noisy.error_at(7, &decimal("0")).is_infinite());
}

/// The stated error of a selection holds for every score vector, and no smaller whole number
/// suffices.
#[test]
fn no_scores_err_more_often_than_stated() {
    for (e, beta) in [("1", "0.05"), ("0.7", "0.3"), ("2", "0.01"), ("3", "0.05"), ("1", "0.6")] {
        let (epsilon, beta) = (epsilon(e), decimal(beta));
        let exponential = Exponential::calibrate(1, &epsilon).unwrap();
        let flip = PermuteAndFlip::calibrate(1, &epsilon).unwrap();
        let chance = beta.to_f64().unwrap();
        type Law<'a> = (f64, Box<dyn Fn(&[i128]) -> Vec<f64> + 'a>);
        let laws: [Law<'_>; 2] = [
            (exponential.error_at(4, &beta), Box::new(|scores| exponential.probabilities(scores))),
            (flip.error_at(4, &beta), Box::new(|scores| flip.probabilities(scores))),
        ];
        for (within, law) in laws {
            let beyond = |scores: &[i128], within: f64| {
                let lost = law(scores).into_iter().zip(scores);
                lost.filter(|(_, score)| -**score as f64 > within).map(|(p, _)| p).sum::<f64>()
            };
            let farthest = within as i128 + 3;
            for gaps in 0..farthest.pow(3) {
                let scores = [
                    0,
                    -(gaps % farthest),
                    -(gaps / farthest % farthest),
                    -(gaps / farthest.pow(2)),
                ];
                let often = beyond(&scores, within);
                assert!(often <= chance * (1.0 + 1e-9), "{e} {scores:?}: {often} beyond {within}");
            }
            let nearest = -(within as i128);
            let often = beyond(&[0, nearest, nearest, nearest], within - 0.5);
            assert!(within < 1.0 || often > chance, "{e}: {often} at {within}");
        }
    }
}

#[test]
fn gaussian_deviations_match_the_literature() {
    let (one, million) = (epsilon("1"), delta("1e-6"));
    let sigma = |m: &Gaussian| m.sigma().to_f64().unwrap();
    let general = Gaussian::calibrate(1, None, &one, &million).unwrap();
    let single = Gaussian::calibrate(1, Some(1), &one, &million).unwrap();
    assert_digits(&[sigma(&general), sigma(&single)], &[4.531, 4.231], 3);
    assert_eq!(general.rho() * decimal("2") * general.sigma() * general.sigma(), Rational::one());
    // σ grows with the step (up to the effect of integers), and never exceeds the general σ.
    for (step, at) in
        [(2_u128, "1"), (99, "1"), (10, "0.1"), (3, "5"), (1, "0.01"), (1, "20"), (7, "60")]
    {
        let (general, single) = (
            Gaussian::calibrate(step * step, None, &epsilon(at), &million).unwrap(),
            Gaussian::calibrate(step * step, Some(1), &epsilon(at), &million).unwrap(),
        );
        assert!(single.sigma() <= general.sigma(), "{step} {at}");
        // By definition, in floats: σ meets the δ of the step, and one grid point lower does not.
        let exceeds = |sigma: f64| {
            let p = |y: i64| (-((y * y) as f64) / (2.0 * sigma * sigma)).exp();
            let reach = (14.0 * sigma) as i64 + 400;
            let total: f64 = (-reach..=reach).map(p).sum();
            let factor: f64 = at.parse::<f64>().unwrap().exp();
            let moved: f64 =
                (-reach..=reach).map(|y| (p(y) - factor * p(y + step as i64)).max(0.0)).sum();
            moved / total > 1e-6
        };
        assert!(!exceeds(sigma(&single)), "{step} {at}: {} is too small", sigma(&single));
        assert!(exceeds(sigma(&single) * (1.0 - 2e-5) - 1.0 / 4096.0), "{step} {at}: too large");
    }
}

#[test]
fn gaussian_conversion_is_the_best_over_all_orders() {
    // The δ of ρ by brute force over α: σ meets it, and one grid point lower does not.
    for (square, at, d) in [
        (1_u128, "1", "1e-6"),
        (100, "0.1", "1e-9"),
        (7, "8", "0.01"),
        (1, "1e-3", "1e-18"),
        (1, "500", "1e-6"),
        (3, "2", "0.9"),
    ] {
        let mechanism = Gaussian::calibrate(square, None, &epsilon(at), &delta(d)).unwrap();
        let (e, goal) = (at.parse::<f64>().unwrap(), d.parse::<f64>().unwrap().ln());
        let least = |sigma: f64| {
            let rho = square as f64 / (2.0 * sigma * sigma);
            (-40_000..60_000)
                .map(|i| (f64::from(i) / 2_000.0).exp())
                .map(|a| a * ((1.0 + a) * rho - e) - a.ln() - (1.0 + a) * (1.0 / a).ln_1p())
                .fold(f64::INFINITY, f64::min)
        };
        let sigma = mechanism.sigma().to_f64().unwrap();
        assert!(least(sigma) <= goal + 1e-4, "{square} {at} {d}: {sigma} is too small");
        assert!(
            least((sigma - 1.0 / 4096.0) * (1.0 - 1e-4)) > goal,
            "{square} {at} {d}: {sigma} is too large"
        );
    }
}

#[test]
fn gaussians_at_the_ends() {
    let million = delta("1e-6");
    let none = Gaussian::calibrate(0, Some(1), &epsilon("1"), &million).unwrap();
    let mut rng = QueryRng::seeded_for_tests(1);
    assert!(none.is_exact() && (0..50).all(|_| none.draw(&mut rng) == 0));
    assert_eq!(none.error_at(&decimal("0.05")), 0);
    // Steps of 2^50: a whole σ, certified, close to the 4.2247 of continuous noise.
    let wide = Gaussian::calibrate(1 << 100, Some(1), &epsilon("1"), &million).unwrap();
    let ratio = wide.sigma().to_f64().unwrap() / 2_f64.powi(50);
    assert!((4.2247_f64 - ratio).abs() < 1e-3 && wide.sigma().is_integer(), "{ratio}");
    let error = wide.error_at(&decimal("0.05")).to_f64().unwrap() / wide.sigma().to_f64().unwrap();
    assert!((error - 1.959_964).abs() < 1e-5);
    assert!(Gaussian::calibrate(u128::MAX, Some(1), &epsilon("1"), &million).is_err());
    for (e, d) in
        [("1e-12", "1e-18"), ("1000000", "1e-18"), ("1e-12", "0.999"), ("1000000", "0.999")]
    {
        let mechanism = Gaussian::calibrate(1, Some(1), &epsilon(e), &delta(d)).unwrap();
        assert!(mechanism.error_at(&decimal("0.05")) < 1 << 60, "{e} {d}");
    }
    // σ = 4.231 and P(|X| > 8) = 0.0446 ≤ 0.05 < P(|X| > 7) = 0.076.
    let single = Gaussian::calibrate(1, Some(1), &epsilon("1"), &million).unwrap();
    assert_eq!(single.error_at(&decimal("0.05")), 8);
}

#[test]
fn joint_gaussians_share_rho_and_not_delta() {
    let (one, million) = (epsilon("1"), delta("1e-6"));
    let whole = Gaussian::calibrate(1, None, &one, &million).unwrap();
    let joint = Gaussian::calibrate_joint(&[1, 10_000, 0], &one, &million).unwrap();
    let total: Rational = joint.iter().map(|m| m.rho().clone()).sum();
    assert!(total <= whole.rho() * decimal("1.001") && total >= whole.rho() * decimal("0.999"));
    assert!(joint[2].is_exact());
    let ratio = joint[0].sigma().to_f64().unwrap() / whole.sigma().to_f64().unwrap();
    assert!((ratio - 2_f64.sqrt()).abs() < 1e-3);
    let ratio = joint[1].sigma().to_f64().unwrap() / joint[0].sigma().to_f64().unwrap();
    assert!((ratio - 100.0).abs() < 0.05);
}

#[test]
fn mechanisms_refuse_what_cannot_be_drawn() {
    assert!(Laplace::calibrate(1 << 70, &epsilon("1")).is_err());
    assert!(NoisyMax::calibrate(1 << 70, &epsilon("1")).is_err());
    let exponential = Exponential::calibrate(1, &epsilon("1")).unwrap();
    assert!(exponential.choose(&[], &mut QueryRng::seeded_for_tests(1)).is_err());
    assert_eq!(*exponential.exponent(), Rational::one());
}
