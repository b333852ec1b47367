//! Two-sample comparison with another implementation of the same papers.
//!
//! The other library takes its keys from the operating system, so these tests have no seed. Each
//! raises a false alarm with probability 10⁻⁹.

use opendp::traits::samplers::{sample_discrete_gaussian, sample_discrete_laplace};

use super::tests::statistics::assert_same_law;
use super::{LaplaceScale, QueryRng, Sigma, discrete_gaussian, discrete_laplace};

const DRAWS: usize = 20_000;

#[test]
fn laplace_agrees() {
    for (t, s, width) in [(1_u64, 2_u64, 1), (5, 2, 1), (1_000, 1, 200)] {
        let mut rng = QueryRng::seeded_for_tests(t);
        let scale = LaplaceScale::new(t, s).unwrap();
        let ours: Vec<i128> = (0..DRAWS).map(|_| discrete_laplace(&scale, &mut rng)).collect();
        // 1/2, 5/2 and 1000 are exact floats.
        let theirs: Vec<i128> = (0..DRAWS)
            .map(|_| sample_discrete_laplace((t as f64 / s as f64).try_into().unwrap()).unwrap())
            .map(|draw| i64::try_from(draw).unwrap().into())
            .collect();
        assert_same_law(&format!("laplace {t}/{s}"), &ours, &theirs, width);
    }
}

#[test]
fn gaussian_agrees() {
    for (units, width) in [(2_048_u64, 1), (17_331, 1), (409_600, 20)] {
        let mut rng = QueryRng::seeded_for_tests(units);
        let sigma = Sigma::fine(units).unwrap();
        let ours: Vec<i128> = (0..DRAWS).map(|_| discrete_gaussian(&sigma, &mut rng)).collect();
        // Units of 1/4096 are exact floats.
        let theirs: Vec<i128> = (0..DRAWS)
            .map(|_| sample_discrete_gaussian((units as f64 / 4096.0).try_into().unwrap()).unwrap())
            .map(|draw| i64::try_from(draw).unwrap().into())
            .collect();
        assert_same_law(&format!("gaussian {units}/4096"), &ours, &theirs, width);
    }
}
