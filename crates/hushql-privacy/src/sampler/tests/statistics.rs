//! Chi-square tests with a proved threshold.

use std::collections::BTreeMap;

/// −ln of the false-alarm rate 10⁻⁹ of every test here.
const T: f64 = 20.73;

/// A chi-square variable with `freedom` degrees exceeds this value with probability at most 10⁻⁹.
///
/// Laurent, Massart 2000, lemma 1: P(χ²_d ≥ d + 2√(d·t) + 2t) ≤ e^(−t). Pearson's statistic follows
/// χ² closely if every cell expects at least 50 draws. The callers ensure that.
pub(crate) fn threshold(freedom: usize) -> f64 {
    let d = freedom as f64;
    d + 2.0 * (d * T).sqrt() + 2.0 * T
}

/// Pearson's test of observed counts against probabilities; cells that expect fewer than 50 are
/// pooled.
pub(crate) fn assert_frequencies(what: &str, observed: &[u64], law: &[f64]) {
    assert_eq!(observed.len(), law.len());
    let draws: f64 = observed.iter().map(|n| *n as f64).sum();
    let (mut statistic, mut cells, mut pool) = (0.0, 0_usize, (0.0, 0.0));
    for (seen, p) in observed.iter().zip(law) {
        let (seen, expected) = (*seen as f64, draws * p);
        if expected < 50.0 {
            pool = (pool.0 + seen, pool.1 + expected);
        } else {
            statistic += (seen - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if pool.1 >= 50.0 {
        statistic += (pool.0 - pool.1).powi(2) / pool.1;
        cells += 1;
    } else {
        // Chernoff: P(Poisson(λ) ≥ λ + 2√(λt) + 2t) ≤ e^(−t).
        assert!(
            pool.0 <= pool.1 + 2.0 * (pool.1 * T).sqrt() + 2.0 * T,
            "{what}: {} rare draws",
            pool.0
        );
    }
    assert!(cells >= 2, "{what}: a test of {cells} cells shows nothing");
    assert!(statistic <= threshold(cells - 1), "{what}: χ² = {statistic} in {cells} cells");
}

/// Tests draws against the law whose P(X < x) is `below`, in cells of about a fifth of `deviation`.
pub(crate) fn assert_follows(
    what: &str,
    draws: impl Iterator<Item = i128>,
    below: impl Fn(i128) -> f64,
    deviation: f64,
) {
    let width = ((deviation / 5.0) as i128).max(1);
    let reach = 40;
    let mut counts = BTreeMap::new();
    for draw in draws {
        *counts.entry(draw.div_euclid(width).clamp(-reach, reach)).or_insert(0_u64) += 1;
    }
    let cells: Vec<i128> = (-reach..=reach).collect();
    let observed: Vec<u64> = cells.iter().map(|c| counts.get(c).copied().unwrap_or(0)).collect();
    let law: Vec<f64> = cells
        .iter()
        .map(|cell| {
            let least = if *cell == -reach { 0.0 } else { below(cell * width) };
            let most = if *cell == reach { 1.0 } else { below((cell + 1) * width) };
            most - least
        })
        .collect();
    assert_frequencies(what, &observed, &law);
}

/// Asserts that two samples of equal size come from one law: Σ(a−b)²/(a+b) over the cells.
pub(crate) fn assert_same_law(what: &str, left: &[i128], right: &[i128], width: i128) {
    assert_eq!(left.len(), right.len());
    let mut counts: BTreeMap<i128, (f64, f64)> = BTreeMap::new();
    for draw in left {
        counts.entry(draw.div_euclid(width)).or_default().0 += 1.0;
    }
    for draw in right {
        counts.entry(draw.div_euclid(width)).or_default().1 += 1.0;
    }
    let (mut statistic, mut cells, mut pool) = (0.0, 0_usize, (0.0, 0.0));
    for (a, b) in counts.into_values() {
        if a + b < 100.0 {
            pool = (pool.0 + a, pool.1 + b);
        } else {
            statistic += (a - b) * (a - b) / (a + b);
            cells += 1;
        }
    }
    if pool.0 + pool.1 >= 100.0 {
        statistic += (pool.0 - pool.1) * (pool.0 - pool.1) / (pool.0 + pool.1);
        cells += 1;
    }
    assert!(
        cells >= 3 && statistic <= threshold(cells - 1),
        "{what}: χ² = {statistic}, {cells} cells"
    );
}
