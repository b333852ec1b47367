//! The most that one analyst may be charged for a statement and on a day, beside the budgets.
//!
//! In: the caps of a session, and the cost of a statement. Out: a refusal of a statement that costs
//! more. A session with caps belongs to a program that asks by itself. The sums are those of the
//! ledger, so another session of the same analyst with the same caps does not begin anew.
//!
//! ```text
//! caps: ε = 0.1 per statement, ε = 1 per day     charged today: ε = 0.95
//! asked: ε = 0.1                                 refused: only ε = 0.05 is left today
//! ```

use hushql_privacy::privacy::{Cost, Notion, Spend};
use rusqlite::{Connection, params};

use crate::ledger::error::{Fault, VaultError};
use crate::ledger::records::time;

/// The caps of a session. Without a cap, budgets alone limit what it spends.
///
/// ```
/// use hushql_privacy::privacy::Spend;
/// use hushql_vault::ledger::{ChargeCaps, CostCap};
///
/// let epsilon = |nano| CostCap { epsilon: Some(Spend::of_epsilon(nano, 0)), rho: None };
/// let caps = ChargeCaps {
///     statement: Some(epsilon(100_000_000)),
///     day: Some(epsilon(1_000_000_000)),
///     ..ChargeCaps::default()
/// };
/// assert_ne!(caps, ChargeCaps::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChargeCaps {
    /// The most that one statement may cost.
    pub statement: Option<CostCap>,
    /// The most that whoever asks says that this statement may cost. It binds beside `statement`,
    /// and in its own notion: naming a ρ does not turn an ε of the owner's into a ρ.
    pub stated: Option<CostCap>,
    /// The most that all statements of the analyst on one day (UTC) may cost, those of other
    /// sessions included.
    pub day: Option<CostCap>,
}

/// The most that some charges may cost together. A charge with an (ε, δ) counts as this pair if the
/// cap has an ε. Every other charge counts as its ρ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostCap {
    /// The largest ε, with the largest δ.
    pub epsilon: Option<Spend>,
    /// The largest ρ, with the largest δ.
    pub rho: Option<Spend>,
}

impl CostCap {
    /// What a cost counts as, with the limit; `None` if this cap has no limit in its notion.
    fn counted(&self, cost: &Cost) -> Option<(Spend, Spend)> {
        let within = |limit: Option<Spend>, notion| Some((cost.within(notion)?, limit?));
        within(self.epsilon, Notion::Approximate).or_else(|| within(self.rho, Notion::Concentrated))
    }

    /// Refuses a cost that exceeds what is left after these costs.
    ///
    /// # Guarantee
    /// `Ok` only if the cost counts as an ε or a ρ, and its sum with all earlier costs that count
    /// as the same is at most the limit, in both parts.
    fn check(&self, spent: &[Cost], asked: &Cost, a_day: bool) -> Result<(), Fault> {
        let Some((asked, most)) = self.counted(asked) else {
            return Err(VaultError::CapWithoutRho.into());
        };
        let mut left = most;
        let alike = spent.iter().filter_map(|cost| self.counted(cost));
        let alike = alike.map(|(spent, _)| spent).filter(|spent| spent.notion == most.notion);
        let mut sum = Spend { nano: 0, atto_delta: 0, ..most };
        for spent in alike {
            sum = sum.plus(spent)?;
            left = most.minus(sum);
        }
        match left.pays(asked) {
            true => Ok(()),
            false => Err(VaultError::OverCap { asked, most, left, a_day, template: None }.into()),
        }
    }
}

/// Refuses a cost above the caps of the session that asks.
///
/// # Guarantee
/// `Ok` only if the cost is at most each cap of a statement, and its sum with the analyst's charges
/// of this day (UTC) is at most the cap of a day. A charge calls this in its own transaction, so no
/// other charge comes in between.
///
/// # Errors
/// [`VaultError::OverCap`] and [`VaultError::CapWithoutRho`].
pub(super) fn check(
    connection: &Connection,
    caps: &ChargeCaps,
    analyst: &str,
    asked: &Cost,
) -> Result<(), Fault> {
    for cap in [caps.statement, caps.stated].into_iter().flatten() {
        cap.check(&[], asked, false)?;
    }
    match caps.day {
        Some(cap) => cap.check(&charged_since(connection, analyst, time::today()?)?, asked, true),
        None => Ok(()),
    }
}

/// The costs of an analyst's entries since a moment, in seconds since 1970.
fn charged_since(connection: &Connection, analyst: &str, since: i64) -> Result<Vec<Cost>, Fault> {
    // The clock may have been put back a little between two entries.
    const SLACK: i64 = 86_400;
    let mut statement = connection.prepare_cached(
        "SELECT at, epsilon_nano, delta_atto, rho_nano, rho_delta_atto FROM ledger
         WHERE analyst = ?1 ORDER BY sequence DESC",
    )?;
    let mut rows = statement.query(params![analyst])?;
    let mut costs = Vec::new();
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(0)?;
        if at < since.saturating_sub(SLACK) {
            break;
        }
        if at < since {
            continue;
        }
        let (epsilon, delta): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        let rho = (row.get(3)?, row.get(4)?);
        costs.push(Cost::from_amounts(epsilon.zip(delta), rho));
    }
    Ok(costs)
}
