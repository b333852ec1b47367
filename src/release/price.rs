//! What a release may cost, in ε or in ρ, and which budgets count it.
//!
//! In: the parameters as written, the budgets of the tables that a query touches. Out: a [`Price`] for every measure, and
//! [`Accounts`], which say whether one in ρ can be charged. Everything follows from the query and the catalog.
//!
//! ```text
//! AUTO(eps=1) COUNT(*)     a budget in ε: Laplace of ε = 1        only budgets in ρ: Gaussian of ρ = 1/2
//! ```

use crate::analysis::outcome::Analysis;
use crate::analysis::{Choice, Measure, Prior, Source};
use crate::catalog::{Budget, Catalog};
use crate::dialect::{MechanismName, Parameters};
use crate::privacy::{Delta, Epsilon, Notion, Rho, Selecting, Spend};
use crate::refusal::{Reason, Refusal};
use crate::release::mechanism::{Mechanized, is_bare};

/// What a release may cost.
#[derive(Debug, Clone)]
pub(super) enum Price {
    Epsilon(Epsilon),
    Rho(Rho),
}

impl Price {
    /// The price as written; the parser lets only one of both stand.
    pub(super) fn of(parameters: &Parameters) -> Option<Self> {
        let epsilon = parameters.epsilon.clone().map(Self::Epsilon);
        epsilon.or_else(|| parameters.rho.clone().map(Self::Rho))
    }

    /// The ε for a mechanism whose ρ is min(ε²/divisor, ε).
    ///
    /// # Guarantee
    /// That ρ is at most a price in ρ.
    pub(super) fn epsilon(&self, text: &str, divisor: u64) -> Result<Epsilon, Refusal> {
        match self {
            Self::Epsilon(epsilon) => Ok(epsilon.clone()),
            Self::Rho(rho) => rho.epsilon(divisor).map_err(|_| {
                let message = format!("a rho of {rho} leaves {text} an epsilon out of range");
                Refusal::new(Reason::BadValue, "rho", message, "another rho, or eps in its place")
            }),
        }
    }

    /// The price as a parameter.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Epsilon(epsilon) => format!("eps={epsilon}"),
            Self::Rho(rho) => format!("rho={rho}"),
        }
    }

    /// The same release at the price in ρ that was asked for.
    pub(super) fn charged(&self, mut one: Mechanized) -> Mechanized {
        if let Self::Rho(rho) = self {
            one.loss = one.loss.costing(rho);
        }
        one
    }
}

/// What the budgets of a table let a query spend that names no cost, shared by its bare aggregates.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    pub(super) price: Option<Price>,
    pub(super) delta: Option<Delta>,
}

pub(super) fn default_of(analysis: &Analysis, space: &str, catalog: &Catalog) -> Fallback {
    let bare = analysis
        .parts()
        .iter()
        .filter(|part| catalog.same_people(part.subject().space(), space))
        .flat_map(|part| part.measures())
        .filter(|m| is_bare(m))
        .count();
    let per_query = |pick: fn(&crate::catalog::PerQuery) -> Option<i64>| {
        catalog.budgets_of(space).filter_map(|budget| pick(&budget.per_query)).min()
    };
    let epsilon = per_query(|p| p.default)
        .and_then(|nano| Epsilon::new(Spend::of_epsilon(nano, 0).loss()).ok()?.share(bare).ok());
    let rho = per_query(|p| p.default_rho)
        .and_then(|nano| Rho::new(Spend::of_rho(nano, 0).loss()).ok()?.share(bare).ok());
    let delta = per_query(|p| p.default_delta)
        .and_then(|atto| Delta::new(Spend::of_epsilon(0, atto).delta()).ok()?.share(bare).ok());
    let price = epsilon.map(Price::Epsilon).or(rho.map(Price::Rho));
    Fallback { price, delta }
}

/// How the budgets that a query is charged to count.
///
/// A query is charged in full to the budgets of every table that it touches, so one in ε decides for all of its releases.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// A budget that counts in ε.
    in_epsilon: Option<String>,
    /// Whether there is one that counts in ρ.
    in_rho: bool,
}

impl Accounts {
    pub(super) fn of(analysis: &Analysis, catalog: &Catalog) -> Self {
        let spaces = analysis.parts().iter().map(|part| part.subject().space());
        let budgets: Vec<&Budget> = spaces.flat_map(|space| catalog.budgets_of(space)).collect();
        let counting = |notion| budgets.iter().find(|b| b.limit.notion == notion);
        Self {
            in_epsilon: counting(Notion::Approximate).map(|budget| budget.name.clone()),
            in_rho: counting(Notion::Concentrated).is_some(),
        }
    }

    /// Whether every budget counts in ρ, so that a release needs no ε.
    pub(super) fn concentrated(&self) -> bool {
        self.in_rho && self.in_epsilon.is_none()
    }

    /// What is known of the draws of a choice, and for AUTO how they are made.
    ///
    /// Permute-and-flip is never less accurate than the exponential mechanism at one ε, where it can be had: it looks at every
    /// candidate, and knows no prior. But its ρ is fourfold; where ρ is what counts, the exponential mechanism has twice
    /// the ε for the same price.
    pub(super) fn rule(&self, name: MechanismName, choice: &Choice, price: &Price) -> Selecting {
        match name {
            MechanismName::Exponential | MechanismName::RandomizedResponse => {
                Selecting::BoundedRange
            }
            MechanismName::Auto | MechanismName::Default => {
                let only_exponential =
                    matches!(choice.source, Source::Line { .. }) || choice.prior != Prior::Uniform;
                let by_rho = self.concentrated() || matches!(price, Price::Rho(_));
                if only_exponential || by_rho { Selecting::BoundedRange } else { Selecting::Pure }
            }
            MechanismName::PermuteAndFlip
            | MechanismName::NoisyMax
            | MechanismName::Laplace
            | MechanismName::Gaussian => Selecting::Pure,
        }
    }

    /// Whether noise on all scores costs no more than rounds of a selection at the same ε, whoever counts: under ρ, k rounds
    /// cost a k-th of it or less.
    pub(super) fn noisy_scores(&self, price: &Price) -> bool {
        !self.in_rho && matches!(price, Price::Epsilon(_))
    }

    /// Lets a release pass that every budget can count.
    pub(super) fn admit(&self, measure: &Measure, one: &Mechanized) -> Result<(), Refusal> {
        let Some(budget) = self.in_epsilon.as_ref().filter(|_| one.loss.epsilon().is_none()) else {
            return Ok(());
        };
        let text = measure.clause.text.as_str();
        Err(Refusal::new(
            Reason::Parameter,
            "rho",
            format!(
                "the budget {budget} counts in epsilon, and Gaussian noise that is priced in rho has none"
            ),
            format!("GAUSSIAN(eps=1, delta=1e-6) {text}, or LAPLACE(eps=1) {text}"),
        ))
    }
}
