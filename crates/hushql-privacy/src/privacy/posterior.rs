//! What an observer of private answers can at best conclude about one privacy unit.
//!
//! A prior belief and a loss go in; an upper bound of the belief after all answers comes out. These
//! numbers are shown to people and decide nothing. They are exact rationals all the same, rounded
//! up.
//!
//! ```
//! use hushql_privacy::privacy::Rational;
//! use hushql_privacy::privacy::posterior::{percent_up, posterior};
//!
//! let tenth = Rational::new(1.into(), 10.into());
//! let belief = posterior(&tenth, &Rational::from_integer(1.into()));
//! assert_eq!(percent_up(&belief), "23.2 %");
//! ```

use num_bigint::BigInt;
use num_traits::One;

use super::enclosure::exp_neg;
use super::{Rational, decimal_text};

/// The precision, in bits, of exp(−ε).
const BITS: u32 = 128;

/// A claim with δ is about all answers but those with this many times δ of probability.
const TIMES: u8 = 10;

/// The largest belief in one of two hypotheses after ε-private answers, for an observer who
/// believed it with probability `prior` before.
///
/// # Guarantee
/// Never less than p·e^ε/(p·e^ε + 1 − p), and at most 1. By Bayes' rule the odds after an answer
/// are the odds before it times P(answer | one hypothesis)/P(answer | the other), and
/// ε-differential privacy bounds this ratio by e^ε for each answer, also for all answers of an
/// adaptive session together. If a hypothesis is a mixture of databases, its probability is a mean,
/// and the bound holds for the ratio of means. The quotient is p/(p + (1 − p)·e^−ε), in which e^−ε
/// is enclosed from below. A prior outside of [0, 1] is read as the nearer end.
pub fn posterior(prior: &Rational, epsilon: &Rational) -> Rational {
    weighed(prior, exp_neg(epsilon, BITS).lower)
}

/// The same after (ε, δ)-private answers, with the probability of the answers that the bound does
/// not hold for. `None` if that probability is not below 1: then nothing is claimed.
///
/// # Guarantee
/// Whichever of the two hypotheses is true, the answers come out such that the belief exceeds the
/// first number with at most the probability of the second. Let L be the ratio of the probabilities
/// of an answer under the two hypotheses, P and Q, and S the answers with L > t, for
/// t = e^ε·10/9. Then Q(S) ≤ P(S)/t, and (ε, δ)-differential privacy gives
/// P(S) ≤ e^ε·Q(S) + δ ≤ (9/10)·P(S) + δ, so P(S) ≤ 10·δ, and Q(S) ≤ 10·δ/t. Outside of S the odds
/// grow by at most t, which is the bound of [`posterior`] with e^−ε·9/10. For δ = 0 it is
/// [`posterior`] itself, for all answers.
pub fn posterior_but(
    prior: &Rational,
    epsilon: &Rational,
    delta: &Rational,
) -> Option<(Rational, Rational)> {
    let none = Rational::from_integer(BigInt::from(0));
    if *delta <= none {
        return Some((posterior(prior, epsilon), none));
    }
    let but = delta * Rational::from_integer(BigInt::from(TIMES));
    let share = Rational::new(BigInt::from(TIMES - 1), BigInt::from(TIMES));
    let odds = exp_neg(epsilon, BITS).lower * share;
    (but < Rational::one()).then(|| (weighed(prior, odds), but))
}

/// The loss between two databases in which one unit has other rows: removing the unit, and adding
/// it again.
///
/// # Guarantee
/// If each step is (ε, δ)-private, both are (2ε, δ') with δ' ≥ (1 + e^ε)·δ: P ≤ e^ε·R + δ and
/// R ≤ e^ε·Q + δ give P ≤ e^2ε·Q + e^ε·δ + δ. e^ε is 1 over a lower bound of e^−ε; if that bound is
/// 0, δ' is 1, and nothing is claimed.
pub fn replacement_loss(epsilon: &Rational, delta: &Rational) -> (Rational, Rational) {
    let none = Rational::from_integer(BigInt::from(0));
    let twice = epsilon * Rational::from_integer(BigInt::from(2));
    if *delta <= none {
        return (twice, none);
    }
    let below = exp_neg(epsilon, BITS).lower;
    let delta = match below > none {
        true => (delta * (Rational::one() + below.recip())).min(Rational::one()),
        false => Rational::one(),
    };
    (twice, delta)
}

/// The loss between two databases that differ by several units.
///
/// # Guarantee
/// If each unit is (ε, δ)-private, k of them are (kε, δ') with δ' ≥ (1 + e^ε + … + e^(k−1)ε)·δ:
/// from P ≤ e^ε·R + δ and R ≤ e^(k−1)ε·Q + δ'' follows P ≤ e^kε·Q + e^ε·δ'' + δ. e^ε is 1 over a
/// lower bound of e^−ε; if that bound is 0, or δ' reaches 1, δ' is 1, and nothing is claimed.
pub fn group_loss(epsilon: &Rational, delta: &Rational, units: u32) -> (Rational, Rational) {
    let none = Rational::from_integer(BigInt::from(0));
    let all = epsilon * Rational::from_integer(BigInt::from(units));
    if *delta <= none {
        return (all, none);
    }
    let below = exp_neg(epsilon, BITS).lower;
    if below <= none {
        return (all, Rational::one());
    }
    let (above, mut sum) = (below.recip(), none);
    for _ in 0..units {
        sum = &sum * &above + delta;
        if sum >= Rational::one() {
            return (all, Rational::one());
        }
    }
    (all, sum)
}

/// A probability in percent, rounded up to two places.
///
/// # Guarantee
/// Never less than the probability.
pub fn percent_up(probability: &Rational) -> String {
    let cents = Rational::from_integer(BigInt::from(10_000));
    let up = (probability * &cents).ceil() / Rational::from_integer(BigInt::from(100));
    format!("{} %", decimal_text(&up, 2))
}

/// p/(p + (1 − p)·odds), where a smaller `odds` gives more.
fn weighed(prior: &Rational, odds: Rational) -> Rational {
    let (none, one) = (Rational::from_integer(BigInt::from(0)), Rational::one());
    let prior = prior.clone().clamp(none.clone(), one.clone());
    if prior == none {
        return none;
    }
    &prior / (&prior + (one - &prior) * odds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rational(text: &str) -> Rational {
        crate::privacy::parse_decimal(text).unwrap()
    }

    #[test]
    fn beliefs_are_the_formula_rounded_up() {
        for (prior, epsilon, shown) in [
            ("0.01", "1", "2.68 %"),
            ("0.1", "1", "23.2 %"),
            ("0.5", "1", "73.11 %"),
            ("0.5", "0", "50 %"),
            ("0.01", "0.001", "1.01 %"),
            ("0.01", "10", "99.56 %"),
            ("0.5", "1000000", "100 %"),
            ("0", "5", "0 %"),
            ("1", "5", "100 %"),
        ] {
            let belief = posterior(&rational(prior), &rational(epsilon));
            assert_eq!(percent_up(&belief), shown, "{prior} {epsilon}");
            let (p, growth) =
                (prior.parse::<f64>().unwrap(), epsilon.parse::<f64>().unwrap().exp());
            if growth.is_finite() {
                let exact = p * growth / (p * growth + 1.0 - p);
                let found: f64 = num_traits::ToPrimitive::to_f64(&belief).unwrap();
                assert!(found >= exact - 1e-12 && found <= exact + 1e-9, "{prior} {epsilon}");
            }
        }
    }

    /// Rounding to the nearest would show 0.004 % as 0 %.
    #[test]
    fn no_belief_is_rounded_down() {
        assert_eq!(percent_up(&rational("0.00001")), "0.01 %");
        assert_eq!(percent_up(&rational("0.123400001")), "12.35 %");
        assert_eq!(percent_up(&rational("0.1234")), "12.34 %");
    }

    /// On the worst (ε, δ)-private pair of distributions, the belief exceeds the claim with no more
    /// than the claimed probability, whichever hypothesis is true.
    #[test]
    fn what_is_claimed_with_delta_holds_for_the_worst_mechanism() {
        for (epsilon, delta) in [(0.1_f64, 1e-3_f64), (1.0, 1e-2), (2.0, 0.05), (5.0, 1e-6)] {
            // All of δ lies on one answer S, whose ratio exceeds e^ε by this factor.
            let growth = epsilon.exp();
            let (e, d) = (rational(&epsilon.to_string()), rational(&format!("{delta:.9}")));
            for ratio in [1.1, 1.2, 2.0, 10.0, 1e9] {
                // P(S) − e^ε·Q(S) = δ with P(S)/Q(S) = e^ε·ratio.
                let of_p = delta / (1.0 - 1.0 / ratio);
                for prior in ["0.01", "0.1", "0.5"] {
                    let (belief, but) = posterior_but(&rational(prior), &e, &d).unwrap();
                    let p: f64 = prior.parse().unwrap();
                    let odds = growth * ratio;
                    let found = p * odds / (p * odds + 1.0 - p);
                    let belief = num_traits::ToPrimitive::to_f64(&belief).unwrap();
                    let but = num_traits::ToPrimitive::to_f64(&but).unwrap();
                    assert!(found <= belief || of_p <= but + 1e-12, "{epsilon} {delta} {ratio}");
                }
            }
        }
        assert!(posterior_but(&rational("0.1"), &rational("1"), &rational("0.1")).is_none());
    }

    #[test]
    fn replacing_is_removing_and_adding() {
        let (epsilon, delta) = replacement_loss(&rational("1"), &rational("0"));
        assert_eq!((epsilon, delta), (rational("2"), rational("0")));
        let (_, delta) = replacement_loss(&rational("1"), &rational("1e-6"));
        assert!(delta > rational("0.0000037182818") && delta < rational("0.0000037182819"));
        assert_eq!(replacement_loss(&rational("1000"), &rational("1e-6")).1, rational("1"));
    }
}
