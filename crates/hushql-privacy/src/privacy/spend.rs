//! Amounts as the ledger stores them: whole units of ε or ρ, rounded up, each with its δ.
//!
//! Exact losses go in; integers come out, one pair for each [`Notion`] that a budget can count in.
//! An amount keeps its notion: ε is neither added to ρ nor compared with it.
//!
//! ```
//! use hushql_privacy::privacy::Spend;
//!
//! let (limit, spent) = (Spend::of_rho(500_000_000, 0), Spend::of_rho(125_000_000, 0));
//! assert_eq!(limit.minus(spent).to_string(), "ρ = 0.375");
//! ```

use std::fmt;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{ATTO, Loss, NANO, ParameterError, Rational, decimal_text, scientific};

/// What an amount counts.
///
/// ```
/// use hushql_privacy::privacy::Notion;
///
/// assert_eq!((Notion::Approximate.symbol(), Notion::Concentrated.symbol()), ("ε", "ρ"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub enum Notion {
    /// (ε, δ)-differential privacy, with basic composition.
    #[default]
    Approximate,
    /// δ-approximate ρ-zCDP.
    Concentrated,
    /// Releases of at most one fixed ε each, with the δ that they add up to.
    Coupons,
}

impl Notion {
    /// `ε`, `ρ` or `coupons`.
    ///
    /// ```
    /// assert_eq!(hushql_privacy::privacy::Notion::Concentrated.symbol(), "ρ");
    /// ```
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Approximate => "ε",
            Self::Concentrated => "ρ",
            Self::Coupons => "coupons",
        }
    }

    /// `epsilon`, `rho` or `coupons`.
    ///
    /// ```
    /// assert_eq!(hushql_privacy::privacy::Notion::Concentrated.name(), "rho");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Approximate => "epsilon",
            Self::Concentrated => "rho",
            Self::Coupons => "coupons",
        }
    }
}

/// An amount of one notion as the ledger stores it: ε or ρ in 10⁻⁹, whole coupons, δ in 10⁻¹⁸.
///
/// ```
/// use hushql_privacy::privacy::Spend;
///
/// let spend = Spend::of_epsilon(500_000_000, 1_000_000_000_000);
/// assert_eq!(spend.to_string(), "ε = 0.5, δ = 1e-6");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spend {
    /// What is counted.
    pub notion: Notion,
    /// ε or ρ in units of 10⁻⁹, or a number of coupons.
    pub nano: i64,
    /// The δ that goes with it, in units of 10⁻¹⁸.
    pub atto_delta: i64,
}

impl Spend {
    /// An amount of ε, with a δ.
    ///
    /// ```
    /// use hushql_privacy::privacy::Spend;
    ///
    /// assert_eq!(Spend::of_epsilon(250_000_000, 0).to_string(), "ε = 0.25");
    /// ```
    pub const fn of_epsilon(nano: i64, atto_delta: i64) -> Self {
        Self { notion: Notion::Approximate, nano, atto_delta }
    }

    /// An amount of ρ, with a δ.
    ///
    /// ```
    /// use hushql_privacy::privacy::Spend;
    ///
    /// assert_eq!(Spend::of_rho(250_000_000, 0).to_string(), "ρ = 0.25");
    /// ```
    pub const fn of_rho(nano: i64, atto_delta: i64) -> Self {
        Self { notion: Notion::Concentrated, nano, atto_delta }
    }

    /// A number of coupons, with a δ.
    ///
    /// ```
    /// use hushql_privacy::privacy::Spend;
    ///
    /// assert_eq!(Spend::of_coupons(84, 0).to_string(), "84 coupons");
    /// ```
    pub const fn of_coupons(coupons: i64, atto_delta: i64) -> Self {
        Self { notion: Notion::Coupons, nano: coupons, atto_delta }
    }

    /// The ε or ρ, or the number of coupons, exactly.
    #[doc(hidden)]
    pub fn loss(&self) -> Rational {
        match self.notion {
            Notion::Approximate | Notion::Concentrated => {
                Rational::new(BigInt::from(self.nano), BigInt::from(10).pow(NANO))
            }
            Notion::Coupons => Rational::from_integer(BigInt::from(self.nano)),
        }
    }

    /// The δ, exactly.
    #[doc(hidden)]
    pub fn delta(&self) -> Rational {
        Rational::new(BigInt::from(self.atto_delta), BigInt::from(10).pow(ATTO))
    }

    /// The ε or ρ, or the number of coupons, as decimal text, such as `0.5`.
    ///
    /// ```
    /// assert_eq!(hushql_privacy::privacy::Spend::of_epsilon(500_000_000, 0).loss_text(), "0.5");
    /// ```
    pub fn loss_text(&self) -> String {
        decimal_text(&self.loss(), NANO)
    }

    /// The δ as text, such as `1e-6`, or `0`.
    ///
    /// ```
    /// assert_eq!(hushql_privacy::privacy::Spend::of_epsilon(0, 1_000_000_000_000).delta_text(), "1e-6");
    /// ```
    pub fn delta_text(&self) -> String {
        scientific(&self.delta())
    }

    /// The sum of two amounts.
    ///
    /// # Guarantee
    /// Exact; never less than either amount.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`], or [`ParameterError::Notion`] for an ε and a ρ.
    #[doc(hidden)]
    pub fn plus(self, other: Self) -> Result<Self, ParameterError> {
        if self.notion != other.notion {
            return Err(ParameterError::Notion);
        }
        let sum = |a: i64, b: i64| a.checked_add(b).ok_or(ParameterError::Overflow);
        let (nano, atto_delta) =
            (sum(self.nano, other.nano)?, sum(self.atto_delta, other.atto_delta)?);
        Ok(Self { notion: self.notion, nano, atto_delta })
    }

    /// What remains of this limit after `spent`. Nothing remains if more of ε, ρ or δ was spent
    /// before the limit was set: the limit is already exceeded, and no further release would be
    /// within it.
    ///
    /// ```
    /// use hushql_privacy::privacy::Spend;
    ///
    /// let (limit, spent) = (Spend::of_epsilon(1_000_000_000, 0), Spend::of_epsilon(750_000_000, 0));
    /// assert_eq!(limit.minus(spent).to_string(), "ε = 0.25");
    /// ```
    ///
    /// # Guarantee
    /// At most the difference, and at least 0. If the notions differ, or one part of the limit is
    /// exceeded, nothing remains.
    #[must_use]
    pub fn minus(self, spent: Self) -> Self {
        let holds = self.notion == spent.notion
            && spent.nano <= self.nano
            && spent.atto_delta <= self.atto_delta;
        let rest = |limit: i64, spent: i64| {
            if holds { limit.saturating_sub(spent).max(0) } else { 0 }
        };
        Self {
            notion: self.notion,
            nano: rest(self.nano, spent.nano),
            atto_delta: rest(self.atto_delta, spent.atto_delta),
        }
    }

    /// Whether this amount can pay for `asked`.
    ///
    /// ```
    /// use hushql_privacy::privacy::Spend;
    ///
    /// let left = Spend::of_epsilon(1_000_000_000, 0);
    /// assert!(left.pays(Spend::of_epsilon(500_000_000, 0)));
    /// assert!(!left.pays(Spend::of_rho(500_000_000, 0)));
    /// ```
    ///
    /// # Guarantee
    /// True only if the notions are the same, and the amount is at least `asked` in both parts.
    pub fn pays(self, asked: Self) -> bool {
        self.notion == asked.notion
            && asked.nano <= self.nano
            && asked.atto_delta <= self.atto_delta
    }
}

/// Rounds an amount to fewer decimals, if that changes it by at most 20 units. Equal shares of a
/// cost are rounded down, so each share can lose a unit.
fn neat(amount: i64, up: bool) -> i64 {
    const PLACES: i64 = 1000;
    const SHARES: i64 = 20;
    let rest = amount.rem_euclid(PLACES);
    match up {
        _ if amount < PLACES => amount,
        true if rest >= PLACES - SHARES => amount.saturating_add(PLACES - rest),
        false if rest <= SHARES => amount - rest,
        true | false => amount,
    }
}

impl Spend {
    /// A cost rounded for display: 0.999999999 is shown as 1.
    ///
    /// # Guarantee
    /// At least the amount, and at most 20 units more, in ε or ρ and in δ.
    #[must_use]
    #[doc(hidden)]
    pub fn neat_up(self) -> Self {
        Self { nano: self.neat_loss(true), atto_delta: neat(self.atto_delta, true), ..self }
    }

    /// A remaining amount rounded for display: 9.000000001 is shown as 9.
    ///
    /// # Guarantee
    /// At most the amount, and at most 20 units less, in ε or ρ and in δ.
    #[must_use]
    #[doc(hidden)]
    pub fn neat_down(self) -> Self {
        Self { nano: self.neat_loss(false), atto_delta: neat(self.atto_delta, false), ..self }
    }

    /// Coupons are whole numbers, so they stay as they are.
    fn neat_loss(self, up: bool) -> i64 {
        match self.notion {
            Notion::Approximate | Notion::Concentrated => neat(self.nano, up),
            Notion::Coupons => self.nano,
        }
    }
}

impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.notion, self.nano) {
            (Notion::Coupons, 1) => f.write_str("1 coupon")?,
            (Notion::Coupons, coupons) => write!(f, "{coupons} coupons")?,
            (Notion::Approximate | Notion::Concentrated, _) => {
                write!(f, "{} = {}", self.notion.symbol(), self.loss_text())?;
            }
        }
        if self.atto_delta != 0 {
            write!(f, ", δ = {}", self.delta_text())?;
        }
        Ok(())
    }
}

/// The cost of releases, in each notion in which they have one or were charged.
///
/// ```
/// use hushql_privacy::privacy::{Cost, Loss, Notion};
///
/// let cost = Cost::round_up(&Loss::pure(&"0.5".parse()?))?;
/// assert_eq!(cost.within(Notion::Approximate).map(|spend| spend.loss_text()), Some("0.5".to_owned()));
/// # Ok::<(), hushql_privacy::privacy::ParameterError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    approximate: Option<Spend>,
    concentrated: Option<Spend>,
    /// Only where a budget counts coupons; the ledger's entries do not store their number.
    coupons: Option<Spend>,
}

impl Cost {
    /// No cost, in every notion.
    #[doc(hidden)]
    pub const fn zero() -> Self {
        Self {
            approximate: Some(Spend::of_epsilon(0, 0)),
            concentrated: Some(Spend::of_rho(0, 0)),
            coupons: None,
        }
    }

    /// The cost of these amounts: ε with its δ, if there is an ε, and ρ with its δ.
    pub fn from_amounts(epsilon: Option<(i64, i64)>, rho: (i64, i64)) -> Self {
        Self {
            approximate: epsilon.map(|(nano, atto)| Spend::of_epsilon(nano, atto)),
            concentrated: Some(Spend::of_rho(rho.0, rho.1)),
            coupons: None,
        }
    }

    /// The same cost, also in coupons if one of these notions counts them. The coupons have the δ
    /// of the ε.
    pub fn in_coupons(self, coupons: i64, notions: &[Notion]) -> Self {
        let delta = self.approximate.filter(|_| notions.contains(&Notion::Coupons));
        let coupons = delta.map(|spend| Spend::of_coupons(coupons, spend.atto_delta));
        Self { coupons, ..self }
    }

    /// The cost rounded for display, see [`Spend::neat_up`].
    #[must_use]
    #[doc(hidden)]
    pub fn neat(self) -> Self {
        Self {
            approximate: self.approximate.map(Spend::neat_up),
            concentrated: self.concentrated.map(Spend::neat_up),
            coupons: self.coupons.map(Spend::neat_up),
        }
    }

    /// Rounds a loss to the ledger's units.
    ///
    /// # Guarantee
    /// Never less than the loss: every part is rounded toward +∞. A loss without an (ε, δ) has no
    /// cost in that notion.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`] when a part does not fit 63 bits (ε or ρ of 9.2 billion, δ of
    /// 9.2).
    #[doc(hidden)]
    pub fn round_up(loss: &Loss) -> Result<Self, ParameterError> {
        let part = |value: &Rational, places: u32| {
            (value * Rational::from_integer(BigInt::from(10).pow(places)))
                .ceil()
                .to_integer()
                .to_i64()
                .filter(|units| *units >= 0)
                .ok_or(ParameterError::Overflow)
        };
        let approximate = match loss.epsilon().zip(loss.delta()) {
            Some((epsilon, delta)) => Some((part(epsilon, NANO)?, part(delta, ATTO)?)),
            None => None,
        };
        Ok(Self::from_amounts(
            approximate,
            (part(loss.rho(), NANO)?, part(loss.rho_delta(), ATTO)?),
        ))
    }

    /// The sum of two costs.
    ///
    /// # Guarantee
    /// Exact in every notion that both costs have. The sum has an ε, or a ρ, only if both have one.
    /// It has coupons if one of them has.
    ///
    /// # Errors
    /// [`ParameterError::Overflow`].
    #[doc(hidden)]
    pub fn plus(self, other: Self) -> Result<Self, ParameterError> {
        let sum = |a: Option<Spend>, b: Option<Spend>| a.zip(b).map(|(a, b)| a.plus(b)).transpose();
        Ok(Self {
            approximate: sum(self.approximate, other.approximate)?,
            concentrated: sum(self.concentrated, other.concentrated)?,
            coupons: match (self.coupons, other.coupons) {
                (Some(own), Some(other)) => Some(own.plus(other)?),
                (own, other) => own.or(other),
            },
        })
    }

    /// The amount to add to `present` so that the sum is at least this cost; `None` if `present`
    /// already is.
    ///
    /// # Guarantee
    /// In each notion that the sum has, `present` plus the result is at least this cost. The sum
    /// has an ε in two cases: if both have one; or if `present` has one, and its ρ and δ are at
    /// least those of this cost.
    pub fn beyond(self, present: Self) -> Option<Self> {
        let more = |least: Option<Spend>, present: Option<Spend>, zero: Spend| {
            let (least, present) = (least.unwrap_or(zero), present.unwrap_or(zero));
            Spend {
                nano: least.nano.saturating_sub(present.nano).max(0),
                atto_delta: least.atto_delta.saturating_sub(present.atto_delta).max(0),
                ..zero
            }
        };
        let is_something = |spend: &Spend| spend.nano > 0 || spend.atto_delta > 0;
        let rho = more(self.concentrated, present.concentrated, Spend::of_rho(0, 0));
        let epsilon = match (self.approximate, present.approximate) {
            (Some(_), Some(_)) => {
                Some(more(self.approximate, present.approximate, Spend::of_epsilon(0, 0)))
            }
            // The sum has no ε, so nothing can be added to it.
            (Some(_), None) => Some(Spend::of_epsilon(0, 0)),
            (None, Some(_)) if !is_something(&rho) => Some(Spend::of_epsilon(0, 0)),
            (None, _) => None,
        };
        (is_something(&rho) || epsilon.as_ref().is_some_and(is_something)).then_some(Self {
            approximate: epsilon,
            concentrated: Some(rho),
            coupons: None,
        })
    }

    /// The amount in this notion, if the cost has one.
    ///
    /// ```
    /// use hushql_privacy::privacy::{Cost, Loss, Notion};
    ///
    /// let cost = Cost::round_up(&Loss::pure(&"0.5".parse()?))?;
    /// assert_eq!(cost.within(Notion::Approximate).map(|spend| spend.nano), Some(500_000_000));
    /// // It is not paid with coupons.
    /// assert_eq!(cost.within(Notion::Coupons), None);
    /// # Ok::<(), hushql_privacy::privacy::ParameterError>(())
    /// ```
    pub fn within(&self, notion: Notion) -> Option<Spend> {
        match notion {
            Notion::Approximate => self.approximate,
            Notion::Concentrated => self.concentrated,
            Notion::Coupons => self.coupons,
        }
    }

    /// The same cost, restricted to these notions.
    #[doc(hidden)]
    #[must_use]
    pub fn counted_in(self, notions: &[Notion]) -> Self {
        let kept = |spend: Option<Spend>| spend.filter(|spend| notions.contains(&spend.notion));
        Self {
            approximate: kept(self.approximate),
            concentrated: kept(self.concentrated),
            coupons: kept(self.coupons),
        }
    }

    /// ε with its δ, then ρ with its δ, in the ledger's units; `None` for a missing notion.
    pub fn amounts(&self) -> [Option<i64>; 4] {
        let (epsilon, rho) = (self.approximate, self.concentrated);
        [
            epsilon.map(|spend| spend.nano),
            epsilon.map(|spend| spend.atto_delta),
            rho.map(|spend| spend.nano),
            rho.map(|spend| spend.atto_delta),
        ]
    }

    /// The amounts, in the order ε, ρ, coupons.
    ///
    /// ```
    /// use hushql_privacy::privacy::{Cost, Loss, Notion};
    ///
    /// let cost = Cost::round_up(&Loss::pure(&"0.5".parse()?))?.counted_in(&[Notion::Approximate]);
    /// let texts: Vec<String> = cost.parts().map(|spend| spend.to_string()).collect();
    /// assert_eq!(texts, ["ε = 0.5"]);
    /// # Ok::<(), hushql_privacy::privacy::ParameterError>(())
    /// ```
    pub fn parts(&self) -> impl Iterator<Item = Spend> {
        [self.approximate, self.concentrated, self.coupons].into_iter().flatten()
    }

    /// True if every amount is 0, so that nothing is to pay.
    ///
    /// ```
    /// use hushql_privacy::privacy::Cost;
    ///
    /// assert!(Cost::zero().is_nothing());
    /// ```
    pub fn is_nothing(&self) -> bool {
        self.parts().all(|spend| spend.nano == 0 && spend.atto_delta == 0)
    }
}

impl fmt::Display for Cost {
    /// The amounts, separated by commas; a free query costs `ε = 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.parts();
        write!(f, "{}", parts.next().unwrap_or_default())?;
        parts.try_for_each(|spend| write!(f, ", {spend}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::{Delta, Epsilon};

    #[test]
    fn costs_round_up() {
        let cost = |loss: &Loss| Cost::round_up(loss).unwrap();
        let third = Epsilon::new(Rational::new(1.into(), 3.into())).unwrap();
        // A third of tanh(1/6), in 10⁻⁹, rounded up.
        let expected = Cost::from_amounts(Some((333_333_334, 0)), (55_046_805, 0));
        assert_eq!(cost(&Loss::pure(&third)), expected);
        let tiny: Epsilon = "1e-12".parse().unwrap();
        assert_eq!(cost(&Loss::pure(&tiny)), Cost::from_amounts(Some((1, 0)), (1, 0)));
        let delta: Delta = "2.5e-7".parse().unwrap();
        let spend = cost(&Loss::approximate(&tiny, &delta));
        assert_eq!(spend.to_string(), "ε = 0.000000001, δ = 2.5e-7, ρ = 0.000000001, δ = 2.5e-7");
        let only = spend.counted_in(&[Notion::Approximate]);
        assert_eq!(only.to_string(), "ε = 0.000000001, δ = 2.5e-7");
        assert_eq!(Cost::default().to_string(), "ε = 0");
        let rho = cost(&Loss::concentrated(&"0.25".parse().unwrap()));
        assert_eq!(rho.to_string(), "ρ = 0.25");
        assert!(!rho.is_nothing() && Cost::zero().is_nothing() && Cost::default().is_nothing());
    }

    /// A cost is never shown as less than it is, and a remaining amount never as more.
    #[test]
    fn neat_amounts_never_flatter() {
        for (nano, up, down) in [
            (999_999_999, 1_000_000_000, 999_999_999),
            (499_999_998, 500_000_000, 499_999_998),
            (9_000_000_001, 9_000_000_001, 9_000_000_000),
            (333_333_333, 333_333_333, 333_333_333),
            (999_999_979, 999_999_979, 999_999_979),
            (1_000_000_021, 1_000_000_021, 1_000_000_021),
            (999, 999, 999),
            (0, 0, 0),
            (-5, -5, -5),
        ] {
            let spend = Spend::of_epsilon(nano, nano);
            assert_eq!(spend.neat_up(), Spend::of_epsilon(up, up));
            assert_eq!(spend.neat_down(), Spend::of_epsilon(down, down));
            assert!(up >= nano && down <= nano);
        }
    }

    #[test]
    fn notions_are_never_mixed() {
        let (epsilon, rho) = (Spend::of_epsilon(5, 5), Spend::of_rho(1, 0));
        assert_eq!(epsilon.plus(rho), Err(ParameterError::Notion));
        assert!(!epsilon.pays(rho) && epsilon.pays(Spend::of_epsilon(5, 5)));
        assert!(!epsilon.pays(Spend::of_epsilon(6, 0)) && !epsilon.pays(Spend::of_epsilon(0, 6)));
        assert_eq!(epsilon.minus(rho), Spend::of_epsilon(0, 0));
        assert_eq!(epsilon.minus(Spend::of_epsilon(7, 1)), Spend::of_epsilon(0, 0));
        assert_eq!(epsilon.minus(Spend::of_epsilon(0, i64::MAX)), Spend::of_epsilon(0, 0));
        let sum = Cost::zero().plus(Cost::from_amounts(None, (2, 3))).unwrap();
        assert_eq!(
            (sum.within(Notion::Approximate), sum.within(Notion::Concentrated)),
            (None, Some(Spend::of_rho(2, 3)))
        );
        assert_eq!(
            Spend::of_rho(i64::MAX, 0).plus(Spend::of_rho(1, 0)),
            Err(ParameterError::Overflow)
        );
    }
}
