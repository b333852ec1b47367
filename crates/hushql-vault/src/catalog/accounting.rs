//! The limit of a budget in ρ or in coupons, derived from the ε that its owner wrote.
//!
//! Amounts in ledger units go in and come out, rounded so that less is allowed. Every charge is an
//! approximate zCDP guarantee. The sums of the charges are compared with the limit, and sums within
//! the limit keep the promise as written.
//!
//! ```
//! use hushql_vault::catalog::zcdp_limit;
//! use hushql_privacy::privacy::Spend;
//!
//! // ε = 2 and δ = 10⁻⁶ allow a ρ of 0.0834, and half of δ for releases that have a δ of their own.
//! let limit = zcdp_limit(Spend::of_epsilon(2_000_000_000, 1_000_000_000_000), true);
//! assert_eq!(limit.map(|limit| limit.delta_text()), Some("5e-7".to_owned()));
//! ```

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use hushql_privacy::mechanism::{largest_rho, most_coupons};
use hushql_privacy::privacy::{Cost, Delta, Epsilon, Loss, Notion, Rational, Spend};

/// The ρ and δ that `ACCOUNTANT ZCDP` allows under a promise of ε and δ; `None` if they allow
/// nothing. With `thresholds`, half of δ is reserved for releases that have a δ; without, no
/// release has a δ.
///
/// # Guarantee
/// Releases whose Σρ and Σδ are at most this limit are (ε, δ)-private together, even if each one is
/// chosen after seeing the earlier answers. With `thresholds`, half of δ, rounded down, covers Σδ:
/// except with that probability the releases are Σρ-zCDP. The conversion uses another half, and ρ
/// is the largest whole number of units that meets ε with it. Without `thresholds`, Σδ is 0, and
/// the conversion uses all of δ. Sources: Canonne, Kamath, Steinke 2020; Whitehouse, Ramdas,
/// Rogers, Wu 2023.
pub fn zcdp_limit(promise: Spend, thresholds: bool) -> Option<Spend> {
    if promise.notion != Notion::Approximate {
        return None;
    }
    let half = promise.atto_delta / 2;
    let (own, converted) = if thresholds { (half, half) } else { (0, promise.atto_delta) };
    let converted = Delta::new(Spend::of_rho(0, converted).delta());
    let (epsilon, delta) = (Epsilon::new(promise.loss()).ok()?, converted.ok()?);
    let units = largest_rho(&epsilon, &delta).ok()? * Rational::from_integer(BigInt::from(NANO));
    let nano = units.floor().to_integer().to_i64().filter(|nano| *nano > 0)?;
    Some(Spend::of_rho(nano, own))
}

/// The number of coupons, each of this ε, and the δ that `ACCOUNTANT COUPONS` allows under a
/// promise of ε and δ; `None` if it allows none. With `thresholds`, half of δ is reserved for
/// releases that have a δ; without, no release has a δ.
///
/// # Guarantee
/// Take as many releases as the limit has coupons, each of at most the ε of a coupon, with a Σδ of
/// at most the limit's. They are (ε, δ)-private together, even if each one is chosen after seeing
/// the earlier answers. With `thresholds`, half of δ, rounded down, covers Σδ, and the coupons use
/// another half: see [`most_coupons`].
pub fn coupon_limit(promise: Spend, nano_each: i64, thresholds: bool) -> Option<Spend> {
    if promise.notion != Notion::Approximate {
        return None;
    }
    let half = promise.atto_delta / 2;
    let (own, coupons) = if thresholds { (half, half) } else { (0, promise.atto_delta) };
    let epsilon = Epsilon::new(promise.loss()).ok()?;
    let each = Epsilon::new(Spend::of_epsilon(nano_each, 0).loss()).ok()?;
    let delta = Delta::new(Spend::of_epsilon(0, coupons).delta()).ok()?;
    let most = i64::from(most_coupons(&epsilon, &delta, &each));
    (most > 0).then_some(Spend::of_coupons(most, own))
}

/// Ledger units in an ε or ρ of 1.
const NANO: i64 = 1_000_000_000;

/// The largest ρ that an ε costs, both in ledger units; a value above any limit if it does not fit.
pub(super) fn rho_of(nano_epsilon: i64) -> i64 {
    let cost = Epsilon::new(Spend::of_epsilon(nano_epsilon, 0).loss())
        .and_then(|epsilon| Cost::round_up(&Loss::pure(&epsilon)));
    let rho = cost.ok().and_then(|cost| cost.within(Notion::Concentrated));
    rho.map_or(i64::MAX, |rho| rho.nano)
}

#[cfg(test)]
mod tests {
    use hushql_privacy::mechanism::epsilon_of_rho;

    use super::*;

    /// One more unit of ρ breaks the promise, for promises of every size.
    #[test]
    fn the_limit_is_the_largest_that_keeps_the_promise() {
        for nano in [20_000_000, NANO, 2 * NANO, 30 * NANO] {
            for atto in [2_000_000_001, 1_000_000_000_000, 10_000_000_000_000_001] {
                let promise = Spend::of_epsilon(nano, atto);
                for (thresholds, own, converted) in [(true, atto / 2, atto / 2), (false, 0, atto)] {
                    let limit = zcdp_limit(promise, thresholds).unwrap();
                    assert_eq!(limit.atto_delta, own);
                    assert!(i128::from(own) + i128::from(converted) <= i128::from(atto));
                    let delta = Delta::new(Spend::of_rho(0, converted).delta()).unwrap();
                    let epsilon =
                        |nano: i64| epsilon_of_rho(&Spend::of_rho(nano, 0).loss(), &delta).unwrap();
                    assert!(epsilon(limit.nano) <= promise.loss(), "{promise}");
                    assert!(epsilon(limit.nano + 1) > promise.loss(), "{promise}");
                }
            }
        }
    }

    /// ε = 2 and δ = 10⁻⁶ pay for 66 answers of ε = 0.05, and for 70 if no answer has a δ.
    #[test]
    fn all_of_delta_pays_for_more() {
        let promise = Spend::of_epsilon(2 * NANO, 1_000_000_000_000);
        let answers =
            |thresholds| zcdp_limit(promise, thresholds).unwrap().nano / rho_of(NANO / 20);
        assert_eq!((answers(true), answers(false)), (66, 70));
    }

    /// ε = 2 and δ = 10⁻⁶ pay for 84 answers of ε = 0.05 by coupons, and for 78 if half of δ is
    /// reserved for thresholds.
    #[test]
    fn coupons_pay_for_more() {
        let promise = Spend::of_epsilon(2 * NANO, 1_000_000_000_000);
        let limit = |nano, thresholds| coupon_limit(promise, nano, thresholds);
        assert_eq!(limit(NANO / 20, false), Some(Spend::of_coupons(84, 0)));
        assert_eq!(limit(NANO / 20, true), Some(Spend::of_coupons(78, 500_000_000_000)));
        assert_eq!(limit(NANO / 10, false), Some(Spend::of_coupons(24, 0)));
        assert_eq!(limit(NANO / 10, true), Some(Spend::of_coupons(22, 500_000_000_000)));
        assert_eq!(limit(3 * NANO, true), None);
        assert_eq!(limit(0, true), None);
        assert_eq!(coupon_limit(Spend::of_epsilon(NANO, 1), NANO / 2, true), None);
        assert_eq!(coupon_limit(Spend::of_rho(NANO, 100), NANO / 2, true), None);
    }

    #[test]
    fn a_promise_that_allows_nothing_has_no_limit() {
        for thresholds in [true, false] {
            assert_eq!(zcdp_limit(Spend::of_rho(NANO, 100), thresholds), None);
            for (nano, atto) in [(NANO, 0), (0, 100), (1, 100)] {
                let limit = zcdp_limit(Spend::of_epsilon(nano, atto), thresholds);
                assert_eq!(limit, None, "{nano} {atto}");
            }
        }
        assert_eq!(zcdp_limit(Spend::of_epsilon(NANO, 1), true), None);
        assert_eq!(rho_of(NANO), 462_117_158);
        assert_eq!(rho_of(3 * NANO), 2_715_444_761);
        assert_eq!(rho_of(i64::MAX), i64::MAX);
    }
}
