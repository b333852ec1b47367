//! Tests the running totals against least squares by elimination.

use super::{CountTree, rising};

/// The rows of A: for each count, level by level, which bins it adds up.
fn counted(tree: &CountTree) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    let mut width = 1;
    for size in tree.sizes() {
        for run in 0..size {
            let within = |bin: usize| f64::from(u8::from(bin / width == run));
            rows.push((0..tree.bins()).map(within).collect());
        }
        width *= tree.together();
    }
    rows
}

/// The solution of a square system, by elimination with pivots.
fn solved(mut system: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| system[*a][i].abs().total_cmp(&system[*b][i].abs()));
        system.swap(i, pivot.unwrap());
        right.swap(i, pivot.unwrap());
        let own = system[i].clone();
        for j in i + 1..n {
            let times = system[j][i] / own[i];
            system[j].iter_mut().zip(&own).for_each(|(one, own)| *one -= times * own);
            right[j] -= times * right[i];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| system[i][j] * right[j]).sum();
        right[i] = (right[i] - known) / system[i][i];
    }
    right
}

/// AᵀA, and the vector of the bins up to one.
fn normal(tree: &CountTree) -> Vec<Vec<f64>> {
    let rows = counted(tree);
    let product = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum();
    (0..tree.bins()).map(|i| (0..tree.bins()).map(|j| product(i, j)).collect()).collect()
}

fn some_trees() -> Vec<CountTree> {
    (1..=17).flat_map(CountTree::all).chain(CountTree::all(40).into_iter().step_by(7)).collect()
}

/// Variance, weights and estimate of every running total of small trees are those of (AᵀA)⁻¹.
#[test]
fn running_totals_are_least_squares() {
    let (mut dice, mut seen) = (12_345_u64, 0);
    for tree in some_trees() {
        let (rows, square) = (counted(&tree), normal(&tree));
        let noisy: Vec<Vec<f64>> = tree
            .sizes()
            .iter()
            .map(|size| {
                let mut level = Vec::new();
                for _ in 0..*size {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    level.push((dice >> 40) as f64 / 1000.0 - 8000.0);
                }
                level
            })
            .collect();
        let flat: Vec<f64> = noisy.iter().flatten().copied().collect();
        let totals = tree.running_totals(&noisy);
        let variances = tree.running_variances();
        for bin in 0..tree.bins() {
            let up_to: Vec<f64> = (0..tree.bins()).map(|i| f64::from(u8::from(i <= bin))).collect();
            let solution = solved(square.clone(), up_to.clone());
            let variance: f64 = solution.iter().zip(&up_to).map(|(a, b)| a * b).sum();
            assert!((variance - variances[bin]).abs() < 1e-9, "{tree:?} {bin}");
            let wanted: Vec<f64> = rows
                .iter()
                .map(|row| row.iter().zip(&solution).map(|(a, b)| a * b).sum())
                .collect();
            let weights: Vec<f64> = tree.weights(bin).into_iter().flatten().collect();
            assert_eq!(weights.len(), wanted.len());
            for (own, wanted) in weights.iter().zip(&wanted) {
                assert!((own - wanted).abs() < 1e-9, "{tree:?} {bin}: {weights:?} {wanted:?}");
            }
            let total: f64 = wanted.iter().zip(&flat).map(|(a, b)| a * b).sum();
            assert!((total - totals[bin]).abs() < 1e-6, "{tree:?} {bin}");
            seen += 1;
        }
    }
    assert!(seen > 1_000, "{seen}");
}

/// Counts without noise are added up exactly, and every row is in one count of each level.
#[test]
fn exact_counts_stay_exact() {
    for tree in some_trees() {
        let bins: Vec<i128> = (0..tree.bins()).map(|bin| (bin * bin % 7) as i128).collect();
        let counts = tree.counts(&bins).unwrap();
        let sizes: Vec<usize> = counts.iter().map(Vec::len).collect();
        assert_eq!(sizes, tree.sizes());
        let all: i128 = bins.iter().sum();
        assert!(counts.iter().all(|level| level.iter().sum::<i128>() == all));
        let exact: Vec<Vec<f64>> =
            counts.iter().map(|level| level.iter().map(|count| *count as f64).collect()).collect();
        let mut wanted = 0;
        let wanted: Vec<f64> = bins
            .iter()
            .map(|bin| {
                wanted += bin;
                wanted as f64
            })
            .collect();
        assert_eq!(tree.running_totals(&exact), wanted, "{tree:?}");
    }
    assert!(CountTree::flat(2).counts(&[i128::MAX, 1]).is_some());
    let tree = CountTree::all(2).into_iter().find(|tree| tree.levels() == 2).unwrap();
    assert!(tree.counts(&[i128::MAX, 1]).is_none());
}

/// Rising sequences against the formula by which they are defined, and their distances.
#[test]
fn rising_sequences_are_the_nearest() {
    let mut dice = 7_u64;
    for round in 0..2_000 {
        let mut numbers = Vec::new();
        for _ in 0..1 + round % 9 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            numbers.push((dice >> 61) as f64 - 2.0);
        }
        let n = numbers.len();
        let mean = |i: usize, j: usize| numbers[i..=j].iter().sum::<f64>() / (j - i + 1) as f64;
        let found = rising(&numbers);
        for k in 0..n {
            let highest = (0..=k)
                .map(|i| (k..n).map(|j| mean(i, j)).fold(f64::INFINITY, f64::min))
                .fold(f64::NEG_INFINITY, f64::max)
                .max(0.0);
            assert!((found[k] - highest).abs() < 1e-9, "{numbers:?} {found:?}");
        }
        let truth: Vec<f64> = (0..n).map(|i| (i / 2) as f64).collect();
        let far =
            |of: &[f64]| of.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0_f64, f64::max);
        assert!(far(&found) <= far(&numbers) + 1e-9, "{numbers:?}");
    }
}
