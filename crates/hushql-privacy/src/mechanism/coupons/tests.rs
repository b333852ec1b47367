//! Tests numbers of coupons against independent sums, and against every adaptive analyst.

use super::*;

fn most(epsilon: &str, delta: &str, each: &str) -> u32 {
    most_coupons(&epsilon.parse().unwrap(), &delta.parse().unwrap(), &each.parse().unwrap())
}

/// e^x to 400 bits, by its series at x/2^16 and sixteen squarings, without directed rounding.
fn exponential(x: &Rational) -> Rational {
    let bits = 400_u32;
    let one = BigInt::one() << bits;
    let small = (x * Rational::from_integer(&one >> 16)).to_integer();
    let (mut term, mut sum) = (one.clone(), one);
    for n in 1..200_u32 {
        term = ((term * &small) >> bits) / n;
        sum += &term;
    }
    for _ in 0..16 {
        sum = (&sum * &sum) >> bits;
    }
    Rational::new(sum, BigInt::one() << bits)
}

/// The hockey-stick divergence of k randomized responses, from the laws of the number of true
/// answers: binomials of Pascal's triangle, and powers of e^ε₀ as 400-bit fixed-point numbers.
fn divergence(k: usize, epsilon: &Rational, each: &Rational) -> f64 {
    let bits = 400_u32;
    let scaled = |x: Rational| (x * Rational::from_integer(BigInt::one() << bits)).to_integer();
    let grows = scaled(exponential(each));
    let powers: Vec<BigInt> =
        std::iter::successors(Some(BigInt::one() << bits), |power| Some((power * &grows) >> bits))
            .take(k + 1)
            .collect();
    let mut binomials = vec![BigInt::one()];
    for n in 0..k {
        binomials.push(&binomials[n] * (k - n) / (n + 1));
    }
    let whole: BigInt = (0..=k).map(|j| &binomials[j] * &powers[j]).sum();
    let bound = scaled(exponential(epsilon));
    let over = |j: usize| {
        let (own, other) = (&powers[j], (&powers[k - j] * &bound) >> bits);
        &binomials[j] * (own - other).max(BigInt::zero())
    };
    let sum: BigInt = (0..=k).map(over).sum();
    Rational::new(sum, whole).to_f64().unwrap()
}

/// The documented numbers of coupons fit, and one coupon more does not.
#[test]
fn as_many_coupons_as_fit_and_not_one_more() {
    for (epsilon, delta, each, expected) in [
        ("2", "1e-6", "0.01", 2012),
        ("2", "1e-6", "0.05", 84),
        ("2", "1e-6", "0.1", 24),
        ("1", "1e-9", "0.01", 336),
        ("3", "1e-5", "0.7", 4),
        ("0.5", "0.01", "1", 0),
        ("0.5", "0.3", "1", 1),
        ("1", "1e-9", "1", 1),
        ("60", "1e-9", "3", 20),
    ] {
        assert_eq!(most(epsilon, delta, each), expected, "{epsilon} {delta} {each}");
        let rational = |text: &str| text.parse::<Epsilon>().unwrap().value().clone();
        let (bound, delta) = (rational(epsilon), rational(delta).to_f64().unwrap());
        let at = |k: u32| divergence(usize::try_from(k).unwrap(), &bound, &rational(each));
        assert!(at(expected) <= delta, "{}", at(expected));
        assert!(at(expected + 1) > delta, "{}", at(expected + 1));
    }
}

/// The bound is above the divergence, and very close to it.
#[test]
fn the_bound_is_from_above_and_close() {
    for (epsilon, each) in [("0.3", "0.1"), ("1", "0.25"), ("2", "1.5"), ("5", "0.2")] {
        let rational = |text: &str| text.parse::<Epsilon>().unwrap().value().clone();
        let (epsilon, each) = (rational(epsilon), rational(each));
        let coupon = Coupon::new(&epsilon, &each);
        for k in [1_u32, 2, 3, 7, 20, 61] {
            let above = Rational::new(coupon.delta_above(k), BigInt::one() << POINT);
            let exact = divergence(usize::try_from(k).unwrap(), &epsilon, &each);
            let off = above.to_f64().unwrap() - exact;
            assert!(off.abs() <= 1e-14 * exact, "{k}: {off} {exact}");
        }
    }
}

#[test]
fn the_number_is_bounded() {
    assert_eq!(most("1000", "1e-6", "0.0001"), MOST_COUPONS);
    assert_eq!(most("2", "1e-6", "0.00001"), MOST_COUPONS);
    assert_eq!(most("1", "1e-18", "0.5"), 2);
}

/// The best advantage of an analyst who has `left` coupons and must tell two neighbours apart. `p`
/// and `q` are the probabilities of the answers so far under each of them. All tests with two
/// outcomes are tried in which the probabilities of each outcome differ by a factor of at most
/// e^`each(left)`: at the corners and between them.
fn best(p: f64, q: f64, left: u32, epsilon: f64, each: &dyn Fn(u32) -> Vec<(u32, f64)>) -> f64 {
    let stop = (p - epsilon.exp() * q).max(0.0);
    let tests = each(left).into_iter().flat_map(|(price, each)| {
        let top = each.exp() / (1.0 + each.exp());
        // Corners of the tests, and tests on the edges between them.
        let shares = [0.0, 0.25, 0.5, 1.0];
        shares.into_iter().flat_map(move |share| {
            let (a, b) = ((1.0 - share) * top, (1.0 - share) * top * (-each).exp());
            [(a, b), (1.0 - a, 1.0 - b), (b, a), (1.0 - b, 1.0 - a)].map(|test| (price, test))
        })
    });
    tests
        .filter(|(price, _)| *price <= left)
        .map(|(price, (a, b))| {
            best(p * a, q * b, left - price, epsilon, each)
                + best(p * (1.0 - a), q * (1.0 - b), left - price, epsilon, each)
        })
        .fold(stop, f64::max)
}

/// Adaptive questions gain nothing over the same number of randomized responses. They would gain if
/// two coupons could pay for one question with twice the ε.
#[test]
fn choices_on_the_way_gain_nothing_and_double_coupons_would() {
    for (each, epsilon) in [(0.5, 0.3), (0.5, 0.8), (1.0, 1.0), (0.2, 0.25)] {
        for k in 1..=3_u32 {
            let text = |x: f64| x.to_string().parse::<Epsilon>().unwrap().value().clone();
            let bound = divergence(usize::try_from(k).unwrap(), &text(epsilon), &text(each));
            let fair = best(1.0, 1.0, k, epsilon, &|_| vec![(1, each)]);
            assert!((fair - bound).abs() < 1e-12, "{each} {epsilon} {k}: {fair} {bound}");
            if k == 2 {
                let double = best(1.0, 1.0, k, epsilon, &|_| vec![(1, each), (2, 2.0 * each)]);
                assert!(double > bound * 1.01, "{each} {epsilon}: {double} {bound}");
            }
        }
    }
}
