//! Tests of the samplers. At small scales they follow every branch exactly; at larger scales they
//! test frequencies.

pub(crate) mod oracle;
pub(crate) mod statistics;

use std::collections::BTreeMap;

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Zero};

use self::oracle::{Enumerated, enumerate, exp_neg, rational};
use self::statistics::assert_follows;
use super::bernoulli::{bernoulli, bernoulli_exp, bernoulli_exp_big};
use super::rng::{QueryRng, Uniform};
use super::{
    LaplaceScale, Refinement, SamplerError, Sigma, discrete_gaussian, discrete_laplace,
    refined_laplace, selection,
};
use crate::privacy::Rational;

/// Paths less likely than 2^−22 are left unexplored. This is little enough to detect a loop that is
/// off by one turn.
const DEPTH: u32 = 22;

/// Asserts that the enumerated weights, normalised, are the law given by unnormalised `weights`.
fn assert_law<T: Ord + std::fmt::Debug + Copy>(
    what: &str,
    seen: &Enumerated<Option<T>>,
    weights: &BTreeMap<T, Rational>,
    total: &Rational,
) {
    let kept: Rational = seen.mass.iter().filter(|(k, _)| k.is_some()).map(|(_, p)| p).sum();
    assert!(&seen.unexplored * rational(100, 1) < kept, "{what}: {} unexplored", seen.unexplored);
    for (outcome, weight) in weights {
        let law = weight / total;
        let found = seen.mass.get(&Some(*outcome)).cloned().unwrap_or_else(Rational::zero);
        let least = &found / (&kept + &seen.unexplored);
        let most = (&found + &seen.unexplored) / &kept;
        assert!(least <= &law + rational(1, 1 << 50), "{what}: {outcome:?} too likely");
        assert!(law <= most + rational(1, 1 << 50), "{what}: {outcome:?} too unlikely");
    }
}

#[test]
fn exponential_coins_are_exact() {
    let wide = 1_u128 << 90;
    let near = 1_u128 << 62;
    for (num, den) in [
        (0, 1),
        (1, 3),
        (1, 1),
        (5, 2),
        (7, 3),
        (wide, 3 * wide),
        (5 * wide, 2 * wide),
        (2 * near, 3 * near),
    ] {
        let law = exp_neg(&Rational::new(BigInt::from(num), BigInt::from(den)));
        let narrow = enumerate(30, |oracle| bernoulli_exp(num, den, oracle));
        let (num, den) = (BigUint::from(num), BigUint::from(den));
        let big = enumerate(30, |oracle| bernoulli_exp_big(&num, &den, oracle));
        for seen in [narrow, big] {
            let found = seen.mass.get(&true).cloned().unwrap_or_else(Rational::zero);
            assert!(found <= &law + rational(1, 1 << 50), "{num}/{den}");
            assert!(law <= found + &seen.unexplored + rational(1, 1 << 50), "{num}/{den}");
            assert!(seen.unexplored < rational(1, 1_000_000));
        }
    }
    let mut rng = QueryRng::seeded_for_tests(1);
    assert!(
        !bernoulli_exp(1, 0, &mut rng) && !bernoulli_exp_big(&1_u8.into(), &0_u8.into(), &mut rng)
    );
    assert!(bernoulli(5, 5, &mut rng) && !bernoulli(0, 5, &mut rng));
    assert!(!bernoulli_exp(u128::MAX, 1, &mut rng), "an exponent of 2^128 ends after a few coins");
}

#[test]
fn laplace_is_exact_at_small_scales() {
    for (t, s) in [(1, 1), (3, 1), (1, 2), (5, 2), (2, 3)] {
        let scale = LaplaceScale::new(t, s).unwrap();
        let seen = enumerate(DEPTH, |oracle| discrete_laplace::attempt(&scale, oracle));
        let alpha = exp_neg(&Rational::new(s.into(), t.into()));
        let total = (Rational::one() + &alpha) / (Rational::one() - &alpha);
        let weights =
            (-12_i128..=12).map(|x| (x, num_traits::pow(alpha.clone(), x.unsigned_abs() as usize)));
        assert_law(&format!("laplace {t}/{s}"), &seen, &weights.collect(), &total);
    }
}

/// P(X = x) of discrete Laplace noise with this ratio.
fn laplace_mass(alpha: &Rational, x: i128) -> Rational {
    let power = num_traits::pow(alpha.clone(), x.unsigned_abs() as usize);
    power * (Rational::one() - alpha) / (Rational::one() + alpha)
}

/// P(W = w): what coarse noise of ratio c is beyond fine noise of ratio f.
fn mass_between(c: &Rational, f: &Rational, w: i128) -> Rational {
    let square = |alpha: &Rational| num_traits::pow(Rational::one() - alpha, 2);
    let p = square(c) * f / (square(f) * c);
    let spread = (Rational::one() - &p) * laplace_mass(c, w);
    if w == 0 { p + spread } else { spread }
}

/// Each pair is a coarse scale and a fine one.
const REFINED: [[(u64, u64); 2]; 4] =
    [[(1, 1), (1, 2)], [(1, 1), (1, 3)], [(2, 1), (2, 3)], [(2, 1), (2, 5)]];

/// The coarse noise is the fine noise and an independent rest. The law is written as the joint
/// probability of both, whose sum over the fine noise is the probability of the coarse noise.
#[test]
fn refined_laplace_is_exact_at_small_scales() {
    for [coarse, fine] in REFINED {
        let ratio = |(t, s): (u64, u64)| exp_neg(&Rational::new(s.into(), t.into()));
        let scale = |(t, s)| LaplaceScale::new(t, s).unwrap();
        let refinement = Refinement::new(&scale(coarse), &scale(fine)).unwrap();
        let (c, f) = (ratio(coarse), ratio(fine));
        for n in [-2, 0, 1, 3_i128] {
            let seen = enumerate(DEPTH, |oracle| refined_laplace::attempt(&refinement, n, oracle));
            let joint = |m: i128| laplace_mass(&f, m) * mass_between(&c, &f, n - m);
            let weights = (-9..=9).map(|m| (m, joint(m))).collect();
            let what = format!("from {coarse:?} to {fine:?} at {n}");
            assert_law(&what, &seen, &weights, &laplace_mass(&c, n));
        }
    }
}

/// The logarithm of the largest ratio of the probabilities of an outcome, when the number under the
/// draws is 0 or 1.
fn loss(range: std::ops::RangeInclusive<i128>, law: impl Fn(i128, i128, i128) -> f64) -> f64 {
    let mut most = 0.0_f64;
    for first in range.clone() {
        for second in range.clone() {
            for third in range.clone() {
                let here = law(first, second, third);
                let there = law(first - 1, second - 1, third - 1);
                most = most.max((here / there).ln().abs());
            }
        }
    }
    most
}

/// P(X = x) of discrete Laplace noise at ε.
fn mass_at(epsilon: f64, x: i128) -> f64 {
    let alpha = (-epsilon).exp();
    (1.0 - alpha) / (1.0 + alpha) * alpha.powi(x.abs() as i32)
}

/// P(m | n): the law of the finer noise at ε = `fine`, given noise n at ε = `coarse`.
fn mass_given(coarse: f64, fine: f64, n: i128, m: i128) -> f64 {
    let [c, f] = [coarse, fine].map(|epsilon| (-epsilon).exp());
    let p = (1.0 - c).powi(2) * f / ((1.0 - f).powi(2) * c);
    let rest = (1.0 - p) * mass_at(coarse, n - m) + if n == m { p } else { 0.0 };
    mass_at(fine, m) * rest / mass_at(coarse, n)
}

/// A chain of three draws at ε = ½, 1 and 2 loses 2. Two refinements of one draw lose more than
/// they would be charged, and so does a second draw that is independent of the first.
#[test]
fn a_chain_of_refinements_loses_what_its_last_draw_loses() {
    let first = |n| mass_at(0.5, n);
    let then = |n, m| mass_given(0.5, 1.0, n, m);
    let chain = |n, m, k| first(n) * then(n, m) * mass_given(1.0, 2.0, m, k);
    let branches = |n, m, k| first(n) * then(n, m) * then(n, k);
    let apart = |n, m, k| first(n) * mass_at(1.0, m) * mass_at(2.0, k);
    // Given the first draw, a refinement loses the sum of both.
    let alone = |n, m, _| then(n, m);
    assert!((loss(-9..=9, chain) - 2.0).abs() < 1e-9);
    assert!((loss(-9..=9, branches) - 2.5).abs() < 1e-9);
    assert!((loss(-9..=9, apart) - 3.5).abs() < 1e-9);
    assert!((loss(-9..=9, alone) - 1.5).abs() < 1e-9);
}

/// If a bound keeps one row of a person for the first draw and another one for the second, the
/// numbers under both differ, and two groups lose 1.24 where 1 is charged. So no bound may cut a
/// row.
#[test]
fn refinements_of_other_numbers_lose_more() {
    let range = || -7..=7_i128;
    let of = |at: [i128; 2], first: i128, second: i128| {
        mass_at(0.5, at[0] - first) * mass_given(0.5, 1.0, at[0] - second, at[1] - second)
    };
    let mut most = 0.0_f64;
    let all = range().flat_map(|a| range().map(move |b| [a, b])).collect::<Vec<_>>();
    for one in &all {
        for other in &all {
            let without = of(*one, 0, 0) * of(*other, 0, 0);
            // Which of both groups has the person's row is drawn anew for each draw.
            let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
            let with: f64 =
                places.iter().map(|(p, q)| of(*one, *p, *q) * of(*other, 1 - p, 1 - q) / 4.0).sum();
            most = most.max((without / with).ln().abs());
        }
    }
    assert!((most - 1.240_229).abs() < 1e-6, "{most}");
}

/// An analyst sees the first draw, and refines it where that reveals most. Order 2: the filter
/// holds if the mean of what the draws reveal, each over what it is charged, is at most 1.
#[test]
fn rho_of_a_refinement_covers_whoever_chooses_when_to_refine() {
    let rho = |epsilon: f64| epsilon * (epsilon / 2.0).tanh();
    let worst = |coarse: f64, fine: f64, charged: f64| -> f64 {
        let range = || -60..=60_i128;
        let of_first = |n: i128| {
            let (here, there) = (mass_at(coarse, n), mass_at(coarse, n - 1));
            let of_second = |m: i128| {
                let there = mass_given(coarse, fine, n - 1, m - 1);
                mass_given(coarse, fine, n, m).powi(2) / there
            };
            let second: f64 = range().map(of_second).sum();
            here * here / there
                * (-2.0 * rho(coarse)).exp()
                * (second * (-2.0 * charged).exp()).max(1.0)
        };
        range().map(of_first).sum()
    };
    for (coarse, fine) in [(0.5, 1.0), (1.0, 2.0), (0.5, 2.0), (0.1, 1.0)] {
        assert!(worst(coarse, fine, rho(coarse + fine)) <= 1.0, "{coarse} {fine}");
    }
    let difference = worst(0.5, 1.0, rho(1.0) - rho(0.5));
    assert!((difference - 1.018_684_5).abs() < 1e-6, "{difference}");
}

/// If the first draw has the coarse law, the second has the fine one, at every scale.
#[test]
fn refined_frequencies_follow_the_fine_law() {
    let pairs = [
        [(10, 1), (7, 1)],
        [(1_000, 1), (1, 1)],
        [(97, 8), (97, 9)],
        [(1_000_003, 7), (1_000_003, 70)],
        [(1 << 60, 1), (1 << 60, 3)],
        [(1, 1), (1, 3)],
    ];
    for (seed, [coarse, (t, s)]) in pairs.into_iter().enumerate() {
        let coarse = LaplaceScale::new(coarse.0, coarse.1).unwrap();
        let refinement = Refinement::new(&coarse, &LaplaceScale::new(t, s).unwrap()).unwrap();
        let mut rng = QueryRng::seeded_for_tests(500 + seed as u64);
        let draws = (0..300_000).map(|_| {
            let first = discrete_laplace(&coarse, &mut rng);
            refined_laplace(&refinement, first, &mut rng)
        });
        let rate = s as f64 / t as f64;
        let below = |x: i128| {
            let tail = |k: i128| (-rate * k as f64).exp() / (1.0 + (-rate).exp());
            if x > 0 { 1.0 - tail(x) } else { tail(1 - x) }
        };
        assert_follows(&format!("refined to {t}/{s}"), draws, below, t as f64 / s as f64);
    }
}

/// Only a smaller scale refines, and only if the rates of both steps fit the sampler.
#[test]
fn refinements_are_checked() {
    let of = |coarse: (u64, u64), fine: (u64, u64)| {
        let scale = |(t, s)| LaplaceScale::new(t, s).unwrap();
        Refinement::new(&scale(coarse), &scale(fine))
    };
    assert!(of((2, 1), (2, 1)).is_err() && of((2, 1), (3, 1)).is_err());
    assert!(of((2, 1), (1, 1)).is_ok());
    let wide = LaplaceScale::LIMIT - 1;
    assert!(of((wide, 1), (wide - 1, 1)).is_err(), "a product of two such numbers does not fit");
    assert!(of((wide, 1), (wide, 2)).is_ok());
    let mut rng = QueryRng::seeded_for_tests(9);
    let refinement = of((wide, 1), (wide, 2)).unwrap();
    for end in [i128::MIN, i128::MAX] {
        let drawn = refined_laplace(&refinement, end, &mut rng);
        assert!(drawn.unsigned_abs() < 1 << 126, "the draw is of the fine noise: {drawn}");
    }
}

#[test]
fn gaussian_is_exact_at_small_scales() {
    let fine = |units| Sigma::fine(units).unwrap();
    for sigma in [
        fine(2048),
        fine(4096),
        fine(6000),
        fine(9001),
        Sigma::whole(1).unwrap(),
        Sigma::whole(3).unwrap(),
    ] {
        let seen = enumerate(DEPTH, |oracle| discrete_gaussian::attempt(&sigma, oracle));
        let (num, den) = sigma.ratio();
        let variance = num_traits::pow(Rational::new(num.into(), den.into()), 2);
        let weights: BTreeMap<i128, Rational> = (-30_i128..=30)
            .map(|x| {
                (x, exp_neg(&(Rational::from_integer((x * x).into()) / &variance / rational(2, 1))))
            })
            .collect();
        // Integers beyond 30 ≥ 10σ have a total probability below 10⁻²¹.
        let total = weights.values().sum();
        assert_law(&format!("gaussian {num}/{den}"), &seen, &weights, &total);
    }
}

#[test]
fn selections_are_exact_on_few_candidates() {
    let scores = [3_i128, 1, 0, 3, -2];
    let weights: Vec<Rational> =
        scores.iter().map(|q| exp_neg(&rational(3 - *q as i64, 2))).collect();
    let seen = enumerate(DEPTH, |oracle| selection::attempt(&scores, 3, 1, 2, oracle));
    let total = weights.iter().sum();
    assert_law("exponential", &seen, &weights.iter().cloned().enumerate().collect(), &total);

    // A gap times a rate beyond 128 bits: 2^100·2^28/2^127 = 2.
    let seen = enumerate(DEPTH, |oracle| {
        selection::attempt(&[0, 1 << 100], 1 << 100, 1 << 28, 1 << 127, oracle)
    });
    let pair = [exp_neg(&rational(2, 1)), Rational::one()];
    let total = pair.iter().sum();
    assert_law("wide exponential", &seen, &pair.into_iter().enumerate().collect(), &total);

    // The law of permute-and-flip by definition: every order of the candidates, and the first that
    // is accepted.
    let seen = enumerate(DEPTH, |oracle| selection::permute_and_flip(&scores, 1, 2, oracle).ok());
    let mut law = BTreeMap::new();
    first_accepted(&weights, &mut Vec::new(), &Rational::one(), &mut law);
    assert_law("permute and flip", &seen, &law, &Rational::one());
}

/// Adds to `law` the probability of each winner, over all orders that continue `visited`. All
/// candidates in `visited` were rejected.
fn first_accepted(
    weights: &[Rational],
    visited: &mut Vec<usize>,
    mass: &Rational,
    law: &mut BTreeMap<usize, Rational>,
) {
    let left = weights.len() - visited.len();
    for next in (0..weights.len()).filter(|i| !visited.clone().contains(i)).collect::<Vec<_>>() {
        let reached = mass / rational(left as i64, 1);
        *law.entry(next).or_insert_with(Rational::zero) += &reached * &weights[next];
        visited.push(next);
        first_accepted(weights, visited, &(&reached * (Rational::one() - &weights[next])), law);
        visited.pop();
    }
}

#[test]
fn scores_at_the_ends_of_128_bits_are_compared_exactly() {
    let mut rng = QueryRng::seeded_for_tests(3);
    let scale = LaplaceScale::new(LaplaceScale::LIMIT - 1, 1).unwrap();
    let scores = [i128::MIN, i128::MAX, i128::MAX - 1, i128::MIN + 1];
    for _ in 0..100 {
        // At a rate of 2^126 per point, only a best candidate is ever accepted (others:
        // e^(−2^126)).
        assert_eq!(selection::exponential(&scores, 1 << 126, 1, &mut rng).unwrap(), 1);
        assert_eq!(selection::permute_and_flip(&scores, 1 << 126, 1, &mut rng).unwrap(), 1);
        assert!([1, 2].contains(&selection::noisy_max(&scores, &scale, &mut rng).unwrap()));
    }
    for none in [
        selection::exponential(&[], 1, 1, &mut rng),
        selection::permute_and_flip(&[], 1, 1, &mut rng),
        selection::noisy_max(&[], &scale, &mut rng),
    ] {
        assert!(matches!(none, Err(SamplerError::NoCandidate)));
    }
}

#[test]
fn scales_are_checked() {
    for (t, s) in [(0, 1), (1, 0), (LaplaceScale::LIMIT, 1), (1, LaplaceScale::LIMIT)] {
        assert!(LaplaceScale::new(t, s).is_err());
    }
    assert!(Sigma::fine(0).is_err() && Sigma::fine(Sigma::FINE_LIMIT).is_err());
    assert!(Sigma::whole(0).is_err() && Sigma::whole(Sigma::WHOLE_LIMIT).is_err());
}

/// The scales at which frequencies are tested: below and above 1, whole and fractional, and at both
/// ends of the range that the sampler can draw.
const SCALES: [(u64, u64); 12] = [
    (1, 1),
    (10, 1),
    (1, 3),
    (7, 2),
    (1_000, 1),
    (1, 10),
    (2, 3),
    (20, 1),
    (97, 8),
    (1_000_003, 7),
    (999_983, 65_536),
    ((1 << 61) + 1, 1 << 58),
];

/// Deviations in units of 1/4,096; the last one is whole.
const DEVIATIONS: [u64; 11] = [
    1_500,
    2_500,
    4_096,
    8_193,
    17_331,
    40_960,
    123_457,
    409_601,
    1 << 22,
    (1 << 22) + 1,
    20_000_000,
];

fn deviations() -> Vec<Sigma> {
    let whole = Sigma::whole(100).unwrap();
    DEVIATIONS.iter().map(|units| Sigma::fine(*units).unwrap()).chain([whole]).collect()
}

/// Makes `draws` draws at each of the twelve scales.
fn laplace_frequencies(draws: usize) {
    for (seed, (t, s)) in SCALES.into_iter().enumerate() {
        let scale = LaplaceScale::new(t, s).unwrap();
        let mut rng = QueryRng::seeded_for_tests(seed as u64);
        let draws = (0..draws).map(|_| discrete_laplace(&scale, &mut rng));
        let rate = s as f64 / t as f64;
        let below = |x: i128| {
            // P(X < x), from the two geometric tails.
            let tail = |k: i128| (-rate * k as f64).exp() / (1.0 + (-rate).exp());
            if x > 0 { 1.0 - tail(x) } else { tail(1 - x) }
        };
        assert_follows(&format!("laplace {t}/{s}"), draws, below, t as f64 / s as f64);
    }
}

fn gaussian_frequencies(draws: usize) {
    for (seed, sigma) in deviations().into_iter().enumerate() {
        let mut rng = QueryRng::seeded_for_tests(100 + seed as u64);
        let draws = (0..draws).map(|_| discrete_gaussian(&sigma, &mut rng));
        let (num, den) = sigma.ratio();
        let deviation = num as f64 / den as f64;
        let weight = |x: i128| (-((x * x) as f64) / (2.0 * deviation * deviation)).exp();
        let reach = (12.0 * deviation) as i128 + 2;
        let mut running = 0.0;
        let cumulative: Vec<f64> = (-reach..=reach)
            .map(|x| {
                running += weight(x);
                running
            })
            .collect();
        let below = |x: i128| match usize::try_from(x + reach) {
            Err(_) | Ok(0) => 0.0,
            Ok(n) => cumulative[(n - 1).min(cumulative.len() - 1)] / running,
        };
        assert_follows(&format!("gaussian {num}/{den}"), draws, below, deviation);
    }
}

/// Each chi-square test below has a false-alarm rate of 10⁻⁹ (Laurent–Massart, see `statistics`).
/// Seeds are fixed.
#[test]
fn laplace_frequencies_follow_the_law() {
    laplace_frequencies(1_000_000);
}

#[test]
fn gaussian_frequencies_follow_the_law() {
    gaussian_frequencies(1_000_000);
}

/// A billion draws in all. The rounding of the law's cells to floats is far smaller than what so
/// many draws could show.
#[test]
#[ignore = "an hour"]
fn a_billion_draws_follow_their_laws() {
    laplace_frequencies(42_000_000);
    gaussian_frequencies(42_000_000);
}

/// Noise reaches every point of its lattice, at every scale. Noise made of floats has gaps and
/// clusters, and the low bits of a noisy number then reveal the exact one. Residues modulo m of
/// draws at scale b are uniform up to a relative error of m²/(2πb)² (Poisson summation; less for
/// Gaussian noise). At b ≥ 10·m this many draws cannot show that error.
#[test]
fn every_point_of_the_lattice_is_reached_alike() {
    let uniform = |m: i128| vec![1.0 / m as f64; usize::try_from(m).unwrap()];
    let test = |what: &str, m: i128, draws: &mut dyn FnMut() -> i128| {
        let mut counts = vec![0_u64; usize::try_from(m).unwrap()];
        for _ in 0..100_000 {
            counts[usize::try_from(draws().rem_euclid(m)).unwrap()] += 1;
        }
        statistics::assert_frequencies(what, &counts, &uniform(m));
    };
    let mut rng = QueryRng::seeded_for_tests(77);
    // Scales of 10⁴ and of 2⁶⁰, where floats have steps of 256, and one scale that is not an
    // integer.
    for (t, s) in [(10_000, 1), (1_000_003, 7), ((1 << 60) + 1, 1), ((1 << 61) + 1, 3)] {
        let scale = LaplaceScale::new(t, s).unwrap();
        for m in [2, 3, 5, 7, 64, 1_000] {
            let what = format!("laplace {t}/{s} modulo {m}");
            test(&what, m, &mut || discrete_laplace(&scale, &mut rng));
        }
    }
    for sigma in [Sigma::fine(10_001 << 12).unwrap(), Sigma::whole((1 << 59) + 1).unwrap()] {
        for m in [2, 3, 5, 7, 64, 1_000] {
            let what = format!("gaussian {:?} modulo {m}", sigma.ratio());
            test(&what, m, &mut || discrete_gaussian(&sigma, &mut rng));
        }
    }
    // Small scales: every point within 8 scales is drawn, on both sides and equally often.
    let scale = LaplaceScale::new(5, 2).unwrap();
    let mut seen: BTreeMap<i128, i64> = BTreeMap::new();
    for _ in 0..400_000 {
        *seen.entry(discrete_laplace(&scale, &mut rng)).or_default() += 1;
    }
    for x in 0..=20_i128 {
        let (right, left) = (seen[&x], seen[&-x]);
        // The difference of two Poisson counts stays within 6.2 deviations, except with probability
        // 10⁻⁹.
        let most = 6.2 * ((right + left) as f64).sqrt() + 4.0;
        assert!(((right - left) as f64).abs() <= most, "{x}: {right} and {left}");
    }
}

#[test]
fn wide_gaussians_have_the_right_deviation() {
    // The sum of the squares of 50,000 standard normals lies within 2√(50,000·t) + 2t of 50,000,
    // except with probability 2e^(−t) (Laurent, Massart 2000). For t = 20.8 that is 2·10⁻⁹. At
    // these σ the grid is too fine to matter. The first σ is the widest.
    for sigma in [Sigma::whole((1 << 59) + 1).unwrap(), Sigma::fine(Sigma::FINE_LIMIT - 1).unwrap()]
    {
        let (num, den) = sigma.ratio();
        let deviation = num as f64 / den as f64;
        let mut rng = QueryRng::seeded_for_tests(7);
        let squares: f64 = (0..50_000)
            .map(|_| (discrete_gaussian(&sigma, &mut rng) as f64 / deviation).powi(2))
            .sum();
        assert!(
            (squares - 50_000.0).abs() < 2.0 * (50_000.0 * 20.8_f64).sqrt() + 42.0,
            "{squares}"
        );
    }
}

#[test]
fn bounded_draws_are_uniform() {
    let mut rng = QueryRng::seeded_for_tests(11);
    let uniform = |n: f64| move |x: i128| (x.max(0) as f64 / n).min(1.0);
    for n in [2_u64, 3, 6, 1000] {
        let draws: Vec<i128> = (0..100_000).map(|_| i128::from(rng.below_u64(n))).collect();
        assert_follows("below_u64", draws.into_iter(), uniform(n as f64), n as f64 / 8.0);
        let draws: Vec<i128> = (0..100_000).map(|_| rng.below_u128(n.into()) as i128).collect();
        assert_follows("below_u128", draws.into_iter(), uniform(n as f64), n as f64 / 8.0);
        let big = BigUint::from(n);
        let draws: Vec<i128> =
            (0..100_000).map(|_| i128::try_from(rng.below_big(&big)).unwrap()).collect();
        assert_follows("below_big", draws.into_iter(), uniform(n as f64), n as f64 / 8.0);
    }
    // Without rejection, a third of the residues would be twice as likely at these bounds.
    let (half, narrow, wide) = (3_u64 << 30, 3_u64 << 62, 3_u128 << 126);
    let big = BigUint::from(3_u8) << 190_u32;
    let (mut half_residues, mut residues, mut wide_residues, mut big_residues) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..90_000 {
        half_residues.push(i128::from(rng.below_u64(half) % 3));
        residues.push(i128::from(rng.below_u64(narrow) % 3));
        wide_residues.push((rng.below_u128(wide) % 3) as i128);
        big_residues.push(i128::try_from(rng.below_big(&big) % 3_u8).unwrap());
    }
    for residues in [half_residues, residues, wide_residues, big_residues] {
        assert_follows("residues", residues.into_iter(), uniform(3.0), 0.4);
    }
    let coins: Vec<i128> = (0..90_000).map(|_| i128::from(rng.coin())).collect();
    assert_follows("coins", coins.into_iter(), uniform(2.0), 0.4);
    assert_eq!(
        (rng.below_u64(0), rng.below_u128(0), rng.below_big(&BigUint::ZERO)),
        (0, 0, BigUint::ZERO)
    );
    assert_eq!(
        (rng.below_u64(1), rng.below_u128(1), rng.below_big(&1_u8.into())),
        (0, 0, BigUint::ZERO)
    );
    for _ in 0..1000 {
        assert!(rng.below_u128((1 << 64) + 1) <= 1 << 64 && rng.below_u128(u128::MAX) < u128::MAX);
    }
}

#[test]
fn keys_differ_and_seeds_repeat() {
    let (mut a, mut b) = (QueryRng::from_os().unwrap(), QueryRng::from_os().unwrap());
    assert_ne!(
        a.hash_key(),
        b.hash_key(),
        "two keys of 256 bits are equal with probability 2^-256"
    );
    assert_ne!(a.hash_key(), a.hash_key());
    let (mut a, mut b) = (QueryRng::seeded_for_tests(5), QueryRng::seeded_for_tests(5));
    assert_eq!(a.hash_key(), b.hash_key());
    assert_eq!(format!("{a:?}"), "QueryRng");
}
