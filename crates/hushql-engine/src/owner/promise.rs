//! What the limit of a budget, or a spent amount, means in ε and δ, and when its owner is warned.
//!
//! In: a budget and an amount in its notion. Out: an ε and a δ for all answers together, rounded
//! up; they are shown and decide nothing.
//!
//! ```text
//! LIMIT (epsilon=5)                                        →   ε = 5, δ = 0
//! LIMIT (epsilon=2, delta=1e-6) ACCOUNTANT ZCDP            →   ε = 2, δ = 1e-6
//! LIMIT (rho=0.5)                                          →   ε = 5.222, δ = 1e-6, by conversion
//! ```

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Zero};

use crate::catalog::{Budget, Catalog, Unit, quoted};
use crate::mechanism::epsilon_of_rho;
use crate::privacy::posterior::{percent_up, posterior};
use crate::privacy::{Delta, Notion, Rational, Spend, decimal_text};

/// The δ, in 10⁻¹⁸, at which a ρ without a promise is converted: 10⁻⁶.
const CONVERTED_AT: i64 = 1_000_000_000_000;

/// The ε above which an owner is warned.
const MUCH: i64 = 10;

/// An ε and a δ for all answers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The ε.
    pub(crate) epsilon: Rational,
    /// The δ.
    pub(crate) delta: Rational,
    /// True if the budget counts otherwise, and this was converted.
    pub(crate) is_converted: bool,
}

/// What answers reveal in all if they cost this amount of a budget. `None` if no ε is known.
///
/// # Guarantee
/// Releases that the ledger counts with this amount in the notion of the budget are (ε, δ)-private
/// together, even if each one is chosen after seeing the earlier answers. In ε, both add up. In ρ,
/// the conversion of [`epsilon_of_rho`] adds its δ to the counted one. Under an accountant, an
/// amount within the limit has the promise from which the limit was derived; beyond it, and where
/// fewer coupons were spent than the promise covers, the ε of the coupons add up.
pub(crate) fn promise(budget: &Budget, amount: Spend) -> Option<Promise> {
    let (limit, is_converted) = (budget.limit, true);
    let is_within = limit.pays(amount);
    let declared = budget.promise.filter(|_| is_within).map(|promise| {
        let (epsilon, delta) = (promise.loss(), promise.delta());
        Promise { epsilon, delta, is_converted: false }
    });
    match (limit.notion, budget.coupon) {
        (Notion::Approximate, _) => {
            let (epsilon, delta) = (amount.loss(), amount.delta());
            Some(Promise { epsilon, delta, is_converted: false })
        }
        (Notion::Coupons, Some(coupon)) => {
            let epsilon = amount.loss() * Spend::of_epsilon(coupon, 0).loss();
            let added = Promise { epsilon, delta: amount.delta(), is_converted };
            Some(declared.filter(|declared| declared.epsilon < added.epsilon).unwrap_or(added))
        }
        (Notion::Coupons, None) => None,
        (Notion::Concentrated, _) if amount == limit && declared.is_some() => declared,
        (Notion::Concentrated, _) => {
            // Thresholds have half of a promised δ, and the conversion the other half.
            let parts = if limit.atto_delta > 0 { 2 } else { 1 };
            let own = budget.promise.map_or(CONVERTED_AT, |promise| promise.atto_delta / parts);
            let converted = Spend::of_epsilon(0, own).delta();
            let at = Delta::new(converted.clone()).ok()?;
            let epsilon = epsilon_of_rho(&amount.loss(), &at).ok()?;
            let delta = match amount.loss().is_zero() {
                true => amount.delta(),
                false => amount.delta() + converted,
            };
            Some(Promise { epsilon, delta, is_converted })
        }
    }
}

impl Promise {
    /// The ε and the δ as text, rounded up: `ε = 5.222, δ = 1e-6`.
    pub(crate) fn text(&self) -> String {
        let delta = match self.delta.is_zero() {
            true => String::new(),
            false => format!(", δ = {}", self.delta_text()),
        };
        format!("ε = {}{delta}", self.epsilon_text())
    }

    /// The ε, exact if it was declared and rounded up to three places if it was converted.
    pub(crate) fn epsilon_text(&self) -> String {
        match self.is_converted {
            true => {
                let thousand = Rational::from_integer(1000.into());
                decimal_text(&((&self.epsilon * &thousand).ceil() / thousand), 3)
            }
            false => decimal_text(&self.epsilon, 9),
        }
    }

    /// The δ, exact: it is a whole number of 10⁻¹⁸.
    pub(crate) fn delta_text(&self) -> String {
        let atto = &self.delta * Rational::from_integer(BigInt::from(10).pow(18));
        let atto = i64::try_from(atto.ceil().to_integer()).unwrap_or(i64::MAX);
        Spend::of_epsilon(0, atto).delta_text()
    }
}

/// A probability as text: rounded up to two digits, and to 10⁻¹⁸.
pub(crate) fn probability_up(probability: &Rational) -> String {
    let units = Rational::from_integer(BigInt::from(10).pow(18));
    let mut atto = (probability * &units).ceil().to_integer();
    let mut power = BigInt::one();
    while &atto / &power >= BigInt::from(100) {
        power *= 10;
    }
    atto = atto.div_ceil(&power) * power;
    match i64::try_from(atto) {
        Ok(atto) => Spend::of_epsilon(0, atto).delta_text(),
        Err(_) => decimal_text(probability, 2),
    }
}

/// What the owner is told about a limit that promises little; empty if there is nothing to say.
pub(crate) fn warnings(catalog: &Catalog, budget: &Budget) -> String {
    let mut told = String::new();
    let Some(promise) = promise(budget, budget.limit) else { return told };
    let write = format!("SHOW PRIVACY STATEMENT FOR {}", quoted(&budget.name));
    if promise.epsilon > Rational::from_integer(MUCH.into()) {
        let hundredth = Rational::new(1.into(), 100.into());
        let belief = percent_up(&posterior(&hundredth, &promise.epsilon));
        let unit = catalog.table(catalog.unit_domain_of(budget)).and_then(|table| table.unit());
        let what = match unit.and_then(Unit::present) {
            Some(_) => "the data say one thing of a person",
            None => "a person is in the data",
        };
        told += &format!(
            "; warning: ε = {} is more than {MUCH}: whoever believes with 1 % that {what} may believe it with {belief} after all answers ({write})",
            promise.epsilon_text()
        );
    }
    let people = catalog.about_people(catalog.unit_domain_of(budget));
    if let Some(people) = people.filter(|_| promise.delta > Rational::zero()) {
        let ten = Rational::from_integer((10 * i128::from(people)).into());
        if &promise.delta * &ten >= Rational::one() {
            told += &format!(
                "; warning: δ = {} is not below 1/(10·{people}): answers that show some of about {people} people as they are would fit the promise ({write})",
                promise.delta_text()
            );
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{PerQuery, Replay, zcdp_limit};

    fn budget(limit: Spend, promise: Option<Spend>, coupon: Option<i64>) -> Budget {
        let (name, table) = ("b".to_owned(), "t".to_owned());
        let (per_query, replay) = (PerQuery::default(), Replay::All);
        Budget { name, table, limit, promise, coupon, per_query, replay }
    }

    fn text(budget: &Budget, amount: Spend) -> String {
        promise(budget, amount).unwrap().text()
    }

    #[test]
    fn amounts_are_converted_upward() {
        let sums = budget(Spend::of_epsilon(5_000_000_000, 0), None, None);
        assert_eq!(text(&sums, sums.limit), "ε = 5");
        assert_eq!(text(&sums, Spend::of_epsilon(1, 1)), "ε = 0.000000001, δ = 1e-18");
        let rho = budget(Spend::of_rho(500_000_000, 0), None, None);
        assert_eq!(text(&rho, rho.limit), "ε = 5.222, δ = 1e-6");
        assert_eq!(text(&rho, Spend::of_rho(0, 0)), "ε = 0");
        let whole = Spend::of_epsilon(2_000_000_000, 1_000_000_000_000);
        let zcdp = budget(zcdp_limit(whole, true).unwrap(), Some(whole), None);
        assert_eq!(text(&zcdp, zcdp.limit), "ε = 2, δ = 1e-6");
        // Less was spent than the limit, so less was revealed than is promised.
        let half = Spend::of_rho(zcdp.limit.nano / 2, 0);
        let spent = promise(&zcdp, half).unwrap();
        assert!(spent.epsilon < whole.loss() && spent.delta < whole.delta());
    }

    #[test]
    fn probabilities_are_rounded_up_to_two_digits() {
        for (exact, shown) in [
            ("0.001862181731448913", "1.9e-3"),
            ("1e-6", "1e-6"),
            ("0.5", "0.5"),
            ("1e-18", "1e-18"),
            ("0.991", "1"),
        ] {
            assert_eq!(probability_up(&crate::privacy::parse_decimal(exact).unwrap()), shown);
        }
    }

    /// An owner may lower a limit below what is spent. The promise then follows from what is spent.
    #[test]
    fn beyond_a_limit_its_promise_does_not_hold() {
        let whole = Spend::of_epsilon(2_000_000_000, 1_000_000_000_000);
        let zcdp = budget(zcdp_limit(whole, true).unwrap(), Some(whole), None);
        let twice = Spend::of_rho(zcdp.limit.nano * 2, zcdp.limit.atto_delta);
        assert!(promise(&zcdp, twice).unwrap().epsilon > whole.loss());
        let coupons = budget(Spend::of_coupons(84, 0), Some(whole), Some(100_000_000));
        assert_eq!(text(&coupons, coupons.limit), "ε = 2, δ = 1e-6");
        assert_eq!(text(&coupons, Spend::of_coupons(3, 0)), "ε = 0.3");
        assert_eq!(text(&coupons, Spend::of_coupons(85, 0)), "ε = 8.5");
    }
}
