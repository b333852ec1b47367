//! Exact confidence bounds of a probability: from how often something was seen.
//!
//! In: k of n, and how often the bound may be wrong. Out: the Clopper–Pearson bound: the p at which
//! k, or a count further out, has that very probability. The tail is added up in logarithms, from
//! its largest term on, and p is found by bisection; the end of the last interval that is further
//! out is the bound, so that it errs, if at all, towards saying less.

/// ln n!, to about 10⁻¹⁰ of itself for the largest n here.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|i| (i as f64).ln()).sum();
    }
    // Stirling's series; the next term is below 10⁻¹² from 32 on.
    let x = n as f64;
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1_260.0));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

/// ln P(X = k) of n trials at p, 0 < p < 1.
fn ln_mass(k: u64, n: u64, p: f64) -> f64 {
    let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    ways + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()
}

/// ln P(X ≥ k), for p at most k/n: the terms fall from the first on.
fn ln_upper_tail(k: u64, n: u64, p: f64) -> f64 {
    let odds = p / (1.0 - p);
    let (mut term, mut sum) = (1.0, 1.0);
    for i in k..n {
        term *= (n - i) as f64 / (i + 1) as f64 * odds;
        sum += term;
        if term < 1e-16 * sum {
            break;
        }
    }
    ln_mass(k, n, p) + f64::ln(sum)
}

/// A probability that is above the true one with probability at most `alpha`, where k of n were
/// seen.
pub fn lower_bound(k: u64, n: u64, alpha: f64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, k as f64 / n as f64);
    if k == n {
        return (alpha.ln() / n as f64).exp();
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if ln_upper_tail(k, n, middle) > alpha.ln() {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// A probability that is below the true one with probability at most `alpha`, where k of n were
/// seen.
pub fn upper_bound(k: u64, n: u64, alpha: f64) -> f64 {
    1.0 - lower_bound(n - k, n, alpha)
}

/// What [`lower_bound`] is near, in one step (Wilson's interval): to choose among many events.
pub fn guessed(k: u64, n: u64, deviations: f64) -> (f64, f64) {
    let (n, p, z) = (n as f64, k as f64 / n as f64, deviations * deviations);
    let middle = (p + z / (2.0 * n)) / (1.0 + z / n);
    let reach = (z * (p * (1.0 - p) / n + z / (4.0 * n * n))).sqrt() / (1.0 + z / n);
    (middle - reach, middle + reach)
}

#[test]
fn bounds_are_those_of_the_tables() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 5e-5, "{a} is not {b}");
    // 95 % intervals as they are printed: 5 of 10, 1 of 20, 8 of 20, 0 of 30.
    for (k, n, low, high) in
        [(5, 10, 0.1871, 0.8129), (1, 20, 0.0013, 0.2487), (8, 20, 0.1912, 0.6395)]
    {
        near(lower_bound(k, n, 0.025), low);
        near(upper_bound(k, n, 0.025), high);
    }
    near(upper_bound(0, 30, 0.025), 1.0 - 0.025_f64.powf(1.0 / 30.0));
    near(lower_bound(30, 30, 0.025), 0.025_f64.powf(1.0 / 30.0));
    assert!(lower_bound(0, 30, 0.025) <= 0.0 && upper_bound(30, 30, 0.025) >= 1.0);
}

#[test]
fn bounds_solve_their_equation() {
    // By the definition, added up term by term.
    for (k, n, alpha) in [(3_u64, 17_u64, 0.01), (250, 400, 1e-6), (40, 5_000, 5e-10)] {
        let p = lower_bound(k, n, alpha);
        let tail: f64 = (k..=n).map(|i| ln_mass(i, n, p).exp()).sum();
        assert!((tail / alpha - 1.0).abs() < 1e-6, "{k} {n}: {tail}");
        let p = upper_bound(k, n, alpha);
        let tail: f64 = (0..=k).map(|i| ln_mass(i, n, p).exp()).sum();
        assert!((tail / alpha - 1.0).abs() < 1e-6, "{k} {n}: {tail}");
        let (low, high) = guessed(k, n, 2.0);
        assert!(lower_bound(k, n, 0.022_75) <= low + 0.02 && high < 1.0);
    }
    let all: f64 = (0..=1_000).map(|k| ln_mass(k, 1_000, 0.3).exp()).sum();
    assert!((all - 1.0).abs() < 1e-9, "{all}");
}
