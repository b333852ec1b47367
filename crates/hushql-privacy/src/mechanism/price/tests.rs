//! Tests revenues, ranges, octaves and draws of small grids against their definitions.

use super::*;
use crate::sampler::tests::statistics::assert_frequencies;

fn flat(ticks: &TickRuns) -> Vec<(i128, u128)> {
    let mut scores = Vec::new();
    for (index, run) in ticks.runs.iter().enumerate() {
        assert_eq!(ticks.first[index], scores.len() as u64, "ticks are in order, none is missing");
        scores.extend((0..run.count).map(|j| (run.score + run.step * i128::from(j), run.weight)));
    }
    scores
}

fn grid(first: i128, step: i128, ticks: u64) -> PriceGrid {
    PriceGrid::new(first, step, ticks).unwrap()
}

#[test]
fn every_price_has_its_revenue() {
    let histograms: [&[(u64, i128)]; 6] = [
        &[],
        &[(0, 5)],
        &[(3, 1), (1, 2), (3, 4)],
        &[(7, 1), (9, 2), (2, -8)],
        &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)],
        &[(4, 100), (0, 3), (5, 1)],
    ];
    for grid in [grid(0, 1, 7), grid(5, 3, 7), grid(4, 0, 7), grid(1, 10, 1)] {
        for histogram in histograms {
            let ticks = grid.revenue_runs(histogram).unwrap();
            let revenue = |t: u64| {
                let buys = |place: u64| place.min(grid.ticks) > t;
                let sold = histogram.iter().filter(|(place, _)| buys(*place));
                sold.map(|(_, weight)| (*weight).max(0)).sum::<i128>() * grid.price(t)
            };
            let law: Vec<(i128, u128)> = (0..grid.ticks).map(|t| (revenue(t), 1)).collect();
            assert_eq!(flat(&ticks), law, "{grid:?} {histogram:?}");
        }
    }
    for (histogram, first) in [(&[(5, i128::MAX)], 1), (&[(5, 1 << 100)], 1 << 30)] {
        assert!(PriceGrid::new(first, 1, 7).unwrap().revenue_runs(histogram).is_err());
    }
    assert!(PriceGrid::new(-1, 1, 7).is_err() && PriceGrid::new(1, -1, 7).is_err());
    assert!(PriceGrid::new(1, 1, 0).is_err() && PriceGrid::new(1, i128::MAX, 2).is_err());
}

#[test]
fn the_range_is_that_of_the_worst_unit() {
    let lists: [&[i128]; 8] =
        [&[], &[5], &[0, 1], &[3, 4], &[1, 100], &[2, 2, 2], &[1, 2, 3, 50], &[90, 91, 95, 96]];
    for prices in lists {
        for quantity in [0_u128, 1, 3] {
            // One unit whose rows buy up to the quantity, each up to a different place.
            let mut worst = 0;
            let places = prices.len() + 1;
            for choice in 0..places.pow(quantity as u32) {
                let rows: Vec<usize> =
                    (0..quantity as u32).map(|row| choice / places.pow(row) % places).collect();
                let change = |t: usize| rows.iter().filter(|p| **p > t).count() as i128 * prices[t];
                let changes: Vec<i128> = (0..prices.len()).map(change).collect();
                let spread = changes.iter().max().zip(changes.iter().min());
                worst = worst.max(spread.map_or(0, |(most, least)| most - least));
            }
            assert_eq!(range(prices, quantity).unwrap(), worst.unsigned_abs(), "{prices:?}");
        }
    }
    for (first, step, ticks) in [(0, 1, 5), (7, 0, 5), (100, 2, 4), (3, 9, 2), (4, 1, 1)] {
        let grid = grid(first, step, ticks);
        let prices: Vec<i128> = (0..ticks).map(|tick| grid.price(tick)).collect();
        assert_eq!(grid.range(6).unwrap(), range(&prices, 6).unwrap());
    }
    assert!(range(&[3, 2], 1).is_err() && range(&[-1, 2], 1).is_err());
    assert!(range(&[1 << 100, 1 << 101], 1 << 100).is_err());
}

#[test]
fn four_bids() {
    // {1, 1, 1, 3.01} on cents from 0.01 to 3.50.
    let cents = grid(1, 1, 350);
    let ticks = cents.revenue_runs(&[(100, 3), (301, 1)]).unwrap();
    assert_eq!(ticks.runs.len(), 3);
    let scores = flat(&ticks);
    assert_eq!((scores[99].0, scores[300].0, scores[301].0), (400, 301, 0));
    assert_eq!((scores[100].0, scores.iter().max().unwrap().0), (101, 400));

    // ε = 1 and R = 3.50 on (0, 3.50], in steps of 1/10,000.
    let fine = grid(1, 1, 35_000);
    let ticks = fine.revenue_runs(&[(10_000, 3), (30_100, 1)]).unwrap();
    let mechanism = Exponential::calibrate(35_000, &"1".parse().unwrap()).unwrap();
    let segments = [10_000, 30_100, 35_000];
    let mut weights = [0.0; 3];
    for (tick, (score, _)) in flat(&ticks).iter().enumerate() {
        let segment = segments.iter().position(|end| tick < *end).unwrap();
        weights[segment] += (*score as f64 / 35_000.0).exp();
    }
    let total: f64 = weights.iter().sum();
    let law = weights.map(|weight| weight / total);
    for (found, expected) in law.iter().zip([0.313, 0.605, 0.082]) {
        assert!((found - expected).abs() < 0.000_6, "{law:?}");
    }
    // The false-alarm rate is 10⁻⁹, see `statistics`; the seed is fixed.
    let mut rng = QueryRng::seeded_for_tests(3);
    let mut counts = [0_u64; 3];
    for _ in 0..60_000 {
        let winner = mechanism.choose_runs(&ticks.runs, &mut rng).unwrap();
        let tick = ticks.tick(winner).unwrap() as usize;
        counts[segments.iter().position(|end| tick < *end).unwrap()] += 1;
    }
    assert_frequencies("segments", &counts, &law);
}

#[test]
fn octaves_cut_the_runs() {
    for grid in
        [grid(0, 1, 70), grid(3, 5, 40), grid(6, 0, 9), grid(0, 0, 3), grid(1 << 60, 1 << 58, 50)]
    {
        let ticks = grid.revenue_runs(&[(3, 1), (17, 2), (30, 1)]).unwrap();
        let cut = grid.log_uniform(&ticks).unwrap();
        let top = grid.price(grid.ticks - 1).checked_ilog2().unwrap_or(0);
        for (t, ((before, _), (after, weight))) in
            (0..).zip(flat(&ticks).into_iter().zip(flat(&cut)))
        {
            let price = grid.price(t);
            let law = price.checked_ilog2().map_or(0, |octave| 1 << (top - octave));
            assert_eq!((before, law), (after, weight), "{grid:?} at {t}");
        }
        assert_eq!(flat(&cut).len(), flat(&ticks).len());
        assert!(cut.runs.len() <= ticks.runs.len() + 8);
    }
}

/// The false-alarm rate is 10⁻⁹ each, see `statistics`; seeds are fixed.
#[test]
fn the_log_uniform_prior_is_one_over_the_price() {
    for (what, grid, epsilon) in [
        ("flat", grid(0, 1, 40), "1e-9"),
        ("ratios", grid(3, 4, 40), "1e-9"),
        ("revenue", grid(1, 1, 60), "3"),
        ("one price", grid(6, 0, 4), "1"),
    ] {
        let ticks = grid.revenue_runs(&[(5, 6), (20, 3), (33, 1)]).unwrap();
        let range = grid.range(1).unwrap();
        let mechanism = Exponential::calibrate(range, &epsilon.parse().unwrap()).unwrap();
        let rate = mechanism.exponent().to_f64().unwrap();
        let weights: Vec<f64> = (0..)
            .zip(flat(&ticks))
            .map(|(t, (score, _))| match grid.price(t) {
                0 => 0.0,
                price => (rate * score as f64).exp() / price as f64,
            })
            .collect();
        let total: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let mut rng = QueryRng::seeded_for_tests(8);
        let mut counts = vec![0_u64; law.len()];
        for _ in 0..40_000 {
            counts[mechanism.choose_log_uniform(&grid, &ticks, &mut rng).unwrap() as usize] += 1;
        }
        assert_frequencies(what, &counts, &law);
        // The spread is an upper bound of Σ(1/p)/min(1/p), and close to it.
        let prices = || (0..grid.ticks).map(|t| grid.price(t) as f64).filter(|p| *p > 0.0);
        let spread = prices().map(|p| 1.0 / p).sum::<f64>() * grid.price(grid.ticks - 1) as f64;
        let bound = grid.log_uniform_spread();
        assert!(
            spread <= bound * (1.0 + 1e-15) && bound < 1.5 * spread,
            "{what}: {spread} {bound}"
        );
    }
    let free = grid(0, 0, 3);
    let ticks = free.revenue_runs(&[(2, 1)]).unwrap();
    let mechanism = Exponential::calibrate(1, &"1".parse().unwrap()).unwrap();
    let mut rng = QueryRng::seeded_for_tests(1);
    assert!(mechanism.choose_log_uniform(&free, &ticks, &mut rng).is_err());
}
