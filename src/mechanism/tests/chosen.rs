//! The choice of a bound, and what choice and noise tell together: in exact probabilities, over all small databases.

use super::{assert_draws, epsilon};
use crate::mechanism::ChosenBound;
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

fn beyond(units: &[u128]) -> Vec<i128> {
    let beyond = |bound: u128| units.iter().filter(|n| **n > bound).count();
    LADDER.map(|bound| i128::try_from(beyond(bound)).unwrap()).to_vec()
}

/// The score that counts rows lost in the place of units, as it must not be.
fn rows_lost(units: &[u128]) -> Vec<i128> {
    let lost = |bound: u128| units.iter().map(|n| n.saturating_sub(bound)).sum::<u128>();
    LADDER.map(|bound| i128::try_from(lost(bound)).unwrap()).to_vec()
}

/// The largest |ln| of the ratio of the probabilities that a bound and a value under it come out, over all neighbours: that of
/// the bound, and what noise of its scale tells of the change of the sum under it.
fn loss(mechanism: &ChosenBound, scores: impl Fn(&[u128]) -> Vec<i128>) -> f64 {
    let law = |units: &[u128]| mechanism.probabilities(&scores(units)).unwrap();
    let under = |units: &[u128], bound: u128| units.iter().map(|n| *n.min(&bound)).sum::<u128>();
    let mut most = 0.0_f64;
    for units in databases(4).iter().filter(|units| !units.is_empty()) {
        for gone in 0..units.len() {
            let mut fewer = units.clone();
            fewer.remove(gone);
            for (j, (p, q)) in law(units).iter().zip(law(&fewer)).enumerate() {
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
    for values in [1, 100] {
        let mechanism = ChosenBound::calibrate(&LADDER, 1, values, &epsilon("1")).unwrap();
        let joint = loss(&mechanism, beyond);
        assert!(joint <= 1.0 + 1e-12, "{values}: {joint}");
        assert!(joint > 0.89, "{values}: {joint}");
        // What a score may not be.
        assert!(loss(&mechanism, rows_lost) > 1.5);
    }
}

#[test]
fn the_shares_add_up_and_the_steps_are_those_of_the_rule() {
    let one = ChosenBound::calibrate(&LADDER, 1, 1, &epsilon("1")).unwrap();
    assert_eq!(
        (one.choosing().to_string(), one.releasing().to_string()),
        ("0.25".into(), "0.75".into())
    );
    assert_eq!(one.penalty(), 8);
    let many = ChosenBound::calibrate(&LADDER, 1, 100, &epsilon("1")).unwrap();
    assert_eq!(
        (many.choosing().to_string(), many.releasing().to_string()),
        ("0.1".into(), "0.9".into())
    );
    assert_eq!(many.penalty(), 158);
    assert_eq!(ChosenBound::calibrate(&LADDER, 1, 9, &epsilon("1")).unwrap().penalty(), 17);
    for text in ["0.3", "1e-9", "1000000", "0.123456789012345678901234567891"] {
        let whole = epsilon(text);
        let chosen = ChosenBound::calibrate(&LADDER, 7, 3, &whole).unwrap();
        assert_eq!(chosen.choosing().value() + chosen.releasing().value(), *whole.value());
        for rung in chosen.rungs() {
            let least = crate::privacy::Rational::from_integer((rung.bound * 7).into());
            assert!(*rung.noise.scale() >= least / chosen.releasing().value());
        }
    }
    // Bounds whose noise cannot be drawn are left out.
    let wide = ChosenBound::calibrate(&[1 << 40, 1 << 70], 1, 1, &epsilon("1")).unwrap();
    assert_eq!(wide.rungs().len(), 1);
    assert!(ChosenBound::calibrate(&[1 << 70], 1, 1, &epsilon("1")).is_err());
    assert!(one.probabilities(&[0, 0, 0]).is_err());
}

#[test]
fn bounds_are_drawn_by_their_law() {
    let mechanism = ChosenBound::calibrate(&LADDER, 1, 1, &epsilon("0.5")).unwrap();
    for units in [vec![2, 2, 3, 30], vec![50; 40], vec![]] {
        let numbers = beyond(&units);
        let law = mechanism.probabilities(&numbers).unwrap();
        assert_draws("chosen bound", &law, |rng| mechanism.choose(&numbers, rng).unwrap());
    }
}
