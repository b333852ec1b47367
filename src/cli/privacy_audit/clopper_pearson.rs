//! Exact confidence bounds of a probability, from how often an event was seen.
//!
//! In: k of n, and the probability with which a bound may be wrong. Out: the bound of Clopper and
//! Pearson: the p at which k, or a count further out, has that very probability. The tail is added
//! up in logarithms, from its largest term on, and p is found by bisection. The end of the last
//! interval that is further out is the bound, so that it errs, if at all, towards saying less.
//!
//! ```text
//! 5 of 10, α = 0.025   →   from 0.1871 to 0.8129
//! ```

/// ln n!
fn ln_factorial(n: u32) -> f64 {
    if n < 32 {
        return (2..=n).map(|i| f64::from(i).ln()).sum();
    }
    // Stirling's series; the next term is below 10⁻¹² from 32 on.
    let x = f64::from(n);
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1_260.0));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

/// ln P(X = k) of n trials at p, for 0 < p < 1.
fn ln_mass(k: u32, n: u32, p: f64) -> f64 {
    let others = n.saturating_sub(k);
    let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(others);
    ways + f64::from(k) * p.ln() + f64::from(others) * (-p).ln_1p()
}

/// ln P(X ≥ k), for p of at most k/n: the terms fall from the first on.
fn ln_upper_tail(k: u32, n: u32, p: f64) -> f64 {
    let odds = p / (1.0 - p);
    let (mut term, mut sum) = (1.0, 1.0);
    for i in k..n {
        term *= f64::from(n - i) / (f64::from(i) + 1.0) * odds;
        sum += term;
        if term < 1e-16 * sum {
            break;
        }
    }
    ln_mass(k, n, p) + f64::ln(sum)
}

/// A probability that exceeds the true one with probability at most `alpha`, if k of n were seen.
pub(super) fn lower_bound(k: u32, n: u32, alpha: f64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    if k >= n {
        return (alpha.ln() / f64::from(n)).exp();
    }
    let (mut low, mut high) = (0.0, f64::from(k) / f64::from(n));
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        match ln_upper_tail(k, n, middle) > alpha.ln() {
            true => high = middle,
            false => low = middle,
        }
    }
    low
}

/// A probability that is below the true one with probability at most `alpha`, if k of n were seen.
pub(super) fn upper_bound(k: u32, n: u32, alpha: f64) -> f64 {
    1.0 - lower_bound(n.saturating_sub(k), n, alpha)
}

/// Both bounds in one step, roughly (Wilson's interval), to choose among many events.
pub(super) fn roughly(k: u32, n: u32, deviations: f64) -> (f64, f64) {
    let (n, p, z) = (f64::from(n), f64::from(k) / f64::from(n), deviations * deviations);
    let middle = (p + z / (2.0 * n)) / (1.0 + z / n);
    let reach = (z * (p * (1.0 - p) / n + z / (4.0 * n * n))).sqrt() / (1.0 + z / n);
    (middle - reach, middle + reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 5e-5, "{a} is not {b}");
        // 95 % intervals as they are printed: 5 of 10, 1 of 20, 8 of 20.
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

    /// The probability of being wrong, added up over all outcomes, is at most α at every p.
    #[test]
    fn bounds_are_wrong_as_seldom_as_they_say() {
        for n in [1, 7, 40] {
            for alpha in [0.025, 1e-6] {
                for step in 1..100 {
                    let p = f64::from(step) / 100.0;
                    let wrong = |is_wrong: &dyn Fn(u32) -> bool| -> f64 {
                        let outcomes = (0..=n).filter(|k| is_wrong(*k));
                        outcomes.map(|k| ln_mass(k, n, p).exp()).sum()
                    };
                    let above = wrong(&|k| lower_bound(k, n, alpha) > p);
                    let below = wrong(&|k| upper_bound(k, n, alpha) < p);
                    let most = alpha * (1.0 + 1e-9);
                    assert!(above <= most && below <= most, "{n} {p}: {above} {below}");
                }
            }
        }
    }

    #[test]
    fn bounds_solve_their_equation() {
        for (k, n, alpha) in [(3, 17, 0.01), (250, 400, 1e-6), (40, 5_000, 5e-10)] {
            let p = lower_bound(k, n, alpha);
            let tail: f64 = (k..=n).map(|i| ln_mass(i, n, p).exp()).sum();
            assert!((tail / alpha - 1.0).abs() < 1e-6, "{k} {n}: {tail}");
        }
        let (low, high) = roughly(250, 400, 2.0);
        assert!(low < 0.625 && high > 0.625 && high - low < 0.2, "{low} {high}");
    }
}
