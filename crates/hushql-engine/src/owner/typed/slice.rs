//! Slices of privacy budgets.
//!
//! In: a slice as a program describes it. Out: the declaration that ALTER PRIVACY BUDGET parses to,
//! or the SLICE of a CREATE.
//!
//! ```text
//! BudgetSlice::epsilon("research", "lab", 3.0)
//!     =  ALTER PRIVACY BUDGET research ADD SLICE lab LIMIT (epsilon=3)
//! ```

use super::Declaration;
use super::amount::amount;
use crate::dialect::{
    Declaration as Parsed, SliceAlteration, SliceAmount, SliceClause, SliceLimit,
};
use crate::error::Error;

/// How much one analyst may spend of a privacy budget, whatever others spend:
/// `ALTER PRIVACY BUDGET … ADD SLICE`.
///
/// A slice counts in the notion of its budget. An amount is the shortest decimal that reads as the
/// given float.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{BudgetSlice, Engine};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let owner = Engine::demo()?.owner();
/// let sentence = owner.declare(BudgetSlice::epsilon("adult", "lab", 3.0)).await?;
/// assert!(sentence.starts_with("budget adult: slice lab has ε = 3 left"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct BudgetSlice {
    budget: String,
    analyst: String,
    amount: Amount,
    delta: Option<f64>,
    change: Change,
}

#[derive(Debug, Clone, Copy)]
enum Amount {
    Epsilon(f64),
    Rho(f64),
    Coupons(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    SetLimit,
    Drop,
}

impl BudgetSlice {
    fn new(budget: String, analyst: String, amount: Amount) -> Self {
        Self { budget, analyst, amount, delta: None, change: Change::Add }
    }

    /// A slice of a budget that counts in ε: `LIMIT (epsilon=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(BudgetSlice::epsilon("adult", "lab", 3.0)).await?;
    /// # Ok(()) }
    /// ```
    pub fn epsilon(budget: impl Into<String>, analyst: impl Into<String>, limit: f64) -> Self {
        Self::new(budget.into(), analyst.into(), Amount::Epsilon(limit))
    }

    /// A slice of a budget that counts in ρ, with `ACCOUNTANT ZCDP`, too: `LIMIT (rho=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine, PrivacyBudget};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(PrivacyBudget::rho("curve", "adult", 1.0)).await?;
    /// owner.declare(BudgetSlice::rho("curve", "lab", 0.5)).await?;
    /// # Ok(()) }
    /// ```
    pub fn rho(budget: impl Into<String>, analyst: impl Into<String>, limit: f64) -> Self {
        Self::new(budget.into(), analyst.into(), Amount::Rho(limit))
    }

    /// A slice of a budget that counts coupons: `LIMIT (coupons=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine, PrivacyBudget};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(PrivacyBudget::epsilon("few", "adult", 2.0).delta(1e-6).coupons(0.05)).await?;
    /// owner.declare(BudgetSlice::coupons("few", "lab", 20)).await?;
    /// # Ok(()) }
    /// ```
    pub fn coupons(budget: impl Into<String>, analyst: impl Into<String>, limit: u32) -> Self {
        Self::new(budget.into(), analyst.into(), Amount::Coupons(limit))
    }

    /// The most δ that may ever be spent. The default is 0.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.execute("ALTER PRIVACY BUDGET adult SET LIMIT (epsilon=10, delta=1e-6)").await?;
    /// owner.declare(BudgetSlice::epsilon("adult", "lab", 3.0).delta(1e-7)).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn delta(self, limit: f64) -> Self {
        Self { delta: Some(limit), ..self }
    }

    /// Changes the limit of the analyst's existing slice: `ALTER SLICE … SET LIMIT (…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(BudgetSlice::epsilon("adult", "lab", 3.0)).await?;
    /// let sentence = owner.declare(BudgetSlice::epsilon("adult", "lab", 4.0).resized()).await?;
    /// assert!(sentence.starts_with("budget adult: slice lab has ε = 4 left"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn resized(self) -> Self {
        Self { change: Change::SetLimit, ..self }
    }

    /// Drops the analyst's slice: `DROP SLICE`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// use hushql::{BudgetSlice, Engine};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(BudgetSlice::epsilon("adult", "lab", 3.0)).await?;
    /// owner.declare(BudgetSlice::dropped("adult", "lab")).await?;
    /// # Ok(()) }
    /// ```
    pub fn dropped(budget: impl Into<String>, analyst: impl Into<String>) -> Self {
        let slice = Self::new(budget.into(), analyst.into(), Amount::Coupons(1));
        Self { change: Change::Drop, ..slice }
    }

    fn limit(&self) -> Result<SliceLimit, Error> {
        let amount_of = match self.amount {
            Amount::Epsilon(epsilon) => amount(Some(epsilon))?.map(SliceAmount::Epsilon),
            Amount::Rho(rho) => amount(Some(rho))?.map(SliceAmount::Rho),
            Amount::Coupons(0) => return Err(Error::catalog("a slice has at least one coupon")),
            Amount::Coupons(coupons) => Some(SliceAmount::Coupons(coupons)),
        };
        let amount_of = amount_of.ok_or(Error::Internal)?;
        Ok(SliceLimit { amount: amount_of, delta: amount(self.delta)? })
    }

    /// The slice as a clause of a new budget. The budget's name in it is ignored.
    pub(super) fn clause(self) -> Result<SliceClause, Error> {
        if self.change != Change::Add {
            return Err(Error::catalog("a new budget has new slices"));
        }
        Ok(SliceClause { limit: self.limit()?, analyst: self.analyst, spent: None })
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let change = match self.change {
            Change::Add => SliceAlteration::Add(self.limit()?),
            Change::SetLimit => SliceAlteration::SetLimit(self.limit()?),
            Change::Drop => SliceAlteration::Drop,
        };
        Ok(Parsed::AlterSlice { budget: self.budget, analyst: self.analyst, change })
    }
}

impl From<BudgetSlice> for Declaration {
    fn from(slice: BudgetSlice) -> Self {
        Self { parsed: slice.parsed() }
    }
}
