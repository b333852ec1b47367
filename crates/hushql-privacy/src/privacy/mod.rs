//! The quantities of privacy: ε, δ and ρ, their exact arithmetic, and the integers that a ledger
//! stores.
//!
//! Text and rationals go in, checked newtypes come out. There are no floats: a parameter is exactly
//! the decimal that the analyst wrote, and a vault stores integers rounded *up*.
//!
//! ```
//! use hushql_privacy::privacy::{Cost, Epsilon, Loss};
//!
//! let epsilon: Epsilon = "0.1".parse()?;
//! let loss = Loss::pure(&epsilon).plus(&Loss::pure(&epsilon));
//! assert_eq!(Cost::round_up(&loss)?.to_string(), "ε = 0.2, ρ = 0.009991675");
//! # Ok::<(), hushql_privacy::privacy::ParameterError>(())
//! ```

pub mod enclosure;
mod loss;
pub mod posterior;
mod spend;
mod tally;

use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use thiserror::Error;

pub use loss::{Loss, Selecting};
pub use spend::{Cost, Notion, Spend};
pub use tally::Tally;

/// An exact rational number; every privacy parameter, scale and bound is one.
pub type Rational = num_rational::BigRational;

/// The ledger counts ε and ρ in units of 10^−9.
const NANO: u32 = 9;
/// The ledger counts δ in units of 10^−18.
const ATTO: u32 = 18;

/// Why a number is not a privacy parameter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The text is not a finite decimal number.
    #[error("`{0}` is not a finite decimal number")]
    NotANumber(String),
    /// ε is out of range.
    #[error("epsilon must be greater than 0, at least 1e-12 and at most 1000000")]
    Epsilon,
    /// ρ is out of range.
    #[error("rho must be greater than 0, at least 1e-12 and at most 1000000")]
    Rho,
    /// δ is outside (0, 1).
    #[error("delta must lie strictly between 0 and 1, and be at least 1e-18")]
    Delta,
    /// The amount does not fit the ledger's integers.
    #[error("the cost does not fit the ledger")]
    Overflow,
    /// An amount of ε and an amount of ρ cannot be added.
    #[error("amounts of epsilon and rho cannot be added")]
    Notion,
}

/// Reads a decimal such as `0.5`, `1e-6` or `-3` exactly.
///
/// Returns `None` for anything else (`NaN`, `inf`, hexadecimal, more than 60 digits, exponents
/// beyond ±40).
pub fn parse_decimal(text: &str) -> Option<Rational> {
    let text = text.trim();
    if text.len() > 60 {
        return None;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (-BigInt::one(), rest),
        None => (BigInt::one(), mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let digits_only = !all.is_empty() && all.bytes().all(|b| b.is_ascii_digit());
    if !digits_only || exponent.unsigned_abs() > 40 {
        return None;
    }
    let mut value = Rational::from_integer(sign * all.parse::<BigInt>().ok()?);
    let shift = exponent - i32::try_from(fraction.len()).ok()?;
    let power = Rational::from_integer(BigInt::from(10).pow(shift.unsigned_abs()));
    if shift < 0 {
        value /= power;
    } else {
        value *= power;
    }
    Some(value)
}

/// Writes a rational as a decimal: exactly if it has at most `digits` places, otherwise rounded
/// half away from zero.
pub fn decimal_text(value: &Rational, digits: u32) -> String {
    let scaled =
        (value * Rational::from_integer(BigInt::from(10).pow(digits))).round().to_integer();
    let sign = if scaled.is_negative() { "-" } else { "" };
    let width = digits as usize + 1;
    let text = format!("{:0>width$}", scaled.abs().to_string());
    let (whole, fraction) = text.split_at(text.len() - digits as usize);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A privacy loss ε of one release: a rational in [10⁻¹², 10⁶].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epsilon(Rational);

impl Epsilon {
    /// Checks the range.
    ///
    /// # Errors
    /// [`ParameterError::Epsilon`] outside [10⁻¹², 10⁶].
    pub fn new(value: Rational) -> Result<Self, ParameterError> {
        let least = Rational::new(BigInt::one(), BigInt::from(10).pow(12));
        let most = Rational::from_integer(BigInt::from(1_000_000));
        if value < least || value > most { Err(ParameterError::Epsilon) } else { Ok(Self(value)) }
    }

    /// The exact value.
    pub fn value(&self) -> &Rational {
        &self.0
    }

    /// This loss shared equally by `parts` releases, in whole units of the ledger.
    ///
    /// # Guarantee
    /// The shares add up to no more than this loss, even after each is rounded for the ledger: a
    /// share is rounded down to 10⁻⁹.
    ///
    /// # Errors
    /// [`ParameterError::Epsilon`] when a share is below 10⁻⁹, or `parts` is 0.
    pub fn share(&self, parts: usize) -> Result<Self, ParameterError> {
        match parts {
            0 => Err(ParameterError::Epsilon),
            1 => Ok(self.clone()),
            parts => Self::new(share_down(&self.0, parts, NANO)),
        }
    }
}

impl FromStr for Epsilon {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(parse_decimal(text).ok_or_else(|| ParameterError::NotANumber(text.to_owned()))?)
    }
}

impl fmt::Display for Epsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal_text(&self.0, 12))
    }
}

/// A failure probability δ: a rational in [10⁻¹⁸, 1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delta(Rational);

impl Delta {
    /// Checks the range.
    ///
    /// # Errors
    /// [`ParameterError::Delta`] outside [10⁻¹⁸, 1).
    pub fn new(value: Rational) -> Result<Self, ParameterError> {
        let least = Rational::new(BigInt::one(), BigInt::from(10).pow(ATTO));
        if value < least || value >= Rational::one() {
            Err(ParameterError::Delta)
        } else {
            Ok(Self(value))
        }
    }

    /// The exact value.
    pub fn value(&self) -> &Rational {
        &self.0
    }

    /// This δ shared equally by `parts` releases, in whole units of the ledger.
    ///
    /// # Guarantee
    /// The shares add up to no more than this δ: a share is rounded down to 10⁻¹⁸.
    ///
    /// # Errors
    /// [`ParameterError::Delta`] when a share is below 10⁻¹⁸, or `parts` is 0.
    pub fn share(&self, parts: usize) -> Result<Self, ParameterError> {
        match parts {
            0 => Err(ParameterError::Delta),
            1 => Ok(self.clone()),
            parts => Self::new(share_down(&self.0, parts, ATTO)),
        }
    }
}

impl FromStr for Delta {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(parse_decimal(text).ok_or_else(|| ParameterError::NotANumber(text.to_owned()))?)
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scientific(&self.0))
    }
}

/// A concentrated loss ρ of one release: a rational in [10⁻¹², 10⁶].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rho(Rational);

impl Rho {
    /// Checks the range.
    ///
    /// # Errors
    /// [`ParameterError::Rho`] outside [10⁻¹², 10⁶].
    pub fn new(value: Rational) -> Result<Self, ParameterError> {
        Epsilon::new(value).map(|Epsilon(value)| Self(value)).map_err(|_| ParameterError::Rho)
    }

    /// The exact value.
    pub fn value(&self) -> &Rational {
        &self.0
    }

    /// This loss shared equally by `parts` releases, in whole units of the ledger.
    ///
    /// # Guarantee
    /// The shares add up to no more than this loss: a share is rounded down to 10⁻⁹.
    ///
    /// # Errors
    /// [`ParameterError::Rho`] when a share is below 10⁻⁹, or `parts` is 0.
    pub fn share(&self, parts: usize) -> Result<Self, ParameterError> {
        let share = Epsilon(self.0.clone()).share(parts);
        share.map(|Epsilon(value)| Self(value)).map_err(|_| ParameterError::Rho)
    }

    /// The largest ε that `draws` draws can share at this ρ; see [`Selecting::rho`].
    ///
    /// # Guarantee
    /// A multiple of 10⁻⁹, or ρ itself, whose ρ is at most this one: each ε that the search keeps
    /// was compared. The search begins between √(2kρ) and ρ + √(8kρ), because ε·ε/(2k + ε) ≤
    /// ε·tanh(ε/2k) ≤ ε²/2k.
    ///
    /// # Errors
    /// [`ParameterError::Epsilon`] when it is out of range.
    pub fn epsilon(&self, selecting: Selecting, draws: u64) -> Result<Epsilon, ParameterError> {
        let units = BigInt::from(10).pow(NANO);
        let epsilon = |nano: &BigInt| Rational::new(nano.clone(), units.clone());
        let root = |divisor: u8| {
            let square = &self.0 * Rational::from_integer(divisor * BigInt::from(draws.max(1)));
            (square * Rational::from_integer(&units * &units)).floor().to_integer().sqrt()
        };
        let fits = |nano: &BigInt| selecting.rho(&epsilon(nano), draws) <= self.0;
        let mut within = match selecting {
            Selecting::Pure => root(2),
            Selecting::BoundedRange => root(8),
        };
        let whole = (&self.0 * Rational::from_integer(units.clone())).floor().to_integer();
        let mut beyond = whole + root(8) + BigInt::from(2);
        while &beyond - &within > BigInt::one() {
            let middle: BigInt = (&within + &beyond) / 2;
            if fits(&middle) {
                within = middle;
            } else {
                beyond = middle;
            }
        }
        Epsilon::new(epsilon(&within).max(self.0.clone()))
    }
}

impl FromStr for Rho {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(parse_decimal(text).ok_or_else(|| ParameterError::NotANumber(text.to_owned()))?)
    }
}

impl fmt::Display for Rho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal_text(&self.0, 12))
    }
}

/// One of `parts` equal shares, rounded down to a whole unit of 10^−places.
fn share_down(whole: &Rational, parts: usize, places: u32) -> Rational {
    let units = Rational::from_integer(BigInt::from(10).pow(places));
    (whole * &units / Rational::from_integer(BigInt::from(parts))).floor() / units
}

/// A small number in scientific notation, exact up to 18 significant digits: `1e-6`, `2.5e-7`, `0`.
fn scientific(value: &Rational) -> String {
    if value.is_zero() {
        return "0".to_owned();
    }
    let ten = Rational::from_integer(BigInt::from(10));
    let (mut mantissa, mut exponent) = (value.abs(), 0_i32);
    while mantissa < Rational::one() {
        mantissa *= &ten;
        exponent -= 1;
    }
    while mantissa >= ten {
        mantissa /= &ten;
        exponent += 1;
    }
    let sign = if value.is_negative() { "-" } else { "" };
    match exponent {
        -2..=2 => decimal_text(value, 18),
        _ => format!("{sign}{}e{exponent}", decimal_text(&mantissa, 17)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nano(loss: &Loss) -> i64 {
        Cost::round_up(loss).unwrap().within(Notion::Approximate).unwrap().nano
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse_decimal("0.1"), Some(Rational::new(1.into(), 10.into())));
        assert_eq!(parse_decimal("1e-6"), Some(Rational::new(1.into(), 1_000_000.into())));
        assert_eq!(parse_decimal("-2.50"), Some(Rational::new((-5).into(), 2.into())));
        for bad in ["", "-", ".", "NaN", "inf", "1e999", "0x10", "1_000", "1e", "--1", "1.2.3"] {
            assert_eq!(parse_decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        for bad in ["0", "-1", "1e-13", "1000001", "NaN"] {
            assert!(bad.parse::<Epsilon>().is_err(), "{bad}");
        }
        for bad in ["0", "1", "2", "-0.1", "1e-19"] {
            assert!(bad.parse::<Delta>().is_err(), "{bad}");
        }
        assert_eq!("0.10".parse::<Epsilon>().map(|e| e.to_string()), Ok("0.1".to_owned()));
        assert_eq!("1e-6".parse::<Delta>().map(|d| d.to_string()), Ok("1e-6".to_owned()));
    }

    /// Three thirds of 1 were once charged as 1.000000002, which exceeded a limit of 1 per query.
    #[test]
    fn shares_never_add_up_to_more_than_the_whole() {
        let one: Epsilon = "1".parse().unwrap();
        for parts in 1..50 {
            let share = nano(&Loss::pure(&one.share(parts).unwrap()));
            assert!(share * i64::try_from(parts).unwrap() <= 1_000_000_000, "{parts}");
        }
        assert!(one.share(0).is_err());
        assert!("1e-9".parse::<Epsilon>().unwrap().share(2).is_err());
    }

    /// A share of ρ, and the ε that a share of ρ allows, cost no more than the share.
    #[test]
    fn rho_buys_no_more_than_it_is() {
        use Selecting::{BoundedRange, Pure};
        let cases = [
            ("0.1", BoundedRange, 1, "0.89442719"),
            ("0.5", Pure, 1, "1.043626895"),
            ("1e-9", BoundedRange, 1, "0.000089442"),
            ("700", Pure, 1, "700"),
            ("3", BoundedRange, 3, "8.485281374"),
            ("3", Pure, 3, "4.630213915"),
        ];
        for (text, selecting, draws, expected) in cases {
            let rho: Rho = text.parse().unwrap();
            let epsilon = rho.epsilon(selecting, draws).unwrap();
            assert!(epsilon.to_string().starts_with(expected), "{text} {selecting:?} {epsilon}");
            assert!(selecting.rho(epsilon.value(), draws) <= *rho.value(), "{text} {selecting:?}");
            // The next larger ε costs too much.
            let more = epsilon.value() + Rational::new(1.into(), BigInt::from(10).pow(NANO));
            assert!(selecting.rho(&more, draws) > *rho.value(), "{text} {selecting:?}");
        }
        for bad in ["0", "-1", "1e-13", "1000001", "NaN"] {
            assert!(bad.parse::<Rho>().is_err(), "{bad}");
        }
        assert_eq!("0.3".parse::<Rho>().unwrap().share(3).unwrap().to_string(), "0.1");
    }
}
