//! Privacy budgets.
//!
//! In: a budget as a program describes it. Out: the declaration that CREATE PRIVACY BUDGET parses
//! to.
//!
//! ```text
//! PrivacyBudget::epsilon("study", "visits", 2.0)
//!     =  CREATE PRIVACY BUDGET study FOR visits LIMIT (epsilon=2)
//! ```

use super::Declaration;
use super::amount::amount;
use super::slice::BudgetSlice;
use crate::catalog::Replay;
use crate::dialect::{
    Accountant, Allowance, Declaration as Parsed, LimitClause, PerQueryClause, Taken,
};
use crate::error::Error;

/// How much may ever be learnt about the people of a table: `CREATE PRIVACY BUDGET`.
///
/// An amount is the shortest decimal that reads as the given float: `0.1` is exactly one tenth.
///
/// ```
/// # use hushql_engine as hushql;
/// use hushql::{Engine, PrivacyBudget};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
/// let engine = Engine::demo()?;
/// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).max_epsilon(0.5);
/// let sentence = engine.owner().declare(budget).await?;
/// assert!(sentence.starts_with("budget study for adult"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PrivacyBudget {
    name: String,
    table: String,
    epsilon: Option<f64>,
    rho: Option<f64>,
    delta: Option<f64>,
    zcdp: bool,
    coupon: Option<f64>,
    thresholds: bool,
    default: Option<f64>,
    default_rho: Option<f64>,
    default_delta: Option<f64>,
    min: Option<f64>,
    min_rho: Option<f64>,
    max: Option<f64>,
    max_rho: Option<f64>,
    max_delta: Option<f64>,
    declared_bounds: Option<bool>,
    min_units: Option<u64>,
    min_units_beta: Option<f64>,
    replay: Replay,
    slices: Vec<BudgetSlice>,
}

impl PrivacyBudget {
    fn new(name: String, table: String) -> Self {
        Self {
            name,
            table,
            epsilon: None,
            rho: None,
            delta: None,
            zcdp: false,
            coupon: None,
            thresholds: true,
            default: None,
            default_rho: None,
            default_delta: None,
            min: None,
            min_rho: None,
            max: None,
            max_rho: None,
            max_delta: None,
            declared_bounds: None,
            min_units: None,
            min_units_beta: None,
            replay: Replay::All,
            slices: Vec::new(),
        }
    }

    /// A budget that counts in ε: `LIMIT (epsilon=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    pub fn epsilon(name: impl Into<String>, table: impl Into<String>, limit: f64) -> Self {
        Self { epsilon: Some(limit), ..Self::new(name.into(), table.into()) }
    }

    /// A budget that counts in ρ, of zero-concentrated differential privacy: `LIMIT (rho=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::rho("study", "adult", 0.5);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    pub fn rho(name: impl Into<String>, table: impl Into<String>, limit: f64) -> Self {
        Self { rho: Some(limit), ..Self::new(name.into(), table.into()) }
    }

    /// The most δ that may ever be spent. The default is 0.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn delta(self, limit: f64) -> Self {
        Self { delta: Some(limit), ..self }
    }

    /// Charges are counted in ρ, so that all together keep the ε and δ of the limit:
    /// `ACCOUNTANT ZCDP`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).zcdp();
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn zcdp(self) -> Self {
        Self { zcdp: true, ..self }
    }

    /// As [`zcdp`](Self::zcdp), but releases that need a δ of their own get none. All of δ then
    /// serves the other releases: `ACCOUNTANT ZCDP (thresholds=0)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6);
    /// let sentence = Engine::demo()?.owner().declare(budget.zcdp_without_thresholds()).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn zcdp_without_thresholds(self) -> Self {
        Self { zcdp: true, thresholds: false, ..self }
    }

    /// Each release uses one coupon and costs at most this ε. There are as many coupons as the ε
    /// and δ of the limit allow for all of them together: `ACCOUNTANT COUPONS (epsilon=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).coupons(0.05);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert_eq!(sentence, "budget study for adult: 78 coupons, δ = 5e-7 left");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn coupons(self, epsilon: f64) -> Self {
        Self { coupon: Some(epsilon), ..self }
    }

    /// As [`coupons`](Self::coupons), but releases that need a δ of their own get none. All of δ
    /// then serves the other releases: `ACCOUNTANT COUPONS (epsilon=…, thresholds=0)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6);
    /// let sentence = Engine::demo()?.owner().declare(budget.coupons_without_thresholds(0.05)).await?;
    /// assert_eq!(sentence, "budget study for adult: 84 coupons left");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn coupons_without_thresholds(self, epsilon: f64) -> Self {
        Self { coupon: Some(epsilon), thresholds: false, ..self }
    }

    /// The ε of a query that states no cost: `PER QUERY (default=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).default_epsilon(0.1);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn default_epsilon(self, epsilon: f64) -> Self {
        Self { default: Some(epsilon), ..self }
    }

    /// The ρ of a query that states no cost: `PER QUERY (default_rho=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::rho("study", "adult", 0.5).default_rho(0.01);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn default_rho(self, rho: f64) -> Self {
        Self { default_rho: Some(rho), ..self }
    }

    /// The δ of a query that states none: `PER QUERY (default_delta=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).default_delta(1e-8);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn default_delta(self, delta: f64) -> Self {
        Self { default_delta: Some(delta), ..self }
    }

    /// The least ε that one query may cost: `PER QUERY (min=…)`.
    ///
    /// It is at least [`Resources::least_epsilon`](crate::Resources::least_epsilon), which holds in
    /// any case.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).min_epsilon(0.01);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn min_epsilon(self, epsilon: f64) -> Self {
        Self { min: Some(epsilon), ..self }
    }

    /// The least ρ that one query may cost: `PER QUERY (min_rho=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::rho("study", "adult", 0.5).min_rho(0.001);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn min_rho(self, rho: f64) -> Self {
        Self { min_rho: Some(rho), ..self }
    }

    /// The most ε that one query may cost: `PER QUERY (max=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).max_epsilon(0.5);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_epsilon(self, epsilon: f64) -> Self {
        Self { max: Some(epsilon), ..self }
    }

    /// The most ρ that one query may cost: `PER QUERY (max_rho=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::rho("study", "adult", 0.5).max_rho(0.1);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_rho(self, rho: f64) -> Self {
        Self { max_rho: Some(rho), ..self }
    }

    /// The most δ that one query may cost: `PER QUERY (max_delta=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).delta(1e-6).max_delta(1e-7);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_delta(self, delta: f64) -> Self {
        Self { max_delta: Some(delta), ..self }
    }

    /// The floor of people: a number of fewer people is NULL, and is shown with a probability of at
    /// most 5 %: `PER QUERY (min_units=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).min_units(10);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn min_units(self, people: u64) -> Self {
        Self { min_units: Some(people), ..self }
    }

    /// The highest probability with which a number of fewer people than the floor is shown:
    /// `PER QUERY (min_units_beta=…)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).min_units(10).min_units_beta(0.01);
    /// let sentence = Engine::demo()?.owner().declare(budget).await?;
    /// assert!(sentence.starts_with("budget study for adult"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn min_units_beta(self, beta: f64) -> Self {
        Self { min_units_beta: Some(beta), ..self }
    }

    /// No query finds bounds: a sum, mean, variance, quantile or extreme without a declared or
    /// written range is refused with HQ007, whoever asks: `PER QUERY (bounds=declared)`.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let engine = Engine::demo()?;
    /// engine.owner().declare(PrivacyBudget::epsilon("strict", "orders", 2.0).declared_bounds()).await?;
    /// assert!(engine.analyst("lab")?.cost("SELECT SUM(order_id) FROM orders").is_err());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn declared_bounds(self) -> Self {
        Self { declared_bounds: Some(true), ..self }
    }

    /// A slice for one analyst: `SLICE analyst LIMIT (…)`. See [`BudgetSlice`].
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql::{BudgetSlice, Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0);
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(budget.slice(BudgetSlice::epsilon("study", "lab", 0.5))).await?;
    /// let states = owner.budgets()?;
    /// let study = states.iter().find(|state| state.budget.name == "study").expect("it was declared");
    /// assert_eq!(study.slices[0].limit.to_string(), "ε = 0.5");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn slice(mut self, slice: BudgetSlice) -> Self {
        self.slices.push(slice);
        self
    }

    /// Whose answers the budget replays, and to whom, at no cost. The default is everyone's to
    /// everyone.
    ///
    /// ```
    /// # use hushql_engine as hushql;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hushql::Error> {
    /// use hushql_vault::catalog::Replay;
    /// use hushql::{Engine, PrivacyBudget};
    ///
    /// let budget = PrivacyBudget::epsilon("study", "adult", 2.0).replay(Replay::Own);
    /// let owner = Engine::demo()?.owner();
    /// owner.declare(budget).await?;
    /// let states = owner.budgets()?;
    /// let study = states.iter().find(|state| state.budget.name == "study").expect("it was declared");
    /// assert_eq!(study.budget.replay, Replay::Own);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn replay(self, replay: Replay) -> Self {
        Self { replay, ..self }
    }

    fn parsed(self) -> Result<Parsed, Error> {
        let allowance = match (amount(self.epsilon)?, amount(self.rho)?) {
            (Some(epsilon), _) => Allowance::Epsilon(epsilon),
            (None, Some(rho)) => Allowance::Rho(rho),
            (None, None) => return Err(Error::Internal),
        };
        let delta = amount(self.delta)?;
        match (&allowance, &delta) {
            (Allowance::Rho(_), _) if self.zcdp => {
                return Err(Error::catalog("a budget in rho adds rho up and needs no zcdp"));
            }
            (Allowance::Epsilon(_), None) if self.zcdp => {
                return Err(Error::catalog("a budget with zcdp needs a delta"));
            }
            (Allowance::Rho(_), _) if self.coupon.is_some() => {
                return Err(Error::catalog("coupons are for a limit in epsilon"));
            }
            (Allowance::Epsilon(_), None) if self.coupon.is_some() => {
                return Err(Error::catalog("a budget with coupons needs a delta"));
            }
            (Allowance::Epsilon(_), Some(_)) if self.zcdp && self.coupon.is_some() => {
                return Err(Error::catalog("a budget has one accountant: zcdp or coupons"));
            }
            _ => {}
        }
        let thresholds = self.thresholds;
        let accountant = match amount(self.coupon)? {
            Some(epsilon) => Accountant::Coupons { epsilon, thresholds },
            None if self.zcdp => Accountant::Zcdp { thresholds },
            None => Accountant::Sums,
        };
        let limit = Box::new(LimitClause { allowance, delta, accountant });
        let per_query = Box::new(PerQueryClause {
            default: amount(self.default)?,
            default_rho: amount(self.default_rho)?,
            default_delta: amount(self.default_delta)?,
            min: amount(self.min)?,
            min_rho: amount(self.min_rho)?,
            max: amount(self.max)?,
            max_rho: amount(self.max_rho)?,
            max_delta: amount(self.max_delta)?,
            declared_bounds: self.declared_bounds,
            min_units: self.min_units,
            min_units_beta: amount(self.min_units_beta)?,
        });
        let (name, table) = (self.name, self.table);
        let replay = self.replay;
        let (spent, slices, taken) = (None, self.slices, Taken::Fail);
        let slices = slices.into_iter().map(BudgetSlice::clause).collect::<Result<_, _>>()?;
        Ok(Parsed::CreateBudget { name, table, limit, per_query, replay, spent, slices, taken })
    }
}

impl From<PrivacyBudget> for Declaration {
    fn from(budget: PrivacyBudget) -> Self {
        Self { parsed: budget.parsed() }
    }
}
