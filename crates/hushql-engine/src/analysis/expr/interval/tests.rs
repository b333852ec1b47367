//! Tests intervals against brute force: small boxes point by point, hostile ends, and the machine's
//! own float arithmetic.

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};

use super::{DOUBLE, Interval, SINGLE, nearest_float};
use crate::privacy::{Rational, parse_decimal};

use num_bigint::BigInt;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};

impl Interval {
    /// The least number, or `None` when there is none (unbounded, or empty).
    fn lo(&self) -> Option<&Rational> {
        self.lo.as_ref()
    }

    /// The greatest number, or `None` when there is none (unbounded, or empty).
    fn hi(&self) -> Option<&Rational> {
        self.hi.as_ref()
    }

    /// Whether every number lies in `lo..=hi`, the range of an integer type.
    ///
    /// # Guarantee
    /// True only if no value overflows the type. The empty interval fits anything.
    fn fits(&self, lo: i128, hi: i128) -> bool {
        self.is_within(&Self::integer_range(lo, hi))
    }
}

fn int(value: impl Into<BigInt>) -> Rational {
    Rational::from_integer(value.into())
}

fn half(value: i64) -> Rational {
    Rational::new(value.into(), 2.into())
}

fn ints(lo: i128, hi: i128) -> Interval {
    Interval::integer_range(lo, hi)
}

fn text(value: &str) -> Rational {
    parse_decimal(value).unwrap()
}

/// An end: mostly a small half-integer, sometimes absent, sometimes an extreme of the types.
fn end() -> impl Strategy<Value = Option<Rational>> {
    prop_oneof![
        8 => (-9_i64..=9).prop_map(|n| Some(half(n))),
        1 => Just(None),
        1 => prop_oneof![
            Just(i64::MIN), Just(i64::MAX), Just(i64::MIN + 1), Just(i64::from(i32::MAX))
        ].prop_map(|n| Some(int(n))),
    ]
}

fn interval() -> impl Strategy<Value = Interval> {
    (end(), end()).prop_map(|(lo, hi)| Interval::new(lo, hi))
}

/// A bounded interval of few small integers, so that a test can try every pair.
fn box_of_integers() -> impl Strategy<Value = Interval> {
    (-7_i64..=7, 0_i64..=6).prop_map(|(lo, width)| Interval::between(int(lo), int(lo + width)))
}

/// Numbers of an interval: every quarter and integer near 0, numbers at and around its ends, and
/// distant ones.
fn members(interval: &Interval) -> Vec<Rational> {
    let near = (-24_i64..=24).map(|n| Rational::new(n.into(), 4.into()));
    let whole = (-14_i64..=14).map(int);
    let far = [i64::MIN, i64::MAX, -1_000_003, 999_983].map(int);
    let beyond = [int(i128::MIN), int(i128::MAX)];
    let ends = [interval.lo(), interval.hi()].into_iter().flatten();
    let around = ends.flat_map(|end| [end.clone(), end - half(1), end + half(1), end / int(3)]);
    let all = near.chain(whole).chain(far).chain(beyond).chain(around);
    all.filter(|value| interval.contains(value)).collect()
}

fn integers(interval: &Interval) -> Vec<Rational> {
    members(interval).into_iter().filter(Rational::is_integer).collect()
}

/// The smallest interval around some numbers.
fn hull(values: impl IntoIterator<Item = Rational>) -> Interval {
    values.into_iter().map(Interval::point).fold(Interval::empty(), |all, one| all.union(&one))
}

fn sql_rem(a: &Rational, b: &Rational) -> Rational {
    a - b * (a / b).trunc()
}

type Binary =
    (&'static str, fn(&Interval, &Interval) -> Interval, fn(&Rational, &Rational) -> Rational);
type Unary = (&'static str, fn(&Interval) -> Interval, fn(&Rational) -> Rational);

const TOTAL: [Binary; 5] = [
    ("add", Interval::add, |a, b| a + b),
    ("sub", Interval::sub, |a, b| a - b),
    ("mul", Interval::mul, |a, b| a * b),
    ("least", Interval::least, |a, b| a.min(b).clone()),
    ("greatest", Interval::greatest, |a, b| a.max(b).clone()),
];
const BY_DIVISOR: [Binary; 2] =
    [("div", Interval::div, |a, b| a / b), ("rem", Interval::rem, sql_rem)];
const OF_INTEGERS: [Binary; 2] = [
    ("div_trunc", Interval::div_trunc, |a, b| (a / b).trunc()),
    ("rem_trunc", Interval::rem_trunc, sql_rem),
];
const UNARY: [Unary; 6] = [
    ("neg", Interval::neg, |a| -a),
    ("abs", Interval::abs, Signed::abs),
    ("floor", Interval::floor, Rational::floor),
    ("ceil", Interval::ceil, Rational::ceil),
    ("round", Interval::round, Rational::round),
    ("trunc", Interval::trunc, Rational::trunc),
];

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn every_result_is_inside(a in interval(), b in interval()) {
        let (in_a, in_b) = (members(&a), members(&b));
        for (name, op, exact) in TOTAL.into_iter().chain(BY_DIVISOR) {
            let claimed = op(&a, &b);
            let divides = matches!(name, "div" | "rem");
            for x in &in_a {
                for y in in_b.iter().filter(|y| !divides || !y.is_zero()) {
                    let value = exact(x, y);
                    prop_assert!(claimed.contains(&value), "{x} {name} {y} = {value}: {a} {b} {claimed}");
                }
            }
        }
    }

    #[test]
    fn every_integer_result_is_inside(a in interval(), b in interval()) {
        let (in_a, in_b) = (integers(&a), integers(&b));
        for (name, op, exact) in OF_INTEGERS {
            let claimed = op(&a, &b);
            for x in &in_a {
                for y in in_b.iter().filter(|y| !y.is_zero()) {
                    let value = exact(x, y);
                    prop_assert!(claimed.contains(&value), "{x} {name} {y} = {value}: {a} {b} {claimed}");
                }
            }
        }
    }

    #[test]
    fn every_unary_result_is_inside(a in interval(), lo in -9_i64..=9, hi in -9_i64..=9) {
        let (lo, hi) = (half(lo), half(hi));
        let (clamped, scaled) = (a.clamp(&lo, &hi), a.scale(&lo));
        let (below, above) = (a.below(&hi), a.above(&lo));
        for x in members(&a) {
            for (name, op, exact) in UNARY {
                prop_assert!(op(&a).contains(&exact(&x)), "{name} {x}: {a} {}", op(&a));
            }
            let value = x.clone().min(hi.clone()).max(lo.clone());
            prop_assert!(clamped.contains(&value), "clamp({x}, {lo}, {hi}): {a} {clamped}");
            prop_assert!(scaled.contains(&(&x * &lo)), "{lo} · {x}: {a} {scaled}");
            prop_assert_eq!(below.contains(&x), x <= hi);
            prop_assert_eq!(above.contains(&x), x >= lo);
            prop_assert!(!x.is_integer() || a.integers().contains(&x), "{x}: {a}");
        }
        if let Some((least, most)) = a.to_i128() {
            prop_assert!(a.is_within(&ints(least, most)));
        }
    }

    #[test]
    fn sets_are_sets(a in interval(), b in interval()) {
        let (union, both) = (a.union(&b), a.intersect(&b));
        prop_assert!(a.is_within(&union) && b.is_within(&union));
        for x in members(&a).into_iter().chain(members(&b)) {
            prop_assert_eq!(both.contains(&x), a.contains(&x) && b.contains(&x));
        }
        prop_assert_eq!(a.is_within(&b) && b.is_within(&a), a == b);
    }

    // A wider interval would be sound but useless. On whole boxes, the claimed interval is exactly
    // the hull.
    #[test]
    fn nothing_is_wider_than_it_must_be(a in box_of_integers(), b in box_of_integers()) {
        let (in_a, in_b) = (integers(&a), integers(&b));
        let pairs = || in_a.iter().flat_map(|x| in_b.iter().map(move |y| (x, y)));
        let quotients = [("div", Interval::div as fn(&Interval, &Interval) -> Interval,
            (|x, y| x / y) as fn(&Rational, &Rational) -> Rational)];
        for (name, op, exact) in TOTAL.into_iter().chain([OF_INTEGERS[0]]).chain(quotients) {
            let divides = name.starts_with("div");
            // The interval also contains fractional divisors between 0 and 1, whose quotients are
            // larger than those of the integers.
            let touches_zero = b.contains(&Rational::zero());
            if name == "div" && touches_zero {
                continue;
            }
            let reached = pairs().filter(|(_, y)| !divides || !y.is_zero()).map(|(x, y)| exact(x, y));
            prop_assert_eq!(op(&a, &b), hull(reached), "{} of {} and {}", name, &a, &b);
        }
        for (name, op, exact) in UNARY {
            prop_assert_eq!(op(&a), hull(in_a.iter().map(exact)), "{} of {}", name, &a);
        }
        let reached = hull(pairs().filter(|(_, y)| !y.is_zero()).map(|(x, y)| sql_rem(x, y)));
        let claimed = a.rem_trunc(&b);
        if let Some(largest) = claimed.max_abs() {
            prop_assert!(largest <= a.max_abs().unwrap());
            prop_assert!(claimed.is_empty() || largest < b.max_abs().unwrap());
            prop_assert_eq!(claimed.is_empty(), reached.is_empty());
        }
    }

    #[test]
    fn rounding_is_the_machine_s(x in any::<f64>(), y in any::<f64>(), n in any::<i64>()) {
        for (a, b) in [(x, y), (x, x * 1e-300), (x * 1e-300, y)] {
            let Some((exact_a, exact_b)) = Rational::from_f64(a).zip(Rational::from_f64(b)) else {
                continue;
            };
            for (exact, float) in [(&exact_a + &exact_b, a + b), (&exact_a * &exact_b, a * b)] {
                prop_assert_eq!(nearest_float(&exact, &DOUBLE), Rational::from_f64(float));
            }
            if !exact_b.is_zero() {
                prop_assert_eq!(nearest_float(&(&exact_a / &exact_b), &DOUBLE), Rational::from_f64(a / b));
            }
            #[expect(clippy::cast_possible_truncation, reason = "the machine's rounding is the oracle")]
            let single = a as f32;
            prop_assert_eq!(nearest_float(&exact_a, &SINGLE), Rational::from_f32(single));
        }
        #[expect(clippy::cast_precision_loss, reason = "the machine's rounding is the oracle")]
        let (double, single) = (n as f64, n as f32);
        let rounded = Interval::point(int(n)).round_outward_f64();
        prop_assert_eq!(nearest_float(&int(n), &DOUBLE), Rational::from_f64(double));
        prop_assert!(rounded.contains(&Rational::from_f64(double).unwrap()));
        prop_assert!(rounded.contains(&Rational::from_f32(single).unwrap()));
    }

    #[test]
    fn float_arithmetic_stays_inside(ends in any::<[f32; 4]>(), at in 0.0..=1.0_f64, with in 0.0..=1.0_f64) {
        let ordered = |a: f32, b: f32| (f64::from(a.min(b)), f64::from(a.max(b)));
        let ((a, b), (c, d)) = (ordered(ends[0], ends[1]), ordered(ends[2], ends[3]));
        let (first, second) = (Interval::from_f64_bounds(a, b), Interval::from_f64_bounds(c, d));
        let (x, y) = ((a + (b - a) * at).clamp(a, b), (c + (d - c) * with).clamp(c, d));
        let inside = |claimed: Interval, value: f64| {
            let claimed = claimed.round_outward_f64();
            match Rational::from_f64(value) {
                Some(value) => claimed.contains(&value),
                None => value.is_nan() || if value > 0.0 { claimed.hi().is_none() } else { claimed.lo().is_none() },
            }
        };
        prop_assert!(inside(first.add(&second), x + y));
        prop_assert!(inside(first.sub(&second), x - y));
        prop_assert!(inside(first.mul(&second), x * y));
        prop_assert!(y == 0.0 || inside(first.div(&second), x / y));
        prop_assert!(y == 0.0 || inside(first.rem(&second), x % y));
        #[expect(clippy::cast_possible_truncation, reason = "singles inside the interval are wanted")]
        let (x, y) = (x as f32, y as f32);
        if first.contains(&Rational::from_f32(x).unwrap()) && second.contains(&Rational::from_f32(y).unwrap()) {
            prop_assert!(inside(first.add(&second), f64::from(x + y)));
            prop_assert!(inside(first.mul(&second), f64::from(x * y)));
            prop_assert!(y == 0.0 || inside(first.div(&second), f64::from(x / y)));
        }
    }
}

#[test]
fn hostile_ends_do_not_wrap() {
    let most = i128::from(i64::MAX);
    assert_eq!(ints(-5, most).mul(&ints(0, 3)), ints(-15, 3 * most));
    let least = ints(i64::MIN.into(), i64::MIN.into());
    assert_eq!(least.div_trunc(&ints(-1, -1)), ints(1 << 63, 1 << 63));
    assert!(!least.div_trunc(&ints(-1, -1)).fits(i64::MIN.into(), most));
    assert!(!least.neg().fits(i64::MIN.into(), most));
    assert!(!least.abs().fits(i64::MIN.into(), most));
    assert_eq!(least.rem_trunc(&ints(-1, -1)), ints(0, 0));
    assert_eq!(ints(i128::MIN, i128::MAX).add(&ints(1, 1)).to_i128(), None);
    assert_eq!(ints(i128::MIN, i128::MAX).to_i128(), Some((i128::MIN, i128::MAX)));
}

#[test]
fn zero_times_everything_is_zero() {
    assert_eq!(Interval::everything().scale(&Rational::zero()), ints(0, 0));
    assert_eq!(ints(0, 0).mul(&Interval::new(Some(int(3)), None)), ints(0, 0));
    assert_eq!(ints(0, 2).mul(&Interval::everything()), Interval::everything());
}

#[test]
fn a_divisor_of_zero_is_no_divisor() {
    for op in [Interval::div, Interval::div_trunc, Interval::rem, Interval::rem_trunc] {
        assert!(op(&ints(1, 9), &ints(0, 0)).is_empty());
    }
    assert_eq!(ints(1, 9).div_trunc(&ints(0, 5)), ints(0, 9));
    assert_eq!(
        ints(2, 9).div(&ints(0, 5)),
        Interval::new(Some(Rational::new(2.into(), 5.into())), None)
    );
    assert_eq!(ints(2, 9).div(&ints(-5, 5)), Interval::everything());
    // There are only fractions between two integers, so no integer divides.
    let fractions = Interval::between(half(1), Rational::new(3.into(), 4.into()));
    assert!(ints(1, 9).div_trunc(&fractions).is_empty());
    assert_eq!(Interval::everything().rem_trunc(&ints(2, 2)), ints(-1, 1));
    assert_eq!(ints(0, 3).rem_trunc(&ints(4, 9)), ints(0, 3));
}

#[test]
fn empty_stays_empty() {
    let (empty, some) = (Interval::empty(), ints(-3, 8));
    assert_eq!(Interval::between(int(2), int(1)), empty);
    for (name, op, _) in TOTAL.into_iter().chain(BY_DIVISOR).chain(OF_INTEGERS) {
        assert!(op(&empty, &some).is_empty() && op(&some, &empty).is_empty(), "{name}");
    }
    for (name, op, _) in UNARY {
        assert!(op(&empty).is_empty(), "{name}");
    }
    assert_eq!(empty.union(&some), some);
    assert!(empty.intersect(&some).is_empty() && empty.round_outward_f64().is_empty());
    assert!(empty.fits(0, 0) && !empty.contains(&int(0)));
    assert_eq!((empty.to_i128(), empty.max_abs()), (None, Some(int(0))));
}

#[test]
fn floats_enter_exactly_and_infinities_do_not_bound() {
    let tenth = Interval::from_f64_bounds(0.1, 0.1);
    assert_eq!(tenth, Interval::point(Rational::from_f64(0.1).unwrap()));
    assert!(!tenth.contains(&text("0.1")));
    assert_eq!(Interval::from_f64_bounds(f64::NEG_INFINITY, 1.0).lo(), None);
    assert_eq!(
        Interval::from_f64_bounds(f64::NAN, 1.0),
        Interval::from_f64_bounds(f64::NEG_INFINITY, 1.0)
    );
    assert_eq!(Interval::from_f64_bounds(0.0, f64::NAN).hi(), None);
    assert!(Interval::from_f64_bounds(2.0, 1.0).is_empty());
    let infinite = Interval::from_f64_bounds(f64::INFINITY, f64::INFINITY);
    assert!(!infinite.is_empty() && infinite.hi().is_none());
}

#[test]
fn overflow_begins_half_a_step_beyond_the_largest_float() {
    let largest = [Rational::from_f32(f32::MAX).unwrap(), Rational::from_f64(f64::MAX).unwrap()];
    let half_steps = [103_u32, 970].map(|power| int(BigInt::from(2).pow(power)));
    for ((format, largest), half_step) in [SINGLE, DOUBLE].iter().zip(largest).zip(half_steps) {
        assert_eq!(nearest_float(&largest, format), Some(largest.clone()));
        let beyond = &largest + half_step;
        assert_eq!(nearest_float(&(&beyond - int(1)), format), Some(largest));
        assert_eq!((nearest_float(&beyond, format), nearest_float(&-beyond, format)), (None, None));
    }
}

#[test]
fn rounding_outward_keeps_what_is_representable() {
    assert_eq!(ints(-3, 120).round_outward_f64(), ints(-3, 120));
    let cents = Interval::between(text("0.01"), text("4.99"));
    let rounded = cents.round_outward_f64();
    assert!(rounded.contains(&Rational::from_f64(0.01).unwrap()));
    assert!(rounded.contains(&Rational::from_f64(4.99).unwrap()));
    assert!(rounded.max_abs().unwrap() - text("4.99") < text("1e-6"));
    assert_eq!(Interval::point(text("1e39")).round_outward_f64(), Interval::everything());
    assert!(
        Interval::point(text("1e-40")).scale(&text("1e-40")).round_outward_f64().contains(&int(0))
    );
}

#[test]
fn intervals_print() {
    assert_eq!(ints(0, 120).to_string(), "[0, 120]");
    assert_eq!(Interval::new(None, Some(half(7))).to_string(), "[-∞, 3.5]");
    assert_eq!(Interval::new(Some(half(-1)), None).to_string(), "[-0.5, ∞]");
    assert_eq!(Interval::everything().to_string(), "[-∞, ∞]");
    assert_eq!(Interval::empty().to_string(), "∅");
    assert_eq!(
        ints(i64::MAX.into(), i64::MAX.into()).lo().and_then(ToPrimitive::to_i64),
        Some(i64::MAX)
    );
}
