//! Compares the statistics of two columns with the textbook, and checks their ± against every
//! noise.

use num_traits::ToPrimitive;

use super::{Joint, JointEstimate, JointScale};
use crate::analysis::JointMoments;
use crate::grid::pairs::Pairs;
use crate::grid::{Grid, GridRange};

const ALL: [Joint; 6] = [
    Joint::Corr,
    Joint::CovarPop,
    Joint::CovarSamp,
    Joint::RegrSlope,
    Joint::RegrIntercept,
    Joint::RegrR2,
];

const X: (i128, i128) = (-3, 9);
const Y: (i128, i128) = (2, 7);

fn moments(joint: Joint) -> JointMoments {
    let range = |(lo, hi)| GridRange::new(Grid::Integer, lo, hi).unwrap();
    let pairs = Pairs::new(range(X), range(Y), joint.needs_squares()).unwrap();
    JointMoments { column: 0, pairs, joint }
}

fn sums(joint: Joint, rows: &[(i128, i128)]) -> Vec<i128> {
    let pairs = moments(joint).pairs;
    let code = |(x, y): &(i128, i128)| (x - X.0) * (Y.1 - Y.0 + 1) + y - Y.0;
    (0..pairs.products())
        .map(|which| rows.iter().map(|row| pairs.product(code(row), which)).sum())
        .collect()
}

fn textbook(joint: Joint, rows: &[(i128, i128)]) -> f64 {
    let float = |x: i128| x.to_f64().unwrap();
    let n = rows.len().to_f64().unwrap();
    let mean = |of: &dyn Fn(f64, f64) -> f64| {
        rows.iter().map(|(x, y)| of(float(*x), float(*y))).sum::<f64>() / n
    };
    let (mx, my) = (mean(&|x, _| x), mean(&|_, y| y));
    let c = mean(&|x, y| (x - mx) * (y - my));
    let (vx, vy) = (mean(&|x, _| (x - mx).powi(2)), mean(&|_, y| (y - my).powi(2)));
    match joint {
        Joint::Corr => c / (vx * vy).sqrt(),
        Joint::CovarPop => c,
        Joint::CovarSamp => c * n / (n - 1.0),
        Joint::RegrSlope => c / vx,
        Joint::RegrIntercept => my - c / vx * mx,
        Joint::RegrR2 => c * c / (vx * vy),
    }
}

fn of(joint: Joint, noise: f64, sums: &[i128]) -> Option<JointEstimate> {
    JointScale::new(&moments(joint), noise).of(sums)
}

fn databases() -> Vec<Vec<(i128, i128)>> {
    vec![
        vec![(0, 2), (4, 5), (9, 7), (-3, 3), (1, 1 + 1)],
        vec![(0, 7), (9, 2)],
        (0..40).map(|i| (i * 7 % 13 - 3, 2 + i % 6)).collect(),
        (0..90).map(|i| (i % 13 - 3, 2 + (i % 13) * 5 / 12)).collect(),
        (0..60).map(|i| (i % 2 + 8, 7 - i % 2 * (i % 3))).collect(),
    ]
}

/// Without noise, the results are those of the textbook.
#[test]
fn without_noise_they_are_exact() {
    for rows in databases() {
        for joint in ALL {
            let got = of(joint, 0.0, &sums(joint, &rows)).unwrap();
            let expected = textbook(joint, &rows);
            assert!((got.value - expected).abs() < 1e-9, "{joint} {rows:?} {got:?} {expected}");
            assert!(got.within < 1e-9, "{joint} {rows:?} {got:?}");
        }
    }
}

#[test]
fn columns_that_do_not_vary_have_no_statistic_that_divides_by_them() {
    let same = vec![(4, 3); 5];
    for joint in ALL {
        let got = of(joint, 0.0, &sums(joint, &same));
        match joint {
            Joint::CovarPop | Joint::CovarSamp => assert!(got.unwrap().value.abs() < 1e-12),
            _ => assert_eq!(got, None, "{joint}"),
        }
        let none = vec![0; moments(joint).pairs.products()];
        assert_eq!(of(joint, 0.0, &none), None);
        assert_eq!(of(joint, 2.0, &none.iter().map(|_| -900).collect::<Vec<_>>()), None);
    }
    let one = sums(Joint::CovarSamp, &same[..1]);
    assert_eq!(of(Joint::CovarSamp, 0.0, &one), None);
    // A column that varies and one that does not.
    let flat: Vec<_> = (0..9).map(|i| (i, 4)).collect();
    assert_eq!(of(Joint::Corr, 0.0, &sums(Joint::Corr, &flat)), None);
    let slope = of(Joint::RegrSlope, 0.0, &sums(Joint::RegrSlope, &flat)).unwrap();
    assert!(slope.value.abs() < 1e-12);
}

/// The ± covers every noise within t, and values stay in their ranges.
#[test]
fn the_margin_covers_every_noise_that_it_speaks_of() {
    let mut state = 9_u64;
    let mut bounded = 0;
    for rows in databases() {
        for joint in ALL {
            let pairs = moments(joint).pairs;
            let exact = sums(joint, &rows);
            let truth = textbook(joint, &rows);
            for (parts, tries) in [(1_000, 300), (40, 300), (5, 300), (1, 300)] {
                let t = i128::try_from(pairs.weight()).unwrap() / parts;
                let noise = t.to_f64().unwrap() / pairs.weight().to_f64().unwrap();
                for attempt in 0..tries {
                    let noisy: Vec<i128> = exact
                        .iter()
                        .map(|sum| {
                            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let drawn = i128::from(state >> 33) % (2 * t + 1) - t;
                            // Extreme noise is the hardest to cover.
                            sum + if attempt % 2 == 0 { drawn.signum() * t } else { drawn }
                        })
                        .collect();
                    let Some(got) = of(joint, noise, &noisy) else { continue };
                    let off = (got.value - truth).abs();
                    assert!(off <= got.within + 1e-9, "{joint} {rows:?} {off} {got:?}");
                    assert!(got.value.is_finite() && got.within >= 0.0);
                    bounded += usize::from(got.within < 0.3 * (1.0 + truth.abs()));
                    match joint {
                        Joint::Corr => assert!((-1.0..=1.0).contains(&got.value)),
                        Joint::RegrR2 => assert!((0.0..=1.0).contains(&got.value)),
                        Joint::CovarPop => assert!(got.value.abs() <= 15.0),
                        Joint::CovarSamp => assert!(got.value.abs() <= 30.0),
                        Joint::RegrSlope | Joint::RegrIntercept => {}
                    }
                }
            }
        }
    }
    assert!(bounded > 5_000, "{bounded} are useful");
}
