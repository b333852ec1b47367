//! Tests scores and ranges of small histograms against their definitions, and a published example
//! of ties.

use super::*;
use crate::mechanism::Exponential;
use crate::sampler::QueryRng;

/// The score of one tick by definition, counted over single rows.
fn by_definition(rows: &[u64], tick: u64, rank: Rank) -> i128 {
    let count = |which: &dyn Fn(u64) -> bool| rows.iter().filter(|x| which(**x)).count() as i128;
    let (below, up_to) = (count(&|x| x < tick), count(&|x| x <= tick));
    let (above, at_least) = (count(&|x| x > tick), count(&|x| x >= tick));
    let n = rows.len() as i128;
    match rank {
        Rank::Fraction { num, den } => {
            let (num, den) = (i128::from(num), i128::from(den));
            -(den * below - num * n).max(num * n - den * up_to).max(0)
        }
        Rank::FromLow(r) => -(below - (i128::from(r) - 1)).max(i128::from(r) - up_to).max(0),
        Rank::FromHigh(r) => -(above - (i128::from(r) - 1)).max(i128::from(r) - at_least).max(0),
    }
}

pub(super) fn flat(ticks: &TickRuns) -> Vec<i128> {
    let mut scores = Vec::new();
    for (index, run) in ticks.runs.iter().enumerate() {
        assert_eq!(ticks.first[index], scores.len() as u64, "ticks are in order, none is missing");
        assert_eq!((run.step, run.weight), (0, 1));
        scores.extend((0..run.count).map(|_| run.score));
    }
    scores
}

fn histogram(rows: &[u64]) -> Vec<(u64, i128)> {
    rows.iter().map(|tick| (*tick, 1)).collect()
}

/// Every multiset of at most `most` rows on ticks 0..=`last`.
pub(super) fn multisets(last: u64, most: usize) -> Vec<Vec<u64>> {
    let (mut all, mut longest) = (vec![vec![]], vec![vec![]]);
    for _ in 0..most {
        let mut longer: Vec<Vec<u64>> = Vec::new();
        for rows in &longest {
            for tick in rows.last().copied().unwrap_or(0)..=last {
                longer.push(rows.iter().copied().chain([tick]).collect());
            }
        }
        all.extend(longer.iter().cloned());
        longest = longer;
    }
    all
}

pub(super) const RANKS: [Rank; 10] = [
    Rank::Fraction { num: 1, den: 2 },
    Rank::Fraction { num: 0, den: 1 },
    Rank::Fraction { num: 1, den: 1 },
    Rank::Fraction { num: 1, den: 4 },
    Rank::Fraction { num: 9, den: 10 },
    Rank::FromLow(1),
    Rank::FromLow(2),
    Rank::FromLow(9),
    Rank::FromHigh(1),
    Rank::FromHigh(3),
];

#[test]
fn every_tick_has_its_score() {
    for last in [0, 1, 4] {
        for rows in multisets(last, 5) {
            for rank in RANKS {
                let ticks = quantile_runs(&histogram(&rows), last, rank).unwrap();
                let found = flat(&ticks);
                assert_eq!(found.len() as u64, last + 1, "{rows:?}");
                if rows.is_empty() {
                    assert_eq!(ticks.runs.len(), 1, "without data all ticks are equal");
                    continue;
                }
                for (tick, score) in (0..).zip(found) {
                    assert_eq!(score, by_definition(&rows, tick, rank), "{rows:?} {tick} {rank:?}");
                }
            }
        }
    }
    // Order, repetition, ticks beyond the last, and places of no weight change nothing.
    let tidy = quantile_runs(&[(1, 3), (4, 7)], 4, RANKS[0]).unwrap();
    let same = quantile_runs(&[(9, 5), (1, 1), (2, 0), (4, 2), (1, 2), (0, -3)], 4, RANKS[0]);
    assert_eq!(tidy, same.unwrap());
    assert_eq!(
        quantile_runs(&[(1, 1), (2, 2)], 5, RANKS[0]).map(|t| flat(&t)).unwrap(),
        [-3, -1, 0, -3, -3, -3]
    );
}

#[test]
fn the_range_is_that_of_the_worst_unit() {
    let last = 4;
    for rank in RANKS {
        for most in 1..=3_usize {
            let claimed = range(rank, most as u64).unwrap();
            let mut worst = 0;
            for rows in multisets(last, 4) {
                let before = flat(&quantile_runs(&histogram(&rows), last, rank).unwrap());
                for unit in multisets(last, most) {
                    let all: Vec<u64> = rows.iter().chain(&unit).copied().collect();
                    let after = flat(&quantile_runs(&histogram(&all), last, rank).unwrap());
                    let changes = || after.iter().zip(&before).map(|(a, b)| a - b);
                    let spread = changes().max().unwrap() - changes().min().unwrap();
                    worst = worst.max(spread.unsigned_abs());
                }
            }
            assert!(worst <= claimed, "{rank:?}, {most} rows: {worst} exceeds {claimed}");
            assert!(2 * worst >= claimed, "{rank:?}, {most} rows: {worst} of {claimed}");
            if matches!(rank, Rank::Fraction { num, den } if num == 0 || num == den) {
                assert_eq!(worst, claimed, "{rank:?}, {most} rows");
            }
        }
    }
    assert!(range(Rank::Fraction { num: 3, den: 2 }, 1).is_err());
}

#[test]
fn the_range_of_moves_is_that_of_the_worst_row() {
    let last = 4;
    for rank in RANKS {
        let claimed = range_of_moves(rank).unwrap();
        let scores = |rows: &[u64]| flat(&quantile_runs(&histogram(rows), last, rank).unwrap());
        let mut worst = 0;
        for rows in multisets(last, 4) {
            let beside = |row: Option<u64>| rows.iter().copied().chain(row).collect::<Vec<_>>();
            let states = || (0..=last).map(Some).chain([None]);
            for (one, other) in states().flat_map(|one| states().map(move |other| (one, other))) {
                let (before, after) = (scores(&beside(one)), scores(&beside(other)));
                let changes = || after.iter().zip(&before).map(|(a, b)| a - b);
                let spread = changes().max().unwrap() - changes().min().unwrap();
                worst = worst.max(spread.unsigned_abs());
            }
        }
        assert!(worst <= claimed, "{rank:?}: {worst} exceeds {claimed}");
        assert!(2 * worst >= claimed, "{rank:?}: {worst} of {claimed}");
    }
    assert!(range_of_moves(Rank::Fraction { num: 3, den: 2 }).is_err());
}

#[test]
fn ranks_round_up() {
    let rank = |epsilon: &str, ticks| rank_for(2, &epsilon.parse().unwrap(), ticks);
    // 2·ln 2000 = 15.2; 2·ln(20) = 5.99.
    assert_eq!((rank("1", 100), rank("0.1", 100), rank("1", 1), rank("1", 0)), (16, 153, 6, 6));
    assert!(rank("1e-12", u64::MAX) > 1 << 40);
}

#[test]
fn the_median_of_hours_is_40() {
    // Ties decide: 24 % work less than 40 hours, 47 % exactly 40. Without ties the best tick would
    // be 41.
    let hours = [(20, 2_400), (30, 3_500), (38, 1_900), (40, 15_300), (45, 3_700), (60, 5_700)];
    let rank = Rank::Fraction { num: 1, den: 2 };
    let ticks = quantile_runs(&hours, 99, rank).unwrap();
    let scores = flat(&ticks);
    let best = scores.iter().max().unwrap();
    let winners: Vec<usize> = (0..100).filter(|tick| scores[*tick] == *best).collect();
    assert_eq!((winners, *best), (vec![40], 0));
    let epsilon = "0.1".parse().unwrap();
    let mechanism = Exponential::calibrate(range(rank, 1).unwrap(), &epsilon).unwrap();
    let mut rng = QueryRng::seeded_for_tests(12);
    for _ in 0..200 {
        // The next best score is 8,500 lower (doubled): e^−425.
        let winner = mechanism.choose_runs(&ticks.runs, &mut rng).unwrap();
        assert_eq!(ticks.tick(winner), Some(40));
    }
}

#[test]
fn extremes_do_not_overflow() {
    let median = Rank::Fraction { num: 1, den: 2 };
    for (histogram, last) in [
        (vec![(0, i128::MAX), (1, 1)], 5),
        (vec![(0, i128::MAX)], 5),
        (vec![(0, i128::MAX), (0, 1)], 5),
        (vec![(0, 1)], u64::MAX),
    ] {
        assert!(quantile_runs(&histogram, last, median).is_err(), "{histogram:?}");
    }
    let most = u64::MAX - 1;
    let ticks = quantile_runs(&[(most, 1 << 100)], most, Rank::FromHigh(u64::MAX)).unwrap();
    assert_eq!(ticks.runs.iter().map(|run| u128::from(run.count)).sum::<u128>(), (1 << 64) - 1);
    assert!(quantile_runs(&[(3, i128::MAX)], 9, Rank::FromLow(0)).is_ok());
}
