//! The spending of budgets, day by day.
//!
//! In: an analyst's or the owner's session. Out: an amount for each budget and each day with a
//! charge.

use std::collections::BTreeMap;

use chrono::DateTime;

use crate::engine::session::Session;
use crate::error::Error;
use crate::privacy::Spend;

/// The spending of a budget on one day.
///
/// ```
/// # use hushql_engine as hushql;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let session = hushql::Engine::demo()?.analyst("lab")?;
/// session.query("SELECT LAPLACE(eps=0.5) COUNT(*) FROM adult").await?;
/// let days = session.spending()?;
/// assert_eq!((days[0].budget.as_str(), days[0].spent.to_string().as_str()), ("adult", "ε = 0.5"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaySpending {
    /// The budget.
    pub budget: String,
    /// The day (UTC), such as `2026-03-01`.
    pub day: String,
    /// The amount, in the notion that the budget counts in.
    pub spent: Spend,
}

impl Session {
    /// The spending of each budget on each day, by budget and day. If a budget has slices, an
    /// analyst sees only their own share. Charges without a time, from programs that stored none,
    /// are left out.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// let session = hushql::Engine::demo()?.analyst("lab")?;
    /// assert!(session.spending()?.is_empty());
    /// # Ok::<(), hushql::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Ledger`] when the vault cannot be read.
    pub fn spending(&self) -> Result<Vec<DaySpending>, Error> {
        self.told(self.spent_by_day())
    }

    fn spent_by_day(&self) -> Result<Vec<DaySpending>, Error> {
        let vault = &self.inner.vault;
        let states = vault.budgets_for(&self.analyst)?;
        let mut sums: BTreeMap<(String, i64), Spend> = BTreeMap::new();
        for one in vault.spent_by_day(&states, &self.analyst)? {
            let zero = Spend { nano: 0, atto_delta: 0, ..one.spend };
            let sum = sums.entry((one.budget, one.day)).or_insert(zero);
            *sum = sum.plus(one.spend)?;
        }
        let spent = sums.into_iter().map(|((budget, day), spent)| {
            let day = DateTime::from_timestamp(day.saturating_mul(86_400), 0).unwrap_or_default();
            DaySpending { budget, day: day.date_naive().to_string(), spent }
        });
        Ok(spent.collect())
    }
}
