use super::*;
use crate::hierarchy::deviation::{Deviation, Law};
use crate::hierarchy::tail;

/// Random numbers for tests (splitmix64).
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in [0, 1).
    fn part(&mut self) -> f64 {
        f64::from(u32::try_from(self.bits() >> 32).unwrap()) / 4_294_967_296.0
    }

    fn between(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.part()
    }

    /// A number in 0..n.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.bits() % u64::try_from(n).unwrap()).unwrap()
    }
}

const PLAIN: WholeNumbers = WholeNumbers { nonnegative: false, integer: false };

fn random_tree(rng: &mut Dice) -> Tree {
    let roots = 1 + rng.below(3);
    let mut above = Vec::new();
    let mut size = roots;
    for _ in 0..1 + rng.below(3) {
        // Some groups have no children.
        let groups = 1 + rng.below(7);
        above.push((0..groups).map(|_| rng.below(size)).collect());
        size = groups;
    }
    Tree::new(roots, above).unwrap()
}

fn random_numbers(tree: &Tree, rng: &mut Dice) -> Vec<Vec<f64>> {
    tree.sizes().map(|n| (0..n).map(|_| rng.between(-50.0, 200.0)).collect()).collect()
}

/// For each group its leaves, level by level.
fn leaves(tree: &Tree) -> (usize, Vec<Vec<Vec<usize>>>) {
    let mut count = 0;
    let mut of: Vec<Vec<Vec<usize>>> =
        tree.below.iter().map(|l| vec![Vec::new(); l.len()]).collect();
    for level in (0..tree.below.len()).rev() {
        for at in 0..tree.below[level].len() {
            if tree.below[level][at].is_empty() {
                of[level][at] = vec![count];
                count += 1;
            } else {
                of[level][at] =
                    tree.below[level][at].iter().flat_map(|c| of[level + 1][*c].clone()).collect();
            }
        }
    }
    (count, of)
}

/// Solves a·x = b by elimination with pivots, for several right-hand sides.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = a.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|x, y| a[*x][i].abs().total_cmp(&a[*y][i].abs())).unwrap();
        a.swap(i, pivot);
        b.swap(i, pivot);
        let (pivot, right) = (a[i].clone(), b[i].clone());
        for (_, (row, own)) in a.iter_mut().zip(&mut b).enumerate().filter(|(j, _)| *j != i) {
            let factor = row[i] / pivot[i];
            row.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            own.iter_mut().zip(&right).for_each(|(x, p)| *x -= factor * p);
        }
    }
    (0..n).map(|i| b[i].iter().map(|x| x / a[i][i]).collect()).collect()
}

/// Dense weighted least squares over the leaves. Returns the numbers of all groups and their
/// variances.
fn dense(tree: &Tree, y: &[Vec<f64>], noise: &[f64]) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let (count, of) = leaves(tree);
    let mut normal = vec![vec![0.0; count]; count];
    let mut right = vec![vec![0.0; 1 + count]; count];
    for (level, groups) in of.iter().enumerate() {
        for (at, own) in groups.iter().enumerate() {
            for i in own {
                right[*i][0] += y[level][at] / noise[level];
                for j in own {
                    normal[*i][*j] += 1.0 / noise[level];
                }
            }
        }
    }
    for (i, row) in right.iter_mut().enumerate() {
        row[1 + i] = 1.0;
    }
    let solved = solve(normal, right);
    let number = |own: &Vec<usize>| own.iter().map(|i| solved[*i][0]).sum();
    let variance = |own: &Vec<usize>| {
        own.iter()
            .flat_map(|i| own.iter().map(move |j| (i, j)))
            .map(|(i, j)| solved[*i][1 + j])
            .sum()
    };
    let all = |f: &dyn Fn(&Vec<usize>) -> f64| {
        of.iter().map(|groups| groups.iter().map(f).collect()).collect::<Vec<Vec<f64>>>()
    };
    (all(&number), all(&variance))
}

fn near(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-7 * (1.0 + a.abs()))
}

#[test]
fn numbers_are_those_of_dense_least_squares() {
    let mut rng = Dice(1);
    for _ in 0..400 {
        let tree = random_tree(&mut rng);
        let y = random_numbers(&tree, &mut rng);
        let noise: Vec<f64> = tree.sizes().map(|_| rng.between(0.1, 9.0)).collect();
        let (numbers, variances) = dense(&tree, &y, &noise);
        assert!(near(&tree.fitted(&y, &noise, PLAIN), &numbers), "{tree:?} {y:?} {noise:?}");
        let squares: Vec<Vec<f64>> = tree
            .deviations(&noise)
            .into_iter()
            .map(|level| level.into_iter().map(|s| s * s).collect())
            .collect();
        assert!(near(&squares, &variances), "{tree:?} {noise:?} {squares:?} {variances:?}");
    }
}

/// Numbers that already add up stay unchanged. So the estimate, which is linear, is unbiased.
#[test]
fn numbers_that_add_up_stay_as_they_are() {
    let mut rng = Dice(2);
    for _ in 0..200 {
        let tree = random_tree(&mut rng);
        let (count, of) = leaves(&tree);
        let leaf: Vec<f64> = (0..count).map(|_| rng.between(-9.0, 9.0)).collect();
        let true_numbers: Vec<Vec<f64>> = of
            .iter()
            .map(|groups| groups.iter().map(|own| own.iter().map(|i| leaf[*i]).sum()).collect())
            .collect();
        let noise: Vec<f64> = tree.sizes().map(|_| rng.between(0.1, 9.0)).collect();
        assert!(near(&tree.fitted(&true_numbers, &noise, PLAIN), &true_numbers));
    }
}

#[test]
fn every_group_is_the_sum_of_those_below_it() {
    let mut rng = Dice(3);
    for _ in 0..400 {
        let tree = random_tree(&mut rng);
        let y = random_numbers(&tree, &mut rng);
        let noise: Vec<f64> = tree.sizes().map(|_| rng.between(0.1, 9.0)).collect();
        for (nonnegative, integer) in [(false, false), (true, false), (false, true), (true, true)] {
            let shape = WholeNumbers { nonnegative, integer };
            let numbers = tree.fitted(&y, &noise, shape);
            assert!(numbers.iter().flatten().all(|n| n.is_finite()));
            assert!(!nonnegative || numbers.iter().flatten().all(|n| *n >= 0.0), "{numbers:?}");
            assert!(!integer || numbers.iter().flatten().all(|n| n.fract() == 0.0), "{numbers:?}");
            for (level, groups) in tree.below.iter().enumerate() {
                for (at, below) in groups.iter().enumerate().filter(|(_, below)| !below.is_empty())
                {
                    let sum: f64 = below.iter().map(|c| numbers[level + 1][*c]).sum();
                    let off = (numbers[level][at] - sum).abs();
                    assert!(if integer { off == 0.0 } else { off < 1e-9 * (1.0 + sum.abs()) });
                }
            }
            assert_eq!(numbers, tree.fitted(&y, &noise, shape), "the same every time");
        }
    }
}

/// The nearest nonnegative numbers, by the conditions that characterize them: all positive ones
/// moved by the same θ, and those that became 0 were at most θ.
#[test]
fn numbers_below_a_group_are_the_nearest_that_are_not_negative() {
    let mut rng = Dice(4);
    for _ in 0..500 {
        let numbers: Vec<f64> = (0..1 + rng.below(8)).map(|_| rng.between(-20.0, 30.0)).collect();
        let sum = if rng.below(5) == 0 { 0.0 } else { rng.between(0.0, 60.0) };
        let shape = WholeNumbers { nonnegative: true, integer: false };
        let shaped = whole::shaped(numbers.clone(), sum, shape);
        let theta: Vec<f64> =
            numbers.iter().zip(&shaped).filter(|(_, x)| **x > 0.0).map(|(n, x)| n - x).collect();
        let theta = theta.first().copied().unwrap_or(f64::INFINITY);
        for (number, one) in numbers.iter().zip(&shaped) {
            match *one > 0.0 {
                true => assert!((number - one - theta).abs() < 1e-9),
                false => assert!(*number <= theta + 1e-9),
            }
        }
        assert!((shaped.iter().sum::<f64>() - sum).abs() < 1e-9);
    }
}

/// Rounding moves a number by at most the reported distance.
#[test]
fn whole_numbers_are_near() {
    let mut rng = Dice(5);
    for _ in 0..400 {
        let tree = random_tree(&mut rng);
        let y = random_numbers(&tree, &mut rng);
        let noise: Vec<f64> = tree.sizes().map(|_| rng.between(0.1, 9.0)).collect();
        let exact = tree.fitted(&y, &noise, PLAIN);
        let whole = tree.fitted(&y, &noise, WholeNumbers { nonnegative: false, integer: true });
        for ((exact, whole), most) in exact.iter().zip(&whole).zip(tree.roundings(&noise)) {
            for (exact, whole) in exact.iter().zip(whole) {
                assert!((exact - whole).abs() <= most + 1e-9, "{exact} {whole} {most}");
            }
        }
    }
}

/// Huge and tiny numbers, no noise at all, and groups without children.
#[test]
fn nothing_fails_at_the_ends() {
    let tree = Tree::new(2, vec![vec![0, 0, 0], vec![1, 1]]).unwrap();
    let shapes = [(false, false), (true, false), (false, true), (true, true)];
    for (nonnegative, integer) in shapes {
        for value in [0.0, 1e-300, -1e30, 1e30, 1e38] {
            for noise in [[0.0; 3], [1e-300; 3], [1e30; 3], [1.0, 1e20, 0.0]] {
                let y: Vec<Vec<f64>> = tree.sizes().map(|n| vec![value; n]).collect();
                let numbers = tree.fitted(&y, &noise, WholeNumbers { nonnegative, integer });
                assert!(numbers.iter().flatten().all(|n| n.is_finite()), "{numbers:?}");
                assert!(tree.deviations(&noise).iter().flatten().all(|n| n.is_finite()));
            }
        }
    }
    assert_eq!(Tree::new(1, vec![vec![1]]), None);
    assert_eq!(Tree::new(0, vec![]), None);
}

/// The share of errors that are larger than the distance is at most β. With 4,000 trees and the
/// true share at most 5 %, a count above 300 has a probability below 10⁻¹².
#[test]
fn distances_hold() {
    let mut rng = Dice(6);
    let geometric = |scale: f64, rng: &mut Dice| {
        let exponential = |rng: &mut Dice| -(1.0 - rng.part()).ln() * scale;
        exponential(rng).floor() - exponential(rng).floor()
    };
    let tree = Tree::new(1, vec![vec![0; 4], vec![0, 0, 0, 1, 1, 2]]).unwrap();
    for scale in [0.05, 0.4, 1.0, 25.0] {
        let laws = [Law::Laplace(scale), Law::Laplace(scale), Law::Laplace(2.0 * scale)];
        let variances: Vec<f64> = laws.iter().map(|law| law.variance()).collect();
        for integer in [None, Some(1.0)] {
            let within: Vec<f64> =
                Deviation::of(&tree, &laws, integer).iter().map(|one| one.within(0.05)).collect();
            let mut beyond = tree.sizes().map(|n| vec![0; n]).collect::<Vec<_>>();
            for _ in 0..4_000 {
                let scales = [scale, scale, 2.0 * scale];
                let y: Vec<Vec<f64>> = tree
                    .sizes()
                    .zip(scales)
                    .map(|(n, scale)| (0..n).map(|_| geometric(scale, &mut rng)).collect())
                    .collect();
                let shape = WholeNumbers { nonnegative: false, integer: integer.is_some() };
                for (level, numbers) in tree.fitted(&y, &variances, shape).iter().enumerate() {
                    for (at, number) in numbers.iter().enumerate() {
                        beyond[level][at] += usize::from(number.abs() > within[level]);
                    }
                }
            }
            assert!(beyond.iter().flatten().all(|n| *n <= 300), "{scale}: {beyond:?}");
        }
        // Fitting helps: the error of the top of a tree of three levels is smaller than that of its
        // own number.
        let own = Deviation::of(&Tree::new(1, vec![]).unwrap(), &laws[..1], None);
        let fitted = Deviation::of(&tree, &laws, None);
        assert!(scale < 1.0 || fitted[0].within(0.05) < own[0].within(0.05));
    }
}

/// The weights are those of the estimate: their products with the noisy numbers add up to it.
#[test]
fn multiples_give_the_numbers() {
    let mut rng = Dice(7);
    for _ in 0..200 {
        let tree = random_tree(&mut rng);
        let y = random_numbers(&tree, &mut rng);
        let noise: Vec<f64> = tree.sizes().map(|_| rng.between(0.1, 9.0)).collect();
        let fitted = tree.fitted(&y, &noise, PLAIN);
        for (level, numbers) in fitted.iter().enumerate() {
            for (at, number) in numbers.iter().enumerate() {
                let multiples = tree.multiples(&noise, level, at);
                let sum: f64 =
                    multiples.iter().flatten().zip(y.iter().flatten()).map(|(a, y)| a * y).sum();
                assert!((sum - number).abs() < 1e-8 * (1.0 + number.abs()), "{sum} {number}");
            }
        }
    }
}

/// The tail of a single noise is the known one: 3 scales with 95 %.
#[test]
fn the_tail_of_one_noise_is_known() {
    for scale in [3.0_f64, 40.0, 1000.0] {
        let variance = 0.5 / (0.5 / scale).sinh().powi(2);
        let sum = tail::NoiseSum::new(&[vec![1.0]], &[variance]).unwrap();
        for beta in [0.05, 0.001, 1e-6] {
            let within = sum.within(beta).unwrap();
            // The exact tail on the grid, and the most that the added noise adds: 4.5 · 0.005
            // deviations.
            let alpha = (-1.0 / scale).exp();
            let exceeds = 2.0 * alpha.powf(within.floor() + 1.0) / (1.0 + alpha);
            assert!(exceeds <= beta, "{scale} {beta}: {within} is exceeded with {exceeds}");
            let exact = -(beta / 2.0 * (1.0 + alpha)).ln() * scale;
            assert!(within < exact + 0.05 * scale + 1.0, "{scale} {beta}: {within} {exact}");
        }
    }
}

#[test]
fn gaussian_distances_are_those_of_a_gaussian_law() {
    let tree = Tree::new(1, vec![]).unwrap();
    let one = Deviation::of(&tree, &[Law::Gaussian(1000.0)], None);
    let within = one[0].within(0.05);
    assert!((1960.0..1990.0).contains(&within), "{within}");
    // If the steps are too large, the distance is Chebyshev's.
    let one = Deviation::of(&tree, &[Law::Gaussian(0.5)], None);
    assert!((one[0].within(0.05) - 0.5 / 0.05_f64.sqrt()).abs() < 1e-9);
    let one = Deviation::of(&tree, &[Law::Laplace(1000.0)], None);
    let within = one[0].within(0.05);
    assert!((3000.0..3150.0).contains(&within), "{within}");
}
