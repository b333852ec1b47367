//! Compares variances with the textbook, and checks their ± against every noise.

use num_traits::ToPrimitive;

use super::{Scale, Spread};
use crate::analysis::VarianceMoments;

fn float(x: i128) -> f64 {
    x.to_f64().unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

fn scale(spread: Spread, lo: i128, hi: i128, noise: f64) -> Scale {
    Scale::new(&VarianceMoments { column: 0, shift: 0, spread }, lo, hi, 1.0, noise)
}

fn sums(values: &[i128], lo: i128, hi: i128) -> [i128; 3] {
    let w = hi - lo;
    values
        .iter()
        .map(|x| x - lo)
        .fold([0; 3], |[a, b, c], x| [a + (w - x) * (w - x), b + 2 * x * (w - x), c + x * x])
}

const ALL: [Spread; 4] = [Spread::VarPop, Spread::VarSamp, Spread::StddevPop, Spread::StddevSamp];

/// Without noise, the results are those of the textbook.
#[test]
fn without_noise_they_are_exact() {
    for values in [vec![3, 4, 4, 9, -2], vec![0, 10], vec![5; 7], vec![-2, -2, -2, 10]] {
        let n = values.len().to_f64().unwrap();
        let mean = float(values.iter().sum()) / n;
        let squares: f64 = values.iter().map(|x| (float(*x) - mean).powi(2)).sum();
        let expected =
            [squares / n, squares / (n - 1.0), (squares / n).sqrt(), (squares / (n - 1.0)).sqrt()];
        for (spread, expected) in ALL.into_iter().zip(expected) {
            let got = scale(spread, -2, 10, 0.0).of(sums(&values, -2, 10)).unwrap();
            assert!((got.value - expected).abs() < 1e-12, "{spread} {values:?} {got:?}");
            assert!(got.within < 1e-12, "{spread} {values:?} {got:?}");
        }
    }
}

#[test]
fn too_few_rows_are_null_and_values_stay_in_their_range() {
    let one = sums(&[4], -2, 10);
    assert!(near(scale(Spread::VarPop, -2, 10, 0.0).of(one).unwrap().value, 0.0));
    assert_eq!(scale(Spread::VarSamp, -2, 10, 0.0).of(one), None);
    assert_eq!(scale(Spread::VarPop, -2, 10, 0.0).of([0; 3]), None);
    assert_eq!(scale(Spread::VarPop, -2, 10, 0.0).of([-500, 9, -500]), None);
    for a in [-400_i128, -1, 0, 77, 144, 1_000] {
        for b in [-400_i128, 0, 5, 300] {
            for c in [-100_i128, 0, 60, 144, 2_000] {
                for (spread, most) in ALL.into_iter().zip([36.0, 72.0, 6.0, 72_f64.sqrt()]) {
                    let Some(got) = scale(spread, -2, 10, 3.0).of([a, b, c]) else { continue };
                    assert!((0.0..=most).contains(&got.value), "{spread} {a} {b} {c} {got:?}");
                    assert!(got.within >= 0.0 && got.within <= most, "{spread} {got:?}");
                }
            }
        }
    }
}

/// For every noise up to t, on every small table: the ± always holds, and some noise comes close to
/// it.
#[test]
fn the_bound_holds_for_every_noise_within_t() {
    let (lo, hi) = (0, 4);
    let mut tightest = [0.0_f64; 4];
    let tables: [&[i128]; 8] = [
        &[0, 0, 0, 0, 0, 0],
        &[4; 9],
        &[0, 4, 0, 4, 0, 4],
        &[1, 2, 3],
        &[0, 0, 0, 0, 0, 0, 0, 4],
        &[2; 12],
        &[0, 1, 4, 4, 4, 4],
        &[3, 3, 2, 3, 3, 3, 2, 3, 3, 3],
    ];
    for values in tables {
        let exact = sums(values, lo, hi);
        for t in [1_i128, 4, 16, 40] {
            for (i, spread) in ALL.into_iter().enumerate() {
                let truth = scale(spread, lo, hi, 0.0).of(exact).unwrap().value;
                let noisy = scale(spread, lo, hi, float(t) / 16.0);
                for a in [-t, -t / 2, 0, t] {
                    for b in [-t, 0, t / 3, t] {
                        for c in [-t, 0, t / 2, t] {
                            let drawn = [exact[0] + a, exact[1] + b, exact[2] + c];
                            let Some(got) = noisy.of(drawn) else { continue };
                            let off = (got.value - truth).abs();
                            assert!(
                                off <= got.within + 1e-12,
                                "{spread} {values:?} {drawn:?} {off} {got:?}"
                            );
                            if got.within > 0.0 && got.within < 0.5 * noisy.width {
                                tightest[i] = tightest[i].max(off / got.within);
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(tightest.iter().all(|t| *t > 0.7), "{tightest:?}");
}

/// The bound also holds for vectors that no rows yield, such as the contributions of a unit after
/// they were scaled down and rounded.
#[test]
fn the_bound_holds_for_vectors_that_are_no_rows() {
    for a in 0..7_i128 {
        for b in 0..7 {
            for c in 0..7 {
                let exact = [a * 5, b * 5, c * 5];
                for spread in ALL {
                    let Some(truth) = scale(spread, 0, 3, 0.0).of(exact) else { continue };
                    for noise in [[3, -3, 3], [-3, 3, 3], [3, 3, -3], [-3, -3, -3], [3, -3, -3]] {
                        let drawn = [0, 1, 2].map(|i| exact[i] + noise[i]);
                        let Some(got) = scale(spread, 0, 3, 3.0 / 9.0).of(drawn) else {
                            continue;
                        };
                        let off = (got.value - truth.value).abs();
                        assert!(off <= got.within + 1e-12, "{spread} {exact:?} {drawn:?}");
                    }
                }
            }
        }
    }
}

/// Steps of 4 grid units: values are clamped to the range, then rounded, and the result is the
/// variance of the rounded values.
#[test]
fn coarse_steps_are_worth_their_width() {
    let moments = VarianceMoments { column: 0, shift: 2, spread: Spread::VarPop };
    let scale = Scale::new(&moments, 0, 6, 0.5, 0.0);
    // w = 2 steps; one row at each end gives a variance of 1 step², limited to (6·0.5)²/4 units².
    let got = scale.of([4, 0, 4]).unwrap();
    assert!(near(got.value, 2.25));
    let uneven = scale.of([5, 2, 1]).unwrap().value;
    assert!(near(uneven, 4.0 * 4.0 * (4.0 * 5.0 - 4.0) / 256.0));
}
