//! What a program that asks by itself may spend, and when a person is asked first.
//!
//! In: the words of an owner, such as `0.1` or `0.1,1e-7`, and of a call. Out: caps, which a
//! session keeps (see [`hushql::Session::with_caps`]).
//!
//! ```text
//! --per-call 0.1 --session 1 --confirm 50     ask(epsilon=0.05)   →  at most ε = 0.05 for this call, ε = 1 a day,
//!                                                                    and a person is asked from ε = 0.5 on
//! ```

use hushql::{ChargeCaps, CostCap, Spend};

/// The δ of a cap on one call that names none, in 10⁻¹⁸: 10⁻⁶.
const DELTA_OF_A_CALL: i64 = 1_000_000_000_000;

/// The δ of a cap on a day that names none, in 10⁻¹⁸: 10⁻⁵.
const DELTA_OF_A_DAY: i64 = 10_000_000_000_000;

/// The limits of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AgentLimits {
    /// The caps of its sessions.
    pub(crate) caps: ChargeCaps,
    /// The percentage of a day's cap from which on a person is asked before each charge.
    pub(crate) confirm: Option<u8>,
}

/// An ε or a ρ with a δ, as an owner writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AmountOf {
    nano: i64,
    atto_delta: Option<i64>,
}

impl AmountOf {
    /// Reads `0.1` or `0.1,1e-6`.
    ///
    /// # Errors
    /// A sentence for anything else, and for more than nine decimals.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (loss, delta) = text.split_once(',').map_or((text, None), |(l, d)| (l, Some(d)));
        let nano = units(loss, 9).filter(|nano| *nano > 0).ok_or_else(|| {
            format!("`{loss}` is no amount: write a number greater than 0 with at most nine decimals, such as 0.1, or 0.1,1e-6 with a delta")
        })?;
        let atto = delta.map(|delta| {
            units(delta, 18).filter(|atto| *atto < 1_000_000_000_000_000_000).ok_or_else(|| {
                format!("`{delta}` is no delta: write a number from 0 to below 1, such as 1e-6")
            })
        });
        Ok(Self { nano, atto_delta: atto.transpose()? })
    }
}

impl AgentLimits {
    /// The limits of these amounts: ε and ρ of a call and of a day.
    pub(crate) fn of(
        call: (Option<AmountOf>, Option<AmountOf>),
        day: (Option<AmountOf>, Option<AmountOf>),
        confirm: Option<u8>,
    ) -> Self {
        let cap = |(epsilon, rho): (Option<AmountOf>, Option<AmountOf>), delta: i64| {
            let of = |amount: AmountOf| (amount.nano, amount.atto_delta.unwrap_or(delta));
            let epsilon = epsilon.map(of).map(|(nano, atto)| Spend::of_epsilon(nano, atto));
            let rho = rho.map(of).map(|(nano, atto)| Spend::of_rho(nano, atto));
            (epsilon.is_some() || rho.is_some()).then_some(CostCap { epsilon, rho })
        };
        let caps = ChargeCaps {
            statement: cap(call, DELTA_OF_A_CALL),
            day: cap(day, DELTA_OF_A_DAY),
            stated: None,
        };
        Self { caps, confirm }
    }

    /// The caps of one call, which spends no more than it names itself: an ε, a ρ, or both. What it
    /// names binds beside the caps of its owner, so naming a ρ lifts no cap on ε.
    pub(super) fn of_a_call(&self, epsilon: Option<i64>, rho: Option<i64>) -> ChargeCaps {
        let own = self.caps.statement;
        let own = (own.and_then(|cap| cap.epsilon), own.and_then(|cap| cap.rho));
        let delta = |first: Option<Spend>, second: Option<Spend>| {
            first.or(second).map_or(DELTA_OF_A_CALL, |cap| cap.atto_delta)
        };
        let stated = CostCap {
            epsilon: epsilon.map(|nano| Spend::of_epsilon(nano, delta(own.0, own.1))),
            rho: rho.map(|nano| Spend::of_rho(nano, delta(own.1, own.0))),
        };
        ChargeCaps { stated: Some(stated), ..self.caps }
    }

    /// The same caps with only the share of a day that needs no consent; `None` if no consent is
    /// ever needed.
    pub(super) fn without_consent(&self, caps: ChargeCaps) -> Option<ChargeCaps> {
        let percent = i64::from(self.confirm?);
        let share = |spend: Spend| Spend {
            nano: spend.nano.saturating_div(100).saturating_mul(percent),
            ..spend
        };
        let day = caps
            .day
            .map(|day| CostCap { epsilon: day.epsilon.map(share), rho: day.rho.map(share) });
        Some(ChargeCaps { day, ..caps })
    }

    /// The limits in words.
    pub(super) fn told(&self) -> String {
        let cap = |cap: Option<CostCap>| {
            let amounts = cap.into_iter().flat_map(|cap| [cap.epsilon, cap.rho]).flatten();
            amounts.map(|amount| amount.to_string()).collect::<Vec<_>>().join(" or ")
        };
        let (call, day) = (cap(self.caps.statement), cap(self.caps.day));
        let one = |amount: &str, of: &str| match amount {
            "" => format!("no limit of its own {of}"),
            amount => format!("at most {amount} {of}"),
        };
        format!("{}, {}", one(&call, "a call"), one(&day, "a day (UTC)"))
    }
}

/// A decimal number that a client or an owner wrote, in units of 10⁻ᵖˡᵃᶜᵉˢ; `None` if it has more
/// decimals, is negative, or does not fit.
pub(super) fn units(text: &str, places: usize) -> Option<i64> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 40 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The number is `digits` · 10^shift units.
    let shift = i32::try_from(places).ok()?.checked_add(exponent)?;
    let shift = shift.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let significant = digits.trim_start_matches('0');
    let kept = if shift < 0 {
        let cut = usize::try_from(shift.unsigned_abs()).ok()?;
        let (kept, rest) = significant.split_at_checked(significant.len().checked_sub(cut)?)?;
        rest.bytes().all(|byte| byte == b'0').then(|| kept.to_owned())?
    } else {
        let zeros = usize::try_from(shift).ok().filter(|zeros| *zeros <= 40)?;
        format!("{significant}{}", "0".repeat(zeros))
    };
    if kept.is_empty() { Some(0) } else { kept.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        for (text, units_of_it) in [
            ("0.1", Some(100_000_000)),
            ("1", Some(1_000_000_000)),
            (" 0.000000001 ", Some(1)),
            ("1e-9", Some(1)),
            ("1.50E2", Some(150_000_000_000)),
            ("0.7", Some(700_000_000)),
            ("0.1000000000", Some(100_000_000)),
            ("0.1000000001", None),
            ("1e-10", None),
            ("0", Some(0)),
            ("", None),
            (".", None),
            ("-1", None),
            ("1e99", None),
            ("1e400000000000", None),
            ("9999999999999", None),
            ("x", None),
            ("0x10", None),
            ("∞", None),
        ] {
            assert_eq!(units(text, 9), units_of_it, "{text}");
        }
        assert_eq!(units("1e-6", 18), Some(1_000_000_000_000));
    }

    #[test]
    fn a_call_spends_no_more_than_its_owner_allows_and_itself_names() {
        let amount = |text| Some(AmountOf::read(text).unwrap());
        let limits = AgentLimits::of((amount("0.1"), None), (amount("1,1e-7"), None), Some(50));
        let epsilon = |nano| Some(Spend::of_epsilon(nano, DELTA_OF_A_CALL));
        let rho = |nano| Some(Spend::of_rho(nano, DELTA_OF_A_CALL));
        for (named, stated) in [
            ((Some(50_000_000), None), CostCap { epsilon: epsilon(50_000_000), rho: None }),
            ((Some(500_000_000), None), CostCap { epsilon: epsilon(500_000_000), rho: None }),
            ((None, Some(1)), CostCap { epsilon: None, rho: rho(1) }),
        ] {
            let caps = limits.of_a_call(named.0, named.1);
            // The owner's cap stands, whatever is named.
            assert_eq!(caps.statement, limits.caps.statement);
            assert_eq!(caps.stated, Some(stated));
        }
        let caps = limits.of_a_call(Some(1), None);
        let day = limits.without_consent(caps).unwrap().day.unwrap();
        assert_eq!(day.epsilon, Some(Spend::of_epsilon(500_000_000, 100_000_000_000)));
        let free = AgentLimits::default().of_a_call(Some(7), Some(8)).stated.unwrap();
        assert_eq!((free.epsilon.unwrap().nano, free.rho.unwrap().nano), (7, 8));
        assert_eq!(AgentLimits::default().without_consent(caps), None);
        assert_eq!(
            limits.told(),
            "at most ε = 0.1, δ = 1e-6 a call, at most ε = 1, δ = 1e-7 a day (UTC)"
        );
        for wrong in ["", "0", "-1", "0.1,1", "0.1,x", "eps=1", "0.0000000001"] {
            assert!(AmountOf::read(wrong).is_err(), "{wrong}");
        }
    }
}
