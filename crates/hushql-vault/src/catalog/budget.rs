//! A budget: how much may be spent on the people of one unit domain, and on a single query.
//!
//! In: the owner's declaration. Out: plain data that does not contradict itself
//! ([`Budget::check`]).
//!
//! ```
//! use hushql_vault::catalog::{Budget, PerQuery, Replay};
//! use hushql_privacy::privacy::Spend;
//!
//! let budget = Budget {
//!     name: "research".to_owned(),
//!     table: "adult".to_owned(),
//!     limit: Spend::of_epsilon(10_000_000_000, 0),
//!     promise: None,
//!     coupon: None,
//!     per_query: PerQuery { default: Some(100_000_000), ..PerQuery::default() },
//!     replay: Replay::All,
//! };
//! assert!(budget.check().is_ok());
//! ```

use hushql_privacy::privacy::{Cost, Notion, Spend, Tally};

use super::accounting::rho_of;
use super::name::check_name;
use super::privacy_floor::PrivacyFloor;
use super::{CatalogError, Replay};

/// How much all analysts together may spend on the people of one unit domain, in all of their
/// tables.
///
/// ```
/// use hushql_privacy::privacy::Spend;
/// use hushql_vault::catalog::{Budget, PerQuery, Replay};
///
/// let budget = Budget {
///     name: "research".to_owned(),
///     table: "adult".to_owned(),
///     limit: Spend::of_epsilon(10_000_000_000, 0),
///     promise: None,
///     coupon: None,
///     per_query: PerQuery::default(),
///     replay: Replay::All,
/// };
/// assert_eq!(format!("{}: {} at most", budget.name, budget.limit), "research: ε = 10 at most");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: String,
    /// The table that it was declared for. The budget covers the table's whole unit domain.
    pub table: String,
    /// The most that may ever be spent. Its notion is the measure in which the budget counts.
    pub limit: Spend,
    /// The (ε, δ) from which `ACCOUNTANT ZCDP` derived the limit, which is then a ρ; or from which
    /// `ACCOUNTANT COUPONS` derived it.
    pub promise: Option<Spend>,
    /// The ε of a coupon, in 10⁻⁹, if the budget counts coupons: the highest cost of one release.
    pub coupon: Option<i64>,
    /// The default, minimum and maximum cost of one query.
    pub per_query: PerQuery,
    /// Whose answers it replays to whom, at no cost.
    pub replay: Replay,
}

/// The default, minimum and maximum cost of one query: ε and ρ in 10⁻⁹, δ in 10⁻¹⁸.
///
/// ```
/// use hushql_privacy::privacy::Spend;
/// use hushql_vault::catalog::PerQuery;
///
/// let per_query = PerQuery { max: Some(500_000_000), ..PerQuery::default() };
/// assert!(per_query.allows(Spend::of_epsilon(500_000_000, 0)));
/// assert!(!per_query.allows(Spend::of_epsilon(500_000_001, 0)));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerQuery {
    /// The ε of a query that does not name one.
    pub default: Option<i64>,
    /// The ρ of a query that does not name one.
    pub default_rho: Option<i64>,
    /// The δ of a query that does not name one.
    pub default_delta: Option<i64>,
    /// The minimum cost of one query, in the measure of the budget.
    pub min: Option<i64>,
    /// The maximum cost of one query, in the measure of the budget.
    pub max: Option<i64>,
    /// The maximum δ of one query.
    pub max_delta: Option<i64>,
    /// True if ranges must be declared or written: no release buys a range that it lacks.
    pub declared_bounds: bool,
    /// The floor: the fewest people behind a number that may be shown.
    pub min_units: Option<i64>,
    /// The highest probability, in 10⁻¹⁸, with which a number of fewer people is shown.
    pub min_units_beta: Option<i64>,
}

impl PerQuery {
    /// True if a cost, in the measure of the budget, reaches the minimum cost of one query.
    #[doc(hidden)]
    pub fn is_reached_by(&self, asked: Spend) -> bool {
        self.min.is_none_or(|min| asked.nano >= min)
    }

    /// True if a cost, in the measure of the budget, stays within the maximum cost of one query.
    #[doc(hidden)]
    pub fn allows(&self, asked: Spend) -> bool {
        self.max.is_none_or(|max| asked.nano <= max)
            && self.max_delta.is_none_or(|max| asked.atto_delta <= max)
    }

    /// The highest cost of a query that names none, in this notion. An ε is converted to the ρ of a
    /// pure release, or is paid with one coupon.
    #[doc(hidden)]
    pub fn default_in(&self, notion: Notion) -> Option<i64> {
        match notion {
            Notion::Approximate => self.default,
            Notion::Concentrated => self.default.map(rho_of).or(self.default_rho),
            Notion::Coupons => self.default.map(|_| 1),
        }
    }

    /// The floor of people, if the budget sets one.
    pub fn floor(&self) -> Option<PrivacyFloor> {
        let people = u64::try_from(self.min_units?).ok()?;
        let atto_beta = self.min_units_beta.unwrap_or(PrivacyFloor::DEFAULT_BETA);
        Some(PrivacyFloor { people, atto_beta })
    }

    /// The minimum cost of one query, if the budget sets one.
    #[doc(hidden)]
    pub fn least(&self, notion: Notion) -> Option<Spend> {
        self.min.map(|nano| Spend { notion, nano, atto_delta: 0 })
    }

    /// The maximum cost of one query as text, such as `ε = 1, δ = 1e-6`, or `anything`.
    #[doc(hidden)]
    pub fn most_text(&self, notion: Notion) -> String {
        let spend = |nano: i64, atto_delta: i64| Spend { notion, nano, atto_delta };
        let most =
            self.max.map(|nano| format!("{} = {}", notion.symbol(), spend(nano, 0).loss_text()));
        let delta = self.max_delta.map(|atto| format!("δ = {}", spend(0, atto).delta_text()));
        let parts: Vec<String> = most.into_iter().chain(delta).collect();
        if parts.is_empty() { "anything".to_owned() } else { parts.join(", ") }
    }
}

impl Budget {
    /// The amount of a cost in the measure of the budget, for releases with this tally; `None` if
    /// there is none.
    ///
    /// # Guarantee
    /// In coupons: one coupon for each release, and the δ of all; `None` if some release has no ε,
    /// or an ε above that of a coupon. In ε and in ρ: the amount of the cost in this notion.
    pub fn counted(&self, cost: Cost, tally: Tally) -> Option<Spend> {
        match (self.limit.notion, self.coupon) {
            (notion @ (Notion::Approximate | Notion::Concentrated), _) => cost.within(notion),
            (Notion::Coupons, Some(coupon)) if tally.dearest <= coupon => {
                let delta = cost.within(Notion::Approximate)?.atto_delta;
                Some(Spend::of_coupons(tally.releases, delta))
            }
            (Notion::Coupons, _) => None,
        }
    }

    /// The error for a limit in another measure.
    pub(crate) fn counts_otherwise(&self) -> CatalogError {
        // A promise is declared in ε, even if the budget counts in ρ.
        let in_epsilon = self.limit.notion == Notion::Approximate || self.promise.is_some();
        let notion = if in_epsilon { Notion::Approximate } else { Notion::Concentrated };
        CatalogError::Accounting { budget: self.name.clone(), notion: notion.name() }
    }

    /// Checks that the declaration does not contradict itself.
    ///
    /// # Errors
    /// [`CatalogError::Name`] for an unusable name; [`CatalogError::Amount`] for a negative amount,
    /// an ε limit of 0, a δ limit of 1 or more, a default above the maximum or the limit or below
    /// the minimum, a default δ where the limit has none, a minimum above the maximum or the limit,
    /// or a ρ where ε is counted.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), CatalogError> {
        self.check_without_limit()?;
        let refuse = |reason| Err(CatalogError::Amount { budget: self.name.clone(), reason });
        let above = |small: Option<i64>, large: i64| small.is_some_and(|small| small > large);
        let PerQuery { default_delta, min, .. } = self.per_query;
        let default = self.per_query.default_in(self.limit.notion);
        if default_delta.is_some() && self.limit.atto_delta == 0 {
            return refuse("default_delta needs a delta in LIMIT, out of which it is paid");
        }
        if above(default, self.limit.nano) || above(default_delta, self.limit.atto_delta) {
            return refuse("the default per query is above the limit");
        }
        if above(min, self.limit.nano) {
            return refuse("the minimum per query is above the limit");
        }
        Ok(())
    }

    /// Checks the floor of people.
    fn check_floor(&self) -> Result<(), CatalogError> {
        let PerQuery { min_units, min_units_beta, .. } = self.per_query;
        let refuse = |reason| Err(CatalogError::Amount { budget: self.name.clone(), reason });
        if min_units.is_none() && min_units_beta.is_some() {
            return refuse("min_units_beta needs min_units, the floor to which it belongs");
        }
        let floor = self.per_query.floor();
        if min_units.is_some() && !floor.is_some_and(PrivacyFloor::is_sound) {
            return refuse("min_units is a number of people from 2 to 1099511627776");
        }
        Ok(())
    }

    /// Checks that the declaration does not contradict itself, without comparing the cost of a
    /// query with the limit. The owner may have lowered the limit since.
    ///
    /// # Errors
    /// As [`Budget::check`].
    pub(crate) fn check_without_limit(&self) -> Result<(), CatalogError> {
        check_name(&self.name)?;
        check_limit(&self.name, self.limit)?;
        let PerQuery { default, default_rho, default_delta, min, max, max_delta, .. } =
            self.per_query;
        let refuse = |reason| Err(CatalogError::Amount { budget: self.name.clone(), reason });
        let above = |small: Option<i64>, large: Option<i64>| {
            small.is_some() && large.is_some() && small > large
        };
        let concentrated = self.limit.notion == Notion::Concentrated;
        let coupons = self.limit.notion == Notion::Coupons;
        if !concentrated && (default_rho.is_some() || !coupons && self.promise.is_some()) {
            return refuse("a budget in epsilon takes no rho");
        }
        if self.promise.is_some_and(|promise| promise.notion != Notion::Approximate) {
            return refuse("what an accountant promises is an epsilon and a delta");
        }
        if coupons && self.promise.is_none() || coupons != self.coupon.is_some_and(|nano| nano > 0)
        {
            return refuse("coupons go with the epsilon of each, and with an epsilon and a delta");
        }
        if coupons && (min.is_some() || max.is_some()) {
            return refuse(
                "a budget of coupons has no min and no max: a release costs one coupon at most",
            );
        }
        if above(default, self.coupon) && coupons {
            return refuse("the default per query is above the epsilon of a coupon");
        }
        if default.is_some() && default_rho.is_some() {
            return refuse("a query has one default: an epsilon, or a rho");
        }
        if [default, default_rho, min, max].into_iter().flatten().any(|epsilon| epsilon <= 0)
            || [default_delta, max_delta].into_iter().flatten().any(|delta| delta < 0)
        {
            return refuse("an amount per query must be greater than 0");
        }
        let default = self.per_query.default_in(self.limit.notion);
        if above(default, max) || above(default_delta, max_delta) {
            return refuse("the default per query is above the maximum per query");
        }
        self.check_floor()?;
        if above(min, default) {
            return refuse("the default per query is below the minimum per query");
        }
        if above(min, max) {
            return refuse("the minimum per query is above the maximum per query");
        }
        Ok(())
    }
}

/// Checks the limit of a budget: 0 < ε or ρ, 0 ≤ δ < 1.
///
/// # Errors
/// [`CatalogError::Amount`] outside that range.
pub(crate) fn check_limit(budget: &str, limit: Spend) -> Result<(), CatalogError> {
    let refuse = |reason| Err(CatalogError::Amount { budget: budget.to_owned(), reason });
    if limit.nano <= 0 {
        return refuse(match limit.notion {
            Notion::Approximate => "the epsilon of its limit must be greater than 0",
            Notion::Concentrated => "the rho of its limit must be greater than 0",
            Notion::Coupons => "its limit must be at least one coupon",
        });
    }
    if !(0..1_000_000_000_000_000_000).contains(&limit.atto_delta) {
        return refuse("the delta of its limit must be at least 0 and less than 1");
    }
    Ok(())
}
