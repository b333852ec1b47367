//! Tests of cumulative distributions: what one person changes, by brute force, the law of the
//! numbers, and the stated errors.

use super::*;
use crate::privacy::parse_decimal;

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn beta() -> Rational {
    parse_decimal("0.05").unwrap()
}

fn scale(of: &Cumulative) -> f64 {
    match of.noise() {
        CountNoise::Laplace(noise) => float(noise.scale()),
        CountNoise::Gaussian(noise) => float(&noise.sigma()),
    }
}

/// Every way in which a person has up to `rows` rows in these bins.
fn people(bins: usize, rows: i128) -> Vec<Vec<i128>> {
    let mut all = vec![Vec::new()];
    for _ in 0..bins {
        all = all
            .into_iter()
            .flat_map(|one: Vec<i128>| {
                let left = rows - one.iter().sum::<i128>();
                (0..=left).map(move |own| [one.clone(), vec![own]].concat())
            })
            .collect();
    }
    all
}

/// The largest change of all counts of a tree by one person, in L1 and in squared L2.
fn changes(tree: &CountTree, rows: i128) -> (i128, i128) {
    let (mut l1, mut l2) = (0, 0);
    for person in people(tree.bins(), rows) {
        let counts = tree.counts(&person).unwrap().concat();
        l1 = l1.max(counts.iter().map(|count| count.abs()).sum());
        l2 = l2.max(counts.iter().map(|count| count * count).sum());
    }
    (l1, l2)
}

/// The noise is that of everything that a person changes in all levels, no more and no less: the
/// greatest loss of the noisy counts, Δ₁/b or Δ₂²/2σ², is the whole cost.
#[test]
fn a_person_is_worth_the_cost() {
    let mut taller = 0;
    for bins in [1, 2, 3, 5, 8, 13, 30] {
        // A person's rows in a few bins are enough: all levels count all of them.
        for rows in [1_i128, 2, 3] {
            let each = u128::try_from(rows).unwrap();
            let own = Cumulative::laplace(bins, each, &epsilon("0.7")).unwrap();
            let (l1, _) = changes(own.tree(), rows);
            let loss = l1 as f64 / scale(&own);
            assert!((loss - 0.7).abs() < 1e-9, "{bins} bins, {rows} rows: {loss}");
            // A twin whose noise is that of one level alone is caught, wherever there are more.
            let twin = float(Laplace::calibrate(each, &epsilon("0.7")).unwrap().scale());
            let levels = own.tree().levels() as f64;
            assert!((l1 as f64 / twin - 0.7 * levels).abs() < 1e-9, "{bins} bins, {rows} rows");
            let rho: Rho = "0.02".parse().unwrap();
            let own = Cumulative::concentrated(bins, each * each, &rho).unwrap();
            let (_, l2) = changes(own.tree(), rows);
            let loss = l2 as f64 / 2.0 / scale(&own).powi(2);
            assert!(loss <= 0.02 && loss > 0.0199, "{bins} bins, {rows} rows: {loss}");
            taller += usize::from(own.tree().levels() > 1);
        }
    }
    assert!(taller > 6, "{taller}");
}

/// No tree of another shape has a smaller worst variance, and 100 bins have the tree of the head of
/// this file.
#[test]
fn the_best_tree_is_taken() {
    for bins in [2_usize, 10, 37, 100, 256] {
        for power in [1, 2] {
            let cost = |levels: f64| levels.powi(power);
            let of = |tree: &CountTree| {
                let all = tree.running_variances();
                cost(tree.levels() as f64) * all.into_iter().fold(0.0, f64::max)
            };
            let taken = of(&best(bins, cost));
            let least = CountTree::all(bins).iter().map(of).fold(f64::INFINITY, f64::min);
            assert!(taken <= least * (1.0 + 1e-8), "{bins}");
        }
    }
    let own = Cumulative::laplace(100, 1, &epsilon("1")).unwrap();
    assert_eq!((own.tree().together(), own.tree().levels()), (18, 2));
    assert_eq!(own.tree().sizes(), [100, 6]);
    assert!((scale(&own) - 2.0).abs() < 1e-12);
    // Few bins are best without a tree.
    let few = Cumulative::laplace(5, 1, &epsilon("1")).unwrap();
    assert_eq!(few.tree().levels(), 1);
}

/// Draws: no bin is off by more than the stated error in more than 5 % of them, and the worst one
/// nearly is as often. With rows enough that the numbers rise by themselves, and without any row.
/// False alarms: at most 10⁻⁶. By Bernstein's inequality, a share of 5 % of 8,000 draws is larger
/// by the slack with a probability of at most 10⁻⁶ over 2,000.
#[test]
fn errors_hold() {
    const DRAWS: usize = 8_000;
    let ln = (2_000.0 / 1e-6_f64).ln() / DRAWS as f64;
    let slack = ln / 3.0 + (ln * ln / 9.0 + 2.0 * ln * 0.05 * 0.95).sqrt();
    let rho: Rho = "0.125".parse().unwrap();
    for (seed, own) in [
        Cumulative::laplace(100, 1, &epsilon("1")).unwrap(),
        Cumulative::laplace(7, 2, &epsilon("0.4")).unwrap(),
        Cumulative::concentrated(100, 1, &rho).unwrap(),
        Cumulative::gaussian(30, 4, Some(2), &epsilon("1"), &"1e-6".parse().unwrap()).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let within = own.error_at(&beta());
        for rows in [0_i128, 1_000_000] {
            let bins = vec![rows; own.tree().bins()];
            let mut rng = QueryRng::seeded_for_tests(seed as u64 + 31);
            let mut beyond = vec![0_usize; bins.len()];
            let mut squares = vec![0.0_f64; bins.len()];
            for _ in 0..DRAWS {
                let mut exact = 0;
                let drawn = own.draw(&bins, &mut rng).unwrap();
                assert!(drawn.is_sorted() && drawn.iter().all(|n| *n >= 0));
                for (at, number) in drawn.iter().enumerate() {
                    exact += rows;
                    beyond[at] += usize::from(number.abs_diff(exact) > within);
                    squares[at] += ((number - exact) as f64).powi(2) / DRAWS as f64;
                }
            }
            let most = *beyond.iter().max().unwrap() as f64 / DRAWS as f64;
            assert!(most <= 0.05 + slack, "{own:?}: {most}");
            if rows == 0 {
                continue;
            }
            assert!(most >= 0.02, "{own:?}: only {most}, {within} is too much");
            let law = own.noise().law();
            let noise = match law {
                Law::Laplace(scale) => 0.5 / (0.5 / scale).sinh().powi(2),
                Law::Gaussian(_) => law.variance(),
            };
            // The variance of a draw's square is at most 5 times that of the draw, squared.
            let off = 7.0 * (5.0 / DRAWS as f64).sqrt();
            for (drawn, exact) in squares.iter().zip(own.tree().running_variances()) {
                let exact = exact * noise + 1.0 / 12.0;
                assert!((drawn / exact - 1.0).abs() < off, "{own:?}: {drawn} of {exact}");
            }
        }
    }
}

/// One bin is a count, and a hundred are far closer than a hundred counts.
#[test]
fn errors_are_those_of_the_literature() {
    let one = Cumulative::laplace(1, 1, &epsilon("1")).unwrap();
    assert_eq!((one.error_at(&beta()), one.error_apart_at(&beta())), (3, Some(3)));
    let hundred = Cumulative::laplace(100, 1, &epsilon("1")).unwrap();
    assert_eq!((hundred.error_at(&beta()), hundred.error_apart_at(&beta())), (17, Some(300)));
    let exact = Cumulative::laplace(100, 0, &epsilon("1")).unwrap();
    assert_eq!(exact.error_at(&beta()), 0);
    let nearly = Cumulative::laplace(100, 1, &epsilon("1000")).unwrap();
    assert_eq!(nearly.error_at(&beta()), 0);
    assert!(Cumulative::laplace(1_000, 1 << 60, &epsilon("1e-6")).is_err());
}

/// Without noise, the numbers are the running totals.
#[test]
fn numbers_without_noise_are_exact() {
    for bins in 1..60_usize {
        let own = Cumulative::laplace(bins, 0, &epsilon("1")).unwrap();
        let counts: Vec<i128> = (0..bins).map(|bin| (bin * bin % 11) as i128).collect();
        let drawn = own.draw(&counts, &mut QueryRng::seeded_for_tests(1)).unwrap();
        let mut sum = 0;
        let exact: Vec<i128> = counts
            .iter()
            .map(|count| {
                sum += count;
                sum
            })
            .collect();
        assert_eq!(drawn, exact);
    }
}
