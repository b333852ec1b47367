//! The privacy of the choice of a bound together with the noise, in exact probabilities over all
//! small databases.

use super::{assert_draws, epsilon};
use crate::mechanism::{Beyond, ChosenBound, Laplace};
use num_traits::ToPrimitive;

const LADDER: [u128; 4] = [1, 2, 4, 8];

/// All multisets of at most `most` units with these contributions.
fn databases(most: usize) -> Vec<Vec<u128>> {
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<u128>> = all.clone();
    for _ in 0..most {
        let longer = last.iter().flat_map(|units| {
            let least = units.last().copied().unwrap_or(0);
            [1, 2, 3, 5, 8, 20].into_iter().filter(move |n| *n >= least).map(|n| {
                let mut units = units.clone();
                units.push(n);
                units
            })
        });
        last = longer.collect();
        all.extend(last.clone());
    }
    all
}

fn beyond(units: &[u128]) -> Beyond {
    let beyond = |bound: u128| units.iter().filter(|n| **n > bound).count();
    let count = |n: usize| i128::try_from(n).unwrap();
    Beyond { units: count(units.len()), bounds: LADDER.map(|bound| count(beyond(bound))).to_vec() }
}

/// A wrong score: it counts lost rows instead of units.
fn rows_lost(units: &[u128]) -> Beyond {
    let lost = |bound: u128| units.iter().map(|n| n.saturating_sub(bound)).sum::<u128>();
    Beyond {
        bounds: LADDER.map(|bound| i128::try_from(lost(bound)).unwrap()).to_vec(),
        ..beyond(units)
    }
}

/// The largest |ln| of the ratio between neighbours of the probability of a bound and a value under
/// it. It adds the ratio of the bound, and the loss of the noise for the change of the sum under
/// that bound. `around` adds units that all databases have.
fn loss(
    mechanism: &ChosenBound,
    scores: impl Fn(&[u128]) -> Beyond,
    around: &[(u128, i128)],
) -> f64 {
    let law = |units: &[u128]| {
        let mut all = scores(units);
        for (own, times) in around {
            let more = scores(&[*own]);
            all.units += more.units * times;
            all.bounds.iter_mut().zip(more.bounds).for_each(|(n, more)| *n += more * times);
        }
        mechanism.probabilities(&all).unwrap()
    };
    let under = |units: &[u128], bound: u128| units.iter().map(|n| *n.min(&bound)).sum::<u128>();
    let mut most = 0.0_f64;
    for units in databases(4).iter().filter(|units| !units.is_empty()) {
        for gone in 0..units.len() {
            let mut fewer = units.clone();
            fewer.remove(gone);
            for (j, (p, q)) in law(units).iter().zip(law(&fewer)).enumerate() {
                // Doubles are not precise enough for smaller probabilities.
                if *p < 1e-200 || q < 1e-200 {
                    continue;
                }
                let rung = &mechanism.rungs()[j];
                let change = under(units, rung.bound) - under(&fewer, rung.bound);
                let scale = rung.noise.scale().to_f64().unwrap();
                most = most.max((p / q).ln().abs() + change as f64 / scale);
            }
        }
    }
    most
}

#[test]
fn a_bound_and_the_value_under_it_are_private_and_tight() {
    for (values, is_declared) in [(1, false), (1, true), (100, false), (100, true)] {
        let mechanism =
            ChosenBound::calibrate(&LADDER, 1, values, is_declared, &epsilon("1")).unwrap();
        let mut tightest = 0.0_f64;
        // Few units around, and so many that the scores stop growing, at each of the bounds in
        // turn.
        let (few, step) = (mechanism.few().unwrap_or(0), mechanism.penalty());
        for many in
            [0, few - 2, few, few + step - 2, few + 2 * step - 1, few + 3 * step - 2, 9 * few]
        {
            for own in [1, 2, 3, 8] {
                let joint = loss(&mechanism, beyond, &[(own, many.max(0))]);
                assert!(joint <= 1.0 + 1e-9, "{values} {is_declared} {own} {many}: {joint}");
                tightest = tightest.max(joint);
            }
        }
        assert!(tightest > 0.89, "{values} {is_declared}: {tightest}");
        // A wrong score breaks the guarantee.
        assert!(loss(&mechanism, rows_lost, &[(1, 9 * few)]) > 1.4);
    }
}

#[test]
fn the_shares_add_up_and_the_steps_are_those_of_the_rule() {
    let of = |values: u64, is_declared: bool| {
        let one = ChosenBound::calibrate(&LADDER, 1, values, is_declared, &epsilon("1")).unwrap();
        (one.choosing().to_string(), one.releasing().to_string(), one.penalty(), one.few())
    };
    assert_eq!(of(1, false), ("0.25".into(), "0.75".into(), 8, None));
    assert_eq!(of(9, false), ("0.25".into(), "0.75".into(), 17, None));
    assert_eq!(of(100, false), ("0.1".into(), "0.9".into(), 158, None));
    assert_eq!(of(1, true), ("0.4".into(), "0.6".into(), 4, Some(20)));
    assert_eq!(of(9, true), ("0.4".into(), "0.6".into(), 22, Some(20)));
    assert_eq!(of(100, true), ("0.1".into(), "0.9".into(), 158, Some(80)));
    for text in ["0.3", "1e-9", "1000000", "0.123456789012345678901234567891"] {
        let whole = epsilon(text);
        let chosen = ChosenBound::calibrate(&LADDER, 7, 3, true, &whole).unwrap();
        assert_eq!(chosen.choosing().value() + chosen.releasing().value(), *whole.value());
        for rung in chosen.rungs() {
            let least = crate::privacy::Rational::from_integer((rung.bound * 7).into());
            assert!(*rung.noise.scale() >= least / chosen.releasing().value());
        }
    }
    // Bounds whose noise cannot be drawn are left out. Then none of the others is declared.
    let wide = ChosenBound::calibrate(&[1 << 40, 1 << 70], 1, 1, true, &epsilon("1")).unwrap();
    assert_eq!((wide.rungs().len(), wide.few()), (1, None));
    assert!(ChosenBound::calibrate(&[1 << 70], 1, 1, true, &epsilon("1")).is_err());
    let few = Beyond { units: 3, bounds: vec![0; 3] };
    assert!(wide.probabilities(&few).is_ok());
    let one = ChosenBound::calibrate(&LADDER, 1, 1, false, &epsilon("1")).unwrap();
    assert!(one.probabilities(&few).is_err());
}

#[test]
fn bounds_are_drawn_by_their_law() {
    for is_declared in [false, true] {
        let mechanism =
            ChosenBound::calibrate(&LADDER, 1, 1, is_declared, &epsilon("0.5")).unwrap();
        for units in [vec![2, 2, 3, 30], vec![50; 40], vec![2; 48], vec![]] {
            let numbers = beyond(&units);
            let law = mechanism.probabilities(&numbers).unwrap();
            assert_draws("chosen bound", &law, |rng| mechanism.choose(&numbers, rng).unwrap());
        }
    }
}

/// A release that follows a choice has noise at its own ε for every bound that can be chosen;
/// otherwise calibration fails.
#[test]
fn what_follows_a_choice_has_noise_for_each_of_its_bounds() {
    let first = ChosenBound::calibrate(&LADDER, 1, 1, true, &epsilon("1")).unwrap();
    let other = first.followed_by(7, &epsilon("0.5")).unwrap();
    assert!(other.follows() && !first.follows());
    assert_eq!((other.penalty(), other.few()), (first.penalty(), first.few()));
    for (own, rung) in other.rungs().iter().zip(first.rungs()) {
        assert_eq!(own.bound, rung.bound);
        assert_eq!(own.noise, Laplace::calibrate(rung.bound * 7, &epsilon("0.5")).unwrap());
    }
    assert_eq!(other.rungs().len(), 4);
    assert!(first.followed_by(1 << 70, &epsilon("0.5")).is_err());
}

/// The reported number of units beyond a bound holds for all data, with 95 %.
#[test]
fn no_more_units_are_beyond_a_bound_than_is_said() {
    for (text, is_declared) in [("0.1", true), ("1", true), ("4", true), ("1", false)] {
        let mechanism = ChosenBound::calibrate(&LADDER, 1, 1, is_declared, &epsilon(text)).unwrap();
        let mut worst = 0.0_f64;
        for at_most in [1, 2, 4, 8] {
            for (few, many) in (0..60).flat_map(|i| (0..60).map(move |n| (i * 7, n * 9))) {
                // `few` units contribute one row, and `many` contribute `at_most` rows, which is
                // within the declared bound.
                let beyond = |bound: u128| if at_most > bound { many } else { 0 };
                let numbers = Beyond { units: few + many, bounds: LADDER.map(beyond).to_vec() };
                let law = mechanism.probabilities(&numbers).unwrap();
                let said = |j: usize| numbers.bounds[j] as f64 <= mechanism.most_beyond(j);
                let off: f64 =
                    law.iter().enumerate().filter(|(j, _)| !said(*j)).map(|(_, p)| p).sum();
                worst = worst.max(off);
            }
        }
        assert!(worst <= 0.05, "{text} {is_declared}: {worst}");
    }
}
